"""Tags against their slow twin, to the bits of a read, whatever the batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_vectors import cosine, tags
from test_points import CLOSE, kinds, points_in, seeds

from fastassoc import tagging
from fastassoc.errors import InvalidInput
from fastassoc.kernels.vectors import squared, tag_pairs
from fastassoc.points import Points
from fastassoc.tagging import cosine_tags


@settings(max_examples=80, deadline=None)
@given(
    seeds,
    kinds,
    st.sampled_from([1, 3, 17, 130]),
    st.integers(0, 25),
    st.integers(-1, 27),
    st.integers(0, 30),
    st.sampled_from([-1.0, 0.0, 0.4, 0.9, 1.0]),
)
def test_tags_are_those_of_the_twin(seed, kind, dim, n, first, window, least):
    rng = np.random.default_rng(seed)
    vectors = points_in(rng, n, dim, kind)
    vectors[rng.random(n) < 0.2] = 0  # notes without a vector
    newer, older, values = cosine_tags(vectors, first, window, least)
    assert (newer.dtype, older.dtype, values.dtype) == (np.int64, np.int64, np.float64)
    found = list(zip(newer.tolist(), older.tolist(), strict=True))
    assert found == sorted(set(found))
    # the twin may differ in the last bits just at the threshold
    sure = {(i, j) for i, j, _ in tags(vectors, first, window, least + CLOSE)}
    maybe = {(i, j) for i, j, _ in tags(vectors, first, window, least - CLOSE)}
    assert sure <= set(found) <= maybe
    for (i, j), value in zip(found, values.tolist(), strict=True):
        assert abs(value - cosine(vectors[i], vectors[j])) <= CLOSE
        assert value >= least


def test_same_bits_as_a_read_and_in_any_batches(monkeypatch):
    rng = np.random.default_rng(8)
    vectors = points_in(rng, 120, 48, "random")
    whole = cosine_tags(vectors, 0, 50, 0.1)
    assert len(whole[0]) > 100
    points = Points()
    points.append(np.arange(120), vectors)
    view = points.view()
    for i, j, value in zip(*(part.tolist() for part in whole), strict=True):
        assert view.similarities(vectors[i], np.array([j]))[0] == value
    monkeypatch.setattr(tagging, "PAIRS", 77)  # blocks of one note
    again = cosine_tags(vectors, 0, 50, 0.1)
    parts = []
    for start, stop in [(0, 1), (1, 40), (40, 41), (41, 120)]:
        low = max(0, start - 50)  # a batch brings the notes that it looks back at
        newer, older, values = cosine_tags(vectors[low:stop], start - low, 50, 0.1)
        parts.append((newer + low, older + low, values))
    for at in range(3):
        assert again[at].tolist() == whole[at].tolist()
        assert np.concatenate([part[at] for part in parts]).tolist() == whole[at].tolist()


def test_the_threshold_is_inclusive_and_equal_notes_reach_one():
    scale = np.array([[1], [1], [2.0**100], [2.0**-140]], np.float32)
    vectors = np.array([[3, 4], [1, 0], [3, 4], [3, 4]], np.float32) * scale
    newer, older, values = cosine_tags(vectors, 0, 256, 0.6)
    assert newer.tolist() == [1, 2, 2, 3, 3, 3]
    assert older.tolist() == [0, 0, 1, 0, 1, 2]
    assert values.tolist() == [0.6, 1.0, 0.6, 1.0, 0.6, 1.0]
    assert cosine_tags(vectors, 0, 256, np.nextafter(0.6, 1))[0].tolist() == [2, 3, 3]
    same = np.full((5, 300), 0.1, np.float32)
    assert cosine_tags(same, 3, 2, 1.0)[0].tolist() == [3, 3, 4, 4]


def test_nothing_to_pair():
    one = np.ones((1, 4), np.float32)
    for vectors, first, window in [
        (np.empty((0, 4), np.float32), 0, 9),
        (np.empty((3, 0), np.float32), 0, 9),
        (one, 0, 9),
        (np.ones((3, 4), np.float32), 3, 9),
        (np.ones((3, 4), np.float32), 0, 0),
        (np.zeros((3, 4), np.float32), 0, 9),
    ]:
        assert [len(part) for part in cosine_tags(vectors, first, window, -1.0)] == [0, 0, 0]


def test_layout_does_not_matter_and_bad_input_is_refused():
    rng = np.random.default_rng(9)
    vectors = points_in(rng, 30, 10, "random")
    expected = [part.tolist() for part in cosine_tags(vectors, 0, 30, 0.0)]
    spread = np.repeat(vectors, 2, axis=1)[:, ::2]
    fixed = vectors.copy()
    fixed.flags.writeable = False
    for other in (spread, np.asfortranarray(vectors), fixed):
        assert [part.tolist() for part in cosine_tags(other, 0, 30, 0.0)] == expected
    vectors[4, 2] = np.nan
    with pytest.raises(InvalidInput, match="row 4"):
        cosine_tags(vectors, 0, 30, 0.0)
    with pytest.raises(InvalidInput, match="shape"):
        cosine_tags(vectors[0], 0, 30, 0.0)


def test_kernel_is_its_twin():
    vectors = points_in(np.random.default_rng(10), 12, 20, "random")
    squares = np.empty(12)
    squared(vectors, squares)
    newer, older = np.empty((2, 40), np.int64)
    values = np.empty(40)
    count = tag_pairs(vectors, squares, 4, 12, 5, 0.0, newer, older, values)
    expected = tags(vectors, 4, 5, 0.0)
    assert list(zip(newer[:count], older[:count], strict=True)) == [(i, j) for i, j, _ in expected]
    np.testing.assert_allclose(values[:count], [v for *_, v in expected], rtol=0, atol=CLOSE)
