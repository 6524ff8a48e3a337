"""Indexes over a few hundred vectors, where a store would have them over many thousands.

Other processes call `shrink`, too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 200  # notes up to which there is no index
KINDS = ("exact", "pq", "ivf")


def shrink(kind: str, put: Any = setattr, put_item: Any = dict.__setitem__) -> None:
    """Let stores of a few hundred vectors have an index of this kind."""
    import fastassoc.memory  # which imports all that goes by the size
    from fastassoc import vectors

    if kind == "exact":
        return
    for name, module in sorted(sys.modules.items()):
        if name.startswith(fastassoc.__name__) and "EXACT_BELOW" in vars(module):
            put(module, "EXACT_BELOW", SMALLEST)
    put(vectors, "FETCHED", 1 / 2)
    put(vectors, "WORTH_CODES", 1 / 4)
    if kind == "ivf":
        put_item(vectors.VectorIndex.build.__func__.__kwdefaults__, "pq_below", SMALLEST)


def clustered(n: int, seed: int = 0, dim: int = 16) -> NDArray[np.float32]:
    """Vectors around a few centres, float32 [n, dim]: what an index is good for."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((30, dim))
    noise = 0.4 * draw.standard_normal((n, dim))
    return (centres[draw.integers(0, 30, n)] + noise).astype(np.float32)


def unit(vectors: Any) -> NDArray[np.float64]:
    """Rows of length 1, in float64."""
    rows = np.asarray(vectors, np.float32).astype(np.float64)
    out: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return out
