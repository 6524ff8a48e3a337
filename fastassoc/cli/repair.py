"""The command ``repair``: what is left of a damaged store, in a new folder."""

from __future__ import annotations

import click

from fastassoc.cli.common import DAMAGE, App, count, example, plain, store_options
from fastassoc.cli.outputs import check_trees

__all__ = ["repair"]


@click.command(epilog=example("fastassoc repair damaged.fa whole.fa"))
@click.argument("source", type=click.Path())
@click.argument("destination", type=click.Path())
@store_options
@click.pass_context
def repair(ctx: click.Context, source: str, destination: str) -> None:
    """Salvage what is left of a damaged store into a new folder.

    SOURCE stays as it is, and nobody may have it open; DESTINATION must not exist. Says what was
    lost: which operations, how many notes, vectors and links, and from which file. Exit code 0 if
    nothing was, 3 if something was. A backup, if there is one, holds more.
    """
    from fastassoc.repair import repair_store, told

    app = ctx.ensure_object(App)
    check_trees(destination)
    report = repair_store(source, destination)
    if app.json:
        app.emit(told(report))
    else:
        notes = count(report.notes, "note")
        click.echo(f"{plain(report.path)}: {notes}, position {report.position}")
        app.say(f"started from {report.base}")
        for loss in report.lost:
            click.echo(f"lost: {plain(str(loss))}")
        for doubt in report.doubts:
            click.echo(f"not checked: {plain(doubt)}")
        if report.whole:
            click.echo("nothing was lost")
    if not report.whole:
        ctx.exit(DAMAGE)
