"""What can be read of a damaged journal, from copies of its files; and a new one to go on with.

A page that SQLite refuses loses no more than what stands in it: each row is checked by the hash
before it, wherever it was found.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from fastassoc import files
from fastassoc.errors import CorruptStore, StoreError
from fastassoc.formats import FORMAT
from fastassoc.journal import chain, folder
from fastassoc.journal.chain import Entry, Meta, Position
from fastassoc.journal.connections import opened_here
from fastassoc.journal.headfile import HeadFile
from fastassoc.journal.sqlite import NAME, connect, fetch

__all__ = ["Salvaged", "acknowledged", "begin", "copy_files", "salvage"]

# magic (its last bit: which way round the words of checksums are), version, page size, checkpoint,
# 2 salts, 2 checksums
LOG = struct.Struct(">IIIIIIII")
FRAME = struct.Struct(">IIIIII")  # page, pages after a commit or 0, 2 salts, 2 checksums
ROW = "SELECT seq, op_id, format, kind, at, body, vectors, hash FROM journal "
MOST = 10_000_000  # rows that are looked for one by one


@dataclass
class Salvaged:
    """What was found in a journal.

    Attributes
    ----------
    meta : Meta or None
        What the journal says of itself; None where no copy of it is sound.
    entries : dict of Entry
        Sound operations by sequence.
    damaged : dict of str
        Operations of which something is left, by sequence, and what is wrong.
    ids : list of (bytes, int, int)
        Ids of operations, their sequences and times.
    """

    meta: Meta | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)
    ids: list[tuple[bytes, int, int]] = field(default_factory=list)

    def known(self) -> dict[int, bytes]:
        """Chain hashes on record, by sequence."""
        found = {} if self.meta is None else dict(self.meta.known())
        return found | {seq: entry.hash for seq, entry in self.entries.items()}


def copy_files(source: Path, target: Path) -> None:
    """Copy a journal and its log, of a store that nobody has open.

    Raises
    ------
    StoreError
        Somebody has: nothing was copied that could be trusted.
    """
    if opened_here(source):
        raise StoreError(f"{source}: this process has the store open; close it first.")
    names = (NAME, f"{NAME}-wal")
    before = [_stamp(source / name) for name in names]
    for name in names:
        with contextlib.suppress(OSError):
            _copy(source / name, target / name)
    if before != [_stamp(source / name) for name in names]:
        raise StoreError(f"{source}: is being written; close it everywhere, then try again.")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        info = files.disk.status(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size


def _copy(source: Path, target: Path) -> None:
    fd = files.disk.open(source, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.disk.size(fd)  # refuses what is no file
        _fill(target, iter(lambda: files.disk.read(fd, files.CHUNK), b""))
    finally:
        files.disk.close(fd)


def _fill(target: Path, parts: Iterator[bytes]) -> None:
    out = files.disk.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[files.disk.write(out, view) :]
    finally:
        files.disk.close(out)


def acknowledged(source: Path, store: str, last: int) -> int | None:
    """What `head` says was acknowledged; None where it tells nothing."""
    return HeadFile(source / "head", bytes.fromhex(store)).read(last)[0]


# -- reading ---------------------------------------------------------------------------------------


def salvage(scratch: Path) -> Salvaged:
    """Read all that is sound in a copied journal; the copies may be changed.

    Looks at the journal as SQLite does, which ends a log at the first damaged frame; with all
    frames of the log whatever their checksums say; and with the sound ones alone.

    Raises
    ------
    FormatTooNew
        A newer version wrote it.
    """
    found = Salvaged()
    rows: dict[int, list[Sequence[Any]]] = {}
    metas: list[Meta] = []
    ids: dict[bytes, tuple[int, int]] = {}
    for conn in _views(scratch):
        try:
            metas += _metas(conn)
            for row in _rows(conn):
                held = rows.setdefault(row[0], [])
                if row not in held:
                    held.append(row)
            with contextlib.suppress(apsw.Error, CorruptStore):
                for name, seq, at in fetch(conn, "SELECT op_id, seq, at FROM done"):
                    if isinstance(name, bytes):
                        ids.setdefault(name, (seq, at))
        finally:
            conn.close()
    found.meta = max(
        metas, key=lambda m: (m.current.seq if m.current else 0, m.anchor[0]), default=None
    )
    _check(found, rows)
    for entry in found.entries.values():
        if entry.op_id is not None:
            ids[entry.op_id.encode()] = (entry.seq, entry.at)
    found.ids = [(name, seq, at) for name, (seq, at) in ids.items()]
    return found


def _views(scratch: Path) -> Iterator[apsw.Connection]:
    file, log = scratch / NAME, scratch / f"{NAME}-wal"
    if not file.exists():
        return
    data, frames = file.read_bytes(), log.read_bytes() if log.exists() else b""
    with contextlib.suppress(apsw.Error):
        yield connect(file, True, "off", None)
    for number, all_of_it in enumerate((True, False)):
        image = _image(data, frames, all_of_it)
        if image is not None:
            path = scratch / f"image{number}.db"
            _fill(path, iter([image]))
            with contextlib.suppress(apsw.Error):
                yield connect(path, False, "off", None)


def _image(data: bytes, log: bytes, all_of_it: bool) -> bytes | None:
    """The database with the frames of its log in their places; None without a log."""
    if len(log) < LOG.size + FRAME.size:
        return None
    magic, _, size, _, *salts = LOG.unpack_from(log)
    if size < 512 or size > 65536 or size & (size - 1):
        size = int.from_bytes(data[16:18], "big")
        size = 65536 if size == 1 else size
    if size < 512:
        return None
    first = FRAME.unpack_from(log, LOG.size)
    salt = tuple(salts[:2]) if tuple(salts[:2]) == first[2:4] else first[2:4]
    order = ">" if magic & 1 else "<"
    before = tuple(salts[2:])
    pages: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    count = len(data) // size
    for start in range(LOG.size, len(log) - FRAME.size - size + 1, FRAME.size + size):
        header = FRAME.unpack_from(log, start)
        page = log[start + FRAME.size : start + FRAME.size + size]
        if header[2:4] != salt:
            if all_of_it:
                break  # what an earlier log left behind
            before = header[4:]
            continue
        sound = all_of_it or _sums(log[start : start + 8] + page, before, order) == header[4:]
        before = header[4:]
        if sound and 0 < header[0] < 1 << 24:
            pending[header[0]] = page
        if header[1]:
            pages |= pending
            pending = {}
            count = header[1] if header[1] < 1 << 24 else count
    most = max([count, *pages]) if len(pages) < 1 << 20 else count
    image = bytearray(data[: count * size].ljust(min(most, count) * size, b"\0"))
    for number, page in pages.items():
        if number <= count:
            image[(number - 1) * size : number * size] = page
    image[18:20] = b"\1\1"  # needs no log
    return bytes(image)


def _sums(data: bytes, before: tuple[int, ...], order: str) -> tuple[int, int]:
    one, two = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for n in range(0, len(words), 2):
        one = (one + words[n] + two) & 0xFFFFFFFF
        two = (two + words[n + 1] + one) & 0xFFFFFFFF
    return one, two


def _metas(conn: apsw.Connection) -> list[Meta]:
    with contextlib.suppress(apsw.Error, CorruptStore, ValueError, KeyError, TypeError):
        rows = fetch(conn, "SELECT content, hash FROM meta")
        return [Meta.parse(NAME, *row) for row in rows]
    return []


def _rows(conn: apsw.Connection) -> Iterator[Sequence[Any]]:
    """All rows that can be had: at once, or else one by one."""
    with contextlib.suppress(apsw.Error, CorruptStore):
        yield from fetch(conn, f"{ROW} ORDER BY seq")
        return
    first, last = 1, 0
    with contextlib.suppress(apsw.Error):
        first = fetch(conn, "SELECT min(seq) FROM journal")[0][0] or 1
    with contextlib.suppress(apsw.Error):
        last = fetch(conn, "SELECT max(seq) FROM journal")[0][0] or 0
    for seq in range(max(1, first), min(last, first + MOST) + 1):
        with contextlib.suppress(apsw.Error, CorruptStore):
            yield from fetch(conn, f"{ROW} WHERE seq = ?", (seq,))


def _check(found: Salvaged, rows: dict[int, list[Sequence[Any]]]) -> None:
    """Take the rows that match a hash before them, be it that of a damaged row."""
    known = {} if found.meta is None else dict(found.meta.known())
    for seq in sorted(rows):
        befores = [row[7] for row in rows.get(seq - 1, ()) if isinstance(row[7], bytes)]
        befores += [known[seq - 1]] if seq - 1 in known else []
        wrong = "there is no sound operation before it to check it against"
        for row, before in ((row, b) for row in rows[seq] for b in dict.fromkeys(befores)):
            if len(before) != 16:
                continue
            try:
                (found.entries[seq],) = chain.verify(NAME, [row], (seq - 1, before))
                break
            except CorruptStore as error:
                wrong = error.reason
        else:
            found.damaged[seq] = wrong


# -- a new one -------------------------------------------------------------------------------------


def begin(
    path: Path, store: str, position: Position, ids: Iterable[tuple[bytes, int, int]]
) -> None:
    """Make the journal of a store that begins behind an operation, with what was done before.

    Parameters
    ----------
    path : Path
        An empty folder, or one that is not there.
    store : str
        Identity, 32 hex digits.
    position : (int, bytes)
        The last operation that the store's first snapshot will hold, and the chain hash after it.
    ids : iterable of (bytes, int, int)
        Ids of operations up to there, their sequences and times.
    """
    folder.prepare(path)
    done = [one for one in ids if one[1] <= position[0]]
    meta = Meta(FORMAT, store, position, None, chain.folded(NAME, done))
    folder.make(path, "full", None, meta, done)
