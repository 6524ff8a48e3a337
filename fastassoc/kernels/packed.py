"""Kernels of packed links: states kept once in a table, and a code for each link that has one.

A *packed* run is ``keys`` uint64[n] as in `kernels.links`, ``codes`` uint32[n, 2] and two tables of
distinct rows: ``reals`` float64[r, 3] and ``ints`` int64[s, 3]. The state of link i is
``reals[codes[i, 0]]`` and ``ints[codes[i, 1]]``. It holds no tombstones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit
from fastassoc.kernels.links import seek, unknown_in

_ONE = np.uint64(0x9E3779B97F4A7C15)
_TWO = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)

Array = Any  # any NumPy array; shapes and dtypes are in the docstrings


@inline
def place_of(a: np.uint64, b: np.uint64, c: np.uint64, table: Array, slots: Array) -> int:
    """The slot that holds a row, or the free one where it belongs."""
    mask = slots.size - 1
    mixed = (a ^ (a >> _HALF)) * _ONE
    mixed = (mixed ^ (mixed >> _HALF) ^ b) * _TWO
    mixed = (mixed ^ (mixed >> _HALF) ^ c) * _ONE
    slot: int = np.int64(mixed >> _HALF) & mask
    while slots[slot]:
        row = slots[slot] - 1
        if table[row, 0] == a and table[row, 1] == b and table[row, 2] == c:
            break
        slot = (slot + 1) & mask
    return slot


def _intern(
    rows: Array, first: int, table: Array, used: int, slots: Array, codes: Array
) -> tuple[int, int]:
    """Codes (uint32[m]) of `rows` (uint64[m, 3]) from `first` on; new ones go into the table.

    `table` is uint64[room, 3] with `used` rows, `slots` int32[2^k], more than room: a row's number
    and 1, or 0. Returns where it stopped since the table was full, or m, and the rows used.
    """
    for i in range(first, rows.shape[0]):
        a, b, c = rows[i, 0], rows[i, 1], rows[i, 2]
        if i > first and a == rows[i - 1, 0] and b == rows[i - 1, 1] and c == rows[i - 1, 2]:
            codes[i] = codes[i - 1]
            continue
        slot = place_of(a, b, c, table, slots)
        if slots[slot] == 0:
            if used == table.shape[0]:
                return i, used
            table[used, 0], table[used, 1], table[used, 2] = a, b, c
            used += 1
            slots[slot] = used
        codes[i] = slots[slot] - 1
    return rows.shape[0], used


intern = jit(_intern)


def _index_rows(table: Array, used: int, slots: Array) -> None:
    """Fill `slots` (zeros) for the first `used` rows of a table, which are distinct."""
    for row in range(used):
        slots[place_of(table[row, 0], table[row, 1], table[row, 2], table, slots)] = row + 1


index_rows = jit(_index_rows)


def _merge_codes(
    new_keys: Array,
    new_codes: Array,
    new_ints: Array,
    old_keys: Array,
    old_codes: Array,
    out_keys: Array,
    out_codes: Array,
) -> int:
    """A run with the codes of its states laid over a packed one; its tombstones are left out."""
    used = 0
    old = 0
    for i in range(new_keys.size + 1):
        last = i == new_keys.size
        stop = old_keys.size if last else seek(old_keys, old, old_keys.size, new_keys[i])
        for j in range(old, stop):
            out_keys[used] = old_keys[j]
            out_codes[used, 0], out_codes[used, 1] = old_codes[j, 0], old_codes[j, 1]
            used += 1
        old = stop
        if last:
            break
        if old < old_keys.size and old_keys[old] == new_keys[i]:
            old += 1
        if new_ints[i, 0] >= 0:
            out_keys[used] = new_keys[i]
            out_codes[used, 0], out_codes[used, 1] = new_codes[i, 0], new_codes[i, 1]
            used += 1
    return used


merge_codes = jit(_merge_codes)


def _resolve_packed(
    keys: Array,
    reals: Array,
    ints: Array,
    packed_keys: Array,
    codes: Array,
    packed_reals: Array,
    packed_ints: Array,
) -> None:
    """States of a run that are not known yet and that a packed one holds, into the run."""
    places = unknown_in(keys, ints, packed_keys)
    for i in range(keys.size):  # apart, so that the memory's answers overlap
        at = places[i]
        if at >= 0:
            real, whole = codes[at, 0], codes[at, 1]
            for c in range(3):
                reals[i, c] = packed_reals[real, c]
                ints[i, c] = packed_ints[whole, c]


resolve_packed = jit(_resolve_packed)
