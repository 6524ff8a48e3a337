"""Vectors made of texts: for a batch on its way in, and for a whole memory that moves to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastassoc.batch import NoteBatch, vector_array
from fastassoc.embed import Embedder, embed_texts, identity
from fastassoc.reports import Report
from fastassoc.state import State, StateView

__all__ = ["move", "with_embeddings"]

STEP_BYTES = 1 << 20  # of vectors in one operation of a move
STEP_NOTES = 1024

Prepare = Callable[[State], Any]


class Change(Protocol):
    """How an operation is saved: see `Handle._change`."""

    def __call__(self, kind: str, prepare: Prepare, operation_id: str | None) -> Report:
        """Prepare, save and apply it."""


def with_embeddings(batch: NoteBatch, rows: NDArray[np.int64], embedder: Embedder) -> NoteBatch:
    """The batch with vectors for these rows, int64 [m], beside those that it has."""
    if not len(rows):
        return batch
    texts = batch.columns["text"].take(rows).to_pylist()
    made, given = embed_texts(embedder, texts)
    held, places = batch.vector_matrix()
    if not given.any():
        return batch
    matrix = np.zeros((len(batch), made.shape[1]), np.float32)
    null = np.ones(len(batch), np.bool_)
    if len(places):
        matrix[places], null[places] = held, False
    matrix[rows], null[rows] = made, ~given
    return replace(batch, vectors=vector_array(matrix, null))


def move(
    look: Callable[[], StateView],
    change: Change,
    embedder: Embedder,
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Move a memory to an embedder's vectors, batch by batch; see `Memory.reembed`."""
    told, total = identity(embedder), Report()
    while True:
        step = Step.next(look(), told)
        if step is None:
            return total
        texts = [step.texts[n] for n in range(len(step.texts))]
        vectors, given = embed_texts(embedder, texts)
        kept = [note for note, has in zip(step.ids, given.tolist(), strict=True) if has]
        made = step.save(change, kept, vectors[given])
        total = replace(
            total,
            updated=total.updated + made.updated,
            position=made.position,
            seconds=total.seconds + made.seconds,
        )
        if progress is not None and step.total:
            progress(step.done, step.total)


class Step:
    """The notes of one operation of a move, in order of writing; none where it only ends.

    Parameters
    ----------
    view : StateView
    rows : int64 [m]
    told : dict
        Identity of the embedder.
    done, total : int
        Notes seen after this step, and all.
    """

    def __init__(
        self, view: StateView, rows: NDArray[np.int64], told: dict[str, Any], done: int, total: int
    ) -> None:
        table = view.notes.table
        self._told = told
        self._rows = rows
        self._position = view.position
        self._after = view.space.through if view.space.moving == told else -1
        self._through = int(table.seq.array[rows[-1]]) if len(rows) else -1
        self.ids = table.named(rows.tolist())
        self.texts = table.texts.take(rows)
        self.done, self.total = done, total

    @classmethod
    def next(cls, view: StateView, told: dict[str, Any]) -> Step | None:
        """The next step from where the move stands; None where nothing is left to do."""
        rows, done = left(view, told)
        total = done + len(rows)
        if not len(rows) and view.space.embedder == told and view.space.moving != told:
            return None
        count = min(STEP_NOTES, max(1, STEP_BYTES // (4 * told["dim"])))
        return cls(view, rows[:count], told, done + len(rows[:count]), total)

    def save(self, change: Change, ids: list[str], vectors: NDArray[np.float32]) -> Report:
        """Save the vectors of these notes, or the end of the move, unless another did."""

        def prepare(state: State) -> Any:
            space = state.space
            through = space.through if space.moving == self._told else -1
            if through != self._after or (space.moving is None and self._ended(state)):
                return Report()  # another process went on with the same move
            if self._through < 0:
                return ({"embedder": self._told}, None) if self._last(state) else Report()
            kept = [n for n, note in enumerate(ids) if note in state.notes.rows]
            body = {
                "embedder": self._told,
                "ids": [ids[n] for n in kept],
                "through": self._through,
            }
            return body, vectors[kept].astype("<f4").tobytes()

        return change("reembed" if self._through >= 0 else "reembedded", prepare, None)

    def _ended(self, state: State) -> bool:
        """Whether the move that this step belongs to was brought to its end meanwhile."""
        return bool(state.space.since > self._position)

    def _last(self, state: State) -> bool:
        """Whether no note came meanwhile that the move must see."""
        rows, _ = left(state.view(), self._told)
        return not len(rows)


def left(view: StateView, told: dict[str, Any]) -> tuple[NDArray[np.int64], int]:
    """Live rows that a move still has to see, int64 [m] ascending, and how many it has seen."""
    notes = view.notes
    wanted = notes.alive.astype(np.bool_)
    if view.space.embedder == told:
        wanted = wanted.copy()
        wanted[view.points.rows] = False
    rows = np.flatnonzero(wanted)
    if view.space.moving != told:
        return rows, 0
    seen = int(np.searchsorted(notes.table.seq.array[rows], view.space.through, "right"))
    return rows[seen:], seen
