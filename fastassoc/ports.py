"""Where operations are kept in order: nowhere but in memory, or in a store (`store.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fastassoc.cache import Cache
from fastassoc.indexed import Indexed
from fastassoc.notes import NoteTable
from fastassoc.state import Operation, State, StateView
from fastassoc.vectorcache import index_of
from fastassoc.vectors import Choice

__all__ = ["Held", "InMemory", "Port", "Still"]

# gives the state, caught up, and holds it still while the context lasts
Still = Callable[[], AbstractContextManager[State]]


class Held(Protocol):
    """The right to write, until it is given back."""

    def catch_up(self, state: State) -> State:
        """The state with everything that others did; perhaps another object."""

    def done(self, operation_id: str) -> list[str] | None:
        """The ids that the operation of this id wrote, as far as known; None if there is none."""

    def append(self, operation: Operation) -> int:
        """Save an operation for good and return its position."""


class Port(Protocol):
    """The order of operations, and everything that lies behind it."""

    path: Path | None
    read_only: bool
    timeout: float

    def locked(self) -> AbstractContextManager[Held]:
        """Wait for the right to write."""

    def changed(self, position: int) -> bool:
        """Whether there is more than the caller at `position` has applied."""

    def catch_up(self, state: State) -> State:
        """The state with everything that others did, without waiting for a writer."""

    def tend(self, still: Still) -> None:
        """What is due after an operation, such as an automatic snapshot."""

    def index(
        self, view: StateView, forgotten: Sequence[tuple[int, int]], floor: float
    ) -> Indexed | None:
        """An index over the view's vectors with at least this recall, where it is worth having.

        `forgotten` has position and sequence of notes that were forgotten.
        """

    def choice(self, view: StateView, floor: float) -> Choice | None:
        """Which index was chosen for the view's vectors, None before one was made."""

    def info(self) -> dict[str, Any]:
        """What it takes on disk."""

    def close(self) -> None:
        """Let go of everything."""


def written_ids(operation: Operation) -> list[str]:
    """Ids of the notes that an operation writes."""
    if operation.batch is not None:
        ids: list[str] = operation.batch.columns["id"].to_pylist()
        return ids
    return [row["id"] for row in operation.body.get("rows", ())]


class InMemory:
    """Operations that are applied and then gone; only their ids are kept."""

    path: Path | None = None
    read_only = False
    timeout = 0.0

    def __init__(self) -> None:
        self._done: dict[str, list[str]] = {}
        self._index: tuple[tuple[NoteTable, int, float], int, Indexed | None] | None = None
        self._position = 0

    def locked(self) -> InMemory:
        """The memory's own lock is enough."""
        return self

    def __enter__(self) -> InMemory:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was taken."""

    def changed(self, position: int) -> bool:
        """No one else writes."""
        return False

    def catch_up(self, state: State) -> State:
        """Nothing to catch up with."""
        return state

    def done(self, operation_id: str) -> list[str] | None:
        """The ids that the operation of this id wrote."""
        return self._done.get(operation_id)

    def append(self, operation: Operation) -> int:
        """Give the operation its place."""
        self._position += 1
        if operation.op_id is not None:
            self._done[operation.op_id] = written_ids(operation)
        return self._position

    def tend(self, still: Still) -> None:
        """Nothing is due."""

    def index(
        self, view: StateView, forgotten: Sequence[tuple[int, int]], floor: float
    ) -> Indexed | None:
        """An index made anew when a quarter of the vectors came after it."""
        size, key = len(view.points), (view.notes.table, view.space.since, floor)
        if self._index is None or self._index[0] != key or size > 1.25 * self._index[1]:
            members = np.flatnonzero(view.notes.alive[view.points.rows])
            made = index_of(Cache(None), "00" * 16, floor, view, members)
            self._index = key, size, made
        return self._index[2]

    def choice(self, view: StateView, floor: float) -> Choice | None:
        """That of the last read by vector."""
        held = None if self._index is None else self._index[2]
        return None if held is None else held.index.choice

    def info(self) -> dict[str, Any]:
        """Nothing is on disk."""
        return {"path": None}

    def close(self) -> None:
        """Nothing to let go of."""
