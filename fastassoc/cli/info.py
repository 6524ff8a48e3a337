"""The command ``info``: a store at a glance."""

from __future__ import annotations

from typing import Any

import click

from fastassoc.cli.common import (
    PRESETS,
    App,
    count,
    example,
    number,
    plain,
    size,
    store_argument,
    store_options,
)
from fastassoc.cli.vectors import index_line

__all__ = ["info"]


@click.command(epilog=example("fastassoc info support.fa"))
@store_argument
@store_options
@click.pass_obj
def info(app: App) -> None:
    """Show a store at a glance: contents, vectors, size, settings."""
    with app.open(read_only=True) as mem:
        found = mem.info()
        presets = {name: getattr(type(mem.settings), name)().to_dict() for name in PRESETS}
    if app.json:
        app.emit(found)
        return
    from rich.text import Text

    console = app.out()
    console.print(Text(plain(app.path()), style="bold"), soft_wrap=True)
    rows = _rows(found)
    preset, changed = _settings(found["settings"], presets)
    rows.append(("settings", f"{preset}, but for" if changed else preset))
    rows.extend((f"  {name}", str(value)) for name, value in changed.items())
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(Text(f"  {name:<{width}}  {value}"), soft_wrap=True)


def _settings(
    held: dict[str, Any], presets: dict[str, dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """The preset that the settings are nearest to, and what differs from it."""
    differing = {
        preset: {name: value for name, value in held.items() if values.get(name) != value}
        for preset, values in presets.items()
    }
    nearest = min(differing, key=lambda preset: len(differing[preset]))
    return nearest, differing[nearest]


def _vectors(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The notes as points: how many, whose, how they are searched."""
    made, moving, index = found["embedder"], found["reembed"], found["index"]
    vectors = f"{found['vectors']:,} of {count(found['notes'], 'note')}"
    if found["dim"] is not None:
        vectors += f", {count(found['dim'], 'number')} each"
    rows = [("vectors", vectors)]
    if made is not None or found["vectors"]:
        name = "none, callers give vectors" if made is None else f"{made['name']} ({made['dim']})"
        rows.append(("embedder", plain(name)))
    if moving is not None:
        told = f"{moving['name']}, {moving['done']:,} of {count(moving['total'], 'note')} done"
        rows.append(("moving to", plain(told)))
    if found["vectors"]:
        rows.append(("vector index", index_line(found)))
    if index is not None and index["tried"]:
        tried = ", ".join(f"{kind} with recall {recall:.3f}" for kind, recall in index["tried"])
        rows.append(("tried", tried))
    return rows


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What a person asks first, in that order."""
    notes = f"{found['notes']:,}"
    if found["superseded"]:
        notes += f" ({found['superseded']:,} superseded)"
    links = found["links"]
    each = f" ({count(found['link_bytes'] / links, 'byte')} each in memory)" if links else ""
    domains = sorted(found["domains"].items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{plain(name)} {count:,}" for name, count in domains[:8]]
    more = [f"and {len(domains) - 8} more"] if len(domains) > 8 else []
    followed = count(found["links_followed"], "link")
    journal = f"{count(found['journal_operations'], 'operation')}, {size(found['journal_bytes'])}"
    return [
        ("notes", notes),
        ("domains", ", ".join([*shown, *more]) or "none"),
        ("concepts", f"{found['concepts']:,}"),
        ("links", f"{links:,}{each}"),
        ("followed by reads", f"{followed} at the threshold or above"),
        ("note links", f"{found['note_links']:,}"),
        ("cue links", f"{found['cue_links']:,} from terms of questions to notes"),
        *_vectors(found),
        ("tiers", f"{found['notes'] - found['cold']:,} hot, {found['cold']:,} cold"),
        ("core notes", f"{found['core']:,}"),
        ("mean valence", number(found["avg_valence"])),
        ("size on disk", size(found["bytes"])),
        ("journal", journal),
        ("snapshot", f"at position {found['snapshot_position']:,}"),
        ("position", f"{found['position']:,}"),
        ("format, sync", f"{found['format']}, {found['sync']}"),
    ]
