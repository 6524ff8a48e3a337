"""The generated notes of every figure: sizes by name, and a file of them.

They are made by `fastassoc.latency.made`, as `fastassoc bench latency` makes its own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fastassoc.latency.made import (
    BLOCK,
    CONCEPTS,
    WORDS,
    concept_ids,
    names,
    table,
    tables,
    zipf,
)

__all__ = [
    "BLOCK",
    "CONCEPTS",
    "SIZES",
    "WORDS",
    "concept_ids",
    "names",
    "table",
    "tables",
    "write_parquet",
    "zipf",
]

SIZES = {"small": 10_000, "medium": 100_000, "large": 1_000_000, "huge": 10_000_000}


def write_parquet(file: Path, notes: int, vectors: NDArray[np.float32] | None = None) -> None:
    """Write the notes into a file, with their vectors (float32 [notes, dim]) where given."""
    writer, first = None, 0
    for made in tables(notes):
        part = made
        if vectors is not None:
            some = vectors[first : first + len(part)]
            column = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), some.shape[1])
            part = part.append_column("vector", column)
        writer = writer or pq.ParquetWriter(file, part.schema)
        writer.write_table(part)
        first += len(part)
    if writer is not None:
        writer.close()
