"""Hashes of tables by their values, the same in every process and however the columns are cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest

from fastassoc.batch import one_array

__all__ = ["table_hashes"]


def value_hashes(column: pa.Array) -> list[int]:
    """Hashes of a column's values, whatever its chunks, offsets and what lies under its nulls."""
    if pa.types.is_fixed_size_list(column.type):
        return [len(column), column.type.list_size, *value_hashes(column.flatten())]
    if pa.types.is_list(column.type):
        lengths = pc.list_value_length(column)
        return [*value_hashes(lengths), *value_hashes(column.flatten())]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    hashes = [xxh3_64_intdigest(np.packbits(valid).tobytes())]
    held = column.drop_null()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        lengths = pc.binary_length(held).cast(pa.int64())
        text = memoryview(b"")
        if len(held):
            _, offsets, joined = held.buffers()
            width = np.int64 if pa.types.is_large_string(column.type) else np.int32
            ends = np.frombuffer(offsets, width)[held.offset : held.offset + len(held) + 1]
            text = memoryview(joined or b"")[ends[0] : ends[-1]]
        return [*hashes, *value_hashes(lengths), xxh3_64_intdigest(text)]
    return [*hashes, xxh3_64_intdigest(held.to_numpy(zero_copy_only=False).tobytes())]


def table_hashes(table: pa.Table) -> list[int]:
    """Hashes of a table's columns."""
    columns = (one_array(table.column(name)) for name in table.column_names)
    return [value for column in columns for value in value_hashes(column)]
