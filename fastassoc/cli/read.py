"""Asking: ``read``, ``recent``, ``associate``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Any, TypeVar

import click

from fastassoc.cli.common import (
    EMBEDDER,
    App,
    count,
    embedder_option,
    example,
    parse_where,
    read_stdin,
    store_options,
)
from fastassoc.cli.vectors import note_document, vector_of
from fastassoc.settings import RANKS

__all__ = ["Moment", "associate", "read", "recent"]

F = TypeVar("F", bound=Callable[..., Any])


class Moment(click.ParamType[datetime]):
    """An ISO date or time; without a zone it is UTC. A bare date is its first or last instant."""

    name = "time"

    def __init__(self, *, last: bool) -> None:
        self.last = last

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The time as an aware datetime."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"found {value!r}, expected an ISO time such as 2026-01-31T08:00Z.")
        if len(value) <= 10 and self.last:
            moment = datetime.combine(moment.date(), time.max)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def filters(command: F) -> F:
    """``--domain``, ``--since``, ``--until``."""
    for option in (
        click.option("--until", type=Moment(last=True), help="Created then or before."),
        click.option("--since", type=Moment(last=False), help="Created then or later (ISO)."),
        click.option("-d", "--domain", metavar="NAME", help="Only notes of this domain."),
    ):
        command = option(command)
    return command


@click.command(
    epilog=example(
        "fastassoc read why does the deploy keep timing out",
        "fastassoc read -c timeout -c deploy --domain ops --json",
        "fastassoc read what does Ann drink --embedder wordllama --rank retention",
        "fastassoc read --like note-17 --reinforce --session monday",
        'fastassoc read --vector "[0.1, 0.7]"',
    )
)
@click.argument("query", nargs=-1)
@click.option(
    "-c", "--concept", "concepts", multiple=True, metavar="NAME", help="Ask by a concept's name."
)
@click.option("--like", metavar="ID", help="Ask by a note: what is like it?")
@click.option(
    "--vector",
    metavar="VECTOR",
    help="Ask by a point: a JSON list, a .npy or .json file, or - for stdin.",
)
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, help="How many.")
@click.option(
    "--rank",
    type=click.Choice(RANKS),
    help="How to rank; else as the store says, or counts for concepts alone and bridge for more.",
)
@click.option(
    "--hops", type=click.IntRange(1, 3), help="Links in a row (1) by counts and retention."
)
@filters
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help='Only notes whose metadata says so; or JSON: \'{"n": {"in": [1, 2]}}\'.',
)
@click.option("--min-score", type=click.FloatRange(0, 1), help="Leave out what scores less.")
@click.option(
    "--order-by", type=click.Choice(["relevance", "recency"]), help="Order of the answer."
)
@click.option("--include-superseded", is_flag=True, help="Old versions of notes, too.")
@click.option(
    "--reinforce", is_flag=True, help="Strengthen the notes returned and the links between them."
)
@click.option("--session", metavar="NAME", help="The conversation that --reinforce counts for.")
@click.option("--full", is_flag=True, help="Whole texts and ids in the table.")
@embedder_option
@store_options
@click.pass_obj
def read(
    app: App,
    /,
    *,
    query: tuple[str, ...],
    concepts: tuple[str, ...],
    where: tuple[str, ...],
    vector: str | None,
    full: bool,
    **options: Any,
) -> None:
    """Ask a question; every hit says which links brought it.

    The question is text, concepts by name, a note, a vector, or any of them together. Under each
    hit stands its path. "note n1 (carries timeout) → retry": n1 answers the question, which named
    timeout, and names retry, as this note does ("says" instead of "carries": a word, by its stem).
    "timeout ─2→ retry", where concepts alone are
    asked: a link of weight 2 led on to retry, which this note carries. "note n1 ─0.5→ this note": a
    link between notes led on from n1. Only --reinforce changes anything.
    """
    text = " ".join(query)
    given = {key: value for key, value in options.items() if value not in (None, False)}
    if not text and not concepts and options["like"] is None and vector is None:
        raise click.UsageError(
            "ask something: a question's text, --concept NAME, --like ID or --vector VECTOR."
        )
    if options["session"] is not None and not options["reinforce"]:
        raise click.UsageError("--session says what --reinforce counts for: say that, too.")
    if vector is not None:
        given["vector"] = vector_of(vector, text)
    if text == "-":
        text = read_stdin()
    if concepts:
        given["concepts"] = list(concepts)
    if where:
        given["where"] = parse_where(where)
    with app.open(read_only=not options["reinforce"], embeds=True) as mem:
        recall = mem.read(text or None, **given)
    if app.json:
        app.emit(recall_document(recall))
        return
    from fastassoc.cli.show import show_recall

    if options["reinforce"] and len(recall):
        app.say(f"{count(len(recall), 'note')} strengthened")
    if recall.reason is not None:
        said = recall.reason.replace("(embedder=)", f"(--embedder, or {EMBEDDER})")
        recall = replace(recall, reason=said)
    named = [part for name in concepts for part in ("--asked", name)]
    show_recall(app, recall, full=full, asked=[*query] if query else named)


def recall_document(recall: Any) -> dict[str, Any]:
    """A recall as one JSON document."""
    return {
        "query_concepts": list(recall.query_concepts),
        "query_terms": list(recall.query_terms),
        "expanded_concepts": dict(recall.expanded_concepts),
        "variants": dict(recall.variants),
        "unknown": list(recall.unknown),
        "rank": recall.rank,
        "reason": recall.reason,
        "position": recall.position,
        "timings": dict(recall.timings),
        "hits": recall.to_dicts(),
    }


@click.command(epilog=example("fastassoc recent -n 5 --domain ops"))
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many."
)
@click.option("--cursor", metavar="CURSOR", help="Go on where the last page ended.")
@filters
@store_options
@click.pass_obj
def recent(app: App, /, limit: int, cursor: str | None, **options: Any) -> None:
    """List the newest notes, a page at a time."""
    given = {key: value for key, value in options.items() if value is not None}
    with app.open(read_only=True) as mem:
        page = mem.recent(limit=limit, cursor=cursor, **given)
    if app.json:
        notes = [note_document(note) for note in page]
        app.emit({"notes": notes, "next_cursor": page.next_cursor})
        return
    from fastassoc.cli.show import show_notes

    show_notes(app, list(page))
    if page.next_cursor:
        same = [word for key, value in given.items() for word in (f"--{key}", value)]
        following = app.command("recent", "-n", limit, *same, "--cursor", page.next_cursor)
        app.say(f"more: {following}")


@click.command(epilog=example("fastassoc associate coffee"))
@click.argument("concepts", nargs=-1, required=True)
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, help="How many.")
@store_options
@click.pass_obj
def associate(app: App, concepts: tuple[str, ...], k: int) -> None:
    """List the concepts that come to mind at these."""
    with app.open(read_only=True) as mem:
        found = mem.associate(list(concepts), k=k)
    if app.json:
        app.emit([one._asdict() for one in found])
        return
    from fastassoc.cli.show import show_bars

    show_bars(app, "concept", "weight", [(one.concept, one.weight) for one in found])
    if not found:
        app.say(f"nothing is linked to {', '.join(concepts)}.")
