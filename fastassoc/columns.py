"""Columns that grow at the end while readers hold what they have seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["ArrowColumn", "Growable"]

TAIL = 4096  # single values gather in a list up to here, then become an Arrow chunk
LARGE = 1 << 30  # bytes of text from which on offsets have 64 bits: 32 end at 2 GiB
SMALL = 256  # shorter batches join the list


class Growable:
    """A NumPy array that grows at the end; slices taken before stay as they were.

    Parameters
    ----------
    dtype : numpy dtype
        Type of the values.

    Examples
    --------
    >>> column = Growable(np.int64)
    >>> column.append(np.array([3, 4]))
    >>> column.array
    array([3, 4])
    """

    def __init__(self, dtype: Any) -> None:
        self._data: NDArray[Any] = np.empty(16, dtype)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def array(self) -> NDArray[Any]:
        """The values so far, shape [n]; appending later does not change it."""
        return self._data[: self._n]

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        end = self._n + len(values)
        self._reserve(end)
        self._data[self._n : end] = values
        self._n = end

    def extend_to(self, length: int) -> None:
        """Fill up with zeros to `length`."""
        if length > self._n:
            self._reserve(length)
            self._data[self._n : length] = 0
            self._n = length

    def replace(self, values: NDArray[Any]) -> None:
        """Take `values` as the whole column, so that older slices keep theirs."""
        self._data = values
        self._n = len(values)

    def _reserve(self, length: int) -> None:
        if length > len(self._data):
            grown = np.empty(max(length, 2 * len(self._data)), self._data.dtype)
            grown[: self._n] = self._data[: self._n]
            self._data = grown


class ArrowColumn:
    """Nullable values kept as Arrow chunks, with a short list of the latest at the end.

    Readers take one reference (``_parts``) and never see a chunk half made.

    Parameters
    ----------
    dtype : pyarrow.DataType
        Type of the values.

    Examples
    --------
    >>> column = ArrowColumn(pa.string())
    >>> column.append(["a", None], 2)
    >>> column.append(None, 3)
    >>> column[0], column[4], len(column)
    ('a', None, 5)
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        # (first row of each chunk, chunks (None: all null), first row of the tail, tail)
        self._parts: tuple[list[int], list[pa.Array | None], int, list[Any]] = ([], [], 0, [])

    def __len__(self) -> int:
        _, _, start, tail = self._parts
        return start + len(tail)

    def __getitem__(self, row: int) -> Any:
        starts, chunks, tail_start, tail = self._parts
        if row >= tail_start:
            return tail[row - tail_start]
        at = bisect_right(starts, row) - 1
        chunk = chunks[at]
        return None if chunk is None else chunk[row - starts[at]].as_py()

    def take(self, rows: NDArray[Any]) -> list[Any]:
        """The values of ascending rows, int [m]."""
        if len(rows) < SMALL:
            return [self[row] for row in rows.tolist()]
        starts, chunks, tail_start, tail = self._parts
        cuts = rows.searchsorted([*starts, tail_start]).tolist()
        out: list[Any] = []
        # not strict: a writer may be adding a chunk to the lists
        for start, chunk, a, b in zip(starts, chunks, cuts, cuts[1:], strict=False):
            if chunk is None:
                out += [None] * (b - a)
            elif a < b:
                out += chunk.take(pa.array(rows[a:b] - start)).to_pylist()
        return out + [tail[row - tail_start] for row in rows[cuts[-1] :].tolist()]

    def append(self, values: pa.Array | Sequence[Any] | None, count: int) -> None:
        """Add `count` values; None adds nulls."""
        starts, chunks, tail_start, tail = self._parts
        if values is None and not tail and chunks and chunks[-1] is None:
            self._parts = (starts, chunks, tail_start + count, tail)
        elif count < SMALL and (values is not None or tail):
            if values is None:
                tail.extend([None] * count)
            else:
                tail.extend(values.to_pylist() if isinstance(values, pa.Array) else values)
            if len(tail) >= TAIL:
                self._close_tail()
        elif count:
            self._close_tail()
            starts, chunks, tail_start, tail = self._parts
            if values is not None and not isinstance(values, pa.Array):
                values = pa.array(values, self.dtype)
            chunks.append(values)
            starts.append(tail_start)
            self._parts = (starts, chunks, tail_start + count, [])

    def _close_tail(self) -> None:
        starts, chunks, tail_start, tail = self._parts
        if tail:
            chunks.append(pa.array(tail, self.dtype))
            starts.append(tail_start)
            self._parts = (starts, chunks, tail_start + len(tail), [])

    def to_arrow(self, start: int, stop: int) -> pa.Array:
        """The values of rows [start, stop) as one array; much text as large_string."""
        starts, chunks, tail_start, tail = self._parts
        found: list[pa.Array] = []
        for at in range(max(0, bisect_right(starts, start) - 1), len(chunks)):
            low = starts[at]
            high = starts[at + 1] if at + 1 < len(chunks) else tail_start
            a, b = max(start, low), min(stop, high)
            if a >= b:
                continue
            chunk = chunks[at]
            found.append(pa.nulls(b - a, self.dtype) if chunk is None else chunk[a - low : b - low])
        if stop > tail_start:
            found.append(pa.array(tail[max(0, start - tail_start) : stop - tail_start], self.dtype))
        if pa.types.is_string(self.dtype) and sum(part.nbytes for part in found) > LARGE:
            found = [part.cast(pa.large_string()) for part in found]
        return pa.concat_arrays(found) if found else pa.array([], self.dtype)

    @property
    def all_null(self) -> bool:
        """Whether no row has a value."""
        _, chunks, _, tail = self._parts
        return all(chunk is None for chunk in chunks) and all(value is None for value in tail)
