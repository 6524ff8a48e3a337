"""Measures of a ranked answer, and how sure their means are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEASURES", "Bootstrap", "measure", "milliseconds"]

MEASURES = ("recall@2", "recall@5", "recall@10", "all@5", "mrr", "ndcg@10")
RESAMPLES = 2_000
BLOCK = 1 << 22  # numbers of one block of resamples


def measure(ranked: Sequence[str], gold: Mapping[str, int]) -> dict[str, float]:
    """Measure one answer against the notes that are right, with their grades.

    ``all@5`` is 1 where the first five hold every right note; ``mrr`` looks at the first ten;
    ``ndcg@10`` discounts grades by log2(rank + 1), as trec_eval does.

    Examples
    --------
    >>> made = measure(["a", "x", "b"], {"a": 1, "b": 1})
    >>> made["recall@2"], made["recall@5"], made["all@5"], made["mrr"], round(made["ndcg@10"], 3)
    (0.5, 1.0, 1.0, 1.0, 0.92)
    """
    ranked = list(dict.fromkeys(ranked))[:10]
    found = [note in gold for note in ranked]
    out = {f"recall@{k}": sum(found[:k]) / len(gold) for k in (2, 5, 10)}
    out["all@5"] = float(out["recall@5"] == 1.0)
    out["mrr"] = next((1 / rank for rank, good in enumerate(found, 1) if good), 0.0)
    gained = sum(gold.get(note, 0) / math.log2(rank + 1) for rank, note in enumerate(ranked, 1))
    best = sorted(gold.values(), reverse=True)[:10]
    out["ndcg@10"] = gained / sum(grade / math.log2(r + 1) for r, grade in enumerate(best, 1))
    return out


class Bootstrap:
    """Intervals of means by resampling the questions, the same resamples for all that is compared.

    Examples
    --------
    >>> sure = Bootstrap(100, seed=1)
    >>> made = sure.interval(np.arange(100) % 2)
    >>> made["value"], made["low"] < 0.5 < made["high"], made["high"] - made["low"] < 0.25
    (0.5, True, True)
    >>> sure.interval(np.ones(100))
    {'value': 1.0, 'low': 1.0, 'high': 1.0}
    """

    def __init__(self, n: int, seed: int, resamples: int = RESAMPLES) -> None:
        self.n, self._seed, self._resamples = n, seed, resamples

    def intervals(self, columns: NDArray[np.float64]) -> list[dict[str, float]]:
        """Mean and percentile interval of 95 % of each column; float64 [n, m], n above 0."""
        rng = np.random.default_rng(self._seed)
        step = max(1, BLOCK // self.n)
        means = []
        for start in range(0, self._resamples, step):
            many = min(step, self._resamples - start)
            drawn = rng.integers(0, self.n, (many, self.n)) + self.n * np.arange(many)[:, None]
            times = np.bincount(drawn.ravel(), minlength=many * self.n).reshape(many, self.n)
            means.append(times.astype(np.float64) @ columns / self.n)
        low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
        return [
            {"value": _round(value), "low": _round(a), "high": _round(b)}
            for value, a, b in zip(columns.mean(axis=0), low, high, strict=True)
        ]

    def interval(self, values: Sequence[float] | NDArray[Any]) -> dict[str, float]:
        """Mean and interval of one column."""
        return self.intervals(np.asarray(values, np.float64).reshape(self.n, 1))[0]


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile, in milliseconds."""
    if not len(seconds):
        return {"p50": 0.0, "p95": 0.0}
    low, high = np.percentile(np.asarray(seconds) * 1e3, [50, 95])
    return {"p50": round(float(low), 4), "p95": round(float(high), 4)}


def _round(value: float) -> float:
    return round(float(value), 5)
