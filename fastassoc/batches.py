"""The input of an ingest, cut into batches and checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from xxhash import xxh3_128

from fastassoc.mapping import Fields
from fastassoc.parts import Part, Source
from fastassoc.rows import Checked, ContentIds, from_columns, from_dicts
from fastassoc.settings import Settings
from fastassoc.sources import sources

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "Batch",
    "batches",
    "checked",
    "ingest_key",
    "opened",
    "parts",
    "place_of",
]

BATCH_ROWS = 65_536
BATCH_BYTES = 32 << 20


def opened(source: Any, format: str | None, delimiter: str | None, fields: Fields) -> list[Source]:
    """The sources, those columns checked that are known before the rows are read."""
    found = sources(source, format, delimiter=delimiter)
    for one in found:
        if one.columns is not None:
            _check_columns(one, fields)
    return found


def ingest_key(found: Sequence[Source], fields: Fields, options: Sequence[Any]) -> str | None:
    """What makes two ingests the same one; None where a source is no file."""
    files = []
    for source in found:
        if source.path is None:
            return None
        stat = source.path.stat()
        files.append([str(source.path.resolve()), source.format, stat.st_size, stat.st_mtime_ns])
    return xxh3_128(compact([files, fields.options(), *options]).encode()).hexdigest()


def compact(value: Any) -> str:
    """A value as short JSON."""
    return json.dumps(value, separators=(",", ":"))


class Batch(NamedTuple):
    """Consecutive rows of the input; `first` is the number of the first one."""

    parts: list[Part]
    first: int
    rows: int
    share: float  # of the input that ends with it


def batches(
    parts: Iterator[tuple[Part, float]], rows: int, nbytes: int, first: int = 0
) -> Iterator[Batch]:
    """Cut the input by rows and by bytes; a table is only joined to one of the same schema."""
    held: list[Part] = []
    n = size = 0
    share = 0.0
    for whole, after in parts:
        part = whole
        while len(part):
            fits = _fitting(part, rows - n, nbytes - size, bool(held))
            if held and (fits == 0 or not _joins(held[-1], part)):
                yield Batch(held, first, n, share)
                held, first, n, size = [], first + n, 0, 0
                continue
            piece, part = part.cut(fits)
            held.append(piece)
            n += len(piece)
            size += piece.nbytes(len(piece))
        share = after
    if held:
        yield Batch(held, first, n, 1.0)


def _fitting(part: Part, rows: int, nbytes: int, begun: bool) -> int:
    fits = min(rows, len(part))
    while fits > (0 if begun else 1) and part.nbytes(fits) > nbytes:
        fits //= 2
    return fits


def _joins(one: Part, two: Part) -> bool:
    if one.table is None or two.table is None:
        return one.table is two.table
    return bool(one.table.schema.equals(two.table.schema))


def parts(found: Sequence[Source], fields: Fields) -> Iterator[tuple[Part, float]]:
    """All rows, each part with the share of the input after it; columns are checked first."""
    weights = [
        max(1, source.size if source.path else source.rows or source.size) for source in found
    ]
    total, before = sum(weights), 0
    for source, weight in zip(found, weights, strict=True):
        columns = source.columns
        wanted = None if columns is None else fields.needed(columns)
        checked = columns is not None
        for part in source.parts(wanted):
            if not checked:
                checked = _check_rows(source, part, fields)
            yield part, (before + weight * part.done) / total
        before += weight


def _check_columns(source: Source, fields: Fields) -> None:
    assert source.columns is not None
    fields.check(source.name, source.columns, complete=True)
    if source.format == "csv":
        fields.check_cells(source.name, source.columns)


def _check_rows(source: Source, part: Part, fields: Fields) -> bool:
    """Check the columns of a source that only its rows know; whether there were any."""
    if source.columns is not None:
        _check_columns(source, fields)
        return True
    found: dict[str, None] = {}
    for row in part.rows:
        if isinstance(row, Mapping):
            found.update(dict.fromkeys(row))
    if found:
        fields.check(source.name, [str(name) for name in found], complete=False)
    return bool(found)


def checked(
    batch: Batch,
    fields: Fields,
    settings: Settings,
    ids: ContentIds | None,
    width: int | None = None,
) -> Checked:
    """A batch's good notes, their row numbers in it, and its rejects; `width` is the vectors'."""
    if batch.parts[0].table is None:
        rows: list[Any] = []
        for part in batch.parts:
            cells = part.source.format == "csv"
            rows += fields.rows(part.rows, cells)
        return from_dicts(rows, settings, ids, width)
    table = pa.concat_tables([part.table for part in batch.parts if part.table is not None])
    return from_columns(fields.columns(table), table.num_rows, settings, ids, width)


class Place(NamedTuple):
    """Where a row of a batch came from: a part, and the row in it."""

    part: Part
    row: int  # in the part


def place_of(batch: Batch, row: int) -> Place:
    """Where this row of the batch came from."""
    for part in batch.parts:
        if row < len(part):
            return Place(part, row)
        row -= len(part)
    raise IndexError(row)
