"""The measurement of speed: real runs on small stores; nothing here asserts how long they take."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import fastassoc as fa
from fastassoc.cli import cli
from fastassoc.errors import InvalidInput, StoreError
from fastassoc.latency import (
    SCHEMA,
    Options,
    cold,
    compare,
    differences,
    html_page,
    load,
    run,
    share_of,
    worse,
)
from fastassoc.latency.asked import Asked, ids_of, kinds_of
from fastassoc.latency.made import clustered, concept_ids, table
from fastassoc.latency.nearest import recall_of, truth
from fastassoc.latency.timing import stages, timed
from fastassoc.quality.svg import curves, stacks
from fastassoc.settings import RANKS

SMALL: dict[str, Any] = {"reads": 8, "cold": 1, "seconds": 2.0, "questions": 5, "seed": 3}


def fill(path: Path, notes: int = 40, dim: int = 0) -> Path:
    rows = table(notes, seed=2)
    if dim:
        flat = pa.FixedSizeListArray.from_arrays(
            pa.array(np.concatenate(list(clustered(notes, dim))).ravel()), dim
        )
        rows = rows.append_column("vector", flat)
    with fa.open(path) as mem:
        mem.ingest(rows)
        mem.snapshot()
    return path


def files_of(path: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(file.relative_to(path)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in path.rglob("*")
        if file.is_file() and file.suffix not in {".db-shm", ".db-wal"}
    }


# -- a whole report -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated() -> dict[str, Any]:
    return run(Options(notes=60, dim=8, threads=(1, 2), batches=(1, 4), floors=(0.5,), **SMALL))


def test_report_holds_every_rank_warm_and_cold(generated: dict[str, Any]) -> None:
    assert generated["schema"] == SCHEMA == {"name": "fastassoc-latency", "version": 1}
    cells = generated["warm"]
    assert {cell["rank"] for cell in cells} == set(RANKS)
    rows = [(rank, kind) for rank in RANKS for kind in kinds_of(rank, True)]
    want = {(*row, batch, threads) for row in rows for batch in (1, 4) for threads in (1, 2)}
    found = {(c["rank"], c["asked"], c["batch"], c["threads"]) for c in cells}
    assert found == want
    for cell in cells:
        assert 0 < cell["p50_ms"] <= cell["p95_ms"] <= cell["p99_ms"]
        assert cell["qps"] > 0
        assert cell["reads"] >= cell["batch"]
        assert {"scan", "score", "merge", "explain"} <= set(cell["stages_ms"])
    told = generated["cold"]
    assert told["processes"] == 1
    assert list(told["first_read_s"]) == [f"{rank}, {kind}" for rank, kind in rows]
    assert told["first_read_s"].keys() == told["second_read_s"].keys()
    assert told["peak_bytes"] is None or told["peak_bytes"] > 1 << 20
    assert [cell["recall_floor"] for cell in generated["recall"]] == [0.98, 0.5]
    assert all(cell["recall"] == 1.0 for cell in generated["recall"])  # so few are compared all
    assert generated["store"]["notes"] == 60
    assert not generated["store"]["own"]
    assert generated["load"]["notes_per_s"] > 0


def test_report_is_json_and_its_figures_say_which_way_is_better(generated: dict[str, Any]) -> None:
    text = json.dumps(generated, allow_nan=False)
    assert json.loads(text) == generated
    figures = generated["figures"]
    assert figures["counts/concepts/batch 1/threads 1/p99"]["better"] == "lower"
    assert figures["flat/vector/batch 4/threads 2/qps"]["better"] == "higher"
    assert figures["recall floor 0.98/recall@10"] == {"value": 1.0, "unit": "", "better": "higher"}
    assert "cold/first read/bridge, text" in figures
    assert all(math.isfinite(one["value"]) for one in figures.values())
    assert compare(generated, generated)
    assert worse(compare(generated, generated), 0.0) == []
    assert differences(generated, generated) == []


def test_own_store_is_read_and_nothing_in_it_changes(tmp_path: Path) -> None:
    path = fill(tmp_path / "own.fa", dim=8)
    before = files_of(path)
    report = run(Options(store=str(path), threads=(1,), batches=(1,), **SMALL))
    assert files_of(path) == before
    assert report["store"]["own"]
    assert report["load"] is None
    assert report["store"]["dim"] == 8


def test_store_without_vectors_or_concepts_is_asked_by_what_it_has(tmp_path: Path) -> None:
    with fa.open(tmp_path / "texts.fa") as mem:
        mem.write_batch([{"text": f"tea number {n}", "concepts": []} for n in range(5)])
    options = Options(store=str(tmp_path / "texts.fa"), threads=(1,), batches=(1,), **SMALL)
    report = run(options)
    assert {(cell["rank"], cell["asked"]) for cell in report["warm"]} == {
        (rank, "text") for rank in RANKS if rank != "counts"
    }
    assert report["recall"] == []
    assert "<svg" in html_page(report)


def test_store_without_notes_is_refused(tmp_path: Path) -> None:
    fa.open(tmp_path / "empty.fa").close()
    with pytest.raises(InvalidInput, match="holds no notes"):
        run(Options(store=str(tmp_path / "empty.fa"), **SMALL))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ranks": ("fast",)}, "found fast, expected of counts"),
        ({"threads": (0,)}, "threads: found 0, expected a whole number from 1"),
        ({"batches": ()}, "batch: found none"),
        ({"notes": 0}, "notes: found 0"),
        ({"dim": -1}, "dim: found -1"),
        ({"seconds": math.nan}, "seconds: found nan"),
        ({"floors": (1.5,)}, "recall floor: found 1.5"),
    ],
)
def test_options_that_cannot_be_taken(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        run(Options(**changed))


# -- its pieces -----------------------------------------------------------------------------------


def test_questions_are_the_same_every_time_and_come_from_the_notes(tmp_path: Path) -> None:
    with fa.open(fill(tmp_path / "a.fa", dim=8)) as mem:
        one, two = (Asked.of(mem, ids_of(mem), 10, seed=4) for _ in range(2))
        other = Asked.of(mem, ids_of(mem), 10, seed=5)
        assert one.by_kind["text"] == two.by_kind["text"] != other.by_kind["text"]
        assert one.by_kind["concepts"] == two.by_kind["concepts"]
        assert one.vectors is not None
        assert two.vectors is not None
        np.testing.assert_array_equal(one.vectors, two.vectors)
        np.testing.assert_allclose(np.linalg.norm(one.vectors, axis=1), 1, rtol=1e-6)
        assert all(len(mem.read(**query)) for query in one.by_kind["concepts"])


def test_recall_counts_what_was_found_against_every_vector(tmp_path: Path) -> None:
    with fa.open(fill(tmp_path / "a.fa", notes=50, dim=8)) as mem:
        asked = Asked.of(mem, ids_of(mem), 6, seed=4).vectors
        assert asked is not None
        best = truth(mem, ids_of(mem), asked, 10, lambda *_: None)
        stored = np.stack([mem.get(note).vector for note in ids_of(mem).to_pylist()])
        stored /= np.linalg.norm(stored, axis=1, keepdims=True)
        want = -np.sort(-(asked @ stored.T), axis=1)[:, :10]
        np.testing.assert_allclose(best, want, atol=1e-6)
        assert recall_of(mem, asked, best, 10) == 1.0
        best[:, -1] = want[:, 4]  # as if five were all that is near enough
        assert recall_of(mem, asked, best, 10) == 0.5
        mem.forget([ids_of(mem)[n].as_py() for n in range(45)])
        few = truth(mem, ids_of(mem), asked, 10, lambda *_: None)
        assert np.isfinite(few).sum(axis=1).tolist() == [5] * 6
        assert recall_of(mem, asked, few, 10) == 1.0


class Counting:
    """A memory that counts what it is asked."""

    def __init__(self) -> None:
        self.single: list[dict[str, Any]] = []
        self.batches: list[int] = []

    def read(self, **query: Any) -> Any:
        self.single.append(query)
        return fa.Recall(hits=[], timings={"scan": 0.002})

    def read_batch(self, queries: list[dict[str, Any]], **common: Any) -> None:
        self.batches.append(len(queries))


def test_every_thread_asks_its_share() -> None:
    queries = [{"query": str(n)} for n in range(12)]
    mem: Any = Counting()
    told = timed(mem, queries, {"k": 3}, threads=3, batch=1, most_seconds=60)
    assert told["reads"] == 12
    assert sorted(q["query"] for q in mem.single) == sorted(q["query"] for q in queries)
    assert all(q["k"] == 3 for q in mem.single)
    told = timed(mem, queries, {}, threads=2, batch=8, most_seconds=60)
    assert mem.batches == [8] * 6
    assert told["reads"] == 48
    assert stages(mem, queries, {}) == {"scan": 2.0}


def test_a_slow_row_stops_early() -> None:
    mem: Any = Counting()
    told = timed(mem, [{"query": "a"}] * 500, {}, threads=1, batch=1, most_seconds=0.0)
    assert told["reads"] == 1


def test_cold_tells_of_another_process(tmp_path: Path) -> None:
    path = fill(tmp_path / "a.fa")
    (told,) = cold.measure(str(path), {"by word": {"query": "word0001", "rank": "flat"}}, 1)
    assert set(told) == {"import_s", "open_s", "first_read_s", "second_read_s", "peak_bytes"}
    assert set(told["first_read_s"]) == {"by word"}
    assert cold.answer({"store": str(path), "asked": {}, "timeout": 1.0})["first_read_s"] == {}


def test_a_cold_start_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cold start of .*none\.fa failed: .*StoreNotFound"):
        cold.measure(str(tmp_path / "none.fa"), {}, 1)


def test_generated_notes_go_on_over_blocks() -> None:
    one, two = concept_ids(5), concept_ids(5, block=1)
    assert not (one == two).all()
    assert (concept_ids(5) == one).all()
    assert table(2, block=1).column("id").to_pylist() == ["n1000000", "n1000001"]


# -- one report beside another --------------------------------------------------------------------


def report_of(**figures: tuple[float, str]) -> dict[str, Any]:
    return {
        "schema": dict(SCHEMA),
        "figures": {
            name: {"value": value, "unit": "ms", "better": better}
            for name, (value, better) in figures.items()
        },
    }


def test_worse_means_slower_whichever_way_is_better() -> None:
    old = report_of(a=(1.0, "lower"), b=(100.0, "higher"), c=(5.0, "lower"), gone=(1.0, "lower"))
    new = report_of(a=(1.2, "lower"), b=(50.0, "higher"), c=(4.0, "lower"), fresh=(1.0, "lower"))
    told = {one.name: one.worse for one in compare(old, new)}
    assert told == {"b": 1.0, "a": 0.2, "c": -0.2}
    assert list(told) == ["b", "a", "c"]  # worst first
    assert [one.name for one in worse(compare(old, new), 0.1)] == ["b", "a"]
    assert worse(compare(old, new), 1.0) == []
    zero = compare(report_of(a=(0.0, "lower")), report_of(a=(1.0, "lower")))
    assert zero[0].worse == math.inf


@pytest.mark.parametrize("text", ["ten", "-5%", "", "10%%", "1e3"])
def test_share_that_is_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected per cent"):
        share_of(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no report"),
        ('{"schema": {"name": "fastassoc-quality", "version": 1}}', "no report"),
        ('{"schema": {"name": "fastassoc-latency", "version": 9}}', "found version 9"),
        ('{"schema": {"name": "fastassoc-latency", "version": 1}}', "damaged"),
        (
            '{"schema": {"name": "fastassoc-latency", "version": 1}, "figures": {"a": {}}}',
            "damaged",
        ),
    ],
)
def test_reports_that_cannot_be_compared(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "old.json"
    file.write_text(content)
    with pytest.raises(InvalidInput, match=message):
        load(file)
    with pytest.raises(InvalidInput, match="No such file"):
        load(tmp_path / "nowhere.json")


# -- the page -------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects what a page refers to, and checks that tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.svgs = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.svgs += tag == "svg"
        self.outside += [str(v) for k, v in attrs if k in {"src", "href", "data", "action"}]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_stands_alone(generated: dict[str, Any]) -> None:
    changes = compare(generated, generated)
    text = html_page(generated, changes, "<old>.json")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.outside == []
    assert page.svgs == 6  # latency, stages, threads for each batch, recall, cold
    assert "http" not in text
    assert "Beside &lt;old&gt;.json" in text
    assert "recall@10" in text


def test_plots_are_well_formed() -> None:
    for plot in (
        curves({"a": [(0.9, 10.0), (0.95, 2.0)], "b<": [(1.0, 0.0)]}, "t", "x", "y"),
        curves({"a": [(1.0, 5.0)]}, "t", "x", "y"),
        curves({}, "t", "x", "y"),
        stacks([("row", {"scan": 1.0, "score": 0.0}), ("other", {})], "t", " ms"),
        stacks([], "t"),
    ):
        ET.fromstring(plot)
        assert "nan" not in plot


# -- the command ----------------------------------------------------------------------------------

QUICK = ("--reads", "4", "--seconds", "1", "--cold", "0", "--recall-questions", "0")
FEW = ("--rank", "counts", "--threads", "1", "--batch", "1", *QUICK)


def command(*args: object, code: int = 0, env: dict[str, str] | None = None) -> Result:
    whole = {"FASTASSOC_STORE": "", **(env or {})}
    result = CliRunner().invoke(cli, ["bench", "latency", *map(str, args)], env=whole)
    assert result.exit_code == code, result.output
    return result


def test_command_writes_reports_and_shows_tables(tmp_path: Path) -> None:
    path = fill(tmp_path / "own.fa", dim=8)
    files = tmp_path / "new.json", tmp_path / "new.html"
    result = command(
        "--store", path, "--reads", 4, "--cold", 1, "--threads", "1,2", "--batch", "1", "--seconds",
        1, "--recall-questions", 3, "--json", files[0], "--html", files[1],
    )  # fmt: skip
    report = load(files[0])
    assert report["store"]["notes"] == 40
    assert files[1].read_text().startswith("<!DOCTYPE html>")
    for word in ("warm", "stages of a read", "recall@10", "cold", "counts, concepts"):
        assert word in result.output
    assert max(map(len, result.output.splitlines())) <= 200


def test_command_on_a_generated_store_gives_json(tmp_path: Path) -> None:
    report = json.loads(command("--notes", 30, *FEW, "--json", "-").stdout)
    assert report["store"]["notes"] == 30
    assert report["cold"] is None
    assert [cell["rank"] for cell in report["warm"]] == ["counts"]


def test_command_takes_the_store_of_the_environment(tmp_path: Path) -> None:
    path = fill(tmp_path / "own.fa")
    env = {"FASTASSOC_STORE": str(path)}
    assert "own store" in command(*FEW, env=env).output
    assert "generated store" in command("--notes", 20, *FEW, env=env).output


def test_compare_and_fail_on(tmp_path: Path) -> None:
    path, old, made = fill(tmp_path / "own.fa"), tmp_path / "old.json", tmp_path / "page.html"
    command("--store", path, *FEW, "--json", old)
    report = load(old)
    for told in report["figures"].values():  # as if it had been far slower, then far faster
        told["value"] *= 1e6 if told["better"] == "lower" else 1e-6
    old.write_text(json.dumps(report))
    said = command("--store", path, *FEW, "--compare", old, "--fail-on", "10%", "--html", made)
    assert "worse by more than 10.0%" in said.output
    assert "Beside" in made.read_text()
    name = "counts/concepts/batch 1/threads 1/p50"
    report["figures"][name]["value"] = 1e-9
    report["figures"]["measured no more"] = dict(report["figures"][name])
    report["machine"]["cores"] = 1_000
    old.write_text(json.dumps(report))
    said = command("--store", path, *FEW, "--compare", old, "--fail-on", "10%", code=1)
    assert f"  {name}: 1e-09 before" in said.output
    assert "1 figure worse by more than" in said.output
    assert "not alike: cores: 1000 before" in said.output
    assert "not measured now: measured no more" in said.output
    assert name in command("--store", path, *FEW, "--compare", old).output  # told, without failing


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "which store?"),
        (("--notes", "5", "--store", "x"), "exclude each other"),
        (("--store", "x", "--dim", "8"), "--dim is for generated notes"),
        (("--notes", "5", "--fail-on", "10%"), "--fail-on needs"),
        (("--notes", "5", "--threads", "two"), "expected whole numbers"),
        (("--notes", "5", "--batch", "1;2"), "expected whole numbers"),
        (("--notes", "5", "--recall-floor", "high"), "expected numbers from 0 to 1"),
    ],
)
def test_wrong_usage(args: tuple[str, ...], message: str) -> None:
    assert message in command(*args, code=2).output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--store", "nowhere.fa"), "nowhere.fa"),
        (("--notes", "0"), "notes: found 0"),
        (("--notes", "5", "--rank", "fast"), "found fast"),
        (("--notes", "5", "--compare", "nowhere.json"), "nowhere.json"),
        (("--notes", "5", "--html", "no/such/folder.html"), "its folder is not there"),
    ],
)
def test_wrong_input(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    assert message in command(*args, code=1).output


def test_fail_on_that_is_no_share(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    command("--notes", 20, *FEW, "--json", old)
    said = command("--notes", 20, *FEW, "--compare", old, "--fail-on", "much", code=2)
    assert "expected per cent" in said.output


def test_help_has_examples() -> None:
    text = command("--help").output
    assert "fastassoc bench latency --store notes.fa" in text
    assert "--fail-on 10%" in text
