"""Which files of a store the journal and the current snapshot name, and what a snapshot must."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from typing import Any

import xxhash

from fastassoc import snapshot as disk
from fastassoc.errors import CorruptStore
from fastassoc.journal import Behind, Entry, Journal, Pointer, Transaction
from fastassoc.snapshot import Segment

__all__ = [
    "SPANNED",
    "bulk_segments",
    "entries_from",
    "manifest_of",
    "parts_of",
    "texts_key",
    "vectors_key",
]

# what a manifest names, any other kind being reserved:
SPANNED = ("notes", "vectors")  # any number of segments, each of a span of the notes
ONE_EACH = {  # exactly one, since that format
    "notestate": 1,
    "dead": 1,
    "vocabulary": 1,
    "links-concept": 1,
    "links-note": 2,
}
AT_MOST_ONE = ("vectors-next", "links-cue", "stems")


def manifest_of(journal: Journal, pointer: Pointer) -> dict[str, Any]:
    """The manifest of a snapshot."""
    return disk.read_manifest(journal.path, pointer.manifest, pointer.digest)


def parts_of(manifest: dict[str, Any], name: str) -> dict[str, list[Segment]]:
    """The segments of a manifest by kind: every kind of `SPANNED`, and those that it has of others.

    Parameters
    ----------
    manifest : dict
        As `manifest_of` gives it.
    name : str
        Its name, for the error.

    Raises
    ------
    CorruptStore
        It lacks a kind, or names several segments where one must be.
    """
    parts: dict[str, list[Segment]] = {kind: [] for kind in SPANNED}
    for segment in manifest["segments"]:
        if segment.kind in ONE_EACH or segment.kind in SPANNED or segment.kind in AT_MOST_ONE:
            parts.setdefault(segment.kind, []).append(segment)
    for kind, held in parts.items():
        if len(held) > 1 and kind not in SPANNED:
            raise CorruptStore(name, f"names several segments of {kind}")
    for kind, since in ONE_EACH.items():
        if kind not in parts and manifest["format"] >= since:
            raise CorruptStore(name, f"names no segment of {kind}")
    return parts


def vectors_key(names: Iterable[str]) -> str:
    """The key under which ``cache`` keeps what is made from a snapshot's vectors.

    Parameters
    ----------
    names : iterable of str
        Names of all segments of the snapshot. What counts are those of vectors, in their order,
        and which notes are dead in them.

    Examples
    --------
    >>> vectors_key(["vectors-0a.parquet", "notes-1b.parquet", "dead-2c.parquet"])
    '269a8fddbcc748627248e2aa68ce2336'
    """
    return key_of(names, ("vectors", "dead"))


def texts_key(names: Iterable[str]) -> str:
    """The key under which ``cache`` keeps what is made from a snapshot's texts.

    Parameters
    ----------
    names : iterable of str
        Names of all segments of the snapshot. What counts are those of notes, in their order, and
        which are dead in them: these decide which text is in which row.

    Examples
    --------
    >>> texts_key(["vectors-0a.parquet", "notes-1b.parquet", "dead-2c.parquet"])
    '676e28fcdbc8193359223299f1f7e637'
    """
    return key_of(names, ("notes", "dead"))


def key_of(names: Iterable[str], kinds: Container[str]) -> str:
    """A hash of those names that are segments of some kinds."""
    named = [name for name in names if name.rpartition("-")[0] in kinds]
    return xxhash.xxh3_128_hexdigest("\n".join(named).encode())


def bulk_segments(entries: Iterable[Entry]) -> list[Segment]:
    """The bulk segments that operations name."""
    found = []
    for entry in entries:
        if '"segment"' in entry.body:
            try:
                body = json.loads(entry.body)
                if "segment" in body:
                    found.append(Segment(**body["segment"]))
            except (ValueError, TypeError, RecursionError) as error:
                raise CorruptStore(
                    "journal.db", f"operation {entry.seq} names no segment"
                ) from error
    return found


def entries_from(source: Journal | Transaction, after: int) -> list[Entry]:
    """Operations after a position, or all that are left."""
    read = source.read if isinstance(source, Journal) else source.entries_after
    try:
        return read(after)
    except Behind as error:
        return read(error.reaches)
