"""Many links in little memory: each distinct state once, and two codes for each link."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import packed as kernels
from fastassoc.linkruns import LinkColumns, Run

__all__ = ["Coded", "Packed"]

FIRST = 1024  # rows that a table begins with
PIECE = 1 << 16  # links that are interleaved at once, so that they stay in the cache


class Coded(NamedTuple):
    """Rows of a table by code, indexed as the array ``table[codes]`` would be.

    Examples
    --------
    >>> rows = Coded(np.array([1, 0, 1]), np.array([[0.5, 5.0], [0.25, 6.0]]))
    >>> rows[:, 1].tolist(), rows[0].tolist()
    ([6.0, 5.0, 6.0], [0.25, 6.0])
    """

    codes: NDArray[Any]
    table: NDArray[Any]

    def __getitem__(self, at: Any) -> NDArray[Any]:  # type: ignore[override]
        found: NDArray[Any]
        if isinstance(at, tuple):
            found = np.ascontiguousarray(self.table[:, at[1]])[self.codes[at[0]]]
        else:
            found = self.table[self.codes[at]]
        return found


class Packed(NamedTuple):
    """Sorted links without tombstones; nothing in it ever changes.

    Attributes
    ----------
    keys : uint64[n]
        As in `Run`.
    codes : uint32[n, 2]
        Of each link: its row in `real_rows`, and in `int_rows`.
    real_rows : float64[r, 3]
        Distinct (weight, written, valence).
    int_rows : int64[s, 3]
        Distinct (count, created_at, updated_at).

    Examples
    --------
    >>> run = Run(np.array([5, 7], np.uint64), np.ones((2, 3)), np.ones((2, 3), np.int64))
    >>> packed = Packed.empty().overlaid(run)
    >>> len(packed.real_rows), packed.reals[1].tolist()
    (1, [1.0, 1.0, 1.0])
    """

    keys: NDArray[np.uint64]
    codes: NDArray[np.uint32]
    real_rows: NDArray[np.float64]
    int_rows: NDArray[np.int64]

    @property
    def reals(self) -> Coded:
        """As in `Run`."""
        return Coded(self.codes[:, 0], self.real_rows)

    @property
    def ints(self) -> Coded:
        """As in `Run`."""
        return Coded(self.codes[:, 1], self.int_rows)

    @classmethod
    def empty(cls) -> Packed:
        """No links."""
        return cls(
            np.empty(0, np.uint64),
            np.empty((0, 2), np.uint32),
            np.empty((0, 3), np.float64),
            np.empty((0, 3), np.int64),
        )

    @classmethod
    def of(cls, columns: LinkColumns) -> Packed:
        """The links of some columns, sorted, each once."""
        n = len(columns.a)
        reals, ints = _Table(np.empty((0, 3), np.float64)), _Table(np.empty((0, 3), np.int64))
        keys, codes = np.empty(n, np.uint64), np.empty((n, 2), np.uint32)
        for start in range(0, n, PIECE):
            part = slice(start, min(n, start + PIECE))
            keys[part] = columns.a[part].astype(np.uint64) << np.uint64(32) | columns.b[part]
            sides = (columns.weight, columns.written, columns.valence)
            codes[part, 0] = reals.codes_of(np.stack([side[part] for side in sides], axis=1))
            wholes = (columns.count, columns.created_at, columns.updated_at)
            codes[part, 1] = ints.codes_of(np.stack([whole[part] for whole in wholes], axis=1))
        return cls(keys, codes, reals.rows(), ints.rows())

    def overlaid(self, run: Run) -> Packed:
        """A newer run laid over it; its tombstones take links out."""
        if not len(run.keys):
            return self
        reals, ints = _Table(self.real_rows), _Table(self.int_rows)
        new = np.stack([reals.codes_of(run.reals), ints.codes_of(run.ints)], axis=1)
        room = len(self.keys) + len(run.keys)
        keys, codes = np.empty(room, np.uint64), np.empty((room, 2), np.uint32)
        used = kernels.merge_codes(run.keys, new, run.ints, self.keys, self.codes, keys, codes)
        keys, codes = keys[:used], codes[:used]
        return Packed(keys, codes, reals.rows(), ints.rows()).tidied()

    def tidied(self) -> Packed:
        """The same links, without the rows that no link has any more, if they are many."""
        most = 2 * len(self.keys) + FIRST
        if max(len(self.real_rows), len(self.int_rows)) <= most:
            return self
        codes, tables = np.empty_like(self.codes), []
        for place, rows in enumerate((self.real_rows, self.int_rows)):
            table = _Table(rows[:0])
            codes[:, place] = table.codes_of(rows[self.codes[:, place]])
            tables.append(table.rows())
        return Packed(self.keys, codes, *tables)

    def columns(self) -> LinkColumns:
        """The columns of all links."""
        reals, ints = self.reals, self.ints
        return LinkColumns(
            a=(self.keys >> np.uint64(32)).astype(np.uint32),
            b=self.keys.astype(np.uint32),  # the low half
            weight=reals[:, 0],
            written=reals[:, 1],
            count=ints[:, 0],
            valence=reals[:, 2],
            created_at=ints[:, 1],
            updated_at=ints[:, 2],
        )


class _Table:
    """Distinct rows of three numbers of 64 bits, with a code for each."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._dtype = rows.dtype
        self._used = len(rows)
        self._grow(rows.view(np.uint64), FIRST)

    def _grow(self, rows: NDArray[np.uint64], room: int) -> None:
        while room < 2 * len(rows):
            room *= 2
        self._rows = np.empty((room, 3), np.uint64)
        self._rows[: self._used] = rows[: self._used]
        self._slots = np.zeros(2 * room, np.int32)
        kernels.index_rows(self._rows, self._used, self._slots)

    def codes_of(self, rows: NDArray[Any]) -> NDArray[np.uint32]:
        """The codes of some rows, new ones added."""
        codes = np.empty(len(rows), np.uint32)
        bits, at = rows.view(np.uint64), 0
        while True:
            at, self._used = kernels.intern(bits, at, self._rows, self._used, self._slots, codes)
            if at == len(rows):
                return codes
            self._grow(self._rows, 2 * len(self._rows))

    def rows(self) -> NDArray[Any]:
        """All rows, by code."""
        return self._rows[: self._used].copy().view(self._dtype)
