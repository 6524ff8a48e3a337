"""A store's folder: making the journal in it, and what is looked at before it is opened."""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Sequence
from pathlib import Path

import apsw

from fastassoc import files
from fastassoc.errors import (
    CorruptStore,
    ReadOnlyStore,
    StoreError,
    StoreExists,
    StoreNotFound,
)
from fastassoc.formats import FORMAT
from fastassoc.journal import host
from fastassoc.journal.chain import Meta
from fastassoc.journal.headfile import HeadFile
from fastassoc.journal.sqlite import NAME, connect, fetch, translate

__all__ = ["look", "make", "may_write", "prepare", "refuse_network"]

APPLICATION = 0x66617373  # "fass", in SQLite's header

SCHEMA = """
CREATE TABLE journal (seq INTEGER PRIMARY KEY, op_id BLOB, format INTEGER NOT NULL,
    kind TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL, vectors BLOB, hash BLOB NOT NULL);
CREATE TABLE done (op_id BLOB PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), content TEXT NOT NULL,
    hash BLOB NOT NULL);
"""


def prepare(path: Path) -> None:
    """Make the folder, or take an empty one."""
    try:
        files.make_folder(path)
        found = [n for n in os.listdir(path) if not n.startswith(".new-")]
        if found:
            raise StoreExists(
                f"{path}: holds {len(found)} files already; open it, or name an empty folder."
            )
        files.disk.chmod(path, 0o700)
    except FileExistsError as error:
        raise StoreExists(f"{path}: is a file; name a folder.") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot make the store ({error}).") from error


def make(
    path: Path,
    sync: str,
    vfs: str | None,
    meta: Meta | None = None,
    done: Sequence[tuple[bytes, int, int]] = (),
) -> None:
    """Write a whole journal under another name, then link it: nobody sees half of one.

    It is a new store's, unless `meta` says which, and `done` what was done in it before.
    """
    draft = path / f".new-{uuid.uuid4().hex}"
    if meta is None:
        meta = Meta(FORMAT, uuid.uuid4().hex, (0, b""), None)
        meta = meta._replace(anchor=(0, meta.genesis()))
    conn: apsw.Connection | None = None
    try:
        files.disk.close(files.disk.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        conn = connect(draft, True, sync, vfs)
        fetch(conn, "PRAGMA journal_mode = WAL")
        conn.execute(f"PRAGMA application_id = {APPLICATION}")
        conn.execute(f"PRAGMA user_version = {FORMAT}")
        fetch(conn, "BEGIN IMMEDIATE")
        fetch(conn, SCHEMA)
        conn.execute("INSERT INTO meta VALUES (1, ?, ?)", meta.seal())
        conn.executemany("INSERT INTO done VALUES (?, ?, ?)", done)
        conn.execute("COMMIT")
        conn.close()
        files.disk.link(draft, path / NAME)
    except (apsw.Error, OSError) as error:
        if (path / NAME).exists():
            raise StoreExists(f"{path}: another process made a store there.") from error
        if isinstance(error, apsw.Error):
            raise translate(error) from error
        raise StoreError(f"{path}: cannot make the store ({error}).") from error
    finally:
        if conn is not None:
            with contextlib.suppress(apsw.Error):
                conn.close(True)
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                files.disk.unlink(path / f"{draft.name}{suffix}")
    try:
        files.sync_folder(path)  # `head` alone would look like a store that lost its journal
        HeadFile(path / "head", meta.key()).create(0)
        for stale in path.glob(".new-*"):  # creations that were cut short, or too late
            with contextlib.suppress(FileNotFoundError):
                files.disk.unlink(stale)
        files.sync_folder(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot make the store ({error}).") from error


def look(path: Path) -> None:
    """Check by name and size what SQLite would take for an empty database."""
    file = path / NAME
    if not path.is_dir():
        raise StoreNotFound(f"{path}: there is no store here.")
    try:
        info = os.lstat(file)
    except OSError as error:
        known = ("head", "manifest-", "segments")
        if any(name.startswith(known) for name in os.listdir(path)):
            raise CorruptStore(NAME, "is missing or cannot be read") from error
        raise StoreNotFound(f"{path}: there is no store in this folder.") from error
    for suffix in ("", "-wal", "-shm"):
        try:
            mode = os.lstat(f"{file}{suffix}").st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            raise CorruptStore(NAME + suffix, "is a symbolic link")
        if not stat.S_ISREG(mode):
            raise CorruptStore(NAME + suffix, "is not a file")
    if not stat.S_ISREG(info.st_mode) or info.st_size == 0:
        raise CorruptStore(NAME, "is empty or not a file")


def may_write(path: Path, read_only: bool) -> bool:
    """Whether SQLite may write here: it does for reading too, where it can."""
    if not read_only:
        refuse_network(path)
    elif host.network_filesystem(path) is not None:
        return False
    writable = os.access(path, os.W_OK | os.X_OK) and os.access(path / NAME, os.W_OK)
    if not writable and not read_only:
        raise ReadOnlyStore(f"{path}: cannot be written; open it with read_only=True to read it.")
    return writable


def refuse_network(path: Path) -> None:
    """Refuse to write where locks do not hold."""
    kind = host.network_filesystem(path)
    if kind is not None:
        raise StoreError(
            f"{path}: lies on a network file system ({kind}), whose locks do not hold "
            "between hosts. Keep the store on a local disk; read_only=True can read it there."
        )
