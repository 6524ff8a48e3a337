"""The report as one page of HTML that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from fastassoc.plural import count
from fastassoc.quality.measures import MEASURES
from fastassoc.quality.sets import NO_CUE, NO_LOOKUP, NO_TAG, NO_WRONG, not_measured, told_of
from fastassoc.quality.sheet import document, soft, table
from fastassoc.quality.svg import bars, histograms

__all__ = ["html_page"]


def html_page(report: dict[str, Any]) -> str:
    """Make the page of a report.

    Parameters
    ----------
    report : dict
        As `run` gives it.

    Returns
    -------
    str
        A whole document, with its plots in it and no reference to anything outside.
    """
    return document("fastassoc: quality", "".join(_body(report)))


def _body(report: dict[str, Any]) -> Iterator[str]:
    yield "<h1>How well it reads, learns and associates</h1>"
    machine, limit = report["machine"], report["limit"]
    many = "all questions" if limit is None else f"at most {count(limit, 'question')} of a store"
    yield soft(
        f"fastassoc {report['fastassoc']}, Python {report['python']}, {machine['system']}, "
        f"{count(machine['cores'], 'core')}. Embedder: {report['embedder'] or 'none'}. Seed "
        f"{report['seed']}; {many}; "
        f"titles are {'declared as subjects' if report['subjects'] else 'not declared'}. Intervals "
        "hold 95 % of 2,000 bootstrap means over the questions. Milliseconds are medians of a "
        "read, the embedder left out."
    )
    for sentence in (*map(not_measured, report.get("failed", ())), *report["skipped"]):
        yield soft(sentence)
    for one in report["sets"]:
        yield f"<h2>{escape(one['name'])}</h2>"
        left = "; ".join(told_of(one["left_out"], one.get("left_out_first", {})))
        about = ""
        if "notes" in one:
            about = f"{count(one['notes'], 'note')}, {count(one['questions'], 'question')}. "
        yield soft(about + (f"Left out: {left}." if left else "Nothing was left out."))
        for part, show in SHOWN.items():
            if part in one:
                yield from show(one[part], one)


def _reads(reads: list[dict[str, Any]], one: dict[str, Any]) -> Iterator[str]:
    yield "<h3>Reads</h3>"
    yield bars([_bar(row["title"], row["measures"][one["main"]]) for row in reads], one["main"])
    gain = f"{one['main']} over {reads[0]['gain']['over']}"
    head = ["system", *MEASURES, gain, "ms"]
    rows = [
        [
            row["title"],
            *(_value(row["measures"][name]) for name in MEASURES),
            _value(row["gain"], signed=True),
            f"{row['milliseconds']['p50']:.2f}",
        ]
        for row in reads
    ]
    yield table(head, rows)
    yield bars(
        [
            _bar(row["title"], {"value": row["milliseconds"]["p50"], "low": 0.0, "high": 0.0})
            for row in reads
        ],
        "milliseconds of a read, median",
        None,
        " ms",
    )
    groups = list(reads[0]["groups"])
    if groups:
        head = [
            one["main"],
            *(f"{name} ({reads[0]['groups'][name]['questions']})" for name in groups),
        ]
        rows = [
            [row["title"], *(f"{row['groups'][name][one['main']]:.3f}" for name in groups)]
            for row in reads
        ]
        yield table(head, rows, "by kind of question")


def _lookups(found: dict[str, Any], one: dict[str, Any]) -> Iterator[str]:
    yield "<h3>Easy look-ups</h3>"
    if not found["questions"]:
        yield soft(f"{NO_LOOKUP.capitalize()}.")
        return
    yield soft(f"{count(found['questions'], 'time')} half of the words of one sentence of a note.")
    rows = [[row["title"], _value(row["@1"]), _value(row["@5"])] for row in found["systems"]]
    yield table(["system", "@1", "@5"], rows)


def _feedback(found: dict[str, Any], one: dict[str, Any]) -> Iterator[str]:
    yield "<h3>Learning</h3>"
    yield soft("Half of the questions were taught with outcome 1, then all were asked again.")
    for row in found["systems"]:
        rows = []
        for way, groups in row["taught"].items():
            for name, told in groups.items():
                if not told["questions"]:
                    continue
                rows.append(
                    [
                        f"{found['ways'][way]}: {name}",
                        str(told["questions"]),
                        _value(told["before"]),
                        _value(told["after"]),
                        _value(told["change"], signed=True),
                    ]
                )
        head = [found["measure"], "questions", "before", "after", "change"]
        yield table(head, rows, row["title"])
        wrong = row["wrong"]
        if not wrong["rated"]:
            yield soft(f"{NO_WRONG.capitalize()}.")
            continue
        yield soft(
            f"Of {count(wrong['rated'], 'first hit')} rated wrong, {wrong['left_first_place']} "
            "left first place."
        )


def _scores(found: dict[str, Any], one: dict[str, Any]) -> Iterator[str]:
    yield "<h3>Absolute scores</h3>"
    bound = found["bound"]
    yield soft(
        f"The best hit of the set's own questions should score above {bound}, that of any other "
        "text below."
    )
    for row in found["systems"]:
        kinds = row["kinds"]
        yield histograms(
            [(name, told["histogram"]) for name, told in kinds.items()],
            f"score of the best hit, {row['title']}",
            bound,
        )
        rows = [
            [
                "its own" if name == "own" else name,
                str(told["questions"]),
                f"{told['right']:.3f}",
                *(f"{told[point]:.3f}" for point in ("p5", "p50", "p95")),
            ]
            for name, told in kinds.items()
        ]
        yield table(
            ["questions", "how many", "on the right side", "5 %", "median", "95 %"],
            rows,
            row["title"],
        )


def _associations(found: dict[str, Any], one: dict[str, Any]) -> Iterator[str]:
    yield "<h3>Association</h3>"
    if not found.get("cues", found.get("held_out")):
        yield soft(f"{(NO_CUE if one['kind'] == 'norms' else NO_TAG).capitalize()}.")
        return
    if one["kind"] == "norms":
        hidden = found["found@10"]
        yield soft(
            f"Of {count(found['cues'], 'cue')} the strongest response was hidden; found means "
            "among the first ten that are not its other responses. Links have no direction: with "
            "one direction hidden, what was said the other way round stays."
        )
        yield bars([_bar(name, told) for name, told in hidden["one"].items()], "one direction")
        yield bars([_bar(name, told) for name, told in hidden["both"].items()], "both directions")
        rows = [
            [name, *(_value(hidden[way][name]) for way in ("one", "both"))]
            for name in hidden["one"]
        ]
        yield table(["way", "one direction hidden", "both hidden"], rows)
    else:
        yield soft(
            f"Of {count(found['held_out'], 'note')} that the memory has not seen one tag was "
            "hidden; the others were the cues."
        )
        points = ("@1", "@5", "@10")
        yield bars([_bar(name, told["@1"]) for name, told in found["ways"].items()], "found first")
        rows = [
            [name, *(_value(told[point]) for point in points)]
            for name, told in found["ways"].items()
        ]
        yield table(["way", *points], rows)
        rows = [
            [f"{name} ({told['questions']})", *(f"{told[point]:.3f}" for point in points)]
            for name, told in found["groups"].items()
        ]
        yield table(["associate, by cues", *points], rows)
    yield soft(f"Milliseconds of an answer: {found['milliseconds']['p50']:.3f} (median).")


SHOWN: dict[str, Callable[[Any, dict[str, Any]], Iterator[str]]] = {
    "reads": _reads,
    "lookups": _lookups,
    "feedback": _feedback,
    "scores": _scores,
    "associations": _associations,
}


def _bar(label: str, told: dict[str, float]) -> tuple[str, float, float, float]:
    return label, told["value"], told["low"], told["high"]


def _value(told: dict[str, Any], signed: bool = False) -> str:
    sign = "+" if signed else ""
    low, high = (f"{told[end]:{sign}.3f}" for end in ("low", "high"))
    return f"{told['value']:{sign}.3f} <small>{low} to {high}</small>"
