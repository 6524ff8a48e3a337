"""The walk of associations against its slow twin, and what `Memory.associate` promises."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import naive_association as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastassoc as fa
from fastassoc.errors import InvalidInput
from fastassoc.kernels.association import walk
from fastassoc.links import LinkMatrix
from fastassoc.settings import AssociationRule, LinkRule

DAY = 86_400_000_000
pairs = st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] < p[1])
changes = st.lists(
    st.tuples(pairs, st.integers(-8, 8), st.integers(0, 3), st.booleans()), max_size=30
)


def key(pair: tuple[int, int]) -> int:
    return pair[0] << 32 | pair[1]


@given(
    changes=changes,
    cues=st.sets(st.integers(0, 12), min_size=1, max_size=4),
    steps=st.integers(0, 4),
    stay=st.sampled_from([0.0, 0.3, 0.9]),
    back=st.sampled_from([0.0, 0.3, 1.0]),
    power=st.sampled_from([0.0, 0.5, 1.0]),
    decay=st.sampled_from([None, 2.0]),
)
def test_walk(
    changes: list[Any],
    cues: set[int],
    steps: int,
    stay: float,
    back: float,
    power: float,
    decay: float | None,
) -> None:
    rule = LinkRule(floor=None, decay_days=decay)
    links = LinkMatrix(rule, 0.3)
    for pair, eighths, day, publish in changes:
        keys, amounts = np.array([key(pair)], np.uint64), np.array([eighths / 8])
        links.teach(keys, amounts, np.array([np.nan]), day * DAY)
        if publish:
            links.view(1.0)
    view, now = links.view(1.0), 4 * DAY
    weights = {}
    for a in range(10):
        others, effective = view.neighbours(a, now=now)
        weights.update({(a, b): w for b, w in zip(others.tolist(), effective, strict=True)})
    weights = {(a, b): w for (a, b), w in weights.items() if a < b}
    options = {"steps": steps, "stay": stay, "back": back, "power": power}
    ids, shares = view.walk(sorted(cues, reverse=True), now=now, **options)
    found = dict(zip(ids.tolist(), shares.tolist(), strict=True))
    assert ids.tolist() == sorted(found)
    assert found == pytest.approx(naive.walk(weights, cues, **options), rel=1e-12)
    # whatever the layout, to the last bit; and the scratch was left clean
    again = LinkMatrix.from_arrow(links.to_arrow(), rule, 0.3).view(0.1)
    for other in (view, again):
        same_ids, same = other.walk(list(cues), now=now, **options)
        assert (same_ids.tolist(), same.tolist()) == (ids.tolist(), shares.tolist())


def test_walk_over_many_ids_is_sorted_or_swept() -> None:
    draw = random.Random(3)
    weights = {(a, a + 1 + draw.randrange(3)): 1.0 + draw.random() for a in range(2000)}
    weights.update({(0, a): 1.0 for a in range(5, 400)})
    links = LinkMatrix(LinkRule(), 0.3)
    keys = np.array([key(pair) for pair in weights], np.uint64)
    links.teach(keys, np.array(list(weights.values())), np.full(len(keys), np.nan), 0)
    view = links.view(2.0)
    exact = {p: view.get(*p).weight for p in weights}  # type: ignore[union-attr]
    for cues in ([0], [1500], [3, 1900]):
        ids, shares = view.walk(cues, steps=3, stay=0.3, back=0.3, power=0.5)
        want = naive.walk(exact, cues, 3, 0.3, 0.3, 0.5)
        found = dict(zip(ids.tolist(), shares.tolist(), strict=True))
        assert found == pytest.approx(want, rel=1e-12)


def test_what_a_cue_brings_to_mind() -> None:
    mem = fa.Memory(settings=fa.Settings.counts(concept_links=LinkRule(floor=None)))
    for a, b, weight in (("a", "b", 3.0), ("b", "c", 1.0), ("a", "d", -1.0), ("e", "f", 2.0)):
        mem.link(a, b, weight)
    names = [one.concept for one in mem.associate(["a"])]
    assert names == ["b", "c"]  # nothing over the negative link
    shares = dict(mem.associate(["a"]))
    root = 3**0.5
    assert shares["b"] == pytest.approx(0.7 * 0.3)
    assert shares["c"] == pytest.approx(0.7**2 / (root + 1))
    assert [one.concept for one in mem.associate(["A", "e", "nobody"])] == ["b", "f", "c"]
    assert mem.associate(["nobody"]) == mem.associate([]) == []
    assert mem.associate(["a"], k=1) == mem.associate(["a"])[:1]
    mem.configure(**{"association.steps": 1})
    assert dict(mem.associate(["a"])) == {"b": pytest.approx(0.7)}


def test_what_faded_comes_less_to_mind() -> None:
    now = datetime(2024, 1, 1, tzinfo=UTC)
    rule = LinkRule(decay_days=10.0)
    mem = fa.Memory(settings=fa.Settings.counts(concept_links=rule), clock=lambda: now)
    mem.link("a", "old", 3.0)
    now += timedelta(days=20)
    mem.link("a", "new", 2.0)
    assert [one.concept for one in mem.associate(["a"])] == ["new", "old"]


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"steps": 1.5}, {"stay": 1.0}, {"back": -0.1}, {"power": 1.1}]
)
def test_settings_of_associations(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        AssociationRule(**bad)


def test_the_kernel_takes_an_empty_view() -> None:
    none = np.zeros(0, np.uint64)
    ids, shares = walk(
        np.array([4], np.uint32), 3, 0.3, 0.0, 0.5, 0, np.inf,
        np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint32), np.zeros(0),
        np.zeros(0, np.int64), none, np.zeros(0), np.zeros(0, np.int64),
        np.zeros((5, 1)), np.zeros((5, 1), np.uint32),
    )  # fmt: skip
    assert (ids.tolist(), shares.tolist()) == ([], [])


def test_equal_shares_are_equal_in_any_order_of_writing() -> None:
    notes = [["c8", "c6", "c0"], ["c4", "c6", "c5"], ["c2", "c1", "c0"], ["c7", "c1"],
             ["c5", "c8", "c0"]]  # fmt: skip
    told = set()
    for order in itertools.permutations(range(5)):
        mem = fa.Memory()
        mem.write_batch({"text": "x", "concepts": notes[i]} for i in order)
        told.add(tuple((one.concept, one.weight) for one in mem.associate(["c0", "c1"])))
    assert len(told) == 1
