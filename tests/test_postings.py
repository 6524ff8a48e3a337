"""Inverted lists and the count read, against loops over plain lists."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import naive_text as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastassoc.postings as module
from fastassoc.errors import InvalidInput
from fastassoc.kernels import postings as kernels
from fastassoc.kernels import reading
from fastassoc.postings import Postings

TERMS = 12
row_terms = st.lists(st.integers(0, TERMS - 1), max_size=6, unique=True)
some_rows = st.lists(row_terms, max_size=30)
strength = st.integers(1, 40).map(lambda n: n / 8) | st.sampled_from([0.1, 0.7, 1 / 3, 3.0])
WAYS = [reading.AUTO, reading.SPARSE, reading.DENSE, reading.PRUNED]


@pytest.fixture(
    params=[(1024, 8192, 32), (7, 8192, 32), (3, 12, 2)],
    ids=["late", "late and tail", "folds"],
    autouse=True,
)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(("LATE_MOST", "TAIL_LEAST", "TAIL_SHARE"), request.param, strict=True):
        monkeypatch.setattr(module, name, value)


def flat_of(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    flat = np.array([t for terms in rows for t in terms], np.uint32)
    return flat, np.cumsum([0, *map(len, rows)]).astype(np.int64)


def build(
    rows: Sequence[Sequence[int]], cuts: Sequence[int] = (), with_values: bool = False
) -> Any:
    """Append in pieces, with a view between them."""
    postings = Postings(with_values)
    edges = sorted({0, len(rows), *(c % (len(rows) + 1) for c in cuts)})
    for low, high in itertools.pairwise(edges):
        flat, ptr = flat_of(rows[low:high])
        values = np.array([t + 0.5 for t in flat], np.float32) if with_values else None
        postings.append(flat, ptr, values)
        postings.view()
    return postings


def read(
    view: Any,
    asked: Sequence[int],
    expanded: dict[int, float],
    allowed: Sequence[int],
    k: int,
    texts: Sequence[str],
    way: int,
) -> tuple[naive.Scored, naive.Scored]:
    prefix = [int.from_bytes(t.encode()[:8].ljust(8, b"\0"), "big") for t in texts]
    found = view.count_read(
        np.array(asked, np.uint32),
        np.array(sorted(expanded), np.uint32),
        np.array([expanded[e] for e in sorted(expanded)], np.float64),
        np.array(allowed, np.uint8),
        k,
        np.array(prefix, np.uint64),
        way,
    )
    whole = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    direct = dict(zip(found.direct_rows.tolist(), found.direct_scores.tolist(), strict=True))
    assert len(whole) == found.rows.size
    assert len(direct) == found.direct_rows.size
    return naive.first_by_text(whole, texts, k), naive.first_by_text(direct, texts, k)


@settings(max_examples=60, deadline=None)
@given(some_rows, st.lists(st.integers(0, 30), max_size=4), st.booleans())
def test_lists_equal_the_twin(rows: list[list[int]], cuts: list[int], with_values: bool) -> None:
    postings = build(rows, cuts, with_values)
    view = postings.view()
    lists = naive.rows_of(rows)
    assert view.n_rows == postings.n_rows == len(rows)
    assert view.n_terms == max(lists, default=-1) + 1
    for term in range(TERMS + 2):
        assert view.rows(term).tolist() == lists.get(term, [])
        assert view.count(term) == len(lists.get(term, []))
        wanted = [term + 0.5] * len(lists.get(term, [])) if with_values else []
        assert view.values(term).tolist() == wanted
    assert view.counts().tolist() == [len(lists.get(t, [])) for t in range(view.n_terms)]
    for row, terms in enumerate(rows):
        assert view.row(row)[0].tolist() == terms
        assert postings.row(row)[0].tolist() == terms
    wider = [row for row, terms in enumerate(rows) if len(terms) > view.width]
    assert view.wide.tolist() == wider


@settings(max_examples=40, deadline=None)
@given(some_rows, st.lists(st.integers(0, 30), max_size=4), st.data())
def test_accumulate_equals_the_twin(rows: list[list[int]], cuts: list[int], data: Any) -> None:
    view = build(rows, cuts).view()
    ids = data.draw(st.lists(st.integers(0, TERMS + 3), max_size=6, unique=True))
    weights = [data.draw(strength) for _ in ids]
    out = np.zeros(len(rows))
    view.accumulate(np.array(ids, np.uint32), np.array(weights, np.float64), out)
    assert out.tolist() == naive.accumulate(rows, ids, weights)


@settings(max_examples=150, deadline=None)
@given(some_rows, st.lists(st.integers(0, 30), max_size=4), st.data())
def test_count_read_equals_the_twin(rows: list[list[int]], cuts: list[int], data: Any) -> None:
    view = build(rows, cuts).view()
    n = len(rows)
    asked = data.draw(st.lists(st.integers(0, TERMS + 3), max_size=3, unique=True))
    others = st.integers(0, TERMS + 3).filter(lambda t: t not in asked)
    expanded = data.draw(st.dictionaries(others, strength | st.just(0.0), max_size=8))
    allowed = data.draw(st.lists(st.sampled_from([1, 1, 1, 0]), min_size=n, max_size=n))
    word = st.sampled_from(["", "a", "\0", "z", "é", "\U0001f600", "same start A", "same start B"])
    texts = data.draw(st.lists(word, min_size=n, max_size=n))
    k = data.draw(st.integers(1, 40))
    whole, direct = naive.count_scores(rows, asked, expanded, allowed)
    for way in WAYS:
        first, first_direct = read(view, asked, expanded, allowed, k, texts, way)
        assert first == naive.first_by_text(whole, texts, k), way
        assert first_direct == naive.first_by_text(direct, texts, k), way
    assert not module.zeros("rows", n).any()
    assert not module.zeros("terms", view.n_terms).any()


def test_every_way_gives_the_same_on_many_rows() -> None:
    rng = np.random.default_rng(5)
    rows = [
        sorted({*(rng.zipf(1.3, size) % 400).tolist()})
        for size in [*rng.integers(0, 9, 6000), 90, 120]
    ]
    view = build(rows, [1500, 5900]).view()
    texts = [f"{n % 7} and so on" for n in range(len(rows))]
    expanded = {t: float(1 + 3000 // t) for t in range(3, 380)}
    inexact = {t: s / 3 for t, s in expanded.items()}
    allowed = (rng.random(len(rows)) < 0.7).astype(int).tolist()
    for shares in (expanded, inexact):
        for asked in ([1], [2, 399], [398], []):
            for k in (1, 10, 200):
                whole, direct = naive.count_scores(rows, asked, shares, allowed)
                for way in WAYS:
                    first, first_direct = read(view, asked, shares, allowed, k, texts, way)
                    assert first == naive.first_by_text(whole, texts, k), (way, asked, k)
                    assert first_direct == naive.first_by_text(direct, texts, k)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 4).map(float) | st.floats(-1, 9), max_size=700), st.data())
def test_top_k_equals_the_twin(scores: list[float], data: Any) -> None:
    n = len(scores)
    chance = data.draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))
    allowed = (np.random.default_rng(n).random(n) < chance).astype(np.uint8)
    k = data.draw(st.integers(1, 800))
    rows, found = reading.top_k(np.array(scores, np.float64), allowed, k)
    wanted = naive.first_by_row(scores, allowed.tolist(), k)
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == wanted


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(-1, 5), max_size=12), max_size=8))
def test_count_rows_counts(texts: list[list[int]]) -> None:
    flat = np.array([t for text in texts for t in text], np.int32)
    ptr = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    scratch = np.zeros(6, np.int32)
    ids, frequencies, row_ptr, lengths = kernels.count_rows(flat, ptr, scratch)
    for row, text in enumerate(texts):
        kept = [t for t in text if t >= 0]
        low, high = row_ptr[row], row_ptr[row + 1]
        assert ids[low:high].tolist() == list(dict.fromkeys(kept))
        assert frequencies[low:high].tolist() == [kept.count(t) for t in dict.fromkeys(kept)]
        assert lengths[row] == len(kept)
    assert not scratch.any()


@settings(max_examples=30, deadline=None)
@given(some_rows, st.data())
def test_tail_keys_hold_term_and_row(rows: list[list[int]], data: Any) -> None:
    first = data.draw(st.integers(0, len(rows)))
    keys = kernels.tail_keys(*flat_of(rows), first, len(rows))
    wanted = [t << 32 | row for row, terms in enumerate(rows) if row >= first for t in terms]
    assert keys.tolist() == wanted


def test_a_view_never_changes() -> None:
    rows = [[n % 5, 5 + n % 3] for n in range(40)]
    postings = build(rows[:10])
    view = postings.view()
    assert postings.view() is view
    before = [view.rows(t).tolist() for t in range(8)]
    for low in range(10, 40, 3):
        postings.append(*flat_of(rows[low : low + 3]))
        postings.view()
    assert [view.rows(t).tolist() for t in range(9)] == [*before, []]
    assert view.flat.tolist() == [t for terms in rows[:10] for t in terms]


@pytest.mark.parametrize("step", [1, 50])
@pytest.mark.parametrize("views", [1, 8])
def test_work_of_appending_is_not_quadratic_l1(
    step: int, views: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(n: int) -> int:
        return moved_by(n, step, n // views, monkeypatch)

    assert 0 < work(8000) <= 2.5 * work(4000)


def test_a_view_after_every_row_moves_little(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LATE_MOST", 64), ("TAIL_LEAST", 512), ("TAIL_SHARE", 2)):
        monkeypatch.setattr(module, name, value)
    assert moved_by(4000, 1, 1, monkeypatch) < 4000 * 2 * 64


def moved_by(n: int, step: int, every: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Postings moved by the kernels while `n` rows are appended, with a view now and then."""
    moved = 0

    def counted(name: str, place: int) -> None:
        kernel = getattr(kernels, name)

        def run(*args: Any) -> Any:
            nonlocal moved
            result = kernel(*args)
            moved += result[place].size
            return result

        patch.setattr(kernels, name, run)

    with monkeypatch.context() as patch:
        counted("extend_base", 1)
        counted("merge_tail", 0)
        postings = Postings(with_values=False)
        for low in range(0, n, step):
            rows = [[r % 7, 7 + r % 50] for r in range(low, min(low + step, n))]
            postings.append(*flat_of(rows))
            if (low + step) % every == 0:
                postings.view()
    return moved


def test_bad_input_is_refused_and_changes_nothing() -> None:
    postings = build([[1], [2]])
    flat = np.array([1, 2], np.uint32)
    for ptr in ([0, 1], [1, 2], [0, 2, 1, 2], []):
        with pytest.raises(InvalidInput, match="2 terms"):
            postings.append(flat, np.array(ptr, np.int64))
    with pytest.raises(InvalidInput, match="give none"):
        postings.append(flat, np.array([0, 2]), np.ones(2, np.float32))
    with pytest.raises(InvalidInput, match="one a term"):
        Postings(with_values=True).append(flat, np.array([0, 2]))
    view = postings.view()
    assert view.n_rows == 2
    with pytest.raises(InvalidInput, match="k is 0"):
        read(view, [1], {}, [1, 1], 0, ["a", "b"], reading.AUTO)
    with pytest.raises(InvalidInput, match="the postings have 2"):
        read(view, [1], {}, [1], 1, ["a"], reading.AUTO)
