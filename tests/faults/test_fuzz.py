"""The short form of ``python -m tests.faults fuzz``, and each fault that it found."""

from __future__ import annotations

import gc
import io
import json
import math
import os
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import fastassoc as fa
from fastassoc import errors, moving, parquet
from fastassoc.journal import Draft, Journal
from fastassoc.manifest import manifest_digest, read_manifest, write_manifest
from fastassoc.repair import repair_store
from fastassoc.snapshot import write_segment
from fastassoc.sources import sources

from . import fuzz
from .test_damage import put, sealed_anew, told_anew

SEED = int(os.environ.get("FASTASSOC_SEED", "1"))


def test_mutants_of_all_that_is_read() -> None:
    tally = fuzz.run(300, seed=SEED)
    assert tally.violations == []
    assert tally.count == 300


class Nothing:
    """An embedder that finds nothing in the first text."""

    name, dim = "nothing", 3

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[0.0, 0.0, float(text != "First.")] for text in texts]


def test_a_move_whose_first_notes_get_no_vector_is_the_same_after_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The width of the staged vectors was known after a reload only."""
    monkeypatch.setattr(moving, "STEP_NOTES", 1)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with fa.open(tmp_path / "s.fa") as mem:
        mem.write_batch([{"text": "First."}, {"text": "Second."}])
        with pytest.raises(KeyboardInterrupt):
            mem.reembed(Nothing(), progress=stop)
        mem.snapshot()
        digest = mem._state.digest()
    with fa.open(tmp_path / "s.fa") as mem:
        assert mem._state.digest() == digest


SKIP = {"on_duplicate": "skip"}
LEDGER = {"key": "k", "final": False}
RATED = {"amount": 0.5, "outcome": 0.5}
IMPORT = {"ingest": {"key": "import:2:k", "part": 0, "final": False}}
EXPORTED = {"id": "a", "text": "A.", "written_at": 0}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("write", {"rows": [{"id": "a", "text": 7}], "on_duplicate": "skip"}),
        ("write", {"rows": [{"id": "a", "text": "A.", "concepts": [7]}], "on_duplicate": "skip"}),
        ("write", {"segment": {"name": "x"}}),
        ("forget", {"ids": ["none"]}),
        ("forget", {}),
        ("embedder", {"embedder": "e"}),
        ("no such kind", {}),
        ("configure", {"changes": {"hop_factor": "x"}}),
        ("write", {"rows": [{"id": "a", "text": "A.", "concepts": ["\ud800"]}]} | SKIP),
        ("write", {"rows": [{"id": "a", "text": "A."}], "ingest": {"\udfff": 1} | LEDGER} | SKIP),
        ("feedback", {"asked": [["a", "A"]], "names": [["b", "B\udc00"]], "used": []} | RATED),
        ("embedder", {"embedder": {"name": "\ud800", "dim": 3}}),
        ("write", {"rows": [{"id": "a", "text": "A.", "concepts": ["a", "a"]}]} | SKIP),
        ("write", {"rows": [{"id": "a", "text": "A.", "importance": -0.5}]} | SKIP),
        ("write", {"rows": [{"id": "a", "text": "A.", "extracted": [[]]}]} | SKIP),
        ("write", {"rows": [{"id": "a", "text": "A."}], "ingest": {"key": "k"}} | SKIP),
        ("forget", {"ids": ["n", "n"]}),
        ("update", {"id": "n", "metadata": None}),
        ("feedback", {"asked": [["a", 7]], "names": [["b", "B"]], "used": []} | RATED),
        ("feedback", {"asked": [], "names": [["b", "B"]], "used": [], "amount": 1, "outcome": 2}),
        ("link", {"layer": "concept", "a": ["a", "A"], "b": ["a", "A"], "amount": 1.0}),
        ("link", {"layer": "concept", "a": ["a", "A"], "b": ["b", "B"], "amount": math.nan}),
        ("link", {"layer": "note", "a": "n", "b": "n", "amount": 1.0}),
        ("link", {"layer": "cue", "term": "stem", "a": "a", "b": "n", "amount": 1, "stems": [7]}),
        ("reembed", {"embedder": {"name": "e", "dim": 3}, "seqs": [9], "through": 9}),
        ("reembed", {"embedder": {"name": "e", "dim": 3}, "seqs": [0], "through": -1}),
        ("import", IMPORT | {"concepts": [["a", 7]]}),
        ("import", IMPORT | {"concepts": [["a"]]}),
        ("import", IMPORT | {"links": [["a", 7, 1.0, 1.0, 0.0, 1, 0, 0]]}),
        ("import", IMPORT | {"links": [["a", "b", math.inf, 1.0, 0.0, 1, 0, 0]]}),
        ("import", IMPORT | {"note_links": [["n", "n", 1.0, 1.0, 0.0, -1, 0, 0]]}),
        ("import", IMPORT | {"cue_links": [["stem", 7, "n", 1.0, 1.0, 0.0, 1, 0, 0]]}),
        ("import", IMPORT | {"notes": [{"id": "a", "text": "A.", "written_at": 0.5}]}),
        ("import", IMPORT | {"notes": [{**EXPORTED, "valence": "good"}]}),
        ("import", IMPORT | {"notes": [{**EXPORTED, "state": {"sessions": [7]}}]}),
        ("import", IMPORT | {"notes": [{**EXPORTED, "state": {"accesses": 1 << 63}}]}),
        ("import", IMPORT | {"store": {"settings": {}, "embedder": "e", "dim": 3, "time": 0}}),
    ],
)
def test_an_operation_that_makes_no_sense_is_damage(
    tmp_path: Path, kind: str, body: dict[str, Any]
) -> None:
    """Its hash fits, and Python's own errors came through, at the open or much later."""
    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write("Tea.", id="n")
        before = mem.verify(digest=True).digest
    vectors = np.ones(3, "<f4").tobytes() if kind == "reembed" else None
    with Journal.open(path) as journal, journal.locked() as transaction:
        transaction.append([Draft(None, kind, 0, json.dumps(body), vectors)])
    with pytest.raises(errors.CorruptStore, match=r"journal\.db: operation 3"):
        fa.open(path)
    ((file, reason),) = fa.verify(path).problems
    assert (file, "operation 3" in reason) == ("journal.db", True)
    assert repair_store(path, tmp_path / "whole.fa").lost[0].count == 1
    with fa.open(tmp_path / "whole.fa") as mem:
        assert [note.text for note in mem.recent()] == ["Tea."]
    assert before


class Other:
    """An embedder that is stopped half-way."""

    name, dim = "other", 4

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 2.0, 3.0, 4.0] for _ in texts]


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("vectors"),
        lambda state: state["notes"].clear(),
        lambda state: state["notes"][0].update(through=0),
        lambda state: state["vectors"][0].update(after=0),
        lambda state: state["vectors"][0].update(name=state["notes"][0]["name"]),
        lambda state: state.update(dim=4),
        lambda state: state.update(dim=None),
        lambda state: state["moving"].update(dim=3),
        lambda state: state.update(moved_through=-1),
        lambda state: state.update(moved_through=-9),
        lambda state: state.update(next_seq=2**63 - 1),
        lambda state: state.update(concept_ids=2**32 - 1),
        lambda state: state.update(stem_ids=2**31),
        lambda state: state["ingests"].update(k={"key": "k", "final": False}),
    ],
)
def test_a_state_that_does_not_fit_its_segments_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    """It went on as if it did: rows were written twice, or left out, by the next snapshot."""
    monkeypatch.setattr(moving, "STEP_NOTES", 1)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write_batch([{"text": text, "vector": [1.0, 2.0, 3.0]} for text in ("Tea.", "Milk.")])
        with pytest.raises(KeyboardInterrupt):
            mem.reembed(Other(), progress=stop)
        mem.snapshot()
    told_anew(path, lambda manifest: None)
    assert fa.verify(path).ok
    told_anew(path, lambda manifest: change(manifest["state"]))
    with pytest.raises(errors.CorruptStore, match=r"manifest-\d+\.json"):
        fa.open(path)
    assert not fa.verify(path).ok


BULK: dict[str, Any] = {
    "id": ["a", "b"],
    "text": ["A.", "B."],
    "concepts": [["x", "y"], []],
    "extracted": [False, True],
}


@pytest.mark.parametrize(
    "change",
    [
        {"text": [1, 2]},
        {"text": ["A.", None]},
        {"domain": [1, 2]},
        {"author": [0.5, 0.5]},
        {"importance": [-0.5, 0.5]},
        {"created_at": [0, 2**62]},
        {"concepts": [["x", None], []]},
        {"concepts": [[1], [2]]},
        {"concepts": [["x", "y"], None]},
        {"spelled": [["X"], ["Y"]]},
        {"subject": [[True, None], []]},
        {"extracted": [0, 1]},
        {"vector": pa.array([[1.0], [0.0]], pa.list_(pa.float32(), 1))},
        {"vector": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))},
        {"other": [1, 2]},
        None,
    ],
)
def test_a_bulk_segment_that_makes_no_sense_is_damage(
    tmp_path: Path, change: dict[str, Any] | None
) -> None:
    """Its columns went into the tables as they came; Python's errors came at the next digest."""
    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write("Tea.")
    table = pa.table({**BULK, **({"concepts": [["x", "x"], ["y"]]} if change is None else change)})
    segment = asdict(write_segment(path, "bulk", table))
    body = json.dumps({"segment": segment} | SKIP)
    with Journal.open(path) as journal, journal.locked() as transaction:
        transaction.append([Draft(None, "write", 0, body)])
    if change is None:  # a name twice is no other name's link
        with fa.open(path) as mem:
            mem.snapshot()
            digest = mem._state.digest()
        assert fa.verify(path, digest=True).digest == digest
    else:
        assert not fa.verify(path, digest=True).ok
        with pytest.raises(errors.CorruptStore, match=r"journal\.db: operation 3"):
            fa.open(path)


def test_a_manifest_with_a_lone_surrogate_is_damage(tmp_path: Path) -> None:
    """Its hash fits, and a digest and the next snapshot raised Python's error."""
    content: dict[str, Any] = {"store": "s", "created_at": 0, "settings": {}, "counts": {}}
    content |= {"segments": [], "previous": None, "embedder": None}
    good = write_manifest(tmp_path, 1, {**content, "state": {"ingests": {"\U0001f375": 1}}})
    assert read_manifest(tmp_path, *good)["state"] == {"ingests": {"\U0001f375": 1}}
    with pytest.raises(errors.InvalidInput, match="lone surrogate"):
        write_manifest(tmp_path, 2, {**content, "state": {"ingests": {"\ud83c": 1}}})
    file = tmp_path / good[0]
    file.write_bytes(file.read_bytes().replace(b"\\udf75", b"oops"))
    with pytest.raises(errors.CorruptStore, match="lone surrogate"):
        read_manifest(tmp_path, good[0], manifest_digest(tmp_path, good[0]))


@pytest.mark.parametrize(
    ("sessions", "metadata"),
    [('["\\ud800"]', "{}"), ("[7]", "{}"), ('{"s": 1}', "{}"), ("[" * 100_000, "{}"), ('"s"', "{}")]
    + [('["s"]', text) for text in ('{"a": "\\ud800"}', "7", "[" * 100_000, "[]", "x")],
)
def test_json_in_a_segment_that_is_none_of_ours_is_damage(
    tmp_path: Path, sessions: str, metadata: str
) -> None:
    """Python's errors came through at a digest, a filter and an export."""
    path = tmp_path / "s.fa"
    with fa.open(path, settings=fa.Settings.cognitive()) as mem:
        mem.write("Tea.", id="n1")
        mem.read("tea", reinforce=True, session="s")
        mem.snapshot()
    sealed_anew(path, "notestate", put("sessions", sessions))
    sealed_anew(path, "notes", put("metadata", metadata))
    assert not fa.verify(path).ok
    with pytest.raises(errors.CorruptStore), fa.open(path) as mem:
        mem.read("tea", where={"a": 1})
    if sessions == '["s"]':
        with fa.open(path) as mem, pytest.raises(errors.CorruptStore):
            list(mem.export_lines())


def test_a_segment_without_a_later_column_stands_beside_new_ones(tmp_path: Path) -> None:
    """Segments of notes were joined before columns that an older one lacks were filled in."""
    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write_batch([{"id": "a", "text": "Tea."}, {"id": "b", "text": "Milk."}])
        mem.snapshot()
    sealed_anew(path, "notes", lambda table: table.drop_columns(["author"]))
    with fa.open(path) as mem:
        mem.write("Cup.", id="c", author="me")
        mem.snapshot()
        digest = mem._state.digest()
    assert fa.verify(path, digest=True).digest == digest
    with fa.open(path) as mem:
        assert [mem.get(note).author for note in ("a", "b", "c")] == [None, None, "me"]
    assert repair_store(path, tmp_path / "whole.fa").digest == digest


@pytest.mark.parametrize("pack", ["gz", "bz2", "zst"])
def test_a_packed_header_that_is_cut_off_is_refused(tmp_path: Path, pack: str) -> None:
    """The system's error came through."""
    path = tmp_path / f"rows.csv.{pack}"
    path.write_bytes(fuzz.ingest_files()[f"csv.{pack}"][:20])
    with fa.Memory() as mem, pytest.raises(errors.InvalidInput, match="cannot be read"):
        mem.ingest(str(path))


def test_a_damaged_arrow_file_is_checked_before_it_is_used(tmp_path: Path) -> None:
    """Offsets beyond their buffers were taken as they came."""
    table = pa.table({"text": ["one", "two", "three"]})
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    data = sink.getvalue().to_pybytes()
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 3, 6, 11))
    assert data.count(offsets) == 1
    path = tmp_path / "rows.arrows"
    path.write_bytes(data.replace(offsets, offsets[:-4] + (1 << 20).to_bytes(4, "little")))
    with fa.Memory() as mem, pytest.raises(errors.InvalidInput, match="cannot be read"):
        mem.ingest(str(path))


def test_a_footer_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    """pyarrow ended the process, where its columns were asked for one by one."""
    sink = io.BytesIO()
    parquet.write(parquet.normal(pa.table({"text": ["one", None]})), sink)
    optional, required = (bytes((0x25, kind, 0x18, 4)) + b"text" for kind in (2, 0))
    data = sink.getvalue()
    assert data.count(optional) == 1
    data = data.replace(optional, required)  # whose sizes tell of levels that it has not
    with pytest.raises(parquet.BadFile, match="cannot be parsed"):
        parquet.read(data, 2, "text string")
    (tmp_path / "rows.parquet").write_bytes(data)
    with fa.Memory() as mem, pytest.raises(errors.InvalidInput, match="cannot be read"):
        mem.ingest(str(tmp_path / "rows.parquet"))


NO_TEXT = pa.array([b"one", b"\xff\xfe"]).view(pa.string())


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"text": NO_TEXT}),
        pa.table({"text": ["one", "two"], "concepts": NO_TEXT}),
        pa.table({"text": ["one", "two"], "more": NO_TEXT}),
        pa.table({"text": ["one", "two"], "more": NO_TEXT.dictionary_encode()}),
        pa.table({"text": ["one", "two"], "more": pa.ListArray.from_arrays([0, 1, 2], NO_TEXT)}),
    ],
)
def test_a_row_whose_text_is_no_utf8_is_refused_alone(tmp_path: Path, table: pa.Table) -> None:
    """Python's error came through, of some fields and of the file of rejects."""
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    with fa.open(tmp_path / "s.fa") as mem:
        report = mem.ingest(
            str(tmp_path / "rows.parquet"), metadata_columns="rest", max_rejects=1.0
        )
        assert (report.written, report.rejected) == (1, 1)
        ((row, _),) = report.reasons
        assert row == 1
        assert report.rejects_file is not None
        (line,) = Path(report.rejects_file).read_text().splitlines()
        assert json.loads(line)["source_row"] == 1


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_a_column_whose_name_is_no_utf8_is_refused(tmp_path: Path, kind: str) -> None:
    """Python's error came through."""
    path = tmp_path / f"rows.{kind}"
    table = pa.table({"text": ["one"], "other": ["two"]})
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path, store_schema=False)
    else:
        make = {"arrow": pyarrow.ipc.new_file, "arrows": pyarrow.ipc.new_stream}[kind]
        with make(path, table.schema) as out:
            out.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"other", b"\xff" * 5))
    with fa.Memory() as mem, pytest.raises(errors.InvalidInput, match="no whole"):
        mem.ingest(str(path))


# -- files that expand -----------------------------------------------------------------------------


def arrow_file(path: Path, table: pa.Table, **options: Any) -> str:
    written = pyarrow.ipc.IpcWriteOptions(**options)
    with pyarrow.ipc.new_file(path, table.schema, options=written) as out:
        out.write_table(table)
    return str(path)


def refused(path: str) -> str:
    with fa.Memory() as mem:
        with pytest.raises(errors.InvalidInput) as caught:
            mem.ingest(path, max_rejects=1.0)
        assert (len(mem), mem.position) == (0, 0)
    return str(caught.value)


def test_l61_an_arrow_file_that_expands_hugely_is_refused(tmp_path: Path) -> None:
    """It was unpacked first: 33 kB took as much memory as it said."""
    table = pa.table({"text": ["x" * (300 << 20)]})
    path = arrow_file(tmp_path / "a.arrow", table, compression="zstd")
    assert os.path.getsize(path) < 100_000
    assert "declare that they expand to" in refused(path)


def test_l61_rows_without_bytes_are_refused(tmp_path: Path) -> None:
    path = arrow_file(tmp_path / "a.arrow", pa.table({"text": pa.nulls(10**9)}))
    assert "declares 1,000,000,000 rows" in refused(path)


def test_l61_encoded_runs_are_refused(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([10**6], pa.int32()), pa.array(["z"]))
    assert "encodes runs" in refused(arrow_file(tmp_path / "a.arrow", pa.table({"text": runs})))


def test_l61_a_long_value_that_stands_in_many_rows_is_read_part_by_part(tmp_path: Path) -> None:
    """All of a batch were made at once, whatever it came to."""
    codes = pa.array([0, 1] * 3000, pa.int32())
    values = pa.DictionaryArray.from_arrays(codes, pa.array(["y" * 200_000, "short"]))
    path = arrow_file(tmp_path / "a.arrow", pa.table({"text": values}))
    parts = list(sources(path)[0].parts())
    assert sum(len(part) for part in parts) == 6000
    assert max(part.nbytes(len(part)) for part in parts) < 300 << 20
    assert len(parts) > 2


def test_compressed_arrow_files_of_every_layout_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["Tea.", "Milk.", "Tea."]).dictionary_encode(),
            "concepts": [["tea"], [], ["tea", "cup"]],
            "domain": pa.array(["a", "b", "c"]).cast(pa.string_view()),
            "vector": [[1.0, 2.0], None, [3.0, 4.0]],
        }
    )
    for n, compression in enumerate((None, "zstd", "lz4")):
        path = arrow_file(tmp_path / f"{n}.arrow", table, compression=compression)
        with fa.Memory() as mem:
            assert mem.ingest(path).written == 3
            assert [note.domain for note in mem.recent()] == ["c", "b", "a"]
    with pyarrow.ipc.new_stream(tmp_path / "s.arrows", table.schema) as out:
        out.write_table(table, max_chunksize=2)
    with fa.Memory() as mem:
        assert mem.ingest(str(tmp_path / "s.arrows")).written == 3


def left_behind(path: Path) -> int:
    """Bytes that four refusals of a file leave in memory."""
    held = []
    tracemalloc.start()
    try:
        for _ in range(6):
            with fa.Memory() as mem, pytest.raises(errors.InvalidInput, match="cannot be read"):
                mem.ingest(str(path))
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return held[-1] - held[1]


@pytest.mark.parametrize("pack", ["gz", "bz2", "zst"])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_damaged_packed_file_leaves_no_memory_behind(
    tmp_path: Path, pack: str, kind: str
) -> None:
    """Arrow's streams never let go of what they were about to fill."""
    path = tmp_path / f"rows.{kind}.{pack}"
    lines = ["text", *map(str, range(50_000))]
    if kind == "jsonl":
        lines = [f'{{"text": "{line}"}}' for line in lines]
    codec = {"gz": "gzip", "zst": "zstd"}.get(pack, pack)
    with pa.CompressedOutputStream(str(path), codec) as out:
        out.write("\n".join(lines).encode())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) // 2))
    assert left_behind(path) < 100_000


@pytest.mark.parametrize("wrong", ["fewer", "more", "named"])
def test_an_arrow_file_whose_end_contradicts_it_is_refused(tmp_path: Path, wrong: str) -> None:
    """It was taken as if it had no end."""

    def made(name: str, batches: int) -> bytes:
        sink = pa.BufferOutputStream()
        batch = pa.record_batch({name: ["one", "two"]})
        with pyarrow.ipc.new_file(sink, batch.schema) as out:
            for _ in range(batches):
                out.write_batch(batch)
        return sink.getvalue().to_pybytes()

    def cut(data: bytes) -> int:  # where the footer begins
        return len(data) - 10 - int.from_bytes(data[-10:-6], "little")

    body, end = made("text", 2), made("tale" if wrong == "named" else "text", 2)
    if wrong == "fewer":
        body = made("text", 1)
    elif wrong == "more":
        end = made("text", 1)
    path = tmp_path / "rows.arrow"
    path.write_bytes(body[: cut(body)] + end[cut(end) :])
    with fa.Memory() as mem:
        with pytest.raises(errors.InvalidInput, match=r"its end names?"):
            mem.ingest(str(path))
        assert len(mem) == 0
        path.write_bytes(body)
        assert mem.ingest(str(path)).rows == (2 if wrong == "fewer" else 4)
