from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastassoc import batches, parquetguard, sources
from fastassoc import lines as readers
from fastassoc.batch import NoteBatch
from fastassoc.errors import BatchRejected, InvalidInput, TooManyRejects
from fastassoc.ingest import IngestInterrupted, IngestProgress, IngestReport, plan, run
from fastassoc.reports import Report
from fastassoc.settings import Settings

PLAIN = Settings(extract=False)
LISTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "text": pa.string(),
        "concepts": LISTS,
        "subjects": LISTS,
        "domain": pa.string(),
        "importance": pa.float64(),
        "created_at": pa.string(),
        "metadata": pa.string(),
    }
)


class Store:
    """Collects what is committed; skips ids that it has, and keeps the ledger."""

    def __init__(self) -> None:
        self.batches: list[NoteBatch] = []
        self.ledgers: list[dict[str, Any] | None] = []
        self.unfinished: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, dict[str, Any]] = {}
        self.before_commit: Any = None

    def commit(self, batch: NoteBatch, ledger: dict[str, Any] | None) -> Report:
        if self.before_commit is not None:
            self.before_commit(len(self.batches))
        self.batches.append(batch)
        self.ledgers.append(ledger)
        rows = batch.to_rows()
        new = {row["id"]: row for row in rows if row["id"] not in self.notes}
        self.notes |= new
        if ledger is not None:
            self.unfinished.pop(ledger["key"], None)
            if not ledger["final"]:
                self.unfinished[ledger["key"]] = json.loads(json.dumps(ledger))
        return Report(written=len(new), skipped=len(rows) - len(new), position=len(self.batches))

    def run(self, source: Any, **options: Any) -> IngestReport:
        options.setdefault("settings", PLAIN)
        return run(self.commit, source, resume_state=self.unfinished.get, **options)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, names with the first spelling of all, as a vocabulary shows them."""
        shown: dict[str, str] = {}
        out = []
        for batch in self.batches:
            for key, spelling in zip(batch.keys, batch.spellings, strict=True):
                shown.setdefault(key, spelling)
            for row in batch.to_rows():
                row.pop("spelled", None)
                out.append(row | {"shown": [shown[key] for key in row.get("concepts", ())]})
        return out


def ingested(source: Any, **options: Any) -> list[dict[str, Any]]:
    store = Store()
    store.run(source, max_rejects=1.0, **options)
    return store.rows


def write(path: Path, rows: list[dict[str, Any]], kind: str) -> Path:
    """The rows as a file; metadata are dicts in JSON, text elsewhere."""
    path = path.with_suffix("." + kind)
    flat = [
        {**row, "metadata": json.dumps(row["metadata"])} if row.get("metadata") else row
        for row in rows
    ]
    if kind in ("jsonl", "jsonl.gz"):
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    elif kind in ("csv", "tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            made = csv.DictWriter(file, SCHEMA.names, delimiter="\t" if kind == "tsv" else ",")
            made.writeheader()
            for row in flat:
                cells = {k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()}
                made.writerow(cells)
    else:
        table = pa.Table.from_pylist(flat, SCHEMA)
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=3)
        else:
            new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
            with new(path, SCHEMA) as made:
                made.write_table(table, max_chunksize=2)
    return path


KINDS = ("jsonl", "jsonl.gz", "csv", "tsv", "parquet", "arrow", "arrows")
names = st.sampled_from(["tea", "Tea ", "a|b", "x;y", "数据", 'q"u', "line\nbreak", "🚀", ""])
rows_of = st.lists(
    st.fixed_dictionaries(
        {"text": st.sampled_from(["one", "two\nlines", "ü,;", " ", 'say "hi"'])},
        optional={
            "id": st.sampled_from(["1", "2", "007"]),
            "concepts": st.lists(names, max_size=3),
            "subjects": st.lists(st.sampled_from(["Tea (drink)", "a, b"]), max_size=2),
            "domain": st.sampled_from(["d", "e"]),
            "importance": st.sampled_from([0.5, 0.1, 2.0]),
            "created_at": st.sampled_from(["2024-01-01", "2024-01-01T00:00:00+01:00", "no"]),
            "metadata": st.sampled_from([{"a": 1}, {"b": ["x", None]}]),
        },
    ),
    max_size=12,
)


@given(rows_of, st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_format_split_or_batch_size_changes_a_note(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    expected = ingested(rows)
    folder = tmp_path_factory.mktemp("split")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    paths = []
    for n, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        kind = data.draw(st.sampled_from(KINDS))
        if begin < end:
            paths.append(write(folder / f"part{n}", rows[begin:end], kind))
    batch_rows = data.draw(st.integers(1, 13))
    assert ingested(rows, batch_rows=batch_rows) == expected
    if paths:
        assert ingested([str(path) for path in paths], batch_rows=batch_rows) == expected
        found = plan(paths)
        assert (found.rows, found.rows - found.rejected) == (len(rows), len(expected))


def test_every_kind_of_source(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl

    rows = [{"id": str(n), "text": f"t{n}", "concepts": [f"c{n % 3}"]} for n in range(10)]
    expected = ingested(rows)
    table = pa.Table.from_pylist(rows)
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as made:
        made.write_table(table)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    for source, options in (
        (iter(rows), {}),
        (tuple(rows), {}),
        (table, {}),
        (table.to_batches()[0], {}),
        (table.to_reader(max_chunksize=3), {}),
        (pd.DataFrame(rows), {}),
        (pl.DataFrame(rows), {}),
        (io.BytesIO(lines), {}),
        (io.BytesIO(stream.getvalue()), {"format": "arrow"}),
        (write(tmp_path / "a", rows, "jsonl"), {}),
        (str(tmp_path / "*.jsonl"), {}),
        ([str(tmp_path / "a.*")], {"format": "jsonl"}),
    ):
        assert ingested(source, batch_rows=4, **options) == expected, type(source)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(b'{"text": "a"}\n\n{"text": "b"}')

    monkeypatch.setattr("sys.stdin", Input())
    store = Store()
    report = store.run("-")
    assert (report.written, report.rows, store.ledgers) == (2, 2, [None])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("missing.jsonl", "there is no file missing.jsonl"),
        ("*.nothing", "no file matches"),
        (".", "is a folder; name its files"),
        ({"text": "a"}, "found dict"),
        (5, "found int 5, expected a path"),
        ([{"body": "a", "n": 1}], "no column gives the text (looked for 'text')"),
        (pa.table({"body": ["x"]}), "Columns found: 'body'"),
        (io.StringIO(""), "found a text file"),
    ],
)
def test_wrong_sources(source: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        ingested(source)
    assert words in str(error.value)


def test_wrong_options(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("")
    for options, words in (
        ({"format": "xml"}, "expected one of jsonl, csv, parquet, arrow"),
        ({"columns": {"body": "text"}}, "columns: found the fields body"),
        ({"metadata_columns": "all"}, "or 'rest'"),
        ({"batch_rows": 0}, "batch_rows: found 0"),
        ({"on_duplicate": "ignore"}, "expected one of skip, replace, error"),
        ({"on_error": "skip"}, "expected one of reject, raise"),
    ):
        with pytest.raises(InvalidInput, match=words):
            ingested([{"text": "a"}], **options)
    with pytest.raises(InvalidInput, match="the suffix tells no format"):
        ingested(tmp_path / "a.xyz")


# -- columns ------------------------------------------------------------------------------------


def test_columns_are_mapped(tmp_path: Path) -> None:
    rows = [{"body": "a", "doc": 7, "tags": "x; y", "text": "other", "year": 1999, "gone": None}]
    options: dict[str, Any] = {
        "columns": {"text": "body", "id": "doc", "concepts": "tags"},
        "metadata_columns": "rest",
        "list_separator": ";",
    }
    expected = {
        "id": "7",
        "text": "a",
        "concepts": ["x", "y"],
        "metadata": '{"text":"other","year":1999}',
        "shown": ["x", "y"],
    }
    table = pa.Table.from_pylist(rows)
    assert ingested(table, **options) == [expected]
    pq.write_table(table, tmp_path / "a.parquet")
    assert ingested(tmp_path / "a.parquet", **options) == [expected]
    json_rows = [{**rows[0], "tags": ["x", "y"]}]
    assert ingested(json_rows, **options) == [expected]
    path = tmp_path / "a.csv"
    path.write_text("body,doc,tags,text,year,gone\na,7,x; y,other,1999,\n")
    text = {**expected, "metadata": '{"text":"other","year":"1999"}'}
    assert ingested(path, **options) == [text]
    options["metadata_columns"] = ["year"]
    assert ingested(table, **options)[0]["metadata"] == '{"year":1999}'
    options["metadata_columns"] = []
    assert "metadata" not in ingested(table, **options)[0]
    with pytest.raises(InvalidInput, match="there is no column 'nope'"):
        ingested(table, columns={"text": "body", "id": "nope"})


def test_own_metadata_wins_over_columns() -> None:
    rows = [{"text": "a", "metadata": {"k": 1}, "k": 2, "l": 3}]
    assert ingested(rows, metadata_columns="rest")[0]["metadata"] == '{"k":1,"l":3}'


def test_csv_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "\ufeffid,text,concepts,importance,created_at,metadata\n"
        '007,a,"[""x;y""]",0.5,2024-01-01,"{""a"": 1}"\n'
        "2,b,[],,1704067200000000,\n"
        "3,c,,,,\n"
        "4,d,x,high,,\n"
        "5,e,x,,,\n\n"
        "6,f\n"
        '7,"g"g,,,,\n'
        "8,h,[x,,,\n",
        encoding="utf-8",
    )
    store = Store()
    report = store.run(path, settings=Settings(), max_rejects=1.0)
    when = 1_704_067_200_000_000
    assert [(row["id"], row.get("concepts"), row.get("created_at")) for row in store.rows] == [
        ("007", ["x;y"], when),
        ("2", None, when),
        ("3", None, None),
        ("5", ["x"], None),
    ]
    assert store.batches[0].extracted.tolist() == [False, False, True, False]
    assert [row for row, _ in report.reasons] == [3, 5, 6, 7]
    assert "expected a number from 0 to 1" in report.reasons[0][1]
    assert "found 2 cells, expected 6" in report.reasons[1][1]
    assert "malformed CSV" in report.reasons[2][1]
    (tmp_path / "b.csv").write_text("text,text\n")
    with pytest.raises(InvalidInput, match="names text twice"):
        ingested(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("")
    with pytest.raises(InvalidInput, match="found no header"):
        ingested(tmp_path / "c.csv")


# -- bad rows -----------------------------------------------------------------------------------


def test_json_lines_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LONGEST", 1 << 12)
    monkeypatch.setattr(readers, "CHUNK", 1 << 10)
    lines = [
        b'{"text": "a", "id": 12345678901234567890}\r',
        b"{",
        b"",
        b'{"text": "b"} {"text": "c"}',
        b'{"text": "\\ud800"}',
        b'{"text": "\xff"}',
        b'{"text": "' + b"x" * 10_000 + b'"}',
        b'["text"]',
        b'{"text": "n", "importance": NaN}',
        b"[" * 100_000,
        b'{"text": "n", "id": 1.0}',
        b'  {"text": "z", "id": "1", "metadata": {"n": 1, "f": 1.0, "b": 123456789012345678901}} ',
    ]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    rejects = tmp_path / "rejects.jsonl"
    store = Store()
    report = store.run(path, max_rejects=1.0, rejects_file=rejects)
    assert [row["id"] for row in store.rows] == ["12345678901234567890", "1"]
    assert store.rows[1]["metadata"] == '{"b":123456789012345678901,"f":1.0,"n":1}'
    held = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [one["line"] for one in held] == [2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert [one["row"] for one in held] == list(range(1, 10))
    for one, words in zip(
        held,
        [
            "malformed JSON: Expecting property name",
            "malformed JSON: Extra data, column 15",
            "lone surrogate",
            "no UTF-8",
            "longer than 0 MiB",
            "found list ['text'], expected a JSON object",
            "NaN is no JSON",
            "longer than 0 MiB",
            "id: found float 1.0, expected a str",
        ],
        strict=True,
    ):
        assert words in one["reason"]
        assert one["source"] == str(path)
    assert held[0]["data"] == "{"
    assert held[-1]["data"] == {"text": "n", "id": 1.0}
    assert (report.rejected, report.rejects_file) == (9, str(rejects))
    assert os.stat(rejects).st_mode & 0o777 == 0o600
    (tmp_path / "b.json").write_text('[{"text": "a"}]')
    with pytest.raises(InvalidInput, match="JSON array, expected one JSON object a line"):
        ingested(tmp_path / "b.json")


def rows_with_bad(n: int, bad: set[int]) -> list[dict[str, Any]]:
    return [{"text": "" if row in bad else f"t{row}", "concepts": ["c"]} for row in range(n)]


def test_too_many_rejects() -> None:
    store = Store()
    rows = rows_with_bad(3000, set(range(1000, 1100)))
    with pytest.raises(TooManyRejects) as error:
        store.run(rows, batch_rows=500)
    report = error.value.report
    assert isinstance(report, IngestReport)
    assert len(store.rows) == 1000 == report.written
    assert (report.rows, report.rejected) == (1500, 100)
    assert "row 1000: text: found nothing" in str(error.value)
    assert Store().run(rows, batch_rows=500, max_rejects=0.08).rejected == 100
    with pytest.raises(TooManyRejects):  # few rows: at the end
        Store().run(rows_with_bad(50, {3}))
    assert Store().run(rows_with_bad(1000, set(range(10))), batch_rows=20).rejected == 10


def test_on_error_raise() -> None:
    store = Store()
    with pytest.raises(BatchRejected, match="row 7: text"):
        store.run(rows_with_bad(10, {7}), batch_rows=4, on_error="raise")
    assert len(store.rows) == 4


# -- ids, resume, progress ------------------------------------------------------------------------


def test_ids_come_from_content_and_occurrence() -> None:
    rows = [{"text": "a"}, {"text": "a"}, {"text": "a", "concepts": []}, {"text": "a", "id": "x"}]
    store = Store()
    assert store.run(rows).written == 4
    assert store.run(rows, batch_rows=1).skipped == 4
    assert store.run(rows[:1]).skipped == 1
    assert store.run([{"text": "a"}] * 3).written == 1
    assert all(row["id"][14] == "5" for row in store.rows if row["id"] != "x")


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_l64_an_interrupted_ingest_goes_on(tmp_path: Path, kind: str) -> None:
    rows = [{"text": f"t{n % 70}", "concepts": [f"c{n % 9}"]} for n in range(200)]
    for bad in (3, 150):
        rows[bad]["text"] = " "
    paths = [write(tmp_path / f"{n}", rows[n * 50 : n * 50 + 50], kind) for n in range(4)]
    whole = Store()
    rejects = tmp_path / "whole.txt"
    whole.run(paths, batch_rows=17, max_rejects=0.5, rejects_file=rejects)
    for stop in range(len(whole.batches)):
        store = Store()

        def fail(n: int, stop: int = stop) -> None:
            if n == stop:
                raise OSError("no space")

        store.before_commit = fail
        again = tmp_path / f"again{stop}.txt"
        options: dict[str, Any] = {"max_rejects": 0.5, "rejects_file": again}
        with pytest.raises(OSError, match="no space"):
            store.run(paths, batch_rows=17, **options)
        store.before_commit = None
        report = store.run(paths, batch_rows=23, **options)
        assert report.resumed_rows == stop * 17
        assert (report.rows, report.rejected, store.unfinished) == (200, 2, {})
        assert store.rows == whole.rows
        assert again.read_text() == rejects.read_text()
        assert store.run(paths, **options).written == 0
        assert again.read_text() == rejects.read_text()


def test_another_command_is_another_ingest(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [{"text": "a", "domain": "d"}], "jsonl")
    store = Store()
    store.run(path)
    store.run(path, columns={"domain": None})
    os.utime(path, (1, 1))
    store.run(path)
    keys = [ledger["key"] for ledger in store.ledgers if ledger]
    assert len(set(keys)) == 3
    assert store.ledgers[0] == {
        "key": keys[0],
        "batch": 0,
        "rows_done": 1,
        "rejected": 0,
        "final": True,
    }


def test_ctrl_c_waits_for_the_batch(tmp_path: Path) -> None:
    rows = [{"text": f"t{n}"} for n in range(100)]
    path = write(tmp_path / "a", rows, "jsonl")
    store = Store()
    store.before_commit = lambda n: os.kill(os.getpid(), signal.SIGINT) if n == 3 else None
    with pytest.raises(KeyboardInterrupt) as error:
        store.run(path, batch_rows=10)
    assert isinstance(error.value, IngestInterrupted)
    report = error.value.report
    assert (report.interrupted, report.rows, len(store.rows)) == (True, 40, 40)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    store.before_commit = None
    assert store.run(path).resumed_rows == 40
    assert len(store.notes) == 100

    def interrupt(_: IngestProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(IngestInterrupted):
        Store().run(path, batch_rows=10, progress=interrupt)


def test_progress(tmp_path: Path) -> None:
    rows = [{"text": f"t{n}"} for n in range(100)]
    for source in (rows, write(tmp_path / "a", rows, "parquet"), pa.Table.from_pylist(rows)):
        seen: list[IngestProgress] = []
        Store().run(source, batch_rows=40, progress=seen.append)
        assert [(one.rows, one.total, one.written) for one in seen] == [
            (40, 100, 40),
            (80, 100, 80),
            (100, 100, 100),
        ]
        assert seen[-1].time_left == 0
        assert all(one.rate > 0 for one in seen)
    seen = []
    path = write(tmp_path / "b", rows, "jsonl")
    Store().run(path, batch_rows=40, progress=seen.append)
    assert (seen[-1].total, seen[-1].time_left) == (None, 0.0)


def test_l65_plan(tmp_path: Path) -> None:
    rows = rows_with_bad(100, {4, 5})
    path = write(tmp_path / "a", [{**row, "domain": "d"} for row in rows], "parquet")
    found = plan([path, write(tmp_path / "b", rows, "csv")], columns={"domain": None})
    assert (found.rows, found.rejected, found.without_id) == (200, 4, 196)
    one = found.sources[0]
    assert (one.format, one.rows, one.rejected) == ("parquet", 100, 2)
    assert one.fields["text"] == "text"
    assert (one.columns[0], one.types[0], one.ignored) == ("id", "string", ["domain"])
    assert found.reasons[0] == (str(path), 4, "text: found nothing but white space, expected text.")


# -- bounds -------------------------------------------------------------------------------------


def test_memory_is_bounded() -> None:
    def endless(n: int) -> Iterator[dict[str, Any]]:
        for row in range(n):
            yield {"text": f"{row} " + "x" * 2000, "id": str(row), "concepts": ["a", f"b{row}"]}

    def peak(n: int) -> int:
        tracemalloc.start()
        run(lambda *_: Report(), endless(n), settings=PLAIN, batch_rows=500)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(500)
    assert peak(40_000) < 1.3 * peak(15_000)


def test_batches_are_cut_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastassoc.ingest.BATCH_BYTES", 10_000)
    rows = [{"text": "x" * (5000 if n % 3 else 10)} for n in range(30)]
    for source in (rows, pa.Table.from_pylist(rows)):
        store = Store()
        store.run(source)
        assert len(store.batches) > 5
        assert max(batch.nbytes for batch in store.batches) < 12_000
        assert store.rows == ingested(rows, batch_rows=1000)


def test_l61_declared_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["x" * 100_000] * 5000, "concepts": [["y" * 200]] * 5000})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    monkeypatch.setattr(parquetguard, "FREE", 1 << 20)
    with pytest.raises(InvalidInput, match="declare that they expand to"):
        ingested(path)
    pq.write_table(pa.table({"text": ["x"] * 200_000}), path)
    monkeypatch.setattr(parquetguard, "FREE_ROWS", 1000)
    with pytest.raises(InvalidInput, match=r"declares 200,000 rows in [\d,]+ bytes"):
        plan(path)
    names = pa.array(["n" * 1000]).dictionary_encode()
    many = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), names.dictionary)
    lists = pa.ListArray.from_arrays(pa.array([0, 100_000], pa.int32()), many)
    monkeypatch.setattr(parquetguard, "FREE_NAMES", 1 << 20)
    for codec in ("snappy", "zstd", "gzip", "lz4", "none"):
        pq.write_table(pa.table({"text": ["x"], "concepts": lists}), path, compression=codec)
        with pytest.raises(InvalidInput, match="declare 100,000 values of up to 1,000 bytes"):
            ingested(path)
    assert plan(path, columns={"concepts": None}).rows == 1
    texts = [["a" * 5000, "b"][n % 2] for n in range(300)]
    pq.write_table(pa.table({"text": texts}), path, compression="snappy")
    with path.open("rb") as raw:
        chunk = pq.ParquetFile(raw).metadata.row_group(0).column(0)
        assert parquetguard.longest_value(chunk, raw) == 5000
    monkeypatch.setattr(parquetguard, "MOST", 100_000)
    parts = sources.sources(path)[0].parts(["text"])
    assert [len(part) for part in parts] == [20] * 15


def test_damaged_files(tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": f"t{n}"} for n in range(1000)]
    for kind in ("parquet", "arrow", "jsonl.gz"):
        path = write(tmp_path / "a", rows, kind)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(InvalidInput, match=r"no whole|cannot be read"):
            ingested(path)
    assert batches.BATCH_BYTES == 32 << 20


def test_an_ingest_of_nothing_tells_where_the_memory_is(mem: Any) -> None:
    mem.write("Tea is hot.")
    assert mem.ingest([]).position == mem.position
    refused = mem.ingest([{"text": None}], max_rejects=1.0)
    assert (refused.rejected, refused.position) == (1, mem.position)
