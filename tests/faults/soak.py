"""A store in use for a long time: writers that are killed, clocks that jump, forced snapshots.

The notes and links are bounded, the operations are not. A state of its own is fed with the
journal's rows before a snapshot drops them, and never with a snapshot: at the end the store must
hold the same. A process that is never killed opens and closes the store all the time, and tells
what it occupies.
"""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc import store as stores
from fastassoc.errors import StoreLocked
from fastassoc.journal import Journal
from fastassoc.settings import Settings
from fastassoc.state import State
from fastassoc.store import Store

from .children import start
from .client import WORDS, Asker, Plan, clock
from .judge import Violation, require
from .many import warmed
from .script import NOW, room

NOTES = 60  # ids of each writer
NAMES = 40
TURN = 500  # operations between two opens
VERBS = ["write_batch"] * 3 + ["feedback", "link", "unlink", "update", "forget", "read", "tick"]
GROWTH, DISK = 1.05, 1.5
ID = 64  # bytes on the disk of an operation's id, which is kept for a week or a million of them


class Bounded(Asker):
    """Calls on so many notes and no more."""

    def call(self, n: int) -> tuple[str, list[Any], dict[str, Any]]:
        draw = random.Random(f"{self.plan.seed} {self.name} {n}")
        verb = draw.choice(VERBS)
        args, more = getattr(self, verb)(draw, n)
        if verb not in ("read", "tick") and draw.random() < 0.5:
            more["operation_id"] = f"{self.name}-{n}"
        return verb, args, more

    def note(self, draw: random.Random, n: int) -> str:
        return f"{draw.choice(self.others)}-{draw.randrange(NOTES)}"

    def names(self, draw: random.Random, most: int = 4) -> list[str]:
        return [f"c{draw.randrange(NAMES)}" for _ in range(draw.randint(0, most))]

    def write_batch(self, draw: random.Random, n: int) -> Any:
        count = 10 if draw.random() < 0.02 else draw.randint(1, 2)
        rows = [self.row(draw, self.note(draw, n)) for _ in range(count)]
        for row in rows:
            row.pop("supersedes", None)
        return [rows], {"on_duplicate": "replace"}

    def read(self, draw: random.Random, n: int) -> Any:
        return [], {"concepts": [draw.choice(WORDS)], "reinforce": True, "k": 4}


@dataclass
class Report:
    operations: int = 0
    acknowledged: int = 0
    killed: int = 0
    snapshots: int = 0
    vacuums: int = 0
    opens: int = 0
    resident: tuple[float, float] = (0.0, 0.0)  # MB, early and late
    descriptors: tuple[int, int] = (0, 0)
    disk: tuple[float, float] = (0.0, 0.0)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.operations:,} operations ({self.acknowledged:,} of them to the one that is "
            f"never killed), {self.killed} killed, {self.snapshots} snapshots, {self.vacuums} "
            f"vacuums, {self.opens} opens; resident {self.resident[0]:.1f} to "
            f"{self.resident[1]:.1f} MB, descriptors {self.descriptors[0]} to "
            f"{self.descriptors[1]}, disk at most {self.disk[0]:.1f} then {self.disk[1]:.1f} MB; "
            f"{len(self.violations)} violations, {self.seconds:.0f} s"
        )


# -- those who write -------------------------------------------------------------------------------


def writer(plan: Plan, name: str, measure: bool) -> None:
    """Write until the stop file is there; with `measure`, tell at each open what is occupied."""
    stores.BULK_ROWS = 8
    draw = random.Random(f"{plan.seed} {name} {os.getpid()}")
    asker, now, n = Bounded(plan, name), clock(draw), draw.getrandbits(40)
    positions, slot, last = plan.positions(), plan.slots[name], 0
    while not plan.stop.exists():
        with fa.open(plan.store, create=False, clock=now, sync="normal", timeout=30) as mem:
            require(mem.position >= last, "an open went back")
            for _ in range(TURN):
                n += 1
                verb, args, more = asker.call(n)
                with suppress(StoreLocked, fa.errors.NoteNotFound, fa.errors.InvalidInput):
                    told = getattr(mem, verb)(*args, **more).position
                    require(told >= last, f"{verb} went back, {told} after {last}")
                    last = told
                    positions[slot] = last
                    positions[slot + 32] += 1
                if n % 50 == 0 and plan.stop.exists():
                    break
        if measure:
            del mem
            gc.collect()
            with (plan.root / "measured").open("a") as file:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                file.write(json.dumps([pages * 4096, len(os.listdir("/proc/self/fd"))]) + "\n")


def started(plan: Plan, name: str) -> int:
    return start(lambda: writer(plan, name, name == "w0"), (plan.root / f"wrong-{name}").write_text)


# -- the one who watches ---------------------------------------------------------------------------


class Replica:
    """A state made of the journal's rows alone."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal.open(path)
        self.store = Store(self.journal)
        self.state: State | None = None

    def follow(self) -> None:
        after = 0 if self.state is None else self.state.position
        self.state = self.store._replay(self.state, self.journal.read(after))


@contextmanager
def before_rows_go(replica: Replica) -> Iterator[None]:
    """Show the rows to the replica before this process drops them: no other one does."""
    publish, drop = Journal.publish, Journal.drop

    def published(self: Journal, *rest: Any, **more: Any) -> Any:
        replica.follow()
        return publish(self, *rest, **more)

    def dropped(self: Journal, *rest: Any, **more: Any) -> Any:
        replica.follow()
        return drop(self, *rest, **more)

    Journal.publish, Journal.drop = published, dropped  # type: ignore[method-assign]
    try:
        yield
    finally:
        Journal.publish, Journal.drop = publish, drop  # type: ignore[method-assign]


def occupied(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def run(
    *,
    minutes: float = 30.0,
    ops: int = 1_000_000,
    seed: int = 1,
    kills: float = 5.0,
    writers: int = 2,
    tell: Callable[[str], None] | None = None,
) -> Report:
    """Work until there were so many operations, or for so long.

    Of the writers one is killed every `kills` seconds, but never the first.
    """
    report, begun = Report(), time.monotonic()
    place = room() / "soak"
    place.mkdir()
    names = [f"w{n}" for n in range(writers + 1)]
    plan = Plan(place, seed, 0, slots={name: n for n, name in enumerate(names)})
    (place / "positions").write_bytes(bytes(8 * 64))
    stores.SNAPSHOT_OPERATIONS = 1 << 40  # forced ones only, so that the replica sees all rows
    stores.BULK_ROWS = 8
    warmed(plan)
    fa.open(plan.store, settings=Settings.cognitive(), clock=lambda: NOW).close()
    living: dict[int, str] = {}
    try:
        watch(plan, report, living, begun + 60 * minutes, ops, kills, tell)
        judge(plan, report)
    except Violation as error:
        report.violations.append(str(error))
    finally:
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(place.parent, ignore_errors=True)
    report.seconds = time.monotonic() - begun
    return report


def watch(
    plan: Plan,
    report: Report,
    living: dict[int, str],
    end: float,
    ops: int,
    kills: float,
    tell: Callable[[str], None] | None,
) -> None:
    draw, sizes, turn = random.Random(plan.seed), list[int](), 0
    names = list(plan.slots)
    for name in names:
        living[started(plan, name)] = name
    replica = Replica(plan.store)
    positions = plan.positions()
    with before_rows_go(replica):
        while time.monotonic() < end and int(positions.max()) < ops:
            turn += 1
            time.sleep(kills)
            victim = draw.choice([pid for pid, name in living.items() if name != "w0"])
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            replica.follow()
            for pid in list(living):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    name = living.pop(pid)
                    require(os.WIFSIGNALED(status), wrong(plan, name))
                    report.killed += 1
                    living[started(plan, name)] = name
            report.snapshots += 1
            with fa.open(plan.store, create=False, clock=clock(draw), timeout=30) as mem:
                with suppress(StoreLocked):
                    mem.snapshot()
                if turn % 4 == 3:
                    report.vacuums += 1
                    with suppress(StoreLocked, fa.errors.VacuumIncomplete):
                        mem.vacuum()
                sizes.append(occupied(plan.store))
            if tell is not None and turn % 12 == 0:
                tell(f"{int(positions.max()):,} operations, {sizes[-1] / 1e6:.1f} MB on the disk")
        plan.stop.touch()
        for pid, name in list(living.items()):
            status = os.waitpid(pid, 0)[1]
            del living[pid]
            require(status == 0, wrong(plan, name))
        replica.follow()
        same_as(plan, replica, report)
    third = len(sizes) // 3
    report.disk = max(sizes[third : 2 * third] or [0]) / 1e6, max(sizes[2 * third :]) / 1e6


def wrong(plan: Plan, name: str) -> str:
    told = plan.root / f"wrong-{name}"
    return f"{name}: {told.read_text() if told.exists() else 'it ended'}"


def same_as(plan: Plan, replica: Replica, report: Report) -> None:
    """The store holds what its rows make, and every acknowledged operation."""
    positions, state = plan.positions(), replica.state
    assert state is not None
    with fa.open(plan.store, create=False, clock=lambda: NOW) as mem:
        found = mem.verify(digest=True)
        require(found.ok, f"verify found {found.problems}")
        require(found.position == state.position, f"{found.position}, not {state.position}")
        require(found.digest == state.digest(), "the state is another than the journal's")
        require(found.position >= int(positions[:32].max()), "acknowledged operations are gone")
        report.operations = found.position
    report.acknowledged = int(positions[32 + plan.slots["w0"]])
    replica.journal.close()


def judge(plan: Plan, report: Report) -> None:
    lines = (plan.root / "measured").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    report.opens = len(told)
    require(len(told) >= 4, f"only {len(told)} opens: too short to say anything")
    quarter = max(1, len(told) // 4)
    early, late = told[quarter : 2 * quarter], told[-quarter:]
    report.resident = max(r for r, _ in early) / 1e6, max(r for r, _ in late) / 1e6
    report.descriptors = max(d for _, d in early), max(d for _, d in late)
    first, last = report.resident
    require(last <= GROWTH * first, f"resident grew from {first:.1f} to {last:.1f} MB")
    before, after = report.descriptors
    require(after <= before, f"descriptors grew from {before} to {after}")
    if report.vacuums >= 6:
        ids = ID * report.operations / 3 / 1e6  # those of the last third
        require(report.disk[1] - ids <= DISK * report.disk[0], f"the disk grew: {report.disk}")


__all__ = ["Report", "run"]
