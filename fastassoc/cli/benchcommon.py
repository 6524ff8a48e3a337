"""What the commands of ``bench`` share: progress, lists of names, files that are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastassoc.cli.common import App, every_so_often, plain

if TYPE_CHECKING:
    from fastassoc.quality.places import Progress

__all__ = ["names_of", "work_progress", "write_json", "write_page"]


def names_of(given: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Names that were given one by one or parted by commas; an option of none is refused."""
    names: dict[str, None] = {}
    for one in given:
        found = [name for name in map(str.strip, one.split(",")) if name]
        if not found:
            raise click.BadParameter(f"found no name in {one!r}.", param_hint=option)
        names.update(dict.fromkeys(found))
    return tuple(names)


def write_json(app: App, file: str | None, report: dict[str, Any]) -> None:
    """Write a report where a file was named."""
    if file not in {None, "-"}:
        text = json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False)
        Path(str(file)).write_text(text + "\n", encoding="utf-8")
        app.say(f"wrote {file}")


def write_page(app: App, file: str, page: str) -> None:
    """Write a page, and say so."""
    Path(file).write_text(page, encoding="utf-8")
    app.say(f"wrote {file}")


@contextmanager
def work_progress(app: App, first: str) -> Iterator[Progress]:
    """A bar on stderr where that is a terminal, else a line now and then."""
    console = app.err()
    if not console.is_terminal:
        yield every_so_often(lambda what, done, of: app.say(f"{what}: {done:,} of {of:,}"))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<44}"), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(first, total=None)

        def update(what: str, done: int, of: int) -> Any:
            bar.update(task, description=plain(what)[:44], completed=done, total=of)

        yield update
