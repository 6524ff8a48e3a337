"""An index over the vectors of one moment, beside the vectors that came later."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.points import PointsView
from fastassoc.vectors import VectorIndex, scans

__all__ = ["Indexed"]


class Matches(NamedTuple):
    """What a filter leaves: how many vectors, and which of the index's, None for all of them."""

    allowed: NDArray[np.uint8]
    points: NDArray[np.int64]
    number: int
    inside: NDArray[np.uint8] | None


class Indexed:
    """The nearest notes by an index where it covers them, exactly where it does not.

    Parameters
    ----------
    index : VectorIndex
    members : int64 [m]
        The place of each of its vectors among the points, ascending.
    """

    def __init__(self, index: VectorIndex, members: NDArray[np.int64]) -> None:
        self.index = index
        self._members = members
        covered = np.zeros(int(members[-1]) + 1 if len(members) else 0, np.bool_)
        covered[members] = True
        self._outside = np.flatnonzero(~covered)
        self._covered = len(covered)
        self._last: Matches | None = None

    def nearest(
        self,
        points: PointsView,
        query: NDArray[np.float32],
        k: int,
        allowed: NDArray[np.uint8],
        first: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """As `PointsView.nearest`; few matches are scanned, so that filters cost no recall.

        Parameters
        ----------
        points : PointsView
            With the indexed vectors at the places of `members`, and any others.
        query : float32 [dim]
        k : int
        allowed : uint8 [rows]
            By row of the note.
        first : int
            For how many of the nearest the recall of the index is promised.
        """
        matches = self._matches_of(points, allowed)
        if scans(matches.number, len(points)):
            return points.nearest(query, k, allowed)
        found = self.index.candidates(query, k, matches.inside, first=first)
        if found is None:
            return points.nearest(query, k, allowed)
        later = np.arange(self._covered, len(points))
        among = np.concatenate([self._members[found], self._outside, later])
        return points.nearest(query, k, allowed, among)

    def _matches_of(self, points: PointsView, allowed: NDArray[np.uint8]) -> Matches:
        """The notes that a filter leaves; kept for the next read with the same one."""
        held = self._last
        if held is None or held.allowed is not allowed or held.points is not points.rows:
            there = allowed[points.rows]
            inside = there[self._members]
            whole = None if inside.all() else inside
            held = Matches(allowed, points.rows, int(np.count_nonzero(there)), whole)
            self._last = held
        return held
