"""What a read sees of a layer's links: arrays that never change, and walks along them."""

from __future__ import annotations

import math
import threading
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastassoc.errors import InvalidInput
from fastassoc.kernels import association
from fastassoc.kernels import links as kernels
from fastassoc.linkpairs import Pairs, Taught, both_ways, effective, fans
from fastassoc.linkruns import LinkColumns, Run
from fastassoc.packed import Packed

__all__ = ["Expansion", "Hop", "LinkView", "Rows", "Side"]

_A = NDArray[Any]
_ALL = np.empty(0, np.uint8)  # every id is allowed


class Rows(NamedTuple):
    """Both directions of the base, row by row: links at the threshold first, each part by id."""

    threshold: float
    indptr: NDArray[np.int64]
    middle: NDArray[np.int64]
    cols: NDArray[np.uint32]
    weights: NDArray[np.float64]
    stamps: NDArray[np.int64]
    heads: NDArray[np.int64]
    head_ids: NDArray[np.uint32]
    head_weights: NDArray[np.float64]

    @property
    def arrays(self) -> tuple[_A, _A, _A, _A, _A]:
        """All but the threshold: what kernels take."""
        return self.indptr, self.middle, self.cols, self.weights, self.stamps

    @classmethod
    def of(cls, base: Packed, threshold: float, fading: bool, head: int) -> Rows:
        """Build from the base; `stamps` (int64[2 n]) is empty in a layer that does not fade.

        Rows with more than `head` strong links also have their strongest apart, in order, for
        reads with a cap: row i's are ``head_ids[heads[i]]``, unless that is -1. Not in a layer
        that fades, where the order of strength changes with time.
        """
        n = len(base.keys)
        ids = int(base.keys.view(np.uint32)[::2].max()) + 1 if n else 0  # of the second ends
        strong, all_ = np.zeros(ids, np.int64), np.zeros(ids, np.int64)
        kernels.count_rows(base.keys, base.codes, base.real_rows, threshold, strong, all_)
        indptr = np.zeros(ids + 1, np.int64)
        np.cumsum(all_, out=indptr[1:])
        middle = indptr[:-1] + strong
        cols, weights = np.empty(2 * n, np.uint32), np.empty(2 * n, np.float64)
        stamps = np.empty(2 * n if fading else 0, np.int64)
        places = indptr[:-1].copy(), middle.copy()
        kernels.fill_rows(*base, threshold, *places, cols, weights, stamps)
        long = np.flatnonzero(strong > head) if not fading else np.empty(0, np.int64)
        heads = np.full(ids, -1, np.int64)
        heads[long] = np.arange(len(long))
        head_ids = np.empty((len(long), head), np.uint32)
        head_weights = np.empty((len(long), head), np.float64)
        longest = int(strong.max()) if len(long) else 0
        kernels.fill_heads(
            long,
            indptr,
            middle,
            cols,
            weights,
            np.empty(longest, np.uint32),
            np.empty(longest, np.float64),
            head_ids,
            head_weights,
        )
        return cls(threshold, indptr, middle, cols, weights, stamps, heads, head_ids, head_weights)


class Side(NamedTuple):
    """Both directions of the delta, sorted by (from, to); a tombstone weighs NaN."""

    keys: NDArray[np.uint64]
    weights: NDArray[np.float64]
    stamps: NDArray[np.int64]

    @classmethod
    def empty(cls) -> Side:
        """A side of nothing."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.float64), np.empty(0, np.int64))

    def overlaid(self, run: Run) -> Side:
        """A newer run laid over it."""
        half = np.uint64(32)
        keys = np.concatenate([run.keys, run.keys << half | run.keys >> half])
        weights = np.where(run.ints[:, 0] < 0, np.nan, run.reals[:, 0])
        order = np.argsort(keys)
        keys = keys[order]
        weights = np.concatenate([weights, weights])[order]
        stamps = np.concatenate([run.ints[:, 2], run.ints[:, 2]])[order]
        if not len(self.keys):
            return Side(keys, weights, stamps)
        room = len(keys) + len(self.keys)
        out = Side(np.empty(room, np.uint64), np.empty(room, np.float64), np.empty(room, np.int64))
        used = kernels.merge_sides(keys, weights, stamps, *self, *out)
        return Side(*(column[:used] for column in out))  # type: ignore[arg-type]


class Hop(NamedTuple):
    """What one hop reached: ids ascending, strengths before the hop factor, parents' ids."""

    ids: NDArray[np.uint32]
    strengths: NDArray[np.float64]
    parents: NDArray[np.uint32]

    def place(self, concept: int) -> int:
        """Where `concept` is, or -1."""
        at = int(self.ids.searchsorted(np.uint32(concept)))
        return at if at < len(self.ids) and self.ids[at] == concept else -1


class Expansion(NamedTuple):
    """What links led to.

    Attributes
    ----------
    ids : uint32[e]
        Ids reached, ascending; never one that was asked.
    strengths : float64[e]
        The best path's strength, the hop factor included.
    steps : list of Hop
        What each hop reached.
    hop_factor : float
        Factor for each step after the first.
    """

    ids: NDArray[np.uint32]
    strengths: NDArray[np.float64]
    steps: list[Hop]
    hop_factor: float

    def path(self, concept: int) -> list[tuple[int, int]]:
        """The steps (source, target) of the best path from an asked id to `concept`.

        Equal paths: fewer steps, then the lowest parent.

        Raises
        ------
        KeyError
            `concept` was not reached.
        """
        best, depth, scale = -math.inf, -1, 1.0
        for hop, step in enumerate(self.steps):
            at = step.place(concept)
            if at >= 0 and (depth < 0 or step.strengths[at] * scale > best):
                best, depth = float(step.strengths[at]) * scale, hop
            scale *= self.hop_factor
        if depth < 0:
            raise KeyError(concept)
        path = []
        target = int(concept)
        for step in reversed(self.steps[: depth + 1]):
            source = int(step.parents[step.place(target)])
            path.append((source, target))
            target = source
        return path[::-1]


class _Scratch(threading.local):
    """Arrays that an expansion works in and leaves clean: one set for each thread."""

    def __init__(self) -> None:
        self.size = -1

    def need(self, ids: int) -> None:
        if ids > self.size:
            self.size = max(ids + ids // 8, 64)
            self.reals = np.full((2, self.size), -math.inf)
            self.ids = np.empty((3, self.size), np.uint32)
            self.words = np.zeros(self.size // 64 + 1, np.uint64)


class _WalkScratch(threading.local):
    """The same for a walk."""

    def __init__(self) -> None:
        self.size = -1

    def need(self, ids: int) -> None:
        if ids > self.size:
            self.size = max(ids + ids // 8, 64)
            self.reals = np.zeros((5, self.size))
            self.reals[2] = association.UNKNOWN
            self.ids = np.empty((5, self.size), np.uint32)


_scratch = _Scratch()
_walk_scratch = _WalkScratch()


class LinkView(Pairs):
    """A layer's links at one moment; safe in many threads. Made by `LinkMatrix.view`.

    Attributes
    ----------
    n_links : int
        Number of links.
    n_ids : int
        One more than the largest id that the view knows.
    threshold : float
        What its rows are arranged for; a read may ask for any other.
    """

    __slots__ = (
        "_args",
        "_fading",
        "_heads",
        "_taught",
        "_taught_late",
        "n_ids",
        "threshold",
    )

    def __init__(
        self,
        base: Packed,
        delta: Run,
        rows: Rows,
        side: Side,
        tau: float,
        n_links: int,
        taught: Taught,
    ) -> None:
        super().__init__(base, delta, tau, n_links)
        self._taught = taught
        self._taught_late: Run | None = None
        self._fading = tau < math.inf
        self._args: tuple[_A, _A, _A, _A, _A, _A, _A, _A] = (*rows.arrays, *side)
        self._heads = (rows.heads, rows.head_ids, rows.head_weights)
        last = int(side.keys[-1] >> np.uint64(32)) + 1 if len(side.keys) else 0
        self.n_ids = max(len(rows.middle), last)
        self.threshold = rows.threshold

    @property
    def arrays(self) -> tuple[_A, _A, _A, _A, _A, _A, _A, _A]:
        """What kernels of other modules take: the rows of the base, then the side list.

        ``indptr, middle, cols, weights, stamps`` as in `Rows`, ``keys, weights, stamps`` as in
        `Side`.
        """
        return self._args

    def _both(self, threshold: float) -> bool:
        """Whether weak links matter: stored below the rows' threshold, yet at the asked one."""
        # a negative weight rises as it fades, so for thresholds <= 0 stored values bound nothing
        return threshold < self.threshold or (self._fading and threshold <= 0.0)

    def expand(
        self,
        asked: ArrayLike,
        *,
        threshold: float | None = None,
        hops: int = 1,
        hop_factor: float = 1.0,
        product: bool = False,
        max_fanout: int | None = None,
        now: int = 0,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Expansion:
        """Follow links from the asked ids, level by level.

        A path's strength is its least effective weight (or the product), times
        ``hop_factor ** (steps - 1)``; the best path to an id counts. Asked ids are neither
        results nor steps on the way.

        Parameters
        ----------
        asked : uint32[q]
            Ids, in any order; unknown ones lead nowhere.
        threshold : float, optional
            The least effective weight of a step, inclusive; by default the view's.
        hops : int
            The most steps, from 1.
        hop_factor : float
            Factor for each step after the first.
        product : bool
            Whether weights along a path multiply.
        max_fanout : int, optional
            Follow only so many links from an id: the strongest that lead to no asked id, the
            lower id first among equals.
        now : int
            Time of the read, microseconds UTC, for layers that fade.
        allowed : uint8[ids], optional
            1 for ids that may be reached, as results or steps on the way; by default all.

        Raises
        ------
        InvalidInput
            `hops` or `max_fanout` is below 1.
        """
        if hops < 1 or (max_fanout is not None and max_fanout < 1):
            raise InvalidInput(
                f"found hops={hops}, max_fanout={max_fanout}, expected whole numbers from 1."
            )
        cut = self.threshold if threshold is None else float(threshold)
        sources = np.array(asked, np.uint32)  # a copy: one kind of array for the kernel
        if len(sources) > 1:
            sources.sort()
        scratch = _scratch
        scratch.need(self.n_ids)
        ids, strengths, hop_ids, raw, parents, ptr = kernels.expand(
            sources,
            _ALL if allowed is None else allowed,
            cut,
            self._both(cut),
            hops,
            float(hop_factor),
            bool(product),
            -1 if max_fanout is None else max_fanout,
            now,
            self._tau,
            *self._args,
            *self._heads,
            scratch.reals,
            scratch.ids,
            scratch.words,
        )
        if hops == 1:
            steps = [Hop(hop_ids, raw, parents)]
        else:
            cuts = ptr.tolist()
            steps = [Hop(hop_ids[i:j], raw[i:j], parents[i:j]) for i, j in pairwise(cuts)]
        return Expansion(ids, strengths, steps, float(hop_factor))

    def best_of(
        self,
        sources: ArrayLike,
        scores: ArrayLike,
        *,
        threshold: float,
        now: int = 0,
        allowed: NDArray[np.uint8] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """For each id that is linked to a source: the best score among its sources.

        Parameters
        ----------
        sources : uint32[q]
            Distinct ids; they may be reached, too.
        scores : float64[q]
        threshold : float
            The least effective weight of a link, inclusive.
        now : int
            Time of the read, microseconds UTC.
        allowed : uint8[ids], optional
            1 for ids that may be reached; by default all.

        Returns
        -------
        ids : int64[m]
            Ascending.
        scores : float64[m]
        """
        scratch = _scratch
        scratch.need(self.n_ids)
        cut = float(threshold)
        found: tuple[NDArray[np.int64], NDArray[np.float64]] = kernels.best_of(
            np.array(sources, np.uint32),
            np.array(scores, np.float64),
            _ALL if allowed is None else allowed,
            cut,
            self._both(cut),
            now,
            self._tau,
            *self._args,
            scratch.reals,
            scratch.ids,
            scratch.words,
        )
        return found

    def neighbours(
        self, concept: int, *, min_weight: float = -math.inf, now: int = 0
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """Ids (uint32[m], ascending) linked to `concept`, and effective weights (float64[m]).

        Parameters
        ----------
        concept : int
            Its id; an unknown one has no neighbours.
        min_weight : float
            The least effective weight, inclusive.
        now : int
            Time of the read, microseconds UTC.
        """
        scratch = _scratch
        scratch.need(self.n_ids)
        cut = float(min_weight)
        used = kernels.neighbours(
            int(concept),
            cut,
            self._both(cut),
            now,
            self._tau,
            *self._args,
            scratch.ids[0],
            scratch.reals[1],
        )
        order = np.argsort(scratch.ids[0, :used])
        return scratch.ids[0][order], scratch.reals[1][order]

    def linked(self) -> NDArray[np.int64]:
        """Ids that have links, or had some of late, int64[m] ascending."""
        indptr, keys = self._args[0], self._args[5]
        held = np.flatnonzero(np.diff(indptr))
        return np.union1d(held, (keys >> np.uint64(32)).astype(np.int64))

    def walk(
        self, cues: ArrayLike, *, steps: int, stay: float, back: float, power: float, now: int = 0
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """Let shares flow from the cues along positive links: ``x <- (1 - stay) W'x + stay x0``.

        W holds ``w / deg(a) + back * w / deg(b)`` for a link from a to b, w being its effective
        weight to `power`, each row divided by its sum; x0 is spread evenly over the cues. Only
        what is reached is touched, and every sum has one order, whatever the layout of the view.

        Parameters
        ----------
        cues : uint32[q]
            Ids, in any order; unknown ones lead nowhere.
        steps : int
        stay : float
            In [0, 1].
        back : float
            At least 0.
        power : float
            In [0, 1].
        now : int
            Time of the read, microseconds UTC.

        Returns
        -------
        ids : uint32[m]
            Reached, ascending; no cue among them.
        shares : float64[m]
            To 40 bits: the order of ids comes from history, and the last bits of sums from that.
        """
        scratch = _walk_scratch
        scratch.need(self.n_ids)
        ids, shares = association.walk(
            np.unique(np.array(cues, np.uint32)),
            steps,
            float(stay),
            float(back),
            float(power),
            now,
            self._tau,
            *self._args,
            scratch.reals,
            scratch.ids,
        )
        mantissas, exponents = np.frexp(shares)
        return ids, np.ldexp(np.round(np.ldexp(mantissas, 40)), exponents - 40)

    def degree(self, concept: int) -> int:
        """Number of links of `concept`, whatever their weight."""
        return len(self.neighbours(concept)[0])

    def taught(
        self, ids: ArrayLike, *, threshold: float, now: int = 0
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64]]:
        """What was added to links beyond what notes wrote, where that is positive.

        Parameters
        ----------
        ids : uint32[q]
            Distinct ids whose links are looked at.
        threshold : float
            The least effective weight of a link, inclusive.
        now : int
            Time of the read, microseconds UTC.

        Returns
        -------
        sources, targets : uint32[m]
            By (source, target); a source is among `ids`.
        parts : float64[m]
            Effective weight less what is left of the written part.
        """
        if self._taught_late is None:
            self._taught_late = both_ways(self._delta)
        asked = np.sort(np.asarray(ids, np.uint64))
        found = fans(self._taught.run, self._taught_late, asked)
        weights = effective(found, 0, now, self._tau)
        parts = weights - effective(found, 1, now, self._tau)
        kept = (weights >= threshold) & (parts > 0.0)
        keys = found.keys[kept]
        return (keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32), parts[kept]

    def links_of(self, concept: int) -> LinkColumns:
        """All links of `concept`, by the other id."""
        others = self.neighbours(concept)[0].astype(np.uint64)
        own = np.uint64(concept)
        low, high = np.minimum(others, own), np.maximum(others, own)
        return self._columns(low << np.uint64(32) | high)

    def top(self, limit: int, now: int = 0) -> LinkColumns:
        """The `limit` heaviest links by effective weight; equal ones by (a, b)."""
        covered = np.empty(len(self._delta.keys), np.int64)
        kernels.locate(self._delta.keys, self._base.keys, covered)
        weights = np.concatenate([self._base.reals[:, 0], self._delta.reals[:, 0]])
        if self._fading:
            stamps = np.concatenate([self._base.ints[:, 2], self._delta.ints[:, 2]])
            kernels.effective_all(weights, stamps, now, self._tau)
        live = np.ones(len(weights), np.bool_)
        live[covered[covered >= 0]] = False
        live[len(self._base.keys) :] = self._delta.ints[:, 0] >= 0
        keys = np.concatenate([self._base.keys, self._delta.keys])[live]
        weights = weights[live]
        if 0 < limit < len(keys):
            cut = np.partition(weights, len(keys) - limit)[len(keys) - limit]
            keep = weights >= cut
            keys, weights = keys[keep], weights[keep]
        return self._columns(keys[np.lexsort((keys, -weights))][: max(limit, 0)])
