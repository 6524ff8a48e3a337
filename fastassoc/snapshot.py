"""Snapshots on disk: immutable Parquet segments and the manifests that name them.

The only writer of Parquet. It moves Arrow tables and bytes and knows no note and no link; what
the files mean is told in FORMAT.md.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fastassoc import files, parquet
from fastassoc.errors import CorruptStore, InvalidInput
from fastassoc.manifest import (
    FORMAT,
    KINDS,
    MANIFEST_NAME,
    SEGMENT_NAME,
    Segment,
    check_segment,
    copy_manifest,
    list_manifests,
    manifest_digest,
    newest_manifest,
    read_manifest,
    write_manifest,
)

__all__ = [
    "FORMAT",
    "KINDS",
    "Segment",
    "Swept",
    "are_there",
    "copy_manifest",
    "copy_segment",
    "create_folders",
    "list_manifests",
    "manifest_digest",
    "newest_manifest",
    "read_manifest",
    "read_segment",
    "sweep",
    "try_lock",
    "verify_segment",
    "write_manifest",
    "write_segment",
]

SEGMENTS = "segments"
LOCK = "snapshot.lock"
MAPPED = 64 << 20  # a larger file is mapped for parsing, a smaller one is read whole

_TEMPORARY = re.compile(r"(tmp-|\.new-)[0-9a-f]{32}")  # the second: a `head` in the making
_FILES = frozenset(
    {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db-journal", "head", LOCK}
)
_FOLDERS = frozenset({SEGMENTS, "cache", "rejects"})


class Swept(NamedTuple):
    """What `sweep` did.

    Attributes
    ----------
    removed : list of str
        Files that are gone, relative to the store.
    freed : int
        Their bytes.
    unknown : list of str
        Files that no store has; left alone.
    """

    removed: list[str]
    freed: int
    unknown: list[str]


def _folder(root: Path, file: str) -> Path:
    """Return the folder of segments; it must be a real folder."""
    path = root / SEGMENTS
    try:
        mode = files.disk.status(path).st_mode
    except OSError as error:
        files.damage(error, file)
    if not stat.S_ISDIR(mode):
        raise CorruptStore(SEGMENTS, "found something else where a folder must be")
    return path


# -- segments ------------------------------------------------------------------------------------


def _checked(fd: int, segment: Segment, file: str, keep: bool) -> bytes:
    """Check size and hash of an open segment."""
    found = files.disk.size(fd)
    if found != segment.bytes:
        raise CorruptStore(file, f"found {found} bytes, expected {segment.bytes}")
    digest, data = files.digest(fd, keep)
    if digest != segment.hash:
        raise CorruptStore(file, f"found the hash {digest}, expected {segment.hash}")
    return data


def write_segment(root: Path, kind: str, table: pa.Table) -> Segment:
    """Write a table as an immutable file named by its kind and hash, and sync it.

    The same table, however it is chunked, gives the same bytes; a file that is there already is
    used again. Nothing names the file until a manifest or a journal row does.

    Parameters
    ----------
    root : Path
        The store; its folders exist.
    kind : str
        One of `KINDS`.
    table : pyarrow.Table
        Columns of bool, integers, float32, float64, string, binary, and lists (of any or of a
        fixed length) of these.

    Returns
    -------
    Segment
        What a manifest must say of the file.

    Raises
    ------
    InvalidInput
        An unknown kind, or a column that cannot be stored.
    StoreError
        The disk is full or failed; the store is as before.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> root = Path(tempfile.mkdtemp())
    >>> create_folders(root)
    >>> segment = write_segment(root, "dead", pa.table({"seq": [4, 8]}))
    >>> segment.rows, segment.schema
    (2, 'seq int64')
    >>> read_segment(root, segment)["seq"].to_pylist()
    [4, 8]
    """
    if kind not in KINDS:
        raise InvalidInput(f"segment kind: found {kind!r}, expected one of {', '.join(KINDS)}.")
    table = parquet.normal(table)
    folder = _folder(root, SEGMENTS)

    def fill(sink: files.Sink) -> None:
        if not parquet.write(table, sink):
            sink.restart()
            parquet.write(table, sink, plain=True)

    try:
        name, sink = files.publish(
            folder, fill, lambda sink: f"{kind}-{sink.hash.hexdigest()}.parquet"
        )
    except OSError as error:
        files.fail(error, "writing", f"a segment of {kind}")
    schema = parquet.schema_text(table.schema)
    return Segment(name, kind, table.num_rows, sink.bytes, schema, sink.hash.hexdigest())


def verify_segment(root: Path, segment: Segment) -> None:
    """Check a segment's size and hash without parsing it.

    Raises
    ------
    CorruptStore
        It is missing, damaged, or not a regular file.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> root = Path(tempfile.mkdtemp())
    >>> create_folders(root)
    >>> verify_segment(root, write_segment(root, "dead", pa.table({"seq": [4]})))
    """
    _load(root, segment, lambda fd, file: _checked(fd, segment, file, keep=False))


def read_segment(
    root: Path, segment: Segment, each: Callable[[pa.Table], pa.Table] | None = None
) -> pa.Table:
    """Read a segment whole, after its size, hash, schema and declared rows were checked.

    Parameters
    ----------
    root : Path
        The store.
    segment : Segment
        As a manifest or a journal row names it.
    each : callable, optional
        Gives some rows at a time the form in which they are kept, so that not all of them ever lie
        in memory as they are.

    Returns
    -------
    pyarrow.Table
        `segment.rows` rows with the columns of `segment.schema`, in that form.

    Raises
    ------
    CorruptStore
        The file is missing, damaged, a symbolic link, or would expand beyond all reason.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> root = Path(tempfile.mkdtemp())
    >>> create_folders(root)
    >>> read_segment(root, write_segment(root, "dead", pa.table({"seq": [4, 8]}))).num_rows
    2
    """

    def parse(fd: int, file: str) -> pa.Table:
        small = segment.bytes <= MAPPED
        data: bytes | mmap.mmap = _checked(fd, segment, file, keep=small)
        if not small:
            data = mmap.mmap(fd, segment.bytes, access=mmap.ACCESS_READ)
        try:
            return parquet.read(data, segment.rows, segment.schema, each)
        except parquet.BadFile as error:
            raise CorruptStore(file, str(error)) from error

    table: pa.Table = _load(root, segment, parse)
    return table


def are_there(root: Path, segments: Iterable[Segment]) -> bool:
    """Tell whether all of some segments have a file.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> root = Path(tempfile.mkdtemp())
    >>> create_folders(root)
    >>> segment = write_segment(root, "dead", pa.table({"seq": [4]}))
    >>> are_there(root, [segment])
    True
    """
    try:
        for segment in segments:
            files.disk.status(root / SEGMENTS / segment.name)
    except OSError:
        return False
    return True


def _load(root: Path, segment: Segment, use: Callable[[int, str], Any]) -> Any:
    """Open a segment, hand its descriptor on, close it."""
    check_segment(segment, str(segment.name)[:80])
    file = f"{SEGMENTS}/{segment.name}"
    path = _folder(root, file) / segment.name
    try:
        fd = files.disk.open(path, os.O_RDONLY | os.O_NONBLOCK)  # never wait on a pipe put there
        try:
            return use(fd, file)
        finally:
            files.disk.close(fd)
    except OSError as error:
        files.damage(error, file)


# -- the folder as a whole -----------------------------------------------------------------------


def create_folders(root: Path) -> None:
    """Make the store's folder and the one of segments, mode 0700; what is there stays.

    Raises
    ------
    StoreError
        The disk is full or failed, or a file stands in the way.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp()) / "new.fa"
    >>> create_folders(root)
    >>> (root / "segments").is_dir()
    True
    """
    for path in (root, root / SEGMENTS):
        try:
            try:
                files.disk.mkdir(path)
                files.sync_folder(path.parent)
            except FileExistsError:
                if path == root and path.is_dir():
                    continue  # the store itself may be reached through a link
                if not stat.S_ISDIR(files.disk.status(path).st_mode):
                    raise
        except OSError as error:
            files.fail(error, "making the folder", str(path))


def sweep(root: Path, keep: set[str], *, older_than: int | None = None) -> Swept:
    """Remove segments, manifests and temporary files that nothing names any more.

    A manifest goes only if its sequence is below every kept one, a segment or temporary file only
    if it is older than the oldest kept manifest: what another process has just written and not
    yet named stays. Unknown files are left alone with a warning. Call it under `try_lock`.

    Parameters
    ----------
    root : Path
        The store.
    keep : set of str
        Names of the manifests and segments that stay; without a manifest among them nothing goes.
    older_than : int, optional
        Take segments and temporary files last written before this (nanoseconds, as
        `time.time_ns`) instead; safe only while no one else can write.

    Returns
    -------
    Swept

    Raises
    ------
    StoreError
        A file cannot be removed, or a folder cannot be listed.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> create_folders(root)
    >>> sweep(root, set())
    Swept(removed=[], freed=0, unknown=[])
    """
    kept = [match for match in map(MANIFEST_NAME.fullmatch, keep) if match]
    if not kept:
        return Swept([], 0, [])
    lowest = min(kept, key=lambda match: int(match[1]))
    folder = _folder(root, SEGMENTS)
    removed: list[str] = []
    unknown: list[str] = []
    freed = 0
    try:
        limit = (
            files.disk.status(root / lowest[0]).st_mtime_ns if older_than is None else older_than
        )
        for place, path in _entries(root, folder):
            info = files.disk.status(path)
            manifest = MANIFEST_NAME.fullmatch(path.name)
            ours = bool(_TEMPORARY.fullmatch(path.name)) or bool(
                SEGMENT_NAME.fullmatch(path.name) if path.parent == folder else manifest
            )
            if not ours or not stat.S_ISREG(info.st_mode):
                unknown.append(place)
                continue
            old = int(manifest[1]) < int(lowest[1]) if manifest else info.st_mtime_ns < limit
            if old and path.name not in keep:
                files.disk.unlink(path)
                removed.append(place)
                freed += info.st_size
        if removed:
            files.sync_folder(folder)
            files.sync_folder(root)
    except OSError as error:
        files.fail(error, "sweeping", str(root))
    if unknown:
        warnings.warn(
            f"{root}: left {len(unknown)} unknown files alone ({', '.join(unknown[:5])}); "
            "no store has files of these names.",
            stacklevel=2,
        )
    return Swept(removed, freed, unknown)


def _entries(root: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all entries that belong to this module, or to nobody."""
    for name in files.disk.names(root):  # manifests first: none is left that names a file that went
        if name not in _FILES and name not in _FOLDERS:
            yield name, root / name
    for name in files.disk.names(folder):
        yield f"{SEGMENTS}/{name}", folder / name


def copy_segment(root: Path, segment: Segment, target: Path, *, link: bool = True) -> bool:
    """Bring a verified segment into another store's folder, by a hard link where that works.

    Parameters
    ----------
    root, target : Path
        The two stores; the folders of both exist.
    segment : Segment
        What to copy.
    link : bool
        False always copies the bytes.

    Returns
    -------
    bool
        True if it is a hard link now, False if it is a copy.

    Raises
    ------
    CorruptStore
        The segment is damaged; nothing is copied.
    StoreError
        The disk is full or failed.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> one, two = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> create_folders(one); create_folders(two)
    >>> segment = write_segment(one, "dead", pa.table({"seq": [4]}))
    >>> _ = copy_segment(one, segment, two)
    >>> read_segment(two, segment).num_rows
    1
    """
    folder = _folder(target, SEGMENTS)
    verify_segment(root, segment)
    if link:
        try:
            files.disk.link(root / SEGMENTS / segment.name, folder / segment.name)
            files.sync_folder(folder)
            return True
        except FileExistsError:
            pass  # the copy below compares it
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                files.fail(error, "linking", segment.name)

    def pour(fd: int, file: str) -> None:
        def fill(sink: files.Sink) -> None:
            while part := files.disk.read(fd, files.CHUNK):
                sink.write(part)
            if sink.hash.hexdigest() != segment.hash:
                raise CorruptStore(file, "it changed while it was copied")

        try:
            files.publish(folder, fill, lambda _: segment.name)
        except OSError as error:
            files.fail(error, "copying", segment.name)

    _load(root, segment, pour)
    return False


@contextmanager
def try_lock(root: Path) -> Iterator[bool]:
    """Try to become the one snapshotter; yields False at once if another thread or process is.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> with try_lock(root) as first, try_lock(root) as second:
    ...     print(first, second)
    True False
    """
    try:
        fd = files.disk.open(root / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        files.fail(error, "locking", LOCK)
    try:
        try:
            files.disk.lock(fd)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            files.fail(error, "locking", LOCK)
        try:
            yield True
        finally:
            files.disk.unlock(fd)  # a forked child may still hold the descriptor
    finally:
        files.disk.close(fd)
