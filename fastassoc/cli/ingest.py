"""The command ``ingest``: files of notes, with progress, resumable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from glob import glob
from os.path import exists, isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastassoc.cli.common import (
    App,
    Interrupted,
    count,
    embedder_option,
    every_so_often,
    example,
    plain,
    preset_option,
    store_options,
)
from fastassoc.cli.outputs import check_trees
from fastassoc.cli.vectors import index_line, without_embedder
from fastassoc.errors import InvalidInput, TooManyRejects

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress

__all__ = ["ingest"]

SHOWN = 5  # rejects told on the terminal
REHEARSED = 64  # rows, where each must be embedded


@click.command(
    epilog=example(
        "fastassoc ingest corpus/*.jsonl",
        "fastassoc ingest articles.csv --columns text=body,id=doc_id --metadata-columns rest",
        "fastassoc ingest wiki.jsonl --columns subjects=title",
        "fastassoc ingest notes.parquet --dry-run",
        "fastassoc ingest talks.jsonl --embedder wordllama --preset cognitive --index",
        "zcat notes.jsonl.gz | fastassoc ingest - --format jsonl",
    )
)
@click.argument("sources", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format",
    type=click.Choice(["jsonl", "csv", "parquet", "arrow"]),
    help="Else by the name; .gz, .bz2, .zst and .lz4 are unpacked.",
)
@click.option(
    "--columns",
    multiple=True,
    metavar="FIELD=COLUMN,...",
    help="Which column gives which field: text=body,id=doc_id.",
)
@click.option(
    "--metadata-columns",
    metavar="COLUMN,...",
    help="Columns that become metadata; 'rest' is every other one.",
)
@click.option(
    "--list-separator",
    metavar="TEXT",
    help="Between names in a text (;). A text that --columns takes for concepts or subjects is "
    "one name unless this is given.",
)
@click.option(
    "--delimiter",
    metavar="CHARACTER",
    help="Between the cells of a CSV file (,); \\t is a tab.",
)
@click.option(
    "--on-duplicate",
    type=click.Choice(["skip", "replace", "error"]),
    help="A row whose id is there already (skip).",
)
@click.option(
    "--max-rejects",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Stop above this share of bad rows (0.01).",
)
@click.option("--rejects-file", type=click.Path(dir_okay=False), help="Where bad rows go.")
@click.option("--batch-rows", type=click.IntRange(min=1), help="Rows saved at a time.")
@click.option("--dry-run", is_flag=True, help="Check columns and rows, change nothing.")
@click.option(
    "--index",
    is_flag=True,
    help="Then make the index over the vectors, and say which, so that no read waits for it.",
)
@embedder_option
@preset_option
@store_options
@click.pass_obj
def ingest(
    app: App,
    /,
    *,
    sources: tuple[str, ...],
    columns: tuple[str, ...],
    metadata_columns: str | None,
    dry_run: bool,
    index: bool,
    **options: Any,
) -> None:
    """Bring in files of notes.

    JSON lines, CSV, Parquet and Arrow files, or '-' for standard input. A row has a text and, if
    you like, id, concepts, subjects, vector, domain, created_at, metadata and more. What is there
    already is skipped, so an ingest can be repeated; one that was interrupted goes on where it
    stopped. A created_at is an ISO time, or whole microseconds (not seconds) since 1970. Vectors
    are lists of numbers in a column 'vector' or 'embedding'; CSV cannot hold them. --embedder
    makes those that are missing.
    """
    given = {key: value for key, value in options.items() if value is not None}
    if given.get("delimiter") == "\\t":  # what a shell makes of '\t'
        given["delimiter"] = "\t"
    if columns:
        given["columns"] = _mapping(columns)
    if metadata_columns is not None:
        names = metadata_columns.split(",")
        given["metadata_columns"] = "rest" if names == ["rest"] else names
    if "rejects_file" in given:
        check_trees(Path(given["rejects_file"]).parent)
    source: Any = sources[0] if len(sources) == 1 else list(sources)
    if dry_run:
        _dry_run(app, source, given)
        return
    missing = [name for name in sources if name != "-" and not glob(name) and not exists(name)]
    if missing:  # before a store is made for nothing
        raise InvalidInput(f"there is no file {', '.join(missing)}.")
    if not exists(app.path()):
        _rehearse(app, sources, source, given)
    with app.open(create=True, embeds=True) as mem:
        try:
            with _progress(app) as progress:
                report = mem.ingest(source, progress=progress, **given)
        except KeyboardInterrupt as stopped:
            rows = getattr(getattr(stopped, "report", None), "rows", None)
            after = "" if rows is None else f" after {count(rows, 'row')}"
            raise Interrupted(
                f"interrupted{after}; what was saved stays. Run the same command again and it "
                "continues from there."
            ) from None
        except TooManyRejects as error:
            _tell_rejects(app, error.report)
            raise
        if index:
            app.say("making the index ...")
            mem.snapshot()  # an index is made of a snapshot's vectors
            mem.warm()
        found = mem.info()
    if app.json:
        app.emit({**report.to_dict(), **({"index": found["index"]} if index else {})})
    else:
        _summary(report)
        if index:
            click.echo(f"index: {index_line(found)}")
    bare = report.written and found["vectors"] < found["notes"] and app.names_no_embedder
    if bare and found["embedder"] is not None:
        app.say(without_embedder(found["embedder"]))
    _tell_rejects(app, report)


class _Enough(Exception):
    """A first row was taken."""


def _rehearse(app: App, names: tuple[str, ...], source: Any, given: dict[str, Any]) -> None:
    """Fail before a store is made where no row of these files can be taken."""
    import fastassoc as fa

    embedder = app.embedder_name()
    new = partial(fa.Memory, settings=app.preset_settings(), embedder=embedder)
    files = [file for name in names for file in (glob(name) or [name])]
    if not all(map(isfile, files)):
        return  # a stream can be read only once

    def first(state: Any) -> None:
        if state.written:
            raise _Enough

    rows = 1_000 if embedder is None else REHEARSED
    options = {**given, "batch_rows": rows, "max_rejects": 1.0, "progress": first}
    options.pop("rejects_file", None)
    try:
        report = new().ingest(source, **options)
    except _Enough:
        return
    if report.rejected:
        try:
            new().ingest(source, **given)
        except TooManyRejects as error:
            _tell_rejects(App(), error.report)
            raise


def _mapping(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in ",".join(pairs).split(","):
        field, equals, column = pair.partition("=")
        if not equals or not field or not column:
            raise click.BadParameter(
                f"found {pair!r}, expected FIELD=COLUMN such as text=body.", param_hint="--columns"
            )
        found[field.strip()] = column.strip()
    return found


# -- what it says -------------------------------------------------------------------------------


def _summary(report: Any) -> None:
    click.echo(f"{count(report.written, 'note')} written, {report.skipped:,} skipped as known")
    if report.replaced:
        click.echo(f"{report.replaced:,} replaced")
    click.echo(f"{count(report.links_created, 'link')} made, {report.links_changed:,} changed")
    if report.resumed_rows:
        click.echo(f"continued after {count(report.resumed_rows, 'row')} of an earlier run")
    rows = report.rows - report.resumed_rows
    rate = rows / report.seconds if report.seconds > 0 else 0.0
    click.echo(f"{count(rows, 'row')} in {report.seconds:.1f} s ({count(rate, 'row')} a second)")


def _tell_rejects(app: App, report: Any) -> None:
    rejected = getattr(report, "rejected", 0)
    if not rejected:
        return
    app.say(f"{count(rejected, 'row')} rejected:")
    for row, reason in report.reasons[:SHOWN]:
        app.say(f"  row {row}: {reason}")
    if rejected > SHOWN:
        app.say(f"  and {rejected - SHOWN:,} more")
    if report.rejects_file:
        app.say(f"all of them, with reasons: {report.rejects_file}")


def _dry_run(app: App, source: Any, given: dict[str, Any]) -> None:
    import fastassoc as fa

    allowed = given.pop("max_rejects", 0.01)
    for name in ("on_duplicate", "rejects_file", "batch_rows"):
        given.pop(name, None)
    path = app.store or os.environ.get("FASTASSOC_STORE")
    if path and exists(path):  # a dry run makes no store, and needs none
        with app.open(read_only=True) as mem:
            given["settings"] = mem.settings
            given["width"] = mem.stats()["dim"]
    else:
        given["settings"] = app.preset_settings()
    embedder = app.embedder_name()
    if embedder is not None and given.get("width") is None:
        from fastassoc.embed import resolve

        made = resolve(embedder)
        given["width"] = None if made is None else made.dim
    plan = fa.plan(source, **given)
    if app.json:
        app.emit(asdict(plan))
    else:
        _tell_plan(app, plan)
    if plan.rejected > allowed * plan.rows:
        raise TooManyRejects(
            f"would refuse {plan.rejected:,} of {count(plan.rows, 'row')}, more than --max-rejects "
            f"{allowed:g} allows."
        )


def _tell_plan(app: App, plan: Any) -> None:
    for one in plan.sources:
        click.echo(f"{plain(one.name)}: {one.format}, {count(one.rows, 'row')}")
        for field, column in one.fields.items():
            click.echo(f"  {field:<12} from {plain(column)}")
        if one.metadata:
            click.echo(f"  {'metadata':<12} from {plain(', '.join(one.metadata))}")
        if one.ignored:
            app.say(f"  ignored: {', '.join(one.ignored)}")
    click.echo(f"{count(plan.rows - plan.rejected, 'good row')}, {plan.rejected:,} bad")
    if plan.without_id:
        bare = count(plan.without_id, "row")
        app.say(f"{bare} without an id: each gets one made from its content.")
    for name, row, reason in plan.reasons[:SHOWN]:
        app.say(f"  {name}, row {row}: {reason}")
    app.say("nothing was changed.")


# -- progress -----------------------------------------------------------------------------------


@contextmanager
def _progress(app: App) -> Iterator[Callable[[Any], None]]:
    """A bar on a terminal, else a line now and then; always on stderr."""
    console = app.err()
    if not console.is_terminal:
        yield _lines(app)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        BarColumn(bar_width=20),
        TextColumn("{task.fields[rows]}  {task.fields[rate]}/s  {task.fields[left]}"),
        TextColumn("{task.fields[links]}  {task.fields[rejected]} rejected"),
        console=console,
        transient=True,
    ) as bar:
        yield _bar(bar)


def _bar(bar: Progress) -> Callable[[Any], None]:
    begun: Any = {"rows": "0", "rate": "0", "left": "", "links": "0", "rejected": "0"}
    task = bar.add_task("", total=None, **begun)

    def update(state: Any) -> None:
        whole = None if state.time_left is None else state.seconds + state.time_left
        bar.update(
            task,
            total=whole,
            completed=0.0 if whole is None else state.seconds,
            rows=f"{state.rows:,}" + (f" of {state.total:,}" if state.total else ""),
            rate=f"{state.rate:,.0f}",
            left="" if state.time_left is None else f"{_clock(state.time_left)} left",
            links=count(state.links_created, "link"),
            rejected=f"{state.rejected:,}",
        )

    return update


def _lines(app: App) -> Callable[[Any], None]:
    def tell(state: Any) -> None:
        left = "" if state.time_left is None else f", {_clock(state.time_left)} left"
        app.say(
            f"{count(state.rows, 'row')}, {state.rate:,.0f} a second{left}, "
            f"{count(state.links_created, 'link')}, {state.rejected:,} rejected"
        )

    return every_so_often(tell)


def _clock(seconds: float) -> str:
    """Minutes and seconds, ``0:07``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
