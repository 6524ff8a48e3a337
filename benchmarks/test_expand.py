"""Following links: what every read by concepts does before it looks at notes.

No verb gives the expansion alone, so the view behind the verbs is asked, as a read asks it;
`associate` and `graph` are the verbs that come nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import fastassoc as fa
from benchmarks import plain
from benchmarks.asked import DRAWS, Asked
from benchmarks.case import FLOOR, OURS, measure
from benchmarks.topics import SIZES

TIMES = 500
CAP = 32
WAYS = [  # concepts, hops, fan-out
    *((many, 1, None) for many in (1, 3, 10)),
    *((many, hops, CAP) for many in (1, 3, 10) for hops in (1, 2, 3)),
    *((many, hops, None) for many in (1, 3) for hops in (2, 3)),
]


def row_of(many: int, hops: int, cap: int | None, draw: str) -> str:
    return f"expand-{many}-{draw}-{hops}-{'all' if cap is None else cap}"


@pytest.fixture(scope="module")
def view(mem: fa.Memory) -> Any:
    return mem._view()


@pytest.fixture(scope="module")
def numbers(view: Any) -> Callable[[list[list[str]]], list[Any]]:
    find = view.vocabulary.find
    return lambda names: [[find(one) for one in some] for some in names]


@pytest.fixture(scope="module")
def strong(mem: fa.Memory) -> Any:
    """The links that a read follows, as columns."""
    columns = mem.links.columns()
    kept = columns["weight"] >= 2.0
    return tuple(columns[name][kept] for name in ("a", "b", "weight"))


@pytest.fixture(scope="module")
def matrix(strong: Any, view: Any) -> sparse.csr_array:
    a, b, weight = strong
    half = sparse.csr_array((weight, (a, b)), shape=(view.links.n_ids, view.links.n_ids))
    return (half + half.T).tocsr()


@pytest.fixture(scope="module")
def linked(strong: Any) -> dict[int, dict[int, float]]:
    return plain.neighbours(*(column.tolist() for column in strong), 2.0)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("many", "hops", "cap"), WAYS)
def test_expand(
    benchmark: Any, size: str, asked: Asked, view: Any, numbers: Any, draw: str, many: int,
    hops: int, cap: int | None,
) -> None:  # fmt: skip
    queries = numbers(asked.concepts(draw, many, TIMES if cap or hops == 1 else 60))
    links = view.links
    measure(
        benchmark, row_of(many, hops, cap, draw), OURS, size,
        lambda ids: links.expand(ids, threshold=2.0, hops=hops, max_fanout=cap),
        [(ids,) for ids in queries], warm=50, unit="queries",
    )  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("many", [1, 3])
def test_expand_batch(
    benchmark: Any, size: str, asked: Asked, view: Any, numbers: Any, draw: str, many: int
) -> None:
    queries = numbers(asked.concepts(draw, many, 1_024))
    links = view.links

    def call() -> None:
        for ids in queries:
            links.expand(ids, threshold=2.0)

    row = f"expand-batch-{many}-{draw}"
    measure(benchmark, row, OURS, size, call, rounds=10, work=1_024, unit="queries")


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("many", "hops", "cap"), [way for way in WAYS if way[2] or way[1] == 1])
def test_expand_by_dicts(
    benchmark: Any, size: str, asked: Asked, linked: Any, numbers: Any, draw: str, many: int,
    hops: int, cap: int | None,
) -> None:  # fmt: skip
    queries = numbers(asked.concepts(draw, many, 200 if hops == 1 else 40))
    measure(
        benchmark, row_of(many, hops, cap, draw), "dict", size,
        lambda ids: plain.expanded(linked, ids, hops, cap), [(ids,) for ids in queries],
        unit="queries",
    )  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("many", [1, 3, 10])
def test_expand_by_scipy(
    benchmark: Any, size: str, asked: Asked, matrix: Any, numbers: Any, draw: str, many: int
) -> None:
    queries = numbers(asked.concepts(draw, many, 200))
    measure(
        benchmark, row_of(many, 1, None, draw), "scipy rows", size,
        lambda ids: matrix[ids].max(axis=0), [(ids,) for ids in queries], unit="queries",
    )  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("many", [1, 3])
def test_expand_bound(
    benchmark: Any, size: str, asked: Asked, matrix: Any, numbers: Any, draw: str, many: int
) -> None:
    """Slices of rows that hold nothing but what is followed."""
    queries = numbers(asked.concepts(draw, many, TIMES))
    starts, columns, weights = matrix.indptr.tolist(), matrix.indices, matrix.data

    def call(ids: list[int]) -> list[Any]:
        return [
            (columns[starts[n] : starts[n + 1]], weights[starts[n] : starts[n + 1]]) for n in ids
        ]

    measure(
        benchmark, row_of(many, 1, None, draw), FLOOR + "slices of rows", size, call,
        [(ids,) for ids in queries], unit="queries",
    )  # fmt: skip


@pytest.mark.parametrize("hops", [2, 3])
@pytest.mark.parametrize("draw", DRAWS)
def test_expand_hops_bound(
    benchmark: Any, size: str, asked: Asked, linked: Any, numbers: Any, draw: str, hops: int
) -> None:
    """One gather for each link that the steps look at."""
    queries, some = numbers(asked.concepts(draw, 1, 40)), np.random.default_rng(5)
    memory = np.zeros(max(1, 2 * sum(map(len, linked.values()))))
    touched = []
    for ids in queries:
        many, level, cut = 0, set(ids), {}
        for _ in range(hops):
            nearest = [sorted(linked.get(n, {}).items(), key=lambda x: -x[1])[:CAP] for n in level]
            many += sum(map(len, nearest))
            level = {child for near in nearest for child, _ in near} - cut.keys()
        touched.append((some.integers(0, len(memory), many),))
    measure(
        benchmark, row_of(1, hops, CAP, draw), FLOOR + "a gather for each link", size,
        memory.take, touched, unit="queries",
    )  # fmt: skip


def test_expand_by_the_twin(benchmark: Any, size: str, strong: Any, asked: Asked) -> None:
    if size != "small":
        pytest.skip("naive.py looks at every link for every concept")
    from naive import Link, NaiveMemory

    twin = NaiveMemory(lambda: 0)
    for a, b, weight in zip(*(column.tolist() for column in strong), strict=True):
        twin.links[(a, b)] = Link(0, 0, weight)
        twin.shown.setdefault(a, a)
        twin.shown.setdefault(b, b)
    find = asked.mem._view().vocabulary.find
    drawn = ([find(name) for name in one] for one in asked.concepts("frequent", 1, 50))
    queries = [(ids,) for ids in drawn if ids[0] in twin.shown][:10]
    measure(
        benchmark, row_of(1, 1, None, "frequent"), "naive.py", size, twin.expand, queries,
        unit="queries",
    )  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("verb", ["associate", "graph"])
def test_verbs(
    benchmark: Any, size: str, notes: int, mem: fa.Memory, asked: Asked, draw: str, verb: str
) -> None:
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")
    call = getattr(mem, verb)
    queries = [(one,) for one in asked.concepts(draw, 1, 60)]
    measure(benchmark, f"{verb}-{draw}", OURS, size, call, queries, warm=5, unit="queries")
