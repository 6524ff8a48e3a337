"""The file of rows that an ingest refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastassoc import files
from fastassoc.batches import Batch, compact, place_of
from fastassoc.fields import jsonable
from fastassoc.mapping import raw

__all__ = ["Rejects"]

RAW_BYTES = 1 << 20  # a refused row that is longer is not copied


class Rejects:
    """The file of refused rows, one JSON object a line; made when the first one comes."""

    def __init__(self, path: Path | None, key: str | None, keep: int) -> None:
        self.path, self._key = path, key
        self.written = False
        if path is not None and key is not None and path.exists():
            with _plain(path):
                self._forget(Path(os.path.realpath(path)), key, keep)

    def _forget(self, path: Path, key: str, keep: int) -> None:
        """Drop what an earlier run of this ingest wrote beyond the rows that it committed."""

        def fill(sink: files.Sink) -> None:
            with path.open("rb") as old:
                for line in old:
                    try:
                        held = json.loads(line)
                        gone = held["ingest"] == key and held["row"] >= keep
                    except (ValueError, TypeError, KeyError):
                        gone = not line.endswith(b"\n")  # torn by a crash
                    if not gone:
                        sink.write(line)
                        self.written |= keep > 0 and f'"ingest":"{key}"'.encode() in line

        files.publish(path.parent, fill, lambda _: path.name)

    def write(self, batch: Batch, rejects: Sequence[tuple[int, str]]) -> None:
        """Append a batch's rejects."""
        if self.path is None or not rejects:
            return
        with _plain(self.path):
            path = Path(os.path.realpath(self.path))
            files.make_folder(path.parent)
            fd = files.disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                lines = (self._line(batch, row, reason) + "\n" for row, reason in rejects)
                rest = memoryview("".join(lines).encode())
                while rest:
                    rest = rest[files.disk.write(fd, rest) :]
                files.disk.sync(fd)
            finally:
                files.disk.close(fd)
            if not self.written:
                files.sync_folder(path.parent)
        self.written = True

    def _line(self, batch: Batch, row: int, reason: str) -> str:
        part, place = place_of(batch, row)
        held: dict[str, Any] = {"ingest": self._key, "row": batch.first + row}
        held |= {"source": part.source.name, "source_row": part.first + place}
        if part.lines:
            held["line"] = part.lines[place]
        held["reason"] = reason
        try:  # to read a text that is no UTF-8, too
            if part.table is None:
                found = raw(part.rows[place])
            else:
                found = part.table.slice(place, 1).to_pylist()[0]
            text = json.dumps(jsonable(found), allow_nan=False)
        except (OverflowError, TypeError, ValueError, RecursionError):
            text = "null"
        if len(text) > RAW_BYTES or text == "null":
            return compact(held)
        return f'{compact(held)[:-1]},"data":{text}}}'


@contextmanager
def _plain(path: Path) -> Iterator[None]:
    """Say in our words what the system says of a file of rejects."""
    try:
        yield
    except OSError as error:
        files.fail(error, "writing", f"the refused rows' {path.name}")
