"""One handle at work at every call to the disk that another makes.

The first handle plays a scene; at one of its calls it stands still while the second, of the same
store, writes, snapshots or vacuums. Whatever the second one is told, all that was acknowledged
must be there exactly once, and the first must not fail for it.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import fastassoc as fa
from fastassoc.errors import StoreError, StoreLocked

from . import layer
from .crash import VERBS
from .judge import Judge, Violation, require
from .script import NOW, Ledger, Model, Stage, base, copy, room, small, strict, told

FIRST = ("write", "bulk", "snapshot", "vacuum", "forget")
SECOND = ("write", "snapshot", "vacuum")


class Between(layer.Wire):
    """Lets another act at one call."""

    def __init__(self, root: Any, at: int, act: Callable[[], None]) -> None:
        super().__init__(root)
        self.at, self.act, self.count, self.busy = at, act, 0, False
        self.armed = False

    def perform(self, call: layer.Call, do: layer.Do, half: layer.Do | None = None) -> Any:
        if self.armed and not self.busy:
            if self.count == self.at:
                self.busy = True
                try:
                    self.act()
                finally:
                    self.busy = False
            self.count += 1
        return do()


@dataclass
class Tally:
    played: int = 0
    waited: int = 0
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run(
    *,
    seed: int = 1,
    points: int | None = None,
    sabotage: Callable[[], Any] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Tally:
    """Play all pairs at all calls, or so many drawn by the seed; a sabotage ends when caught."""
    tally, begun, place = Tally(), time.monotonic(), room()
    draw = random.Random(seed)
    try:
        with ExitStack() as held:
            held.enter_context(small())
            with told(Ledger()) as before:
                base("two", place / "base")
            if sabotage is not None:
                held.enter_context(sabotage())
            every: list[tuple[str, str, int]] = []
            for first in FIRST:
                calls = _play(place, first, "write", -1, before, Tally())
                every += [(first, second, at) for second in SECOND for at in range(calls)]
            if points is not None:
                every = draw.sample(every, min(points, len(every)))
            for first, second, at in every:
                tally.played += 1
                try:
                    _play(place, first, second, at, before, tally)
                except Exception as error:
                    name = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
                    text = f"{second} at call {at} of {first}: {name}{error}"
                    tally.violations.append(text)
                    if tell is not None:
                        tell(f"VIOLATION {text}")
                    if sabotage is not None:
                        break
    finally:
        shutil.rmtree(place, ignore_errors=True)
    tally.seconds = time.monotonic() - begun
    return tally


def _play(place: Any, first: str, second: str, at: int, before: Ledger, tally: Tally) -> int:
    root = place / "pair"
    shutil.rmtree(root, ignore_errors=True)
    copy(place / "base", root)
    one, two = Stage(root), Stage(root)

    def act() -> None:
        try:
            VERBS[second](two, 77)
        except StoreLocked:
            tally.waited += 1
        except StoreError as error:
            require("taking a snapshot" in str(error), f"the second was told: {error}")
            tally.waited += 1

    wire = Between(root, at, act)
    with told(Ledger(list(before.positions), dict(before.operations))) as ledger:
        with strict() as warned, layer.on(wire):
            one.open()
            two.mem = fa.open(root / "s.fa", clock=lambda: NOW, timeout=0.0)
            wire.armed = True
            VERBS[first](one, 5)
            wire.armed = False
            positions = one.mem.position, two.mem.position
            one.close()
            two.close()
        require(not warned, f"warned: {warned}")
        done = ledger.positions
        require(len(set(done)) == len(done), "a position was given twice")
        require(done == list(range(done[0], done[0] + len(done))) or done[0] == 1, f"gaps: {done}")
        last = ledger.last
        require(positions == (last, last), f"the handles are at {positions}, not at {last}")
        judge = Judge(Model(ledger.operations, last, asked=False), whole=1)
        judge.look(root / "s.fa", last, last)
    return wire.count


__all__ = ["Tally", "run"]
