"""The root command: loads commands when called, turns errors into sentences and exit codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from fastassoc.cli.common import DAMAGE, App, Interrupted, plain, store_options
from fastassoc.errors import CorruptStore, FastAssocError, StoreLocked, TooManyRejects

__all__ = ["cli"]

FAILED, LOCKED, REJECTS, INTERRUPTED = 1, 4, 5, 130  # 2 is click's own, for wrong usage

# Sections of the help page, in order of a user's day: command name -> "module:attribute".
SECTIONS: dict[str, dict[str, str]] = {
    "See it work": {"demo": "demo:demo"},
    "Put notes in": {"write": "notes:write", "ingest": "ingest:ingest", "forget": "notes:forget"},
    "Ask": {
        "read": "read:read",
        "get": "notes:get",
        "recent": "read:recent",
        "associate": "read:associate",
    },
    "Teach": {"feedback": "teach:feedback", "link": "teach:link", "unlink": "teach:unlink"},
    "Look at links": {"graph": "links:graph", "links": "links:links"},
    "Look at the store": {"info": "info:info", "check": "check:check", "doctor": "doctor:doctor"},
    "Measure it": {"bench": "bench:bench"},
    "Keep it safe": {
        "verify": "upkeep:verify",
        "repair": "repair:repair",
        "backup": "upkeep:backup",
        "snapshot": "upkeep:snapshot",
        "vacuum": "upkeep:vacuum",
    },
    "Let time pass, change the vectors": {"tick": "upkeep:tick", "reembed": "vectors:reembed"},
    "Move it": {"export": "transfer:export", "import": "transfer:import_"},
}
PLACES = {name: place for section in SECTIONS.values() for name, place in section.items()}


class Root(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in order of a user's day."""
        return list(PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        place = PLACES.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        try:
            command = getattr(importlib.import_module(f"fastassoc.cli.{module}"), attribute)
        except ModuleNotFoundError as error:
            if error.name != f"fastassoc.cli.{module}":
                raise
            return None
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands section by section."""
        width = max(map(len, PLACES))
        for title, names in SECTIONS.items():
            rows = []
            for name in names:
                command = self.get_command(ctx, name)
                if command is not None:
                    limit = formatter.width - width - 6
                    rows.append((name.ljust(width), command.get_short_help_str(limit)))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that is nearly one gets a hint."""
        if args and args[0] not in PLACES and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], PLACES, n=1, cutoff=0.6)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command {plain(args[0])!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that closed the pipe is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # before click turns it into a failure
            _leave_pipe()

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run and exit as this program's exit codes say; `standalone_mode` false only runs."""
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        _no_closed_streams()
        with _plain_streams():
            try:
                code = super().main(args, prog_name, standalone_mode=False, **extra)
                sys.stdout.flush()
            except BrokenPipeError:
                _leave_pipe()
            except click.ClickException as error:
                error.show()
                sys.exit(error.exit_code)
            except (click.Abort, KeyboardInterrupt):
                _fail("interrupted; nothing half done is left behind.", INTERRUPTED)
            except Interrupted as error:
                _fail(str(error), INTERRUPTED)
            except FastAssocError as error:
                _fail(str(error), exit_code_of(error))
            except OSError as error:
                _fail(_sentence(error), FAILED)
        sys.exit(code if isinstance(code, int) else 0)


def exit_code_of(error: FastAssocError) -> int:
    """The exit code that tells a script which kind of failure this is."""
    if isinstance(error, CorruptStore):
        return DAMAGE
    if isinstance(error, StoreLocked):
        return LOCKED
    if isinstance(error, TooManyRejects):
        return REJECTS
    return FAILED


def _sentence(error: OSError) -> str:
    if error.filename is None:
        return str(error) or type(error).__name__
    return f"{error.filename}: {error.strerror}"


def _fail(message: str, code: int) -> NoReturn:
    with contextlib.suppress(BrokenPipeError):
        click.echo(f"fastassoc: {plain(message)}", err=True)
    sys.exit(code)


def _leave_pipe() -> NoReturn:
    """The reader closed the pipe: it has what it wanted, so this is no failure."""
    with contextlib.suppress(OSError, ValueError):  # else Python complains again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _no_closed_streams() -> None:
    """Give the null device to each stream that was closed, else the next file gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: its own
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


@contextlib.contextmanager
def _plain_streams() -> Iterator[None]:
    """No character stops a message, and a library's warning is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and (stream.encoding or "").lower() != "utf-8":
            reconfigure(errors="backslashreplace")

    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"warning: {plain(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from fastassoc import __version__

        click.echo(f"fastassoc {__version__}")
        ctx.exit()


@click.group(
    cls=Root,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
A first day:
  export FASTASSOC_STORE=support.fa
  fastassoc write "Backoff of two seconds fixed the flaky call." -c retry -c backoff
  fastassoc ingest notes/*.jsonl
  fastassoc read why does the deploy keep timing out
  fastassoc feedback --asked timeout --used-concept backoff --outcome 1

\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 damage found, 4 locked by another
process, 5 too many rejected rows, 130 interrupted (the same command continues).""",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version.",
)
@store_options
@click.pass_context
def cli(ctx: click.Context) -> None:
    """An associative memory: notes, links that learn, answers that say why.

    Every command works on one store, a folder named by --store or FASTASSOC_STORE. Data goes to
    stdout and everything else to stderr; --json gives one JSON document, or JSON lines.
    """
    ctx.ensure_object(App)
