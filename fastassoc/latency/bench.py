"""The whole measurement: a store, its cold start, every rank warm, recall, told as one document."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import fastassoc as fa
from fastassoc.errors import InvalidInput
from fastassoc.latency import cold
from fastassoc.latency.asked import Asked, check_ranks, ids_of
from fastassoc.latency.compare import SCHEMA
from fastassoc.latency.made import clustered, tables
from fastassoc.latency.nearest import Progress, recall_of, truth
from fastassoc.latency.timing import stages, timed
from fastassoc.plural import count
from fastassoc.settings import RANKS

__all__ = ["Options", "run"]

PACKAGES = ("numpy", "scipy", "numba", "faiss-cpu", "pyarrow", "apsw")
WARM = 20  # reads of each row ahead of what counts
MOST_NOTES, MOST_DIM, MOST_THREADS, MOST_BATCH = 100_000_000, 65_536, 1_024, 100_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure.

    Attributes
    ----------
    store : str or None
        One's own, opened read-only; None generates one.
    notes, dim : int
        Of the generated store; dim 0 is without vectors.
    ranks : tuple of str
        Of `fastassoc.settings.RANKS`; empty for all.
    threads, batches : tuple of int
        Every number of threads with every number of queries in a call.
    reads : int
        Questions of a row.
    seconds : float
        A row stops early after so many.
    cold : int
        Processes that are begun to measure a cold start; 0 leaves it out.
    questions : int
        Questions that the recall is measured by; 0 leaves it out.
    floors : tuple of float
        Further values of the setting ``recall_floor``, each with an index of its own.
    k, seed : int
    timeout : float
        Seconds to wait for another process that writes.
    """

    store: str | None = None
    notes: int = 10_000
    dim: int = 0
    ranks: tuple[str, ...] = ()
    threads: tuple[int, ...] = (1, 2)
    batches: tuple[int, ...] = (1, 64)
    reads: int = 400
    seconds: float = 5.0
    cold: int = 3
    questions: int = 100
    floors: tuple[float, ...] = ()
    k: int = 10
    seed: int = 1
    timeout: float = 10.0

    def check(self) -> None:
        """Refuse what cannot be measured.

        Raises
        ------
        InvalidInput
        """
        check_ranks(self.ranks)
        bounds = {
            "notes": ((self.notes,), 1, MOST_NOTES),
            "dim": ((self.dim,), 0, MOST_DIM),
            "threads": (self.threads, 1, MOST_THREADS),
            "batch": (self.batches, 1, MOST_BATCH),
            "reads": ((self.reads,), 1, 10_000_000),
            "cold": ((self.cold,), 0, 1_000),
            "questions": ((self.questions,), 0, 1_000_000),
            "k": ((self.k,), 1, 10_000),
        }
        for name, (values, low, high) in bounds.items():
            if not values:
                raise InvalidInput(f"{name}: found none, expected at least one number.")
            for value in values:
                if not low <= value <= high:
                    raise InvalidInput(
                        f"{name}: found {value}, expected a whole number from {low} to {high}."
                    )
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InvalidInput(f"seconds: found {self.seconds}, expected more than 0.")
        for floor in self.floors:
            if not 0 <= floor <= 1:
                raise InvalidInput(f"recall floor: found {floor}, expected from 0 to 1.")


def _nothing(what: str, done: int, total: int) -> None:
    return None


def run(options: Options, progress: Progress = _nothing) -> dict[str, Any]:
    """Measure.

    Parameters
    ----------
    options : Options
    progress : callable, optional
        Called with what is done, how many of it are done, and of how many.

    Returns
    -------
    dict
        The report: JSON values, of the schema that its key ``schema`` names. See Notes.

    Raises
    ------
    InvalidInput
        An option cannot be taken, or the store has no notes.
    StoreNotFound
        There is no such store.

    Notes
    -----
    ``store`` says what was read (notes, links, dim, bytes, index), ``asked`` with what, ``machine``
    and ``packages`` where. ``load`` is the generated store's (None for one's own): notes_per_s,
    ingest_s, snapshot_s, index_s. ``cold`` holds medians over processes that begin: import_s,
    open_s, first_read_s and second_read_s by row, and peak_bytes. ``warm`` has an entry for each
    rank, kind of question, batch and number of threads: p50_ms, p95_ms, p99_ms and mean_ms of a
    call, qps, reads, and stages_ms of a single read. ``recall`` has one for each recall floor:
    recall, qps and the same percentiles, one question at a time on one thread. ``figures`` holds
    all that can become worse by name, each with value, unit and better ("lower" or "higher").
    """
    options.check()
    if options.store is not None and not Path(options.store).exists():
        fa.open(options.store, create=False, read_only=True)  # says so, before any compiling
    begun = time.perf_counter()
    progress("compiling kernels", 0, 1)
    compiled = fa.warm()
    with _store(options, progress) as (path, load):
        report = _measured(options, path, progress)
    report = {
        "schema": dict(SCHEMA),
        "fastassoc": fa.__version__,
        "python": platform.python_version(),
        "packages": _packages(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "asked": {
            "ranks": list(options.ranks or RANKS),
            "reads": options.reads,
            "k": options.k,
            "seed": options.seed,
        },
        "compile_s": round(compiled, 3),
        "load": load,
        **report,
        "seconds": round(time.perf_counter() - begun, 2),
    }
    report["figures"] = _figures(report)
    return report


def _packages() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


# -- the store ------------------------------------------------------------------------------------


@contextmanager
def _store(options: Options, progress: Progress) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """One's own, or a generated one in a folder that goes afterwards."""
    if options.store is not None:
        yield options.store, None
        return
    with TemporaryDirectory(prefix="fastassoc-") as folder:
        path = str(Path(folder) / "generated.fa")
        yield path, _generate(path, options, progress)


def _generate(path: str, options: Options, progress: Progress) -> dict[str, Any]:
    """Write the notes; seconds of the making itself do not count."""
    spent, done = 0.0, 0
    with fa.open(path, timeout=options.timeout) as mem:
        blocks = _blocks(options)
        for block in blocks:
            for first in range(0, len(block), 50_000):
                some = block.slice(first, 50_000)
                start = time.perf_counter()
                mem.ingest(some)
                spent += time.perf_counter() - start
                done += len(some)
                progress("writing notes", done, options.notes)
        start = time.perf_counter()
        mem.snapshot()
        saved = time.perf_counter() - start
        start = time.perf_counter()
        progress("making indexes", 0, 1)
        mem.warm()
        indexed = time.perf_counter() - start
    return {
        "notes_per_s": round(options.notes / spent, 1),
        "ingest_s": round(spent, 3),
        "snapshot_s": round(saved, 3),
        "index_s": round(indexed, 3),
    }


def _blocks(options: Options) -> Iterator[pa.Table]:
    if not options.dim:
        yield from tables(options.notes, options.seed)
        return
    points = clustered(options.notes, options.dim, options.seed)
    for block, near in zip(tables(options.notes, options.seed), points, strict=True):
        flat = pa.FixedSizeListArray.from_arrays(pa.array(near.ravel()), options.dim)
        yield block.append_column("vector", flat)


# -- the figures ----------------------------------------------------------------------------------


def _measured(options: Options, path: str, progress: Progress) -> dict[str, Any]:
    with fa.open(path, create=False, read_only=True, timeout=options.timeout) as mem:
        ids = ids_of(mem)
        asked = Asked.of(mem, ids, options.reads, options.seed)
        rows = asked.rows(options.ranks or RANKS)
        out: dict[str, Any] = {"cold": None}
        if options.cold:
            out["cold"] = _cold(options, path, asked, rows, progress)
        progress("making indexes", 0, 1)
        start = time.perf_counter()
        mem.warm()
        out["warming_s"] = round(time.perf_counter() - start, 3)
        out["warm"] = _warm(options, mem, asked, rows, progress)
        out["recall"] = []
        if options.questions and asked.vectors is not None:
            out["recall"] = _recall(options, mem, path, ids, asked.vectors, progress)
        info = mem.info()
        out["store"] = {
            "own": options.store is not None,
            **{name: info[name] for name in ("notes", "concepts", "links", "dim", "index")},
            "bytes": info.get("bytes"),
        }
        out["peak_bytes"] = cold.peak_bytes()
    return out


def _cold(
    options: Options, path: str, asked: Asked, rows: list[tuple[str, str]], progress: Progress
) -> dict[str, Any]:
    """Medians over processes that begin, open the store and read once by each row."""
    questions = {}
    for rank, kind in rows:
        query = dict(asked.by_kind[kind][0])
        if "vector" in query:
            query["vector"] = query["vector"].tolist()
        questions[f"{rank}, {kind}"] = {**query, "rank": rank, "k": options.k}
    told = []
    for number in range(options.cold):
        told += cold.measure(path, questions, 1, options.timeout)
        progress("cold starts", number + 1, options.cold)
    peaks = [one["peak_bytes"] for one in told if one["peak_bytes"] is not None]
    return {
        "processes": len(told),
        **{name: _median([one[name] for one in told]) for name in ("import_s", "open_s")},
        **{
            name: {row: _median([one[name][row] for one in told]) for row in questions}
            for name in ("first_read_s", "second_read_s")
        },
        "peak_bytes": max(peaks) if peaks else None,
    }


def _median(values: list[float]) -> float:
    return round(float(np.median(values)), 6)


def _warm(
    options: Options,
    mem: fa.Memory,
    asked: Asked,
    rows: list[tuple[str, str]],
    progress: Progress,
) -> list[dict[str, Any]]:
    """Every rank, with every number of threads and of queries in a call."""
    cells = [
        (rank, kind, batch, threads)
        for rank, kind in rows
        for batch in options.batches
        for threads in options.threads
    ]
    out: list[dict[str, Any]] = []
    known: dict[tuple[str, str], dict[str, float]] = {}
    for number, (rank, kind, batch, threads) in enumerate(cells):
        what = f"{rank} by {kind}, {batch} in a call, {count(threads, 'thread')}"
        progress(what, number, len(cells))
        queries = asked.by_kind[kind]
        common: dict[str, Any] = {"rank": rank, "k": options.k}
        if (rank, kind) not in known:
            end = time.perf_counter() + options.seconds
            for query in islice(queries, WARM):
                mem.read(**query, **common)
                if time.perf_counter() > end:
                    break
            known[rank, kind] = stages(mem, queries[:WARM], common, options.seconds)
        told = timed(
            mem, queries, common, threads=threads, batch=batch, most_seconds=options.seconds
        )
        cell = {"rank": rank, "asked": kind, "batch": batch, "threads": threads, **told}
        out.append({**cell, "stages_ms": known[rank, kind]})
    progress("reads", len(cells), len(cells))
    return out


def _recall(
    options: Options,
    mem: fa.Memory,
    path: str,
    ids: pa.ChunkedArray,
    points: Any,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Recall against reads a second, one at a time on one thread: the store's floor and others."""
    some = points[: options.questions]
    best = truth(mem, ids, some, options.k, progress)
    queries = [{"vector": point} for point in some]
    own = mem.settings
    out = []
    for number, floor in enumerate(dict.fromkeys((own.recall_floor, *options.floors))):
        progress("recall", number, 1 + len(options.floors))
        settings = own.with_changes({"recall_floor": floor}, read_only=True)
        with fa.open(
            path, create=False, read_only=True, settings=settings, timeout=options.timeout
        ) as other:
            other.warm()
            recall = recall_of(other, some, best, options.k)
            told = timed(
                other, queries, {"rank": "flat", "k": options.k}, threads=1, batch=1,
                most_seconds=options.seconds,
            )  # fmt: skip
            index = other.info()["index"]
        out.append(
            {"recall_floor": floor, "k": options.k, "questions": len(some), "recall": recall}
            | told
            | {"index": index}
        )
    progress("recall", 1 + len(options.floors), 1 + len(options.floors))
    return out


def _figures(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every figure that can become worse, by a name that says what it is."""
    out: dict[str, dict[str, Any]] = {}

    def add(name: str, value: float | None, unit: str, better: str = "lower") -> None:
        if value is not None:
            out[name] = {"value": value, "unit": unit, "better": better}

    for cell in report["warm"]:
        name = f"{cell['rank']}/{cell['asked']}/batch {cell['batch']}/threads {cell['threads']}"
        for point in ("p50", "p95", "p99"):
            add(f"{name}/{point}", cell[f"{point}_ms"], "ms")
        add(f"{name}/qps", cell["qps"], "reads/s", "higher")
    for cell in report["recall"]:
        name = f"recall floor {cell['recall_floor']:g}"
        add(f"{name}/recall@{cell['k']}", cell["recall"], "", "higher")
        add(f"{name}/qps", cell["qps"], "reads/s", "higher")
    if report["cold"] is not None:
        cold_told = report["cold"]
        add("cold/import", cold_told["import_s"], "s")
        add("cold/open", cold_told["open_s"], "s")
        for row, seconds in cold_told["first_read_s"].items():
            add(f"cold/first read/{row}", seconds, "s")
        add("cold/peak memory", cold_told["peak_bytes"], "bytes")
    add("store/bytes", report["store"]["bytes"], "bytes")
    if report["load"] is not None:
        add("load/notes", report["load"]["notes_per_s"], "notes/s", "higher")
        add("load/index", report["load"]["index_s"], "s")
    return out
