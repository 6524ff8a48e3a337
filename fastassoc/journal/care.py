"""The care of a journal: emptying its log, copying it, checking all of it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import apsw

from fastassoc import files
from fastassoc.errors import CorruptStore, StoreError, StoreExists, VacuumIncomplete
from fastassoc.journal import chain
from fastassoc.journal.chain import Pointer
from fastassoc.journal.connections import Connections
from fastassoc.journal.headfile import HeadFile
from fastassoc.journal.records import CHUNK, DONE, ROWS, Records
from fastassoc.journal.sqlite import LEVELS, NAME, POLL, fetch, translate
from fastassoc.journal.transaction import Transaction

__all__ = ["backup", "truncate_wal", "verify"]


def truncate_wal(connections: Connections, records: Records, timeout: float) -> None:
    """Fold the log into the database and empty it; see `Journal.truncate_wal`."""
    start = time.monotonic()
    # proves that this handle may write, and waits for the lock
    with Transaction(connections, records, timeout, durable=False):
        pass
    guard = connections.writer
    assert guard is not None
    while True:
        with guard as conn:
            try:
                free = fetch(conn, "PRAGMA freelist_count")[0][0]
                pages = fetch(conn, "PRAGMA page_count")[0][0]
                if free > 256 and free > pages // 4:
                    conn.execute("VACUUM")  # give the room back, too
                conn.execute("PRAGMA synchronous = FULL")
                conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                # SQLite does not sync the new length: a loss of power would bring the old log
                # back. A commit syncs the file, and the page that it writes is emptied again.
                conn.execute("BEGIN IMMEDIATE")
                told = fetch(conn, "PRAGMA user_version")[0][0]
                conn.execute(f"PRAGMA user_version = {told}")
                conn.execute("COMMIT")
                conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                return
            except (apsw.BusyError, apsw.LockedError):
                pass
            finally:
                conn.execute(f"PRAGMA synchronous = {LEVELS[connections.sync]}")
        if time.monotonic() - start >= timeout:
            raise VacuumIncomplete(
                f"{NAME}-wal: readers held it for {timeout:.1f} s, and erased text may still be "
                "in it; close them and run vacuum again."
            )
        time.sleep(POLL)


def backup(connections: Connections, records: Records, folder: Path) -> Pointer | None:
    """Copy the journal and its `head` into a folder; see `Journal.backup`."""
    with connections.guard():
        pass  # open, and not in a forked child
    target = folder / NAME
    try:
        files.make_folder(folder)
        files.disk.close(files.disk.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError as error:
        raise StoreExists(f"{target}: exists; name an empty folder.") from error
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error}).") from error
    try:
        source = connections.second()
        try:
            copy = connections.connect(target, writable=True)
            try:
                copy.execute("PRAGMA synchronous = FULL")
                with copy.backup("main", source, "main") as transfer:
                    connections.patient(lambda: transfer.step(-1))
                last = records.last(copy)[0]
                meta = records.meta(copy)
            finally:
                copy.close()
        finally:
            source.close()
        HeadFile(folder / "head", meta.key()).create(last)
        files.sync_folder(folder)
    except (apsw.Error, OSError) as error:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                files.disk.unlink(folder / f"{NAME}{suffix}")
        if isinstance(error, apsw.Error):
            raise translate(error) from error
        raise StoreError(f"{folder}: cannot be written ({error}).") from error
    return meta.current


def verify(connections: Connections, records: Records) -> list[tuple[str, str]]:
    """Check every page, the chain, the ids and `head`; see `Journal.verify`."""
    with connections.guard():
        pass
    problems: list[tuple[str, str]] = []
    conn = connections.second()
    try:
        for (text,) in fetch(conn, "PRAGMA integrity_check"):
            if text != "ok":
                problems.append((NAME, str(text)))
        conn.execute("BEGIN")
        last = _verify_chain(records, conn)
        lost = fetch(
            conn,
            "SELECT count(*) FROM journal LEFT JOIN done USING (op_id) WHERE op_id NOT NULL "
            "AND (done.seq IS NOT journal.seq OR done.at IS NOT journal.at)",
        )[0][0]
        if lost:
            problems.append((NAME, f"{lost} operation ids are not listed as done"))
        meta = records.meta(conn)
        kept = fetch(conn, DONE, (meta.anchor[0],))
        if meta.done is not None and chain.folded(NAME, kept) != meta.done:
            problems.append((NAME, "the ids of operations before the snapshot were changed"))
        if connections.head is not None:
            acknowledged, wrong = connections.head.read(last)
            # commits since our moment may be in head already
            if acknowledged is None and 0 < last == _head(connections, records):
                problems.append(("head", wrong))
            elif acknowledged is not None and acknowledged > max(last, _head(connections, records)):
                reason = f"ends at operation {last}, but {acknowledged} was acknowledged"
                problems.append((NAME, reason))
            elif wrong and acknowledged is not None:
                problems.append(("head", wrong))
    except CorruptStore as error:
        problems.append((error.file, error.reason))
    except apsw.Error as error:
        translated = translate(error)
        if not isinstance(translated, CorruptStore):
            raise translated from error
        problems.append((translated.file, translated.reason))
    finally:
        conn.close()
    return problems


def _verify_chain(records: Records, conn: apsw.Connection) -> int:
    meta = records.meta(conn)
    position = meta.anchor
    known = dict(meta.known())
    while True:
        rows = fetch(conn, ROWS, (position[0] + 1, CHUNK))
        for entry in chain.verify(NAME, rows, position):
            if known.get(entry.seq, entry.hash) != entry.hash:
                raise CorruptStore(NAME, f"operation {entry.seq} is not the snapshot's last")
            position = (entry.seq, entry.hash)
        if len(rows) < CHUNK:
            break
    if meta.current is not None and meta.current.seq > position[0]:
        raise CorruptStore(NAME, f"ends at operation {position[0]}, before its snapshot")
    return position[0]


def _head(connections: Connections, records: Records) -> int:
    with connections.guard() as conn:
        return records.last(conn)[0]
