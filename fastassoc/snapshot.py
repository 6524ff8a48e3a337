"""Snapshots on disk: immutable Parquet segments and the manifests that name them.

The only writer of Parquet. It moves Arrow tables and bytes and knows no note and no link; what
the files mean is told in FORMAT.md. Every touch of the disk goes through the one `disk` object.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import re
import secrets
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import xxhash

from fastassoc import parquet
from fastassoc.errors import (
    CorruptStore,
    FormatTooNew,
    InvalidInput,
    ReadOnlyStore,
    StoreError,
    StoreNotFound,
)

__all__ = [
    "FORMAT",
    "KINDS",
    "Disk",
    "Segment",
    "Swept",
    "copy_manifest",
    "copy_segment",
    "create_folders",
    "list_manifests",
    "newest_manifest",
    "read_manifest",
    "read_segment",
    "sweep",
    "try_lock",
    "verify_segment",
    "write_manifest",
    "write_segment",
]

FORMAT = 1
KINDS = (
    "notes",
    "vectors",
    "vocabulary",
    "notestate",
    "dead",
    "links-concept",
    "links-note",
    "links-cue",
    "bulk",
    "stems",
)
SEGMENTS = "segments"
LOCK = "snapshot.lock"
MAX_MANIFEST = 64 << 20
CHUNK = 4 << 20
MAPPED = 64 << 20  # a larger file is mapped for parsing, a smaller one is read whole

_SEGMENT = re.compile(rf"({'|'.join(KINDS)})-([0-9a-f]{{32}})\.parquet")
_MANIFEST = re.compile(r"manifest-(0|[1-9][0-9]{0,18})\.json")
_TEMPORARY = re.compile(r"(tmp-|\.new-)[0-9a-f]{32}")  # the second: a `head` in the making
_HASH = re.compile(r"[0-9a-f]{32}")
_FILES = frozenset(
    {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db-journal", "head", LOCK}
)
_FOLDERS = frozenset({SEGMENTS, "cache", "rejects"})
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "store": str,
    "created_at": int,
    "settings": dict,
    "embedder": (dict, type(None)),
    "counts": dict,
    "segments": list,
    "previous": (str, type(None)),
    "state": dict,
}


@dataclass(frozen=True)
class Segment:
    """What a manifest says of one segment.

    Attributes
    ----------
    name : str
        ``<kind>-<hash>.parquet``, in the folder ``segments``.
    kind : str
        One of `KINDS`.
    rows, bytes : int
        Rows of the table, bytes of the file.
    schema : str
        Columns in order, as ``name type, name type``.
    hash : str
        xxh3-128 of the file, 32 hex digits.
    """

    name: str
    kind: str
    rows: int
    bytes: int
    schema: str
    hash: str


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


class Disk:
    """Every call that touches the disk, so that one object can be swapped to inject faults."""

    def open(self, path: Path, flags: int) -> int:
        """Open without following a symbolic link; a new file gets mode 0600."""
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def truncate(self, fd: int) -> None:
        """Make a file empty and go to its start."""
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def size(self, fd: int) -> int:
        """Bytes of a regular file; anything else raises OSError(EINVAL)."""
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return info.st_size

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new, follow_symlinks=False)

    def touch(self, path: Path) -> None:
        os.utime(path, follow_symlinks=False)

    def mkdir(self, path: Path) -> None:
        os.mkdir(path, 0o700)

    def status(self, path: Path) -> os.stat_result:
        """Of the entry itself, not of what a symbolic link points to."""
        return os.lstat(path)

    def names(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))


disk = Disk()


# -- plain words for what the system says ---------------------------------------------------------


def _fail(error: OSError, doing: str, file: str) -> NoReturn:
    """Turn an error of the system into one of ours."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        full = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
        raise StoreError(
            f"{full}: {doing} {file} did not fit, and nothing was changed. "
            "Free some space and try again."
        ) from error
    if error.errno == errno.EROFS:
        raise ReadOnlyStore(
            f"{doing} {file}: the medium cannot be written, and nothing was changed. "
            "Open the store with read_only=True, or copy it to a disk that can be written."
        ) from error
    if error.errno in (errno.EACCES, errno.EPERM):
        raise StoreError(
            f"{doing} {file}: this user may not ({error.strerror}), and nothing was changed. "
            "Run as the owner of the store, or mend its permissions."
        ) from error
    raise StoreError(
        f"{doing} {file} failed ({error.strerror or error}), and nothing was changed. "
        "Check the disk and try again."
    ) from error


def _damage(error: OSError, file: str) -> NoReturn:
    """Turn an error of reading a file that the store needs into one of ours."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        raise CorruptStore(file, "the file is missing") from error
    if error.errno == errno.ELOOP:
        raise CorruptStore(file, "a symbolic link stands where a file must be") from error
    if error.errno in (errno.EINVAL, errno.EISDIR, errno.ENXIO):
        raise CorruptStore(file, "found something that is not a regular file") from error
    if error.errno == errno.EIO:
        raise CorruptStore(file, "the disk cannot read it (I/O error)") from error
    _fail(error, "reading", file)


def _parse(pattern: re.Pattern[str], name: object, what: str, file: str) -> re.Match[str]:
    match = pattern.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise CorruptStore(file, f"found the {what} name {str(name)[:80]!r}, which no store has")
    return match


def _folder(root: Path, file: str) -> Path:
    """Return the folder of segments; it must be a real folder."""
    path = root / SEGMENTS
    try:
        mode = disk.status(path).st_mode
    except OSError as error:
        _damage(error, file)
    if not stat.S_ISDIR(mode):
        raise CorruptStore(SEGMENTS, "found something else where a folder must be")
    return path


# -- files ---------------------------------------------------------------------------------------


def _sync_folder(path: Path) -> None:
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.sync(fd)
    finally:
        disk.close(fd)


class _Sink:
    """A file to write that hashes what passes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.error: OSError | None = None
        self.restart()

    def restart(self) -> None:
        """Begin again with an empty file."""
        disk.truncate(self.fd)
        self.closed = False
        self.bytes = 0
        self.hash = xxhash.xxh3_128()

    def write(self, data: Any) -> int:
        if self.error is not None:
            raise self.error  # a writer that goes on after a failure must not seem to succeed
        view = memoryview(data).cast("B")
        rest = view
        try:
            while rest:
                rest = rest[disk.write(self.fd, rest) :]
        except OSError as error:
            self.error = error
            raise
        self.hash.update(view)
        self.bytes += len(view)
        return len(view)

    def finish(self) -> None:
        """Refuse whatever a forgotten writer still sends: the descriptor may be another's."""
        self.error = self.error or OSError(errno.EBADF, "the file is finished")

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True


def _same(path: Path, size: int, digest: str) -> bool:
    """Tell whether a file stands there already with these very bytes."""
    with suppress(OSError, CorruptStore):
        fd = disk.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return disk.size(fd) == size and _digest(fd)[0] == digest
        finally:
            disk.close(fd)
    return False


def _publish(
    folder: Path, fill: Callable[[_Sink], object], name: Callable[[_Sink], str]
) -> tuple[str, _Sink]:
    """Write under a temporary name, sync, rename, sync the folder.

    Before the rename a failure removes the temporary file; after it nothing is removed, for then
    the outcome is not known.
    """
    temporary = folder / f"tmp-{secrets.token_hex(16)}"
    fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            sink = _Sink(fd)
            try:
                fill(sink)
            except Exception as error:  # what the system said counts, not what became of it
                if sink.error is None or sink.error is error:
                    raise
                raise sink.error from error
            finally:
                failed = sink.error
                sink.finish()
            if failed is not None:
                raise failed
            disk.sync(fd)
        finally:
            disk.close(fd)
        final = folder / name(sink)
        if _same(final, sink.bytes, sink.hash.hexdigest()):
            disk.touch(final)  # young again: a sweep must not take it before it is named
            disk.unlink(temporary)
        else:
            disk.rename(temporary, final)
    except BaseException:
        with suppress(OSError):
            disk.unlink(temporary)
        raise
    _sync_folder(folder)
    return final.name, sink


def _digest(fd: int, keep: bool = False) -> tuple[str, bytes]:
    """Hash a file from its start; with `keep`, return its bytes too."""
    state = xxhash.xxh3_128()
    parts: list[bytes] = []
    while part := disk.read(fd, CHUNK):
        state.update(part)
        if keep:
            parts.append(part)
    return state.hexdigest(), b"".join(parts)


def _checked(fd: int, segment: Segment, file: str, keep: bool) -> bytes:
    """Check size and hash of an open segment."""
    found = disk.size(fd)
    if found != segment.bytes:
        raise CorruptStore(file, f"found {found} bytes, expected {segment.bytes}")
    digest, data = _digest(fd, keep)
    if digest != segment.hash:
        raise CorruptStore(file, f"found the hash {digest}, expected {segment.hash}")
    return data


# -- segments ------------------------------------------------------------------------------------


def _check_segment(segment: Segment, file: str) -> None:
    """Check one entry of a manifest against itself."""
    kind, digest = _parse(_SEGMENT, segment.name, "segment", file).groups()
    if kind != segment.kind or digest != segment.hash:
        raise CorruptStore(file, f"kind or hash of {segment.name} do not agree with its name")
    for field in ("rows", "bytes"):
        value = getattr(segment, field)
        if type(value) is not int or not 0 <= value < 1 << 62:
            raise CorruptStore(file, f"{segment.name}: {field} is {value!r}, expected a count")
    try:
        parquet.parse_schema(segment.schema)
    except InvalidInput as error:
        raise CorruptStore(file, f"{segment.name}: {error}") from error


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

    def fill(sink: _Sink) -> None:
        if not parquet.write(table, sink):
            sink.restart()
            parquet.write(table, sink, plain=True)

    try:
        name, sink = _publish(folder, fill, lambda sink: f"{kind}-{sink.hash.hexdigest()}.parquet")
    except OSError as error:
        _fail(error, "writing", f"a segment of {kind}")
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


def read_segment(root: Path, segment: Segment) -> pa.Table:
    """Read a segment whole, after its size, hash, schema and declared rows were checked.

    Parameters
    ----------
    root : Path
        The store.
    segment : Segment
        As a manifest or a journal row names it.

    Returns
    -------
    pyarrow.Table
        `segment.rows` rows with the columns of `segment.schema`.

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
            return parquet.read(pa.py_buffer(data), segment.rows, segment.schema)
        except parquet.BadFile as error:
            raise CorruptStore(file, str(error)) from error

    table: pa.Table = _load(root, segment, parse)
    return table


def _load(root: Path, segment: Segment, use: Callable[[int, str], Any]) -> Any:
    """Open a segment, hand its descriptor on, close it."""
    _check_segment(segment, str(segment.name)[:80])
    file = f"{SEGMENTS}/{segment.name}"
    path = _folder(root, file) / segment.name
    try:
        fd = disk.open(path, os.O_RDONLY | os.O_NONBLOCK)  # never wait on a pipe put there
        try:
            return use(fd, file)
        finally:
            disk.close(fd)
    except OSError as error:
        _damage(error, file)


# -- manifests -----------------------------------------------------------------------------------


def write_manifest(
    root: Path, seq: int, content: Mapping[str, Any], *, current: str | None = None
) -> tuple[str, str]:
    """Write ``manifest-<seq>.json``, whole or not at all.

    Parameters
    ----------
    root : Path
        The store.
    seq : int
        The last operation that the snapshot holds.
    content : mapping
        ``store`` (str), ``created_at`` (int, microseconds), ``settings`` (dict), ``embedder``
        (dict or None), ``counts`` (dict of int), ``segments`` (list of `Segment`), ``previous``
        (name of a manifest, or None), ``state`` (dict, anything JSON). ``format`` and ``seq``
        are added.
    current : str, optional
        The manifest that the journal names: it is never replaced. Another of the same sequence
        is a leftover of a snapshot that was cut off, and is.

    Returns
    -------
    tuple of (str, str)
        The name and the hash, for the journal to keep.

    Raises
    ------
    InvalidInput
        The content does not have this shape.
    StoreError
        The disk is full or failed, or `current` would be replaced.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> content = dict(store="s", created_at=0, settings={}, embedder=None, counts={"notes": 0},
    ...                segments=[], previous=None, state={})
    >>> name, digest = write_manifest(root, 7, content)
    >>> name, read_manifest(root, name, digest)["seq"]
    ('manifest-7.json', 7)
    """
    name = f"manifest-{seq}.json"
    full = {**content, "format": FORMAT, "seq": seq}
    try:
        full["segments"] = [asdict(segment) for segment in content["segments"]]
        text = json.dumps(full, allow_nan=False, sort_keys=True, indent=1)
        data = text.encode()  # lone surrogates stand escaped in it
        _structure(_loads(data, name), name)
    except (KeyError, TypeError, ValueError, RecursionError, CorruptStore) as error:
        raise InvalidInput(f"the manifest cannot be written as given: {error!r}.") from error
    if len(data) > MAX_MANIFEST:
        raise InvalidInput(f"the manifest has {len(data)} bytes, expected <= {MAX_MANIFEST}.")
    if name == current and not _same(root / name, len(data), xxhash.xxh3_128_hexdigest(data)):
        raise StoreError(f"{name} is the current snapshot: write again after the next operation.")
    try:
        _, sink = _publish(root, lambda sink: sink.write(data), lambda _: name)
    except OSError as error:
        _fail(error, "writing", name)
    return name, sink.hash.hexdigest()


def _manifest_bytes(root: Path, name: str, digest: str) -> bytes:
    """Read a manifest and check it against the hash that the journal keeps."""
    _parse(_MANIFEST, name, "manifest", str(name)[:80])
    try:
        fd = disk.open(root / name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            size = disk.size(fd)
            if size > MAX_MANIFEST:
                raise CorruptStore(name, f"found {size} bytes, expected <= {MAX_MANIFEST}")
            found, data = _digest(fd, keep=True)
        finally:
            disk.close(fd)
    except OSError as error:
        _damage(error, name)
    if found != digest:
        raise CorruptStore(name, f"found the hash {found}, expected {digest}")
    return data


def read_manifest(root: Path, name: str, digest: str) -> dict[str, Any]:
    """Read a manifest, checked against its hash, format and structure.

    Parameters
    ----------
    root : Path
        The store.
    name, digest : str
        As the journal keeps them.

    Returns
    -------
    dict
        As given to `write_manifest`, with ``format`` and ``seq``; ``segments`` is a list of
        `Segment`.

    Raises
    ------
    FormatTooNew
        A newer version wrote it.
    CorruptStore
        It is missing, damaged, or not a manifest.

    Examples
    --------
    >>> import tempfile
    >>> read_manifest(Path(tempfile.mkdtemp()), "manifest-1.json", "0" * 32)
    Traceback (most recent call last):
    ...
    fastassoc.errors.CorruptStore: manifest-1.json: the file is missing. The store is damaged: \
run `fastassoc verify` for the whole picture and restore a backup.
    """
    return _structure(_loads(_manifest_bytes(root, name, digest), name), name)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return result


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _loads(data: bytes, name: str) -> Any:
    try:
        return json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptStore(name, f"it is not JSON as written by a store ({error})") from error


def _structure(found: Any, name: str) -> dict[str, Any]:
    """Check a parsed manifest and turn its segments into `Segment`s."""
    version = found.get("format") if isinstance(found, dict) else None
    if type(version) is not int or version < 1:
        raise CorruptStore(name, f"found format {version!r}, expected a whole number from 1")
    if version > FORMAT:
        raise FormatTooNew(version, FORMAT)
    for field, types in _FIELDS.items():
        if field not in found or not isinstance(found[field], types) or found[field] is True:
            raise CorruptStore(name, f"field {field!r} is missing or of another type")
    unknown = sorted(set(found) - set(_FIELDS) - {"format", "seq"})
    if unknown:
        raise CorruptStore(name, f"found unknown fields {', '.join(unknown)[:80]}")
    match = _parse(_MANIFEST, name, "manifest", name)
    if type(found["seq"]) is not int or str(found["seq"]) != match[1]:
        raise CorruptStore(name, f"found seq {found['seq']!r}, expected the number in the name")
    if found["previous"] is not None:
        before = _parse(_MANIFEST, found["previous"], "manifest", name)
        if int(before[1]) >= found["seq"]:
            raise CorruptStore(name, f"found {before[0]} as the one before it")
    if any(type(count) is not int or count < 0 for count in found["counts"].values()):
        raise CorruptStore(name, "found counts that are not whole numbers from 0")
    segments: list[Segment] = []
    for entry in found["segments"]:
        if not isinstance(entry, dict) or set(entry) != set(Segment.__dataclass_fields__):
            raise CorruptStore(name, "found a segment with other fields than expected")
        segments.append(Segment(**entry))
        _check_segment(segments[-1], name)
    if len({segment.name for segment in segments}) != len(segments):
        raise CorruptStore(name, "a segment stands twice in it")
    return {**found, "segments": segments}


def list_manifests(root: Path) -> list[tuple[int, str]]:
    """Return every manifest on disk as (sequence, name), oldest first.

    Examples
    --------
    >>> import tempfile
    >>> list_manifests(Path(tempfile.mkdtemp()))
    []
    """
    try:
        names = disk.names(root)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise StoreNotFound(f"there is no store at {root}.") from error
        _fail(error, "listing", str(root))
    return sorted((int(match[1]), match[0]) for match in map(_MANIFEST.fullmatch, names) if match)


def newest_manifest(root: Path) -> tuple[int, str] | None:
    """Return the manifest of the highest sequence on disk as (sequence, name), if there is one.

    Examples
    --------
    >>> import tempfile
    >>> newest_manifest(Path(tempfile.mkdtemp())) is None
    True
    """
    found = list_manifests(root)
    return found[-1] if found else None


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
                disk.mkdir(path)
                _sync_folder(path.parent)
            except FileExistsError:
                if path == root and path.is_dir():
                    continue  # the store itself may be reached through a link
                if not stat.S_ISDIR(disk.status(path).st_mode):
                    raise
        except OSError as error:
            _fail(error, "making the folder", str(path))


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
    kept = [match for match in map(_MANIFEST.fullmatch, keep) if match]
    if not kept:
        return Swept([], 0, [])
    lowest = min(kept, key=lambda match: int(match[1]))
    folder = _folder(root, SEGMENTS)
    removed: list[str] = []
    unknown: list[str] = []
    freed = 0
    try:
        limit = disk.status(root / lowest[0]).st_mtime_ns if older_than is None else older_than
        for place, path in _entries(root, folder):
            info = disk.status(path)
            manifest = _MANIFEST.fullmatch(path.name)
            ours = bool(_TEMPORARY.fullmatch(path.name)) or bool(
                _SEGMENT.fullmatch(path.name) if path.parent == folder else manifest
            )
            if not ours or not stat.S_ISREG(info.st_mode):
                unknown.append(place)
                continue
            old = int(manifest[1]) < int(lowest[1]) if manifest else info.st_mtime_ns < limit
            if old and path.name not in keep:
                disk.unlink(path)
                removed.append(place)
                freed += info.st_size
        if removed:
            _sync_folder(folder)
            _sync_folder(root)
    except OSError as error:
        _fail(error, "sweeping", str(root))
    if unknown:
        warnings.warn(
            f"{root}: left {len(unknown)} unknown files alone ({', '.join(unknown[:5])}); "
            "no store has files of these names.",
            stacklevel=2,
        )
    return Swept(removed, freed, unknown)


def _entries(root: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all entries that belong to this module, or to nobody."""
    for name in disk.names(root):  # manifests first: none is left that names a file that went
        if name not in _FILES and name not in _FOLDERS:
            yield name, root / name
    for name in disk.names(folder):
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
            disk.link(root / SEGMENTS / segment.name, folder / segment.name)
            _sync_folder(folder)
            return True
        except FileExistsError:
            pass  # the copy below compares it
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                _fail(error, "linking", segment.name)

    def pour(fd: int, file: str) -> None:
        def fill(sink: _Sink) -> None:
            while part := disk.read(fd, CHUNK):
                sink.write(part)
            if sink.hash.hexdigest() != segment.hash:
                raise CorruptStore(file, "it changed while it was copied")

        try:
            _publish(folder, fill, lambda _: segment.name)
        except OSError as error:
            _fail(error, "copying", segment.name)

    _load(root, segment, pour)
    return False


def copy_manifest(root: Path, name: str, digest: str, target: Path) -> None:
    """Copy a verified manifest into another store's folder.

    Raises
    ------
    CorruptStore
        It is damaged; nothing is copied.
    StoreError
        The disk is full or failed.

    Examples
    --------
    >>> import tempfile
    >>> one, two = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> content = dict(store="s", created_at=0, settings={}, embedder=None, counts={},
    ...                segments=[], previous=None, state={})
    >>> name, digest = write_manifest(one, 1, content)
    >>> copy_manifest(one, name, digest, two)
    >>> read_manifest(two, name, digest)["store"]
    's'
    """
    data = _manifest_bytes(root, name, digest)
    try:
        _publish(target, lambda sink: sink.write(data), lambda _: name)
    except OSError as error:
        _fail(error, "copying", name)


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
        fd = disk.open(root / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        _fail(error, "locking", LOCK)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            _fail(error, "locking", LOCK)
        try:
            yield True
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # a forked child may still hold the descriptor
    finally:
        disk.close(fd)
