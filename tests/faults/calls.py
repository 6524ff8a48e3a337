"""Every call to the disk fails in turn: killed, refused, broken; before, half-way, after.

For each scene of the script the calls are counted in a run without faults. A point is one call and
one fault; it is played on a fresh copy of the scene's store, and then the store must hold what was
acknowledged and at most one operation more, open without a flag, answer as the model does, and
take the operation again.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from fastassoc.errors import ClosedHandle, FastAssocError, OutcomeUnknown, StoreNotFound

from . import layer
from .judge import SETTLED, Judge, Violation, require
from .script import SCENES, Ledger, Model, Scene, Stage, base, copy, room, small, strict, told

CODES = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EINTR": errno.EINTR}
CHANGES = ("create", "mkdir", "rmdir", "rename", "link", "unlink", "truncate", "chmod", "touch")


class Fault(NamedTuple):
    """What goes wrong, and when: before the call is done, half-way, or after it.

    `stays` keeps the disk as it is then: every later call that changes something fails, too.
    """

    what: str
    when: str
    stays: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.when}{' and on' if self.stays else ''}"


class Point(NamedTuple):
    scene: Scene
    number: int
    call: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.scene.name}, call {self.number} ({self.call}): {self.fault}"


def faults_of(call: layer.Call) -> list[Fault]:
    """What can go wrong in a call.

    The sixteen bytes of `head` lie in one sector and have their room from the start on: no system
    cuts such a write in two.
    """
    kind, way = call.kind, call.way
    if kind in ("read", "look", "list", "open", "lock"):
        found = [Fault("EIO", "before")]
        if kind in ("open", "lock"):
            found += [Fault("kill", "after"), Fault("EINTR", "before")]
        return found
    found = [Fault("kill", "before"), Fault("kill", "after")]
    found += [Fault(what, "before") for what in CODES]
    found += [Fault(what, "before", True) for what in ("ENOSPC", "EIO")]
    found += [Fault("EIO", "after")]
    if kind == "write" and not call.path.endswith("/head"):
        found += [Fault(what, "half") for what in ("kill", "ENOSPC", "EIO")]
        if way == "disk":
            found.append(Fault("short", "half"))
    return found


class Injector(layer.Wire):
    """Counts calls, and lets one of them fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.armed = False
        self.calls: list[layer.Call] = []
        self.target = -1
        self.fault: Fault | None = None
        self.struck = False

    def arm(self, target: int = -1, fault: Fault | None = None) -> None:
        self.calls, self.target, self.fault, self.struck = [], target, fault, False
        self.armed = True

    def perform(self, call: layer.Call, do: layer.Do, half: layer.Do | None = None) -> Any:
        if not self.armed:
            return do()
        number = len(self.calls)
        self.calls.append(call)
        fault = self.fault
        if fault is None:
            return do()
        if number != self.target:
            if self.struck and fault.stays and call.kind in (*CHANGES, "write", "sync", "syncdir"):
                raise error_of(fault.what)
            return do()
        self.struck = True
        if fault.when == "after":
            with suppress(OSError, apsw.Error):
                do()
        elif fault.when == "half":
            done = half() if half is not None else None
            if fault.what == "short":
                return done
        if fault.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise error_of(fault.what)


def error_of(what: str) -> OSError:
    code = CODES[what]
    return OSError(code, os.strerror(code))


@dataclass
class Tally:
    """What a sweep found."""

    points: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> list[str]:
        found = [f"{name:24} {count:6}" for name, count in sorted(self.points.items())]
        found.append(f"faults: {dict(sorted(self.faults.items()))}")
        found.append(f"outcomes: {dict(sorted(self.ends.items()))}")
        return found


class Sweep:
    """All scenes, their calls and their faults."""

    def __init__(self, scenes: list[Scene], reads: bool = True) -> None:
        self.room = room()
        self.reads = reads
        self.tally = Tally()
        self.scenes = scenes
        self.bases: dict[str, Path] = {}
        self.models: dict[str, Model] = {}
        self.starts: dict[str, int] = {}
        self.finals: dict[str, int] = {}
        self.judges: dict[str, Judge] = {}
        self.played = 0

    def close(self) -> None:
        shutil.rmtree(self.room, ignore_errors=True)

    # -- without faults --------------------------------------------------------------------------

    def prepare(self) -> list[Point]:
        """Make the bases, play every scene once, and list the points."""
        ledgers: dict[str, Ledger] = {}
        for name in {scene.base for scene in self.scenes} | {"two"}:
            with told(Ledger()) as ledger:
                self.bases[name] = self.room / f"base {name}"
                base(name, self.bases[name])
            ledgers[name] = ledger
            self.starts[name] = ledger.last
        target = self.room / "two"
        copy(self.bases["two"], target)
        stage = Stage(target)
        export = [json.dumps(line) for line in stage.open().export_lines()]
        (self.room / "export.jsonl").write_text("\n".join(export))
        stage.close()
        points = []
        for scene in self.scenes:
            begun = ledgers[scene.base]
            stage, wire = self.stage(scene, "plain")
            with told(Ledger(list(begun.positions), dict(begun.operations))) as ledger:
                with layer.on(wire):
                    if scene.opens:
                        stage.open()
                    wire.arm()
                    scene.act(stage)
                    wire.armed = False
                    self.finals[scene.name] = ledger.last
                    for _ in range(2 if scene.opens and scene.name != "close" else 0):
                        scene.act(stage)  # what a repeat makes: nothing, or a known operation
                    stage.close()
                self.models[scene.name] = Model(ledger.operations, self.starts[scene.base])
                self.judges[scene.name] = Judge(self.models[scene.name], whole=1000)
            for number, call in enumerate(wire.calls):
                if call.kind in ("read", "look", "list") and not self.reads:
                    continue
                for fault in faults_of(call):
                    points.append(Point(scene, number, str(call), fault))
            shutil.rmtree(stage.root)
        return points

    def stage(self, scene: Scene, name: str) -> tuple[Stage, Injector]:
        root = self.room / name
        shutil.rmtree(root, ignore_errors=True)
        copy(self.bases[scene.base], root)
        return Stage(root), Injector(root)

    # -- one point -------------------------------------------------------------------------------

    def play(self, point: Point) -> None:
        self.played += 1
        self.tally.points[point.scene.name] += 1
        self.tally.faults[str(point.fault)] += 1
        try:
            if point.fault.what == "kill":
                self._killed(point)
            else:
                self._failed(point)
        except Violation as error:
            self.tally.violations.append(f"{point}: {error}")
        except Exception as error:
            self.tally.violations.append(f"{point}: {type(error).__name__}: {error}")

    def _killed(self, point: Point) -> None:
        stage, wire = self.stage(point.scene, "killed")
        ours, theirs = os.pipe()
        with strict():
            child = os.fork()
        if child == 0:
            try:
                with told(Ledger()) as ledger, layer.on(wire), strict():
                    ledger.listeners.append(lambda n: os.write(theirs, b"%d\n" % n) and None)
                    if point.scene.opens:
                        stage.open()
                    wire.arm(point.number, point.fault)
                    point.scene.act(stage)
            finally:
                os._exit(3)  # the call was not reached
        os.close(theirs)
        with os.fdopen(ours) as pipe:
            acked = [int(line) for line in pipe.read().split()]
        status = os.waitpid(child, 0)[1]
        require(os.WIFSIGNALED(status), "the child was not killed: the calls are not the same")
        self.tally.ends["killed"] += 1
        self._after(point, stage, max(acked, default=self.starts[point.scene.base]), 1)

    def _failed(self, point: Point) -> None:
        scene = point.scene
        stage, wire = self.stage(scene, "failed")
        raised: BaseException | None = None
        with told(Ledger()) as ledger, strict() as warned, layer.on(wire):
            if scene.opens:
                stage.open()
            wire.arm(point.number, point.fault)
            try:
                scene.act(stage)
            except Exception as error:
                raised = error
            acked = ledger.last or self.starts[scene.base]
            require(wire.struck, "the call was not reached")
            if stage.mem is not None and not stage.mem.closed and scene.name != "close":
                self._readable(point, stage, wire, acked)
            wire.armed = False
            open_too = self._plain(point, raised, acked)
            if scene.opens and scene.name != "close":
                self._retried(point, stage)
            stage.close()
        if isinstance(raised, OutcomeUnknown):
            self.tally.ends["outcome unknown"] += 1
        else:
            self.tally.ends["refused" if raised else "went well"] += 1
        retried = scene.opens and scene.name != "close"
        high = max(self.models[scene.name].digests, default=0) if retried else None
        del warned
        self._after(point, stage, acked, int(open_too), high)

    def _plain(self, point: Point, raised: BaseException | None, acked: int) -> bool:
        """An error is one of ours; return whether the operation may have been saved after all."""
        if raised is None:
            return False
        if isinstance(raised, SystemError) and "apsw.Backup" in str(raised):
            return False  # two errors of a file system in Python at once, which no other gives
        require(
            isinstance(raised, FastAssocError),
            f"raised {type(raised).__name__}: {raised}",
        )
        return isinstance(raised, OutcomeUnknown) or "othing was changed" not in str(raised)

    def _readable(self, point: Point, stage: Stage, wire: Injector, acked: int) -> None:
        """The handle that met the fault still reads, even while the fault lasts."""
        position = stage.mem.position
        require(
            acked <= position <= acked + 1, f"the handle reads {position}, acknowledged {acked}"
        )
        digest = stage.mem._state.digest()
        require(
            digest == self.models[point.scene.name].digests.get(position),
            f"the handle shows another state at {position} than the model",
        )
        stage.mem.read("tea")

    def _retried(self, point: Point, stage: Stage) -> None:
        """The same call again sees it through, or says that the store must be opened again."""
        try:
            point.scene.act(stage)
        except ClosedHandle:
            stage.close()
            stage.open(settings=None)
            point.scene.act(stage)

    def _after(
        self, point: Point, stage: Stage, acked: int, more: int, high: int | None = None
    ) -> None:
        judge = self.judges[point.scene.name]
        if not (stage.path / "journal.db").exists():
            require(acked == 0, f"the store is gone, and {acked} was acknowledged")
            stage.open()
            stage.close()
            return
        if point.scene.base == "none":
            with suppress(StoreNotFound):
                judge.look(stage.path, acked, high or acked + more)
        else:
            last = high or acked + more
            found = judge.look(stage.path, acked, max(last, acked + more) + (high is not None))
            if high is None and not more:
                require(found == acked, f"found {found} after an error that changed nothing")
        if high is None and point.scene.opens and point.scene.name != "close":
            stage.open(settings=None)
            point.scene.act(stage)
            stage.close()
            self._finished(point, stage)
        elif high is not None:
            self._finished(point, stage)
        if self.played % 10 == 0:
            judge.use(stage)

    def _finished(self, point: Point, stage: Stage) -> None:
        """After the repeat the store is what it would be without the fault."""
        name = point.scene.name
        if self.finals[name]:
            # a repeat may be an operation of its own
            self.judges[name].look(stage.path, self.finals[name], max(self.models[name].digests))


def drawn(every: list[Point], count: int, seed: int) -> list[Point]:
    """So many points: as evenly as can be over scenes, kinds of calls, files and faults."""
    draw = random.Random(seed)
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in draw.sample(every, len(every)):
        call = re.sub(r"[0-9a-f]{32}|\d+", "", point.call)
        groups.setdefault((point.scene.name, call, str(point.fault)), []).append(point)
    found: list[Point] = []
    turn = 0
    while len(found) < min(count, len(every)):
        layer_of = [group[turn] for group in groups.values() if turn < len(group)]
        found += draw.sample(layer_of, min(len(layer_of), count - len(found)))
        turn += 1
    return found


def sweep(
    seed: int = 1,
    points: int | None = None,
    scenes: list[str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Tally:
    """Play all points, or so many of them drawn by the seed."""
    chosen = [scene for scene in SCENES if scenes is None or scene.name in scenes]
    with small():
        one = Sweep(chosen)
        try:
            begun = time.monotonic()
            every = one.prepare()
            if points is not None:
                every = drawn(every, points, seed)
            gc.collect()
            gc.freeze()  # else each collection walks all that the libraries hold
            for number, point in enumerate(every):
                before = len(one.tally.violations)
                one.play(point)
                if tell is not None:
                    for text in one.tally.violations[before:]:
                        tell(f"VIOLATION {text}")
                    if number % 500 == 499:
                        tell(f"{number + 1} of {len(every)}, {time.monotonic() - begun:.0f} s")
            one.tally.seconds = time.monotonic() - begun
        finally:
            one.close()
    return one.tally


__all__ = ["SETTLED", "Fault", "Injector", "Point", "Sweep", "Tally", "sweep"]
