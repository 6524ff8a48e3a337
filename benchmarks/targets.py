"""Every target beside what is measured here: ``python -m benchmarks.targets --sizes small,medium``.

Runs the suites, one size after another, and sets each target beside our figure, the floor and the
best other way of the same run. ``--readme`` puts the table into benchmarks/README.md; ``--from``
tells of earlier runs again without measuring.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.case import FLOOR, OURS
from benchmarks.topics import SIZES

ROOT = Path(__file__).parents[1]
README = ROOT / "benchmarks" / "README.md"
MARKS = "<!-- figures: python -m benchmarks.targets --readme -->", "<!-- end of figures -->"
SCHEMA = {"name": "fastassoc-targets", "version": 1}
Figure = dict[str, Any]


class Target(NamedTuple):
    """One target.

    Attributes
    ----------
    operation : str
    row : str
        Key of the suites' figures.
    figure : str
        ``rate`` (units a second), ``p50``, ``p99`` (seconds), ``each`` (p50 of one unit),
        ``floor`` (times the floor's p50), ``peer`` (times the best peer's), else a name that the
        figure keeps.
    bound : float or None
        None is published only.
    unit : str
        Of what is shown: ``/s``, ``us``, ``ms``, ``s``, ``x``, ``B``, ``MB`` or nothing.
    sizes : tuple of str
        Where the target holds; other sizes are shown without a verdict.
    least : bool
        Whether more is better.
    """

    operation: str
    row: str
    figure: str
    bound: float | None
    unit: str
    sizes: tuple[str, ...] = ("small", "medium", "large", "huge")
    least: bool = False


MILLION = ("large",)
TARGETS = [
    Target("links from ids, in memory, at once", "links", "rate", 2e6, "notes/s", least=True),
    Target("links, in batches of 10k", "links-batches", "rate", 1e6, "notes/s", least=True),
    Target("whole notes from Arrow, batches", "write-arrow", "rate", None, "notes/s", least=True),
    Target("ingest of dicts, in memory", "write-dicts", "rate", 0.6e6, "notes/s", least=True),
    Target("Parquet to a durable store", "ingest", "rate", 0.3e6, "notes/s", least=True),
    Target("peak memory of that ingest", "ingest-memory", "peak_bytes", None, "MB"),
    Target("word and mention index", "text-index", "rate", 1e6, "tokens/s", least=True),
    Target("Parquet with 384-d vectors", "ingest-vectors", "rate", 0.15e6, "notes/s", least=True),
    Target("vector index, beside FAISS alone", "vector-index", "peer", 2.0, "x"),
    Target("expand 1 concept, uniform", "expand-1-uniform-1-all", "p50", 10e-6, "us"),
    Target("expand 1 concept, by frequency", "expand-1-frequent-1-all", "p50", 10e-6, "us"),
    Target("expand 1, by frequency, p99", "expand-1-frequent-1-all", "p99", 120e-6, "us"),
    Target("expand 3 concepts, by frequency", "expand-3-frequent-1-all", "p50", 10e-6, "us"),
    Target("expand 3, by frequency, p99", "expand-3-frequent-1-all", "p99", 120e-6, "us"),
    Target("expand, 1,024 at a time", "expand-batch-1-frequent", "rate", 1e5, "/s", least=True),
    Target("2 hops, fan-out 32", "expand-1-frequent-2-32", "p50", 30e-6, "us"),
    Target("3 hops, fan-out 32", "expand-1-frequent-3-32", "p50", 250e-6, "us"),
    Target("personalised PageRank", "ppr", "p50", 0.3e-3, "ms"),
    Target("concept read, uniform", "counts-1-uniform-exact", "p50", 0.3e-3, "ms"),
    Target("concept read, by frequency", "counts-1-frequent-exact", "p50", 1.5e-3, "ms"),
    Target("concept read, by frequency, p99", "counts-1-frequent-exact", "p99", 15e-3, "ms"),
    Target("the same, fan-out 32, p99", "counts-1-frequent-capped", "p99", 2e-3, "ms"),
    Target("read with vector", "vector-clustered", "p50", 0.5e-3, "ms", ("small", "medium")),
    Target("read with vector, p99", "vector-clustered", "p99", 3e-3, "ms", ("small", "medium")),
    Target("read with vector and words", "vector-words-clustered", "p50", 0.6e-3, "ms", MILLION),
    Target("recall@10 of reads by vector", "vector-clustered", "recall", 0.98, "", least=True),
    Target("feedback, many pairs", "feedback-pairs", "rate", 10e6, "pairs/s", least=True),
    Target("feedback, one large call", "feedback-call", "rate", None, "pairs/s", least=True),
    Target("feedback, one call, memory", "feedback-memory", "p50", 10e-6, "us"),
    Target("feedback, one call, normal", "feedback-normal", "p50", 60e-6, "us"),
    Target("feedback, full, beside a commit", "feedback-full", "floor", 1.3, "x"),
    Target("snapshot, whole store", "snapshot", "p50", 0.6, "s", MILLION),
    Target("links on disk", "snapshot", "links_bytes_on_disk", 28e6, "MB", MILLION),
    Target("open, to the first read", "open", "p50", 0.5, "s"),
    Target("look for changes, none", "catch-up-check", "each", 5e-6, "us"),
    Target("bytes a link, in memory", "snapshot", "link_bytes_memory", 48, "B", MILLION),
    Target("bytes a link, on disk", "snapshot", "link_bytes_disk", 6, "B", MILLION),
    Target("import", "import", "p50", 0.05, "s"),
    Target("first read after a cold start", "cold-start", "p50", 1.5, "s"),
]


def value_of(figure: Figure, name: str) -> float | None:
    """A figure's value; what was measured on a part is scaled to the whole."""
    if name in {"p50", "p95", "p99"}:
        return float(figure[name]) * float(figure.get("scale", 1.0))
    if name == "each":
        return float(figure["p50"]) / float(figure["work"])
    return None if figure.get(name) is None else float(figure[name])


def best(figures: Iterable[Figure], name: str, least: bool) -> Figure | None:
    """The best of them by a value."""
    held = [one for one in figures if value_of(one, name) is not None]
    key = lambda one: value_of(one, name) or 0.0  # noqa: E731
    return (max if least else min)(held, key=key) if held else None


def others(figures: list[Figure]) -> list[Figure]:
    """Other ways that find as much, not the slow twin; of fewer notes only as a last resort."""
    held = [one for one in figures if not one["who"].startswith("naive.py")]
    held = [one for one in held if one.get("recall", 1.0) >= 0.98]
    whole = [one for one in held if "few" not in one]
    return whole or held


def judged(figures: list[Figure], sizes: list[str]) -> list[dict[str, Any]]:
    """Each target at each size that was measured."""
    rows = []
    for target in TARGETS:
        for size in sizes:
            here = [f for f in figures if f["row"] == target.row and f["size"] == size]
            ours = [f for f in here if f["who"].startswith(OURS)]
            floors = [f for f in here if f["who"].startswith(FLOOR)]
            peers = others([f for f in here if f not in ours and f not in floors])
            shown = "p50" if target.figure in {"floor", "peer"} else target.figure
            mine, low, other = (best(some, shown, target.least) for some in (ours, floors, peers))
            if mine is None:
                continue
            told = value_of(mine, shown)
            beside = {"floor": low, "peer": other}.get(target.figure)
            if beside is not None:
                told = float(mine["p50"]) / float(beside["p50"])
            elif target.figure in {"floor", "peer"}:
                told = None
            met = None
            if target.bound is not None and told is not None and size in target.sizes:
                met = told >= target.bound if target.least else told <= target.bound
            rows.append(
                {
                    "operation": target.operation,
                    "size": size,
                    "row": target.row,
                    "figure": target.figure,
                    "unit": target.unit,
                    "target": target.bound,
                    "measured": told,
                    "met": met,
                    "ran": ran(mine),
                    "floor": told_of(low, shown),
                    "peer": told_of(other, shown),
                    "ratio_floor": ratio(mine, low, shown, target.least),
                    "ratio_peer": ratio(mine, other, shown, target.least),
                }
            )
    return rows


def ran(figure: Figure) -> float | None:
    """The share of the time in which the processor was ours; little of it is another's noise."""
    if figure.get("cpu") is None:
        return None
    return round(min(1.0, float(figure["cpu"]) / float(figure["p50"])), 3)


def told_of(figure: Figure | None, name: str) -> dict[str, Any] | None:
    if figure is None or (name not in figure and name != "each"):
        return None
    return {"who": figure["who"].removeprefix(FLOOR), "value": value_of(figure, name)}


def ratio(mine: Figure, other: Figure | None, name: str, least: bool) -> float | None:
    """How many times as good ours is: above 1 is better."""
    if other is None:
        return None
    a, b = value_of(mine, name), value_of(other, name)
    if not a or not b:
        return None
    return round(a / b if least else b / a, 4)


# -- measuring ------------------------------------------------------------------------------------


def measured(size: str, select: str | None, file: Path) -> int:
    """Run the suites of one size; their figures go into a file even where some fail."""
    chosen = size if select is None else f"{size} and ({select})"
    words = [sys.executable, "-m", "pytest", "benchmarks", "-n", "0", "--benchmark-only"]
    words += ["-k", chosen]
    words += ["-q", "-p", "no:cacheprovider", f"--benchmark-json={file}"]
    words += ["--benchmark-columns=median,rounds"]
    return subprocess.run(words, cwd=ROOT, check=False, stdout=sys.stderr).returncode


def loaded(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def machine_of(run: dict[str, Any]) -> dict[str, Any]:
    info = run["machine_info"]
    cpu = info.get("cpu", {})
    return {
        "processor": cpu.get("brand_raw") or info.get("processor") or platform.processor(),
        "cores": cpu.get("count"),
        "system": f"{info.get('system')} {info.get('release')}",
        "python": info.get("python_version"),
        "packages": info.get("packages", {}),
        "load": info.get("load", "not told"),
        "memory_gib": memory_gib(),
    }


def memory_gib() -> float | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemTotal"):
                return round(int(line.split()[1]) / (1 << 20), 1)
    except OSError:
        pass
    return None


# -- telling --------------------------------------------------------------------------------------


def shown(value: float | None, unit: str) -> str:
    """A value in its unit, in few characters.

    Examples
    --------
    >>> shown(2.5e6, "notes/s"), shown(9.1e-6, "us"), shown(2.8e7, "MB"), shown(None, "s")
    ('2.50M notes/s', '9.1 us', '28.0 MB', '-')
    """
    if value is None:
        return "-"
    if unit.endswith("/s"):
        size, letter = (1e6, "M") if value >= 1e6 else (1e3, "k") if value >= 1e4 else (1, "")
        return f"{value / size:.{2 if letter == 'M' else 0}f}{letter} {unit}"
    if unit in {"us", "ms", "s"}:
        value *= {"us": 1e6, "ms": 1e3, "s": 1.0}[unit]
        return f"{value:.{3 if value < 1 else 1}f} {unit}"
    if unit == "MB":
        return f"{value / 1e6:.1f} MB"
    return f"{value:.4g} {unit}".strip()


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def beside(told: dict[str, Any] | None, unit: str, times: float | None) -> str:
    """What stands beside a figure, and how many times as good ours is."""
    if told is None or told["value"] is None:
        return "-"
    unit = "ms" if unit == "x" else unit
    more = "" if times is None else f" ({times:.3g}x)"
    return f"{shown(told['value'], unit)} {told['who']}{more}"


def markdown(document: dict[str, Any]) -> str:
    machine = document["machine"]
    packages = ", ".join(f"{k} {v}" for k, v in machine["packages"].items() if v[0].isdigit())
    missing = [k for k, v in machine["packages"].items() if not v[0].isdigit()]
    lines = [
        f"{document['date']}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}; load "
        f"average {machine['load']} as the run began.",
        f"Versions: {packages}.",
        *([f"Not installed, hence not measured: {', '.join(missing)}."] if missing else []),
        "Kernels were compiled or loaded before any figure: "
        + ", ".join(f"{size} {s} s" for size, s in document["compile"].items())
        + ". In brackets: how many times as good ours is as what stands there. Ran: the share of "
        "the median call in which the processor was at work on it (the rest is the disk, or "
        "others on the machine).",
        "",
        "| operation | notes | target | measured | ran | met | floor | best peer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    said = {True: "yes", False: "**no**", None: "-"}
    for row in document["rows"]:
        unit = row["unit"]
        lines.append(
            f"| {row['operation']} | {row['size']} | {shown(row['target'], unit)} "
            f"| {shown(row['measured'], unit)} | {share(row['ran'])} | {said[row['met']]} "
            f"| {beside(row['floor'], unit, row['ratio_floor'])} "
            f"| {beside(row['peer'], unit, row['ratio_peer'])} |"
        )
    met = [row["met"] for row in document["rows"] if row["met"] is not None]
    lines += ["", f"{sum(met)} of {len(met)} met."]
    return "\n".join(lines) + "\n"


def put(table: str) -> None:
    """Put the table between its marks in the README."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    README.write_text(f"{before}{MARKS[0]}\n\n{table}\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="small,medium,large", help=", ".join(SIZES))
    parser.add_argument("--select", metavar="EXPR", help="only tests whose names fit, as pytest -k")
    parser.add_argument("--from", dest="files", nargs="*", default=[], help="earlier runs' JSON")
    parser.add_argument("--keep", type=Path, help="a folder for the runs' JSON")
    parser.add_argument("--json", type=Path, help="write the rows as JSON")
    parser.add_argument("--markdown", type=Path, help="write the table")
    parser.add_argument("--readme", action="store_true", help="put it into benchmarks/README.md")
    args = parser.parse_args()
    sizes = [size.strip() for size in args.sizes.split(",") if size.strip()]
    unknown = [size for size in sizes if size not in SIZES]
    if unknown:
        parser.error(f"found {', '.join(unknown)}, expected of {', '.join(SIZES)}")
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(file) for file in args.files]
        if not files:
            keep = args.keep or Path(folder)
            keep.mkdir(parents=True, exist_ok=True)
            for size in sizes:
                files.append(keep / f"{size}.json")
                if measured(size, args.select, files[-1].absolute()):
                    failed.append(size)
        runs = [loaded(file) for file in files if file.exists()]
    if not runs:
        sys.exit("nothing was measured: see what the suites said above.")
    figures = [one["extra_info"] for run in runs for one in run["benchmarks"]]
    figures = [one for one in figures if "rate" in one]
    held = [size for size in SIZES if any(one["size"] == size for one in figures)]
    document = {
        "schema": SCHEMA,
        "date": date.fromisoformat(runs[0]["datetime"][:10]).isoformat(),
        "machine": machine_of(runs[0]),
        "compile": {
            next((one["extra_info"]["size"] for one in run["benchmarks"]), "none"): run[
                "compile"
            ].get("seconds")
            for run in runs
        },
        "rows": judged(figures, held),
        "figures": figures,
    }
    table = markdown(document)
    print(table)
    if args.json:
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")
    if args.readme:
        put(table)
    if failed:
        sys.exit(f"some suites failed at {', '.join(failed)}: their rows are missing above.")


if __name__ == "__main__":
    main()
