"""Which files of a store the journal and the current snapshot name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fastassoc import snapshot as disk
from fastassoc.journal import Behind, Entry, Journal, Pointer, Transaction
from fastassoc.snapshot import Segment

__all__ = ["bulk_segments", "entries_from", "manifest_of"]


def manifest_of(journal: Journal, pointer: Pointer) -> dict[str, Any]:
    """The manifest of a snapshot."""
    return disk.read_manifest(journal.path, pointer.manifest, pointer.digest)


def bulk_segments(entries: Iterable[Entry]) -> list[Segment]:
    """The bulk segments that operations name."""
    bodies = (json.loads(entry.body) for entry in entries if '"segment"' in entry.body)
    return [Segment(**body["segment"]) for body in bodies if "segment" in body]


def entries_from(source: Journal | Transaction, after: int) -> list[Entry]:
    """Operations after a position, or all that are left."""
    read = source.read if isinstance(source, Journal) else source.entries_after
    try:
        return read(after)
    except Behind as error:
        return read(error.reaches)
