"""Resolved notes, column by column: what a write carries from the check to the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput

__all__ = ["NOTE_COLUMNS", "NoteBatch", "vector_array"]

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
    # note links that the write makes, resolved under the lock: no caller gives them
    "tags": pa.list_(pa.struct([("to", pa.int64()), ("weight", pa.float64())])),
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
    vectors : pyarrow.FixedSizeListArray of float32 or None
        As long as the batch, null in rows without a vector; None where no row has one.
    """

    columns: dict[str, pa.Array]
    keys: list[str]
    spellings: list[str]
    concepts: NDArray[np.uint32]
    ptr: NDArray[np.int64]
    subject: NDArray[np.bool_]
    extracted: NDArray[np.bool_]
    vectors: pa.Array | None = None

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
            vectors=None if self.vectors is None else some(self.vectors.take(which)),
        )

    @property
    def nbytes(self) -> int:
        """About how many bytes the batch takes."""
        columns = sum(int(column.nbytes) for column in self.columns.values())
        vectors = 0 if self.vectors is None else int(self.vectors.nbytes)
        return columns + 16 * len(self.concepts) + vectors

    @property
    def dim(self) -> int | None:
        """Width of the vectors; None where no row has one."""
        return None if self.vectors is None else int(self.vectors.type.list_size)

    def vector_matrix(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The vectors: float32 [m, dim], and int64 [m], ascending: the rows that have them.

        Both are empty (and dim 0) where no row has one. The matrix may be a read-only view.
        """
        if self.vectors is None:
            return np.zeros((0, 0), np.float32), np.zeros(0, np.int64)
        matrix = _matrix(self.vectors)
        if not self.vectors.null_count:
            return matrix, np.arange(len(self), dtype=np.int64)
        places = np.flatnonzero(self.vectors.is_valid().to_numpy(zero_copy_only=False))
        return matrix[places], places

    def vector_bytes(self) -> bytes | None:
        """The vectors of the rows that have one, in order, as little-endian float32."""
        if self.vectors is None:
            return None
        return self.vector_matrix()[0].astype("<f4", copy=False).tobytes()

    @cached_property
    def ids(self) -> list[str]:
        """The notes' ids."""
        found: list[str] = self.columns["id"].to_pylist()
        return found

    def used(self) -> NDArray[np.int64]:
        """Codes of the names in use, int64 [names], in order of first appearance."""
        m = len(self.concepts)
        first = np.full(len(self.keys), m, np.int64)
        first[self.concepts[::-1]] = np.arange(m - 1, -1, -1)  # of equal ones the last stays
        found = np.flatnonzero(first < m)
        return found[np.argsort(first[found], kind="stable")]

    # -- as JSON: an operation small enough for one journal row ---------------------------------

    def to_rows(self) -> list[dict[str, Any]]:
        """One JSON object a note; `from_rows` gives an equal batch.

        A row with a vector only says so (``"vector": true``): `vector_bytes` holds the numbers.
        """
        has = None if self.vectors is None else self.vectors.is_valid().to_pylist()
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
            if has is not None and has[n]:
                row["vector"] = True
            out.append(row)
        return out

    @classmethod
    def from_rows(
        cls, rows: Sequence[Mapping[str, Any]], vectors: bytes | None = None
    ) -> NoteBatch:
        """The batch that `to_rows` and `vector_bytes` wrote.

        Raises
        ------
        InvalidInput
            The bytes are no whole vectors, one for each row that says it has one.
        """
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
            vectors=_from_bytes([bool(row.get("vector")) for row in rows], vectors),
        )

    # -- as Arrow: a bulk segment ---------------------------------------------------------------

    def to_table(self) -> pa.Table:
        """One row a note, names as text; `from_table` gives an equal batch."""
        offsets = pa.array(self.ptr.astype(np.int32))
        names = pa.array(self.keys, pa.string()).take(pa.array(self.concepts))
        table = dict(self.columns)
        if "tags" in table:  # a file holds no lists of pairs
            table["tag_to"], table["tag_weight"] = _apart(table.pop("tags"))
        table["concepts"] = pa.ListArray.from_arrays(offsets, names)
        if self.spellings != self.keys:
            spelled = pa.array(self.spellings, pa.string()).take(pa.array(self.concepts))
            table["spelled"] = pa.ListArray.from_arrays(offsets, spelled)
        if self.subject.any():
            table["subject"] = pa.ListArray.from_arrays(offsets, pa.array(self.subject))
        table["extracted"] = pa.array(self.extracted)
        if self.vectors is not None:
            table["vector"] = self.vectors
        return pa.table(table)

    @classmethod
    def from_table(cls, table: pa.Table) -> NoteBatch:
        """The batch that `to_table` wrote."""
        table = table.combine_chunks()
        held = {name: one_array(table.column(name)) for name in table.column_names}
        if "tag_to" in held:
            held["tags"] = _together(held["tag_to"], held["tag_weight"])
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
            vectors=_read_back(held["vector"]) if "vector" in held else None,
        )


def vector_array(matrix: NDArray[np.float32], null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Vectors as `NoteBatch` holds them.

    Parameters
    ----------
    matrix : float32 [n, dim]
        Contiguous; it is not copied. What stands in the rows that have no vector does not matter.
    null : bool [n], optional
        Rows without a vector.

    Examples
    --------
    >>> vector_array(np.eye(2, dtype=np.float32), np.array([False, True])).to_pylist()
    [[1.0, 0.0], None]
    """
    flat = pa.array(matrix.reshape(-1), pa.float32())
    gone = None if null is None or not null.any() else pa.array(null)
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1], mask=gone)


def _apart(tags: pa.Array) -> list[pa.Array]:
    """The two halves of ``tags``: lists of sequences, and of weights."""
    offsets, gone = _offsets(tags)
    return [pa.ListArray.from_arrays(offsets, half, mask=gone) for half in tags.flatten().flatten()]


def _together(to: pa.Array, weight: pa.Array) -> pa.Array:
    """``tags`` from their two halves."""
    offsets, gone = _offsets(to)
    pairs = pa.StructArray.from_arrays([to.flatten(), weight.flatten()], ["to", "weight"])
    return pa.ListArray.from_arrays(offsets, pairs, mask=gone)


def _offsets(lists: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Offsets into what ``flatten`` gives, int32 [n + 1], and which lists are null."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.array(offsets), lists.is_null() if lists.null_count else None


def _read_back(vectors: pa.Array) -> pa.Array | None:
    """Vectors from a file, which may give the list's members another name."""
    return some(vectors.cast(pa.list_(pa.float32(), vectors.type.list_size)))


def some(vectors: pa.Array) -> pa.Array | None:
    """The vectors; None where no row has one."""
    return None if vectors.null_count == len(vectors) else vectors


def _matrix(vectors: pa.Array) -> NDArray[np.float32]:
    """All slots, those of nulls too: float32 [n, dim], without a copy."""
    dim, values = vectors.type.list_size, vectors.values
    begin = 4 * (values.offset + vectors.offset * dim)
    flat = np.frombuffer(values.buffers()[1], np.float32, len(vectors) * dim, begin)
    return flat.reshape(len(vectors), dim)


def _from_bytes(has: list[bool], vectors: bytes | None) -> pa.Array | None:
    count, size = sum(has), len(vectors or b"")
    if not count and not size:
        return None
    if not count or not size or size % (4 * count):
        raise InvalidInput(f"vectors: found {size:,} bytes for {count:,} rows with a vector.")
    given = np.frombuffer(vectors or b"", "<f4").astype(np.float32, copy=False).reshape(count, -1)
    if count == len(has):
        return vector_array(given)
    held = np.array(has)
    matrix = np.zeros((len(has), given.shape[1]), np.float32)
    matrix[held] = given
    return vector_array(matrix, ~held)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column's values as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
