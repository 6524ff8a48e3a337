"""Which earlier notes of its session each note of a batch is linked to, by cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.batch import NoteBatch
from fastassoc.settings import GRID, Settings
from fastassoc.state import State
from fastassoc.tagging import cosine_tags

__all__ = ["tagged"]


def tagged(state: State, batch: NoteBatch, on_duplicate: str) -> NoteBatch:
    """The batch with its tags: links of each note to notes before it in its session.

    A tag is the other note's sequence and the weight of the link, so that whoever applies the
    write needs no product of vectors. Tags do not depend on how the notes are cut into batches.

    Parameters
    ----------
    state : State
        As it is when the batch is written.
    batch : NoteBatch
    on_duplicate : {"error", "skip", "replace"}
        What becomes of a note whose id exists; see `Memory.write_batch`.
    """
    sessions = batch.columns.get("session")
    if state.settings.session_links != "cosine" or sessions is None or batch.vectors is None:
        return batch
    joins = {}
    names = sessions.to_pylist()
    for name in names:
        if name is not None and name not in joins:
            joins[name] = _Joining(state, batch, name)
    ids, seq = batch.columns["id"].to_pylist(), state.notes.next_seq
    written: dict[str, tuple[str | None, int]] = {}  # id to session and sequence
    for place, (note, name) in enumerate(zip(ids, names, strict=True)):
        old = written.get(note)
        if old is None and note in state.notes.rows:
            row = state.notes.rows[note]
            old = state.notes.plain["session"][row], int(state.notes.seq.array[row])
        if old is not None and on_duplicate != "replace":
            continue
        if old is not None and old[0] in joins:
            joins[old[0]].leave(old[1])
        if name is not None:
            joins[name].enter(seq, place)
        written[note] = name, seq
        seq += 1
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    for one in joins.values():
        one.settle()
        found += one.found
    if not any(len(places) for places, _, _ in found):
        return batch
    return replace(batch, columns={**batch.columns, "tags": _column(found, len(batch))})


class _Joining:
    """One session while a batch is written into it."""

    def __init__(self, state: State, batch: NoteBatch, name: str) -> None:
        settings, notes = state.settings, state.notes
        self._settings = settings
        self._matrix, with_vector = batch.vector_matrix()
        self._at = {place: at for at, place in enumerate(with_vector.tolist())}
        # as many more as the batch may take out of the window
        rows = notes.sessions.last(name, settings.tag_window + len(batch), notes.alive.array)
        vectors, _ = state.space.points.take(np.array(rows, np.int64))
        if not vectors.shape[1]:
            vectors = np.zeros((len(rows), self._matrix.shape[1]), np.float32)
        self._old = [(seq, vectors[n]) for n, seq in enumerate(notes.seq.array[rows].tolist())]
        self._new: list[tuple[int, int]] = []  # sequence and place
        self.found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []

    def enter(self, seq: int, place: int) -> None:
        """A note of the batch is written."""
        self._new.append((seq, place))

    def leave(self, seq: int) -> None:
        """A note is replaced: later ones do not see it."""
        self.settle()
        self._old = [one for one in self._old if one[0] != seq]

    def settle(self) -> None:
        """Find the tags of the notes that entered."""
        if not self._new:
            return
        settings, nothing = self._settings, np.zeros(self._matrix.shape[1], np.float32)
        before = self._old[-settings.tag_window :]
        own = [self._matrix[self._at[p]] if p in self._at else nothing for _, p in self._new]
        newer, older, cosines = cosine_tags(
            np.array([*(vector for _, vector in before), *own]),
            len(before),
            settings.tag_window,
            settings.tag_least,
        )
        seqs = np.array([seq for seq, _ in (*before, *self._new)], np.int64)
        places = np.array([place for _, place in self._new], np.int64)
        self.found.append(
            (places[newer - len(before)], seqs[older], tag_weights(settings, cosines))
        )
        entered = [(seq, vector) for (seq, _), vector in zip(self._new, own, strict=True)]
        self._old, self._new = [*self._old, *entered], []


def tag_weights(settings: Settings, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """`Settings.tag_weight` of each cosine, float64 [p]."""
    above = (cosines - settings.tag_least) * settings.tag_slope
    weights = np.minimum(settings.tag_most, settings.tag_base + above)
    on_steps: NDArray[np.float64] = np.rint(weights / GRID) * GRID
    return on_steps


def _column(
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]], n: int
) -> pa.Array:
    """Tags as the column of a batch: a list of (to, weight) for each note."""
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    places, to, weights = map(np.concatenate, zip(nothing, *found, strict=True))
    order = np.lexsort((to, places))
    ends = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=n))]).astype(np.int32)
    pairs = pa.StructArray.from_arrays(
        [pa.array(to[order]), pa.array(weights[order])], ["to", "weight"]
    )
    return pa.ListArray.from_arrays(pa.array(ends), pairs)
