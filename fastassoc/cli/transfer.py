"""Moving a whole store: ``export`` and ``import``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

import click

from fastassoc.cli.common import App, Interrupted, count, example, store_options
from fastassoc.cli.outputs import check_files
from fastassoc.errors import InvalidInput

__all__ = ["export", "import_"]


@click.command(
    epilog=example("fastassoc export support.jsonl", "fastassoc export | gzip > support.jsonl.gz")
)
@click.argument("file", type=click.Path(dir_okay=False), default="-")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@store_options
@click.pass_obj
def export(app: App, file: str, force: bool) -> None:
    """Write the whole store as JSON lines.

    They go to FILE, or to stdout.

    Nothing is lost: settings, notes with ids, times and vectors, concepts as spelled, and every
    link with what was taught. 'import' reads it back.
    """
    if file != "-" and os.path.exists(file) and not force:
        raise click.UsageError(f"{file} is there already; --force writes over it.")
    check_files(file)
    with app.open(read_only=True) as mem:
        counts: dict[str, Any] = {}
        with _whole_file(file) as out:
            for line in mem.export_lines():
                counts = line if line["kind"] == "end" else counts
                out.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    between, cues = counts.get("note_links", 0), counts.get("cue_links", 0)
    app.say(
        f"exported {count(counts['notes'], 'note')}, {count(counts['concepts'], 'concept')}, "
        f"{count(counts['links'], 'link')}"
        + (f", {count(between, 'link')} between notes" if between else "")
        + (f", {count(cues, 'link')} from terms to notes" if cues else "")
    )


@contextmanager
def _whole_file(file: str) -> Iterator[IO[str]]:
    """Stdout, or a file that appears under its name when it is complete."""
    if file == "-":
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8")
        yield sys.stdout
        sys.stdout.flush()
        return
    target = Path(file)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8") as out:
            yield out
        os.replace(beside, target)
    except OSError as error:
        error.filename = str(target)
        raise
    finally:
        beside.unlink(missing_ok=True)


@click.command(
    "import",
    epilog=example(
        "fastassoc --store copy.fa import support.jsonl",
        "zcat support.jsonl.gz | fastassoc --store copy.fa import -",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@store_options
@click.pass_obj
def import_(app: App, file: str) -> None:
    """Bring an export into a new or empty store.

    FILE is what 'export' wrote, '-' is stdin.

    The same import again changes nothing. A store that holds anything else is refused: two
    memories cannot be added without counting notes twice; use 'ingest' to add notes.
    """
    import fastassoc as fa

    with click.open_file(file, "r", encoding="utf-8") as stream:
        lines = _parsed(stream)
        first = next(lines, None)
        if first is None or first.get("kind") != "store" or "settings" not in first:
            raise InvalidInput(
                f"{file}: found no export; expected its first line to have the kind 'store'. "
                "Files of notes are for 'fastassoc ingest'."
            )
        path = app.path()
        new = not os.path.exists(path)
        settings = fa.Settings.from_dict(first["settings"]) if new else None
        if new:  # a file that was cut off makes no store
            held = list(lines)
            if (held or [first])[-1].get("kind") != "end":
                raise InvalidInput(f"{file}: the export is cut off; its last line is missing.")
            lines = iter(held)
        try:
            with app.open(create=True, settings=settings) as mem:
                report = mem.import_lines(chain([first], lines))
        except KeyboardInterrupt:
            raise Interrupted(
                "interrupted; what is in stays. Run the same command again and it continues."
            ) from None
    if app.json:
        app.emit(report.to_dict())
    elif report.repeated:
        click.echo("the store holds this export already; nothing changed")
    else:
        click.echo(
            f"imported {count(report.written, 'note')}, {count(report.links_created, 'link')}"
        )


def _parsed(stream: Iterable[str]) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            value = json.loads(line)
            if not isinstance(value, dict):
                raise InvalidInput(f"line {number}: found no JSON object.")
            yield value
    except UnicodeDecodeError as error:
        raise InvalidInput(f"line {number + 1} is not UTF-8 ({error.reason}).") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"line {number}: not JSON ({error.msg}).") from None
