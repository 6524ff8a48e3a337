"""Notes in and out: ``write``, ``get`` and ``forget``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from fastassoc.cli.common import (
    App,
    count,
    embedder_option,
    example,
    operation_option,
    parse_pairs,
    parse_where,
    plain,
    preset_option,
    read_stdin,
    store_options,
)
from fastassoc.cli.vectors import note_document, vector_of, without_embedder

__all__ = ["forget", "get", "write"]


@click.command(
    epilog=example(
        'fastassoc write "Backoff of two seconds fixed it." -c retry -c backoff',
        "git log -1 --format=%B | fastassoc write - --domain commits",
        'fastassoc write "Ann prefers tea." --session monday --embedder wordllama',
        'fastassoc write "The new address." --supersedes note-17 --vector "[0.1, 0.7]"',
    )
)
@click.argument("text")
@click.option(
    "-c",
    "--concept",
    "concepts",
    multiple=True,
    metavar="NAME",
    help="A concept that the note carries; repeat it for more.",
)
@click.option("--no-concepts", is_flag=True, help="Carry none, instead of extracting them.")
@click.option(
    "--subject", "subjects", multiple=True, metavar="NAME", help="What the note is about: a title."
)
@click.option("--id", "note_id", metavar="ID", help="The note's id; made up if left out.")
@click.option("-d", "--domain", metavar="NAME", help="A label to filter by (general).")
@click.option("--created-at", metavar="TIME", help="ISO time of the note itself; no zone is UTC.")
@click.option(
    "-m", "--meta", multiple=True, metavar="KEY=VALUE", help="Metadata; JSON values are JSON."
)
@click.option(
    "--vector",
    metavar="VECTOR",
    help="The note as a point: a JSON list, a .npy or .json file, or - for stdin.",
)
@click.option(
    "--session",
    metavar="NAME",
    help="The conversation that it belongs to: links it to others of that.",
)
@click.option("--importance", type=click.FloatRange(0, 1), help="From 0 to 1 (0.5).")
@click.option(
    "--category",
    metavar="NAME",
    help="How it fades: episodic, semantic, procedural, core; others as episodic.",
)
@click.option("--fingerprint", metavar="TEXT", help="A key by which it is found exactly.")
@click.option("--external-ref", metavar="TEXT", help="Its name in another system.")
@click.option("--author", metavar="NAME", help="Who wrote it.")
@click.option(
    "--supersedes", multiple=True, metavar="ID", help="A note that this one takes the place of."
)
@embedder_option
@preset_option
@operation_option
@store_options
@click.pass_obj
def write(
    app: App,
    /,
    *,
    text: str,
    concepts: tuple[str, ...],
    no_concepts: bool,
    subjects: tuple[str, ...],
    note_id: str | None,
    meta: tuple[str, ...],
    supersedes: tuple[str, ...],
    vector: str | None,
    operation_id: str | None,
    **fields: Any,
) -> None:
    """Write one note and print its id.

    Concepts are names that notes share: every two of one note are linked. Without -c they are
    extracted from the text. A store that is not there yet is made.
    """
    if concepts and no_concepts:
        raise click.UsageError("--concept and --no-concepts exclude each other.")
    given = {key: value for key, value in fields.items() if value is not None}
    if vector is not None:
        given["vector"] = vector_of(vector, text)
    if text == "-":
        text = read_stdin()
    if concepts or no_concepts:
        given["concepts"] = list(concepts)
    if subjects:
        given["subjects"] = list(subjects)
    if meta:
        given["metadata"] = parse_pairs(meta, "--meta")
    if supersedes:
        given["supersedes"] = list(supersedes)
    if not os.path.exists(app.path()):  # what cannot be written makes no store
        import fastassoc as fa

        trial = fa.Memory(settings=app.preset_settings(), embedder=app.embedder_name())
        trial.write(text, id=note_id, operation_id=operation_id, **given)
    with app.open(create=True, embeds=True) as mem:
        made = mem.write(text, id=note_id, operation_id=operation_id, **given)
        note = mem.get(made)
        bare = note.vector is None and app.names_no_embedder
        left_out = mem.embedder if bare else None
    if app.json:
        app.emit({"id": str(made), "concepts": note.concepts, **made.report.to_dict()})
        return
    click.echo(str(made))
    if made.repeated:
        app.say("this operation id was done before; nothing changed")
    carried = ", ".join(note.concepts)
    app.say(f"concepts: {carried}" if carried else "no concepts: it links nothing by concepts")
    if made.report.missing:
        app.say(f"no such notes to supersede: {', '.join(made.report.missing)}")
    if left_out is not None:
        app.say(without_embedder(left_out))


@click.command(epilog=example("fastassoc get note-17", "fastassoc get note-17 --json"))
@click.argument("note_id", metavar="ID")
@store_options
@click.pass_obj
def get(app: App, note_id: str) -> None:
    """Show one note whole: text, fields, and how well it is kept.

    "stability" says how well it withstands time, "accesses" how many reinforced reads returned
    it. A note of the cold tier is found by links, words and concepts, not by its vector.
    """
    with app.open(read_only=True) as mem:
        note = mem.get(note_id)
    if app.json:
        app.emit(note_document(note, vector=True))
        return
    from fastassoc.cli.show import show_note

    show_note(app, note)


@click.command(
    epilog=example(
        "fastassoc forget note-17 note-18",
        "fastassoc forget --domain old --yes && fastassoc vacuum",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Every note whose metadata says so; 'domain' is a key too.",
)
@click.option("-d", "--domain", metavar="NAME", help="Every note of this domain.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a filter forgets notes.")
@operation_option
@store_options
@click.pass_obj
def forget(
    app: App,
    /,
    *,
    ids: tuple[str, ...],
    where: tuple[str, ...],
    domain: str | None,
    yes: bool,
    operation_id: str | None,
) -> None:
    """Forget notes; what was taught stays.

    What they wrote into links goes. Their text leaves the answers at once, and the files with the
    next 'vacuum'.
    """
    wanted = parse_where(where) or {}
    if domain is not None:
        wanted["domain"] = domain
    if bool(ids) == bool(wanted):
        raise click.UsageError("say which notes: by ID, or by --where or --domain (not both).")
    if wanted and not yes and not _agreed(wanted):
        app.say("nothing was forgotten")
        return
    with app.open() as mem:
        if ids:
            report = mem.forget(list(ids), operation_id=operation_id)
        else:
            report = mem.forget(where=wanted, operation_id=operation_id)
    if app.json:
        app.emit(report.to_dict())
        return
    click.echo(f"forgot {count(report.forgotten, 'note')}")
    if report.missing:
        app.say(f"not there: {', '.join(report.missing)}")


def _agreed(wanted: dict[str, Any]) -> bool:
    """Ask a person; where none sits, ``--yes`` must be said."""
    if not sys.stdin.isatty():
        raise click.UsageError("a filter forgets many notes at once: say --yes.")
    shown = ", ".join(f"{key} = {value}" for key, value in wanted.items())
    return click.confirm(f"Forget every note with {plain(shown)}?", err=True)
