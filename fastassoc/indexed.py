"""An index over the vectors of one moment, beside the vectors that came later."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastassoc.points import PointsView
from fastassoc.vectors import VectorIndex, scans

__all__ = ["Indexed"]


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

    def nearest(
        self,
        points: PointsView,
        query: NDArray[np.float32],
        k: int,
        allowed: NDArray[np.uint8],
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
        """
        there = allowed[points.rows]
        if scans(int(np.count_nonzero(there)), len(points)):
            return points.nearest(query, k, allowed)
        inside = there[self._members]
        found = self.index.candidates(query, k, None if inside.all() else inside)
        if found is None:
            return points.nearest(query, k, allowed)
        later = np.arange(self._covered, len(points))
        among = np.concatenate([self._members[found], self._outside, later])
        return points.nearest(query, k, allowed, among)
