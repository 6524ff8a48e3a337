"""What ``bench quality`` prints: a table for each thing that was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastassoc.cli.common import App, count, plain
from fastassoc.quality.sets import NO_CUE, NO_LOOKUP, NO_TAG, NO_WRONG, told_of

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["dim_line", "show", "table_of"]

INTERVAL = "95 %"
COLUMNS = ("recall@2", "recall@5", "recall@10", "all@5", "mrr")


def show(app: App, report: dict[str, Any]) -> None:
    """Print a report of `fastassoc.quality.run`."""
    from rich.text import Text

    console = app.out()
    for one in report["sets"]:
        console.print()
        console.print(Text(plain(one["name"]), style="bold"), Text(_about(one), style="dim"))
        left = told_of(one["left_out"], one.get("left_out_first", {}))
        for told in (*left, *told_of(one.get("rejected", {}), {})):
            console.print(Text(f"  left out: {plain(told)}", style="dim"))
        for part, shown in PARTS.items():
            if part in one:
                shown(console, one[part], one)
    console.print()
    for sentence in report["skipped"]:
        app.say(sentence)
    app.say(
        f"intervals hold 95 % of 2,000 bootstrap means; embedder {report['embedder'] or 'none'}, "
        f"seed {report['seed']}, {count(report['seconds'], 'second')} in all."
    )


def _about(one: dict[str, Any]) -> str:
    if "notes" not in one:
        return ""
    stores = f" in {count(one['stores'], 'store')}" if one["stores"] > 1 else ""
    return f" {count(one['notes'], 'note')}{stores}, {count(one['questions'], 'question')}"


def table_of(console: Console, title: str, head: list[str], rows: list[list[str]]) -> None:
    """A table as wide as the console; its title stands above, where it takes no width.

    No number is cut: columns that do not fit stand in further tables below, with the names of the
    rows again. An interval stays beside its value.
    """
    from rich.table import Table
    from rich.text import Text

    console.print()
    console.print(Text(f" {plain(title)}", style="italic"))
    rows = [[f" {plain(row[0])}", *map(plain, row[1:])] for row in rows]
    for number, columns in enumerate(folded(console.width, head, rows)):
        if number:
            console.print()
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column(head[0], overflow="fold")
        for at in columns:
            table.add_column(head[at], justify="right", no_wrap=True)
        for row in rows:
            table.add_row(Text(row[0]), *(Text(row[at]) for at in columns))
        console.print(table)


def folded(width: int, head: list[str], rows: list[list[str]]) -> list[list[int]]:
    """Which columns stand in each table, so that none is wider than `width`.

    Names of rows may take what the widest column leaves; they are folded where that is less.

    Examples
    --------
    >>> head, rows = ["", "a", "95 %", "b"], [["name", "1.000", ".9 1.0", "1.000"]]
    >>> folded(80, head, rows), folded(18, head, rows)
    ([[1, 2, 3]], [[1, 2], [3]])
    """
    from rich.cells import cell_len

    wide = [
        max(cell_len(line) for row in [head, *rows] for line in row[at].split("\n"))
        for at in range(len(head))
    ]
    units: list[list[int]] = []
    for at in range(1, len(head)):
        if units and head[at] == INTERVAL:
            units[-1].append(at)
        else:
            units.append([at])
    spaces = [sum(1 + wide[at] for at in unit) for unit in units]
    names = min(wide[0], width - max(spaces, default=0))
    tables: list[list[int]] = []
    room = 0
    for unit, space in zip(units, spaces, strict=True):
        if space > room or not tables:
            tables.append([])
            room = width - names
        tables[-1] += unit
        room -= space
    return tables


def _reads(console: Console, reads: list[dict[str, Any]], one: dict[str, Any]) -> None:
    main = one["main"]
    others = [name for name in (*COLUMNS, "ndcg@10") if name != main]
    if one["kind"] != "beir":
        others.remove("ndcg@10")
    head = ["", _short(main), INTERVAL, "gain", *map(_short, others), "ms"]
    rows = []
    for row in reads:
        measures = row["measures"]
        cells = [row["title"], _share(measures[main]["value"]), _span(measures[main])]
        cells.append(_share(row["gain"]["value"], True))
        cells += [_share(measures[name]["value"]) for name in others]
        rows.append([*cells, f"{row['milliseconds']['p50']:.2f}"])
    table_of(
        console, f"reads; gain over {reads[0]['gain']['over']}, ms a read (median)", head, rows
    )
    groups = reads[0]["groups"]
    if groups:
        head = ["", *(f"{name or '-'}\n{told['questions']}" for name, told in groups.items())]
        rows = [
            [row["title"], *(_share(row["groups"][name][main]) for name in groups)] for row in reads
        ]
        table_of(console, f"{main} by kind of question", head, rows)


def _lookups(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    if not found["questions"]:
        _nothing(console, NO_LOOKUP)
        return
    rows = [
        [
            row["title"],
            *(cell for at in ("@1", "@5") for cell in (_share(row[at]["value"]), _span(row[at]))),
        ]
        for row in found["systems"]
    ]
    title = f"{count(found['questions'], 'easy look-up')}: half of the words of one sentence"
    table_of(console, title, ["", "@1", INTERVAL, "@5", INTERVAL], rows)


def _feedback(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    for row in found["systems"]:
        rows = []
        for way, groups in row["taught"].items():
            for name, told in groups.items():
                if told["questions"]:
                    values = [_share(told[when]["value"]) for when in ("before", "after")]
                    change = told["change"]
                    rows.append(
                        [
                            f"{name}, taught {way}",
                            str(told["questions"]),
                            *values,
                            _share(change["value"], True),
                            _span(change, True),
                        ]
                    )
        title = f"feedback, {found['measure']}: {row['title'].strip()}"
        table_of(console, title, ["", "n", "before", "after", "change", INTERVAL], rows)
        wrong = row["wrong"]
        if not wrong["rated"]:
            dim_line(console, NO_WRONG)
            continue
        dim_line(
            console,
            f"{wrong['left_first_place']} of {count(wrong['rated'], 'first hit')} that "
            "were rated wrong left first place",
        )


def _scores(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    for row in found["systems"]:
        rows = []
        for name, told in row["kinds"].items():
            side = "above" if name == "own" else "below"
            points = [_share(told[point]) for point in ("p5", "p50", "p95")]
            shown = "its own questions" if name == "own" else name
            rows.append([shown, str(told["questions"]), f"{told['right']:.1%} {side}", *points])
        title = f"best score, bound {found['bound']}: {row['title'].strip()}"
        table_of(console, title, ["", "n", "right", "5 %", "median", "95 %"], rows)


def _associations(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    if not found.get("cues", found.get("held_out")):
        _nothing(console, NO_CUE if one["kind"] == "norms" else NO_TAG)
        return
    if one["kind"] == "norms":
        hidden = found["found@10"]
        rows = [
            [
                name,
                *(
                    cell
                    for way in ("one", "both")
                    for cell in (_share(hidden[way][name]["value"]), _span(hidden[way][name]))
                ),
            ]
            for name in hidden["one"]
        ]
        title = (
            f"strongest response of {count(found['cues'], 'cue')} hidden, in the first 10 new words"
        )
        table_of(console, title, ["", "one direction", INTERVAL, "both", INTERVAL], rows)
    else:
        points = ("@1", "@5", "@10")
        rows = [
            [name, *(_share(told[point]["value"]) for point in points), _span(told["@1"])]
            for name, told in found["ways"].items()
        ]
        rows += [
            [
                f"  associate, {name} ({told['questions']})",
                *(_share(told[point]) for point in points),
                "",
            ]
            for name, told in found["groups"].items()
        ]
        title = f"one tag of {count(found['held_out'], 'unseen note')} hidden"
        table_of(console, title, ["", *points, "95 % of @1"], rows)
    ms = found["milliseconds"]
    dim_line(console, f"{ms['p50']:.3f} ms an answer (median; 95 % within {ms['p95']:.3f})")


def _nothing(console: Console, why: str) -> None:
    """Why there is no table."""
    console.print()
    dim_line(console, why)


def dim_line(console: Console, text: str) -> None:
    """A line of less weight."""
    from rich.text import Text

    console.print(Text(f" {plain(text)}", style="dim"))


PARTS: dict[str, Callable[[Console, Any, dict[str, Any]], None]] = {
    "reads": _reads,
    "lookups": _lookups,
    "feedback": _feedback,
    "scores": _scores,
    "associations": _associations,
}


def _short(name: str) -> str:
    """The name of a measure in few characters."""
    return name.replace("recall@", "r@")


def _share(value: float, signed: bool = False) -> str:
    """A share without the zero before its point.

    Examples
    --------
    >>> _share(0.25), _share(1.0), _share(-0.25, True), _share(0.0, True)
    ('.250', '1.000', '-.250', '+.000')
    """
    return f"{value:{'+' if signed else ''}.3f}".replace("0.", ".", 1)


def _span(told: dict[str, float], signed: bool = False) -> str:
    return f"{_share(told['low'], signed)} {_share(told['high'], signed)}"
