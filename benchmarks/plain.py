"""The plain ways, and bounds of the machine, that figures stand beside."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastassoc.kernels import links as kernels


def pair_keys(ids: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Every pair of every note, uint64 [10 notes], by the kernel that writes use."""
    n, width = ids.shape
    pairs: NDArray[np.uint64] = kernels.pair_keys(ids.ravel(), np.arange(n + 1) * width)
    return pairs


def sorted_runs(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Sort and count: the least that any way to add links has to do."""
    ordered = np.sort(keys)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def counted(rows: Iterable[Sequence[Any]]) -> Counter[tuple[Any, Any]]:
    """A Counter of pairs."""
    pairs: Counter[tuple[Any, Any]] = Counter()
    for concepts in rows:
        pairs.update(combinations(sorted(concepts), 2))
    return pairs


def product(ids: NDArray[np.uint32]) -> sparse.csr_array:
    """The links as X'X."""
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    data = (np.ones(ids.size, np.float32), (rows, ids.ravel()))
    x = sparse.csr_array(data, shape=(len(ids), int(ids.max()) + 1))
    return (x.T @ x).tocsr()


def neighbours(a: Any, b: Any, weight: Any, least: float) -> dict[Any, dict[Any, float]]:
    """Links as a dict of dicts, both ways, only those that are followed."""
    out: dict[Any, dict[Any, float]] = defaultdict(dict)
    for x, y, w in zip(a, b, weight, strict=True):
        if w >= least:
            out[x][y] = w
            out[y][x] = w
    return out


def expanded(
    links: dict[Any, dict[Any, float]], asked: Sequence[Any], hops: int, cap: int | None
) -> dict[Any, float]:
    """Best path to each concept, its least weight counting, in dicts."""
    level = dict.fromkeys(asked, np.inf)
    best: dict[Any, float] = {}
    for _ in range(hops):
        after: dict[Any, float] = {}
        for parent, strength in level.items():
            near: Iterable[tuple[Any, float]] = links.get(parent, {}).items()
            if cap is not None:
                near = sorted(near, key=lambda one: -one[1])[:cap]
            for child, weight in near:
                least = min(strength, weight)
                if child not in level and least > after.get(child, 0.0):
                    after[child] = least
        for child, strength in after.items():
            if strength > best.get(child, 0.0):
                best[child] = strength
        level = after
    return best


def scan(rows: Sequence[Sequence[str]], asked: str, linked: dict[str, float]) -> list[int]:
    """Score every note and sort."""
    scored = [10.0 * (asked in row) + sum(linked.get(c, 0.0) for c in row) for row in rows]
    return sorted(range(len(rows)), key=scored.__getitem__, reverse=True)[:10]


def synced(file: Path, data: Any) -> None:
    """Write bytes, and wait for the disk."""
    with open(file, "wb", buffering=0) as out:
        view = memoryview(data).cast("B")
        for first in range(0, len(view), 1 << 28):
            out.write(view[first : first + (1 << 28)])
        os.fsync(out.fileno())


def bipartite(ids: NDArray[np.uint32]) -> sparse.csr_array:
    """Notes, then those concepts that one carries, and who carries whom, both ways."""
    known, places = np.unique(ids.ravel(), return_inverse=True)
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    columns = len(ids) + places.ravel()
    size = len(ids) + len(known)
    half = sparse.csr_array((np.ones(ids.size), (rows, columns)), shape=(size, size))
    return (half + half.T).tocsr()


def one_insert(path: Path, sync: str) -> Any:
    """A call that commits one row to a bare SQLite file, as the journal's mode has it."""
    import apsw

    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={sync}")
    db.execute("CREATE TABLE j (n INTEGER PRIMARY KEY, body BLOB)")
    body = os.urandom(300)
    return lambda: db.execute("INSERT INTO j (body) VALUES (?)", (body,))
