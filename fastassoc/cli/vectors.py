"""Vectors on the command line: ``reembed``, vectors given by hand, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import click

from fastassoc.cli.common import (
    EMBEDDER,
    App,
    Interrupted,
    check_embedder,
    count,
    every_so_often,
    example,
    number,
    plain,
    read_stdin,
    size,
    store_options,
)

__all__ = ["index_line", "note_document", "reembed", "vector_of", "without_embedder"]

EXPECTED = "expected a JSON list of numbers, a .npy or .json file, or - for stdin"


def vector_of(value: str, text: str) -> Any:
    """The vector that ``--vector`` means: a JSON list, a file, or standard input.

    Parameters
    ----------
    value : str
        As given.
    text : str
        The text beside it, which may be ``-``, too.

    Raises
    ------
    click.BadParameter
        It is no such thing; the numbers themselves are checked by the memory.
    """
    if value == "-" and text == "-":
        raise click.UsageError("the text and --vector cannot both come from standard input.")
    name = "standard input" if value == "-" else plain(value[:60])
    try:
        if value.endswith(".npy"):
            import numpy as np

            found = np.load(value, allow_pickle=False)
            return found[0] if found.ndim == 2 and len(found) == 1 else found
        if value == "-":
            held = read_stdin()
        elif value.lstrip().startswith("["):
            held = value
        else:
            with open(value, encoding="utf-8") as file:
                held = file.read()
        vector = json.loads(held)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise click.BadParameter(f"{name}: {reason}; {EXPECTED}.", param_hint="--vector") from None
    if not isinstance(vector, list):
        raise click.BadParameter(f"{name}: found no list; {EXPECTED}.", param_hint="--vector")
    return vector


def note_document(note: Any, *, vector: bool = False) -> dict[str, Any]:
    """A note as one JSON document: with the width of its vector, and the numbers if wanted."""
    found = {field.name: getattr(note, field.name) for field in fields(note)}
    held = found.pop("vector")
    found["vector_width"] = None if held is None else len(held)
    if vector:
        found["vector"] = None if held is None else held.tolist()
    return found


def without_embedder(made: Mapping[str, Any]) -> str:
    """What to say where the store's embedder was not named, so that a text got no vector."""
    name = made["name"]
    return (
        f"no vector was made of the text: the store's come from the embedder {name!r}; say "
        f"--embedder {name} or set {EMBEDDER}."
    )


def index_line(found: Mapping[str, Any]) -> str:
    """How reads by vector search, from `Memory.info`."""
    index = found["index"]
    if not found["vectors"]:
        return "none, as there are no vectors"
    if index is None:
        return "not made yet: the first read by vector makes it, or 'ingest --index'"
    if index["kind"] == "exact":
        return "exact scan" + (", as no index kept the recall" if index["tried"] else "")
    parts = [f"{number(value)} {name}" for name, value in index["parameters"].items()
             if name != "margin"]  # fmt: skip
    told = ", ".join([f"measured recall@10 {index['recall']:.3f}", *parts, size(index["bytes"])])
    return f"{index['kind']}: {told}, made in {index['seconds']:.1f} s"


@click.command(
    epilog=example("fastassoc reembed wordllama", "fastassoc --store support.fa reembed minilm")
)
@click.argument("name", metavar="NAME")
@store_options
@click.pass_obj
def reembed(app: App, name: str) -> None:
    """Give every note a vector by another embedder.

    NAME is wordllama or minilm. With the store's own embedder, notes without a vector get one. Each
    batch is saved; if it is interrupted, the same command goes on where it stopped, and until the
    end reads see the old vectors. It ends with a snapshot.
    """
    check_embedder(name, "NAME", ())
    with app.open() as mem:
        before = mem.info()["reembed"]
        if before is not None and before["name"] == name and before["done"]:
            app.say(f"going on after {before['done']:,} of {count(before['total'], 'note')}")
        done = 0

        def watched(now: int, total: int) -> None:
            nonlocal done
            done = now
            progress(now, total)

        try:
            with _progress(app) as progress:
                report = mem.reembed(name, progress=watched)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted after {count(done, 'note')}; what was saved stays. Run the same "
                "command again and it continues from there."
            ) from None
        after = mem.info()
    if app.json:
        told = {key: after[key] for key in ("embedder", "vectors", "dim", "index")}
        app.emit({**report.to_dict(), **told})
        return
    click.echo(f"{count(report.updated, 'note')} got a vector from {name}")
    app.say(f"{after['vectors']:,} of {count(after['notes'], 'note')} have one")


@contextmanager
def _progress(app: App) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, else a line now and then; always on stderr."""
    console = app.err()
    if not console.is_terminal:
        yield every_so_often(lambda done, total: app.say(f"{done:,} of {count(total, 'note')}"))
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} notes"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=0)
        yield lambda done, total: bar.update(task, completed=done, total=total)
