"""A store on disk: opened, loaded, and served as the port of one memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from fastassoc import saving, storecare
from fastassoc import snapshot as disk
from fastassoc.batch import NoteBatch
from fastassoc.cache import Cache
from fastassoc.errors import CorruptStore, StoreError, StoreExists, StoreNotFound
from fastassoc.indexed import Indexed
from fastassoc.journal import Behind, Draft, Entry, Journal, Pointer, Transaction
from fastassoc.jsontext import loads
from fastassoc.named import MADE_FROM, SPANNED, bulk_segments, cache_keys, manifest_of, parts_of
from fastassoc.notes import NOTES_SCHEMA, NOTESTATE_SCHEMA, NoteTable
from fastassoc.packed import states_apart
from fastassoc.ports import Still, written_ids
from fastassoc.reports import Report
from fastassoc.settings import Settings
from fastassoc.shapes import check_operation, check_state
from fastassoc.snapshot import Segment
from fastassoc.sound import check_bulk, check_span, check_spans, check_tables, check_vectors
from fastassoc.state import Operation, State, StateView
from fastassoc.storecare import Verification, check_manifests
from fastassoc.textcache import Kept
from fastassoc.vectorcache import choice_of, index_of, mapped, members_at
from fastassoc.vectors import Choice

__all__ = ["Store", "Verification", "completed", "operation_of", "without"]

BULK_ROWS = 1024  # a write of more notes becomes a segment of its own
BULK_BYTES = 2 << 20  # so does one of more bytes; a journal row stays below 4 MiB
SNAPSHOT_BYTES = 64 << 20
SNAPSHOT_OPERATIONS = 200_000
LOOK_EVERY = 1000  # operations of this handle between two looks at the journal's size
IndexKey = tuple[str | None, float, NoteTable]


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
        self._own = token_hex(12), count()  # what operations without an id are named by
        self._held = 0  # bytes of the snapshot, as last seen
        self._cache = Cache(journal.path, read_only=journal.read_only)
        self._index: tuple[IndexKey, Indexed | None] | None = None

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
                check_manifests(self._journal, stacklevel=4)
                # so that handles that live for a few operations take their snapshots, too
                self._since = len(entries)
                self._bytes = sum(len(entry.body) + len(entry.vectors or b"") for entry in entries)
                self._bytes += sum(segment.bytes for segment in bulk_segments(entries))
                return self._replay(state, entries)
            except (CorruptStore, Behind):
                if self._journal.current() == pointer:
                    raise  # else another snapshot was published and the old one swept: again

    def _restore(self, pointer: Pointer) -> State:
        manifest = manifest_of(self._journal, pointer)
        with unfit_is_damage(pointer.manifest, "its segments make no state"):
            parts = parts_of(manifest, pointer.manifest)
            check_state(manifest["state"], pointer.seq)
            check_spans(
                manifest["state"], {kind: [s.name for s in parts[kind]] for kind in SPANNED}
            )
            tables = self._tables(manifest, parts)
            check_tables(tables, manifest["state"])
            language = manifest["state"]["settings"]["language"]
            withdraw = partial(self._withdraw, manifest["segments"])
            kept = Kept(self._cache, cache_keys(manifest["segments"]), language, withdraw)
            return State.restore(tables, manifest["state"], pointer.seq, kept)

    def _withdraw(self, segments: Sequence[Segment], made: str) -> None:
        """Leave in the cache nothing of segments that were swept before it was put there.

        To look afterwards is enough: whoever sweeps them from here on sweeps the cache later.
        """
        kinds = getattr(MADE_FROM, made)
        if not disk.are_there(self.root, [one for one in segments if one.kind in kinds]):
            with suppress(OSError):  # the folder itself went
                self._cache.drop(getattr(cache_keys(segments), made))

    def _tables(
        self, manifest: dict[str, Any], parts: dict[str, list[Segment]]
    ) -> dict[str, pa.Table]:
        tables = {
            kind: disk.read_segment(
                self.root, held[0], states_apart if kind.startswith("links-") else None
            )
            for kind, held in parts.items()
            if kind not in SPANNED
        }
        dead = tables["dead"].column("seq")
        live = partial(self._live, manifest, parts, dead)
        tables["notes"], states = completed(live("notes"), NOTES_SCHEMA), tables.get("notestate")
        tables["notestate"] = completed([] if states is None else [states], NOTESTATE_SCHEMA)
        if parts["vectors"]:
            key = cache_keys(manifest["segments"]).vectors
            rows = sum(segment.rows for segment in parts["vectors"])

            def read() -> pa.Table:
                return pa.concat_tables(live("vectors"))

            tables["vectors"] = mapped(self._cache, key, rows, read)
            self._withdraw(manifest["segments"], "vectors")
        if "vectors-next" in tables:
            check_vectors(tables["vectors-next"], "vectors-next")
        return tables

    def _live(
        self,
        manifest: dict[str, Any],
        parts: dict[str, list[Segment]],
        dead: pa.ChunkedArray,
        kind: str,
    ) -> list[pa.Table]:
        """The rows of each segment of a kind whose notes are not dead."""
        found = []
        for segment, span in zip(parts[kind], manifest["state"].get(kind, ()), strict=True):
            table = disk.read_segment(self.root, segment)
            check_span(table, span, kind)
            if kind == "vectors":
                check_vectors(table, kind)
            found.append(without(table, dead))
        return found

    def _replay(self, state: State | None, entries: Sequence[Entry]) -> State | None:
        for entry in entries:
            if state is None:
                if entry.kind != "create":
                    raise CorruptStore("journal.db", "does not begin with the making of the store")
                with unfit_is_damage("journal.db", f"operation {entry.seq} has no settings"):
                    settings = self._operation(entry).body["settings"]
                    state = State(Settings.from_dict(settings))
            self._applied(state, entry)
        return state

    def _applied(self, state: State, entry: Entry) -> None:
        doing = f"operation {entry.seq} ({entry.kind[:20]}) cannot be applied"
        with unfit_is_damage("journal.db", doing):
            state.apply(self._operation(entry), entry.seq)

    def _operation(self, entry: Entry) -> Operation:
        return operation_of(self.root, entry)

    # -- the port -------------------------------------------------------------------------------

    def next_id(self) -> str:
        """An id for an operation that its caller did not name."""
        start, numbers = self._own
        return f"{start}{next(numbers):08x}"

    def locked(self) -> Writing:
        """Wait for the write lock of all processes."""
        return Writing(self, self._journal.locked())

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
                self._applied(state, entry)
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
        if self._since < LOOK_EVERY and self._bytes < max(SNAPSHOT_BYTES, self._held // 4):
            return
        operations, size = self._journal.size()
        size = max(size, self._bytes)  # bulk segments count, too
        self._held = sum(segment.bytes for segment in self._current()[1]["segments"])
        if operations >= SNAPSHOT_OPERATIONS or size >= max(SNAPSHOT_BYTES, self._held // 4):
            self.snapshot(still)
        else:
            self._since = 0

    def index(
        self, view: StateView, forgotten: Sequence[tuple[int, int]], floor: float
    ) -> Indexed | None:
        """The index over the vectors of the current snapshot, from the cache or made for it."""
        pointer = self._journal.current()
        if self._index is None or self._index[0] != index_key(pointer, view, floor):
            pointer, manifest = self._current()
            if covers(pointer, view):
                members = members_at(view, pointer.seq, manifest["state"]["next_seq"], forgotten)
                name = cache_keys(manifest["segments"]).vectors
                made = index_of(self._cache, name, floor, view, members)
                self._index = index_key(pointer, view, floor), made
                self._withdraw(manifest["segments"], "vectors")
        return self._index[1] if self._index is not None and covers(pointer, view) else None

    def choice(self, view: StateView, floor: float) -> Choice | None:
        """Which index was chosen for the current snapshot's vectors: of the handle or the cache."""
        pointer, manifest = self._current()
        if not covers(pointer, view):
            return None
        held = self._index
        if held is not None and held[0] == index_key(pointer, view, floor) and held[1]:
            return held[1].index.choice
        name = cache_keys(manifest["segments"]).vectors
        return choice_of(self._cache, name, floor)

    def info(self) -> dict[str, Any]:
        """What the store takes on disk, and how long its journal is."""
        operations, size = self._journal.size()
        pointer, manifest = self._current()
        segments, sizes = manifest["segments"], []
        for file in self.root.rglob("*"):
            with suppress(FileNotFoundError):  # swept meanwhile
                sizes.append(file.stat().st_size if file.is_file() else 0)
        return {
            "path": str(self.path),
            "store_id": self._journal.store_id,
            "sync": self._journal.sync,
            "format": self._journal.format,
            "bytes": sum(sizes),
            "links_bytes_on_disk": sum(s.bytes for s in segments if s.kind.startswith("links-")),
            "vectors_bytes_on_disk": sum(s.bytes for s in segments if s.kind == "vectors"),
            "snapshot_position": 0 if pointer is None else pointer.seq,
            "journal_operations": operations,
            "journal_bytes": size,
        }

    def close(self) -> None:
        """Close the journal; the last handle leaves no write-ahead log."""
        self._journal.close()

    def _current(self) -> tuple[Pointer | None, dict[str, Any]]:
        """The current snapshot and its manifest, which another process may replace meanwhile."""
        while True:
            pointer = self._journal.current()
            try:
                if pointer is None:
                    return None, {"segments": []}
                return pointer, manifest_of(self._journal, pointer)
            except CorruptStore:
                if self._journal.current() == pointer:
                    raise

    # -- snapshots, copies and checks -----------------------------------------------------------

    def snapshot(self, still: Still) -> bool:
        """Save the state; False if there is nothing new or another snapshotter is at work."""
        return saving.snapshot(self._journal, still, self._saved)

    def vacuum(self, still: Still, purge: Callable[[], Report]) -> Report:
        """Write everything anew without what was forgotten; see `saving.vacuum`."""
        return saving.vacuum(self._journal, still, purge, self._saved)

    def _saved(self) -> None:
        self._since = self._bytes = 0

    def backup(self, target: Path) -> Path:
        """Copy the store, as of one moment, into a folder that appears whole."""
        return storecare.backup(self._journal, target)

    @classmethod
    def verified(cls, path: Path, *, digest: bool, timeout: float) -> Verification:
        """Check a store file by file, so that damage does not end the search for more.

        Then load it: files may all be whole and still make no state.
        """
        try:
            journal = Journal.open(path, read_only=True, timeout=timeout)
        except CorruptStore as error:
            return Verification([(error.file, error.reason)])
        with journal:
            try:
                return storecare.verify(journal, cls(journal)._reloaded, digest=digest)
            except CorruptStore as error:
                return Verification([(error.file, error.reason)])

    def verify(self, *, digest: bool) -> Verification:
        """Check every file, and load the store anew if a digest is wanted."""
        return storecare.verify(self._journal, self._reloaded if digest else None, digest=digest)


class Writing:
    """The write lock, held: see `fastassoc.ports.Held`."""

    def __init__(self, store: Store, transaction: Transaction) -> None:
        self._store = store
        self._transaction = transaction

    def __enter__(self) -> Writing:
        self._transaction.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._transaction.__exit__(kind, error, trace)

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
        body, vectors = self._content(operation)
        text = dumped(body)
        # an id of our own, so that an operation whose outcome is unknown can be named; those of
        # one handle begin alike, so that they lie side by side in the table of ids
        op_id = operation.op_id or self._store.next_id()
        draft = Draft(op_id, operation.kind, operation.at, text, vectors)
        entries = self._transaction.append([draft])
        self._transaction.commit()
        segment = body.get("segment", {}).get("bytes", 0)
        self._store._bytes += len(text) + len(vectors or b"") + segment
        return entries[-1].seq

    def _content(self, operation: Operation) -> tuple[dict[str, Any], bytes | None]:
        """The body of the journal's row, and its vectors."""
        batch = operation.batch
        if batch is None:
            return operation.body, operation.vectors
        if len(batch) <= BULK_ROWS and batch.nbytes <= BULK_BYTES:
            return {**operation.body, "rows": batch.to_rows()}, batch.vector_bytes()
        # under the lock, so that a sweep never takes a segment that is about to be named
        disk.create_folders(self._store.root)
        segment = disk.write_segment(self._store.root, "bulk", batch.to_table())
        return {**operation.body, "segment": asdict(segment)}, None


@contextmanager
def unfit_is_damage(file: str, doing: str) -> Iterator[None]:
    """What is whole and makes no sense is damage, too: our own writers never made it."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    except Exception as error:
        raise CorruptStore(file, f"{doing} ({error!r:.200})") from error


def operation_of(root: Path, entry: Entry) -> Operation:
    """The operation of a journal's row, its notes from the row or from a bulk segment."""
    body = loads(entry.body)
    check_operation(entry.kind, entry.at, body)
    batch = None
    if "segment" in body:
        table = disk.read_segment(root, Segment(**body["segment"]))
        check_bulk(table)
        batch = NoteBatch.from_table(table)
    elif "rows" in body:
        batch = NoteBatch.from_rows(body["rows"], entry.vectors)
    return Operation(entry.kind, entry.at, body, entry.op_id, batch, entry.vectors)


def covers(pointer: Pointer | None, view: StateView) -> TypeGuard[Pointer]:
    """Whether the vectors of a snapshot are among the view's: none came or changed since."""
    return pointer is not None and view.space.since <= pointer.seq <= view.position


def index_key(pointer: Pointer | None, view: StateView, floor: float) -> IndexKey:
    """What a handle knows an index by: the snapshot, the recall, and the places of the notes."""
    return None if pointer is None else pointer.digest, floor, view.notes.table


def without(table: pa.Table, dead: pa.ChunkedArray) -> pa.Table:
    """The rows of notes that are not dead."""
    if not len(dead):
        return table
    gone = pc.is_in(table.column("seq"), value_set=dead)
    return table.filter(pc.invert(gone)) if pc.any(gone).as_py() else table


def completed(parts: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of tables, with nulls in columns that an older format lacks."""
    whole = [
        pa.table(
            [
                part.column(field.name)
                if field.name in part.column_names
                else pa.nulls(part.num_rows, field.type)
                for field in schema
            ],
            names=schema.names,
        )
        for part in parts
    ]
    return pa.concat_tables(whole) if whole else schema.empty_table()


dumped = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # of a body
