"""Sizes that a Parquet file declares, held against the size that it has, before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fastassoc.errors import InvalidInput
from fastassoc.footer import footer_of, page_header, row_groups
from fastassoc.kernels import rows as kernels

__all__ = ["check_footer"]

FREE = 256 << 20  # bytes that a column of a row group may always expand to, and beyond it
RATIO = 1000  # to this many times its own size
FREE_ROWS = 10_000_000
ROWS_A_BYTE = 100
FREE_NAMES = 4 << 30  # bytes that a row group's lists of text, or of numbers, may always take
MOST = 1 << 30  # bytes that one read should take at most
STEP = 4096  # rows of one read, and
LEAST = 16  # at the worst
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
        Rows or bytes are out of all proportion to the file's size, or the footer is damaged.
    """
    if metadata.num_rows > max(FREE_ROWS, ROWS_A_BYTE * size):
        raise InvalidInput(
            f"{name} is refused: it declares {metadata.num_rows:,} rows in {size:,} bytes."
        )
    try:
        groups = row_groups(footer_of(raw), metadata.schema)
    except ValueError as error:
        raise InvalidInput(f"{name} is no whole parquet file: {error}.") from None
    step = STEP
    for group in groups:
        for chunk in group.columns:
            path = chunk.path_in_schema
            if columns is None or any(path == c or path.startswith(c + ".") for c in columns):
                step = min(step, _rows_at_once(name, chunk, group.num_rows, size, raw))
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
    if not chunk.dictionary_page_offset:
        return 0
    raw.seek(chunk.dictionary_page_offset)
    begin = raw.read(256)
    try:
        unpacked, packed, header = page_header(begin)
    except ValueError:
        return int(chunk.total_uncompressed_size)
    if not 0 <= unpacked <= DICTIONARY or not 0 <= packed <= chunk.total_compressed_size:
        return int(chunk.total_uncompressed_size)
    raw.seek(chunk.dictionary_page_offset + header)
    page = raw.read(packed)
    try:
        if chunk.compression != "UNCOMPRESSED":
            page = pa.Codec(CODECS[chunk.compression]).decompress(page, unpacked, asbytes=True)
        longest = kernels.longest_value(np.frombuffer(page, np.uint8))
        return unpacked if longest < 0 else int(longest)
    except (KeyError, ValueError, OSError, pa.ArrowException):
        return unpacked
