"""What a handle holds open: its connections, their guards, and what a fork does to them."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from fastassoc.errors import (
    ClosedHandle,
    ForkedHandle,
    InvalidInput,
    ReadOnlyStore,
    StoreLocked,
)
from fastassoc.journal import host, sqlite
from fastassoc.journal.headfile import HeadFile
from fastassoc.journal.sqlite import NAME, POLL, fetch, translate

__all__ = ["Connections", "Guarded", "opened_here"]

WRITE_LOCK_BYTE = 120  # of -shm: SQLite's WAL_WRITE_LOCK
OFF_CHECKPOINT = 16_384  # frames of write-ahead log under sync="off"

T = TypeVar("T")


class Guarded:
    """A connection, and the lock that keeps two threads from using it at the same time."""

    __slots__ = ("conn", "lock", "owner", "thread")

    def __init__(self, owner: Connections, conn: apsw.Connection) -> None:
        self.owner = weakref.proxy(owner)
        self.conn: apsw.Connection | None = conn
        self.lock = threading.Lock()
        self.thread = 0  # that holds the lock for a transaction

    def __enter__(self) -> apsw.Connection:
        self.owner.alive()
        self.lock.acquire()
        if self.conn is None:
            self.lock.release()
            raise ClosedHandle("the store was closed; open it again.")
        return self.conn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: object
    ) -> None:
        conn = self.conn
        try:
            # an interrupt may have left a read transaction open, which would hide new rows
            if error is not None and conn is not None and conn.in_transaction:
                conn.execute("ROLLBACK")
        finally:
            self.lock.release()
        if isinstance(error, apsw.Error):
            raise translate(error) from error


class Connections:
    """The connections of one handle to the journal of a store, and its `head` file.

    Parameters
    ----------
    path : Path
        The store's folder.
    sync : str
        "full", "normal" or "off".
    timeout : float
        Seconds that locks are waited for.
    read_only : bool
        There is no connection that writes.
    vfs : str or None
        Name of a registered SQLite file system.

    Attributes
    ----------
    file : Path
        The database.
    reader, writer : Guarded or None
    counter : apsw.Cursor or None
        Of the reader, for what is asked with every read of a memory.
    head : HeadFile or None
    immutable : tuple of (int, int) or None
        Time and size of the file, where nobody can write it.
    broken : str
        Why nothing is written any more; empty if all is well.
    warning_counts : collections.Counter of str
        What was tolerated, by file.
    """

    def __init__(
        self, path: Path, sync: str, timeout: float, read_only: bool, vfs: str | None
    ) -> None:
        sqlite.check_level(sync)
        self.path = path
        self.file = path / NAME
        self.sync = sync
        self.timeout = timeout
        self.read_only = read_only
        self.warning_counts: Counter[str] = Counter()
        self.broken = ""
        self.immutable: tuple[int, int] | None = None
        self.reader: Guarded | None = None
        self.writer: Guarded | None = None
        self.counter: apsw.Cursor | None = None
        self.head: HeadFile | None = None
        self._vfs = vfs
        self._pid = os.getpid()
        self._frames = 0
        _OPEN.add(self)

    # -- opening --------------------------------------------------------------------------------

    def attach(self, writable: bool, check: Callable[[apsw.Connection, bool], None]) -> None:
        """Open the connections; `check` is shown the first, and whether it takes locks at all."""
        if writable:
            try:
                self._attach_reader(True, check)
            except (apsw.IOError, apsw.FullError, apsw.CantOpenError):
                if not self.read_only:
                    raise
                self._attach_reader(False, check)  # a full disk has no room for a log's index
        else:
            self._attach_reader(False, check)
        if not self.read_only:
            writer = self.patient(lambda: self.connect(self.file, writable=True))
            fetch(writer, "PRAGMA secure_delete = ON")
            if self.sync == "off":
                writer.wal_autocheckpoint(0)
                writer.set_wal_hook(_hook(self))
            self.writer = Guarded(self, writer)

    def _attach_reader(
        self, writable: bool, check: Callable[[apsw.Connection, bool], None]
    ) -> None:
        self.immutable = None
        if not writable:
            log = Path(f"{self.file}-wal")
            if log.exists() and log.stat().st_size > 0:
                raise ReadOnlyStore(
                    f"{self.path}: was not closed cleanly, or is open elsewhere "
                    f"({log.name} holds data), and cannot be written here. Open it once where it "
                    "can be written and close it, or copy the folder to such a place."
                )
            self.immutable = self.stamp()
        # A reader's connection may write where it can: whichever closes last folds the log in.
        reader = self.patient(lambda: self.connect(self.file, writable))
        if writable:
            reader.execute("PRAGMA query_only = ON")
        try:
            self._wait_when_busy(reader)
            check(reader, self.immutable is None)
        except BaseException:
            _keep_log(reader)
            reader.close()
            raise
        self.counter = reader.cursor()
        self.reader = Guarded(self, reader)

    def connect(self, file: Path, writable: bool) -> apsw.Connection:
        """Open one more connection at this handle's sync level."""
        return sqlite.connect(file, writable, self.sync, self._vfs)

    def second(self) -> apsw.Connection:
        """Open a connection for long work, so that reads go on meanwhile."""
        try:
            conn = self.patient(lambda: self.connect(self.file, writable=self.immutable is None))
            self._wait_when_busy(conn)
            conn.execute("PRAGMA query_only = ON")
        except apsw.Error as error:
            raise translate(error) from error
        return conn

    def _wait_when_busy(self, conn: apsw.Connection) -> None:
        conn.set_busy_timeout(max(1000, int(self.timeout * 1000)))

    def patient(self, action: Callable[[], T]) -> T:
        """Try again while another process recovers the log or closes the last handle."""
        start = time.monotonic()
        while True:
            try:
                return action()
            except apsw.BusyError as error:
                waited = time.monotonic() - start
                if waited >= self.timeout:
                    raise StoreLocked(waited, self.holder()) from error
                time.sleep(POLL)

    # -- while it is open -----------------------------------------------------------------------

    def alive(self) -> None:
        """Refuse a forked child: its parent's handle is not its own."""
        if self._pid != os.getpid():
            raise ForkedHandle(
                "the process forked after this store was opened; open the store again in the child."
            )

    def guard(self) -> Guarded:
        """The connection that reads."""
        if self.reader is None:
            raise ClosedHandle("the store was closed; open it again.")
        return self.reader

    def owned(self) -> bool:
        """Whether this process opened the handle."""
        return self._pid == os.getpid()

    def holder(self) -> int | None:
        """The process that holds the write lock, where the system tells it."""
        return host.lock_holder(Path(f"{self.file}-shm"), WRITE_LOCK_BYTE)

    def stamp(self) -> tuple[int, int]:
        """Time and size of the file."""
        info = os.stat(self.file)
        return info.st_mtime_ns, info.st_size

    def warn(self, file: str, text: str) -> None:
        """Say and count what is tolerated."""
        self.warning_counts[file] += 1
        warnings.warn(f"{self.path}: {text}", RuntimeWarning, stacklevel=3)

    def shorten_log(self) -> None:
        """Fold a log that has grown long under ``sync="off"`` into the database."""
        if self._frames > OFF_CHECKPOINT and self.writer is not None:
            conn = self.writer.conn
            assert conn is not None
            # SQLite would checkpoint without a sync here, and a loss of power could then tear
            # the database itself, not only the operations since the last snapshot.
            with contextlib.suppress(apsw.Error):
                conn.execute("PRAGMA synchronous = NORMAL")
                conn.wal_checkpoint()
            with contextlib.suppress(apsw.Error):
                conn.execute("PRAGMA synchronous = OFF")
            self._frames = 0

    # -- closing --------------------------------------------------------------------------------

    def shut(self, wait: bool) -> None:
        """Close everything; safe to repeat."""
        if not self.owned():
            return  # a child owns neither the locks nor the connections
        for guard in (self.reader, self.writer):
            if guard is None:
                continue
            if wait and guard.thread == threading.get_ident():
                raise InvalidInput("close the handle after its transaction, not inside it.")
            held = guard.lock.acquire(blocking=wait)
            conn, guard.conn = guard.conn, None
            if held:
                guard.lock.release()
            if conn is not None:
                self._close(conn)
        if self.head is not None:
            with contextlib.suppress(OSError):
                if self.sync != "off" and not self.broken:
                    self.head.sync()
            self.head.close()

    def _close(self, conn: apsw.Connection) -> None:
        with contextlib.suppress(apsw.Error):
            if self.broken:  # a failed sync is not tried again; the next open recovers
                _keep_log(conn)
            elif self.sync == "off" and self.immutable is None:
                conn.execute("PRAGMA synchronous = NORMAL")  # the log goes: sync what replaces it
        with contextlib.suppress(apsw.Error):
            conn.close()
        with contextlib.suppress(apsw.Error):
            conn.close(True)

    def __del__(self) -> None:
        if sys is not None and getattr(self, "_pid", 0) == os.getpid():
            self.shut(wait=False)  # nobody else can hold a lock of a handle that is garbage


def _keep_log(conn: apsw.Connection) -> None:
    """Let the close of a connection leave the log as it is."""
    with contextlib.suppress(apsw.Error):
        conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def _hook(connections: Connections) -> Callable[[apsw.Connection, str, int], int]:
    owner = weakref.ref(connections)  # a connection must not keep its handle alive

    def count(conn: apsw.Connection, name: str, frames: int) -> int:
        handle = owner()
        if handle is not None:
            handle._frames = frames
        return apsw.SQLITE_OK

    return count


_OPEN: weakref.WeakSet[Connections] = weakref.WeakSet()


def opened_here(path: Path) -> bool:
    """Whether this process has the store at `path` open."""
    return any(
        one.reader is not None and one.reader.conn is not None and _is_same(one.path, path)
        for one in list(_OPEN)
    )


def _is_same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):  # a store that somebody removed is no other's
        return one.samefile(other)
    return False


def _leave_parent_alone() -> None:
    """In a forked child: keep inherited connections for ever, since closing one touches files."""
    import ctypes

    for connections in list(_OPEN):
        for guard in (connections.reader, connections.writer):
            if guard is not None and guard.conn is not None:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(guard.conn))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connections.counter))


os.register_at_fork(after_in_child=_leave_parent_alone)
