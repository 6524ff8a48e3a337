"""Writing in memory and one by one: links alone, Arrow, dicts, singles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastassoc as fa
from benchmarks import plain
from benchmarks.case import FLOOR, OURS, measure, peer
from benchmarks.topics import BLOCK, SIZES, concept_ids, names, table
from fastassoc.links import LinkMatrix
from fastassoc.settings import LinkRule

BATCH = 10_000
LISTS = 100_000  # the most rows of dicts and of plain Python ways
TWIN = 1_000
FEW = 300  # of the peers that take milliseconds a note


@pytest.fixture(scope="module")
def ids(notes: int) -> np.ndarray:
    return np.concatenate(
        [
            concept_ids(min(BLOCK, notes - first), block=block)
            for block, first in enumerate(range(0, notes, BLOCK))
        ]
    )


@pytest.fixture(scope="module")
def dicts(notes: int) -> list[dict[str, Any]]:
    return table(min(notes, LISTS)).to_pylist()


def times(size: str) -> int:
    return {"small": 5, "medium": 3}.get(size, 1)


# -- links alone, from ids ------------------------------------------------------------------------


def links(ids: np.ndarray, batch: int) -> LinkMatrix:
    matrix = LinkMatrix(LinkRule(), 0.3)
    for first in range(0, len(ids), batch):
        matrix.write(plain.pair_keys(ids[first : first + batch]), 0)
    matrix.view()
    return matrix


def by_duckdb(ids: np.ndarray) -> Any:
    duckdb = peer("duckdb")
    pairs = pa.table({"key": plain.pair_keys(ids)})  # noqa: F841  (the query names it)
    return duckdb.sql("SELECT key, count(*) AS n FROM pairs GROUP BY key").fetchnumpy()


def by_polars(ids: np.ndarray) -> Any:
    polars = peer("polars")
    return polars.DataFrame({"key": plain.pair_keys(ids)}).group_by("key").len()


WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    OURS: lambda ids: links(ids, len(ids)),
    FLOOR + "sort and run lengths": lambda ids: plain.sorted_runs(plain.pair_keys(ids)),
    "Counter": lambda ids: plain.counted(ids[:LISTS].tolist()),
    "scipy X'X": plain.product,
    "DuckDB": by_duckdb,
    "Polars": by_polars,
}


@pytest.mark.parametrize("who", WAYS)
def test_links_at_once(benchmark: Any, size: str, notes: int, ids: np.ndarray, who: str) -> None:
    if who in {"DuckDB", "Polars"}:
        peer(who.lower())
    if who not in {OURS, "Counter"} and notes > BLOCK:
        pytest.skip("measured up to a million notes")
    work = min(notes, LISTS) if who == "Counter" else notes
    call = WAYS[who]
    measure(
        benchmark, "links", who, size, lambda: call(ids), rounds=times(size), work=work,
        unit="notes",
    )  # fmt: skip


def test_links_in_batches(benchmark: Any, size: str, notes: int, ids: np.ndarray) -> None:
    call = lambda: links(ids, min(BATCH, notes // 10))  # noqa: E731
    measure(
        benchmark, "links-batches", OURS, size, call, rounds=times(size), work=notes, unit="notes"
    )


def test_links_in_batches_beside(benchmark: Any, size: str, notes: int, ids: np.ndarray) -> None:
    batch = min(BATCH, notes // 10)

    def call() -> None:
        for first in range(0, len(ids), batch):
            plain.sorted_runs(plain.pair_keys(ids[first : first + batch]))

    who = FLOOR + "sort and run lengths, never merged"
    measure(
        benchmark, "links-batches", who, size, call, rounds=times(size), work=notes, unit="notes"
    )


# -- whole notes ----------------------------------------------------------------------------------


def test_arrow_batches(benchmark: Any, size: str, notes: int) -> None:
    """Ids, texts and dictionary-encoded concepts through the public verb."""
    if notes > BLOCK:
        pytest.skip("measured up to a million notes; huge is measured by its ingest")
    made = table(notes)
    flat = pa.DictionaryArray.from_arrays(pa.array(concept_ids(notes).ravel(), pa.int32()), names())
    offsets = pa.array(np.arange(notes + 1, dtype=np.int32) * 5)
    column = made.schema.get_field_index("concepts")
    made = made.set_column(column, "concepts", pa.ListArray.from_arrays(offsets, flat))

    def call() -> None:
        with fa.Memory() as mem:
            for first in range(0, notes, BATCH):
                mem.write_batch(made.slice(first, BATCH))

    measure(
        benchmark, "write-arrow", OURS, size, call, rounds=times(size), work=notes, unit="notes"
    )


@pytest.mark.parametrize("verb", ["write_batch", "ingest"])
def test_dicts(benchmark: Any, size: str, dicts: list[dict[str, Any]], verb: str) -> None:
    def call() -> None:
        with fa.Memory() as mem:
            if verb == "ingest":
                mem.ingest(dicts)
            else:
                for first in range(0, len(dicts), BATCH):
                    mem.write_batch(dicts[first : first + BATCH])

    who = f"{OURS} {verb}"
    measure(
        benchmark, "write-dicts", who, size, call, rounds=times(size), work=len(dicts), unit="notes"
    )


def flattened(dicts: list[dict[str, Any]]) -> None:
    lists = pa.array([row["concepts"] for row in dicts])
    ids = lists.flatten().dictionary_encode().indices.to_numpy().reshape(-1, 5)
    plain.sorted_runs(plain.pair_keys(ids.astype(np.uint32)))


def naive(dicts: list[dict[str, Any]]) -> None:
    from naive import NaiveMemory

    ticks = count()
    mem = NaiveMemory(lambda: next(ticks))
    mem.write_batch(dicts[:TWIN])


def hebbmem(dicts: list[dict[str, Any]]) -> None:
    peer("hebbmem").HebbMem(encoder="hash").store_batch([row["text"] for row in dicts[:FEW]])


def hyperrecall(dicts: list[dict[str, Any]]) -> None:
    mem = peer("hyperrecall").HyperRecall.open()
    for row in dicts[:FEW]:
        mem.remember(row["text"], participants=row["concepts"])


def cognitive_memory(dicts: list[dict[str, Any]]) -> None:
    mem = peer("cognitive_memory").SyncCognitiveMemory(embedder="hash")
    for row in dicts[:FEW]:
        mem.add(row["text"])


@pytest.mark.parametrize(
    ("who", "call", "most"),
    [
        (FLOOR + "encode, sort and run lengths", flattened, LISTS),
        ("Counter", lambda dicts: plain.counted(row["concepts"] for row in dicts), LISTS),
        ("naive.py", naive, TWIN),
        ("hebbmem", hebbmem, FEW),
        ("hyperrecall", hyperrecall, FEW),
        ("cognitive-memory", cognitive_memory, FEW),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_dicts_beside(
    benchmark: Any, size: str, dicts: list[dict[str, Any]], who: str, call: Any, most: int
) -> None:
    if most == FEW:
        peer(who.replace("-", "_"))
    work = min(len(dicts), most)
    rounds = 1 if most == FEW else times(size)
    measure(
        benchmark, "write-dicts", who, size, lambda: call(dicts), rounds=rounds, work=work,
        unit="notes",
    )  # fmt: skip


# -- one by one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", ["memory", "normal", "full"])
def test_single(
    benchmark: Any, size: str, copy: Callable[[], Path], notes: int, parquet: Path, sync: str
) -> None:
    if notes > SIZES["large"]:
        pytest.skip("measured up to a million notes")
    mem = fa.Memory() if sync == "memory" else fa.open(copy(), sync=sync)
    with mem:
        if sync == "memory":
            mem.ingest(str(parquet))
        rows = [(row["text"], row["concepts"]) for row in table(300, seed=99).to_pylist()]
        measure(
            benchmark, f"write-one-{sync}", OURS, size,
            lambda text, concepts: mem.write(text, concepts=concepts), rows, warm=20, unit="notes",
        )  # fmt: skip


@pytest.mark.parametrize("sync", ["normal", "full"])
def test_single_beside(benchmark: Any, size: str, work: Path, sync: str) -> None:
    insert = plain.one_insert(work / f"write-{sync}.db", sync)
    who = FLOOR + f"SQLite commit, {sync}"
    measure(benchmark, f"write-one-{sync}", who, size, insert, rounds=300, unit="notes")
