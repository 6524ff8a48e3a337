"""The rank of a memory that forgets: nearness times retention, and places kept for associations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.links import Expansion
from fastassoc.query import Query
from fastassoc.read.lookup import Lookup
from fastassoc.read.ranks import FAR, Scored, expanded
from fastassoc.read.scan import Scan
from fastassoc.settings import Settings
from fastassoc.state import StateView

__all__ = ["score_retention"]

TEXTS = 1000  # how many of the best notes by text are looked at, at least
Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


def score_retention(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """Direct notes by ``sim * R^power``; associated ones by that times the strength of the path.

    Of a cosine below 0 `FAR` is the score, the less so the stronger the path.

    *Direct* are the nearest hot notes by vector, the best by text, and those that carry an asked
    concept; where the query has no vector, sim is `RetentionRule.similarity` times BM25 by its
    maximum, and the whole of it for notes that carry an asked concept. *Associated* are notes
    that note links lead to from the first k direct ones, by the product of the effective weights,
    and notes that carry an expanded concept, by ``s / (1 + s)`` where s is the sum of the
    strengths of their expanded concepts; the stronger counts.
    """
    rows, words = direct_rows(view, settings, found, pool)
    cosines = cosines_of(view, query, found, rows)
    by_words = words if cosines is None else None
    scores = keenness(view, settings, rows, now, cosines, by_words)
    by_score = np.lexsort((rows, -scores))
    order, scores = rows[by_score], scores[by_score]
    first = order[: query.k].tolist()
    liked = () if found.like is None else (found.like,)
    seeds = np.array(sorted({*first, *found.exact, *liked}), np.int64)
    walk = view.note_links.expand(
        seeds.astype(np.uint32),
        threshold=settings.note_links.threshold,
        hops=query.hops,
        hop_factor=settings.hop_factor,
        product=True,
        max_fanout=settings.max_fanout,
        now=now,
        allowed=found.allowed,
    )
    asked = np.array(sorted(found.named), np.uint32)
    expansion = expanded(view, query, settings, asked, now)
    strengths = reached(view, found, walk, expansion)
    strengths[seeds] = 0.0
    linked = np.flatnonzero(strengths > 0.0)
    near = cosines_of(view, query, found, linked)
    held = keenness(view, settings, linked, now, near)
    held *= np.where(held > 0.0, strengths[linked], 1.0 - strengths[linked])
    by_link = np.argsort(-held, kind="stable")
    associated = zip(linked[by_link].tolist(), held[by_link].tolist(), strict=True)
    exact = np.array(found.exact, np.int64)
    kept = keenness(view, settings, exact, now, cosines_of(view, query, found, exact))
    direct = list(zip(order[:pool].tolist(), scores[:pool].tolist(), strict=True))
    return Scored(
        direct,
        {row for row, _ in direct},  # all of them: a diverse answer takes some from beyond k
        lambda row, score, asked: {"direct": score},
        dict(zip(found.exact, kept.tolist(), strict=True)),
        expansion,
        list(associated)[:pool],
        settings.retention.association_share,
        walk,
    )


def direct_rows(view: StateView, settings: Settings, found: Scan, pool: int) -> tuple[Rows, Scores]:
    """Rows that the query finds without a link, ascending, and how well its words fit, at most 1.

    A note that carries an asked concept fits wholly.
    """
    carriers: list[NDArray[Any]] = [view.notes.postings.rows(c) for c in found.named]
    near = [] if found.near is None else [found.near[0]]
    best, bm25 = np.empty(0, np.int64), np.empty(0)
    if view.text is not None and len(found.terms):
        options = settings.bm25_k1, settings.bm25_b
        rows, bm25 = view.text.best(found.terms, *options, found.allowed, max(TEXTS, 4 * pool))
        best = rows.astype(np.int64)
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *carriers, *near, best]))
    rows = rows[found.allowed[rows] != 0]
    fits = np.zeros(len(rows))
    if len(best):
        fits[np.searchsorted(rows, best)] = bm25 / bm25[0]
    for some in carriers:
        fits[np.isin(rows, some, assume_unique=True)] = 1.0
    return rows, fits


def cosines_of(view: StateView, query: Query, found: Scan, rows: Rows) -> Scores | None:
    """The cosine of each row, NaN where it has no vector; None where the query has none.

    Those of the nearest notes are known from the search, to the same bits.
    """
    if query.vector is None:
        return None
    cosines = Lookup(*(found.near or (rows[:0], np.zeros(0)))).of(rows, np.nan)
    left = np.isnan(cosines)
    cosines[left] = view.points.similarities(query.vector, rows[left])
    return cosines


def keenness(
    view: StateView,
    settings: Settings,
    rows: Rows,
    now: int,
    cosines: Scores | None,
    fits: Scores | None = None,
) -> Scores:
    """``sim * R^power`` of each row, but `FAR` of a cosine below 0.

    `fits` float64 [m] says how well each fits where there is no cosine; wholly by default.
    """
    rule = settings.retention
    near = np.full(len(rows), rule.similarity) * (1.0 if fits is None else fits)
    if cosines is not None:
        near = np.where(np.isnan(cosines), near, cosines)
    kept = view.notes.states.retention(rows, now, rule.power)
    faded: Scores = near * np.where(near > 0.0, kept, FAR)
    return faded


def reached(view: StateView, found: Scan, walk: Expansion, expansion: Expansion) -> Scores:
    """How strongly links lead to each row, float64 [n]; 0 where they do not, or it is barred."""
    by_concept = np.zeros(view.notes.n)
    if len(expansion.ids):
        view.notes.postings.accumulate(
            expansion.ids, np.maximum(expansion.strengths, 0.0), by_concept
        )
        by_concept /= 1.0 + by_concept
    strengths: Scores = by_concept * (found.allowed != 0)
    np.maximum.at(strengths, walk.ids.astype(np.int64), walk.strengths)
    return strengths
