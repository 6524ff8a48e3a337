"""A loss of power after every call, and every state of the disk that it may leave.

A sequence of operations is played once on a recording disk. After each event the power goes, the
states that a file system may legally leave are built in memory, and each that was not seen before
is opened and judged.
"""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fastassoc import parquet
from fastassoc.errors import CorruptStore, StoreNotFound
from fastassoc.journal import Journal, host
from fastassoc.named import manifest_of

from . import layer
from .judge import Judge, Violation, require
from .power import LOTS, Event, Pool, Power, Recorder, State
from .script import STORE, Ledger, Model, Stage, base, copy, room, row, small, told

Verb = Callable[[Stage, int], Any]


def ingest(s: Stage, n: int) -> Any:
    rows = [row(f"g{n}-{i}", f"Row {i} of {n}.", "tea", f"g{n}") for i in range(4)]
    return s.mem.ingest(rows, batch_rows=2)


def bulk(s: Stage, n: int) -> Any:
    return s.mem.write_batch([row(f"k{n}-{i}", f"Bulk {i}.", "milk") for i in range(8)])


def reopen(s: Stage, n: int) -> Any:
    s.close()
    return s.open(settings=None)


VERBS: dict[str, Verb] = {
    "write": lambda s, n: s.mem.write(f"Cup {n}.", id=f"w{n}", concepts=["cup", "tea"]),
    "batch": lambda s, n: s.mem.write_batch(
        [row(f"b{n}-{i}", "Steam.", "steam", f"b{n}", vector=[1.0, i, n]) for i in range(3)]
    ),
    "feedback": lambda s, n: s.mem.feedback(
        asked=["tea"], used_concepts=[f"f{n % 2}"], outcome=1.0
    ),
    "forget": lambda s, n: s.mem.forget([f"n{(0, 1, 3)[n % 3]}"]),
    "ingest": ingest,
    "snapshot": lambda s, n: s.mem.snapshot(),
    "vacuum": lambda s, n: s.mem.vacuum(),
    # besides, in long sequences
    "bulk": bulk,
    "link": lambda s, n: s.mem.link("tea", f"l{n}", weight=0.5),
    "reopen": reopen,
    "backup": lambda s, n: s.mem.backup(s.root / f"copy{n}.fa"),
}
SHORT = ("write", "batch", "feedback", "forget", "ingest", "snapshot", "vacuum")


@dataclass(frozen=True)
class Sequence:
    base: str
    verbs: tuple[str, ...]
    sync: str = "full"

    def __str__(self) -> str:
        return f"{self.base}/{self.sync}: {' '.join(self.verbs) or 'open'}"


LONG = [
    Sequence("none", ("write", "snapshot", "write", "reopen", "vacuum")),
    Sequence("two", ("bulk", "write", "snapshot", "forget", "bulk", "snapshot", "vacuum", "write")),
    Sequence("two", ("write", "backup", "snapshot", "backup", "vacuum")),
    Sequence("killed", ("write", "reopen", "batch", "snapshot", "reopen", "feedback")),
    Sequence("cut", ("write", "snapshot")),
    Sequence("fresh", ("batch", "snapshot", "batch", "snapshot", "bulk", "vacuum", "reopen")),
    Sequence("two", ("write", "batch", "snapshot", "write", "vacuum", "write"), "normal"),
    Sequence("two", ("bulk", "snapshot", "write", "reopen", "write"), "off"),
]


def short_sequences(length: int) -> list[Sequence]:
    """All sequences of at most so many verbs."""
    found = []
    for count in range(1, length + 1):
        found += [Sequence("two", verbs) for verbs in itertools.product(SHORT, repeat=count)]
    return found


@dataclass
class Tally:
    """What an enumeration found."""

    sequences: int = 0
    events: int = 0
    built: int = 0
    states: Counter[str] = field(default_factory=Counter)
    loaded: int = 0
    violations: list[str] = field(default_factory=list)
    recording: float = 0.0
    seconds: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.states.values())

    def lines(self) -> list[str]:
        return [
            f"{self.sequences} sequences, {self.events} events, {self.built} states built, "
            f"{self.count} distinct ones opened, {self.loaded} of them loaded anew",
            f"by lot: {dict(sorted(self.states.items()))}",
            f"{self.seconds:.0f} s, {self.recording:.0f} s of them recording; "
            f"{1000 * (self.seconds - self.recording) / max(1, self.count):.1f} ms a state; "
            f"{len(self.violations)} violations",
        ]


class Crashes:
    """Sequences played, states built and judged."""

    def __init__(self, seed: int = 1, chances: int = 2, whole: int = 200) -> None:
        self.room = room()
        self.draw = random.Random(seed)
        self.lots = [*LOTS, *[LOTS[-1]] * (chances - 1)]
        self.whole = whole
        self.tally = Tally()
        self.pool = Pool(self.room / "pool")
        self.bases: dict[str, tuple[Path, Ledger]] = {}
        self.loads: dict[Any, str] = {}
        self.known: set[tuple[int, int, int]] = set()
        self.made = 0
        self.share = 1.0  # of the states that are judged
        self.drawn = random.Random(seed)
        self.limit: float = float("inf")
        self.end = float("inf")
        self.first = False  # stop at the first violation

    def close(self) -> None:
        shutil.rmtree(self.room, ignore_errors=True)

    def base(self, name: str) -> tuple[Path, Ledger]:
        if name not in self.bases:
            path = self.room / f"base {name}"
            with told(Ledger()) as ledger:
                if name == "cut":
                    cut_creation(path)
                else:
                    base(name, path)
            self.bases[name] = path, ledger
        return self.bases[name]

    # -- recording -------------------------------------------------------------------------------

    def record(self, sequence: Sequence) -> tuple[Recorder, Model]:
        """Play a sequence once on a recording disk."""
        begun = time.monotonic()
        source, before = self.base(sequence.base)
        root = self.room / "played"
        shutil.rmtree(root, ignore_errors=True)
        copy(source, root)
        recorder = Recorder(root)
        stage = Stage(root, sync=sequence.sync)
        recorder.mark("ack", before.last)
        recorder.mark("durable", before.last)
        with told(Ledger(list(before.positions), dict(before.operations))) as ledger:
            ledger.listeners.append(lambda position: recorder.mark("ack", position))
            with layer.on(recorder), published(recorder):
                stage.open()
                for number, verb in enumerate(sequence.verbs):
                    VERBS[verb](stage, number)
                    if verb == "backup":
                        recorder.mark("backup", stage.mem.position, f"copy{number}.fa")
                stage.close()
        model = Model(ledger.operations, before.last, asked=False)
        self.tally.recording += time.monotonic() - begun
        self.tally.sequences += 1
        self.tally.events += len(recorder.events)
        return recorder, model

    # -- judging ---------------------------------------------------------------------------------

    def over(self) -> bool:
        """Whether there is enough."""
        return (
            self.tally.count >= self.limit
            or time.monotonic() > self.end
            or (self.first and bool(self.tally.violations))
        )

    def enumerate(self, sequence: Sequence) -> None:
        """Judge the states of a sequence."""
        recorder, model = self.record(sequence)
        judge = Judge(model, self.whole)
        judge.seen = self.loads
        judge.looked = self.tally.count
        power = Power(recorder.first, recorder.numbers)
        acked = durable = 0
        backups: dict[str, int] = {}
        for number, event in enumerate([*recorder.events, Event("end", "")]):
            if event.kind == "ack":
                acked = event.size
            elif event.kind == "durable":
                durable = event.size
            elif event.kind == "backup":
                backups[event.path] = event.size
            elif event.kind != "end":
                power.pass_by(event)
            low = acked if sequence.sync == "full" else durable
            for lot, state in power.states(self.lots, self.draw):
                self.tally.built += 1
                key = (state.key(), low, acked)
                if key in self.known or self.drawn.random() >= self.share:
                    continue
                self.known.add(key)
                self.tally.states[lot] += 1
                try:
                    self._judge(state, judge, low, acked + 1, sequence.sync, backups)
                except Exception as error:
                    name = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
                    self.tally.violations.append(
                        f"{sequence}, after event {number} ({event}), {lot}: {name}{error}"
                    )
                if self.over():
                    break
            if self.over():
                break
        self.tally.loaded += judge.loaded

    def _judge(
        self,
        state: State,
        judge: Judge,
        low: int,
        high: int,
        sync: str,
        backups: dict[str, int],
    ) -> None:
        self.made += 1
        root = self.room / f"state {self.made}"
        state.make(root, self.pool)
        try:
            path = root / STORE
            try:
                judge.look(path, low, high, sync)
            except StoreNotFound:
                require(low == 0, f"the store is gone, and {low} was acknowledged")
            if self.made % self.whole == 0:
                judge.use(Stage(root, sync=sync))
            for name, position in backups.items():
                judge.look(root / name, position, position, sync)
        finally:
            shutil.rmtree(root)


def cut_creation(root: Path) -> None:
    """A store whose maker was killed before it could make `head`."""
    root.mkdir(parents=True)
    Journal.create(root / STORE).close()
    (root / STORE / "head").unlink()


@contextmanager
def published(recorder: Recorder) -> Iterator[None]:
    """Mark what a snapshot made durable at every sync level."""
    publish = Journal.publish

    def marked(self: Journal, manifest: str, seq: int, *rest: Any, **more: Any) -> Any:
        pointer = publish(self, manifest, seq, *rest, **more)
        recorder.mark("durable", seq)
        return pointer

    Journal.publish = marked  # type: ignore[method-assign]
    try:
        yield
    finally:
        Journal.publish = publish  # type: ignore[method-assign]


@contextmanager
def quick() -> Iterator[None]:
    """Leave out of an open what is the same for all: the mount table, the parsing of schemas."""
    mounts, parse = host.network_filesystem, parquet.parse_schema
    host.network_filesystem = lambda path: None
    known = cache(parse)
    parquet.parse_schema = lambda told: known(told) if isinstance(told, str) else parse(told)
    try:
        yield
    finally:
        host.network_filesystem, parquet.parse_schema = mounts, parse


def run(
    sequences: list[Sequence],
    *,
    seed: int = 1,
    states: int | None = None,
    chances: int = 2,
    whole: int = 200,
    seconds: float | None = None,
    share: float = 1.0,
    sabotage: Callable[[], Any] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Tally:
    """Enumerate the states of sequences in turn, up to so many states.

    With `sabotage`, a context that breaks the library while a sequence is recorded.
    """
    begun = time.monotonic()
    one = Crashes(seed, chances, whole)
    one.share = share
    if states is not None:
        one.limit = states
    if seconds is not None:
        one.end = begun + seconds
    try:
        with ExitStack() as held:
            held.enter_context(small())
            held.enter_context(quick())
            for name in {sequence.base for sequence in sequences}:
                one.base(name)
            if sabotage is not None:
                one.first = True
                held.enter_context(sabotage())
            for sequence in sequences:
                before = len(one.tally.violations)
                one.enumerate(sequence)
                if tell is not None:
                    for text in one.tally.violations[before:][:3]:
                        tell(f"VIOLATION {text}")
                    if one.tally.sequences % 10 == 0:
                        tell(f"{one.tally.sequences} sequences, {one.tally.count} states")
                if one.over():
                    break
    finally:
        one.close()
    one.tally.seconds = time.monotonic() - begun
    return one.tally


__all__ = ["LONG", "SHORT", "Crashes", "Sequence", "Tally", "damaged", "run"]
__all__ += ["short_sequences"]


def damaged(
    *, seed: int = 1, count: int = 60, sabotage: Callable[[], Any] | None = None
) -> list[str]:
    """Damage what is durable, a sector at a time: the right answer or an error that names a file.

    Returns violations. What a loss of power leaves never shows whether hashes are checked, since
    a name is durable only after its bytes; a sector that a disk lost does.
    """
    draw, place, found = random.Random(seed), room(), []
    try:
        with ExitStack() as held:
            held.enter_context(small())
            with told(Ledger()) as ledger:
                base("two", place / "base")
            model = Model(ledger.operations, ledger.last, asked=False)
            if sabotage is not None:
                held.enter_context(sabotage())
            with Journal.open(place / "base" / STORE) as journal:
                pointer = journal.current()
                assert pointer is not None
                named = manifest_of(journal, pointer)["segments"]
            kinds = ("notes", "vectors", "links-concept")  # mostly data
            named = [segment for segment in named if segment.kind in kinds]
            segments = [place / "base" / STORE / "segments" / segment.name for segment in named]
            for number in range(count):
                root = place / f"state {number}"
                copy(place / "base", root)
                file = root / STORE / "segments" / draw.choice(segments).name
                data = bytearray(file.read_bytes())
                start = draw.randrange(len(data))
                if draw.random() < 0.5:
                    data[start : start + 64] = bytes(len(data[start : start + 64]))
                else:
                    data[start] ^= 1 << draw.randrange(8)
                file.unlink()
                file.write_bytes(data)
                try:
                    Judge(model, whole=1).look(root / STORE, ledger.last, ledger.last)
                except CorruptStore as error:
                    if file.name not in error.file:
                        found.append(f"{file.name}: the error names {error.file}")
                except Exception as error:
                    found.append(f"{file.name}, byte {start}: {type(error).__name__}: {error}")
                shutil.rmtree(root)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return found
