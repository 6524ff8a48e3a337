"""Clients of one store, each a process of its own that keeps a record of what it asked and heard.

A record is one line of JSON before a call, one for every row that the call put into the journal
(before its commit), and one for the answer. It is written with single calls and needs no sync: the
processes are killed, not the machine. What a call asks for follows from the seed, the client's name
and the call's number alone, so that whoever takes a killed client's place can ask again.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

import fastassoc as fa
from fastassoc import files, snapshot
from fastassoc import store as stores
from fastassoc.errors import FastAssocError, OutcomeUnknown, StoreLocked, VacuumIncomplete
from fastassoc.journal.transaction import Transaction

from .script import NOW, STORE, Counting

SLOTS = 64
WORDS = ["tea", "Tea", "kettle", "milk", "Ünï", "狗", "c|d", "steam", "leaf", "cup", "pot", "x y"]
SINGLE = {"write", "write_batch", "feedback", "link", "unlink", "forget", "update", "configure"}
MODELLED = ("write_batch", "feedback", "link", "unlink", "forget", "update")  # of tests/naive.py
WAITS = ("another process is taking a snapshot", "readers held it")


@dataclass
class Plan:
    """What all clients of a store know."""

    root: Path
    seed: int
    ops: int
    preset: str = "cognitive"
    freeze: float = 0.0  # the chance to stop, or to be killed, at a moment that matters
    quiet: bool = False
    syncs: tuple[str, ...] = ("full", "normal", "off")
    slots: dict[str, int] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.root / STORE

    @property
    def stop(self) -> Path:
        return self.root / "stop"

    def positions(self) -> Any:
        """The last position that each client was told, shared by all processes."""
        return np.memmap(self.root / "positions", np.int64, "r+", shape=(SLOTS,))

    def log(self, name: str) -> Path:
        return self.root / f"{name}.calls"


class Record:
    """A client's record, and its place among the shared positions."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.name = name
        self.fd = os.open(plan.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.positions = plan.positions()
        self.slot = plan.slots[name]
        self.n = -1

    def line(self, **values: Any) -> None:
        os.write(self.fd, (json.dumps(values) + "\n").encode())

    def floor(self) -> int:
        """The least position that a call which begins now must reflect."""
        return int(self.positions.max())

    def told(self, position: int) -> None:
        self.positions[self.slot] = max(int(self.positions[self.slot]), position)

    def kept(self, segment: dict[str, Any], store: Path, root: Path) -> None:
        """A bulk segment outlives the vacuum for who replays the journal."""
        with suppress(FileExistsError):
            os.link(store / "segments" / segment["name"], root / "kept" / segment["name"])


def watched(plan: Plan, record: Record, draw: random.Random) -> None:
    """Have every row recorded; stand still or die now and then where others wait for it."""
    append, publish = Transaction.append, files.publish
    pwrite = files.disk.pwrite

    def perhaps() -> None:
        chance = draw.random()
        if chance < plan.freeze:
            os.kill(os.getpid(), signal.SIGSTOP if chance < 0.6 * plan.freeze else signal.SIGKILL)

    def appended(self: Transaction, drafts: Any) -> Any:
        before = self._last[1]
        entries = append(self, drafts)
        for entry in entries:
            body = json.loads(entry.body)
            if "segment" in body:
                record.kept(body["segment"], plan.store, plan.root)
            vectors = None if entry.vectors is None else base64.b64encode(entry.vectors).decode()
            row = [*entry[:5], vectors, entry.hash.hex()]
            record.line(n=record.n, before=before.hex(), entry=row)
            before = entry.hash
        perhaps()  # with the write lock
        return entries

    def written(fd: int, data: bytes, offset: int) -> int:
        done = pwrite(fd, data, offset)
        if draw.random() < 0.2:
            perhaps()  # with the lock of `head`
        return done

    def published(*rest: Any) -> Any:
        made = publish(*rest)
        perhaps()  # of a snapshot, with the snapshotters' lock
        return made

    Transaction.append = appended  # type: ignore[method-assign]
    files.disk.pwrite = written  # type: ignore[method-assign]
    files.publish = snapshot.files.publish = published


# -- what is asked ---------------------------------------------------------------------------------


class Asker:
    """Draws the calls of one writer, the same ones whenever it is asked."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan, self.name = plan, name
        self.others = [other for other in plan.slots if other.startswith("w")]

    def call(self, n: int) -> tuple[str, list[Any], dict[str, Any]]:
        draw = random.Random(f"{self.plan.seed} {self.name} {n}")
        if n % 3 == 0:
            verb = draw.choice(["write", "write", "write_batch"])
        elif self.plan.preset == "counts":
            verb = draw.choice(MODELLED)
        else:
            verb = draw.choice(
                [*MODELLED, *("feedback", "read", "read", "update", "forget", "tick", "where")]
                + (["configure", "ingest", "reembed"] if draw.random() < 0.2 else ["link"])
            )
        args, more = getattr(self, verb)(draw, n)
        if verb in SINGLE and draw.random() < 0.7:
            more["operation_id"] = f"{self.name}-{n}"
        return {"where": "forget"}.get(verb, verb), args, more

    def note(self, draw: random.Random, n: int) -> str:
        """The id of a note that may be there."""
        name = self.name if draw.random() < 0.7 else draw.choice(self.others)
        return f"{name}-{3 * draw.randrange(n // 3 + 1)}"

    def names(self, draw: random.Random, most: int = 4) -> list[str]:
        return [
            draw.choice(WORDS) if draw.random() < 0.5 else f"c{int(200 * draw.random() ** 2)}"
            for _ in range(draw.randint(0, most))
        ]

    def row(self, draw: random.Random, name: str) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": name,
            "text": f"{draw.choice(WORDS)} and {draw.choice(WORDS)} {draw.randrange(40)}",
            "concepts": self.names(draw, 5),
            "metadata": {"n": draw.randrange(5)},
        }
        if self.plan.preset == "counts":
            return row
        if draw.random() < 0.3:
            row["vector"] = [round(draw.uniform(-1, 1), 3) for _ in range(4)]
        if draw.random() < 0.3:
            row["session"] = f"s{draw.randrange(9)}"
        if draw.random() < 0.2:
            row |= {"importance": draw.random(), "category": draw.choice(["semantic", "core"])}
        if draw.random() < 0.05:
            row["supersedes"] = [f"{draw.choice(self.others)}-{3 * draw.randrange(40)}"]
        return row

    def write(self, draw: random.Random, n: int) -> Any:
        row = self.row(draw, f"{self.name}-{n}")
        return [row.pop("text")], row

    def write_batch(self, draw: random.Random, n: int) -> Any:
        rule = draw.choice(["skip", "replace", "error"])
        rows = [self.row(draw, f"shared-{draw.randrange(200)}") for _ in range(draw.choice((2, 9)))]
        return [[*rows, self.row(draw, f"{self.name}-{n}")]], {"on_duplicate": rule}

    def feedback(self, draw: random.Random, n: int) -> Any:
        return [], {
            "asked": self.names(draw),
            "used": [self.note(draw, n) for _ in range(draw.randrange(3))],
            "used_concepts": [draw.choice(WORDS), *self.names(draw)],
            "outcome": draw.choice([1.0, 0.5, 0.0, -0.25, -1.0]),
        }

    def link(self, draw: random.Random, n: int) -> Any:
        kind = 0.0 if self.plan.preset == "counts" else draw.random()
        weight = draw.choice([1.0, 0.25, -0.5, 2.5])
        if kind < 0.5:
            return [f"l{draw.randrange(30)}", f"m{draw.randrange(30)}", weight], {}
        if kind < 0.75:
            return [self.note(draw, n), self.note(draw, n), weight], {"layer": "note"}
        return [draw.choice(WORDS), self.note(draw, n), weight], {"layer": "cue"}

    def unlink(self, draw: random.Random, n: int) -> Any:
        args, more = self.link(draw, n)
        return args[:2], more

    def forget(self, draw: random.Random, n: int) -> Any:
        return [[self.note(draw, n) for _ in range(draw.randint(1, 3))]], {}

    def where(self, draw: random.Random, n: int) -> Any:
        return [], {"where": {"n": 4, "domain": "none" if draw.random() < 0.9 else "general"}}

    def update(self, draw: random.Random, n: int) -> Any:
        return [self.note(draw, n)], {"metadata": {"n": draw.randrange(5), "by": self.name}}

    def configure(self, draw: random.Random, n: int) -> Any:
        return [], {"hop_factor": draw.choice([0.25, 0.5, 1.0])}

    def tick(self, draw: random.Random, n: int) -> Any:
        return [NOW + timedelta(days=draw.choice([1, 900]))], {}

    def read(self, draw: random.Random, n: int) -> Any:
        return [], {
            "concepts": [draw.choice(WORDS), *self.names(draw)],
            "reinforce": True,
            "session": draw.choice([None, "r1", "r2"]),
        }

    def ingest(self, draw: random.Random, n: int) -> Any:
        rows = [self.row(draw, f"in-{self.name}-{n}-{i}") for i in range(9)]
        return [rows], {"batch_rows": 3}

    def reembed(self, draw: random.Random, n: int) -> Any:
        return [Counting()], {}


QUESTIONS: list[dict[str, Any]] = [
    {"query": "tea and kettle"},
    {"concepts": ["tea", "c1"], "hops": 2},
    {"concepts": ["狗"], "k": 25},
    {"query": "steam 7", "vector": [0.5, -0.2, 0.1, 0.9]},
    {"vector": [1.0, 0.5, 0.0, -1.0]},
]


def questions(preset: str) -> list[dict[str, Any]]:
    return [q for q in QUESTIONS if preset != "counts" or "vector" not in q]


def answer(mem: Any, question: dict[str, Any]) -> tuple[int, list[Any]]:
    recall = mem.read(**question, reinforce=False)
    return recall.position, [[hit.id, hit.text, hit.score, hit.source] for hit in recall]


# -- the clients -----------------------------------------------------------------------------------


def clock(draw: random.Random) -> Callable[[], Any]:
    """A clock that jumps, by up to 400 days either way."""
    skew = [timedelta(0)]

    def now() -> Any:
        if draw.random() < 0.01:
            skew[0] = timedelta(days=draw.uniform(-400, 400))
        return NOW + skew[0]

    return now


class Client:
    def __init__(self, plan: Plan, name: str) -> None:
        self.plan, self.name = plan, name
        self.record = Record(plan, name)
        self.draw = random.Random(f"{plan.seed} {name} {os.getpid()}")
        self.clock = clock(self.draw)
        stores.BULK_ROWS = 8  # batches of a few rows become bulk segments
        watched(plan, self.record, self.draw)
        self.last = 0
        self.mem: Any = None

    def open(self, **more: Any) -> Any:
        """Open the store, waiting as long as its locks are held."""
        if self.mem is not None:
            self.mem.close()
        options = {"clock": self.clock, "timeout": self.draw.choice([0.5, 2.0]), **more}
        while True:
            floor = self.record.floor()
            try:
                self.mem = fa.open(self.plan.store, create=False, **options)
                self.require(self.mem.position >= floor, "an open went back", floor)
                return self.mem
            except StoreLocked:
                continue

    def require(self, true: bool, text: str, *values: Any) -> None:
        if not true:
            self.record.line(n=self.record.n, wrong=f"{text} {values}")

    def at(self, position: int, floor: int) -> None:
        """Positions never go back, neither in a handle nor between processes."""
        self.require(position >= floor, "others were told of a later operation", position, floor)
        self.require(position >= self.last, "the handle went back", position, self.last)
        self.last = position

    def attempt(self, action: Callable[[], Any], *, tries: int = 1000) -> Any:
        """Do it as soon as nobody is in the way."""
        for _ in range(tries):
            try:
                return action()
            except (StoreLocked, VacuumIncomplete) as error:
                self.record.line(n=self.record.n, waited=type(error).__name__)
            except FastAssocError as error:
                if not any(text in str(error) for text in WAITS):
                    raise
                self.record.line(n=self.record.n, waited="snapshot")
        raise AssertionError("nobody gave up the lock")


class Writer(Client):
    """Changes the store by every verb, one call after the other."""

    def run(self) -> None:
        begun, ended = -1, -1
        for line in read_record(self.plan.log(self.name)):
            if "verb" in line:
                begun = line["n"]
            if "end" in line:
                ended = line["n"]
        self.open(sync=self.draw.choice(self.plan.syncs))
        asker = Asker(self.plan, self.name)
        for n in range(ended + 1, self.plan.ops):
            verb, args, more = asker.call(n)
            self.record.n = n
            if n == begun and "operation_id" not in more:
                self.record.line(n=n, end="unknown")  # to ask again might do it twice
                continue
            self.record.line(n=n, verb=verb, op=more.get("operation_id"))
            self.once(n, verb, args, more)
            if self.draw.random() < 0.01:
                self.open(sync=self.draw.choice(self.plan.syncs))

    def once(self, n: int, verb: str, args: list[Any], more: dict[str, Any]) -> None:
        floor = self.record.floor()
        try:
            report = self.attempt(lambda: getattr(self.mem, verb)(*args, **more))
        except OutcomeUnknown as error:
            self.record.line(n=n, end="unknown", why=str(error))
            self.open()
            return
        except FastAssocError as error:
            self.record.line(n=n, end="refused", why=f"{type(error).__name__}: {error}"[:200])
            return
        told = getattr(report, "report", report)
        self.at(told.position, floor)
        repeated = bool(getattr(told, "repeated", False))
        self.record.told(told.position)
        self.record.line(n=n, end="ok", position=told.position, repeated=repeated)


class Reader(Client):
    """Reads until it is stopped; now and then keeps an answer for the judge."""

    def __init__(self, plan: Plan, name: str) -> None:
        super().__init__(plan, name)
        self.clock = lambda: NOW  # as the judge asks

    def run(self) -> None:
        self.open()
        every, seen, n = questions(self.plan.preset), dict[str, int](), 0
        while not self.plan.stop.exists():
            n += 1
            question = self.draw.choice(every)
            floor = self.record.floor()
            position, hits = self.attempt(lambda question=question: answer(self.mem, question))
            self.at(position, floor)
            seen |= {hit[0]: position for hit in hits}
            if n % 20 == 0:
                self.record.line(read=every.index(question), position=position, hits=hits)
            for note in self.draw.sample(sorted(seen), min(3, len(seen))):
                if note not in self.mem:
                    since = seen.pop(note)
                    self.record.line(gone=note, after=since, position=self.mem.position)
            if n % 150 == 0:
                self.reopened()
            if self.draw.random() < 0.02:
                table = self.mem.links.to_arrow()
                pairs = {*zip(*(table.column(end).to_pylist() for end in "ab"), strict=True)}
                self.require(table.num_rows == len(pairs), "a link is there twice")
            time.sleep(0.01)

    def reopened(self) -> None:
        self.open(read_only=self.draw.random() < 0.5)


class Snapshotter(Client):
    def run(self) -> None:
        self.open()
        while not self.plan.stop.exists():
            self.attempt(self.mem.snapshot)
            self.record.line(snapshot=self.mem.position)
            if self.draw.random() < 0.1:
                self.backup()
            time.sleep(self.draw.uniform(0.05, 0.6))

    def backup(self) -> None:
        """A copy holds what was acknowledged before it, and verifies."""
        target = self.plan.root / f"copy-{self.draw.getrandbits(40):x}.fa"
        floor = self.record.floor()
        self.attempt(lambda: self.mem.backup(target))
        with fa.open(target, create=False, clock=lambda: NOW) as copy:
            found = copy.verify(digest=True)
            self.require(found.ok, "a backup is damaged", found.problems)
            self.require(copy.position >= floor, "a backup lacks operations", copy.position, floor)
            self.record.line(copied=copy.position, digest=found.digest)
        files.remove_tree(target)


class Vacuumer(Client):
    def run(self) -> None:
        self.open()
        while not self.plan.stop.exists():
            self.record.n += 1
            floor = self.record.floor()
            report = self.attempt(self.mem.vacuum)
            self.at(report.position, floor)
            self.record.told(report.position)
            time.sleep(self.draw.uniform(0.2, 1.5))


KINDS: dict[str, type[Any]] = {"w": Writer, "r": Reader, "s": Snapshotter, "v": Vacuumer}


def serve(plan: Plan, name: str) -> int:
    """Be the client of this name, in a process that ends with it."""
    client = None
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = KINDS[name[0]](plan, name)
            client.run()
            client.mem.close()
        for text in {str(w.message) for w in caught}:
            client.record.line(warned=text)
        return 0
    except BaseException as error:
        import traceback

        if client is not None:
            text = "".join(traceback.format_exception(error))[-3000:]
            client.record.line(n=client.record.n, wrong=text)
        return 1


def read_record(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
