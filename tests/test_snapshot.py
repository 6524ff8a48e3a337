"""Segments and manifests: whole or refused, never half and never wrong."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from fastassoc import files, parquet, snapshot
from fastassoc.errors import (
    CorruptStore,
    FormatTooNew,
    InvalidInput,
    ReadOnlyStore,
    StoreError,
)
from fastassoc.snapshot import Segment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "store.fa"
    snapshot.create_folders(path)
    return path


def links(n: int = 50) -> pa.Table:
    rng = np.random.default_rng(n)
    keys = np.unique(rng.integers(0, 1 << 40, n).astype(np.uint64))
    count = rng.integers(1, 5, len(keys))
    return pa.table(
        {
            "a": (keys >> np.uint64(32)).astype(np.uint32),
            "b": keys.astype(np.uint32),
            "weight": count + rng.random(len(keys)),
            "written": count.astype(np.float64),
            "count": count,
            "valence": np.zeros(len(keys)),
            "created_at": rng.integers(0, 1 << 50, len(keys)),
            "updated_at": np.full(len(keys), 1 << 50),
        }
    )


def content(**other: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "store": "5f",
        "created_at": 1_760_000_000_000_000,
        "settings": {"names": "fold"},
        "embedder": None,
        "counts": {"notes": 2},
        "segments": [],
        "previous": None,
        "state": {"ledger": {"ключ": [1, 2.5]}},
    }
    return base | other


SCALARS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "small": (pa.int8(), st.integers(-128, 127)),
    "id": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "seq": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "big": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "weight": (pa.float64(), st.floats(allow_nan=True)),
    "half": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    "raw": (pa.binary(), st.binary()),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))
    names = draw(st.lists(st.sampled_from(sorted(SCALARS)), min_size=1, unique=True))
    columns = {}
    for name in names:
        kind, values = SCALARS[name]
        shape = draw(st.sampled_from(["plain", "null", "list", "fixed"]))
        if shape == "null":
            values = st.none() | values
        elif shape == "list":
            kind, values = pa.list_(kind), st.none() | st.lists(st.none() | values, max_size=4)
        elif shape == "fixed":
            pair = st.lists(values, min_size=2, max_size=2)
            kind, values = pa.list_(kind, 2), st.none() | pair
        columns[name] = pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind)
    return pa.table(columns)


def dictionaries(table: pa.Table) -> pa.Table:
    """The same with its numbers as dictionaries."""
    for place, field in enumerate(table.schema):
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            column = table.column(place).dictionary_encode()
            table = table.set_column(place, field.name, column)
    return table


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal, NaN counted as equal to itself."""
    return left.schema == right.schema and repr(left.to_pydict()) == repr(right.to_pydict())


# -- segments ------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(tables(), st.data())
def test_any_table_comes_back_and_its_bytes_do_not_depend_on_chunks(
    table: pa.Table, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        snapshot.create_folders(root)
        segment = snapshot.write_segment(root, "bulk", table)
        assert same(snapshot.read_segment(root, segment), table)
        cut = data.draw(st.integers(0, len(table)))
        pieces = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        padded = pa.concat_tables([table, table]).combine_chunks().slice(len(table))
        coded = dictionaries(pieces)
        for other in (pieces, padded, coded, table.replace_schema_metadata({"pandas": "x"})):
            assert snapshot.write_segment(root, "bulk", other) == segment
        assert os.listdir(root / "segments") == [segment.name]


def test_several_row_groups_come_back_and_do_not_depend_on_chunks(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP", 1000)
    monkeypatch.setattr(parquet, "LONG_GROUP", 300)
    for table in (links(4500), links(4500).append_column("text", pa.array(map(str, range(4500))))):
        segment = snapshot.write_segment(root, "links-concept", table)
        assert snapshot.read_segment(root, segment).equals(table)
        chunked = pa.concat_tables([table.slice(i, 700) for i in range(0, len(table), 700)])
        assert snapshot.write_segment(root, "links-concept", chunked) == segment
        assert snapshot.write_segment(root, "links-concept", dictionaries(chunked)) == segment
        kept = snapshot.read_segment(root, segment, lambda part: part.select(["a", "count"]))
        assert kept.equals(table.select(["a", "count"]))
        assert kept.column("a").num_chunks == len(
            range(0, 4500, 1000 if "text" not in table.schema.names else 300)
        )
        with pytest.raises(CorruptStore, match="expected 4500"):
            snapshot.read_segment(root, segment, lambda part: part.slice(1))


def test_a_reader_without_this_library_sees_the_same_links(root: Path) -> None:
    polars = pytest.importorskip("polars")
    table = links(2000)
    segment = snapshot.write_segment(root, "links-concept", table)
    path = root / "segments" / segment.name
    assert polars.read_parquet(path).to_arrow().cast(table.schema).equals(table)
    assert pq.read_table(path).cast(table.schema).equals(table)


def test_l11_links_take_few_bytes(root: Path) -> None:
    rng = np.random.default_rng(3)
    keys = np.unique(rng.integers(0, 20_000, 500_000) << 32 | rng.integers(0, 20_000, 500_000))
    n = len(keys)
    count = np.minimum(rng.zipf(2.3, n), 1000)
    at = 1_760_000_000_000_000 + rng.integers(0, 100, n) * 731_337
    table = pa.table(
        {
            "a": (keys >> 32).astype(np.uint32),
            "b": keys.astype(np.uint32),
            "weight": count.astype(float),
            "written": count.astype(float),
            "count": count,
            "valence": np.zeros(n),
            "created_at": at,
            "updated_at": at,
        }
    )
    assert snapshot.write_segment(root, "links-concept", table).bytes / n <= 6


def test_modes_and_names(root: Path) -> None:
    segment = snapshot.write_segment(root, "notes", pa.table({"seq": [1]}))
    path = root / "segments" / segment.name
    assert segment.name == f"notes-{xxhash.xxh3_128_hexdigest(path.read_bytes())}.parquet"
    name, _ = snapshot.write_manifest(root, 3, content())
    for file in (path, root / name):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (root, path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": pa.array([1]).cast(pa.timestamp("us"))}),
        pa.table({"a": pa.array(["x"]).dictionary_encode()}),
        pa.table({"a": pa.array([{"b": 1}])}),
        pa.table({"a": pa.array([[[1]]])}),
        pa.table({"a": pa.array([[None, 2]], pa.list_(pa.int8(), 2))}),
        pa.table({"a": pa.array(["{}"], pa.json_())}),
        pa.table({"A": [1]}),
        pa.table({"a, b": [1]}),
        pa.table([[1], [2]], ["a", "a"]),
        pa.table({}),
    ],
)
def test_a_table_that_cannot_be_stored_is_refused(root: Path, table: pa.Table) -> None:
    with pytest.raises(InvalidInput):
        snapshot.write_segment(root, "notes", table)
    assert not os.listdir(root / "segments")


def test_an_unknown_kind_is_refused(root: Path) -> None:
    with pytest.raises(InvalidInput, match="expected one of notes, vectors"):
        snapshot.write_segment(root, "../x", pa.table({"a": [1]}))


def test_every_flipped_byte_of_a_segment_is_detected(root: Path) -> None:
    segment = snapshot.write_segment(root, "links-concept", links(8))
    path = root / "segments" / segment.name
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
        with pytest.raises(CorruptStore) as caught:
            snapshot.read_segment(root, segment)
        assert caught.value.file == f"segments/{segment.name}"
    path.write_bytes(good)
    assert snapshot.read_segment(root, segment).num_rows == segment.rows


def test_every_truncation_growth_and_loss_of_a_segment_is_detected(root: Path) -> None:
    segment = snapshot.write_segment(root, "links-concept", links(8))
    path = root / "segments" / segment.name
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(CorruptStore, match=f"found {length} bytes, expected {len(good)}"):
            snapshot.read_segment(root, segment)
    for bad in (good + b"\0", b"\0" * len(good)):
        path.write_bytes(bad)
        for check in (snapshot.read_segment, snapshot.verify_segment):
            with pytest.raises(CorruptStore):
                check(root, segment)
    path.unlink()
    with pytest.raises(CorruptStore, match="missing"):
        snapshot.read_segment(root, segment)


def test_swapped_segments_are_detected(root: Path) -> None:
    one, two = (snapshot.write_segment(root, "dead", pa.table({"seq": [n, n]})) for n in (1, 2))
    folder = root / "segments"
    (folder / one.name).rename(folder / "x")
    (folder / two.name).rename(folder / one.name)
    (folder / "x").rename(folder / two.name)
    for segment in (one, two):
        with pytest.raises(CorruptStore, match="hash"):
            snapshot.read_segment(root, segment)
    # an entry that names the other's file, whole and undamaged as it is
    with pytest.raises(CorruptStore, match="do not agree"):
        snapshot.read_segment(root, replace(one, name=two.name))


def test_a_damaged_file_of_the_same_name_is_replaced(root: Path) -> None:
    table = pa.table({"seq": [1, 2]})
    segment = snapshot.write_segment(root, "dead", table)
    (root / "segments" / segment.name).write_bytes(b"rubbish")
    assert snapshot.write_segment(root, "dead", table) == segment
    assert snapshot.read_segment(root, segment).equals(table)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/passwd",
        "notes-\0.parquet",
        "x" * 300,
        "",
        "notes-" + "0" * 31 + ".parquet",
        "notes-" + "A" * 32 + ".parquet",
        "other-" + "0" * 32 + ".parquet",
        "notes-" + "0" * 32 + ".parquet\n",
        "../notes-" + "0" * 32 + ".parquet",
    ],
)
def test_a_name_that_no_store_has_is_refused(root: Path, name: str) -> None:
    segment = Segment(name, "notes", 1, 1, "seq int64", "0" * 32)
    with pytest.raises(CorruptStore, match="which no store has"):
        snapshot.read_segment(root, segment)
    with pytest.raises(CorruptStore, match="which no store has"):
        snapshot.read_manifest(root, name, "0" * 32)


def test_links_pipes_and_folders_in_place_of_files_are_refused(root: Path) -> None:
    segment = snapshot.write_segment(root, "dead", pa.table({"seq": [1]}))
    path = root / "segments" / segment.name
    name, digest = snapshot.write_manifest(root, 1, content())
    for file, read in (
        (path, lambda: snapshot.read_segment(root, segment)),
        (root / name, lambda: snapshot.read_manifest(root, name, digest)),
    ):
        other = file.with_name("elsewhere")
        file.rename(other)
        for make in (lambda f: f.symlink_to("elsewhere"), os.mkfifo):
            make(file)  # type: ignore[operator]
            with pytest.raises(CorruptStore, match=r"symbolic link|regular file"):
                read()
            file.unlink()
        file.mkdir()
        with pytest.raises(CorruptStore, match="regular file"):
            read()
        file.rmdir()
        other.rename(file)
    path.parent.rename(root / "moved")
    (root / "segments").symlink_to("moved")
    with pytest.raises(CorruptStore, match="folder"):
        snapshot.read_segment(root, segment)


def plant(root: Path, table: pa.Table, schema: str, rows: int, **options: Any) -> Segment:
    """Put a Parquet file in place that another program wrote, with a true hash."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    data = sink.getvalue().to_pybytes()
    digest = xxhash.xxh3_128_hexdigest(data)
    name = f"notes-{digest}.parquet"
    (root / "segments" / name).write_bytes(data)
    return Segment(name, "notes", rows, len(data), schema, digest)


def test_a_small_file_that_expands_hugely_is_refused(root: Path) -> None:
    ones = pa.table({"a": np.zeros(20_000_000, np.int64)})
    bomb = plant(root, ones, "a int64", len(ones), store_schema=False)
    assert bomb.bytes < 100_000
    with pytest.raises(CorruptStore, match="would expand to"):
        snapshot.read_segment(root, bomb)
    long = pa.table({"a": pa.array(["x" * 100_000] * 2000).dictionary_encode()})
    bomb = plant(root, long, "a string", len(long), store_schema=False)
    assert bomb.bytes < 20_000
    with pytest.raises(CorruptStore, match="refused encoding"):
        snapshot.read_segment(root, bomb)


def test_a_table_of_equal_values_can_be_read_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "FREE", 1 << 20)
    table = pa.table({"a": np.zeros(500_000, np.int64), "b": np.zeros(500_000)})
    segment = snapshot.write_segment(root, "bulk", table)
    assert segment.bytes > 8_000_000
    assert snapshot.read_segment(root, segment).equals(table)


def test_files_of_other_programs_are_refused(root: Path) -> None:
    table = pa.table({"a": [1, 2]})
    plain: dict[str, Any] = {"store_schema": False}
    cases = [
        (plant(root, table, "a int64", 3, **plain), "found 2 rows, expected 3"),
        (plant(root, table, "a int32", 2, **plain), "found the columns"),
        (plant(root, table, "b int64", 2, **plain), "found the columns"),
        (plant(root, table, "a int64, b int64", 2, **plain), "found the columns"),
        (plant(root, table, "a int64", 2), "Arrow extension"),
        (plant(root, pa.table({"a": pa.array(["{}"], pa.json_())}), "a string", 1), "Arrow ext"),
        (plant(root, table, "a object", 2, **plain), "schema"),
        (plant(root, table, "", 2, **plain), "schema"),
    ]
    for segment, reason in cases:
        with pytest.raises(CorruptStore, match=reason):
            snapshot.read_segment(root, segment)


def test_rubbish_with_a_true_hash_is_refused_in_plain_words(root: Path) -> None:
    good = snapshot.write_segment(root, "dead", links(20))
    data = (root / "segments" / good.name).read_bytes()
    rng = np.random.default_rng(5)
    for turn in range(400):
        bad = bytearray(data)
        bad[int(rng.integers(len(bad) if turn % 2 else 300) * -1)] = int(rng.integers(256))
        digest = xxhash.xxh3_128_hexdigest(bytes(bad))
        segment = replace(good, name=f"dead-{digest}.parquet", hash=digest)
        (root / "segments" / segment.name).write_bytes(bad)
        try:  # with a true hash other values may come, but never another error
            file, rows = "", snapshot.read_segment(root, segment).num_rows
        except CorruptStore as error:
            file, rows = error.file, good.rows
        assert file in ("", f"segments/{segment.name}")
        assert rows == good.rows


# -- manifests -----------------------------------------------------------------------------------


def test_a_manifest_comes_back(root: Path) -> None:
    segment = snapshot.write_segment(root, "dead", pa.table({"seq": [1]}))
    given_ = content(segments=[segment], previous="manifest-4.json", embedder={"name": "w"})
    name, digest = snapshot.write_manifest(root, 9, given_)
    assert name == "manifest-9.json"
    assert snapshot.read_manifest(root, name, digest) == given_ | {
        "format": snapshot.FORMAT,
        "seq": 9,
    }
    assert snapshot.write_manifest(root, 9, dict(reversed(given_.items()))) == (name, digest)
    assert json.loads((root / name).read_text())["segments"][0]["rows"] == 1


def test_a_manifest_of_an_older_format_is_read(root: Path) -> None:
    data = json.dumps(content(format=1, seq=9)).encode()
    (root / "manifest-9.json").write_bytes(data)
    found = snapshot.read_manifest(root, "manifest-9.json", xxhash.xxh3_128_hexdigest(data))
    assert found["format"] == 1


def test_every_flip_and_truncation_of_a_manifest_is_detected(root: Path) -> None:
    segment = snapshot.write_segment(root, "dead", pa.table({"seq": [1]}))
    name, digest = snapshot.write_manifest(root, 9, content(segments=[segment]))
    good = (root / name).read_bytes()
    bad = [
        good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :] for place in range(len(good))
    ]
    bad += [good[:length] for length in range(len(good))] + [good + b" ", b"\0" * len(good)]
    for data in bad:
        (root / name).write_bytes(data)
        with pytest.raises(CorruptStore, match="found the hash"):
            snapshot.read_manifest(root, name, digest)
    (root / name).unlink()
    with pytest.raises(CorruptStore, match="missing"):
        snapshot.read_manifest(root, name, digest)


SEGMENT = {"name": f"dead-{'0' * 32}.parquet", "kind": "dead", "rows": 1, "bytes": 1}
SEGMENT |= {"schema": "seq int64", "hash": "0" * 32}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "1"}, "format"),
        ({"format": True}, "format"),
        ({"format": 0}, "format"),
        ({"seq": 8}, "seq"),
        ({"store": 3}, "store"),
        ({"counts": {"notes": -1}}, "counts"),
        ({"created_at": True}, "created_at"),
        ({"previous": "manifest-9.json"}, "before"),
        ({"previous": "../manifest-1.json"}, "which no store has"),
        ({"extra": 1}, "unknown fields extra"),
        ({"segments": [SEGMENT, SEGMENT]}, "twice"),
        ({"segments": [SEGMENT | {"name": "../x"}]}, "which no store has"),
        ({"segments": [SEGMENT | {"kind": "notes"}]}, "do not agree"),
        ({"segments": [SEGMENT | {"hash": "1" * 32}]}, "do not agree"),
        ({"segments": [SEGMENT | {"rows": -1}]}, "rows"),
        ({"segments": [SEGMENT | {"rows": True}]}, "rows"),
        ({"segments": [SEGMENT | {"bytes": 1.0}]}, "bytes"),
        ({"segments": [SEGMENT | {"schema": "seq object"}]}, "schema"),
        ({"segments": [SEGMENT | {"more": 1}]}, "other fields"),
        ({"segments": ["x"]}, "other fields"),
        ({"segments": {}}, "segments"),
    ],
)
def test_a_manifest_of_another_shape_is_refused(
    root: Path, change: dict[str, Any], reason: str
) -> None:
    data = json.dumps(content(format=1, seq=9) | change).encode()
    (root / "manifest-9.json").write_bytes(data)
    with pytest.raises(CorruptStore, match=reason):
        snapshot.read_manifest(root, "manifest-9.json", xxhash.xxh3_128_hexdigest(data))


def test_a_manifest_that_lacks_a_field_is_refused(root: Path) -> None:
    whole = content(format=1, seq=9)
    for field in whole:
        data = json.dumps({name: value for name, value in whole.items() if name != field}).encode()
        (root / "manifest-9.json").write_bytes(data)
        with pytest.raises(CorruptStore, match=field):
            snapshot.read_manifest(root, "manifest-9.json", xxhash.xxh3_128_hexdigest(data))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"format": 1, "format": 1}',
        '{"format": NaN}',
        "[" * 100_000,
        "\xff",
        "9" * 9999,
    ],
)
def test_a_manifest_that_is_not_json_is_refused(root: Path, text: str) -> None:
    data = text.encode("latin-1")
    (root / "manifest-9.json").write_bytes(data)
    with pytest.raises(CorruptStore):
        snapshot.read_manifest(root, "manifest-9.json", xxhash.xxh3_128_hexdigest(data))


def test_a_newer_format_is_refused_with_both_numbers(root: Path) -> None:
    data = json.dumps({"format": snapshot.FORMAT + 1, "anything": "else"}).encode()
    (root / "manifest-9.json").write_bytes(data)
    with pytest.raises(FormatTooNew) as caught:
        snapshot.read_manifest(root, "manifest-9.json", xxhash.xxh3_128_hexdigest(data))
    assert (caught.value.found, caught.value.known) == (snapshot.FORMAT + 1, snapshot.FORMAT)


@pytest.mark.parametrize(
    "bad",
    [
        {"store": None},
        {"state": {"x": math.nan}},
        {"segments": ["x"]},
        {"counts": {"a": -1}},
        {"state": {1: 2, "1": 3}},
    ],
)
def test_a_manifest_that_could_not_be_read_is_not_written(root: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        snapshot.write_manifest(root, 1, content(**bad))
    assert snapshot.newest_manifest(root) is None


def test_the_current_manifest_is_never_replaced_and_a_leftover_is(root: Path) -> None:
    name, digest = snapshot.write_manifest(root, 4, content())
    assert snapshot.write_manifest(root, 4, content(), current=name) == (name, digest)
    with pytest.raises(StoreError, match="is the current snapshot"):
        snapshot.write_manifest(root, 4, content(created_at=5), current=name)
    other = snapshot.write_manifest(root, 4, content(created_at=5), current="manifest-3.json")
    assert snapshot.read_manifest(root, *other)["created_at"] == 5


def test_the_newest_manifest_is_by_number(root: Path) -> None:
    for seq in (9, 10, 2):
        snapshot.write_manifest(root, seq, content())
    (root / "manifest-010.json").write_text("{}")
    assert snapshot.newest_manifest(root) == (10, "manifest-10.json")
    assert [seq for seq, _ in snapshot.list_manifests(root)] == [2, 9, 10]


# -- faults --------------------------------------------------------------------------------------


class Faulty(files.Disk):
    """Fails at the n-th call of any kind."""

    def __init__(self, at: int, code: int) -> None:
        self.left = at
        self.code = code
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("left", "code", "calls") or name.startswith("_"):
            return found

        def call(*args: Any) -> Any:
            self.calls.append(name)
            self.left -= 1
            if self.left == 0:
                if name == "close":
                    found(*args)
                raise OSError(self.code, os.strerror(self.code))
            return found(*args)

        return call


def survivors(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


VERBS: dict[str, Callable[[Path], object]] = {
    "segment": lambda root: snapshot.write_segment(root, "links-concept", links(300)),
    "manifest": lambda root: snapshot.write_manifest(root, 2, content(counts={"notes": 5})),
    "sweep": lambda root: snapshot.sweep(root, {"manifest-1.json"}, older_than=1 << 62),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_fault_at_any_call_is_told_plainly_and_harms_nothing(
    root: Path, verb: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = snapshot.write_segment(root, "dead", pa.table({"seq": [1]}))
    name, digest = snapshot.write_manifest(root, 1, content(segments=[segment]))
    whole = files.disk
    failed = 0
    for at in range(1, 200):
        faulty = Faulty(at, code)
        monkeypatch.setattr(files, "disk", faulty)
        caught: StoreError | None = None
        try:
            VERBS[verb](root)
        except StoreError as error:
            caught = error
        monkeypatch.setattr(files, "disk", whole)
        if caught is not None:
            failed += 1
            assert len(str(caught)) > 40
        if code == errno.ENOSPC and caught is not None:
            assert "the disk is full" in str(caught)
            assert "nothing was changed" in str(caught)
        if code == errno.EROFS and caught is not None:
            assert isinstance(caught, ReadOnlyStore)
        left = [file for file in survivors(root) if "tmp-" in file]
        assert not left or faulty.calls[-1] == "unlink"
        if verb != "sweep":
            assert snapshot.read_manifest(root, name, digest)["segments"] == [segment]
            assert snapshot.read_segment(root, segment).num_rows == 1
        if faulty.left > 0:
            break
    assert failed > 3
    VERBS[verb](root)  # and works again


# -- the folder ----------------------------------------------------------------------------------


def age(path: Path, seconds: float) -> None:
    at = path.stat().st_mtime_ns - int(seconds * 1e9)
    os.utime(path, ns=(at, at))


def test_sweep_takes_what_is_old_and_unnamed_and_nothing_else(root: Path) -> None:
    folder = root / "segments"
    part = [snapshot.write_segment(root, "dead", pa.table({"seq": [n]})) for n in range(4)]
    names = [snapshot.write_manifest(root, seq, content())[0] for seq in (1, 2, 3)]
    temporary = f"tmp-{'0' * 32}"
    for place in (folder / temporary, root / temporary, folder / "notes.txt", root / "README"):
        place.write_text("x")
        age(place, 100)
    for file in ("journal.db", "journal.db-wal", "head"):
        (root / file).write_text("x")
        age(root / file, 100)
    for segment in part[:3]:
        age(folder / segment.name, 50)
    age(root / names[1], 10)
    keep = {names[1], names[2], part[0].name}
    with pytest.warns(UserWarning, match="left 2 unknown files alone"):
        swept = snapshot.sweep(root, keep)
    assert sorted(swept.removed) == sorted(
        [names[0], temporary, f"segments/{temporary}"]
        + [f"segments/{segment.name}" for segment in part[1:3]]
    )
    assert sorted(swept.unknown) == ["README", "segments/notes.txt"]
    assert swept.freed > 0
    assert (folder / part[3].name).exists()  # younger than the oldest kept manifest
    (folder / "notes.txt").unlink()
    (root / "README").unlink()
    assert snapshot.sweep(root, keep).removed == []
    again = snapshot.sweep(root, keep, older_than=1 << 62)
    assert again.removed == [f"segments/{part[3].name}"]


def test_sweep_keeps_newer_manifests_and_does_nothing_without_one(root: Path) -> None:
    segment = snapshot.write_segment(root, "dead", pa.table({"seq": [1]}))
    assert snapshot.sweep(root, {segment.name}, older_than=1 << 62).removed == []
    for seq in (1, 2):
        snapshot.write_manifest(root, seq, content())
    assert snapshot.sweep(root, {"manifest-1.json", segment.name}, older_than=1 << 62).removed == []


def test_a_segment_written_again_is_young_again(root: Path) -> None:
    table = pa.table({"seq": [1]})
    path = root / "segments" / snapshot.write_segment(root, "bulk", table).name
    age(path, 1000)
    snapshot.write_manifest(root, 1, content())
    snapshot.write_segment(root, "bulk", table)
    assert snapshot.sweep(root, {"manifest-1.json"}).removed == []


def test_copies_are_whole_and_damage_is_not_copied(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.fa"
    snapshot.create_folders(target)
    segment = snapshot.write_segment(root, "links-concept", links(100))
    name, digest = snapshot.write_manifest(root, 1, content(segments=[segment]))
    assert snapshot.copy_segment(root, segment, target)
    assert not snapshot.copy_segment(root, segment, target)  # there already: compared
    snapshot.copy_manifest(root, name, digest, target)
    assert snapshot.read_manifest(target, name, digest)["segments"] == [segment]
    assert snapshot.read_segment(target, segment).equals(links(100))
    third = tmp_path / "third.fa"
    snapshot.create_folders(third)
    assert not snapshot.copy_segment(root, segment, third, link=False)
    assert (third / "segments" / segment.name).stat().st_nlink == 1
    (root / "segments" / segment.name).write_bytes(b"")
    (third / "segments" / segment.name).unlink()
    with pytest.raises(CorruptStore):
        snapshot.copy_segment(root, segment, third)
    assert survivors(third) == set()


def test_a_copy_across_file_systems_copies_the_bytes(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = snapshot.write_segment(root, "dead", pa.table({"seq": [1]}))
    target = tmp_path / "copy.fa"
    snapshot.create_folders(target)

    def refuse(self: object, old: Path, new: Path) -> None:
        raise OSError(errno.EXDEV, "other device")

    monkeypatch.setattr(files.Disk, "link", refuse)
    assert snapshot.copy_segment(root, segment, target) is False
    assert snapshot.read_segment(target, segment).num_rows == 1


@pytest.fixture
def locked(root: Path) -> Iterator[Path]:
    with snapshot.try_lock(root) as mine:
        assert mine
        yield root


def test_one_snapshotter_among_threads_and_processes(locked: Path) -> None:
    seen: list[bool] = []

    def attempt() -> None:
        with snapshot.try_lock(locked) as mine:
            seen.append(mine)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    attempt()  # a failed try must not let the lock go
    child = os.fork()
    if child == 0:
        with snapshot.try_lock(locked) as mine:
            os._exit(int(mine))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert seen == [False, False]


def test_the_lock_is_free_again(root: Path) -> None:
    for _ in range(2):
        with snapshot.try_lock(root) as mine:
            assert mine
    (root / "snapshot.lock").unlink()
    (root / "snapshot.lock").symlink_to("elsewhere")
    with pytest.raises(StoreError), snapshot.try_lock(root):
        pass


# -- FORMAT.md -----------------------------------------------------------------------------------

PAGE = (Path(__file__).parent.parent / "FORMAT.md").read_text()


def columns_told(kind: str) -> list[tuple[str, str, bool]]:
    """Name, type and whether null, as FORMAT.md tells them for a kind."""
    part = PAGE.split(f"\n### {kind}\n")[1].split("\n#")[0]
    rows = [line.split("|") for line in part.splitlines() if line.startswith("| `")]
    kinds = [row[2].strip().replace("&lt;", "<").replace("&gt;", ">") for row in rows]
    return [
        (row[1].strip(" `"), kind.removesuffix(", null"), kind.endswith(", null"))
        for row, kind in zip(rows, kinds, strict=True)
    ]


def test_the_page_tells_the_columns_that_are_written() -> None:
    from fastassoc.concepts import VOCABULARY_SCHEMA
    from fastassoc.cues import STEMS_SCHEMA
    from fastassoc.linkruns import LINKS_SCHEMA
    from fastassoc.notes import NOTES_SCHEMA, NOTESTATE_SCHEMA

    ends = [pa.field(name, pa.int64()) for name in ("a", "b")]
    to_notes = pa.schema([LINKS_SCHEMA.field("a"), *ends[1:], *list(LINKS_SCHEMA)[2:]])
    between_notes = pa.schema([*ends, *list(LINKS_SCHEMA)[2:]])
    vectors = pa.schema([("seq", pa.int64()), ("vector", pa.list_(pa.float32(), 7))])
    for kind, schema in {
        "notes": NOTES_SCHEMA,
        "notestate": NOTESTATE_SCHEMA,
        "vocabulary": VOCABULARY_SCHEMA,
        "links-concept": LINKS_SCHEMA,
        "links-note": between_notes,
        "links-cue": to_notes,
        "stems": STEMS_SCHEMA,
        "vectors": vectors,
        "vectors-next": vectors,
    }.items():
        told = columns_told(kind)
        text = ", ".join(f"{name} {type_}" for name, type_, _ in told)
        assert text.replace("[n]", "[7]") == parquet.schema_text(schema)
        if kind.startswith("note"):
            assert [null for *_, null in told] == [field.nullable for field in schema]


def test_the_page_tells_version_kinds_and_fields() -> None:
    assert PAGE.splitlines()[0].endswith(f"version {snapshot.FORMAT}")
    assert "|".join(snapshot.KINDS) in PAGE
    fields = PAGE.split("## The manifest")[1].split("Each entry")[0]
    told = {line.split("`")[1] for line in fields.splitlines() if line.startswith("| `")}
    assert told == {*content(), "format", "seq"}


def test_the_page_s_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "support.fa"
    snapshot.create_folders(root)
    one = {"a": [0], "b": [1], "weight": [3.5], "written": [2.0], "count": [2], "valence": [0.5]}
    link = pa.table(one | {"created_at": [0], "updated_at": [0]})
    tables = {
        "notes": {"seq": [0, 1], "id": ["n0", "n1"], "text": ["x", "y"], "created_at": [5, 6]},
        "dead": {"seq": [0]},
        "vocabulary": {"id": [0, 1], "key": ["coffee", "milk"], "shown": ["Coffee", "milk"]},
    }
    parts = [snapshot.write_segment(root, kind, pa.table(table)) for kind, table in tables.items()]
    parts.append(snapshot.write_segment(root, "links-concept", link))
    points = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    vectors = pa.table({"seq": [0, 1], "vector": points})
    parts.append(snapshot.write_segment(root, "vectors", vectors))
    snapshot.write_manifest(root, 12, content(segments=parts))
    code = "".join(block.split("```")[0] for block in PAGE.split("```python\n")[1:])
    code += "print(links.rows(), notes.rows(), vectors.rows())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith(
        "[('Coffee', 'milk', 3.5, 1.5)] [(1, 'n1', 'y', 6)] [('n1', [3.0, 4.0])]\n"
    )
