"""Kernels of links that change: few at a time in an open-addressing table, many as sorted runs.

The table is a run in order of first touch, ``slots`` int64[2^k], more than its room: an entry's
number and 1, or 0. Runs of many are packed, with both codes of a link in one uint64, the first in
the low half (see `kernels.packed`); tombstones are states as others are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit
from fastassoc.kernels.links import GONE, change_run, find, keys_between, seek
from fastassoc.kernels.packed import place_of

SMALL = 64  # up to this many, insertion sort beats anything
STEPS = 14  # bits: so many steps from state to state a call remembers
UNKNOWN = np.uint64(0xFFFFFFFFFFFFFFFF)  # codes of a link whose state is still to be looked up
REALS, INTS, PLACE, TALLY = 0, 1, 2, 3  # marks of `fold`

_HASH = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(64 - STEPS)

Array = Any  # any NumPy array; shapes and dtypes are in the docstrings


# ---- few ----------------------------------------------------------------------------------------


@inline
def slot_of(slots: Array, table_keys: Array, key: np.uint64) -> int:
    """The slot that holds `key`, or the free one where it belongs."""
    mask = slots.size - 1
    slot: int = np.int64((key * _HASH) >> _HALF) & mask
    while slots[slot] and table_keys[slots[slot] - 1] != key:
        slot = (slot + 1) & mask
    return slot


def _rehash(table_keys: Array, used: int, slots: Array) -> None:
    """Fill `slots` (int64[2^k], zeros) for the first `used` entries; a slot is an entry + 1."""
    for entry in range(used):
        slots[slot_of(slots, table_keys, table_keys[entry])] = entry + 1


rehash = jit(_rehash)


def _find_link(
    key: np.uint64, slots: Array, keys: Array, delta_keys: Array, base_keys: Array
) -> tuple[int, int]:
    """Level of the newest state of `key` (0 table, 1 delta, 2 base, or -1), and place."""
    entry = slots[slot_of(slots, keys, key)]
    if entry:
        return 0, entry - 1
    at = find(delta_keys, 0, delta_keys.size, key)
    if at >= 0:
        return 1, at
    at = find(base_keys, 0, base_keys.size, key)
    return (2, at) if at >= 0 else (-1, -1)


find_link = jit(_find_link)


@inline
def verdict(
    weight: float,
    written: float,
    count: int,
    valence: float,
    new_weight: float,
    new_written: float,
    new_count: int,
    new_valence: float,
) -> int:
    """From the state before and after: 0 nothing, 1 created, 2 changed, 3 removed."""
    if count < 0:
        return 1 if new_count >= 0 else 0
    if new_count < 0:
        return 3
    if (
        weight != new_weight
        or written != new_written
        or count != new_count
        or valence != new_valence
    ):
        return 2
    return 0


def _sort_small(keys: Array, amounts: Array, outcomes: Array) -> None:
    """Sort by key in place, equal keys in their order; for few."""
    for i in range(1, keys.size):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            j -= 1
        if j == i:
            continue
        for k in range(i, j, -1):
            keys[k] = keys[k - 1]
        keys[j] = key
        if amounts.size:
            amount = amounts[i]
            for k in range(i, j, -1):
                amounts[k] = amounts[k - 1]
            amounts[j] = amount
        if outcomes.size:
            outcome = outcomes[i]
            for k in range(i, j, -1):
                outcomes[k] = outcomes[k - 1]
            outcomes[j] = outcome


sort_small = inline(_sort_small)


@inline
def load(
    key: np.uint64,
    cursors: Array,
    delta_keys: Array,
    delta_reals: Array,
    delta_ints: Array,
    base_keys: Array,
    base_codes: Array,
    base_reals: Array,
    base_ints: Array,
    reals: Array,
    ints: Array,
) -> None:
    """Newest published state of `key` into `reals`, `ints`; keys must come ascending."""
    at = seek(delta_keys, cursors[0], delta_keys.size, key)
    cursors[0] = at
    if at < delta_keys.size and delta_keys[at] == key:
        for c in range(3):
            reals[c] = delta_reals[at, c]
            ints[c] = delta_ints[at, c]
        return
    at = seek(base_keys, cursors[1], base_keys.size, key)
    cursors[1] = at
    if at < base_keys.size and base_keys[at] == key:
        for c in range(3):
            reals[c] = base_reals[base_codes[at, 0], c]
            ints[c] = base_ints[base_codes[at, 1], c]
        return
    reals[:] = 0.0
    ints[:] = 0
    ints[0] = GONE


def _touch(
    kind: int,
    keys: Array,
    amounts: Array,
    outcomes: Array,
    at: int,
    rule: Array,
    slots: Array,
    table_keys: Array,
    table_reals: Array,
    table_ints: Array,
    used: int,
    delta_keys: Array,
    delta_reals: Array,
    delta_ints: Array,
    base_keys: Array,
    base_codes: Array,
    base_reals: Array,
    base_ints: Array,
) -> tuple[int, int, int, int]:
    """Apply changes to the table of recent pairs; each is loaded at its first touch.

    `keys` uint64[m], `amounts` and `outcomes` float64[m] or empty; sorted, or at most `SMALL` of
    them. The table has room for m more. Returns the entries used, and links created, changed,
    removed.
    """
    for i in range(1, keys.size):
        if keys[i] < keys[i - 1]:
            keys, amounts, outcomes = keys.copy(), amounts.copy(), outcomes.copy()
            sort_small(keys, amounts, outcomes)
            break
    cursors = np.zeros(2, np.int64)
    tally = np.zeros(4, np.int64)
    i = 0
    while i < keys.size:
        key = keys[i]
        slot = slot_of(slots, table_keys, key)
        if slots[slot] == 0:
            table_keys[used] = key
            load(
                key,
                cursors,
                delta_keys,
                delta_reals,
                delta_ints,
                base_keys,
                base_codes,
                base_reals,
                base_ints,
                table_reals[used],
                table_ints[used],
            )
            used += 1
            slots[slot] = used
        entry = slots[slot] - 1
        reals, ints = table_reals[entry], table_ints[entry]
        weight, written, valence, count = reals[0], reals[1], reals[2], ints[0]
        first = i
        while i < keys.size and keys[i] == key:
            i += 1
        reals[0], reals[1], ints[0], reals[2], ints[1], ints[2] = change_run(
            kind,
            amounts,
            outcomes,
            first,
            i,
            at,
            rule,
            weight,
            written,
            count,
            valence,
            ints[1],
            ints[2],
        )
        tally[verdict(weight, written, count, valence, reals[0], reals[1], ints[0], reals[2])] += 1
    return used, tally[1], tally[2], tally[3]


touch = jit(_touch)


def _touch_between(
    kind: int,
    ids: Array,
    some: int,
    at: int,
    rule: Array,
    slots: Array,
    table_keys: Array,
    table_reals: Array,
    table_ints: Array,
    used: int,
    delta_keys: Array,
    delta_reals: Array,
    delta_ints: Array,
    base_keys: Array,
    base_codes: Array,
    base_reals: Array,
    base_ints: Array,
) -> tuple[int, int, int, int]:
    """One change, as `touch` makes it, of each pair of one of the first ids and another.

    `ids` uint32[m], the first `some` and the others; see `keys_between`.
    """
    none = np.empty(0, np.float64)
    return touch(
        kind,
        keys_between(ids[:some], ids[some:]),
        none,
        none,
        at,
        rule,
        slots,
        table_keys,
        table_reals,
        table_ints,
        used,
        delta_keys,
        delta_reals,
        delta_ints,
        base_keys,
        base_codes,
        base_reals,
        base_ints,
    )


touch_between = jit(_touch_between)


# ---- many ---------------------------------------------------------------------------------------


def _spread(keys: Array, starts: Array, out_keys: Array, out_codes: Array) -> int:
    """The distinct values of sorted `keys` into a run of links whose state is not known yet.

    Key i of the run stands in `keys` from ``starts[i]`` to ``starts[i + 1]``, int64[m + 1].
    Returns how many there are.
    """
    used = 0
    starts[0] = 0
    for i in range(1, keys.size + 1):  # without a branch that the data decides
        starts[used + 1] = i
        out_keys[used] = keys[i - 1]
        out_codes[used] = UNKNOWN
        used += i == keys.size or keys[i] != keys[i - 1]
    return used


spread = jit(_spread)


def _resolve(keys: Array, codes: Array, run_keys: Array, run_codes: Array) -> None:
    """States that are not known yet and that the second run holds, into the first."""
    at = 0
    for i in range(keys.size):
        if codes[i] == UNKNOWN:
            at = seek(run_keys, at, run_keys.size, keys[i])
            if at < run_keys.size and run_keys[at] == keys[i]:
                codes[i] = run_codes[at]


resolve = jit(_resolve)


@inline
def code_of(row: Array, at: int, table: Array, slots: Array, marks: Array) -> np.uint64:
    """The code of ``row`` (uint64[3]) in a table of states that has room, ``marks[at]`` used."""
    slot = place_of(row[0], row[1], row[2], table, slots)
    if slots[slot] == 0:
        used = marks[at]
        table[used, 0], table[used, 1], table[used, 2] = row[0], row[1], row[2]
        marks[at] = used + 1
        slots[slot] = used + 1
    return np.uint64(slots[slot] - 1)


@inline
def state_of(
    real: Array,
    whole: Array,
    reals: Array,
    real_slots: Array,
    ints: Array,
    int_slots: Array,
    marks: Array,
) -> np.uint64:
    """Both codes of a state in one, the first in the low half."""
    low = code_of(real, REALS, reals, real_slots, marks)
    return low | code_of(whole, INTS, ints, int_slots, marks) << _HALF


def _fold(
    kind: int,
    amounts: Array,
    outcomes: Array,
    at: int,
    rule: Array,
    starts: Array,
    codes: Array,
    reals: Array,
    real_slots: Array,
    ints: Array,
    int_slots: Array,
    marks: Array,
) -> None:
    """Apply sorted changes, as `touch` does, to the codes of their distinct pairs.

    Pairs whose state is still not known have no link. `amounts` and `outcomes` float64[m] or
    empty; `starts` as `spread` gives it; `reals` and `ints` are the tables of states, uint64
    [room, 3], with their slots. `marks` int64[7]: how many states are used, the pair to begin with
    (and where it stopped since the states have no room), and the links by `verdict`.
    """
    real, whole = np.zeros(3, np.float64), np.zeros(3, np.int64)
    real_bits, whole_bits = real.view(np.uint64), whole.view(np.uint64)
    real_rows, whole_rows = reals.view(np.float64), ints.view(np.int64)
    # what the same changes make of the same state, they make again: most links have one of few
    learns = amounts.size == 0 and outcomes.size == 0
    asked, answers = np.empty(1 << STEPS, np.uint64), np.empty(1 << STEPS, np.uint64)
    times_of, verdicts = np.zeros(1 << STEPS, np.int64), np.empty(1 << STEPS, np.int64)
    for i in range(marks[PLACE], codes.size):
        state, times = codes[i], starts[i + 1] - starts[i]
        step = np.int64((state * _HASH + np.uint64(times) * _ODD) >> _SHIFT)
        if learns and times_of[step] == times and asked[step] == state:
            codes[i] = answers[step]
            marks[TALLY + verdicts[step]] += 1
            continue
        if marks[REALS] == len(reals) or marks[INTS] == len(ints):
            marks[PLACE] = i
            return
        weight, written, valence, count, created, updated = 0.0, 0.0, 0.0, GONE, 0, 0
        if state != UNKNOWN:
            one, two = np.int64(state & _MASK), np.int64(state >> _HALF)
            weight, written, valence = real_rows[one, 0], real_rows[one, 1], real_rows[one, 2]
            count, created, updated = whole_rows[two, 0], whole_rows[two, 1], whole_rows[two, 2]
        real[0], real[1], whole[0], real[2], whole[1], whole[2] = change_run(
            kind,
            amounts,
            outcomes,
            starts[i],
            starts[i + 1],
            at,
            rule,
            weight,
            written,
            count,
            valence,
            created,
            updated,
        )
        codes[i] = state_of(real_bits, whole_bits, reals, real_slots, ints, int_slots, marks)
        done = verdict(weight, written, count, valence, real[0], real[1], whole[0], real[2])
        marks[TALLY + done] += 1
        if learns:
            asked[step], times_of[step] = state, times
            answers[step], verdicts[step] = codes[i], done
    marks[PLACE] = codes.size


fold = jit(_fold)
