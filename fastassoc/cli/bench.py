"""The command ``bench``: measure quality on real sets, and speed on one's own store."""

from __future__ import annotations

import os
from pathlib import Path

import click

from fastassoc.cli.benchcommon import (
    names_of,
    work_progress,
    write_json,
    write_page,
)
from fastassoc.cli.benchlatency import latency
from fastassoc.cli.common import App, check_embedder, count, example, store_options
from fastassoc.cli.outputs import check_files, check_trees

__all__ = ["bench"]

DATA = "FASTASSOC_DATA"
PARTS = ("reads", "lookups", "feedback", "scores", "associations")


@click.group(
    epilog=example(
        "fastassoc bench quality --data sets",
        "fastassoc bench quality --data sets --only musique --html report.html",
        "fastassoc bench quality --questions mine.jsonl --store notes.fa",
        "fastassoc bench latency --store notes.fa --html speed.html",
    )
)
@store_options
def bench() -> None:
    """Measure how well it reads, learns and associates, and how fast."""


@bench.command(
    epilog=example(
        "fastassoc bench quality --data sets --json report.json --html report.html --trec runs",
        "fastassoc bench quality --data beir/scifact --part reads --embedder none",
    )
)
@click.option("--data", type=click.Path(), metavar="PATH", envvar=DATA,
              help=f"A folder of sets, or one set, folder or file (or set {DATA}).")  # fmt: skip
@click.option("--only", "only", multiple=True, metavar="SETS",
              help="Names of sets, parted by commas.")  # fmt: skip
@click.option("--part", "parts", multiple=True, metavar="PARTS",
              help=f"What to measure: {', '.join(PARTS)}.")  # fmt: skip
@click.option("--embedder", metavar="NAME", default="wordllama", show_default=True,
              help="Makes vectors: wordllama, minilm or none.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), metavar="N",
              help="At most N questions of a store.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), metavar="N", default=1, show_default=True,
              help="Of samples and intervals.")  # fmt: skip
@click.option("--subjects/--no-subjects", default=True, show_default=True,
              help="Declare titles as subjects.")  # fmt: skip
@click.option("--ablations", is_flag=True, help="Also the bridge without each of its steps.")
@click.option("--questions", type=click.Path(), metavar="FILE",
              help="Your questions, JSON lines: question, gold (note ids).")  # fmt: skip
@click.option("-s", "--store", metavar="PATH", help="The store that your questions are asked of.")
@click.option("--json", "json_file", type=click.Path(), metavar="FILE",
              help="Write the report as JSON ('-' for stdout).")  # fmt: skip
@click.option("--trec", type=click.Path(), metavar="DIR", help="Write TREC run files.")
@click.option("--html", type=click.Path(), metavar="FILE",
              help="Write one page with tables and plots.")  # fmt: skip
@click.pass_obj
def quality(
    app: App,
    data: str | None,
    only: tuple[str, ...],
    parts: tuple[str, ...],
    embedder: str,
    limit: int | None,
    seed: int,
    subjects: bool,
    ablations: bool,
    questions: str | None,
    store: str | None,
    json_file: str | None,
    trec: str | None,
    html: str | None,
) -> None:
    """Measure reads, learning and association on sets of questions.

    Sets are known by their layout: MuSiQue, HotpotQA and 2Wiki files, LoCoMo dialogues, BEIR
    folders, word norms, notes with tags. What is not there is skipped; a
    malformed set is named at the end, and the exit code is 1. Dense, BM25, their fusion
    and their sum stand beside every rank of the memory, with bootstrap intervals and the
    milliseconds of a read.
    """
    check_embedder(embedder, "--embedder")
    store = store or app.store or os.environ.get("FASTASSOC_STORE")
    source = click.get_current_context().get_parameter_source("data")
    if questions is not None and source is click.core.ParameterSource.ENVIRONMENT:
        data = None  # one's own questions were asked for, not whatever else lies there
    if data is None and questions is None:
        raise click.UsageError(
            f"which data? Name a folder or a file with --data PATH or the variable {DATA}, or give "
            "--questions FILE and --store PATH."
        )
    if questions is not None and not store:
        raise click.UsageError("--questions needs the store that they are asked of: --store PATH.")
    wanted, sets_named = names_of(parts, "--part"), names_of(only, "--only")
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise click.BadParameter(
            f"found {', '.join(unknown)}, expected of {', '.join(PARTS)}.", param_hint="--part"
        )
    check_files(json_file, html)
    check_trees(trec)

    from fastassoc.quality import Options, html_page, not_measured, run, write_trec

    options = Options(
        data=None if data is None else Path(data),
        questions=questions,
        store=store if questions is not None else None,
        embedder=embedder,
        only=sets_named,
        parts=wanted,
        limit=limit,
        seed=seed,
        subjects=subjects,
        ablations=ablations,
    )
    with work_progress(app, "reading the sets") as progress:
        report, sets, ranked = run(options, progress)
    if app.json or json_file == "-":
        app.emit(report)
    else:
        from fastassoc.cli.benchshow import show

        show(app, report)
    write_json(app, json_file, report)
    if html is not None:
        write_page(app, html, html_page(report))
    if trec is not None:
        written = write_trec(Path(trec), sets, ranked)
        app.say(f"wrote {count(len(written), 'file')} into {trec}")
    for one in report["failed"]:
        app.say(not_measured(one))
    if report["failed"]:
        click.get_current_context().exit(1)


bench.add_command(latency)
