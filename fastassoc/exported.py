"""An export's rows, checked one by one and cut into the operations that bring them in."""

from __future__ import annotations

import json
import math
import sys
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastassoc.concepts import fold_name
from fastassoc.errors import InvalidInput
from fastassoc.settings import Settings
from fastassoc.times import HIGH, LOW

__all__ = [
    "COUNTED",
    "FORMAT",
    "PART_ROWS",
    "TEXT_FIELDS",
    "Exported",
    "Part",
    "read_export",
    "vector_text",
]

FORMAT = 3
# 1 had neither vectors, links between notes nor states of notes; 2 had no cue links
READ_FORMATS = (1, 2, FORMAT)
PART_ROWS = 10_000  # rows of one operation, and
PART_BYTES = 3 << 20  # bytes of its rows as JSON with their vectors, unless one row is larger
TEXT_FIELDS = ("session", "category", "fingerprint", "external_ref", "author")
LINK_NUMBERS = ("weight", "written", "valence")
LINK_TIMES = ("created_at", "updated_at")
LAYERS = ("concept", "note", "cue")
TERMS = ("concept", "stem")
KINDS = ("store", "concept", "note", "link", "end")
COUNTED = ("concepts", "notes", "links", "note_links", "cue_links")
OF_LAYER = dict(zip(LAYERS, COUNTED[2:], strict=True))
WIDEST = 1 << 16

_to_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
).encode


@dataclass(frozen=True)
class Part:
    """What one operation brings in.

    Attributes
    ----------
    kind : str
        One of COUNTED.
    rows : bytes
        A JSON list.
    n : int
        Its length.
    vectors : bytes
        Those of the rows that say ``"vector": true``, float32, little-endian.
    """

    kind: str
    rows: bytes = field(repr=False)
    n: int
    vectors: bytes = field(repr=False)

    def body(self) -> dict[str, Any]:
        """The rows under their kind."""
        return {self.kind: json.loads(self.rows)}


@dataclass(frozen=True)
class Exported:
    """A checked export, cut into the operations that bring it in.

    Attributes
    ----------
    settings : Settings
        Those of the exported store.
    key : str
        Names this export, so that an interrupted import knows its own.
    embedder : dict or None
        ``name`` and ``dim`` of what made the vectors.
    dim : int or None
        Width of the vectors.
    time : int or None
        That of the last operation, microseconds UTC.
    parts : list of Part
    counts : dict
        Number of each of COUNTED.
    """

    settings: Settings
    key: str
    embedder: dict[str, Any] | None
    dim: int | None
    time: int | None
    parts: list[Part]
    counts: dict[str, int]


def vector_text(vector: NDArray[np.float32]) -> str:
    """A vector, float32 [dim], as a note's row says it: base64 of little-endian float32.

    Examples
    --------
    >>> vector_text(np.array([1, -0.5], np.float32))
    'AACAPwAAAL8='
    """
    return b64encode(vector.astype("<f4", copy=False).tobytes()).decode()


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
    return Exported(
        reader.settings,
        reader.key,
        reader.embedder,
        reader.dim,
        reader.time,
        reader.parts,
        reader.counts,
    )


class _Reader:
    """Takes rows one by one, knows what may come next, gathers parts."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.format = FORMAT
        self.key = ""
        self.embedder: dict[str, Any] | None = None
        self.dim: int | None = None
        self.time: int | None = None
        self.parts: list[Part] = []
        self.counts = dict.fromkeys(COUNTED, 0)
        self.ended = False
        self._stage = 0
        self._keys: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._stems: dict[str, int] = {}
        self._pairs: set[tuple[int, ...]] = set()
        self._rank: tuple[int, Any] = -1, None  # of the last link's layer and terms; its layer
        self._open: list[bytes] = []
        self._vectors: list[bytes] = []
        self._bytes = 0
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
            found in READ_FORMATS and not isinstance(found, bool),
            f"found export format {found!r}, this version reads 1 to {FORMAT}: "
            "install a newer fastassoc.",
        )
        self.format = int(found or 0)
        settings = line.get("settings")
        _need(isinstance(settings, Mapping), "found no settings, expected an object.")
        self.settings = Settings.from_dict(settings or {})
        # parts were cut in another way before format 2: an import goes on by the same cuts
        self.key = f"import:2:{_text(line, 'digest')}"
        if line.get("dim") is not None:
            self.dim = _whole(line, "dim", 1, WIDEST)
        if line.get("time") is not None:
            self.time = _whole(line, "time", LOW, HIGH)
        if line.get("embedder") is not None:
            self.embedder = self._maker(line["embedder"])

    def _maker(self, told: Any) -> dict[str, Any]:
        _need(isinstance(told, Mapping), f"embedder: found {told!r:.80}, expected an object.")
        name, dim = _text(told, "name"), _whole(told, "dim", 1, WIDEST)
        _need(
            self.dim in (None, dim),
            f"embedder: found width {dim}, expected {self.dim}, that of the vectors.",
        )
        return {"name": name, "dim": dim}

    def _take_concept(self, line: Mapping[str, Any]) -> None:
        assert self.settings is not None
        key, shown = _text(line, "key"), _text(line, "name")
        folded = fold_name(shown, self.settings.names)
        _need(folded == key, f"key: found {key!r}, expected {folded!r}, the folded name.")
        _need(key not in self._keys, f"concept {key!r} comes twice.")
        self._keys[key] = len(self._keys)
        self._put("concepts", [key, shown])

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
        for name in TEXT_FIELDS:
            if line.get(name) is not None:
                row[name] = _text(line, name, empty=True)
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
        if line.get("state") is not None:
            row["state"] = _state(line["state"])
        vector = b""
        if line.get("vector") is not None:
            vector, row["vector"] = self._vector(line["vector"]), True
        self._ids[note] = len(self._ids)
        self._put("notes", row, vector)

    def _vector(self, value: Any) -> bytes:
        _need(self.dim is not None, "vector: found one, but the first row tells no width (dim).")
        try:
            data = b64decode(value, validate=True) if isinstance(value, str) else b""
        except (NotBase64, ValueError):
            data = b""
        _need(
            len(data) == 4 * (self.dim or 0),
            f"vector: found {value!r:.40}, expected base64 of {self.dim} float32 numbers.",
        )
        numbers = np.frombuffer(data, "<f4")
        _need(
            bool(np.isfinite(numbers).all() and numbers.any()),
            "vector: found NaN, an infinity or only zeros, expected finite numbers, not all zero.",
        )
        return data

    def _take_link(self, line: Mapping[str, Any]) -> None:
        layer = line.get("layer")
        _need(layer in LAYERS, f"found layer {layer!r}, expected one of {', '.join(LAYERS)}.")
        term = line.get("term") if layer == "cue" else None
        _need(
            layer != "cue" or term in TERMS,
            f"term: found {term!r}, expected one of {', '.join(TERMS)}.",
        )
        rank = LAYERS.index(str(layer)) + (term == "stem")
        _need(
            rank >= self._rank[0],
            f"a link of the layer {layer!r} cannot stand after one of the layer {self._rank[1]!r}: "
            f"the order is {', '.join(LAYERS)}, of these concepts before stems.",
        )
        self._rank = rank, layer
        names = [_text(line, "a"), _text(line, "b")]
        if term == "stem":
            self._stems.setdefault(names[0], len(self._stems))
        kinds = (term or layer, "note" if term else layer)
        ends = [self._end(name, str(kind)) for name, kind in zip(names, kinds, strict=True)]
        _need(
            len(set(zip(kinds, ends, strict=True))) == 2,
            f"{names[0]!r} cannot be linked to itself.",
        )
        pair = (rank, *(ends if term else sorted(ends)))
        _need(pair not in self._pairs, f"the link {names} comes twice.")
        self._pairs.add(pair)
        numbers: list[float] = [_finite(line, name) for name in LINK_NUMBERS]
        count = _whole(line, "count", 0, 2**62)
        times = [_whole(line, name, LOW, HIGH) for name in LINK_TIMES]
        row = [*names, *numbers, count, *times]
        self._put(OF_LAYER[str(layer)], [term, *row] if term else row)

    def _end(self, name: str, kind: str) -> int:
        """The place of a concept, a note or a stem among those that came before."""
        known = {"concept": self._keys, "note": self._ids, "stem": self._stems}[kind]
        what = "id" if kind == "note" else "key"
        _need(name in known, f"no {kind} row has the {what} {name!r}.")
        return known[name]

    def _take_end(self, line: Mapping[str, Any]) -> None:
        self._close()
        promised = {name: line.get(name) for name in self.counts}
        for name in ("note_links", "cue_links")[self.format - 1 :]:  # older ones had none
            promised[name] = 0
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

    def _put(self, kind: str, row: Any, vector: bytes = b"") -> None:
        text = _to_json(row).encode()
        size = len(text) + 1 + len(vector)
        if kind != self._kind or len(self._open) >= PART_ROWS or self._bytes + size > PART_BYTES:
            self._close()
            self._kind = kind
        self._open.append(text)
        if vector:
            self._vectors.append(vector)
        self._bytes += size
        self.counts[kind] += 1

    def _close(self) -> None:
        if self._open:
            rows = b"[" + b",".join(self._open) + b"]"
            part = Part(self._kind, rows, len(self._open), b"".join(self._vectors))
            self.parts.append(part)
        self._open, self._vectors, self._bytes = [], [], 0


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidInput(message)


def _text(line: Mapping[str, Any], field: str, *, empty: bool = False) -> str:
    value = line.get(field)
    good = isinstance(value, str) and (empty or value != "")
    _need(good, f"{field}: found {value!r:.80}, expected a text.")
    return _valid(str(value), field)


def _valid(text: str, field: str) -> str:
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


def _state(told: Any) -> dict[str, Any]:
    """What reinforced reads and time made of a note, checked; keys as `STATE_COLUMNS`."""
    _need(isinstance(told, Mapping), f"state: found {told!r:.80}, expected an object.")
    out: dict[str, Any] = {}
    for name, only in (("tier", "cold"), ("category", "core")):
        if told.get(name) is not None:
            _need(told[name] == only, f"{name}: found {told[name]!r:.80}, expected {only!r}.")
            out[name] = only
    if told.get("accesses") is not None:
        out["accesses"] = _whole(told, "accesses", 1, 2**62)
        out["stability"] = _finite(told, "stability", 0.0, 1.0)
        out["last_access"] = _whole(told, "last_access", LOW, HIGH)
    sessions = told.get("sessions")
    if sessions is not None:
        good = isinstance(sessions, list) and 1 <= len(sessions) <= 2
        good = good and all(isinstance(name, str) for name in sessions)
        _need(
            good and len(set(sessions)) == len(sessions),
            f"sessions: found {sessions!r:.80}, expected one or two names.",
        )
        out["sessions"] = [_valid(name, "sessions") for name in sessions]
    _need(
        "accesses" in out or not {"category", "sessions"} & out.keys(),
        "state: found a category or sessions, expected accesses, too.",
    )
    return out


def _finite(
    line: Mapping[str, Any], field: str, low: float = -math.inf, high: float = math.inf
) -> float:
    value = line.get(field)
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    good = good and abs(value) <= sys.float_info.max  # type: ignore[arg-type]
    _need(good, f"{field}: found {value!r:.80}, expected a finite number.")
    number = float(0.0 if value is None else value)
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
