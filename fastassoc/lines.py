"""Rows from a stream of bytes: JSON lines and CSV, each bad line refused by itself."""

from __future__ import annotations

import csv
import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, cast

from fastassoc.errors import InvalidInput
from fastassoc.fields import shown
from fastassoc.parts import Part, Source, grouped
from fastassoc.rows import Refused

__all__ = ["CHUNK", "from_lines", "header"]

CHUNK = 256 << 10  # bytes of lines read at once: what they become stays in the cache
LONGEST = 64 << 20  # bytes of one line
RAW = 64 << 10  # characters of a refused line that are kept


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


def from_lines(
    source: Source, stream: BinaryIO, delimiter: str, place: Callable[[], float]
) -> Iterator[Part]:
    """The rows of JSON lines or CSV; `place` tells the share of the source that was read."""
    found = (
        _json_parts(source, stream)
        if source.format == "jsonl"
        else grouped(source, _in_bursts(_csv_rows(source, stream, delimiter)))
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


def header(source: Source, stream: BinaryIO, delimiter: str) -> list[str]:
    """The columns' names, from the first line of CSV."""
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
