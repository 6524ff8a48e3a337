"""One history, one state: the same digest in every process, on every processor, by every way.

A store is written here, once. Under each environment a fresh process opens it, replays its rows,
loads its snapshot, and gives the digest and the answers; then it plays the same history itself and
compares live use, a handle that follows, a replay, and loads before and after snapshots.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc import store as stores
from fastassoc.errors import FastAssocError
from fastassoc.journal import Journal
from fastassoc.settings import Settings
from fastassoc.state import State
from fastassoc.store import Store

from .client import QUESTIONS, Asker, Plan, answer
from .script import NOW, room

ROOT = Path(__file__).parents[2]
WIDE = 48  # numbers of a vector: enough for BLAS to sum in another order
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "as it is": {},
    "OpenBLAS for Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "OpenBLAS for Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "OpenBLAS for Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Numba for any processor": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    "hash seed 0": {"PYTHONHASHSEED": "0"},
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 4242": {"PYTHONHASHSEED": "4242"},
    "one thread": dict.fromkeys(THREADS, "1"),
    "two threads": dict.fromkeys(THREADS, "2"),
    "all of it": {
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "PYTHONHASHSEED": "7",
        **dict.fromkeys(THREADS, "2"),
    },
}


class Wide(Asker):
    """Calls with vectors of many numbers, in sessions that link what is alike."""

    def row(self, draw: random.Random, name: str) -> dict[str, Any]:
        row = super().row(draw, name)
        row.pop("vector", None)
        if draw.random() < 0.6:
            middle = random.Random(draw.randrange(5))
            row["vector"] = [middle.gauss(0, 1) + draw.gauss(0, 0.6) for _ in range(WIDE)]
            row["session"] = f"s{draw.randrange(4)}"
        return row

    def reembed(self, draw: random.Random, n: int) -> Any:
        return [Wider()], {}


class Wider:
    """An embedder that needs no model and no BLAS."""

    name, dim = "wider", WIDE

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0 + (len(text) * (n + 1)) % 7 for n in range(WIDE)] for text in texts]


def history(mem: Any, ops: int, seed: int) -> Iterator[int]:
    """Do the same calls in the same order; gives the number of each round after it."""
    stores.BULK_ROWS = 8
    plan = Plan(Path(), seed, ops, slots={f"w{n}": n for n in range(3)})
    for n in range(ops):
        for name in plan.slots:
            verb, args, more = Wide(plan, name).call(n)
            with suppress(FastAssocError):
                getattr(mem, verb)(*args, **more)
        yield n


def play(path: Path, ops: int, seed: int, *, snapshots: bool) -> dict[str, str]:
    """Play the history on a new store, and give its digest by every way."""
    found = {}
    with (
        fa.open(path, settings=Settings.cognitive(), clock=lambda: NOW) as mem,
        fa.open(path, clock=lambda: NOW) as follower,
    ):
        for n in history(mem, ops, seed):
            if n % 7 == 0:
                follower.read("tea")
            if snapshots and n % (ops // 4) == ops // 8:
                mem.snapshot()
        found["live"] = digest(mem)
        found["followed"] = digest(follower)
        found["loaded"] = mem.verify(digest=True).digest
        if not snapshots:
            found["replayed"] = replayed(path)
    with fa.open(path, clock=lambda: NOW) as mem:
        found["opened"] = digest(mem)
        mem.snapshot()
    with fa.open(path, clock=lambda: NOW) as mem:
        found["from a snapshot"] = digest(mem)
    return found


def digest(mem: Any) -> str:
    mem._view()
    with mem._lock:
        value: str = mem._state.digest()
    return value


def replayed(path: Path) -> str:
    """The digest of the journal's rows, applied one after the other."""
    with Journal.open(path) as journal:
        state: State | None = Store(journal)._replay(None, journal.read(0))
        assert state is not None
        return state.digest()


def look(path: Path) -> dict[str, Any]:
    """What a process says of a store that another made."""
    said: dict[str, Any] = {}
    with fa.open(path, clock=lambda: NOW, read_only=True) as mem:
        said["digest"] = digest(mem)
        for place, question in enumerate(QUESTIONS):
            if "vector" in question:
                continue
            _, hits = answer(mem, question)
            said[f"answer {place}"] = hits
        said["links"] = [
            [row["a"], row["b"], row["weight"]] for row in mem.links.to_arrow().to_pylist()
        ]
    return said


def work(source: Path, place: Path, ops: int, seed: int) -> None:
    """One environment's part: print what is found, as JSON."""
    for name in ("rows.fa", "snapshot.fa"):
        shutil.copytree(source / name, place / name)
    found: dict[str, Any] = {name: look(place / name) for name in ("rows.fa", "snapshot.fa")}
    found["replayed"] = replayed(place / "rows.fa")
    found["played"] = play(place / "own.fa", ops, seed, snapshots=False)
    found["played with snapshots"] = play(place / "other.fa", ops, seed, snapshots=True)
    print(json.dumps(found))


@dataclass
class Tally:
    environments: int = 0
    digests: int = 0
    operations: int = 0
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.environments} environments, {self.operations} operations, {self.digests} "
            f"digests, {len(self.violations)} violations, {self.seconds:.0f} s"
        )


def run(
    *,
    seed: int = 1,
    ops: int = 120,
    names: list[str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Tally:
    """Compare the environments; `ops` calls of each of three writers."""
    tally, begun, place = Tally(), time.monotonic(), room() / "same"
    try:
        source = place / "source"
        source.mkdir(parents=True)
        want = prepared(source, ops, seed)
        if len(want) != 1:
            tally.violations.append(f"here: {want}")
        with fa.open(source / "rows.fa", read_only=True) as mem:
            tally.operations = mem.position
        base: dict[str, Any] = {}
        for number, name in enumerate(names or ENVIRONMENTS):
            folder = place / f"e{number}"
            folder.mkdir()
            found = in_process(source, folder, ops, seed, ENVIRONMENTS[name])
            shutil.rmtree(folder)
            tally.environments += 1
            tally.violations += [f"{name}: {text}" for text in differences(found, want, base)]
            tally.digests += 3 + len(found["played"]) + len(found["played with snapshots"])
            base = base or found
            if tell is not None:
                tell(f"{name}: {'; '.join(tally.violations) or 'the same'}")
    finally:
        shutil.rmtree(room(), ignore_errors=True)
    tally.seconds = time.monotonic() - begun
    return tally


def prepared(source: Path, ops: int, seed: int) -> set[str]:
    """Two stores of the history, one all rows, one with a snapshot; the digests of both."""
    told = {*play(source / "snapshot.fa", ops, seed, snapshots=True).values()}
    path = source / "rows.fa"
    with fa.open(path, settings=Settings.cognitive(), clock=lambda: NOW) as mem:
        for _ in history(mem, ops, seed):
            pass
        told |= {digest(mem), replayed(path)}
    return told


def in_process(
    source: Path, folder: Path, ops: int, seed: int, environment: dict[str, str]
) -> dict[str, Any]:
    line = [sys.executable, "-m", "tests.faults", "samework", str(source), str(folder)]
    done = subprocess.run(
        [*line, str(ops), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | environment,
        timeout=3600,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def differences(found: dict[str, Any], want: set[str], base: dict[str, Any]) -> list[str]:
    told = {name: found[name]["digest"] for name in ("rows.fa", "snapshot.fa")}
    told |= found["played"] | {
        f"snapshots, {k}": v for k, v in found["played with snapshots"].items()
    }
    told["replayed"] = found["replayed"]
    wrong = [f"another digest {way}" for way, value in told.items() if value not in want]
    for name in ("rows.fa", "snapshot.fa"):
        for what, value in found[name].items():
            if base and base[name][what] != value:
                wrong.append(f"{what} of {name} is another")
    return wrong
