"""Many processes on one store, some killed, some standing still with a lock in their hands.

At the end every client's record is compared with the journal, and the store with a replay of the
journal's rows: those that the clients recorded before they committed them, tied into one chain by
the last hash that the store itself shows.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc import snapshot
from fastassoc.batch import NoteBatch
from fastassoc.errors import FastAssocError
from fastassoc.formats import FORMAT
from fastassoc.journal import Entry, Journal, chain
from fastassoc.journal.chain import Meta
from fastassoc.ports import InMemory
from fastassoc.settings import Settings
from fastassoc.snapshot import Segment
from fastassoc.state import Operation, State

from .children import ended, start
from .client import SINGLE, Asker, Plan, answer, questions, read_record, serve
from .judge import Violation, require
from .script import NOW, room

TOLD = (  # warnings that others' frozen locks bring about
    "head could not be written",
    "no snapshot could be taken after it",
)


@dataclass
class Tally:
    runs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def line(self) -> str:
        counts = ", ".join(f"{value:,} {key}" for key, value in sorted(self.counts.items()))
        return (
            f"{self.runs} runs: {counts}; {len(self.violations)} violations, {self.seconds:.0f} s"
        )


# -- the processes ---------------------------------------------------------------------------------


class Herd:
    """The clients of one store: started, killed, stopped for a while, started again."""

    def __init__(self, plan: Plan, draw: random.Random, tally: Tally, rough: float) -> None:
        self.plan, self.draw, self.tally, self.rough = plan, draw, tally, rough
        self.living: dict[int, str] = {}
        self.frozen: dict[int, float] = {}  # process, and when it may go on
        self.failed: list[str] = []
        self.finished: set[str] = set()

    def start(self, name: str) -> None:
        self.living[start(lambda: serve(self.plan, name))] = name

    def watch(self) -> None:
        """See to all children that ended or stand still."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                self.tally.counts["frozen"] += 1
                self.frozen.setdefault(pid, time.monotonic() + self.draw.uniform(0.05, 2.5))
                continue
            name = self.living.pop(pid)
            self.frozen.pop(pid, None)
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                self.tally.counts["killed"] += 1
                self.start(name)
            elif status:
                self.failed.append(f"{name} ended with {status}")
                self.finished.add(name)
            else:
                self.finished.add(name)
        now = time.monotonic()
        for pid in [pid for pid, until in self.frozen.items() if now >= until]:
            del self.frozen[pid]
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def disturb(self) -> None:
        """Kill or stop one of them."""
        if not self.living:
            return
        pid = self.draw.choice(sorted(self.living))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if self.draw.random() < 0.5 else signal.SIGSTOP)

    def run(self, names: list[str]) -> None:
        for name in names:
            self.start(name)
        writers = {name for name in names if name.startswith("w")}
        later = time.monotonic() + 1.0
        while not writers <= self.finished:
            self.watch()
            if self.rough and time.monotonic() > later:
                self.disturb()
                later = time.monotonic() + self.draw.expovariate(1 / self.rough)
            time.sleep(0.01)
        self.plan.stop.touch()
        while self.living:
            self.watch()
            time.sleep(0.01)

    def end(self) -> None:
        for pid in list(self.living):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


# -- the judge -------------------------------------------------------------------------------------


@dataclass
class Row:
    """One row of the journal, and the call that put it there."""

    entry: Entry
    before: bytes
    client: str
    n: int


class Judge:
    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan, self.tally = plan, tally
        self.records = {name: read_record(plan.log(name)) for name in plan.slots}

    def all(self) -> None:
        with Journal.open(self.plan.store) as journal:
            with journal._connections.guard() as conn:
                last, tip = journal._records.last(conn)
                store = journal._records.meta(conn).key()
            problems = journal.verify()
        require(not problems, f"the journal is damaged: {problems}")
        rows = self.chained(last, tip)
        self.verified(rows, store)
        self.clients(rows)
        self.replayed(rows)
        if self.plan.preset == "counts":
            self.modelled(rows)

    def chained(self, last: int, tip: bytes) -> list[Row]:
        """The rows that lead to the last hash, among all that were ever about to be committed."""
        known: dict[bytes, Row] = {}
        for name, lines in self.records.items():
            for line in lines:
                if "entry" in line:
                    *rest, vectors, digest = line["entry"]
                    data = None if vectors is None else base64.b64decode(vectors)
                    entry = Entry(*rest, data, bytes.fromhex(digest))
                    known[entry.hash] = Row(entry, bytes.fromhex(line["before"]), name, line["n"])
        rows: list[Row] = []
        while last > len(rows):
            row = known.get(tip)
            require(row is not None, f"operation {last - len(rows)} is nobody's")
            assert row is not None
            rows.append(row)
            tip = row.before
        self.tally.counts["operations"] += last
        self.tally.counts["rows never committed"] += len(known) - last
        return rows[::-1]

    def verified(self, rows: list[Row], store: bytes) -> None:
        told = [
            (e.seq, e.op_id and e.op_id.encode(), FORMAT, *e[2:5], e.vectors, e.hash)
            for e in (row.entry for row in rows)
        ]
        genesis = Meta(0, store.hex(), (0, b""), None).genesis()
        chain.verify("the record", told, (0, genesis))

    def clients(self, rows: list[Row]) -> None:
        by_call: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in rows:
            by_call[row.client, row.n].append(row)
        names = [row.entry.op_id for row in rows if row.entry.op_id is not None]
        require(len(names) == len(set(names)), "an operation id is there twice")
        gone: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            if row.entry.kind == "forget":
                for note in json.loads(row.entry.body)["ids"]:
                    gone[note].append(row.entry.seq)
        for name, lines in self.records.items():
            self.client(name, lines, by_call, gone)

    def client(self, name: str, lines: Any, by_call: Any, gone: Any) -> None:
        calls: dict[int, dict[str, Any]] = {}
        for line in lines:
            if "wrong" in line:
                raise Violation(f"{name}, call {line.get('n')}: {line['wrong']}")
            if "warned" in line:
                require(any(text in line["warned"] for text in TOLD), f"warned: {line['warned']}")
                self.tally.counts["warnings"] += 1
            if "waited" in line:
                self.tally.counts[f"waits ({line['waited']})"] += 1
            if "verb" in line:
                calls[line["n"]] = line
            if "gone" in line:
                self.tally.counts["notes seen to go"] += 1
                seen = [at for at in gone[line["gone"]] if line["after"] < at <= line["position"]]
                require(bool(seen), f"{name}: {line['gone']} went, and nobody forgot it")
            if "end" in line:
                self.ended(name, line, calls[line["n"]], by_call[name, line["n"]])

    def ended(self, name: str, line: Any, call: Any, rows: list[Row]) -> None:
        """Acknowledged exactly once, of unknown outcome at most once, refused never."""
        said = f"{name}, call {line['n']} ({call['verb']})"
        self.tally.counts[f"calls {line['end']}"] += 1
        if call["verb"] in SINGLE:
            require(len(rows) <= 1, f"{said} was applied {len(rows)} times")
        if line["end"] == "refused" and call["verb"] in SINGLE:
            require(not rows, f"{said} was refused and applied: {line['why']}")
        if line["end"] != "ok" or call["verb"] not in SINGLE:
            return
        if call["op"] is not None:
            require(len(rows) == 1, f"{said} was acknowledged and is not there")
            require(rows[0].entry.op_id == call["op"], f"{said} has another id")
        if rows and not line["repeated"]:
            found = rows[0].entry.seq
            require(found == line["position"], f"{said}: told {line['position']}, is {found}")

    # -- the state -------------------------------------------------------------------------------

    def operation(self, entry: Entry) -> Operation:
        body, batch = json.loads(entry.body), None
        if "segment" in body:
            table = snapshot.read_segment(self.plan.root / "as", Segment(**body["segment"]))
            batch = NoteBatch.from_table(table)
        elif "rows" in body:
            batch = NoteBatch.from_rows(body["rows"], entry.vectors)
        return Operation(entry.kind, entry.at, body, entry.op_id, batch, entry.vectors)

    def replayed(self, rows: list[Row]) -> None:
        """The store is what its operations make, at the end and whenever a reader looked."""
        (self.plan.root / "as").mkdir()
        (self.plan.root / "kept").rename(self.plan.root / "as" / "segments")
        reads: dict[int, list[Any]] = defaultdict(list)
        copies: dict[int, str] = {}
        for lines in self.records.values():
            for line in lines:
                if "read" in line:
                    reads[line["position"]].append(line)
                if "copied" in line:
                    copies[line["copied"]] = line["digest"]
        state, every = State(Settings()), questions(self.plan.preset)
        for row in rows:
            operation = self.operation(row.entry)
            if operation.kind == "create":
                state = State(Settings.from_dict(operation.body["settings"]))
            state.apply(operation, row.entry.seq)
            for line in reads.get(state.position, ()):
                memory = fa.Memory(clock=lambda: NOW)
                memory._setup(InMemory(), state, None, lambda: NOW)
                _, hits = answer(memory, every[line["read"]])
                require(hits == line["hits"], f"a read at operation {state.position} was wrong")
                self.tally.counts["answers compared"] += 1
            if state.position in copies:
                require(state.digest() == copies[state.position], "a backup holds something else")
                self.tally.counts["backups compared"] += 1
        with fa.open(self.plan.store, create=False, clock=lambda: NOW) as mem:
            view = mem._view()
            require(view.position == state.position, "the store ends elsewhere")
            for name in ("links", "note_links", "cue_links", "notes"):
                memory = fa.Memory(clock=lambda: NOW)
                memory._setup(InMemory(), state, None, lambda: NOW)
                same = getattr(mem, name).to_arrow().equals(getattr(memory, name).to_arrow())
                require(same, f"the {name} are others than the journal's")
            require(mem.stats() == memory.stats(), "the counts are others than the journal's")
            found = mem.verify(digest=True)
            require(found.ok, f"verify found {found.problems}")
            require(found.digest == state.digest(), "the digest is another than the journal's")
            self.tally.counts["notes at the end"] += len(mem)
            self.tally.counts["links at the end"] += mem.stats()["links"]
            mem.write("Written afterwards.", id="afterwards")
            mem.vacuum()

    def modelled(self, rows: list[Row]) -> None:
        """The concept links and notes are those of the trusted model."""
        from .model import NaiveMemory, compare, play

        now = [0]
        model = NaiveMemory(lambda: now[0])
        askers = {name: Asker(self.plan, name) for name in self.plan.slots}
        for row in rows:
            now[0] = row.entry.at
            play(model, row.entry.kind, lambda row=row: askers[row.client].call(row.n))
        with fa.open(self.plan.store, create=False, clock=lambda: NOW) as mem:
            mem.forget(["afterwards"])
            compare(mem, model)
        self.tally.counts["links of the model"] += len(model.links)


# -- a run -----------------------------------------------------------------------------------------


def once(
    place: Path,
    tally: Tally,
    *,
    seed: int,
    processes: int,
    ops: int,
    preset: str = "cognitive",
    rough: float = 1.0,
    freeze: float = 0.002,
) -> None:
    """One store under all clients; raises Violation.

    `rough` is the mean of seconds between two kills or stops, 0 for none; `freeze` the chance that
    a client stops or dies by itself while it holds a lock.
    """
    shutil.rmtree(place, ignore_errors=True)
    (place / "kept").mkdir(parents=True)
    names = [*(f"w{n}" for n in range(processes)), "r0", "r1", "s0", "v0", "maker"]
    plan = Plan(place, seed, ops, preset, freeze, slots={name: n for n, name in enumerate(names)})
    (place / "positions").write_bytes(bytes(8 * 64))
    warmed(plan)

    def make() -> None:
        from .client import Client

        maker = Client(Plan(**{**vars(plan), "freeze": 0.0}), "maker")
        fa.open(plan.store, settings=getattr(Settings, preset)(), clock=lambda: NOW).close()
        del maker

    require(ended(make) == 0, "no store was made")
    herd = Herd(plan, random.Random(seed), tally, rough)
    try:
        herd.run(names[:-1])
        judge = Judge(plan, tally)
        judge.all()
        require(not herd.failed, f"{herd.failed}")
    finally:
        herd.end()


def warmed(plan: Plan) -> None:
    """Load the kernels once, before the first fork."""
    mem = fa.Memory(settings=getattr(Settings, plan.preset)(), clock=lambda: NOW)
    asker = Asker(plan, "w0")
    for n in range(60):
        verb, args, more = asker.call(n)
        with suppress(FastAssocError):
            getattr(mem, verb)(*args, **more)
    for question in questions(plan.preset):
        answer(mem, question)


def run(
    *,
    seed: int = 1,
    processes: int = 8,
    ops: int = 2000,
    repeats: int = 1,
    rough: float = 1.0,
    freeze: float = 0.002,
    tell: Callable[[str], None] | None = None,
) -> Tally:
    """Repeat with other seeds, by turns in both presets."""
    tally, begun = Tally(), time.monotonic()
    place = room() / "many"
    for number in range(repeats):
        preset = ("cognitive", "counts")[(seed + number) % 2]
        start = time.monotonic()
        try:
            once(
                place,
                tally,
                seed=seed + number,
                processes=processes,
                ops=ops,
                preset=preset,
                rough=rough,
                freeze=freeze,
            )
        except Exception as error:
            name = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
            tally.violations.append(f"seed {seed + number}, {preset}: {name}{error}")
            kept = tempfile.mkdtemp(prefix=f"many-{seed + number}-")
            shutil.copytree(place, kept, dirs_exist_ok=True)
            if tell is not None:
                tell(f"VIOLATION {tally.violations[-1]}\nthe store and the records: {kept}")
            if not isinstance(error, (Violation, FastAssocError)):
                raise
        finally:
            shutil.rmtree(place.parent, ignore_errors=True)
        tally.runs += 1
        tally.seconds = time.monotonic() - begun
        if tell is not None:
            tell(
                f"seed {seed + number}, {preset}: {time.monotonic() - start:.0f} s; {tally.line()}"
            )
    return tally
