from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import fastassoc as fa
from fastassoc.columns import SMALL, ArrowColumn, Growable, places_in

parts = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, SMALL, 2 * SMALL, 4096]), st.sampled_from("nla")),
    max_size=6,
)


@given(parts, st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_column_equals_a_list(made: list[tuple[int, str]], seed: int) -> None:
    column, plain = ArrowColumn(pa.string()), []
    for number, (count, kind) in enumerate(made):
        values = [None if kind == "n" else f"{number} {n % 7}é" for n in range(count)]
        given_values = {"n": None, "l": values, "a": pa.array(values, pa.string())}[kind]
        column.append(given_values, count)
        plain += values
    assert len(column) == len(plain)
    assert column.to_arrow(0, len(plain)).to_pylist() == plain
    assert column.all_null == (set(plain) <= {None})
    rng = np.random.default_rng(seed)
    for size in (0, 5, SMALL - 1, SMALL, 3000):
        rows = np.sort(rng.integers(0, len(plain), size if plain else 0)).astype(np.int32)
        assert column.take(rows) == [plain[row] for row in rows]


def test_many_texts_that_begin_alike_come_in_order() -> None:
    texts = [f"alice: {n * 37 % 700 // 2}{'é' * (n % 3)}" for n in range(700)]
    with fa.Memory() as mem:
        for start in range(0, 700, 350):
            rows = [
                {"text": t, "id": t + "#" + str(n), "concepts": ["talk"]}
                for n, t in enumerate(texts[start : start + 350], start)
            ]
            mem.write_batch(rows)
        expected = sorted(range(700), key=lambda n: (texts[n], -n), reverse=True)
        for k in (1, 10, 400):
            found = mem.read(concepts=["talk"], k=k)
            assert [hit.text for hit in found] == [texts[n] for n in expected[:k]]
            assert [hit.id for hit in found] == [f"{texts[n]}#{n}" for n in expected[:k]]


def test_a_column_taken_whole_is_never_written_to() -> None:
    column, given_values = Growable(np.int64), np.arange(3)
    given_values.flags.writeable = False
    column.replace(given_values)
    column.append(np.empty(0, np.int64))
    assert column.array.tolist() == [0, 1, 2]
    column.append(np.array([7]))
    assert (column.array.tolist(), given_values.tolist()) == ([0, 1, 2, 7], [0, 1, 2])


@given(st.sets(st.integers(-9, 9)), st.lists(st.integers(-12, 12)))
def test_values_are_found_in_an_ascending_column(held: set[int], wanted: list[int]) -> None:
    column = np.array(sorted(held), np.int64)
    at, known = places_in(column, wanted)
    assert known.tolist() == [value in held for value in wanted]
    assert column[at[known]].tolist() == [value for value in wanted if value in held]
