"""Whether the tables of a snapshot fit one another, before anything is made of them.

Kernels trust numbers of concepts and rows: one out of range would reach beyond an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastassoc.batch import NOTE_COLUMNS
from fastassoc.errors import InvalidInput
from fastassoc.notes import NOTES_SCHEMA, NOTESTATE_SCHEMA
from fastassoc.shapes import FIRST, GROWN, LAST

__all__ = ["check_bulk", "check_span", "check_spans", "check_tables", "check_vectors"]

BULK = {name: kind for name, kind in NOTE_COLUMNS.items() if name != "tags"} | {
    "concepts": pa.list_(pa.string()),
    "spelled": pa.list_(pa.string()),
    "subject": pa.list_(pa.bool_()),
    "extracted": pa.bool_(),
    "tag_to": pa.list_(pa.int64()),
    "tag_weight": pa.list_(pa.float64()),
}
TIMES = ("created_at", "written_at", "last_access", "updated_at")
RANGES = {
    "notes": {"importance": (0.0, 1.0)},
    "notestate": {"valence": (-1.0, 1.0), "stability": (0.0, 1.0), "accesses": (0, GROWN)},
}


def check_spans(state: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> None:
    """Refuse a state whose spans are not those of the segments with these names, by kind."""
    for kind, held in names.items():
        if [span["name"] for span in state.get(kind, ())] != held:
            raise InvalidInput(f"the spans of {kind} are not those of its segments")


def check_span(table: pa.Table, span: Mapping[str, Any], kind: str) -> None:
    """Refuse a segment with rows beyond its span: the next snapshot goes by the span."""
    seqs = _numbers(table, "seq")
    _ascending(seqs, kind)
    if len(seqs) and not span["after"] < seqs[0] <= seqs[-1] <= span["through"]:
        raise InvalidInput(f"{kind}: a sequence is beyond the segment's span")


def check_tables(tables: Mapping[str, pa.Table], state: Mapping[str, Any]) -> None:
    """Refuse tables that no snapshot holds together.

    Parameters
    ----------
    tables : mapping of pyarrow.Table
        By kind; notes and their states with all columns of today.
    state : mapping
        That of the manifest.

    Raises
    ------
    InvalidInput
        A null where none may be, an order that is none, or a name or note that is not there.
    """
    for kind, schema in (("notes", NOTES_SCHEMA), ("notestate", NOTESTATE_SCHEMA)):
        for field in schema:
            column = tables[kind].column(field.name)
            if column.type != field.type or (column.null_count and not field.nullable):
                raise InvalidInput(f"{kind}: column {field.name} holds nulls or is of another type")
    for kind, table in tables.items():
        for name in TIMES:
            if name in table.column_names:
                _times(table.column(name), f"{kind}.{name}")
    for kind, columns in RANGES.items():
        for name, (low, high) in columns.items():
            _within(tables[kind].column(name), low, high, f"{kind}.{name}")
    named = np.zeros(state["concept_ids"], np.bool_)
    known = _numbers(tables["vocabulary"], "id")
    if len(known) and int(known.max()) >= len(named):
        raise InvalidInput(f"vocabulary: expected ascending ids below {len(named)}")
    named[known] = True
    seqs = _numbers(tables["notes"], "seq")
    _ascending(seqs, "notes")
    if len(seqs) and not (seqs[0] >= 0 and seqs[-1] < state["next_seq"]):
        raise InvalidInput("notes: a sequence is out of range")
    for name in ("concepts", "subjects"):
        for chunk in tables["notes"].column(name).chunks:
            _all_named(chunk.flatten(), named, f"notes.{name}")
    for name in ("a", "b"):
        _all_named(tables["links-concept"].column(name), named, "links-concept")
    if "links-cue" in tables:
        codes = _numbers(tables["links-cue"], "a")
        _all_named(pa.array(codes[codes % 2 == 0] // 2), named, "links-cue")
    changed = _numbers(tables["notestate"], "seq")
    _ascending(changed, "notestate")
    if not np.isin(changed, seqs).all():
        raise InvalidInput("notestate: it tells of a note that is not there")
    for kind in ("vectors", "vectors-next"):
        if kind in tables:
            _ascending(_numbers(tables[kind], "seq"), kind)


def check_bulk(table: pa.Table) -> None:
    """Refuse a bulk segment that no write makes; vectors are looked at where they are added.

    Raises
    ------
    InvalidInput
        A column is missing, unknown or of another type, or holds nulls or what is out of range.
    """
    for name in ("id", "text", "concepts", "extracted"):
        if name not in table.column_names or table.column(name).null_count:
            raise InvalidInput(f"bulk: column {name} is missing or holds nulls")
    concepts = table.column("concepts")
    for name in table.column_names:
        column = table.column(name)
        if name == "vector":
            fits = pa.types.is_fixed_size_list(column.type)
            fits = fits and column.type.value_type == pa.float32()
        else:
            fits = column.type == BULK.get(name)
        if not fits:
            raise InvalidInput(f"bulk: found the column {name} of type {column.type}")
        if name == "importance":
            _within(column, 0.0, 1.0, "bulk.importance")
        if name in TIMES:
            _times(column, f"bulk.{name}")
        if pa.types.is_list(column.type) and pc.list_flatten(column).null_count:
            raise InvalidInput(f"bulk: column {name} holds lists with nulls")
        if name in ("spelled", "subject") and not pc.list_value_length(column).equals(
            pc.list_value_length(concepts)
        ):
            raise InvalidInput(f"bulk: column {name} does not fit the concepts")


def check_vectors(table: pa.Table, kind: str) -> None:
    """Refuse vectors that no writer takes: reads divide by their lengths.

    Not for those that the cache maps, which were looked at before they went into it.

    Raises
    ------
    InvalidInput
        One is missing or zero, or holds NaN or an infinity.
    """
    column = table.column("vector")
    for chunk in column.chunks:
        flat = np.asarray(chunk.flatten().to_numpy(zero_copy_only=False))
        matrix = flat.reshape(len(chunk), column.type.list_size)  # fails where one is missing
        if len(matrix):
            most = np.maximum(matrix.max(axis=1), -matrix.min(axis=1))
            if not ((most > 0.0) & (most < np.inf)).all():
                raise InvalidInput(f"{kind}: a vector is zero, NaN or infinite")


def _within(column: Any, low: float, high: float, where: str) -> None:
    good = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
    if pc.all(good).as_py() is False:  # None where there is no number
        raise InvalidInput(f"{where}: a number is not from {low} to {high}")


def _times(column: Any, where: str) -> None:
    if pa.types.is_dictionary(column.type):
        kept = [chunk.dictionary for chunk in column.chunks]
        column = pa.chunked_array(kept, column.type.value_type)
    ends = pc.min_max(column).as_py()
    if ends["min"] is not None and not FIRST <= ends["min"] <= ends["max"] <= LAST:
        raise InvalidInput(f"{where}: a time is beyond every calendar")


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count:
        raise InvalidInput(f"column {name} holds nulls")
    return np.asarray(column.to_numpy())


def _ascending(numbers: NDArray[Any], kind: str) -> None:
    if (numbers[1:] <= numbers[:-1]).any():
        raise InvalidInput(f"{kind}: sequences do not ascend")


def _all_named(ids: Any, named: NDArray[np.bool_], where: str) -> None:
    if not len(ids):
        return
    if ids.null_count or pc.max(ids).as_py() >= len(named):
        raise InvalidInput(f"{where}: a concept is out of range")
    if not named.all() and not named[np.asarray(ids.to_numpy())].all():
        raise InvalidInput(f"{where}: a concept has no name")
