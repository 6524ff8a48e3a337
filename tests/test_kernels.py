"""Kernels that no other file tests by themselves, each against a few lines of dicts and loops."""

from __future__ import annotations

import math
from typing import Any

import naive_text
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastassoc.kernels import links as kernels
from fastassoc.kernels import packed as packing
from fastassoc.kernels import staged
from fastassoc.kernels.notes import hashes, prefixes

GONE = -1
Run = dict[int, tuple[float, ...]]  # key -> weight, written, valence, count, created, updated

ids = st.integers(0, 6) | st.integers(2**32 - 3, 2**32 - 1)
keys = st.tuples(ids, ids).map(lambda pair: pair[0] << 32 | pair[1])
numbers = st.integers(-64, 64).map(lambda number: number / 8)
times = st.integers(0, 50)


def runs(counts: st.SearchStrategy[int], size: int = 12) -> st.SearchStrategy[Run]:
    states = st.tuples(numbers, numbers, numbers, counts, times, times)
    return st.dictionaries(keys, states, max_size=size).map(lambda run: dict(sorted(run.items())))


live, mixed = runs(st.integers(0, 3)), runs(st.integers(GONE, 3))


def arrays(run: Run, room: int = 0) -> tuple[Any, Any, Any]:
    n = len(run) + room
    out = np.zeros(n, np.uint64), np.zeros((n, 3)), np.zeros((n, 3), np.int64)
    for place, (key, state) in enumerate(run.items()):
        out[0][place], out[1][place], out[2][place] = key, state[:3], state[3:]
    return out


def entries(run: tuple[Any, Any, Any], used: int) -> list[tuple[int, tuple[float, ...]]]:
    """The first entries in their order: a run must come out sorted."""
    rows = zip(run[0][:used].tolist(), run[1].tolist(), run[2].tolist(), strict=False)
    return [(key, (*reals, *ints)) for key, reals, ints in rows]


def items(run: Run) -> list[tuple[int, tuple[float, ...]]]:
    return sorted(run.items())


@given(new=mixed, old=mixed)
def test_merge(new: Run, old: Run) -> None:
    for drop in (False, True):
        out = arrays({}, len(new) + len(old))
        used = kernels.merge(*arrays(new), *arrays(old), drop, *out)
        both = {key: state for key, state in {**old, **new}.items() if not drop or state[3] >= 0}
        assert entries(out, used) == items(both)


@given(new=mixed, old=mixed, drop=st.booleans())
def test_merge_codes(new: Run, old: Run, drop: bool) -> None:
    if drop:
        old = {key: state for key, state in old.items() if state[3] >= 0}
    states: list[tuple[float, ...]] = [*new.values(), *old.values()]
    place = {state: at for at, state in enumerate(states)}
    codes = [np.array([place[s] << 32 | 7 for s in run.values()], np.uint64) for run in (new, old)]
    ints = np.array([state[3:] for state in states], np.int64).reshape(-1, 3)
    room = len(states)
    keys_out, codes_out = np.empty(room, np.uint64), np.empty(room, np.uint64)
    used = packing.merge_codes(
        arrays(new)[0], codes[0], ints, arrays(old)[0], codes[1], keys_out, codes_out, drop
    )
    left = {key: s for key, s in {**old, **new}.items() if not drop or s[3] >= 0}
    found = zip(keys_out[:used].tolist(), codes_out[:used].tolist(), strict=True)
    assert list(found) == [(key, place[state] << 32 | 7) for key, state in items(left)]


@given(
    rows=st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=40),
    held=st.sets(st.tuples(*[st.integers(0, 2)] * 3), max_size=5),
    room=st.integers(0, 8),
)
def test_index_rows_and_intern(
    rows: list[tuple[int, ...]], held: set[tuple[int, ...]], room: int
) -> None:
    table = [*sorted(held)]
    out = np.zeros((len(held) + room, 3), np.uint64)
    out[: len(held)] = np.array(table, np.uint64).reshape(-1, 3)
    slots = np.zeros(32, np.int32)
    packing.index_rows(out, len(held), slots)
    codes = np.empty(len(rows), np.uint32)
    bits = np.array(rows, np.uint64).reshape(-1, 3)
    stopped, used = packing.intern(bits, 0, out, len(held), slots, codes)
    for at, row in enumerate(rows):
        if row not in table:
            if len(table) == len(out):
                assert stopped == at
                break
            table.append(row)
        assert codes[at] == table.index(row)
    else:
        assert stopped == len(rows)
    assert out[:used].tolist() == [list(row) for row in table]


@given(new=mixed, old=mixed)
def test_merge_sides(new: Run, old: Run) -> None:
    def side(run: Run) -> tuple[Any, Any, Any]:
        run_keys, reals, ints = arrays(run)
        return run_keys, reals[:, 0].copy(), ints[:, 2].copy()

    n = len(new) + len(old)
    out = np.zeros(n, np.uint64), np.zeros(n), np.zeros(n, np.int64)
    used = kernels.merge_sides(*side(new), *side(old), *out)
    got = list(zip(*(column[:used].tolist() for column in out), strict=True))
    assert got == [(key, state[0], state[5]) for key, state in items({**old, **new})]


@given(run=mixed, sought=st.lists(keys, max_size=12))
def test_locate(run: Run, sought: list[int]) -> None:
    out = np.zeros(len(sought), np.int64)
    kernels.locate(np.array(sought, np.uint64), arrays(run)[0], out)
    places = list(run)
    assert out.tolist() == [places.index(key) if key in run else -1 for key in sought]


@given(
    table=st.lists(keys, unique=True, max_size=12),
    delta=mixed,
    base=live,
    sought=st.lists(keys, max_size=12),
)
def test_rehash_and_find_link(table: list[int], delta: Run, base: Run, sought: list[int]) -> None:
    slots = np.zeros(16, np.int64)
    table_keys = np.array(table, np.uint64)
    staged.rehash(table_keys, len(table), slots)
    assert sorted(slots[slots > 0].tolist()) == list(range(1, len(table) + 1))

    def find(key: int) -> tuple[int, int]:
        for level, run in enumerate((table, list(delta), list(base))):
            if key in run:
                return level, run.index(key)
        return -1, -1

    for key in [*sought, *table, *delta, *base]:
        got = staged.find_link(np.uint64(key), slots, table_keys, arrays(delta)[0], arrays(base)[0])
        assert tuple(got) == find(key)


@given(given_keys=st.lists(st.integers(0, 9), max_size=20).map(sorted), run=mixed)
def test_spread_and_resolve(given_keys: list[int], run: Run) -> None:
    starts = np.empty(len(given_keys) + 1, np.int64)
    keys_out, codes = np.empty((2, len(given_keys)), np.uint64)
    used = staged.spread(np.array(given_keys, np.uint64), starts, keys_out, codes)
    distinct = list(dict.fromkeys(given_keys))
    assert keys_out[:used].tolist() == distinct
    if used:
        assert starts[: used + 1].tolist() == [*map(given_keys.index, distinct), len(given_keys)]
    codes[1:used:3] = 77  # these are known
    run_codes = np.arange(len(run), dtype=np.uint64)
    staged.resolve(keys_out[:used], codes[:used], arrays(run)[0], run_codes)
    places, unknown = list(run), int(staged.UNKNOWN)
    assert codes[:used].tolist() == [
        77 if place % 3 == 1 else places.index(key) if key in run else unknown
        for place, key in enumerate(distinct)
    ]


@given(links=st.lists(st.tuples(numbers, times), max_size=9), now=times)
def test_effective_all(links: list[tuple[float, int]], now: int) -> None:
    for tau in (math.inf, 20.0):
        weights = np.array([weight for weight, _ in links])
        kernels.effective_all(weights, np.array([at for _, at in links], np.int64), now, tau)
        want = [weight * math.exp(-max(0, now - at) / tau) for weight, at in links]
        np.testing.assert_allclose(weights, want, rtol=1e-15)


@given(
    links=st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] < pair[1]),
        st.tuples(numbers, times),
        max_size=15,
    ),
    threshold=numbers,
    size=st.integers(1, 3),
)
def test_fill_rows_and_fill_heads(
    links: dict[tuple[int, int], tuple[float, int]], threshold: float, size: int
) -> None:
    run = arrays({a << 32 | b: (w, 0, 0, 1, 0, t) for (a, b), (w, t) in sorted(links.items())})
    codes = np.repeat(np.arange(len(links), dtype=np.uint32), 2).reshape(-1, 2)
    strong, every = np.zeros(6, np.int64), np.zeros(6, np.int64)
    kernels.count_rows(run[0], codes, run[1], threshold, strong, every)
    indptr = np.concatenate([[0], np.cumsum(every)])
    middle = indptr[:-1] + strong
    cols, weights = np.zeros(indptr[-1], np.uint32), np.zeros(indptr[-1])
    stamps = np.zeros(indptr[-1], np.int64)
    places = indptr[:-1].copy(), middle.copy()
    kernels.fill_rows(run[0], codes, *run[1:], threshold, *places, cols, weights, stamps)
    many = []
    for row in range(6):
        around = {a + b - row: link for (a, b), link in links.items() if row in (a, b)}
        weak_last = sorted(around.items(), key=lambda one: (one[1][0] < threshold, one[0]))
        part = slice(indptr[row], indptr[row + 1])
        got = zip(cols[part].tolist(), weights[part].tolist(), stamps[part].tolist(), strict=True)
        assert list(got) == [(col, weight, stamp) for col, (weight, stamp) in weak_last]
        best = sorted((-w, col) for col, (w, _) in around.items() if w >= threshold)[:size]
        if strong[row] > size:
            many.append((row, {(col, -weight) for weight, col in best}))
    heads = np.zeros((len(many), size), np.uint32), np.zeros((len(many), size))
    scratch = np.zeros(6, np.uint32), np.zeros(6)
    rows = np.array([row for row, _ in many], np.int64)
    kernels.fill_heads(rows, indptr, middle, cols, weights, *scratch, *heads)
    for (_, want), found, heavy in zip(many, heads[0].tolist(), heads[1].tolist(), strict=True):
        assert set(zip(found, heavy, strict=True)) == want


@given(texts=st.lists(st.binary(max_size=30), max_size=8))
def test_hashes(texts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    out = np.zeros(len(texts), np.uint64)
    hashes(offsets, np.frombuffer(b"".join(texts), np.uint8), out)
    assert out.tolist() == list(map(naive_text.hash_of, texts))


@given(texts=st.lists(st.binary(max_size=11), max_size=8))
def test_prefixes(texts: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    out = np.zeros(len(texts), np.uint64)
    prefixes(offsets, np.frombuffer(b"".join(texts), np.uint8), out)
    assert out.tolist() == [int.from_bytes(text[:8].ljust(8, b"\0"), "big") for text in texts]
