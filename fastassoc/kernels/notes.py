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


prefixes = jit(_prefixes)
