"""A page of HTML that needs nothing beside it: its style, its paragraphs, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["document", "soft", "table"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #66788a; --line: #d5dde5;
  --bar: #3f7fb8; --page: #fbfcfd; --mark: #c2472b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4eaf0; --soft: #93a3b3; --line: #33414f;
  --bar: #5b9bd3; --page: #161d24; --mark: #ec7a5c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
p.soft, caption, .soft { color: var(--soft); }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .8rem 0; }
caption { text-align: left; }
td, th { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
td:first-child, th:first-child { text-align: left; }
td small { color: var(--soft); }
svg { width: 100%; max-width: 720px; height: auto; display: block; margin: .8rem 0; }
svg text { font-size: 12px; fill: var(--ink); } svg .axis { fill: var(--soft); }
svg .bar { fill: var(--bar); } svg .grid { stroke: var(--line); }
svg .whisker { stroke: var(--ink); fill: none; } svg .bound { stroke: var(--mark); }
"""


def document(title: str, body: str) -> str:
    """A whole document, with no reference to anything outside."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def soft(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table; the first column is text, the others are made here already."""
    title = f"<caption>{escape(caption.strip())}</caption>" if caption else ""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join(
        f"<tr><td>{escape(row[0].strip())}</td>{''.join(f'<td>{c}</td>' for c in row[1:])}</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table>{title}<thead><tr>{top}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )
