"""Whether the tables of a snapshot fit one another, before anything is made of them.

Kernels trust numbers of concepts and rows: one out of range would reach beyond an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput
from fastassoc.notes import NOTES_SCHEMA, NOTESTATE_SCHEMA
from fastassoc.shapes import FIRST, LAST

__all__ = ["check_tables"]

TIMES = ("created_at", "written_at", "last_access", "updated_at")


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
            _check_vectors(tables[kind], kind)


def _times(column: Any, where: str) -> None:
    ends = pc.min_max(column).as_py()
    if ends["min"] is not None and not FIRST <= ends["min"] <= ends["max"] <= LAST:
        raise InvalidInput(f"{where}: a time is beyond every calendar")


def _check_vectors(table: pa.Table, kind: str) -> None:
    _ascending(_numbers(table, "seq"), kind)
    column = table.column("vector")
    if column.null_count or any(chunk.flatten().null_count for chunk in column.chunks):
        raise InvalidInput(f"{kind}: a vector is missing")


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
