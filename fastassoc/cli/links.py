"""Looking at links: ``graph``, and ``links show``, ``links top``, ``links export``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastassoc.cli.common import App, arrow, count, example, plain, store_options
from fastassoc.cli.outputs import check_files

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["graph", "links"]

layer_option = click.option(
    "--layer",
    type=click.Choice(["concept", "note", "cue"]),
    default="concept",
    show_default=True,
    help="Links between concepts, between notes by their ids, or from terms to notes.",
)
LIGHTEST = -1e12  # links of any weight


@click.command(
    epilog=example(
        "fastassoc graph timeout --depth 2", "fastassoc graph timeout --json | jq '.edges[].b'"
    )
)
@click.argument("concepts", nargs=-1, required=True)
@click.option("--depth", type=click.IntRange(1, 3), default=1, show_default=True, help="Steps.")
@click.option("--min-weight", type=float, help="Leave out lighter links.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="The most links shown.",
)
@store_options
@click.pass_obj
def graph(
    app: App, concepts: tuple[str, ...], depth: int, min_weight: float | None, limit: int
) -> None:
    """Show the links around some concepts as a tree."""
    with app.open(read_only=True) as mem:
        found = mem.graph(list(concepts), depth=depth, min_weight=min_weight, limit=limit)
    if app.json:
        app.emit(found.to_dict())
        return
    if not found.nodes:
        app.say(f"the store knows none of: {', '.join(concepts)}.")
        return
    _show_tree(app, found, list(concepts))
    if found.truncated:
        app.say(f"only the nearest and heaviest {count(limit, 'link')}; --limit shows more.")


def _show_tree(app: App, found: Any, seeds: list[str]) -> None:
    """A breadth-first tree from each seed; a link that closes a circle is not drawn twice."""
    from rich.text import Text
    from rich.tree import Tree

    near: dict[str, list[tuple[float, str]]] = {}
    for edge in found.edges:
        near.setdefault(edge["a"], []).append((edge["weight"], edge["b"]))
        near.setdefault(edge["b"], []).append((edge["weight"], edge["a"]))
    degrees = dict(found.nodes)
    folded = {seed.casefold() for seed in seeds}
    roots = [name for name in degrees if name.casefold() in folded] or list(degrees)[:1]
    seen = set(roots)
    trees = [(name, Tree(Text(f"{plain(name)}  {count(degrees[name], 'link')}", style="bold")))
             for name in roots]  # fmt: skip
    front = list(trees)
    while front:
        following = []
        for name, tree in front:
            for weight, other in sorted(near.get(name, ()), key=lambda item: (-item[0], item[1])):
                if other in seen:
                    continue
                seen.add(other)
                label = Text(f"{arrow(weight)} ", style="yellow").append(plain(other))
                following.append((other, tree.add(label)))
        front = following
    console = app.out()
    for _, tree in trees:
        console.print(tree)


@click.group()
def links() -> None:
    """Show links: of one name, the heaviest, all in a file."""


@links.command(
    epilog=example(
        "fastassoc links show timeout",
        "fastassoc links show timeout retry",
        "fastassoc links show note-17 --layer note",
    )
)
@click.argument("a")
@click.argument("b", required=False)
@layer_option
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many."
)
@store_options
@click.pass_obj
def show(app: App, a: str, b: str | None, layer: str, limit: int) -> None:
    """Show the links of A, heaviest first, or the one link between A and B.

    "written" is what live notes wrote, "taught" what feedback and 'link' added. Links between
    notes fade where the settings say so: "now" is the weight that reads see. With --layer cue, A
    is a term (a concept, a word of questions or a stem) or the id of a note, B the id of a note.
    """
    with app.open(read_only=True) as mem:
        if layer == "note":
            for name in (a, b):
                if name is not None:
                    mem.get(name)  # or say that there is no such note
            rows, first = fading(mem, limit, a, b), a
        elif layer == "cue":
            rows, first = cues(mem, limit, a, b), ""
        elif b is None:
            found = mem.graph([a], depth=1, min_weight=LIGHTEST, limit=limit)
            rows, first = found.edges, found.nodes[0][0] if found.nodes else a
        else:
            one = mem.links.get(a, b)
            rows, first = [] if one is None else [one], a
    if not app.json:  # a person reads from what was asked; files keep one order
        key = str.casefold if layer == "concept" else str
        turned = [key(row["b"]) == key(first) for row in rows]
        rows = [{**row, "a": row["b"], "b": row["a"]} if turn else row
                for row, turn in zip(rows, turned, strict=True)]  # fmt: skip
    _give(app, rows)


@links.command(
    epilog=example("fastassoc links top -n 10 --taught", "fastassoc links top --layer note")
)
@layer_option
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many."
)
@click.option("--taught", is_flag=True, help="By what was taught, not by weight.")
@store_options
@click.pass_obj
def top(app: App, layer: str, limit: int, taught: bool) -> None:
    """Show the heaviest links of the store; those between notes by their weight now."""
    from pyarrow import compute as pc

    with app.open(read_only=True) as mem:
        held = table_of(mem, layer)
        if layer == "note" and not taught:
            rows = fading(mem, limit)
        elif taught:
            table = held.to_arrow()
            table = table.filter(pc.field("taught") != 0)
            order: Any = [("taught", "descending"), ("a", "ascending"), ("b", "ascending")]
            rows = table.sort_by(order).slice(0, limit).to_pylist()
        else:
            rows = held.top(limit)
    _give(app, rows)


def table_of(mem: Any, layer: str) -> Any:
    """The links of a layer."""
    return {"concept": mem.links, "note": mem.note_links, "cue": mem.cue_links}[layer]


def cues(mem: Any, limit: int, a: str, b: str | None) -> list[dict[str, Any]]:
    """Links from a term to notes, or from terms to a note, heaviest first; or those to b."""
    if b is not None:
        mem.get(b)  # or say that there is no such note
    ends = {a, *mem.cue_links.named(a)}
    rows = mem.cue_links.top(1 << 31)
    if b is None:
        return [row for row in rows if row["a"] in ends or row["b"] == a][:limit]
    return [row for row in rows if row["a"] in ends and row["b"] == b]


def fading(
    mem: Any, limit: int, a: str | None = None, b: str | None = None
) -> list[dict[str, Any]]:
    """Links between notes with their weight now as ``effective``, heaviest first.

    Parameters
    ----------
    mem : Memory
    limit : int
    a, b : str, optional
        Only links of this note; only the one between these two.
    """
    held = mem.note_links
    if a is not None and b is not None:
        one = held.get(a, b)
        return [] if one is None else [{**one, "effective": held.weight(a, b)}]
    import numpy as np
    from scipy.sparse import triu

    names, weights = held.names(), held.to_scipy()
    if a is None:
        found = triu(weights).tocoo()
        ends = found.row, found.col
    else:
        place = {name: number for number, name in enumerate(names)}[a]  # the live one is the last
        found = weights[[place]].tocoo()
        ends = np.full(found.nnz, place), found.col
    rows = []
    for number in np.lexsort((ends[1], ends[0], -found.data))[:limit].tolist():
        one = held.get(*(names[int(end[number])] for end in ends))
        if one is not None:  # another process may have taken it away
            rows.append({**one, "effective": float(found.data[number])})
    return rows


@links.command(
    epilog=example(
        "fastassoc links export links.parquet",
        "duckdb -c \"select * from 'links.parquet' order by weight desc limit 5\"",
        "fastassoc links export notes.csv --layer note",
    )
)
@click.argument("file", type=click.Path(dir_okay=False))
@layer_option
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@store_options
@click.pass_obj
def export(app: App, file: str, layer: str, force: bool) -> None:
    """Write every link to FILE: .csv or .parquet; '-' is CSV, or --json lines, on stdout.

    Weights are as they were at "updated_at".
    """
    ending = ".csv" if file == "-" else Path(file).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise click.UsageError(f"found {file!r}, expected a name that ends in .csv or .parquet.")
    if file != "-" and os.path.exists(file) and not force:
        raise click.UsageError(f"{file} is there already; --force writes over it.")
    check_files(file)
    with app.open(read_only=True) as mem:
        rows = table_of(mem, layer).to_arrow()
    if file == "-" and app.json:
        app.lines(rows.to_pylist())
        return
    if file == "-":
        import sys

        from pyarrow import csv

        csv.write_csv(rows, _binary(sys.stdout))
        return
    _write_whole(rows, Path(file), ending)
    if app.json:
        app.emit({"file": file, "links": rows.num_rows})
    else:
        app.say(f"{count(rows.num_rows, 'link')} in {file}")


def _binary(stream: Any) -> Any:
    stream.flush()
    return getattr(stream, "buffer", stream)


def _write_whole(rows: pa.Table, file: Path, ending: str) -> None:
    """Write beside, then rename: an interrupted export leaves no half file."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        if ending == ".csv":
            from pyarrow import csv

            csv.write_csv(rows, str(beside))
        else:
            from pyarrow import parquet

            parquet.write_table(rows, str(beside))
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)


def _give(app: App, rows: list[dict[str, Any]]) -> None:
    if app.json:
        app.lines(rows)
        return
    if not rows:
        app.say("no such links.")
        return
    from fastassoc.cli.show import show_links

    show_links(app, rows)
