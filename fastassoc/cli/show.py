"""How answers look on a terminal; the only place, with `ingest`, that builds rich tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fastassoc.cli.common import App, arrow, day, number, plain

__all__ = ["path_text", "show_bars", "show_links", "show_notes", "show_recall", "table"]

SOURCE_STYLES = {"exact": "bold green", "association": "bold magenta", "semantic": "cyan"}
SHORT = 160  # characters of a text in a table
WAYS = 3  # links shown under a hit
# what is shown of a link, and how wide a terminal must be for it: the names need their place
LINK_NUMBERS = {"weight": 0, "written": 50, "taught": 0, "notes": 72, "valence": 72}


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table in the house's look; the columns named in `right` are numbers."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        if name in right:
            made.add_column(name, justify="right", no_wrap=True)
        else:
            made.add_column(name, overflow="fold")
    return made


def shorten(text: str, limit: int = SHORT) -> str:
    """The text on one line, cut at a word."""
    flat = " ".join(plain(text).split())
    if len(flat) <= limit:
        return flat
    cut = flat.rfind(" ", limit // 2, limit)
    return flat[: cut if cut > 0 else limit] + " …"


def path_text(steps: Iterable[Any], most: int | None = None) -> list[str]:
    """One line for every way from the query to the note: ``timeout ─2→ retry``.

    Parameters
    ----------
    steps : iterable of Step
        A hit's `path`; each way ends with a step of layer ``carries``.
    most : int, optional
        Show so many ways over links, strongest first, and count the others.

    Returns
    -------
    list of str
        Concepts that the query named and the note carries come first, on one line.
    """
    named: list[str] = []
    ways: list[tuple[float, str]] = []
    line, here, least = "", None, math.inf
    for step in steps:
        if step.layer == "carries":
            if line:
                ways.append((-least, line))
            else:
                named.append(plain(step.source))
            line, here, least = "", None, math.inf
            continue
        if here != step.source:
            line = plain(step.source)
        taught = f" ({number(step.taught)} taught)" if step.taught else ""
        line += f" {arrow(step.weight)} {plain(step.target)}{taught}"
        here, least = step.target, min(least, step.weight)
    ways.sort(key=itemgetter(0))
    shown = [text for _, text in ways[:most]]
    if len(shown) < len(ways):
        shown.append(f"and {len(ways) - len(shown)} links more (--full)")
    return [f"carries {', '.join(named)}", *shown] if named else shown


def show_recall(app: App, recall: Any, *, full: bool, asked: Sequence[str]) -> None:
    """The hits as a table on stdout; what was asked and how, on stderr."""
    named = list(recall.query_concepts)
    if named:
        app.say("asked: " + ", ".join(named))
    if recall.unknown:
        app.say("not known: " + ", ".join(recall.unknown))
    if recall.expanded_concepts:
        reached = sorted(recall.expanded_concepts.items(), key=lambda item: (-item[1], item[0]))
        app.say("reached: " + ", ".join(f"{name} {number(w)}" for name, w in reached[:12]))
    if not len(recall):
        app.say(f"no notes: {recall.reason}")
        return
    if recall.reason:
        app.say(f"note: {recall.reason}")
    grid = table("score", "rank", "source", "note", right=("score", "rank"))
    for hit in recall:
        note = Text(plain(hit.text) if full else shorten(hit.text))
        label = plain(hit.id) if hit.domain == "general" else plain(f"{hit.id} · {hit.domain}")
        note.append(f"\n{label}", style="dim")
        for way in path_text(hit.path, None if full else WAYS):
            note.append(f"\n{way}", style="yellow")
        style = SOURCE_STYLES.get(hit.source, "")
        grid.add_row(
            f"{hit.score:.2f}", number(hit.rank_score), Text(hit.source, style=style), note
        )
    app.out().print(grid)
    if app.err().is_terminal:
        rating = app.command("feedback", *asked, "--used", recall[0].id, "--outcome", "1")
        app.say(f"did the first one help? {rating}")


def show_notes(app: App, notes: Iterable[Any]) -> None:
    """Notes by time: when, which, what."""
    grid = table("created", "note")
    grid.columns[0].no_wrap = True
    count = 0
    for note in notes:
        text = Text(shorten(note.text))
        text.append(f"\n{plain(note.id)} · {plain(note.domain)}", style="dim")
        grid.add_row(day(note.created_at), text)
        count += 1
    if count:
        app.out().print(grid)
    else:
        app.say("no notes.")


def show_bars(app: App, label: str, value: str, rows: Sequence[tuple[str, float]]) -> None:
    """Names with a number and a bar as long as it is large."""
    if not rows:
        return
    grid = table(label, value, "", right=(value,))
    top = max(abs(amount) for _, amount in rows) or 1.0
    longest = max(4, min(24, app.out().width // 3))
    for name, amount in rows:
        bar = "█" * max(1, round(longest * abs(amount) / top))
        grid.add_row(Text(plain(name)), number(amount), Text(bar, style="magenta"))
    app.out().print(grid)


def show_links(app: App, rows: Iterable[dict[str, Any]]) -> None:
    """Links as rows: the pair, its weight, and what of it was written and taught."""
    console = app.out()
    keys = [key for key, width in LINK_NUMBERS.items() if console.width >= width]
    grid = table("a", "b", *keys, right=tuple(keys))
    for column in grid.columns[:2]:
        column.min_width = 6
    for row in rows:
        values = (number(row["count" if key == "notes" else key]) for key in keys)
        grid.add_row(Text(plain(row["a"])), Text(plain(row["b"])), *values)
    console.print(grid)
