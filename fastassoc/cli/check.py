"""The command ``check``: the three checks, printed with their evidence."""

from __future__ import annotations

from typing import Any

import click

from fastassoc.cli.common import App, count, example, plain, store_argument, store_options

__all__ = ["check"]


@click.command(epilog=example("fastassoc check support.fa"))
@store_argument
@store_options
@click.pass_context
def check(ctx: click.Context) -> None:
    """Check that the store associates, learns and remembers.

    Works on a backup, so the store stays as it is. Exit code 1 if a check fails; a store without a
    link at the threshold is told so.
    """
    from fastassoc.check import check_store

    app = ctx.ensure_object(App)
    report = check_store(app.path(), timeout=app.timeout)
    if app.json:
        app.emit(report.to_dict())
    elif report.reason is not None:
        click.echo(f"nothing to check: {plain(report.reason)}")
    else:
        _show(app, report.checks)
    if not report.passed:
        ctx.exit(1)


def _show(app: App, checks: list[Any]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = app.out()
    for number, one in enumerate(checks, 1):
        mark = Text("✓ pass" if one.passed else "✗ FAIL")
        mark.stylize("bold green" if one.passed else "bold red")
        console.print(mark.append(Text(f"  {number}. {one.title}", style="bold")))
        for line in one.evidence:
            console.print(Padding(Text(plain(line)), (0, 0, 0, 8)))
    passed = sum(one.passed for one in checks)
    console.print(Text(f"{passed} of {count(len(checks), 'check')} passed."))
