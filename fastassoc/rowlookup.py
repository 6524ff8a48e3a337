"""From a text to the rows that have it."""

from __future__ import annotations

from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.columns import ArrowColumn
from fastassoc.kernels.notes import hashes

__all__ = ["RowLookup"]

MANY = 1 << 15  # rows from which on they are hashed by a kernel, which takes 20 ms to load
PIECE = 1 << 16  # rows hashed at once


class RowLookup:
    """From a value of a column to the rows that have it, built when first asked and kept up after.

    Parameters
    ----------
    column : ArrowColumn
        Of strings.

    Examples
    --------
    >>> column = ArrowColumn(pa.string())
    >>> column.append(["a", None, "b", "a"], 4)
    >>> RowLookup(column).find("a", 4)
    [0, 3]
    """

    def __init__(self, column: ArrowColumn) -> None:
        self._column = column
        # many rows at once: hashes, ascending, and the rows, ascending where hashes are equal
        self._many = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._few: dict[int, list[int]] = {}  # all others, by Python's hash
        self._upto = 0
        self._lock = Lock()

    def find(self, value: str, n_rows: int) -> list[int]:
        """Rows below `n_rows` with this value, ascending."""
        if self._upto < n_rows:
            with self._lock:
                self._catch_up(n_rows)
        sums, rows = self._many
        found = [*self._few.get(hash(value), ())]
        if len(sums):
            own = hashes_of(pa.array([value.encode("utf-8", "surrogatepass")]))
            low, high = sums.searchsorted(own[0], "left"), sums.searchsorted(own[0], "right")
            found = sorted([*rows[low:high].tolist(), *found])
        return [row for row in found if row < n_rows and self._column[row] == value]

    def _catch_up(self, n_rows: int) -> None:
        first = self._upto
        if n_rows - first < MANY:
            for row in range(first, n_rows):
                held = self._column[row]
                if held is not None:
                    self._few.setdefault(hash(held), []).append(row)
        else:
            sums, rows = [self._many[0]], [self._many[1]]
            for start in range(first, n_rows, PIECE):
                values = self._column.to_arrow(start, min(n_rows, start + PIECE))
                held = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
                if len(held):
                    sums.append(hashes_of(values.cast(pa.binary()))[held])
                    rows.append(held + start)
            whole = np.concatenate(sums)
            order = whole.argsort(kind="stable")
            self._many = whole[order], np.concatenate(rows)[order]
        self._upto = max(first, n_rows)


def hashes_of(values: pa.Array) -> NDArray[np.uint64]:
    """A hash of each value, uint64 [n]; of the bytes alone, in every process the same."""
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    out = np.empty(len(values), np.uint64)
    hashes(starts, np.frombuffer(b"" if data is None else data, np.uint8), out)
    return out
