"""What is said to SQLite: how a file of the journal is opened, and its errors as ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from fastassoc.errors import (
    CorruptStore,
    FastAssocError,
    InvalidInput,
    ReadOnlyStore,
    StoreError,
    StoreLocked,
)

__all__ = ["LEVELS", "NAME", "POLL", "check_level", "connect", "fetch", "translate"]

NAME = "journal.db"
POLL = 0.002  # seconds between two tries for a lock
LEVELS = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}


def check_level(sync: str) -> None:
    """Refuse a sync level that is none."""
    if sync not in LEVELS:
        raise InvalidInput(f"sync: found {sync!r}, expected one of {', '.join(LEVELS)}.")


def connect(file: Path, writable: bool, sync: str, vfs: str | None) -> apsw.Connection:
    """Open a connection; one that may not write takes the file as it lies, without locks."""
    if writable:
        conn = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    else:
        name = f"file:{quote(str(file.absolute()))}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        conn = apsw.Connection(name, flags=flags, vfs=vfs)
    # a planted database runs nothing
    conn.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    conn.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    conn.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    conn.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    for pragma in (
        f"synchronous = {LEVELS[sync]}",
        "cell_size_check = ON",
        "temp_store = MEMORY",
        "journal_size_limit = 67108864",
    ):
        fetch(conn, f"PRAGMA {pragma}")
    return conn


def fetch(
    conn: apsw.Connection, statement: str, values: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    """Run a statement and fetch its results whole: an open cursor would freeze the moment."""
    try:
        return conn.execute(statement, values).fetchall()
    except UnicodeDecodeError as error:
        raise CorruptStore(NAME, f"holds text that is no UTF-8 ({error.reason})") from error


def translate(error: Exception) -> Exception:
    """Turn an error of SQLite outside a commit into one of ours; nothing was changed."""
    if isinstance(error, FastAssocError):
        return error
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.FormatError)):
        return CorruptStore(NAME, f"SQLite cannot read it ({error})")
    if isinstance(error, apsw.FullError):
        return StoreError(
            f"{NAME}: the disk is full ({error}). Nothing was changed: free some space and try "
            "again."
        )
    if isinstance(error, (apsw.ReadOnlyError, apsw.PermissionsError)):
        return ReadOnlyStore(f"the store cannot be written here ({error}); open it read-only.")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreLocked(0.0, None)
    if isinstance(error, (apsw.IOError, apsw.CantOpenError)):
        return StoreError(
            f"{NAME}: the disk failed ({error}). Nothing was changed: look at the disk, then try "
            "again."
        )
    if isinstance(error, apsw.NoMemError):
        return MemoryError(str(error))
    return StoreError(
        f"{NAME}: SQLite failed ({error}). Nothing was changed: run `fastassoc verify`."
    )
