"""An export's rows, checked one by one and cut into the operations that bring them in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastassoc.concepts import fold_name
from fastassoc.errors import InvalidInput
from fastassoc.settings import Settings
from fastassoc.times import HIGH, LOW

__all__ = ["FORMAT", "PART_ROWS", "TEXT_FIELDS", "Exported", "counts", "read_export"]

FORMAT = 1
PART_ROWS = 10_000  # rows of one operation, and
PART_CHARS = 1 << 20  # characters of text: no single journal row grows large
TEXT_FIELDS = ("session", "category", "fingerprint", "external_ref", "author")
LINK_NUMBERS = ("weight", "written", "valence")
LINK_TIMES = ("created_at", "updated_at")
KINDS = ("store", "concept", "note", "link", "end")


@dataclass(frozen=True)
class Exported:
    """A checked export, cut into the bodies of the operations that bring it in.

    Attributes
    ----------
    settings : Settings
        Those of the exported store.
    key : str
        Names this export, so that an interrupted import knows its own.
    parts : list of dict
        Rows of one kind each, in order.
    counts : dict
        Number of ``concepts``, ``notes`` and ``links``.
    """

    settings: Settings
    key: str
    parts: list[dict[str, Any]]
    counts: dict[str, int]


def counts(concepts: int, notes: int, links: int) -> dict[str, int]:
    """How much an export holds, as its first and last row say it."""
    return {"concepts": concepts, "notes": notes, "links": links}


def read_export(lines: Iterable[Mapping[str, Any]]) -> Exported:
    """Check every row of an export and cut it into parts.

    Parameters
    ----------
    lines : iterable of dict
        What `Memory.export_lines` gave, perhaps by way of a file.

    Raises
    ------
    InvalidInput
        A row is wrong, out of place or missing; the message numbers it from 1.
    """
    reader = _Reader()
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            reader.take(line)
        except InvalidInput as error:
            raise InvalidInput(f"line {number} of the export: {error}") from None
    if not reader.ended or reader.settings is None:
        raise InvalidInput(
            f"the export ends after line {number} without its last row (kind 'end'): it was cut "
            "off. Make a new one."
        )
    return Exported(reader.settings, reader.key, reader.parts, reader.counts)


class _Reader:
    """Takes rows one by one, knows what may come next, gathers parts."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.key = ""
        self.parts: list[dict[str, Any]] = []
        self.counts = counts(0, 0, 0)
        self.ended = False
        self._stage = 0
        self._keys: dict[str, int] = {}
        self._ids: set[str] = set()
        self._pairs: set[tuple[int, int]] = set()
        self._open: list[Any] = []
        self._chars = 0
        self._kind = ""

    def take(self, line: Mapping[str, Any]) -> None:
        _need(isinstance(line, Mapping), f"found {line!r:.80}, expected a JSON object.")
        kind = line.get("kind")
        _need(kind in KINDS, f"found kind {kind!r}, expected one of {', '.join(KINDS)}.")
        stage = KINDS.index(str(kind))
        _need(
            not self.ended and stage >= self._stage and (self.settings is not None) == (stage > 0),
            f"a row of kind {kind!r} cannot stand here; the order is {', '.join(KINDS)}.",
        )
        self._stage = stage
        getattr(self, f"_take_{kind}")(line)

    def _take_store(self, line: Mapping[str, Any]) -> None:
        found = line.get("format")
        _need(
            found == FORMAT,
            f"found export format {found!r}, this version reads {FORMAT}: "
            "install a newer fastassoc.",
        )
        settings = line.get("settings")
        _need(isinstance(settings, Mapping), "found no settings, expected an object.")
        self.settings = Settings.from_dict(settings or {})
        self.key = f"import:{_text(line, 'digest')}"

    def _take_concept(self, line: Mapping[str, Any]) -> None:
        assert self.settings is not None
        key, shown = _text(line, "key"), _text(line, "name")
        folded = fold_name(shown, self.settings.names)
        _need(folded == key, f"key: found {key!r}, expected {folded!r}, the folded name.")
        _need(key not in self._keys, f"concept {key!r} comes twice.")
        self._keys[key] = len(self._keys)
        self._put("concepts", [key, shown], len(key))

    def _take_note(self, line: Mapping[str, Any]) -> None:
        note, text = _text(line, "id"), _text(line, "text")
        _need(note not in self._ids, f"note {note!r} comes twice.")
        names, subjects = self._known(line, "concepts"), self._known(line, "subjects")
        _need(set(subjects) <= set(names), "its subjects must stand among its concepts.")
        row: dict[str, Any] = {"id": note, "text": text}
        if names:
            row["concepts"] = names
        if subjects:
            row["subjects"] = sorted(names.index(name) for name in subjects)
        if line.get("extracted"):
            row["extracted"] = True
        row["domain"] = _text(line, "domain")
        row["created_at"] = _whole(line, "created_at", LOW, HIGH)
        row["written_at"] = _whole(line, "written_at", LOW, HIGH)
        row.update({name: _text(line, name) for name in TEXT_FIELDS if line.get(name) is not None})
        for name in ("importance", "valence"):
            if line.get(name) is not None:
                row[name] = _finite(line, name, -1.0 if name == "valence" else 0.0, 1.0)
        if line.get("metadata") is not None:
            row["metadata"] = _json(line["metadata"])
        if line.get("supersedes"):
            old = line["supersedes"]
            _need(
                isinstance(old, list) and all(name in self._ids for name in old),
                f"supersedes: found {old!r:.80}, expected ids of notes that came before.",
            )
            row["supersedes"] = old
        self._ids.add(note)
        self._put("notes", row, len(text) + len(row.get("metadata", "")) + sum(map(len, names)))

    def _take_link(self, line: Mapping[str, Any]) -> None:
        layer = line.get("layer")
        _need(layer == "concept", f"found layer {layer!r}, this version knows 'concept'.")
        ends = [_text(line, "a"), _text(line, "b")]
        missing = [name for name in ends if name not in self._keys]
        _need(not missing, f"no concept row has the key {missing}.")
        first, second = sorted(self._keys[name] for name in ends)
        _need(first != second, f"{ends[0]!r} cannot be linked to itself.")
        _need((first, second) not in self._pairs, f"the link {ends} comes twice.")
        self._pairs.add((first, second))
        numbers: list[float] = [_finite(line, name) for name in LINK_NUMBERS]
        count = _whole(line, "count", 0, 2**62)
        times = [_whole(line, name, LOW, HIGH) for name in LINK_TIMES]
        self._put("links", [*ends, *numbers, count, *times], sum(map(len, ends)))

    def _take_end(self, line: Mapping[str, Any]) -> None:
        self._close()
        promised = {name: line.get(name) for name in self.counts}
        _need(
            promised == self.counts,
            f"found {self.counts}, the last row promises {promised}: rows are missing.",
        )
        self.ended = True

    def _known(self, line: Mapping[str, Any], field: str) -> list[str]:
        names = line.get(field, [])
        _need(
            isinstance(names, list) and all(isinstance(name, str) for name in names),
            f"{field}: found {names!r:.80}, expected a list of concept keys.",
        )
        missing = [name for name in names if name not in self._keys]
        _need(not missing, f"{field}: no concept row has the key {missing[:3]}.")
        _need(len(set(names)) == len(names), f"{field}: a key comes twice.")
        return list(names)

    def _put(self, kind: str, row: Any, chars: int) -> None:
        if kind != self._kind or len(self._open) >= PART_ROWS or self._chars >= PART_CHARS:
            self._close()
            self._kind = kind
        self._open.append(row)
        self._chars += chars
        self.counts[kind] += 1

    def _close(self) -> None:
        if self._open:
            self.parts.append({self._kind: self._open})
        self._open, self._chars = [], 0


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidInput(message)


def _text(line: Mapping[str, Any], field: str) -> str:
    value = line.get(field)
    _need(isinstance(value, str) and value != "", f"{field}: found {value!r:.80}, expected a text.")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{field}: found a lone surrogate, expected valid Unicode.") from None
    return text


def _whole(line: Mapping[str, Any], field: str, low: int, high: int) -> int:
    value = line.get(field)
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    _need(good, f"{field}: found {value!r:.80}, expected a whole number from {low} to {high}.")
    return int(value or 0)


def _finite(
    line: Mapping[str, Any], field: str, low: float = -math.inf, high: float = math.inf
) -> float:
    value = line.get(field)
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    _need(good, f"{field}: found {value!r:.80}, expected a finite number.")
    number = float(value or 0.0)
    _need(low <= number <= high, f"{field}: found {number}, expected {low} to {high}.")
    return number


def _json(value: Any) -> str:
    _need(isinstance(value, Mapping), f"metadata: found {value!r:.80}, expected an object.")
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )
        text.encode()
    except ValueError as error:
        raise InvalidInput(f"metadata: {error}.") from None
    return text
