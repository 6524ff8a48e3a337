"""What is made of a snapshot's vectors and kept in the cache: the table, mapped, and an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc import vectors
from fastassoc.cache import Cache
from fastassoc.indexed import Indexed
from fastassoc.space import matrix_of
from fastassoc.state import StateView
from fastassoc.vectors import Choice, VectorIndex

__all__ = ["choice_of", "index_of", "mapped", "members_at"]

Forgotten = Sequence[tuple[int, int]]  # position and sequence of each note forgotten


def mapped(cache: Cache, key: str, rows: int, read: Callable[[], pa.Table]) -> pa.Table:
    """The table that `read` gives, from mapped files where it is large.

    Parameters
    ----------
    cache : Cache
    key : str
        Of the snapshot's vectors.
    rows : int
        About how many there are.
    read : callable
        Gives a table of ``seq`` int64 and ``vector`` FixedSizeList<float32>.
    """
    if rows <= vectors.EXACT_BELOW:
        return read()
    tables: list[pa.Table] = []

    def table() -> pa.Table:
        if not tables:
            tables.append(read().combine_chunks())
        return tables[0]

    matrix = cache.array("vectors", key, lambda: matrix_of(table()))
    seqs = cache.array("vector-seqs", key, lambda: table().column("seq").to_numpy())
    if len(matrix) != len(seqs):
        return table()
    flat = pa.array(matrix.reshape(-1))
    vector = pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
    return pa.table({"seq": pa.array(seqs), "vector": vector})


def kind_of(floor: float) -> str:
    """The cache's kind of an index with at least this recall."""
    return f"index-{round(floor * 10_000)}"


def choice_of(cache: Cache, key: str, floor: float) -> Choice | None:
    """What is told of an index that the cache holds; None where it holds none."""
    looking = Cache(cache.root, read_only=True)
    return looking.index(
        kind_of(floor),
        key,
        lambda path, told: Choice.from_dict(told),
        lambda: None,
        lambda made, sink: {},
        versions=vectors.versions(),
    )


def members_at(
    view: StateView, position: int, next_seq: int, forgotten: Forgotten
) -> NDArray[np.int64]:
    """Places of the vectors that a snapshot at `position` holds, int64 [m] ascending."""
    seqs = view.notes.table.seq.array[view.points.rows]
    there = np.arange(int(np.searchsorted(seqs, next_seq)), dtype=np.int64)
    dead = [seq for at, seq in forgotten if at <= position]
    return there[~np.isin(seqs[there], dead)] if dead else there


def index_of(
    cache: Cache, key: str, floor: float, view: StateView, members: NDArray[np.int64]
) -> Indexed | None:
    """The index over these places of the view's points; None where it is not worth having."""
    if len(members) <= vectors.EXACT_BELOW:
        return None

    def make() -> VectorIndex:
        matrix, _ = view.points.take(view.points.rows[members])
        return VectorIndex.build(matrix, floor=floor, exact_below=vectors.EXACT_BELOW)

    index = cache.index(
        kind_of(floor), key, VectorIndex.load, make, VectorIndex.save, versions=vectors.versions()
    )
    whole = index.choice.kind != "exact" and index.choice.notes == len(members)
    return Indexed(index, members) if whole else None
