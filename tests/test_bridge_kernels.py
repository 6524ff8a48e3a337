"""The kernels of the bridge, each against a few lines of dicts and loops."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastassoc.kernels import board
from fastassoc.kernels import bridge as kernels
from fastassoc.kernels.bridge import Index, Pick, Reach
from fastassoc.kernels.lists import Lists
from fastassoc.postings import Postings

ROWS, CONCEPTS, STEMS = 14, 9, 8
numbers = st.integers(0, 12).map(lambda n: n / 4)
seeds = st.integers(0, 2**32)


def lists_of(rows: list[list[int]], rng: random.Random, values: bool = False) -> Lists:
    """Posting lists of rows, some of them in the base, the tail and the late run."""
    postings = Postings(with_values=values)
    at = 0
    while at < len(rows):
        some = rows[at : at + rng.randint(1, 6)]
        flat = np.array([term for row in some for term in row], np.uint32)
        ptr = np.cumsum([0, *map(len, some)])
        postings.append(flat, ptr, np.ones(len(flat), np.float32) if values else None)
        if rng.random() < 0.7:
            postings.view()
        at += len(some)
    return postings.view().lists


class World:
    """A small index, and the same in sets."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.live = [rng.random() < 0.9 for _ in range(ROWS)]

        def some(n: int, share: float) -> list[list[int]]:
            return [[c for c in range(n) if rng.random() < share] for _ in range(ROWS)]

        self.mentions, self.stems = some(CONCEPTS, 0.3), some(STEMS, 0.3)
        self.subjects = [[c for c in row if rng.random() < 0.4] for row in self.mentions]
        # some notes were scanned before, and found to mention something else
        scanned = [(row, rng.random() < 0.3) for row in range(ROWS)]
        scans, rows_of, scan_of = [], [], np.full(ROWS, -1, np.int32)
        void = np.zeros(CONCEPTS, np.int32)
        for row, twice in scanned:
            for last in (False, True) if twice else (True,):
                held = sorted(self.mentions[row]) if last else rng.sample(range(CONCEPTS), 3)
                if last and self.live[row]:
                    scan_of[row] = len(scans)
                    rows_of.append(row)
                else:
                    rows_of.append(-1)
                    void[held] += 1
                scans.append(held)
        removed = np.zeros(STEMS, np.int64)
        for row in range(ROWS):
            if not self.live[row]:
                removed[self.stems[row]] += 1
        written = np.array([[rng.randint(0, 3), 3] for _ in range(STEMS)], np.int64)
        self.capital = [2 * upper > every for upper, every in written.tolist()]
        self.index = Index(
            lists_of(scans, rng), np.array(rows_of, np.int32), scan_of, void,
            lists_of(self.subjects, rng), lists_of(self.stems, rng, True), removed, written,
        )  # fmt: skip
        self.rule = Reach(
            rng.choice([2.0, 4.5, 50.0]),
            rng.choice([1.0, 4.5, 50.0]),
            0.5,
            1.0,
            0.5,
            0.5,
            0.75,
            0.15,
            2,
        )
        self.asked = sorted(rng.sample(range(CONCEPTS), 2))
        self.asked_stems = sorted(rng.sample(range(STEMS), 2))
        self.allowed = np.array([live and rng.random() < 0.8 for live in self.live], np.uint8)
        more = some(CONCEPTS, 0.2)
        self.given = [sorted({*a, *b}) for a, b in zip(self.subjects, more, strict=True)]
        self.given_lists = lists_of(self.given, rng)
        self.sums, self.places = np.zeros(ROWS + 3), np.zeros(ROWS + 3)

    def options(self) -> tuple[Any, ...]:
        asked = np.array(self.asked, np.uint32), np.array(self.asked_stems, np.uint32)
        return (*asked, self.allowed, self.sums)

    def ways(self, row: int) -> dict[tuple[str, int], float]:
        out, specific = {}, 0
        for c in self.mentions[row] if self.live[row] else ():
            df = sum(
                live and c in held for live, held in zip(self.live, self.mentions, strict=True)
            )
            specific += df <= self.rule.hub
            if c not in self.asked and df <= self.rule.most:
                out["concept", c] = df**-0.5
        rich = self.live[row] and self.subjects[row] and specific >= self.rule.rich
        for s in self.stems[row]:
            df = sum(live and s in held for live, held in zip(self.live, self.stems, strict=True))
            if s not in self.asked_stems and 2 <= df <= self.rule.most:
                factor = self.rule.stem
                if rich:
                    factor = self.rule.capital_stem if self.capital[s] else self.rule.plain_stem
                out["stem", s] = factor * df**-0.5
        return out

    def shares(self, source: int, row: int) -> dict[tuple[str, int], float]:
        out = {}
        for (kind, name), weight in self.ways(source).items():
            factor = self.rule.mention * (
                name in (self.stems if kind == "stem" else self.mentions)[row]
            )
            factor += self.rule.subject * (kind == "concept" and name in self.subjects[row])
            if factor:
                out[kind, name] = weight * factor
        return out

    def likeness(self, source: int) -> dict[int, float]:
        out = {}
        for row in range(ROWS):
            total = sum(self.shares(source, row).values())
            if total and row != source and self.allowed[row]:
                out[row] = total / (total + self.rule.saturation)
        return out

    def clean(self) -> bool:
        return not self.sums.any() and not self.places.any()


def rows_where(mask: Any) -> list[int]:
    return [int(row) for row in np.flatnonzero(mask)]


@given(seeds)
def test_reach_and_strongest(seed: int) -> None:
    world = World(seed)
    sources = [row for row in range(ROWS) if world.live[row]]
    _, rows, values, ptr = kernels.reach(
        world.index, world.rule, np.array(sources, np.int64), *world.options()
    )
    assert world.clean()
    for n, source in enumerate(sources):
        some = slice(ptr[n], ptr[n + 1])
        found = dict(zip(rows[some].tolist(), values[some].tolist(), strict=True))
        assert found == pytest.approx(world.likeness(source), abs=1e-12)
        pairs = np.full(len(sources), source, np.int64), np.array(sources, np.int64)
        ids, shares, cuts, are_stems = kernels.strongest(
            world.index, world.rule, *pairs, *world.options()[:2], 2
        )
        for place, row in enumerate(sources):
            every = world.shares(source, row)
            kinds = [kind for kind, _ in every]
            main = "concept" if "concept" in kinds else "stem"
            assert are_stems[place] == ("stem" in kinds and main == "stem")
            want = {c: w for (kind, c), w in every.items() if kind == main}
            least = sorted(want.values(), reverse=True)[:2][-1:]
            want = {c: w for c, w in want.items() if w >= least[0] - 1e-15}
            some = slice(cuts[place], cuts[place + 1])
            got = dict(zip(ids[some].tolist(), shares[some].tolist(), strict=True))
            assert got == pytest.approx(want)


@given(seeds)
def test_mentioned_and_about(seed: int) -> None:
    world = World(seed)
    rows, asked = np.arange(ROWS), world.options()[0]
    there = np.empty((ROWS, 2), np.bool_)
    kernels.mentioned(world.index, rows, asked, there)
    for row in range(ROWS):
        held = [world.live[row] and c in world.mentions[row] for c in world.asked]
        assert there[row].tolist() == held
    out, idf = np.empty((ROWS, 2)), np.array([1.5, 2.5])
    kernels.about(world.index.subjects, rows, asked, idf, out)
    for row in range(ROWS):
        about = [w if c in world.subjects[row] else 0.0 for c, w in zip(asked, idf, strict=True)]
        assert out[row].tolist() == about


@given(seeds)
def test_cross(seed: int) -> None:
    world = World(seed)
    rng = np.random.default_rng(seed)
    sources = rows_where(world.allowed)[:4]
    reached = kernels.reach(world.index, world.rule, np.array(sources, np.int64), *world.options())
    rows = np.union1d(sources, reached.rows).astype(np.int64)
    words = rng.integers(0, 3, (len(rows), 3)) / 2
    worth = rng.integers(1, 9, len(sources)) / 8
    best, source = np.zeros(len(rows)), np.full(len(rows), -1, np.int64)
    kernels.cross(
        rows, words, rows.searchsorted(sources), worth, reached, 0.3, world.places, best,
        source,
    )  # fmt: skip
    assert world.clean()
    for at, row in enumerate(rows.tolist()):
        ways = {}
        for n, h in enumerate(sources):
            own = words[rows.searchsorted(h)]
            gap = sum(w for w, mine in zip(words[at], own, strict=True) if not mine)
            ways[n] = worth[n] * world.likeness(h).get(row, 0.0) * (0.3 + gap)
        top = max(ways.values(), default=0.0)
        assert best[at] == pytest.approx(top)
        assert ways[source[at]] == pytest.approx(top) if top else source[at] == -1


@given(st.lists(st.integers(0, 3000), max_size=400), st.sets(st.integers(0, 3000), max_size=40))
def test_absent_and_merge_board(rows: list[int], known: set[int]) -> None:
    old = np.array(sorted(known), np.int64)
    marks = np.zeros(3001)
    new = board.absent(np.array(rows, np.int64), old, marks)
    assert not marks.any()
    assert new.tolist() == sorted(set(rows) - known)
    size = len(old) + len(new)
    out = np.empty(size, np.int64), np.empty((size, 2)), np.empty((3, size))

    def columns(rows: Any) -> tuple[Any, Any]:
        return np.stack([rows, 2.0 * rows], axis=1), np.stack([rows * f for f in (3.0, 4.0, 5.0)])

    board.merge_board(old, *columns(old), new, *columns(new), *out)
    assert out[0].tolist() == sorted(set(rows) | known)
    for made, wanted in zip(out[1:], columns(out[0]), strict=True):
        assert (made == wanted).all()


@given(st.lists(numbers, max_size=60), st.integers(0, 70))
def test_first_places(scores: list[float], n: int) -> None:
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    assert board.first_places(np.array(scores), n).tolist() == order[:n]


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 50))
def test_first_allowed(allowed: list[bool], n: int) -> None:
    mask = np.array(allowed, np.uint8)
    assert board.first_allowed(mask, n).tolist() == rows_where(mask)[:n]


@given(
    st.lists(st.lists(numbers, min_size=5, max_size=5), max_size=20),
    st.floats(0.0, 4.0),
    st.floats(0.0, 4.0),
)
def test_explained(rows: list[list[float]], weight: float, both: float) -> None:
    table, idf = np.array(rows).reshape(len(rows), 5), np.array([1.0, 2.0, 4.0, 8.0])
    words, cosines = table[:, :4], table[:, 4].copy()
    found = board.explained(words, idf, 20.0, cosines, weight, both)
    held = [sum(w for w, word in zip(idf, row, strict=False) if word) / 20.0 for row in rows]
    alone = board.explained(words, idf, 20.0, np.zeros(len(rows)), weight, both)
    assert alone.best == max(held, default=0.0)  # without vectors: the largest share
    assert found.words == max((sum(map(bool, row[:4])) for row in rows), default=0)
    pairs = [(share, row[4]) for share, row in zip(held, rows, strict=True)]
    sums = [share + weight * c - both * share * c for share, c in pairs]
    assert found.best == pytest.approx(max([0.0, *sums]))


def first_of(values: dict[int, float]) -> int:
    return min(values, key=lambda i: (-round(values[i], 12), i))


@given(seeds, st.integers(0, 12), st.integers(1, 6))
def test_spread_places(seed: int, m: int, many: int) -> None:
    rng = np.random.default_rng(seed)
    words, subjects = rng.integers(0, 3, (m, 4)) / 4, rng.integers(0, 2, (m, 2)) / 2
    scores = np.sort(rng.integers(0, 9, m) / 4)[::-1].copy()
    taken: list[int] = []
    while len(taken) < min(many, m):
        values = {}
        for i in set(range(m)) - set(taken):
            loss = sum(0.5 * words[i, t] for t in range(4) if words[taken, t].any())
            loss += sum(0.4 * subjects[i, q] for q in range(2) if subjects[taken, q].any())
            values[i] = scores[i] - loss
        taken.append(first_of(values))
    assert board.spread_places(words, subjects, scores, many, 0.5, 0.4).tolist() == taken


@given(seeds, st.integers(1, 6))
def test_cover(seed: int, many: int) -> None:
    world = World(seed)
    rng = np.random.default_rng(seed)
    pool = rng.permutation(rows_where(world.allowed)).astype(np.int64)
    m = len(pool)
    words, scores = rng.integers(0, 3, (m, 4)) / 4, np.sort(rng.random(m))[::-1].copy()
    worth, about = rng.random(m), rng.integers(0, 2, (m, 2)) * 0.7
    pick = Pick(many, 0.3, 0.5, 0.4, 1.1, 2.0, 0.6)
    named = np.array(world.asked, np.uint32)
    seeds = np.array([row for row in pool if rng.random() < 0.5], np.int64)
    known = kernels.reach(world.index, world.rule, seeds, *world.options())
    asked, asked_stems, allowed, sums = world.options()
    picks, sources = kernels.cover(
        world.index, world.rule, pick, pool, words, scores, worth, about, named, asked, asked_stems,
        known, allowed, sums, world.places,
    )  # fmt: skip
    assert world.clean()
    mine: list[int] = [0] if m else []
    for _ in range(1, min(many, m)):
        best: dict[int, tuple[float, int]] = {}
        values = {}
        for i in set(range(m)) - set(mine):
            ways = [(worth[h] * world.likeness(pool[h]).get(pool[i], 0.0), -n, h)
                    for n, h in enumerate(mine)]  # fmt: skip
            way, _, h = max(ways)
            best[i] = way, h if way else -1
            held = words[mine].any(axis=0)
            alike = [h for h in mine if set(world.subjects[pool[h]]) & set(world.subjects[pool[i]])]
            value = scores[i] - 0.5 * 0.4 * words[i, held].sum()
            value -= 0.5 * 1.1 * words[i, words[alike].any(axis=0)].sum()
            value += 2.0 * way * (0.3 + words[i, ~held].sum())
            seen = {c for h in mine for c in world.mentions[pool[h]]}
            open_ = [w for c, w in zip(world.asked, about[i], strict=True) if c not in seen]
            values[i] = value + 0.6 * math.fsum(open_)
        mine.append(first_of(values))
        got = sources[len(mine) - 1]
        want, at = best[mine[-1]]
        assert (got == -1) == (at == -1)
        if at >= 0:
            again = worth[got] * world.likeness(pool[got]).get(pool[mine[-1]], 0.0)
            assert again == pytest.approx(want)
    assert picks.tolist() == mine[:many]


@given(seeds)
def test_carried_concepts(seed: int) -> None:
    world = World(seed)
    ids = world.rng.sample(range(CONCEPTS + 2), 4)
    idf = [world.rng.randint(1, 8) / 4 for _ in ids]
    held = [
        [c in world.given[row] and c not in world.subjects[row] for c in ids] for row in range(ROWS)
    ]
    lists, about = world.given_lists, world.index.subjects
    named, weights = np.array(ids, np.uint32), np.array(idf)
    out = np.empty((ROWS, len(ids)))
    kernels.carried(lists, about, np.arange(ROWS), named, weights, out)
    assert out.tolist() == [
        [weight * there for weight, there in zip(idf, row, strict=True)] for row in held
    ]
    there = [any(world.allowed[row] and held[row][n] for row in range(ROWS)) for n in range(4)]
    assert kernels.given(lists, about, world.allowed, named).tolist() == there


@given(seeds)
def test_titled(seed: int) -> None:
    world = World(seed)
    rows = world.rng.sample(range(ROWS), 6)
    df = [
        sum(live and c in row for live, row in zip(world.live, world.mentions, strict=True))
        for c in range(CONCEPTS)
    ]
    want = sum(any(df[c] <= world.rule.hub for c in world.subjects[row]) for row in rows)
    assert kernels.titled(world.index, world.rule, np.array(rows, np.int64)) == want
