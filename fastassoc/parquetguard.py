"""Sizes that a Parquet file declares, held against the size that it has, before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fastassoc.errors import InvalidInput
from fastassoc.fields import Column, is_list, pc, plain_strings

__all__ = ["check_footer", "plain_batch"]

FREE = 256 << 20  # bytes that a file may always expand to, and beyond it
RATIO = 1000  # to this many times its own size
FREE_ROWS = 10_000_000
ROWS_A_BYTE = 100
MOST = 1 << 30  # bytes that one read may take
STEP = 16_384  # rows of one read


def check_footer(
    name: str, metadata: Any, size: int, columns: Sequence[str] | None = None
) -> tuple[int, list[str]]:
    """Refuse what cannot be; say how many rows to read at once, and which columns as dictionaries.

    Lists of text are read as dictionaries, since one row may hold any number of a long value.

    Raises
    ------
    InvalidInput
        Rows or bytes are out of all proportion to the file's size.
    """
    if metadata.num_rows > max(FREE_ROWS, ROWS_A_BYTE * size):
        raise InvalidInput(
            f"{name} is refused: it declares {metadata.num_rows:,} rows in {size:,} bytes."
        )
    step, lists, packed = STEP, set(), 0
    for group in range(metadata.num_row_groups):
        held = metadata.row_group(group)
        for place in range(held.num_columns):
            chunk = held.column(place)
            path = chunk.path_in_schema
            if columns is not None and not any(
                path == one or path.startswith(one + ".") for one in columns
            ):
                continue
            packed += max(0, chunk.total_compressed_size)
            if not 0 <= chunk.total_compressed_size <= size or packed > size:
                raise InvalidInput(
                    f"{name} is refused: column {path} declares {chunk.total_compressed_size:,} "
                    f"bytes in a file of {size:,}."
                )
            if chunk.total_uncompressed_size > max(FREE, RATIO * chunk.total_compressed_size):
                raise InvalidInput(
                    f"{name} is refused: {chunk.total_compressed_size:,} bytes of column {path} "
                    f"declare that they expand to {chunk.total_uncompressed_size:,}."
                )
            if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page:
                if chunk.num_values != held.num_rows or "." in path:
                    lists.add(path)
                else:
                    step = min(step, _rows_at_once(chunk))
    return step, sorted(lists)


def _rows_at_once(chunk: Any) -> int:
    """Rows whose values, each perhaps as long as the whole dictionary, fit into one read.

    A dictionary seldom takes more than 1 MiB, and never more than its chunk.
    """
    longest: int = max(1, min(chunk.total_uncompressed_size, 1 << 20))
    return max(256, MOST // longest)


def plain_batch(name: str, batch: pa.RecordBatch) -> pa.Table:
    """The rows with text as plain strings, unless they would expand to more than one read may."""
    held: dict[str, Column] = {}
    for field, column in zip(batch.schema.names, batch.columns, strict=True):
        found: Column = column
        inner = found.values if is_list(found.type) and pa.types.is_list(found.type) else found
        if pa.types.is_dictionary(inner.type):
            lengths = pc.binary_length(inner.dictionary).cast(pa.int64())
            total = pc.sum(lengths.take(inner.indices)).as_py() or 0
            if total > MOST:
                raise InvalidInput(
                    f"{name} is refused: {len(batch):,} rows of column {field} expand to "
                    f"{total:,} bytes."
                )
            found = plain_strings(found)
        held[field] = found
    return pa.table(held)
