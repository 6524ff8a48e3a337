"""The write lock, and what is done under it: append, publish, drop, commit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import apsw

from fastassoc.errors import (
    ClosedHandle,
    InvalidInput,
    OutcomeUnknown,
    ReadOnlyStore,
    StoreError,
    StoreLocked,
)
from fastassoc.formats import FORMAT
from fastassoc.journal import chain
from fastassoc.journal.chain import Draft, Entry, Meta, Pointer, Position
from fastassoc.journal.connections import Connections
from fastassoc.journal.reach import advance_head, check_head, prepare_head
from fastassoc.journal.records import DONE, Records, done, position_of
from fastassoc.journal.sqlite import LEVELS, NAME, POLL, fetch, translate

__all__ = ["Transaction"]

DONE_MICROSECONDS = 7 * 86_400 * 1_000_000
DONE_IDS = 1_000_000
INSERT = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_DONE = "INSERT INTO done VALUES (?, ?, ?)"
UPDATE_META = "UPDATE meta SET content = ?, hash = ?"


def begin(connections: Connections, timeout: float, durable: bool) -> apsw.Connection:
    """Take the write lock: this handle's between its threads, then that of all processes."""
    connections.alive()
    guard = connections.writer
    if guard is None:
        raise ReadOnlyStore(f"{connections.path}: is open read-only; open it for writing.")
    if guard.thread == threading.get_ident():
        raise InvalidInput("this thread holds the write lock already; use that transaction.")
    start = time.monotonic()
    if not guard.lock.acquire(timeout=max(0.0, timeout)):
        raise StoreLocked(time.monotonic() - start, os.getpid())
    guard.thread = threading.get_ident()
    conn = guard.conn
    try:
        if conn is None:
            raise ClosedHandle("the store was closed; open it again.")
        if connections.broken:
            raise ClosedHandle(
                f"this handle takes no more writes: {connections.broken}. Open the store again."
            )
        if durable and connections.sync != "full":
            conn.execute("PRAGMA synchronous = FULL")
        while True:
            try:
                conn.execute("BEGIN IMMEDIATE")
                return conn
            except apsw.BusyError as error:
                waited = time.monotonic() - start
                if waited >= timeout:
                    raise StoreLocked(waited, connections.holder()) from error
                time.sleep(POLL)
    except BaseException as error:
        end(connections, conn, durable)
        if isinstance(error, apsw.Error):
            raise translate(error) from error
        raise


def end(connections: Connections, conn: apsw.Connection | None, durable: bool) -> None:
    """Leave no transaction open, put the sync level back, let the next thread in."""
    guard = connections.writer
    assert guard is not None
    if not connections.owned():
        return
    conn = conn if conn is not None else guard.conn
    try:
        if conn is not None:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            if durable and connections.sync != "full":
                conn.execute(f"PRAGMA synchronous = {LEVELS[connections.sync]}")
    except apsw.Error as error:
        connections.broken = f"a rollback failed ({error})"
    finally:
        guard.thread = 0
        guard.lock.release()


class Transaction:
    """The write lock, as a context: what is appended is committed at its end, or nothing is.

    Made by `Journal.locked`. An exception inside rolls everything back.
    """

    def __init__(
        self, connections: Connections, records: Records, timeout: float, durable: bool
    ) -> None:
        self._connections = connections
        self._records = records
        self._timeout = timeout
        self._durable = durable
        self._conn: apsw.Connection | None = None
        self._last: Position = (0, b"")
        self._name = ""  # of the operation whose outcome a failed commit leaves unknown
        self._changed = False
        self._wrote_meta = False
        self._appended = False
        self._held = False

    def __enter__(self) -> Transaction:
        self._conn = begin(self._connections, self._timeout, self._durable)
        self._held = True
        try:
            self._last = self._records.last(self._conn)
            check_head(self._connections, self._records, self._last[0])
            if self._last[0] == 0:
                prepare_head(self._connections)
        except BaseException as error:
            self._finish()
            if isinstance(error, apsw.Error):
                raise translate(error) from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is None and self._conn is not None:
            self.commit()
        self._finish()
        if isinstance(error, apsw.Error):
            raise translate(error) from error

    def _finish(self) -> None:
        """Roll back what is not committed and give up the lock; safe to call again."""
        conn, self._conn = self._conn, None
        if self._held:
            self._held = False
            end(self._connections, conn, self._durable)

    def _open(self) -> apsw.Connection:
        self._connections.alive()
        if self._conn is None:
            raise ClosedHandle("this transaction is over; take the write lock again.")
        return self._conn

    @property
    def head(self) -> int:
        """Sequence of the last operation, those appended here included."""
        return self._last[0]

    def entries_after(self, after: int, limit: int | None = None) -> list[Entry]:
        """Read as `Journal.read` does, under the lock.

        Raises
        ------
        Behind, CorruptStore, FormatTooNew
            As `Journal.read`.
        """
        conn = self._open()
        if after == self._last[0] and self._last == self._records.known:
            return []  # the last row is the one that was verified last
        return self._records.read(conn, after, limit)

    def done(self, op_id: str) -> tuple[int, int] | None:
        """Sequence and time of an operation that was saved under this id; None if there is none."""
        return done(self._open(), op_id)

    def current(self) -> Pointer | None:
        """Say which snapshot is current; None before the first."""
        return self._records.meta(self._open()).current

    def append(self, drafts: Sequence[Draft]) -> list[Entry]:
        """Add operations after the last one; they are saved when the context ends.

        Raises
        ------
        InvalidInput
            An operation id is taken, or text cannot be written as UTF-8; the transaction is over.
        StoreError
            The disk is full or failed; nothing was changed and the transaction is over.
        """
        conn = self._open()
        position = self._last
        entries = []
        try:
            if drafts and self._records.format < FORMAT:
                self._write_meta(conn, self._records.meta(conn))
            for draft in drafts:
                entry, op_id = chain.seal(draft, position)
                conn.execute(
                    INSERT,
                    (
                        entry.seq,
                        op_id,
                        FORMAT,
                        entry.kind,
                        entry.at,
                        entry.body,
                        entry.vectors,
                        entry.hash,
                    ),
                )
                if op_id is not None:
                    conn.execute(INSERT_DONE, (op_id, entry.seq, entry.at))
                position = (entry.seq, entry.hash)
                entries.append(entry)
                self._name = self._name or entry.op_id or ""
        except BaseException as error:
            self._finish()
            if isinstance(error, apsw.ConstraintError):
                raise InvalidInput(
                    f"operation id {draft.op_id!r} was used before; nothing was stored. "
                    "Look ids up under the lock before appending."
                ) from error
            if isinstance(error, UnicodeEncodeError):
                raise InvalidInput(f"text that UTF-8 cannot hold ({error}).") from error
            if isinstance(error, apsw.Error):
                raise translate(error) from error
            raise
        self._last = position
        if entries:
            self._changed = self._appended = True
        return entries

    def publish(
        self, manifest: str, seq: int, digest: str, drop_through: int | None = None
    ) -> Pointer:
        """Make a snapshot current and drop the rows that the one before it holds.

        Parameters
        ----------
        manifest, digest : str
            Name and hash of the manifest.
        seq : int
            Sequence of the last operation in it.
        drop_through : int, optional
            Drop less than up to the previous snapshot.

        Returns
        -------
        Pointer
            The new current snapshot.

        Raises
        ------
        StoreError
            A later snapshot is current, or the journal does not hold `seq`.
        """
        conn = self._open()
        meta = self._records.meta(conn)
        previous = meta.current
        if previous is not None and seq < previous.seq:
            raise StoreError(
                f"a later snapshot ({previous.manifest}) is current; "
                f"{manifest} was not published and can be deleted."
            )
        pointer = Pointer(seq, manifest, digest, self._hash_at(meta, seq))
        through = meta.anchor[0] if previous is None else previous.seq
        if drop_through is not None:
            through = min(through, drop_through)
        self._drop(meta._replace(current=pointer), through)
        self._name = self._name or manifest
        return pointer

    def drop(self, through: int) -> int:
        """Drop the rows up to a sequence that the current snapshot holds; returns how many.

        Raises
        ------
        StoreError
            The current snapshot does not hold `through`.
        """
        conn = self._open()
        meta = self._records.meta(conn)
        held = meta.current.seq if meta.current is not None else 0
        if through > held:
            raise StoreError(
                f"operations up to {through} cannot be dropped: the current snapshot holds those "
                f"up to {held}. Take a snapshot first."
            )
        self._name = self._name or f"drop through {through}"
        return self._drop(meta, through)

    def _hash_at(self, meta: Meta, seq: int) -> bytes:
        """Chain hash after an operation."""
        for known in meta.known():
            if known[0] == seq:
                return known[1]
        rows = fetch(self._open(), "SELECT hash FROM journal WHERE seq = ?", (seq,))
        if not rows:
            raise StoreError(f"the journal does not hold operation {seq}; take a new snapshot.")
        return position_of(seq, rows[0][0])[1]

    def _drop(self, meta: Meta, through: int) -> int:
        conn = self._open()
        if not self._durable and self._connections.sync != "full":
            raise InvalidInput("publishing and dropping need locked(durable=True).")
        dropped = 0
        if through > meta.anchor[0]:
            anchor = (through, self._hash_at(meta, through))
            rows = "SELECT op_id, seq, at FROM journal WHERE seq <= ? AND op_id NOT NULL"
            ids = fetch(conn, rows, (through,))
            conn.execute("DELETE FROM journal WHERE seq <= ?", (through,))
            dropped = conn.changes()
            ids += self._forget_ids(conn, through)
            if meta.done is None:
                ids = fetch(conn, DONE, (through,))
            meta = meta._replace(anchor=anchor, done=chain.folded(NAME, ids, meta.done or 0))
        self._write_meta(conn, meta)
        return dropped

    def _write_meta(self, conn: apsw.Connection, meta: Meta) -> None:
        """Write what the journal says of itself; from now on it is of this version's format.

        So an older version refuses all of a store that may hold something new to it.
        """
        if meta.format < FORMAT:
            meta = meta._replace(format=FORMAT)
            conn.execute(f"PRAGMA user_version = {FORMAT}")
        conn.execute(UPDATE_META, meta.seal())
        self._changed = self._wrote_meta = True

    def _forget_ids(self, conn: apsw.Connection, through: int) -> list[Any]:
        """Forget operation ids of dropped rows, beyond seven days or a million; returns these."""
        newest = fetch(conn, "SELECT max(at) FROM done")[0][0] or 0
        oldest = 0
        # at most one id a sequence: only a long journal can hold too many
        if self._last[0] > DONE_IDS:
            kept = fetch(
                conn, "SELECT seq FROM done ORDER BY seq DESC LIMIT 1 OFFSET ?", (DONE_IDS - 1,)
            )
            oldest = kept[0][0] if kept else 0
        return fetch(
            conn,
            "DELETE FROM done WHERE seq <= ? AND (at < ? OR seq < ?) RETURNING op_id, seq, at",
            (through, newest - DONE_MICROSECONDS, oldest),
        )

    def commit(self) -> None:
        """Commit now and give up the lock, without waiting for the end of the context.

        Raises
        ------
        OutcomeUnknown
            The disk failed while saving; the handle takes no more writes.
        StoreError
            The disk is full; nothing was changed.
        """
        conn = self._open()
        if not self._changed:
            self._finish()
            return
        try:
            conn.execute("COMMIT")
        except Exception as error:
            self._finish()
            raise self._failed(error) from error
        except BaseException:  # an interrupt: SQLite finished one way or the other
            self._finish()
            raise
        try:
            self._records.known = self._last
            if self._wrote_meta:
                self._records.format = FORMAT
            advance_head(self._connections, self._last[0], self._durable)
            self._connections.shorten_log()
        finally:
            self._finish()

    def _failed(self, error: Exception) -> Exception:
        # The frame that commits is written last: where space ran out before it, nothing of the
        # transaction can ever be found. After any other failure a later recovery may find it.
        if isinstance(error, (apsw.FullError, apsw.BusyError)):
            return translate(error)
        name = self._name or f"number {self._last[0]}"
        self._connections.broken = f"saving {name} failed ({error})"
        if not self._appended:
            return StoreError(
                f"saving {name} failed ({error}), and it is not known whether it reached the "
                "disk. Delete nothing, and open the store again."
            )
        return OutcomeUnknown(name, str(error))
