"""Columns that grow at the end while readers hold what they have seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrowColumn", "Growable", "Pages", "PagesView", "places_in"]

TAIL = 4096  # single values gather in a list up to here, then become an Arrow chunk
LARGE = 1 << 30  # bytes of text from which on offsets have 64 bits: 32 end at 2 GiB
SMALL = 256  # shorter batches join the list
PAGE = 1024  # rows of a page: small enough to copy for one change, large enough to be few


def places_in(
    held: NDArray[np.int64], wanted: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where values lie in a column, and whether they are there at all.

    Parameters
    ----------
    held : int64 [n]
        Ascending, each once.
    wanted : int64 [m]

    Returns
    -------
    tuple of int64 [m], bool [m]

    Examples
    --------
    >>> at, known = places_in(np.array([2, 5, 9]), [9, 3])
    >>> at.tolist(), known.tolist()
    ([2, 1], [True, False])
    """
    values = np.asarray(wanted, np.int64)
    at = np.searchsorted(held, values)
    known = at < len(held)
    known[known] = held[at[known]] == values[known]
    return at, known


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
        if not len(values):
            return  # what was taken whole may be read-only
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
        """Take `values` as the whole column, so that older slices keep theirs.

        They are never written to; what is appended goes to a copy.
        """
        self._data = values
        self._n = len(values)

    def _reserve(self, length: int) -> None:
        if length > len(self._data):
            grown = np.empty(max(length, 2 * len(self._data)), self._data.dtype)
            grown[: self._n] = self._data[: self._n]
            self._data = grown


@dataclass(frozen=True)
class PagesView:
    """The rows of a `Pages` as they were when the view was taken.

    Attributes
    ----------
    pages : tuple of numpy.ndarray
        PAGE rows each; what lies behind the last of the `n` rows means nothing.
    n : int
    """

    pages: tuple[NDArray[Any], ...]
    n: int
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, row: int) -> Any:
        return self.pages[row // PAGE][row % PAGE]

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The values of rows in any order, int64 [m], as one array [m]."""
        out = np.empty(len(rows), self.dtype)
        if len(rows) <= 3 * len(self.pages):  # about where one by one is as quick as by page
            for place, row in enumerate(rows.tolist()):
                out[place] = self.pages[row // PAGE][row % PAGE]
            return out
        numbers, inner = np.divmod(rows, PAGE)
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for places in np.split(order, cuts):
            out[places] = self.pages[numbers[places[0]]][inner[places]]
        return out

    def parts(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Each page's first row and its values; read-only."""
        for number, page in enumerate(self.pages):
            yield number * PAGE, page[: self.n - number * PAGE]


class Pages:
    """A column whose rows grow at the end and change, in pages that are copied when they do.

    A change copies only its page, and only the first since the last view; so a view costs a tuple
    and never changes.

    Parameters
    ----------
    dtype : numpy dtype
        Type of the values, structured ones among them.

    Examples
    --------
    >>> pages = Pages(np.int64)
    >>> pages.append(np.array([3, 4]))
    >>> before = pages.view()
    >>> page, place = pages.change(1)
    >>> page[place] = 5
    >>> int(before[1]), int(pages.view()[1]), len(pages)
    (4, 5, 2)
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self._pages: list[NDArray[Any]] = []
        self._own: set[int] = set()  # pages that no view holds
        self._n = 0
        self._view: PagesView | None = None

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Bytes of the pages."""
        return sum(page.nbytes for page in self._pages)

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end; views end before them."""
        done = 0
        while done < len(values):
            number, place = divmod(self._n, PAGE)
            if number == len(self._pages):
                self._pages.append(np.empty(PAGE, self.dtype))
                self._own.add(number)
            some = values[done : done + PAGE - place]
            self._pages[number][place : place + len(some)] = some
            self._n += len(some)
            done += len(some)
        self._view = None

    def change(self, row: int) -> tuple[NDArray[Any], int]:
        """The page of a row, to be written now, and the row's place in it."""
        number, place = divmod(row, PAGE)
        if number not in self._own:
            self._pages[number] = self._pages[number].copy()
            self._own.add(number)
        self._view = None
        return self._pages[number], place

    def view(self) -> PagesView:
        """The rows as they are now."""
        if self._view is None:
            self._own = set()
            self._view = PagesView(tuple(self._pages), self._n, self.dtype)
        return self._view

    def copy(self) -> Pages:
        """The column as it is now; what is done to either does not reach the other."""
        other = Pages(self.dtype)
        other._pages, other._n = list(self.view().pages), self._n
        if self._n % PAGE:  # both may add rows to the last page
            other._pages[-1] = other._pages[-1].copy()
        return other


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
        self._values: list[Callable[[int], Any]] = []  # of each chunk

    def __len__(self) -> int:
        _, _, start, tail = self._parts
        return start + len(tail)

    def __getitem__(self, row: int) -> Any:
        starts, _, tail_start, tail = self._parts
        if row >= tail_start:
            return tail[row - tail_start]
        at = bisect_right(starts, row) - 1
        return self._values[at](row - starts[at])

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
            if values is not None and not isinstance(values, pa.Array):
                values = pa.array(values, self.dtype)
            self._close(values, count)

    def _close_tail(self) -> None:
        tail = self._parts[3]
        if tail:
            self._close(pa.array(tail, self.dtype), len(tail))

    def _close(self, chunk: pa.Array | None, count: int) -> None:
        """Add a chunk, in which any tail has gone."""
        starts, chunks, tail_start, _ = self._parts
        self._values.append(values_of(chunk))
        chunks.append(chunk)
        starts.append(tail_start)
        self._parts = (starts, chunks, tail_start + count, [])

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


def values_of(chunk: pa.Array | None) -> Callable[[int], Any]:
    """What gives the values of an array one at a time; of None, nulls.

    Texts come straight from their bytes, in a third of the time of Arrow's own scalars.
    """
    if chunk is None or chunk.null_count == len(chunk):
        return lambda row: None
    if not pa.types.is_string(chunk.type) or chunk.null_count:
        return lambda row: chunk[row].as_py()
    _, offsets, data = chunk.buffers()
    ends = memoryview(offsets).cast("i")[chunk.offset :]
    held = memoryview(data or b"")
    return lambda row: str(held[ends[row] : ends[row + 1]], "utf-8")
