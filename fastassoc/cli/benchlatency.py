"""The command ``bench latency``: how fast one's own store, or a generated one, is read here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from fastassoc.cli.benchcommon import (
    names_of,
    work_progress,
    write_json,
    write_page,
)
from fastassoc.cli.common import App, count, example, plain, size
from fastassoc.cli.outputs import check_files
from fastassoc.errors import InvalidInput

if TYPE_CHECKING:
    from fastassoc.latency import Change

__all__ = ["latency"]

SHOWN = 12  # changes told on the terminal


@click.command(
    epilog=example(
        "fastassoc bench latency --store notes.fa --html speed.html --json before.json",
        "fastassoc bench latency --store notes.fa --compare before.json --fail-on 10%",
        "fastassoc bench latency --notes 100000 --dim 384 --threads 1,2,4 --batch 1,64,1024",
    )
)
@click.option("-s", "--store", metavar="PATH",
              help="Your store, opened for reading only: nothing in it changes.")  # fmt: skip
@click.option("--notes", type=int, metavar="N", help="Instead, generate a store of N notes.")
@click.option("--dim", type=int, metavar="D",
              help="Width of the generated notes' vectors; none without it.")  # fmt: skip
@click.option("--rank", "ranks", multiple=True, metavar="RANKS",
              help="Which ranks, parted by commas; all without it.")  # fmt: skip
@click.option("--threads", multiple=True, metavar="NUMBERS",
              help="Threads that read at once (1,2).")  # fmt: skip
@click.option("--batch", "batches", multiple=True, metavar="NUMBERS",
              help="Questions in one call (1,64).")  # fmt: skip
@click.option("--reads", type=int, metavar="N", default=400, show_default=True,
              help="Questions of each row, made of the store's notes.")  # fmt: skip
@click.option("--seconds", type=float, metavar="S", default=5.0, show_default=True,
              help="A row stops early after so many.")  # fmt: skip
@click.option("--cold", type=int, metavar="N", default=3, show_default=True,
              help="Processes begun to measure a cold start; 0 leaves it out.")  # fmt: skip
@click.option("--recall-questions", "questions", type=int, metavar="N", default=100,
              show_default=True,
              help="Measure recall by so many, against every vector; 0 leaves it out.")  # fmt: skip
@click.option("--recall-floor", "floors", multiple=True, metavar="SHARES",
              help="Also with indexes made for these recalls (0.9,0.99): a curve.")  # fmt: skip
@click.option("-k", "k", type=int, metavar="N", default=10, show_default=True,
              help="Hits of a read.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), metavar="N", default=1, show_default=True,
              help="Of the questions and the generated notes.")  # fmt: skip
@click.option("--compare", "old", type=click.Path(), metavar="FILE",
              help="An earlier report (--json) to set this one beside.")  # fmt: skip
@click.option("--fail-on", metavar="PERCENT",
              help="Exit with 1 where a figure is worse by more than this: 10%.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(), metavar="FILE",
              help="Write the report as JSON ('-' for stdout).")  # fmt: skip
@click.option("--html", type=click.Path(), metavar="FILE",
              help="Write one page with tables and plots.")  # fmt: skip
@click.pass_obj
def latency(
    app: App,
    store: str | None,
    notes: int | None,
    dim: int | None,
    ranks: tuple[str, ...],
    threads: tuple[str, ...],
    batches: tuple[str, ...],
    reads: int,
    seconds: float,
    cold: int,
    questions: int,
    floors: tuple[str, ...],
    k: int,
    seed: int,
    old: str | None,
    fail_on: str | None,
    json_file: str | None,
    html: str | None,
) -> None:
    """Measure how fast a store is read on this machine.

    Every rank, warm and cold apart: p50, p95, p99 and reads a second, for several numbers of
    threads and of questions in a call, with the stages of a read; recall of the vector index,
    bytes, memory. The questions are made of the store's own notes; no figure holds the time of an
    embedder. Recall against reads a second
    is as ann-benchmarks has it; load, p99 and reads a second over threads as VectorDBBench.
    """
    named = store or (app.store if notes is None else None)
    if named is not None and notes is not None:
        raise click.UsageError("--store and --notes exclude each other: one store is measured.")
    if named is None and notes is None:
        named = os.environ.get("FASTASSOC_STORE") or None
    if named is None and notes is None:
        raise click.UsageError(
            "which store? Name yours with --store PATH or the variable FASTASSOC_STORE, or have "
            "one generated with --notes N."
        )
    if dim is not None and notes is None:
        raise click.UsageError("--dim is for generated notes: give --notes N, too.")
    if fail_on is not None and old is None:
        raise click.UsageError("--fail-on needs the report that it is set beside: --compare FILE.")

    check_files(json_file, html)

    from fastassoc import latency as speed

    options = speed.Options(
        store=named,
        notes=10_000 if notes is None else notes,
        dim=dim or 0,
        ranks=names_of(ranks, "--rank"),
        threads=_numbers(threads, "--threads") or (1, 2),
        batches=_numbers(batches, "--batch") or (1, 64),
        reads=reads,
        seconds=seconds,
        cold=cold,
        questions=questions,
        floors=_shares(floors),
        k=k,
        seed=seed,
        timeout=app.timeout,
    )
    options.check()
    before = None if old is None else speed.load(old)
    try:
        limit = None if fail_on is None else speed.share_of(fail_on)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="--fail-on") from None
    with work_progress(app, "opening the store") as progress:
        report = speed.run(options, progress)
    changes = [] if before is None else speed.compare(before, report)
    if app.json or json_file == "-":
        app.emit(report)
    else:
        _show(app, report)
    write_json(app, json_file, report)
    if html is not None:
        write_page(app, html, speed.html_page(report, changes, str(old)))
    if before is not None:
        _compared(app, before, report, changes, limit)


def _numbers(given: tuple[str, ...], option: str) -> tuple[int, ...]:
    """Whole numbers, parted by commas."""
    names = names_of(given, option)
    if not all(name.isascii() and name.isdigit() for name in names):
        raise click.BadParameter(
            f"found {', '.join(given)!r}, expected whole numbers parted by commas.",
            param_hint=option,
        )
    return tuple(map(int, names))


def _shares(given: tuple[str, ...]) -> tuple[float, ...]:
    try:
        return tuple(map(float, names_of(given, "--recall-floor")))
    except ValueError:
        raise click.BadParameter(
            f"found {', '.join(given)!r}, expected numbers from 0 to 1 parted by commas.",
            param_hint="--recall-floor",
        ) from None


def _compared(
    app: App,
    before: dict[str, Any],
    report: dict[str, Any],
    changes: list[Change],
    limit: float | None,
) -> None:
    """Say what became of the older figures; exit with 1 where one is too much worse."""
    from fastassoc.latency import differences, worse

    for sentence in differences(before, report):
        app.say(f"not alike: {sentence}")
    missing = sorted(set(before["figures"]) - set(report["figures"]))
    if missing:
        app.say(
            f"{count(len(missing), 'figure')} of the older report not measured now: "
            f"{', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}"
        )
    if not changes:
        raise InvalidInput("the two reports have no figure in common: nothing was compared.")
    for one in changes[:SHOWN]:
        if one.worse > 0:
            app.say(_sentence(one))
    if limit is None:
        return
    failed = worse(changes, limit)
    if failed:
        app.say(f"{count(len(failed), 'figure')} worse by more than {limit:.1%}:")
        for one in failed:
            app.say(f"  {_sentence(one)}")
        click.get_current_context().exit(1)
    app.say(f"none of {count(len(changes), 'figure')} worse by more than {limit:.1%}.")


def _sentence(one: Change) -> str:
    return f"{one.name}: {one.old:.4g} before, {one.new:.4g} {one.unit} now, {one.worse:+.1%}"


def _show(app: App, report: dict[str, Any]) -> None:
    """Print the tables."""
    from rich.text import Text

    from fastassoc.cli.benchshow import dim_line, table_of

    console, store = app.out(), report["store"]
    about = f"{count(store['notes'], 'note')}, {count(store['links'], 'link')}"
    if store["dim"] is not None:
        about += f", vectors of {store['dim']}"
    console.print()
    console.print(Text("own store" if store["own"] else "generated store", style="bold"), about)
    rows = [
        [
            f"{cell['rank']}, {cell['asked']}",
            f"{cell['batch']:,}",
            str(cell["threads"]),
            *(f"{cell[name]:.3f}" for name in ("p50_ms", "p95_ms", "p99_ms")),
            f"{cell['qps']:,.0f}",
        ]
        for cell in report["warm"]
    ]
    head = ["", "in a call", "threads", "p50", "p95", "p99", "reads/s"]
    table_of(console, "warm: milliseconds of a call", head, rows)
    told = {f"{cell['rank']}, {cell['asked']}": cell["stages_ms"] for cell in report["warm"]}
    names = list(dict.fromkeys(name for stages in told.values() for name in stages))
    rows = [
        [row, *(f"{stages.get(name, 0.0):.3f}" for name in names)] for row, stages in told.items()
    ]
    table_of(console, "stages of a read: milliseconds, medians", ["", *names], rows)
    if report["recall"]:
        k = report["recall"][0]["k"]
        rows = [
            [
                f"floor {cell['recall_floor']:g}",
                "exact" if cell["index"] is None else cell["index"]["kind"],
                f"{cell['recall']:.4f}",
                f"{cell['qps']:,.0f}",
                f"{cell['p99_ms']:.3f}",
            ]
            for cell in report["recall"]
        ]
        title = "reads by vector, one at a time on one thread"
        table_of(console, title, ["", "index", f"recall@{k}", "reads/s", "p99 ms"], rows)
    cold = report["cold"]
    if cold is not None:
        rows = [
            [row, f"{first * 1e3:.2f}", f"{cold['second_read_s'][row] * 1e3:.2f}"]
            for row, first in cold["first_read_s"].items()
        ]
        title = (
            f"cold: import {cold['import_s']:.3f} s, open {cold['open_s']:.3f} s, then in this "
            "order, milliseconds"
        )
        table_of(console, title, ["", "first read", "the same again"], rows)
    console.print()
    parts = [f"on disk {size(store['bytes'])}"]
    if cold is not None and cold["peak_bytes"] is not None:
        parts.append(f"a process that only reads holds at most {size(cold['peak_bytes'])}")
    if report["load"] is not None:
        parts.append(f"{count(report['load']['notes_per_s'], 'note')} a second written durably")
    dim_line(console, plain("; ".join(parts)))
    dim_line(
        console,
        f"kernels compiled or loaded in {report['compile_s']:.1f} s, in no figure; "
        f"{count(report['seconds'], 'second')} in all",
    )
