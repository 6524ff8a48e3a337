"""Which files of a store the journal and the current snapshot name, and what a snapshot must."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import xxhash

from fastassoc import snapshot as disk
from fastassoc.errors import CorruptStore
from fastassoc.journal import Behind, Entry, Journal, Pointer, Transaction
from fastassoc.snapshot import Segment

__all__ = [
    "MADE_FROM",
    "SPANNED",
    "Keys",
    "bulk_segments",
    "cache_keys",
    "entries_from",
    "manifest_of",
    "parts_of",
]

T = TypeVar("T")

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


class Keys(NamedTuple, Generic[T]):
    """What the cache keeps of a snapshot, each made from segments of some kinds; see `MADE_FROM`.

    Attributes
    ----------
    vectors, texts : T
        What is made from its vectors, and from its texts.
    names : T
        What is made from its texts and its names of concepts.
    """

    vectors: T
    texts: T
    names: T


# which notes are dead decides what is in which row
MADE_FROM = Keys(("vectors", "dead"), ("notes", "dead"), ("notes", "dead", "vocabulary"))


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


def cache_keys(segments: Sequence[Segment]) -> Keys[str]:
    """The keys under which ``cache`` keeps what is made from a snapshot with these segments."""
    named = ("\n".join(one.name for one in segments if one.kind in kinds) for kinds in MADE_FROM)
    return Keys(*(xxhash.xxh3_128_hexdigest(names.encode()) for names in named))


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
