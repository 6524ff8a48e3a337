"""Kernels of the vectors: cosines in float64, the nearest of a table, pairs within a window.

A product of two float32 is exact in float64, and `dot` adds the products in one fixed order, so a
cosine has the same bits alone or in a batch, in a scan or for a few places, on every machine.
A *table* is ``base`` float32[n0, d], ``tail`` float32[n - n0, d] (both read-only) and ``squares``
float64[n], the squared norms, where 0 says "not known yet": a kernel that needs one writes it, and
as every thread writes the same bits, none has to wait for another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit
from fastassoc.kernels.heap import best_first, offer

LANES = 16  # sums that grow side by side: the compiler puts neighbours into one register
TILE = 8 * LANES
BLOCK = 256  # places compared before the best of them are picked
FULL = 127  # the largest code of a sketch
ROUNDED = 1e-9  # what float64 may round off in a bound

Array = Any  # any NumPy array; shapes and dtypes are in the docstrings


# ---- two vectors --------------------------------------------------------------------------------


@inline
def dot(x: Array, y: Array, lanes: Array) -> float:
    """Sum of products of float[d] `x` and `y` in float64; `lanes` is scratch, float64[LANES].

    Lane l holds the products at l, l + 16, l + 32, and so on, eight at a time as a small tree,
    which vectorises without leave to reorder sums.
    """
    d = x.size
    for l in range(LANES):  # noqa: E741
        lanes[l] = 0.0
    at = 0
    while at + TILE <= d:
        a = x[at : at + TILE]
        b = y[at : at + TILE]
        for l in range(LANES):  # noqa: E741
            lanes[l] += (
                (
                    np.float64(a[l]) * np.float64(b[l])
                    + np.float64(a[l + 16]) * np.float64(b[l + 16])
                )
                + (
                    np.float64(a[l + 32]) * np.float64(b[l + 32])
                    + np.float64(a[l + 48]) * np.float64(b[l + 48])
                )
            ) + (
                (
                    np.float64(a[l + 64]) * np.float64(b[l + 64])
                    + np.float64(a[l + 80]) * np.float64(b[l + 80])
                )
                + (
                    np.float64(a[l + 96]) * np.float64(b[l + 96])
                    + np.float64(a[l + 112]) * np.float64(b[l + 112])
                )
            )
        at += TILE
    while at + LANES <= d:
        a = x[at : at + LANES]
        b = y[at : at + LANES]
        for l in range(LANES):  # noqa: E741
            lanes[l] += np.float64(a[l]) * np.float64(b[l])
        at += LANES
    for i in range(at, d):
        lanes[i - at] += np.float64(x[i]) * np.float64(y[i])
    return float(
        ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
        + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
        + ((lanes[8] + lanes[9]) + (lanes[10] + lanes[11]))
        + ((lanes[12] + lanes[13]) + (lanes[14] + lanes[15]))
    )


@inline
def cosine(product: float, one: float, other: float) -> float:
    """Cosine from a product and two squared norms; of a vector with itself exactly 1."""
    value = product / math.sqrt(one * other)
    if value > 1.0:
        return 1.0
    if value < -1.0:
        return -1.0
    return value


@inline
def compare(
    query: Array,
    square: float,
    base: Array,
    tail: Array,
    squares: Array,
    places: Array,
    count: int,
    lanes: Array,
    out: Array,
) -> None:
    """Cosines of float64[d] `query` with the vectors at the first `count` places.

    Three loops, not one: `dot` goes into each of the first two and is not called.
    """
    cut = base.shape[0]
    for i in range(count):
        place = places[i]
        vector = base[place] if place < cut else tail[place - cut]
        out[i] = dot(query, vector, lanes)
    for i in range(count):
        place = places[i]
        if squares[place] == 0.0:
            vector = base[place] if place < cut else tail[place - cut]
            squares[place] = dot(vector, vector, lanes)
    for i in range(count):
        out[i] = cosine(out[i], square, squares[places[i]])


def _squared(matrix: Array, out: Array) -> None:
    """Squared norms of the rows of float32[n, d] into float64[n]; 0 for a zero row only."""
    lanes = np.empty(LANES, np.float64)
    for i in range(matrix.shape[0]):
        out[i] = dot(matrix[i], matrix[i], lanes)


squared = jit(_squared)


def _cosines(
    query: Array, base: Array, tail: Array, squares: Array, places: Array, out: Array
) -> None:
    """Cosines of float64[d] with the vectors at int64[m] `places`, into float64[m].

    NaN where a place is -1.
    """
    lanes = np.empty(LANES, np.float64)
    square = dot(query, query, lanes)
    known = places[places >= 0]
    values = np.empty(known.size, np.float64)
    compare(query, square, base, tail, squares, known, known.size, lanes, values)
    at = 0
    for i in range(places.size):
        out[i] = math.nan
        if places[i] >= 0:
            out[i] = values[at]
            at += 1


cosines = jit(_cosines)


# ---- the nearest -------------------------------------------------------------------------------


def _nearest(
    query: Array,
    base: Array,
    tail: Array,
    squares: Array,
    rows: Array,
    allowed: Array,
    places: Array,
    scan: bool,
    k: int,
) -> tuple[Array, Array]:
    """The k vectors nearest to float64[d] `query`: places int64[m], cosines float64[m].

    Cosine descending, then place ascending. Candidates are int64 `places`, or with `scan` all;
    of these the ones whose note row (``rows``, int64[n]) is set in ``allowed``, uint8.
    """
    lanes = np.empty(LANES, np.float64)
    square = dot(query, query, lanes)
    n = rows.size if scan else places.size
    k = min(k, n)
    best = np.empty(k, np.float64)
    found = np.empty(k, np.int64)
    size = 0
    block = np.empty(BLOCK, np.int64)
    values = np.empty(BLOCK, np.float64)
    at = 0
    while at < n:
        count = 0
        while at < n and count < BLOCK:
            place = at if scan else places[at]
            row = rows[place]
            if row < allowed.size and allowed[row] != 0:
                block[count] = place
                count += 1
            at += 1
        compare(query, square, base, tail, squares, block, count, lanes, values)
        for i in range(count):
            if size < k or values[i] >= best[0]:
                size = offer(best, found, size, values[i], block[i])
    best_first(best, found, size)
    return found[:size], best[:size]


nearest = jit(_nearest)


# ---- sketches: what each vector is in 8 bits a number, and by how much that is wrong ------------


def _sketch(matrix: Array, codes: Array, scales: Array, errors: Array) -> None:
    """Sketch the rows of float32[n, d], finite and not zero.

    Into `codes` int8[n, d], and of each vector by its length what one of a code stands for and how
    long the rest is, `scales` and `errors` float64[n].
    """
    lanes = np.empty(LANES, np.float64)
    for i in range(matrix.shape[0]):
        vector = matrix[i]
        length = math.sqrt(dot(vector, vector, lanes))
        most = 0.0
        for j in range(vector.size):
            most = max(most, abs(np.float64(vector[j])))
        scale = most / FULL
        rest = 0.0
        for j in range(vector.size):
            code = math.floor(np.float64(vector[j]) / scale + 0.5)
            codes[i, j] = np.int8(code)
            left = np.float64(vector[j]) - code * scale
            rest += left * left
        scales[i] = scale / length
        errors[i] = math.sqrt(rest) / length


sketch = jit(_sketch)


@inline
def _coded_dot(x: Array, y: Array) -> Any:
    """Sum of products of int8[d] and int16[d] that fits 32 bits."""
    total = np.int32(0)
    for i in range(x.size):
        total = np.int32(total + np.int32(x[i]) * np.int32(y[i]))
    return total


def _likely(
    query: Array, rows: Array, allowed: Array, codes: Array, scales: Array, errors: Array, k: int
) -> Array:
    """Places that can be among the k nearest to float64[d] `query`, int64[m], ascending.

    A cosine by sketches is off by what both leave out. The k-th of the least that cosines can be
    is a bound: whoever cannot reach it is not among the first k.
    """
    d, n = query.size, rows.size
    lanes = np.empty(LANES, np.float64)
    length = math.sqrt(dot(query, query, lanes))
    most = 0.0
    for j in range(d):
        most = max(most, abs(query[j]))
    scale = most / min(32_767, (2**31 - 1) // (FULL * d))  # so that a sum fits 32 bits
    asked = np.empty(d, np.int16)
    rest = 0.0
    for j in range(d):
        code = math.floor(query[j] / scale + 0.5)
        asked[j] = np.int16(code)
        left = query[j] - code * scale
        rest += left * left
    own = math.sqrt(rest) / length
    about = np.empty(n, np.float64)
    places = np.empty(n, np.int64)
    count = 0
    for place in range(n):
        row = rows[place]
        if row < allowed.size and allowed[row] != 0:
            places[count] = place
            count += 1
    for i in range(count):
        about[i] = _coded_dot(codes[places[i]], asked)
    k = min(k, count)
    best = np.empty(k, np.float64)
    found = np.empty(k, np.int64)
    size = 0
    for i in range(count):
        place = places[i]
        error = (1.0 + own) * errors[place] + own + ROUNDED
        value = about[i] * (scale / length) * scales[place]
        about[i] = value + error
        least = value - error
        if size < k or least > best[0]:
            size = offer(best, found, size, least, i)
    kept = 0
    for i in range(count):
        if about[i] >= best[0]:
            places[kept] = places[i]
            kept += 1
    return places[:kept]


likely = jit(_likely)


def _nearest_sketched(
    query: Array,
    base: Array,
    tail: Array,
    squares: Array,
    rows: Array,
    allowed: Array,
    codes: Array,
    scales: Array,
    errors: Array,
    k: int,
) -> tuple[Array, Array]:
    """As `nearest` with `scan`, to the bit, but most vectors are only looked at by their sketch."""
    places = likely(query, rows, allowed, codes, scales, errors, k)
    return nearest(query, base, tail, squares, rows, allowed, places, False, k)


nearest_sketched = jit(_nearest_sketched)


# ---- pairs of one session -----------------------------------------------------------------------


def _tag_pairs(
    vectors: Array,
    squares: Array,
    start: int,
    stop: int,
    window: int,
    least: float,
    newer: Array,
    older: Array,
    values: Array,
) -> int:
    """Pairs (i, j) with start <= i < stop, i - window <= j < i and cosine >= `least`; how many.

    `vectors` float32[n, d] and their `squares` float64[n], 0 for none; the pairs go, sorted, into
    `newer`, `older` int64[p] and `values` float64[p], p >= (stop - start) * window.
    """
    lanes = np.empty(LANES, np.float64)
    query = np.empty(vectors.shape[1], np.float64)
    count = 0
    for i in range(start, stop):
        if squares[i] == 0.0:
            continue
        for j in range(query.size):
            query[j] = vectors[i, j]
        for j in range(max(0, i - window), i):
            if squares[j] == 0.0:
                continue
            value = cosine(dot(query, vectors[j], lanes), squares[i], squares[j])
            if value >= least:
                newer[count] = i
                older[count] = j
                values[count] = value
                count += 1
    return count


tag_pairs = jit(_tag_pairs)
