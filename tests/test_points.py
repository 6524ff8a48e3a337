"""Points against their slow twin: exact answers, ties, masks, bits, views, maps, refusals."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_vectors import NaivePoints, cosine, square

from fastassoc.errors import InvalidInput
from fastassoc.kernels import vectors as kernels
from fastassoc.points import Points

SCALES = [1e-45, 1e-38, 1e-30, 1.0, 1e15, 1e30]  # from denormal to all but infinite
WIDTHS = [1, 2, 3, 15, 16, 17, 100, 128, 130, 384]
CLOSE = 1e-13

seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=60, deadline=None)


def points_in(rng, n, dim, kind):
    """Vectors of one kind, float32[n, dim], none of them zero."""
    if kind == "random":
        out = rng.standard_normal((n, dim))
    elif kind == "ties":  # few directions, so that most are equal to many others
        out = rng.integers(-1, 2, (4, dim))[rng.integers(0, 4, n)].astype(float)
    elif kind == "near":  # one direction with noise at the edge of float32
        out = np.ones(dim) + 1e-7 * rng.integers(-3, 4, (n, dim))
    else:
        out = rng.integers(1, 100, (n, dim)) * rng.choice(SCALES, (n, 1))
    out = out.astype(np.float32)
    out[~out.any(axis=1), 0] = 1.0
    return out


kinds = st.sampled_from(["random", "ties", "near", "scales"])


def check_nearest(rows, values, expected_all, k):
    """Exact: our own order is total, and no row that the twin puts higher is missing."""
    truth = dict(expected_all)
    assert len(rows) == min(k, len(truth))
    for row, value in zip(rows.tolist(), values.tolist(), strict=True):
        assert abs(value - truth[row]) <= CLOSE
    order = list(zip((-values).tolist(), rows.tolist(), strict=True))
    assert order == sorted(order)
    left = [value for row, value in truth.items() if row not in set(rows.tolist())]
    if left and len(rows):
        assert values[-1] >= max(left) - CLOSE


def in_parts(rows, vectors, cuts, tmp_path=None):
    """Points whose first part is a base (mapped with a folder), and the rest appended."""
    start, *more = [*cuts, len(rows)]
    if tmp_path is None:
        points = Points.restored(rows[:start], vectors[:start])
    else:
        file = tmp_path / "base.npy"
        np.save(file, vectors[:start])
        points = Points.restored(rows[:start], np.load(file, mmap_mode="r"))
    for stop in more:
        points.append(rows[start:stop], vectors[start:stop])
        start = stop
    return points


@quick
@given(seeds, kinds, st.sampled_from(WIDTHS), st.integers(0, 40), st.data())
def test_nearest_is_that_of_the_twin(seed, kind, dim, n, data):
    rng = np.random.default_rng(seed)
    vectors = points_in(rng, n, dim, kind)
    rows = np.sort(rng.choice(3 * n + 1, n, replace=False)).astype(np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), min_size=1, max_size=3)))
    points = in_parts(rows, vectors, cuts)
    naive = NaivePoints()
    naive.append(rows, vectors)
    query = points_in(rng, 1, dim, kind)[0]
    share = data.draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    allowed = (rng.random(3 * n + 1) < share).astype(np.uint8)
    allowed = allowed[: data.draw(st.integers(0, len(allowed)))]
    k = data.draw(st.integers(1, 50))
    among = None
    if data.draw(st.booleans()):
        among = rng.integers(0, n, rng.integers(0, 2 * n)) if n else np.empty(0, np.int64)
    view = points.view()
    found, values = view.nearest(query, k, allowed, among)
    assert found.dtype == np.int64
    assert values.dtype == np.float64
    everything = naive.nearest(query, 10**9, allowed, among)
    check_nearest(found, values, everything, k)
    ours = view.similarities(query, np.arange(3 * n + 2))
    np.testing.assert_allclose(
        ours, naive.similarities(query, range(3 * n + 2)), rtol=0, atol=CLOSE
    )
    # the same bits wherever they come from, and exactly the best by them
    assert values.tobytes() == ours[found].tobytes()
    exact = sorted((-ours[row], row) for row, _ in everything)[:k]
    assert exact == list(zip((-values).tolist(), found.tolist(), strict=True))


@pytest.mark.parametrize("scale", SCALES)
def test_equal_vectors_come_by_row(scale):
    points = Points()
    vectors = np.full((100, 384), scale, np.float32)
    points.append(np.arange(0, 200, 2), vectors)
    allowed = np.ones(200, np.uint8)
    allowed[10] = 0
    found, values = points.view().nearest(vectors[0] * np.float32(2), 7, allowed)
    assert found.tolist() == [0, 2, 4, 6, 8, 12, 14]
    assert values.tolist() == [1.0] * 7  # exactly, whatever the norm
    among = np.array([99, 50, 50, 3, 5])
    found, _ = points.view().nearest(vectors[0], 7, allowed, among)
    assert found.tolist() == [6, 100, 198]  # place 5 is row 10


def test_many_vectors_and_more_than_a_block():
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((3000, 24)).astype(np.float32)
    vectors[rng.integers(0, 3000, 900)] = vectors[7]  # many ties at the top
    points = in_parts(np.arange(3000), vectors, [1000, 1700])
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1)[:, None]
    view = points.view()
    for k in (1, 10, 600, 5000):
        for share in (0.0, 0.001, 0.2, 1.0):
            allowed = (rng.random(3000) < share).astype(np.uint8)
            found, values = view.nearest(vectors[7], k, allowed)
            truth = np.round(wide @ wide[7], 12)
            rows = np.flatnonzero(allowed)
            expected = rows[np.lexsort((rows, -truth[rows]))][:k]
            assert found.tolist() == expected.tolist()
            np.testing.assert_allclose(values, truth[found], rtol=0, atol=1e-11)


def test_alone_or_together_has_the_same_bits():
    rng = np.random.default_rng(1)
    for dim in WIDTHS:
        vectors = points_in(rng, 300, dim, "random")
        view = in_parts(np.arange(300), vectors, [120]).view()
        allowed = np.ones(300, np.uint8)
        for query in vectors[:5]:
            together = view.similarities(query, np.arange(300))
            alone = [view.similarities(query, np.array([row]))[0] for row in range(300)]
            assert together.tolist() == alone
            found, values = view.nearest(query, 300, allowed)
            assert together[found].tolist() == values.tolist()
            few = rng.choice(300, 20, replace=False)
            found, values = view.nearest(query, 20, allowed, few)
            assert together[found].tolist() == values.tolist()
        there = view.similarities(vectors[0], np.array([1]))
        back = view.similarities(vectors[1], np.array([0]))
        assert there.tolist() == back.tolist()


def test_scaling_by_two_changes_nothing():
    rng = np.random.default_rng(2)
    vectors = points_in(rng, 50, 64, "random")
    scaled = vectors * np.float32(2.0) ** rng.integers(-90, 90, (50, 1)).astype(np.float32)
    a, b = Points(), Points()
    a.append(np.arange(50), vectors)
    b.append(np.arange(50), scaled)
    allowed = np.ones(50, np.uint8)
    one = a.view().nearest(vectors[3], 50, allowed)
    two = b.view().nearest(scaled[3], 50, allowed)
    assert one[0].tolist() == two[0].tolist()
    assert one[1].tolist() == two[1].tolist()


def test_huge_norms_do_not_overflow():
    big = np.full((2, 1000), 3e38, np.float32)
    big[1, ::2] *= -1
    points = Points()
    points.append(np.arange(2), big)
    assert points.view().similarities(big[0], np.arange(2)).tolist() == [1.0, 0.0]


def test_mapped_base_and_tail(tmp_path):
    rng = np.random.default_rng(3)
    vectors = points_in(rng, 60, 32, "random")
    points = in_parts(np.arange(60), vectors, [40, 59], tmp_path)
    whole = Points()
    whole.append(np.arange(60), vectors)
    view = points.view()
    assert not view.base.flags.writeable
    mapped = np.load(tmp_path / "base.npy", mmap_mode="r")
    assert np.shares_memory(Points.restored(np.arange(40), mapped).view().base, mapped)
    allowed = np.ones(60, np.uint8)
    for query in vectors[::7]:
        for k in (1, 5, 60):
            mapped = view.nearest(query, k, allowed)
            plain = whole.view().nearest(query, k, allowed)
            assert mapped[0].tolist() == plain[0].tolist()
            assert mapped[1].tolist() == plain[1].tolist()
    # norms learnt in passing are those that an append computes
    assert view.squares.tolist() == whole.view().squares.tolist()
    assert points.nbytes == whole.nbytes == 60 * (32 * 4 + 16)


def test_norms_of_a_base_are_learnt_where_needed():
    vectors = np.eye(4, dtype=np.float32) * 2
    points = Points.restored(np.arange(4), vectors)
    view = points.view()
    view.similarities(vectors[0], np.array([2]))
    assert view.squares.tolist() == [0, 0, 4, 0]
    points.append(np.array([4]), vectors[:1])
    assert points.view().squares.tolist() == [0, 0, 4, 0, 4]


def test_views_stay_as_they_were():
    rng = np.random.default_rng(4)
    vectors = points_in(rng, 200, 8, "random")
    points = Points()
    seen = []
    empty = points.view()
    for start in range(0, 200, 20):
        points.append(np.arange(start, start + 20), vectors[start : start + 20])
        assert points.view() is points.view()
        seen.append(points.view())
    points.replace(np.array([3, 5]), np.ones((2, 3), np.float32))
    assert (points.dim, len(points), points.view().rows.tolist()) == (3, 2, [3, 5])
    points.append(np.array([9]), np.full((1, 3), 2, np.float32))
    assert points.view().nearest(np.ones(3), 9, np.ones(10, np.uint8))[0].tolist() == [3, 5, 9]
    assert (len(empty), empty.dim) == (0, None)
    allowed = np.ones(200, np.uint8)
    for count, view in enumerate(seen, 1):
        n = 20 * count
        assert (len(view), view.dim) == (n, 8)
        assert view.take(np.arange(n))[0].tolist() == vectors[:n].tolist()
        found, _ = view.nearest(vectors[0], 1000, allowed)
        assert sorted(found.tolist()) == list(range(n))
        assert view.nearest(vectors[n - 1], 1, allowed)[0].tolist() == [n - 1]
    for array in (seen[-1].rows, seen[-1].base, seen[-1].tail):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@quick
@given(seeds, st.integers(0, 30), st.integers(0, 30))
def test_vector_and_take(seed, n, cut):
    rng = np.random.default_rng(seed)
    vectors = points_in(rng, n, 5, "random")
    rows = np.sort(rng.choice(2 * n + 1, n, replace=False)).astype(np.int64)
    points = in_parts(rows, vectors, [min(cut, n)])
    table = dict(zip(rows.tolist(), vectors.tolist(), strict=True))
    asked = rng.integers(0, 2 * n + 3, 40)
    taken, found = points.take(asked)
    assert taken.shape == (40, 5 if n else 0)
    for row, vector, is_there in zip(asked.tolist(), taken.tolist(), found, strict=True):
        assert is_there == (row in table)
        assert vector == table.get(row, [0.0] * 5 if n else [])
        one = points.vector(row)
        assert (None if one is None else one.tolist()) == table.get(row)


def test_empty():
    points = Points()
    view = points.view()
    query = np.ones(3, np.float32)
    assert (len(points), points.dim, points.nbytes, points.vector(0)) == (0, None, 0, None)
    assert [len(part) for part in view.nearest(query, 5, np.ones(5, np.uint8))] == [0, 0]
    assert np.isnan(view.similarities(query, np.arange(2))).all()
    assert points.take(np.arange(2))[0].shape == (2, 0)
    points.append(np.empty(0, np.int64), np.empty((0, 7), np.float32))
    assert points.dim is None
    restored = Points.restored(np.empty(0, np.int64), np.empty((0, 7), np.float32))
    assert restored.dim is None
    restored.append(np.array([2]), np.ones((1, 3), np.float32))
    assert restored.view().nearest(query, 5, np.ones(5, np.uint8))[0].tolist() == [2]
    points.replace(np.empty(0, np.int64), np.empty((0, 0), np.float32))
    assert points.dim is None


def test_one_vector_and_nothing_asked_for():
    points = Points()
    points.append(np.array([0]), np.array([[-2.0]], np.float32))
    view = points.view()
    found, values = view.nearest(np.ones(1), 3, np.ones(1, bool))
    assert (found.tolist(), values.tolist()) == ([0], [-1.0])
    for k, allowed, among in [
        (0, [1], None),
        (3, [0], None),
        (3, [], None),
        (3, [1], np.empty(0, np.int64)),
    ]:
        found, values = view.nearest(np.ones(1), k, np.array(allowed, np.uint8), among)
        assert len(found) == len(values) == 0


def test_any_memory_layout():
    rng = np.random.default_rng(6)
    vectors = points_in(rng, 20, 12, "random")
    allowed = np.ones(40, np.uint8)
    plain = Points()
    plain.append(np.arange(20), vectors)
    expected = plain.view().nearest(vectors[0], 9, allowed)
    twice = np.repeat(np.repeat(vectors, 2, axis=0), 2, axis=1)[::2, ::2]
    swapped = vectors.astype(">f4")
    moved = np.frombuffer(b"x" + vectors.tobytes(), np.float32, offset=1).reshape(20, 12)
    for other in (twice, np.asfortranarray(vectors), vectors.astype(np.float64), swapped, moved):
        for way in ("append", "replace", "restored"):
            points = Points()
            if way == "restored":
                points = Points.restored(np.arange(40)[:40:2] // 2, other)
            else:
                getattr(points, way)(np.arange(20, dtype=np.int32), other)
            found = points.view().nearest(other[0], 9, np.ones(80, np.uint8)[::2])
            assert found[0].tolist() == expected[0].tolist()
            assert found[1].tolist() == expected[1].tolist()


BAD = [
    ([1], np.ones((1, 3)), "row 1: expected one after row 4"),
    ([4], np.ones((1, 3)), "after row 4"),
    ([6, 5], np.ones((2, 3)), "ascend"),
    ([5, 5], np.ones((2, 3)), "ascend"),
    ([5], np.ones((1, 4)), "width 4: expected 3"),
    ([5, 6], np.ones((1, 3)), "one row for each"),
    ([5], np.ones(3), "one row for each"),
    ([5, 6], [[1, 1, 1], [0, 0, 0]], "row 6: the vector is zero"),
    ([5, 6], [[1, 1, 1], [1, math.nan, 0]], "row 6"),
    ([5], [[1, math.inf, 0]], "row 5"),
    ([5], [[1e300, 0, 0]], "row 5"),
]


@pytest.mark.parametrize(("rows", "vectors", "message"), BAD)
def test_refused_and_nothing_added(rows, vectors, message):
    points = Points()
    points.append(np.array([2, 4]), np.eye(2, 3, dtype=np.float32))
    view = points.view()
    with pytest.raises(InvalidInput, match=message):
        points.append(np.array(rows), np.array(vectors))
    assert points.view() is view
    assert (len(points), points.dim) == (2, 3)


def test_replace_refuses_and_keeps():
    points = Points()
    points.append(np.array([2, 4]), np.eye(2, 3, dtype=np.float32))
    for rows, vectors in [([1, 0], np.ones((2, 3))), ([0], np.zeros((1, 3))), ([0], np.ones(3))]:
        with pytest.raises(InvalidInput):
            points.replace(np.array(rows), vectors)
    with pytest.raises(InvalidInput):
        Points.restored(np.array([-1]), np.ones((1, 2), np.float32))
    assert points.view().rows.tolist() == [2, 4]


def test_bad_questions():
    points = Points()
    points.append(np.arange(2), np.eye(2, 3, dtype=np.float32))
    view = points.view()
    allowed = np.ones(2, np.uint8)
    for query, message in [
        (np.ones(4), "width 4.*width 3"),
        (np.ones((1, 3)), "shape"),
        (np.zeros(3), "zero"),
        (np.array([1, np.nan, 0]), "NaN"),
        (np.array([np.inf, -np.inf, 0]), "NaN"),
        (np.array([1e300, 0, 0]), "infinite"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            view.nearest(query, 1, allowed)
        with pytest.raises(InvalidInput, match=message):
            view.similarities(query, np.arange(2))
    for among in ([-1, 0], [0, 2]):
        with pytest.raises(InvalidInput, match="place"):
            view.nearest(np.ones(3), 1, allowed, np.array(among))


def test_many_threads_read_one_view():
    rng = np.random.default_rng(7)
    vectors = points_in(rng, 2000, 40, "random")
    allowed = np.ones(2000, np.uint8)
    alone = Points.restored(np.arange(2000), vectors).view()
    expected = [alone.nearest(query, 5, allowed)[1].tolist() for query in vectors[:20]]
    view = Points.restored(np.arange(2000), vectors).view()  # knows no norm yet
    wrong = []

    def read():
        for query, values in zip(vectors[:20], expected, strict=True):
            if view.nearest(query, 5, allowed)[1].tolist() != values:
                wrong.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@quick
@given(seeds, kinds, st.sampled_from(WIDTHS), st.integers(0, 8))
def test_kernels_are_their_twins(seed, kind, dim, n):
    rng = np.random.default_rng(seed)
    vectors = points_in(rng, n, dim, kind)
    query = points_in(rng, 1, dim, kind)[0]
    squares = np.empty(n)
    kernels.squared(vectors, squares)
    np.testing.assert_allclose(squares, [square(v) for v in vectors], rtol=1e-12)
    places = np.append(np.arange(n), -1)
    out = np.empty(n + 1)
    cut = n // 2
    wide = query.astype(np.float64)
    kernels.cosines(wide, vectors[:cut], vectors[cut:], np.zeros(n), places, out)
    assert math.isnan(out[-1])
    np.testing.assert_allclose(out[:-1], [cosine(query, v) for v in vectors], rtol=0, atol=CLOSE)
    best, values = kernels.nearest(
        wide,
        vectors[:cut],
        vectors[cut:],
        squares,
        np.arange(n),
        np.ones(n, np.uint8),
        np.empty(0, np.int64),
        True,
        3,
    )
    check_nearest(best, values, [(i, cosine(query, v)) for i, v in enumerate(vectors)], 3)


@quick
@given(seeds, kinds, st.sampled_from(WIDTHS), st.integers(1, 60), st.integers(1, 70))
def test_sketches_leave_out_none_of_the_nearest(seed, kind, dim, n, k):
    rng = np.random.default_rng(seed)
    vectors = points_in(rng, n, dim, kind)
    vectors[n // 2 :] = vectors[: n - n // 2]  # equal ones, too
    query = points_in(rng, 1, dim, kind)[0].astype(np.float64)
    rows, allowed = np.arange(n), (rng.random(n) < 0.8).astype(np.uint8)
    codes, scales, errors = np.empty((n, dim), np.int8), np.empty(n), np.empty(n)
    kernels.sketch(vectors, codes, scales, errors)
    for vector, code, scale, error in zip(vectors, codes, scales, errors, strict=True):
        wide = vector.astype(np.float64)
        unit = wide / math.sqrt(float(wide @ wide))
        assert math.dist(unit, scale * code) == pytest.approx(error, abs=1e-12)
    table = query, vectors, vectors[:0], np.zeros(n), rows, allowed
    found, values = kernels.nearest_sketched(*table, codes, scales, errors, k)
    want, same = kernels.nearest(*table, rows[:0], True, k)
    assert (found.tolist(), values.tolist()) == (want.tolist(), same.tolist())
    assert set(found) <= set(kernels.likely(query, rows, allowed, codes, scales, errors, k))
    if k >= n:
        assert sorted(found) == np.flatnonzero(allowed).tolist()


def test_sketches_are_taken_on_as_the_table_grows():
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((60, 8)).astype(np.float32)
    points = Points.restored(np.arange(20), vectors[:20])
    early = points.view()
    query, allowed = vectors[7], np.ones(60, np.uint8)
    before = early.nearest(query, 5, allowed)
    points.append(np.arange(20, 60), vectors[20:])
    grown, whole = points.view(), Points.restored(np.arange(60), vectors).view()
    for view, other in (
        (grown, whole),
        (early, Points.restored(np.arange(20), vectors[:20]).view()),
    ):
        for a, b in zip(
            view.nearest(query, 9, allowed), other.nearest(query, 9, allowed), strict=True
        ):
            assert a.tolist() == b.tolist()
    assert before[0].tolist() == early.nearest(query, 5, allowed)[0].tolist()
    points.replace(np.arange(60), -vectors)
    assert points.view().nearest(-query, 9, allowed)[0].tolist() == (
        whole.nearest(query, 9, allowed)[0].tolist()
    )
