"""How answers look on a terminal; the only place, with `ingest`, that builds rich tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fastassoc.cli.common import App, arrow, count, day, number, plain

__all__ = [
    "path_text",
    "show_bars",
    "show_links",
    "show_note",
    "show_notes",
    "show_recall",
    "table",
]

SOURCE_STYLES = {"exact": "bold green", "association": "bold magenta", "semantic": "cyan"}
SHORT = 160  # characters of a text in a table
WAYS = 3  # links shown under a hit
HELD = ("carries", "says")  # layers of steps between a note and what it holds
# what is shown of a link, and how wide a terminal must be for it: the names need their place
LINK_NUMBERS = {"weight": 0, "written": 50, "taught": 0, "notes": 72, "valence": 72}
FADING_NUMBERS = {"now": 0, "weight": 40, "changed": 60}  # of links between notes


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


def path_text(steps: Sequence[Any], most: int | None = None) -> list[str]:
    """One line for every way from the query to the note: ``timeout ─2→ retry``.

    Parameters
    ----------
    steps : sequence of Step
        A hit's `path`: ways one after another, each up to a step into the note.
    most : int, optional
        Show so many ways, those over links first, strongest first, and count the others.

    Returns
    -------
    list of str
        Concepts that the query named and the note carries come first, on one line. A way over
        notes reads ``note n1 (carries retry) ─0.5→ this note``, one over what another note names
        ``note n1 (carries retry) → backoff, jitter`` (or ``(says storm)``), a taught term
        ``retry ─1→ this note (taught)``.
    """
    named: list[str] = []
    ways: list[tuple[float, str]] = []
    over: dict[str, list[str]] = {}  # by what leads there, the concepts that lead on to the note
    carry: dict[str, str] = {}
    for way in _ways(steps):
        if way[0].layer == "cue":
            source, weight = plain(way[0].source), way[0].weight
            ways.append((-weight, f"{source} {arrow(weight)} this note (taught)"))
            continue
        if way[0].layer == "carries" and len(way) == 1:
            named.append(plain(way[0].source))
            continue
        line, least = _begin(way, carry), math.inf
        for step, is_note in zip(way, _are_notes(way), strict=True):
            if step.layer in HELD:
                if not is_note:
                    target = plain(step.target)
                    if step is way[-2]:
                        over.setdefault(line, []).append(target)
                    line += f" {arrow()} {target}"
                elif step is not way[0] and step is not way[-1]:
                    line += f" {arrow()} note {plain(step.target)}"
                continue
            target = f"note {plain(step.target)}" if is_note else plain(step.target)
            if is_note and step is way[-1]:
                target = "this note"
            taught = number(step.taught)
            line += f" {arrow(step.weight)} {target}"
            line += f" ({taught} taught)" if taught not in ("0", "-0") and not is_note else ""
            least = min(least, step.weight)
        if least < math.inf:
            ways.append((-least, line))
    ways.sort(key=itemgetter(0))
    lines = [line for _, line in ways]
    lines += [f"{begin} {arrow()} {', '.join(names)}" for begin, names in over.items()]
    shown = lines[:most]
    if len(shown) < len(lines):
        shown.append(f"and {count(len(lines) - len(shown), 'way')} more (--full)")
    return [f"carries {', '.join(named)}", *shown] if named else shown


def _ways(steps: Sequence[Any]) -> Iterable[list[Any]]:
    """The ways of a path: each ends with a step into the note."""
    way: list[Any] = []
    for step in steps:
        way.append(step)
        if step.target == steps[-1].target:
            yield way
            way = []


def _are_notes(way: Sequence[Any]) -> list[bool]:
    """Whether each step of a way leads to a note: the last does."""
    found = [True]
    for step in reversed(way[1:]):
        found.append(found[-1] != (step.layer in HELD))
    return found[::-1]


def _begin(way: Sequence[Any], carry: dict[str, str]) -> str:
    """How a way begins: at a concept, or at a note and what this carries."""
    first, to_note = way[0], _are_notes(way)[0]
    if first.layer in HELD and to_note:
        what = f"{first.layer} {plain(first.source)}"
        begun = carry[first.target] = f"note {plain(first.target)} ({what})"
        return begun
    if first.layer == "concept":
        return plain(first.source)
    return carry.get(first.source, f"note {plain(first.source)}")


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
    placed = any(hit.similarity is not None for hit in recall)
    numbers = ("score", "rank", *(("cosine",) if placed else ()))
    grid = table(*numbers, "source", "note", right=numbers)
    for hit in recall:
        note = Text(plain(hit.text) if full else shorten(hit.text))
        label = plain(hit.id) if hit.domain == "general" else plain(f"{hit.id} · {hit.domain}")
        note.append(f"\n{label}", style="dim")
        for way in path_text(hit.path, None if full else WAYS):
            note.append(f"\n{way}", style="yellow")
        style = SOURCE_STYLES.get(hit.source, "")
        values = [f"{hit.score:.2f}", number(hit.rank_score)]
        if placed:
            values.append("" if hit.similarity is None else f"{hit.similarity:.2f}")
        grid.add_row(*values, Text(hit.source, style=style), note)
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


def show_links(app: App, rows: Sequence[dict[str, Any]]) -> None:
    """Links as rows: the pair, its weight, and what of it was written and taught.

    Links with an ``effective`` weight, as it is now, show that, and the weight as it was last
    changed, and when.
    """
    console = app.out()
    fading = bool(rows) and "effective" in rows[0]
    wanted = FADING_NUMBERS if fading else LINK_NUMBERS
    keys = [key for key, width in wanted.items() if console.width >= width]
    grid = table("a", "b", *keys, right=tuple(keys))
    for column in grid.columns[:2]:
        column.min_width = 6
    for row in rows:
        given = {**row, "notes": row["count"], "now": row.get("effective")}
        values = (day(row["updated_at"]) if key == "changed" else number(given[key])
                  for key in keys)  # fmt: skip
        grid.add_row(Text(plain(row["a"])), Text(plain(row["b"])), *values)
    console.print(grid)


def show_note(app: App, note: Any) -> None:
    """One note whole: its text, then what is known of it."""
    console = app.out()
    console.print(Text(plain(note.text)), soft_wrap=True)
    console.print()
    rows = list(_facts(note))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(Text.assemble((f"{name:<{width}}  ", "dim"), plain(value)), soft_wrap=True)


def _facts(note: Any) -> Iterable[tuple[str, str]]:
    """What a note says of itself, without what it does not have."""
    yield "id", note.id
    yield "domain", note.domain
    for name in ("concepts", "subjects", "supersedes", "superseded_by"):
        values = getattr(note, name)
        if values or name == "concepts":
            yield name.replace("_", " "), ", ".join(values) or "none"
    yield "created", day(note.created_at)
    if note.written_at != note.created_at:
        yield "written", day(note.written_at)
    for key, value in note.metadata.items():
        yield f"metadata {key}", value if isinstance(value, str) else json.dumps(value)
    for name in ("session", "author", "fingerprint", "external_ref"):
        if getattr(note, name) is not None:
            yield name.replace("_", " "), getattr(note, name)
    yield "category", note.category or "episodic"
    yield "importance", number(note.importance)
    yield "valence", number(note.valence)
    yield "stability", number(note.stability)
    yield "accesses", f"{note.accesses:,}, the last {day(note.last_access)}"
    yield "tier", note.tier
    yield "vector", "none" if note.vector is None else count(len(note.vector), "number")
