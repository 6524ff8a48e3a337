"""The best texts by BM25 and by concepts that they carry, without long lists that cannot matter.

Terms come in two kinds: words, whose weight in a row BM25 gives, then *carried* concepts, which
weigh their idf in each row that carries them and does not declare them. Every score is a sum in the
order of the terms, words first, so it does not depend on the way in which it was found.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline, jit
from fastassoc.kernels.bridge import Lists, carried, holds, row_at, size_of, span
from fastassoc.kernels.reading import bm25_weights
from fastassoc.kernels.vectors import rise, sink, worse

__all__ = ["Terms", "Texts", "best_texts", "weigh"]

Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not

FEW = 16_384  # postings that are walked without a thought
DEAR = 16  # postings that are walked in the time in which a row is scored by what it holds
ROUNDED = 1e-9  # sums in another order differ by less, as a share


class Texts(NamedTuple):
    """What texts say, and what BM25 goes by; see `text.TextView`."""

    lists: Lists
    values: NDArray[np.float32]
    tail_values: NDArray[np.float32]
    late_values: NDArray[np.float32]
    flat_values: NDArray[np.float32]
    lengths: NDArray[np.int32]
    average: float
    k1: float
    b: float


class Terms(NamedTuple):
    """What is asked: words uint32 [t], carried concepts uint32 [c], the idf of each float64."""

    words: NDArray[np.uint32]
    idf: NDArray[np.float64]
    carried: NDArray[np.uint32]
    carried_idf: NDArray[np.float64]


def _weigh(
    texts: Texts,
    held: Lists,
    subjects: Lists,
    terms: Terms,
    rows: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The weight of each term in each row, words first, float64 [m, t + c]."""
    said, known = terms.words.size, terms.carried.size
    out = np.zeros((rows.size, said + known), np.float64)
    if said > 0 and rows.size > 0:
        bm25_weights(
            texts.lists.flat, texts.lists.ptr, texts.flat_values, rows, terms.words, terms.idf,
            texts.lengths, texts.average, texts.k1, texts.b, out,
        )  # fmt: skip
    if known > 0:
        carried(held, subjects, rows, terms.carried, terms.carried_idf, out[:, said:])
    return out


weigh = jit(_weigh)


@inline
def _walk(
    texts: Texts,
    held: Lists,
    subjects: Lists,
    terms: Terms,
    term: Whole,
    out: NDArray[np.float64],
    touched: NDArray[np.int32],
    used: Whole,
) -> Whole:
    """Add the weight of a term to its rows, noting those that were 0; how many are noted now."""
    own, own_ptr = subjects.flat, subjects.ptr
    if term >= terms.words.size:
        base, tail, late, indptr = held.rows, held.tail, held.late, held.indptr
        concept = np.int64(terms.carried[term - terms.words.size])
        idf = terms.carried_idf[term - terms.words.size]
        for part in range(3):
            low, high = span(indptr, tail, late, part, concept)
            for j in range(low, high):
                row = row_at(base, tail, late, part, j)
                if not holds(own, own_ptr, row, concept):
                    touched[used] = row
                    used += 1 if out[row] == 0.0 else 0
                    out[row] += idf
        return used
    base, tail, late, indptr = (
        texts.lists.rows, texts.lists.tail, texts.lists.late, texts.lists.indptr
    )  # fmt: skip
    lengths, average = texts.lengths, texts.average
    word = np.int64(terms.words[term])
    k1, b = texts.k1, texts.b
    top = terms.idf[term] * (k1 + 1.0)
    for part in range(3):
        values = texts.values
        if part > 0:
            values = texts.tail_values if part == 1 else texts.late_values
        low, high = span(indptr, tail, late, part, word)
        for j in range(low, high):
            row = row_at(base, tail, late, part, j)
            tf = np.float64(values[j])
            # no branch: the place is written always and kept only for a new row
            touched[used] = row
            used += 1 if out[row] == 0.0 else 0
            out[row] += top * tf / (tf + k1 * (1.0 - b + b * lengths[row] / average))
    return used


@inline
def _last_of(
    touched: NDArray[np.int32],
    used: Whole,
    out: NDArray[np.float64],
    subjects: Lists,
    allowed: NDArray[np.uint8],
    only: Whole,
    k: Whole,
) -> float:
    """The k-th largest of the sums of rows that may come, 0 where there are fewer."""
    best = np.empty(k, np.float64)
    places = np.empty(k, np.int64)
    flat, ptr = subjects.flat, subjects.ptr
    size = 0
    for i in range(used):
        value = out[touched[i]]
        if size == k and value <= best[0]:
            continue
        if allowed[touched[i]] == 0 or (only >= 0 and not holds(flat, ptr, touched[i], only)):
            continue
        if size < k:
            best[size] = value
            places[size] = i
            rise(best, places, size)
            size += 1
        else:
            best[0] = value
            places[0] = i
            sink(best, places, size)
    return float(best[0]) if size == k else 0.0


def _best_texts(
    texts: Texts,
    held: Lists,
    subjects: Lists,
    terms: Terms,
    allowed: NDArray[np.uint8],
    only: Whole,
    k: Whole,
    few: Whole,
    out: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The first k allowed rows by score descending, then row ascending; only scores above 0.

    A term adds at most ``idf * (k1 + 1)`` (one that is carried its idf). The terms that can add
    most are walked first; once the k-th best sum is above all that the others can add together, no
    row without one of the first can come in, and the rows are scored by what they hold.

    Parameters
    ----------
    texts
    held, subjects
        Concepts that rows carry, and that they declare.
    terms
    allowed : uint8[n_rows or more]
    only : int
        A concept that each row must declare, -1 for none.
    k : int
    few : int
        `FEW`: how many postings are walked without a thought.
    out : float64[n_rows or more]
        Zeros, before and after.

    Returns
    -------
    rows : int32[m]
    scores : float64[m]
    """
    said = terms.words.size
    n = said + terms.carried.size
    none, lists = np.empty(0, np.int64), texts.lists
    flat, ptr = subjects.flat, subjects.ptr
    sizes = np.empty(n, np.int64)
    most = np.empty(n, np.float64)
    total = np.int64(0)
    for j in range(n):
        if j < said:
            sizes[j] = size_of(lists.indptr, lists.tail, lists.late, none, terms.words[j])
            most[j] = terms.idf[j] * (texts.k1 + 1.0)
        else:
            sizes[j] = size_of(held.indptr, held.tail, held.late, none, terms.carried[j - said])
            most[j] = terms.carried_idf[j - said]
        total += sizes[j]
    order = np.arange(n)
    plain = total <= few  # in the order of the terms, so that sums are scores
    if not plain:
        for i in range(1, n):
            j = order[i]
            at = i
            while at > 0 and most[order[at - 1]] < most[j]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = j
    k = min(k, allowed.size)
    touched = np.empty(np.minimum(total, allowed.size) + 1, np.int32)
    used: Whole = 0
    rest = 0.0
    for j in range(n):
        rest += most[j]
    least = 0.0
    for at in range(n):
        j = order[at]
        if not plain and used >= k > 0 and sizes[j] > used // 4:
            least = _last_of(touched, used, out, subjects, allowed, only, k) * (1.0 - ROUNDED)
            near = 0
            bound = least - rest * (1.0 + ROUNDED)
            for i in range(used):
                near += out[touched[i]] >= bound
            if bound > 0.0 and near * DEAR < total:
                break  # to score these by what they hold costs less than the lists that are left
        used = _walk(texts, held, subjects, terms, j, out, touched, used)
        rest -= most[j]
        total -= sizes[j]
        if at == n - 1:
            rest = 0.0
    if not plain and rest == 0.0 and used >= k > 0:
        least = _last_of(touched, used, out, subjects, allowed, only, k) * (1.0 - ROUNDED)
    bound = least - rest * (1.0 + ROUNDED)
    m = 0
    found = np.empty(used, np.int64)
    for i in range(used):
        row = np.int64(touched[i])
        value = out[row]
        if not plain:
            out[row] = 0.0
        if value >= bound and allowed[row] != 0 and (only < 0 or holds(flat, ptr, row, only)):
            found[m] = row
            m += 1
    best = np.empty(min(k, m), np.float64)
    places = np.empty(best.size, np.int64)
    size = 0
    weights = np.empty((0, 0), np.float64)
    if not plain:
        weights = weigh(texts, held, subjects, terms, found[:m])
    for i in range(m):
        row = found[i]
        score = 0.0
        if plain:
            score = out[row]
        else:
            for j in range(n):
                score += weights[i, j]
        if size < best.size:
            best[size] = score
            places[size] = row
            rise(best, places, size)
            size += 1
        elif size > 0 and worse(best[0], places[0], score, row):
            best[0] = score
            places[0] = row
            sink(best, places, size)
    if plain:
        for i in range(used):
            out[touched[i]] = 0.0
    for last in range(size - 1, 0, -1):  # the worst goes to the end, again and again
        best[0], best[last] = best[last], best[0]
        places[0], places[last] = places[last], places[0]
        sink(best, places, last)
    return places.astype(np.int32), best


best_texts = jit(_best_texts)
