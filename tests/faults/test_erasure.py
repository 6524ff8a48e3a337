"""After a forget and a vacuum nothing of the note is in any file, whichever way it came in.

What stays, by design: names that outcomes taught (the vacuum's report lists them), among them those
that a question asked; ids of operations, for seven days; copies made by `backup`, which are stores
of their own with their own vacuum; and files that callers named themselves.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import fastassoc as fa
from fastassoc import textcache, vectors

from . import layer
from .power import LOTS, Power, Recorder
from .script import Counting, small

CANARY = "kanarienvogel7391"
VECTOR = np.array([0.7391731, -1.2345679, 9.8765432], np.float32)
LOOK = """
import sys
sys.path.insert(0, sys.argv[1])
from faults.test_erasure import found
print(found(sys.argv[2]))
"""
Way = Callable[[Any, Path], Any]


def traces() -> list[bytes]:
    """The text as it is and in UTF-16, and each number of the vector."""
    return [CANARY.encode(), CANARY.encode("utf-16-le"), *(x.tobytes() for x in VECTOR)]


def in_bytes(name: str, data: bytes) -> list[str]:
    """Where the canary is in a file's bytes, or in what a Parquet file decodes to."""
    hits = [f"{name}: {mark!r}" for mark in traces() if mark in data]
    if name.endswith(".parquet"):
        table = pq.read_table(pa.BufferReader(data), use_threads=False)
        if CANARY in str(table.to_pylist()):
            hits.append(f"{name}: the text, decoded")
        if "vector" in table.column_names and table.num_rows:
            held = np.concatenate([np.array(v, np.float32) for v in table["vector"].to_pylist()])
            if np.isin(VECTOR, held).any():
                hits.append(f"{name}: the vector, decoded")
    return hits


def found(path: str | Path) -> list[str]:
    hits = []
    for file in sorted(Path(path).rglob("*")):
        if CANARY in file.name:
            hits.append(f"the name {file.name}")
        if file.is_file():
            hits += in_bytes(file.name, file.read_bytes())
    return hits


def looked(path: Path) -> str:
    """From another process: closing a file of SQLite's would drop this one's locks."""
    root = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{root.parent}{os.pathsep}{root}"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(root), str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.strip()


def rows(count: int = 1) -> list[dict[str, Any]]:
    """The canary in every field that takes text, among harmless ones."""
    bird: dict[str, Any] = {
        "id": f"bird {CANARY}",
        "text": f"A {CANARY} sang.",
        "concepts": ["song", f"name {CANARY}"],
        "domain": f"domain {CANARY}",
        "session": f"session {CANARY}",
        "fingerprint": f"print {CANARY}",
        "external_ref": f"ref {CANARY}",
        "author": f"author {CANARY}",
        "metadata": {f"key {CANARY}": f"value {CANARY}"},
        "vector": VECTOR.tolist(),
    }
    others = [
        {"id": f"o{n}", "text": f"Other {n}.", "concepts": ["song"], "vector": [1.0, n, 2.0]}
        for n in range(count - 1)
    ]
    return [bird, *others]


def file_of(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / f"source.{kind}"
    flat = [{k: v for k, v in one.items() if k != "metadata"} for one in rows(4)]
    if kind == "jsonl":
        path.write_text("\n".join(json.dumps(one) for one in rows(4)) + "\n")
    elif kind in ("csv", "tsv"):
        columns = [k for k in flat[0] if k not in ("vector", "concepts")]
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="," if kind == "csv" else "\t")
            writer.writerow(columns)
            writer.writerows([[one.get(c, "") for c in columns] for one in flat])
    else:
        table = pa.Table.from_pylist(flat)
        if kind == "parquet":
            pq.write_table(table, path)
        else:
            pyarrow.feather.write_feather(table, path)
    return path


def ingested(kind: str) -> Way:
    return lambda mem, path: mem.ingest(file_of(kind, path.parent))


def replaced(mem: Any, path: Path) -> None:
    mem.write_batch(rows())
    mem.write_batch([{"id": rows()[0]["id"], "text": "Anew."}], on_duplicate="replace")


def rejected(mem: Any, path: Path) -> None:
    bad = [{"id": f"x {CANARY}", "text": None, "concepts": CANARY}]
    mem.ingest([{"id": "good", "text": "Good."}, *bad], max_rejects=1.0)
    mem.write_batch(rows())


def updated(mem: Any, path: Path) -> None:
    mem.write_batch(rows())
    mem.update(rows()[0]["id"], metadata={"other": CANARY})
    mem.update(rows()[0]["id"], metadata={"none": 1})


def snapshots(mem: Any, path: Path) -> None:
    for number in range(4):
        mem.write_batch([{**rows()[0], "id": f"{number} {CANARY}"}])
        mem.snapshot()
    mem.write_batch(rows())


def read_and_linked(mem: Any, path: Path) -> None:
    mem.write_batch(rows(3))
    mem.read(CANARY, session=f"session {CANARY}")
    mem.link(rows()[0]["id"], "o0", weight=0.5)


def imported(mem: Any, path: Path) -> None:
    other = fa.Memory()
    other.write_batch(rows(3))
    mem.import_lines(other.export_lines())


def backed_up(mem: Any, path: Path) -> None:
    mem.write_batch(rows(9))
    mem.snapshot()
    mem.backup(path.parent / "copy.fa")


def embedded(mem: Any, path: Path) -> None:
    mem.write_batch([{k: v for k, v in one.items() if k != "vector"} for one in rows(3)])
    mem.reembed(Counting())


def cached(mem: Any, path: Path) -> None:
    mem.write_batch(rows(40))
    mem.snapshot()
    with fa.open(path) as other:  # maps the vectors of the snapshot
        other.read(CANARY)
    held = {file.name.partition("-")[0] for file in (path / "cache").glob("*.bin")}
    assert held == {"mentions", "text", "vector", "vectors"}
    assert any("text" in hit for hit in found(path / "cache"))


WAYS: dict[str, Way] = {
    "write": lambda mem, path: mem.write(rows()[0].pop("text"), **without_text()),
    "batch": lambda mem, path: mem.write_batch(rows(3)),
    "bulk": lambda mem, path: mem.write_batch(rows(9)),
    **{f"ingest {kind}": ingested(kind) for kind in ("jsonl", "csv", "tsv", "parquet", "arrow")},
    "ingest rows": lambda mem, path: mem.ingest(rows(9)),
    "ingest table": lambda mem, path: mem.ingest(pa.Table.from_pylist(rows(2)[:1])),
    "replace": replaced,
    "rejects": rejected,
    "update": updated,
    "snapshots": snapshots,
    "read and linked": read_and_linked,
    "import": imported,
    "backup": backed_up,
    "reembed": embedded,
    "cache": cached,
}


def without_text() -> dict[str, Any]:
    return {k: v for k, v in rows()[0].items() if k != "text"}


def birds(mem: Any) -> list[str]:
    view = mem._view()
    return [name for name in view.notes.table.ids if CANARY in name and name in mem]


@pytest.mark.parametrize("after", ["nothing", "snapshot"])
@pytest.mark.parametrize("way", WAYS)
def test_l23_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, after: str
) -> None:
    monkeypatch.setattr(vectors, "EXACT_BELOW", 20)
    monkeypatch.setattr(textcache, "KEPT_FROM", 3)
    path = tmp_path / "s.fa"
    with small():
        with fa.open(path) as mem:
            if way != "import":
                mem.write("Before.", id="before", concepts=["song", "before"])
            WAYS[way](mem, path)
            if after == "snapshot":
                mem.snapshot()
        assert found(path)
        with fa.open(path) as mem:
            mem.forget(birds(mem))
            mem.vacuum()
            if after == "nothing" and way in ("batch", "snapshots"):
                assert looked(path) == "[]"  # while it is open
        assert found(path) == []
        if way == "backup":
            with fa.open(tmp_path / "copy.fa") as copy:
                copy.forget(birds(copy))
                copy.vacuum()
            assert found(tmp_path / "copy.fa") == []
        with fa.open(path) as mem:
            assert mem.verify(digest=True).ok
            assert way == "import" or "before" in mem


@pytest.mark.parametrize("seed", range(6))
def test_l23_what_killed_processes_left_is_erased(tmp_path: Path, seed: int) -> None:
    """A snapshot or a vacuum is killed somewhere; the next vacuum erases what they left."""
    path, draw = tmp_path / "s.fa", random.Random(seed)

    class Killing(layer.Wire):
        left = draw.randrange(60)

        def perform(self, call: layer.Call, do: layer.Do, half: layer.Do | None = None) -> Any:
            self.left -= call.kind in ("write", "rename", "sync", "unlink")
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return do()

    with small():
        with fa.open(path) as mem:
            mem.write_batch(rows(9))
        child = os.fork()
        if child == 0:
            try:
                with layer.on(Killing(tmp_path)), fa.open(path) as mem:
                    mem.snapshot()
                    mem.forget(birds(mem))
                    mem.vacuum()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with fa.open(path) as mem:
            mem.forget(birds(mem))
            mem.vacuum()
        assert found(path) == []


def test_l23_a_loss_of_power_after_a_vacuum_brings_nothing_back(tmp_path: Path) -> None:
    """The log was emptied, and its old length was still what the disk had."""
    path = tmp_path / "s.fa"
    with small(), fa.open(path) as mem:
        mem.write_batch(rows(3))
        mem.ingest(
            [{"id": "x", "text": "Good."}, {"id": "y", "text": 7, "author": CANARY}],
            max_rejects=1.0,
        )
        mem.snapshot()
        recorder = Recorder(tmp_path)
        with layer.on(recorder), fa.open(path) as other:
            other.write_batch([{**one, "id": f"2 {one['id']}"} for one in rows(3)])
            other.forget(birds(other))
            other.vacuum()
            power = Power(recorder.first, recorder.numbers)
            for event in recorder.events:
                power.pass_by(event)
            hits = [
                (lot, hit)
                for lot, state in power.states(LOTS * 4, random.Random(1))
                for name, data in state.tree.items()
                if data is not None
                for hit in in_bytes(name, data)
            ]
    assert hits == []
