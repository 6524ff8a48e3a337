"""How well an index finds what is nearest: questions made from the store's own vectors.

Questions come in four groups, for an index that serves one kind may fail another: stored vectors
(their own place does not count), stored vectors with noise, points half-way between two stored
ones, and points that have only the mean and the spread of the data. The recall of an index is
that of its worst group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["DEPTH", "Questions", "Truth", "blocks", "questions", "share_found", "unit"]

DEPTH = 10  # recall is measured at this many
SEED = 20_240_229
NOISE = 0.5  # length of the noise beside a vector of length 1
GROUPS = {"own": 64, "noisy": 64, "between": 48, "strange": 48}
SHARES = (0.5, 0.2)  # of the rows that the filters leave
ROWS = 16_384  # rows that are normalised at a time
FIRST = 64  # times as many as are wanted give the first bound


class Questions(NamedTuple):
    """Questions to measure with.

    Attributes
    ----------
    vectors : numpy.ndarray
        float32 [q, dim], each of length 1.
    own : numpy.ndarray
        int64 [q]: the place that does not count as an answer; -1 for none.
    group : numpy.ndarray
        int64 [q]: index into `GROUPS`.
    """

    vectors: NDArray[np.float32]
    own: NDArray[np.int64]
    group: NDArray[np.int64]


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring each row to length 1; float32 [n, dim], rows of zeros stay.

    Examples
    --------
    >>> unit(np.array([[3e30, 4e30]], np.float32)).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    if not (np.isfinite(squares).all() and (squares > 1e-20).all()):
        wide = vectors.astype(np.float64)  # squares beyond float32
        lengths = np.linalg.norm(wide, axis=1)
        lengths[lengths == 0] = 1.0
        scaled: NDArray[np.float32] = (wide / lengths[:, None]).astype(np.float32)
        return scaled
    out: NDArray[np.float32] = vectors * (1 / np.sqrt(squares)).astype(np.float32)[:, None]
    return out


def blocks(vectors: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first place, rows of length 1), block by block: no second copy of everything."""
    for first in range(0, len(vectors), ROWS):
        yield first, unit(vectors[first : first + ROWS])


def questions(vectors: NDArray[np.float32]) -> Questions:
    """Make the questions: a pure function of the vectors (float32 [n, dim], n > 1).

    Examples
    --------
    >>> asked = questions(np.random.default_rng(0).random((500, 8), np.float32))
    >>> asked.vectors.shape, int((asked.own >= 0).sum())
    ((224, 8), 128)
    """
    rng = np.random.default_rng(SEED)
    n, dim = vectors.shape
    some = unit(vectors[np.sort(rng.choice(n, min(n, 2048), replace=False))])
    total = sum(GROUPS.values())
    places = rng.integers(0, n, total)
    others = (places + rng.integers(1, n, total)) % n
    group = np.repeat(np.arange(len(GROUPS)), list(GROUPS.values()))
    made = unit(vectors[places])
    noise = unit(rng.standard_normal((total, dim), dtype=np.float32))
    made[group == 1] += np.float32(NOISE) * noise[group == 1]
    made[group == 2] += unit(vectors[others[group == 2]])
    strange = some.mean(axis=0) + rng.standard_normal((total, dim)) * some.std(axis=0)
    made[group == 3] = strange[group == 3]
    own = np.where(group < 2, places, -1)
    flat = ~made.any(axis=1)  # opposite vectors have nothing between them
    made[flat] = noise[flat]
    return Questions(unit(made), own.astype(np.int64), group)


def share_found(
    vectors: NDArray[np.float32],
    query: NDArray[np.float32],
    own: int,
    found: NDArray[np.int64],
    wanted: NDArray[np.float32],
) -> float:
    """Tell the share of the nearest that is among the candidates, equals counted as equal.

    Parameters
    ----------
    vectors : numpy.ndarray
        float32 [n, dim], all of them, of any length.
    query : numpy.ndarray
        float32 [dim], of length 1.
    own : int
        A place that does not count.
    found : numpy.ndarray
        int64 [m]: places of the candidates.
    wanted : numpy.ndarray
        float32 [w]: the similarities of the true nearest, descending.

    Examples
    --------
    >>> table = np.eye(3, dtype=np.float32)
    >>> share_found(table, table[0], -1, np.array([0]), np.array([1, 0], np.float32))
    0.5
    """
    if not len(wanted):
        return 1.0
    near = unit(vectors[found[found != own]]) @ query
    near = np.sort(near)[::-1][: len(wanted)]
    return float((near >= wanted[-1] - 1e-5).sum() / len(wanted))


class Truth:
    """Questions with their exact answers, without a filter and with two that follow the clusters.

    Attributes
    ----------
    vectors : numpy.ndarray
        float32 [n, dim], the table.
    asked : Questions
        The questions.
    masks : list of numpy.ndarray or None
        uint8 [n] each; None is no filter.

    Examples
    --------
    >>> table = np.random.default_rng(0).standard_normal((500, 8), np.float32)
    >>> truth = Truth(table, 50)
    >>> [None if mask is None else len(mask) for mask in truth.masks]
    [None, 500, 500]
    >>> truth.recall(lambda query, mask: np.arange(500) if mask is None else np.flatnonzero(mask))
    1.0
    """

    def __init__(self, vectors: NDArray[np.float32], scanned: int) -> None:
        """Measure filters only where they leave more than `scanned` and a tenth of the rows."""
        self.vectors = vectors
        self.asked = questions(vectors)
        n, q = len(vectors), len(self.asked.vectors)
        rng = np.random.default_rng(SEED + 1)
        some = unit(vectors[np.sort(rng.choice(n, min(n, 4096), replace=False))])
        along = some @ some[0]
        cuts = [np.quantile(along, 1 - s) for s in SHARES if s * n > max(scanned, n // 10)]
        parts: list[list[NDArray[np.uint8]]] = [[] for _ in cuts]
        tops = [_Top(q) for _ in range(1 + len(cuts))]
        for first, rows in blocks(vectors):
            near = self.asked.vectors @ rows.T
            tops[0].take(first, near, None)
            along = rows @ some[0]
            for cut, part, top in zip(cuts, parts, tops[1:], strict=True):
                part.append((along >= cut).astype(np.uint8))
                top.take(first, near, part[-1])
        self.masks = [None, *(np.concatenate(part) for part in parts)]
        self._tops = tops

    def wanted(self, which: int, row: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the first ones of a question under a mask, its own place left out.

        Similarities float32 [w], descending, and places int64 [w]; w = `DEPTH` where so many
        match.
        """
        top = self._tops[which]
        real = (top.places[row] >= 0) & (top.places[row] != self.asked.own[row])
        return top.best[row][real][:DEPTH], top.places[row][real][:DEPTH]

    def shares(self) -> NDArray[np.float64]:
        """What is found before anything was asked: zeros, [masks, q]."""
        return np.zeros((len(self.masks), len(self.asked.vectors)))

    def recall(
        self,
        find: Callable[[NDArray[np.float32], NDArray[np.uint8] | None], NDArray[np.int64] | None],
        shares: NDArray[np.float64] | None = None,
    ) -> float:
        """Measure the recall of the worst group of questions under any of the masks.

        `find(query, mask)` names candidates; None stands for an exact scan. `shares`, float64
        [masks, q], say what a narrower search found, and then what this one finds: a question
        whose nearest were all found is not asked again.
        """
        if shares is None:
            shares = self.shares()
        sizes = np.bincount(self.asked.group)
        for which, mask in enumerate(self.masks):
            for row in np.flatnonzero(shares[which] < 1.0).tolist():
                query = self.asked.vectors[row]
                places = find(query, mask)
                shares[which, row] = 1.0
                if places is not None:
                    best, _ = self.wanted(which, row)
                    own = int(self.asked.own[row])
                    shares[which, row] = share_found(self.vectors, query, own, places, best)
        return min(float((np.bincount(self.asked.group, one) / sizes).min()) for one in shares)


class _Top:
    """The best of each question so far, one more than `DEPTH`, for its own place goes."""

    def __init__(self, q: int) -> None:
        self.best = np.full((q, DEPTH + 1), -np.inf, np.float32)
        self.places = np.full((q, DEPTH + 1), -1, np.int64)

    def take(self, first: int, near: NDArray[np.float32], mask: NDArray[np.uint8] | None) -> None:
        """Look at another block: near [q, m] of the places from `first` on."""
        q, k = self.best.shape
        if mask is not None and not mask.any():
            return
        if first == 0 and near.shape[1] > FIRST * k:  # a bound for what follows
            some = near[:, : FIRST * k]
            if mask is not None:
                some = near[:, np.flatnonzero(mask)[: FIRST * k]]
            enough = some.shape[1] >= k
            bound = np.partition(some, -k, axis=1)[:, -k] if enough else self.best[:, -1]
            hot = near >= bound[:, None]
        else:
            hot = near > self.best[:, -1:]
        if mask is not None:
            hot &= mask.astype(bool)
        rows, columns = np.divmod(np.flatnonzero(hot), near.shape[1])  # 2-d nonzero is slow
        rows_all = np.concatenate([np.repeat(np.arange(q), k), rows])
        values = np.concatenate([self.best.ravel(), near[rows, columns]])
        places = np.concatenate([self.places.ravel(), columns + first])
        order = np.lexsort((-values, rows_all))
        starts = np.searchsorted(rows_all[order], np.arange(q))
        picked = order[starts[:, None] + np.arange(k)]
        self.best, self.places = values[picked], places[picked]
