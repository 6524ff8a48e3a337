"""A handle of a store's journal: its verbs, for many threads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apsw

from fastassoc.errors import StoreError
from fastassoc.journal import care, folder
from fastassoc.journal.chain import Entry, Pointer
from fastassoc.journal.connections import Connections
from fastassoc.journal.headfile import HeadFile
from fastassoc.journal.reach import check_head
from fastassoc.journal.records import Records, done
from fastassoc.journal.sqlite import check_level, translate
from fastassoc.journal.transaction import Transaction

__all__ = ["Journal"]

VERSION = "PRAGMA data_version"


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
        self.path = Path(path)
        self._connections = Connections(self.path, sync, timeout, read_only, vfs)
        self._records = Records()
        self.sync = sync
        self.timeout = timeout
        self.read_only = read_only
        self.store_id = ""
        self.warning_counts: Counter[str] = self._connections.warning_counts
        self._seen: tuple[int, int] = (-1, -1)  # data_version and the head under it

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
        place = Path(path)
        check_level(sync)
        folder.prepare(place)
        folder.refuse_network(place)
        folder.make(place, sync, vfs)
        return cls.open(path, sync=sync, timeout=timeout, vfs=vfs)

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
        connections, records = journal._connections, journal._records
        folder.look(journal.path)
        writable = folder.may_write(journal.path, read_only)
        try:
            connections.attach(writable, records.check)
            journal.store_id = records.store_id
            connections.head = HeadFile(journal.path / "head", bytes.fromhex(journal.store_id))
            check_head(connections, records, None)
        except BaseException as error:
            # a damaged log holds more than SQLite sees of it: it stays as it is for a repair
            connections.broken = "the journal could not be opened"
            journal.close()
            if isinstance(error, apsw.Error):
                raise translate(error) from error
            raise
        return journal

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the handle; the last one to close leaves no write-ahead log. Safe to repeat."""
        self._connections.shut(wait=True)

    @property
    def format(self) -> int:
        """Format of the store: this version's, or that of an older one until something is saved."""
        with self._connections.guard() as conn:
            return self._records.meta(conn).format

    # -- reading --------------------------------------------------------------------------------

    def changed(self, position: int) -> bool:
        """Say whether the journal's head is another than the caller's position.

        Nothing is read but a counter unless somebody (this handle too) wrote since the last call.

        Raises
        ------
        StoreError
            The files of a store on media that cannot be written changed after all.
        """
        connections = self._connections
        with connections.guard() as conn:
            if connections.immutable is not None and connections.stamp() != connections.immutable:
                raise StoreError(
                    f"{self.path}: was opened as media that cannot be written, but somebody "
                    "writes it. Open it again."
                )
            assert connections.counter is not None
            rows: list[tuple[Any, ...]] = connections.counter.execute(VERSION).fetchall()
            version = rows[0][0]
            if version != self._seen[0]:
                # the head may be newer than the version: then the next call looks again
                self._seen = (version, self._records.last(conn)[0])
            return self._seen[1] != position

    def head(self) -> int:
        """Sequence of the last operation; 0 before the first."""
        with self._connections.guard() as conn:
            return self._records.last(conn)[0]

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
        with self._connections.guard() as conn:
            return self._records.read(conn, after, limit)

    def current(self) -> Pointer | None:
        """Say which snapshot is current; None before the first."""
        with self._connections.guard() as conn:
            return self._records.meta(conn).current

    def done(self, op_id: str) -> tuple[int, int] | None:
        """Sequence and time of an operation that was saved under this id; None if there is none."""
        with self._connections.guard() as conn:
            return done(conn, op_id)

    def size(self) -> tuple[int, int]:
        """Operations that the current snapshot lacks, and their bytes (bodies and vectors)."""
        with self._connections.guard() as conn:
            return self._records.size(conn)

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
        wait = self.timeout if timeout is None else timeout
        return Transaction(self._connections, self._records, wait, durable)

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
        care.truncate_wal(self._connections, self._records, wait)

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
        return care.backup(self._connections, self._records, Path(destination))

    def verify(self) -> list[tuple[str, str]]:
        """Check every page, every row of the chain, the ids and `head`.

        Returns
        -------
        list of (str, str)
            File and what is wrong with it; empty if everything is sound.
        """
        return care.verify(self._connections, self._records)
