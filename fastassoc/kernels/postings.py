"""Kernels that build inverted lists: a base in CSR form, and a sorted tail of newer rows.

A tail key is ``term << 32 | row`` (uint64), so one sorted array holds every list of the tail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import jit

__all__ = ["count_rows", "extend_base", "merge_tail", "tail_keys"]


def _extend_base(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    values: NDArray[np.float32],
    flat: NDArray[np.uint32],
    ptr: NDArray[np.int64],
    given: NDArray[np.float32],
    first: int,
    last: int,
    n_terms: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Lists of rows [0, last), from lists of rows [0, first) and the forward arrays.

    A counting sort: rows come in ascending order, so every list stays sorted by row.
    `given` and `values` are empty where the lists carry no values.
    """
    old_terms = indptr.size - 1
    begin = ptr[first]
    end = ptr[last]
    with_values = given.size > 0
    new_indptr = np.zeros(n_terms + 1, np.int64)
    for i in range(begin, end):
        new_indptr[flat[i] + 1] += 1
    for t in range(old_terms):
        new_indptr[t + 1] += indptr[t + 1] - indptr[t]
    for t in range(n_terms):
        new_indptr[t + 1] += new_indptr[t]
    total = new_indptr[n_terms]
    new_rows = np.empty(total, np.int32)
    new_values = np.empty(total if with_values else 0, np.float32)
    cursor = np.empty(n_terms, np.int64)
    for t in range(n_terms):
        to = new_indptr[t]
        if t < old_terms:
            for i in range(indptr[t], indptr[t + 1]):
                new_rows[to] = rows[i]
                if with_values:
                    new_values[to] = values[i]
                to += 1
        cursor[t] = to
    for row in range(first, last):
        for i in range(ptr[row], ptr[row + 1]):
            to = cursor[flat[i]]
            cursor[flat[i]] = to + 1
            new_rows[to] = row
            if with_values:
                new_values[to] = given[i]
    return new_indptr, new_rows, new_values


def _tail_keys(
    flat: NDArray[np.uint32], ptr: NDArray[np.int64], first: int, last: int
) -> NDArray[np.uint64]:
    """Tail keys of rows [first, last), in forward order."""
    begin = ptr[first]
    keys = np.empty(ptr[last] - begin, np.uint64)
    for row in range(first, last):
        for i in range(ptr[row], ptr[row + 1]):
            keys[i - begin] = (np.uint64(flat[i]) << np.uint64(32)) | np.uint64(row)
    return keys


def _merge_tail(
    keys: NDArray[np.uint64],
    values: NDArray[np.float32],
    new_keys: NDArray[np.uint64],
    new_values: NDArray[np.float32],
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Merge two sorted tails into a new one."""
    n = keys.size
    m = new_keys.size
    with_values = values.size + new_values.size > 0
    out = np.empty(n + m, np.uint64)
    out_values = np.empty(n + m if with_values else 0, np.float32)
    i = 0
    for j in range(m):
        while i < n and keys[i] < new_keys[j]:
            out[i + j] = keys[i]
            if with_values:
                out_values[i + j] = values[i]
            i += 1
        out[i + j] = new_keys[j]
        if with_values:
            out_values[i + j] = new_values[j]
    while i < n:
        out[i + m] = keys[i]
        if with_values:
            out_values[i + m] = values[i]
        i += 1
    return out, out_values


def _count_rows(
    tokens: NDArray[np.int32],
    ptr: NDArray[np.int64],
    counts: NDArray[np.int32],
) -> tuple[NDArray[np.uint32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int32]]:
    """Distinct term ids of each text with their frequency.

    Parameters
    ----------
    tokens : int32[m]
        Term ids in the order of the tokens; negative ones are skipped.
    ptr : int64[r + 1]
        Where each text begins.
    counts : int32[n_terms]
        Scratch, all zeros; left so.

    Returns
    -------
    ids : uint32[u]
        Distinct ids of each text, by first appearance.
    frequencies : float32[u]
    row_ptr : int64[r + 1]
    lengths : int32[r]
        Tokens counted in each text.
    """
    n = ptr.size - 1
    ids = np.empty(tokens.size, np.uint32)
    frequencies = np.empty(tokens.size, np.float32)
    row_ptr = np.zeros(n + 1, np.int64)
    lengths = np.zeros(n, np.int32)
    used = 0
    for row in range(n):
        begin = used
        length = 0
        for i in range(ptr[row], ptr[row + 1]):
            term = tokens[i]
            if term < 0:
                continue
            length += 1
            if counts[term] == 0:
                ids[used] = term
                used += 1
            counts[term] += 1
        for i in range(begin, used):
            frequencies[i] = counts[ids[i]]
            counts[ids[i]] = 0
        row_ptr[row + 1] = used
        lengths[row] = length
    return ids[:used].copy(), frequencies[:used].copy(), row_ptr, lengths


extend_base = jit(_extend_base)
tail_keys = jit(_tail_keys)
merge_tail = jit(_merge_tail)
count_rows = jit(_count_rows)


def _count_marked(
    tokens: NDArray[np.int32],
    ptr: NDArray[np.int64],
    marked: NDArray[np.bool_],
    ids: NDArray[np.uint32],
    row_ptr: NDArray[np.int64],
    counts: NDArray[np.int32],
    out: NDArray[np.uint16],
) -> None:
    """How many marked tokens of each text are its distinct ids, as `count_rows` gave them.

    `tokens` int32 [m], `ptr` int64 [r + 1], `marked` bool [m], `ids` uint32 [u], `row_ptr` int64
    [r + 1], `counts` int32 [n_terms]: scratch, all zeros, left so; `out` uint16 [u], at most 65535.
    """
    for row in range(ptr.size - 1):
        for i in range(ptr[row], ptr[row + 1]):
            if marked[i] and tokens[i] >= 0:
                counts[tokens[i]] += 1
        for i in range(row_ptr[row], row_ptr[row + 1]):
            out[i] = min(counts[ids[i]], 65535)
            counts[ids[i]] = 0


count_marked = jit(_count_marked)
