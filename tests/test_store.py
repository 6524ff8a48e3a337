"""The store under one memory: snapshots by themselves, handles, settings, copies."""

from __future__ import annotations

import os
import random
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as rounds
from hypothesis import strategies as st

import fastassoc as fa
from fastassoc import columns, snapshot, store
from fastassoc.batch import NoteBatch
from fastassoc.errors import (
    ClosedHandle,
    ForkedHandle,
    InvalidInput,
    ReadOnlyStore,
    SettingsMismatch,
    StoreError,
    StoreExists,
    StoreNotFound,
)


def digest(mem: Any) -> str:
    with mem._still() as state:
        return str(state.digest())


def step(mem: Any, draw: random.Random, number: int) -> None:
    kind = draw.random()
    names = draw.sample("abcdefgh", 3)
    if kind < 0.5:
        mem.write(f"note {number}", id=f"n{number}", concepts=names)
    elif kind < 0.6:
        notes = [note.id for note in mem.recent(limit=50)]
        mem.forget(draw.sample(notes, min(2, len(notes))) or ["none"])
    elif kind < 0.7:
        mem.feedback(asked=names[:1], used_concepts=names[1:], outcome=draw.choice([1, -0.5]))
    elif kind < 0.75:
        rows = [{"id": f"n{n}", "text": "again", "concepts": names} for n in ("x", "y", "x")]
        mem.write_batch(rows, on_duplicate="replace")
    elif kind < 0.8:
        notes = mem.recent(limit=9)
        if notes:
            mem.update(draw.choice(notes).id, metadata={"n": number})
    elif kind < 0.85:
        old = [note.id for note in mem.recent(limit=9)]
        mem.write("newer", id=f"s{number}", concepts=names, supersedes=old[:1])
    elif kind < 0.95:
        mem.snapshot()
    else:
        mem.vacuum()


@rounds(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40))
def test_every_handle_has_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int
) -> None:
    path = tmp_path_factory.mktemp("digest") / "s.fa"
    draw = random.Random(seed)
    with fa.open(path, sync="off") as one, fa.open(path, sync="off") as two:
        for number in range(steps):
            step(draw.choice([one, two]), draw, number)
            if draw.random() < 0.3:
                with fa.open(path, sync="off") as fresh:
                    assert digest(one) == digest(two) == digest(fresh)
        assert one.verify(digest=True).digest == digest(two)


@pytest.mark.parametrize("operations", [39, 40, 41, 10**9])
@pytest.mark.parametrize("nbytes", [2_000, 10**9])
def test_l37_snapshots_come_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operations: int, nbytes: int
) -> None:
    monkeypatch.setattr(store, "SNAPSHOT_OPERATIONS", operations)
    monkeypatch.setattr(store, "SNAPSHOT_BYTES", nbytes)
    monkeypatch.setattr(store, "LOOK_EVERY", 5)
    plain = fa.Memory()
    with fa.open(tmp_path / "s.fa", sync="off") as mem:
        for number in range(120):
            row: dict[str, Any] = {"id": f"n{number}", "concepts": ["a", f"c{number % 7}"]}
            for one in (mem, plain):
                one.write(f"note {number}", **row)
            if operations < 10**9:
                assert mem.info()["journal_operations"] <= operations + 5
    with fa.open(tmp_path / "s.fa") as mem:
        info = mem.info()
        assert (info["snapshot_position"] > 0) == (operations < 10**9 or nbytes < 10**9)
        for concept in ("a", "c3"):
            got, want = (one.read(concepts=[concept], k=200) for one in (mem, plain))
            assert [(h.id, h.rank_score, h.via) for h in got] == [
                (h.id, h.rank_score, h.via) for h in want
            ]


def test_a_bulk_write_counts_towards_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SNAPSHOT_BYTES", 20_000)
    rows = [{"text": f"note {n}", "id": f"n{n}", "concepts": ["a"]} for n in range(4_000)]
    with fa.open(tmp_path / "s.fa") as mem:
        mem.write_batch(rows)
        assert mem.info()["journal_operations"] == 0
        assert len(mem) == 4_000


def test_the_number_of_segments_stays_small(tmp_path: Path) -> None:
    with fa.open(tmp_path / "s.fa", sync="off") as mem:
        for number in range(60):
            mem.write(f"note {number}", concepts=["a", "b"])
            mem.snapshot()
        kinds = [p.name.split("-")[0] for p in (tmp_path / "s.fa" / "segments").iterdir()]
        # of the current snapshot and the one before, a logarithm of the notes each
        assert kinds.count("notes") <= 14


def test_a_forked_child_is_told(tmp_path: Path) -> None:
    with fa.open(tmp_path / "s.fa") as mem:
        mem.write("a", concepts=["x"])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mem.read("a")
            except ForkedHandle as error:
                code = 0 if "again in the child" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(mem.read("a")) == 1  # the parent's handle is as it was


VERBS: dict[str, tuple[Any, ...]] = {
    "write": ("a",),
    "write_batch": ([{"text": "a"}],),
    "ingest": ([{"text": "a"}],),
    "read": ("a",),
    "forget": (["a"],),
    "recent": (),
    "stats": (),
    "__len__": (),
    "rebuild_links": (),
    "info": (),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_memory_refuses_every_verb(tmp_path: Path, verb: str) -> None:
    for mem in (fa.Memory(), fa.open(tmp_path / "s.fa")):
        links = mem.links
        mem.close()
        mem.close()
        with pytest.raises(ClosedHandle, match="open it again"):
            getattr(mem, verb)(*VERBS[verb])
        with pytest.raises(ClosedHandle):
            links.weight("a", "b")


def test_a_reader_takes_no_write_and_sees_others(tmp_path: Path) -> None:
    path = tmp_path / "s.fa"
    with pytest.raises(StoreNotFound):
        fa.open(path, read_only=True)
    assert not path.exists()
    with fa.open(path) as mem, fa.open(path, read_only=True) as reader:
        mem.write("a", id="n")
        assert "n" in reader
        for call in (lambda: reader.write("b"), reader.vacuum, reader.snapshot):
            with pytest.raises(ReadOnlyStore):
                call()


def test_settings_that_shape_the_state_are_fixed(tmp_path: Path) -> None:
    path = tmp_path / "s.fa"
    fa.open(path, settings=fa.Settings(language="german")).close()
    with pytest.raises(SettingsMismatch, match="language") as caught:
        fa.open(path, settings=fa.Settings())
    assert caught.value.fields == ["language"]
    rule = fa.LinkRule(threshold=5.0)
    with fa.open(path, settings=fa.Settings(language="german", concept_links=rule)) as mem:
        assert mem.settings.concept_links.threshold == 5.0
    with fa.open(path) as mem:
        assert mem.settings.concept_links.threshold == 2.0
        mem.configure(concept_threshold=3.0)
        with pytest.raises(SettingsMismatch, match="names"):
            mem.configure(names="exact")
    with fa.open(path) as mem:
        assert mem.settings.concept_links.threshold == 3.0


def test_a_backup_is_the_store_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "s.fa"
    with fa.open(path, sync="off") as mem:
        stop = threading.Event()

        def write() -> None:
            with fa.open(path, sync="off", timeout=60) as other:
                while not stop.is_set():
                    other.write_batch([{"text": "pair", "concepts": ["a", "b"]}] * 2)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(4):
                copy = mem.backup(tmp_path / f"copy{number}.fa")
                with fa.open(copy) as held:
                    assert len(held) % 2 == 0
                    assert held.links.weight("a", "b") == len(held)
                    assert held.verify().ok
                mem.snapshot()
        finally:
            stop.set()
            writer.join()
        with pytest.raises(StoreExists):
            mem.backup(tmp_path / "copy0.fa")
        assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_read_waits_for_a_position(tmp_path: Path) -> None:
    path = tmp_path / "s.fa"
    with fa.open(path, timeout=0.05) as mem, fa.open(path) as other:
        report = other.write("a", concepts=["x"]).report
        recall = mem.read(concepts=["x"], at_least=report.position)
        assert recall.position >= report.position
        with pytest.raises(StoreError, match="at_least"):
            mem.read(concepts=["x"], at_least=report.position + 1)


def test_a_memory_without_a_store_says_so() -> None:
    with pytest.raises(InvalidInput, match=r"fastassoc\.open"):
        fa.Memory().snapshot()


def test_a_repeat_of_what_did_nothing_does_nothing(tmp_path: Path) -> None:
    for mem in (fa.Memory(), fa.open(tmp_path / "s.fa")):
        first = mem.forget(["n"], operation_id="once")
        assert (first.forgotten, first.missing, first.repeated) == (0, ["n"], False)
        mem.write("a", id="n")
        assert mem.forget(["n"], operation_id="once").repeated
        assert "n" in mem


def test_loaded_ids_are_looked_through_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write_batch(
            [{"id": f"n{n}", "text": "x", "concepts": ["a", f"b{n}"]} for n in range(9)]
        )
        mem.snapshot()
    with fa.open(path) as mem:
        assert [hit.id for hit in mem.read(concepts=["b7"]).hits[:1]] == ["n7"]
        assert mem._state.notes._rows is None
        mem.write("late", id="late")  # asks whether the id is new
        rows: list[Any] = []
        threads = [
            threading.Thread(target=lambda: rows.append(mem._state.notes.rows)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(one is rows[0] for one in rows)
        assert len(rows[0]) == 10
        mem.forget(["n3"])
        mem.write("again", id="n3")
        assert mem.get("n3").text == "again"
        assert mem.get("n8").text == "x"


def test_chains_are_the_same_after_a_snapshot(tmp_path: Path) -> None:
    def chains(mem: Any) -> dict[str, Any]:
        notes = mem.recent(limit=99, include_superseded=True)
        return {note.id: (note.supersedes, note.superseded_by) for note in notes}

    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        for note, old in {"a": [], "b": ["a"], "c": ["b"], "d": ["c", "a", "c", "-"]}.items():
            mem.write(note, id=note, concepts=["x"], supersedes=old)
        want = {"a": ([], ["b", "d"]), "b": (["a"], ["c"]), "c": (["b"], ["d"])}
        assert chains(mem) == {**want, "d": (["a", "c"], [])}
        mem.forget(["b"])  # c takes its place in the chain
        want = {"a": ([], ["c", "d"]), "c": (["a"], ["d"]), "d": (["a", "c"], [])}
        assert chains(mem) == want
        assert [hit.id for hit in mem.read(concepts=["x"])] == ["d"]
        mem.snapshot()
        mem.write("again", id="b", concepts=["x"])
    with fa.open(path) as mem:
        assert chains(mem) == {**want, "b": ([], [])}
        mem.forget(["d"])
        assert {hit.id for hit in mem.read(concepts=["x"])} == {"b", "c"}


def test_reads_go_on_while_a_write_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fa.open(tmp_path / "s.fa") as mem:
        mem.write("a", id="a", concepts=["x"])
        saving, go = threading.Event(), threading.Event()
        append = store.Writing.append

        def slow(self: Any, operation: Any) -> int:
            position = append(self, operation)
            saving.set()
            assert go.wait(30)
            return position

        monkeypatch.setattr(store.Writing, "append", slow)
        writer = threading.Thread(target=mem.write, args=("b",), kwargs={"concepts": ["x"]})
        writer.start()
        assert saving.wait(30)
        assert len(mem.read(concepts=["x"])) == 1  # not acknowledged yet
        go.set()
        writer.join()
        assert len(mem.read(concepts=["x"])) == 2


def test_a_read_sees_what_others_save_before_our_own_save_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fa.open(tmp_path / "s.fa") as mem, fa.open(tmp_path / "s.fa") as other:
        mem.write("a", id="a", concepts=["x"])
        saved, go = threading.Event(), threading.Event()
        append = store.Writing.append

        def slow(self: Any, operation: Any) -> int:
            position = append(self, operation)
            if threading.current_thread() is writer:
                saved.set()
                assert go.wait(30)
            return position

        monkeypatch.setattr(store.Writing, "append", slow)
        writer = threading.Thread(target=mem.write, args=("b",), kwargs={"concepts": ["x"]})
        writer.start()
        assert saved.wait(30)
        other.write("c", id="c", concepts=["x"])
        threading.Timer(0.2, go.set).start()
        assert "c" in mem  # `other` was told that it is saved
        writer.join()
        assert len(mem.read(concepts=["x"])) == 3


@pytest.mark.parametrize("path", [None, 5, b"x", "", " ", "a\0b", "x" * 300, "\ud800"])
def test_what_is_no_path_is_refused(path: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fa.errors.FastAssocError, match=r"path|cannot"):
        fa.open(path)
    with pytest.raises(InvalidInput, match="create"):
        fa.open("s.fa", create="no")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_control_does_not_follow_the_memory() -> None:
    mem = fa.Memory()
    for note in "ab":
        mem.write(f"note {note}", id=note, concepts=["x", "y"], metadata={"n": 1})
    control = mem.rebuild_links()
    before = [control.notes.to_arrow(), control.read(concepts=["x"]).to_dicts(), control.stats()]
    mem.forget(["a"])
    mem.update("b", metadata={"n": 2})
    mem.feedback(asked=["x"], used=["b"], outcome=1.0)
    mem.write("note c", id="c", concepts=["x", "y"], supersedes=["b"])
    after = [control.notes.to_arrow(), control.read(concepts=["x"]).to_dicts(), control.stats()]
    assert before == after
    assert "a" in control
    assert "c" not in control
    assert len(control.read(concepts=["x"], where={"n": 1})) == 2


def test_a_faded_share_is_taken_back_as_faded() -> None:
    now = 0
    rule = fa.LinkRule(decay_days=10.0, ceiling=5.0, threshold=0.1)
    mem = fa.Memory(
        settings=fa.Settings(concept_links=rule),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=now),
    )
    mem.write("old", id="old", concepts=["a", "b"])
    now = 20
    mem.write("new", id="new", concepts=["a", "b"])
    mem.forget(["old"])
    assert mem.links.weight("a", "b") == pytest.approx(1.0, abs=1e-12)
    assert mem.rebuild_links().links.weight("a", "b") == 1.0
    now = 40
    mem.forget(["new"])
    assert len(mem.links) == 0


def test_a_bulk_segment_holds_vectors_and_the_tags_of_a_session(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "one", "vector": True},
        {
            "id": "b",
            "text": "two",
            "tags": [{"to": 0, "weight": 0.5}, {"to": 7, "weight": 0.25}],
        },
        {"id": "c", "text": "three", "tags": [], "vector": True},
        {"id": "d", "text": "four", "concepts": ["x"], "tags": [{"to": 2, "weight": 0.125}]},
    ]
    vectors = np.array([[1, 2, 3], [-4, 5, 0.5]], "<f4").tobytes()
    snapshot.create_folders(tmp_path)
    for order in (range(4), [3, 0, 1], [1], [0]):
        batch = NoteBatch.from_rows(rows, vectors).take(list(order))
        segment = snapshot.write_segment(tmp_path, "bulk", batch.to_table())
        found = NoteBatch.from_table(snapshot.read_segment(tmp_path, segment))
        assert found.to_rows() == batch.to_rows()
        assert found.vector_bytes() == batch.vector_bytes()


def test_links_below_zero_are_made_by_hand_where_the_floor_allows_it() -> None:
    rule = fa.LinkRule(floor=None)
    mem = fa.Memory(settings=fa.Settings(concept_links=rule))
    mem.link("a", "b", -2.0)
    mem.feedback(asked=["a"], used_concepts=["c"], outcome=-1.0)
    assert (mem.links.weight("a", "b"), mem.links.get("a", "c")) == (-2.0, None)


def test_only_older_notes_are_superseded_however_a_batch_is_split() -> None:
    rows = [
        {"id": "a", "text": "a", "concepts": ["x"], "supersedes": ["b", "a", "z"]},
        {"id": "b", "text": "b", "concepts": ["x"], "supersedes": ["a"]},
    ]
    whole, split = fa.Memory(), fa.Memory()
    assert whole.write_batch(rows).missing == ["b", "a", "z"]
    assert [split.write_batch([row]).missing for row in rows] == [["b", "a", "z"], []]
    for mem in (whole, split):
        assert [hit.id for hit in mem.read(concepts=["x"])] == ["b"]
        assert mem.get("b").supersedes == ["a"]


def test_more_text_than_32_bits_can_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.fa"
    rows = [{"id": f"n{n}", "text": f"note {n} ß", "metadata": {"n": n}} for n in range(600)]
    with fa.open(path) as mem:
        mem.write_batch(rows)
        mem.update("n3", metadata={"n": "three"})
        mem.forget(["n5"])
        small = digest(mem)
        notes = mem.notes.to_arrow().to_pylist()
        monkeypatch.setattr(columns, "LARGE", 10)  # as if 2 GiB were near
        assert digest(mem) == small
        assert mem.notes.to_arrow().to_pylist() == notes
        assert mem.snapshot()
        with fa.open(path) as other:
            assert digest(other) == small
        mem.vacuum()
        assert mem.verify().ok
        after = digest(mem)
    monkeypatch.undo()
    with fa.open(path) as mem:
        assert digest(mem) == after
        assert mem.notes.to_arrow().to_pylist() == notes
