"""Sizes that a Parquet file declares, held against the size that it has, before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import pyarrow as pa

from fastassoc.errors import InvalidInput

__all__ = ["check_footer"]

FREE = 256 << 20  # bytes that a column of a row group may always expand to, and beyond it
RATIO = 1000  # to this many times its own size
FREE_ROWS = 10_000_000
ROWS_A_BYTE = 100
FREE_NAMES = 4 << 30  # bytes that a row group's lists of text, or of numbers, may always take
MOST = 1 << 30  # bytes that one read should take at most
STEP = 4096  # rows of one read, and
LEAST = 16  # at the worst
LENGTH = Struct("<I").unpack_from
DICTIONARY = 64 << 20  # a larger dictionary page is not looked into
CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli", "LZ4": "lz4_raw"}


def check_footer(
    name: str, metadata: Any, size: int, raw: Any, columns: Sequence[str] | None = None
) -> int:
    """Refuse what cannot be; say how many rows to read at once.

    A value of a dictionary may stand in any number of rows at no cost to the file, so the number of
    rows goes by the longest one.

    Raises
    ------
    InvalidInput
        Rows or bytes are out of all proportion to the file's size.
    """
    if metadata.num_rows > max(FREE_ROWS, ROWS_A_BYTE * size):
        raise InvalidInput(
            f"{name} is refused: it declares {metadata.num_rows:,} rows in {size:,} bytes."
        )
    step = STEP
    for group in range(metadata.num_row_groups):
        held = metadata.row_group(group)
        for place in range(held.num_columns):
            chunk = held.column(place)
            path = chunk.path_in_schema
            if columns is None or any(path == c or path.startswith(c + ".") for c in columns):
                step = min(step, _rows_at_once(name, chunk, held.num_rows, size, raw))
    return step


def _rows_at_once(name: str, chunk: Any, rows: int, size: int, raw: Any) -> int:
    path, packed = chunk.path_in_schema, chunk.total_compressed_size
    if not 0 <= packed <= size:
        raise InvalidInput(
            f"{name} is refused: column {path} declares {packed:,} bytes in a file of {size:,}."
        )
    if chunk.total_uncompressed_size > max(FREE, RATIO * packed):
        raise InvalidInput(
            f"{name} is refused: {packed:,} bytes of column {path} declare that they expand to "
            f"{chunk.total_uncompressed_size:,}."
        )
    if chunk.physical_type != "BYTE_ARRAY":
        return _rows_of_numbers(name, chunk, rows)
    longest = longest_value(chunk, raw)
    if "." in path or chunk.num_values != rows:
        if chunk.num_values * longest > max(FREE_NAMES, RATIO * packed):
            raise InvalidInput(
                f"{name} is refused: {packed:,} bytes of column {path} declare "
                f"{chunk.num_values:,} values of up to {longest:,} bytes."
            )
        return STEP
    return max(LEAST, min(STEP, MOST // max(1, longest)))


def _rows_of_numbers(name: str, chunk: Any, rows: int) -> int:
    """Lists of numbers, such as vectors, that repeat cost the file next to nothing, too."""
    nbytes, packed = 8 * chunk.num_values, chunk.total_compressed_size
    if nbytes > max(FREE_NAMES, RATIO * packed, 8 * rows):
        raise InvalidInput(
            f"{name} is refused: {packed:,} bytes of column {chunk.path_in_schema} declare "
            f"{chunk.num_values:,} numbers."
        )
    return max(LEAST, min(STEP, MOST * max(1, rows) // max(1, int(nbytes))))


def longest_value(chunk: Any, raw: Any) -> int:
    """At most how many bytes a value takes that the file need not repeat; 0 for no such value."""
    if "DELTA_BYTE_ARRAY" in chunk.encodings:  # a value may be any part of the one before
        return int(chunk.total_uncompressed_size)
    if not chunk.has_dictionary_page or not chunk.dictionary_page_offset:
        return 0
    raw.seek(chunk.dictionary_page_offset)
    begin = raw.read(256)
    try:
        unpacked, packed, header = _page_header(begin)
    except (ValueError, IndexError):
        return int(chunk.total_uncompressed_size)
    if not 0 <= unpacked <= DICTIONARY or not 0 <= packed <= chunk.total_compressed_size:
        return int(chunk.total_uncompressed_size)
    raw.seek(chunk.dictionary_page_offset + header)
    page = raw.read(packed)
    try:
        if chunk.compression != "UNCOMPRESSED":
            page = pa.Codec(CODECS[chunk.compression]).decompress(page, unpacked, asbytes=True)
        return _longest(page)
    except (KeyError, ValueError, OSError, pa.ArrowException):
        return unpacked


def _longest(page: bytes) -> int:
    """Length of the longest of the values, each after its length in 4 bytes."""
    at = longest = 0
    last = len(page) - 4
    while at <= last:
        (length,) = LENGTH(page, at)
        if length > longest:  # noqa: PLR1730  (this loop takes as long as all else here)
            longest = length
        at += 4 + length
    if at != len(page):
        raise ValueError("the page is torn")
    return longest


def _page_header(data: bytes) -> tuple[int, int, int]:
    """Unpacked and packed size that a page declares, and the length of its header (Thrift)."""
    at = 0
    sizes = {}

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def skip(kind: int) -> None:
        if kind in (4, 5, 6):
            varint()
        elif kind == 12:
            fields()
        elif kind not in (1, 2):  # a bool is its own type
            raise ValueError(f"unexpected type {kind} in a page header")

    def fields(top: bool = False) -> None:
        nonlocal at
        field = 0
        while (byte := data[at]) != 0:
            at += 1
            delta, kind = byte >> 4, byte & 15
            if delta:
                field += delta
            else:
                number = varint()
                field = (number >> 1) ^ -(number & 1)
            if top and kind == 5:
                number = varint()
                sizes[field] = (number >> 1) ^ -(number & 1)
            else:
                skip(kind)
        at += 1

    fields(top=True)
    if sizes.get(1) != 2:  # a dictionary page
        raise ValueError("no dictionary page")
    try:
        return sizes[2], sizes[3], at
    except KeyError:
        raise ValueError("no sizes in a page header") from None
