"""The read: scan, plan, score, merge, explain; steps over one view, then the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from fastassoc.answers import Recall
from fastassoc.query import Query
from fastassoc.read.bridge import score_bridge
from fastassoc.read.explain import explain
from fastassoc.read.merge import merge
from fastassoc.read.ppr import score_ppr
from fastassoc.read.ranks import Scored, plan, score_counts, score_flat
from fastassoc.read.retention import score_retention
from fastassoc.read.scan import NEAREST, Scan, is_held, scan, search
from fastassoc.settings import Settings
from fastassoc.state import StateView

__all__ = ["is_held", "needs_text", "read"]

Rank = Callable[[StateView, Query, Settings, Scan, int, int], Scored]
RANKED: dict[str, Rank] = {
    "counts": score_counts,
    "flat": score_flat,
    "ppr": score_ppr,
    "bridge": score_bridge,
    "retention": score_retention,
}
FADED = 1000  # where fading changes their order, and an index names them
REPLACED = (
    "only notes that newer ones supersede match: include_superseded (--include-superseded) shows "
    "them"
)


def needs_text(query: Query, settings: Settings) -> bool:
    """Whether a read of this query looks at the text index."""
    if query.text is not None or query.like is not None:
        return True  # by whatever rank: words tell how much of the question the store explains
    return plan(query, settings) in {"flat", "ppr", "bridge"}


def read(view: StateView, query: Query, settings: Settings, now: int) -> Recall:
    """The answer to one query over one view of the state.

    Parameters
    ----------
    view : StateView
    query : Query
    settings : Settings
        Read fields of the handle that asks.
    now : int
        Microseconds UTC, for decay.
    """
    clock = Clock()
    if view.text is not None and not needs_text(query, settings):
        # others may have asked for it: no answer depends on that
        view = replace(view, text=None, mentions=None)
    rank = plan(query, settings)
    query, found = scan(view, query)
    pool = query.k + len(found.exact) + (4 * query.k if query.diversity else 0)
    if query.vector is not None and rank != "counts":
        search(view, query.vector, found, how_many(view, query, rank, found, pool), pool)
    clock.lap("scan")
    scored = RANKED[rank](view, query, settings, found, now, pool)
    clock.lap("score")
    hits = merge(view, query, found, scored)
    clock.lap("merge")
    recall = explain(view, query, settings, found, scored, rank, hits, now, clock.laps)
    if not hits and replaced_match(view, query, settings, now):
        recall = replace(recall, reason=REPLACED)
    clock.lap("explain")
    return recall


def how_many(view: StateView, query: Query, rank: str, found: Scan, pool: int) -> int:
    """How many of the nearest notes to look at: all where fading reorders them, without an index.

    An index names a thousand, so that a fresh note further away is found among faded ones. By
    cosines alone a scan needs no more than the answer holds; an index does, to keep its recall.
    """
    if rank == "flat" and view.index is None and not (found.exact or len(found.terms)):
        return pool
    if rank != "retention":
        return max(NEAREST, 4 * query.k, pool)
    return max(len(view.points), 1) if view.index is None else max(FADED, 4 * query.k, pool)


def replaced_match(view: StateView, query: Query, settings: Settings, now: int) -> bool:
    """Whether nothing but notes that others supersede would answer."""
    if query.include_superseded or (view.notes.alive == view.notes.current).all():
        return False
    return bool(read(view, replace(query, include_superseded=True), settings, now))


class Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        """Close a stage."""
        now = perf_counter()
        self.laps[name] = now - self._last
        self._last = now
