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
from fastassoc.kernels.bridge import carried
from fastassoc.kernels.heap import best_first, offer
from fastassoc.kernels.lists import Lists, base_span, holds, row_of, run_span, size_of
from fastassoc.kernels.reading import bm25_weights

__all__ = ["Terms", "Texts", "best_texts", "weigh"]

Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not

FEW = 16_384  # postings that are walked without a thought
DEAR = 128  # postings that are walked while a row far away in memory is scored by what it holds
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


@inline
def _weigh_run(
    entries: Any,
    values: NDArray[np.float32],
    low: Whole,
    high: Whole,
    top: float,
    texts: Texts,
    places: NDArray[np.float64],
    j: Whole,
    out: NDArray[np.float64],
) -> None:
    """What BM25 gives a word, into column `j` of the rows that have a place."""
    lengths, average, k1, b = texts.lengths, texts.average, texts.k1, texts.b
    for at in range(low, high):
        row = row_of(entries[at])
        place = np.int64(places[row]) - 1
        if place >= 0:
            tf = np.float64(values[at])
            out[place, j] = top * tf / (tf + k1 * (1.0 - b + b * lengths[row] / average))


def _weigh(
    texts: Texts,
    held: Lists,
    subjects: Lists,
    terms: Terms,
    rows: NDArray[np.int64],
    places: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The weight of each term in each row, words first, float64 [m, t + c].

    From the lists of the words or from those of the rows, whichever are shorter. The rows are
    distinct; `places` float64[n_rows or more] is scratch, zeros.
    """
    said, known = terms.words.size, terms.carried.size
    out = np.zeros((rows.size, said + known), np.float64)
    lists, none = texts.lists, np.empty(0, np.int64)
    by_row, by_word = np.int64(0), np.int64(0)
    for i in range(rows.size):
        by_row += lists.ptr[rows[i] + 1] - lists.ptr[rows[i]]
    for j in range(said):
        by_word += size_of(lists.indptr, lists.tail, lists.late, none, terms.words[j])
    if by_word <= by_row:
        for i in range(rows.size):
            places[rows[i]] = i + 1.0
        for j in range(said):
            word = np.int64(terms.words[j])
            top = terms.idf[j] * (texts.k1 + 1.0)
            low, high = base_span(lists.indptr, word)
            _weigh_run(lists.rows, texts.values, low, high, top, texts, places, j, out)
            low, high = run_span(lists.tail, word)
            _weigh_run(lists.tail, texts.tail_values, low, high, top, texts, places, j, out)
            low, high = run_span(lists.late, word)
            _weigh_run(lists.late, texts.late_values, low, high, top, texts, places, j, out)
        for i in range(rows.size):
            places[rows[i]] = 0.0
    elif said > 0:
        bm25_weights(
            lists.flat, lists.ptr, texts.flat_values, rows, terms.words, terms.idf,
            texts.lengths, texts.average, texts.k1, texts.b, out,
        )  # fmt: skip
    if known > 0:
        carried(held, subjects, rows, terms.carried, terms.carried_idf, out[:, said:])
    return out


weigh = jit(_weigh)


@inline
def _carry(
    entries: Any,
    low: Whole,
    high: Whole,
    own: NDArray[np.uint32],
    own_ptr: NDArray[np.int64],
    concept: Whole,
    idf: float,
    out: NDArray[np.float64],
    touched: NDArray[np.int32],
    used: Whole,
) -> Whole:
    """Add an idf to the rows of some entries that do not declare the concept."""
    for j in range(low, high):
        row = row_of(entries[j])
        if not holds(own, own_ptr, row, concept):
            touched[used] = row
            used += 1 if out[row] == 0.0 else 0
            out[row] += idf
    return used


@inline
def _say(
    entries: Any,
    values: NDArray[np.float32],
    low: Whole,
    high: Whole,
    top: float,
    texts: Texts,
    out: NDArray[np.float64],
    touched: NDArray[np.int32],
    used: Whole,
) -> Whole:
    """Add what BM25 gives a word to the rows of some entries."""
    lengths, average, k1, b = texts.lengths, texts.average, texts.k1, texts.b
    for j in range(low, high):
        row = row_of(entries[j])
        tf = np.float64(values[j])
        # no branch: the place is written always and kept only for a new row
        touched[used] = row
        used += 1 if out[row] == 0.0 else 0
        out[row] += top * tf / (tf + k1 * (1.0 - b + b * lengths[row] / average))
    return used


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
    if term >= terms.words.size:
        own, own_ptr = subjects.flat, subjects.ptr
        concept = np.int64(terms.carried[term - terms.words.size])
        idf = terms.carried_idf[term - terms.words.size]
        low, high = base_span(held.indptr, concept)
        used = _carry(held.rows, low, high, own, own_ptr, concept, idf, out, touched, used)
        for run in (held.tail, held.late):
            low, high = run_span(run, concept)
            used = _carry(run, low, high, own, own_ptr, concept, idf, out, touched, used)
        return used
    lists = texts.lists
    word = np.int64(terms.words[term])
    top: Any = terms.idf[term] * (texts.k1 + 1.0)
    low, high = base_span(lists.indptr, word)
    used = _say(lists.rows, texts.values, low, high, top, texts, out, touched, used)
    low, high = run_span(lists.tail, word)
    used = _say(lists.tail, texts.tail_values, low, high, top, texts, out, touched, used)
    low, high = run_span(lists.late, word)
    return _say(lists.late, texts.late_values, low, high, top, texts, out, touched, used)


@inline
def _last_of(
    touched: NDArray[np.int32],
    used: Whole,
    out: NDArray[np.float64],
    sums: NDArray[np.float64],
    subjects: Lists,
    allowed: NDArray[np.uint8],
    only: Whole,
    k: Whole,
) -> float:
    """The k-th largest of the sums of rows that may come, 0 where there are fewer.

    `sums` gets them all: to look again in `out` would cost as much.
    """
    best = np.empty(k, np.float64)
    places = np.empty(k, np.int64)
    flat, ptr = subjects.flat, subjects.ptr
    size = 0
    for i in range(used):
        value = out[touched[i]]
        sums[i] = value
        if size == k and value <= best[0]:
            continue
        if allowed[touched[i]] == 0 or (only >= 0 and not holds(flat, ptr, touched[i], only)):
            continue
        size = offer(best, places, size, value, i)
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
    sums = np.empty(touched.size, np.float64)
    used: Whole = 0
    rest = 0.0
    for j in range(n):
        rest += most[j]
    least = 0.0
    for at in range(n):
        j = order[at]
        if not plain and used >= k > 0 and sizes[j] > used // 4:
            least = _last_of(touched, used, out, sums, subjects, allowed, only, k) * (1.0 - ROUNDED)
            near = 0
            bound = least - rest * (1.0 + ROUNDED)
            for i in range(used):
                near += sums[i] >= bound
            if bound > 0.0 and near * DEAR < total:
                break  # to score these by what they hold costs less than the lists that are left
        used = _walk(texts, held, subjects, terms, j, out, touched, used)
        rest -= most[j]
        total -= sizes[j]
        if at == n - 1:
            rest = 0.0
    if not plain and rest == 0.0 and used >= k > 0:
        least = _last_of(touched, used, out, sums, subjects, allowed, only, k) * (1.0 - ROUNDED)
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
        weights = weigh(texts, held, subjects, terms, found[:m], out)
    for i in range(m):
        row = found[i]
        score = 0.0
        if plain:
            score = out[row]
        else:
            for j in range(n):
                score += weights[i, j]
        if size < best.size or (size > 0 and score >= best[0]):
            size = offer(best, places, size, score, row)
    if plain:
        for i in range(used):
            out[touched[i]] = 0.0
    best_first(best, places, size)
    return places.astype(np.int32), best


best_texts = jit(_best_texts)
