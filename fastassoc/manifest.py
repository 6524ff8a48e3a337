"""Manifests: what a snapshot holds, checked against its hash and its shape."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import xxhash

from fastassoc import files, parquet
from fastassoc.errors import CorruptStore, FormatTooNew, InvalidInput, StoreError, StoreNotFound
from fastassoc.formats import FORMAT
from fastassoc.jsontext import loads

__all__ = [
    "FORMAT",
    "KINDS",
    "MANIFEST_NAME",
    "SEGMENT_NAME",
    "Segment",
    "check_segment",
    "copy_manifest",
    "list_manifests",
    "manifest_digest",
    "newest_manifest",
    "read_manifest",
    "write_manifest",
]

KINDS = (
    "notes",
    "vectors",
    "vectors-next",
    "vocabulary",
    "notestate",
    "dead",
    "links-concept",
    "links-note",
    "links-cue",
    "bulk",
    "stems",
)
MAX_MANIFEST = 64 << 20

SEGMENT_NAME = re.compile(rf"({'|'.join(KINDS)})-([0-9a-f]{{32}})\.parquet")
MANIFEST_NAME = re.compile(r"manifest-(0|[1-9][0-9]{0,18})\.json")
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


def parse_name(pattern: re.Pattern[str], name: object, what: str, file: str) -> re.Match[str]:
    match = pattern.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise CorruptStore(file, f"found the {what} name {str(name)[:80]!r}, which no store has")
    return match


def check_segment(segment: Segment, file: str) -> None:
    """Check one entry of a manifest against itself."""
    kind, digest = parse_name(SEGMENT_NAME, segment.name, "segment", file).groups()
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
        data = text.encode()
        _structure(_loads(data, name), name)
    except (KeyError, TypeError, ValueError, RecursionError, CorruptStore) as error:
        raise InvalidInput(f"the manifest cannot be written as given: {error!r}.") from error
    if len(data) > MAX_MANIFEST:
        raise InvalidInput(f"the manifest has {len(data)} bytes, expected <= {MAX_MANIFEST}.")
    if name == current and not files.same(root / name, len(data), xxhash.xxh3_128_hexdigest(data)):
        raise StoreError(f"{name} is the current snapshot: write again after the next operation.")
    try:
        _, sink = files.publish(root, lambda sink: sink.write(data), lambda _: name)
    except OSError as error:
        files.fail(error, "writing", name)
    return name, sink.hash.hexdigest()


def _manifest_bytes(root: Path, name: str, digest: str) -> bytes:
    """Read a manifest and check it against the hash that the journal keeps."""
    found, data = _read(root, name)
    if found != digest:
        raise CorruptStore(name, f"found the hash {found}, expected {digest}")
    return data


def _read(root: Path, name: str) -> tuple[str, bytes]:
    parse_name(MANIFEST_NAME, name, "manifest", str(name)[:80])
    try:
        fd = files.disk.open(root / name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            size = files.disk.size(fd)
            if size > MAX_MANIFEST:
                raise CorruptStore(name, f"found {size} bytes, expected <= {MAX_MANIFEST}")
            return files.digest(fd, keep=True)
        finally:
            files.disk.close(fd)
    except OSError as error:
        files.damage(error, name)


def manifest_digest(root: Path, name: str) -> str:
    """The hash that a manifest has, for a repair: nobody says that it is the right one.

    Raises
    ------
    CorruptStore
        It is missing, or too large to be one.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> _ = (root / "manifest-1.json").write_text("{}")
    >>> manifest_digest(root, "manifest-1.json")
    'dc7048f8f8747f561349cde127705c16'
    """
    return _read(root, name)[0]


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
run `fastassoc verify` for the whole picture and restore a backup; `fastassoc repair` salvages \
what is left.
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
        return loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except ValueError as error:
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
    match = parse_name(MANIFEST_NAME, name, "manifest", name)
    seq = found.get("seq")
    if type(seq) is not int or str(seq) != match[1]:
        raise CorruptStore(name, f"found seq {seq!r:.80}, expected the number in the name")
    if found["previous"] is not None:
        before = parse_name(MANIFEST_NAME, found["previous"], "manifest", name)
        if int(before[1]) >= seq:
            raise CorruptStore(name, f"found {before[0]} as the one before it")
    if any(type(count) is not int or count < 0 for count in found["counts"].values()):
        raise CorruptStore(name, "found counts that are not whole numbers from 0")
    segments: list[Segment] = []
    for entry in found["segments"]:
        if not isinstance(entry, dict) or set(entry) != set(Segment.__dataclass_fields__):
            raise CorruptStore(name, "found a segment with other fields than expected")
        segments.append(Segment(**entry))
        check_segment(segments[-1], name)
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
        names = files.disk.names(root)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise StoreNotFound(f"there is no store at {root}.") from error
        files.fail(error, "listing", str(root))
    return sorted(
        (int(match[1]), match[0]) for match in map(MANIFEST_NAME.fullmatch, names) if match
    )


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
        files.publish(target, lambda sink: sink.write(data), lambda _: name)
    except OSError as error:
        files.fail(error, "copying", name)
