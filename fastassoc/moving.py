"""Vectors made of texts: for a batch on its way in, and for a whole memory that moves to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastassoc.batch import NoteBatch, vector_array
from fastassoc.columns import places_in
from fastassoc.embed import Embedder, embed_texts, identity
from fastassoc.errors import StoreError
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
    told, start, begun = identity(embedder), look().position, False
    total = Report(position=start)
    while True:
        step = Step(look(), told, start)
        if step.over:
            return total
        vectors, given = embed_texts(embedder, step.texts)
        made = step.save(change, given, vectors, begun=begun)
        begun = begun or made.updated > 0
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
    told : dict
        Identity of the embedder.
    start : int
        The operation after which the move was begun, or taken up.

    Attributes
    ----------
    texts : list of str
    over : bool
        Whether nothing is left to do, or the move came to its end.
    done, total : int
        Notes seen after this step, and all.
    """

    def __init__(self, view: StateView, told: dict[str, Any], start: int) -> None:
        space, table = view.space, view.notes.table
        rows, done = left(view, told)
        count = min(STEP_NOTES, max(1, STEP_BYTES // (4 * told["dim"])))
        self.total, rows = done + len(rows), rows[:count]
        self.done = done + len(rows)
        whole = not len(rows) and space.embedder == told and space.moving != told
        self.over = whole or (space.since > start and space.embedder == told)
        self.texts = table.texts.take(rows)
        self._told = told
        self._seqs: list[int] = table.seq.array[rows].tolist()
        self._after = space.through if space.moving == told else -1
        self._since = space.since

    def save(
        self,
        change: Change,
        given: NDArray[np.bool_],
        vectors: NDArray[np.float32],
        *,
        begun: bool,
    ) -> Report:
        """Save the vectors of these notes, or the end of the move, unless another did.

        `begun` says that the move has saved a step before this one.
        """

        def prepare(state: State) -> Any:
            space = state.space
            ours = space.moving == self._told
            if begun and not ours and space.moving is not None:
                raise StoreError(
                    f"the memory is being moved to {space.moving['name']!r} since, by another "
                    f"call of reembed: the move to {self._told['name']!r} was given up."
                )
            if (space.through if ours else -1) != self._after or space.since != self._since:
                return Report()  # another process went on with the same move
            if not self._seqs:
                seen = not len(left(state.view(), self._told)[0])
                return ({"embedder": self._told}, None) if seen else Report()
            # by sequence: an id may name another note by now
            live = alive_at(state, self._seqs) & given
            body = {
                "embedder": self._told,
                "seqs": [seq for seq, kept in zip(self._seqs, live.tolist(), strict=True) if kept],
                "through": self._seqs[-1],
            }
            return body, vectors[live].astype("<f4").tobytes()

        return change("reembed" if self._seqs else "reembedded", prepare, None)


def alive_at(state: State, seqs: list[int]) -> NDArray[np.bool_]:
    """Which sequences are live notes, bool [m]."""
    notes = state.notes
    rows, live = places_in(notes.seq.array, seqs)
    live[live] = notes.alive.array[rows[live]] == 1
    return live


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
