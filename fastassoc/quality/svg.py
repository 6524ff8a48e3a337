"""Plots as inline SVG, made of nothing but text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["bars", "histograms"]

WIDTH, LABEL, ROW = 720, 250, 24
PLOT = WIDTH - LABEL - 70
Bar = tuple[str, float, float, float]  # label, value, and the ends of its interval


def bars(rows: Sequence[Bar], title: str, top: float | None = 1.0, unit: str = "") -> str:
    """Bars from 0 with the interval of each as a whisker; `top` None takes the largest.

    Examples
    --------
    >>> "<svg" in bars([("flat", 0.5, 0.4, 0.6)], "recall@5")
    True
    """
    most = top or max([high for *_, high in rows] or [1.0]) or 1.0
    height = ROW * len(rows) + 26
    out = [_open(height, title)]
    for at in range(5):
        x = LABEL + PLOT * at / 4
        out.append(f'<line class="grid" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 20}"/>')
        out.append(_text(x, height - 6, f"{most * at / 4:.3g}{unit}", "middle", "axis"))
    for number, (label, value, low, high) in enumerate(rows):
        y = 6 + ROW * number
        x0, x1, x2 = (LABEL + PLOT * min(1.0, max(0.0, v / most)) for v in (low, value, high))
        out.append(_text(LABEL - 8, y + 13, label, "end", "label"))
        out.append(
            f'<rect class="bar" x="{LABEL}" y="{y}" width="{x1 - LABEL:.1f}" height="{ROW - 8}">'
            f"<title>{escape(label)}: {value:.3f} ({low:.3f} to {high:.3f})</title></rect>"
        )
        middle = y + (ROW - 8) / 2
        if high > low:
            out.append(
                f'<path class="whisker" d="M{x0:.1f} {middle}H{x2:.1f}M{x0:.1f} {middle - 4}v8'
                f'M{x2:.1f} {middle - 4}v8"/>'
            )
        out.append(_text(max(x1, x2) + 6, y + 13, f"{value:.3f}".rstrip() + unit, "start", "value"))
    return "".join([*out, "</svg>"])


def histograms(rows: Sequence[tuple[str, Sequence[int]]], title: str, bound: float) -> str:
    """Histograms over [0, 1], one under the other, each by its own height, with a bound marked.

    Examples
    --------
    >>> "<svg" in histograms([("own", [0, 3, 1])], "scores", 0.3)
    True
    """
    tall = 40
    height = (tall + 10) * len(rows) + 26
    out = [_open(height, title)]
    for number, (label, counts) in enumerate(rows):
        base = 6 + (tall + 10) * number + tall
        most, step = max([*counts, 1]), PLOT / max(1, len(counts))
        out.append(_text(LABEL - 8, base - tall / 2 + 4, label, "end", "label"))
        out.append(f'<line class="grid" x1="{LABEL}" y1="{base}" x2="{LABEL + PLOT}" y2="{base}"/>')
        for at, count in enumerate(counts):
            high = tall * count / most
            out.append(
                f'<rect class="bar" x="{LABEL + step * at:.1f}" y="{base - high:.1f}" '
                f'width="{step - 1:.1f}" height="{high:.1f}"><title>{count}</title></rect>'
            )
    x = LABEL + PLOT * bound
    out.append(f'<line class="bound" x1="{x:.1f}" y1="2" x2="{x:.1f}" y2="{height - 20}"/>')
    for value in (0.0, bound, 0.5, 1.0):
        out.append(_text(LABEL + PLOT * value, height - 6, f"{value:g}", "middle", "axis"))
    return "".join([*out, "</svg>"])


def _open(height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>"
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(text.strip())}</text>"
    )
