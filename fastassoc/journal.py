"""The journal: the order of everything since the last snapshots, and which snapshot is current.

A port of four verbs (append, read, head, drop) and a write lock. It moves JSON text and bytes and
knows no note and no link; SQLite is one implementation and nothing above knows. Nobody opens
``journal.db``, ``-wal`` or ``-shm`` but SQLite: closing any other descriptor of them would cancel
its locks.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
import uuid
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import apsw

from fastassoc import chain, host
from fastassoc.chain import FORMAT, Draft, Entry, Meta, Pointer, Position
from fastassoc.errors import (
    ClosedHandle,
    CorruptStore,
    FastAssocError,
    ForkedHandle,
    FormatTooNew,
    InvalidInput,
    OutcomeUnknown,
    ReadOnlyStore,
    StoreError,
    StoreExists,
    StoreLocked,
    StoreNotFound,
    VacuumIncomplete,
)
from fastassoc.headfile import HeadFile

__all__ = ["Behind", "Draft", "Entry", "Journal", "Pointer", "Transaction"]

NAME = "journal.db"
APPLICATION = 0x66617373  # "fass", in SQLite's header
POLL = 0.002  # seconds between two tries for the write lock
WRITE_LOCK_BYTE = 120  # of -shm: SQLite's WAL_WRITE_LOCK
OFF_CHECKPOINT = 16_384  # frames of write-ahead log under sync="off"
DONE_MICROSECONDS = 7 * 86_400 * 1_000_000
DONE_IDS = 1_000_000
CHUNK = 4096  # rows fetched at once where all are walked
LEVELS = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}

SCHEMA = """
CREATE TABLE journal (seq INTEGER PRIMARY KEY, op_id BLOB, format INTEGER NOT NULL,
    kind TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL, vectors BLOB, hash BLOB NOT NULL);
CREATE TABLE done (op_id BLOB PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), content TEXT NOT NULL,
    hash BLOB NOT NULL);
"""
ROWS = (
    "SELECT seq, op_id, format, kind, at, body, vectors, hash FROM journal "
    "WHERE seq >= ? ORDER BY seq LIMIT ?"
)
LAST = "SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1"
INSERT = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
VERSION = "PRAGMA data_version"
INSERT_DONE = "INSERT INTO done VALUES (?, ?, ?)"

T = TypeVar("T")


class Behind(StoreError):
    """A reader is further behind than the journal reaches; it reloads from the snapshot.

    Attributes
    ----------
    position, reaches : int
        Where the reader is, and the earliest position from which the journal can be read.
    """

    def __init__(self, position: int, reaches: int) -> None:
        self.position = position
        self.reaches = reaches
        super().__init__(
            f"the journal reaches back to operation {reaches}, this reader is at {position}: "
            "load the current snapshot."
        )


def _translate(error: Exception) -> Exception:
    """Turn an error of SQLite outside a commit into one of ours; nothing was changed."""
    if isinstance(error, FastAssocError):
        return error
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.FormatError)):
        return CorruptStore(NAME, f"SQLite cannot read it ({error})")
    if isinstance(error, apsw.FullError):
        return StoreError(
            f"the disk is full ({error}). Nothing was changed: free some space and try again."
        )
    if isinstance(error, (apsw.ReadOnlyError, apsw.PermissionsError)):
        return ReadOnlyStore(f"the store cannot be written here ({error}); open it read-only.")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreLocked(0.0, None)
    if isinstance(error, (apsw.IOError, apsw.CantOpenError)):
        return StoreError(
            f"the disk failed ({error}). Nothing was changed: look at the disk, then try again."
        )
    if isinstance(error, apsw.NoMemError):
        return MemoryError(str(error))
    return StoreError(f"SQLite failed ({error}). Nothing was changed.")


class _Guarded:
    """A connection, and the lock that keeps two threads from using it at the same time."""

    __slots__ = ("conn", "lock", "owner", "thread")

    def __init__(self, owner: Journal, conn: apsw.Connection) -> None:
        self.owner = weakref.proxy(owner)
        self.conn: apsw.Connection | None = conn
        self.lock = threading.Lock()
        self.thread = 0  # that holds the lock for a transaction

    def __enter__(self) -> apsw.Connection:
        self.owner._alive()
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
            raise _translate(error) from error


class Transaction:
    """The write lock, as a context: what is appended is committed at its end, or nothing is.

    Made by `Journal.locked`. An exception inside rolls everything back.
    """

    def __init__(self, journal: Journal, timeout: float, durable: bool) -> None:
        self._journal = journal
        self._timeout = timeout
        self._durable = durable
        self._conn: apsw.Connection | None = None
        self._last: Position = (0, b"")
        self._name = ""  # of the operation whose outcome a failed commit leaves unknown
        self._changed = False
        self._appended = False
        self._held = False

    def __enter__(self) -> Transaction:
        journal = self._journal
        self._conn = journal._begin(self._timeout, self._durable)
        self._held = True
        try:
            self._last = journal._last(self._conn)
            journal._check_head(self._last[0])
        except BaseException as error:
            self._finish()
            if isinstance(error, apsw.Error):
                raise _translate(error) from error
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
            raise _translate(error) from error

    def _finish(self) -> None:
        """Roll back what is not committed and give up the lock; safe to call again."""
        conn, self._conn = self._conn, None
        if self._held:
            self._held = False
            self._journal._end(conn, self._durable)

    def _open(self) -> apsw.Connection:
        self._journal._alive()
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
        return self._journal._read(self._open(), after, limit)

    def done(self, op_id: str) -> tuple[int, int] | None:
        """Sequence and time of an operation that was saved under this id; None if there is none."""
        return _done(self._open(), op_id)

    def current(self) -> Pointer | None:
        """Say which snapshot is current; None before the first."""
        return self._journal._meta(self._open()).current

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
                raise _translate(error) from error
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
        meta = self._journal._meta(conn)
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
        meta = self._journal._meta(conn)
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
        rows = _rows(self._open(), "SELECT hash FROM journal WHERE seq = ?", (seq,))
        if not rows:
            raise StoreError(f"the journal does not hold operation {seq}; take a new snapshot.")
        return bytes(rows[0][0])

    def _drop(self, meta: Meta, through: int) -> int:
        conn = self._open()
        if not self._durable and self._journal.sync != "full":
            raise InvalidInput("publishing and dropping need locked(durable=True).")
        dropped = 0
        if through > meta.anchor[0]:
            meta = meta._replace(anchor=(through, self._hash_at(meta, through)))
            conn.execute("DELETE FROM journal WHERE seq <= ?", (through,))
            dropped = conn.changes()
            self._forget_ids(conn, through)
        content, digest = meta.seal()
        conn.execute("UPDATE meta SET content = ?, hash = ?", (content, digest))
        self._changed = True
        return dropped

    def _forget_ids(self, conn: apsw.Connection, through: int) -> None:
        """Forget operation ids of dropped rows, beyond seven days or a million."""
        newest = _rows(conn, "SELECT max(at) FROM done")[0][0] or 0
        oldest = 0
        # at most one id a sequence: only a long journal can hold too many
        if self._last[0] > DONE_IDS:
            kept = _rows(
                conn, "SELECT seq FROM done ORDER BY seq DESC LIMIT 1 OFFSET ?", (DONE_IDS - 1,)
            )
            oldest = kept[0][0] if kept else 0
        conn.execute(
            "DELETE FROM done WHERE seq <= ? AND (at < ? OR seq < ?)",
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
            self._journal._committed(self._last, self._durable)
        finally:
            self._finish()

    def _failed(self, error: Exception) -> Exception:
        # The frame that commits is written last: where space ran out before it, nothing of the
        # transaction can ever be found. After any other failure a later recovery may find it.
        if isinstance(error, (apsw.FullError, apsw.BusyError)):
            return _translate(error)
        name = self._name or f"number {self._last[0]}"
        self._journal._break(f"saving {name} failed ({error})")
        if not self._appended:
            return StoreError(
                f"saving {name} failed ({error}), and it is not known whether it reached the "
                "disk. Delete nothing, and open the store again."
            )
        return OutcomeUnknown(name, str(error))


class Journal:
    """A store's journal: one handle, usable from many threads.

    Made by `create` and `open`.

    Attributes
    ----------
    path : Path
        The store's folder.
    store_id : str
        Identity of the store, 32 hex digits, given at its creation.
    sync : str
        "full", "normal" or "off".
    read_only : bool
        Nothing can be written through this handle.
    warning_counts : collections.Counter of str
        What was tolerated, by file: losses under ``sync="normal"`` and "off", a `head` that
        could not be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fastassoc.journal import Draft, Journal
    >>> folder = Path(tempfile.mkdtemp()) / "store"
    >>> with Journal.create(folder) as journal:
    ...     with journal.locked() as transaction:
    ...         entries = transaction.append([Draft("id-1", "write", 0, "{}")])
    ...     [entry.seq for entry in journal.read(0)]
    [1]
    """

    def __init__(
        self,
        path: Path,
        sync: str,
        timeout: float,
        read_only: bool,
        vfs: str | None,
    ) -> None:
        if sync not in LEVELS:
            raise InvalidInput(f"sync: found {sync!r}, expected one of {', '.join(LEVELS)}.")
        self.path = Path(path)
        self.sync = sync
        self.timeout = timeout
        self.read_only = read_only
        self.store_id = ""
        self.warning_counts: Counter[str] = Counter()
        self._file = self.path / NAME
        self._vfs = vfs
        self._pid = os.getpid()
        self._broken = ""
        self._immutable: tuple[int, int] | None = None
        self._reader: _Guarded | None = None
        self._writer: _Guarded | None = None
        self._counter: apsw.Cursor | None = None
        self._head: HeadFile | None = None
        self._known: Position | None = None  # the last row that was verified
        self._seen: tuple[int, int] = (-1, -1)  # data_version and the head under it
        self._cached: tuple[str, bytes, Meta] | None = None
        self._sized: tuple[int, int, int] = (-1, 0, 0)  # from, to, bytes
        self._frames = 0
        _HANDLES.add(self)

    # -- making and closing ---------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        sync: str = "full",
        timeout: float = 30.0,
        vfs: str | None = None,
    ) -> Journal:
        """Make a store's folder and its empty journal, and open it.

        Parameters
        ----------
        path : str or Path
            A folder that does not exist, or is empty.
        sync : str
            What a commit promises: "full", "normal" or "off".
        timeout : float
            Seconds that the write lock is waited for.
        vfs : str, optional
            Name of a registered SQLite file system, for tests.

        Returns
        -------
        Journal

        Raises
        ------
        StoreExists
            Something is at `path` already.
        StoreError
            The folder cannot be made, or lies on a network file system.
        """
        journal = cls(Path(path), sync, timeout, False, vfs)
        try:
            journal.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = [n for n in os.listdir(journal.path) if not n.startswith(".new-")]
            if found:
                raise StoreExists(
                    f"{path}: holds {len(found)} files already; open it, or name an empty folder."
                )
            os.chmod(journal.path, 0o700)
        except FileExistsError as error:
            raise StoreExists(f"{path}: is a file; name a folder.") from error
        except OSError as error:
            raise StoreError(f"{path}: cannot make the store ({error}).") from error
        journal._refuse_network()
        journal._make()
        return cls.open(path, sync=sync, timeout=timeout, vfs=vfs)

    def _make(self) -> None:
        """Write a whole journal under another name, then link it: nobody sees half of one."""
        draft = self.path / f".new-{uuid.uuid4().hex}"
        meta = Meta(FORMAT, uuid.uuid4().hex, (0, b""), None)
        meta = meta._replace(anchor=(0, meta.genesis()))
        conn: apsw.Connection | None = None
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            conn = self._connect(draft, writable=True)
            _rows(conn, "PRAGMA journal_mode = WAL")
            conn.execute(f"PRAGMA application_id = {APPLICATION}")
            conn.execute(f"PRAGMA user_version = {FORMAT}")
            _rows(conn, "BEGIN IMMEDIATE")
            _rows(conn, SCHEMA)
            conn.execute("INSERT INTO meta VALUES (1, ?, ?)", meta.seal())
            conn.execute("COMMIT")
            conn.close()
            os.link(draft, self._file)
        except (apsw.Error, OSError) as error:
            if self._file.exists():
                raise StoreExists(f"{self.path}: another process made a store there.") from error
            if isinstance(error, apsw.Error):
                raise _translate(error) from error
            raise StoreError(f"{self.path}: cannot make the store ({error}).") from error
        finally:
            if conn is not None:
                conn.close(True)
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    os.unlink(f"{draft}{suffix}")
        try:
            HeadFile(self.path / "head", meta.key()).create(0)
            for stale in self.path.glob(".new-*"):  # creations that were cut short, or too late
                stale.unlink(missing_ok=True)
            host.sync_folder(self.path)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot make the store ({error}).") from error

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        sync: str = "full",
        timeout: float = 30.0,
        read_only: bool = False,
        vfs: str | None = None,
    ) -> Journal:
        """Open the journal of a store.

        On media that cannot be written a store opens read-only and immutable, if it was closed
        cleanly: the handle shows that moment, and says so if the files change under it.

        Parameters
        ----------
        path : str or Path
            The store's folder.
        sync, timeout, vfs
            As for `create`.
        read_only : bool
            Take no writes.

        Returns
        -------
        Journal

        Raises
        ------
        StoreNotFound
            There is no store.
        CorruptStore
            The journal is missing from a store, damaged, or (under "full") ends before `head`.
        FormatTooNew
            A newer version wrote it.
        ReadOnlyStore
            It cannot be written here, or was not closed cleanly on media that cannot be written.
        StoreLocked
            Others kept it locked for `timeout` seconds.
        """
        journal = cls(Path(path), sync, timeout, read_only, vfs)
        journal._look()
        writable = journal._may_write()
        try:
            journal._attach(writable)
        except BaseException as error:
            journal.close()
            if isinstance(error, apsw.Error):
                raise _translate(error) from error
            raise
        return journal

    def _look(self) -> None:
        """Check by name and size what SQLite would take for an empty database."""
        if not self.path.is_dir():
            raise StoreNotFound(f"{self.path}: there is no store here.")
        try:
            info = os.lstat(self._file)
        except OSError as error:
            known = ("head", "manifest-", "segments")
            if any(name.startswith(known) for name in os.listdir(self.path)):
                raise CorruptStore(NAME, "is missing or cannot be read") from error
            raise StoreNotFound(f"{self.path}: there is no store in this folder.") from error
        for suffix in ("", "-wal", "-shm"):
            if os.path.islink(f"{self._file}{suffix}"):
                raise CorruptStore(NAME + suffix, "is a symbolic link")
        if not stat.S_ISREG(info.st_mode) or info.st_size == 0:
            raise CorruptStore(NAME, "is empty or not a file")

    def _may_write(self) -> bool:
        """Whether SQLite may write here: it does for reading too, where it can."""
        if not self.read_only:
            self._refuse_network()
        elif host.network_filesystem(self.path) is not None:
            return False
        writable = os.access(self.path, os.W_OK | os.X_OK) and os.access(self._file, os.W_OK)
        if not writable and not self.read_only:
            raise ReadOnlyStore(
                f"{self.path}: cannot be written; open it with read_only=True to read it."
            )
        return writable

    def _refuse_network(self) -> None:
        kind = host.network_filesystem(self.path)
        if kind is not None:
            raise StoreError(
                f"{self.path}: lies on a network file system ({kind}), whose locks do not hold "
                "between hosts. Keep the store on a local disk; read_only=True can read it there."
            )

    def _attach(self, writable: bool) -> None:
        if writable:
            try:
                self._attach_reader(True)
            except (apsw.IOError, apsw.FullError, apsw.CantOpenError):
                if not self.read_only:
                    raise
                self._attach_reader(False)  # a full disk has no room for a log's index
        else:
            self._attach_reader(False)
        if not self.read_only:
            writer = self._patient(lambda: self._connect(self._file, writable=True))
            _rows(writer, "PRAGMA secure_delete = ON")
            if self.sync == "off":
                writer.wal_autocheckpoint(0)
                writer.set_wal_hook(_hook(self))
            self._writer = _Guarded(self, writer)
        self._head = HeadFile(self.path / "head", bytes.fromhex(self.store_id))
        self._check_head(None)

    def _attach_reader(self, writable: bool) -> None:
        self._immutable = None
        if not writable:
            log = Path(f"{self._file}-wal")
            if log.exists() and log.stat().st_size > 0:
                raise ReadOnlyStore(
                    f"{self.path}: was not closed cleanly, or is open elsewhere "
                    f"({log.name} holds data), and cannot be written here. Open it once where it "
                    "can be written and close it, or copy the folder to such a place."
                )
            self._immutable = self._stamp()
        # A reader's connection may write where it can: whichever closes last folds the log in.
        reader = self._patient(lambda: self._connect(self._file, writable))
        if writable:
            reader.execute("PRAGMA query_only = ON")
        try:
            self._check_file(reader)
        except BaseException:
            reader.close()
            raise
        self._counter = reader.cursor()  # `changed` is called for every read of a memory
        self._reader = _Guarded(self, reader)

    def _connect(self, file: Path, writable: bool) -> apsw.Connection:
        if writable:
            conn = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs)
        else:
            name = f"file:{quote(str(file.absolute()))}?immutable=1"
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            conn = apsw.Connection(name, flags=flags, vfs=self._vfs)
        # a planted database runs nothing
        conn.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        conn.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        conn.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        conn.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        for pragma in (
            f"synchronous = {LEVELS[self.sync]}",
            "cell_size_check = ON",
            "temp_store = MEMORY",
            "journal_size_limit = 67108864",
        ):
            _rows(conn, f"PRAGMA {pragma}")
        return conn

    def _patient(self, action: Callable[[], T]) -> T:
        """Try again while another process recovers the log or closes the last handle."""
        start = time.monotonic()
        while True:
            try:
                return action()
            except apsw.BusyError as error:
                waited = time.monotonic() - start
                if waited >= self.timeout:
                    raise StoreLocked(waited, self._holder()) from error
                time.sleep(POLL)

    def _check_file(self, conn: apsw.Connection) -> None:
        """Read what the file says it is."""
        conn.set_busy_timeout(max(1000, int(self.timeout * 1000)))
        told = int(_rows(conn, "PRAGMA user_version")[0][0])
        try:
            meta = self._meta(conn)
        except CorruptStore:
            if told > FORMAT:  # a newer format may keep its meta otherwise
                raise FormatTooNew(told, FORMAT) from None
            raise
        if told != meta.format:
            raise CorruptStore(NAME, f"its header says format {told}, its table {meta.format}")
        mode = _rows(conn, "PRAGMA journal_mode")[0][0]
        if mode != "wal" and self._immutable is None:
            raise CorruptStore(NAME, f"is in journal mode {mode}, expected wal")
        self.store_id = meta.store

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the handle; the last one to close leaves no write-ahead log. Safe to repeat."""
        self._shut(wait=True)

    def _shut(self, wait: bool) -> None:
        if self._pid != os.getpid():
            return  # a child owns neither the locks nor the connections
        for guard in (self._reader, self._writer):
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
        if self._head is not None:
            with contextlib.suppress(OSError):
                if self.sync != "off" and not self._broken:
                    self._head.sync()
            self._head.close()

    def _close(self, conn: apsw.Connection) -> None:
        with contextlib.suppress(apsw.Error):
            if self._broken:  # a failed sync is not tried again; the next open recovers
                conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            elif self.sync == "off" and self._immutable is None:
                conn.execute("PRAGMA synchronous = NORMAL")  # the log goes: sync what replaces it
        with contextlib.suppress(apsw.Error):
            conn.close()
        with contextlib.suppress(apsw.Error):
            conn.close(True)

    def __del__(self) -> None:
        if sys is not None and getattr(self, "_pid", 0) == os.getpid():
            self._shut(wait=False)  # nobody else can hold a lock of a handle that is garbage

    def _alive(self) -> None:
        if self._pid != os.getpid():
            raise ForkedHandle(
                "the process forked after this store was opened; open the store again in the child."
            )

    def _break(self, reason: str) -> None:
        self._broken = reason

    def _warn(self, file: str, text: str) -> None:
        self.warning_counts[file] += 1
        warnings.warn(f"{self.path}: {text}", RuntimeWarning, stacklevel=3)

    # -- reading --------------------------------------------------------------------------------

    def _guard(self) -> _Guarded:
        if self._reader is None:
            raise ClosedHandle("the store was closed; open it again.")
        return self._reader

    def changed(self, position: int) -> bool:
        """Say whether the journal's head is another than the caller's position.

        Nothing is read but a counter unless somebody (this handle too) wrote since the last call.

        Raises
        ------
        StoreError
            The files of a store on media that cannot be written changed after all.
        """
        with self._guard() as conn:
            if self._immutable is not None and self._stamp() != self._immutable:
                raise StoreError(
                    f"{self.path}: was opened as media that cannot be written, but somebody "
                    "writes it. Open it again."
                )
            assert self._counter is not None
            rows: list[tuple[Any, ...]] = self._counter.execute(VERSION).fetchall()
            version = rows[0][0]
            if version != self._seen[0]:
                # the head may be newer than the version: then the next call looks again
                self._seen = (version, self._last(conn)[0])
            return self._seen[1] != position

    def head(self) -> int:
        """Sequence of the last operation; 0 before the first."""
        with self._guard() as conn:
            return self._last(conn)[0]

    def read(self, after: int, limit: int | None = None) -> list[Entry]:
        """Read the operations after a position, in order, each checked against the chain.

        Parameters
        ----------
        after : int
            Sequence of the last operation the caller has.
        limit : int, optional
            At most so many.

        Returns
        -------
        list of Entry

        Raises
        ------
        Behind
            Operations after `after` were dropped: load the current snapshot.
        CorruptStore
            A row does not match the chain, or the journal ends before `after`.
        FormatTooNew
            A newer version wrote a row.
        """
        with self._guard() as conn:
            return self._read(conn, after, limit)

    def current(self) -> Pointer | None:
        """Say which snapshot is current; None before the first."""
        with self._guard() as conn:
            return self._meta(conn).current

    def done(self, op_id: str) -> tuple[int, int] | None:
        """Sequence and time of an operation that was saved under this id; None if there is none."""
        with self._guard() as conn:
            return _done(conn, op_id)

    def size(self) -> tuple[int, int]:
        """Operations that the current snapshot lacks, and their bytes (bodies and vectors)."""
        with self._guard() as conn:
            meta = self._meta(conn)
            start = meta.current.seq if meta.current is not None else 0
            last = self._last(conn)[0]
            first, upto, total = self._sized
            if first != start or upto > last:
                upto, total = start, 0
            if upto < last:
                total += _rows(
                    conn,
                    "SELECT ifnull(sum(octet_length(body) + ifnull(octet_length(vectors), 0)), 0) "
                    "FROM journal WHERE seq > ? AND seq <= ?",
                    (upto, last),
                )[0][0]
            self._sized = (start, last, total)
            return last - start, total

    def _meta(self, conn: apsw.Connection) -> Meta:
        rows = _rows(conn, "SELECT content, hash FROM meta")
        if len(rows) != 1:
            raise CorruptStore(NAME, f"has {len(rows)} meta rows, expected 1")
        content, digest = rows[0]
        if self._cached is not None and self._cached[:2] == (content, digest):
            return self._cached[2]
        meta = Meta.parse(NAME, content, digest)
        if self.store_id and meta.store != self.store_id:
            raise CorruptStore(NAME, "was replaced by another store's journal")
        self._cached = (content, digest, meta)
        return meta

    def _last(self, conn: apsw.Connection) -> Position:
        rows = _rows(conn, LAST)
        if rows:
            return rows[0][0], bytes(rows[0][1])
        return self._meta(conn).anchor

    def _read(self, conn: apsw.Connection, after: int, limit: int | None) -> list[Entry]:
        known = self._known
        most = -1 if limit is None else limit
        if known is not None and known[0] == after:
            rows = _rows(conn, ROWS, (after, most if most < 0 else most + 1))
            if rows and rows[0][0] == after:
                if bytes(rows[0][7]) != known[1]:
                    raise CorruptStore(NAME, f"operation {after} is not the one read before")
                return self._verified(conn, rows[1:], known)
        if conn.in_transaction:
            return self._walk(conn, after, most)
        conn.execute("BEGIN")  # several statements, one moment
        try:
            return self._walk(conn, after, most)
        finally:
            conn.execute("COMMIT")

    def _walk(self, conn: apsw.Connection, after: int, most: int) -> list[Entry]:
        """Read from a position whose hash is not at hand: verify from the nearest one that is."""
        meta = self._meta(conn)
        if after < meta.anchor[0]:
            raise Behind(after, meta.anchor[0])
        last = self._last(conn)[0]
        if after > last:
            raise CorruptStore(NAME, f"ends at operation {last}, but {after} was read before")
        bases = [known for known in meta.known() if known[0] <= after]
        if self._known is not None and self._known[0] <= after:
            bases.append(self._known)
        base = max(bases)
        while base[0] < after:
            rows = _rows(conn, ROWS, (base[0] + 1, min(CHUNK, after - base[0])))
            if not rows:
                raise CorruptStore(NAME, f"lacks operation {base[0] + 1}")
            self._verified(conn, rows, base)
            base = (rows[-1][0], bytes(rows[-1][7]))
        rows = _rows(conn, ROWS, (after, most if most < 0 else most + 1))
        if rows and rows[0][0] == after:
            if bytes(rows[0][7]) != base[1]:
                raise CorruptStore(NAME, f"operation {after} does not match the chain")
            del rows[0]
        elif after > meta.anchor[0]:
            raise CorruptStore(NAME, f"lacks operation {after}")
        return self._verified(conn, rows if most < 0 else rows[:most], base)

    def _verified(
        self, conn: apsw.Connection, rows: Sequence[Sequence[Any]], base: Position
    ) -> list[Entry]:
        try:
            entries = chain.verify(NAME, rows, base)
        except CorruptStore:
            newer = self._meta(conn).format  # a newer version may have taken over meanwhile
            if newer > FORMAT:
                raise FormatTooNew(newer, FORMAT) from None
            raise
        if entries:
            self._known = (entries[-1].seq, entries[-1].hash)
        elif self._known is None or self._known[0] < base[0]:
            self._known = base
        return entries

    def _check_head(self, last: int | None) -> None:
        """Compare with `head`: read it first, so that commits in between do no harm."""
        head = self._head
        if head is None:
            return
        if last is None:
            with self._guard() as conn:
                acknowledged, wrong = head.read(self._last(conn)[0])
                last = self._last(conn)[0]
        else:
            acknowledged, wrong = head.read(last)
        if acknowledged is not None and acknowledged <= last and not wrong:
            return
        if acknowledged is None and last == 0:
            return  # a creation that was cut short; the first commit writes it
        if acknowledged is not None and acknowledged > last:
            file, reason = NAME, f"ends at operation {last}, but {acknowledged} was acknowledged"
        else:
            file, reason = "head", wrong
        if self.sync == "full" and (file == NAME or acknowledged is None):
            raise CorruptStore(file, f'{reason} (sync="normal" opens it, without what is missing)')
        if not self.warning_counts[file]:
            self._warn(file, f"{file} {reason}")

    # -- writing --------------------------------------------------------------------------------

    def locked(self, timeout: float | None = None, *, durable: bool = False) -> Transaction:
        """Take the write lock, as a context.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for it; the handle's own if not given. 0 tries once.
        durable : bool
            Sync this commit whatever the handle's level, as `publish` needs.

        Returns
        -------
        Transaction
            Committed at the end of the context if anything was appended; rolled back if an
            exception leaves it.

        Raises
        ------
        StoreLocked
            On entering: others held it for too long.
        CorruptStore
            On entering, under ``sync="full"``: the journal ends before `head`.
        ReadOnlyStore, ClosedHandle, ForkedHandle
            On entering: this handle cannot write.
        OutcomeUnknown, StoreError
            On leaving: see `Transaction.commit`.
        """
        return Transaction(self, self.timeout if timeout is None else timeout, durable)

    def publish(
        self,
        manifest: str,
        seq: int,
        digest: str,
        drop_through: int | None = None,
        timeout: float | None = None,
    ) -> Pointer:
        """Make a snapshot current, on the disk at every sync level; see `Transaction.publish`."""
        with self.locked(timeout, durable=True) as transaction:
            return transaction.publish(manifest, seq, digest, drop_through)

    def drop(self, through: int, timeout: float | None = None) -> int:
        """Drop rows that the current snapshot holds; see `Transaction.drop`."""
        with self.locked(timeout, durable=True) as transaction:
            return transaction.drop(through)

    def _begin(self, timeout: float, durable: bool) -> apsw.Connection:
        self._alive()
        guard = self._writer
        if guard is None:
            raise ReadOnlyStore(f"{self.path}: is open read-only; open it for writing.")
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
            if self._broken:
                raise ClosedHandle(
                    f"this handle takes no more writes: {self._broken}. Open the store again."
                )
            if durable and self.sync != "full":
                conn.execute("PRAGMA synchronous = FULL")
            while True:
                try:
                    conn.execute("BEGIN IMMEDIATE")
                    return conn
                except apsw.BusyError as error:
                    waited = time.monotonic() - start
                    if waited >= timeout:
                        raise StoreLocked(waited, self._holder()) from error
                    time.sleep(POLL)
        except BaseException as error:
            self._end(conn, durable)
            if isinstance(error, apsw.Error):
                raise _translate(error) from error
            raise

    def _end(self, conn: apsw.Connection | None, durable: bool) -> None:
        """Leave no transaction open, put the sync level back, let the next thread in."""
        guard = self._writer
        assert guard is not None
        if self._pid != os.getpid():
            return
        conn = conn if conn is not None else guard.conn
        try:
            if conn is not None:
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
                if durable and self.sync != "full":
                    conn.execute(f"PRAGMA synchronous = {LEVELS[self.sync]}")
        except apsw.Error as error:
            self._break(f"a rollback failed ({error})")
        finally:
            guard.thread = 0
            guard.lock.release()

    def _committed(self, last: Position, durable: bool) -> None:
        """Follow a commit: remember the position, write `head`, keep the log short."""
        self._known = last
        assert self._head is not None
        try:
            self._head.advance(last[0])
            if durable:
                self._head.sync()
        except OSError as error:  # the operation is saved; only the guard of its end is not
            self._warn("head", f"head could not be written ({error})")
        if self._frames > OFF_CHECKPOINT and self._writer is not None:
            conn = self._writer.conn
            assert conn is not None
            # SQLite would checkpoint without a sync here, and a loss of power could then tear
            # the database itself, not only the operations since the last snapshot.
            with contextlib.suppress(apsw.Error):
                conn.execute("PRAGMA synchronous = NORMAL")
                conn.wal_checkpoint()
            with contextlib.suppress(apsw.Error):
                conn.execute("PRAGMA synchronous = OFF")
            self._frames = 0

    def _holder(self) -> int | None:
        return host.lock_holder(Path(f"{self._file}-shm"), WRITE_LOCK_BYTE)

    def _stamp(self) -> tuple[int, int]:
        info = os.stat(self._file)
        return info.st_mtime_ns, info.st_size

    # -- care -----------------------------------------------------------------------------------

    def truncate_wal(self, timeout: float | None = None) -> None:
        """Fold the log into the database and empty it, so that erased rows are in neither.

        Raises
        ------
        VacuumIncomplete
            Readers or a writer held the log for longer than `timeout`.
        StoreError
            The disk failed.
        """
        wait = self.timeout if timeout is None else timeout
        start = time.monotonic()
        with self.locked(wait):  # proves that this handle may write, and waits for the lock
            pass
        guard = self._writer
        assert guard is not None
        while True:
            with guard as conn:
                try:
                    free = _rows(conn, "PRAGMA freelist_count")[0][0]
                    pages = _rows(conn, "PRAGMA page_count")[0][0]
                    if free > 256 and free > pages // 4:
                        conn.execute("VACUUM")  # give the room back, too
                    if self.sync == "off":
                        conn.execute("PRAGMA synchronous = NORMAL")
                    conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    return
                except (apsw.BusyError, apsw.LockedError):
                    pass
                finally:
                    if self.sync == "off":
                        conn.execute("PRAGMA synchronous = OFF")
            if time.monotonic() - start >= wait:
                raise VacuumIncomplete(
                    f"{NAME}-wal: readers held it for {wait:.1f} s, and erased text may still be "
                    "in it; close them and run vacuum again."
                )
            time.sleep(POLL)

    def backup(self, destination: str | Path) -> Pointer | None:
        """Copy the journal and its `head` into a folder, as of one moment.

        Parameters
        ----------
        destination : str or Path
            A folder without a journal; made if it is missing.

        Returns
        -------
        Pointer or None
            The snapshot that is current in the copy: the one whose files belong to it.

        Raises
        ------
        StoreExists
            `destination` holds a journal.
        StoreError
            The disk is full or failed.
        """
        with self._guard():
            pass  # open, and not in a forked child
        folder = Path(destination)
        target = folder / NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError as error:
            raise StoreExists(f"{target}: exists; name an empty folder.") from error
        except OSError as error:
            raise StoreError(f"{folder}: cannot be written ({error}).") from error
        try:
            source = self._second()
            try:
                copy = self._connect(target, writable=True)
                try:
                    copy.execute("PRAGMA synchronous = FULL")
                    with copy.backup("main", source, "main") as transfer:
                        self._patient(lambda: transfer.step(-1))
                    last = self._last(copy)[0]
                    meta = self._meta(copy)
                finally:
                    copy.close()
            finally:
                source.close()
            HeadFile(folder / "head", meta.key()).create(last)
            host.sync_folder(folder)
        except (apsw.Error, OSError) as error:
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    os.unlink(f"{target}{suffix}")
            if isinstance(error, apsw.Error):
                raise _translate(error) from error
            raise StoreError(f"{folder}: cannot be written ({error}).") from error
        return meta.current

    def _second(self) -> apsw.Connection:
        """Open a connection for long work, so that reads go on meanwhile."""
        try:
            conn = self._patient(
                lambda: self._connect(self._file, writable=self._immutable is None)
            )
            conn.set_busy_timeout(max(1000, int(self.timeout * 1000)))
            conn.execute("PRAGMA query_only = ON")
        except apsw.Error as error:
            raise _translate(error) from error
        return conn

    def verify(self) -> list[tuple[str, str]]:
        """Check every page, every row of the chain, the ids and `head`.

        Returns
        -------
        list of (str, str)
            File and what is wrong with it; empty if everything is sound.
        """
        with self._guard():
            pass
        problems: list[tuple[str, str]] = []
        conn = self._second()
        try:
            for (text,) in _rows(conn, "PRAGMA integrity_check"):
                if text != "ok":
                    problems.append((NAME, str(text)))
            conn.execute("BEGIN")
            last = self._verify_chain(conn)
            lost = _rows(
                conn,
                "SELECT count(*) FROM journal LEFT JOIN done USING (op_id) WHERE op_id NOT NULL "
                "AND (done.seq IS NOT journal.seq OR done.at IS NOT journal.at)",
            )[0][0]
            if lost:
                problems.append((NAME, f"{lost} operation ids are not listed as done"))
            if self._head is not None:
                acknowledged, wrong = self._head.read(last)
                # commits since our moment may be in head already
                if acknowledged is None and self.head() == last:
                    problems.append(("head", wrong))
                elif acknowledged is not None and acknowledged > max(last, self.head()):
                    reason = f"ends at operation {last}, but {acknowledged} was acknowledged"
                    problems.append((NAME, reason))
                elif wrong and acknowledged is not None:
                    problems.append(("head", wrong))
        except CorruptStore as error:
            problems.append((error.file, error.reason))
        except apsw.Error as error:
            translated = _translate(error)
            if not isinstance(translated, CorruptStore):
                raise translated from error
            problems.append((translated.file, translated.reason))
        finally:
            conn.close()
        return problems

    def _verify_chain(self, conn: apsw.Connection) -> int:
        meta = self._meta(conn)
        position = meta.anchor
        known = dict(meta.known())
        while True:
            rows = _rows(conn, ROWS, (position[0] + 1, CHUNK))
            for entry in chain.verify(NAME, rows, position):
                if known.get(entry.seq, entry.hash) != entry.hash:
                    raise CorruptStore(NAME, f"operation {entry.seq} is not the snapshot's last")
                position = (entry.seq, entry.hash)
            if len(rows) < CHUNK:
                break
        if meta.current is not None and meta.current.seq > position[0]:
            raise CorruptStore(NAME, f"ends at operation {position[0]}, before its snapshot")
        return position[0]


def _rows(
    conn: apsw.Connection, statement: str, values: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    """Run a statement and fetch its results whole: an open cursor would freeze the moment."""
    return conn.execute(statement, values).fetchall()


def _done(conn: apsw.Connection, op_id: str) -> tuple[int, int] | None:
    key = op_id.encode("utf-8", "surrogatepass")
    rows = _rows(conn, "SELECT seq, at FROM done WHERE op_id = ?", (key,))
    return (rows[0][0], rows[0][1]) if rows else None


def _hook(journal: Journal) -> Callable[[apsw.Connection, str, int], int]:
    owner = weakref.ref(journal)  # a connection must not keep its handle alive

    def count(conn: apsw.Connection, name: str, frames: int) -> int:
        handle = owner()
        if handle is not None:
            handle._frames = frames
        return apsw.SQLITE_OK

    return count


_HANDLES: weakref.WeakSet[Journal] = weakref.WeakSet()


def _leave_parent_alone() -> None:
    """In a forked child: keep inherited connections for ever, since closing one touches files."""
    import ctypes

    for journal in list(_HANDLES):
        for guard in (journal._reader, journal._writer):
            if guard is not None and guard.conn is not None:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(guard.conn))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(journal._counter))


os.register_at_fork(after_in_child=_leave_parent_alone)
