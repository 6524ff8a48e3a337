"""What must be true of a store that was left in the middle of something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc import snapshot
from fastassoc.journal import Journal
from fastassoc.named import bulk_segments, manifest_of, parts_of
from fastassoc.store import Store
from fastassoc.storecare import check_manifests

from .script import NOW, Model, Stage, answers, strict

SETTLED = ("head could not be written",)  # the operation is saved; only a guard is not


class Violation(AssertionError):
    """A promise that was not kept."""


def require(true: bool, text: str) -> None:
    if not true:
        raise Violation(text)


def checked(journal: Journal) -> tuple[str | None, tuple[bytes, ...]]:
    """Check all that an open checks, but for what the loaded bytes mean; the key of the state.

    What loads from a key is the same state.
    """
    check_manifests(journal, stacklevel=2)
    pointer = journal.current()
    entries = journal.read(0 if pointer is None else pointer.seq)
    named = bulk_segments(entries)
    if pointer is not None:
        manifest = manifest_of(journal, pointer)
        parts_of(manifest, pointer.manifest)
        named += manifest["segments"]
    for segment in named:
        snapshot.verify_segment(journal.path, segment)
    return pointer and pointer.digest, tuple(entry.hash for entry in entries)


class Judge:
    """Compares stores with a model.

    Every store is opened by SQLite, its journal verified and every segment that it names hashed.
    What loads from the same operations and the same segments is the same state, so that this last
    step is taken once for each of them, and for every `whole`-th store.

    Parameters
    ----------
    model : Model
    whole : int
        Load, read and write every so many stores, besides each new one; 1 does all.
    """

    def __init__(self, model: Model, whole: int = 50) -> None:
        self.model = model
        self.whole = whole
        self.seen: dict[Any, str] = {}
        self.looked = self.loaded = 0

    def look(self, path: Path, low: int, high: int, sync: str = "full") -> int:
        """Check a store and return its position.

        Parameters
        ----------
        path : Path
            The store; it may be changed.
        low, high : int
            Where its journal may end.
        sync : str
            As the store is opened: under "normal" and "off" a warning tells of what was lost.
        """
        self.looked += 1
        with strict() as warned:
            with Journal.open(path, sync=sync, timeout=2.0) as journal:
                found = journal.head()
                require(low <= found <= high, f"found operation {found}, not {low} to {high}")
                problems = journal.verify()
                if sync != "full":
                    problems = [p for p in problems if "was acknowledged" not in p[1]]
                require(not problems, f"verify found {problems}")
                key = checked(journal)
            if found:
                known = self.seen.get(key)
                if known is None or self.looked % self.whole == 0:
                    known = self.seen[key] = self._load(path, sync)
                require(
                    known == self.model.digests.get(found),
                    f"the state at operation {found} is another than the model's",
                )
        if sync == "full":
            require(not warned, f"warned: {warned}")
        return found

    def _load(self, path: Path, sync: str) -> str:
        self.loaded += 1
        store, state = Store.open(
            path, create=False, read_only=False, settings=None, sync=sync, timeout=2.0, now=int
        )
        try:
            return state.digest()
        finally:
            store.close()

    def use(self, stage: Stage) -> None:
        """Open the store, compare its answers, write to it, snapshot and vacuum it, look again."""
        with strict() as warned:
            mem = stage.open(settings=None) if stage.path.exists() else stage.open()
            require(
                mem.position not in self.model.answers
                or self.model.answers[mem.position] == answers(mem),
                f"answers at operation {mem.position} are others than the model's",
            )
            before = mem.position
            mem.write("Written afterwards.", id="afterwards", concepts=["afterwards"])
            require(mem.position == before + 1, "a write made no operation")
            found = mem.verify(digest=True)
            known = [p for p in found.problems if "was acknowledged" in p[1]]
            if stage.sync == "full" or known != found.problems:  # else it tells what is lost
                require(found.ok, f"verify found {found.problems}")
            require(mem.snapshot(), "no snapshot was taken")
            mem.vacuum()
            stage.close()
            with fa.open(stage.path, create=False, clock=lambda: NOW) as mem:
                require("afterwards" in mem, "what was written afterwards is gone")
            left = sorted(p.name for p in stage.path.rglob("*") if leftover(p))
            require(not left, f"left after a vacuum: {left}")
        if stage.sync == "full":
            require(not warned, f"warned: {warned}")


def leftover(path: Path) -> bool:
    """Whether a file is one that no closed store has."""
    return path.name.startswith(("tmp-", ".new-")) or path.name.endswith(
        ("-wal", "-shm", "-journal", ".tmp")
    )
