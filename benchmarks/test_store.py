"""A store as a whole: snapshot, open, catch-up, forget, vacuum, fading, bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastassoc as fa
from benchmarks import plain
from benchmarks.asked import Asked
from benchmarks.case import FLOOR, OURS, measure
from benchmarks.topics import SIZES
from fastassoc.links import LinkMatrix, keys_of
from fastassoc.settings import LinkRule

LISTS = 100_000


def times(size: str) -> int:
    return 5 if size in {"small", "medium"} else 3


def bytes_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


# -- snapshot, open -------------------------------------------------------------------------------


def test_snapshot(benchmark: Any, size: str, copy: Callable[[], Path]) -> None:
    """After one write, so that links, notes and words are all new."""
    with fa.open(copy(), sync="off") as mem:

        def before() -> None:
            mem.write("one more", concepts=["concept 000001", "concept 000002"])

        measure(
            benchmark, "snapshot", OURS, size, mem.snapshot, before=before, rounds=times(size),
            unit="snapshots",
        )  # fmt: skip
        info = mem.info()
    benchmark.extra_info |= {
        "links": info["links"],
        "link_bytes_memory": info["link_bytes"] / info["links"],
        "link_bytes_disk": info["links_bytes_on_disk"] / info["links"],
        "links_bytes_on_disk": info["links_bytes_on_disk"],
        "store_bytes": info["bytes"],
    }


def test_snapshot_bound(benchmark: Any, size: str, mem: fa.Memory, work: Path) -> None:
    data = os.urandom(mem.info()["links_bytes_on_disk"])
    who = FLOOR + "the links' bytes, synced"
    measure(
        benchmark, "snapshot", who, size, lambda: plain.synced(work / "bytes", data),
        rounds=times(size), unit="snapshots",
    )  # fmt: skip


@pytest.fixture(scope="module")
def listed(mem: fa.Memory) -> dict[str, float]:
    """The first links by name, for JSON; its figures are scaled to all of them."""
    columns, names = mem.links.columns(), mem.links.names()
    some = (columns[key][:LISTS].tolist() for key in ("a", "b", "weight"))
    return {f"{names[a]}\t{names[b]}": w for a, b, w in zip(*some, strict=True)}


def test_snapshot_as_json(
    benchmark: Any, size: str, mem: fa.Memory, work: Path, listed: dict[str, float]
) -> None:
    scale = len(mem.links) / max(1, len(listed))
    measure(
        benchmark, "snapshot", "JSON of a dict", size,
        lambda: plain.synced(work / "links.json", json.dumps(listed).encode()),
        rounds=3, unit="snapshots", scale=scale,
    )  # fmt: skip


def test_open(benchmark: Any, size: str, store: Path, asked: Asked) -> None:
    """To the answer of a first read by a concept."""
    names = asked.concepts("uniform", 1, 1)[0]

    def call() -> None:
        with fa.open(store, read_only=True) as mem:
            mem.read(concepts=names)

    measure(benchmark, "open", OURS, size, call, rounds=times(size), unit="opens")


def test_open_bound(benchmark: Any, size: str, store: Path) -> None:
    files = [file for file in store.rglob("*") if file.is_file()]
    call = lambda: [file.read_bytes() for file in files]  # noqa: E731
    who = FLOOR + "every file read"
    measure(benchmark, "open", who, size, call, rounds=times(size), unit="opens")


def test_open_of_json(
    benchmark: Any, size: str, mem: fa.Memory, work: Path, listed: dict[str, float]
) -> None:
    file = work / "links.json"
    file.write_text(json.dumps(listed), encoding="utf-8")
    call = lambda: json.loads(file.read_text(encoding="utf-8"))  # noqa: E731
    scale = len(mem.links) / max(1, len(listed))
    measure(benchmark, "open", "JSON of a dict", size, call, rounds=3, unit="opens", scale=scale)


# -- another process ------------------------------------------------------------------------------


def test_nothing_changed(benchmark: Any, size: str, store: Path) -> None:
    with fa.open(store) as mem:

        def call() -> None:
            for _ in range(1_000):
                _ = mem.position

        measure(benchmark, "catch-up-check", OURS, size, call, rounds=20, work=1_000, unit="looks")


def test_nothing_changed_bound(benchmark: Any, size: str, store: Path) -> None:
    file = max((file for file in store.iterdir() if file.is_file()), key=lambda f: f.stat().st_size)
    name = str(file)

    def call() -> None:
        for _ in range(1_000):
            os.stat(name)

    who = FLOOR + "stat of a file"
    measure(benchmark, "catch-up-check", who, size, call, rounds=20, work=1_000, unit="looks")


def test_catch_up(benchmark: Any, size: str, copy: Callable[[], Path]) -> None:
    """A reader takes in what another handle wrote: a batch of 100 notes."""
    path = copy()
    with fa.open(path, sync="off") as writer, fa.open(path, read_only=True) as reader:

        def before() -> None:
            writer.write_batch(
                [{"text": f"new {n}", "concepts": [f"concept {n:06d}", "new"]} for n in range(100)]
            )

        measure(
            benchmark, "catch-up", OURS, size, lambda: reader.position, before=before, rounds=10,
            work=100, unit="notes",
        )  # fmt: skip


# -- forgetting -----------------------------------------------------------------------------------


def test_forget(benchmark: Any, size: str, notes: int, copy: Callable[[], Path]) -> None:
    rng = np.random.default_rng(4)
    drawn = rng.permutation(notes)[:1_000].reshape(10, 100)
    with fa.open(copy(), sync="normal") as mem:
        measure(
            benchmark, "forget", OURS, size, mem.forget,
            [([f"n{n}" for n in some],) for some in drawn.tolist()], work=100, unit="notes",
        )  # fmt: skip


def test_forget_by_the_twin(benchmark: Any, size: str) -> None:
    from naive import NaiveMemory

    from benchmarks.topics import table

    twin = NaiveMemory(lambda: 0)
    twin.write_batch(table(2_000).to_pylist())
    queries = [([f"n{n}" for n in range(first, first + 100)],) for first in range(0, 1_000, 100)]
    measure(benchmark, "forget", "naive.py", size, twin.forget, queries, work=100, unit="notes")


def test_vacuum(benchmark: Any, size: str, notes: int, copy: Callable[[], Path]) -> None:
    with fa.open(copy(), sync="normal") as mem:
        numbers = iter(range(notes))

        def before() -> None:
            mem.forget([f"n{next(numbers)}" for _ in range(100)])

        measure(benchmark, "vacuum", OURS, size, mem.vacuum, before=before, rounds=2, unit="calls")


# -- fading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [None, 90.0], ids=["never", "90 days"])
def test_fading(
    benchmark: Any, size: str, mem: fa.Memory, asked: Asked, days: float | None
) -> None:
    """The same links, asked a month later, with weights that fade and without."""
    columns = mem.links.columns()
    matrix = LinkMatrix(LinkRule(decay_days=days, threshold=1.0), 0.3)
    keys = keys_of(columns["a"], columns["b"])
    matrix.write(keys, 0, columns["weight"])
    view, month = matrix.view(), 30 * 86_400_000_000
    find = mem._view().vocabulary.find
    queries = [([find(name) for name in one],) for one in asked.concepts("frequent", 1, 500)]
    row = "expand-fading" if days else "expand-fading-off"
    measure(
        benchmark, row, OURS, size, lambda ids: view.expand(ids, threshold=1.0, now=month), queries,
        warm=50, unit="queries",
    )  # fmt: skip


def test_tick(benchmark: Any, size: str, notes: int) -> None:
    """The clock moves a year at a time over notes that fade."""
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")
    from benchmarks.topics import table

    with fa.Memory(settings=fa.Settings.cognitive()) as mem:
        mem.ingest(table(notes))
        years = iter(range(2100, 2200))
        measure(
            benchmark, "tick", OURS, size, mem.tick, before=lambda: (f"{next(years)}-01-01",),
            rounds=3, work=notes, unit="notes",
        )  # fmt: skip
