"""Kernels of the bridge: from seeds over what they name to others, and the first ones chosen.

Lists, rules and statistics come as named tuples of arrays and numbers. Every sum of floats goes by
weight or by name, never by number, so that it does not depend on what came before. Scratch is by
row, all zeros before and after a call.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import inline, jit
from fastassoc.kernels.board import first_of
from fastassoc.kernels.lists import Lists, base_span, holds, row_of, run_span, size_of

__all__ = [
    "Index",
    "Pick",
    "Reach",
    "Reached",
    "about",
    "carried",
    "cover",
    "cross",
    "given",
    "mentioned",
    "reach",
    "strongest",
    "titled",
]

Whole = Any  # int or a NumPy integer: mypy tells them apart, compiled code does not


class Index(NamedTuple):
    """What notes mention, declare and say, and how often.

    `rows_of`, `scan_of` and `void` (int32) are those of `mentionindex.MentionView`; `removed`
    (int64 [terms or fewer]) and `capitals` (int64 [terms, 2]) those of `text.TextView`.
    """

    mentions: Lists
    rows_of: NDArray[np.int32]
    scan_of: NDArray[np.int32]
    void: NDArray[np.int32]
    subjects: Lists
    stems: Lists
    removed: NDArray[np.int64]
    capitals: NDArray[np.int64]


class Reach(NamedTuple):
    """What leads from a note to others, and how strongly; see `settings.BridgeRule`.

    A concept or stem on more than `most` notes leads nowhere, a subject on more than `hub` is no
    title; a note is rich from `rich` concepts on.
    """

    most: float
    hub: float
    mention: float
    subject: float
    saturation: float
    stem: float
    capital_stem: float
    plain_stem: float
    rich: int


class Pick(NamedTuple):
    """What a pick of the covering pick gains and loses; see `settings.BridgeRule`."""

    many: int
    base: float
    loss: float
    covered: float
    same: float
    gain: float
    open: float


class Reached(NamedTuple):
    """What seeds lead to, and how strongly: that of the first seed, then of the second, and so on.

    Attributes
    ----------
    seeds : int64[s]
    rows, likeness : int64[m], float64[m]
        Those of each in any order.
    ptr : int64[s + 1]
    """

    seeds: NDArray[np.int64]
    rows: NDArray[np.int64]
    likeness: NDArray[np.float64]
    ptr: NDArray[np.int64]


# -- small sets -----------------------------------------------------------------------------------


@inline
def _inside(value: Whole, known: NDArray[np.uint32]) -> bool:
    """Whether a value stands among a few ascending ones."""
    low, high = 0, known.size
    while low < high:
        middle = (low + high) >> 1
        if known[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < known.size and known[low] == value)


def _mentioned(
    index: Index, rows: NDArray[np.int64], named: NDArray[np.uint32], out: NDArray[np.bool_]
) -> None:
    """Which of some concepts each row mentions, into `out` bool [m, q]."""
    scan_of, flat, ptr = index.scan_of, index.mentions.flat, index.mentions.ptr
    for i in range(rows.size):
        scan = np.int64(scan_of[rows[i]])
        for q in range(named.size):
            out[i, q] = scan >= 0 and holds(flat, ptr, scan, named[q])


mentioned = jit(_mentioned)


def _about(
    subjects: Lists,
    rows: NDArray[np.int64],
    named: NDArray[np.uint32],
    idf: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """The idf of each named concept that each row declares, else 0, into `out` float64 [m, q]."""
    flat, ptr = subjects.flat, subjects.ptr
    for i in range(rows.size):
        for j in range(named.size):
            out[i, j] = idf[j] if holds(flat, ptr, rows[i], named[j]) else 0.0


about = jit(_about)


def _titled(index: Index, rule: Reach, rows: NDArray[np.int64]) -> int:
    """How many rows declare a subject that is on no more notes than `Reach.hub`."""
    many = 0
    flat, ptr, void, lists = index.subjects.flat, index.subjects.ptr, index.void, index.mentions
    indptr, tail, late, hub = lists.indptr, lists.tail, lists.late, rule.hub
    for i in range(rows.size):
        for at in range(ptr[rows[i]], ptr[rows[i] + 1]):
            if size_of(indptr, tail, late, void, flat[at]) <= hub:
                many += 1
                break
    return many


titled = jit(_titled)


# -- concepts that notes carry without being about them -------------------------------------------


def _carried(
    lists: Lists,
    subjects: Lists,
    rows: NDArray[np.int64],
    ids: NDArray[np.uint32],
    idf: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """The idf of each concept that each row carries and does not declare, into float64 [m, c]."""
    flat, ptr, own, own_ptr = lists.flat, lists.ptr, subjects.flat, subjects.ptr
    for i in range(rows.size):
        row = rows[i]
        for j in range(ids.size):
            held = holds(flat, ptr, row, ids[j]) and not holds(own, own_ptr, row, ids[j])
            out[i, j] = idf[j] if held else 0.0


carried = jit(_carried)


@inline
def _more_than_declare(
    entries: Any,
    low: Whole,
    high: Whole,
    flat: NDArray[np.uint32],
    ptr: NDArray[np.int64],
    allowed: NDArray[np.uint8],
    term: Whole,
) -> bool:
    """Whether an allowed row of these entries does not declare a term."""
    found = False
    for j in range(low, high):
        row = row_of(entries[j])
        if allowed[row] != 0 and not holds(flat, ptr, row, term):
            found = True
            break
    return found


def _given(
    lists: Lists, subjects: Lists, allowed: NDArray[np.uint8], ids: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Whether an allowed row carries each concept and does not declare it, bool [c]."""
    out = np.zeros(ids.size, np.bool_)
    indptr, rows, tail, late = lists.indptr, lists.rows, lists.tail, lists.late
    flat, ptr, none = subjects.flat, subjects.ptr, np.empty(0, np.int64)
    for i in range(ids.size):
        carrying = size_of(indptr, tail, late, none, ids[i])
        if carrying == size_of(subjects.indptr, subjects.tail, subjects.late, none, ids[i]):
            continue  # whoever carries it declares it
        term = np.int64(ids[i])
        for run in (tail, late):
            low, high = run_span(run, term)
            out[i] |= _more_than_declare(run, low, high, flat, ptr, allowed, term)
        low, high = base_span(indptr, term)
        if not out[i]:
            out[i] = _more_than_declare(rows, low, high, flat, ptr, allowed, term)
    return out


given = jit(_given)


# -- ways to other notes --------------------------------------------------------------------------


@inline
def _concepts_from(
    index: Index,
    rule: Reach,
    row: Whole,
    asked: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Concepts that lead away from a note with their weights, the rarest first."""
    scan = np.int64(index.scan_of[row])
    first, stop = np.int64(0), np.int64(0)
    if scan >= 0:
        first, stop = index.mentions.ptr[scan], index.mentions.ptr[scan + 1]
    ids = np.empty(stop - first, np.uint32)
    weights = np.empty(stop - first, np.float64)
    used = 0
    flat, void, most = index.mentions.flat, index.void, rule.most
    indptr, tail, late = index.mentions.indptr, index.mentions.tail, index.mentions.late
    for at in range(first, stop):
        concept = flat[at]
        if _inside(concept, asked):
            continue
        df = size_of(indptr, tail, late, void, concept)
        if df <= most:
            ids[used] = concept
            weights[used] = 1.0 / math.sqrt(np.float64(df))
            used += 1
    order = np.argsort(-weights[:used])
    return ids[:used][order], weights[:used][order]


@inline
def _specific(index: Index, rule: Reach, scan: Whole) -> int:
    """How many concepts a scan has that are no hubs."""
    lists, used = index.mentions, 0
    for at in range(lists.ptr[scan], lists.ptr[scan + 1]):
        df = size_of(lists.indptr, lists.tail, lists.late, index.void, lists.flat[at])
        used += 1 if df <= rule.hub else 0
    return used


@inline
def _stems_from(
    index: Index,
    rule: Reach,
    row: Whole,
    asked: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Stems that lead away from a note with their weights, the strongest first."""
    first, stop = index.stems.ptr[row], index.stems.ptr[row + 1]
    scan = np.int64(index.scan_of[row])
    rich = False
    if scan >= 0 and index.subjects.ptr[row + 1] > index.subjects.ptr[row]:
        rich = _specific(index, rule, scan) >= rule.rich
    ids = np.empty(stop - first, np.uint32)
    weights = np.empty(stop - first, np.float64)
    used = 0
    flat, removed, capitals, most = index.stems.flat, index.removed, index.capitals, rule.most
    indptr, tail, late = index.stems.indptr, index.stems.tail, index.stems.late
    for at in range(first, stop):
        stem = flat[at]
        df = size_of(indptr, tail, late, removed, stem)
        if df < 2 or df > most or _inside(stem, asked):
            continue
        factor = rule.stem
        if rich:
            capital = 2 * capitals[stem, 0] > capitals[stem, 1]
            factor = rule.capital_stem if capital else rule.plain_stem
        ids[used] = stem
        weights[used] = factor * (1.0 / math.sqrt(np.float64(df)))
        used += 1
    order = np.argsort(-weights[:used])
    return ids[:used][order], weights[:used][order]


@inline
def _add_run(
    entries: Any,
    low: Whole,
    high: Whole,
    rows_of: NDArray[np.int32],
    mapped: bool,
    gain: float,
    allowed: NDArray[np.uint8],
    sums: NDArray[np.float64],
    touched: NDArray[np.int64],
    used: Whole,
) -> Whole:
    """Add a gain to the allowed rows of some entries; those whose sum was 0 are noted."""
    for j in range(low, high):
        row = row_of(entries[j])
        if mapped:
            row = np.int64(rows_of[row])
        if row >= 0 and allowed[row] != 0:
            # no branch: the place is written always, and kept for a row that was not seen, or
            # whose sum is 0 so far: it may come twice
            touched[used] = row
            used += 1 if sums[row] == 0.0 else 0
            sums[row] += gain
    return used


@inline
def _walk(
    lists: Lists,
    rows_of: NDArray[np.int32],
    mapped: bool,
    ids: NDArray[np.uint32],
    weights: NDArray[np.float64],
    factor: float,
    allowed: NDArray[np.uint8],
    sums: NDArray[np.float64],
    touched: NDArray[np.int64],
    used: Whole,
) -> tuple[NDArray[np.int64], Whole]:
    """Add the weight of each term to its allowed rows, noted in `touched`, which may grow."""
    indptr, base, tail, late = lists.indptr, lists.rows, lists.tail, lists.late
    for i in range(ids.size):
        term = np.int64(ids[i])
        gain = factor * weights[i]
        low, high = base_span(indptr, term)
        tail_low, tail_high = run_span(tail, term)
        late_low, late_high = run_span(late, term)
        need = used + (high - low) + (tail_high - tail_low) + (late_high - late_low) + 1
        if need > touched.size:
            touched = np.concatenate((touched, np.empty(need, np.int64)))
        used = _add_run(base, low, high, rows_of, mapped, gain, allowed, sums, touched, used)
        used = _add_run(
            tail, tail_low, tail_high, rows_of, mapped, gain, allowed, sums, touched, used
        )
        used = _add_run(
            late, late_low, late_high, rows_of, mapped, gain, allowed, sums, touched, used
        )
    return touched, used


@inline
def _likeness(
    index: Index,
    rule: Reach,
    row: Whole,
    asked: NDArray[np.uint32],
    asked_stems: NDArray[np.uint32],
    allowed: NDArray[np.uint8],
    sums: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """L(h, n): allowed rows that share a way with a row, in any order, and how much they do.

    A row may come twice if ways have no weight; then with 0.
    """
    concepts, weights = _concepts_from(index, rule, row, asked)
    stems, stem_weights = _stems_from(index, rule, row, asked_stems)
    touched = np.empty(1024, np.int64)
    used: Whole = 0
    touched, used = _walk(
        index.mentions, index.rows_of, True, concepts, weights, rule.mention, allowed, sums,
        touched, used,
    )  # fmt: skip
    touched, used = _walk(
        index.subjects, index.rows_of, False, concepts, weights, rule.subject, allowed, sums,
        touched, used,
    )  # fmt: skip
    touched, used = _walk(
        index.stems, index.rows_of, False, stems, stem_weights, rule.mention, allowed, sums,
        touched, used,
    )  # fmt: skip
    values = np.empty(used, np.float64)
    kept = 0
    for i in range(used):
        other = touched[i]
        total = sums[other]
        sums[other] = 0.0
        if other != row:
            touched[kept] = other
            values[kept] = total / (total + rule.saturation)
            kept += 1
    return touched[:kept], values[:kept]


def _reach(
    index: Index,
    rule: Reach,
    seeds: NDArray[np.int64],
    asked: NDArray[np.uint32],
    asked_stems: NDArray[np.uint32],
    allowed: NDArray[np.uint8],
    sums: NDArray[np.float64],
) -> Reached:
    """What seeds lead to, and how strongly.

    Parameters
    ----------
    index, rule
    seeds : int64[s]
    asked, asked_stems : uint32
        Concepts and stems of the question, ascending: nothing that was asked leads on.
    allowed : uint8[n_rows]
    sums : float64[n_rows or more]
        Scratch.
    """
    ptr = np.zeros(seeds.size + 1, np.int64)
    rows = np.empty(1024, np.int64)
    values = np.empty(1024, np.float64)
    used = 0
    for s in range(seeds.size):
        some, like = _likeness(index, rule, seeds[s], asked, asked_stems, allowed, sums)
        if used + some.size > rows.size:
            more = rows.size + some.size
            rows = np.concatenate((rows, np.empty(more, np.int64)))
            values = np.concatenate((values, np.empty(more, np.float64)))
        rows[used : used + some.size] = some
        values[used : used + some.size] = like
        used += some.size
        ptr[s + 1] = used
    return Reached(seeds, rows[:used], values[:used], ptr)


reach = jit(_reach)


def _cross(
    rows: NDArray[np.int64],
    words: NDArray[np.float64],
    seeds: NDArray[np.int64],
    worth: NDArray[np.float64],
    reached: Reached,
    base: float,
    places: NDArray[np.float64],
    best: NDArray[np.float64],
    source: NDArray[np.int64],
) -> None:
    """The best way from a seed to each note of the board.

    Parameters
    ----------
    rows, words : int64[m], float64[m, t]
        The board.
    seeds : int64[s]
        Their places.
    worth : float64[s]
    reached : Reached
        By these seeds; all of it is on the board.
    base : float
    places : float64[n_rows or more]
        Scratch.
    best, source : float64[m], int64[m]
        Zeros and -1: the largest worth x L x (base + gap), and the number of its seed.
    """
    for place in range(rows.size):
        places[rows[place]] = place
    n_words = words.shape[1]
    others, likeness, ptr = reached.rows, reached.likeness, reached.ptr
    missing = np.empty(n_words, np.int64)
    for s in range(seeds.size):
        n = 0
        for t in range(n_words):
            if words[seeds[s], t] == 0.0:
                missing[n] = t
                n += 1
        for i in range(ptr[s], ptr[s + 1]):
            place = int(places[others[i]])
            gap = 0.0
            for j in range(n):
                gap += words[place, missing[j]]
            way = worth[s] * likeness[i] * (base + gap)
            if way > best[place]:
                best[place] = way
                source[place] = s
    for place in range(rows.size):
        places[rows[place]] = 0.0


cross = jit(_cross)


def _strongest(
    index: Index,
    rule: Reach,
    sources: NDArray[np.int64],
    rows: NDArray[np.int64],
    asked: NDArray[np.uint32],
    asked_stems: NDArray[np.uint32],
    n: int,
) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """The concepts over which each source leads to its row, and their shares of L; else the stems.

    Of each pair the n with the largest shares, those that tie with the last included, in any
    order: concepts or stems and their shares [m], where those of each pair begin, int64
    [pairs + 1], and whether they are stems, bool [pairs].
    """
    ptr = np.zeros(rows.size + 1, np.int64)
    are_stems = np.zeros(rows.size, np.bool_)
    found = np.empty(256, np.uint32)
    found_shares = np.empty(256, np.float64)
    used = 0
    flat, begins = index.mentions.flat, index.mentions.ptr
    own, own_ptr, scan_of = index.subjects.flat, index.subjects.ptr, index.scan_of
    said, said_ptr = index.stems.flat, index.stems.ptr
    for pair in range(rows.size):
        row = rows[pair]
        scan = np.int64(scan_of[row])
        for by_stem in (False, True):
            if by_stem:
                ids, weights = _stems_from(index, rule, sources[pair], asked_stems)
            else:
                ids, weights = _concepts_from(index, rule, sources[pair], asked)
            shares = np.zeros(ids.size, np.float64)
            for i in range(ids.size):
                factor = 0.0
                if by_stem:
                    if holds(said, said_ptr, row, ids[i]):
                        factor = rule.mention
                else:
                    if scan >= 0 and holds(flat, begins, scan, ids[i]):
                        factor += rule.mention
                    if holds(own, own_ptr, row, ids[i]):
                        factor += rule.subject
                shares[i] = weights[i] * factor
            least = 0.0
            if shares.size > n:
                least = np.sort(shares)[shares.size - n]
            if used + shares.size > found.size:
                found = np.concatenate((found, np.empty(found.size + shares.size, np.uint32)))
                more = np.empty(found_shares.size + shares.size, np.float64)
                found_shares = np.concatenate((found_shares, more))
            before = used
            for i in range(shares.size):
                if shares[i] > 0.0 and shares[i] >= least:
                    found[used] = ids[i]
                    found_shares[used] = shares[i]
                    used += 1
            if used > before:
                are_stems[pair] = by_stem
                break
        ptr[pair + 1] = used
    return found[:used], found_shares[:used], ptr, are_stems


strongest = jit(_strongest)


# -- the first ones, chosen together --------------------------------------------------------------


@inline
def _place_of(rows: NDArray[np.int64], row: Whole) -> Whole:
    """Where a row is among a few, -1 for nowhere."""
    place: Whole = -1
    for i in range(rows.size):
        if rows[i] == row:
            place = i
    return place


@inline
def _share_subject(flat: NDArray[np.uint32], ptr: NDArray[np.int64], a: Whole, b: Whole) -> bool:
    """Whether two rows declare a subject in common."""
    found = False
    for at in range(ptr[a], ptr[a + 1]):
        found = found or holds(flat, ptr, b, flat[at])
    return found


def _cover(
    index: Index,
    rule: Reach,
    pick: Pick,
    rows: NDArray[np.int64],
    words: NDArray[np.float64],
    scores: NDArray[np.float64],
    worth: NDArray[np.float64],
    subjects: NDArray[np.float64],
    named: NDArray[np.uint32],
    asked: NDArray[np.uint32],
    asked_stems: NDArray[np.uint32],
    known: Reached,
    allowed: NDArray[np.uint8],
    sums: NDArray[np.float64],
    places: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose the first notes of a pool together, the first of them being the first pick.

    Parameters
    ----------
    index, rule, pick
    rows, words, scores, worth : int64[m], float64[m, t], float64[m], float64[m]
        The pool, best first: BM25 of the question's words, scores, and how much each counts as a
        seed.
    subjects : float64[m, q]
        What each gains where no pick mentions the named concept that is its subject.
    named : uint32[q]
    asked, asked_stems, allowed
        As in `reach`.
    known : Reached
        What is known already; picks that are no seeds of it are followed here.
    sums, places : float64[n_rows or more]
        Scratch.

    Returns
    -------
    picks : int64[min(many, m)]
        Places in the pool.
    source : int64[min(many, m)]
        The place in the pool of the pick that led to it best, -1 for none.
    """
    m, n_words = rows.size, words.shape[1]
    many = min(pick.many, m)
    picks, sources = np.zeros(many, np.int64), np.full(many, -1, np.int64)
    best, source = np.zeros(m, np.float64), np.full(m, -1, np.int64)
    same = np.zeros((m, n_words), np.bool_)  # words that picks with a subject of the note hold
    held = np.zeros(n_words, np.bool_)
    mentioned = np.zeros(named.size, np.bool_)
    values = np.empty(m, np.float64)
    own, own_ptr, loss, gain = index.subjects.flat, index.subjects.ptr, pick.loss, pick.gain
    flat, ptr = index.mentions.flat, index.mentions.ptr
    for place in range(m):
        places[rows[place]] = place + 1.0
    for n in range(1, many):
        last = picks[n - 1]
        at = _place_of(known.seeds, rows[last])
        if at >= 0:
            start, stop = known.ptr[at], known.ptr[at + 1]
            reached, likeness = known.rows[start:stop], known.likeness[start:stop]
        else:
            reached, likeness = _likeness(
                index, rule, rows[last], asked, asked_stems, allowed, sums
            )
        for i in range(reached.size):
            place = int(places[reached[i]]) - 1
            if place >= 0:
                way = worth[last] * likeness[i]
                if way > best[place]:
                    best[place] = way
                    source[place] = last
        scan = np.int64(index.scan_of[rows[last]])
        for q in range(named.size):
            if scan >= 0 and holds(flat, ptr, scan, named[q]):
                mentioned[q] = True
        for t in range(n_words):
            held[t] = held[t] or words[last, t] > 0.0
        for i in range(m):
            if _share_subject(own, own_ptr, rows[last], rows[i]):
                for t in range(n_words):
                    same[i, t] = same[i, t] or words[last, t] > 0.0
            covered, repeated, fresh, missing = 0.0, 0.0, 0.0, 0.0
            for t in range(n_words):
                if held[t]:
                    covered += words[i, t]
                else:
                    fresh += words[i, t]
                if same[i, t]:
                    repeated += words[i, t]
            for q in range(named.size):
                if not mentioned[q]:
                    missing += subjects[i, q]
            value = scores[i] - loss * (pick.covered * covered + pick.same * repeated)
            value += gain * best[i] * (pick.base + fresh)
            values[i] = value + pick.open * missing
        for before in range(n):
            values[picks[before]] = -math.inf
        picks[n] = first_of(values)
        sources[n] = source[picks[n]]
    for place in range(m):
        places[rows[place]] = 0.0
    return picks, sources


cover = jit(_cover)
