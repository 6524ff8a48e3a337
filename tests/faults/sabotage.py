"""Protocols with one step left out: each must be caught, else the instruments prove nothing.

Each entry is a context that breaks the library. A sabotage of what is written is in force while a
sequence is recorded, one of what is checked while states are judged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw

from fastassoc import files, snapshot
from fastassoc.journal import Journal, sqlite, transaction
from fastassoc.journal.connections import Connections
from fastassoc.named import manifest_of

from . import layer

Context = Callable[[], AbstractContextManager[None]]


@contextmanager
def put(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def segment_sync_left_out() -> Iterator[None]:
    """A segment or manifest gets its name before its bytes are on the disk."""
    sync = layer.Disk.sync

    def some(self: layer.Disk, fd: int) -> None:
        if "tmp-" not in self.opened.get(fd, ("",))[0]:
            sync(self, fd)

    with put(layer.Disk, "sync", some):
        yield


@contextmanager
def folder_sync_left_out() -> Iterator[None]:
    """The names of segments and manifests are not on the disk when the journal names them."""
    sync = files.sync_folder

    def some(path: Any) -> None:
        if path.name != "segments":
            sync(path)

    with put(files, "sync_folder", some):
        yield


@contextmanager
def journal_sync_left_out() -> Iterator[None]:
    """A commit is acknowledged before it is on the disk."""
    with put(sqlite, "LEVELS", dict.fromkeys(sqlite.LEVELS, "NORMAL")):
        yield


@contextmanager
def delete_before_publish() -> Iterator[None]:
    """The old snapshot goes before the new one is current."""
    publish = Journal.publish

    def wrong(self: Journal, manifest: str, *rest: Any, **more: Any) -> Any:
        pointer = self.current()
        if pointer is not None and pointer.manifest != manifest:
            held = {part.name for part in manifest_of(self, pointer)["segments"]}
            new = (self.path / manifest).read_text()
            for name in sorted(name for name in held if name not in new):
                files.disk.unlink(self.path / "segments" / name)
            files.sync_folder(self.path / "segments")
        return publish(self, manifest, *rest, **more)

    with put(Journal, "publish", wrong):
        yield


@contextmanager
def publish_before_sync() -> Iterator[None]:
    """The snapshot becomes current first, and its files are synced then."""
    sync, publish, later = layer.Disk.sync, Journal.publish, []

    def postponed(self: layer.Disk, fd: int) -> None:
        if fd not in self.opened or self.opened[fd][0].endswith("/head"):
            return sync(self, fd)
        copied = os.dup(fd)
        self.opened[copied] = self.opened[fd]
        later.append((self, copied))
        return None

    def wrong(self: Journal, *rest: Any, **more: Any) -> Any:
        pointer = publish(self, *rest, **more)
        for disk, fd in later:
            sync(disk, fd)
            disk.close(fd)
        later.clear()
        return pointer

    with put(layer.Disk, "sync", postponed), put(Journal, "publish", wrong):
        yield


@contextmanager
def head_before_commit() -> Iterator[None]:
    """`head` tells of an operation that the journal may not have."""
    commit = transaction.Transaction.commit

    def wrong(self: transaction.Transaction) -> None:
        if self._appended and self._conn is not None:
            transaction.advance_head(self._connections, self._last[0], True)
        commit(self)

    with put(transaction.Transaction, "commit", wrong):
        yield


@contextmanager
def rows_dropped_too_far() -> Iterator[None]:
    """A snapshot drops the rows after it as well, as if it held them."""
    drop = transaction.Transaction._drop

    def wrong(self: transaction.Transaction, meta: Any, through: int) -> int:
        return drop(self, meta, max(through, meta.current.seq - 1 if meta.current else 0))

    with put(transaction.Transaction, "_drop", wrong):
        yield


@contextmanager
def hash_check_left_out() -> Iterator[None]:
    """A segment is parsed whatever its bytes are."""

    def unchecked(fd: int, segment: Any, file: str, keep: bool) -> bytes:
        return files.digest(fd, keep)[1]

    with put(snapshot, "_checked", unchecked):
        yield


@contextmanager
def write_lock_left_out() -> Iterator[None]:
    """A writer takes no lock before it looks where the journal ends, and commits row by row."""

    class Unlocked:
        def __init__(self, conn: apsw.Connection) -> None:
            self._conn = conn

        def __getattr__(self, name: str) -> Any:
            return getattr(self._conn, name)

        def execute(self, statement: str, *rest: Any) -> Any:
            if statement in ("BEGIN IMMEDIATE", "COMMIT"):
                statement = "SELECT 1"
            return self._conn.execute(statement, *rest)

    attach = Connections.attach

    def wrong(self: Connections, *rest: Any) -> None:
        attach(self, *rest)
        if self.writer is not None:
            self.writer.conn = Unlocked(self.writer.conn)  # type: ignore[assignment, arg-type]

    with put(Connections, "attach", wrong):
        yield


@contextmanager
def snapshot_lock_left_out() -> Iterator[None]:
    """Every snapshotter believes to be the only one."""

    @contextmanager
    def anyone(root: Any) -> Iterator[bool]:
        yield True

    with put(snapshot, "try_lock", anyone):
        yield


# caught by the states after a loss of power
CUTS: dict[str, Context] = {
    "a segment's sync left out": segment_sync_left_out,
    "a folder's sync left out": folder_sync_left_out,
    "the journal's sync left out": journal_sync_left_out,
    "delete before publish": delete_before_publish,
    "publish before sync": publish_before_sync,
    "head before commit": head_before_commit,
}
# caught by damage to what is durable
DAMAGE: dict[str, Context] = {"hash check left out": hash_check_left_out}
# caught by one writer at every call of another
LOCKS: dict[str, Context] = {
    "write lock left out": write_lock_left_out,
    "snapshot lock left out": snapshot_lock_left_out,
}
