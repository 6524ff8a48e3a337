"""The file of rows that an ingest refused."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
            self._forget(path, key, keep)

    def _forget(self, path: Path, key: str, keep: int) -> None:
        """Drop what an earlier run of this ingest wrote beyond the rows that it committed."""
        fresh = path.with_name(path.name + ".tmp")
        with path.open(encoding="utf-8") as old, _private(fresh, "w") as new:
            for line in old:
                try:
                    held = json.loads(line)
                    gone = held["ingest"] == key and held["row"] >= keep
                except (ValueError, TypeError, KeyError):
                    gone = not line.endswith("\n")  # torn by a crash
                if not gone:
                    new.write(line)
                    self.written |= keep > 0 and f'"ingest":"{key}"' in line
        os.replace(fresh, path)

    def write(self, batch: Batch, rejects: Sequence[tuple[int, str]]) -> None:
        """Append a batch's rejects."""
        if self.path is None or not rejects:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _private(self.path, "a") as file:
            for row, reason in rejects:
                file.write(self._line(batch, row, reason) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.written = True

    def _line(self, batch: Batch, row: int, reason: str) -> str:
        part, place = place_of(batch, row)
        held: dict[str, Any] = {"ingest": self._key, "row": batch.first + row}
        held |= {"source": part.source.name, "source_row": part.first + place}
        if part.lines:
            held["line"] = part.lines[place]
        held["reason"] = reason
        if part.table is None:
            found = raw(part.rows[place])
        else:
            found = part.table.slice(place, 1).to_pylist()[0]
        try:
            text = json.dumps(jsonable(found), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            text = "null"
        if found is None or len(text) > RAW_BYTES or text == "null":
            return compact(held)
        return f'{compact(held)[:-1]},"data":{text}}}'


def _private(path: Path, mode: str) -> Any:
    """A text file that only its owner may read."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if mode == "a" else os.O_TRUNC)
    return os.fdopen(os.open(path, flags, 0o600), mode, encoding="utf-8")
