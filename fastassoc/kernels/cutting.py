"""Texts cut into words, each distinct one numbered once."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastassoc.kernels import inline, jit

Array = Any  # any NumPy array; shapes and dtypes are in the docstrings

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@inline
def is_word(byte: int) -> bool:
    """Whether a lower-case ASCII byte is a letter or a digit."""
    return 97 <= byte <= 122 or 48 <= byte <= 57


def _cut(
    written: Array, lowered: Array, ends: Array, seed: int | np.uint64
) -> tuple[Array, Array, Array, Array, Array]:
    """Cut texts, one after the other in `lowered` uint8[b], into runs of letters and digits.

    `written` is the same before its case was lowered, `ends` int64[n] where each text ends, `seed`
    uint64 what no writer of texts can guess, so that nobody can make words that share a hash.
    Returns the number of each word, int32[m], by first occurrence; whether it is written with a
    capital, bool[m]; where the words of each text begin among these, int64[n + 1]; and where each
    distinct word begins and ends in the texts, int64[w] twice.
    """
    ptr = np.zeros(ends.size + 1, np.int64)
    at = 0
    for text in range(ends.size):
        inside = False
        count = ptr[text]
        while at < ends[text]:
            word = is_word(lowered[at])
            count += word and not inside
            inside = word
            at += 1
        ptr[text + 1] = count
    m = ptr[-1]
    size = 16
    while size < 2 * m:
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.zeros(size, np.int32)  # of a word by its hash: its number from 1
    numbers, capitals = np.empty(m, np.int32), np.empty(m, np.bool_)
    hashes, starts, stops = np.empty(m, np.uint64), np.empty(m, np.int64), np.empty(m, np.int64)
    n_words, count, at = 0, 0, 0
    for text in range(ends.size):
        end = ends[text]
        while at < end:
            if not is_word(lowered[at]):
                at += 1
                continue
            start = at
            key = np.uint64(seed)
            while at < end and is_word(lowered[at]):
                key = (key ^ np.uint64(lowered[at])) * _PRIME
                at += 1
            key ^= key >> _HALF
            slot = key & mask
            while True:
                number = slots[slot] - 1
                if number < 0:
                    number = n_words
                    hashes[number], starts[number], stops[number] = key, start, at
                    n_words += 1
                    slots[slot] = n_words
                    break
                if hashes[number] == key and stops[number] - starts[number] == at - start:
                    same = 0
                    while same < at - start and (
                        lowered[starts[number] + same] == lowered[start + same]
                    ):
                        same += 1
                    if same == at - start:
                        break
                slot = (slot + np.uint64(1)) & mask
            numbers[count] = number
            capitals[count] = written[start] != lowered[start]
            count += 1
    return numbers, capitals, ptr, starts[:n_words].copy(), stops[:n_words].copy()


cut = jit(_cut)
