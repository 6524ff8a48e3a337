"""Resolved notes, column by column: what a write carries from the check to the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["NOTE_COLUMNS", "NoteBatch"]

NOTE_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "text": pa.string(),
    "domain": pa.string(),
    "created_at": pa.int64(),
    "session": pa.string(),
    "category": pa.string(),
    "importance": pa.float64(),
    "fingerprint": pa.string(),
    "external_ref": pa.string(),
    "author": pa.string(),
    "metadata": pa.string(),
    "supersedes": pa.list_(pa.string()),
}


@dataclass(frozen=True)
class NoteBatch:
    """Notes whose names are folded, ids given and values checked.

    Attributes
    ----------
    columns : dict of pyarrow.Array
        ``id`` and ``text`` without nulls; any other of NOTE_COLUMNS where a row has a value.
    keys, spellings : list of str
        The batch's distinct folded names, by first appearance, and their first spelling.
    concepts : uint32 [m]
        Codes into `keys`, row after row, distinct within a row.
    ptr : int64 [n + 1]
        Where each row's codes begin and end.
    subject : bool [m]
        Which of them the row declared as its subjects.
    extracted : bool [n]
        Rows whose concepts come from their text.
    """

    columns: dict[str, pa.Array]
    keys: list[str]
    spellings: list[str]
    concepts: NDArray[np.uint32]
    ptr: NDArray[np.int64]
    subject: NDArray[np.bool_]
    extracted: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.extracted)

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> NoteBatch:
        """The batch with only these rows, in this order; names that none uses stay."""
        index = np.asarray(rows, np.int64)
        lengths = np.diff(self.ptr)[index]
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.repeat(self.ptr[:-1][index] - ptr[:-1], lengths) + np.arange(ptr[-1])
        which = pa.array(index)
        return NoteBatch(
            columns={name: column.take(which) for name, column in self.columns.items()},
            keys=self.keys,
            spellings=self.spellings,
            concepts=self.concepts[flat],
            ptr=ptr,
            subject=self.subject[flat],
            extracted=self.extracted[index],
        )

    @property
    def nbytes(self) -> int:
        """About how many bytes the batch takes."""
        columns = sum(int(column.nbytes) for column in self.columns.values())
        return columns + 16 * len(self.concepts)

    def used(self) -> list[int]:
        """Codes of the names in use, in order of first appearance."""
        return list(dict.fromkeys(self.concepts.tolist()))

    # -- as JSON: an operation small enough for one journal row ---------------------------------

    def to_rows(self) -> list[dict[str, Any]]:
        """One JSON object a note; `from_rows` gives an equal batch."""
        held = {name: column.to_pylist() for name, column in self.columns.items()}
        out: list[dict[str, Any]] = []
        for n in range(len(self)):
            row = {name: values[n] for name, values in held.items() if values[n] is not None}
            span = slice(self.ptr[n], self.ptr[n + 1])
            codes = self.concepts[span].tolist()
            if codes:
                row["concepts"] = [self.keys[code] for code in codes]
                spelled = [self.spellings[code] for code in codes]
                if spelled != row["concepts"]:
                    row["spelled"] = spelled
            if self.subject[span].any():
                row["subjects"] = np.flatnonzero(self.subject[span]).tolist()
            if self.extracted[n]:
                row["extracted"] = True
            out.append(row)
        return out

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> NoteBatch:
        """The batch that `to_rows` wrote."""
        codes: dict[str, int] = {}
        spellings: list[str] = []
        flat: list[int] = []
        ptr = [0]
        subject: list[bool] = []
        for row in rows:
            names = row.get("concepts", ())
            for key, shown in zip(names, row.get("spelled", names), strict=True):
                code = codes.setdefault(key, len(spellings))
                if code == len(spellings):
                    spellings.append(shown)
                flat.append(code)
            declared = set(row.get("subjects", ()))
            subject.extend(place in declared for place in range(len(names)))
            ptr.append(len(flat))
        given = {"id", "text"}.union(*rows)
        columns = {
            name: pa.array([row.get(name) for row in rows], dtype)
            for name, dtype in NOTE_COLUMNS.items()
            if name in given
        }
        return cls(
            columns=columns,
            keys=list(codes),
            spellings=spellings,
            concepts=np.array(flat, np.uint32),
            ptr=np.array(ptr, np.int64),
            subject=np.array(subject, np.bool_),
            extracted=np.array([row.get("extracted", False) for row in rows], np.bool_),
        )

    # -- as Arrow: a bulk segment ---------------------------------------------------------------

    def to_table(self) -> pa.Table:
        """One row a note, names as text; `from_table` gives an equal batch."""
        offsets = pa.array(self.ptr.astype(np.int32))
        names = pa.array(self.keys, pa.string()).take(pa.array(self.concepts))
        table = dict(self.columns)
        table["concepts"] = pa.ListArray.from_arrays(offsets, names)
        if self.spellings != self.keys:
            spelled = pa.array(self.spellings, pa.string()).take(pa.array(self.concepts))
            table["spelled"] = pa.ListArray.from_arrays(offsets, spelled)
        if self.subject.any():
            table["subject"] = pa.ListArray.from_arrays(offsets, pa.array(self.subject))
        table["extracted"] = pa.array(self.extracted)
        return pa.table(table)

    @classmethod
    def from_table(cls, table: pa.Table) -> NoteBatch:
        """The batch that `to_table` wrote."""
        table = table.combine_chunks()
        held = {name: one_array(table.column(name)) for name in table.column_names}
        lists = held["concepts"]
        ptr = lists.offsets.to_numpy().astype(np.int64)
        ptr = ptr - ptr[0]
        encoded = lists.flatten().dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.uint32)
        keys = encoded.dictionary.to_pylist()
        spellings = list(keys)
        if "spelled" in held and len(codes):
            _, first = np.unique(codes, return_index=True)
            spellings = held["spelled"].flatten().take(pa.array(first)).to_pylist()
        subject = (
            held["subject"].flatten().to_numpy(zero_copy_only=False)
            if "subject" in held
            else np.zeros(len(codes), np.bool_)
        )
        return cls(
            columns={name: held[name] for name in NOTE_COLUMNS if name in held},
            keys=keys,
            spellings=spellings,
            concepts=codes,
            ptr=ptr,
            subject=np.asarray(subject, np.bool_),
            extracted=np.asarray(held["extracted"].to_numpy(zero_copy_only=False), np.bool_),
        )


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column's values as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
