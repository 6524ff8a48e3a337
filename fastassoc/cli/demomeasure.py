"""How many withheld "See Also" relations a memory of documentation finds by itself."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastassoc as fa

__all__ = ["Measure", "measure"]

FIRST = 10  # places that count
DEPTH = 50  # hits of each read that the two together are made from
BATCH = 50
MOST_ASKED = 1_000  # symbols; more would only take longer
DRAWS = 400  # of the bootstrap


@dataclass(frozen=True)
class Measure:
    """Shares of true relations found in the first ten, by way of asking.

    Attributes
    ----------
    asked : int
        Symbols that were asked.
    relations : int
        Their relations, all of which could be found.
    shares : dict of str to (float, float, float)
        Share, and the bounds of its 95 % interval, by way: see `measure`.
    """

    asked: int
    relations: int
    shares: dict[str, tuple[float, float, float]]

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON values."""
        shares = {
            way: {"share": one[0], "low": one[1], "high": one[2]}
            for way, one in self.shares.items()
        }
        return {"asked": self.asked, "relations": self.relations, "first": FIRST, **shares}


def measure(
    mem: Any,
    unlinked: Any,
    relations: Mapping[str, Sequence[str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Measure:
    """Ask each symbol's note for what is like it, in four ways, and count true relations.

    ``flat`` asks its words, ``links`` its concepts and what is linked to them, ``concepts`` the
    same without following a link, so that nobody takes the work of one for that of the other.
    ``both`` adds ``flat`` and ``links``, each score divided by the best of its answer.

    Parameters
    ----------
    mem : Memory or its control
        Its notes are named by symbol.
    unlinked : Memory or its control
        The same with a threshold that no link reaches.
    relations : mapping of str to list of str
        The truth.
    progress : callable, optional
        Called with the symbols asked so far, and all.
    """
    names = sorted(relations)
    step = max(1, -(-len(names) // MOST_ASKED))
    names = names[::step]
    found: dict[str, list[int]] = defaultdict(list)
    for start in range(0, len(names), BATCH):
        part = names[start : start + BATCH]
        flat = mem.read_batch([{"like": name} for name in part], rank="flat", k=DEPTH)
        links = mem.read_batch([{"like": name} for name in part], rank="counts", k=DEPTH)
        bare = unlinked.read_batch([{"like": name} for name in part], rank="counts", k=FIRST)
        for name, a, b, c in zip(part, flat, links, bare, strict=True):
            truth = set(relations[name])
            ways = {
                "flat": _ids(a),
                "concepts": _ids(c),
                "links": _ids(b),
                "both": together([a, b]),
            }
            for way, ids in ways.items():
                found[way].append(len(truth.intersection(ids)))
        if progress is not None:
            progress(min(start + BATCH, len(names)), len(names))
    totals = [len(relations[name]) for name in names]
    shares = {way: _share(counts, totals) for way, counts in found.items()}
    return Measure(len(names), sum(totals), shares)


def _ids(recall: fa.Recall) -> list[str]:
    return [hit.id for hit in recall[:FIRST]]


def together(answers: Sequence[fa.Recall]) -> list[str]:
    """Ids of the first ten of several answers added, each score divided by its best."""
    sums: dict[str, float] = defaultdict(float)
    for recall in answers:
        for hit in recall:
            sums[hit.id] += hit.rank_score / (recall[0].rank_score or 1.0)
    return sorted(sums, key=lambda name: (-sums[name], name))[:FIRST]


def _share(found: Sequence[int], totals: Sequence[int]) -> tuple[float, float, float]:
    """Share of all relations, with a bootstrap interval over the symbols."""
    draw = random.Random(0)
    places = range(len(found))
    shares = []
    for _ in range(DRAWS):
        taken = draw.choices(places, k=len(found))
        shares.append(sum(found[n] for n in taken) / sum(totals[n] for n in taken))
    shares.sort()
    low, high = shares[DRAWS // 40], shares[-1 - DRAWS // 40]
    return sum(found) / sum(totals), low, high
