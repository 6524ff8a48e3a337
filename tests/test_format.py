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
from fastassoc.formats import FORMAT

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
    assert VERSIONS[-1] == f"v{FORMAT}"


@pytest.mark.parametrize(("copy", "version"), [(v, v) for v in VERSIONS], indirect=["copy"])
def test_l39_archived_stores_answer_the_same(copy: Path, version: str) -> None:
    want = json.loads((STORES / version / "answers.json").read_text())
    make = script(version)
    opened = getattr(make, "opened", fa.open)  # at a time of its own, where answers fade

    def same(mem: Any) -> None:
        found = make.answers(mem)
        told = {name: found["stats"][name] for name in want["stats"]}  # later ones tell more
        found["stats"] = told | {"position": want["stats"]["position"]}
        assert found == want

    number = int(version[1:])
    with opened(copy) as mem:
        same(mem)
        assert mem.position == want["stats"]["position"]
        assert mem.info()["format"] == number
        assert mem.verify(digest=True).ok
        backup = mem.backup(copy.parent / "backup")
        mem.write("still writable", concepts=["new"])
        assert mem.info()["format"] == FORMAT
        assert mem.snapshot()
        mem.vacuum()
        mem.forget([mem.recent(limit=1)[0].id])
        same(mem)
        assert mem.verify(digest=True).ok
    with opened(copy, read_only=True) as mem:
        same(mem)
    with opened(backup, read_only=True) as mem:
        same(mem)
        assert mem.info()["format"] == number


@pytest.mark.parametrize("copy", ["v1"], indirect=True)
def test_an_older_store_takes_what_is_new(copy: Path) -> None:
    with fa.open(copy) as mem:
        mem.write("A point.", id="p1", vector=[1, 2, 3], session="s")
        mem.write("Another point.", id="p2", vector=[3, 2, 1], session="s")
        mem.read(vector=[1, 2, 3], k=1, reinforce=True, session="s")
        digest = mem.verify(digest=True).digest
        mem.snapshot()
    with fa.open(copy) as mem:
        assert mem.verify(digest=True).digest == digest
        assert [hit.id for hit in mem.read(vector=[3, 2, 1], k=1)] == ["p2"]
        assert mem.get("p1").vector.tolist() == [1, 2, 3]
        assert mem.note_links.weight("p1", "p2") == 1.0
        assert mem.get("n5").vector is None


@pytest.mark.parametrize("copy", ["v2"], indirect=True)
def test_the_archived_move_goes_on(copy: Path) -> None:
    make = script("v2")
    with make.opened(copy) as mem:
        before = mem.get("n1").vector.tolist()
        assert mem.reembed(make.Letters(3)).updated == len(mem) - 10  # they were moved before
        assert (mem.stats()["dim"], len(before)) == (3, 6)
        texts = [mem.get(note).text for note in ("n1", "n11", "b7")]
        want = make.Letters(3).embed(texts).tolist()
        assert [mem.get(note).vector.tolist() for note in ("n1", "n11", "b7")] == want
        mem.snapshot()
    with make.opened(copy, embedder=make.Letters(3)) as mem:
        assert mem.get("n1").vector.tolist() == want[0]


@pytest.mark.parametrize("copy", VERSIONS[-1:], indirect=True)
def test_a_reader_with_pyarrow_alone(copy: Path) -> None:
    """Notes and links of the snapshot, by FORMAT.md, against what the library says."""
    with fa.open(copy) as mem:
        mem.snapshot()
        links = {(r["a"], r["b"]): r["weight"] for r in mem.links.to_arrow().to_pylist()}
        texts = {n["id"]: n["text"] for n in mem.notes.to_arrow().to_pylist()}
        between = {(r["a"], r["b"]): r["weight"] for r in mem.note_links.to_arrow().to_pylist()}
        vectors = {note: mem.get(note).vector for note in texts}
        tiers = {note: mem.get(note).tier for note in texts}
    newest = max(copy.glob("manifest-*.json"), key=lambda path: int(path.stem.split("-")[1]))
    manifest = json.loads(newest.read_text())
    tables: dict[str, list[Any]] = {}
    for segment in manifest["segments"]:
        rows = pq.read_table(copy / "segments" / segment["name"]).to_pylist()
        tables.setdefault(segment["kind"], []).extend(rows)
    dead = {row["seq"] for row in tables["dead"]}
    names = {row["id"]: row["shown"] for row in tables["vocabulary"]}
    assert {r["id"]: r["text"] for r in tables["notes"] if r["seq"] not in dead} == texts
    ids = {row["seq"]: row["id"] for row in tables["notes"]}
    assert {
        tuple(sorted((ids[r["a"]], ids[r["b"]]))): r["weight"] for r in tables["links-note"]
    } == between
    assert {ids[r["seq"]]: r["vector"] for r in tables["vectors"] if r["seq"] not in dead} == {
        note: vector.tolist() for note, vector in vectors.items() if vector is not None
    }
    assert {ids[r["seq"]] for r in tables["notestate"] if r["tier"] == "cold"} == {
        note for note, tier in tiers.items() if tier == "cold"
    }
    assert {
        tuple(sorted((names[r["a"]], names[r["b"]]))): r["weight"] for r in tables["links-concept"]
    } == links
