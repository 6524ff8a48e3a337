"""The text index against a twin that counts everything anew."""

from __future__ import annotations

from typing import Any

import naive_text as naive
import numpy as np
import pytest
import snowballstemmer
from hypothesis import given, settings
from hypothesis import strategies as st

import fastassoc.postings as module
from fastassoc.errors import InvalidInput
from fastassoc.text import TextIndex, TextView

K1, B = 1.5, 0.75
STOPS = ["the", "of", "and"]
STEM = snowballstemmer.stemmer("english").stemWord
WORDS = [
    "the",
    "of",
    "call",
    "calls",
    "Calling",
    "retry",
    "retries",
    "Café",
    "backoff",
    "42",
    "漢字",
    "漢字の東京2号",
    "字",
    "の",
    "กิ",
    "ราคากิน",
]
some_text = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
some_texts = st.lists(some_text, max_size=15)


@pytest.fixture(params=[(1024, 8192, 32), (5, 20, 2)], ids=["late", "folds"], autouse=True)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(("LATE_MOST", "TAIL_LEAST", "TAIL_SHARE"), request.param, strict=True):
        monkeypatch.setattr(module, name, value)


def asked(view: TextView, question: str) -> list[int]:
    """The terms that a question asks for."""
    return list(dict.fromkeys(t for word in view.query(question) for t in view.meant(*word)))


def score(index: TextIndex, question: str) -> list[float]:
    view = index.view()
    out = np.zeros(view.n_rows)
    view.scores(asked(view, question), K1, B, out)
    return out.tolist()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_scores_equal_the_twin(data: Any) -> None:
    index = TextIndex("english")
    twin = naive.Texts(STEM, STOPS)
    dead: set[int] = set()
    for _ in range(data.draw(st.integers(1, 4))):
        texts = data.draw(some_texts)
        index.append(texts)
        twin.append(texts)
        index.view()
        n = index.n_rows
        gone = data.draw(st.sets(st.integers(0, n - 1), max_size=4)) if n else set()
        index.remove(gone)
        twin.remove(gone)
        dead |= gone
    question = data.draw(some_text)
    view = index.view()
    stems = list(dict.fromkeys(twin.words(question)))
    assert [s for s, _ in view.query(question)] == stems
    for stem, term in view.query(question):
        assert view.df(term) == twin.df(stem)
        assert view.idf(term) == twin.idf(stem)
        assert (term == -1) == (twin.df(stem) == 0)
    alive = np.array([row not in dead for row in range(index.n_rows)], np.uint8)
    wanted = twin.scores(question, K1, B)
    got = score(index, question)
    assert [s for s, a in zip(got, alive, strict=True) if a] == [
        s for s, a in zip(wanted, alive, strict=True) if a
    ]
    terms = asked(view, question)
    for k in (1, 3, 100):
        rows, scores = view.best(terms, K1, B, alive, k)
        first = naive.first_by_row(wanted, alive.tolist(), k)
        assert list(zip(rows.tolist(), scores.tolist(), strict=True)) == first
    live = np.flatnonzero(alive)
    weights = view.weights(live, terms, K1, B)
    said = [view.stem(term) for term in terms]
    assert set(said) == {s for stem in stems for s in twin.meant(stem) if twin.df(s)}
    for i, row in enumerate(live.tolist()):
        assert weights[i].tolist() == [twin.weight(row, stem, K1, B) for stem in said]
    assert not module.zeros("rows", index.n_rows).any()


@settings(max_examples=40, deadline=None)
@given(some_texts, st.sets(st.integers(0, 14)), some_text)
def test_history_leaves_no_trace(texts: list[str], gone: set[int], question: str) -> None:
    index = TextIndex("english")
    for text in texts:
        index.append([text])
        index.view()
    gone = {row for row in gone if row < len(texts)}
    index.remove(gone)
    anew = TextIndex("english")
    live = [row for row in range(len(texts)) if row not in gone]
    anew.append([texts[row] for row in live])
    scores = score(index, question)
    assert [scores[row] for row in live] == score(anew, question)


@pytest.mark.parametrize("share", [0.01, 0.6])
def test_kernels_on_many_rows(share: float) -> None:
    """bm25, best_texts (which walks short lists and leaves out long ones) and bm25_weights."""
    rng = np.random.default_rng(7)
    texts = [
        " ".join(w for w in ("call", "retry", "backoff", "42") for _ in range(rng.binomial(3, p)))
        for p in rng.choice([0.0, 0.5], 900, p=[1 - share, share])
    ]
    index = TextIndex("english")
    index.append(texts[:700])
    index.view()
    index.append(texts[700:])
    twin = naive.Texts(STEM, STOPS)
    twin.append(texts)
    view = index.view()
    terms = [t for _, t in view.query("retry the 42 calls")]
    wanted = twin.scores("retry the 42 calls", K1, B)
    out = np.zeros(900)
    view.scores(terms, K1, B, out)
    assert out.tolist() == wanted
    allowed = (rng.random(900) < 0.8).astype(np.uint8)
    for k in (1, 10, 900):
        rows, scores = view.best(terms, K1, B, allowed, k)
        first = naive.first_by_row(wanted, allowed.tolist(), k)
        assert list(zip(rows.tolist(), scores.tolist(), strict=True)) == first
    some = np.array([3, 800, 3], np.int64)
    assert view.weights(some, [-1], K1, B).tolist() == [[0.0]] * 3
    assert not module.zeros("rows", 900).any()


def test_weights_of_many_terms() -> None:
    texts = [" ".join(f"w{n}x" for n in range(first, 300, first)) for first in (1, 2, 7)]
    index, twin = TextIndex("english"), naive.Texts(STEM, STOPS)
    index.append(texts)
    twin.append(texts)
    question = " ".join(f"w{n * 7 % 310}x" for n in range(310))
    view = index.view()
    found = view.query(question)
    weights = view.weights(np.arange(3), [term for _, term in found], K1, B)
    wanted = [[twin.weight(row, stem, K1, B) for stem, _ in found] for row in range(3)]
    assert weights.tolist() == wanted


def test_a_view_never_changes() -> None:
    index = TextIndex("english")
    index.append(["call the retry", "retry"])
    view = index.view()
    assert index.view() is view
    index.append(["backoff call"])
    index.remove([0])
    assert [view.df(t) for _, t in view.query("call retry backoff")] == [1, 2, 0]
    assert (view.n_rows, view.n_live, view.average) == (2, 2, 1.5)
    newer = index.view()
    assert [newer.df(t) for _, t in newer.query("call retry backoff")] == [1, 1, 1]
    index.remove([0])
    assert index.view() is newer


def test_empty_index_and_bad_input() -> None:
    index = TextIndex("english")
    view = index.view()
    assert view.query("nothing") == [("noth", -1)]
    assert view.best([-1], K1, B, np.empty(0, np.uint8), 3)[0].size == 0
    index.append(["", "call"])
    assert index.view().average == 0.5
    with pytest.raises(InvalidInput, match="rows 0 to 1"):
        index.remove([2])
    with pytest.raises(InvalidInput, match="rows 0 to 1"):
        index.remove([-1, 0])
    assert index.view().n_live == 2
    with pytest.raises(InvalidInput, match="k is 0"):
        index.view().best([0], K1, B, np.ones(2, np.uint8), 0)
    with pytest.raises(InvalidInput, match="allowed has 1 rows"):
        index.view().best([0], K1, B, np.ones(1, np.uint8), 1)


@given(
    st.lists(
        st.lists(st.sampled_from(["Rose", "rose", "ROSE", "stone", "Élan", "the"])), max_size=9
    ),
    st.sets(st.integers(0, 8)),
)
def test_capitals_are_counted_over_live_texts(texts: list[list[str]], gone: set[int]) -> None:
    """The kernel ``count_marked`` and what is taken back, against counting word by word."""
    index = TextIndex("english")
    half = len(texts) // 2
    for part in (texts[:half], texts[half:]):
        index.append([" ".join(words) for words in part])
    index.remove([row for row in gone if row < len(texts)])
    view = index.view()
    live = [word for row, words in enumerate(texts) if row not in gone for word in words]
    for stem in ("rose", "stone", "elan"):
        said = [word for word in live if naive.tokens(word)[0].startswith(stem)]
        if not said:
            continue
        term = dict(view.query(stem))[snowballstemmer.stemmer("english").stemWord(stem)]
        mostly = 2 * sum(word[0].isupper() for word in said) > len(said)
        assert view.capitalised(np.array([term], np.uint32)).tolist() == [mostly]
