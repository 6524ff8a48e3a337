"""Kernels that turn rows of names into codes, and count how often a row was seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import jit


def _gather_names(
    codes: NDArray[np.int32],
    key_of: NDArray[np.int32],
    concepts: NDArray[np.int64],
    subjects: NDArray[np.int64],
    good: NDArray[np.bool_],
    out: NDArray[np.uint32],
    subject: NDArray[np.bool_],
    ptr: NDArray[np.int64],
    order: NDArray[np.int32],
    first: NDArray[np.int32],
) -> int:
    """Distinct keys of each good row, concepts first, renumbered by first appearance.

    `codes` int32 [m] names a spelling, `key_of` int32 [spellings] its key, -1 where it has none;
    `concepts` and `subjects` int64 [n, 2] are spans of `codes`; rows that are not `good` are left
    out. Written: `out` uint32 and `subject` bool (both long enough for all spans), `ptr` int64
    [good rows + 1], `order` int32 [keys]: the key behind each new code, `first` int32 [keys]: the
    spelling that showed it first. Returns how many keys are in use.
    """
    number = np.full(len(order), -1, np.int64)
    place = np.full(len(order), -1, np.int64)  # where the key stands, if in this row
    used = filled = done = 0
    ptr[0] = 0
    for row in range(len(good)):
        if not good[row]:
            continue
        begin = filled
        for declared in range(2):
            span = subjects[row] if declared else concepts[row]
            for at in range(span[0], span[1]):
                key = key_of[codes[at]]
                if key < 0:
                    continue
                if place[key] >= begin:
                    if declared:
                        subject[place[key]] = True
                    continue
                if number[key] < 0:
                    number[key] = used
                    order[used] = key
                    first[used] = codes[at]
                    used += 1
                out[filled] = number[key]
                subject[filled] = declared == 1
                place[key] = filled
                filled += 1
        done += 1
        ptr[done] = filled
    return used


def _count_seen(
    keys: NDArray[np.uint64],
    counts: NDArray[np.uint32],
    asked: NDArray[np.uint64],
    out: NDArray[np.uint32],
) -> int:
    """How often each asked key came before, counting it; returns how many keys are new.

    `keys` uint64 and `counts` uint32 [slots, a power of two] are an open-addressing table in which
    a count of 0 is an empty slot; `asked` uint64 [n], spread evenly; `out` uint32 [n].
    """
    mask = np.uint64(len(keys) - 1)
    new = 0
    for n in range(len(asked)):
        slot = asked[n] & mask
        while counts[slot] != 0 and keys[slot] != asked[n]:
            slot = (slot + np.uint64(1)) & mask
        if counts[slot] == 0:
            keys[slot] = asked[n]
            new += 1
        out[n] = counts[slot]
        counts[slot] += np.uint32(1)
    return new


def _move_seen(
    keys: NDArray[np.uint64],
    counts: NDArray[np.uint32],
    new_keys: NDArray[np.uint64],
    new_counts: NDArray[np.uint32],
) -> None:
    """Put a table of `count_seen` into a larger, empty one."""
    mask = np.uint64(len(new_keys) - 1)
    for old in range(len(keys)):
        if counts[old] == 0:
            continue
        slot = keys[old] & mask
        while new_counts[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        new_keys[slot] = keys[old]
        new_counts[slot] = counts[old]


def _longest_value(page: NDArray[np.uint8]) -> int:
    """Length of the longest of a page's values, each after its length in 4 bytes; -1: it is torn.

    `page` uint8 [n], the lengths with their lowest byte first.
    """
    at = longest = np.int64(0)
    last = len(page) - 4
    while at <= last:
        length = np.int64(0)
        for byte in range(4):
            length |= np.int64(page[at + byte]) << (8 * byte)
        longest = max(longest, length)
        at += 4 + length
    return int(longest) if at == len(page) else -1


gather_names = jit(_gather_names)
count_seen = jit(_count_seen)
move_seen = jit(_move_seen)
longest_value = jit(_longest_value)
