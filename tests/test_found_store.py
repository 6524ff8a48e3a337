"""What an independent tester found in the store; one test a defect."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastassoc as fa
from fastassoc import files, store
from fastassoc.state import State


def many(n: int = 2000) -> list[dict[str, Any]]:
    return [{"text": f"t{i}", "id": str(i), "concepts": ["a", "b"]} for i in range(n)]


def read_all(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())


def test_a_handle_that_lags_outlives_the_first_snapshot_after_a_bulk_write(tmp_path: Path) -> None:
    with fa.open(tmp_path / "s.fa") as one, fa.open(tmp_path / "s.fa") as two:
        one.write_batch(many(), operation_id="bulk")
        time.sleep(0.05)  # else the file system's clock hides that the segment may go
        one.snapshot()
        assert len(two) == 2000
        again = one.write_batch(many(), operation_id="bulk")
        assert again.repeated
        assert len(again.ids) == 2000


def test_a_handle_reloads_when_a_bulk_segment_went_between_row_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fa.open(tmp_path / "s.fa") as one, fa.open(tmp_path / "s.fa") as two:
        one.write_batch(many())
        rows = store.Store._operation

        def late(self: store.Store, entry: Any) -> Any:
            monkeypatch.setattr(store.Store, "_operation", rows)
            one.vacuum()
            return rows(self, entry)

        monkeypatch.setattr(store.Store, "_operation", late)
        assert len(two) == 2000


def test_a_saved_operation_does_not_fail_with_its_automatic_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    with fa.open(tmp_path / "s.fa") as mem:
        monkeypatch.setattr(store, "LOOK_EVERY", 1)
        monkeypatch.setattr(store, "SNAPSHOT_OPERATIONS", 1)
        monkeypatch.setattr(files.disk, "write", full)
        with pytest.warns(RuntimeWarning, match="the operation is saved"):
            mem.write("Tea", id="a")
        assert "a" in mem


def test_vacuum_erases_when_an_automatic_snapshot_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write("CANARY-7731", id="a", concepts=["x", "y"])
        mem.write("Tea", id="b", concepts=["x", "y"])
        mem.snapshot()
        mem.forget(["a"])
        monkeypatch.setattr(store, "LOOK_EVERY", 1)
        monkeypatch.setattr(store, "SNAPSHOT_OPERATIONS", 1)
        mem.vacuum()
    assert b"CANARY-7731" not in read_all(path)


def test_vacuum_erases_files_from_a_clock_that_was_ahead(tmp_path: Path) -> None:
    import os

    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write("CANARY-7731", id="a")
        mem.snapshot()
        for file in (path / "segments").iterdir():
            os.utime(file, (time.time() + 3600,) * 2)
        mem.forget(["a"])
        mem.vacuum()
    assert b"CANARY-7731" not in read_all(path)


@pytest.mark.parametrize("verb", [len, lambda m: m.write("Cocoa", id="c")])
def test_an_interrupt_while_catching_up_leaves_no_half_of_an_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Callable[[fa.Memory], object]
) -> None:
    with fa.open(tmp_path / "s.fa") as one, fa.open(tmp_path / "s.fa") as two:
        one.write_batch(many(10))
        whole = State._write_new

        def stopped(self: State, *args: Any) -> Any:
            self.notes.next_seq += 5
            raise KeyboardInterrupt

        monkeypatch.setattr(State, "_write_new", stopped)
        with pytest.raises(KeyboardInterrupt):
            verb(two)
        monkeypatch.setattr(State, "_write_new", whole)
        verb(two)
        assert len(one) == len(two) == len(two._state.notes.rows)
        assert one._state.digest() == two._state.digest()


def test_every_handle_follows_what_was_configured(tmp_path: Path) -> None:
    with fa.open(tmp_path / "s.fa") as one, fa.open(tmp_path / "s.fa") as two:
        one.write("One", id="a", concepts=["x", "y"])
        one.write("Two", id="b", concepts=["y"])
        assert [hit.id for hit in two.read(concepts=["x"])] == ["a"]
        one.configure(concept_threshold=1)
        assert [hit.id for hit in two.read(concepts=["x"])] == ["a", "b"]


def test_a_repeated_configure_changes_nothing(tmp_path: Path) -> None:
    for given in (None, fa.Settings.counts()):
        path = tmp_path / f"{given is None}.fa"
        with fa.open(path, settings=given) as mem:
            mem.configure(concept_threshold=3, operation_id="once")
            mem.configure(concept_threshold=1)
            assert mem.configure(concept_threshold=3, operation_id="once").repeated
            assert mem.settings.concept_links.threshold == 1


def test_handles_of_few_operations_take_automatic_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOOK_EVERY", 10)
    monkeypatch.setattr(store, "SNAPSHOT_OPERATIONS", 20)
    for _ in range(9):
        with fa.open(tmp_path / "s.fa", sync="off") as mem:
            for _ in range(4):
                mem.link("a", "b", 1.0)
    with fa.open(tmp_path / "s.fa") as mem:
        assert mem.info()["snapshot_position"] > 0
        assert mem.info()["journal_operations"] < 30


def test_stats_are_the_same_whatever_the_order_of_the_outcomes(tmp_path: Path) -> None:
    with fa.open(tmp_path / "s.fa") as mem:
        mem.write_batch(many(12))
        for i in (7, 3, 11, 1, 5, 9, 0):
            mem.feedback(asked=["a"], used=[str(i)], outcome=0.37 if i % 2 else -0.1 * i)
            mem.feedback(asked=["a"], used=[str((i * 5) % 12)], outcome=0.01 * i)
        mem.snapshot()
        with fa.open(tmp_path / "s.fa") as other:
            assert other.stats() == mem.stats()


def test_what_a_snapshot_captured_does_not_follow_an_ingest() -> None:
    mem = fa.Memory()
    held = mem._state.summary()
    mem._state.ingests["key"] = {"key": "key", "rows_done": 1, "final": False}
    assert held["ingests"] == {}


@pytest.mark.parametrize("outcomes", [[0.0], [1.0, 0.0]])
def test_a_valence_of_nothing_is_as_none_after_a_reload(
    tmp_path: Path, outcomes: list[float]
) -> None:
    """The live state listed the note as one that changed, and had another digest."""
    settings = fa.Settings.counts(valence_rate=1.0)
    with fa.open(tmp_path / "s.fa", settings=settings) as mem:
        mem.write("Tea", id="tea", concepts=["tea"])
        for outcome in outcomes:
            mem.feedback(asked=["tea"], used=["tea"], outcome=outcome)
        assert mem.get("tea").valence == 0.0
        mem.snapshot()
        live = mem._state.digest()
        assert mem.verify(digest=True).digest == live
