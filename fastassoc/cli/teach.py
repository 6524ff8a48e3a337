"""Teaching: ``feedback``, ``link``, ``unlink``."""

from __future__ import annotations

from typing import Any

import click

from fastassoc.cli.common import App, arrow, count, example, operation_option, plain, store_options

__all__ = ["feedback", "link", "unlink"]

layer_option = click.option(
    "--layer",
    type=click.Choice(["concept", "note", "cue"]),
    help="What is linked, where a name can be both; two ids of notes are notes. cue: a term (a "
    "concept, or a word of questions) and the id of a note.",
)


@click.command(
    epilog=example(
        "fastassoc feedback why does the deploy time out --used note-17 -o 1",
        "fastassoc feedback --asked timeout --used-concept backoff --outcome 1",
    )
)
@click.argument("query", nargs=-1)
@click.option(
    "--asked",
    multiple=True,
    metavar="NAME",
    help="A concept that the question named, instead of the question's text.",
)
@click.option("--used", multiple=True, metavar="ID", help="A note that was used.")
@click.option(
    "--used-concept",
    "used_concepts",
    multiple=True,
    metavar="NAME",
    help="A concept that was used.",
)
@click.option(
    "-o",
    "--outcome",
    type=click.FloatRange(-1, 1),
    required=True,
    metavar="NUMBER",
    help="How much it helped: 1 fully, 0 not at all, -1 it did harm.",
)
@operation_option
@store_options
@click.pass_obj
def feedback(
    app: App,
    *,
    query: tuple[str, ...],
    asked: tuple[str, ...],
    used: tuple[str, ...],
    used_concepts: tuple[str, ...],
    outcome: float,
    operation_id: str | None,
) -> None:
    """Say how an answer turned out, so that the next one is better.

    Every pair of an asked and a used concept gains (or loses) weight, and so does every pair of a
    word or concept of the question and a used note, and every pair of used notes where the store's
    links between notes are taught.
    """
    if query and asked:
        raise click.UsageError("say what was asked: the question's text, or --asked (not both).")
    if not query and not asked and len(used) < 2:
        raise click.UsageError(
            "say what was asked: the question's text, or --asked; two notes (--used) that were "
            "useful together need no question."
        )
    if not used and not used_concepts:
        raise click.UsageError("say what was used: --used ID or --used-concept NAME.")
    more: dict[str, Any] = {}
    if used:
        more["used"] = list(used)
    if used_concepts:
        more["used_concepts"] = list(used_concepts)
    with app.open() as mem:
        if query:
            recall = mem.read(" ".join(query))
            report = mem.feedback(recall, outcome=outcome, operation_id=operation_id, **more)
        else:
            report = mem.feedback(
                asked=list(asked), outcome=outcome, operation_id=operation_id, **more
            )
    if app.json:
        app.emit(report.to_dict())
        return
    if report.repeated:
        click.echo("this operation id was done before; nothing changed")
        return
    click.echo(f"{count(report.links_created, 'link')} made, {report.links_changed:,} changed")
    if report.cues_changed:
        click.echo(f"{count(report.cues_changed, 'link')} from words and concepts to notes changed")
    if query and not recall.query_concepts:
        app.say(
            "the question names no concept, so no link between concepts could learn: say --asked "
            "NAME."
        )
    if report.missing:
        app.say(f"no such notes: {', '.join(report.missing)}")


@click.command(
    epilog=example(
        "fastassoc link timeout backoff 2",
        "fastassoc link note-17 note-18 0.5 --layer note",
        "fastassoc link timeout note-17 --layer cue",
    ),
    context_settings={"ignore_unknown_options": True},  # -1 is a weight
)
@click.argument("a")
@click.argument("b")
@click.argument("weight", type=float, default=1.0)
@layer_option
@operation_option
@store_options
@click.pass_obj
def link(
    app: App, a: str, b: str, *, weight: float, layer: str | None, operation_id: str | None
) -> None:
    """Add weight to a link between concepts or notes.

    Notes go by their ids. WEIGHT is 1 if left out, and negative to take away; a link between notes
    never weighs more than 1. With --layer cue, A is a concept or a word of questions, B a note.
    """
    with app.open() as mem:
        report = mem.link(a, b, weight, layer=layer, operation_id=operation_id)
        _tell(app, mem, a, b, layer, report)


@click.command(
    epilog=example("fastassoc unlink timeout backoff", "fastassoc unlink note-17 note-18")
)
@click.argument("a")
@click.argument("b")
@layer_option
@operation_option
@store_options
@click.pass_obj
def unlink(app: App, a: str, b: str, layer: str | None, operation_id: str | None) -> None:
    """Set a link to its floor, so that no read follows it.

    With --layer cue, A is the concept and the word of that name, both of them.
    """
    with app.open() as mem:
        report = mem.unlink(a, b, layer=layer, operation_id=operation_id)
        _tell(app, mem, a, b, layer, report)
        done = report.links_changed or report.links_removed or report.cues_changed
        if not (done or report.repeated):
            app.say("there was no such link, or it was at its floor already.")


def _tell(app: App, mem: Any, a: str, b: str, layer: str | None, report: Any) -> None:
    if layer is None:  # what can be both was refused
        layer = "note" if a in mem and b in mem else "concept"
    held = {"concept": mem.links, "note": mem.note_links, "cue": mem.cue_links}[layer]
    weight = held.weight(a, b)
    if app.json:
        app.emit({**report.to_dict(), "a": a, "b": b, "layer": layer, "weight": weight})
        return
    click.echo(plain(f"{a} {arrow(weight, both=True)} {b}"))
    if report.repeated:
        app.say("this operation id was done before; nothing changed")
