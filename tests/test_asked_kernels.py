"""The kernels of one call for a question: best texts, and the board that begins with them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastassoc.kernels import asked as kernels
from fastassoc.kernels.asked import answer, begin, take_in
from fastassoc.kernels.lists import Lists
from fastassoc.kernels.texts import Terms, Texts, best_texts, weigh
from fastassoc.postings import Postings
from fastassoc.read import bridge

K1, B = 1.5, 0.75


class World:
    """A few hundred texts whose words come with very different shares, and concepts likewise."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        n = self.n = rng.randint(1, 120)
        shares = [rng.choice([0.02, 0.1, 0.5, 1.0]) for _ in range(8)]

        def some() -> list[list[int]]:
            return [[t for t in range(8) if rng.random() < shares[t]] for _ in range(n)]

        self.said = [{t: rng.choice([1, 1, 2, 9]) for t in row} for row in some()]
        self.held = some()
        self.subjects = [[c for c in row if rng.random() < 0.4] for row in self.held]
        self.lengths = [max(1, sum(row.values())) for row in self.said]
        self.allowed = np.array([rng.random() < 0.8 for _ in range(n)], np.uint8)
        words = rng.sample(range(10), rng.randint(0, 4))
        carried = rng.sample(range(10), rng.randint(0, 3))
        idf = [rng.choice([1e-6, 0.1, 1.0, 6.0]) for _ in range(8)]
        self.terms = Terms(
            np.array(words, np.uint32), np.array([rng.choice(idf) for _ in words]),
            np.array(carried, np.uint32), np.array([rng.choice(idf) for _ in carried]),
        )  # fmt: skip
        self.texts = self._texts()
        self.held_lists, self.subject_lists = self._lists(self.held), self._lists(self.subjects)
        self.out = np.zeros(n + 3)

    def _postings(self, rows: list[list[int]], values: list[list[int]] | None = None) -> Postings:
        postings = Postings(with_values=values is not None)
        for row, terms in enumerate(rows):
            given = None if values is None else np.array(values[row], np.float32)
            postings.append(np.array(terms, np.uint32), np.array([0, len(terms)]), given)
            if self.rng.random() < 0.1:
                postings.view()
        return postings

    def _lists(self, rows: list[list[int]]) -> Lists:
        return self._postings(rows).view().lists

    def _texts(self) -> Texts:
        rows, values = [list(row) for row in self.said], [list(row.values()) for row in self.said]
        view = self._postings(rows, values).view()
        average = sum(self.lengths) / self.n
        return Texts(
            view.lists, view.base_values, view.tail_values, view.late_values, view.flat_values,
            np.array(self.lengths, np.int32), average, K1, B,
        )  # fmt: skip

    def weigh(self, rows: list[int]) -> NDArray[np.float64]:
        return weigh(
            self.texts, self.held_lists, self.subject_lists, self.terms,
            np.array(rows, np.int64), self.out,
        )  # fmt: skip

    def weight(self, row: int) -> list[float]:
        norm = K1 * (1 - B + B * self.lengths[row] / self.texts.average)
        out = []
        for word, idf in zip(self.terms.words.tolist(), self.terms.idf.tolist(), strict=True):
            tf = self.said[row].get(word, 0)
            out.append(idf * (K1 + 1) * tf / (tf + norm))
        known = zip(self.terms.carried.tolist(), self.terms.carried_idf.tolist(), strict=True)
        for concept, idf in known:
            there = concept in self.held[row] and concept not in self.subjects[row]
            out.append(idf * there)
        return out


@given(st.integers(0, 2**32), st.booleans())
def test_weights_of_words_and_carried_concepts(seed: int, few: bool) -> None:
    """By the lists of the words where these are shorter than those of the rows, else by these."""
    world = World(seed)
    rows = world.rng.sample(range(world.n), 1 if few else world.n)
    found = world.weigh(rows)
    assert found.shape == (len(rows), len(world.terms.words) + len(world.terms.carried))
    assert found.tolist() == [pytest.approx(world.weight(row)) for row in rows]
    assert not world.out.any()
    assert [found[i].tolist() for i in range(len(rows))] == [
        world.weigh([row])[0].tolist() for row in rows
    ]


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(-1, 9))
def test_the_best_texts_whichever_lists_are_left_out(seed: int, k: int, only: int) -> None:
    world = World(seed)
    options = world.texts, world.held_lists, world.subject_lists, world.terms, world.allowed
    rows, scores = best_texts(*options, only, k, 10**6, world.out)
    pruned, same = best_texts(*options, only, k, 0, world.out)
    assert (rows.tolist(), scores.tolist()) == (pruned.tolist(), same.tolist())
    assert not world.out.any()
    weights = world.weigh(list(range(world.n)))
    totals = [0.0] * world.n
    for row, mine in enumerate(weights.tolist()):
        for weight in mine:
            totals[row] += weight
    want = sorted(
        (-total, row)
        for row, total in enumerate(totals)
        if total > 0 and world.allowed[row] and (only < 0 or only in world.subjects[row])
    )[:k]
    assert list(zip(rows.tolist(), scores.tolist(), strict=True)) == [(r, -s) for s, r in want]


def test_the_kernels_are_those_that_the_bridge_calls() -> None:
    assert bridge.asked_kernels is kernels
    assert {answer, begin, take_in} == {kernels.answer, kernels.begin, kernels.take_in}
