"""Sizes that an Arrow file declares, held against the size that it has, before it is unpacked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from fastassoc.errors import InvalidInput

__all__ = ["check_messages", "plain"]

FREE = 256 << 20  # bytes that one buffer may always expand to, and beyond it
RATIO = 1000  # to this many times its own size
FREE_ROWS = 10_000_000
ROWS_A_BYTE = 100
MOST = 256 << 20  # bytes of values of a dictionary that one part should take
STEP = 4096  # rows of one part, where values stand for many
INT, SHORT, LONG, PAIR = (struct.Struct(code) for code in ("<i", "<H", "<q", "<qq"))

ipc: Any = pyarrow.ipc


def check_messages(name: str, stream: Any, size: int) -> None:
    """Look at every message of a stream, from its place on, and at no value.

    Parameters
    ----------
    name : str
        Of the source, for the error.
    stream : file object
        At the start of an Arrow stream; a file's begins at its byte 8.
    size : int
        Bytes of the source.

    Raises
    ------
    InvalidInput
        A buffer or the number of rows is out of all proportion to the file's size, or the
        messages are damaged.
    """
    reader = ipc.MessageReader.open_stream(stream)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type not in ("record batch", "dictionary"):
            continue
        try:
            _check(name, memoryview(message.metadata), message.body, message.type, size)
        except InvalidInput:
            raise
        except (IndexError, ValueError, struct.error, OverflowError) as error:
            raise InvalidInput(f"{name} is no whole arrow file: a message is damaged.") from error


def _check(name: str, data: memoryview, body: Any, kind: str, size: int) -> None:
    header = _Table(data, INT.unpack_from(data, 0)[0]).table(2)
    if kind == "dictionary":
        header = header.table(1)
    rows = [header.long(0), *(length for length, _ in header.pairs(1))]
    if max(rows) > max(FREE_ROWS, ROWS_A_BYTE * size) or min(rows) < 0:
        raise InvalidInput(f"{name} is refused: it declares {max(rows):,} rows in {size:,} bytes.")
    if not header.there(3):
        return
    held = memoryview(body) if body is not None else memoryview(b"")
    for offset, packed in header.pairs(2):
        if packed < 8:
            continue
        unpacked = LONG.unpack_from(held, offset)[0]
        if unpacked > max(FREE, RATIO * packed):
            raise InvalidInput(
                f"{name} is refused: {packed:,} bytes of it declare that they expand to "
                f"{unpacked:,}."
            )


class _Table:
    """A table of a FlatBuffer: as much of one as these messages need."""

    def __init__(self, data: memoryview, at: int) -> None:
        self.data, self.at = data, at
        self.fields = at - INT.unpack_from(data, at)[0]
        if self.fields < 0 or at < 0:
            raise ValueError("a table out of place")

    def there(self, number: int) -> int:
        """Where a field lies; 0 for one that is absent."""
        place = 4 + 2 * number
        if place >= SHORT.unpack_from(self.data, self.fields)[0]:
            return 0
        offset: int = SHORT.unpack_from(self.data, self.fields + place)[0]
        return self.at + offset if offset else 0

    def long(self, number: int) -> int:
        """A number of 64 bits; 0 for one that is absent."""
        place = self.there(number)
        found: int = LONG.unpack_from(self.data, place)[0] if place else 0
        return found

    def table(self, number: int) -> _Table:
        """A table in this one."""
        place = self.there(number)
        if not place:
            raise ValueError("a table is missing")
        return _Table(self.data, place + INT.unpack_from(self.data, place)[0])

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """A vector of structs of two numbers."""
        place = self.there(number)
        if not place:
            return
        place += INT.unpack_from(self.data, place)[0]
        count = INT.unpack_from(self.data, place)[0]
        if not 0 <= count <= len(self.data) // PAIR.size:
            raise ValueError("a vector out of place")
        for n in range(count):
            yield PAIR.unpack_from(self.data, place + 4 + PAIR.size * n)


# -- values that stand for many --------------------------------------------------------------------


def plain(name: str, table: pa.Table) -> Iterator[pa.Table]:
    """The rows, so many at once that values which stand in many of them take bounded memory.

    Dictionaries become what they stand for. Columns whose runs are encoded are refused.

    Raises
    ------
    InvalidInput
        A column is encoded in runs, or lists hold a long value too often.
    pyarrow.ArrowException
        The table is damaged.
    """
    longest = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        for kind in _kinds(field.type):
            if pa.types.is_run_end_encoded(kind):
                raise InvalidInput(
                    f"{name}: column {field.name} encodes runs; write it as plain values."
                )
        longest = max([longest, *(_longest(chunk) for chunk in column.chunks)])
    table.validate(full=True)
    step = max(1, min(STEP, MOST // longest)) if longest else max(1, table.num_rows)
    for start in range(0, max(1, table.num_rows), step):
        part = table.slice(start, step)
        for place, field in enumerate(part.schema):
            if pa.types.is_dictionary(field.type):
                column = part.column(place).cast(field.type.value_type)
                part = part.set_column(place, field.name, column)
        yield part


def _kinds(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    for n in range(kind.num_fields):
        yield from _kinds(kind.field(n).type)
    if pa.types.is_dictionary(kind):
        yield from _kinds(kind.value_type)


def _longest(array: Any) -> int:
    """Bytes of the longest value that may stand in many rows at no cost to the file."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _length(array.dictionary)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _length(array)
    if hasattr(array, "values") and isinstance(array.values, pa.Array):
        inner = _longest(array.values)
        most = len(array.values) / max(1, len(array))  # a row's share of it
        return int(inner * max(1.0, most))
    return 0


def _length(values: Any) -> int:
    kind = values.type
    if not len(values):
        return 0
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(values.buffers()[1], np.int32)
        return int(views[::4].max(initial=0))
    if pa.types.is_nested(kind):
        return int(values.nbytes)
    try:
        return int(pc.max(pc.binary_length(values)).as_py() or 0)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return 16  # numbers
