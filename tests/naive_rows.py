"""Rows into names and ids, in plain dicts and loops. Imports nothing of fastassoc."""

from __future__ import annotations

import struct
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID, uuid5


def fold(name: str) -> str:
    """The rule of the "fold" names."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def gather_names(
    rows: Sequence[tuple[Sequence[str], Sequence[str]]], key: Callable[[str], str | None] = fold
) -> tuple[list[list[tuple[str, bool]]], dict[str, str]]:
    """Each row's distinct keys with whether it declared them; each key's first spelling, in order.

    A row is its concepts and its subjects; names without a key are skipped.
    """
    out: list[list[tuple[str, bool]]] = []
    spellings: dict[str, str] = {}
    for concepts, subjects in rows:
        held: dict[str, bool] = {}
        for names, declared in ((concepts, False), (subjects, True)):
            for name in names:
                folded = key(name)
                if folded is None:
                    continue
                spellings.setdefault(folded, name)
                held[folded] = held.get(folded, False) or declared
        out.append(list(held.items()))
    return out, spellings


def count_seen(values: Sequence[int]) -> list[int]:
    """How often each value came before."""
    seen: Counter[int] = Counter()
    out = []
    for value in values:
        out.append(seen[value])
        seen[value] += 1
    return out


def longest_value(page: bytes) -> int:
    """Length of the longest value, each after its length in 4 bytes; -1 where the page is torn."""
    lengths = [0]
    while page:
        if len(page) < 4:
            return -1
        (length,) = struct.unpack("<I", page[:4])
        if length > len(page) - 4:
            return -1
        lengths.append(length)
        page = page[4 + length :]
    return max(lengths)


def content_ids(contents: Sequence[bytes], namespace: UUID) -> list[str]:
    """UUIDv5 of the content and its occurrence."""
    seen: Counter[bytes] = Counter()
    out = []
    for content in contents:
        name = f"{seen[content]}\n{content.decode('ascii')}"
        out.append(str(uuid5(namespace, name)))
        seen[content] += 1
    return out


def vectors(
    given: Sequence[Sequence[float] | None], width: int | None
) -> list[list[float] | bool | None]:
    """Each vector as float32; None where there is none, False where it is refused."""
    out: list[list[float] | bool | None] = []
    for numbers in given:
        out.append(None if numbers is None else _vector(numbers))
        if width is None and isinstance(out[-1], list):
            width = len(out[-1])
    return [False if isinstance(one, list) and len(one) != width else one for one in out]


def _vector(numbers: Sequence[float]) -> list[float] | bool:
    try:
        found = [struct.unpack("<f", struct.pack("<f", one))[0] for one in numbers]
    except OverflowError:
        return False
    if any(one != one or abs(one) == float("inf") for one in found):
        return False
    return found if any(abs(one) >= 2.0**-126 for one in found) else False
