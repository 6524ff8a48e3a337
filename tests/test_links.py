"""Links against their slow twin: random operations, views that never change, round trips."""

from __future__ import annotations

import math
import random
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_links import NaiveLinks, pairs_of

from fastassoc.errors import InvalidInput
from fastassoc.kernels import links as kernels
from fastassoc.links import LinkMatrix, Sizes, keys_of
from fastassoc.packed import states_apart
from fastassoc.settings import LinkRule

DAY = 86_400_000_000
TINY = Sizes(bulk=4, table=3, staged=8, delta=5, share=1000, head=2)
SIZES = [
    TINY,
    Sizes(),
    Sizes(bulk=1, table=3, staged=30, delta=0, share=1000, head=2),
    Sizes(bulk=1000, table=2, staged=6, delta=8, share=2, head=3),
]
RULES = [
    {},
    {"floor": 0.0, "ceiling": 1.0, "write_step": 0.25, "threshold": 0.3},
    {"floor": None, "threshold": 0.5},
    {"floor": -1.0, "ceiling": 3.0},
    {"ceiling": 1.0, "write_step": 0.2, "threshold": 0.3, "decay_days": 90.0},
    {"floor": None, "decay_days": 1.0, "threshold": -0.5},
]

slow = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
pairs = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda p: p[0] < p[1])
quarters = st.integers(-8, 8).map(lambda n: n / 4)
outcomes = st.one_of(st.just(math.nan), st.sampled_from([-1.0, -0.5, 0.0, 0.3, 1.0]))
times = st.integers(0, 40).map(lambda n: n * DAY)


def changes():
    write = st.tuples(st.just("write"), st.lists(pairs, max_size=9), times, st.booleans())
    unwrite = st.tuples(st.just("unwrite"), st.lists(pairs, max_size=6), times, st.booleans())
    taught = st.lists(st.tuples(pairs, quarters, outcomes), max_size=6)
    teach = st.tuples(st.just("teach"), taught, times)
    ends = st.lists(st.integers(0, 7), max_size=4)
    told = st.tuples(quarters, outcomes, times)
    between = st.tuples(st.just("between"), ends, ends, told, st.booleans())
    unlink = st.tuples(st.just("unlink"), st.lists(pairs, max_size=4), times)
    erase = st.tuples(st.just("erase"), st.lists(pairs, max_size=9))
    erase_of = st.tuples(st.just("erase_of"), st.integers(0, 8))
    view = st.tuples(st.just("view"), st.sampled_from([None, -1.0, 0.0, 0.5, 2.0, 1e9]))
    some = st.one_of(write, write, unwrite, teach, between, unlink, erase, erase_of, view)
    return st.lists(some, max_size=25)


def make(options, sizes=TINY):
    rule = LinkRule(**options)
    twin = NaiveLinks(
        step=rule.write_step,
        floor=rule.floor,
        ceiling=rule.ceiling,
        tau=None if rule.decay_days is None else rule.decay_days * DAY,
    )
    return LinkMatrix(rule, 0.3, _sizes=sizes), twin


def keys(some):
    a, b = [p[0] for p in some], [p[1] for p in some]
    return keys_of(a, b) if some else np.empty(0, np.uint64)


def steps_for(some):
    return [(1 + (3 * a + b) % 4) / 4 for a, b in some]


def apply(links, op):
    """One drawn change on either the matrix or the twin."""
    to = list if isinstance(links, NaiveLinks) else keys
    kind, what, *rest = op
    if kind == "erase":
        return tuple(links.erase(to(what)))
    if kind == "erase_of":
        return tuple(links.erase(links.of(what)))
    if kind in ("write", "unwrite"):
        at, given_steps = rest
        steps = steps_for(what) if given_steps else None
        return tuple(getattr(links, kind)(to(what), at, steps))
    if kind == "between":  # by `touch_between` or by `fold`
        return tuple(taught_between(links, what, *rest))
    if kind == "teach":
        some = [p for p, _, _ in what]
        amounts, results = [x for _, x, _ in what], [x for _, _, x in what]
        return tuple(links.teach(to(some), amounts, results, rest[0]))
    return tuple(links.unlink(to(what), rest[0]))


def taught_between(links, some, others, told, create):
    """What the matrix does with its own verb, and the twin pair by pair."""
    amount, outcome, at = told
    if not isinstance(links, NaiveLinks):
        return links.teach_between(some, others, amount, outcome, at, create=create)
    both = {(min(a, b), max(a, b)) for a in some for b in others if a != b}
    meant = sorted(pair for pair in both if create or pair in links.links)
    return links.teach(meant, [amount] * len(meant), [outcome] * len(meant), at)


def rows(table):
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def same_reads(view, twin, now):
    assert view.n_links == len(twin.links) == len(view)
    assert rows(view.columns().to_arrow()) == twin.rows()
    for concept in range(9):
        everything = twin.neighbours(concept, -math.inf, now)
        assert view.degree(concept) == len(everything)
        for cut in (-math.inf, -0.6, 0.0, 0.3, 2.0):
            ids, weights = view.neighbours(concept, min_weight=cut, now=now)
            assert dict(zip(ids.tolist(), weights.tolist(), strict=True)) == twin.neighbours(
                concept, cut, now
            )
            assert ids.tolist() == sorted(ids.tolist())
        found = rows(view.links_of(concept).to_arrow())
        expected = [row for row in twin.rows() if concept in row[:2]]
        assert sorted(found) == expected
    for limit in (0, 1, 3, 100):
        top = view.top(limit, now)
        found = list(zip(top.a.tolist(), top.b.tolist(), strict=True))
        assert found == twin.top(limit, now)


@slow
@given(changes(), st.sampled_from(RULES), st.sampled_from(SIZES), times)
def test_any_sequence_equals_the_twin(ops, options, sizes, now):
    links, twin = make(options, sizes)
    for op in ops:
        if op[0] == "view":
            assert links.view(op[1]).n_links == len(twin.links)
        else:
            assert apply(links, op) == apply(twin, op), op
        assert len(links) == len(twin.links)
    for some in range(9):
        assert links.of(some).tolist() == keys(twin.of(some)).tolist()
    state = {row[:2]: row for row in twin.rows()}
    for a in range(8):
        for b in range(8):
            got = links.get(a, b)
            assert (got and tuple(got)) == state.get((min(a, b), max(a, b)))
    same_reads(links.view(), twin, now)
    same_reads(links.view(1.0), twin, now)
    view = links.view()
    for a in range(8):
        for b in range(a + 1, 8):
            got = view.get(b, a)
            assert (got and tuple(got)) == state.get((a, b))


@slow
@given(
    changes(),
    st.sampled_from(RULES),
    st.sampled_from([None, 0.5, 2.0]),
    st.lists(st.integers(0, 9), max_size=4),
    st.sampled_from([-1.0, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0]),
    st.integers(1, 3),
    st.sampled_from([1.0, 0.5, 0.7, 0.0]),
    st.booleans(),
    st.sampled_from([None, 1, 2, 3, 50]),
    st.none() | st.lists(st.integers(0, 1), max_size=10),
    times,
)
def test_expansion_equals_the_twin(
    ops, options, cut, asked, threshold, hops, hop_factor, product, max_fanout, allowed, now
):
    links, twin = make(options)
    for op in ops:
        if op[0] == "view":
            links.view(op[1])
        else:
            apply(links, op)
            apply(twin, op)
    how = {
        "threshold": threshold,
        "hops": hops,
        "hop_factor": hop_factor,
        "product": product,
        "max_fanout": max_fanout,
        "now": now,
        # an empty mask is one that bars nothing
        "allowed": np.array(allowed, np.uint8) if allowed else None,
    }
    for _ in range(2):  # the second time with the same scratch
        found = links.view(cut).expand(asked, **how)
        strengths, paths = twin.expand(asked, **how)
        assert found.ids.dtype == np.uint32
        assert found.ids.tolist() == list(strengths)
        assert found.strengths.tolist() == list(strengths.values())
        assert {c: found.path(c) for c in found.ids.tolist()} == paths
    with pytest.raises(KeyError):
        found.path(99)


@slow
@given(changes(), changes(), st.sampled_from(RULES))
def test_round_trip_changes_nothing_later(first, second, options):
    links, _ = make(options)
    for op in first:
        if op[0] != "view":
            apply(links, op)
    rule = LinkRule(**options)
    again = LinkMatrix.from_arrow(links.to_arrow(), rule, 0.3, _sizes=SIZES[2])
    assert len(again) == len(links)
    for op in second:
        if op[0] == "view":
            links.view(op[1])
        else:
            assert apply(links, op) == apply(again, op)
    assert links.to_arrow().equals(again.to_arrow())


@slow
@given(changes(), st.sampled_from(RULES), st.integers(1, 7))
def test_states_apart_are_the_same_links(ops, options, size):
    links, _ = make(options)
    for op in ops:
        if op[0] != "view":
            apply(links, op)
    whole = links.to_arrow()
    chunked = pa.concat_tables(
        [whole.slice(at, size) for at in range(0, len(whole), size)] or [whole]
    )
    assert links.captured().cast(whole.schema).equals(whole)
    for table in (states_apart(whole), states_apart(chunked)):
        assert pa.types.is_dictionary(table.schema.field("count").type) or not len(whole)
        assert table.cast(whole.schema).equals(whole)
        again = LinkMatrix.from_arrow(table, LinkRule(**options), 0.3)
        assert again.to_arrow().equals(whole)


@slow
@given(changes(), st.sampled_from(RULES))
def test_old_views_never_change(ops, options):
    links, twin = make(options)
    kept = []
    for op in ops:
        if op[0] == "view":
            view = links.view()
            how = {
                "threshold": 0.25,
                "hops": 2,
                "hop_factor": 0.5,
                "product": False,
                "max_fanout": None,
            }
            kept.append((view, twin.rows(), twin.expand([0, 1], now=DAY, **how), how))
        else:
            apply(links, op)
            apply(twin, op)
    for view, expected, (strengths, paths), how in kept:
        assert rows(view.columns().to_arrow()) == expected
        found = view.expand([0, 1], now=DAY, **how)
        assert dict(zip(found.ids.tolist(), found.strengths.tolist(), strict=True)) == strengths
        assert {c: found.path(c) for c in found.ids.tolist()} == paths


@pytest.fixture(autouse=True)
def _radix_early(monkeypatch):
    monkeypatch.setattr("fastassoc.links.RADIX", 70)


def test_a_reader_keeps_its_view_while_the_writer_goes_on():
    links, _ = make({}, Sizes(bulk=64, table=200, staged=500, delta=50, share=1000, head=2))
    draw = np.random.default_rng(1)
    handed, wrong, done = [], [], threading.Event()

    def fingerprint(view):
        found = view.expand([1, 2, 3], threshold=1.0, hops=2)
        return (
            view.columns().to_arrow(),
            found.ids.tolist(),
            found.strengths.tolist(),
            view.top(5).weight.tolist(),
        )

    def read():
        while not done.is_set() or handed:
            if handed:
                view, expected = handed.pop()
                for _ in range(3):
                    if fingerprint(view) != expected:
                        wrong.append(view)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(150):
        a = draw.integers(0, 60, 20 if i % 3 else 200)
        b = draw.integers(0, 60, len(a))
        links.write(keys_of(a[a != b], b[a != b]), at=i)
        if i % 5 == 0:
            links.unlink(keys_of([1, 2], [2, 3]), at=i)
        view = links.view()
        handed.append((view, fingerprint(view)))
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


@pytest.mark.parametrize("sizes", SIZES)
def test_splits_and_orders_of_a_batch_change_nothing(sizes):
    draw = random.Random(7)
    batch = [tuple(sorted(draw.sample(range(40), 2))) for _ in range(600)]
    whole, _ = make({})
    whole.write(keys(batch), at=9)
    expected = whole.to_arrow()
    for _ in range(4):
        draw.shuffle(batch)
        links, _ = make({}, sizes)
        at = 0
        while at < len(batch):
            size = draw.choice([1, 3, 70, 200])
            links.write(keys(batch[at : at + size]), at=9)
            if draw.random() < 0.3:
                links.view()
            at += size
        assert links.to_arrow().equals(expected)


@slow
@given(st.integers(0, 2**32), st.sampled_from(RULES[:4]))
def test_larger_random_runs_equal_the_twin(seed, options):
    """Enough links for galloping, sorting and bitmaps to be reached."""
    draw = random.Random(seed)
    links, twin = make(options, Sizes(bulk=80, table=90, staged=300, delta=60, share=9, head=8))
    for i in range(12):
        count = draw.choice([1, 30, 100, 300])
        some = [tuple(sorted(draw.sample(range(draw.choice([20, 200])), 2))) for _ in range(count)]
        op = draw.choice(
            [
                ("write", some, i, draw.random() < 0.3),
                ("unwrite", some, i, False),
                ("teach", [(p, draw.choice([-2.0, 1.0, 3.0]), 0.5) for p in some], i),
                ("teach", [(p, 0.75, 0.5) for p in some], i),
                ("erase", some),
            ]
        )
        assert apply(links, op) == apply(twin, op)
        if draw.random() < 0.4:
            links.view()
    view = links.view()
    assert rows(view.columns().to_arrow()) == twin.rows()
    for threshold, hops, fanout in ((1.0, 1, None), (0.5, 3, None), (1.0, 2, 5), (2.0, 1, 3)):
        how = {"threshold": threshold, "hops": hops, "hop_factor": 0.9, "product": False, "now": 0}
        found = view.expand([3, 1, 150], max_fanout=fanout, **how)
        strengths, paths = twin.expand([3, 1, 150], max_fanout=fanout, **how)
        assert dict(zip(found.ids.tolist(), found.strengths.tolist(), strict=True)) == strengths
        assert {c: found.path(c) for c in found.ids.tolist()} == paths


@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 2**32 - 1), max_size=6))
def test_keys_between(some, others):
    others += some[:2]
    found = kernels.keys_between(np.array(some, np.uint32), np.array(others, np.uint32))
    both = {(min(a, b), max(a, b)) for a in some for b in others if a != b}
    assert found.tolist() == sorted(a << 32 | b for a, b in both)


@slow
@given(st.lists(st.lists(st.integers(0, 2**32 - 1), unique=True, max_size=8), max_size=8))
def test_pair_keys_equal_the_twin(notes):
    flat = np.array([c for note in notes for c in note], np.uint32)
    ptr = np.cumsum([0, *map(len, notes)]).astype(np.int64)
    found = kernels.pair_keys(flat, ptr).tolist()
    assert found == [a << 32 | b for a, b in pairs_of(notes)]


@slow
@given(st.lists(st.integers(0, 2**64 - 1)), st.sampled_from([2**64 - 1, 0xFFFF0000FFFF, 1, 0]))
def test_sort_keys_is_stable_and_leaves_its_input(some, mask):
    given_keys = np.array([k & mask for k in some], np.uint64)
    before = given_keys.copy()
    low, high = np.empty((2, len(some)), np.uint64)
    first, second = np.empty((2, len(some)), np.int64)
    found, order = kernels.sort_keys(given_keys, low, high, first, second)
    assert found.tolist() == sorted(before.tolist())
    assert order.tolist() == sorted(range(len(some)), key=lambda i: before[i])
    assert given_keys.tolist() == before.tolist()
    none = np.empty(0, np.int64)
    assert kernels.sort_keys(given_keys, low, high, none, none)[0].tolist() == found.tolist()


@slow
@given(st.integers(0, 400), st.sampled_from([500, 5_000, 100_000]), st.integers(0, 99))
def test_ascending_sorts_ids_and_leaves_the_bitmap_clean(size, ids, seed):
    some = random.Random(seed).sample(range(ids), min(size, ids))
    touched, words = np.array([*some, 7], np.uint32), np.zeros(ids // 64 + 1, np.uint64)
    kernels.ascending(touched, len(some), words)
    assert touched.tolist() == [*sorted(some), 7]
    assert not words.any()


def test_l12_ids_and_counts_beyond_32_bits_of_sign():
    links, _ = make({})
    links.write(keys_of([1 << 31], [(1 << 32) - 1]), at=0)
    assert links.get((1 << 32) - 1, 1 << 31).weight == 1.0
    table = links.to_arrow().set_column(4, "count", pa.array([1 << 40]))
    table = table.set_column(2, "weight", pa.array([float(1 << 40)]))
    again = LinkMatrix.from_arrow(table, LinkRule(), 0.3)
    again.write(keys_of([1 << 31], [(1 << 32) - 1]), at=0)
    link = again.get(1 << 31, (1 << 32) - 1)
    assert (link.count, link.weight) == ((1 << 40) + 1, float((1 << 40) + 1))
    view_arrays = LinkMatrix(LinkRule(), 0.3).view()._args
    assert {array.dtype for array in view_arrays[:2]} == {np.dtype(np.int64)}


def test_the_clamp_applies_to_each_change_in_turn():
    links, _ = make({})
    nan = math.nan
    links.teach(keys([(0, 1), (0, 1), (0, 2), (0, 2)]), [-1.0, 1.0, 1.0, -1.0], [nan] * 4, at=0)
    assert links.get(0, 1).weight == 1.0
    assert links.get(0, 2) is None


@pytest.mark.parametrize("sizes", SIZES)
def test_erased_links_come_back_as_new_ones(sizes):
    links, _ = make({"ceiling": 1.0, "decay_days": 90.0, "threshold": 0.3}, sizes)
    links.teach(keys([(0, 1), (0, 2), (1, 2)]), [0.9] * 3, [1.0] * 3, at=0)
    links.write(keys([(0, 1), (0, 1)]), at=DAY)
    before = links.view()
    assert tuple(links.erase(keys([(0, 1), (0, 1), (3, 4)]))) == (0, 0, 1)
    assert links.get(0, 1) is None
    assert before.get(0, 1).count == 2
    assert links.view().links_of(0).b.tolist() == [2]
    assert links.of(7).size == 0
    links.teach(keys([(0, 1)]), [0.5], [math.nan], at=2 * DAY)
    assert tuple(links.get(0, 1)) == (0, 1, 0.5, 0.0, 0, 0.0, 2 * DAY, 2 * DAY)
    assert len(links) == links.view().n_links == links.to_arrow().num_rows == 3


def test_values_of_the_specification_for_fading_links():
    links, _ = make({"ceiling": 1.0, "decay_days": 90.0, "threshold": 0.3})
    links.teach(keys([(0, 1), (2, 3)]), [0.9, 0.5], [math.nan] * 2, at=0)
    for _ in range(30):
        assert links.view().neighbours(0, now=30 * DAY)[1][0] == pytest.approx(0.644878, abs=1e-6)
    links.teach(keys([(2, 3)]), [0.1], [math.nan], at=360 * DAY)
    assert links.get(2, 3).weight == pytest.approx(0.109158, abs=1e-6)
    assert links.view().neighbours(0, now=-400 * DAY)[1][0] == 0.9  # a clock set back raises none


def test_hop_factor_is_applied_once_a_step():
    links, _ = make({})
    links.write(keys([(0, 1), (1, 2), (2, 3)]), at=0)
    found = links.view().expand([0], threshold=1.0, hops=3, hop_factor=0.5)
    assert found.strengths.tolist() == [1.0, 0.5, 0.25]
    assert found.path(3) == [(0, 1), (1, 2), (2, 3)]


def test_a_view_is_kept_while_nothing_changes():
    links, _ = make({})
    links.write(keys([(0, 1)]), at=0)
    view = links.view()
    assert links.view() is view
    links.write(keys([(0, 1)]), at=0)
    assert links.view() is not view
    assert links.nbytes > 0


def test_l11_a_link_takes_few_bytes_in_memory():
    """Each pair is held once, its state elsewhere: 48 bytes a link at most, the view and all."""
    links, _ = make({})
    rng = np.random.default_rng(1)
    ends = np.unique(np.sort(rng.integers(0, 30_000, (300_000, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] < ends[:, 1]].astype(np.uint64)
    links.write(ends[:, 0] << np.uint64(32) | ends[:, 1], at=0)
    links.view()
    assert links.nbytes <= 48 * len(links)


def test_nothing_in_nothing_out():
    links, _ = make({})
    none = np.empty(0, np.uint64)
    assert tuple(links.write(none, 0)) == (0, 0, 0)
    view = links.view()
    assert view.expand([]).ids.size == 0
    assert view.expand([5]).ids.size == 0
    assert view.neighbours(3)[0].size == 0
    assert (view.degree(3), view.get(1, 2), len(view.top(5).a)) == (0, None, 0)
    assert links.to_arrow().num_rows == 0
    assert len(LinkMatrix.from_arrow(links.to_arrow(), LinkRule(), 0.3)) == 0


def test_read_only_input_and_other_dtypes_are_taken():
    links, _ = make({})
    some = keys([(0, 1), (0, 2)])
    some.flags.writeable = False
    links.write(some, at=0)
    assert links.view().expand(np.array([0], np.int64), threshold=1.0).ids.tolist() == [1, 2]


def test_bad_input_is_refused():
    links, _ = make({})
    with pytest.raises(InvalidInput, match="different ids"):
        keys_of([1], [1])
    with pytest.raises(InvalidInput, match="hops=0"):
        links.view().expand([1], hops=0)
    links.write(keys([(0, 1), (0, 2)]), at=0)
    table = links.to_arrow()
    for bad in (
        table.take([1, 0]),
        table.take([0, 0]),
        table.drop_columns(["count"]),
        table.set_column(4, "count", pa.array([-1, 1])),
        table.set_column(2, "weight", pa.array([math.nan, 1.0])),
        table.set_column(2, "weight", pa.array([None, 1.0], pa.float64())),
    ):
        with pytest.raises(InvalidInput):
            LinkMatrix.from_arrow(bad, LinkRule(), 0.3)


@slow
@given(
    changes(),
    st.sampled_from(RULES),
    st.lists(st.integers(0, 9), max_size=5, unique=True),
    st.sampled_from([-0.25, 0.25, 1.0, 2.0]),
    st.none() | st.lists(st.integers(0, 1), max_size=10),
    times,
)
def test_best_of_equals_the_twin(ops, options, sources, threshold, allowed, now):
    links, twin = make(options)
    for op in ops:
        if op[0] != "view":
            apply(links, op)
            apply(twin, op)
    scores = [float(n % 3) for n in range(len(sources))]
    mask = np.array(allowed, np.uint8) if allowed else None
    for _ in range(2):  # the second time with the same scratch
        ids, best = links.view().best_of(
            sources, scores, threshold=threshold, now=now, allowed=mask
        )
        want = twin.best_of(sources, scores, threshold, now, mask)
        assert dict(zip(ids.tolist(), best.tolist(), strict=True)) == want
        assert ids.tolist() == sorted(want)
