"""Snapshots of a state: which notes are written anew, what becomes current, what is swept."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fastassoc import snapshot as disk
from fastassoc.errors import CorruptStore, StoreError
from fastassoc.journal import Journal
from fastassoc.named import bulk_segments, entries_from, manifest_of
from fastassoc.ports import Still
from fastassoc.reports import Report
from fastassoc.state import State

__all__ = ["Plan", "snapshot", "vacuum"]


def snapshot(journal: Journal, still: Still, saved: Callable[[], None]) -> bool:
    """Save the state; False if there is nothing new or another snapshotter is at work.

    `saved` is called when the snapshot has become current.
    """
    with disk.try_lock(journal.path) as mine:
        return mine and _save(journal, still, saved, whole=False)


def vacuum(
    journal: Journal,
    still: Still,
    purge: Callable[[], Report],
    saved: Callable[[], None],
) -> Report:
    """Write everything anew without what was forgotten, and erase all that is old.

    `purge` appends the operation that the snapshot needs as its own: under the snapshotters'
    lock, so that no other snapshot can take its place.
    """
    end = time.monotonic() + journal.timeout
    while True:
        with disk.try_lock(journal.path) as mine:
            if mine:
                report = purge()
                _save(journal, still, saved, whole=True)
                pointer = journal.current()
                if pointer is not None:
                    journal.drop(pointer.seq)
                _sweep(journal, keep_previous=False)
                for name in ("rejects", "cache"):
                    shutil.rmtree(journal.path / name, ignore_errors=True)
                break
        if time.monotonic() > end:
            raise StoreError("vacuum: another process is taking a snapshot; run it again.")
        time.sleep(0.01)
    journal.truncate_wal()
    return report


def _save(journal: Journal, still: Still, saved: Callable[[], None], *, whole: bool) -> bool:
    """Write and publish a snapshot, under the snapshotter's lock.

    `whole` writes every note anew, so that nothing forgotten is in any segment.
    """
    disk.create_folders(journal.path)
    pointer = journal.current()
    manifest = None if pointer is None else manifest_of(journal, pointer)
    known = [] if manifest is None else _dead(journal, manifest)
    with still() as state:
        if pointer is not None and pointer.seq >= state.position and not whole:
            return False
        plan = Plan.of(state, manifest, known, whole=whole)
        tables = state.capture(plan.after, plan.dead)
        summary, position, counts = state.summary(), state.position, counts_of(state)
    kept = [] if manifest is None else [s for s in manifest["segments"] if s.name in plan.kept]
    made = [disk.write_segment(journal.path, kind, t) for kind, t in plan.worth(tables)]
    spans = [span for span in plan.spans if span["name"] in plan.kept]
    for segment in made:
        if segment.kind == "notes":
            through = summary["next_seq"] - 1
            spans.append({"name": segment.name, "after": plan.after, "through": through})
    content = {
        "store": journal.store_id,
        "created_at": summary["time"],
        "settings": summary["settings"],
        "embedder": None,
        "counts": counts,
        "segments": [*kept, *made],
        "previous": None if pointer is None else pointer.manifest,
        "state": {**summary, "notes": spans},
    }
    current = None if pointer is None else pointer.manifest
    if pointer is not None and pointer.seq == position:
        return False  # a vacuum follows an operation of its own, so this is no loss
    name, digest = disk.write_manifest(journal.path, position, content, current=current)
    journal.publish(name, position, digest)
    saved()
    _sweep(journal, keep_previous=not whole)
    return True


def _dead(journal: Journal, manifest: dict[str, Any]) -> list[int]:
    """Sequences of the forgotten notes that lie in a snapshot's segments."""
    held = [segment for segment in manifest["segments"] if segment.kind == "dead"]
    found: list[int] = disk.read_segment(journal.path, held[0]).column("seq").to_pylist()
    return found


def _sweep(journal: Journal, *, keep_previous: bool) -> None:
    """Remove what neither the current snapshot, nor the one before, nor the journal names."""
    with journal.locked() as transaction:
        pointer = transaction.current()
        if pointer is None:
            return
        manifest = manifest_of(journal, pointer)
        keep = {pointer.manifest, *(segment.name for segment in manifest["segments"])}
        previous = manifest["previous"]
        if keep_previous and previous is not None:
            keep.add(previous)
            with suppress(CorruptStore, OSError, ValueError, KeyError):
                found = json.loads((journal.path / previous).read_text())
                keep.update(segment["name"] for segment in found["segments"])
        # what the journal still tells: a handle that lags or a repeated operation needs it
        keep.update(s.name for s in bulk_segments(entries_from(transaction, 0)))
        # a vacuum must not trust times of files: with both locks held, nobody writes here
        disk.sweep(journal.path, keep, older_than=None if keep_previous else sys.maxsize)


@dataclass(frozen=True)
class Plan:
    """Which notes a snapshot writes, and which segments it takes over.

    Attributes
    ----------
    after : int
        Notes after this sequence are written.
    dead : list of int
        Sequences of forgotten notes that lie in the segments taken over.
    kept : set of str
        Names of the note segments taken over.
    spans : list of dict
        ``name, after, through`` of every note segment of the snapshot before.
    """

    after: int
    dead: list[int]
    kept: set[str]
    spans: list[dict[str, Any]]

    @classmethod
    def of(
        cls,
        state: State,
        manifest: dict[str, Any] | None,
        dead: Sequence[int],
        *,
        whole: bool,
    ) -> Plan:
        """Take over old segments, but for those no larger than what would be written beside them.

        So the number of segments grows with the logarithm of the notes, and the work of all
        snapshots stays linear.
        """
        if manifest is None or whole:
            return cls(-1, [], set(), [])
        spans = manifest["state"]["notes"]
        kept = list(spans)
        after = manifest["state"]["next_seq"] - 1
        while kept and kept[-1]["through"] - kept[-1]["after"] <= state.notes.next_seq - 1 - after:
            after = kept.pop()["after"]
        gone = {seq for position, seq in state.forgotten if position > manifest["seq"]}
        gone.update(dead)
        return cls(
            after, sorted(seq for seq in gone if seq <= after), {s["name"] for s in kept}, spans
        )

    def worth(self, tables: dict[str, pa.Table]) -> list[tuple[str, pa.Table]]:
        """The tables to write: no empty segment of notes."""
        return [(kind, t) for kind, t in tables.items() if kind != "notes" or t.num_rows]


def counts_of(state: State) -> dict[str, int]:
    """What a manifest counts."""
    return {
        "notes": state.notes.n_alive,
        "concepts": len(state.vocabulary),
        "concept_links": len(state.links),
    }
