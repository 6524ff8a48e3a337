"""Many links in little memory: each distinct state once, and two codes for each link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.kernels import packed as kernels
from fastassoc.linkruns import LINKS_SCHEMA, LinkColumns, Run

__all__ = ["Coded", "Packed", "States", "Table", "one", "states_apart"]

FIRST = 1024  # rows that a table begins with
ROWS = 16_384  # rows that no link has any more, at most, but for a share of the links
SIDES = (("weight", "written", "valence"), ("count", "created_at", "updated_at"))  # of a state
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

    def state(self, place: int) -> list[Any]:
        """As in `Run`."""
        real, whole = self.codes[place].tolist()
        return [*self.real_rows[real].tolist(), *self.int_rows[whole].tolist()]

    @classmethod
    def empty(cls) -> Packed:
        """No links."""
        return cls(
            np.empty(0, np.uint64),
            np.empty((0, 2), np.uint32),
            np.empty((0, 3), np.float64),
            np.empty((0, 3), np.int64),
        )

    def overlaid(self, run: Run) -> Packed:
        """A newer run laid over it; its tombstones take links out."""
        if not len(run.keys):
            return self
        states = States(self.real_rows, self.int_rows)
        return states.merged(run.keys, states.codes_of(run), self)

    def run(self) -> Run:
        """The links as a run of their own, tombstones too."""
        return Run(self.keys, self.real_rows[self.codes[:, 0]], self.int_rows[self.codes[:, 1]])

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

    def to_arrow(self) -> pa.Table:
        """The columns as a table, its states apart: see `states_apart`."""
        ends = [self.keys >> np.uint64(32), self.keys]  # of a key the low half remains
        a, b = (pa.array(end.astype(np.uint32)) for end in ends)
        apart = _dictionaries([*self.codes.T], (self.real_rows, self.int_rows))
        return pa.table({"a": a, "b": b, **apart}).select(LINKS_SCHEMA.names)


def states_apart(table: pa.Table) -> pa.Table:
    """A table of links with its columns but the ends as dictionaries, in a third of the memory.

    The columns of a side of the state share their codes. Columns that hold nulls, or are not those
    of links, are left as they are.
    """
    wanted = LINKS_SCHEMA.types[2:]
    if table.schema.names != LINKS_SCHEMA.names or table.schema.types[2:] != wanted:
        return table
    if any(column.null_count for column in table.columns):
        return table
    found = []
    for batch in table.to_batches():
        sides, rows = np.empty((2, len(batch)), np.uint32), []
        for codes, names in zip(sides, SIDES, strict=True):
            columns = [batch.column(name).to_numpy() for name in names]
            known = Table(np.empty((0, 3), columns[0].dtype))
            for start in range(0, len(batch), PIECE):
                part = slice(start, start + PIECE)
                codes[part] = known.codes_of(np.stack([one[part] for one in columns], axis=1))
            rows.append(known.rows())
        ends = {name: batch.column(name) for name in ("a", "b")}
        found.append(pa.table(ends | _dictionaries([*sides], rows)).select(LINKS_SCHEMA.names))
    return pa.concat_tables(found) if found else table


def _dictionaries(
    sides: Sequence[NDArray[np.uint32]], rows: Sequence[NDArray[Any]]
) -> dict[str, pa.DictionaryArray[Any]]:
    made = {}
    for codes, held, names in zip(sides, rows, SIDES, strict=True):
        indices = pa.array(np.ascontiguousarray(codes))
        for name, column in zip(names, held.T, strict=True):
            values = pa.array(np.ascontiguousarray(column))
            made[name] = pa.DictionaryArray.from_arrays(indices, values, safe=False)
    return made


class States:
    """Distinct states of links, with a code for each; what it gave out never changes.

    Parameters
    ----------
    real_rows : float64[r, 3]
        As in `Packed`; copied.
    int_rows : int64[s, 3]
    """

    def __init__(self, real_rows: NDArray[np.float64], int_rows: NDArray[np.int64]) -> None:
        self.reals, self.ints = Table(real_rows), Table(int_rows)
        self._most = 0  # rows from which they are too many
        self._settle()

    @classmethod
    def empty(cls) -> States:
        """No states."""
        return cls(np.empty((0, 3), np.float64), np.empty((0, 3), np.int64))

    def codes_of(self, run: Run) -> NDArray[np.uint32]:
        """The codes of a run's states, uint32 [n, 2], new ones added."""
        codes = np.empty((len(run.keys), 2), np.uint32)
        codes[:, 0], codes[:, 1] = self.reals.codes_of(run.reals), self.ints.codes_of(run.ints)
        return codes

    def coded(self, table: pa.Table) -> Packed:
        """The links of a table whose states are apart, sorted, each once."""
        n, at = table.num_rows, 0
        keys, codes = np.empty(n, np.uint64), np.empty((n, 2), np.uint32)
        for batch in table.to_batches():
            part = slice(at, at + len(batch))
            at += len(batch)
            a, b = (batch.column(name).to_numpy() for name in ("a", "b"))
            keys[part] = a.astype(np.uint64) << np.uint64(32) | b
            for side, (known, names) in enumerate(zip((self.reals, self.ints), SIDES, strict=True)):
                columns = [batch.column(name) for name in names]
                rows = [column.dictionary.to_numpy() for column in columns]
                codes[part, side] = known.codes_of(np.stack(rows, axis=1))[
                    columns[0].indices.to_numpy()
                ]
        self._settle()
        return self.packed(keys, codes)

    def packed(self, keys: NDArray[np.uint64], codes: NDArray[np.uint32]) -> Packed:
        """Links with codes of these states."""
        return Packed(keys, codes, self.reals.rows(), self.ints.rows())

    def merged(
        self,
        keys: NDArray[np.uint64],
        codes: NDArray[np.uint32],
        old: Packed,
        *,
        drop: bool = True,
    ) -> Packed:
        """A newer run, coded, laid over an older one of these states; `drop` its tombstones."""
        if not len(old.keys) and not (drop and (self.ints.rows()[:, 0] < 0).any()):
            return self.packed(keys, codes)
        room = len(keys) + len(old.keys)
        out, found = np.empty(room, np.uint64), np.empty((room, 2), np.uint32)
        used = kernels.merge_codes(
            keys, one(codes), self.ints.rows(), old.keys, one(old.codes), out, one(found), drop
        )
        return self.packed(out[:used], found[:used])

    def tidied(self, links: Packed) -> tuple[States, Packed]:
        """The same links, and their states alone, where many others have gathered."""
        if max(self.reals.used, self.ints.used) <= self._most + len(links.keys) // 4:
            return self, links
        new = States.empty()
        codes = np.empty_like(links.codes)
        codes[:, 0] = new.reals.codes_of(links.real_rows[links.codes[:, 0]])
        codes[:, 1] = new.ints.codes_of(links.int_rows[links.codes[:, 1]])
        new._settle()
        return new, new.packed(links.keys, codes)

    def _settle(self) -> None:
        self._most = 2 * max(self.reals.used, self.ints.used) + ROWS

    def reserve(self, rows: int) -> None:
        """Make room for so many more states."""
        self.reals.reserve(rows)
        self.ints.reserve(rows)


def one(codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Both codes of a link as one number: the first in the low half."""
    return codes.view(np.uint64).reshape(-1)


class Table:
    """Distinct rows of three numbers of 64 bits, with a code for each.

    Attributes
    ----------
    bits : uint64[room, 3]
        The rows by code, and room for more.
    slots : int32[2^k]
        See the kernels.
    used : int
        Rows.
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        self._dtype = rows.dtype
        self.used = len(rows)
        self._grow(rows.view(np.uint64), FIRST)

    def _grow(self, rows: NDArray[np.uint64], room: int) -> None:
        while room < 2 * len(rows):
            room *= 2
        self.bits = np.empty((room, 3), np.uint64)
        self.bits[: self.used] = rows[: self.used]
        self.slots = np.zeros(2 * room, np.int32)
        kernels.index_rows(self.bits, self.used, self.slots)

    def reserve(self, rows: int) -> None:
        """Make room for so many more rows."""
        if self.used + rows > len(self.bits):
            self._grow(self.bits, max(2 * len(self.bits), self.used + rows))

    def codes_of(self, rows: NDArray[Any]) -> NDArray[np.uint32]:
        """The codes of some rows, new ones added."""
        codes = np.empty(len(rows), np.uint32)
        bits, at = rows.view(np.uint64), 0
        while True:
            at, self.used = kernels.intern(bits, at, self.bits, self.used, self.slots, codes)
            if at == len(rows):
                return codes
            self._grow(self.bits, 2 * len(self.bits))

    def rows(self) -> NDArray[Any]:
        """All rows, by code; later ones do not show."""
        return self.bits[: self.used].view(self._dtype)
