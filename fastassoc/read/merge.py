"""The places of an answer: exact notes, then candidates, cut to k."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fastassoc.query import Query
from fastassoc.read.ranks import Ordered, Scored, is_linked
from fastassoc.read.scan import Scan
from fastassoc.state import StateView
from fastassoc.words import terms

__all__ = ["Placed", "absolute", "merge"]


@dataclass
class Placed:
    """A row in its place, with its concepts and the parts of its rank score."""

    row: int
    source: str
    parts: dict[str, float]
    concepts: list[int]

    @property
    def rank_score(self) -> float:
        """The sum of the parts."""
        return math.fsum(self.parts.values())


def merge(view: StateView, query: Query, found: Scan, scored: Scored) -> list[Placed]:
    """Exact notes first, then the candidates and the associated ones in their places."""
    places = Places(view, query, found, scored)
    firsts = [*scored.candidates[:1], *scored.associated[:1]]
    above = max((score for _, score in firsts), default=0.0) + 1.0
    above -= min(0.0, *scored.exact.values(), 0.0)  # what was learned may be below 0
    placed: list[Placed] = []
    best = sorted(found.exact, key=lambda row: -scored.exact.get(row, 0.0))
    for row in best[: query.k]:
        one = places.place(row, scored.exact.get(row, 0.0))
        # a bonus that lifts it above every other note, so that rank_score keeps ordering
        placed.append(replace(one, source="exact", parts={"exact": above, **one.parts}))
    placed.sort(key=lambda one: -one.rank_score)
    room = query.k - len(placed)
    return placed + places.fill(room) if room > 0 else placed


def absolute(rank_score: float, coverage: float) -> float:
    """`Hit.score`: in [0, 1], in the order of the rank score, low where little is explained."""
    rank_score = max(0.0, rank_score)  # what was learned may be below 0
    return coverage * rank_score / (1.0 + rank_score)


class Places:
    """Who gets the places that exact notes leave."""

    def __init__(self, view: StateView, query: Query, found: Scan, scored: Scored) -> None:
        self._view = view
        self._diversity = query.diversity
        self._scored = scored
        self._asked = set(found.named)
        self._exact = set(found.exact)
        self._least = query.min_score
        self._coverage = found.coverage if scored.coverage is None else scored.coverage

    def _good(self, rank_score: float) -> bool:
        """Whether a note may have a place at all."""
        return not self._least or absolute(rank_score, self._coverage) >= self._least

    def fill(self, room: int) -> list[Placed]:
        """The notes for `room` places, best first."""
        direct, linked = (
            [one for one in some if one[0] not in self._exact and self._good(one[1])]
            for some in (self._scored.candidates, self._scored.associated)
        )
        kept = min(math.ceil(room * self._scored.share), len(linked))
        if direct:
            kept = min(kept, room - 1)  # the best direct note always comes
        while True:
            first = self.pick(direct, room - kept)
            taken = {one.row for one in first}
            rest = [one for one in linked if one[0] not in taken]
            placed = first + self.pick(rest, room - len(first), linked=True)
            if len(rest) >= kept or len(placed) == room or len(first) < room - kept:
                break
            kept = len(rest)  # a diverse answer took some of the linked ones as direct
        return sorted(placed, key=lambda one: (-one.rank_score, one.row)) if linked else placed

    def pick(self, candidates: Ordered, room: int, *, linked: bool = False) -> list[Placed]:
        """The first of the candidates, or the first that differ; `linked` by links alone."""
        if not self._diversity:
            candidates = candidates[:room]
        pool = [self.place(row, score, linked=linked) for row, score in candidates]
        if not self._diversity:
            return pool
        return spread(self._view, pool, self._diversity, room)

    def place(self, row: int, score: float, *, linked: bool = False) -> Placed:
        """A row with the named parts of its rank score."""
        concepts = self._view.notes.table.concepts_of(row)[0].tolist()
        asked = len(self._asked.intersection(concepts))
        if linked:
            return Placed(row, "association", {"association": score}, concepts)
        scored = self._scored
        direct = row in scored.direct or (scored.way is not None and not is_linked(scored.way(row)))
        source = "association" if not direct else "concept" if asked else "semantic"
        return Placed(row, source, scored.parts(row, score, asked), concepts)


def spread(view: StateView, pool: list[Placed], diversity: float, k: int) -> list[Placed]:
    """The first k, each losing a share of its score for the concepts it has in common with a pick.

    Score times ``1 - diversity * overlap``, the overlap being the largest Jaccard index of the
    concepts, or of the words where neither note has a concept.
    """
    table = view.notes.table
    grid = grid_of(pool)
    pool = [replace(one, parts=rounded(one.parts, grid)) for one in pool]
    sets: dict[int, frozenset[object]] = {
        one.row: frozenset(one.concepts or terms(table.texts[one.row])) for one in pool
    }
    picks: list[Placed] = []
    left = list(pool)
    overlap = dict.fromkeys(sets, 0.0)

    def lost(one: Placed) -> float:
        return to_grid(max(0.0, one.rank_score) * diversity * overlap[one.row], grid)

    while left and len(picks) < k:
        best = max(left, key=lambda one: one.rank_score - lost(one))
        left.remove(best)
        parts = {**best.parts, "diversity": -lost(best)} if lost(best) else best.parts
        picks.append(replace(best, parts=parts))
        for one in left:
            a, b = sets[one.row], sets[best.row]
            common = len(a & b) / len(a | b) if a | b else 0.0
            overlap[one.row] = max(overlap[one.row], common)
    return picks


def grid_of(pool: list[Placed]) -> float:
    """A power of two so small that no place depends on it, and so large that sums are exact."""
    largest = max((abs(part) for one in pool for part in one.parts.values()), default=0.0)
    return math.ldexp(1.0, max(math.frexp(largest)[1] - 48, -1000))


def to_grid(value: float, grid: float) -> float:
    """The nearest multiple of the grid."""
    return round(value / grid) * grid


def rounded(parts: dict[str, float], grid: float) -> dict[str, float]:
    """Parts of which a share can be taken away, and all of them, without a rest."""
    return {name: to_grid(part, grid) for name, part in parts.items()}
