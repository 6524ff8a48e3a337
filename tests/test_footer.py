"""Footers of Parquet files: pyarrow as the witness, and rubbish."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from fastassoc.footer import footer_of, page_header, row_groups

pq: Any = pyarrow.parquet
TABLE = pa.table(
    {
        "text": ["a", None] * 50,
        "concepts": [["a", "b"], []] * 50,
        "number": range(100),
        "held": [{"a": 1.5, "b": [True]}] * 100,
    }
)


def written(**options: Any) -> tuple[io.BytesIO, Any]:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=30, **options)
    return sink, pq.ParquetFile(sink).metadata


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("told", [True, False])
def test_it_says_what_pyarrow_says(codec: str, told: bool) -> None:
    sink, witness = written(compression=codec, write_statistics=told, use_dictionary=told)
    groups = row_groups(footer_of(sink), witness.schema)
    assert [group.num_rows for group in groups] == [30, 30, 30, 10]
    for number, group in enumerate(groups):
        columns = [witness.row_group(number).column(place) for place in range(5)]
        for chunk, column in zip(group.columns, columns, strict=True):
            assert chunk._asdict() == {name: getattr(column, name) for name in chunk._fields}
            if told and chunk.dictionary_page_offset is not None:
                sink.seek(chunk.dictionary_page_offset)
                _, packed, header = page_header(sink.read(64))
                assert header + packed == column.data_page_offset - chunk.dictionary_page_offset


def test_rubbish_is_told_and_ends() -> None:
    sink, witness = written()
    footer = footer_of(sink)
    draw = random.Random(1)
    cases = [footer[:cut] for cut in range(0, len(footer), 7)]
    for _ in range(3000):
        bad = bytearray(footer)
        for _ in range(draw.choice((1, 2, 8))):
            bad[draw.randrange(len(bad))] = draw.choice((draw.randrange(256), 0xFF, 0x19))
        cases.append(bytes(bad))
    cases += [b"\x1c" * 5000, b"\x19\xfc" + b"\xff" * 100_000, b"\x15" + b"\xff" * 100_000]
    told = 0
    for case in cases:
        try:
            row_groups(case, witness.schema)
        except ValueError:
            told += 1
    assert told > 1000
