"""What the commands share: which store, where output goes, how values are shown and parsed."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fastassoc.errors import EmbedderMismatch, InvalidInput, SettingsMismatch
from fastassoc.plural import count

if TYPE_CHECKING:
    from rich.console import Console

    import fastassoc as fa

__all__ = [
    "DAMAGE",
    "App",
    "Interrupted",
    "arrow",
    "check_embedder",
    "count",
    "day",
    "embedder_option",
    "every_so_often",
    "example",
    "number",
    "operation_option",
    "parse_pairs",
    "parse_where",
    "plain",
    "preset_option",
    "read_stdin",
    "size",
    "store_argument",
    "store_options",
]

DAMAGE = 3  # the exit code for damage found
EMBEDDER = "FASTASSOC_EMBEDDER"
LINE_EVERY = 5.0  # seconds between lines of progress where there is no terminal
PRESETS = ("counts", "cognitive")

F = TypeVar("F", bound=Callable[..., Any])


class Interrupted(Exception):
    """Ctrl-C during work that the same command continues; the message says so."""


@dataclass
class App:
    """The options that every command takes, and the two ways out.

    Attributes
    ----------
    store : str or None
        The folder named by ``--store`` or FASTASSOC_STORE.
    json : bool
        Whether stdout gets JSON.
    timeout : float
        Seconds to wait for another process's write.
    embedder : str or None
        The name said with ``--embedder``.
    preset : str or None
        The settings that a new store is made with, by ``--preset``.
    """

    store: str | None = None
    json: bool = False
    timeout: float = 10.0
    embedder: str | None = None
    preset: str | None = None

    def path(self) -> str:
        """The store's folder, or a usage error that says how to name it."""
        path = self.store or os.environ.get("FASTASSOC_STORE")
        if not path:
            raise click.UsageError(
                "which store? Name its folder with --store PATH or the variable FASTASSOC_STORE."
            )
        return path

    def command(self, *words: object) -> str:
        """A command to copy: with this store where ``--store`` named it, quoted for a shell."""
        store = ("--store", self.store) if self.store else ()
        return shlex.join(["fastassoc", *map(str, words), *store])

    def open(
        self, *, create: bool = False, read_only: bool = False, embeds: bool = False, **more: Any
    ) -> fa.Memory:
        """Open the store; only commands that put notes in make a new one.

        Parameters
        ----------
        create, read_only : bool
        embeds : bool
            Whether the command makes vectors of texts, with the embedder that was named.
        **more
            Options of `fastassoc.open`.
        """
        import fastassoc as fa

        path = self.path()
        embedder = self.embedder_name() if embeds else None
        if self.preset is not None:
            more["settings"] = self.preset_settings()
        if create and not os.path.exists(path):
            self.say(f"making a new store in {path}")
        try:
            return fa.open(
                path,
                create=create,
                read_only=read_only,
                timeout=self.timeout,
                embedder=embedder,
                **more,
            )
        except SettingsMismatch as error:
            if self.preset is None:
                raise
            raise SettingsMismatch(
                f"{path} was made with other settings than those of --preset {self.preset} "
                f"({', '.join(error.fields)}), and these are fixed: leave --preset out, or name a "
                "new store.",
                error.fields,
            ) from None
        except EmbedderMismatch as error:
            found, _, _ = str(error).partition(": open the store")  # as Python would
            raise EmbedderMismatch(
                f"{found}: name the first, read without one (--embedder none), or move the store: "
                f"{self.command('reembed', embedder)}"
            ) from None
        except InvalidInput as error:
            if embedder is None:
                raise
            said = "--embedder" if self.embedder else EMBEDDER
            raise InvalidInput(
                f"the embedder {embedder!r} ({said}) does not fit the store: {error} "
                "--embedder none leaves it out."
            ) from None

    def embedder_name(self) -> str | None:
        """What ``--embedder`` or FASTASSOC_EMBEDDER names; None for none."""
        name = self.embedder or os.environ.get(EMBEDDER) or None
        if self.embedder is None and name is not None:
            check_embedder(name, EMBEDDER)
        return None if name == "none" else name

    @property
    def names_no_embedder(self) -> bool:
        """Whether nothing was said of an embedder, not even ``none``."""
        return self.embedder is None and self.embedder_name() is None

    def preset_settings(self) -> fa.Settings | None:
        """The settings that ``--preset`` means."""
        import fastassoc as fa

        return None if self.preset is None else getattr(fa.Settings, self.preset)()

    def out(self) -> Console:
        """Data: colours only on a terminal, none with NO_COLOR."""
        return _console(sys.stdout)

    def err(self) -> Console:
        """Progress, warnings and hints."""
        return _console(sys.stderr)

    def say(self, message: str) -> None:
        """One line for a person, on stderr."""
        click.echo(plain(message), err=True)

    def emit(self, document: Any) -> None:
        """One JSON document (or one JSON line of many) on stdout."""
        ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        text = json.dumps(
            document, ensure_ascii=ascii_only, allow_nan=False, default=_jsonable, sort_keys=False
        )
        click.echo(text)

    def lines(self, documents: Iterable[Any]) -> None:
        """JSON lines on stdout."""
        for document in documents:
            self.emit(document)


def _console(stream: Any) -> Console:
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=False, emoji=False, markup=False)


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # a numpy array or scalar
        return value.tolist()
    if hasattr(value, "_asdict"):
        return value._asdict()
    return str(value)


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            setattr(ctx.ensure_object(App), name, value)

    return callback


def store_options(command: F) -> F:
    """``--store``, ``--json`` and ``--timeout``, before the command's name or after it."""
    for option in (
        click.option(
            "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", expose_value=False,
            callback=_remember("timeout"), help="Wait so long for another process's write (10).",
        ),
        click.option(
            "--json", is_flag=True, expose_value=False, callback=_remember("json"),
            help="JSON on stdout.",
        ),
        click.option(
            "-s", "--store", metavar="PATH", expose_value=False, callback=_remember("store"),
            help="The store's folder (or set FASTASSOC_STORE).",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def store_argument(command: F) -> F:
    """An optional PATH after the command, the same as ``--store PATH``."""
    return click.argument(
        "path", required=False, expose_value=False, callback=_remember("store"), metavar="[PATH]"
    )(command)


def check_embedder(name: str, said: str, more: tuple[str, ...] = ("none",)) -> None:
    """Refuse a name that stands for no embedder."""
    from fastassoc.embed import NAMES

    known = (*NAMES, *more)
    if name not in known:
        raise click.BadParameter(
            f"found {name!r}, expected {', '.join(known[:-1])} or {known[-1]}.", param_hint=said
        )


def _embedder(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        check_embedder(value, "--embedder")
        _remember("embedder")(ctx, param, value)


def embedder_option(command: F) -> F:
    """``--embedder`` for commands that make vectors of texts."""
    return click.option(
        "--embedder", metavar="NAME", expose_value=False, callback=_embedder,
        help="Makes vectors of texts: wordllama, minilm or none (or set FASTASSOC_EMBEDDER).",
    )(command)  # fmt: skip


def preset_option(command: F) -> F:
    """``--preset`` for commands that make a store."""
    return click.option(
        "--preset", type=click.Choice(PRESETS), expose_value=False, callback=_remember("preset"),
        help="Settings of a new store: links count (counts), or notes and links fade (cognitive).",
    )(command)  # fmt: skip


def example(*lines: str) -> str:
    """Lines for a command's help page, shown as they are."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def every_so_often(tell: Callable[..., None]) -> Callable[..., None]:
    """`tell`, called now and then however often this is: progress where there is no terminal."""
    last = time.monotonic()

    def update(*state: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            tell(*state)

    return update


def read_stdin() -> str:
    """Everything on standard input, as UTF-8, without the white space around it."""
    raw = sys.stdin.buffer.read()
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input: {error.reason} at byte {error.start}.") from None


def operation_option(command: F) -> F:
    """``--operation-id`` for commands that change the store."""
    return click.option(
        "--operation-id", metavar="ID", help="A repeat with the same id changes nothing."
    )(command)


def plain(text: str) -> str:
    r"""A text safe to print: control characters but newline and tab become ``\x..``.

    Examples
    --------
    >>> plain("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(
        ch if ch in "\n\t" or not (ord(ch) < 32 or 127 <= ord(ch) < 160) else f"\\x{ord(ch):02x}"
        for ch in text
    )


def arrow(value: float | None = None, *, both: bool = False) -> str:
    """A link of this weight, or a step without one, in characters that stdout can show.

    Examples
    --------
    >>> arrow(2.5), arrow(2.0, both=True)
    ('─2.5→', '─2─')
    """
    line, head = "─", "→"
    try:
        (line + head).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        line, head = "-", "->"
    if value is None:
        return head
    return f"{line}{number(value)}{line if both else head}"


def number(value: float) -> str:
    """A weight or score in few characters: ``2``, ``0.5``, ``1.234``.

    Examples
    --------
    >>> number(2.0), number(0.64488), number(1_000_000)
    ('2', '0.645', '1000000')
    """
    if value == int(value):
        return str(int(value))
    return f"{value:.3f}".rstrip("0").rstrip(".")


def size(count: float) -> str:
    """Bytes for people.

    Examples
    --------
    >>> size(512), size(1536), size(5 * 2**20)
    ('512 B', '1.5 KiB', '5.0 MiB')
    """
    if count < 1024:
        return f"{int(count)} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        count /= 1024
        if count < 1024 or unit == "TiB":
            break
    return f"{count:.1f} {unit}"


def day(moment: datetime | int | None) -> str:
    """A time in UTC to the minute; microseconds since 1970 are taken too."""
    if moment is None:
        return ""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment / 1e6, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _value(text: str) -> Any:
    """A JSON value where it reads as one, else the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def parse_pairs(pairs: Iterable[str], option: str) -> dict[str, Any]:
    """``KEY=VALUE`` options as a dict; a value that reads as JSON is JSON."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"found {pair!r}, expected KEY=VALUE.", param_hint=option)
        found[key] = _value(value)
    return found


def parse_where(pairs: Iterable[str]) -> dict[str, Any] | None:
    """``--where`` options: ``KEY=VALUE``, or a JSON object such as ``{"n": {"in": [1, 2]}}``."""
    where: dict[str, Any] = {}
    for pair in pairs:
        if pair.lstrip().startswith("{"):
            value = _value(pair)
            if not isinstance(value, dict):
                raise click.BadParameter(
                    f"found {pair!r}, which is no JSON object.", param_hint="--where"
                )
            where.update(value)
        else:
            where.update(parse_pairs([pair], "--where"))
    return where or None
