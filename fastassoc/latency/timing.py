"""Reads timed: so many at once, by so many threads."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np

import fastassoc as fa

__all__ = ["percentiles", "stages", "timed"]

Query = dict[str, Any]
LEAST = 3  # calls of a thread, however few questions there are


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and the mean, in milliseconds.

    Examples
    --------
    >>> percentiles([0.001, 0.003])
    {'p50_ms': 2.0, 'p95_ms': 2.9, 'p99_ms': 2.98, 'mean_ms': 2.0}
    """
    points = np.percentile(np.asarray(seconds) * 1e3, [50, 95, 99])
    named = zip(("p50_ms", "p95_ms", "p99_ms"), points, strict=True)
    out = {name: round(float(value), 4) for name, value in named}
    return {**out, "mean_ms": round(float(np.mean(seconds)) * 1e3, 4)}


def timed(
    mem: fa.Memory,
    queries: Sequence[Query],
    common: Query,
    *,
    threads: int,
    batch: int,
    most_seconds: float,
) -> dict[str, Any]:
    """Ask all queries, `batch` at a time, by so many threads that begin together.

    Parameters
    ----------
    mem : Memory
    queries : list of dict
        Arguments of `Memory.read`; each thread begins at another one and goes round.
    common : dict
        Arguments of all of them.
    threads, batch : int
    most_seconds : float
        A thread begins no call after this.

    Returns
    -------
    dict
        Percentiles of a call, ``qps`` (reads a second of all threads together) and ``reads``.
    """
    calls = max(LEAST, -(-len(queries) // (threads * batch)))
    barrier = Barrier(threads)

    def work(number: int) -> tuple[list[float], float, float]:
        spent: list[float] = []
        place = number * calls * batch
        asked = [
            [queries[(place + at * batch + n) % len(queries)] for n in range(batch)]
            for at in range(calls)
        ]
        barrier.wait()
        begun = last = time.perf_counter()
        for some in asked:
            if batch == 1:
                mem.read(**some[0], **common)
            else:
                mem.read_batch(some, **common)
            now = time.perf_counter()
            spent.append(now - last)
            if now - begun > most_seconds:
                break
            last = time.perf_counter()
        return spent, begun, time.perf_counter()

    with ThreadPoolExecutor(threads) as pool:
        done = list(pool.map(work, range(threads)))
    spent = [one for some, _, _ in done for one in some]
    whole = max(end for _, _, end in done) - min(begun for _, begun, _ in done)
    reads = len(spent) * batch
    return {**percentiles(spent), "qps": round(reads / whole, 1), "reads": reads}


def stages(
    mem: fa.Memory, queries: Sequence[Query], common: Query, most_seconds: float = math.inf
) -> dict[str, float]:
    """Milliseconds of each stage of a read, medians, as `Recall.timings` tells."""
    told, end = [], time.perf_counter() + most_seconds
    for query in queries:
        told.append(mem.read(**query, **common).timings)
        if time.perf_counter() > end:
            break
    names = dict.fromkeys(name for one in told for name in one)
    return {
        name: round(float(np.median([one.get(name, 0.0) for one in told])) * 1e3, 4)
        for name in names
    }
