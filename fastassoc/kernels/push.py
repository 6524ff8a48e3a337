"""Personalised PageRank by forward push on the graph of notes and the concepts they carry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit

UNKNOWN = -1.0  # a degree that is still to be summed

_HALF = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)

Array = Any  # any NumPy array; shapes and dtypes are in the docstrings


@inline
def first_of(keys: Array, term: int | np.int64) -> int:
    """Where the sorted keys ``term << 32 | other`` of a term begin."""
    key = np.uint64(term) << _HALF
    low, high = 0, keys.size
    while low < high:
        half = (low + high) >> 1
        if keys[half] < key:
            low = half + 1
        else:
            high = half
    return low


@inline
def linked_notes(
    row: int | np.int64,
    least: float,
    now: int,
    tau: float,
    allowed: Array,
    indptr: Array,
    middle: Array,
    cols: Array,
    weights: Array,
    stamps: Array,
    side_keys: Array,
    side_weights: Array,
    side_stamps: Array,
    out_ids: Array,
    out_weights: Array,
) -> int:
    """Allowed notes linked to `row` by effective weights from `least` up, by row; how many.

    Merges the strong and the weak part of the CSR with the side list, which overrides both; a
    tombstone there weighs NaN.
    """
    strong, strong_end, weak, weak_end = 0, 0, 0, 0
    if row < middle.size:
        strong, strong_end = indptr[row], middle[row]
        weak, weak_end = middle[row], indptr[row + 1]
    side = first_of(side_keys, row)
    used = 0
    none = np.int64(1) << 40  # beyond every row
    while True:
        a = np.int64(cols[strong]) if strong < strong_end else none
        b = np.int64(cols[weak]) if weak < weak_end else none
        c = none
        if side < side_keys.size and np.int64(side_keys[side] >> _HALF) == row:
            c = np.int64(side_keys[side] & _MASK)
        first = min(a, b, c)
        if first == none:
            return used
        stamp = np.int64(0)
        if c == first:
            weight, stamp = side_weights[side], side_stamps[side]
        else:
            place = strong if a == first else weak
            weight = weights[place]
            if stamps.size:
                stamp = stamps[place]
        if tau != math.inf and now > stamp:
            weight *= math.exp(-float(now - stamp) / tau)
        strong += a == first
        weak += b == first
        side += c == first
        if weight >= least and weight > 0.0 and first < allowed.size and allowed[first]:
            out_ids[used] = first
            out_weights[used] = weight
            used += 1


@inline
def carriers(
    concept: int | np.int64,
    allowed: Array,
    indptr: Array,
    base: Array,
    tail: Array,
    late: Array,
    out: Array,
) -> int:
    """Allowed notes that carry a concept, by row; how many."""
    used = 0
    if concept < indptr.size - 1:
        for i in range(indptr[concept], indptr[concept + 1]):
            if allowed[base[i]]:
                out[used] = base[i]
                used += 1
    for part in range(2):  # newer rows, then the newest
        keys = late if part else tail
        i = first_of(keys, concept)
        while i < keys.size and np.int64(keys[i] >> _HALF) == concept:
            row = np.int64(keys[i] & _MASK)
            if allowed[row]:
                out[used] = row
                used += 1
            i += 1
    return used


def _push(
    seeds: Array,
    shares: Array,
    alpha: float,
    eps: float,
    allowed: Array,
    flat: Array,
    ptr: Array,
    indptr: Array,
    base: Array,
    tail: Array,
    late: Array,
    least: float,
    now: int,
    tau: float,
    link_ptr: Array,
    link_middle: Array,
    link_cols: Array,
    link_weights: Array,
    link_stamps: Array,
    side_keys: Array,
    side_weights: Array,
    side_stamps: Array,
    reals: Array,
    ids: Array,
) -> tuple[Array, Array, Array]:
    """Push from `seeds` (int64[s]: a note's row, or the number of notes + a concept's id).

    With n = `allowed.size` notes, node u < n is a note and node n + c a concept. A note of which
    `allowed` is 0 is no part of the graph. Edges: 1 between a note and each concept it carries, and
    the effective weight between two notes, from `least` up. A node of residual above ``eps * deg``
    keeps `alpha` of it and gives the rest to its neighbours by weight, first come, first served;
    so every node's value lies at most ``eps * deg`` below its personalised PageRank. A node
    without an edge keeps all.

    `flat`, `ptr`: the concepts of each note; `indptr`, `base`, `tail`, `late`: the notes of each
    concept, with dead ones. Scratch: `reals` float64[4, nodes], of which the first two rows are 0
    and the third is `UNKNOWN`, and `ids` int64[4, nodes + 1], of which the first row is 0; left as
    found. Returns the nodes that keep something, int64[m] in the order of their touch, what they
    keep, and their degrees, float64[m].
    """
    rest, kept, degree, near_weights = reals[0], reals[1], reals[2], reals[3]
    state, touched, queue, near = ids[0], ids[1], ids[2], ids[3]
    n = allowed.size
    count, head, waiting, fed = 0, 0, 0, 0
    while True:
        # take up what came in since: the seeds at first, then the neighbours of the last node
        if fed < seeds.size:
            node, gain = seeds[fed], shares[fed]
            fed += 1
        elif waiting:
            node, gain = queue[head], 0.0
            head = head + 1 if head + 1 < queue.size else 0
            waiting -= 1
            state[node] = 1
        else:
            break
        if gain > 0.0:
            rest[node] += gain
            if state[node] == 0:
                state[node] = 1
                touched[count] = node
                count += 1
            if state[node] == 1:
                state[node] = 2
                end = head + waiting
                queue[end if end < queue.size else end - queue.size] = node
                waiting += 1
            continue
        size = 0  # neighbours by the first weights
        total = 0.0
        if node >= n:
            size = carriers(node - n, allowed, indptr, base, tail, late, near)
            for i in range(size):
                near_weights[i] = 1.0
            total = float(size)
        else:
            size = linked_notes(
                node, least, now, tau, allowed, link_ptr, link_middle, link_cols, link_weights,
                link_stamps, side_keys, side_weights, side_stamps, near, near_weights,
            )  # fmt: skip
            for i in range(size):
                total += near_weights[i]
            for i in range(ptr[node], ptr[node + 1]):
                near[size] = n + np.int64(flat[i])
                near_weights[size] = 1.0
                total += 1.0
                size += 1
        degree[node] = total
        amount = rest[node]
        if amount <= eps * total:
            continue
        rest[node] = 0.0
        if size == 0:
            kept[node] += amount
            continue
        kept[node] += alpha * amount
        amount *= 1.0 - alpha
        for i in range(size):
            other = near[i]
            rest[other] += amount * near_weights[i] / total
            if state[other] == 0:
                state[other] = 1
                touched[count] = other
                count += 1
            # what is known of a degree saves the look at a node that has too little
            known = degree[other]
            if known == UNKNOWN:
                known = np.float64(ptr[other + 1] - ptr[other]) if other < n else 0.0
            if state[other] == 1 and rest[other] > eps * known:
                state[other] = 2
                end = head + waiting
                queue[end if end < queue.size else end - queue.size] = other
                waiting += 1
    used = 0
    for i in range(count):
        used += kept[touched[i]] > 0.0
    out, values, degrees = np.empty(used, np.int64), np.empty(used), np.empty(used)
    used = 0
    for i in range(count):
        node = touched[i]
        if kept[node] > 0.0:
            out[used], values[used], degrees[used] = node, kept[node], degree[node]
            used += 1
        rest[node], kept[node], degree[node], state[node] = 0.0, 0.0, UNKNOWN, 0
    return out, values, degrees


push = jit(_push)
