"""One call for a question: the board of notes that can come first, the ways to others, the picks.

See `settings.BridgeRule` for the steps and their constants. A part is a row of a table float64
[parts, m]; `VECTOR` to `COVER` say which.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline, jit
from fastassoc.kernels.board import (
    absent,
    first_allowed,
    first_places,
    merge_board,
    spread_places,
)
from fastassoc.kernels.bridge import (
    Index,
    Pick,
    Reach,
    Reached,
    about,
    cover,
    cross,
    mentioned,
    reach,
    titled,
)
from fastassoc.kernels.lists import Lists, base_span, row_of, run_span, size_of
from fastassoc.kernels.mentions import gather_rows
from fastassoc.kernels.texts import Terms, Texts, best_texts, weigh

__all__ = [
    "BRIDGE",
    "COVER",
    "HUB",
    "Found",
    "Knows",
    "Rule",
    "answer",
    "begin",
    "take_in",
]

VECTOR, TEXT, CONCEPT, SUBJECT, BRIDGE, PIN, COVER = range(7)
HUB = 20_000  # notes of a subject from which on most of them stay beyond the board

Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not
Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


class Rule(NamedTuple):
    """Constants of the read; see `settings.BridgeRule`."""

    depth: int
    flat_share: float
    subject_weight: float
    seeds: int
    seed_power: float
    unnamed: float
    weight: float
    base: float
    closed: float
    closed_width: float
    pin: bool
    pin_lift: float
    cover: bool
    titled_share: float
    gate_least: float
    gate_width: float
    gate_notes: int
    spread_seeds: int
    spread_pool: int
    pool: int
    picks: int
    spread_words: float
    spread_subjects: float
    pick_loss: float
    pick_covered: float
    pick_same: float
    pick_gain: float
    pick_open: float
    deal: float


class Knows(NamedTuple):
    """What is asked of: the index, the texts, the concepts of notes, and which may be returned.

    `held` are the concepts that notes carry; `log_n` is ``ln(1 + N)``.
    """

    index: Index  # type: ignore[assignment]  # a field's name, over tuple.index
    texts: Texts
    held: Lists
    allowed: NDArray[np.uint8]
    reach: Reach
    rule: Rule
    log_n: float


class Found(NamedTuple):
    """What a question names, by name, and what lies near.

    Attributes
    ----------
    terms : Terms
        Its words, and the concepts of it that notes carry.
    named, named_idf : uint32 [q], float64 [q]
    asked, asked_stems : uint32
        Its concepts and stems, ascending.
    near, cosines : int64 [v], float64 [v]
        The nearest rows, ascending, and their cosines, none below 0.
    highest, rest : float
        The largest of these, and that of every row further away.
    closer : int
        How many of the nearest lie closer than all others.
    exact : int64 [e]
    """

    terms: Terms
    named: NDArray[np.uint32]
    named_idf: Scores
    asked: NDArray[np.uint32]
    asked_stems: NDArray[np.uint32]
    near: Rows
    cosines: Scores
    highest: float
    rest: float
    closer: int
    exact: Rows


# -- rows of the board ----------------------------------------------------------------------------


@inline
def _fresh_parts(
    share: float,
    subject_weight: float,
    top: float,
    subject_top: float,
    said: Whole,
    weights: Scores,
    own: Scores,
    new: Rows,
    near: Rows,
    cosines: Scores,
    highest: float,
    rest: float,
    fresh: Scores,
) -> None:
    """What new rows have by themselves, into their parts; their weights come to be shares."""
    at = 0
    for i in range(new.size):
        said_of_it, carried_of_it = 0.0, 0.0
        for t in range(said):
            said_of_it += weights[i, t]
        for t in range(said, weights.shape[1]):
            carried_of_it += weights[i, t]
        if said_of_it + carried_of_it > 0.0:  # most rows hold nothing
            fresh[TEXT, i] = (1.0 - share) * (said_of_it / top)
            fresh[CONCEPT, i] = (1.0 - share) * (carried_of_it / top)
            for t in range(weights.shape[1]):
                weights[i, t] /= top
        total = 0.0
        for q in range(own.shape[1]):
            total += own[i, q]
        fresh[SUBJECT, i] = subject_weight * (total / subject_top)
        if highest > 0.0:
            while at < near.size and near[at] < new[i]:
                at += 1
            cosine = rest
            if at < near.size and near[at] == new[i]:
                cosine = cosines[at]
            fresh[VECTOR, i] = share * (cosine / highest)


def _take_in(
    knows: Knows,
    found: Found,
    top: float,
    subject_top: float,
    rows: Rows,
    words: Scores,
    parts: Scores,
    more: Rows,
    places: Scores,
) -> tuple[Rows, Scores, Scores]:
    """Take allowed rows into a board; its rows, words [m, t] and parts [p, m] are made anew.

    `places` is scratch by row, zeros.
    """
    new = absent(more, rows, places)
    if new.size == 0:
        return rows, words, parts
    rule = knows.rule
    subjects = knows.index.subjects
    weights = weigh(knows.texts, knows.held, subjects, found.terms, new, places)
    own = np.zeros((new.size, found.named.size), np.float64)
    about(subjects, new, found.named, found.named_idf, own)
    fresh = np.zeros((parts.shape[0], new.size), np.float64)
    _fresh_parts(
        rule.flat_share, rule.subject_weight, top, subject_top, found.terms.words.size, weights,
        own, new, found.near, found.cosines, found.highest, found.rest, fresh,
    )  # fmt: skip
    size = rows.size + new.size
    out_rows = np.empty(size, np.int64)
    out_words = np.empty((size, words.shape[1]), np.float64)
    out_parts = np.empty((parts.shape[0], size), np.float64)
    merge_board(rows, words, parts, new, weights, fresh, out_rows, out_words, out_parts)
    return out_rows, out_words, out_parts


take_in = jit(_take_in)


@inline
def _first_of_run(
    entries: Any,
    low: Whole,
    high: Whole,
    allowed: NDArray[np.uint8],
    out: NDArray[np.int64],
    used: Whole,
) -> Whole:
    """Put allowed rows of some entries into `out` until it is full."""
    for j in range(low, high):
        if used == out.size:
            break
        row = row_of(entries[j])
        if allowed[row] != 0:
            out[used] = row
            used += 1
    return used


@inline
def _declaring(
    subjects: Lists, concept: Whole, allowed: NDArray[np.uint8], n: Whole
) -> NDArray[np.int64]:
    """The first n allowed rows that declare a concept; older rows come before newer ones."""
    out = np.empty(min(n, allowed.size), np.int64)
    used: Whole = 0
    low, high = base_span(subjects.indptr, concept)
    used = _first_of_run(subjects.rows, low, high, allowed, out, used)
    for run in (subjects.tail, subjects.late):
        low, high = run_span(run, concept)
        used = _first_of_run(run, low, high, allowed, out, used)
    return out[:used]


def _begin(
    knows: Knows, found: Found, n: int, few: int, hub_size: int, out: Scores
) -> tuple[Rows, float, float, float]:
    """The rows with which a board begins, and what the others can have.

    Parameters
    ----------
    knows, found
    n : int
        How many of the first by each kind of score.
    few, hub_size : int
        `texts.FEW` and `HUB`.
    out : float64[n_rows or more]
        Scratch, zeros.

    Returns
    -------
    rows : int64[m]
        In any order, some of them twice.
    top, subject_top : float
        The largest sums by words and concepts, and by subjects, 1 where there is none.
    last : float
        The most that a row which is not there has by words, concepts and subjects, -1 where none
        has anything.
    """
    index, rule = knows.index, knows.rule
    subjects, allowed = index.subjects, knows.allowed
    top, subject_top, last = 1.0, 1.0, -1.0
    asks = found.terms.words.size + found.terms.carried.size > 0
    best = np.empty(0, np.int32)
    if asks:
        best, scores = best_texts(
            knows.texts, knows.held, subjects, found.terms, allowed, -1, n, few, out
        )
        if best.size > 0 and scores[0] > 0.0:
            top = scores[0]
        if best.size == n:
            last = (1.0 - rule.flat_share) * (scores[n - 1] / top)
    some = np.empty(0, np.int64)
    whole = np.empty(0, np.int64)
    if found.named.size > 0:
        # all rows that declare a named concept, but for one that far too many declare
        hub, most = -1, hub_size
        for q in range(found.named.size):
            size = size_of(subjects.indptr, subjects.tail, subjects.late, whole, found.named[q])
            if size > most:
                hub, most = q, size
        kept = np.empty(found.named.size, np.int64)
        used = 0
        for q in range(found.named.size):
            if q != hub:
                kept[used] = q
                used += 1
        some, _ = gather_rows(
            subjects.indptr, subjects.rows, subjects.tail, subjects.late,
            found.named[kept[:used]], found.named_idf[kept[:used]], np.empty(0, np.int32), False,
            allowed, out,
        )  # fmt: skip
        if hub >= 0:
            concept = np.int64(found.named[hub])
            whole = _declaring(subjects, concept, allowed, n)
            if whole.size < n:
                hub = -1  # they are all there
            elif asks:
                also, _ = best_texts(
                    knows.texts, knows.held, subjects, found.terms, allowed, concept, n, few, out
                )
                whole = np.concatenate((whole, also.astype(np.int64)))
        some = np.concatenate((some, whole))
        highest = 0.0
        own = np.zeros((some.size, found.named.size), np.float64)
        about(subjects, some, found.named, found.named_idf, own)
        for i in range(some.size):
            total = 0.0
            for q in range(found.named.size):
                total += own[i, q]
            highest = max(highest, total)
        if highest > 0.0:
            subject_top = highest
        if hub >= 0:
            last = max(last, 0.0) + rule.subject_weight * (found.named_idf[hub] / subject_top)
    return np.concatenate((best.astype(np.int64), some)), top, subject_top, last


begin = jit(_begin)


# -- from the board to the first notes ------------------------------------------------------------


@inline
def _sum_of(parts: Scores, first: Whole, stop: Whole) -> Scores:
    out = np.zeros(parts.shape[1], np.float64)
    for p in range(first, stop):
        for i in range(out.size):
            out[i] += parts[p, i]
    return out


@inline
def _with_room(own: Scores, n_parts: Whole) -> Scores:
    """A table of parts that begins with those that notes have by themselves."""
    out = np.zeros((n_parts, own.shape[1]), np.float64)
    for p in range(own.shape[0]):
        for i in range(own.shape[1]):
            out[p, i] = own[p, i]
    return out


@inline
def _worth(knows: Knows, found: Found, rows: Rows, first: Scores, places: Rows) -> Scores:
    """How much notes count as seeds, p(h)."""
    highest = first[0]
    for i in range(first.size):
        highest = max(highest, first[i])
    named = np.zeros((places.size, found.named.size), np.bool_)
    mentioned(knows.index, rows[places], found.named, named)
    out = np.empty(places.size, np.float64)
    power = knows.rule.seed_power
    for i in range(places.size):
        share = first[places[i]] / highest
        # a square is exact to the last bit, which a power is not everywhere
        out[i] = share * share if power == 2.0 else share**power
        any_of = False
        for q in range(found.named.size):
            any_of = any_of or named[i, q]
        if not any_of:
            out[i] *= knows.rule.unnamed
    return out


@inline
def _about(knows: Knows, found: Found, rows: Rows) -> Scores:
    out = np.zeros((rows.size, found.named.size), np.float64)
    about(knows.index.subjects, rows, found.named, found.named_idf, out)
    return out


@inline
def _words_of(words: Scores, places: Rows) -> Scores:
    out = np.empty((places.size, words.shape[1]), np.float64)
    for i in range(places.size):
        for t in range(words.shape[1]):
            out[i, t] = words[places[i], t]
    return out


@inline
def _positive(places: Rows, scores: Scores) -> Rows:
    """Those of some places with a score above 0."""
    n = 0
    out = np.empty(places.size, np.int64)
    for i in range(places.size):
        if scores[places[i]] > 0.0:
            out[n] = places[i]
            n += 1
    return out[:n]


@inline
def _open(knows: Knows, found: Found, words: Scores) -> float:
    """The least idf of words that one of some notes leaves open, by ln(1 + N)."""
    said = found.terms.words.size
    least = math.inf
    for i in range(words.shape[0]):
        left = 0.0
        for t in range(words.shape[1]):
            if words[i, t] == 0.0:
                left += found.terms.idf[t] if t < said else found.terms.carried_idf[t - said]
        least = min(least, left)
    return least / knows.log_n


@inline
def _pin(rule: Rule, parts: Scores) -> None:
    """Keep the first note by nearness and words in front: easy questions stay easy."""
    flat = _sum_of(parts, VECTOR, CONCEPT + 1)
    if not rule.pin or flat.size == 0:
        return
    place = 0
    for i in range(flat.size):
        if flat[i] > flat[place]:
            place = i
    if flat[place] > 0.0:
        score = _sum_of(parts, 0, parts.shape[0])
        most = score[0]
        for i in range(score.size):
            most = max(most, score[i])
        parts[PIN, place] = max(0.0, most + rule.pin_lift - score[place])


@inline
def _cover(
    knows: Knows,
    found: Found,
    rows: Rows,
    words: Scores,
    parts: Scores,
    first: Scores,
    a: float,
    reached: Reached,
    sums: Scores,
    places: Scores,
) -> tuple[Rows, Rows]:
    """Choose the first notes together, and deal the scores of the pool along the new order."""
    rule = knows.rule
    score = _sum_of(parts, 0, parts.shape[0])
    pool = _positive(first_places(score, rule.pool), score)
    base = score[pool]
    pick = Pick(
        rule.picks, rule.base, a * rule.pick_loss, rule.pick_covered, rule.pick_same,
        a * rule.pick_gain, a * rule.pick_open / knows.log_n,
    )  # fmt: skip
    chosen = rows[pool]
    picks, sources = cover(
        knows.index, knows.reach, pick, chosen, _words_of(words, pool), base,
        _worth(knows, found, rows, first, pool), _about(knows, found, chosen), found.named,
        found.asked, found.asked_stems, reached, knows.allowed, sums, places,
    )  # fmt: skip
    dealt = np.sort(base)[::-1]
    taken = np.zeros(pool.size, np.bool_)
    at = 0
    for i in range(picks.size):
        taken[picks[i]] = True
        parts[COVER, pool[picks[i]]] = dealt[at] - rule.deal * at - base[picks[i]]
        at += 1
    for i in range(pool.size):
        if not taken[i]:
            parts[COVER, pool[i]] = dealt[at] - rule.deal * at - base[i]
            at += 1
    out = np.full(picks.size, -1, np.int64)
    for i in range(picks.size):
        if sources[i] >= 0:
            out[i] = chosen[sources[i]]
    return chosen[picks], out


def _answer(
    knows: Knows,
    found: Found,
    n_parts: int,
    k: int,
    pool: int,
    few: int,
    hub_size: int,
    sums: Scores,
    places: Scores,
) -> tuple[Rows, Scores, Scores, Rows, Rows, Rows, Rows, Scores]:
    """The board of a question with what each note gains, learned parts and note links left out.

    Parameters
    ----------
    knows, found
    n_parts : int
        Rows of the table of parts.
    k, pool : int
        How many hits are asked for, and how many notes are ranked.
    few, hub_size : int
        As in `begin`.
    sums, places : float64[n_rows or more]
        Scratch, zeros.

    Returns
    -------
    rows, words, parts : int64[m], float64[m, t], float64[n_parts, m]
    sources : int64[m]
        The row of the seed that led to each, -1 for none.
    picks, pick_sources : int64[p]
        The rows picked together, and that of the pick that led to each, -1 for none.
    direct : int64[d]
        Rows that are among the first k by themselves.
    numbers : float64[6]
        The largest sum of words; of subjects; `last` of `begin`; whether the first notes have
        titles; how much of the question they leave open; how many rows of each kind were taken.
    """
    rule, allowed = knows.rule, knows.allowed
    need = max(pool, rule.depth)
    n = need + found.near.size
    numbers = np.zeros(6, np.float64)
    rows = np.empty(0, np.int64)
    words = np.empty((0, found.terms.words.size + found.terms.carried.size), np.float64)
    own = np.empty((SUBJECT + 1, 0), np.float64)  # the parts that a note has by itself
    more, top, subject_top, last = begin(knows, found, n, few, hub_size, sums)
    more = np.concatenate((found.near, more, found.exact))
    if found.rest > 0.0 and found.closer < need:
        # all notes beyond the nearest are as near as the last: the first written come first
        more = np.concatenate((more, first_allowed(allowed, need)))
    rows, words, own = take_in(knows, found, top, subject_top, rows, words, own, more, places)
    numbers[0], numbers[1], numbers[2], numbers[4], numbers[5] = top, subject_top, last, math.inf, n
    nobody = np.empty(0, np.int64)
    first = _sum_of(own, VECTOR, SUBJECT + 1)
    best = _positive(first_places(first, max(k, rule.depth)), first)
    direct = rows[best[:k]]
    if best.size == 0:
        parts = _with_room(own, n_parts)
        return rows, words, parts, np.full(rows.size, -1, np.int64), nobody, nobody, direct, numbers
    head = best[: rule.gate_notes]
    closed = 1.0
    has_titles = titled(knows.index, knows.reach, rows[head]) >= rule.titled_share * head.size
    a = 0.0
    if words.shape[1] > 0:
        numbers[4] = _open(knows, found, _words_of(words, head))
    if has_titles:
        numbers[3] = 1.0
        closed = rule.closed
        closed += (1.0 - rule.closed) * min(1.0, numbers[4] / rule.closed_width)
        if rule.cover and words.shape[1] > 0:
            a = min(1.0, max(0.0, (numbers[4] - rule.gate_least) / rule.gate_width))
    seeds = np.empty(rule.seeds + rule.spread_seeds, np.int64)
    used = 0
    for i in range(min(rule.seeds, best.size)):
        seeds[used] = rows[best[i]]
        used += 1
    if a > 0.0:
        some = best[: rule.spread_pool]
        taken = spread_places(
            _words_of(words, some), _about(knows, found, rows[some]), first[some],
            rule.spread_seeds, a * rule.spread_words, a * rule.spread_subjects / subject_top,
        )  # fmt: skip
        before = used
        for i in range(taken.size):
            row = rows[some[taken[i]]]
            known = False
            for j in range(before):
                known = known or seeds[j] == row
            if not known:
                seeds[used] = row
                used += 1
    seeds = seeds[:used]
    reached = reach(knows.index, knows.reach, seeds, found.asked, found.asked_stems, allowed, sums)
    rows, words, own = take_in(
        knows, found, top, subject_top, rows, words, own, reached.rows, places
    )
    first = _sum_of(own, VECTOR, SUBJECT + 1)
    at = np.searchsorted(rows, seeds)
    gains, source = np.zeros(rows.size, np.float64), np.full(rows.size, -1, np.int64)
    cross(
        rows, words, at, _worth(knows, found, rows, first, at), reached,
        rule.base * closed, places, gains, source,
    )  # fmt: skip
    parts = _with_room(own, n_parts)
    for i in range(rows.size):
        parts[BRIDGE, i] = rule.weight * gains[i]
        if source[i] >= 0:
            source[i] = seeds[source[i]]
    _pin(rule, parts)
    picks, pick_sources = nobody, nobody
    if a > 0.0:
        picks, pick_sources = _cover(
            knows, found, rows, words, parts, first, a, reached, sums, places
        )
    return rows, words, parts, source, picks, pick_sources, direct, numbers


answer = jit(_answer)
