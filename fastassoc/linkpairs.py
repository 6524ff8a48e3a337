"""What links say at one moment: looked up by pair, or by the first end."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import links as kernels
from fastassoc.linkruns import Link, LinkColumns, Links, Run, columns_of, link_of
from fastassoc.packed import Packed

__all__ = ["Pairs", "Taught", "both_ways", "effective", "fans"]


class Pairs:
    """A layer's links at one moment, by pair; safe in many threads. See `LinkMatrix.pairs`.

    Attributes
    ----------
    n_links : int
        Number of links.
    """

    __slots__ = ("_base", "_delta", "_tau", "n_links")

    def __init__(self, base: Packed, delta: Run, tau: float, n_links: int) -> None:
        self._base = base
        self._delta = delta
        self._tau = tau
        self.n_links = n_links

    @property
    def tau(self) -> float:
        """The time constant of decay in microseconds, infinite without decay."""
        return self._tau

    def get(self, a: int, b: int) -> Link | None:
        """The link between two ids, or None."""
        key = np.uint64(min(a, b) << 32 | max(a, b))
        run: Links
        for run in (self._delta, self._base):
            at = int(run.keys.searchsorted(key))
            if at < len(run.keys) and run.keys[at] == key:
                return link_of(run, at)
        return None

    def columns(self) -> LinkColumns:
        """Every link, sorted by (a, b)."""
        return self._base.overlaid(self._delta).columns()

    def _columns(self, keys: NDArray[np.uint64]) -> LinkColumns:
        """The links with these keys, in their order; each must exist."""
        reals, ints = np.empty((len(keys), 3)), np.empty((len(keys), 3), np.int64)
        place = np.empty(len(keys), np.int64)
        for run in self._runs:  # the delta overrides
            kernels.locate(keys, run.keys, place)
            found = place >= 0
            reals[found] = run.reals[place[found]]
            ints[found] = run.ints[place[found]]
        return columns_of(Run(keys, reals, ints))

    def fans(self, ids: NDArray[np.uint64]) -> Run:
        """The links whose lower end is among some distinct ids, sorted by (a, b)."""
        return fans(self._base, self._delta, np.sort(ids))

    def keys_to(self, ids: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Keys of all links whose higher end is among some ids, and perhaps of some that went."""
        found = [run.keys[np.isin(run.keys.astype(np.uint32), ids)] for run in self._runs]
        return np.unique(np.concatenate(found))

    @property
    def _runs(self) -> tuple[Links, Links]:
        return self._base, self._delta

    def __len__(self) -> int:
        return self.n_links


class Taught:
    """Links of a base to which outcomes or hands added, in both directions; made when asked for.

    Parameters
    ----------
    base : Packed
    """

    def __init__(self, base: Packed) -> None:
        self.base = base
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """They alone, each as (a, b) and as (b, a), sorted."""
        if self._run is None:
            base = self.base
            more = np.flatnonzero(base.reals[:, 0] > base.reals[:, 1])
            self._run = both_ways(Run(base.keys[more], base.reals[more], base.ints[more]))
        return self._run


def both_ways(run: Run) -> Run:
    """Each link as (a, b) and as (b, a), sorted."""
    half = np.uint64(32)
    keys = np.concatenate([run.keys, run.keys << half | run.keys >> half])
    order = np.argsort(keys)
    places = order % max(1, len(run.keys))
    return Run(keys[order], run.reals[places], run.ints[places])


def fans(base: Links, delta: Run, ids: NDArray[np.uint64]) -> Run:
    """The links whose first end is among some ids, which ascend; the delta overrides the base."""
    old, new = slices(base, ids), slices(delta, ids)
    if not len(new.keys):
        return old
    at = np.minimum(new.keys.searchsorted(old.keys), len(new.keys) - 1)
    kept, live = new.keys[at] != old.keys, new.ints[:, 0] >= 0
    keys = np.concatenate([old.keys[kept], new.keys[live]])
    order = np.argsort(keys)
    reals = np.concatenate([old.reals[kept], new.reals[live]])
    ints = np.concatenate([old.ints[kept], new.ints[live]])
    return Run(keys[order], reals[order], ints[order])


def slices(run: Links, ids: NDArray[np.uint64]) -> Run:
    """The entries whose first end is among some ids, which ascend."""
    if not len(run.keys):
        return Run(run.keys, run.reals, run.ints)  # most often nothing was taught
    half = np.uint64(32)
    starts = run.keys.searchsorted(ids << half)
    stops = run.keys.searchsorted(ids + np.uint64(1) << half)
    held = [range(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True) if a < b]
    places = np.concatenate([np.empty(0, np.int64), *(np.arange(r.start, r.stop) for r in held)])
    return Run(run.keys[places], run.reals[places], run.ints[places])


def effective(run: Run, column: int, now: int, tau: float) -> NDArray[np.float64]:
    """Weights (column 0) or written parts (1) of a run as they are at a time."""
    values: NDArray[np.float64] = np.ascontiguousarray(run.reals[:, column])
    if tau < math.inf:
        values = values.copy()
        kernels.effective_all(values, np.ascontiguousarray(run.ints[:, 2]), now, tau)
    return values
