"""The walk of associations in dicts and loops, from the rule alone."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)  # an id, or a name
Links = Mapping[tuple[Name, Name], float]  # effective weights; each pair once


def neighbours(links: Links[Name]) -> dict[Name, dict[Name, float]]:
    """Both directions of the positive links."""
    near: dict[Name, dict[Name, float]] = {}
    for (a, b), weight in links.items():
        if weight > 0:
            near.setdefault(a, {})[b] = weight
            near.setdefault(b, {})[a] = weight
    return near


def matrix(links: Links[Name], back: float, power: float = 1.0) -> dict[Name, dict[Name, float]]:
    """W: w over a's degree, and `back` times that over b's; each row sums to 1.

    w is the weight to a power.
    """
    near = {a: {b: w**power for b, w in row.items()} for a, row in neighbours(links).items()}
    degree = {a: math.fsum(row.values()) for a, row in near.items()}
    out = {}
    for a, row in near.items():
        shares = {b: w / degree[a] + back * w / degree[b] for b, w in row.items()}
        total = math.fsum(shares.values())
        out[a] = {b: share / total for b, share in shares.items()}
    return out


def walk(
    links: Links[Name],
    cues: Iterable[Name],
    steps: int,
    stay: float,
    back: float,
    power: float = 1.0,
) -> dict[Name, float]:
    """What each id but the cues holds after some steps."""
    cues = set(cues)
    rows = matrix(links, back, power)
    start = {cue: 1 / len(cues) for cue in cues}
    x = dict(start)
    for _ in range(steps):
        new = {cue: stay * share for cue, share in start.items()}
        for a, share in x.items():
            for b, w in rows.get(a, {}).items():
                new[b] = new.get(b, 0.0) + (1 - stay) * w * share
        x = new
    return {a: share for a, share in x.items() if a not in cues and share > 0}
