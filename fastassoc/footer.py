"""What a Parquet file's footer says of its columns, read without pyarrow.

pyarrow ends the process where a footer that parses contradicts itself, such as in the statistics of
a column, once its columns are asked for one by one. What it does while it reads a file, it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Chunk", "RowGroup", "footer_of", "page_header", "row_groups"]

CODECS = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP", 4: "BROTLI", 6: "ZSTD", 7: "LZ4"}
ENCODINGS = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}


class Chunk(NamedTuple):
    """A column of a row group, named as pyarrow does it; path and type are the schema's.

    Readers go by the schema, too, whatever the chunk itself says of these.
    """

    path_in_schema: str
    physical_type: str
    encodings: tuple[str, ...]
    compression: str
    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    dictionary_page_offset: int | None


class RowGroup(NamedTuple):
    """A row group: how many rows it has, and its columns in the schema's order."""

    num_rows: int
    columns: list[Chunk]


def footer_of(raw: Any) -> bytes:
    """The footer of an open file whose end is that of a Parquet file."""
    size = raw.seek(0, 2)
    raw.seek(size - 8)
    length = int.from_bytes(raw.read(4), "little")
    raw.seek(max(0, size - 8 - length))
    return bytes(raw.read(length))


def row_groups(footer: bytes, schema: Any) -> list[RowGroup]:
    """What a footer says of its row groups.

    Parameters
    ----------
    footer : bytes
    schema : pyarrow.parquet.ParquetSchema
        As pyarrow found it in the same footer.

    Raises
    ------
    ValueError
        It says what none does, or something twice.
    """
    columns = [(one.path, one.physical_type) for one in map(schema.column, range(len(schema)))]
    try:
        return [
            RowGroup(
                group[3],
                [_chunk(*column, held[3]) for column, held in zip(columns, group[1], strict=True)],
            )
            for group in _told(footer, FILE)[0][4]
        ]
    except KeyError as error:
        raise ValueError(f"its footer lacks field {error}") from None


def _chunk(path: str, kind: str, held: Mapping[int, Any]) -> Chunk:
    encodings = tuple(ENCODINGS.get(one, "UNKNOWN") for one in held[2])
    codec = CODECS.get(held[4], "UNKNOWN")
    return Chunk(path, kind, encodings, codec, held[5], held[6], held[7], held.get(11))


def page_header(data: bytes) -> tuple[int, int, int]:
    """Unpacked and packed size that a dictionary page declares, and the length of its header.

    Raises
    ------
    ValueError
        It is no header of such a page.
    """
    found, length = _told(data, PAGE)
    if found.get(1) != 2 or 2 not in found or 3 not in found:
        raise ValueError("no dictionary page")
    return found[2], found[3], length


# -- Thrift's compact protocol ---------------------------------------------------------------------

BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(3, 13)
FIXED = {1: 1, 2: 1, BYTE: 1, DOUBLE: 8}  # bytes of one; a bool takes none as a field
Read = Callable[[bytes, int], tuple[Any, int]]  # a value at a place, and where the next one is
Wanted = Mapping[tuple[int, int], Read]  # by number and type of a field


def _told(data: bytes, wanted: Wanted) -> tuple[dict[int, Any], int]:
    """The fields of a struct that are wanted, by number, and where it ends."""
    try:
        return _fields(wanted)(data, 0)
    except (IndexError, RecursionError):
        raise ValueError("it is torn") from None


def _unsigned(data: bytes, at: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) > 127 and shift < bits:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    value |= byte << shift
    if value >> bits:
        raise ValueError("a number is out of range")
    return value, at + 1


def _whole(bits: int) -> Read:
    def read(data: bytes, at: int) -> tuple[int, int]:
        value, at = _unsigned(data, at, bits)
        return (value >> 1) ^ -(value & 1), at

    return read


def _several(data: bytes, at: int) -> tuple[int, int, int]:
    """Type and number of the members of a list, and where they begin."""
    byte = data[at]
    if byte < 240:
        return byte & 15, byte >> 4, at + 1
    return byte & 15, *_unsigned(data, at + 1, 31)


def _list(kind: int, read: Read) -> Read:
    def members(data: bytes, at: int) -> tuple[list[Any], int]:
        found, count, at = _several(data, at)
        if count and found != kind:
            raise ValueError(f"a list holds the type {found}, expected {kind}")
        values = []
        for _ in range(count):
            value, at = read(data, at)
            values.append(value)
        return values, at

    return members


def _fields(wanted: Wanted) -> Read:
    def read(data: bytes, at: int) -> tuple[dict[int, Any], int]:
        found: dict[int, Any] = {}
        field = 0
        while byte := data[at]:
            kind = byte & 15
            if byte > 15:
                field, at = field + (byte >> 4), at + 1
            else:
                field, at = NUMBER(data, at + 1)
            if (field, kind) not in wanted:
                at = _skip(data, at, kind) if kind > 2 else at
            elif field in found:
                raise ValueError("a field stands twice")
            else:
                found[field], at = wanted[field, kind](data, at)
        if field >> 15:
            raise ValueError("a number is out of range")
        return found, at + 1

    return read


def _skip(data: bytes, at: int, kind: int, count: int = 1) -> int:
    """Where the next value is after so many of a type."""
    if kind in FIXED:
        return at + FIXED[kind] * count
    for _ in range(count):
        if 4 <= kind <= 6:
            while data[at] > 127:
                at += 1
            at += 1
        elif kind == STRUCT:
            while byte := data[at]:
                at += 1
                if byte < 16:
                    at = _skip(data, at, I16)
                byte &= 15
                if 4 <= byte <= 6:  # as above: most of a footer is this
                    while data[at] > 127:
                        at += 1
                    at += 1
                elif byte > 2:  # a bool is its own type
                    at = _skip(data, at, byte)
            at += 1
        elif kind == BINARY:
            length, at = _unsigned(data, at, 31)
            at += length
        elif kind in (LIST, SET):
            inner, length, at = _several(data, at)
            at = _skip(data, at, inner, length)
        elif kind == MAP:
            length, at = _unsigned(data, at, 31)
            kinds = divmod(data[at], 16) if length else (BYTE, BYTE)
            at += 1 if length else 0
            for _ in range(length):
                at = _skip(data, _skip(data, at, kinds[0]), kinds[1])
        else:
            raise ValueError(f"found the unknown type {kind}")
    return at


NUMBER = _whole(16)
META: Wanted = {
    (2, LIST): _list(I32, _whole(32)),  # encodings
    (4, I32): _whole(32),  # codec
    (5, I64): _whole(64),  # number of values
    (6, I64): _whole(64),  # bytes unpacked
    (7, I64): _whole(64),  # bytes packed
    (11, I64): _whole(64),  # where the dictionary page is
}
GROUP: Wanted = {
    (1, LIST): _list(STRUCT, _fields({(3, STRUCT): _fields(META)})),
    (3, I64): _whole(64),  # rows
}
FILE: Wanted = {(4, LIST): _list(STRUCT, _fields(GROUP))}
PAGE: Wanted = {(number, I32): _whole(32) for number in (1, 2, 3)}
