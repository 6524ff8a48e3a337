"""``fastassoc repair``: what is left of a damaged store, and what is told to be lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker import Clock

import fastassoc as fa
from fastassoc.cli import cli
from fastassoc.errors import StoreError, StoreExists, StoreNotFound
from fastassoc.repair import Repair, repair_store

VECTOR = [1.0, 0.5, 0.25]


def fill(path: Path, clock: Clock, *, vacuum: bool = False) -> None:
    """Two snapshots of a few of everything, and three operations after them."""
    with fa.open(path, clock=clock, settings=fa.Settings.cognitive()) as mem:
        mem.write_batch(
            [
                {"id": "n0", "text": "Tea.", "concepts": ["Tea", "cup"], "vector": VECTOR},
                {"id": "n1", "text": "Milk.", "concepts": ["tea", "milk"], "session": "s"},
                {"id": "n2", "text": "Pot.", "concepts": ["pot", "cup"], "session": "s"},
                {"id": "n3", "text": "To be forgotten.", "concepts": ["gone"]},
            ]
        )
        mem.snapshot()
        mem.feedback(asked=["tea"], used=["n1"], outcome=1.0)
        mem.link("pot", "n2", 0.5, layer="cue")
        mem.link("steaming", "n2", 0.5, layer="cue")
        mem.link("n0", "n2", 0.7, layer="note")
        mem.write("Sugar.", id="n4", concepts=["sugar", "tea"], vector=VECTOR[::-1], session="s")
        mem.write("Milk, anew.", id="n5", concepts=["milk"], supersedes=["n1"], session="s")
        mem.forget(["n3"])
        mem.snapshot()
        if vacuum:
            mem.vacuum()
        mem.update("n0", metadata={"k": "v"})
        mem.write("Late.", id="late", concepts=["late", "tea"], operation_id="op-late")
        mem.write("Last.", id="last", concepts=["last"], operation_id="op-last")


@pytest.fixture
def store(path: Path, clock: Clock) -> Path:
    fill(path, clock)
    return path


@pytest.fixture
def vacuumed(path: Path, clock: Clock) -> Path:
    fill(path, clock, vacuum=True)
    return path


def current(path: Path) -> tuple[Path, dict[str, Any]]:
    newest = max(path.glob("manifest-*.json"), key=lambda p: int(p.stem.partition("-")[2]))
    return newest, json.loads(newest.read_text())


def segment(path: Path, kind: str) -> Path:
    """The last segment of a kind in the current snapshot."""
    names = [s["name"] for s in current(path)[1]["segments"] if s["kind"] == kind]
    return path / "segments" / names[-1]


def flip(file: Path, at: int = -20) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)


def files_of(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


def repaired(path: Path) -> Repair:
    """The repair of a store, which it did not touch, and whose outcome is sound."""
    before, names = files_of(path), sorted(os.listdir(path.parent))
    found = repair_store(path, path.with_name("new.fa"))
    assert files_of(path) == before
    assert sorted(os.listdir(path.parent)) == sorted([*names, "new.fa"])
    checked = fa.verify(found.path, digest=True)
    assert checked.ok
    assert (checked.digest, checked.position) == (found.digest, found.position)
    with fa.open(found.path) as mem:
        assert len(mem) == found.notes
        mem.read("tea")
        before_writing = mem.position
        mem.write("Goes on.", concepts=["tea"])
        assert mem.position == before_writing + 1
        mem.snapshot()
        mem.vacuum()
    assert fa.verify(found.path, digest=True).ok
    return found


def whats(found: Repair) -> dict[str, int | None]:
    return {loss.what: loss.count for loss in found.lost}


def test_a_sound_store_comes_out_the_same(store: Path) -> None:
    digest = fa.verify(store, digest=True).digest
    found = repaired(store)
    assert (found.whole, found.digest) == (True, digest)


def test_operations_done_before_are_not_done_again(store: Path) -> None:
    found = repair_store(store, store.with_name("new.fa"))
    with fa.open(found.path) as mem:
        position = mem.position
        for name in ("op-late", "op-last", "op-new"):
            mem.write(name, operation_id=name)
        assert mem.position == position + 1


def test_an_archived_store_comes_out_the_same(tmp_path: Path) -> None:
    for version in ("v1", "v2", "v3"):
        stores = Path(__file__).parents[1] / "data" / "stores"
        path = tmp_path / version / "store"
        shutil.copytree(stores / version / "store", path)
        digest = fa.verify(path, digest=True).digest
        found = repaired(path)
        assert (found.whole, found.digest) == (True, digest)


@pytest.mark.parametrize(
    "kind", ["notes", "vocabulary", "links-concept", "links-note", "notestate"]
)
def test_the_snapshot_before_and_the_journal_make_up_for_a_segment(store: Path, kind: str) -> None:
    names = {s["name"] for s in json.loads(sorted_manifests(store)[0].read_text())["segments"]}
    file = segment(store, kind)
    assert file.name not in names
    digest = fa.verify(store, digest=True).digest
    file.unlink()
    found = repaired(store)
    assert found.digest == digest
    assert found.lost == []
    assert found.base == sorted_manifests(store)[0].name
    assert "no hash of it is on record" in found.doubts[0]


def sorted_manifests(path: Path) -> list[Path]:
    return sorted(path.glob("manifest-*.json"), key=lambda p: int(p.stem.partition("-")[2]))


def test_links_between_concepts_are_made_again_as_written(vacuumed: Path) -> None:
    with fa.open(vacuumed, read_only=True) as mem:
        count = current(vacuumed)[1]["counts"]["concept_links"]
        written = mem.rebuild_links().links.to_arrow().num_rows
    segment(vacuumed, "links-concept").unlink()
    found = repaired(vacuumed)
    assert whats(found) == {"links between concepts": count}
    assert "what was taught is gone" in str(found.lost[0])
    assert segment(vacuumed.with_name("new.fa"), "links-concept").exists()
    with fa.open(found.path, read_only=True) as mem:
        assert mem.links.weight("tea", "milk") > 0
        assert mem.links.to_arrow().num_rows >= written


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("vectors", "vectors"),
        ("links-note", "links between notes"),
        ("links-cue", "links from terms to notes"),
        ("notestate", "changes of notes"),
    ],
)
def test_a_part_that_is_gone_is_counted(vacuumed: Path, kind: str, what: str) -> None:
    rows = next(s["rows"] for s in current(vacuumed)[1]["segments"] if s["kind"] == kind)
    flip(segment(vacuumed, kind))
    found = repaired(vacuumed)
    assert whats(found) == {what: rows}
    assert found.lost[0].file == f"segments/{segment(vacuumed, kind).name}"
    assert found.notes == 7


def test_lost_notes_take_their_links_and_states_along(vacuumed: Path) -> None:
    segment(vacuumed, "notes").unlink()
    found = repaired(vacuumed)
    lost = whats(found)
    assert lost["notes"] == 5
    assert lost["operations"] == 1  # the update of one of them
    assert lost["links between notes"] > 0
    assert lost["links from terms to notes"] > 0
    assert found.notes == 2
    with fa.open(found.path, read_only=True) as mem:
        assert "late" in mem
        assert mem.links.weight("tea", "milk") > 0  # learned, not made of the notes alone


def test_lost_names_become_numbers_and_links_stay(vacuumed: Path) -> None:
    with fa.open(vacuumed, read_only=True) as mem:
        weights = sorted(mem.links.to_arrow().column("weight").to_pylist())
    segment(vacuumed, "vocabulary").unlink()
    found = repaired(vacuumed)
    assert whats(found)["names of concepts in use"] == 5
    with fa.open(found.path, read_only=True) as mem:
        assert found.notes == 7
        assert sorted(mem.links.to_arrow().column("weight").to_pylist()) == weights
        assert any(name.startswith("lost name") for name in mem.get("n0").concepts)


def test_lost_stems_take_their_links_along(vacuumed: Path) -> None:
    segment(vacuumed, "stems").unlink()
    found = repaired(vacuumed)
    assert found.lost[0].what == "stems of taught terms"
    assert found.lost[1].what == "links from terms to notes"


def test_forgotten_notes_do_not_come_back(store: Path) -> None:
    """Where nobody knows any more which they were, another base is taken."""
    assert next(s["rows"] for s in current(store)[1]["segments"] if s["kind"] == "dead") == 1
    digest = fa.verify(store, digest=True).digest
    segment(store, "dead").unlink()
    found = repaired(store)
    assert found.digest == digest
    assert found.base == sorted_manifests(store)[0].name
    with fa.open(found.path) as mem:
        assert "n3" not in mem
    sorted_manifests(store)[0].unlink()
    with pytest.raises(StoreError, match="which notes were forgotten"):
        repair_store(store, store.with_name("other.fa"))


def damaged_row(path: Path, seq: int) -> None:
    import apsw

    conn = apsw.Connection(str(path / "journal.db"))
    conn.execute("UPDATE journal SET body = replace(body, 'Late', 'Lute') WHERE seq = ?", (seq,))
    conn.close()


def test_an_operation_that_is_damaged_is_left_out(vacuumed: Path) -> None:
    position = fa.verify(vacuumed).position
    damaged_row(vacuumed, position - 1)
    assert not fa.verify(vacuumed).ok
    found = repaired(vacuumed)
    assert whats(found) == {"operations": 1}
    assert f"operation {position - 1}: " in str(found.lost[0])
    assert found.position == position
    with fa.open(found.path) as mem:
        assert "last" in mem
        assert "late" not in mem


def test_a_journal_that_is_gone_costs_what_came_after_the_snapshot(store: Path) -> None:
    last = fa.verify(store).position
    (store / "journal.db").unlink()
    found = repaired(store)
    assert whats(found) == {"operations": 3}
    assert found.position == last - 3
    assert found.notes == 5
    assert "no hash of it is on record" in found.doubts[0]


def left_open(path: Path) -> Path:
    """A copy of a store that is open; by a child, for one by this process would drop its locks."""
    left = path.with_name("left.fa")
    child = os.fork()
    if child == 0:
        shutil.copytree(path, left)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return left


def test_a_damaged_log_loses_only_what_stood_in_the_damage(path: Path, clock: Clock) -> None:
    """SQLite ends a log at its first damaged frame."""
    with fa.open(path, clock=clock) as mem:
        for n in range(30):
            mem.write(f"Note {n}.", id=f"n{n}", concepts=["tea", f"c{n}"])
        digest = mem.verify(digest=True).digest
        left = left_open(path)
    flip(left / "journal.db-wal", 32 + 24 + 4096 + 24 + 100)
    assert not fa.verify(left).ok
    found = repaired(left)
    assert found.digest == digest
    assert found.lost == []


def test_a_lost_log_is_told_by_its_operations(path: Path, clock: Clock) -> None:
    with fa.open(path, clock=clock) as mem:
        mem.write("Kept.", id="kept")
        mem.snapshot()
    with fa.open(path, clock=clock) as mem:
        for n in range(3):
            mem.write(f"Note {n}.", id=f"n{n}")
        left = left_open(path)
    (left / "journal.db-wal").unlink()
    found = repaired(left)
    assert whats(found) == {"operations": 3}
    assert "operations 3 to 5: nothing is left of it" in str(found.lost[0])


def test_a_damaged_manifest_is_made_up_for(store: Path) -> None:
    digest = fa.verify(store, digest=True).digest
    flip(current(store)[0])
    found = repaired(store)
    assert found.digest == digest
    assert found.lost == []


def test_nothing_left(store: Path) -> None:
    for file in (*store.glob("manifest-*"), store / "journal.db"):
        file.unlink()
    with pytest.raises(StoreError, match="nothing can be salvaged"):
        repair_store(store, store.with_name("new.fa"))
    assert not store.with_name("new.fa").exists()


def test_places_that_cannot_be(store: Path) -> None:
    with pytest.raises(StoreNotFound):
        repair_store(store.with_name("none"), store.with_name("new.fa"))
    (store.with_name("there")).mkdir()
    with pytest.raises(StoreExists):
        repair_store(store, store.with_name("there"))
    with pytest.raises(StoreError, match="outside"):
        repair_store(store, store / "inner")
    gone = fa.open(store.with_name("gone.fa"))
    len(gone)
    shutil.rmtree(store.with_name("gone.fa"))  # another open store, which is no more
    with fa.open(store), pytest.raises(StoreError, match="close it"):
        repair_store(store, store.with_name("new.fa"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*args: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(arg) for arg in args])
        return int(ended.value.code or 0), capsys.readouterr().out

    return call


def test_the_command(store: Path, run: Callable[..., tuple[int, str]]) -> None:
    code, out = run("repair", store, store.with_name("one.fa"))
    assert (code, "nothing was lost" in out) == (0, True)
    (store / "journal.db").unlink()
    code, out = run("repair", store, store.with_name("two.fa"))
    assert code == 3
    assert "lost: 3 operations (journal.db): operations" in out
    code, out = run("repair", "--json", store, store.with_name("three.fa"))
    assert code == 3
    assert json.loads(out)["lost"][0]["count"] == 3
