"""The fixed script: every operation of a store, each as a scene on a store that is ready for it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc import store as stores
from fastassoc.journal.transaction import Transaction
from fastassoc.ports import InMemory
from fastassoc.settings import Settings
from fastassoc.state import Operation, State

STORE = "s.fa"
QUESTIONS: list[dict[str, Any]] = [
    {"query": "tea kettle"},
    {"concepts": ["tea"]},
    {"vector": [1.0, 0.5, 0.0]},
]
NOW = datetime(2027, 1, 15, tzinfo=UTC)


class Counting:
    """An embedder that needs no model."""

    def __init__(self, name: str = "counting", dim: int = 4) -> None:
        self.name, self.dim = name, dim

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0 + (len(text) * (n + 1)) % 7 for n in range(self.dim)] for text in texts]


# -- what was acknowledged, and what it must have made ---------------------------------------------


@dataclass
class Ledger:
    """Which operations were saved, as the store said: called back by the two patches of `told`."""

    positions: list[int] = field(default_factory=list)
    operations: dict[int, Operation] = field(default_factory=dict)
    listeners: list[Callable[[int], None]] = field(default_factory=list)

    def note(self, position: int) -> None:
        self.positions.append(position)
        for listener in self.listeners:
            listener(position)

    @property
    def last(self) -> int:
        return max(self.positions, default=0)


@contextmanager
def told(ledger: Ledger) -> Iterator[Ledger]:
    """Keep a record of every operation that a store of this process acknowledges."""
    commit, append, save = Transaction.commit, Transaction.append, stores.Writing.append

    def appended(self: Transaction, drafts: Any) -> Any:
        entries = append(self, drafts)
        for entry in entries:
            if entry.kind == "create":
                made = Operation("create", entry.at, json.loads(entry.body))
                ledger.operations[entry.seq] = made
        return entries

    def committed(self: Transaction) -> None:
        done = self._appended and self._conn is not None
        commit(self)
        if done:
            ledger.note(self._last[0])

    def saved(self: stores.Writing, operation: Operation) -> int:
        position = save(self, operation)
        ledger.operations[position] = operation
        return position

    Transaction.commit, Transaction.append = committed, appended  # type: ignore[method-assign]
    stores.Writing.append = saved  # type: ignore[method-assign]
    try:
        yield ledger
    finally:
        Transaction.commit, Transaction.append = commit, append  # type: ignore[method-assign]
        stores.Writing.append = save  # type: ignore[method-assign]


class Model:
    """A state built from acknowledged operations alone, and what it says from `start` on."""

    def __init__(
        self, operations: dict[int, Operation], start: int = 0, *, asked: bool = True
    ) -> None:
        self.digests: dict[int, str] = {}
        self.answers: dict[int, list[Any]] = {}
        state: State | None = None
        for position in sorted(operations):
            operation = operations[position]
            if state is None:
                state = State(Settings.from_dict(operation.body["settings"]))
            state.apply(operation, position)
            if position < start:
                continue
            self.digests[position] = state.digest()
            if not asked:
                continue
            memory = fa.Memory(clock=lambda: NOW)
            memory._setup(InMemory(), state, None, lambda: NOW)
            self.answers[position] = answers(memory)


def answers(mem: Any) -> list[Any]:
    """What the memory says to a few questions, and about all links."""
    found: list[Any] = []
    for question in QUESTIONS:
        if "vector" in question and mem._view().points.dim != len(question["vector"]):
            continue
        recall = mem.read(**question, reinforce=False)
        found.append([(hit.id, hit.text, hit.score, hit.source) for hit in recall])
    found.append(sorted(map(str, mem.links.to_arrow().to_pylist())))
    return found


# -- scenes ----------------------------------------------------------------------------------------


@dataclass
class Stage:
    """Where a scene plays: a folder that holds the store, and its handle."""

    root: Path
    mem: Any = None
    sync: str = "full"

    @property
    def path(self) -> Path:
        return self.root / STORE

    def open(self, **more: Any) -> Any:
        options: dict[str, Any] = {"settings": Settings.cognitive(), **more}
        self.mem = fa.open(self.path, sync=self.sync, clock=lambda: NOW, timeout=2.0, **options)
        return self.mem

    def close(self) -> None:
        if self.mem is not None:
            self.mem.close()
            self.mem = None


Act = Callable[[Stage], Any]


@dataclass(frozen=True)
class Scene:
    """One operation: on which store it plays, and what it does.

    `opens` is false where the act opens the store itself; `again` is what is done to see it
    through after a failure, the act itself unless another is named.
    """

    name: str
    base: str
    act: Act
    opens: bool = True
    again: Act | None = None


def row(name: str, text: str, *concepts: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "text": text, "concepts": list(concepts), **more}


def lines_file(stage: Stage) -> Path:
    """Rows to ingest, two of which are refused; outside of the store."""
    path = stage.root.parent / "rows.jsonl"  # one path: the key of an ingest
    if not path.exists():
        rows = [row(f"i{n}", f"Row {n} about tea.", "tea", f"leaf {n}") for n in range(6)]
        bad = [{"id": "bad1", "text": None}, {"id": "bad2", "text": 7, "concepts": 3}]
        path.write_text("\n".join(json.dumps(r) for r in [*rows[:4], *bad, *rows[4:]]) + "\n")
    return path


def export_of(stage: Stage) -> list[dict[str, Any]]:
    path = stage.root.parent / "export.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def import_all(s: Stage) -> Any:
    return s.open().import_lines(export_of(s))


def act_read(s: Stage) -> Any:
    return s.mem.read("tea kettle", reinforce=True, session="fault")


def act_backup(s: Stage) -> Any:
    copy = s.root / "copy.fa"
    if copy.exists():  # it appeared whole, and its maker was killed before it could say so
        with fa.open(copy, create=False, clock=lambda: NOW) as kept:
            assert kept.position == s.mem.position
        return None
    return s.mem.backup(copy)


def act_open(s: Stage) -> Any:
    s.open()
    s.mem.read("tea")
    return s.mem


def act_close(s: Stage) -> Any:
    return s.close()


OP: dict[str, Any] = {"operation_id": "op-1"}
BATCH = [row(f"b{n}", f"Batch {n} on steam.", "steam", f"b{n}") for n in range(3)]
BULK = [row(f"k{n}", f"Bulk {n} on milk.", "milk", f"k{n}", vector=[1.0, n, 2.0]) for n in range(9)]
REPLACED = [row("n1", "Tea anew.", "tea", "anew", vector=[0.0, 2.0, 1.0])]

SCENES = [
    Scene("create", "none", act_open, opens=False),
    Scene("open", "two", act_open, opens=False),
    Scene("open after a kill", "killed", act_open, opens=False),
    Scene("write", "two", lambda s: s.mem.write("Cup.", id="w", concepts=["cup", "tea"], **OP)),
    Scene("write in a fresh store", "fresh", lambda s: s.mem.write("Cup.", id="w", **OP)),
    Scene("batch", "two", lambda s: s.mem.write_batch(BATCH, **OP)),
    Scene("bulk batch", "two", lambda s: s.mem.write_batch(BULK, **OP)),
    Scene("replace", "two", lambda s: s.mem.write_batch(REPLACED, on_duplicate="replace", **OP)),
    Scene("update", "two", lambda s: s.mem.update("n1", metadata={"k": "v"}, **OP)),
    Scene(
        "feedback",
        "two",
        lambda s: s.mem.feedback(asked=["tea"], used_concepts=["kettle"], outcome=1.0, **OP),
    ),
    Scene("link", "two", lambda s: s.mem.link("tea", "pot", weight=0.5, **OP)),
    Scene("unlink", "two", lambda s: s.mem.unlink("tea", "kettle", **OP)),
    Scene("forget", "two", lambda s: s.mem.forget(["n1", "n3"], **OP)),
    Scene("tick", "two", lambda s: s.mem.tick(NOW + timedelta(days=400), **OP)),
    Scene("configure", "two", lambda s: s.mem.configure(hop_factor=0.25, **OP)),
    Scene("reinforcing read", "two", act_read),
    Scene(
        "ingest",
        "two",
        lambda s: s.mem.ingest(lines_file(s), batch_rows=3, max_rejects=1.0),
    ),
    Scene("first snapshot", "fresh", lambda s: s.mem.snapshot()),
    Scene("snapshot", "two", lambda s: s.mem.snapshot()),
    Scene("vacuum", "two", lambda s: s.mem.vacuum()),
    Scene("backup", "two", act_backup),
    Scene("export", "two", lambda s: list(s.mem.export_lines())),
    Scene("import", "none", import_all, opens=False),
    Scene("reembed", "two", lambda s: s.mem.reembed(Counting())),
    Scene("verify", "two", lambda s: s.mem.verify(digest=True)),
    Scene("close", "two", act_close),
]


def base(name: str, root: Path) -> None:
    """Make a store to begin with, below `root`."""
    root.mkdir(parents=True)
    if name == "none":
        return
    stage = Stage(root)
    mem = stage.open()
    mem.write("Tea in a kettle.", id="n0", concepts=["tea", "kettle"], vector=[1.0, 0.0, 0.0])
    if name == "fresh":
        stage.close()
        return
    mem.write_batch(
        [
            row(f"n{n}", f"Note {n} on tea.", "tea", f"c{n}", vector=[1.0, n, 1.0], session="s")
            for n in range(1, 4)
        ]
    )
    mem.snapshot()
    mem.write_batch([row(f"m{n}", f"Bulk {n}.", "milk", f"m{n}", session="t") for n in range(8)])
    mem.feedback(asked=["tea"], used_concepts=["kettle"], outcome=0.5)
    mem.forget(["n2"])
    mem.snapshot()
    mem.write("After the snapshot.", id="late", concepts=["late", "tea"])
    mem.write("And one more.", id="later", concepts=["late"], vector=[0.5, 0.5, 0.5])
    if name == "killed":
        left = root.with_name(f"{root.name}.left")
        shutil.copytree(root, left)
        stage.close()
        shutil.rmtree(root)
        left.rename(root)
        return
    stage.close()


@contextmanager
def small() -> Iterator[None]:
    """Writes of a few rows become bulk segments, so that small scenes show every way."""
    before = stores.BULK_ROWS
    stores.BULK_ROWS = 6
    try:
        yield
    finally:
        stores.BULK_ROWS = before


@contextmanager
def strict() -> Iterator[list[str]]:
    """Collect the warnings of the library as text."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield found
        finally:
            found += [str(w.message) for w in caught if "fork" not in str(w.message)]


def room() -> Path:
    """A folder in memory where there is one."""
    shared = Path("/dev/shm")
    place = shared if shared.is_dir() and os.access(shared, os.W_OK) else Path("/tmp")
    path = place / f"faults-{os.getpid()}"
    path.mkdir(exist_ok=True)
    return path


def copy(source: Path, target: Path) -> None:
    """Copy a base; what is never changed in place is linked."""
    for folder, _, names in os.walk(source):
        inner = target / Path(folder).relative_to(source)
        inner.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name.endswith((".parquet", ".json")):
                os.link(os.path.join(folder, name), inner / name)
            else:
                shutil.copyfile(os.path.join(folder, name), inner / name)
                shutil.copystat(os.path.join(folder, name), inner / name)
    shutil.copystat(source, target)


if sys.platform != "linux":  # pragma: no cover
    raise ImportError("these instruments need Linux")
