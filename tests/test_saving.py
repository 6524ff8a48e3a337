"""Snapshots of notes and vectors: what is written anew, what is taken over, what comes back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastassoc.batch import NoteBatch
from fastassoc.cache import Cache
from fastassoc.named import ONE_EACH, cache_keys, parts_of
from fastassoc.reports import Report
from fastassoc.saving import Plan, covered
from fastassoc.snapshot import Segment
from fastassoc.state import Operation, State
from fastassoc.store import Store, completed, without


def opened(path: Path) -> tuple[Store, State]:
    return Store.open(
        path,
        create=True,
        read_only=False,
        settings=None,
        sync="off",
        timeout=30.0,
        now=lambda: 0,
    )


class Tale:
    """A store driven by operations alone, beside what its vectors must be."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.draw = random.Random(seed)
        self.store, self.state = opened(path)
        self.vectors: dict[str, list[float]] = {}
        self.ids: list[str] = []
        self.made = 0
        self.dim = 3
        self.moving: dict[str, list[float]] | None = None

    def do(self, kind: str, body: dict[str, Any], **more: Any) -> None:
        operation = Operation(kind, self.state.time + 1, body, **more)
        with self.store.locked() as held:
            self.state = held.catch_up(self.state)
            position = held.append(operation)
        self.state.apply(operation, position)

    @contextmanager
    def still(self) -> Iterator[State]:
        yield self.state

    def vector(self, dim: int) -> list[float]:
        return [float(np.float32(self.draw.uniform(-1, 1))) for _ in range(dim)]

    def write(self) -> None:
        rows: list[dict[str, Any]] = []
        flat: list[float] = []
        for _ in range(self.draw.choice([1, 2, 5])):
            row: dict[str, Any] = {"id": f"n{self.made}", "text": "t", "session": "s"}
            self.made += 1
            if self.draw.random() < 0.7:
                row["vector"] = True
                self.vectors[row["id"]] = self.vector(self.dim)
                flat += self.vectors[row["id"]]
            rows.append(row)
            self.ids.append(row["id"])
        numbers = np.array(flat, "<f4").tobytes() if flat else None
        self.do("write", {"on_duplicate": "skip"}, batch=NoteBatch.from_rows(rows, numbers))

    def forget(self) -> None:
        gone = self.draw.sample(self.ids, min(2, len(self.ids)))
        self.do("forget", {"ids": gone})
        for note in gone:
            self.ids.remove(note)
            self.vectors.pop(note, None)
            if self.moving is not None:
                self.moving.pop(note, None)

    def move(self) -> None:
        """A step of a move to another embedder, or its end."""
        if self.moving is not None:
            self.do("reembedded", {"embedder": {"name": f"e{self.dim}", "dim": self.dim}})
            self.vectors, self.moving = self.moving, None
        elif self.ids:
            self.dim += 1
            self.moving = {note: self.vector(self.dim) for note in self.ids}
            embedder = {"name": f"e{self.dim}", "dim": self.dim}
            flat = [x for vector in self.moving.values() for x in vector]
            notes = self.state.notes
            seqs = [int(notes.seq.array[notes.rows[note]]) for note in self.moving]
            self.do(
                "reembed",
                {"embedder": embedder, "seqs": seqs, "through": self.state.notes.next_seq - 1},
                vectors=np.array(flat, "<f4").tobytes(),
            )
            self.moved = self.dim
            if self.draw.random() < 0.5:
                self.snapshot()
                self.check()
            self.move()

    def snapshot(self) -> None:
        self.store.snapshot(self.still)

    def vacuum(self) -> None:
        def purge() -> Report:
            self.do("purge", {})
            return Report()

        self.store.vacuum(self.still, purge)

    def check(self) -> None:
        """A handle that opens now has the same state, and the vectors are the right ones."""
        other, state = opened(self.path)
        assert state.digest() == self.state.digest()
        held = state.capture({"notes": -1, "vectors": -1}, [])
        names = dict(
            zip(held["notes"]["seq"].to_pylist(), held["notes"]["id"].to_pylist(), strict=True)
        )
        table = held.get("vectors", pa.table({"seq": [], "vector": []}))
        found = zip(table["seq"].to_pylist(), table["vector"].to_pylist(), strict=True)
        assert {names[seq]: vector for seq, vector in found} == self.vectors
        assert other.verify(digest=False).ok
        other.close()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), bulk=st.booleans())
def test_a_store_of_notes_with_and_without_vectors_comes_back(
    tmp_path_factory: pytest.TempPathFactory, seed: int, bulk: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if bulk:
            patch.setattr("fastassoc.store.BULK_ROWS", 1)
        tale = Tale(tmp_path_factory.mktemp("tale") / "s.fa", seed)
        verbs = [tale.write] * 5 + [tale.forget] * 3 + [tale.snapshot] * 4 + [tale.vacuum]
        verbs += [tale.move]
        for _ in range(20):
            tale.draw.choice(verbs)()
            if tale.draw.random() < 0.3:
                tale.check()
        tale.check()
        tale.store.close()


def test_a_vacuum_leaves_vectors_of_live_notes_only(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "s.fa", 1)
    for _ in range(6):
        tale.write()
        tale.snapshot()
    tale.forget()
    tale.vacuum()
    parts = sorted(path.name.split("-")[0] for path in (tale.path / "segments").iterdir())
    assert parts == sorted(
        ["dead", "links", "links", "notes", "notestate", "vectors", "vocabulary"]
    )
    tale.check()


def test_vectors_of_old_notes_are_written_once(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "s.fa", 2)
    for _ in range(40):
        tale.write()
        tale.snapshot()
    segments = tale.store._current()[1]["segments"]
    held = [segment.rows for segment in segments if segment.kind == "vectors"]
    assert sum(held) == len(tale.vectors)
    assert len(held) <= 7


def test_the_cache_is_kept_for_two_snapshots_and_left_out_of_copies(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "s.fa", 3)
    keys = []

    def entries() -> list[str]:
        folder = tale.path / "cache"
        return sorted(path.stem for path in folder.glob("*.bin")) if folder.exists() else []

    for number in range(4):
        tale.write()
        if not tale.vectors:
            tale.write()
        tale.snapshot()
        segments = tale.store._current()[1]["segments"]
        keys.append(cache_keys(segments).vectors)
        Cache(tale.path).array("numbers", keys[-1], lambda n=number: np.arange(n + 1))
        assert entries() == sorted(f"numbers-{key}" for key in keys[-2:])
    assert len(set(keys)) == 4
    (tale.path / "cache" / f"numbers-{keys[-1]}.bin").write_bytes(b"damage")
    assert tale.store.verify(digest=True).ok
    copy = tale.store.backup(tmp_path / "copy.fa")
    assert not (copy / "cache").exists()
    tale.vacuum()
    assert entries() == []
    tale.check()


# -- plans -----------------------------------------------------------------------------------------


def manifest(seq: int, next_seq: int, **spans: list[dict[str, Any]]) -> dict[str, Any]:
    return {"seq": seq, "state": {"next_seq": next_seq, **spans}, "segments": []}


def span(name: str, after: int, through: int) -> dict[str, Any]:
    return {"name": name, "after": after, "through": through}


def test_notes_and_vectors_have_spans_of_their_own() -> None:
    before = manifest(
        10,
        100,
        notes=[span("n0", -1, 63), span("n1", 63, 99)],
        vectors=[span("v0", -1, 95), span("v1", 95, 99)],
    )
    summary = {"next_seq": 110, "vectors_since": 0}
    plan = Plan.of(summary, [(9, 1), (11, 97), (12, 105)], before, [2], whole=False)
    assert plan.after == {"notes": 99, "vectors": 95}
    assert plan.names == {"n0", "n1", "v0"}
    assert plan.dead == [2, 97]  # 97 still lies in n1
    made = [Segment(f"{kind}-x", kind, 1, 1, "seq int64", "") for kind in ("notes", "vectors")]
    assert plan.spans(made) == {
        "notes": [*before["state"]["notes"], span("notes-x", 99, 109)],
        "vectors": [span("v0", -1, 95), span("vectors-x", 95, 109)],
    }


def test_vectors_that_changed_are_all_written_anew() -> None:
    before = manifest(10, 100, notes=[span("n", -1, 99)], vectors=[span("v", -1, 99)])
    for since, kept in ((0, {"n", "v"}), (10, {"n", "v"}), (11, {"n"})):
        plan = Plan.of({"next_seq": 101, "vectors_since": since}, [], before, [5], whole=False)
        assert plan.names == kept
        assert plan.dead == [5]
    plan = Plan.of({"next_seq": 101, "vectors_since": 0}, [], before, [5], whole=True)
    assert (plan.after, plan.names, plan.dead) == ({"notes": -1, "vectors": -1}, set(), [])


def test_a_manifest_of_format_1_has_no_vectors() -> None:
    before = manifest(10, 100, notes=[span("n", -1, 99)])
    plan = Plan.of({"next_seq": 101, "vectors_since": 0}, [(11, 3)], before, [], whole=False)
    assert (plan.after, plan.names, plan.dead) == ({"notes": 99, "vectors": 99}, {"n"}, [3])


def test_empty_tables_of_spans_are_not_written() -> None:
    plan = Plan.of({"next_seq": 0, "vectors_since": 0}, [], None, [], whole=False)
    none = pa.table({"seq": pa.array([], pa.int64())})
    tables = {"notes": none, "vectors": none, "dead": none}
    assert [kind for kind, _ in plan.worth(tables)] == ["dead"]


@given(
    st.sets(st.integers(0, 30)),
    st.lists(st.tuples(st.integers(-1, 30), st.integers(-1, 30)), max_size=4),
)
def test_covered_equals_its_twin(seqs: set[int], spans: list[tuple[int, int]]) -> None:
    kept = {"notes": [span("x", *sorted(pair)) for pair in spans]}
    want = [seq for seq in sorted(seqs) if any(min(p) < seq <= max(p) for p in spans)]
    assert covered(seqs, kept) == want


# -- what a manifest names -------------------------------------------------------------------------


def segments(*kinds: str) -> list[Segment]:
    return [Segment(f"{kind}-{n}", kind, 0, 0, "seq int64", "") for n, kind in enumerate(kinds)]


def test_kinds_that_a_manifest_must_and_may_name() -> None:
    from fastassoc.errors import CorruptStore

    every = [*ONE_EACH]
    parts = parts_of({"format": 2, "segments": segments(*every)}, "m")
    assert parts["notes"] == parts["vectors"] == []
    more = [*every, "notes", "notes", "vectors", "vectors", "vectors-next", "moss", "moss"]
    parts = parts_of({"format": 2, "segments": segments(*more)}, "m")
    assert [len(parts[kind]) for kind in ("notes", "vectors", "vectors-next")] == [2, 2, 1]
    assert "moss" not in parts
    old = [kind for kind, since in ONE_EACH.items() if since == 1]
    assert "links-note" not in parts_of({"format": 1, "segments": segments(*old)}, "m")
    for kind in every:
        rest = [other for other in every if other != kind]
        with pytest.raises(CorruptStore, match=f"names no segment of {kind}"):
            parts_of({"format": 2, "segments": segments(*rest)}, "m")
    for kind in (*every, "vectors-next", "links-cue", "stems"):
        with pytest.raises(CorruptStore, match=f"several segments of {kind}"):
            parts_of({"format": 2, "segments": segments(*more, kind, kind)}, "m")


def test_columns_that_a_format_lacks_are_null() -> None:
    schema = pa.schema([("seq", pa.int64()), ("category", pa.string())])
    assert completed([], schema).num_rows == 0
    table = completed(
        [pa.table({"seq": [1, 2]}), pa.table({"category": ["c"], "seq": [3]})], schema
    )
    assert table.to_pydict() == {"seq": [1, 2, 3], "category": [None, None, "c"]}


def test_rows_of_dead_notes_are_left_out() -> None:
    table = pa.table({"seq": [1, 2, 3]})
    for dead, left in (([], [1, 2, 3]), ([7], [1, 2, 3]), ([2, 3], [1])):
        gone = pa.chunked_array([pa.array(dead, pa.int64())])
        assert without(table, gone)["seq"].to_pylist() == left
