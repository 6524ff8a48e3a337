"""Columns of every type that Arrow has, for every field: taken, or refused row by row."""

from decimal import Decimal

import pyarrow as pa
import pytest

import fastassoc as fa
from fastassoc.errors import FastAssocError

FAR = 2**62  # beyond every time that Python holds
THREE = pa.array([0, 1, 2], pa.int32())
INTEGERS, NAMES = [[1], [2, None], None], [["a", "b"], ["c", None], None]


def whole(kind, values=(1, FAR, -FAR)):
    return pa.array(values, pa.int64()).view(kind)


COLUMNS = {
    **{f"duration {unit}": whole(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"time {unit}": whole(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"time {zone}": whole(pa.timestamp("us", zone)) for zone in ("UTC", "No/Where")},
    "days": pa.array([1, 2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()),
    "milliseconds": whole(pa.date64()),
    "time of day": whole(pa.time64("us")),
    "interval": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    "decimal": pa.array([Decimal(1), Decimal(10) ** 60, None], pa.decimal256(70, 0)),
    "half": pa.array([1, 2, 3], pa.uint16()).view(pa.float16()),
    "unsigned": pa.array([1, 2**64 - 1, None], pa.uint64()),
    "real": pa.array([1.0, float("nan"), float("inf")]),
    "flag": pa.array([True, False, None]),
    "bytes": pa.array([b"\xff", b"a", None]),
    "bytes, viewed": pa.array([b"\xff", b"a", None], pa.binary_view()),
    "text, large": pa.array(["a", "b", None], pa.large_string()),
    "text, viewed": pa.array(["a", "b", None], pa.string_view()),
    "text, coded": pa.array(["a", "b", None]).dictionary_encode(),
    "nothing": pa.nulls(3),
    "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([1, 2])),
    "runs of text": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3], pa.int32()), pa.array(["p", "q"])
    ),
    "twins": pa.StructArray.from_arrays([THREE, THREE], ["x", "x"]),
    "durations, within": pa.StructArray.from_arrays([whole(pa.duration("s"))], ["x"]),
    "durations, listed": pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), whole(pa.duration("s"))
    ),
    "durations, coded": pa.DictionaryArray.from_arrays(THREE, whole(pa.duration("s"))),
    "integers, coded": pa.DictionaryArray.from_arrays(THREE, pa.array([7, 8, 9])),
    **{
        str(kind): pa.array(INTEGERS, kind)
        for kind in (of(pa.int64()) for of in (pa.list_, pa.large_list, pa.list_view))
    },
    "lists, coded": pa.DictionaryArray.from_arrays(THREE, pa.array(INTEGERS)),
    "pairs": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2)),
    "names, paired": pa.array(NAMES, pa.list_(pa.string(), 2)),
    "names, viewed": pa.array(NAMES, pa.list_view(pa.string())),
    "lists of lists": pa.array([[["a"]], [[None]], None]),
    "one of two": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    ),
}
FIELDS = ("id", "text", "session", "domain", "created_at", "importance", "concepts", "subjects",
          "supersedes", "metadata", "vector", "extra")  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_any_type_is_taken_or_refused(kind):
    for field in FIELDS:
        plain = {"id": pa.array(["a", "b", "c"]), "text": pa.array(["x", "y", "z"])}
        table = pa.table(plain | {field: COLUMNS[kind]})
        more = ["extra"] if field == "extra" else None
        for write in (
            lambda mem, table=table, more=more: mem.ingest(
                table, metadata_columns=more, max_rejects=1.0
            ),
            lambda mem, table=table: mem.write_batch(table),
        ):
            with fa.Memory() as mem:
                try:
                    report = write(mem)
                except FastAssocError:
                    assert len(mem) == 0
                else:
                    assert len(mem) == report.written
                    assert report.written + report.rejected + report.skipped == 3


def test_what_python_cannot_hold_is_named():
    times = whole(pa.timestamp("us"), (1, FAR, None))
    table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "when": times})
    with fa.Memory() as mem:
        report = mem.ingest(table, metadata_columns=["when"], max_rejects=1.0)
        assert report.reasons == [
            (1, f"metadata: found what JSON cannot hold (timestamp[us] {FAR}, which Python cannot "
                "hold).")
        ]  # fmt: skip
        assert mem.get("a").metadata == {"when": "1970-01-01T00:00:00.000001"}
        report = mem.ingest(table, columns={"session": "when"}, max_rejects=1.0)
        reason = f"session: found timestamp[us] {FAR}, which Python cannot hold, expected a str."
        assert report.reasons[-1] == (1, reason)
