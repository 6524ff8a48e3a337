"""Where an ingest's rows come from: files, streams, frames, iterables; opened, told apart.

Memory stays bounded whatever a source's size, and sizes that a file only declares never drive an
allocation.
"""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from fastassoc.arrowguard import check_messages, plain
from fastassoc.errors import InvalidInput
from fastassoc.fields import shown
from fastassoc.lines import CHUNK, from_lines, header
from fastassoc.parquetguard import check_footer
from fastassoc.parts import Part, Source, grouped

__all__ = ["FORMATS", "sources"]

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
BUFFER = 1 << 20  # of each column of a Parquet file


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
            yield from from_lines(source, cast(BinaryIO, stream), separator, place)

    source._read = read
    if kind == "csv":
        try:
            with path.open("rb") as raw:
                stream = raw if codec is None else _unpacked(raw, codec)
                source.columns = header(source, cast(BinaryIO, stream), separator)
        except (OSError, EOFError, pa.ArrowException) as error:
            raise InvalidInput(f"{path} cannot be read: {error}") from error
    return source


def _unpacked(raw: Any, codec: Any) -> Any:
    # `read` of Arrow's own streams never lets go of what it was about to fill when it fails
    return io.BufferedReader(cast(io.RawIOBase, pa.CompressedInputStream(raw, codec)), CHUNK)


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
        source._read = lambda _: from_lines(source, stream, delimiter or ",", lambda: 0.0)
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
            reader = _ipc_reader(source, file)
            schema = reader.schema
            again = isinstance(file, str)
            source._read = lambda columns: _from_reader(
                source, _ipc_reader(source, file) if again else reader, columns, plain
            )
        source.columns, source.types = list(schema.names), [str(kind) for kind in schema.types]
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:  # of names, the last
        raise InvalidInput(f"{source.name} is no whole {source.format} file: {error}") from None


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


def _ipc_reader(source: Source, file: Any) -> Any:
    stream = pa.memory_map(file) if isinstance(file, str) else file
    if not isinstance(file, str) and not (hasattr(file, "seekable") and file.seekable()):
        return ipc.open_stream(stream)
    begin = stream.tell()
    whole = stream.read(6) == b"ARROW1"
    size = stream.seek(0, 2) - begin if not isinstance(file, str) else stream.size()
    stream.seek(begin)
    if whole:  # read as a stream: blocks that nobody looked at may hide where only a footer points
        footer = ipc.open_file(stream)
        stream.seek(begin + 8)
    check_messages(source.name, stream, size)
    stream.seek(begin + 8 if whole else begin)
    reader = ipc.open_stream(stream)
    if not whole:
        return reader
    if reader.schema != footer.schema:
        raise pa.ArrowInvalid("its beginning and its end name different columns")
    return Counted(reader, footer.num_record_batches)


class Counted:
    """A reader of so many batches, no fewer and no more."""

    def __init__(self, reader: Any, count: int) -> None:
        self.schema, self.num_record_batches = reader.schema, count
        self._reader = reader

    def __iter__(self) -> Iterator[Any]:
        found = 0
        for batch in self._reader:
            if found == self.num_record_batches:
                raise pa.ArrowInvalid("it holds more parts than its end names")
            found += 1
            yield batch
        if found < self.num_record_batches:
            raise pa.ArrowInvalid("it holds fewer parts than its end names")


def _from_reader(
    source: Source,
    reader: Any,
    columns: Sequence[str] | None,
    parts: Callable[[str, pa.Table], Iterator[pa.Table]] | None = None,
) -> Iterator[Part]:
    first = 0
    count = getattr(reader, "num_record_batches", None)
    for n, batch in enumerate(reader):
        table = pa.Table.from_batches([batch])
        if columns is not None:
            table = table.select(list(columns))
        for part in (table,) if parts is None else parts(source.name, table):
            rows = first + part.num_rows
            done = (n + 1) / count if count else rows / source.rows if source.rows else 0.0
            yield Part(source, first, part, done=done)
            first = rows


# -- objects --------------------------------------------------------------------------------------


def _table(source: Any) -> Source | None:
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        try:
            source = pa.Table.from_pandas(source, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInput(
                f"the data frame has a column that Arrow cannot hold: {error}"
            ) from None
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
    for part in grouped(source, ((None, row, _size(row)) for row in rows)):
        part.done = (part.first + len(part)) / total if total else 0.0
        yield part


def _size(row: Any) -> int:
    """About how many bytes a row takes; quick, since it is asked of every one."""
    size = 64
    if isinstance(row, (dict, Mapping)):  # a dict is told without the look that Mapping needs
        for value in row.values():
            if isinstance(value, (str, list)):
                size += len(value)
            elif value is not None and not isinstance(value, (int, float)):
                more = getattr(value, "nbytes", 0)
                size += more if isinstance(more, int) else 0
    return size
