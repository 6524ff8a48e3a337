"""The command ``info``: a store at a glance."""

from __future__ import annotations

from typing import Any

import click

from fastassoc.cli.common import App, example, number, plain, size, store_argument, store_options

__all__ = ["info"]


@click.command(epilog=example("fastassoc info support.fa"))
@store_argument
@store_options
@click.pass_obj
def info(app: App) -> None:
    """Show a store at a glance: contents, size, settings."""
    with app.open(read_only=True) as mem:
        found = mem.info()
        defaults = type(mem.settings).counts().to_dict()
    if app.json:
        app.emit(found)
        return
    from rich.text import Text

    console = app.out()
    console.print(Text(plain(app.path()), style="bold"), soft_wrap=True)
    rows = _rows(found)
    changed = {
        name: value for name, value in found["settings"].items() if defaults.get(name) != value
    }
    rows.append(("settings", "default" if not changed else ""))
    rows.extend((f"  {name}", str(value)) for name, value in changed.items())
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(Text(f"  {name:<{width}}  {value}"), soft_wrap=True)


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What a person asks first, in that order."""
    notes = f"{found['notes']:,}"
    if found["superseded"]:
        notes += f" ({found['superseded']:,} superseded)"
    links = found["links"]
    each = f" ({found['link_bytes'] / links:.0f} bytes each in memory)" if links else ""
    domains = sorted(found["domains"].items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{plain(name)} {count:,}" for name, count in domains[:8]]
    more = [f"and {len(domains) - 8} more"] if len(domains) > 8 else []
    journal = f"{found['journal_operations']:,} operations, {size(found['journal_bytes'])}"
    return [
        ("notes", notes),
        ("domains", ", ".join([*shown, *more]) or "none"),
        ("concepts", f"{found['concepts']:,}"),
        ("links", f"{links:,}{each}"),
        ("followed by reads", f"{found['links_followed']:,} links at the threshold or above"),
        ("mean valence", number(found["avg_valence"])),
        ("size on disk", size(found["bytes"])),
        ("journal", journal),
        ("snapshot", f"at position {found['snapshot_position']:,}"),
        ("position", f"{found['position']:,}"),
        ("format, sync", f"{found['format']}, {found['sync']}"),
    ]
