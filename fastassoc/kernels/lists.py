"""Posting lists and forward lists as kernels take them, and how to find one's way in them.

Loops take the arrays one by one: a tuple of them is counted up and down at every call, and an
array that a branch chooses at every step. So the three lists of a term are walked one after
another, by the same loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline
from fastassoc.kernels.mentions import first_at, length_of

__all__ = ["Lists", "base_span", "holds", "row_of", "run_span", "size_of"]

LAST = np.uint64(0xFFFFFFFF)

Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not


class Lists(NamedTuple):
    """Posting lists and forward lists; see `postings.PostingsView`."""

    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    tail: NDArray[np.uint64]
    late: NDArray[np.uint64]
    flat: NDArray[np.uint32]
    ptr: NDArray[np.int64]


@inline
def holds(flat: NDArray[np.uint32], ptr: NDArray[np.int64], row: Whole, term: Whole) -> bool:
    """Whether a row of forward lists holds a term."""
    found = False
    for at in range(ptr[row], ptr[row + 1]):
        if flat[at] == term:
            found = True
            break
    return found


@inline
def base_span(indptr: NDArray[np.int64], term: Whole) -> tuple[Whole, Whole]:
    """Where the rows of a term lie in the base."""
    low: Whole = np.int64(0)
    high: Whole = np.int64(0)
    if term < indptr.size - 1:
        low, high = indptr[term], indptr[term + 1]
    return low, high


@inline
def run_span(run: NDArray[np.uint64], term: Whole) -> tuple[Whole, Whole]:
    """Where the entries of a term lie in a tail or a late run."""
    low: Whole = np.int64(0)
    high: Whole = np.int64(0)
    if run.size > 0:
        low = np.int64(first_at(run, np.uint64(term) << np.uint64(32)))
        high = np.int64(first_at(run, np.uint64(term + 1) << np.uint64(32)))
    return low, high


@inline
def row_of(entry: Whole) -> Whole:
    """The row of an entry of any of the three: of a base a row, of a run ``term << 32 | row``."""
    return np.int64(np.uint64(entry) & LAST)


@inline
def size_of(
    indptr: NDArray[np.int64],
    tail: NDArray[np.uint64],
    late: NDArray[np.uint64],
    void: Any,
    term: Whole,
) -> Whole:
    """Live rows of a term: the length of its lists, less what is void."""
    term = np.int64(term)
    size = np.int64(0)
    if term < indptr.size - 1:
        size = indptr[term + 1] - indptr[term]
    size += length_of(tail, term) + length_of(late, term)
    if term < void.size:
        size -= np.int64(void[term])
    return size
