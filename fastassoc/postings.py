"""Inverted lists: from a term to the rows that hold it, append-only by row.

Log-structured: a base in CSR form and a small sorted tail of newer rows. A view is a set of
references to arrays that are never changed, so that readers need no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastassoc.columns import Growable
from fastassoc.errors import InvalidInput
from fastassoc.kernels import mentions, reading
from fastassoc.kernels import postings as kernels
from fastassoc.kernels.lists import Lists

__all__ = ["CountRead", "Postings", "PostingsView", "zeros"]

# Newer rows go through two sorted runs, so that a view after every row costs next to nothing: a
# late run of at most LATE_MOST postings, then a tail, folded into the base when it is larger than
# both limits. A share keeps the cost of folding linear.
LATE_MOST = 1024
TAIL_LEAST = 8192
TAIL_SHARE = 32
# The usual width of a row: at most one row in this many is wider, and those are listed.
WIDE_SHARE = 1024

_T = TypeVar("_T", bound=np.generic)
_local = threading.local()


def zeros(name: str, size: int) -> NDArray[np.float64]:
    """Scratch of this thread, float64 of at least `size` zeros; whoever takes it leaves zeros."""
    found: NDArray[np.float64] | None = getattr(_local, name, None)
    if found is None or found.size < size:
        found = np.zeros(max(1024, size + size // 8), np.float64)
        setattr(_local, name, found)
    return found


class CountRead(NamedTuple):
    """Rows that can be among the first k of a count read, with their scores.

    `rows` (int32[m]) and `scores` (float64[m]) rank by the whole score, `direct_rows` and
    `direct_scores` by the asked concepts alone. Both are in no order, and longer than k where rows
    tie with the k-th on the score and on the first bytes of the text.
    """

    rows: NDArray[np.int32]
    scores: NDArray[np.float64]
    direct_rows: NDArray[np.int32]
    direct_scores: NDArray[np.float64]


def _range(run: NDArray[np.uint64], term: int) -> slice:
    if not run.size:
        return slice(0, 0)
    low, high = np.searchsorted(run, np.array([term << 32, (term + 1) << 32], np.uint64))
    return slice(int(low), int(high))


@dataclass(frozen=True, slots=True, eq=False)
class PostingsView:
    """The lists at one moment; never changes, safe in many threads.

    Attributes
    ----------
    n_rows, n_terms : int
        Rows appended, and the largest term id + 1.
    indptr : int64[b + 1]
    base_rows : int32[p]
    base_values : float32[p]
        The base. `base_values` has length 0 where the lists carry no values.
    tail : uint64[t]
    tail_values : float32[t]
        Sorted keys ``term << 32 | row`` of newer rows.
    late : uint64[l]
    late_values : float32[l]
        The same of the newest rows.
    flat : uint32[m]
    ptr : int64[n_rows + 1]
    flat_values : float32[m]
        The forward lists: the terms of each row, as given.
    width : int
    wide : int32[w]
        Rows with more than `width` terms are those in `wide`.
    """

    n_rows: int
    n_terms: int
    indptr: NDArray[np.int64]
    base_rows: NDArray[np.int32]
    base_values: NDArray[np.float32]
    tail: NDArray[np.uint64]
    tail_values: NDArray[np.float32]
    late: NDArray[np.uint64]
    late_values: NDArray[np.float32]
    flat: NDArray[np.uint32]
    ptr: NDArray[np.int64]
    flat_values: NDArray[np.float32]
    width: int
    wide: NDArray[np.int32]

    @property
    def lists(self) -> Lists:
        """The lists without their values, as kernels take them."""
        return Lists(self.indptr, self.base_rows, self.tail, self.late, self.flat, self.ptr)

    def _pieces(self, term: int) -> tuple[slice, slice, slice]:
        """Where the list of `term` lies in base, tail and late run."""
        base = slice(0, 0)
        if term < self.indptr.size - 1:
            base = slice(int(self.indptr[term]), int(self.indptr[term + 1]))
        return base, _range(self.tail, term), _range(self.late, term)

    def rows(self, term: int) -> NDArray[np.int32]:
        """Rows that hold `term`, int32, ascending; dead rows included."""
        if not 0 <= term < self.n_terms:
            return np.empty(0, np.int32)
        base, tail, late = self._pieces(term)
        older = self.base_rows[base]
        if tail.start == tail.stop and late.start == late.stop:
            return older
        newer = np.concatenate([self.tail[tail], self.late[late]]) & np.uint64(0xFFFFFFFF)
        return np.concatenate([older, newer.astype(np.int32)])

    def values(self, term: int) -> NDArray[np.float32]:
        """Values of `term`, float32, parallel to `rows(term)`; empty where there are none."""
        if not 0 <= term < self.n_terms or self.flat_values.size == 0:
            return np.empty(0, np.float32)
        base, tail, late = self._pieces(term)
        return np.concatenate(
            [self.base_values[base], self.tail_values[tail], self.late_values[late]]
        )

    def count(self, term: int) -> int:
        """How many rows hold `term`; dead rows included."""
        if not 0 <= term < self.n_terms:
            return 0
        return sum(piece.stop - piece.start for piece in self._pieces(term))

    def counts(self) -> NDArray[np.int64]:
        """Rows of every term, int64[n_terms]; dead rows included."""
        counts = np.zeros(self.n_terms, np.int64)
        counts[: self.indptr.size - 1] = np.diff(self.indptr)
        for run in (self.tail, self.late):
            terms = (run >> np.uint64(32)).astype(np.int64)
            counts += np.bincount(terms, minlength=self.n_terms)
        return counts

    def row(self, row: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Terms of a row as given, uint32[m], and their values, float32[m] (or empty)."""
        low, high = self.ptr[row], self.ptr[row + 1]
        return self.flat[low:high], self.flat_values[low:high]

    def accumulate(
        self, ids: NDArray[np.uint32], weights: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        """Add ``weights[i]`` to ``out[row]`` for every row that holds ``ids[i]``.

        Parameters
        ----------
        ids : uint32[m]
            Terms; a row's sum is taken in this order.
        weights : float64[m]
        out : float64[n_rows or more]
        """
        lists = (self.indptr, self.base_rows, self.tail, self.late)
        reading.accumulate(*lists, ids, weights, out)

    def count_read(
        self,
        asked: NDArray[np.uint32],
        expanded: NDArray[np.uint32],
        strengths: NDArray[np.float64],
        allowed: NDArray[np.uint8],
        k: int,
        prefix: NDArray[np.uint64],
        way: int = reading.AUTO,
    ) -> CountRead:
        """Score rows by 10 x (asked terms on the row) + the strengths of its expanded terms.

        A row's sum starts with its asked terms and goes on in ascending order of the expanded ids,
        so it is bit-equal however base and tail are split and whichever way is taken.

        Parameters
        ----------
        asked : uint32[q]
            Distinct terms.
        expanded : uint32[e]
            Distinct terms, ascending, none of them asked.
        strengths : float64[e]
            Only strengths above 0 count.
        allowed : uint8[n_rows]
            1 where a row is alive and passes the filters.
        k : int
            At least 1.
        prefix : uint64[n_rows]
            First 8 bytes of each row's UTF-8 text, big-endian.
        way : int
            Which method, for tests; all give the same rows and scores.

        Returns
        -------
        CountRead
            Rows with a score above 0 whose (score, prefix) is at least the k-th best.

        Raises
        ------
        InvalidInput
            `k` below 1, or arrays that do not fit the view.

        Examples
        --------
        >>> import numpy as np
        >>> postings = Postings(with_values=False)
        >>> postings.append(np.array([0, 1, 1], np.uint32), np.array([0, 2, 3]))
        >>> found = postings.view().count_read(
        ...     np.array([0], np.uint32), np.array([1], np.uint32), np.array([2.0]),
        ...     np.ones(2, np.uint8), 10, np.zeros(2, np.uint64))
        >>> sorted(zip(found.rows.tolist(), found.scores.tolist()))
        [(0, 12.0), (1, 2.0)]
        """
        if k < 1:
            raise InvalidInput(f"k is {k}; it must be at least 1.")
        if allowed.size < self.n_rows or prefix.size < self.n_rows:
            raise InvalidInput(
                f"allowed has {allowed.size} rows and prefix {prefix.size}, the postings have "
                f"{self.n_rows}; give one value a row."
            )
        return CountRead(
            *reading.count_read(
                self.indptr, self.base_rows, self.tail, self.late, self.flat, self.ptr, self.width,
                self.wide, asked, expanded, strengths, allowed, prefix, k, way, self.n_rows,
                zeros("rows", self.n_rows), zeros("terms", self.n_terms),
            )
        )  # fmt: skip


_NO_MAP: NDArray[np.int32] = np.empty(0, np.int32)


def list_sizes(lists: PostingsView, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
    """How many rows hold each of some terms, int64 [len(ids)]; dead rows included."""
    sizes: NDArray[np.int64] = mentions.count_lists(lists.indptr, lists.tail, lists.late, ids)
    return sizes


def gather(
    lists: PostingsView,
    ids: NDArray[np.uint32],
    weights: NDArray[np.float64],
    allowed: NDArray[np.uint8],
    rows_of: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sum, for each allowed row that holds any of some terms, the weights of those that it holds.

    The work is that of the lists of these terms, whatever the number of rows.

    Parameters
    ----------
    lists : PostingsView
    ids : uint32 [m]
        Distinct terms: a row's sum is taken in their order.
    weights : float64 [m]
    allowed : uint8 [n_rows]
        1 where a row may be found.
    rows_of : int32 [lists.n_rows], optional
        The row that each row of the lists stands for, negative for none; else it is the row.

    Returns
    -------
    rows : int64 [r]
        Ascending.
    sums : float64 [r]

    Raises
    ------
    InvalidInput
        Arrays that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> lists = Postings(with_values=False)
    >>> lists.append(np.array([0, 1, 1], np.uint32), np.array([0, 2, 3]))
    >>> ids, weights = np.array([0, 1], np.uint32), np.array([0.5, 2.0])
    >>> gather(lists.view(), ids, weights, np.ones(2, np.uint8))
    (array([0, 1]), array([2.5, 2. ]))
    """
    if len(ids) != len(weights):
        raise InvalidInput(f"{len(weights)} weights for {len(ids)} terms; give one a term.")
    if rows_of is None and allowed.size < lists.n_rows:
        raise InvalidInput(
            f"allowed has {allowed.size} rows, the postings have {lists.n_rows}; give one value "
            "a row."
        )
    found: tuple[NDArray[np.int64], NDArray[np.float64]] = mentions.gather_rows(
        lists.indptr, lists.base_rows, lists.tail, lists.late, ids, weights,
        _NO_MAP if rows_of is None else rows_of, rows_of is not None,
        allowed, zeros("rows", allowed.size),
    )  # fmt: skip
    return found


class Postings:
    """Inverted lists of rows that are appended in order.

    Parameters
    ----------
    with_values : bool
        Whether each posting carries a float32 value.

    Examples
    --------
    >>> import numpy as np
    >>> postings = Postings(with_values=False)
    >>> postings.append(np.array([7, 2, 7], np.uint32), np.array([0, 2, 3]))
    >>> postings.view().rows(7).tolist()
    [0, 1]
    """

    def __init__(self, with_values: bool) -> None:
        self.with_values = with_values
        self.n_terms = 0
        self._flat = Growable(np.uint32)
        self._ptr = Growable(np.int64)
        self._ptr.append(np.zeros(1, np.int64))
        self._values = Growable(np.float32)
        self._indptr: NDArray[np.int64] = np.zeros(1, np.int64)
        self._rows: NDArray[np.int32] = np.empty(0, np.int32)
        self._base_values: NDArray[np.float32] = np.empty(0, np.float32)
        self._tail: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._tail_values: NDArray[np.float32] = np.empty(0, np.float32)
        self._base_to = 0  # rows that the base holds
        self._late: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._late_values: NDArray[np.float32] = np.empty(0, np.float32)
        self._late_to = 0  # rows that base, tail and late run hold
        self._width = 0
        self._wide: NDArray[np.int32] = np.empty(0, np.int32)
        self._view: PostingsView | None = None

    @property
    def n_rows(self) -> int:
        """Rows appended so far."""
        return len(self._ptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the forward lists, the base and the tail."""
        arrays = (self._flat, self._ptr, self._values)
        held = (
            self._indptr, self._rows, self._base_values,
            self._tail, self._tail_values, self._late, self._late_values,
        )  # fmt: skip
        return sum(g.array.nbytes for g in arrays) + sum(a.nbytes for a in held)

    def append(
        self,
        flat: NDArray[np.uint32],
        ptr: NDArray[np.int64],
        values: NDArray[np.float32] | None = None,
    ) -> None:
        """Append rows; they continue after the last one.

        Parameters
        ----------
        flat : uint32[m]
            Terms of all rows, distinct within a row.
        ptr : int64[r + 1]
            Where each row begins in `flat`; the first is 0, the last m.
        values : float32[m], optional
            One a posting, when the lists carry values.

        Raises
        ------
        InvalidInput
            `ptr` does not fit `flat`, or values are missing, or there are too many.
        """
        if ptr.size == 0 or ptr[0] != 0 or ptr[-1] != flat.size or (np.diff(ptr) < 0).any():
            raise InvalidInput(
                f"ptr does not divide the {flat.size} terms into rows; it must rise from 0 to "
                f"{flat.size}."
            )
        if self.with_values != (values is not None) or (
            values is not None and values.size != flat.size
        ):
            raise InvalidInput(
                f"{0 if values is None else values.size} values for {flat.size} terms; give "
                f"{'one a term' if self.with_values else 'none'}."
            )
        start = len(self._flat)
        self._flat.append(flat)
        if values is not None:
            self._values.append(values)
        self._ptr.append(ptr[1:] + start)
        if flat.size:
            self.n_terms = max(self.n_terms, int(flat.max()) + 1)
        if ptr.size > 1:
            self._view = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that the lists are, folded into their base, for `from_arrays`."""
        flat, ptr = self.forward()
        if self._base_to != self.n_rows:
            self._fold(flat, ptr, self.n_rows)
            self._view = None
        return {
            "flat": flat, "ptr": ptr, "values": self._values.array,
            "indptr": self._indptr, "rows": self._rows, "base_values": self._base_values,
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], *, with_values: bool) -> Postings:
        """The lists that `arrays` gave; the arrays are never written to.

        Raises
        ------
        InvalidInput
            They do not belong together.
        """
        new = cls(with_values)
        new._flat.replace(arrays["flat"])
        new._ptr.replace(arrays["ptr"])
        new._values.replace(arrays["values"])
        new._indptr, new._rows = arrays["indptr"], arrays["rows"]
        new._base_values = arrays["base_values"]
        (flat, ptr), n = new.forward(), new.n_rows
        held = [int(new._indptr[-1]), new._rows.size, int(ptr[-1])]
        if with_values:
            held += [len(new._values), new._base_values.size]
        if ptr[0] != 0 or any(size != flat.size for size in held):
            raise InvalidInput(f"lists: found {held} postings, expected {flat.size} in each array.")
        new.n_terms = new._indptr.size - 1
        new._base_to = new._late_to = n
        new._set_width(ptr)
        return new

    def row(self, row: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Terms of a row as given, uint32[m], and their values, float32[m] (or empty)."""
        ptr = self._ptr.array
        low, high = ptr[row], ptr[row + 1]
        return self._flat.array[low:high], self._values.array[low:high]

    def forward(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Terms of every row, uint32[m], and where each row begins, int64[n_rows + 1]."""
        return self._flat.array, self._ptr.array

    def view(self) -> PostingsView:
        """Publish what was appended; cheap when nothing was."""
        view = self._view
        if view is None:
            self._publish()
            view = self._view = PostingsView(
                self.n_rows, self.n_terms, self._indptr, self._rows, self._base_values,
                self._tail, self._tail_values, self._late, self._late_values, self._flat.array,
                self._ptr.array, self._values.array, self._width, self._wide,
            )  # fmt: skip
        return view

    def _publish(self) -> None:
        flat, ptr = self.forward()
        n = self.n_rows
        outside = int(ptr[n] - ptr[self._base_to])
        if outside > TAIL_LEAST and outside > self._rows.size // TAIL_SHARE:
            self._fold(flat, ptr, n)
            return
        first, self._late_to = self._late_to, n
        if first == n:
            return  # nothing new, and nothing for a kernel
        keys = kernels.tail_keys(flat, ptr, first, n)
        values = np.empty(0, np.float32)
        if self.with_values:
            order = np.argsort(keys, kind="stable")
            values = self._values.array[ptr[first] : ptr[n]][order]
            keys = keys[order]
        else:
            keys.sort()
        late = kernels.merge_tail(self._late, self._late_values, keys, values)
        if late[0].size > LATE_MOST:
            self._tail, self._tail_values = kernels.merge_tail(self._tail, self._tail_values, *late)
            late = np.empty(0, np.uint64), np.empty(0, np.float32)
        self._late, self._late_values = late
        wide = np.flatnonzero(np.diff(ptr[first : n + 1]) > self._width) + first
        if wide.size * WIDE_SHARE > n:
            self._set_width(ptr)
        elif wide.size:
            self._wide = np.concatenate([self._wide, wide.astype(np.int32)])

    def _fold(self, flat: NDArray[np.uint32], ptr: NDArray[np.int64], n: int) -> None:
        self._indptr, self._rows, self._base_values = kernels.extend_base(
            self._indptr, self._rows, self._base_values, flat, ptr, self._values.array,
            self._base_to, n, self.n_terms,
        )  # fmt: skip
        self._tail = np.empty(0, np.uint64)
        self._tail_values = np.empty(0, np.float32)
        self._late, self._late_values = self._tail, self._tail_values
        self._base_to = self._late_to = n
        self._set_width(ptr)

    def _set_width(self, ptr: NDArray[np.int64]) -> None:
        lengths = np.diff(ptr)
        wider = lengths.size - np.cumsum(np.bincount(lengths)) if lengths.size else np.zeros(1)
        # wider[w] rows have more than w terms
        self._width = int(np.argmax(wider * WIDE_SHARE <= lengths.size))
        self._wide = np.flatnonzero(lengths > self._width).astype(np.int32)
