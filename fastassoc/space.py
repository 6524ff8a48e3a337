"""The vector space of a memory: its notes' vectors, who made them, and a move to another space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput
from fastassoc.points import Points, PointsView

__all__ = ["Space", "SpaceView", "matrix_of", "vectors_table"]

Identity = Mapping[str, Any]  # an embedder's name and dim


class Space:
    """The vectors of a memory.

    Attributes
    ----------
    points : Points
        By row of the note.
    embedder : dict or None
        ``name`` and ``dim`` of the embedder that makes them; None where callers give them.
    staged : Points or None
        Vectors of a move under way, to another embedder or for notes without one.
    moving : dict or None
        The embedder of that move.
    through : int
        The move has seen notes up to this sequence.
    since : int
        The last operation that changed vectors of notes written before.
    """

    def __init__(self) -> None:
        self.points = Points()
        self.embedder: dict[str, Any] | None = None
        self.staged: Points | None = None
        self.moving: dict[str, Any] | None = None
        self.through = -1
        self.since = 0

    def view(self) -> SpaceView:
        """What a read sees of it."""
        return SpaceView(self.points.view(), self.embedder, self.moving, self.through, self.since)

    @property
    def dim(self) -> int | None:
        """The width of its vectors; None before the first, and without an embedder."""
        if self.points.dim is not None:
            return self.points.dim
        return None if self.embedder is None else int(self.embedder["dim"])

    def stage(
        self,
        embedder: dict[str, Any],
        rows: Sequence[int],
        vectors: NDArray[np.float32],
        through: int,
    ) -> None:
        """Keep vectors of a move; one to another embedder than before begins anew."""
        if self.staged is None or self.moving != embedder:
            self.staged, self.moving = Points(), embedder
            self.staged.dim = int(embedder["dim"])  # also where the first notes get no vector
        self.staged.append(np.asarray(rows, np.int64), vectors)
        self.through = through

    def finish(self, embedder: dict[str, Any], position: int) -> None:
        """End the move: the staged vectors take the place of the old, or stand beside them."""
        staged = self.staged if self.staged is not None and self.moving == embedder else Points()
        if embedder != self.embedder or not len(self.points):
            self.points = staged
        elif len(staged):  # they were missing
            (held, old), (rows, vectors) = everything(self.points), everything(staged)
            rows, order = np.unique(np.concatenate([held, rows]), return_index=True)
            self.points = Points.restored(rows, np.concatenate([old, vectors])[order])
        self.embedder = embedder
        self.staged = self.moving = None
        self.through, self.since = -1, position

    def summary(self) -> dict[str, Any]:
        """What a manifest keeps of it beside the tables."""
        return {
            "embedder": self.embedder,
            "dim": self.points.dim,  # which stays when the last vector goes
            "moving": self.moving,
            "moved_through": self.through,
            "vectors_since": self.since,
        }

    def restore(
        self,
        summary: Mapping[str, Any],
        seqs: NDArray[np.int64],
        vectors: pa.Table | None,
        staged: pa.Table | None,
    ) -> None:
        """Take what `vectors_table` and `summary` told; `seqs` are those of the notes, by row."""
        self.embedder = summary.get("embedder")
        self.moving = summary.get("moving")
        self.through = summary.get("moved_through", -1)
        self.since = summary.get("vectors_since", 0)
        if vectors is not None and vectors.num_rows:
            self.points = points_of(vectors, seqs)
        if self.moving is not None:
            self.staged = Points() if staged is None else points_of(staged, seqs)
            seen = int(np.searchsorted(seqs, self.through, "right"))
            if len(self.staged) and self.staged.view().rows[-1] >= seen:
                raise InvalidInput("a move has vectors of notes that it has not seen.")
            _widen(self.staged, int(self.moving["dim"]))
        _widen(self.points, summary.get("dim", self.points.dim))


def _widen(points: Points, width: int | None) -> None:
    """Tell points their width, which stays when the last vector goes."""
    if points.dim not in (None, width):
        raise InvalidInput(f"found vectors of width {points.dim}, expected {width}.")
    points.dim = width


@dataclass(frozen=True, eq=False)
class SpaceView:
    """A space as one read sees it; see `Space`."""

    points: PointsView
    embedder: dict[str, Any] | None
    moving: dict[str, Any] | None
    through: int
    since: int


def vectors_table(points: Points, seqs: NDArray[np.int64], alive: NDArray[np.uint8]) -> pa.Table:
    """Vectors of live notes, one row each: ``seq`` and ``vector``, by sequence.

    Parameters
    ----------
    points : Points
    seqs : int64 [n]
        Sequence of each row.
    alive : uint8 [n]
        Which rows are wanted.
    """
    view = points.view()
    places = np.flatnonzero(alive[view.rows])
    matrix = view.base[:0]
    if len(places):  # mostly a few new ones behind all others: only these are looked at
        start, stop, n = int(places[0]), int(places[-1]) + 1, len(view.base)
        parts = [view.base[start:stop], view.tail[max(start - n, 0) : max(stop - n, 0)]]
        held = [part for part in parts if len(part)]
        matrix = held[0] if len(held) == 1 else np.concatenate(held)
        if len(places) < stop - start:
            matrix = matrix[places - start]
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(flat, points.dim or 1)
    return pa.table({"seq": pa.array(seqs[view.rows[places]]), "vector": vectors})


def everything(points: Points) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """All rows, int64 [n], and their vectors, float32 [n, dim]."""
    view = points.view()
    return view.rows, np.concatenate([view.base, view.tail]) if len(view.tail) else view.base


def matrix_of(table: pa.Table) -> NDArray[np.float32]:
    """The vectors of such a table, float32 [n, dim]; not copied where they lie in one piece."""
    column = table.column("vector")
    parts = [np.asarray(chunk.flatten().to_numpy(), np.float32) for chunk in column.chunks]
    flat = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.float32), *parts])
    return flat.reshape(-1, column.type.list_size)


def points_of(table: pa.Table, seqs: NDArray[np.int64]) -> Points:
    """The points that `vectors_table` gave; vectors of notes that are gone are left out."""
    held, matrix = table.column("seq").to_numpy(), matrix_of(table)
    rows = np.searchsorted(seqs, held)
    known = seqs[np.minimum(rows, len(seqs) - 1)] == held if len(seqs) else held < 0
    if not known.all():
        rows, matrix = rows[known], matrix[known]
    return Points.restored(rows.astype(np.int64), matrix) if len(rows) else Points()
