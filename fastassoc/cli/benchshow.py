"""What ``bench quality`` prints: a table for each thing that was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastassoc.cli.common import App, count, plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show"]

COLUMNS = ("recall@2", "recall@5", "recall@10", "all@5", "mrr")


def show(app: App, report: dict[str, Any]) -> None:
    """Print a report of `fastassoc.quality.run`."""
    from rich.text import Text

    console = app.out()
    for one in report["sets"]:
        console.print()
        console.print(Text(plain(one["name"]), style="bold"), Text(_about(one), style="dim"))
        for reason, many in {**one["left_out"], **one.get("rejected", {})}.items():
            console.print(Text(f"  left out: {many:,} {plain(reason)}", style="dim"))
        for part, shown in PARTS.items():
            if part in one:
                shown(console, one[part], one)
    console.print()
    for sentence in report["skipped"]:
        app.say(sentence)
    app.say(
        f"intervals hold 95 % of 2,000 bootstrap means; embedder {report['embedder'] or 'none'}, "
        f"seed {report['seed']}, {report['seconds']:.0f} seconds in all."
    )


def _about(one: dict[str, Any]) -> str:
    if "notes" not in one:
        return ""
    stores = f" in {count(one['stores'], 'store')}" if one["stores"] > 1 else ""
    return f" {count(one['notes'], 'note')}{stores}, {count(one['questions'], 'question')}"


def _table(console: Console, title: str, head: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="italic", box=None, padding=(0, 1))
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)


def _reads(console: Console, reads: list[dict[str, Any]], one: dict[str, Any]) -> None:
    main = one["main"]
    others = [name for name in (*COLUMNS, "ndcg@10") if name != main]
    if one["kind"] != "beir":
        others.remove("ndcg@10")
    head = ["reads", main, "95 %", f"- {reads[0]['gain']['over']}", *others, "ms"]
    rows = []
    for row in reads:
        measures = row["measures"]
        rows.append(
            [
                row["title"],
                f"{measures[main]['value']:.3f}",
                _span(measures[main]),
                f"{row['gain']['value']:+.3f}",
                *(f"{measures[name]['value']:.3f}" for name in others),
                f"{row['milliseconds']['p50']:.2f}",
            ]
        )
    _table(console, "", head, rows)
    groups = list(reads[0]["groups"])
    if groups:
        head = [
            f"{main} by kind",
            *(f"{name or '-'} ({reads[0]['groups'][name]['questions']})" for name in groups),
        ]
        rows = [
            [row["title"], *(f"{row['groups'][name][main]:.3f}" for name in groups)]
            for row in reads
        ]
        _table(console, "", head, rows)


def _lookups(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    rows = [
        [
            row["title"],
            f"{row['@1']['value']:.3f}",
            _span(row["@1"]),
            f"{row['@5']['value']:.3f}",
            _span(row["@5"]),
        ]
        for row in found["systems"]
    ]
    head = [f"{count(found['questions'], 'easy look-up')}", "@1", "95 %", "@5", "95 %"]
    _table(console, "", head, rows)


def _feedback(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    rows = []
    for row in found["systems"]:
        rows.append([row["title"].strip(), "", "", "", "", ""])
        for way, groups in row["taught"].items():
            for name, told in groups.items():
                if told["questions"]:
                    rows.append(
                        [
                            f"  {name}, taught {way}",
                            str(told["questions"]),
                            f"{told['before']['value']:.3f}",
                            f"{told['after']['value']:.3f}",
                            f"{told['change']['value']:+.3f}",
                            _span(told["change"], True),
                        ]
                    )
        wrong = row["wrong"]
        rows.append(
            [
                "  rated wrong, left first place",
                str(wrong["rated"]),
                "",
                str(wrong["left_first_place"]),
                "",
                "",
            ]
        )
    head = [f"feedback, {found['measure']}", "n", "before", "after", "change", "95 %"]
    _table(console, "", head, rows)


def _scores(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    rows = []
    for row in found["systems"]:
        rows.append([row["title"].strip(), "", "", "", "", ""])
        for name, told in row["kinds"].items():
            side = "above" if name == "own" else "below"
            rows.append(
                [
                    f"  {name}",
                    str(told["questions"]),
                    f"{told['right']:.1%} {side}",
                    *(f"{told[point]:.3f}" for point in ("p5", "p50", "p95")),
                ]
            )
    head = [f"best score, bound {found['bound']}", "n", "right", "5 %", "median", "95 %"]
    _table(console, "", head, rows)


def _associations(console: Console, found: dict[str, Any], one: dict[str, Any]) -> None:
    if one["kind"] == "norms":
        hidden = found["found@10"]
        rows = [
            [
                name,
                *(
                    cell
                    for way in ("one", "both")
                    for cell in (f"{hidden[way][name]['value']:.3f}", _span(hidden[way][name]))
                ),
            ]
            for name in hidden["one"]
        ]
        head = [
            f"strongest response of {count(found['cues'], 'cue')} hidden, found in 10",
            "one direction",
            "95 %",
            "both",
            "95 %",
        ]
    else:
        points = ("@1", "@5", "@10")
        rows = [
            [name, *(f"{told[point]['value']:.3f}" for point in points), _span(told["@1"])]
            for name, told in found["ways"].items()
        ]
        rows += [
            [
                f"  associate, {name} ({told['questions']})",
                *(f"{told[point]:.3f}" for point in points),
                "",
            ]
            for name, told in found["groups"].items()
        ]
        head = [f"hidden tag of {count(found['held_out'], 'unseen note')}", *points, "95 % of @1"]
    _table(console, "", head, rows)
    ms = found["milliseconds"]
    from rich.text import Text

    console.print(Text(f" {ms['p50']:.3f} ms an answer (95 %: {ms['p95']:.3f})", style="dim"))


PARTS: dict[str, Callable[[Console, Any, dict[str, Any]], None]] = {
    "reads": _reads,
    "lookups": _lookups,
    "feedback": _feedback,
    "scores": _scores,
    "associations": _associations,
}


def _span(told: dict[str, float], signed: bool = False) -> str:
    sign = "+" if signed else ""
    return f"{told['low']:{sign}.3f}..{told['high']:{sign}.3f}"
