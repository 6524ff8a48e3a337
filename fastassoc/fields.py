"""One field of many rows, from Python values or an Arrow column: checked, and made one type.

Vectors have a module of their own, `vectorfield`.
A bad value never stops the others: its row gets a reason, and null in the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput
from fastassoc.times import EPOCH, HIGH, LOW

__all__ = [
    "FIELDS",
    "Bad",
    "Lists",
    "Reasons",
    "from_column",
    "from_value",
    "from_values",
    "microseconds",
    "shown",
]

Column = Any  # a pyarrow array: its stubs differ too much from one version to the next
pc: Any = pyarrow.compute
FIELDS = (
    *("text", "id", "concepts", "subjects", "vector", "domain", "created_at", "metadata"),
    *("session", "importance", "category", "fingerprint", "external_ref", "author", "supersedes"),
)
LISTS = ("concepts", "subjects", "supersedes")
MOST_BYTES = {"id": 512, "domain": 256}  # these are never empty either

DAY = 86_400_000_000
# in a unit of Arrow's times that is coarser than a microsecond
MICROSECONDS = {"s": 1_000_000, "ms": 1000, "date32[day]": DAY, "date64[ms]": 1000}


SPACE_BYTES = np.zeros(256, np.bool_)  # what a white-space character can begin with
SPACE_BYTES[[*range(9, 14), *range(28, 33), 0xC2, 0xE1, 0xE2, 0xE3]] = True

Reasons = dict[int, str]


class Lists(NamedTuple):
    """A list of names in each row.

    `flat` string [m], `ptr` int64 [n + 1] into it, `null` bool [n]: rows without a list.
    """

    flat: Column
    ptr: NDArray[np.int64]
    null: NDArray[np.bool_]


class Bad(Exception):
    """The reason why one value is refused."""


class Unheld:
    """A value of Arrow's that Python cannot hold, such as a time after the year 9999."""

    def __init__(self, scalar: Any) -> None:
        self.text = f"{scalar.type} {getattr(scalar, 'value', '')}".strip()


def python_values(array: Column) -> list[Any]:
    """The values as Python's; `Unheld`, or bytes of no UTF-8, which every field refuses."""
    try:
        found: list[Any] = array.to_pylist()
    except (OverflowError, ValueError):  # Arrow's own errors and those of UTF-8 are the latter
        found = [_python_value(scalar) for scalar in array]
    return found


def _python_value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return bytes(error.object)
    except (OverflowError, ValueError):
        return Unheld(scalar)


def _no_json(value: object) -> None:
    raise TypeError(shown(value))


_to_json = json.JSONEncoder(
    sort_keys=True,
    separators=(",", ":"),
    ensure_ascii=False,
    allow_nan=False,
    default=_no_json,
).encode


def shown(value: object, most: int = 60) -> str:
    """A value as a message shows it: its type, and its beginning."""
    if isinstance(value, Unheld):
        return f"{value.text[:most]}, which Python cannot hold"
    text = repr(value[:most] if isinstance(value, (str, bytes)) else value)
    text = text if len(text) <= most else text[:most] + "..."
    return f"{type(value).__name__} {text}"


def one_array(column: Column) -> Column:
    """All values as one array."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        raise InvalidInput(
            "the batch holds more than 2 GiB of one field; give it in smaller batches, or as a "
            "stream to ingest."
        )
    return column


def make(values: Any, dtype: pa.DataType | None = None) -> Column:
    """An array of Python or NumPy values."""
    return one_array(pa.array(values, dtype))


def from_value(field: str, value: Any) -> Any:
    """One value, checked as `from_values` does: a str, int, float or list of str; perhaps None.

    Raises
    ------
    Bad
        It is refused; the reason begins with the field.
    """
    try:
        if field in LISTS:
            return [_name(name) for name in _list(value)]
        if field in CHECKS:
            return CHECKS[field](value)
        text = _string(value)
        reason = misfit(field, text)
    except Bad as bad:
        raise Bad(f"{field}: {bad}") from None
    if reason is not None:
        raise Bad(f"{field}: {reason}")
    return text


def from_values(field: str, values: list[Any], reasons: Reasons) -> Column | Lists:
    """The field's values, checked; `reasons` takes the rows refused, by number.

    Returns an array [n] of the type in NOTE_COLUMNS, or Lists for concepts, subjects, supersedes.
    """
    if field in LISTS:
        return _lists(field, values, reasons)
    if field in CHECKS:
        kind = {"created_at": pa.int64(), "importance": pa.float64()}.get(field, pa.string())
        return make(_each(field, values, CHECKS[field], reasons), kind)
    return check_strings(field, _strings(field, values, reasons), reasons)


def from_column(field: str, column: Column, reasons: Reasons) -> Column | Lists:
    """As `from_values`, without a Python object for each value where the type allows it."""
    array = sound(field, one_array(column), reasons)
    kind = array.type
    n = len(array)
    if array.null_count == n:
        return from_values(field, [None] * n, reasons)
    if field in LISTS:
        if is_list(kind) and pa.types.is_string(kind.value_type):
            return _list_column(field, array, reasons)
    elif field == "created_at" and pa.types.is_integer(kind) and kind != pa.uint64():
        return _in_range(field, array.cast(pa.int64()), (LOW, HIGH), reasons)
    elif field == "created_at" and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        found = _timestamps(array)
        if (
            found is None
        ):  # some are beyond int64 microseconds: whole numbers of any size tell which
            unit = MICROSECONDS[str(array.type) if pa.types.is_date(kind) else kind.unit]
            whole = array.view(pa.int32() if pa.types.is_date32(kind) else pa.int64()).to_pylist()
            return from_values(field, [one and one * unit for one in whole], reasons)
        return _in_range(field, found, (LOW, HIGH), reasons)
    elif field == "importance" and (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return _in_range(field, array.cast(pa.float64(), safe=False), (0.0, 1.0), reasons)
    elif field == "metadata":
        read = _parsed if pa.types.is_string(kind) else _from_struct
        return from_values(field, _each(field, python_values(array), read, reasons), reasons)
    elif field not in ("created_at", "importance") and pa.types.is_string(kind):
        return check_strings(field, array, reasons)
    return from_values(field, python_values(array), reasons)


# -- Python values ------------------------------------------------------------------------------


def _each(
    field: str, values: list[Any], check: Callable[[Any], Any], reasons: Reasons
) -> list[Any]:
    out: list[Any] = []
    for row, value in enumerate(values):
        try:
            out.append(None if value is None else check(value))
        except Bad as bad:
            reasons.setdefault(row, f"{field}: {bad}")
            out.append(None)
    return out


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Bad(f"found {shown(value)}, expected a str.")
    if not _encodable(value):
        raise Bad(f"found a lone surrogate in {value[:60]!a}, expected text that UTF-8 can hold.")
    return str(value)


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _strings(field: str, values: list[Any], reasons: Reasons) -> Column:
    if set(map(type, values)) <= {str, type(None)}:
        try:
            return make(values, pa.string())
        except UnicodeEncodeError:
            pass
    return make(_each(field, values, _string, reasons), pa.string())


def microseconds(value: datetime) -> int:
    """Microseconds since 1970 UTC; a time without a zone is UTC."""
    since = (value.replace(tzinfo=UTC) if value.tzinfo is None else value) - EPOCH
    return since.days * DAY + since.seconds * 1_000_000 + since.microseconds


def _time(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise Bad(
                f"found {shown(value)}, expected an ISO 8601 time such as 2024-05-01T12:00:00Z."
            ) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        try:
            value = microseconds(value)
        except (ValueError, TypeError, OverflowError):
            raise Bad(f"found {shown(value)}, expected a time.") from None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise Bad(
            f"found {shown(value)}, expected a datetime, an ISO 8601 str, or whole microseconds "
            "since 1970 (UTC)."
        )
    if not LOW <= value <= HIGH:
        raise Bad(f"found {value}, expected microseconds since 1970 within the years 1 to 9999.")
    return int(value)


def _share(value: Any) -> float:
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not good or not 0.0 <= value <= 1.0:
        raise Bad(f"found {shown(value)}, expected a number from 0 to 1.")
    return float(value)


def _metadata(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        raise Bad(f"found {shown(value)}, expected a JSON object (a dict).")
    try:
        _keys_are_strings(value)
        text = _to_json(dict(value))
    except RecursionError:
        raise Bad("found values nested too deeply, or within themselves.") from None
    except (TypeError, ValueError) as error:
        raise Bad(f"found what JSON cannot hold ({error}).") from None
    if not _encodable(text):
        raise Bad("found a lone surrogate, expected text that UTF-8 can hold.")
    return text if value else None


CHECKS: dict[str, Callable[[Any], Any]] = {
    "created_at": _time,
    "importance": _share,
    "metadata": _metadata,
}


def _keys_are_strings(value: Mapping[Any, Any]) -> None:
    for key, inner in value.items():
        if not isinstance(key, str):
            raise Bad(f"found the key {shown(key)}, expected keys that are str.")
        if isinstance(inner, dict):
            _keys_are_strings(inner)
        elif isinstance(inner, (list, tuple)):
            _items_are_plain(inner)


def _items_are_plain(values: Iterable[Any]) -> None:
    for inner in values:
        if isinstance(inner, dict):
            _keys_are_strings(inner)
        elif isinstance(inner, (list, tuple)):
            _items_are_plain(inner)


def _parsed(value: str) -> Any:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        raise Bad(f"found {shown(value)}, expected a JSON object.") from None
    if not isinstance(found, dict):
        raise Bad(f"found {shown(found)}, expected a JSON object.")
    return found


def _from_struct(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        value = dict(value)  # an Arrow map
    return jsonable(value)


def jsonable(value: Any) -> Any:
    """Arrow's values as JSON's: times as ISO 8601, decimals as text, absent members left out."""
    if isinstance(value, dict):
        return {key: jsonable(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [jsonable(inner) for inner in value]
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _list(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=lambda name: (type(name).__name__, str(name)))
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return cast(list[Any], value.tolist())
    hint = f"; write [{shown(value).partition(' ')[2]}]" if isinstance(value, str) else ""
    raise Bad(f"found {shown(value)}, expected a list of names{hint}.")


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise Bad(f"found {shown(value)} in the list, expected names (str).")
    return _string(value)


def _lists(field: str, values: list[Any], reasons: Reasons) -> Lists:
    if set(map(type, values)) <= {list, tuple}:
        given: list[Any] = values
        null = np.zeros(len(values), np.bool_)
    else:
        given = _each(field, values, _list, reasons)
        null = np.array([value is None for value in given], np.bool_)
        given = [() if value is None else value for value in given]
    flat = list(chain.from_iterable(given))
    if not set(map(type, flat)) <= {str}:
        return _checked_lists(field, given, null, reasons)
    try:
        return Lists(make(flat, pa.string()), pointers(list(map(len, given))), null)
    except UnicodeEncodeError:
        return _checked_lists(field, given, null, reasons)


def _checked_lists(
    field: str, given: list[Any], null: NDArray[np.bool_], reasons: Reasons
) -> Lists:
    held = _each(field, given, lambda names: [_name(name) for name in names], reasons)
    held = [names or () for names in held]
    flat = make(list(chain.from_iterable(held)), pa.string())
    return Lists(flat, pointers(list(map(len, held))), null)


def pointers(lengths: Any) -> NDArray[np.int64]:
    """Where rows of these lengths begin and end: int64 [n + 1]."""
    ptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return ptr


# -- Arrow columns --------------------------------------------------------------------------------


def is_list(kind: Any) -> bool:
    """Whether values are lists, in any of Arrow's layouts."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def is_text(kind: Any) -> bool:
    """Whether values are text, in any of Arrow's layouts but a dictionary."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def plain_strings(array: Column) -> Column:
    """Text in whatever layout (large, view, dictionary; in lists too) as plain strings."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain_strings(array.dictionary).take(array.indices)
    if is_text(kind):
        return array if pa.types.is_string(kind) else one_array(array.cast(pa.string()))
    if pa.types.is_list(kind):
        values = plain_strings(array.values)
        return array if values.type == kind.value_type else _relist(array, values)
    return array


def _offsets(array: Column) -> NDArray[np.int32]:
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)


def _relist(array: Column, values: Column, base: int = 0) -> Column:
    """The list array with other values; `base` is taken from its offsets."""
    gone = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(make(_offsets(array) - np.int32(base)), values, mask=gone)


def sound(field: str, array: Column, reasons: Reasons) -> Column:
    """The array, checked to the last byte, text as plain strings; what is no UTF-8 is refused."""
    try:
        if is_list(array.type):
            return _sound_lists(field, array, reasons)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            if not is_text(array.type):
                raise
            return make(_each(field, _as_bytes(array), _decoded, reasons), pa.string())
        return plain_strings(array)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise InvalidInput(f"column {field} is damaged: {error}") from None


def _sound_lists(field: str, array: Column, reasons: Reasons) -> Column:
    array.validate()
    if not pa.types.is_list(array.type):
        array = _as_list(array)
    if not len(array):
        return plain_strings(array)
    offsets = _offsets(array)
    first, last = int(offsets[0]), int(offsets[-1])
    if (np.diff(offsets) < 0).any() or first < 0 or last > len(array.values):
        raise pa.ArrowInvalid("offsets of its lists do not ascend")
    array = _relist(array, array.values.slice(first, last - first), first)  # only what it uses
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        if not is_text(array.type.value_type):
            raise
        flat, held = _as_bytes(array.values), _offsets(array).tolist()
        rows = [
            None if gone else flat[begin:end]
            for gone, begin, end in zip(mask(array.is_null()), held[:-1], held[1:], strict=True)
        ]
        found = _each(field, rows, lambda row: [_decoded(name) for name in row], reasons)
        return make(found, pa.list_(pa.string()))
    return plain_strings(array)


def _as_list(array: Column) -> Column:
    """A list array of another layout as a plain one; pyarrow's cast of views loses values."""
    array.validate(full=True)
    if not (pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)):
        return array.cast(pa.list_(array.type.value_type))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    gone = array.is_null() if array.null_count else None
    offsets = make(pointers(lengths).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, array.flatten(), mask=gone)


def _as_bytes(array: Column) -> list[bytes | None]:
    """Text that is perhaps no UTF-8, as bytes; raises where more than that is wrong."""
    kinds = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    held = array.view(kinds[array.type]) if array.type in kinds else array.cast(pa.binary_view())
    held.validate(full=True)
    return cast(list[bytes | None], held.to_pylist())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise Bad(f"found {value[:60]!r}, expected UTF-8.") from None  # type: ignore[index]


def _list_column(field: str, array: Column, reasons: Reasons) -> Lists:
    null = mask(array.is_null())
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    flat, ptr = array.flatten(), pointers(lengths)
    if flat.null_count:
        where = np.flatnonzero(mask(flat.is_null()))
        for row in np.unique(np.searchsorted(ptr, where, side="right") - 1).tolist():
            reasons.setdefault(row, f"{field}: found null in the list, expected names (str).")
        flat = flat.fill_null("")
    return Lists(flat, ptr, null)


def mask(array: Column) -> NDArray[np.bool_]:
    """A boolean array without nulls: bool [n]."""
    return cast(NDArray[np.bool_], array.to_numpy(zero_copy_only=False))


def _timestamps(array: Column) -> Column | None:
    """Microseconds UTC; None where they do not fit."""
    kind = array.type
    finer = pa.types.is_timestamp(kind) and kind.unit == "ns"  # only these lose what us cannot hold
    try:
        found = array.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=not finer)
        return found.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _in_range(field: str, array: Column, bounds: tuple[float, float], reasons: Reasons) -> Column:
    """The values within the bounds; the others are checked one by one, for their reasons."""
    low, high = bounds
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~((values >= low) & (values <= high)))
    if not len(wrong):
        return array
    check = _time if field == "created_at" else _share
    for row in wrong.tolist():
        found: Reasons = {}
        _each(field, [values[row].item()], check, found)
        reasons.setdefault(row, found[0])
    return nulled(array, wrong)


def nulled(array: Column, rows: NDArray[np.int64]) -> Column:
    """The array with null in these rows."""
    keep = np.ones(len(array), np.bool_)
    keep[rows] = False
    return pc.if_else(make(keep), array, pa.scalar(None, array.type))


def text_parts(array: Column) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Offsets int32 [n + 1] and the bytes uint8 they point into."""
    _, offsets, data = array.buffers()
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int32), held
    return np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset), held


def misfit(field: str, text: str) -> str | None:
    """Why a text does not fit its field: it is empty, blank or too long; None where it does."""
    if field == "text":
        return None if text.strip() else "found nothing but white space, expected text."
    if field not in MOST_BYTES:
        return None
    most, size = MOST_BYTES[field], len(text.encode())
    if 0 < size <= most:
        return None
    found = f"{size} bytes ({shown(text)})" if size else "''"
    return f"found {found}, expected 1 to {most} bytes of UTF-8."


def check_strings(field: str, array: Column, reasons: Reasons) -> Column:
    """The texts, null where one is a `misfit`; only those that may be are looked at."""
    if field != "text" and field not in MOST_BYTES:
        return array
    offsets, data = text_parts(array)
    sizes = np.diff(offsets)
    maybe = sizes == 0
    if field == "text":
        held = np.flatnonzero(~maybe)
        maybe[held] = SPACE_BYTES[data[offsets[:-1][held]]]
    else:
        maybe |= sizes > MOST_BYTES[field]
    if array.null_count:
        maybe &= ~mask(array.is_null())
    wrong: list[int] = []
    for row in np.flatnonzero(maybe).tolist():
        reason = misfit(field, array[row].as_py())
        if reason is not None:
            wrong.append(row)
            reasons.setdefault(row, f"{field}: {reason}")
    return nulled(array, np.array(wrong, np.int64)) if wrong else array
