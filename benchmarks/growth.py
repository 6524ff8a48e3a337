"""What grows with a store: ``python -m benchmarks.growth [--sizes 10k,100k,1m,10m] [--readme]``.

Each step runs in a process of its own that does nothing else, so that its peak memory is its own:
Parquet into a durable store; open and reads by concept; the indexes of words and names; reads by
text. The exponent says how a figure grows between the two largest sizes: 1 is in proportion.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastassoc as fa
from benchmarks.asked import name
from benchmarks.topics import concept_ids, write_parquet

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).with_name("README.md")
UNITS = {"k": 1_000, "m": 1_000_000}
READS = 300
BEGIN, END = "<!-- growth: python -m benchmarks.growth --readme -->", "<!-- end of growth -->"


def ingest(store: str, file: str, notes: int) -> dict[str, float]:
    """The journal and its snapshot."""
    start = time.perf_counter()
    with fa.open(store) as mem:
        report = mem.ingest(file)
        assert report.written == notes, report
        mem.snapshot()
    return {"ingest_s": time.perf_counter() - start}


def concepts(store: str, file: str, notes: int) -> dict[str, float]:
    """Open and read by concepts as often as notes carry them."""
    start = time.perf_counter()
    with fa.open(store) as mem:
        mem.read(concepts=["concept 000001"])
        out = {"open_s": time.perf_counter() - start}
        ids = concept_ids(min(notes, 100_000))
        asked = [name(int(n)) for n in np.random.default_rng(1).choice(ids.ravel(), READS)]
        out |= medians("concepts", lambda one: mem.read(concepts=[one]), asked)
        info = mem.info()
        sizes = {"links": info["links"], "link_bytes": info["link_bytes"], "bytes": info["bytes"]}
        return out | sizes


def index(store: str, file: str, notes: int) -> dict[str, float]:
    """What the first read by text of a snapshot makes, and keeps in the cache."""
    with fa.open(store) as mem:
        start = time.perf_counter()
        mem.read("word0003 word0042", rank="flat")
        return {"index_s": time.perf_counter() - start}


def texts(store: str, file: str, notes: int) -> dict[str, float]:
    """Open with the indexes in the cache, and read by six words and two concepts."""
    start = time.perf_counter()
    with fa.open(store, read_only=True) as mem:
        mem.read("word0003 word0042")
        out = {"open_text_s": time.perf_counter() - start}
        rng = np.random.default_rng(2)
        ids = concept_ids(min(notes, 100_000)).ravel()
        asked = []
        for pair in rng.choice(ids, (READS, 2)).tolist():
            said = [f"word{n:04d}" for n in rng.integers(0, 2_000, 6)]
            asked.append(" ".join([*said, *map(name, pair)]))
        return out | medians("texts", mem.read, asked)


STEPS = {step.__name__: step for step in (ingest, concepts, index, texts)}


def peak() -> int:
    """The most memory that this process had, bytes; `getrusage` tells of its parent's, too."""
    told = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s*(\d+) kB", told)[0]) * 1024


def medians(what: str, read: Callable[[str], Any], asked: list[str]) -> dict[str, float]:
    spent = []
    for one in [*asked[:20], *asked]:
        start = time.perf_counter()
        read(one)
        spent.append(time.perf_counter() - start)
    return {f"{what}_p50_s": float(np.median(spent[20:])),
            f"{what}_p99_s": float(np.percentile(spent[20:], 99))}  # fmt: skip


def measure(notes: int) -> dict[str, float]:
    """All steps at one size."""
    out: dict[str, float] = {"notes": notes}
    with tempfile.TemporaryDirectory() as folder:
        file, store = f"{folder}/notes.parquet", f"{folder}/store.fa"
        write_parquet(Path(file), notes)
        for step in STEPS:
            words = [sys.executable, "-m", "benchmarks.growth", "--step", step, store, file]
            done = subprocess.run(
                [*words, str(notes)], cwd=ROOT, check=True, capture_output=True, text=True
            )
            out |= json.loads(done.stdout.splitlines()[-1])
            print(f"{notes:,} {step}: {done.stdout.splitlines()[-1]}", file=sys.stderr, flush=True)
    return out


def shown(key: str, value: float) -> str:
    if key.endswith("_peak") or key == "bytes":
        return f"{value / 1e9:.2f} GB"
    if not key.endswith("_s"):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"
    return f"{value:.3g} s" if value >= 0.1 else f"{value * 1e3:.3g} ms"


ROWS = {
    "links": "links",
    "ingest_s": "Parquet to a durable store, with its snapshot",
    "ingest_peak": "&emsp;peak memory",
    "bytes": "&emsp;on disk",
    "open_s": "open, to the first read by a concept",
    "concepts_peak": "&emsp;peak memory",
    "link_bytes_each": "&emsp;bytes a link",
    "concepts_p50_s": "read by a concept, as often as notes carry it, p50",
    "concepts_p99_s": "&emsp;p99",
    "index_s": "indexes of words and names, made once for a snapshot",
    "index_peak": "&emsp;peak memory",
    "open_text_s": "open, to the first read by text, indexes in the cache",
    "texts_peak": "&emsp;peak memory",
    "texts_p50_s": "read by six words and two concepts, p50",
    "texts_p99_s": "&emsp;p99",
}


def table(found: list[dict[str, float]]) -> str:
    """The figures of all sizes, and the exponents."""
    for one in found:
        one["link_bytes_each"] = one["link_bytes"] / one["links"]
    sizes = [f"{int(one['notes']):,}" for one in found]
    lines = ["| | " + " | ".join([*sizes, "exponent"]) + " |", "|---" * (len(found) + 2) + "|"]
    for key, label in ROWS.items():
        values = [one[key] for one in found]
        grown = ""
        if len(found) > 1:
            step = math.log(found[-1]["notes"] / found[-2]["notes"])
            grown = f"{math.log(values[-1] / values[-2]) / step:.2f}"
        lines.append("| " + " | ".join([label, *(shown(key, v) for v in values), grown]) + " |")
    return "\n".join(lines)


def number(text: str) -> int:
    found = re.fullmatch(r"(\d+)([km]?)", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number such as 10k or 1m")
    return int(found[1]) * UNITS.get(found[2], 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", type=lambda text: [*map(number, text.split(","))],
                        default=[10_000, 100_000, 1_000_000, 10_000_000])  # fmt: skip
    parser.add_argument("--readme", action="store_true", help="put the table into the README here")
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        step, store, file, notes = given.step
        fa.warm()  # what is loaded or compiled in every process is no part of what grows
        found = STEPS[step](store, file, int(notes))
        print(json.dumps(found | {f"{step}_peak": peak()}))
        return
    text = table([measure(notes) for notes in given.sizes])
    print(text)
    if given.readme:
        page = HERE.read_text()
        before, rest = page.split(BEGIN)
        after = rest.split(END)[1]
        HERE.write_text(
            f"{before}{BEGIN}\n\n{time.strftime('%Y-%m-%d')}.\n\n{text}\n\n{END}{after}"
        )


if __name__ == "__main__":
    main()
