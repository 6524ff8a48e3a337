"""Kernels over the notes' own columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import jit


def _prefixes(offsets: NDArray[np.int32], data: NDArray[np.uint8], out: NDArray[np.uint64]) -> None:
    """First 8 bytes of each text, big-endian, short ones padded with zero bytes.

    `offsets` int32 [n + 1] into `data` uint8, `out` uint64 [n].
    """
    for row in range(len(out)):
        start, stop = offsets[row], offsets[row + 1]
        value = np.uint64(0)
        for place in range(8):
            value <<= np.uint64(8)
            if start + place < stop:
                value |= np.uint64(data[start + place])
        out[row] = value


def _hashes(offsets: NDArray[np.int32], data: NDArray[np.uint8], out: NDArray[np.uint64]) -> None:
    """A hash of each text: its length, then word by word of 8 bytes, multiplied and mixed.

    `offsets` int32 [n + 1] into `data` uint8, `out` uint64 [n]. The steps are those of the
    finalizer of SplitMix64.
    """
    first, second = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
    for row in range(len(out)):
        start, stop = offsets[row], offsets[row + 1]
        mixed = np.uint64(stop - start)
        while start < stop:
            word = np.uint64(0)
            for place in range(start, min(start + 8, stop)):
                word = word << np.uint64(8) | np.uint64(data[place])
            mixed = (mixed ^ word) * first
            mixed = (mixed ^ mixed >> np.uint64(27)) * second
            mixed ^= mixed >> np.uint64(31)
            start += 8
        out[row] = mixed


prefixes, hashes = jit(_prefixes), jit(_hashes)
