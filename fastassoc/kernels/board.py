"""Kernels of the board: notes by row that can come first, and which of them do."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline, jit
from fastassoc.kernels.heap import best_first, offer
from fastassoc.kernels.mentions import ascending

__all__ = [
    "Explained",
    "absent",
    "explained",
    "first_allowed",
    "first_of",
    "first_places",
    "merge_board",
    "spread_places",
]


def _absent(
    rows: NDArray[np.int64], known: NDArray[np.int64], marks: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The distinct ones of some rows that are not known, ascending, int64 [m].

    `marks` float64[n_rows or more] is scratch, zeros.
    """
    for i in range(known.size):
        marks[known[i]] = 1.0
    out = np.empty(rows.size + 1, np.int64)
    used = 0
    most = np.int64(0)
    for i in range(rows.size):
        row = rows[i]
        out[used] = row  # written always, kept for a row that was not seen
        used += 1 if marks[row] == 0.0 else 0
        marks[row] = 1.0
        most = max(most, row)
    for i in range(known.size):
        marks[known[i]] = 0.0
    for i in range(used):
        marks[out[i]] = 0.0
    return ascending(out[:used], most)


absent = jit(_absent)


def _merge_board(
    rows: NDArray[np.int64],
    words: NDArray[np.float64],
    parts: NDArray[np.float64],
    new: NDArray[np.int64],
    new_words: NDArray[np.float64],
    new_parts: NDArray[np.float64],
    out_rows: NDArray[np.int64],
    out_words: NDArray[np.float64],
    out_parts: NDArray[np.float64],
) -> None:
    """Merge ascending rows, their words float64 [m, t] and their parts float64 [p, m]."""
    source = np.empty(out_rows.size, np.int64)  # a place among the rows, or behind all of them
    i, j = 0, 0
    for at in range(out_rows.size):
        if j == new.size or (i < rows.size and rows[i] < new[j]):
            source[at] = i
            out_rows[at] = rows[i]
            i += 1
        else:
            source[at] = rows.size + j
            out_rows[at] = new[j]
            j += 1
    for at in range(out_rows.size):
        place = source[at] - rows.size
        for t in range(words.shape[1]):
            out_words[at, t] = words[source[at], t] if place < 0 else new_words[place, t]
    for p in range(parts.shape[0]):
        for at in range(out_rows.size):
            place = source[at] - rows.size
            out_parts[p, at] = parts[p, source[at]] if place < 0 else new_parts[p, place]


merge_board = jit(_merge_board)


class Explained(NamedTuple):
    """How much of a question the notes of a board explain, each alone.

    Attributes
    ----------
    best : float
        The most that one note explains: the share of the idf that it holds, plus its cosine times
        a weight, less their product times another.
    words : float
        The largest number of words that one note holds.
    """

    best: float
    words: float


def _explained(
    words: NDArray[np.float64],
    idf: NDArray[np.float64],
    asked: float,
    cosines: NDArray[np.float64],
    weight: float,
    both: float,
) -> Explained:
    """Of words float64 [m, t] with idf float64 [t] of all that is `asked`, and cosines [m]."""
    best, most = 0.0, 0.0
    for i in range(words.shape[0]):
        held, number = 0.0, 0.0
        for t in range(words.shape[1]):
            if words[i, t] > 0.0:
                held += idf[t]
                number += 1.0
        held /= asked
        best = max(best, held + (weight - both * held) * cosines[i])
        most = max(most, number)
    return Explained(best, most)


explained = jit(_explained)


def _first_places(scores: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Places of the first n scores, descending, equal ones by place, int64 [at most n]."""
    n = min(n, scores.size)
    best = np.empty(n, np.float64)
    places = np.empty(n, np.int64)
    size = 0
    for place in range(scores.size):
        if size < n or (n > 0 and scores[place] > best[0]):  # of equals the first stay
            size = offer(best, places, size, scores[place], place)
    best_first(best, places, size)
    return places


first_places = jit(_first_places)


def _first_allowed(allowed: NDArray[np.uint8], n: int) -> NDArray[np.int64]:
    """The first n allowed rows, int64 [at most n]."""
    out = np.empty(min(n, allowed.size), np.int64)
    used = 0
    for row in range(allowed.size):
        if used == out.size:
            break
        if allowed[row] != 0:
            out[used] = row
            used += 1
    return out[:used]


first_allowed = jit(_first_allowed)


@inline
def first_of(values: NDArray[np.float64]) -> int:
    """Where the largest value is; of equals the first.

    Equal but for rounding: where every word is covered, what is left of many notes is 0.
    """
    place = 0
    best = -math.inf
    for i in range(values.size):
        value = np.rint(values[i] * 1e12) / 1e12
        if value > best:
            best = value
            place = i
    return place


def _spread_places(
    words: NDArray[np.float64],
    subjects: NDArray[np.float64],
    scores: NDArray[np.float64],
    many: int,
    per_word: float,
    per_subject: float,
) -> NDArray[np.int64]:
    """Notes that cover one another's words and subjects the least.

    One after another the largest of its score less `per_word` of its words that one of the taken
    holds, and `per_subject` of its subjects that one of them has.

    Parameters
    ----------
    words, subjects : float64[m, t], float64[m, q]
    scores : float64[m]
    many : int
    per_word, per_subject : float

    Returns
    -------
    int64[min(many, m)]
    """
    m = scores.size
    many = min(many, m)
    taken = np.empty(many, np.int64)
    left = np.ones(m, np.bool_)
    held = np.zeros(words.shape[1], np.bool_)
    same = np.zeros(subjects.shape[1], np.bool_)
    values = np.empty(m, np.float64)
    for n in range(many):
        for i in range(m):
            values[i] = -math.inf
            if left[i]:
                covered, shared = 0.0, 0.0
                for t in range(held.size):
                    if held[t]:
                        covered += words[i, t]
                for q in range(same.size):
                    if same[q]:
                        shared += subjects[i, q]
                values[i] = scores[i] - (per_word * covered + per_subject * shared)
        place = first_of(values)
        left[place] = False
        taken[n] = place
        for t in range(held.size):
            held[t] = held[t] or words[place, t] > 0.0
        for q in range(same.size):
            same[q] = same[q] or subjects[place, q] > 0.0
    return taken


spread_places = jit(_spread_places)
