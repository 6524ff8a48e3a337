"""Pairs of similar notes in one session: what a note is linked with when it is written."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput
from fastassoc.kernels.vectors import squared, tag_pairs

__all__ = ["cosine_tags"]

PAIRS = 1 << 18  # room for so many at once: 6 MiB, whatever the batch


def cosine_tags(
    vectors: NDArray[np.float32], first: int, window: int, least: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of a note with the notes shortly before it, where their cosine reaches `least`.

    The cosine is that of a read, to the last bit, and does not depend on which notes are asked
    for together: tags of a batch are the tags of its notes one by one.

    Parameters
    ----------
    vectors : numpy.ndarray of float32, shape [n, d]
        One for each note of the session, in order; a row of zeros is a note without a vector.
    first : int
        Pairs are wanted for the notes from here on; those before are only looked back at.
    window : int
        How many notes a note looks back.
    least : float
        The least cosine of a pair, inclusive.

    Returns
    -------
    newer, older : numpy.ndarray of int64, shape [p]
        Positions in `vectors`, older < newer, sorted by (newer, older).
    similarity : numpy.ndarray of float64, shape [p]
        Their cosines, in [-1, 1].

    Raises
    ------
    InvalidInput
        If `vectors` is not a matrix, or holds NaN or infinity.

    Examples
    --------
    >>> vectors = np.array([[1, 0], [0, 0], [0, 1], [3, 4]], np.float32)
    >>> newer, older, similarity = cosine_tags(vectors, 1, 256, 0.6)
    >>> newer, older, similarity
    (array([3, 3]), array([0, 2]), array([0.6, 0.8]))
    """
    vectors = np.ascontiguousarray(vectors, np.float32)
    if vectors.ndim != 2:
        raise InvalidInput(f"vectors of shape {list(vectors.shape)}: expected one row a note.")
    vectors = vectors.view()
    vectors.flags.writeable = False  # one type for the kernels, whatever came
    n = len(vectors)
    squares = np.empty(n, np.float64)
    squared(vectors, squares)
    if not np.isfinite(squares).all():
        row = int(np.flatnonzero(~np.isfinite(squares))[0])
        raise InvalidInput(f"row {row}: the vector has a NaN or infinite value; leave it out.")
    first = max(first, 0)
    window = min(window, n)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    if window > 0 and first < n:
        step = min(max(1, PAIRS // window), n - first)
        newer, older = np.empty((2, step * window), np.int64)
        values = np.empty(step * window, np.float64)
        for start in range(first, n, step):
            stop = min(start + step, n)
            count = tag_pairs(
                vectors, squares, start, stop, window, float(least), newer, older, values
            )
            found.append((newer[:count].copy(), older[:count].copy(), values[:count].copy()))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
    a, b, c = zip(*found, strict=True)
    return np.concatenate(a), np.concatenate(b), np.concatenate(c)
