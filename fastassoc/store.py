"""A store on disk: the journal's operations in order, snapshots of the state, and their care."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fastassoc import snapshot as disk
from fastassoc.batch import NoteBatch
from fastassoc.errors import CorruptStore, StoreError, StoreExists, StoreNotFound
from fastassoc.journal import Behind, Draft, Entry, Journal, Pointer, Transaction
from fastassoc.ports import Still, written_ids
from fastassoc.reports import Report
from fastassoc.settings import Settings
from fastassoc.snapshot import Segment
from fastassoc.state import Operation, State

__all__ = ["Store", "Verification"]

BULK_ROWS = 1024  # a write of more notes becomes a segment of its own
BULK_BYTES = 2 << 20  # so does one of more bytes; a journal row stays below 4 MiB
SNAPSHOT_BYTES = 64 << 20
SNAPSHOT_OPERATIONS = 200_000
LOOK_EVERY = 1000  # operations of this handle between two looks at the journal's size
ONE_EACH = ("notestate", "dead", "vocabulary", "links-concept")


@dataclass(frozen=True)
class Verification:
    """What `Memory.verify` found.

    Attributes
    ----------
    problems : list of (str, str)
        File and what is wrong with it.
    files : int
        Files looked at.
    position : int
        The operation that the store reflects.
    digest : str or None
        Equal for stores that hold the same.
    """

    problems: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0
    position: int = 0
    digest: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok


class Store:
    """One folder on disk, as the port of one memory.

    Parameters
    ----------
    journal : Journal
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.path: Path | None = journal.path
        self.root = journal.path
        self.read_only = journal.read_only
        self.timeout = journal.timeout
        self._since = 0
        self._bytes = 0

    # -- opening --------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        create: bool,
        read_only: bool,
        settings: Settings | None,
        sync: str,
        timeout: float,
        now: Callable[[], int],
    ) -> tuple[Store, State]:
        """Open or make a store; see `fastassoc.open`."""
        options: dict[str, Any] = {"sync": sync, "timeout": timeout}
        try:
            journal = Journal.open(path, read_only=read_only, **options)
        except StoreNotFound:
            if not create:
                raise
            try:
                journal = Journal.create(path, **options)
            except StoreExists:  # another process was faster, or other files lie there
                try:
                    journal = Journal.open(path, **options)
                except StoreNotFound:
                    raise StoreExists(
                        f"{path} holds other files and no store: name an empty or new folder."
                    ) from None
        store = cls(journal)
        try:
            return store, store._first(settings, now)
        except BaseException:
            journal.close()
            raise

    def _first(self, settings: Settings | None, now: Callable[[], int]) -> State:
        state = self._load()
        if state is not None:
            return state
        if self.read_only:
            raise StoreNotFound(f"{self.path}: the store was never written.")
        disk.create_folders(self.root)
        with self._journal.locked() as transaction:
            if transaction.head == 0:
                body = {"settings": (settings or Settings.counts()).to_dict(), "embedder": None}
                transaction.append([Draft(None, "create", now(), dumped(body))])
        state = self._load()
        if state is None:
            raise CorruptStore("journal.db", "does not begin with the making of the store")
        return state

    def _load(self) -> State | None:
        """The state from the current snapshot and the journal after it."""
        while True:
            pointer = self._journal.current()
            try:
                state = None if pointer is None else self._restore(pointer)
                entries = self._journal.read(0 if pointer is None else pointer.seq)
                self._check_manifests()
                # so that handles that live for a few operations take their snapshots, too
                self._since = len(entries)
                self._bytes = sum(len(entry.body) for entry in entries)
                self._bytes += sum(segment.bytes for segment in bulk_segments(entries))
                return self._replay(state, entries)
            except (CorruptStore, Behind):
                if self._journal.current() == pointer:
                    raise  # else another snapshot was published and the old one swept: again

    def _check_manifests(self) -> None:
        newest = disk.newest_manifest(self.root)
        head = self._journal.head()
        if newest is None or newest[0] <= head:
            return  # a snapshot that was cut off before it became current is no harm
        reason = f"is newer than the journal, which ends at operation {head}"
        if self._journal.sync == "full":
            raise CorruptStore(newest[1], f'{reason} (sync="normal" opens the store without it)')
        warnings.warn(f"{self.root}: {newest[1]} {reason}", RuntimeWarning, stacklevel=4)

    def _restore(self, pointer: Pointer) -> State:
        manifest = disk.read_manifest(self.root, pointer.manifest, pointer.digest)
        parts: dict[str, list[pa.Table]] = {"notes": []}
        for segment in manifest["segments"]:
            parts.setdefault(segment.kind, []).append(disk.read_segment(self.root, segment))
        for kind in ONE_EACH:
            if len(parts.get(kind, ())) != 1:
                raise CorruptStore(pointer.manifest, f"names no or several segments of {kind}")
        tables = {kind: parts[kind][0] for kind in ONE_EACH}
        dead = tables["dead"].column("seq")
        alive = [without(table, dead) for table in parts["notes"]]
        tables["notes"] = pa.concat_tables(alive) if alive else empty_notes()
        return State.restore(tables, manifest["state"], pointer.seq)

    def _replay(self, state: State | None, entries: Sequence[Entry]) -> State | None:
        for entry in entries:
            operation = self._operation(entry)
            if state is None:
                if operation.kind != "create":
                    raise CorruptStore("journal.db", "does not begin with the making of the store")
                state = State(Settings.from_dict(operation.body["settings"]))
            state.apply(operation, entry.seq)
        return state

    def _operation(self, entry: Entry) -> Operation:
        body = json.loads(entry.body)
        batch = None
        if "segment" in body:
            table = disk.read_segment(self.root, Segment(**body["segment"]))
            batch = NoteBatch.from_table(table)
        return Operation(entry.kind, entry.at, body, entry.op_id, batch)

    # -- the port -------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[Writing]:
        """Wait for the write lock of all processes."""
        with self._journal.locked() as transaction:
            yield Writing(self, transaction)

    def changed(self, position: int) -> bool:
        """Whether the journal has more than the caller has applied."""
        return self._journal.changed(position)

    def catch_up(self, state: State) -> State:
        """Apply what others did."""
        return self._caught_up(state, self._journal.read)

    def _caught_up(self, state: State, read: Callable[[int], list[Entry]]) -> State:
        if state.torn:  # an interrupt came between the halves of an operation
            return self._reloaded()
        try:
            for entry in read(state.position):
                state.apply(self._operation(entry), entry.seq)
            return state
        except Behind:
            return self._reloaded()
        except CorruptStore:
            # a snapshot may hold the operation by now, and its bulk segment be swept
            pointer = self._journal.current()
            if pointer is None or pointer.seq <= state.position:
                raise
            return self._reloaded()

    def _reloaded(self) -> State:
        state = self._load()
        if state is None:
            raise CorruptStore("journal.db", "lost its beginning")
        return state

    def tend(self, still: Still) -> None:
        """Take a snapshot when the journal has grown enough."""
        self._since += 1
        if self._since < LOOK_EVERY and self._bytes < SNAPSHOT_BYTES:
            return
        operations, size = self._journal.size()
        size = max(size, self._bytes)  # bulk segments count, too
        held = sum(segment.bytes for segment in self._current()[1])
        if operations >= SNAPSHOT_OPERATIONS or size >= max(SNAPSHOT_BYTES, held // 4):
            self.snapshot(still)
        else:
            self._since = 0

    def info(self) -> dict[str, Any]:
        """What the store takes on disk, and how long its journal is."""
        operations, size = self._journal.size()
        pointer, segments = self._current()
        sizes = []
        for file in self.root.rglob("*"):
            with suppress(FileNotFoundError):  # swept meanwhile
                sizes.append(file.stat().st_size if file.is_file() else 0)
        return {
            "path": str(self.path),
            "store_id": self._journal.store_id,
            "sync": self._journal.sync,
            "format": disk.FORMAT,
            "bytes": sum(sizes),
            "links_bytes_on_disk": sum(s.bytes for s in segments if s.kind == "links-concept"),
            "snapshot_position": 0 if pointer is None else pointer.seq,
            "journal_operations": operations,
            "journal_bytes": size,
        }

    def close(self) -> None:
        """Close the journal; the last handle leaves no write-ahead log."""
        self._journal.close()

    def _current(self) -> tuple[Pointer | None, list[Segment]]:
        """The current snapshot and its segments, which another process may replace meanwhile."""
        while True:
            pointer = self._journal.current()
            try:
                return pointer, [] if pointer is None else self._manifest(pointer)["segments"]
            except CorruptStore:
                if self._journal.current() == pointer:
                    raise

    def _manifest(self, pointer: Pointer) -> dict[str, Any]:
        return disk.read_manifest(self.root, pointer.manifest, pointer.digest)

    # -- snapshots ------------------------------------------------------------------------------

    def snapshot(self, still: Still) -> bool:
        """Save the state; False if there is nothing new or another snapshotter is at work."""
        with disk.try_lock(self.root) as mine:
            return mine and self._snapshot(still, whole=False)

    def _snapshot(self, still: Still, *, whole: bool) -> bool:
        """Write and publish a snapshot, under the snapshotter's lock.

        `whole` writes every note anew, so that nothing forgotten is in any segment.
        """
        disk.create_folders(self.root)
        pointer = self._journal.current()
        manifest = None if pointer is None else self._manifest(pointer)
        known = [] if manifest is None else self._dead(manifest)
        with still() as state:
            if pointer is not None and pointer.seq >= state.position and not whole:
                return False
            plan = Plan.of(state, manifest, known, whole=whole)
            tables = state.capture(plan.after, plan.dead)
            summary, position, counts = state.summary(), state.position, counts_of(state)
        kept = [] if manifest is None else [s for s in manifest["segments"] if s.name in plan.kept]
        made = [disk.write_segment(self.root, kind, t) for kind, t in plan.worth(tables)]
        spans = [span for span in plan.spans if span["name"] in plan.kept]
        for segment in made:
            if segment.kind == "notes":
                through = summary["next_seq"] - 1
                spans.append({"name": segment.name, "after": plan.after, "through": through})
        content = {
            "store": self._journal.store_id,
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
        name, digest = disk.write_manifest(self.root, position, content, current=current)
        self._journal.publish(name, position, digest)
        self._since = self._bytes = 0
        self._sweep(keep_previous=not whole)
        return True

    def _dead(self, manifest: dict[str, Any]) -> list[int]:
        """Sequences of the forgotten notes that lie in a snapshot's segments."""
        held = [segment for segment in manifest["segments"] if segment.kind == "dead"]
        found: list[int] = disk.read_segment(self.root, held[0]).column("seq").to_pylist()
        return found

    def _sweep(self, *, keep_previous: bool) -> None:
        """Remove what neither the current snapshot, nor the one before, nor the journal names."""
        with self._journal.locked() as transaction:
            pointer = transaction.current()
            if pointer is None:
                return
            manifest = self._manifest(pointer)
            keep = {pointer.manifest, *(segment.name for segment in manifest["segments"])}
            previous = manifest["previous"]
            if keep_previous and previous is not None:
                keep.add(previous)
                with suppress(CorruptStore, OSError, ValueError, KeyError):
                    found = json.loads((self.root / previous).read_text())
                    keep.update(segment["name"] for segment in found["segments"])
            # what the journal still tells: a handle that lags or a repeated operation needs it
            keep.update(s.name for s in bulk_segments(entries_from(transaction, 0)))
            # a vacuum must not trust times of files: with both locks held, nobody writes here
            disk.sweep(self.root, keep, older_than=None if keep_previous else sys.maxsize)

    def vacuum(self, still: Still, purge: Callable[[], Report]) -> Report:
        """Write everything anew without what was forgotten, and erase all that is old.

        `purge` appends the operation that the snapshot needs as its own: under the snapshotters'
        lock, so that no other snapshot can take its place.
        """
        end = time.monotonic() + self.timeout
        while True:
            with disk.try_lock(self.root) as mine:
                if mine:
                    report = purge()
                    self._snapshot(still, whole=True)
                    pointer = self._journal.current()
                    if pointer is not None:
                        self._journal.drop(pointer.seq)
                    self._sweep(keep_previous=False)
                    for name in ("rejects", "cache"):
                        shutil.rmtree(self.root / name, ignore_errors=True)
                    break
            if time.monotonic() > end:
                raise StoreError("vacuum: another process is taking a snapshot; run it again.")
            time.sleep(0.01)
        self._journal.truncate_wal()
        return report

    # -- copies and checks ----------------------------------------------------------------------

    def backup(self, target: Path) -> Path:
        """Copy the store, as of one moment, into a folder that appears whole."""
        if target.exists() or target.is_symlink():
            raise StoreExists(f"{target} exists: name a folder that does not.")
        draft = target.with_name(f".{target.name}.{token_hex(4)}")
        try:
            with self._undisturbed():
                disk.create_folders(draft)
                pointer = self._journal.backup(draft)
                self._copy_files(draft, pointer)
            os.rename(draft, target)
        except OSError as error:
            raise StoreError(f"{target}: the backup cannot be written ({error}).") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return target

    def _copy_files(self, draft: Path, pointer: Pointer | None) -> None:
        if pointer is not None:
            for segment in self._manifest(pointer)["segments"]:
                disk.copy_segment(self.root, segment, draft)
            disk.copy_manifest(self.root, pointer.manifest, pointer.digest, draft)
        with Journal.open(draft, sync=self._journal.sync) as copy:
            start = 0 if pointer is None else pointer.seq
            for segment in bulk_segments(entries_from(copy, start)):
                disk.copy_segment(self.root, segment, draft)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Hold off snapshots, so that no file goes while it is copied or checked."""
        if not os.access(self.root, os.W_OK):
            yield  # no one else can take one here, either
            return
        end = time.monotonic() + self.timeout
        while True:
            with disk.try_lock(self.root) as mine:
                if mine:
                    yield
                    return
            if time.monotonic() > end:
                raise StoreError("another process is taking a snapshot; try again.")
            time.sleep(0.005)

    def verify(self, *, digest: bool) -> Verification:
        """Check every file, and load the store anew if a digest is wanted."""
        with self._undisturbed():
            problems = list(self._journal.verify())
            files = 2
            pointer = self._journal.current()
            segments: list[Segment] = []
            try:
                if pointer is not None:
                    files += 1
                    segments += self._manifest(pointer)["segments"]
                start = 0 if pointer is None else pointer.seq
                segments += bulk_segments(entries_from(self._journal, start))
                self._check_manifests()
            except CorruptStore as error:
                problems.append((error.file, error.reason))
            for segment in segments:
                files += 1
                try:
                    disk.verify_segment(self.root, segment)
                except CorruptStore as error:
                    problems.append((error.file, error.reason))
            value, position = None, self._journal.head()
            if digest and not problems:
                try:
                    state = self._reloaded()
                    value, position = state.digest(), state.position
                except CorruptStore as error:
                    problems.append((error.file, error.reason))
        return Verification(list(dict.fromkeys(problems)), files, position, value)


class Writing:
    """The write lock, held: see `fastassoc.ports.Held`."""

    def __init__(self, store: Store, transaction: Transaction) -> None:
        self._store = store
        self._transaction = transaction

    def catch_up(self, state: State) -> State:
        """Apply what others did before the lock was ours."""
        return self._store._caught_up(state, self._transaction.entries_after)

    def done(self, operation_id: str) -> list[str] | None:
        """The ids that the operation of this id wrote, while the journal holds it."""
        found = self._transaction.done(operation_id)
        if found is None:
            return None
        with suppress(Behind):
            entries = self._transaction.entries_after(found[0] - 1, 1)
            return [note for one in entries for note in written_ids(self._store._operation(one))]
        return []

    def append(self, operation: Operation) -> int:
        """Save the operation as the store's sync level promises."""
        body = self._body(operation)
        text = dumped(body)
        entries = self._transaction.append(
            # an id of our own, so that an operation whose outcome is unknown can be named
            [Draft(operation.op_id or token_hex(16), operation.kind, operation.at, text)]
        )
        self._transaction.commit()
        self._store._bytes += len(text) + body.get("segment", {}).get("bytes", 0)
        return entries[-1].seq

    def _body(self, operation: Operation) -> dict[str, Any]:
        batch = operation.batch
        if batch is None:
            return operation.body
        if len(batch) <= BULK_ROWS and batch.nbytes <= BULK_BYTES:
            return {**operation.body, "rows": batch.to_rows()}
        # under the lock, so that a sweep never takes a segment that is about to be named
        disk.create_folders(self._store.root)
        segment = disk.write_segment(self._store.root, "bulk", batch.to_table())
        return {**operation.body, "segment": asdict(segment)}


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


def bulk_segments(entries: Iterable[Entry]) -> list[Segment]:
    """The bulk segments that operations name."""
    bodies = (json.loads(entry.body) for entry in entries if '"segment"' in entry.body)
    return [Segment(**body["segment"]) for body in bodies if "segment" in body]


def entries_from(source: Journal | Transaction, after: int) -> list[Entry]:
    """Operations after a position, or all that are left."""
    read = source.read if isinstance(source, Journal) else source.entries_after
    try:
        return read(after)
    except Behind as error:
        return read(error.reaches)


def without(notes: pa.Table, dead: pa.ChunkedArray) -> pa.Table:
    """The notes that are not dead."""
    if not len(dead):
        return notes
    return notes.filter(pc.invert(pc.is_in(notes.column("seq"), value_set=dead)))


def empty_notes() -> pa.Table:
    """A table of no notes."""
    from fastassoc.notes import NOTES_SCHEMA

    return NOTES_SCHEMA.empty_table()


def counts_of(state: State) -> dict[str, int]:
    """What a manifest counts."""
    return {
        "notes": state.notes.n_alive,
        "concepts": len(state.vocabulary),
        "concept_links": len(state.links),
    }


def dumped(body: dict[str, Any]) -> str:
    """A body as compact JSON."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
