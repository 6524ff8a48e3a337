"""The rank by personalised PageRank: what a walk from the question returns to most."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import push as kernels
from fastassoc.query import Query
from fastassoc.read.ranks import Parts, Scored, Way, score_flat
from fastassoc.read.scan import Scan
from fastassoc.settings import Settings
from fastassoc.state import StateView

__all__ = ["score_ppr"]

FIRST = 5  # flat notes that the walk begins at
HALF = 0.5  # of the walks begin at named concepts, the others at these notes


class _Scratch(threading.local):
    """Arrays that a push works in and leaves clean: one set for each thread."""

    def __init__(self) -> None:
        self.size = -1

    def need(self, nodes: int) -> None:
        if nodes > self.size:
            self.size = max(nodes + nodes // 8, 64)
            self.nodes = np.zeros((self.size, 4))
            self.weights = np.empty(self.size)
            self.ids = np.empty((3, self.size + 1), np.int64)


_scratch = _Scratch()


def score_ppr(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """Personalised PageRank on the graph of notes, the concepts they carry, and note links.

    Walks begin at the named concepts, by idf, and at the first flat notes, by score: half of them
    each, or all where the other has none. Notes that the filters bar are no part of the graph. A
    note's score is its PageRank over `ppr_alpha`, so that a note that all walks begin at has 1 at
    least; notes that no walk reaches follow, by `ppr_eps` times their flat score over the first's,
    or times their flat score where that is not above 0.
    Direct are the first k flat notes and those that carry a named concept.
    """
    flat = score_flat(view, query, settings, found, now, max(pool, FIRST))
    notes = view.notes
    n = notes.n
    seeds, shares = starts(view, found, flat)
    scratch = _scratch
    scratch.need(n + max(view.vocabulary.n_ids, notes.postings.n_terms))
    lists = notes.postings
    barred = int(np.count_nonzero(notes.alive) - np.count_nonzero(found.allowed))
    nodes, kept, degrees = kernels.push(
        seeds, shares, settings.ppr_alpha, settings.ppr_eps, found.allowed,
        lists.flat, lists.ptr, lists.indptr, lists.base_rows, lists.tail, lists.late,
        notes.df, barred, settings.note_links.threshold, now, view.note_links.tau,
        *view.note_links.arrays, scratch.nodes, scratch.weights, scratch.ids,
    )  # fmt: skip
    walked = nodes < n
    rows, scores = nodes[walked], kept[walked] / settings.ppr_alpha
    top = flat.candidates[0][1] if flat.candidates else 0.0
    scale = settings.ppr_eps / top if top > 0.0 else settings.ppr_eps
    far = {row: score * scale for row, score in flat.candidates}
    if len(rows) > pool:  # and all that tie with the last one that fits
        least = np.partition(scores, len(rows) - pool)[len(rows) - pool]
        first = scores >= least
    else:
        first = np.ones(len(rows), np.bool_)
    held = dict(zip(rows.tolist(), scores.tolist(), strict=True))
    made = {**far, **dict(zip(rows[first].tolist(), scores[first].tolist(), strict=True))}
    made.update({row: held[row] for row in far if row in held})
    order = sorted(made.items(), key=lambda item: (-item[1], item[0]))[:pool]
    ways = Ways(view, settings, found, now, (nodes, kept, degrees), set(seeds.tolist()))

    def parts(row: int, score: float, asked: int) -> Parts:
        return {"ppr" if row in held else "flat": score}

    named = set(found.named)
    carry = {row for row, _ in order if named & set(notes.table.concepts_of(row)[0].tolist())}
    return Scored(
        order,
        {row for row, _ in flat.candidates[: query.k]} | carry,
        parts,
        {row: held.get(row, 0.0) for row in found.exact},
        way=ways.to,
        reached=ways.reached,
    )


def starts(
    view: StateView, found: Scan, flat: Scored
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Where walks begin: nodes, int64[s], ascending, and how many of them, float64[s]."""
    df, live = view.notes.df, view.notes.table.n_alive
    concepts: dict[int, float] = {}
    for concept in found.named:
        carried = int(df[concept]) if concept < len(df) else 0
        if carried and found.allowed[view.notes.postings.rows(concept)].any():
            rare = (live - carried + 0.5) / (carried + 0.5)
            concepts[view.notes.n + concept] = float(np.log1p(max(0.0, rare)))
    notes = {row: score for row, score in flat.candidates[:FIRST] if score > 0.0}
    groups = [group for group in (concepts, notes) if sum(group.values()) > 0.0]
    made = {
        node: weight / sum(group.values()) * (HALF if len(groups) == 2 else 1.0)
        for group in groups
        for node, weight in group.items()
    }
    nodes = sorted(made)
    return np.array(nodes, np.int64), np.array([made[node] for node in nodes], np.float64)


class Ways:
    """Back from a note, step by step to the neighbour that holds most for its degree."""

    def __init__(
        self,
        view: StateView,
        settings: Settings,
        found: Scan,
        now: int,
        pushed: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]],
        seeds: set[int],
    ) -> None:
        nodes, kept, degrees = pushed
        order = np.argsort(nodes)
        self._nodes = nodes[order]
        self._density = (kept / np.where(degrees > 0.0, degrees, 1.0))[order]
        self._kept = kept[order]
        self._view, self._now, self._seeds = view, now, seeds
        self._least = max(settings.note_links.threshold, 5e-324)
        self._allowed = found.allowed
        self._known: dict[int, list[Way]] = {}
        self.reached: dict[int, float] = {}

    def to(self, row: int) -> list[Way]:
        """The steps from where the walk began to a row, empty where it began there itself.

        A node's PageRank over its degree is less than the largest among its neighbours, but where
        walks begin: so the way back ends there.
        """
        way = self._known.get(row)
        if way is None:
            way = self._known[row] = self._find(row)
        return way

    def _find(self, row: int) -> list[Way]:
        n = self._view.notes.n
        steps: list[Way] = []
        node, here = row, self._of(row)
        while node not in self._seeds and here > 0.0:
            best = self._best(node)
            if best is None or best[0] <= here:
                break  # no nearer to the start: within what the push leaves out
            here, before = best
            if before >= n:
                steps.append(("into", before - n, node))
                self.reached[before - n] = self._mass(before)
            else:
                steps.append(("out of", before, node - n) if node >= n else ("note", before, node))
            node = before
        return steps[::-1]

    def _best(self, node: int) -> tuple[float, int] | None:
        """The neighbour with the largest share of its degree; the first node of equals."""
        n, notes = self._view.notes.n, self._view.notes
        if node >= n:
            rows: NDArray[Any] = notes.postings.rows(node - n)
            near = rows[self._allowed[rows] != 0].astype(np.int64)
        else:
            linked, _ = self._view.note_links.neighbours(
                node, min_weight=self._least, now=self._now
            )
            linked = linked[self._allowed[linked] != 0]
            carried = notes.table.concepts_of(node)[0].astype(np.int64) + n
            near = np.concatenate([linked.astype(np.int64), np.sort(carried)])
        if not len(near) or not len(self._nodes):
            return None
        places = np.minimum(self._nodes.searchsorted(near), len(self._nodes) - 1)
        held = np.where(self._nodes[places] == near, self._density[places], 0.0)
        first = int(np.argmax(held))
        return float(held[first]), int(near[first])

    def _of(self, node: int) -> float:
        place = int(self._nodes.searchsorted(node))
        there = place < len(self._nodes) and self._nodes[place] == node
        return float(self._density[place]) if there else 0.0

    def _mass(self, node: int) -> float:
        return float(self._kept[self._nodes.searchsorted(node)])
