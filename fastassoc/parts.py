"""One source of an ingest, and consecutive rows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from fastassoc.errors import InvalidInput

__all__ = ["Part", "Source", "grouped"]

PART_BYTES = 4 << 20
PART_ROWS = 4096


@dataclass
class Part:
    """Consecutive rows of one source: a table, or `rows` with their `sizes` (about, in bytes).

    `first` is the number of the first row in its source, from 0; `lines` are the numbers of the
    lines, from 1, where the source has lines; `done` is the share of the source that ends here.
    """

    source: Source
    first: int
    table: pa.Table | None = None
    rows: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    lines: list[int] | None = None
    done: float = 0.0

    def __len__(self) -> int:
        return len(self.rows) if self.table is None else self.table.num_rows

    def nbytes(self, rows: int) -> int:
        """About how many bytes its first rows take."""
        if self.table is None:
            return sum(self.sizes[:rows])
        size: int = self.table.slice(0, rows).nbytes
        return size

    def cut(self, rows: int) -> tuple[Part, Part]:
        """Its first rows, and the others."""
        head, tail = slice(0, rows), slice(rows, None)
        table, lines = self.table, self.lines
        return (
            Part(
                self.source,
                self.first,
                None if table is None else table.slice(0, rows),
                self.rows[head],
                self.sizes[head],
                lines and lines[head],
                self.done if rows >= len(self) else 0.0,
            ),
            Part(
                self.source,
                self.first + rows,
                None if table is None else table.slice(rows),
                self.rows[tail],
                self.sizes[tail],
                lines and lines[tail],
                self.done,
            ),
        )


@dataclass
class Source:
    """One file, stream or object.

    Attributes
    ----------
    name : str
    format : str
        One of `sources.FORMATS`, ``"table"`` or ``"rows"``.
    path : Path or None
    size : int
        Bytes, 0 where they are not known.
    rows : int or None
        How many rows, where that costs no reading.
    columns : list of str or None
        Names, where they are known before the rows are read.
    types : list of str
        The columns' types, as messages show them.
    """

    name: str
    format: str
    path: Path | None = None
    size: int = 0
    rows: int | None = None
    columns: list[str] | None = None
    types: list[str] = field(default_factory=list)
    _read: Callable[[Sequence[str] | None], Iterator[Part]] = field(repr=False, default=None)  # type: ignore[assignment]

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[Part]:
        """The rows, part by part; of a table only these columns.

        Raises
        ------
        InvalidInput
            The source is damaged.
        """
        try:
            yield from self._read(columns)
        except (OSError, EOFError, pa.ArrowException) as error:
            raise InvalidInput(f"{self.name} cannot be read (further): {error}") from error


def grouped(source: Source, rows: Iterable[tuple[int | None, Any, int]]) -> Iterator[Part]:
    """Parts of rows given with the number of their line and their size."""
    part, lines, held = Part(source, 0), list[int](), 0
    for line, row, size in rows:
        part.rows.append(row)
        part.sizes.append(size)
        if line is not None:
            lines.append(line)
        held += size
        if len(part.rows) == PART_ROWS or held > PART_BYTES:
            part.lines = lines or None
            yield part
            part, lines, held = Part(source, part.first + len(part)), [], 0
    if part.rows:
        part.lines = lines or None
        yield part
