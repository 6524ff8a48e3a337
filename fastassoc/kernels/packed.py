"""Kernels of packed links: states kept once in a table, and a code for each link that has one.

A *packed* run is ``keys`` uint64[n] as in `kernels.links`, ``codes`` uint32[n, 2] and two tables of
distinct rows: ``reals`` float64[r, 3] and ``ints`` int64[s, 3]. The state of link i is
``reals[codes[i, 0]]`` and ``ints[codes[i, 1]]``. It holds no tombstones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit

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
    ints: Array,
    old_keys: Array,
    old_codes: Array,
    out_keys: Array,
    out_codes: Array,
    drop: bool,
) -> int:
    """A run laid over an older one, both with the codes of their states; `drop` its tombstones.

    Codes are uint64[n], both in one; `ints` int64[s, 3] is the table of the second ones.
    """
    used, i, j = 0, 0, 0
    while i < new_keys.size and j < old_keys.size:  # without a branch that the data decides
        new, old = new_keys[i], old_keys[j]
        newer = new <= old
        code = new_codes[i] if newer else old_codes[j]
        out_keys[used] = new if newer else old
        out_codes[used] = code
        used += not drop or ints[code >> _HALF, 0] >= 0
        i += newer
        j += old <= new
    while i < new_keys.size:
        out_keys[used], out_codes[used] = new_keys[i], new_codes[i]
        used += not drop or ints[new_codes[i] >> _HALF, 0] >= 0
        i += 1
    for k in range(j, old_keys.size):
        out_keys[used], out_codes[used] = old_keys[k], old_codes[k]
        used += 1
    return used


merge_codes = jit(_merge_codes)
