"""The rank of a memory that forgets: nearness times retention, and places kept for associations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.links import Expansion
from fastassoc.query import Query
from fastassoc.read.ranks import Scored, expanded
from fastassoc.read.scan import Scan
from fastassoc.settings import Settings
from fastassoc.state import StateView

__all__ = ["score_retention"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


def score_retention(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """Direct notes by ``sim * R^power``; associated ones by that times the strength of the path.

    *Direct* are the nearest hot notes by vector, the best by text, and those that carry an asked
    concept. *Associated* are notes that note links lead to from the first k direct ones, by the
    product of the effective weights, and notes that carry an expanded concept, by ``s / (1 + s)``
    where s is the sum of the strengths of their expanded concepts; the stronger counts.
    """
    rows = direct_rows(view, settings, found, pool)
    order, scores = ordered(rows, keenness(view, query, settings, rows, now))
    first = order[: query.k].tolist()
    seeds = np.array(sorted({*first, *found.exact}), np.int64)
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
    by_link, held = ordered(
        linked, keenness(view, query, settings, linked, now) * strengths[linked]
    )
    exact = np.array(found.exact, np.int64)
    kept = keenness(view, query, settings, exact, now)
    direct = list(zip(order[:pool].tolist(), scores[:pool].tolist(), strict=True))
    return Scored(
        direct,
        {row for row, _ in direct},  # all of them: a diverse answer takes some from beyond k
        lambda row, score, asked: {"direct": score},
        dict(zip(found.exact, kept.tolist(), strict=True)),
        expansion,
        list(zip(by_link[:pool].tolist(), held[:pool].tolist(), strict=True)),
        settings.retention.association_share,
        walk,
    )


def direct_rows(view: StateView, settings: Settings, found: Scan, pool: int) -> Rows:
    """Rows that the query finds without a link, ascending."""
    parts: list[NDArray[Any]] = [view.notes.postings.rows(c) for c in found.named]
    if found.near is not None:
        parts.append(found.near[0])
    if view.text is not None and len(found.terms):
        options = settings.bm25_k1, settings.bm25_b
        parts.append(view.text.best(found.terms, *options, found.allowed, max(100, pool))[0])
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *parts])).astype(np.int64)
    kept: Rows = rows[found.allowed[rows] != 0]
    return kept


def keenness(view: StateView, query: Query, settings: Settings, rows: Rows, now: int) -> Scores:
    """``sim * R^power`` of each row; a cosine below 0 counts as 0."""
    rule = settings.retention
    near = np.full(len(rows), rule.similarity)
    if query.vector is not None:
        cosines = view.points.similarities(query.vector, rows)
        near = np.where(np.isnan(cosines), near, np.maximum(cosines, 0.0))
    faded: Scores = near * view.notes.states.retention(rows, now, rule.power)
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


def ordered(rows: Rows, scores: Scores) -> tuple[Rows, Scores]:
    """Rows by score descending, then by order of writing."""
    order = np.lexsort((rows, -scores))
    return rows[order], scores[order]
