"""Kernels of the mention index: names in texts of numbered tokens, and sums over posting lists.

Names are a tree of tokens. The numbers of tokens are even, but for a character of a script without
spaces that follows another of its run: it has its own number plus one. At the first token of a name
this makes no difference. Its edges are an open-addressing table from ``node << 32 | token`` to
the node behind; node 0 is the root. The concepts whose name ends at a node are a chain:
``heads[node]`` is the first, ``nexts[concept]`` the next, each plus one, 0 being none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline, jit

__all__ = [
    "NONE",
    "ascending",
    "count_lists",
    "first_at",
    "gather_rows",
    "length_of",
    "move_edges",
    "put_names",
    "scan_texts",
]

NONE = np.uint64(0xFFFFFFFFFFFFFFFF)  # an edge that is free
MIX = np.uint64(0x9E3779B97F4A7C15)
LAST = np.uint64(0xFFFFFFFF)
APART = ~1  # takes the bit off that says: a character behind another of its run
FEW = 256  # rows that are sorted by comparing
DIGIT = 11  # bits of a digit of the radix sort

Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not


@inline
def _place(edges: NDArray[np.uint64], key: np.uint64) -> Whole:
    """Where `key` lies in the table, or the free place where it belongs."""
    last = edges.size - 1
    mixed = key * MIX
    at = np.int64(mixed >> np.uint64(32)) & last
    while edges[at] != NONE and edges[at] != key:
        at = (at + 1) & last
    return at


def _move_edges(
    edges: NDArray[np.uint64],
    behind: NDArray[np.int32],
    new_edges: NDArray[np.uint64],
    new_behind: NDArray[np.int32],
) -> None:
    """Put every edge into an empty, larger table; sizes are powers of two."""
    for i in range(edges.size):
        if edges[i] != NONE:
            at = _place(new_edges, edges[i])
            new_edges[at] = edges[i]
            new_behind[at] = behind[i]


def _put_names(
    tokens: NDArray[np.int32],
    ptr: NDArray[np.int64],
    concepts: NDArray[np.int64],
    edges: NDArray[np.uint64],
    behind: NDArray[np.int32],
    heads: NDArray[np.int32],
    nexts: NDArray[np.int32],
    ends: NDArray[np.int32],
    n_nodes: int,
) -> int:
    """Put names into the tree; those without tokens have no place in it.

    Parameters
    ----------
    tokens : int32[m]
    ptr : int64[k + 1]
        Where the tokens of each name begin.
    concepts : int64[k]
        Their concepts, none of them in the tree.
    edges, behind : uint64[e], int32[e]
        Room for all new edges, and more places free than taken.
    heads : int32[nodes]
        Room for all new nodes.
    nexts, ends : int32[ids]
        Chains, and the node where a concept's name ends (0: in no place).
    n_nodes : int

    Returns
    -------
    int
        Nodes now.
    """
    for i in range(concepts.size):
        node = np.int64(0)
        for j in range(ptr[i], ptr[i + 1]):
            key = (np.uint64(node) << np.uint64(32)) | np.uint64(tokens[j])
            at = _place(edges, key)
            if edges[at] == NONE:
                edges[at] = key
                behind[at] = n_nodes
                n_nodes += 1
            node = np.int64(behind[at])
        if node > 0:
            concept = concepts[i]
            ends[concept] = node
            nexts[concept] = heads[node]
            heads[node] = concept + 1
    return n_nodes


def _scan_texts(
    tokens: NDArray[np.int32],
    ptr: NDArray[np.int64],
    own: NDArray[np.uint32],
    own_ptr: NDArray[np.int64],
    edges: NDArray[np.uint64],
    behind: NDArray[np.int32],
    heads: NDArray[np.int32],
    nexts: NDArray[np.int32],
    counts: NDArray[np.int32],
    eligible: NDArray[np.uint8],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Eligible concepts of each text: by the longest names found in it, and its own.

    Parameters
    ----------
    tokens : int32[m]
        Tokens of all texts, -1 for one that no name holds.
    ptr : int64[r + 1]
        Where each text begins.
    own : uint32[o]
    own_ptr : int64[r + 1]
        Concepts that each note carries.
    edges, behind, heads, nexts
        The tree of names.
    counts : int32[nodes]
        Eligible concepts whose name ends at each node.
    eligible : uint8[ids]

    Returns
    -------
    flat : uint32[f]
        Distinct, ascending within a text.
    row_ptr : int64[r + 1]
    """
    n = ptr.size - 1
    flat = np.empty(max(64, own.size + tokens.size // 4), np.uint32)
    row_ptr = np.zeros(n + 1, np.int64)
    used = 0
    for row in range(n):
        begin = used
        at = ptr[row]
        stop = ptr[row + 1]
        while at < stop:
            node = np.int64(0)
            best = np.int64(0)
            step = 1
            for i in range(at, stop):
                token = np.int64(tokens[i])
                if token < 0:
                    break
                if i == at:
                    token &= APART
                key = (np.uint64(node) << np.uint64(32)) | np.uint64(token)
                place = _place(edges, key)
                if edges[place] == NONE:
                    break
                node = np.int64(behind[place])
                if counts[node] > 0:
                    best = node
                    step = i - at + 1
            if best > 0:
                concept = np.int64(heads[best]) - 1
                while concept >= 0:
                    if eligible[concept] != 0:
                        if used == flat.size:
                            flat = np.concatenate((flat, np.empty(flat.size, np.uint32)))
                        flat[used] = concept
                        used += 1
                    concept = np.int64(nexts[concept]) - 1
            at += step
        for i in range(own_ptr[row], own_ptr[row + 1]):
            if eligible[own[i]] != 0:
                if used == flat.size:
                    flat = np.concatenate((flat, np.empty(flat.size, np.uint32)))
                flat[used] = own[i]
                used += 1
        if used > begin + 1:
            found = np.sort(flat[begin:used])
            used = begin
            for i in range(found.size):
                if i == 0 or found[i] != found[i - 1]:
                    flat[used] = found[i]
                    used += 1
        row_ptr[row + 1] = used
    return flat[:used].copy(), row_ptr


@inline
def first_at(run: NDArray[np.uint64], key: np.uint64) -> int:
    """Where the first entry of a sorted run that is at least `key` lies."""
    low = 0
    high = run.size
    while low < high:
        middle = (low + high) >> 1
        if run[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def length_of(run: NDArray[np.uint64], term: Whole) -> int:
    """Entries of `term` in a sorted run of ``term << 32 | row``."""
    if run.size == 0:
        return 0
    low = first_at(run, np.uint64(term) << np.uint64(32))
    return first_at(run, np.uint64(term + 1) << np.uint64(32)) - low


def _count_lists(
    indptr: NDArray[np.int64],
    tail: NDArray[np.uint64],
    late: NDArray[np.uint64],
    ids: NDArray[np.uint32],
) -> NDArray[np.int64]:
    """Length of the list of each id, int64[len(ids)]."""
    out = np.empty(ids.size, np.int64)
    for i in range(ids.size):
        term = np.int64(ids[i])
        count = 0
        if term < indptr.size - 1:
            count = indptr[term + 1] - indptr[term]
        out[i] = count + length_of(tail, term) + length_of(late, term)
    return out


@inline
def ascending(rows: NDArray[np.int64], most: Whole) -> NDArray[np.int64]:
    """Rows in ascending order, none of them above `most`; by digits where they are many."""
    if rows.size <= FEW:
        return np.sort(rows)
    size = 1 << DIGIT
    source = rows
    shift = 0
    while most >> shift > 0:
        starts = np.zeros(size + 1, np.int64)
        for i in range(source.size):
            starts[((source[i] >> shift) & (size - 1)) + 1] += 1
        for digit in range(size):
            starts[digit + 1] += starts[digit]
        target = np.empty(source.size, np.int64)
        for i in range(source.size):
            digit = (source[i] >> shift) & (size - 1)
            target[starts[digit]] = source[i]
            starts[digit] += 1
        source = target
        shift += DIGIT
    return source


def _gather_rows(
    indptr: NDArray[np.int64],
    base_rows: NDArray[np.int32],
    tail: NDArray[np.uint64],
    late: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    weights: NDArray[np.float64],
    rows_of: NDArray[np.int32],
    mapped: bool,
    allowed: NDArray[np.uint8],
    scratch: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sum, for each allowed row that holds any of `ids`, the weights of those that it holds.

    Parameters
    ----------
    indptr, base_rows, tail, late
        Posting lists.
    ids : uint32[m]
        Distinct; a row's sum is taken in this order.
    weights : float64[m]
    rows_of : int32[v]
        Where `mapped`: the row that each row of the lists stands for, negative for none.
    mapped : bool
    allowed : uint8[n_rows]
    scratch : float64[n_rows or more]
        All zeros; left so.

    Returns
    -------
    rows : int64[r]
        Ascending.
    sums : float64[r]
    """
    room = 0
    for count in count_lists(indptr, tail, late, ids):
        room += count
    touched = np.empty(room, np.int64)
    used = 0
    most = np.int64(0)
    for i in range(ids.size):
        term = np.int64(ids[i])
        weight = weights[i]
        for part in range(3):
            run = tail if part == 1 else late
            if part == 0:
                low, high = np.int64(0), np.int64(0)
                if term < indptr.size - 1:
                    low, high = indptr[term], indptr[term + 1]
            else:
                low = np.int64(first_at(run, np.uint64(term) << np.uint64(32)))
                high = np.int64(first_at(run, np.uint64(term + 1) << np.uint64(32)))
            for j in range(low, high):
                row = np.int64(base_rows[j]) if part == 0 else np.int64(run[j] & LAST)
                if mapped:
                    row = np.int64(rows_of[row])
                if row < 0 or allowed[row] == 0:
                    continue
                if scratch[row] == 0.0:  # not seen, or its sum is 0 so far: it may come twice
                    touched[used] = row
                    used += 1
                    most = max(most, row)
                scratch[row] += weight
    ordered = ascending(touched[:used], most)
    rows = np.empty(used, np.int64)
    sums = np.empty(used, np.float64)
    count = 0
    for i in range(used):
        row = ordered[i]
        if i == 0 or row != ordered[i - 1]:
            rows[count] = row
            sums[count] = scratch[row]
            scratch[row] = 0.0
            count += 1
    return rows[:count], sums[:count]


put_names = jit(_put_names)
move_edges = jit(_move_edges)
scan_texts = jit(_scan_texts)
count_lists = jit(_count_lists)
gather_rows = jit(_gather_rows)
