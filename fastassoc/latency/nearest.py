"""Recall@k of reads by vector, against a comparison with every vector of the store."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import fastassoc as fa

__all__ = ["Progress", "recall_of", "truth"]

Progress = Callable[[str, int, int], None]  # what is done, how many are done, of all
BLOCK = 4_096
TIES = 1e-5  # similarities that differ by less are equal


def truth(
    mem: fa.Memory,
    ids: pa.ChunkedArray,
    asked: NDArray[np.float32],
    k: int,
    progress: Progress,
) -> NDArray[np.float32]:
    """Find the true k nearest of each question.

    Parameters
    ----------
    mem : Memory
    ids : pyarrow.ChunkedArray
        Of the notes; those in the cold tier and superseded ones count as no read returns them.
    asked : numpy.ndarray
        float32 [q, dim], each of length 1.
    k : int
    progress : callable

    Returns
    -------
    numpy.ndarray
        float32 [q, k], descending; -inf where there are fewer.
    """
    best = np.full((len(asked), k), -np.inf, np.float32)
    for first in range(0, len(ids), BLOCK):
        notes = [mem.get(note) for note in ids.slice(first, BLOCK).to_pylist()]
        held = [
            note.vector
            for note in notes
            if note.vector is not None and note.tier == "hot" and not note.superseded_by
        ]
        if held:
            table = np.stack(held)
            lengths = np.linalg.norm(table, axis=1, keepdims=True)
            near = asked @ (table / np.where(lengths > 0, lengths, 1)).T
            both = np.concatenate([best, near], axis=1)
            best = -np.sort(np.partition(-both, k - 1, axis=1)[:, :k], axis=1)
        progress("the true nearest", min(first + BLOCK, len(ids)), len(ids))
    return best


def recall_of(
    mem: fa.Memory, asked: NDArray[np.float32], best: NDArray[np.float32], k: int
) -> float:
    """Share of the true k nearest that reads by vector return, equals counted as equal."""
    shares = []
    for query, wanted in zip(asked, best, strict=True):
        real = wanted[np.isfinite(wanted)]
        if not len(real):
            continue
        found = [hit.similarity or -2.0 for hit in mem.read(vector=query, rank="flat", k=k)]
        shares.append(min(len(real), sum(one >= real[-1] - TIES for one in found)) / len(real))
    return round(float(np.mean(shares)), 5) if shares else 1.0
