"""Outcomes: one call in memory and in the journal, and many pairs at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastassoc as fa
from benchmarks import plain
from benchmarks.asked import Asked
from benchmarks.case import FLOOR, OURS, measure
from benchmarks.topics import SIZES
from fastassoc.links import LinkMatrix, keys_of
from fastassoc.settings import LinkRule

MANY = 300  # concepts on each side of a large call
PAIRS = 1_000_000


def pairs(asked: Asked, times: int) -> list[tuple[list[str], list[str]]]:
    a, b = (asked.concepts("frequent", 1, times, seed) for seed in (21, 22))
    return [(x, y) for x, y in zip(a, b, strict=True) if x != y]


@pytest.mark.parametrize("sync", ["memory", "normal", "full"])
def test_single(
    benchmark: Any, size: str, notes: int, copy: Callable[[], Path], parquet: Path, asked: Asked,
    sync: str,
) -> None:  # fmt: skip
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")
    mem = fa.Memory() if sync == "memory" else fa.open(copy(), sync=sync)
    with mem:
        if sync == "memory":
            mem.ingest(str(parquet))
        measure(
            benchmark, f"feedback-{sync}", OURS, size,
            lambda a, b: mem.feedback(asked=a, used_concepts=b, outcome=1.0), pairs(asked, 500),
            warm=50, unit="calls",
        )  # fmt: skip


@pytest.mark.parametrize("sync", ["normal", "full"])
def test_single_beside(benchmark: Any, size: str, work: Path, sync: str) -> None:
    insert = plain.one_insert(work / f"feedback-{sync}.db", sync)
    who = f"SQLite commit, {sync}"
    measure(benchmark, f"feedback-{sync}", FLOOR + who, size, insert, rounds=500, unit="calls")


def test_single_by_dict(benchmark: Any, size: str, asked: Asked) -> None:
    links: dict[tuple[str, str], float] = {}

    def call(names: list[str], others: list[str]) -> None:
        for a in names:
            for b in others:
                if a != b:
                    key = (a, b) if a < b else (b, a)
                    links[key] = links.get(key, 0.0) + 1.0

    some = asked.concepts("frequent", 10, 1_000)
    queries = [(one[:5], one[1:]) for one in some]  # 40 pairs and more, lost at exit
    measure(benchmark, "feedback-memory", "dict, 45 pairs", size, call, queries, unit="calls")


def test_one_call(benchmark: Any, size: str, notes: int, parquet: Path, asked: Asked) -> None:
    """Every pair of 300 and 300 concepts by one call of the public verb."""
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")
    with fa.Memory() as mem:
        mem.ingest(str(parquet))
        some = asked.concepts("uniform", 2 * MANY, 6)
        measure(
            benchmark, "feedback-call", OURS, size,
            lambda a, b: mem.feedback(asked=a, used_concepts=b, outcome=1.0),
            [(one[:MANY], one[MANY:]) for one in some], work=MANY * MANY, unit="pairs",
        )  # fmt: skip


@pytest.fixture(scope="module")
def keys(mem: fa.Memory) -> np.ndarray:
    """Pairs of concepts, as often as notes wrote them."""
    columns = mem.links.columns()
    rng = np.random.default_rng(8)
    share = np.cumsum(columns["weight"])
    place = np.searchsorted(share, rng.random(PAIRS) * share[-1])
    return keys_of(columns["a"][place], columns["b"][place])


def test_pairs(benchmark: Any, size: str, mem: fa.Memory, keys: np.ndarray) -> None:
    """A million outcomes into the links alone."""
    columns = mem.links.columns()
    matrix = LinkMatrix(LinkRule(), 0.3)
    matrix.write(keys_of(columns["a"], columns["b"]), 0)
    ones = np.ones(len(keys))
    matrix.teach(keys, ones, ones, 1)
    measure(
        benchmark, "feedback-pairs", OURS, size, lambda: matrix.teach(keys, ones, ones, 2),
        rounds=5, work=len(keys), unit="pairs",
    )  # fmt: skip


def test_pairs_bound(benchmark: Any, size: str, keys: np.ndarray) -> None:
    who = FLOOR + "sort and run lengths"
    call = lambda: plain.sorted_runs(keys)  # noqa: E731
    measure(benchmark, "feedback-pairs", who, size, call, rounds=5, work=len(keys), unit="pairs")


def test_pairs_by_dict(benchmark: Any, size: str, keys: np.ndarray) -> None:
    listed = keys[:100_000].tolist()
    links = dict.fromkeys(listed, 1.0)

    def call() -> None:
        for key in listed:
            links[key] = links.get(key, 0.0) + 1.0

    measure(
        benchmark, "feedback-pairs", "dict", size, call, rounds=3, work=len(listed), unit="pairs"
    )


def test_by_the_twin(benchmark: Any, size: str) -> None:
    from naive import NaiveMemory

    twin = NaiveMemory(lambda: 0)
    names = [f"c{n}" for n in range(60)]
    call = lambda: twin.feedback(asked=names[:30], used_concepts=names[30:])  # noqa: E731
    measure(benchmark, "feedback-call", "naive.py", size, call, rounds=3, work=900, unit="pairs")
