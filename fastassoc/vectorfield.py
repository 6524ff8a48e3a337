"""The field ``vector`` of many rows, from Python values or an Arrow column: checked, made float32.

Both end in one check of plain numbers, so that what one refuses, the other does, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.batch import vector_array
from fastassoc.errors import InvalidInput
from fastassoc.fields import Bad, Column, Reasons, is_list, make, mask, one_array, pc, shown

__all__ = ["LEAST", "WIDEST", "read_vectors"]

WIDEST = 65_536
LEAST = 2.0**-126  # the inverse of a smaller length is no float32
BEYOND = f"beyond float32, which ends at {float(np.finfo(np.float32).max):.4g}"
LIST = "expected a list of numbers, or a NumPy array of one dimension"

Numbers = NDArray[Any]  # of floats or integers


class Given(NamedTuple):
    """Lists of numbers.

    `flat` any float or integer [m], list after list; `lengths` int64 [k]; `rows` int64 [k],
    ascending, whose they are.
    """

    flat: Numbers
    lengths: NDArray[np.int64]
    rows: NDArray[np.int64]


def read_vectors(
    values: Column | list[Any],
    reasons: Reasons,
    width: int | None = None,
    others: Callable[[], Sequence[int]] | None = None,
) -> Column | None:
    """The vectors of rows, as float32.

    Parameters
    ----------
    values : list, pyarrow.Array or pyarrow.ChunkedArray [n]
        None (null) in rows without a vector; else lists, tuples or NumPy arrays [width] of any
        layout, or any of Arrow's lists, of float16, float32, float64 or integers.
    reasons : dict
        Takes the rows refused, by number: no list of numbers, another width, NaN, infinity (also
        what becomes infinite as float32), nothing but zeros (or numbers below 1.2e-38).
    width : int or None
        The width that all must have. None: that of the first vector with nothing wrong.
    others : callable, optional
        Gives the rows that are good but for their vectors; asked only where widths differ and
        `width` is None, because a row that is refused must not decide it.

    Returns
    -------
    pyarrow.FixedSizeListArray of float32 [n] or None
        Null where a row has none or a bad one; None where no row has a good one.

    Raises
    ------
    InvalidInput
        The column is damaged.

    Examples
    --------
    >>> reasons = {}
    >>> read_vectors([[1, 0.5], None, (1, 2, 3)], reasons).to_pylist()
    [[1.0, 0.5], None, None]
    >>> reasons
    {2: 'vector: found 3 numbers, expected 2.'}
    """
    if isinstance(values, list):
        given = _from_objects(values, reasons)
    else:
        values = one_array(values)
        given = _from_array(values, reasons)
    if not len(given.rows):
        return None
    if width is None:
        width = _decided(given, others)
    return _checked(given, len(values), reasons, width)


# -- lists of numbers -----------------------------------------------------------------------------


def _from_objects(values: list[Any], reasons: Reasons) -> Given:
    held: list[Numbers] = []
    rows: list[int] = []
    for row, value in enumerate(values):
        if value is not None:
            try:
                held.append(_numbers(value))
                rows.append(row)
            except Bad as bad:
                reasons.setdefault(row, f"vector: {bad}")
    flat = np.concatenate(held) if held else np.zeros(0)  # a copy; mixed types lose nothing
    return Given(flat, np.array([len(one) for one in held], np.int64), np.array(rows, np.int64))


def _numbers(value: Any) -> Numbers:
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise Bad(f"found an array of shape {value.shape}, {LIST}.")
        if not _is_plain(value.dtype):
            raise Bad(
                f"found an array of {value.dtype}, expected float16, float32, float64 or integers."
            )
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise Bad("found masked values, expected a number in each place.")
        return value
    if not isinstance(value, (list, tuple)):
        raise Bad(f"found {shown(value)}, {LIST}.")
    if not set(map(type, value)) <= {float, int}:
        for place, one in enumerate(value):
            if not _is_number(one):
                raise Bad(f"found {shown(one)} in place {place}, expected numbers.")
    try:
        return np.array(value, np.float64)
    except OverflowError:
        raise Bad(f"found a number {BEYOND}.") from None


def _is_plain(kind: np.dtype[Any]) -> bool:
    """Whether it is an integer or a float of at most 64 bits, in any byte order."""
    return kind.kind in "iuf" and kind.itemsize <= 8


def _is_number(value: object) -> bool:
    if isinstance(value, np.generic):
        return _is_plain(value.dtype)
    return isinstance(value, (float, int)) and not isinstance(value, bool)


def _from_array(array: Column, reasons: Reasons) -> Given:
    present = np.flatnonzero(~mask(array.is_null())).astype(np.int64)
    shape = getattr(array.type, "shape", (0,))  # of a tensor
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        array = array.storage
    try:
        array.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise InvalidInput(f"column vector is damaged: {error}") from None
    none = Given(np.zeros(0), present[:0], present[:0])
    if not is_list(array.type) or len(shape) != 1 or not _counts(array.type.value_type):
        reason = f"vector: found {kind}, expected a list of numbers (float or integer)."
        for row in present.tolist():
            reasons.setdefault(row, reason)
        return none
    lengths = pc.list_value_length(array).drop_null().to_numpy().astype(np.int64)
    flat = array.flatten()
    if flat.null_count:
        return _without_nulls(Given(flat, lengths, present), reasons)
    numbers = np.zeros(0) if pa.types.is_null(flat.type) else flat.to_numpy()
    return Given(numbers, lengths, present)


def _counts(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_null(kind))


def _without_nulls(given: Given, reasons: Reasons) -> Given:
    """Only the lists without a null; `flat` is Arrow's."""
    ends = np.cumsum(given.lengths)
    gone = np.flatnonzero(mask(given.flat.is_null()))  # type: ignore[attr-defined]
    lists, first = np.unique(np.searchsorted(ends, gone, side="right"), return_index=True)
    begins = ends - given.lengths
    for place, at in zip(lists.tolist(), gone[first].tolist(), strict=True):
        reason = f"vector: found null in place {at - begins[place]}, expected numbers."
        reasons.setdefault(int(given.rows[place]), reason)
    keep = np.ones(len(given.rows), np.bool_)
    keep[lists] = False
    flat: Any = given.flat.filter(make(np.repeat(keep, given.lengths)))  # type: ignore[attr-defined]
    numbers = flat.to_numpy() if len(flat) else np.zeros(0)
    return Given(numbers, given.lengths[keep], given.rows[keep])


# -- the check ------------------------------------------------------------------------------------


def _checked(given: Given, n: int, reasons: Reasons, width: int | None) -> Column | None:
    flat, lengths, rows = given
    ends = np.cumsum(lengths)
    fits = (lengths == (width or 0)) & (lengths > 0) & (lengths <= WIDEST)
    for place in np.flatnonzero(~fits).tolist():
        one = flat[ends[place] - lengths[place] : ends[place]]
        reasons.setdefault(int(rows[place]), f"vector: {_why(one, width)}")
    if not fits.all():
        flat, rows = flat[np.repeat(fits, lengths)], rows[fits]
    if not len(rows):
        return None
    matrix = _narrowed(flat).reshape(len(rows), -1)
    good = _sound(matrix)
    if not good.all():
        for place in np.flatnonzero(~good).tolist():
            one = flat[place * matrix.shape[1] : (place + 1) * matrix.shape[1]]
            reasons.setdefault(int(rows[place]), f"vector: {_why(one, width)}")
        matrix, rows = matrix[good], rows[good]
    return _spread(matrix, rows, n)


def _decided(given: Given, others: Callable[[], Sequence[int]] | None) -> int | None:
    """Width of the first vector with nothing wrong, of a row with nothing wrong."""
    flat, lengths, rows = given
    asked = (lengths > 0) & (lengths <= WIDEST)
    if others is not None and len(np.unique(lengths[asked])) > 1:
        asked &= np.isin(rows, np.asarray(others(), np.int64))
    ends = np.cumsum(lengths)
    for place in np.flatnonzero(asked).tolist():
        one = flat[ends[place] - lengths[place] : ends[place]]
        if _sound(_narrowed(one)[None])[0]:
            return int(lengths[place])
    return None


def _narrowed(numbers: Numbers) -> NDArray[np.float32]:
    if numbers.dtype.kind in "iu":
        numbers = numbers.astype(np.float64)  # as a list of them is read
    with np.errstate(all="ignore"):
        return numbers.astype(np.float32, copy=False)


def _sound(matrix: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Rows that are finite and not zero; a NaN is in their maximum, and below and above nothing."""
    most = np.maximum(matrix.max(axis=1), -matrix.min(axis=1))
    sound: NDArray[np.bool_] = (most >= LEAST) & (most < np.inf)
    return sound


def _why(numbers: Numbers, width: int | None) -> str:
    """What is wrong with one vector."""
    expected = "numbers" if width is None else f"{width:,} numbers"
    if not len(numbers):
        return f"found an empty list, expected {expected}."
    if len(numbers) > WIDEST:
        most = f"at most {WIDEST:,}" if width is None else f"{width:,}"
        return f"found {len(numbers):,} numbers, expected {most}."
    if width is not None and len(numbers) != width:
        return f"found {len(numbers):,} numbers, expected {width:,}."
    infinite = np.flatnonzero(~np.isfinite(_narrowed(numbers)))
    if len(infinite):
        place = int(infinite[0])
        value = float(numbers[place])
        if np.isfinite(value):
            return f"found {value:.4g} in place {place}, {BEYOND}."
        return f"found {value} in place {place}, expected finite numbers."
    if not numbers.any():
        return "found nothing but zeros, expected a vector with a direction; leave it out."
    return f"found no number of at least {LEAST:.2g}: as float32 that is a vector of zeros."


def _spread(matrix: NDArray[np.float32], rows: NDArray[np.int64], n: int) -> Column | None:
    """The vectors in their rows."""
    if not len(rows):
        return None
    if len(rows) == n:
        return vector_array(matrix)
    out, null = np.zeros((n, matrix.shape[1]), np.float32), np.ones(n, np.bool_)
    out[rows], null[rows] = matrix, False
    return vector_array(out, null)
