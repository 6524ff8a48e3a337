"""Ids of operations, and of notes that their callers did not name."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable

from fastassoc import query as checks
from fastassoc.errors import InvalidInput

__all__ = ["check_operation_id", "id_maker", "uuid7"]

MAX_ID = 512  # bytes of an operation's id
NAMESPACE = uuid.UUID("6f6d1a0e-7f0c-5c1b-9b57-0d3f0a5b7f11")  # of ids made from operation ids


def check_operation_id(operation_id: str | None) -> None:
    """Refuse an id that cannot name an operation."""
    if operation_id is None:
        return
    if not 1 <= len(str(checks.text(operation_id, "operation_id")).encode()) <= MAX_ID:
        raise InvalidInput(
            f"operation_id: found {operation_id!r:.60}, expected 1 to {MAX_ID} bytes of text."
        )


def id_maker(operation_id: str | None) -> Callable[[int], str]:
    """Make ids by row number: from the operation's id, so that a repeat names the same notes."""
    if operation_id is None:
        return lambda row: uuid7()
    check_operation_id(operation_id)
    return lambda row: str(uuid.uuid5(NAMESPACE, f"{operation_id}\n{row}"))


def uuid7() -> str:
    """A UUID of version 7 (RFC 9562): milliseconds, then random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))
