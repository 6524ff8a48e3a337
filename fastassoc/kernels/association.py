"""The walk of `Memory.associate`: shares of a cue that flow along positive links, step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit

UNKNOWN = -1.0  # a degree that is still to be summed
DENSE = 16  # when one id in so many is reached, going through all ids beats sorting

_HALF = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)

Array = Any  # any NumPy array; shapes and dtypes are in the docstrings


@inline
def faded(weight: float, updated: int, now: int, tau: float) -> float:
    """Weight at `now`: faded since `updated` if the layer decays, else as stored."""
    if tau == math.inf or now <= updated:
        return weight
    return weight * math.exp(-float(now - updated) / tau)


@inline
def ordered_row(
    row: int | np.int64,
    power: float,
    now: int,
    tau: float,
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
    """Links of `row` with a positive effective weight, to `power`, by id, however laid out.

    Merges the strong and the weak part of the CSR with the side list, which overrides both; a
    tombstone there weighs NaN. Returns how many.
    """
    key = np.uint64(row) << _HALF
    low, high = 0, side_keys.size
    while low < high:
        half = (low + high) >> 1
        if side_keys[half] < key:
            low = half + 1
        else:
            high = half
    side, strong, strong_end, weak, weak_end = low, 0, 0, 0, 0
    if row < middle.size:
        strong, strong_end = indptr[row], middle[row]
        weak, weak_end = middle[row], indptr[row + 1]
    used = 0
    if side == side_keys.size or np.int64(side_keys[side] >> _HALF) != row:
        while strong < strong_end or weak < weak_end:
            if weak == weak_end or (strong < strong_end and cols[strong] < cols[weak]):
                place = strong
                strong += 1
            else:
                place = weak
                weak += 1
            weight = weights[place]
            if stamps.size:
                weight = faded(weight, stamps[place], now, tau)
            if weight > 0.0:
                out_ids[used] = cols[place]
                out_weights[used] = weight if power == 1.0 else weight**power
                used += 1
        return used
    none = np.int64(1) << 40  # beyond every id
    while True:
        a = np.int64(cols[strong]) if strong < strong_end else none
        b = np.int64(cols[weak]) if weak < weak_end else none
        c = none
        if side < side_keys.size and np.int64(side_keys[side] >> _HALF) == row:
            c = np.int64(side_keys[side] & _MASK)
        first = min(a, b, c)
        if first == none:
            return used
        weight = 0.0
        if c == first:
            weight = faded(side_weights[side], side_stamps[side], now, tau)
        else:
            place = strong if a == first else weak
            weight = weights[place]
            if stamps.size:
                weight = faded(weight, stamps[place], now, tau)
        strong += a == first
        weak += b == first
        side += c == first
        if weight > 0.0:  # False for NaN
            out_ids[used] = first
            out_weights[used] = weight if power == 1.0 else weight**power
            used += 1


def _walk(
    cues: Array,
    steps: int,
    stay: float,
    back: float,
    power: float,
    now: int,
    tau: float,
    indptr: Array,
    middle: Array,
    cols: Array,
    weights: Array,
    stamps: Array,
    side_keys: Array,
    side_weights: Array,
    side_stamps: Array,
    reals: Array,
    ids: Array,
) -> tuple[Array, Array]:
    """Take ``x <- (1 - stay) W'x + stay x0`` some steps from the cues (uint32[q], ascending).

    x0 has 1/q at each cue. Row a of W holds, for each link of positive weight to b, which to
    `power` is w, ``w / deg(a) + back * w / deg(b)``, divided by the sum of the row; deg is the sum
    of w over the links of an id. Every sum runs over ids in ascending order. Scratch: `reals`
    float64[5, ids], the first two rows 0, the third `UNKNOWN`; `ids` uint32[5, ids]; left as
    found. Returns the ids reached, ascending, without the cues, and their shares.
    """
    here, there, degrees, near, far = reals[0], reals[1], reals[2], reals[3], reals[4]
    at, reached, summed, near_ids, far_ids = ids[0], ids[1], ids[2], ids[3], ids[4]
    size, known = 0, 0
    start = 1.0 / max(1, cues.size)
    for i in range(cues.size):
        if cues[i] < here.size:
            here[cues[i]] = start
            at[size] = cues[i]
            size += 1
    for _ in range(steps):
        count = 0
        for i in range(cues.size):
            if cues[i] < here.size and stay > 0.0:
                there[cues[i]] = stay * start
                reached[count] = cues[i]
                count += 1
        for i in range(size):
            row = np.int64(at[i])
            n = ordered_row(
                row, power, now, tau, indptr, middle, cols, weights, stamps,
                side_keys, side_weights, side_stamps, near_ids, near,
            )  # fmt: skip
            degree = 0.0
            for j in range(n):
                degree += near[j]
            total = degree
            if back > 0.0:
                total = 0.0
                for j in range(n):
                    other = near_ids[j]
                    if degrees[other] == UNKNOWN:
                        m = ordered_row(
                            np.int64(other), power, now, tau, indptr, middle, cols, weights,
                            stamps, side_keys, side_weights, side_stamps, far_ids, far,
                        )  # fmt: skip
                        degrees[other] = 0.0
                        for k in range(m):
                            degrees[other] += far[k]
                        summed[known] = other
                        known += 1
                    near[j] = near[j] / degree + back * near[j] / degrees[other]
                    total += near[j]
            flow = (1.0 - stay) * here[row]
            for j in range(n):
                gain = flow * near[j] / total
                other = near_ids[j]
                if gain > 0.0:
                    if there[other] == 0.0:
                        reached[count] = other
                        count += 1
                    there[other] += gain
        for i in range(size):
            here[at[i]] = 0.0
        if count * DENSE > here.size:
            count = 0
            for other in range(here.size):
                if there[other] != 0.0:
                    reached[count] = other
                    count += 1
        else:
            reached[:count].sort()
        here, there = there, here
        at, reached = reached, at
        size = count
    for i in range(cues.size):
        if cues[i] < here.size:
            here[cues[i]] = 0.0
    used = 0
    for i in range(size):
        used += here[at[i]] > 0.0
    out_ids, out = np.empty(used, np.uint32), np.empty(used, np.float64)
    used = 0
    for i in range(size):
        if here[at[i]] > 0.0:
            out_ids[used] = at[i]
            out[used] = here[at[i]]
            used += 1
        here[at[i]] = 0.0
    for i in range(known):
        degrees[summed[i]] = UNKNOWN
    return out_ids, out


walk = jit(_walk)
