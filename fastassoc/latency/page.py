"""The report as one page of HTML that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from fastassoc.latency.compare import Change
from fastassoc.plural import count
from fastassoc.quality.sheet import document, soft, table
from fastassoc.quality.svg import bars, curves, stacks

__all__ = ["html_page"]

MIB = float(1 << 20)


def html_page(report: dict[str, Any], changes: Sequence[Change] = (), against: str = "") -> str:
    """Make the page of a report.

    Parameters
    ----------
    report : dict
        As `run` gives it.
    changes : list of Change
        What became of an older report's figures, worst first.
    against : str
        What that report is called.

    Returns
    -------
    str
        A whole document, with its plots in it and no reference to anything outside.
    """
    return document("fastassoc: latency", "".join(_body(report, changes, against)))


def _body(report: dict[str, Any], changes: Sequence[Change], against: str) -> Iterator[str]:
    store, machine = report["store"], report["machine"]
    yield "<h1>How fast it reads</h1>"
    dim = store["dim"]
    vectors = "no vectors" if dim is None else f"vectors of {count(dim, 'number')}"
    own = "its own store" if store["own"] else "a generated store"
    yield soft(
        f"fastassoc {report['fastassoc']}, Python {report['python']}, {machine['system']}, "
        f"{count(machine['cores'], 'core')}. Asked: {own} of {count(store['notes'], 'note')}, "
        f"{count(store['links'], 'link')}, {vectors}; "
        f"{count(report['asked']['reads'], 'question')} a row, made of its own notes, "
        f"k = {report['asked']['k']}, seed {report['asked']['seed']}. Compiling the kernels (or "
        f"loading them) took {report['compile_s']:.1f} s and is in no other figure."
    )
    if changes:
        yield from _changes(changes, against)
    yield from _warm(report["warm"])
    yield from _recall(report["recall"], store["index"])
    if report["cold"] is not None:
        yield from _cold(report["cold"])
    yield from _whole(report)


def _warm(cells: list[dict[str, Any]]) -> Iterator[str]:
    yield "<h2>Warm reads</h2>"
    if not cells:
        yield soft("The store has nothing that the ranks could be asked by.")
        return
    single = [cell for cell in cells if cell["batch"] == 1 and cell["threads"] == 1]
    alone = single or cells
    yield bars(
        [(name_of(cell), cell["p50_ms"], cell["p50_ms"], cell["p99_ms"]) for cell in alone],
        "milliseconds of a call: median, and up to the 99th percentile",
        None,
        " ms",
    )
    yield soft("Stages of a read, medians, as every recall tells them:")
    yield stacks(
        list({_row(cell): cell["stages_ms"] for cell in cells}.items()),
        "milliseconds of each stage",
        " ms",
    )
    over: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for cell in cells:
        spots = over.setdefault(cell["batch"], {}).setdefault(_row(cell), [])
        spots.append((float(cell["threads"]), cell["qps"]))
    if len({cell["threads"] for cell in cells}) > 1:
        for batch, series in over.items():
            across = f"threads, {batch:,} in a call"
            yield curves(series, "reads a second over threads", across, "reads a second")
    head = ["rank, asked by", "in a call", "threads", "p50 ms", "p95 ms", "p99 ms", "reads/s"]
    rows = [
        [
            _row(cell),
            f"{cell['batch']:,}",
            str(cell["threads"]),
            *(f"{cell[name]:.3f}" for name in ("p50_ms", "p95_ms", "p99_ms")),
            f"{cell['qps']:,.0f}",
        ]
        for cell in cells
    ]
    yield table(head, rows, "percentiles of a call, which holds as many reads as the row says")


def _recall(cells: list[dict[str, Any]], index: dict[str, Any] | None) -> Iterator[str]:
    if not cells:
        return
    yield "<h2>Recall of reads by vector</h2>"
    kind = "exact" if index is None else index["kind"]
    yield soft(
        f"{count(cells[0]['questions'], 'point')} near the store's own vectors, against a "
        f"comparison with every vector; one at a time on one thread. The store's index: {kind}."
    )
    yield curves(
        {"reads by vector": [(cell["recall"], cell["qps"]) for cell in cells]},
        "recall against reads a second",
        f"recall@{cells[0]['k']}",
        "reads a second",
    )
    rows = [
        [
            f"{cell['recall_floor']:g}",
            "exact" if cell["index"] is None else cell["index"]["kind"],
            f"{cell['recall']:.4f}",
            f"{cell['qps']:,.0f}",
            f"{cell['p50_ms']:.3f}",
            f"{cell['p99_ms']:.3f}",
        ]
        for cell in cells
    ]
    head = ["recall floor", "index", f"recall@{cells[0]['k']}", "reads/s", "p50 ms", "p99 ms"]
    yield table(head, rows)


def _cold(cold: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Cold: a process that begins</h2>"
    yield soft(
        f"Medians of {cold['processes']} processes; import {cold['import_s']:.3f} s, open "
        f"{cold['open_s']:.3f} s, then these reads in this order, each once (what one made, the "
        "next ones find). The system's file cache was left as it was."
    )
    rows = cold["first_read_s"]
    yield bars([(name, s * 1e3, s * 1e3, s * 1e3) for name, s in rows.items()],
               "milliseconds of a first read", None, " ms")  # fmt: skip
    again = cold["second_read_s"]
    yield table(
        ["rank, asked by", "first ms", "the same again ms"],
        [[name, f"{s * 1e3:.2f}", f"{again[name] * 1e3:.2f}"] for name, s in rows.items()],
    )


def _whole(report: dict[str, Any]) -> Iterator[str]:
    yield "<h2>The store and the memory</h2>"
    rows = [["bytes on disk", _mib(report["store"]["bytes"])]]
    rows.append(["most memory of this process", _mib(report["peak_bytes"])])
    if report["cold"] is not None:
        rows.append(["most memory of one that only reads", _mib(report["cold"]["peak_bytes"])])
    rows.append(["indexes made or loaded", f"{report['warming_s']:.2f} s"])
    if report["load"] is not None:
        load = report["load"]
        rows.append(["notes written a second, durably", f"{load['notes_per_s']:,.0f}"])
        rows.append(["snapshot", f"{load['snapshot_s']:.2f} s"])
        rows.append(["indexes made at first", f"{load['index_s']:.2f} s"])
    rows += [[name, escape(str(value))] for name, value in report["packages"].items()]
    yield table(["", ""], rows)


def _changes(changes: Sequence[Change], against: str) -> Iterator[str]:
    yield f"<h2>Beside {escape(against)}</h2>"
    rows = [
        [one.name, f"{one.old:.4g} {one.unit}", f"{one.new:.4g} {one.unit}", f"{one.worse:+.1%}"]
        for one in changes
    ]
    yield table(["figure", "before", "now", "worse by"], rows, "worst first; below 0 is better")


def _row(cell: dict[str, Any]) -> str:
    return f"{cell['rank']}, {cell['asked']}"


def name_of(cell: dict[str, Any]) -> str:
    """The row of a cell, with its batch and threads where they are not one."""
    more = "" if cell["batch"] == 1 else f", {cell['batch']} a call"
    return _row(cell) + more + ("" if cell["threads"] == 1 else f", {cell['threads']} threads")


def _mib(many: int | None) -> str:
    return "not told" if many is None else f"{many / MIB:,.1f} MiB"
