from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import naive_rows
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ingest import Store, ingested

from fastassoc.batch import NOTE_COLUMNS, NoteBatch, vector_array
from fastassoc.errors import InvalidInput
from fastassoc.fields import FIELDS
from fastassoc.ingest import plan
from fastassoc.rows import ContentIds, from_arrow, from_dicts
from fastassoc.settings import Settings
from fastassoc.vectorfield import WIDEST, read_vectors

PLAIN = Settings(extract=False)


def rows_with(*vectors: Any) -> list[dict[str, Any]]:
    return [{"id": str(n), "text": f"t{n}", "vector": one} for n, one in enumerate(vectors)]


def held(batch: NoteBatch) -> dict[str, list[float]]:
    matrix, places = batch.vector_matrix()
    ids = batch.columns["id"].to_pylist()
    return {ids[place]: row for place, row in zip(places.tolist(), matrix.tolist(), strict=True)}


def reason(vector: Any, width: int | None = None) -> str:
    batch, _, rejects = from_dicts(rows_with(vector), PLAIN, None, width)
    assert (len(batch), batch.vectors, len(rejects)) == (0, None, 1)
    long = [*rows_with(vector), *({"id": f"x{n}", "text": "t"} for n in range(40))]
    batch, _, same = from_dicts(long, PLAIN, None, width)
    assert (len(batch), batch.vectors, same) == (40, None, rejects)
    return rejects[0][1]


# -- a batch --------------------------------------------------------------------------------------


def test_a_batch_keeps_its_vectors_as_json_and_as_a_table() -> None:
    vectors = [[1.0, 2.0], None, [3.0, 4.0], [0.5, -1.0]]
    batch = from_dicts(rows_with(*vectors), PLAIN)[0]
    assert batch.dim == 2
    assert batch.nbytes > batch.take([1]).nbytes
    rows = json.loads(json.dumps(batch.to_rows()))
    assert [row.get("vector") for row in rows] == [True, None, True, True]
    data = batch.vector_bytes()
    assert data == np.array([1, 2, 3, 4, 0.5, -1], "<f4").tobytes()
    file = io.BytesIO()
    pq.write_table(batch.to_table(), file)
    for again in (
        NoteBatch.from_rows(rows, data),
        NoteBatch.from_table(batch.to_table()),
        NoteBatch.from_table(pq.read_table(io.BytesIO(file.getvalue()))),
        batch.take([0, 1, 2, 3]),
    ):
        assert again.vectors.equals(batch.vectors)
        assert again.vector_bytes() == data
    assert held(batch.take([3, 1, 0])) == {"3": [0.5, -1.0], "0": [1.0, 2.0]}
    part = NoteBatch.from_table(batch.to_table().slice(1, 2))
    assert held(part) == {"2": [3.0, 4.0]}


def test_a_batch_without_vectors_says_none() -> None:
    batch = from_dicts(rows_with([1.0], None), PLAIN)[0]
    for bare in (batch.take([1]), batch.take([]), from_dicts(rows_with(None, None), PLAIN)[0]):
        assert (bare.vectors, bare.dim, bare.vector_bytes()) == (None, None, None)
        matrix, places = bare.vector_matrix()
        assert (matrix.shape, places.shape) == ((0, 0), (0,))
        assert "vector" not in bare.to_table().column_names
        assert NoteBatch.from_rows(bare.to_rows(), None).vectors is None


@pytest.mark.parametrize("data", [None, b"", b"123", b"1234" * 3])
def test_bytes_that_are_no_whole_vectors(data: bytes | None) -> None:
    rows = from_dicts(rows_with([1.0, 2.0], [3.0, 4.0]), PLAIN)[0].to_rows()
    with pytest.raises(InvalidInput, match="for 2 rows with a vector"):
        NoteBatch.from_rows(rows, data)


def test_tags_travel_with_a_batch_and_no_caller_gives_them() -> None:
    tags = [{"to": 7, "weight": 0.25}]
    rows = [{"id": "a", "text": "t", "tags": tags}, {"id": "b", "text": "t"}]
    batch = NoteBatch.from_rows(rows)
    assert batch.to_rows() == rows
    assert NoteBatch.from_table(batch.to_table()).to_rows() == rows
    assert "tags" in NOTE_COLUMNS
    assert "tags" not in FIELDS
    assert "found the fields 'tags'" in from_dicts(rows, PLAIN)[2][0][1]
    assert (
        "found the fields 'tags'" in from_dicts([*rows, *rows_with(*[None] * 40)], PLAIN)[2][0][1]
    )
    with pytest.raises(InvalidInput, match="found the fields 'tags'"):
        from_arrow(pa.Table.from_pylist(rows), PLAIN)
    assert all("tags" not in row for row in ingested(rows))
    assert all("tags" not in row for row in ingested(pa.Table.from_pylist(rows)))
    with pytest.raises(InvalidInput, match="columns: found the fields tags"):
        ingested(rows, columns={"tags": "tags"})


# -- what a vector may be -------------------------------------------------------------------------


def test_any_numbers_in_any_layout_are_copied() -> None:
    wide = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    steps = wide.T[1][::-1]
    given = [
        [10, 6.0, np.float16(2)],
        (10, 6, np.int8(2)),
        steps,
        steps.astype(np.float16),
        steps.astype(">f8"),
        steps.astype(np.uint64),
        np.lib.stride_tricks.sliding_window_view(np.array([10, 6, 2], np.int16), 3)[0],
    ]
    for rows in (given, given * 6):
        batch, _, rejects = from_dicts(rows_with(*rows), PLAIN)
        assert rejects == []
        assert batch.vectors.type == pa.list_(pa.float32(), 3)
        assert held(batch) == {str(n): [10.0, 6.0, 2.0] for n in range(len(rows))}
    wide[:] = 0
    assert held(batch)["2"] == [10.0, 6.0, 2.0]


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        ([], "found an empty list, expected numbers."),
        (np.zeros(0, np.float32), "found an empty list"),
        ([math.nan, 1.0], "found nan in place 0, expected finite numbers."),
        (np.array([1, -math.inf]), "found -inf in place 1, expected finite numbers."),
        ([1.0, 1e39], "found 1e+39 in place 1, beyond float32, which ends at 3.403e+38."),
        ([1, 10**400], "found a number beyond float32"),
        ([0, 0.0, -0.0], "found nothing but zeros"),
        ([1e-50, 0.0], "found no number of at least 1.2e-38"),
        (np.array([1e-40], np.float32), "found no number of at least 1.2e-38"),
        ("text", "found str 'text', expected a list of numbers"),
        (b"\x00\x00\x80?", "found bytes"),
        (5, "found int 5, expected a list of numbers"),
        ({1.0}, "found set {1.0}"),
        (["a"], "found str 'a' in place 0, expected numbers."),
        ([1.0, None], "found NoneType None in place 1, expected numbers."),
        ([True, 1.0], "found bool True in place 0"),
        ([1.0, np.True_], "in place 1, expected numbers."),
        ([[1.0, 2.0]], "found list [1.0, 2.0] in place 0"),
        ([1j], "found complex 1j in place 0"),
        ([np.longdouble(1)], "in place 0, expected numbers."),
        (np.ones((1, 3)), "found an array of shape (1, 3), expected a list of numbers, or a NumPy"),
        (np.array(1.0), "found an array of shape ()"),
        (np.ones(2, bool), "found an array of bool, expected float16, float32, float64 or inte"),
        (np.ones(2, complex), "found an array of complex128"),
        (np.array(["a"]), "found an array of <U1"),
        (np.array([1.0], object), "found an array of object"),
        (np.ones(2, np.longdouble), "found an array of"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "found masked values"),
        (np.ones(WIDEST + 1), "found 65,537 numbers, expected at most 65,536."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_l50_a_bad_vector_is_a_refused_row(vector: Any, words: str) -> None:
    assert reason(vector).startswith("vector: ")
    assert words in reason(vector)


def test_l50_both_widths_are_named() -> None:
    assert reason([1.0, 2.0], 3) == "vector: found 2 numbers, expected 3."
    assert reason([], 3) == "vector: found an empty list, expected 3 numbers."
    assert reason(np.ones(70_000), 1024) == "vector: found 70,000 numbers, expected 1,024."
    table = pa.table({"id": ["a"], "text": ["t"], "vector": pa.array([[1.0] * 2])})
    assert from_arrow(table, PLAIN, None, 3)[2] == [(0, "vector: found 2 numbers, expected 3.")]
    assert from_dicts(rows_with(np.ones(WIDEST)), PLAIN)[0].dim == WIDEST


@pytest.mark.parametrize("more", [0, 40])
def test_the_first_good_vector_of_a_good_row_decides_the_width(more: int) -> None:
    rows = [
        {"id": "nan", "text": "t", "concepts": [], "vector": [math.nan, 1, 1]},
        {"id": "blank", "text": " ", "vector": [1, 1, 1]},
        {"id": "concepts", "text": "t", "concepts": [""], "vector": [1, 1, 1]},
        {"id": "none", "text": "t"},
        {"text": "no id", "vector": [1, 1, 1]},
        {"id": "first", "text": "t", "vector": [1, 2]},
        {"id": "other", "text": "t", "vector": [1, 1, 1]},
        {"id": "nan2", "text": "t", "vector": [math.nan]},
        *({"id": f"x{n}", "text": "t"} for n in range(more)),
    ]
    table = pa.Table.from_pylist(rows)
    found = from_dicts(rows, PLAIN), from_arrow(table, PLAIN)
    for batch, numbers, rejects in found:
        assert held(batch) == {"first": [1.0, 2.0]}
        assert numbers[:2] == [3, 5]
        told = dict(rejects)
        assert told[0] == told[6] == "vector: found 3 numbers, expected 2."
        assert told[7] == "vector: found 1 numbers, expected 2."
        assert told[1].startswith("text: ")
        assert {2, 4} < told.keys()
    assert found[0][2] == found[1][2]


def test_an_unknown_field_or_no_dict_beside_vectors() -> None:
    rows: list[Any] = [{"id": "u", "text": "t", "odd": 1, "vector": [1.0]}, 5, *rows_with([1.0, 2])]
    for more in (0, 40):
        batch, numbers, rejects = from_dicts([*rows, *rows_with(*[None] * more)], PLAIN)
        assert held(batch) == {"0": [1.0, 2.0]}
        assert (numbers[0], [row for row, _ in rejects]) == (2, [0, 1])


# -- one by one, many, Arrow ----------------------------------------------------------------------

number = st.sampled_from(
    [
        *(0.0, -0.0, 1.0, -2.5, 1e-30, 1e-39, 1e-46, 3.4e38, 3.4028235677973366e38, -1e39, 1e300),
        *(0.1, 65504.0, 2**-126, 2**-127, math.nan, math.inf, -math.inf),
    ]
)
vector_of = st.one_of(
    st.none(), st.lists(number, min_size=2, max_size=2), st.lists(number, max_size=3)
)


@given(st.lists(vector_of, max_size=6), st.sampled_from([None, 1, 2, 3]), st.data())
@settings(max_examples=150, deadline=None)
def test_every_way_in_accepts_the_same(
    vectors: list[list[float] | None], width: int | None, data: st.DataObject
) -> None:
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64]))
    with np.errstate(over="ignore", under="ignore"):
        arrays = [None if one is None else np.array(one, dtype) for one in vectors]
    lists = [None if one is None else one.tolist() for one in arrays]
    expected = naive_rows.vectors(lists, width)
    ids = [str(n) for n in range(len(vectors))]
    filler = [{"id": f"x{n}", "text": "t"} for n in range(40)]
    tables = []
    for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        column = pa.array(lists, kind(pa.from_numpy_dtype(dtype)))
        tables.append(pa.table({"id": ids, "text": ["t"] * len(ids), "vector": column}))
    if {len(one) for one in lists if one is not None} == {2}:
        column = pa.array(lists, pa.list_(pa.from_numpy_dtype(dtype), 2))
        padded = pa.concat_arrays([column.slice(0, 1), column]).slice(1)
        tables.append(pa.table({"id": ids, "text": ["t"] * len(ids), "vector": padded}))
    told = from_dicts(rows_with(*lists), PLAIN, None, width)[2]
    for batch, _, rejects in (
        from_dicts(rows_with(*lists), PLAIN, None, width),
        from_dicts(rows_with(*arrays), PLAIN, None, width),
        from_dicts([*rows_with(*lists), *filler], PLAIN, None, width),
        from_dicts([*rows_with(*arrays), *filler], PLAIN, None, width),
        *(from_arrow(table, PLAIN, None, width) for table in tables),
    ):
        assert held(batch) == {
            note: found
            for note, found in zip(ids, expected, strict=True)
            if found not in (None, False)
        }
        assert [row for row, _ in rejects] == [n for n, one in enumerate(expected) if one is False]
        assert rejects == told


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.float16()])
def test_arrow_numbers_become_float32(kind: pa.DataType) -> None:
    column = pa.array([[1, 2], None, [3, 100]], pa.list_(kind))
    table = pa.table({"id": ["a", "b", "c"], "text": ["t"] * 3, "vector": column})
    assert held(from_arrow(table, PLAIN)[0]) == {"a": [1.0, 2.0], "c": [3.0, 100.0]}


def test_whole_numbers_round_alike() -> None:
    odd = 2**53 + 2**29 + 1  # rounded twice it is another float32 than rounded once
    column = pa.array([[odd]], pa.list_(pa.int64()))
    found = {read_vectors(given, {}).to_pylist()[0][0] for given in ([[odd]], column)}
    assert len(found) == 1


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array(["x", None, "y"]), "found string, expected a list of numbers"),
        (pa.array([1.0, None, 2.0]), "found double"),
        (pa.array([["x"], None, []]), "found list<item: string>"),
        (pa.array([[True], None, [False]]), "found list<item: bool>"),
        (pa.array([[[1.0]], None, [[2.0]]]), "found list<item: list<item: double>>"),
        (pa.array([b"1234", None, b"1234"]), "found binary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_columns_that_hold_no_vectors(column: pa.Array, words: str) -> None:
    table = pa.table({"id": ["a", "b", "c"], "text": ["t"] * 3, "vector": column})
    batch, numbers, rejects = from_arrow(table, PLAIN)
    assert (numbers, batch.vectors, [row for row, _ in rejects]) == ([1], None, [0, 2])
    assert rejects[0][1].startswith(f"vector: {words}")


def test_nulls_within_and_beside_vectors() -> None:
    column = pa.array([[1.0, 2.0], [1.0, None], None, [None, None], [], [3.0, 4.0]])
    fixed = pa.array([[1.0, 2.0], [1.0, None], None, [None, None], [0, 0], [3.0, 4.0]])
    fixed = fixed.cast(pa.list_(pa.float64(), 2))
    for values in (column, fixed, pa.chunked_array([fixed.slice(0, 3), fixed.slice(3)])):
        reasons: dict[int, str] = {}
        found = read_vectors(values, reasons).to_pylist()
        assert found == [[1.0, 2.0], None, None, None, None, [3.0, 4.0]]
        assert sorted(reasons) == [1, 3, 4]
        assert reasons[1] == "vector: found null in place 1, expected numbers."
        assert reasons[3] == "vector: found null in place 0, expected numbers."
    for nothing in (pa.nulls(3), pa.nulls(3, pa.list_(pa.float32(), 4)), pa.array([], pa.null())):
        assert read_vectors(nothing, {}) is None
    reasons = {}
    assert read_vectors(pa.array([[None], [], None]), reasons) is None
    assert sorted(reasons) == [0, 1]


def test_what_lies_under_a_null_does_not_matter() -> None:
    matrix = np.array([[1, 2], [np.nan, 0], [3, 4]], np.float32)
    column = vector_array(matrix, np.array([False, True, False]))
    reasons: dict[int, str] = {}
    assert read_vectors(column, reasons).to_pylist() == [[1, 2], None, [3, 4]]
    assert reasons == {}


def test_tensors_of_one_dimension() -> None:
    storage = pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2))
    flat = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2]), storage)
    assert read_vectors(flat, {}).to_pylist() == [[1, 2], [3, 4]]
    square = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [1, 2]), storage)
    reasons: dict[int, str] = {}
    assert read_vectors(square, reasons) is None
    assert sorted(reasons) == [0, 1]


def test_a_damaged_column_is_refused_as_a_whole() -> None:
    offsets = pa.py_buffer(np.array([0, 9, 3], np.int32).tobytes())
    values = pa.array([1.0, 2.0, 3.0])
    column = pa.Array.from_buffers(pa.list_(pa.float64()), 2, [None, offsets], children=[values])
    table = pa.table({"id": ["a", "b"], "text": ["t", "t"], "vector": column})
    with pytest.raises(InvalidInput, match="column vector is damaged"):
        from_arrow(table, PLAIN)


def test_a_float32_column_is_not_copied() -> None:
    column = vector_array(np.ones((8, 4), np.float32))
    found = read_vectors(column, {})
    assert found.values.buffers()[1].address == column.values.buffers()[1].address


# -- ingest ---------------------------------------------------------------------------------------


def with_vectors(source: Any, **options: Any) -> dict[str, list[float]]:
    store = Store()
    store.run(source, max_rejects=1.0, **options)
    return {note: row for batch in store.batches for note, row in held(batch).items()}


def test_every_kind_of_source(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl

    matrix = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
    expected = {str(n): row for n, row in enumerate(matrix.tolist())}
    del expected["3"]
    lists = [None if n == 3 else row for n, row in enumerate(matrix.tolist())]
    rows = rows_with(*lists)
    base = {"id": [str(n) for n in range(10)], "text": [f"t{n}" for n in range(10)]}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources: list[Any] = [rows, rows_with(*(one and np.array(one) for one in lists))]
    sources.append(tmp_path / "a.jsonl")
    for n, value in enumerate((pa.float16(), pa.float32(), pa.float64(), pa.int32())):
        for kind in (pa.list_(value, 2), pa.list_(value), pa.large_list(value)):
            sources.append(pa.table({**base, "vector": pa.array(lists, kind)}))
            path = tmp_path / f"{n}{kind.id}.parquet"
            pq.write_table(sources[-1], path, row_group_size=4)
            sources.append(path)
    with pa.ipc.new_file(tmp_path / "a.arrow", sources[3].schema) as made:
        made.write_table(sources[3], max_chunksize=3)
    sources.append(tmp_path / "a.arrow")
    arrays = [None if one is None else np.array(one) for one in lists]
    sources.append(pd.DataFrame({**base, "vector": pd.Series(arrays, dtype=object)}))
    for dtype in (pl.Array(pl.Float32, 2), pl.List(pl.Float64)):
        sources.append(pl.DataFrame({**base, "vector": pl.Series(lists, dtype=dtype)}))
    for source in sources:
        assert with_vectors(source, batch_rows=4) == expected, source


def test_embedding_is_a_name_for_vectors() -> None:
    rows = [{"id": "a", "text": "t", "embedding": [1.0]}, {"id": "b", "text": "t"}]
    both = [{**rows[0], "vector": [2.0]}]
    for read in (list, pa.Table.from_pylist):
        assert with_vectors(read(rows)) == {"a": [1.0]}
        assert with_vectors(read(both)) == {"a": [2.0]}
        assert with_vectors(read(both), columns={"vector": "embedding"}) == {"a": [1.0]}
        assert with_vectors(read(both), columns={"vector": None}) == {}
        assert plan(read(rows)).sources[0].fields["vector"] == "embedding"
        assert plan(read(both)).sources[0].fields["vector"] == "vector"
        assert plan(read(both)).sources[0].ignored == ["embedding"]
        assert "metadata" not in ingested(read(rows), metadata_columns="rest")[0]
        member = ingested(read(rows), metadata_columns=["embedding"])[0]
        assert (member.get("vector"), member["metadata"]) == (None, '{"embedding":[1.0]}')
        assert with_vectors(read(rows), columns={"vector": "vector"} if read is list else {}) == (
            {} if read is list else {"a": [1.0]}
        )


def test_csv_holds_no_vectors(tmp_path: Path) -> None:
    for column in ("vector", "embedding"):
        path = tmp_path / f"{column}.csv"
        path.write_text(f'id,text,{column}\na,t,"[1.0]"\n')
        words = f"column '{column}' would give the vectors, and CSV cannot hold them: bring them as"
        with pytest.raises(InvalidInput, match=words):
            ingested(path)
        with pytest.raises(InvalidInput, match=words):
            ingested(io.BytesIO(path.read_bytes()), format="csv")
        with pytest.raises(InvalidInput, match=words):
            plan(path)
        assert [row["id"] for row in ingested(path, columns={"vector": None})] == ["a"]


def test_vectors_change_no_id_made_from_content() -> None:
    bare = [
        {"text": "tea", "concepts": []},
        {"text": "tea", "concepts": []},
        {"text": "milk", "concepts": ["cow"]},
    ]
    given = [{**row, "vector": [float(n + 1), 1.0]} for n, row in enumerate(bare)]
    expected = [row["id"] for row in ingested(bare)]
    assert [row["id"] for row in ingested(given)] == expected
    assert [row["id"] for row in ingested(pa.Table.from_pylist(given))] == expected
    ids = from_dicts(given, PLAIN, ContentIds())[0].columns["id"].to_pylist()
    assert ids == expected


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_one_width_over_all_batches(batch_rows: int) -> None:
    rows = rows_with(None, [math.nan], [1.0, 2.0], [1.0], [3.0, 4.0], [1.0, 2.0, 3.0])
    store = Store()
    report = store.run(rows, batch_rows=batch_rows, max_rejects=1.0)
    assert [row for row, _ in report.reasons] == [1, 3, 5]
    assert report.reasons[1][1] == "vector: found 1 numbers, expected 2."
    assert plan(rows).rejected == 3
    assert Store().run(rows, batch_rows=batch_rows, max_rejects=1.0, width=3).rejected == 4
    assert plan(rows, width=3).rejected == 4


def test_a_few_bytes_that_declare_many_numbers_are_refused(tmp_path: Path) -> None:
    from fastassoc.parquetguard import check_footer

    column = pa.array([[1.0] * 50_000] * 40, pa.list_(pa.float32()))
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"text": ["t"] * 40, "vector": column}), path)
    size = path.stat().st_size
    with path.open("rb") as raw:
        metadata = pq.ParquetFile(raw).metadata
        step = check_footer("wide", metadata, size, raw, ["text", "vector"])
        assert 16 <= step <= (1 << 30) // (8 * 50_000)


def test_the_command_line_brings_vectors_and_a_dry_run_knows_their_width(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from fastassoc.cli import cli

    store, good, bad = tmp_path / "s.fa", tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text('{"id": "a", "text": "t", "embedding": [1, 2]}\n')
    bad.write_text('{"id": "b", "text": "t", "vector": [1, 2, 3]}\n')
    options = ["--store", str(store), "ingest"]
    found = CliRunner().invoke(cli, [*options, str(good)])
    assert found.exit_code == 0, found.output
    for dry in ([], ["--dry-run"]):
        found = CliRunner().invoke(cli, [*options, str(bad), *dry])
        assert found.exit_code != 0
        assert "vector: found 3 numbers, expected 2." in found.output


def test_a_frame_that_arrow_cannot_hold_is_told() -> None:
    import pandas as pd

    frame = pd.DataFrame({"text": ["a", "b"], "vector": [np.ones((2, 2)), np.ones((2, 2))]})
    with pytest.raises(InvalidInput, match="the data frame has a column that Arrow cannot hold"):
        ingested(frame)
