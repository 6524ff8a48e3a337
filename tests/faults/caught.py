"""Which sabotages the instruments catch, and by what."""

from __future__ import annotations

from collections.abc import Iterator

from . import between, crash, sabotage

SEQUENCES = [
    crash.Sequence("two", ("snapshot", "write")),
    crash.Sequence("two", ("write", "snapshot", "write")),
]


def by_states(name: str) -> list[str]:
    return crash.run(SEQUENCES, sabotage=sabotage.CUTS[name], states=2000).violations


def by_damage(name: str) -> list[str]:
    return crash.damaged(count=100, sabotage=sabotage.DAMAGE[name])


def by_pairs(name: str) -> list[str]:
    return between.run(points=60, sabotage=sabotage.LOCKS[name]).violations


def all_of() -> Iterator[tuple[str, list[str]]]:
    """Each sabotage, and the violations that gave it away."""
    for name in sabotage.CUTS:
        yield name, by_states(name)
    for name in sabotage.DAMAGE:
        yield name, by_damage(name)
    for name in sabotage.LOCKS:
        yield name, by_pairs(name)
