"""A source's columns as the fields of notes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from fastassoc.errors import InvalidInput
from fastassoc.fields import (
    FIELDS,
    Column,
    is_list,
    is_text,
    jsonable,
    one_array,
    plain_strings,
    python_values,
)
from fastassoc.rows import Refused

__all__ = ["Fields"]

LISTS = ("concepts", "subjects", "supersedes")
NAMES = ("concepts", "subjects")
SEPARATOR = ";"
IDS = ("id", "session", "external_ref")  # whole numbers become text
KNOWN = frozenset(FIELDS)
ALSO = {"vector": "embedding"}  # the column that gives a field where none has its own name
_whole = re.compile(r"-?[0-9]{15,18}")  # microseconds since 1970


class Fields:
    """Which column gives which field.

    A field takes the column named in `columns`, else the one with its own name (vectors: else one
    named ``embedding``); None leaves it out. Other columns are ignored, but those in
    `metadata_columns` (``"rest"``: all of them) become members of the note's metadata, unless it
    has such a member. Whole numbers as ids are taken as text, so that 7 and "7" are one id in every
    format. A list may be written as text: a JSON list, or names between `list_separator` (";" if it
    is None). A text in a column that `columns` names for a list is one name, such as a title,
    unless `list_separator` is given. An empty CSV cell is no value.

    Raises
    ------
    InvalidInput
        A field is unknown.
    """

    def __init__(
        self,
        columns: Mapping[str, str | None] | None = None,
        metadata_columns: Sequence[str] | str | None = None,
        list_separator: str | None = None,
    ) -> None:
        self.given = dict(columns or {})
        unknown = sorted(set(self.given) - KNOWN)
        if unknown:
            raise InvalidInput(
                f"columns: found the fields {', '.join(unknown)}, expected some of: "
                f"{', '.join(FIELDS)}; write them as {{our field: your column}}."
            )
        if isinstance(metadata_columns, str) and metadata_columns != "rest":
            raise InvalidInput(
                f"metadata_columns: found {metadata_columns!r}, expected a list of columns or "
                "'rest', every column that gives no field."
            )
        if list_separator == "":
            raise InvalidInput("list_separator: found '', expected at least one character.")
        self.rest = metadata_columns == "rest"
        self.extra = [] if isinstance(metadata_columns, str) else list(metadata_columns or ())
        self.separator = SEPARATOR if list_separator is None else list_separator
        mapped = {field for field in NAMES if self.given.get(field) is not None}
        self._texted = mapped  # a text is taken where there could be a list, too
        self._whole = mapped if list_separator is None else set()  # and it is one name
        taken = {column for column in self.given.values() if column is not None}
        self.pairs = [(field, column) for field in FIELDS for column in self._for(field, taken)]
        own = all(field == column for field, column in self.given.items())
        self._plain = own and not (self.rest or self.extra)

    def _for(self, field: str, taken: set[str]) -> list[str]:
        """The columns that may give a field; where several are there, the last one does."""
        if field in self.given:
            column = self.given[field]
            return [] if column is None else [column]
        names = [field]
        if field in ALSO and ALSO[field] not in self.extra:
            names.insert(0, ALSO[field])
        return [name for name in names if name not in taken]

    def options(self) -> list[Any]:
        """What distinguishes one mapping from another, as JSON values."""
        mapping = [sorted(self.given.items()), self.rest, self.extra, self.separator]
        return [*mapping, sorted(self._whole)] if self._whole else mapping

    def check(self, name: str, found: Sequence[str], *, complete: bool) -> None:
        """Raise InvalidInput where these columns cannot give notes.

        `complete` says that no row has other columns.
        """
        held, shown = set(found), ", ".join(map(repr, list(found)[:50])) or "none"
        text = dict(self.pairs).get("text")
        if text is None or text not in held:
            raise InvalidInput(
                f"{name}: no column gives the text (looked for {text!r}). Columns found: {shown}. "
                "Say which one does with columns={'text': ...}."
            )
        absent = [c for c in [*self.given.values(), *self.extra] if c is not None and c not in held]
        if complete and absent:
            raise InvalidInput(
                f"{name}: there is no column {', '.join(map(repr, absent))}. "
                f"Columns found: {shown}."
            )

    def check_cells(self, name: str, found: Sequence[str]) -> None:
        """Raise InvalidInput where these columns of CSV would give vectors."""
        vector = self.found(found).get("vector")
        if vector is not None:
            raise InvalidInput(
                f"{name}: column {vector!r} would give the vectors, and CSV cannot hold them: "
                "bring them as Parquet, Arrow or JSON lines, or leave them out with "
                "columns={'vector': None}."
            )

    def found(self, columns: Sequence[str]) -> dict[str, str]:
        """The fields that these columns give, each with its column."""
        return {field: column for field, column in self.pairs if column in columns}

    def extras(self, columns: Sequence[str]) -> list[str]:
        """The columns that become members of metadata."""
        if not self.rest:
            return [column for column in self.extra if column in columns]
        used = set(self.found(columns).values())
        return [c for c in columns if c not in used and not c.startswith("__index_level_")]

    def needed(self, columns: Sequence[str]) -> list[str]:
        """The columns to read."""
        wanted = {*self.found(columns).values(), *self.extras(columns)}
        return [column for column in columns if column in wanted]

    # -- rows -----------------------------------------------------------------------------------

    def rows(self, rows: list[Any], cells: bool) -> list[Any]:
        """Rows by field; `cells` says that every value is a CSV cell. What is no mapping stays."""
        if not self._plain or cells or set(map(type, rows)) != {dict}:
            return [self._row(row, cells) for row in rows]
        found = set(chain.from_iterable(rows))
        numbered = [name for name in (*IDS, "supersedes") if name in found]
        if found <= KNOWN and all(
            {type(row.get(name)) for row in rows} <= {str, type(None)} for name in numbered
        ):
            return rows
        return [self._row(row, False) for row in rows]

    def _row(self, row: Any, cells: bool) -> Any:
        if not isinstance(row, Mapping):
            return row
        if self._plain and row.keys() <= KNOWN:
            out = dict(row) if cells else row
        else:
            out = {field: row[column] for field, column in self.pairs if column in row}
        if cells:
            self._read_cells(out)  # type: ignore[arg-type]
        else:
            out = self._texts(out)
        if self.rest or self.extra:
            return self._with_metadata(out, row)
        return out

    def _texts(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row with whole numbers as ids, and lists written as text, read."""
        changed: dict[str, Any] = {}
        for field in IDS:
            if type(row.get(field)) is int:
                changed[field] = str(row[field])
        old = row.get("supersedes")
        if isinstance(old, list) and any(type(one) is int for one in old):
            changed["supersedes"] = [str(one) if type(one) is int else one for one in old]
        for field in self._texted:
            if isinstance(row.get(field), str):
                changed[field] = self.names(field, row[field])
        return {**row, **changed} if changed else row

    def _read_cells(self, row: dict[str, Any]) -> None:
        for field in LISTS:
            if field in row:
                row[field] = self.names(field, row[field])
        if "importance" in row:
            row["importance"] = _read(float, row["importance"])
        if _whole.fullmatch(row.get("created_at", "").strip()):
            row["created_at"] = int(row["created_at"])
        if "metadata" in row:
            row["metadata"] = _read(json.loads, row["metadata"])

    def names(self, field: str, text: Any) -> Any:
        """A list written as text; what cannot be read stays as it is, to be refused."""
        if not isinstance(text, str):
            return text
        if field in self._whole:
            name = text.strip()
            held = _read(json.loads, name) if name.startswith("[") else None
            if isinstance(held, list) and all(isinstance(one, str) for one in held):
                return held
            return [name] if name else []
        if text.lstrip().startswith("["):
            return _read(json.loads, text)
        pieces = (piece.strip() for piece in text.split(self.separator))
        return [piece for piece in pieces if piece]

    def _with_metadata(self, out: Mapping[str, Any], row: Mapping[str, Any]) -> Mapping[str, Any]:
        columns = self.extras(list(row))
        members = {c: row[c] for c in columns if row.get(c) is not None}
        own = out.get("metadata")
        if members and (own is None or isinstance(own, Mapping)):
            return {**out, "metadata": {**members, **(own or {})}}
        return out

    # -- tables ---------------------------------------------------------------------------------

    def columns(self, table: pa.Table) -> dict[str, Column | list[Any]]:
        """A table's columns by field."""
        names = table.column_names
        out: dict[str, Column | list[Any]] = {}
        for field, name in self.found(names).items():
            out[field] = self._column(field, table.column(name))
        extras = self.extras(names)
        if extras:
            out["metadata"] = self._members(out.get("metadata"), table.select(extras))
        return out

    def _column(self, field: str, column: Column) -> Column | list[Any]:
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if field in IDS and pa.types.is_integer(kind):
            return column.cast(pa.string())
        if field == "supersedes" and is_list(kind):
            if pa.types.is_integer(kind.value_type):
                return [ids and [one if one is None else str(one) for one in ids]
                        for ids in _values(column)]  # fmt: skip
        elif field in LISTS and is_text(kind):
            return [self.names(field, value) for value in _values(column)]
        return column

    def _members(self, own: Any, table: pa.Table) -> list[Any]:
        held = [None] * table.num_rows if own is None else _values(own)
        extras = {name: _values(table.column(name)) for name in table.column_names}
        out = []
        for number, value in enumerate(held):
            mine = _read(json.loads, value) if isinstance(value, str) else jsonable(value)
            members = {
                name: jsonable(column[number])
                for name, column in extras.items()
                if column[number] is not None
            }
            if members and (mine is None or isinstance(mine, dict)):
                mine = {**members, **(mine or {})}
            out.append(mine)
        return out


def _values(column: Column) -> list[Any]:
    """A column's values, its texts plain."""
    return python_values(plain_strings(one_array(column)))


def _read(read: Callable[[str], Any], text: Any) -> Any:
    """What a text says; the text itself where it cannot be read, to be refused with its reason."""
    try:
        return read(text)
    except (ValueError, RecursionError):
        return text


def raw(row: Any) -> Any:
    """A row as the file of rejects shows it."""
    return row.raw if isinstance(row, Refused) else row
