"""Kernels that score rows over inverted lists and pick the best.

Scratch is dense float64, all zeros before and after a call of `count_read`. A row's sum is always
taken in the order of the given ids, so a score does not depend on how the lists are stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline, jit
from fastassoc.kernels.heap import best_first, offer

__all__ = [
    "AUTO",
    "DENSE",
    "PRUNED",
    "SPARSE",
    "accumulate",
    "bm25",
    "bm25_weights",
    "count_read",
    "top_k",
]

# Ways to take a count read. All give the same rows and scores.
AUTO = 0
SPARSE = 1  # walk the lists, keep the rows touched
DENSE = 2  # walk the lists, scan all rows by blocks
PRUNED = 3  # score rows by their own terms, strongest expanded terms first, until none can matter

Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not

BLOCK = 256
FEW = 4096  # lists this short in all are walked at once
OWN = 24  # postings that take as long as a row scored by its own terms, about
SPARE = 32  # places of a table of terms for each of them
LAST = 0xFFFFFFFF


# --- one list -------------------------------------------------------------------------------------


@inline
def _tail_from(tail: NDArray[np.uint64], key: np.uint64, low: int) -> int:
    """First position at or after `low` with ``tail[position] >= key``, by galloping."""
    n = tail.size
    step = 1
    high = low
    while high < n and tail[high] < key:
        low = high + 1
        high += step
        step *= 2
    high = min(high, n)
    while low < high:
        middle = (low + high) >> 1
        if tail[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _tail_start(tail: NDArray[np.uint64], term: Whole, previous: Whole, at: int) -> int:
    """Where the tail's list of `term` begins; goes on from `at` while the terms ascend."""
    return _tail_from(tail, np.uint64(term) << np.uint64(32), at if term >= previous else 0)


@inline
def _size(indptr: NDArray[np.int64], tail: NDArray[np.uint64], ids: NDArray[np.uint32]) -> Whole:
    """Postings of all `ids`, where the whole tail counts once."""
    n_base = indptr.size - 1
    total = np.int64(tail.size)
    for i in range(ids.size):
        term = np.int64(ids[i])
        if term < n_base:
            total += indptr[term + 1] - indptr[term]
    return total


# --- scores ---------------------------------------------------------------------------------------


@inline
def _add(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    tail: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """`_accumulate` for a base and one sorted run."""
    n_base = indptr.size - 1
    n_tail = tail.size
    at = 0
    previous: Whole = 0
    for i in range(ids.size):
        term = np.int64(ids[i])
        weight = weights[i]
        if term < n_base:
            for j in range(indptr[term], indptr[term + 1]):
                out[rows[j]] += weight
        if n_tail > 0:
            at = _tail_start(tail, term, previous, at)
            previous = term
            while at < n_tail and np.int64(tail[at] >> np.uint64(32)) == term:
                out[np.int64(tail[at] & np.uint64(LAST))] += weight
                at += 1


def _accumulate(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    tail: NDArray[np.uint64],
    late: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add ``weights[i]`` to ``out[row]`` for every row of ``ids[i]``, in the order of `ids`."""
    _add(indptr, rows, tail, ids, weights, out)
    # a row lies in one place only, so its order of sums is kept
    _add(np.zeros(1, np.int64), np.empty(0, np.int32), late, ids, weights, out)


@inline
def _add_bm25(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    values: NDArray[np.float32],
    tail: NDArray[np.uint64],
    tail_values: NDArray[np.float32],
    ids: NDArray[np.uint32],
    idf: NDArray[np.float64],
    lengths: NDArray[np.int32],
    average: float,
    k1: float,
    b: float,
    out: NDArray[np.float64],
) -> None:
    """`_bm25` for a base and one sorted run."""
    n_base = indptr.size - 1
    n_tail = tail.size
    at = 0
    previous: Whole = 0
    for i in range(ids.size):
        term = np.int64(ids[i])
        top = idf[i] * (k1 + 1.0)
        if term < n_base:
            for j in range(indptr[term], indptr[term + 1]):
                row = rows[j]
                tf = np.float64(values[j])
                out[row] += top * tf / (tf + k1 * (1.0 - b + b * lengths[row] / average))
        if n_tail > 0:
            at = _tail_start(tail, term, previous, at)
            previous = term
            while at < n_tail and np.int64(tail[at] >> np.uint64(32)) == term:
                row_ = np.int64(tail[at] & np.uint64(LAST))
                tf = np.float64(tail_values[at])
                out[row_] += top * tf / (tf + k1 * (1.0 - b + b * lengths[row_] / average))
                at += 1


def _bm25(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    values: NDArray[np.float32],
    tail: NDArray[np.uint64],
    tail_values: NDArray[np.float32],
    late: NDArray[np.uint64],
    late_values: NDArray[np.float32],
    ids: NDArray[np.uint32],
    idf: NDArray[np.float64],
    lengths: NDArray[np.int32],
    average: float,
    k1: float,
    b: float,
    out: NDArray[np.float64],
) -> None:
    """Add each term's BM25 weight to ``out[row]``, in the order of `ids`.

    The weight is ``idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))``.
    """
    _add_bm25(
        indptr, rows, values, tail, tail_values, ids, idf, lengths, average, k1, b, out
    )  # fmt: skip
    none = np.empty(0, np.float32)
    _add_bm25(
        np.zeros(1, np.int64), np.empty(0, np.int32), none, late, late_values, ids, idf, lengths,
        average, k1, b, out,
    )  # fmt: skip


def _bm25_weights(
    flat: NDArray[np.uint32],
    ptr: NDArray[np.int64],
    values: NDArray[np.float32],
    at_rows: NDArray[np.int64],
    ids: NDArray[np.uint32],
    idf: NDArray[np.float64],
    lengths: NDArray[np.int32],
    average: float,
    k1: float,
    b: float,
    out: NDArray[np.float64],
) -> None:
    """BM25 weight of ``ids[j]`` in ``at_rows[i]`` into ``out[i, j]``, from the forward lists.

    The ids are distinct; most terms of a row are none of them, which an open table tells at once.
    """
    size = 64
    while size < SPARE * ids.size:
        size *= 2
    last = size - 1
    slots = np.zeros(size, np.int32)  # one more than the place of an id, 0 where there is none
    for j in range(ids.size):
        at = np.int64(ids[j]) & last
        while slots[at] != 0:
            at = (at + 1) & last
        slots[at] = j + 1
    for i in range(at_rows.size):
        row = at_rows[i]
        for p in range(ptr[row], ptr[row + 1]):
            at = np.int64(flat[p]) & last
            while slots[at] != 0:
                j = slots[at] - 1
                if ids[j] == flat[p]:
                    tf = np.float64(values[p])
                    norm = tf + k1 * (1.0 - b + b * lengths[row] / average)
                    out[i, j] = idf[j] * (k1 + 1.0) * tf / norm
                    break
                at = (at + 1) & last


# --- the first k by score, then row ---------------------------------------------------------------


def _top_k(
    out: NDArray[np.float64], allowed: NDArray[np.uint8], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Allowed rows with a score above 0, by score descending, then row ascending, at most `k`.

    Parameters
    ----------
    out : float64[n_rows or more]
    allowed : uint8[n_rows]
    k : int

    Returns
    -------
    rows : int32[m]
    scores : float64[m]
    """
    n = allowed.size
    scores = np.empty(min(k, n), np.float64)
    found = np.empty(min(k, n), np.int64)
    size: Whole = 0
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        best = 0.0
        for row in range(start, stop):
            best = max(best, out[row])
        if best <= 0.0 or (size == scores.size and best <= scores[0]):
            continue
        for row in range(start, stop):
            # a later row with an equal score never displaces an earlier one
            score = out[row]
            if score > 0.0 and (size < scores.size or score > scores[0]) and allowed[row] != 0:
                size = offer(scores, found, size, score, np.int64(row))
    best_first(scores, found, size)
    return found[:size].astype(np.int32), scores[:size]


# --- the count read -------------------------------------------------------------------------------


@inline
def _select(
    rows: NDArray[np.int32],
    scores: NDArray[np.float64],
    n: int,
    prefix: NDArray[np.uint64],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Of the first `n` candidates, those whose (score, prefix) is at least the k-th best.

    Heaps want the lower key first, and here the higher prefix is: so keys are its complement.
    """
    heap = np.empty(min(k, n), np.float64)
    heap_keys = np.empty(min(k, n), np.uint64)
    size = 0
    held = 0
    found = np.empty(n, np.int32)  # those that were good enough when they came: few
    keys = np.empty(n, np.uint64)
    for i in range(n):
        if size == heap.size and scores[i] < heap[0]:
            continue
        key = ~prefix[rows[i]]
        if size == heap.size and scores[i] == heap[0] and key > heap_keys[0]:
            continue
        size = offer(heap, heap_keys, size, scores[i], key)
        found[held], keys[held] = i, key
        held += 1
    m = 0
    for j in range(held):
        score = scores[found[j]]
        if score > heap[0] or (score == heap[0] and keys[j] <= heap_keys[0]):
            found[m] = found[j]
            m += 1
    out_rows = np.empty(m, np.int32)
    out_scores = np.empty(m, np.float64)
    for j in range(m):
        out_rows[j] = rows[found[j]]
        out_scores[j] = scores[found[j]]
    return out_rows, out_scores


@inline
def _touch(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    tail: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
    touched: NDArray[np.int32],
    n: int,
) -> int:
    """`_accumulate` for weights above 0, noting rows that were 0 after the first `n` touched."""
    n_base = indptr.size - 1
    n_tail = tail.size
    at = 0
    previous: Whole = 0
    for i in range(ids.size):
        term = np.int64(ids[i])
        weight = weights[i]
        if not weight > 0.0:
            continue
        if term < n_base:
            for j in range(indptr[term], indptr[term + 1]):
                row = rows[j]
                # no branch: the place is written always and kept only for a new row
                touched[n] = row
                n += 1 if out[row] == 0.0 else 0
                out[row] += weight
        if n_tail > 0:
            at = _tail_start(tail, term, previous, at)
            previous = term
            while at < n_tail and np.int64(tail[at] >> np.uint64(32)) == term:
                row_ = np.int64(tail[at] & np.uint64(LAST))
                touched[n] = row_
                n += 1 if out[row_] == 0.0 else 0
                out[row_] += weight
                at += 1
    return n


@inline
def _allowed_of(
    touched: NDArray[np.int32],
    n: int,
    allowed: NDArray[np.uint8],
    out: NDArray[np.float64],
    rows: NDArray[np.int32],
    scores: NDArray[np.float64],
) -> int:
    """Copy the allowed ones of the touched rows, with their scores."""
    m = 0
    for i in range(n):
        row = touched[i]
        rows[m] = row
        scores[m] = out[row]
        m += 1 if allowed[row] != 0 else 0
    return m


@inline
def _dense(
    allowed: NDArray[np.uint8],
    prefix: NDArray[np.uint64],
    k: int,
    n_rows: int,
    out: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Select over all rows by block maxima, and set `out` to zeros."""
    n_blocks = (n_rows + BLOCK - 1) // BLOCK
    best = np.empty(n_blocks, np.float64)
    heap = np.empty(min(k, n_rows), np.float64)
    keys = np.empty(min(k, n_rows), np.uint64)
    size = 0
    for block in range(n_blocks):
        start = block * BLOCK
        stop = min(start + BLOCK, n_rows)
        most = 0.0
        for row in range(start, stop):
            most = max(most, out[row])
        best[block] = most
        if most <= 0.0 or (size == heap.size and most < heap[0]):
            continue
        for row in range(start, stop):
            score = out[row]
            if score > 0.0 and (size < heap.size or score >= heap[0]) and allowed[row] != 0:
                size = offer(heap, keys, size, score, ~prefix[row])
    m = 0
    rows = np.empty(max(64, 2 * heap.size), np.int32)
    scores = np.empty(rows.size, np.float64)
    for block in range(n_blocks):
        start = block * BLOCK
        stop = min(start + BLOCK, n_rows)
        if size > 0 and best[block] >= heap[0]:
            for row in range(start, stop):
                score = out[row]
                if (
                    score >= heap[0]
                    and allowed[row] != 0
                    and (score > heap[0] or ~prefix[row] <= keys[0])
                ):
                    if m == rows.size:
                        rows = np.concatenate((rows, np.empty(m, np.int32)))
                        scores = np.concatenate((scores, np.empty(m, np.float64)))
                    rows[m] = row
                    scores[m] = score
                    m += 1
        out[start:stop] = 0.0
    return rows[:m].copy(), scores[:m].copy()


@inline
def _own_score(
    row: Whole,
    start: float,
    flat: NDArray[np.uint32],
    ptr: NDArray[np.int64],
    share: NDArray[np.float64],
    mine: NDArray[np.uint32],
) -> float:
    """`start` plus the shares of the row's terms, in ascending order of the ids."""
    n = 0
    for p in range(ptr[row], ptr[row + 1]):
        term = flat[p]
        if share[term] > 0.0:
            at = n
            while at > 0 and mine[at - 1] > term:
                mine[at] = mine[at - 1]
                at -= 1
            mine[at] = term
            n += 1
    score = start
    for i in range(n):
        score += share[mine[i]]
    return score


@inline
def _pruned(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    tail: NDArray[np.uint64],
    late: NDArray[np.uint64],
    flat: NDArray[np.uint32],
    ptr: NDArray[np.int64],
    width: int,
    wide: NDArray[np.int32],
    expanded: NDArray[np.uint32],
    strengths: NDArray[np.float64],
    allowed: NDArray[np.uint8],
    prefix: NDArray[np.uint64],
    k: int,
    budget: int,
    touched: NDArray[np.int32],
    n_touched: int,
    out: NDArray[np.float64],
    share: NDArray[np.float64],
) -> tuple[bool, NDArray[np.int32], NDArray[np.float64]]:
    """Score rows by their own terms, strongest expanded terms first.

    `out` and `touched` hold the rows of the asked terms. A row of at most `width` terms whose
    strongest expanded term has strength s scores at most width * s, so the rows of weaker terms
    are left out once the k-th best score is above that. `out` is zeros again in the end, unless
    the work went beyond `budget` postings: then the first value returned is False.
    """
    n_base = indptr.size - 1
    n_rows = ptr.size - 1
    longest = 0
    for i in range(wide.size):
        longest = max(longest, ptr[wide[i] + 1] - ptr[wide[i]])
    mine = np.empty(max(longest, width) + 1, np.uint32)
    capacity = n_touched + wide.size + 1024
    found = np.empty(capacity, np.int32)
    scores = np.empty(capacity, np.float64)
    heap = np.empty(min(k, n_rows), np.float64)
    keys = np.empty(min(k, n_rows), np.uint64)
    size = 0
    m = 0
    most = 0.0
    for i in range(expanded.size):
        if strengths[i] > 0.0 and expanded[i] < share.size:  # terms beyond are on no row
            share[expanded[i]] = strengths[i]
            most = max(most, strengths[i])
    for i in range(n_touched):
        row = np.int64(touched[i])
        if allowed[row] != 0:
            found[m] = row
            scores[m] = _own_score(row, out[row], flat, ptr, share, mine)
            if size < heap.size or scores[m] >= heap[0]:
                size = offer(heap, keys, size, scores[m], ~prefix[row])
            m += 1
    for i in range(wide.size):
        row = np.int64(wide[i])
        if allowed[row] != 0 and out[row] == 0.0:
            score = _own_score(row, 0.0, flat, ptr, share, mine)
            if score > 0.0:
                out[row] = 1.0  # seen
                found[m] = row
                scores[m] = score
                if size < heap.size or score >= heap[0]:
                    size = offer(heap, keys, size, score, ~prefix[row])
                m += 1
    high = np.inf  # terms at or above are done
    kept = True
    rounds = 0
    worked = 0
    while most > 0.0:
        full = size == heap.size
        if full and most * width * (1.0 + 1e-9) < heap[0]:
            break
        rounds += 1
        low = most * 0.5 if rounds <= 12 else 0.0
        if full:
            low = max(low, heap[0] / width * (1.0 - 1e-9))
        planned = 0
        for i in range(expanded.size):
            if low <= strengths[i] < high and expanded[i] < n_base:
                planned += indptr[expanded[i] + 1] - indptr[expanded[i]]
        if worked + planned > budget:
            kept = False
            break
        worked += planned
        most = 0.0
        late_at = 0
        at = 0
        previous: Whole = 0
        for i in range(expanded.size):
            strength = strengths[i]
            if strength < low:
                most = max(most, strength)
                continue
            if strength >= high or not strength > 0.0:
                continue
            term = np.int64(expanded[i])
            begin = np.int64(0)
            count = np.int64(0)
            if term < n_base:
                begin = indptr[term]
                count = indptr[term + 1] - begin
            in_tail: Whole = 0
            in_late: Whole = 0
            if tail.size > 0:
                at = _tail_start(tail, term, previous, at)
                in_tail = _tail_start(tail, term + 1, term, at) - at
            if late.size > 0:
                late_at = _tail_start(late, term, previous, late_at)
                in_late = _tail_start(late, term + 1, term, late_at) - late_at
            previous = term
            listed = count + in_tail + in_late
            if m + listed > found.size:
                grown = 2 * found.size + listed
                found = np.concatenate((found[:m], np.empty(grown - m, np.int32)))
                scores = np.concatenate((scores[:m], np.empty(grown - m, np.float64)))
            for j in range(listed):
                if j < count:
                    row = np.int64(rows[begin + j])
                elif j < count + in_tail:
                    row = np.int64(tail[at + j - count] & np.uint64(LAST))
                else:
                    row = np.int64(late[late_at + j - count - in_tail] & np.uint64(LAST))
                if out[row] != 0.0 or allowed[row] == 0:
                    continue
                out[row] = 1.0
                score = _own_score(row, 0.0, flat, ptr, share, mine)
                found[m] = row
                scores[m] = score
                if size < heap.size or score >= heap[0]:
                    size = offer(heap, keys, size, score, ~prefix[row])
                m += 1
        high = low
    for i in range(expanded.size):
        if expanded[i] < share.size:
            share[expanded[i]] = 0.0
    for i in range(n_touched):
        out[touched[i]] = 0.0
    for i in range(m):
        out[found[i]] = 0.0
    if not kept:
        return False, found[:0].copy(), scores[:0].copy()
    top, top_scores = _select(found, scores, m, prefix, k)
    return True, top, top_scores


def _count_read(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    tail: NDArray[np.uint64],
    late: NDArray[np.uint64],
    flat: NDArray[np.uint32],
    ptr: NDArray[np.int64],
    width: int,
    wide: NDArray[np.int32],
    asked: NDArray[np.uint32],
    expanded: NDArray[np.uint32],
    strengths: NDArray[np.float64],
    allowed: NDArray[np.uint8],
    prefix: NDArray[np.uint64],
    k: int,
    way: int,
    n_rows: int,
    out: NDArray[np.float64],
    share: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]]:
    """Rows that can be among the first `k` by score, then text; see `PostingsView.count_read`.

    Parameters
    ----------
    indptr, rows, tail, late, flat, ptr, width, wide
        The arrays of a `PostingsView`.
    asked : uint32[q]
    expanded : uint32[e]
        Ascending, none of them asked.
    strengths : float64[e]
    allowed : uint8[n_rows]
    prefix : uint64[n_rows]
    k : int
    way : int
        AUTO, or one of the ways.
    n_rows : int
    out : float64[n_rows or more]
        Zeros, before and after.
    share : float64[n_terms or more]
        Zeros, before and after.

    Returns
    -------
    rows : int32[m]
    scores : float64[m]
    direct_rows : int32[d]
    direct_scores : float64[d]
    """
    no_base = np.zeros(1, np.int64)
    no_rows = np.empty(0, np.int32)
    if n_rows == 0:
        no_scores = np.empty(0, np.float64)
        return no_rows, no_scores, no_rows, no_scores
    tens = np.full(asked.size, 10.0)
    n_asked = _size(indptr, tail, asked) + late.size
    touched = np.empty(min(n_asked, n_rows) + 1, np.int32)
    n = _touch(indptr, rows, tail, asked, tens, out, touched, 0)
    n = _touch(no_base, no_rows, late, asked, tens, out, touched, n)
    some = np.empty(n, np.int32)
    some_scores = np.empty(n, np.float64)
    m = _allowed_of(touched, n, allowed, out, some, some_scores)
    direct, direct_scores = _select(some, some_scores, m, prefix, k)
    if expanded.size == 0:
        for i in range(n):
            out[touched[i]] = 0.0
        return direct, direct_scores, direct, direct_scores

    total = _size(indptr, tail, expanded) + late.size
    # in the time of a posting added: a scan of all rows, or twice as long for each, to note its row
    many = total > n_rows // 8
    plain = total + n_rows // 8 if many else 2 * total
    forced = way != AUTO
    if not forced:
        way = SPARSE
        if total > FEW:
            # what may be for nothing is little beside the rest
            way = PRUNED if (n + wide.size) * OWN * 4 < plain else DENSE
        budget = plain // OWN
    else:
        budget = total
    if way == PRUNED:
        done, found, scores = _pruned(
            indptr, rows, tail, late, flat, ptr, width, wide, expanded, strengths, allowed, prefix,
            k, budget, touched, n, out, share,
        )  # fmt: skip
        if done:
            return found, scores, direct, direct_scores
        n = _touch(indptr, rows, tail, asked, tens, out, touched, 0)
        n = _touch(no_base, no_rows, late, asked, tens, out, touched, n)
        way = DENSE
    if way == DENSE and (forced or many):
        least = np.maximum(strengths, 0.0)
        _add(indptr, rows, tail, expanded, least, out)
        _add(no_base, no_rows, late, expanded, least, out)
        found, scores = _dense(allowed, prefix, k, n_rows, out)
        return found, scores, direct, direct_scores
    everything = np.empty(min(n_asked + total, n_rows) + 1, np.int32)
    everything[:n] = touched[:n]
    n = _touch(indptr, rows, tail, expanded, strengths, out, everything, n)
    n = _touch(no_base, no_rows, late, expanded, strengths, out, everything, n)
    some = np.empty(n, np.int32)
    some_scores = np.empty(n, np.float64)
    m = _allowed_of(everything, n, allowed, out, some, some_scores)
    for i in range(n):
        out[everything[i]] = 0.0
    found, scores = _select(some, some_scores, m, prefix, k)
    return found, scores, direct, direct_scores


accumulate = jit(_accumulate)
bm25 = jit(_bm25)
bm25_weights = jit(_bm25_weights)
top_k = jit(_top_k)
count_read = jit(_count_read)
