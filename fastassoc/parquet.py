"""Arrow tables as Parquet bytes and back: encodings chosen by content, nothing trusted on read.

Only `snapshot` uses it. The same table gives the same bytes, however it is chunked.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastassoc.errors import InvalidInput
from fastassoc.footer import row_groups

__all__ = ["BadFile", "normal", "parse_schema", "read", "schema_text", "write"]

_SCALARS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    **{
        f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
}
_NAMES = {kind: name for name, kind in _SCALARS.items()}
_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TYPE = re.compile(r"(?P<scalar>\w+)|list<(?P<item>\w+)>(\[(?P<size>[1-9][0-9]{0,5})\])?")
_LONG: dict[pa.DataType, pa.DataType] = {
    pa.string(): pa.large_string(),
    pa.binary(): pa.large_binary(),
}
_SHORT = {long: short for short, long in _LONG.items()}

GROUP = 1 << 20  # rows of one row group; fewer where values have no fixed length
LONG_GROUP = 1 << 17
WIDE_GROUP = 64 << 20  # bytes of one row group of lists of a fixed length
SAMPLE = 1 << 14  # rows looked at to choose an encoding
FREE = 64 << 20  # a file may always expand to this, and beyond it
RATIO = 1000  # to this many times its own size
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}


class BadFile(Exception):
    """What is wrong with the bytes of a file; the caller knows its name."""


# -- schemas -------------------------------------------------------------------------------------


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of numbers that a dictionary may hold apart."""
    apart = pa.types.is_dictionary(kind) and pa.types.is_primitive(kind.value_type)
    return kind.value_type if apart else kind


def _type_text(kind: pa.DataType) -> str | None:
    """Name a type as manifests do, or None for one that is not stored."""
    kind = _plain(kind)
    if kind in _SHORT:
        kind = _SHORT[kind]
    if isinstance(kind, pa.BaseExtensionType):
        return None
    if pa.types.is_list(kind) and kind.value_type in _NAMES:
        return f"list<{_NAMES[kind.value_type]}>"
    if pa.types.is_fixed_size_list(kind) and kind.value_type in _NAMES:
        return f"list<{_NAMES[kind.value_type]}>[{kind.list_size}]"
    return _NAMES.get(kind)


def schema_text(schema: pa.Schema) -> str:
    """Write a schema as ``name type, name type``."""
    return ", ".join(f"{field.name} {_type_text(field.type)}" for field in schema)


def parse_schema(text: object) -> pa.Schema:
    """Read what `schema_text` writes; raises InvalidInput."""
    fields: list[pa.Field[Any]] = []
    for part in text.split(", ") if isinstance(text, str) else []:
        name, _, kind = part.partition(" ")
        match = _TYPE.fullmatch(kind)
        item = _SCALARS.get(match["scalar"] or match["item"]) if match else None
        if match is None or item is None or not _COLUMN.fullmatch(name):
            break
        if match["item"]:
            item = pa.list_(item, int(match["size"])) if match["size"] else pa.list_(item)
        fields.append(pa.field(name, item))
    schema = pa.schema(fields)
    if not fields or schema_text(schema) != text or len(set(schema.names)) != len(fields):
        raise InvalidInput(f"the schema {str(text)[:80]!r} is not one of a store")
    return schema


def normal(table: pa.Table) -> pa.Table:
    """Strip metadata and refuse what is not stored; raises InvalidInput.

    Dictionaries stay: `write` lays out their values a row group at a time.
    """
    for field in table.schema:
        if _type_text(field.type) is None or not _COLUMN.fullmatch(field.name):
            raise InvalidInput(
                f"column {field.name!r} of type {field.type} cannot be stored: expected a name of "
                f"a-z, 0-9, _ and one of {', '.join(_SCALARS)}, or a list of one of these."
            )
        if pa.types.is_fixed_size_list(field.type) and any(
            chunk.flatten().null_count for chunk in table[field.name].chunks
        ):
            raise InvalidInput(
                f"column {field.name!r}: a list of a fixed length cannot hold nulls."
            )
    schema = parse_schema(schema_text(table.schema))
    fields = [
        pa.field(
            field.name,
            column.type if pa.types.is_dictionary(column.type) else _written(field.type),
            bool(column.null_count),
        )
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return table.cast(pa.schema(fields))


def _written(kind: pa.DataType) -> pa.DataType:
    """The type that a column is written with."""
    if pa.types.is_fixed_size_list(kind):
        # vectors have no missing numbers, and are read in half the time if the file says so
        return pa.list_(pa.field("item", kind.value_type, nullable=False), kind.list_size)
    return _LONG.get(kind, kind)


# -- writing -------------------------------------------------------------------------------------


def _sample(column: pa.ChunkedArray[Any]) -> np.ndarray[Any, Any]:
    """Take values at evenly spaced rows, nulls left out."""
    rows = np.linspace(0, len(column) - 1, min(len(column), SAMPLE)).astype(np.int64)
    taken = column.take(rows).cast(_plain(column.type))
    values: np.ndarray[Any, Any] = taken.drop_null().to_numpy()
    return values


def _layout(table: pa.Table) -> dict[str, Any]:
    """Choose encoding and compression for each column from a sample of it.

    Measured on 5.5M links written in 100 batches: 4.7 bytes a link, the defaults take 6.6 and
    longer. Where each note came at its own time, the two times alone take 12 bytes.
    """
    dictionary: list[str] = []
    encoding: dict[str, str] = {}
    compression: dict[str, str] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        nested = pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type)
        name = f"{field.name}.list.element" if nested else field.name
        kind = field.type.value_type if nested else _plain(field.type)
        encoding[name], compression[name] = "PLAIN", "lz4"
        if nested:
            if pa.types.is_floating(kind):
                compression[name] = "none"  # vectors hardly shrink
            elif pa.types.is_integer(kind):
                encoding[name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_integer(kind):
            values = _sample(column)
            if len(np.unique(values)) * 4 <= len(values):
                del encoding[name]
                dictionary.append(name)
                compression[name] = "zstd"
            else:
                encoding[name], compression[name] = "DELTA_BINARY_PACKED", "none"
        elif pa.types.is_floating(kind):
            values = _sample(column)
            # mostly one value: long runs, which splitting the bytes would only spread
            same = len(values) and np.mean(values == np.sort(values)[len(values) // 2]) >= 0.9
            encoding[name] = "PLAIN" if same else "BYTE_STREAM_SPLIT"
            compression[name] = "zstd"
    levels = {name: 1 for name, codec in compression.items() if codec == "zstd"}
    return {
        "use_dictionary": dictionary or False,
        "column_encoding": encoding or None,
        "compression": compression,
        "compression_level": levels or None,
    }


def write(table: pa.Table, sink: Any, *, plain: bool = False) -> bool:
    """Write a table that went through `normal` to a file object.

    Returns False if `read` would refuse the file because it expands too far (millions of equal
    values); write it again with `plain` then. Raises OSError as the sink does.
    """
    layout = {"use_dictionary": False, "compression": "none"} if plain else _layout(table)
    schema = pa.schema(
        [pa.field(field.name, _plain(field.type), field.nullable) for field in table.schema]
    )
    size = _group_rows(schema)
    with pq.ParquetWriter(
        pa.PythonFile(sink, "w"),
        schema,
        version="2.6",
        write_statistics=False,
        store_schema=False,
        write_batch_size=1 << 16,
        use_compliant_nested_type=True,
        **layout,
    ) as writer:
        for start in range(0, table.num_rows, size):
            # one chunk a column, so that pages do not depend on how the table came
            part = table.slice(start, size).combine_chunks()
            columns = [
                column.cast(field.type) if pa.types.is_dictionary(column.type) else column
                for field, column in zip(schema, part.columns, strict=True)
            ]
            part = pa.Table.from_arrays(columns, schema=schema)
            writer.write_table(part, row_group_size=size)
    made = writer.writer.metadata
    groups = [made.row_group(number) for number in range(made.num_row_groups)]
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    return plain or _expanded(chunks) <= max(FREE, RATIO * int(sink.tell()))


def _group_rows(schema: pa.Schema) -> int:
    """How many rows go into one row group."""
    kinds = schema.types
    wide: int = sum(
        kind.list_size * kind.value_type.bit_width
        for kind in kinds
        if pa.types.is_fixed_size_list(kind) and pa.types.is_primitive(kind.value_type)
    )
    if wide:
        return max(1, min(LONG_GROUP, 8 * WIDE_GROUP // wide))
    return (
        LONG_GROUP if any(kind in _SHORT or pa.types.is_nested(kind) for kind in kinds) else GROUP
    )


# -- reading -------------------------------------------------------------------------------------


def _footer(data: pa.Buffer) -> bytes:
    """The footer's raw bytes, looked at before a parser does."""
    size = len(data)
    if size < 12 or data[:4].to_pybytes() != b"PAR1" or data[size - 4 :].to_pybytes() != b"PAR1":
        raise BadFile("it is not a Parquet file")
    length = int.from_bytes(data[size - 8 : size - 4].to_pybytes(), "little")
    if length > size - 12:
        raise BadFile(f"its footer claims {length} bytes of {size}")
    footer: bytes = data[size - 8 - length : size - 8].to_pybytes()
    if b"ARROW:" in footer:
        raise BadFile("it names Arrow extension types or a schema of its own")
    return footer


def _expanded(chunks: Iterable[Any]) -> int:
    """Bound from above what columns say they expand to; refuse encodings that hide it."""
    total = 0
    for chunk in chunks:
        kind = chunk.physical_type
        if kind == "BYTE_ARRAY":
            # a dictionary would let one long value stand for millions
            if not set(chunk.encodings) <= {"PLAIN", "RLE", "BIT_PACKED"}:
                raise BadFile(f"column {chunk.path_in_schema} has a refused encoding")
            total += chunk.total_uncompressed_size + 8 * chunk.num_values
        elif kind in WIDTHS:
            total += max(chunk.total_uncompressed_size, WIDTHS[kind] * chunk.num_values)
        else:
            raise BadFile(f"column {chunk.path_in_schema} has the refused type {kind}")
        if chunk.total_uncompressed_size < 0 or chunk.num_values < 0:
            raise BadFile(f"column {chunk.path_in_schema} declares a negative size")
    return total


def _memory(data: bytes | mmap.mmap) -> pa.Buffer:
    """Bytes in memory of Arrow's own, a mapped file as it is."""
    if isinstance(data, mmap.mmap):
        return pa.py_buffer(data)
    sink = pa.BufferOutputStream()
    sink.write(data)
    return sink.getvalue()


def read(
    data: bytes | mmap.mmap,
    rows: int,
    schema: str,
    each: Callable[[pa.Table], pa.Table] | None = None,
) -> pa.Table:
    """Read a whole file, sizes and schema checked before memory is taken.

    A thread of Arrow's that lets go of Python's memory while the process ends aborts the
    process (apache/arrow#34314), so threads decode only what is copied into Arrow's own.

    Parameters
    ----------
    data : bytes or mmap.mmap
        The file: bytes are decoded by threads, a mapped file by the caller's alone.
    rows : int
        Rows it must have.
    schema : str
        Its columns, as `schema_text` writes them.
    each : callable, optional
        Gives the rows of a row group the form in which they are kept.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    BadFile
        The bytes are not what they must be.
    """
    held = _memory(data)
    footer = _footer(held)
    target = parse_schema(schema)
    try:
        file = pq.ParquetFile(
            pa.BufferReader(held),
            thrift_string_size_limit=1 << 20,
            thrift_container_size_limit=1 << 20,
        )
        meta = file.metadata
        groups = row_groups(footer, meta.schema)
        counts = [group.num_rows for group in groups]
        if meta.num_rows != rows or sum(counts) != rows or any(count < 0 for count in counts):
            raise BadFile(f"found {meta.num_rows} rows, expected {rows}")
        size = _expanded(chunk for group in groups for chunk in group.columns)
        limit = max(FREE, RATIO * len(data))
        if size > limit:
            raise BadFile(f"{len(data)} bytes would expand to {size}, expected <= {limit}")
        flat = pa.schema(
            [
                pa.field(field.name, pa.list_(field.type.value_type))
                if pa.types.is_fixed_size_list(field.type)
                else field
                for field in target
            ]
        )
        if schema_text(file.schema_arrow) != schema_text(flat):
            found = schema_text(file.schema_arrow)
            raise BadFile(f"found the columns {found[:200]!r}, expected {schema[:200]!r}")
        threads = isinstance(data, bytes)
        if each is None:
            table = _valid(file.read(use_threads=threads), target)
        else:
            numbers = range(meta.num_row_groups)
            parts = (file.read_row_group(number, use_threads=threads) for number in numbers)
            made = [each(_valid(part, target)) for part in parts]
            table = pa.concat_tables(made) if made else target.empty_table()
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise BadFile(f"it cannot be parsed ({str(error)[:200]})") from error
    if table.num_rows != rows:
        raise BadFile(f"found {table.num_rows} rows, expected {rows}")
    return table


def _valid(table: pa.Table, target: pa.Schema) -> pa.Table:
    """Rows of a file in the types that a store has for them."""
    table = table.cast(target)
    table.validate(full=True)
    return table
