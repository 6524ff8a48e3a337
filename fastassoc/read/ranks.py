"""The ranks: how candidates are found and scored."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

import numpy as np
from numpy.typing import NDArray

from fastassoc.links import Expansion
from fastassoc.query import Query
from fastassoc.read.scan import Scan
from fastassoc.settings import Settings
from fastassoc.state import StateView

__all__ = [
    "FAR",
    "Parts",
    "Scored",
    "Way",
    "expanded",
    "is_linked",
    "plan",
    "score_counts",
    "score_flat",
]

Rows = NDArray[np.int32]
Scores = NDArray[np.float64]
Parts = dict[str, float]  # what a rank score is the sum of, by name
Ordered = list[tuple[int, float]]  # rows with their scores, best first
# "into" (concept, row), "out of" (row, concept), "word" (term, row), "to word" (row, term),
# "note" (row, row), "link" (concept, concept), "cue" (code of a term, row)
Way = tuple[str, int, int]
FAR = 1e-9  # of a cosine below 0 counts: such notes come last, the nearest first
OVER_LINKS = frozenset({"out of", "to word", "note", "link", "cue"})


@dataclass
class Scored:
    """What a rank made of a query.

    Attributes
    ----------
    candidates : list of (int, float)
        Rows and rank scores, best first.
    direct : container of int
        Rows that the direct score brought: the first k, or all candidates of a rank that keeps
        those brought by links apart. Others are, too, where their `way` leads over no link.
    parts : callable
        From a row, its score and how many asked concepts it carries: the parts of the score.
    exact : dict of int to float
        The rank score of each exact row, be it a candidate or not.
    expansion : Expansion or None
        What concept links led to.
    associated : list of (int, float)
        Rows that links led to, for which `share` of the places is kept, best first.
    share : float
    walk : Expansion or None
        What note links led to.
    coverage : float or None
        How much of the query the rank finds explained, in [0, 1]; else `Scan.coverage` tells.
    way : callable or None
        From a row to the steps that led to it, where a rank walks over notes and concepts alike.
    reached : dict of int to float
        How strongly each concept on those ways was reached.
    """

    candidates: Ordered
    direct: Container[int]
    parts: Callable[[int, float, int], Parts]
    exact: dict[int, float] = field(default_factory=dict)
    expansion: Expansion | None = None
    associated: Ordered = field(default_factory=list)
    share: float = 0.0
    walk: Expansion | None = None
    way: Callable[[int], list[Way]] | None = None
    coverage: float | None = None
    reached: dict[int, float] = field(default_factory=dict)


def is_linked(way: Sequence[Way]) -> bool:
    """Whether a way leads over a link, a note or a word of one, and not straight to its end."""
    return any(kind in OVER_LINKS for kind, _, _ in way)


def plan(query: Query, settings: Settings) -> str:
    """The rank to use: what was asked for, else what the settings say, else by what is asked with.

    Concepts alone are counted; a text, a vector or a note is bridged.
    """
    more = query.text is not None or query.vector is not None or query.like is not None
    return query.rank or settings.rank or ("bridge" if more else "counts")


# -- counts -------------------------------------------------------------------------------------


def score_counts(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """10 for each asked concept on a note, and the strength of each expanded one on it."""
    asked = np.array(sorted(found.named), np.uint32)
    expansion = expanded(view, query, settings, asked, now)
    rows, scores, direct, direct_scores = view.notes.postings.count_read(
        asked, expansion.ids, expansion.strengths, found.allowed, pool, view.notes.prefix
    )
    near = by_text(view, direct, direct_scores, query.k)
    exact = {row: counts_of(view, row, set(found.named), expansion) for row in found.exact}
    return Scored(
        by_text(view, rows, scores, pool), {row for row, _ in near}, count_parts, exact, expansion
    )


def count_parts(row: int, score: float, asked: int) -> Parts:
    """The parts of a score by counts."""
    return {"asked": 10.0 * asked, "association": score - 10.0 * asked}


def expanded(
    view: StateView, query: Query, settings: Settings, asked: NDArray[np.uint32], now: int
) -> Expansion:
    """What concept links lead to from the asked concepts."""
    rule = settings.concept_links
    return view.links.expand(
        asked,
        threshold=rule.threshold,
        hops=query.hops,
        hop_factor=settings.hop_factor,
        product=rule.ceiling == 1.0,
        max_fanout=settings.max_fanout,
        now=now,
    )


def counts_of(view: StateView, row: int, asked: set[int], expansion: Expansion) -> float:
    """The score by counts of one row, summed in the order of `PostingsView.count_read`."""
    held = set(view.notes.table.concepts_of(row)[0].tolist())
    score = 10.0 * len(held & asked)
    for concept in sorted(held - asked):
        place = int(np.searchsorted(expansion.ids, concept))
        if place < len(expansion.ids) and expansion.ids[place] == concept:
            score += max(0.0, float(expansion.strengths[place]))
    return score


def by_text(view: StateView, rows: Rows, scores: Scores, k: int) -> Ordered:
    """The first k by score, then text descending in code-point order, then order of writing."""
    order = rows.argsort()
    rows, scores = rows[order], scores[order]
    texts = view.notes.table.texts.take(rows)
    held = nlargest(k, zip(scores.tolist(), texts, (-rows).tolist(), strict=True))
    return [(-row, score) for score, _, row in held]


# -- flat ---------------------------------------------------------------------------------------


def score_flat(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """BM25 over the stems of the text, cosine with the vector, or half of each by its maximum.

    The nearest `Scan.near` have their own cosine; every other note gets the least of them. A note
    for which nothing speaks has `FAR` of its cosine, which is not above 0.
    """
    words, cosines = Words(view, settings, found), Cosines(found)
    near = [] if found.near is None else found.near[0].tolist()
    rows = words.best(pool + len(near))
    if not rows and not cosines.far:
        near = near[:pool]  # by cosine alone they come as they were found
    words.look_up([*near, *found.exact])
    top, highest = max((words(row) for row in rows), default=0.0), cosines.highest

    def parts(row: int) -> Parts:
        if cosines.raw(row) < 0.0 and not words(row):
            return {"vector": FAR * cosines.raw(row)}
        if not rows:
            return {"vector": cosines(row)}
        if not highest:
            return {"text": words(row)}
        return {"vector": 0.5 * cosines(row) / highest, "text": 0.5 * words(row) / top}

    made = {row: parts(row) for row in {*rows, *near, *found.exact}}
    totals = {row: sum(of.values()) for row, of in made.items()}
    order = sorted({*rows, *near}, key=lambda row: (-totals[row], row))[:pool]
    return Scored(
        [(row, totals[row]) for row in order],
        set(order),
        lambda row, score, asked: made[row],
        {row: totals[row] for row in found.exact},
    )


class Words:
    """BM25 of rows for the query's stems."""

    def __init__(self, view: StateView, settings: Settings, found: Scan) -> None:
        self._text = view.text
        self._terms = found.terms
        self._allowed = found.allowed
        self._options = settings.bm25_k1, settings.bm25_b
        self._known: dict[int, float] = {}

    def best(self, n: int) -> list[int]:
        """The n best of the allowed rows."""
        if self._text is None or not len(self._terms):
            return []
        rows, scores = self._text.best(self._terms, *self._options, self._allowed, n)
        self._known.update(zip(rows.tolist(), scores.tolist(), strict=True))
        return list(rows.tolist())

    def look_up(self, rows: list[int]) -> None:
        """Weigh rows that `best` did not give."""
        new = [row for row in rows if row not in self._known]
        if self._text is not None and len(self._terms) and new:
            terms = [int(term) for term in self._terms]
            held = self._text.weights(np.array(new, np.int64), terms, *self._options)
            self._known.update(zip(new, held.sum(axis=1).tolist(), strict=True))

    def __call__(self, row: int) -> float:
        return self._known.get(row, 0.0)


class Cosines:
    """Cosines of the nearest rows, and of all others the least of these."""

    def __init__(self, found: Scan) -> None:
        rows, cosines = found.near or (np.empty(0, np.int64), np.empty(0))
        raw = cosines.tolist()
        self._raw: dict[int, float] = dict(zip(rows.tolist(), raw, strict=True))
        self.rest = max(0.0, raw[-1]) if found.more else 0.0
        self.highest = max(0.0, raw[0]) if raw else 0.0
        self.far = bool(raw) and raw[-1] < 0.0

    def raw(self, row: int) -> float:
        """The cosine if it is negative, else 0."""
        return min(0.0, self._raw.get(row, 0.0))

    def __call__(self, row: int) -> float:
        return max(0.0, self._raw.get(row, self.rest))
