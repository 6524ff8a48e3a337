"""The figures of the README: ``python -m benchmarks.figures [small medium large]``.

For each size: notes a second from Parquet into a durable store, time of an open and of reads
(median and 99th percentile), bytes a link takes. Beside them, in the same run, what the plain
ways take: a Counter of pairs, and a scan of every note.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import fastassoc as fa
from benchmarks.topics import SIZES, table

READS = 400


def timed(call: Any, *args: Any, **options: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    out = call(*args, **options)
    return time.perf_counter() - start, out


def micros(seconds: list[float]) -> dict[str, float]:
    return {
        "p50_us": round(float(np.percentile(seconds, 50)) * 1e6, 1),
        "p99_us": round(float(np.percentile(seconds, 99)) * 1e6, 1),
    }


def counter_rate(rows: list[list[str]]) -> float:
    """Notes a second of the plain way: a Counter of pairs."""
    start = time.perf_counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for concepts in rows:
        pairs.update(combinations(sorted(concepts), 2))
    return len(rows) / (time.perf_counter() - start)


def scan_seconds(rows: list[list[str]], asked: str, linked: dict[str, float]) -> float:
    """Seconds of the plain way to read: score every note."""
    start = time.perf_counter()
    scored = [10.0 * (asked in row) + sum(linked.get(c, 0.0) for c in row) for row in rows]
    sorted(range(len(rows)), key=scored.__getitem__, reverse=True)[:10]
    return time.perf_counter() - start


def measure(name: str) -> dict[str, Any]:
    notes = SIZES[name]
    data = table(notes)
    lists = data.column("concepts").slice(0, min(notes, 100_000)).to_pylist()
    out: dict[str, Any] = {"notes": notes, "counter_notes_per_s": round(counter_rate(lists))}
    with tempfile.TemporaryDirectory() as folder:
        file, store = Path(folder) / "notes.parquet", Path(folder) / "store.fa"
        pq.write_table(data, file)
        del data
        with fa.open(store) as mem:
            seconds, report = timed(mem.ingest, str(file))
            assert report.written == notes, report
            out["ingest_notes_per_s"] = round(notes / seconds)
            mem.snapshot()
            info = mem.info()
            out["links"] = info["links"]
            out["link_bytes_memory"] = round(info["link_bytes"] / info["links"], 1)
            out["link_bytes_disk"] = round(info["links_bytes_on_disk"] / info["links"], 1)
            out["store_bytes_per_note"] = round(info["bytes"] / notes, 1)
        seconds, mem = timed(fa.open, store)
        out["open_s"] = round(seconds, 3)
        with mem:
            seconds, _ = timed(mem.read, concepts=["concept 000001"])
            out["first_read_s"] = round(seconds, 3)
            rng = np.random.default_rng(1)
            by_note = [lists[i][int(rng.integers(5))] for i in rng.integers(0, len(lists), READS)]
            names = mem.links.names()
            uniform = [names[i] for i in rng.integers(0, len(names), READS)]
            for label, asked in (("uniform", uniform), ("by_frequency", by_note)):
                spent = [timed(mem.read, concepts=[one])[0] for one in asked]
                out[f"read_{label}"] = micros(spent)
            edges = mem.graph([by_note[0]], limit=1000).edges
            linked = {(e["b"] if e["a"] == by_note[0] else e["a"]): e["weight"] for e in edges}
            scan = scan_seconds(lists, by_note[0], linked) * notes / len(lists)
            out["scan_ms"] = round(scan * 1e3, 1)
            spent = [
                timed(mem.write, "a new note", concepts=[a, b])[0]
                for a, b in zip(by_note[:100], uniform[:100], strict=True)
            ]
            out["write_full"] = micros(spent)
            spent = [
                timed(mem.feedback, asked=[a], used_concepts=[b], outcome=1.0)[0]
                for a, b in zip(by_note[:100], uniform[:100], strict=True)
            ]
            out["feedback_full"] = micros(spent)
            out["text_index_s"] = round(timed(mem.read, "word0003 word0042", rank="flat")[0], 2)
            words = [f"word{a:04d} word{b:04d}" for a, b in rng.integers(0, 2000, (READS, 2))]
            spent = [timed(mem.read, text, rank="flat")[0] for text in words]
            out["read_text"] = micros(spent)
    return out


def main(sizes: list[str]) -> None:
    unknown = [size for size in sizes if size not in SIZES]
    if unknown:
        sys.exit(f"unknown sizes {unknown}; known: {', '.join(SIZES)}")
    out = {"warm_s": round(fa.warm(), 2)}
    print(json.dumps(out), flush=True)
    for size in sizes:
        print(json.dumps({size: measure(size)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["small", "medium", "large"])
