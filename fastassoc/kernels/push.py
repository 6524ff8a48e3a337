"""Personalised PageRank by forward push on the graph of notes and the concepts they carry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit

REST, KEPT, DEGREE, STATE = 0, 1, 2, 3  # columns of a node's numbers
TOUCHED, QUEUED = 1.0, 2.0  # states; 0: not seen yet

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
    df: Array,
    barred: int,
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
    nodes: Array,
    weights: Array,
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
    concept, with dead ones; `df`: live notes of each concept, `barred` of all live notes being no
    part of the graph. Scratch: `nodes` float64[nodes, 4], all 0, a node's numbers side by side;
    `weights` float64[nodes] and `ids` int64[3, nodes + 1], of any content. `nodes` is left as
    found. Returns the nodes that keep something, int64[m] in the order of their touch, what they
    keep, and their degrees, float64[m].
    """
    touched, queue, near = ids[0], ids[1], ids[2]
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
            nodes[node, STATE] = TOUCHED
        else:
            break
        if gain > 0.0:
            nodes[node, REST] += gain
            if nodes[node, STATE] == 0.0:
                nodes[node, STATE] = TOUCHED
                touched[count] = node
                count += 1
            if nodes[node, STATE] == TOUCHED:
                nodes[node, STATE] = QUEUED
                end = head + waiting
                queue[end if end < queue.size else end - queue.size] = node
                waiting += 1
            continue
        size = 0  # neighbours by the first weights
        total = 0.0
        if node >= n:
            size = carriers(node - n, allowed, indptr, base, tail, late, near)
            for i in range(size):
                weights[i] = 1.0
            total = float(size)
        else:
            size = linked_notes(
                node, least, now, tau, allowed, link_ptr, link_middle, link_cols, link_weights,
                link_stamps, side_keys, side_weights, side_stamps, near, weights,
            )  # fmt: skip
            for i in range(size):
                total += weights[i]
            for i in range(ptr[node], ptr[node + 1]):
                near[size] = n + np.int64(flat[i])
                weights[size] = 1.0
                total += 1.0
                size += 1
        nodes[node, DEGREE] = total
        amount = nodes[node, REST]
        if amount <= eps * total:
            continue
        nodes[node, REST] = 0.0
        if size == 0:
            nodes[node, KEPT] += amount
            continue
        nodes[node, KEPT] += alpha * amount
        share = amount * (1.0 - alpha) / total  # total is above 0 where there are neighbours
        for i in range(size):
            other = near[i]
            rest = nodes[other, REST] + share * weights[i]
            nodes[other, REST] = rest
            if nodes[other, STATE] == 0.0:
                nodes[other, STATE] = TOUCHED
                touched[count] = other
                count += 1
                # at most the degree: saves the look at a node that has too little
                if other < n:
                    nodes[other, DEGREE] = np.float64(ptr[other + 1] - ptr[other])
                else:
                    nodes[other, DEGREE] = np.float64(max(0, df[other - n] - barred))
            if nodes[other, STATE] == TOUCHED and rest > eps * nodes[other, DEGREE]:
                nodes[other, STATE] = QUEUED
                end = head + waiting
                queue[end if end < queue.size else end - queue.size] = other
                waiting += 1
    used = 0
    for i in range(count):
        used += nodes[touched[i], KEPT] > 0.0
    out, values, degrees = np.empty(used, np.int64), np.empty(used), np.empty(used)
    used = 0
    for i in range(count):
        node = touched[i]
        if nodes[node, KEPT] > 0.0:
            out[used], values[used], degrees[used] = node, nodes[node, KEPT], nodes[node, DEGREE]
            used += 1
        for j in range(4):
            nodes[node, j] = 0.0
    return out, values, degrees


push = jit(_push)
