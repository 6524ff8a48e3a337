"""Where an ingest's rows come from: files, streams, frames, iterables; read part by part.

Memory stays bounded whatever a source's size, and sizes that a file only declares never drive an
allocation.
"""

from __future__ import annotations

import csv
import gc
import glob
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from fastassoc.errors import InvalidInput
from fastassoc.fields import shown
from fastassoc.parquetguard import check_footer
from fastassoc.rows import Refused

__all__ = ["FORMATS", "Part", "Source", "sources"]

pq: Any = pyarrow.parquet
ipc: Any = pyarrow.ipc

FORMATS = ("jsonl", "csv", "parquet", "arrow")
SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
CHUNK = 256 << 10  # bytes of lines read at once: what they become stays in the cache
PART_BYTES = 4 << 20
BUFFER = 1 << 20  # of each column of a Parquet file
PART_ROWS = 4096
LONGEST = 64 << 20  # bytes of one line
RAW = 64 << 10  # characters of a refused line that are kept


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
        One of FORMATS, ``"table"`` or ``"rows"``.
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


def sources(
    source: Any, format: str | None = None, *, delimiter: str | None = None
) -> list[Source]:
    """What to read, in order; nothing but names, sizes and headers is read yet.

    Parameters
    ----------
    source : path, str, list of paths, binary file, table, frame or iterable of dicts
        A str may be a pattern (``*``, ``?``, ``[``, ``**``), which is expanded in sorted order, or
        ``"-"``, standard input. A table is anything with ``__arrow_c_stream__``, a pyarrow
        RecordBatch, or a pandas frame.
    format : {"jsonl", "csv", "parquet", "arrow"} or None
        None goes by the suffix (a second one, .gz, .bz2, .zst or .lz4, is unpacked), and takes
        JSON lines where there is none.
    delimiter : str or None
        Of CSV; None is a tab for .tsv and a comma elsewhere.

    Raises
    ------
    InvalidInput
        There is no such file, or it is of no known format.

    Examples
    --------
    >>> [one.format for one in sources([{"text": "Tea"}])]
    ['rows']
    """
    if format is not None and format not in FORMATS:
        raise InvalidInput(f"format: found {format!r}, expected one of {', '.join(FORMATS)}.")
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InvalidInput(
            f"delimiter: found {delimiter!r}, expected one character, no quote and no line end."
        )
    if isinstance(source, (str, os.PathLike)):
        if source == "-":
            return [_stream(sys.stdin.buffer, "standard input", format or "jsonl", delimiter)]
        return [_file(path, format, delimiter) for path in _expand(os.fspath(source))]
    listed = isinstance(source, (list, tuple)) and len(source) > 0
    if listed and all(isinstance(one, (str, os.PathLike)) for one in source):
        return [found for one in source for found in sources(one, format, delimiter=delimiter)]
    if hasattr(source, "read") and not hasattr(source, "__arrow_c_stream__"):
        return [_stream(_binary(source), str(getattr(source, "name", "stream")), format, delimiter)]
    table = _table(source)
    if table is not None:
        return [table]
    if isinstance(source, (Mapping, bytes)) or not isinstance(source, Iterable):
        raise InvalidInput(
            f"source: found {shown(source)}, expected a path, a pattern, '-', a binary file, a "
            "table or frame, or an iterable of dicts."
        )
    found = Source("rows", "rows", rows=_length(source))
    found._read = lambda _: _from_rows(found, source)
    return [found]


def _length(source: Any) -> int | None:
    return len(source) if hasattr(source, "__len__") else None


# -- files ----------------------------------------------------------------------------------------


def _expand(path: str) -> list[Path]:
    if os.path.exists(path):
        if os.path.isdir(path):
            raise InvalidInput(
                f"source: {path} is a folder; name its files, as in '{path}/*.jsonl'."
            )
        return [Path(path)]
    if not glob.has_magic(path):
        raise InvalidInput(f"source: there is no file {path}.")
    found = sorted(one for one in glob.glob(path, recursive=True) if os.path.isfile(one))
    if not found:
        raise InvalidInput(f"source: no file matches {path} (from {os.getcwd()}).")
    return [Path(one) for one in found]


def _file(path: Path, format: str | None, delimiter: str | None) -> Source:
    if not path.is_file():  # a pipe: <(zcat notes.gz), /dev/stdin
        return _stream(path.open("rb"), str(path), format, delimiter)
    suffixes = [one.lower() for one in path.suffixes]
    codec = CODECS.get(suffixes[-1]) if suffixes else None
    suffix = (suffixes[:-1] if codec else suffixes)[-1:] or [""]
    kind = format or SUFFIXES.get(suffix[0])
    if kind is None:
        raise InvalidInput(
            f"{path}: the suffix tells no format; expected one of {', '.join(SUFFIXES)}, or pass "
            f"format= ({', '.join(FORMATS)})."
        )
    source = Source(str(path), kind, path, path.stat().st_size)
    if kind in ("parquet", "arrow"):
        if codec:
            raise InvalidInput(f"{path}: unpack it first; {kind} files compress by themselves.")
        _open_table_file(source, str(path))
        return source
    separator = delimiter or ("\t" if suffix[0] == ".tsv" else ",")

    def read(_: Sequence[str] | None) -> Iterator[Part]:
        with path.open("rb") as raw:
            stream = raw if codec is None else _unpacked(raw, codec)
            place = lambda: raw.tell() / max(1, source.size)  # noqa: E731
            yield from _from_lines(source, cast(BinaryIO, stream), separator, place)

    source._read = read
    if kind == "csv":
        with path.open("rb") as raw:
            stream = raw if codec is None else _unpacked(raw, codec)
            source.columns = _header(source, cast(BinaryIO, stream), separator)
    return source


def _unpacked(raw: Any, codec: Any) -> Any:
    return pa.CompressedInputStream(raw, codec)


def _binary(stream: Any) -> BinaryIO:
    if isinstance(stream.read(0), str):
        if not hasattr(stream, "buffer"):
            raise InvalidInput("source: found a text file, expected a binary one (mode 'rb').")
        stream = stream.buffer
    return cast(BinaryIO, stream)


def _stream(stream: BinaryIO, name: str, format: str | None, delimiter: str | None) -> Source:
    kind = format or SUFFIXES.get(Path(name).suffix.lower(), "jsonl")
    source = Source(name, kind)
    if kind in ("parquet", "arrow"):
        _open_table_file(source, stream)
    else:
        source._read = lambda _: _from_lines(source, stream, delimiter or ",", lambda: 0.0)
    return source


def _open_table_file(source: Source, file: Any) -> None:
    """Columns and rows from a Parquet footer or an Arrow schema."""
    try:
        if source.format == "parquet":
            if hasattr(file, "seekable") and not file.seekable():
                raise InvalidInput(
                    f"{source.name}: Parquet needs a file; a stream can be jsonl, csv or arrow."
                )
            with _opened(file) as raw:
                held = pq.ParquetFile(raw)
                source.rows, schema = held.metadata.num_rows, held.schema_arrow
                source.size = source.size or raw.seek(0, 2)
                check_footer(source.name, held.metadata, source.size, raw, [])
            source._read = lambda columns: _from_parquet(source, file, columns)
        else:
            reader = _ipc_reader(file)
            schema = reader.schema
            again = isinstance(file, str)
            source._read = lambda columns: _from_reader(
                source, _ipc_reader(file) if again else reader, columns
            )
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"{source.name} is no whole {source.format} file: {error}") from None
    source.columns, source.types = list(schema.names), [str(kind) for kind in schema.types]


class _opened:  # noqa: N801
    """The file at a path, closed after use; a stream is left open."""

    def __init__(self, file: Any) -> None:
        self._file, self._own = file, isinstance(file, str)

    def __enter__(self) -> Any:
        self._raw = open(self._file, "rb") if self._own else self._file
        return self._raw

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._raw.close()


def _from_parquet(source: Source, file: Any, columns: Sequence[str] | None) -> Iterator[Part]:
    with _opened(file) as raw:
        held = pq.ParquetFile(raw, buffer_size=BUFFER)
        wanted = list(source.columns or ()) if columns is None else list(columns)
        step = check_footer(source.name, held.metadata, source.size, raw, wanted)
        first, total = 0, max(1, held.metadata.num_rows)
        for batch in held.iter_batches(batch_size=step, columns=wanted, use_threads=False):
            table = pa.Table.from_batches([batch])
            done = (first + table.num_rows) / total
            yield Part(source, first, table, done=done)
            first += table.num_rows


def _ipc_reader(file: Any) -> Any:
    stream = pa.memory_map(file) if isinstance(file, str) else file
    if not isinstance(file, str) and not (hasattr(file, "seekable") and file.seekable()):
        return ipc.open_stream(stream)
    start = stream.read(6)
    stream.seek(0)
    return ipc.open_file(stream) if start == b"ARROW1" else ipc.open_stream(stream)


def _from_reader(source: Source, reader: Any, columns: Sequence[str] | None) -> Iterator[Part]:
    first = 0
    count = getattr(reader, "num_record_batches", None)
    batches = (reader.get_batch(n) for n in range(count)) if count is not None else iter(reader)
    for n, batch in enumerate(batches):
        table = pa.Table.from_batches([batch])
        if columns is not None:
            table = table.select(list(columns))
        done = (
            (n + 1) / count if count else (first + len(batch)) / source.rows if source.rows else 0.0
        )
        yield Part(source, first, table, done=done)
        first += table.num_rows


# -- objects --------------------------------------------------------------------------------------


def _table(source: Any) -> Source | None:
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        source = pa.Table.from_pandas(source, preserve_index=False)
    if isinstance(source, pa.Table):
        reader, rows, size = source.to_reader(), source.num_rows, source.nbytes
    elif hasattr(source, "__arrow_c_stream__"):
        reader, rows, size = pa.RecordBatchReader.from_stream(source), _length(source), 0
    else:
        return None
    schema = reader.schema
    found = Source("table", "table", None, size, rows, list(schema.names))
    found.types = [str(kind) for kind in schema.types]
    found._read = lambda columns: _from_reader(found, reader, columns)
    return found


def _from_rows(source: Source, rows: Iterable[Any]) -> Iterator[Part]:
    total = _length(rows)
    for part in _grouped(source, ((None, row, _size(row)) for row in rows)):
        part.done = (part.first + len(part)) / total if total else 0.0
        yield part


def _grouped(source: Source, rows: Iterable[tuple[int | None, Any, int]]) -> Iterator[Part]:
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


def _size(row: Any) -> int:
    if not isinstance(row, Mapping):
        return 64
    return 64 + sum(len(value) for value in row.values() if isinstance(value, (str, list)))


# -- lines ----------------------------------------------------------------------------------------


def _lines(stream: BinaryIO) -> Iterator[list[bytes | None]]:
    """Lines, some at a time, without their end; None stands for one longer than LONGEST."""
    pending: list[bytes] = []  # pieces of the line that has no end yet
    size, skipping, begun = 0, False, False
    while chunk := stream.read(CHUNK):
        if not begun:
            begun, chunk = True, chunk.removeprefix(b"\xef\xbb\xbf")
        first, end, rest = chunk.partition(b"\n")
        if not skipping:
            pending.append(first)
            size += len(first)
            skipping = size > LONGEST
        if skipping:
            pending.clear()
        if not end:
            continue
        lines: list[bytes | None] = [None if skipping else b"".join(pending)]
        lines += rest.split(b"\n")
        last = cast(bytes, lines.pop())
        pending, size, skipping = [last], len(last), len(last) > LONGEST
        yield lines
    if size:
        yield [None if skipping else b"".join(pending)]


def _too_long(what: str = "line") -> Refused:
    return Refused(f"the {what} is longer than {LONGEST >> 20} MiB.")


def _from_lines(
    source: Source, stream: BinaryIO, delimiter: str, place: Callable[[], float]
) -> Iterator[Part]:
    found = (
        _json_parts(source, stream)
        if source.format == "jsonl"
        else _grouped(source, _in_bursts(_csv_rows(source, stream, delimiter)))
    )
    for part in found:
        part.done = place()
        yield part


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)
_scan: Callable[[str, int], tuple[Any, int]] = vars(_decoder)["scan_once"]


def _json_parts(source: Source, stream: BinaryIO) -> Iterator[Part]:
    first = number = 0
    for lines in _lines(stream):
        texts = _decoded(lines)
        if not texts:
            continue
        numbers = list(range(number + 1, number + 1 + len(texts)))
        number += len(texts)
        rows = _fast_json(texts)
        if rows is None:
            held = [_json_row(text) for text in texts]
            if numbers[0] == 1 and _opens_array(texts[0]) and type(held[0]) is Refused:
                raise InvalidInput(
                    f"{source.name}: found a JSON array, expected one JSON object a line; "
                    "'jq -c .[]' makes these of it."
                )
            kept = [place for place, row in enumerate(held) if row is not None]
            rows, numbers, texts = (
                [column[place] for place in kept] for column in (held, numbers, texts)
            )
        if rows:
            yield Part(source, first, None, rows, [len(text) + 64 for text in texts], numbers)
            first += len(rows)


@contextmanager
def _no_collection() -> Iterator[None]:
    """For a burst of new objects without cycles: looking for some takes longer than the burst."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _in_bursts(rows: Iterator[Any]) -> Iterator[Any]:
    while True:
        with _no_collection():
            burst = list(islice(rows, 1000))
        if not burst:
            return
        yield from burst


def _fast_json(texts: list[Any]) -> list[Any] | None:
    """The objects of lines that are all plain; None where one is anything else."""
    try:
        with _no_collection():
            found = [_scan(text, 0) for text in texts]
    except (ValueError, TypeError, StopIteration, RecursionError):
        return None
    rows = [row for row, _ in found]
    if [end for _, end in found] != list(map(len, texts)) or set(map(type, rows)) != {dict}:
        return None
    return rows


def _opens_array(text: str | Refused) -> bool:
    return isinstance(text, str) and text.lstrip()[:1] == "["


def _json_row(text: str | Refused) -> Any:
    return _slow_json(text) if isinstance(text, str) else text


def _decoded(lines: list[bytes | None]) -> list[Any]:
    """Lines as text; Refused where one is too long or no UTF-8."""
    try:
        return b"\n".join(cast(list[bytes], lines)).decode().split("\n") if lines else []
    except (UnicodeDecodeError, TypeError):
        pass
    out: list[Any] = []
    for line in lines:
        try:
            out.append(_too_long() if line is None else line.decode())
        except UnicodeDecodeError as error:
            raw = cast(bytes, line)[:RAW].decode(errors="replace")
            out.append(Refused(f"the line is no UTF-8: {error.reason} at byte {error.start}.", raw))
    return out


def _slow_json(line: str) -> Any:
    """The line's object; None for a blank line; Refused."""
    line = line.strip()
    if not line:
        return None
    try:
        row = _decoder.decode(line)
    except RecursionError:
        return Refused("malformed JSON: nested too deeply.", line[:RAW])
    except ValueError as error:
        where = f", column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return Refused(f"malformed JSON: {getattr(error, 'msg', error)}{where}.", line[:RAW])
    if not isinstance(row, dict):
        return Refused(f"found {shown(row)}, expected a JSON object.", line[:RAW])
    return row


class _LongLine(Exception):
    pass


def _records(stream: BinaryIO, delimiter: str) -> Iterator[tuple[int, list[str] | Refused]]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    number, lines = 0, _Restarting(stream)
    while True:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            for record in reader:
                if record:
                    yield number + reader.line_num, record
            return
        except csv.Error as error:
            number += reader.line_num
            yield number, Refused(f"malformed CSV: {error}.")
        except _LongLine:
            number += reader.line_num + 1
            yield number, _too_long()


class _Restarting:
    """Lines of a stream that go on after a too long one was raised."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = (line for lines in _lines(stream) for line in lines)

    def __iter__(self) -> _Restarting:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if line is None:
            raise _LongLine
        return line.decode(errors="surrogateescape") + "\n"


def _header(source: Source, stream: BinaryIO, delimiter: str) -> list[str]:
    for _, record in _records(stream, delimiter):
        if isinstance(record, Refused):
            break
        names = [name.strip() for name in record]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InvalidInput(f"{source.name}: the header names {', '.join(twice)} twice.")
        return names
    raise InvalidInput(f"{source.name}: found no header, expected the columns' names first.")


def _csv_rows(source: Source, stream: BinaryIO, delimiter: str) -> Iterator[tuple[int, Any, int]]:
    names: list[str] | None = None
    for number, record in _records(stream, delimiter):
        if names is None:
            if isinstance(record, Refused):
                raise InvalidInput(f"{source.name}: the header is {record.reason}")
            names = source.columns = [name.strip() for name in record]
            continue
        if isinstance(record, Refused):
            yield number, record, 64
        elif len(record) != len(names):
            reason = f"found {len(record)} cells, expected {len(names)} as in the header."
            yield number, Refused(reason, delimiter.join(record)[:RAW]), 64
        else:
            row = {name: cell for name, cell in zip(names, record, strict=True) if cell}
            yield number, row, 64 + sum(map(len, record))
