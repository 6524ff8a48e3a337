"""Archived stores of every format open and answer the same; FORMAT.md is enough to read one."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fastassoc as fa

STORES = Path(__file__).parent.parent / "data" / "stores"
VERSIONS = sorted(path.name for path in STORES.glob("v*"))


def script(version: str) -> Any:
    spec = importlib.util.spec_from_file_location("make", STORES / version / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copytree(STORES / request.param / "store", tmp_path / "store"))


def test_there_is_a_store_of_the_current_format() -> None:
    from fastassoc.snapshot import FORMAT

    assert VERSIONS[-1] == f"v{FORMAT}"


@pytest.mark.parametrize(("copy", "version"), [(v, v) for v in VERSIONS], indirect=["copy"])
def test_l39_archived_stores_answer_the_same(copy: Path, version: str) -> None:
    want = json.loads((STORES / version / "answers.json").read_text())
    make = script(version)
    with fa.open(copy) as mem:
        assert make.answers(mem) == want
        assert mem.verify().ok
        mem.write("still writable", concepts=["new"])
        mem.vacuum()
        mem.forget([mem.recent(limit=1)[0].id])
    with fa.open(copy, read_only=True) as mem:
        found = make.answers(mem)
        found["stats"]["position"] = want["stats"]["position"]
        assert found == want


@pytest.mark.parametrize("copy", VERSIONS[-1:], indirect=True)
def test_a_reader_with_pyarrow_alone(copy: Path) -> None:
    """Notes and links of the snapshot, by FORMAT.md, against what the library says."""
    with fa.open(copy) as mem:
        mem.snapshot()
        links = {(r["a"], r["b"]): r["weight"] for r in mem.links.to_arrow().to_pylist()}
        texts = {n["id"]: n["text"] for n in mem.notes.to_arrow().to_pylist()}
    newest = max(copy.glob("manifest-*.json"), key=lambda path: int(path.stem.split("-")[1]))
    manifest = json.loads(newest.read_text())
    tables: dict[str, list[Any]] = {}
    for segment in manifest["segments"]:
        rows = pq.read_table(copy / "segments" / segment["name"]).to_pylist()
        tables.setdefault(segment["kind"], []).extend(rows)
    dead = {row["seq"] for row in tables["dead"]}
    names = {row["id"]: row["shown"] for row in tables["vocabulary"]}
    assert {r["id"]: r["text"] for r in tables["notes"] if r["seq"] not in dead} == texts
    assert {
        tuple(sorted((names[r["a"]], names[r["b"]]))): r["weight"] for r in tables["links-concept"]
    } == links
