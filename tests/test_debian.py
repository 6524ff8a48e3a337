"""Exact counts on real tags, and on a made-up set of the same shape that is always there.

The real set is found through the environment variable ``FASTASSOC_DATA``. Three of its 30,303 rows
repeat an id: with ids an ingest stores 30,300 notes, without them every row is a note.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fastassoc as fa

Row = dict[str, Any]


def made(count: int = 3000, tags: int = 90) -> list[Row]:
    """Notes with tags as packages have them: a few on nearly everything, most on a handful."""
    draw = random.Random(20240229)
    weights = [1 / (rank + 1) for rank in range(tags)]
    rows = []
    for number in range(count):
        names = {f"facet{t % 7}::tag{t}" for t in draw.choices(range(tags), weights, k=8)}
        names = set(draw.sample(sorted(names), draw.randint(0, len(names))))
        rows.append({"id": f"p{number}", "text": f"Package {number}", "concepts": sorted(names)})
    return [*rows, *draw.sample(rows, 3)]


@pytest.fixture(scope="module", params=["made-up", "Debian"])
def rows(request: pytest.FixtureRequest) -> list[Row]:
    if request.param == "made-up":
        return made()
    folder = os.environ.get("FASTASSOC_DATA")
    source = Path(folder or ".") / "debian" / "packages.jsonl"
    if folder is None or not source.exists():
        pytest.skip("FASTASSOC_DATA names no folder with debian/packages.jsonl in it")
    return [json.loads(line) for line in source.open(encoding="utf-8")]


def counted(rows: list[Row]) -> dict[tuple[str, str], int]:
    pairs: Counter[tuple[str, str]] = Counter()
    for row in rows:
        pairs.update(itertools.combinations(sorted(set(row["concepts"])), 2))
    return dict(pairs)


@pytest.fixture(scope="module")
def notes(rows: list[Row]) -> list[Row]:
    """The rows that become notes: the first of each id."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row["id"], row)
    return list(first.values())


@pytest.fixture(scope="module")
def want(notes: list[Row]) -> dict[tuple[str, str], int]:
    return counted(notes)


@pytest.fixture(scope="module")
def source(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "packages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def links(mem: Any) -> dict[tuple[str, str], int]:
    """Counts by pair; weight and written must say the same."""
    table = mem.links.to_arrow()
    columns = [table.column(name).to_pylist() for name in ("a", "b", "count", "weight", "written")]
    out = {}
    for a, b, count, weight, written in zip(*columns, strict=True):
        assert count == weight == written
        assert (a, b) == (min(a, b), max(a, b))
        out[a, b] = count
    assert len(out) == table.num_rows
    return out


def test_the_set_is_the_one_that_the_figures_are_about(rows: list[Row], notes: list[Row]) -> None:
    if rows[0]["id"] == "p0":
        assert (len(rows), len(notes)) == (3003, 3000)
    else:
        pairs = counted(rows)
        assert (len(rows), len(pairs), sum(pairs.values())) == (30_303, 30_380, 316_842)
        assert (len(notes), sum(counted(notes).values())) == (30_300, 316_771)


def test_links_equal_an_independent_count_and_again_changes_nothing(
    rows: list[Row],
    notes: list[Row],
    want: dict[tuple[str, str], int],
    source: Path,
    tmp_path: Path,
) -> None:
    path = tmp_path / "packages.fa"
    with fa.open(path) as mem:
        report = mem.ingest(str(source))
        assert (report.written, report.skipped) == (len(notes), len(rows) - len(notes))
        assert report.links_created == len(want)
        assert links(mem) == want
        table = mem.links.to_arrow()
        again = mem.ingest(str(source))
        assert (again.written, again.skipped) == (0, len(rows))
        assert mem.links.to_arrow().equals(table)
        assert len(mem) == len(notes)
        assert links(mem.rebuild_links()) == want
    with fa.open(path) as mem:
        assert mem.links.to_arrow().equals(table)
        again = mem.ingest(str(source))
        assert (again.written, again.skipped) == (0, len(rows))
        mem.snapshot()
    with fa.open(path) as mem:
        assert mem.links.to_arrow().equals(table)
        assert len(mem) == len(notes)


def test_without_ids_every_row_is_a_note_and_again_changes_nothing(
    rows: list[Row], tmp_path: Path
) -> None:
    source = tmp_path / "nameless.jsonl"
    nameless = [{"text": row["text"], "concepts": row["concepts"]} for row in rows]
    source.write_text("".join(json.dumps(row) + "\n" for row in nameless), encoding="utf-8")
    mem = fa.Memory()
    assert mem.ingest(str(source)).written == len(rows)
    assert links(mem) == counted(rows)
    table = mem.links.to_arrow()
    again = mem.ingest(str(source))
    assert (again.written, again.skipped) == (0, len(rows))
    assert mem.links.to_arrow().equals(table)


def test_an_interruption_leaves_no_trace(
    rows: list[Row],
    notes: list[Row],
    want: dict[tuple[str, str], int],
    source: Path,
    tmp_path: Path,
) -> None:
    class Enough(Exception):
        pass

    def stop(_: object) -> None:
        raise Enough

    batch = len(rows) // 10
    path = tmp_path / "packages.fa"
    with fa.open(path) as mem, pytest.raises(Enough):
        mem.ingest(str(source), batch_rows=batch, progress=stop)
    with fa.open(path) as mem:
        assert len(mem) < len(notes)
        mem.ingest(str(source), batch_rows=batch)
        assert len(mem) == len(notes)
        assert links(mem) == want
        assert mem.notes.to_arrow().column("id").to_pylist() == [row["id"] for row in notes]


@pytest.mark.parametrize("seed", range(8))
def test_orders_and_splits_give_the_same_links(
    rows: list[Row], want: dict[tuple[str, str], int], seed: int
) -> None:
    draw = random.Random(seed)
    order = rows if seed == 0 else draw.sample(rows, len(rows))
    mem = fa.Memory()
    start = 0
    while start < len(order):
        size = draw.choice([1, 3, 100, 1000, len(rows) // 3])
        mem.write_batch(order[start : start + size], on_duplicate="skip")
        start += size
        if draw.random() < 0.2:
            mem.read(concepts=[next(iter(want))[0]])
    assert links(mem) == want
