"""Notes as points: their vectors as data, and exact answers about the nearest."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.columns import Growable
from fastassoc.errors import InvalidInput
from fastassoc.kernels.vectors import cosines, nearest, nearest_sketched, sketch, squared

__all__ = ["Points", "PointsView"]

NO_PLACES = np.empty(0, np.int64)
SKETCHED = 20_000  # vectors up to which a scan keeps sketches: more have an index


class Sketches:
    """Sketches of the first vectors of a table, as far as anybody scanned them.

    A quarter of the vectors' bytes, which is what a scan waits for; see `kernels.vectors.sketch`.
    """

    def __init__(self) -> None:
        self._codes = Growable(np.int8)  # flat
        self._scales = Growable(np.float64)
        self._errors = Growable(np.float64)
        self._lock = threading.Lock()

    def of(
        self, base: NDArray[np.float32], tail: NDArray[np.float32]
    ) -> tuple[NDArray[np.int8], NDArray[np.float64], NDArray[np.float64]]:
        """Codes int8[n, dim], scales and errors float64[n] of a base and its tail."""
        n, dim = len(base) + len(tail), base.shape[1]
        with self._lock:
            known = len(self._errors)
            self._add(base[known:])
            self._add(tail[max(0, known - len(base)) :])
            codes = self._codes.array[: n * dim].reshape(n, dim)
            return codes, self._scales.array[:n], self._errors.array[:n]

    def _add(self, vectors: NDArray[np.float32]) -> None:
        if len(vectors):
            codes = np.empty(vectors.shape, np.int8)
            scales, errors = np.empty(len(vectors)), np.empty(len(vectors))
            sketch(vectors, codes, scales, errors)
            self._codes.append(codes.ravel())
            self._scales.append(scales)
            self._errors.append(errors)


class Points:
    """Vectors of notes by ascending row; rows without a vector are simply not there.

    A *row* is a note's number, a *place* the number of a vector among the vectors. A table that
    was saved comes back as a base, perhaps a read-only memory map, which is never copied; later
    vectors go to a tail that grows. Squared norms are kept in float64, those of a base from when
    they are first needed.

    Examples
    --------
    >>> points = Points()
    >>> points.append(np.array([0, 3]), np.array([[1, 0], [3, 4]], np.float32))
    >>> len(points), points.dim
    (2, 2)
    >>> view = points.view()
    >>> rows, similarities = view.nearest(np.array([2, 0], np.float32), 5, np.ones(4, np.uint8))
    >>> rows, similarities
    (array([0, 3]), array([1. , 0.6]))
    """

    def __init__(self) -> None:
        self.dim: int | None = None  #: width of the vectors; None until the first
        self._rows = Growable(np.int64)
        self._squares = Growable(np.float64)
        self._tail = Growable(np.float32)  # flat
        self._base: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self._sketches = Sketches()
        self._view: PointsView | None = None

    @classmethod
    def restored(cls, rows: NDArray[np.int64], base: NDArray[np.float32]) -> Points:
        """Points that were saved.

        Parameters
        ----------
        rows : numpy.ndarray of int64, shape [n]
            Their rows, ascending.
        base : numpy.ndarray of float32, shape [n, dim]
            Their vectors, finite and not zero, which is not looked at here; kept, not copied
            (as long as it is contiguous), so it must not change. May be a read-only memory map.

        Raises
        ------
        InvalidInput
            If the shapes do not fit, or rows do not ascend.
        """
        points = cls()
        points._take_over(rows, base, None)
        return points

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes of vectors, rows and norms, mapped ones included."""
        view = self.view()
        return view.base.nbytes + view.tail.nbytes + view.rows.nbytes + view.squares.nbytes

    def append(self, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors.

        Parameters
        ----------
        rows : numpy.ndarray of int64, shape [m]
            Their rows, ascending and beyond the last one.
        vectors : numpy.ndarray of float32, shape [m, dim]
            Copied. The first ones ever say what `dim` is.

        Raises
        ------
        InvalidInput
            If shapes or rows do not fit, or a vector is zero or not finite; nothing was added.
        """
        rows, vectors = _fitting(rows, vectors, self.dim)
        if not len(rows):
            return
        last = self._rows.array[-1] if len(self) else -1
        if rows[0] <= last:
            raise InvalidInput(f"row {rows[0]}: expected one after row {last}, the last one.")
        squares = _checked_squares(rows, vectors)
        self.dim = vectors.shape[1]
        self._tail.append(vectors.ravel())
        self._squares.append(squares)
        self._rows.append(rows)
        self._view = None

    def replace(self, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Take a whole new table, perhaps of another width; views keep what they have.

        Parameters
        ----------
        rows : numpy.ndarray of int64, shape [n]
            Their rows, ascending.
        vectors : numpy.ndarray of float32, shape [n, dim]
            Kept, not copied (as long as they are contiguous), so they must not change.

        Raises
        ------
        InvalidInput
            If shapes or rows do not fit, or a vector is zero or not finite; nothing was changed.
        """
        rows, vectors = _fitting(rows, vectors, None)
        self._take_over(rows, vectors, _checked_squares(rows, vectors))

    def _take_over(
        self, rows: NDArray[Any], base: NDArray[Any], squares: NDArray[np.float64] | None
    ) -> None:
        rows, base = _fitting(rows, base, None)
        self.dim = base.shape[1] if len(rows) else None
        self._base = base
        self._tail = Growable(np.float32)
        self._sketches = Sketches()  # views keep what they have
        # zero: not known yet; the pages of a large one are not touched before they are needed
        self._squares.replace(np.zeros(len(rows)) if squares is None else squares)
        self._rows.replace(rows)
        self._view = None

    def vector(self, row: int) -> NDArray[np.float32] | None:
        """The vector of a row, float32[dim], or None."""
        return self.view().vector(row)

    def take(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Vectors of many rows, float32[m, dim], and where there is one, bool[m]; else zeros."""
        return self.view().take(rows)

    def view(self) -> PointsView:
        """What is there now, immutable."""
        if self._view is None:
            dim = self.dim or 0
            base = self._base if len(self._base) else np.empty((0, dim), np.float32)
            self._view = PointsView(
                rows=_fixed(self._rows.array),
                base=_fixed(base),
                tail=_fixed(self._tail.array.reshape(-1, dim) if dim else base),
                dim=self.dim,
                squares=self._squares.array,
                sketches=self._sketches,
            )
        return self._view


@dataclass(frozen=True, eq=False)
class PointsView:
    """The points as they were at one moment; safe in many threads.

    Attributes
    ----------
    rows : numpy.ndarray of int64, shape [n]
        The note row of every place, ascending.
    base : numpy.ndarray of float32, shape [n0, dim]
        The first vectors.
    tail : numpy.ndarray of float32, shape [n - n0, dim]
        The others.
    dim : int or None
        Width of the vectors; None if there is none yet.
    squares : numpy.ndarray of float64, shape [n]
        Squared norms; 0 where nobody has asked yet.
    sketches : Sketches
        Of these vectors, and perhaps of later ones.
    """

    rows: NDArray[np.int64]
    base: NDArray[np.float32]
    tail: NDArray[np.float32]
    dim: int | None
    squares: NDArray[np.float64]
    sketches: Sketches = field(default_factory=Sketches)

    def __len__(self) -> int:
        return len(self.rows)

    def vector(self, row: int) -> NDArray[np.float32] | None:
        """The vector of a row, float32[dim], read-only, or None."""
        place = int(self.rows.searchsorted(row))
        if place == len(self.rows) or self.rows[place] != row:
            return None
        cut = len(self.base)
        found: NDArray[np.float32] = self.base[place] if place < cut else self.tail[place - cut]
        return found

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of rows, int64[m] in any order; -1 where a row has no vector."""
        rows = np.asarray(rows, np.int64)
        if not len(self.rows):
            return np.full(len(rows), -1, np.int64)
        places = self.rows.searchsorted(rows)
        np.minimum(places, len(self.rows) - 1, out=places)
        places[self.rows[places] != rows] = -1
        return places

    def take(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Vectors of many rows.

        Parameters
        ----------
        rows : numpy.ndarray of int64, shape [m]
            In any order, repeated or not.

        Returns
        -------
        vectors : numpy.ndarray of float32, shape [m, dim]
            Zeros where a row has none; width 0 if there is no vector at all.
        found : numpy.ndarray of bool, shape [m]
            Where a row has one.
        """
        places = self.places(rows)
        out = np.zeros((len(places), self.dim or 0), np.float32)
        cut = len(self.base)
        early = (places >= 0) & (places < cut)
        late = places >= cut
        out[early] = self.base[places[early]]
        out[late] = self.tail[places[late] - cut]
        return out, places >= 0

    def similarities(
        self, query: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Cosines of a query with the vectors of rows, in float64.

        Parameters
        ----------
        query : numpy.ndarray of float32, shape [dim]
            Of any length but zero.
        rows : numpy.ndarray of int64, shape [m]
            In any order.

        Returns
        -------
        numpy.ndarray of float64, shape [m]
            In [-1, 1]; NaN where a row has no vector. A cosine has the same bits whichever
            others are asked for with it.

        Raises
        ------
        InvalidInput
            If the query has another width, or is zero or not finite.
        """
        places = self.places(rows)
        out = np.full(len(places), np.nan)
        if len(self.rows):
            asked = self._asked(query)
            cosines(asked, self.base, self.tail, self.squares, places, out)
        return out

    def nearest(
        self,
        query: NDArray[np.float32],
        k: int,
        allowed: NDArray[np.uint8],
        among: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k rows nearest to a query, exactly; equal similarities by row.

        Parameters
        ----------
        query : numpy.ndarray of float32, shape [dim]
            Of any length but zero.
        k : int
            At most so many.
        allowed : numpy.ndarray of uint8 or bool, shape [n_rows]
            Note rows that may be found; rows beyond its end may not.
        among : numpy.ndarray of int64, shape [p], optional
            Look only at these places, in any order, repeated or not.

        Returns
        -------
        rows : numpy.ndarray of int64, shape [m]
            The similarity descends, then the row ascends.
        similarities : numpy.ndarray of float64, shape [m]
            Cosines, as `similarities` gives them.

        Raises
        ------
        InvalidInput
            If the query has another width, is zero or not finite, or a place does not exist.
        """
        if k < 1 or not len(self.rows):
            return np.empty(0, np.int64), np.empty(0, np.float64)
        places = NO_PLACES
        if among is None and len(self.rows) <= SKETCHED:
            found, values = nearest_sketched(
                self._asked(query), self.base, self.tail, self.squares, self.rows, _mask(allowed),
                *self.sketches.of(self.base, self.tail), k,
            )  # fmt: skip
            return self.rows[found], values
        if among is not None:
            places = np.sort(np.asarray(among, np.int64))
            if (places[1:] == places[:-1]).any():  # seldom, and `unique` costs far more to call
                places = np.unique(places)
            if len(places) and not 0 <= places[0] <= places[-1] < len(self.rows):
                wrong = places[0] if places[0] < 0 else places[-1]
                raise InvalidInput(f"place {wrong}: expected 0 to {len(self.rows) - 1}.")
        found, values = nearest(
            self._asked(query),
            self.base,
            self.tail,
            self.squares,
            self.rows,
            _mask(allowed),
            places,
            among is None,
            k,
        )
        return self.rows[found], values

    def _asked(self, query: NDArray[Any]) -> NDArray[np.float64]:
        asked = query
        if not (isinstance(query, np.ndarray) and query.dtype == np.float32):
            with np.errstate(over="ignore"):  # a float64 too large becomes infinite, and is refused
                asked = np.asarray(query, np.float32)
        if asked.shape != (self.dim,):
            found = f"width {len(asked)}" if asked.ndim == 1 else f"shape {list(asked.shape)}"
            raise InvalidInput(
                f"the query vector has {found}, the store's vectors have width {self.dim}: "
                "embed the query as the notes were embedded."
            )
        wide = asked.astype(np.float64)
        if not 0.0 < float(wide @ wide) < np.inf:
            raise InvalidInput(
                "the query vector is zero or has a NaN or infinite value; expected finite values, "
                "not all zero."
            )
        return wide


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    """A plain read-only view: one type for the kernels, nothing for callers to spoil."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _mask(allowed: NDArray[Any]) -> NDArray[np.uint8]:
    if allowed.dtype == np.bool_:
        allowed = np.ascontiguousarray(allowed).view(np.uint8)
    return _fixed(np.ascontiguousarray(allowed, np.uint8))


def _fitting(
    rows: NDArray[Any], vectors: NDArray[Any], dim: int | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows int64[n], ascending, and vectors float32[n, dim], contiguous and aligned."""
    rows = np.require(rows, np.int64, ["C", "A"])
    with np.errstate(over="ignore"):  # a float64 too large becomes infinite, and is refused
        vectors = np.require(vectors, np.float32, ["C", "A"])
    if rows.ndim != 1 or vectors.ndim != 2 or len(vectors) != len(rows):
        raise InvalidInput(
            f"{list(rows.shape)} rows and vectors of shape {list(vectors.shape)}: "
            "expected one row for each vector."
        )
    if len(rows) and (vectors.shape[1] == 0 or dim not in (None, vectors.shape[1])):
        raise InvalidInput(
            f"vectors of width {vectors.shape[1]}: expected "
            f"{'at least 1' if dim is None else f'{dim}, the width of the others'}."
        )
    if len(rows) and (rows[0] < 0 or not (rows[1:] > rows[:-1]).all()):
        raise InvalidInput("rows that do not ascend from 0: expected each to be above the last.")
    return rows, vectors


def _checked_squares(rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Squared norms, which tell zero and infinite vectors, too."""
    squares = np.empty(len(rows), np.float64)
    squared(_fixed(vectors), squares)
    good = (squares > 0.0) & (squares < np.inf)
    if not good.all():
        row = rows[int(np.flatnonzero(~good)[0])]
        raise InvalidInput(
            f"row {row}: the vector is zero or has a NaN or infinite value; expected finite "
            "values, not all zero."
        )
    return squares
