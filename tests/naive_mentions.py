"""Mentions of concepts in notes, found anew in loops, from the rules alone.

Nothing here comes from fastassoc: where the two differ, one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from naive_concepts import tokens, units

LONGEST = 6


class Mentioning:
    """Notes as text, own concepts (key to whether it was declared) and whether they live."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.own: list[dict[str, bool]] = []
        self.alive: list[bool] = []

    def write(self, text: str, own: Mapping[str, bool]) -> None:
        self.texts.append(text)
        self.own.append(dict(own))
        self.alive.append(True)

    def forget(self, row: int) -> None:
        self.alive[row] = False

    def eligible(self) -> set[str]:
        """Keys declared by a live note, or on two of them."""
        found = set()
        keys = [(key, given) for own, alive in zip(self.own, self.alive, strict=True) if alive
                for key, given in own.items()]  # fmt: skip
        for key, given in keys:
            if given or sum(other == key for other, _ in keys) >= 2:
                found.add(key)
        return found

    def mentions(self) -> list[set[str]]:
        """The keys of each note, none for a dead one."""
        may = self.eligible()
        return [
            said_in(text, may) | (own.keys() & may) if alive else set()
            for text, own, alive in zip(self.texts, self.own, self.alive, strict=True)
        ]


def said_in(text: str, keys: Iterable[str]) -> set[str]:
    """Keys that a longest-match scan of the text finds by their units, no overlap."""
    names = [(key, units(key)) for key in keys if len(tokens(key)) <= LONGEST]
    longest = max((len(name) for _, name in names), default=0)
    words, found, at = units(text), set(), 0
    while at < len(words):
        step = 1
        for size in range(longest, 0, -1):
            run = words[at : at + size]
            run[:1] = [(run[0][0], False)]  # a name may begin within a run
            here = {key for key, name in names if name == run}
            if here:
                found |= here
                step = size
                break
        at += step
    return found


def gather(
    rows: Sequence[Iterable[int]],
    ids: Sequence[int],
    weights: Sequence[float],
    allowed: Sequence[int],
) -> list[tuple[int, float]]:
    """Each allowed row that holds any of the ids, and the sum of their weights in this order."""
    out = []
    for row, held in enumerate(map(set, rows)):
        if allowed[row] and held & set(ids):
            total = 0.0
            for one, weight in zip(ids, weights, strict=True):
                if one in held:
                    total += weight
            out.append((row, total))
    return out
