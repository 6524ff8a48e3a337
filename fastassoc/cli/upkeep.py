"""Keeping a store safe and tidy: ``verify``, ``backup``, ``snapshot``, ``vacuum``, ``tick``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

import click

from fastassoc.cli.common import (
    DAMAGE,
    App,
    count,
    example,
    operation_option,
    store_argument,
    store_options,
)
from fastassoc.cli.outputs import check_trees
from fastassoc.cli.read import Moment

__all__ = ["backup", "snapshot", "tick", "vacuum", "verify"]


@click.command(epilog=example("fastassoc verify support.fa --digest"))
@store_argument
@click.option("--digest", is_flag=True, help="Also print the digest of the whole state.")
@store_options
@click.pass_context
def verify(ctx: click.Context, digest: bool) -> None:
    """Check every file of the store for damage.

    Files are checked against their hashes, the journal against its chain; then the store is loaded.
    Damage is named file by file, and the exit code is 3. The digest is the same wherever the same
    operations were applied: two copies with one digest are one memory.
    """
    import fastassoc as fa

    app = ctx.ensure_object(App)
    report = fa.verify(app.path(), digest=digest, timeout=app.timeout)
    if app.json:
        app.emit({**asdict(report), "ok": report.ok})
    elif report.ok:
        click.echo(f"sound: {count(report.files, 'file')}, position {report.position}")
        if digest:
            click.echo(f"digest {report.digest}")
    for file, reason in report.problems:
        app.say(f"damaged: {file}: {reason}")
    if not report.ok:
        app.say("Restore a backup: 'fastassoc backup' makes one, and the copy is a store itself.")
        app.say("Without one, 'fastassoc repair' salvages what is left into a new folder.")
        ctx.exit(DAMAGE)


@click.command(epilog=example("fastassoc backup copy.fa && fastassoc verify copy.fa"))
@click.argument("destination", type=click.Path())
@store_options
@click.pass_obj
def backup(app: App, destination: str) -> None:
    """Copy the store while others read and write it.

    The copy is a whole store of its own. Do not copy a store in use with 'cp': the journal may be
    in the middle of a write.
    """
    check_trees(destination)
    with app.open(read_only=True) as mem:
        mem.backup(destination)
        position = mem.position
    if app.json:
        app.emit({"backup": destination, "position": position})
        return
    click.echo(destination)
    app.say(f"copied up to position {position}")


@click.command(epilog=example("fastassoc snapshot support.fa"))
@store_argument
@store_options
@click.pass_obj
def snapshot(app: App) -> None:
    """Write the whole state to files now.

    The next open is quicker for it. It happens by itself, too, when the journal has grown.
    """
    with app.open() as mem:
        taken = mem.snapshot()
        position = mem.position
    if app.json:
        app.emit({"taken": taken, "position": position})
        return
    click.echo(f"snapshot at position {position}" if taken else "nothing new to save")


@click.command(epilog=example("fastassoc forget note-17 && fastassoc vacuum"))
@store_argument
@store_options
@click.pass_obj
def vacuum(app: App) -> None:
    """Erase what was forgotten from every file."""
    with app.open() as mem:
        report = mem.vacuum()
    if app.json:
        app.emit(report.to_dict())
        return
    click.echo(f"vacuumed at position {report.position}")


@click.command(
    epilog=example(
        "fastassoc tick support.fa", "fastassoc tick --now 2027-01-01 --store support.fa"
    )
)
@store_argument
@click.option(
    "--now", type=Moment(last=False), help="The time to look at (ISO); the clock's if left out."
)
@operation_option
@store_options
@click.pass_obj
def tick(app: App, now: datetime | None, operation_id: str | None) -> None:
    """Move notes that nobody asked for to the cold tier.

    Those, that is, whose retention has been at its floor for days. They keep their links, words
    and concepts and leave the search by vector; a reinforced read brings them back. Days count,
    never calls: run it as often as you like, from cron for example.
    """
    with app.open() as mem:
        report = mem.tick(now, operation_id=operation_id)
        cold = mem.stats()["cold"]
    if app.json:
        app.emit({**report.to_dict(), "cold": cold})
        return
    click.echo(f"{count(report.updated, 'note')} moved to the cold tier")
    if report.repeated:
        app.say("this operation id was done before; nothing changed")
    app.say(f"{count(cold, 'note')} there now")
