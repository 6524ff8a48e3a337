"""Snapshots of a state: which notes are written anew, what becomes current, what is swept."""

from __future__ import annotations

import errno
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fastassoc import files
from fastassoc import snapshot as disk
from fastassoc.cache import Cache
from fastassoc.errors import CorruptStore, StoreError, VacuumIncomplete
from fastassoc.journal import Journal
from fastassoc.named import (
    SPANNED,
    bulk_segments,
    cache_keys,
    entries_from,
    manifest_of,
)
from fastassoc.ports import Still
from fastassoc.reports import Report
from fastassoc.snapshot import Segment
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
                left = _emptied(journal, ("rejects", "cache"))
                break
        if time.monotonic() > end:
            raise StoreError("vacuum: another process is taking a snapshot; run it again.")
        time.sleep(0.01)
    journal.truncate_wal()
    if left:
        raise VacuumIncomplete(
            f"{'; '.join(left)}. Erased text may still be in it: mend that and run vacuum again."
        )
    return report


def _emptied(journal: Journal, names: Sequence[str]) -> list[str]:
    """Remove folders of a store for good; returns which could not be, and why."""
    left = []
    for name in names:
        try:
            files.remove_tree(journal.path / name)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # else another has put something new in it
                left.append(f"{name} could not be emptied ({error.strerror})")
    try:
        files.sync_folder(journal.path)
    except OSError as error:
        left.append(f"{journal.path} could not be synced ({error.strerror})")
    return left


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
        summary, position, counts = state.summary(), state.position, counts_of(state)
        plan = Plan.of(summary, state.forgotten, manifest, known, whole=whole)
        tables = state.capture(plan.after, plan.dead)
    kept = [] if manifest is None else [s for s in manifest["segments"] if s.name in plan.names]
    made = [disk.write_segment(journal.path, kind, t) for kind, t in plan.worth(tables)]
    content = {
        "store": journal.store_id,
        "created_at": summary["time"],
        "settings": summary["settings"],
        "embedder": summary["embedder"],
        "counts": counts,
        "segments": [*kept, *made],
        "previous": None if pointer is None else pointer.manifest,
        "state": {**summary, **plan.spans(made)},
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
        current = [segment.name for segment in manifest["segments"]]
        keep, keys = {pointer.manifest, *current}, {*cache_keys(manifest["segments"])}
        previous = manifest["previous"]
        if keep_previous and previous is not None:
            keep.add(previous)
            with suppress(CorruptStore, OSError, ValueError, KeyError, TypeError):
                found = json.loads((journal.path / previous).read_text())
                before = [segment["name"] for segment in found["segments"]]
                keep.update(before)
                keys.update(cache_keys([Segment(**one) for one in found["segments"]]))
        # what the journal still tells: a handle that lags or a repeated operation needs it
        keep.update(s.name for s in bulk_segments(entries_from(transaction, 0)))
        # a vacuum must not trust times of files: with both locks held, nobody writes here
        disk.sweep(journal.path, keep, older_than=None if keep_previous else sys.maxsize)
    with suppress(OSError):  # disposable: a snapshot never fails for it
        Cache(journal.path).sweep(keys)


Span = dict[str, Any]  # a segment's name, and the sequences of notes that it covers: after, through


@dataclass(frozen=True)
class Plan:
    """Which notes and vectors a snapshot writes, and which segments it takes over.

    Attributes
    ----------
    after : dict of int
        By kind: rows of notes after this sequence are written.
    through : int
        The last sequence of the notes that are saved.
    kept : dict of list of dict
        By kind: ``name, after, through`` of the segments taken over.
    dead : list of int
        Sequences of forgotten notes that lie in the segments taken over.
    """

    after: dict[str, int]
    through: int
    kept: dict[str, list[Span]]
    dead: list[int]

    @classmethod
    def of(
        cls,
        summary: Mapping[str, Any],
        forgotten: Sequence[tuple[int, int]],
        manifest: dict[str, Any] | None,
        dead: Sequence[int],
        *,
        whole: bool,
    ) -> Plan:
        """Take over old segments, but for those no larger than what would be written beside them.

        So the number of segments grows with the logarithm of the notes, and the work of all
        snapshots stays linear.

        Parameters
        ----------
        summary : mapping
            What the state says of itself.
        forgotten : sequence of (int, int)
            Position and sequence of notes that were forgotten, at least since the manifest.
        manifest : dict or None
            The snapshot before.
        dead : sequence of int
            Sequences of forgotten notes that lie in its segments.
        whole : bool
            Take nothing over.
        """
        through = summary["next_seq"] - 1
        after, kept = dict.fromkeys(SPANNED, -1), {kind: list[Span]() for kind in SPANNED}
        if manifest is None or whole:
            return cls(after, through, kept, [])
        old = manifest["state"]
        for kind in SPANNED:
            if kind == "vectors" and manifest["seq"] < summary["vectors_since"]:
                continue  # those of old notes are other ones by now
            after[kind] = old["next_seq"] - 1
            kept[kind] = spans = list(old.get(kind, ()))
            while spans and spans[-1]["through"] - spans[-1]["after"] <= through - after[kind]:
                after[kind] = spans.pop()["after"]
        gone = {seq for position, seq in forgotten if position > manifest["seq"]}
        return cls(after, through, kept, covered(gone.union(dead), kept))

    @property
    def names(self) -> set[str]:
        """Names of the segments taken over."""
        return {span["name"] for spans in self.kept.values() for span in spans}

    def worth(self, tables: dict[str, pa.Table]) -> list[tuple[str, pa.Table]]:
        """The tables to write: no empty segment of notes or vectors."""
        return [(kind, t) for kind, t in tables.items() if kind not in SPANNED or t.num_rows]

    def spans(self, made: Sequence[disk.Segment]) -> dict[str, list[Span]]:
        """What the next manifest says of its segments of notes and vectors."""
        spans = {kind: list(held) for kind, held in self.kept.items()}
        for segment in made:
            if segment.kind in SPANNED:
                span = {"after": self.after[segment.kind], "through": self.through}
                spans[segment.kind].append({"name": segment.name, **span})
        return spans


def covered(seqs: set[int], kept: Mapping[str, Sequence[Span]]) -> list[int]:
    """The sequences that a segment of any kind covers, ascending."""
    some = np.array(sorted(seqs), np.int64)
    held = np.zeros(len(some), np.bool_)
    for span in (span for spans in kept.values() for span in spans):
        start, stop = np.searchsorted(some, (span["after"], span["through"]), "right")
        held[start:stop] = True
    found: list[int] = some[held].tolist()
    return found


def counts_of(state: State) -> dict[str, int]:
    """What a manifest counts."""
    return {
        "notes": state.notes.n_alive,
        "concepts": len(state.vocabulary),
        "concept_links": len(state.links),
        "note_links": len(state.note_links),
        "cue_links": len(state.cues.links),
    }
