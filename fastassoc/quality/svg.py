"""Plots as inline SVG, made of nothing but text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["bars", "curves", "histograms", "stacks"]

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
    out = [_open(height, title), *_scale(most, height, unit)]
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
        told = f"{value:.3g}{unit}" if unit else f"{value:.3f}"
        out.append(_text(max(x1, x2) + 6, y + 13, told, "start", "value"))
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


def stacks(rows: Sequence[tuple[str, Mapping[str, float]]], title: str, unit: str = "") -> str:
    """Bars of parts one after another, each part in the same tone in every bar, with a legend.

    Examples
    --------
    >>> "scan" in stacks([("flat", {"scan": 0.1, "score": 0.2})], "stages", " ms")
    True
    """
    names = list(dict.fromkeys(name for _, parts in rows for name in parts))
    most = max([sum(parts.values()) for _, parts in rows] or [1.0]) or 1.0
    height = ROW * (len(rows) + 1) + 26
    out = [_open(height, title), *_scale(most, height, unit)]
    for number, (label, parts) in enumerate(rows):
        y, x = 6 + ROW * number, float(LABEL)
        out.append(_text(LABEL - 8, y + 13, label, "end", "label"))
        for name, value in parts.items():
            wide = PLOT * value / most
            out.append(
                f'<rect class="bar" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{ROW - 8}" '
                f'fill-opacity="{_tone(names, name)}"><title>{escape(name)}: {value:.4g}{unit}'
                "</title></rect>"
            )
            x += wide
        out.append(_text(x + 6, y + 13, f"{sum(parts.values()):.3g}{unit}", "start", "value"))
    x, y = float(LABEL), 6 + ROW * len(rows)
    for name in names:
        out.append(
            f'<rect class="bar" x="{x:.1f}" y="{y}" width="12" height="12" '
            f'fill-opacity="{_tone(names, name)}"/>'
        )
        out.append(_text(x + 17, y + 11, name, "start", "axis"))
        x += 34 + 7 * len(name)
    return "".join([*out, "</svg>"])


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]], title: str, across: str, up: str
) -> str:
    """Points joined by lines, the upward axis logarithmic; each point says what it is.

    Examples
    --------
    >>> "<circle" in curves({"index": [(0.98, 5000.0), (1.0, 900.0)]}, "speed", "recall", "qps")
    True
    """
    points = [point for some in series.values() for point in some if point[1] > 0]
    xs, ys = ([p[0] for p in points] or [0.0]), ([math.log10(p[1]) for p in points] or [0.0])
    left, right = min(xs), max(xs)
    left, right = (left - 0.01, right + 0.01) if left == right else (left, right)
    low, high = math.floor(min(ys)), max(math.floor(min(ys)) + 1, math.ceil(max(ys)))
    top, edge, wide = 28, 70, WIDTH - 250
    tall = max(220, 18 * len(series))
    out = [_open(top + tall + 40, title), _text(4, 14, up, "start", "axis")]

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(y) - low) / (high - low)
        return edge + wide * (x - left) / (right - left), top + tall * (1 - share)

    for power in range(low, high + 1):
        _, y = place(left, 10.0**power)
        out.append(f'<line class="grid" x1="{edge}" y1="{y:.1f}" x2="{edge + wide}" y2="{y:.1f}"/>')
        out.append(_text(edge - 8, y + 4, f"{10.0**power:g}", "end", "axis"))
    for at in range(5):
        value = left + (right - left) * at / 4
        out.append(_text(edge + wide * at / 4, top + tall + 16, f"{value:.4g}", "middle", "axis"))
    out.append(_text(edge + wide / 2, top + tall + 34, across, "middle", "axis"))
    for number, (name, some) in enumerate(series.items()):
        spots = [(*place(x, y), x, y) for x, y in sorted(some) if y > 0]
        hue = f"hsl({(210 + 137 * number) % 360} 55% 50%)"  # each far from the ones before
        if len(spots) > 1:
            way = "L".join(f"{x:.1f} {y:.1f}" for x, y, *_ in spots)
            out.append(f'<path class="whisker" d="M{way}" style="stroke:{hue}"/>')
        for x, y, across_value, up_value in spots:
            out.append(
                f'<circle class="bar" cx="{x:.1f}" cy="{y:.1f}" r="4" style="fill:{hue}">'
                f"<title>{escape(name)}: {across_value:.4g}, {up_value:.5g}</title></circle>"
            )
        y = top + 6 + 18 * number
        dot = f'<circle class="bar" cx="{edge + wide + 16}" cy="{y}" r="4" style="fill:{hue}"/>'
        out += [dot, _text(edge + wide + 26, y + 4, name, "start", "label")]
    return "".join([*out, "</svg>"])


def _tone(names: Sequence[str], name: str) -> str:
    """How strong the colour of one of several is, the first the strongest."""
    return f"{1 - 0.8 * list(names).index(name) / max(1, len(names) - 1):.2f}"


def _scale(most: float, height: float, unit: str) -> list[str]:
    """Five lines upright, with what they stand for."""
    out = []
    for at in range(5):
        x = LABEL + PLOT * at / 4
        out.append(f'<line class="grid" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 20}"/>')
        out.append(_text(x, height - 6, f"{most * at / 4:.3g}{unit}", "middle", "axis"))
    return out


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
