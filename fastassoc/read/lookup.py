"""Values of many rows at once, by binary search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lookup", "inside"]


class Lookup:
    """Values by key.

    Parameters
    ----------
    keys : int64 [m]
        Distinct, in any order.
    values : float64 [m]

    Attributes
    ----------
    keys, values
        In the order of the keys.
    """

    def __init__(self, keys: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        order = np.argsort(keys)
        self.keys, self.values = keys[order], values[order]

    def of(self, keys: NDArray[np.int64], other: float = 0.0) -> NDArray[np.float64]:
        """The values of keys, float64 [n], `other` where there is none."""
        out = np.full(len(keys), other)
        there = inside(keys, self.keys)
        out[there] = self.values[self.keys.searchsorted(keys[there])]
        return out


def inside(values: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values stand among the known ones, which ascend; bool [m]."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(known.searchsorted(values), len(known) - 1)
    there: NDArray[np.bool_] = known[at] == values
    return there
