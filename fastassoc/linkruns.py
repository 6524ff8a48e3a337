"""Runs of links, and their columns."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = [
    "LINKS_SCHEMA",
    "Link",
    "LinkColumns",
    "Links",
    "Run",
    "columns_of",
    "empty_run",
    "link_of",
]

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("a", pa.uint32()),
    ("b", pa.uint32()),
    ("weight", pa.float64()),
    ("written", pa.float64()),
    ("count", pa.int64()),
    ("valence", pa.float64()),
    ("created_at", pa.int64()),
    ("updated_at", pa.int64()),
]
LINKS_SCHEMA = pa.schema(_FIELDS)


class Link(NamedTuple):
    """One link as stored: weight and written are values at `updated_at`."""

    a: int
    b: int
    weight: float
    written: float
    count: int  # type: ignore[assignment]  # a column's name, over tuple.count
    valence: float
    created_at: int
    updated_at: int


class LinkColumns(NamedTuple):
    """Links as columns of one length, in the types of `LINKS_SCHEMA`."""

    a: NDArray[np.uint32]
    b: NDArray[np.uint32]
    weight: NDArray[np.float64]
    written: NDArray[np.float64]
    count: NDArray[np.int64]  # type: ignore[assignment]
    valence: NDArray[np.float64]
    created_at: NDArray[np.int64]
    updated_at: NDArray[np.int64]

    def to_arrow(self) -> pa.Table:
        """The same as a table with `LINKS_SCHEMA`."""
        return pa.table([pa.array(column) for column in self], schema=LINKS_SCHEMA)


class Run(NamedTuple):
    """Sorted links: keys uint64[n], reals float64[n, 3], ints int64[n, 3] (see the kernels)."""

    keys: NDArray[np.uint64]
    reals: NDArray[np.float64]
    ints: NDArray[np.int64]

    def state(self, place: int) -> list[Any]:
        """Weight, written, valence, count, created_at and updated_at of one link."""
        return [*self.reals[place].tolist(), *self.ints[place].tolist()]

    def first(self, n: int) -> Run:
        """The first n entries, without a copy."""
        return self if n == len(self.keys) else self.slice(0, n)

    def slice(self, start: int, stop: int) -> Run:
        """Entries from start to stop, without a copy."""
        return Run(self.keys[start:stop], self.reals[start:stop], self.ints[start:stop])


class Links(Protocol):
    """What a run has, packed or not; `reals` and `ints` are indexed as arrays are."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The pairs, ascending."""

    @property
    def reals(self) -> Any:
        """Weight, written, valence of each."""

    @property
    def ints(self) -> Any:
        """Count, created_at, updated_at of each."""

    def state(self, place: int) -> list[Any]:
        """All of these of one."""


def empty_run() -> Run:
    """A run of nothing."""
    return Run(np.empty(0, np.uint64), np.empty((0, 3), np.float64), np.empty((0, 3), np.int64))


def columns_of(run: Run) -> LinkColumns:
    """The columns of a run without tombstones."""
    keys, reals, ints = run
    return LinkColumns(
        a=(keys >> np.uint64(32)).astype(np.uint32),
        b=keys.astype(np.uint32),  # the low half
        weight=np.ascontiguousarray(reals[:, 0]),
        written=np.ascontiguousarray(reals[:, 1]),
        count=np.ascontiguousarray(ints[:, 0]),
        valence=np.ascontiguousarray(reals[:, 2]),
        created_at=np.ascontiguousarray(ints[:, 1]),
        updated_at=np.ascontiguousarray(ints[:, 2]),
    )


def link_of(run: Links, place: int) -> Link | None:
    """The link at a place of a run, None for a tombstone."""
    key = int(run.keys[place])
    weight, written, valence, count, created, updated = run.state(place)
    if count < 0:
        return None
    return Link(key >> 32, key & 0xFFFFFFFF, weight, written, count, valence, created, updated)
