from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import naive_rows
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastassoc.batch import NoteBatch
from fastassoc.concepts import fold_name
from fastassoc.errors import InvalidInput
from fastassoc.kernels.rows import count_seen, gather_names, longest_value, move_seen
from fastassoc.rows import (
    FIELDS,
    NAMESPACE,
    ContentIds,
    Refused,
    fold_names,
    from_arrow,
    from_dicts,
)
from fastassoc.settings import Settings

PLAIN = Settings(extract=False)


def number(row: int) -> str:
    return f"id{row}"


def check(**fields: Any) -> tuple[NoteBatch, list[int], list[tuple[int, str]]]:
    return from_dicts([{"id": "a", "text": "Tea", **fields}], PLAIN, None)


def reason(**fields: Any) -> str:
    batch, numbers, rejects = check(**fields)
    assert (len(batch), numbers, len(rejects)) == (0, [], 1)
    return rejects[0][1]


def same(one: NoteBatch, two: NoteBatch) -> None:
    assert one.to_rows() == two.to_rows()
    assert (one.keys, one.spellings) == (two.keys, two.spellings)
    assert one.to_table().equals(two.to_table())


# -- kernels and their twins ------------------------------------------------------------------

names = st.sampled_from(["a", "A", "b", "B b", "b  B", "ß", "SS", "x|y", "", "c" * 300])


@given(st.lists(st.tuples(st.lists(names), st.lists(names), st.booleans()), max_size=8))
@settings(max_examples=60, deadline=None)
def test_gather_names_equals_its_twin(rows: list[tuple[list[str], list[str], bool]]) -> None:
    spelled = sorted({n for c, s, _ in rows for n in c + s})
    folded = [naive_rows.fold(n) if 0 < len(n) < 257 else None for n in spelled]
    keys = sorted({k for k in folded if k is not None})
    key_of = np.array([keys.index(k) if k is not None else -1 for k in folded], np.int32)
    flat, spans = [], [[], []]
    for row in rows:
        for which in (0, 1):
            spans[which].append((len(flat), len(flat) + len(row[which])))
            flat += [spelled.index(n) for n in row[which]]
    shape = [np.array(part, np.int64).reshape(-1, 2) for part in spans]
    good = np.array([row[2] for row in rows], np.bool_)
    out, subject = np.zeros(len(flat), np.uint32), np.zeros(len(flat), np.bool_)
    ptr = np.zeros(int(good.sum()) + 1, np.int64)
    order, first = np.zeros(len(keys), np.int32), np.zeros(len(keys), np.int32)
    codes = np.array(flat, np.int32)
    used = gather_names(codes, key_of, *shape, good, out, subject, ptr, order, first)
    kept = [(c, s) for c, s, fine in rows if fine]
    found, spellings = naive_rows.gather_names(
        kept, lambda n: naive_rows.fold(n) if 0 < len(n) < 257 else None
    )
    assert [keys[k] for k in order[:used]] == list(spellings)
    assert [spelled[k] for k in first[:used]] == list(spellings.values())
    shown = [
        [(keys[order[out[at]]], bool(subject[at])) for at in range(ptr[n], ptr[n + 1])]
        for n in range(len(kept))
    ]
    assert shown == found


@given(st.lists(st.integers(0, 40)), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_count_seen_equals_its_twin(values: list[int], cut: int) -> None:
    spread = np.array([v * 0x9E3779B97F4A7C15 % 2**64 for v in values], np.uint64)
    keys, counts = np.zeros(64, np.uint64), np.zeros(64, np.uint32)
    out = np.zeros(len(values), np.uint32)
    new = count_seen(keys, counts, spread[:cut], out[:cut])
    wide, held = np.zeros(128, np.uint64), np.zeros(128, np.uint32)
    move_seen(keys, counts, wide, held)
    new += count_seen(wide, held, spread[cut:], out[cut:])
    assert out.tolist() == naive_rows.count_seen(values)
    assert new == len(set(values))


@given(st.lists(st.binary(max_size=300)), st.integers(0, 9), st.binary(max_size=5))
@settings(max_examples=60, deadline=None)
def test_longest_value_equals_its_twin(values: list[bytes], cut: int, tail: bytes) -> None:
    page = b"".join(len(value).to_bytes(4, "little") + value for value in values)
    for one in (page, page[: len(page) - cut], page + tail, b"\xff" * 4 + page):
        assert longest_value(np.frombuffer(one, np.uint8)) == naive_rows.longest_value(one)


@given(st.lists(st.binary(max_size=3).map(lambda b: bytes(c & 127 for c in b)), max_size=30))
@settings(max_examples=50, deadline=None)
def test_content_ids_are_uuid5_and_do_not_depend_on_the_split(contents: list[bytes]) -> None:
    whole = ContentIds().take(contents) if contents else []
    one = ContentIds()
    assert [one.take([content])[0] for content in contents] == whole
    assert whole == naive_rows.content_ids(contents, NAMESPACE)
    assert len(set(whole)) == len(whole)


def test_content_ids_grow() -> None:
    ids = ContentIds()
    contents = [b"%d" % n for n in range(20_000)]
    first = ids.take(contents)
    again = ids.take(contents)
    assert len({*first, *again}) == 40_000
    assert ContentIds().take(contents + contents) == first + again


@given(
    st.lists(st.text(max_size=6) | st.sampled_from([" a", "a ", "A  b", "a\tB", "É", "x" * 257]))
)
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("mode", ["fold", "exact"])
def test_fold_names_equals_fold_name(mode: str, given_names: list[str]) -> None:
    clean = [n for n in given_names if n.isprintable() or n.isascii()]
    folded, wrong = fold_names(pa.array([*clean, "pad"], pa.string()).slice(0, len(clean)), mode)
    for place, name in enumerate(clean):
        found = reason = None
        try:
            found = fold_name(name, mode)
        except InvalidInput as error:
            reason = str(error)
        assert (folded[place].as_py(), wrong.get(place)) == (found, reason)


# -- values -----------------------------------------------------------------------------------


def test_a_whole_row() -> None:
    batch, numbers, rejects = check(
        concepts=["Retry", "retry ", "Back off"],
        subjects=["Timeout (network)", "RETRY"],
        domain="ops",
        created_at="2024-05-01T12:00:00+02:00",
        metadata={"b": [1, {"c": None}], "a": "é"},
        session="s",
        importance=1,
        category="c",
        fingerprint="f",
        external_ref="r",
        author="me",
        supersedes=["x"],
        vector=None,
    )
    assert (numbers, rejects) == ([0], [])
    assert batch.to_rows() == [
        {
            "id": "a",
            "text": "Tea",
            "domain": "ops",
            "created_at": 1_714_557_600_000_000,
            "session": "s",
            "category": "c",
            "importance": 1.0,
            "fingerprint": "f",
            "external_ref": "r",
            "author": "me",
            "metadata": '{"a":"é","b":[1,{"c":null}]}',
            "supersedes": ["x"],
            "concepts": ["retry", "back off", "timeout"],
            "spelled": ["Retry", "Back off", "Timeout"],
            "subjects": [0, 2],
        }
    ]


BAD = [
    ({"text": None}, "text: found none"),
    ({"text": ""}, "text: found nothing but white space"),
    ({"text": " \n\u3000"}, "text: found nothing but white space"),
    ({"text": 5}, "text: found int 5, expected a str"),
    ({"text": b"x"}, "text: found bytes b'x', expected a str"),
    ({"text": "a\ud800"}, r"text: found a lone surrogate in 'a\ud800'"),
    ({"id": ""}, "id: found '', expected 1 to 512 bytes"),
    ({"id": "é" * 257}, "id: found 514 bytes"),
    ({"id": 7}, "id: found int 7, expected a str"),
    ({"id": None}, "id: found none"),
    (
        {"concepts": "retry"},
        "concepts: found str 'retry', expected a list of names; write ['retry']",
    ),
    ({"concepts": ["a", 1]}, "concepts: found int 1 in the list, expected names"),
    ({"concepts": ["a", None]}, "concepts: found NoneType None in the list"),
    ({"concepts": {"a": 1}}, "concepts: found dict"),
    ({"concepts": ["a", " "]}, "concepts: concept name: found ' '"),
    ({"concepts": ["a\ud800"]}, "concepts: found a lone surrogate"),
    ({"concepts": ["x" * 257]}, "concepts: concept name"),
    ({"concepts": [str(n) for n in range(257)]}, "concepts: found 257 names, expected at most 256"),
    ({"subjects": "Tea"}, "subjects: found str 'Tea', expected a list"),
    ({"subjects": [""]}, "subjects: concept name"),
    ({"vector": [math.nan]}, "vector: found nan in place 0, expected finite numbers"),
    ({"domain": "x" * 257}, "domain: found 257 bytes"),
    ({"domain": ""}, "domain: found ''"),
    ({"created_at": "yesterday"}, "created_at: found str 'yesterday', expected an ISO 8601 time"),
    ({"created_at": 1.5}, "created_at: found float 1.5, expected a datetime"),
    ({"created_at": True}, "created_at: found bool True"),
    ({"created_at": 2**62}, "created_at: found 4611686018427387904, expected microseconds"),
    ({"metadata": "{}"}, "metadata: found str '{}', expected a JSON object"),
    ({"metadata": {"a": float("nan")}}, "metadata: found what JSON cannot hold"),
    ({"metadata": {"a": {1, 2}}}, "metadata: found what JSON cannot hold"),
    ({"metadata": {"a": [{1: 2}]}}, "metadata: found the key int 1, expected keys that are str"),
    ({"metadata": {"a": "\ud800"}}, "metadata: found a lone surrogate"),
    ({"importance": 1.01}, "importance: found float 1.01, expected a number from 0 to 1"),
    ({"importance": float("nan")}, "importance: found float nan"),
    ({"importance": "1"}, "importance: found str '1'"),
    ({"importance": True}, "importance: found bool True"),
    ({"author": 3}, "author: found int 3"),
    ({"supersedes": "a"}, "supersedes: found str 'a', expected a list"),
    ({"supersedes": [""]}, "supersedes: found ''"),
    ({"txt": "a"}, "found the fields 'txt', expected each once, and only: text, id"),
]


@pytest.mark.parametrize(("fields", "words"), BAD, ids=[w for _, w in BAD])
def test_bad_values_are_refused_with_a_reason(fields: dict[str, Any], words: str) -> None:
    assert words in reason(**fields)


def test_good_rows_stay_whatever_the_others_hold() -> None:
    bad = [{"id": "x", "text": "t", **fields} for fields, _ in BAD]
    good = [{"id": str(n), "text": "t", "concepts": [f"c{n}"]} for n in range(len(bad))]
    rows = [row for pair in zip(good, bad, strict=True) for row in pair]
    batch, numbers, rejects = from_dicts([*rows, 5, Refused("torn")], PLAIN)
    assert numbers == list(range(0, len(rows), 2))
    same(batch, from_dicts(good, PLAIN)[0])
    assert [row for row, _ in rejects] == [*range(1, len(rows), 2), len(rows), len(rows) + 1]
    assert rejects[-1] == (len(rows) + 1, "torn")
    assert rejects[-2][1] == "found int 5, expected a dict of a note's fields."


def test_l7_times_mix() -> None:
    values = [
        datetime(2024, 1, 1, 12),
        datetime(2024, 1, 1, 12, tzinfo=UTC),
        datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        "2024-01-01T12:00",
        "2024-01-01 12:00:00Z",
        1_704_110_400_000_000,
        np.int64(1_704_110_400_000_000),
    ]
    rows = [{"text": "t", "created_at": value} for value in [*values, date(2024, 1, 1)]]
    batch, _, rejects = from_dicts(rows, PLAIN, number)
    held = batch.columns["created_at"].to_pylist()
    assert (held, rejects) == ([1_704_110_400_000_000] * 7 + [1_704_067_200_000_000], [])


def test_l53_l54_names() -> None:
    kept = ["数据库", "البحر", "🚀", "a|b", 'a"b', "a", "c\nd"]
    batch, _, _ = check(concepts=[*kept, "STRASSE", "Straße", "ﬁne", "FINE", "c d"])
    assert batch.keys == ["数据库", "البحر", "🚀", "a|b", 'a"b', "a", "c d", "strasse", "fine"]
    assert batch.spellings == [*kept, "STRASSE", "ﬁne"]


def test_l55_empty() -> None:
    for batch, numbers, rejects in (
        from_dicts([], PLAIN),
        from_arrow(pa.table({"text": pa.array([], pa.string())}), PLAIN),
    ):
        assert (len(batch), numbers, rejects, batch.keys) == (0, [], [], [])
    batch, _, rejects = check(concepts=[], subjects=[], metadata={}, supersedes=[])
    assert (list(batch.columns), batch.ptr.tolist(), rejects) == (["id", "text"], [0, 0], [])


def test_extraction_only_without_concepts() -> None:
    text = "We met Ada Lovelace in Paris."
    rows: list[dict[str, Any]] = [
        {"text": text},
        {"text": text, "concepts": []},
        {"text": text, "concepts": ["Tea"]},
        {"text": text, "subjects": ["Tea", "Paris"]},
    ]
    lists = pa.list_(pa.string())
    schema = pa.schema({"text": pa.string(), "concepts": lists, "subjects": lists})
    for batch, _, rejects in (
        from_dicts(rows, Settings(), number),
        from_arrow(pa.Table.from_pylist(rows, schema), Settings(), number),
    ):
        assert rejects == []
        assert batch.extracted.tolist() == [True, False, False, True]
        held = [row.get("spelled") for row in batch.to_rows()]
        assert held == [
            ["Ada Lovelace", "Paris"],
            None,
            ["Tea"],
            ["Ada Lovelace", "Paris", "Tea"],
        ]
        assert batch.to_rows()[3]["subjects"] == [1, 2]
    off = from_dicts(rows, PLAIN, number)[0]
    assert off.extracted.tolist() == [False] * 4


def test_subjects_count_and_sets_have_an_order() -> None:
    wide = [str(n) for n in range(256)]
    assert check(concepts=wide, subjects=["1"])[2] == []
    assert "257 names" in reason(concepts=wide, subjects=["other"])
    assert check(concepts=wide + wide)[2] == []
    assert check(concepts={"b", "a", "c"})[0].keys == ["a", "b", "c"]
    assert check(concepts=np.array(["b", "a"]))[0].keys == ["b", "a"]


# -- Arrow ------------------------------------------------------------------------------------

values = st.fixed_dictionaries(
    {"text": st.sampled_from(["a", "B c", "", " ", "é", None])},
    optional={
        "id": st.sampled_from(["1", "2", "", "x" * 600, None]),
        "concepts": st.none() | st.lists(names | st.none(), max_size=4),
        "subjects": st.none() | st.lists(names, max_size=2),
        "domain": st.sampled_from(["d", "", None]),
        "created_at": st.sampled_from([None, 5, 2**61]),
        "importance": st.sampled_from([None, 0.25, 7.0, float("nan")]),
        "session": st.sampled_from(["s", "", None]),
        "supersedes": st.none() | st.lists(st.sampled_from(["1", ""]), max_size=2),
    },
)
TYPES: dict[str, list[pa.DataType]] = {
    "concepts": [pa.list_(pa.string()), pa.large_list(pa.large_string())],
    "created_at": [pa.int64(), pa.timestamp("us"), pa.timestamp("us", "Europe/Paris")],
    "importance": [pa.float64()],
    "text": [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    "id": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.large_string())],
}


@given(st.lists(values, max_size=7), st.data())
@settings(max_examples=150, deadline=None)
def test_arrow_equals_dicts(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    fields = sorted({field for row in rows for field in row} | {"text"})
    columns = {}
    for field in fields:
        default = TYPES["concepts"] if field in ("subjects", "supersedes") else [pa.string()]
        kind = data.draw(st.sampled_from(TYPES.get(field, default)))
        padded = [None, *(row.get(field) for row in rows), None]
        columns[field] = pa.array(padded, kind)
    table = pa.table(columns).slice(1, len(rows))
    if data.draw(st.booleans()) and rows:
        table = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    one, numbers, rejects = from_arrow(table, PLAIN, number)
    two, numbers2, rejects2 = from_dicts(rows, PLAIN, number)
    same(one, two)
    assert numbers == numbers2
    assert [row for row, _ in rejects] == [row for row, _ in rejects2]
    made, also = from_arrow(table, PLAIN, ContentIds()), from_dicts(rows, PLAIN, ContentIds())
    same(made[0], also[0])


odd = st.sampled_from([None, 5, "", " ", "a", "Mercury (planet)", "x" * 600, "\ud800", b"x", True])
odd |= st.sampled_from([[], ["a", 1], ("A", "a"), {"b", "a"}, ["é", "É", "a" * 300], ["\ud800"]])
odd |= st.sampled_from([{"k": [1]}, {"k": float("nan")}, {}, "2024-05-01T12:00", 2**63])
odd |= st.sampled_from([[str(n) for n in range(257)], date(2024, 5, 1)])


@given(
    st.lists(
        st.builds(
            lambda row, others: {**row, **others},
            values,
            st.dictionaries(st.sampled_from(FIELDS), odd),
        )
        | st.just({"body": 1, "id": ""})
        | st.sampled_from([7, Refused("torn")]),
        max_size=5,
    ),
    st.booleans(),
    st.sampled_from([PLAIN, Settings(), Settings(names="exact")]),
)
@settings(max_examples=300, deadline=None)
def test_few_rows_equal_many(rows: list[Any], named: bool, chosen: Settings) -> None:
    new_id = number if named else None
    one, *others = from_dicts(rows, chosen, new_id)
    with patch("fastassoc.rows.FEW", -1):
        two, *expected = from_dicts(rows, chosen, new_id)
    same(one, two)
    assert others == expected
    assert one.columns.keys() == two.columns.keys()


def test_arrow_metadata_forms() -> None:
    struct = pa.array([{"a": 1, "b": None}, None])
    text = pa.array(['{"a": 1}', None])
    pairs = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    for column in (struct, text, pairs):
        table = pa.table({"id": ["1", "2"], "text": ["x", "y"], "metadata": column})
        batch, _, rejects = from_arrow(table, PLAIN)
        assert (batch.columns["metadata"].to_pylist(), rejects) == (['{"a":1}', None], [])
    table = pa.table({"id": ["1", "2"], "text": ["x", "y"], "metadata": ["[1]", "{"]})
    assert [row for row, _ in from_arrow(table, PLAIN)[2]] == [0, 1]
    when = pa.array([{"t": datetime(2024, 1, 1)}])
    table = pa.table({"id": ["1"], "text": ["x"], "metadata": when})
    held = json.loads(from_arrow(table, PLAIN)[0].columns["metadata"][0].as_py())
    assert held == {"t": "2024-01-01T00:00:00"}


def test_arrow_refuses_wrong_columns_and_damage() -> None:
    with pytest.raises(InvalidInput, match="found the fields 'body', expected"):
        from_arrow(pa.table({"body": ["x"]}), PLAIN)
    assert "found int 5" in from_arrow(pa.table({"id": ["a"], "text": [5]}), PLAIN)[2][0][1]
    torn = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"\xff\xfeb")],
    )
    _, numbers, rejects = from_arrow(pa.table({"text": torn}), PLAIN, number)
    assert (numbers, rejects[0][0]) == ([1], 0)
    assert "expected UTF-8" in rejects[0][1]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), torn)
    table = pa.table({"text": ["x", "y"], "concepts": lists})
    assert from_arrow(table, PLAIN, number)[1] == [1]
    wild = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 900, 3], np.int32)), pa.py_buffer(b"abc")]
    )
    with pytest.raises(InvalidInput, match="column text is damaged"):
        from_arrow(pa.table({"text": wild}), PLAIN, number)
    loose = pa.ListArray.from_buffers(
        pa.list_(pa.string()),
        2,
        [None, pa.py_buffer(np.array([0, 9, 2], np.int32))],
        children=[pa.array(["a", "b"])],
    )
    with pytest.raises(InvalidInput, match="column concepts is damaged"):
        from_arrow(pa.table({"text": ["x", "y"], "concepts": loose}), PLAIN, number)


def test_fields_are_those_of_write() -> None:
    assert len(FIELDS) == len(set(FIELDS)) == 15
