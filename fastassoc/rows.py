"""Callers' rows, dicts or Arrow, as a NoteBatch: checked, names folded. Knows no store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.batch import NOTE_COLUMNS, NoteBatch, some
from fastassoc.concepts import extract, fold_name, subject_keys
from fastassoc.errors import InvalidInput
from fastassoc.few import FEW, MOST_CONCEPTS, from_few, too_many, unknown_fields
from fastassoc.fields import (
    FIELDS,
    Column,
    Lists,
    Reasons,
    check_strings,
    from_column,
    from_values,
    make,
    mask,
    pc,
    pointers,
    shown,
    text_parts,
)
from fastassoc.kernels.rows import count_seen, gather_names, move_seen
from fastassoc.settings import Settings
from fastassoc.vectorfield import read_vectors

__all__ = [
    "FIELDS",
    "MOST_CONCEPTS",
    "ContentIds",
    "Refused",
    "from_arrow",
    "from_columns",
    "from_dicts",
]

NAMESPACE = UUID("6f1d0f0e-9c1b-5d0a-8a53-0f5e6a2f7c11")  # of ids made from content

Checked = tuple[NoteBatch, list[int], list[tuple[int, str]]]
NewId = Callable[[int], str]


class Refused(NamedTuple):
    """Stands where a row should be that could not even be read."""

    reason: str
    raw: str | None = None


def from_dicts(
    rows: Sequence[Mapping[str, Any] | Refused],
    settings: Settings,
    new_id: NewId | ContentIds | None = None,
    width: int | None = None,
) -> Checked:
    """Notes given as mappings of the fields in FIELDS; None is an absent field.

    Parameters
    ----------
    rows : sequence of mapping
        A Refused among them is a bad row with a known reason.
    settings : Settings
    new_id : callable, ContentIds or None
        Gives the id of a row, by its number, that has none. None refuses such rows.
    width : int or None
        How many numbers a vector has; None: as many as the first one with nothing wrong.

    Returns
    -------
    batch : NoteBatch
        The good rows.
    numbers : list of int
        Their row numbers.
    rejects : list of (int, str)
        The other rows, ascending, each with its reason.

    Examples
    --------
    >>> batch, numbers, rejects = from_dicts(
    ...     [{"id": "a", "text": "Tea", "concepts": ["Tea"]}, {"id": "b"}], Settings()
    ... )
    >>> batch.keys, numbers, rejects
    (['tea'], [0], [(1, 'text: found none, expected text.')])
    """
    reasons: Reasons = {}
    held: list[Mapping[str, Any]] = rows  # type: ignore[assignment]
    if not set(map(type, rows)) <= {dict}:
        held = [_mapping(number, row, reasons) for number, row in enumerate(rows)]
    if len(rows) <= FEW and not isinstance(new_id, ContentIds):
        return from_few(held, reasons, settings, new_id, width)
    fields = set(chain.from_iterable(held))
    unknown = fields.difference(FIELDS)
    if unknown:
        for number, row in enumerate(held):
            if not unknown.isdisjoint(row):
                reasons.setdefault(number, unknown_fields(unknown.intersection(row)))
    columns = {field: _column(held, field) for field in FIELDS if field in fields}
    return _from_columns(columns, len(rows), reasons, settings, new_id, width)


def _column(rows: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
    try:
        return list(map(itemgetter(field), rows))
    except KeyError:  # not every row has it
        return [row.get(field) for row in rows]


def from_arrow(
    table: pa.Table,
    settings: Settings,
    new_id: NewId | ContentIds | None = None,
    width: int | None = None,
) -> Checked:
    """As `from_dicts`, from a table whose columns are named as in FIELDS; null is absent.

    Only a batch's distinct names become Python objects. Lists may have any of Arrow's layouts,
    ``created_at`` may be a timestamp, a date, an ISO 8601 text or whole microseconds, and
    ``metadata`` a struct, a map or JSON text. Vectors are lists of float16, float32, float64 or
    integers, best a FixedSizeList of float32, which is not copied.

    Raises
    ------
    InvalidInput
        A column has another name, or is damaged.

    Examples
    --------
    >>> table = pa.table({"id": ["a"], "text": ["Tea"], "concepts": [["Tea", "tea"]]})
    >>> from_arrow(table, Settings())[0].spellings
    ['Tea']
    """
    unknown = set(table.column_names).difference(FIELDS)
    if unknown or len(set(table.column_names)) < table.num_columns:
        raise InvalidInput(unknown_fields(unknown or set(table.column_names)))
    columns = {name: table.column(name) for name in table.column_names}
    return from_columns(columns, table.num_rows, settings, new_id, width)


def from_columns(
    columns: Mapping[str, Column | list[Any]],
    n: int,
    settings: Settings,
    new_id: NewId | ContentIds | None = None,
    width: int | None = None,
) -> Checked:
    """As `from_arrow`, from columns by field: Arrow's, or lists of Python values, `n` long."""
    return _from_columns(columns, n, {}, settings, new_id, width)


def _from_columns(
    columns: Mapping[str, Column | list[Any]],
    n: int,
    reasons: Reasons,
    settings: Settings,
    new_id: NewId | ContentIds | None,
    width: int | None,
) -> Checked:
    known = dict(reasons)

    def others() -> list[int]:
        bare = {field: column for field, column in columns.items() if field != "vector"}
        ids = None if new_id is None else str
        return _from_columns(bare, n, known, replace(settings, extract=False), ids, None)[1]

    # a row's first bad field, in the order of FIELDS, is its reason
    out: dict[str, Any] = {}
    for field in FIELDS:
        if field in columns:
            column = columns[field]
            if field == "vector":
                out[field] = read_vectors(column, reasons, width, others)
            elif isinstance(column, list):
                out[field] = from_values(field, column, reasons)
            else:
                out[field] = from_column(field, column, reasons)
    return _assemble(out, n, reasons, settings, new_id)


def _mapping(number: int, row: Any, reasons: Reasons) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if isinstance(row, Refused):
        reasons[number] = row.reason
    else:
        reasons[number] = f"found {shown(row)}, expected a dict of a note's fields."
    return {}


# -- from checked columns to a batch --------------------------------------------------------------


def _assemble(
    columns: dict[str, Any],
    n: int,
    reasons: Reasons,
    settings: Settings,
    new_id: NewId | ContentIds | None,
) -> Checked:
    absent = Lists(make([], pa.string()), np.zeros(n + 1, np.int64), np.ones(n, np.bool_))
    vectors = columns.pop("vector", None)  # no part of the content that gives an id
    text = columns.setdefault("text", pa.nulls(n, pa.string()))
    for row in np.flatnonzero(mask(text.is_null())).tolist():
        reasons.setdefault(row, "text: found none, expected text.")
    ids = columns.setdefault("id", pa.nulls(n, pa.string()))
    nameless = mask(ids.is_null())
    if new_id is None:
        for row in np.flatnonzero(nameless).tolist():
            reasons.setdefault(row, "id: found none, expected a str.")
    if "supersedes" in columns:
        columns["supersedes"] = _list_array(_checked_ids(columns["supersedes"], reasons), True)
    concepts, subjects = columns.pop("concepts", absent), columns.pop("subjects", absent)
    names = _Names(text, concepts, subjects, settings, reasons)
    good = names.good
    nameless &= good
    if nameless.any():
        which = np.flatnonzero(nameless)
        if isinstance(new_id, ContentIds):
            lists = {"concepts": concepts, "subjects": subjects}
            made = new_id.take(_contents(columns, lists, which))
        else:
            assert new_id is not None
            made = [new_id(row) for row in which.tolist()]
        columns["id"] = pc.replace_with_mask(ids, make(nameless), make(made, pa.string()))
    keep = None if good.all() else make(good)
    kept = {
        name: columns[name] if keep is None else columns[name].filter(keep)
        for name in NOTE_COLUMNS
        if name in columns
    }
    if vectors is not None and keep is not None:
        vectors = some(vectors.filter(keep))
    batch = NoteBatch(
        columns={
            name: column
            for name, column in kept.items()
            if name in ("id", "text") or column.null_count < len(column)
        },
        keys=names.keys,
        spellings=names.spellings,
        concepts=names.concepts,
        ptr=names.ptr,
        subject=names.subject,
        extracted=names.extracted[good],
        vectors=vectors,
    )
    return batch, np.flatnonzero(good).tolist(), sorted(reasons.items())


def _list_array(lists: Lists, empty_is_null: bool = False) -> Column:
    null = lists.null | (np.diff(lists.ptr) == 0) if empty_is_null else lists.null
    return pa.ListArray.from_arrays(make(lists.ptr.astype(np.int32)), lists.flat, mask=make(null))


def _checked_ids(lists: Lists, reasons: Reasons) -> Lists:
    found: Reasons = {}
    check_strings("id", lists.flat, found)
    for place, reason in found.items():
        row = int(np.searchsorted(lists.ptr, place, side="right")) - 1
        reasons.setdefault(row, reason.replace("id:", "supersedes:", 1))
    return lists


class _Names:
    """The names of a batch: given, extracted, declared; `reasons` takes rows with a bad one."""

    def __init__(
        self,
        text: Column,
        concepts: Lists,
        subjects: Lists,
        settings: Settings,
        reasons: Reasons,
    ) -> None:
        self._mode, self._reasons = settings.names, reasons
        self.good = np.ones(len(text), np.bool_)
        self._drop(reasons)
        self.extracted = np.logical_and(concepts.null, self.good & settings.extract)
        spans = np.stack([concepts.ptr[:-1], concepts.ptr[1:]], axis=1)
        flats = [concepts.flat]
        if self.extracted.any():
            flats.append(self._extract(text, spans, len(concepts.flat)))
        flats.append(subjects.flat)
        declared = np.stack([subjects.ptr[:-1], subjects.ptr[1:]], axis=1)
        if len(subjects.flat):
            flats[-1], ptr = self._subject_names(subjects)
            declared = np.stack([ptr[:-1], ptr[1:]], axis=1)
        declared += sum(map(len, flats[:-1]))
        encoded = pa.concat_arrays(flats).dictionary_encode()
        codes = encoded.indices.to_numpy()
        key_of, keys = self._fold(encoded.dictionary, codes, concepts)
        self._gather(codes, key_of, len(keys), spans, declared)
        if self._too_many():
            self._gather(codes, key_of, len(keys), spans, declared)
        used = keys.take(make(self._order))
        shown = encoded.dictionary.take(make(self._first))
        self.keys: list[str] = used.to_pylist()
        self.spellings: list[str] = self.keys if shown.equals(used) else shown.to_pylist()

    def _drop(self, rows: Mapping[int, str]) -> None:
        if rows:
            self.good[list(rows)] = False

    def _refuse(self, row: int, reason: str) -> None:
        self._reasons.setdefault(row, reason)
        self.good[row] = False

    def _extract(self, text: Column, spans: NDArray[np.int64], base: int) -> Column:
        """Names found in texts; their rows' spans are set."""
        rows = np.flatnonzero(self.extracted)
        texts = text.take(make(rows)).to_pylist()
        found = [extract(one)[:MOST_CONCEPTS] for one in texts]
        ptr = pointers(list(map(len, found))) + base
        spans[rows, 0], spans[rows, 1] = ptr[:-1], ptr[1:]
        return make(list(chain.from_iterable(found)), pa.string())

    def _subject_names(self, subjects: Lists) -> tuple[Column, NDArray[np.int64]]:
        """The names that titles stand for, and their pointers by row."""
        encoded = subjects.flat.dictionary_encode()
        names: list[list[str]] = []
        wrong: dict[int, str] = {}
        for code, title in enumerate(encoded.dictionary.to_pylist()):
            names.append([])
            try:
                fold_name(title, self._mode)
                names[code] = subject_keys(title) or [title]
            except InvalidInput as error:
                wrong[code] = str(error)
        codes = encoded.indices.to_numpy()
        for place in np.flatnonzero(np.isin(codes, list(wrong))).tolist() if wrong else ():
            row = int(np.searchsorted(subjects.ptr, place, side="right")) - 1
            self._refuse(row, f"subjects: {wrong[codes[place]]}")
        flat = list(chain.from_iterable([names[code] for code in codes.tolist()]))
        ends = pointers(np.array([len(one) for one in names], np.int64)[codes])
        return make(flat, pa.string()), ends[subjects.ptr]

    def _fold(
        self, spellings: Column, codes: NDArray[np.int32], concepts: Lists
    ) -> tuple[NDArray[np.int32], Column]:
        """Key of each spelling, -1 where it has none, and the distinct keys."""
        folded, wrong = fold_names(spellings, self._mode)
        if wrong:
            given = codes[: len(concepts.flat)]
            for place in np.flatnonzero(np.isin(given, list(wrong))).tolist():
                row = int(np.searchsorted(concepts.ptr, place, side="right")) - 1
                self._refuse(row, f"concepts: {wrong[int(given[place])]}")
        encoded = folded.dictionary_encode()
        key_of = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return key_of.astype(np.int32, copy=False), encoded.dictionary

    def _gather(
        self,
        codes: NDArray[np.int32],
        key_of: NDArray[np.int32],
        n_keys: int,
        spans: NDArray[np.int64],
        declared: NDArray[np.int64],
    ) -> None:
        out, subject = np.empty(len(codes), np.uint32), np.zeros(len(codes), np.bool_)
        self.ptr = np.zeros(int(self.good.sum()) + 1, np.int64)
        order, first = np.empty(n_keys, np.int32), np.empty(n_keys, np.int32)
        used = gather_names(
            codes, key_of, spans, declared, self.good, out, subject, self.ptr, order, first
        )
        self.concepts, self.subject = out[: self.ptr[-1]].copy(), subject[: self.ptr[-1]].copy()
        self._order, self._first = order[:used], first[:used]

    def _too_many(self) -> bool:
        """Refuse rows that were given more names than a note can carry."""
        rows = np.flatnonzero(self.good)
        declared = np.diff(np.concatenate([[0], np.cumsum(self.subject)])[self.ptr])
        # names found in the text were cut to as many; those declared beside them were given
        counts = np.where(self.extracted[rows], declared, np.diff(self.ptr))
        over = counts > MOST_CONCEPTS
        for row, count in zip(rows[over].tolist(), counts[over].tolist(), strict=True):
            self._refuse(row, too_many(count))
        return bool(over.any())


def fold_names(names: Column, mode: str) -> tuple[Column, dict[int, str]]:
    """`fold_name` of each name, null where it refuses, and the reasons by position.

    Plain ASCII is folded without a Python object for each name.
    """
    offsets, data = text_parts(names)
    sizes = np.diff(offsets)
    slow = (sizes == 0) | (sizes > 256) | (mode != "fold")
    if not slow.all():
        begin, end = int(offsets[0]), int(offsets[-1])
        part = data[begin:end]
        odd = (part < 32) | (part >= 127)
        odd[1:] |= (part[1:] == 32) & (part[:-1] == 32)
        places = np.flatnonzero(odd) + begin
        slow[np.searchsorted(offsets, places, side="right") - 1] = True
        held = np.flatnonzero(~slow)
        edges = (data[offsets[:-1][held]] == 32) | (data[offsets[1:][held] - 1] == 32)
        slow[held[edges]] = True
    rows = np.flatnonzero(slow)
    if not len(rows):
        return pc.ascii_lower(names), {}
    folded: list[str | None] = []
    wrong: dict[int, str] = {}
    for row, name in zip(rows.tolist(), names.take(make(rows)).to_pylist(), strict=True):
        try:
            folded.append(fold_name(name, mode))
        except InvalidInput as error:
            folded.append(None)
            wrong[row] = str(error)
    found = make(folded, pa.string())
    return pc.replace_with_mask(pc.ascii_lower(names), make(slow), found), wrong


# -- ids from content -----------------------------------------------------------------------------


class ContentIds:
    """Ids for rows that have none: UUIDv5 of the content and of its occurrence in the input.

    The same rows get the same ids, however the input is split, so that an ingest can be repeated.
    A row's vector is no part of its content: another embedder changes no id.
    Takes about 24 bytes a distinct row.

    Examples
    --------
    >>> ids = ContentIds().take([b"tea", b"tea"])
    >>> ids == ContentIds().take([b"tea"]) + ids[1:], len(set(ids))
    (True, 2)
    """

    def __init__(self) -> None:
        self._keys = np.zeros(1 << 12, np.uint64)
        self._counts = np.zeros(1 << 12, np.uint32)
        self._held = 0

    def take(self, contents: Sequence[bytes]) -> list[str]:
        """The ids of the next rows."""
        digests = _digests(0, contents)
        out = [_uuid5(digest) for digest in digests]
        seen = self._count(digests)
        for place in np.flatnonzero(seen).tolist():
            out[place] = _uuid5(_digests(seen[place], contents[place : place + 1])[0])
        return out

    def _count(self, digests: list[bytes]) -> NDArray[np.uint32]:
        """How often each came before.

        64 bits of the digest are enough: where two contents share them, the second only takes the
        id of a later occurrence.
        """
        raw = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 20)
        asked = np.ascontiguousarray(raw[:, 12:]).view("<u8").reshape(-1).astype(np.uint64)
        while 2 * (self._held + len(asked)) > len(self._keys):
            keys = np.zeros(2 * len(self._keys), np.uint64)
            counts = np.zeros(len(keys), np.uint32)
            move_seen(self._keys, self._counts, keys, counts)
            self._keys, self._counts = keys, counts
        out = np.zeros(len(asked), np.uint32)
        self._held += count_seen(self._keys, self._counts, asked, out)
        return out


def _digests(occurrence: int, contents: Sequence[bytes]) -> list[bytes]:
    """SHA-1 of the namespace, the occurrence and the content."""
    prefix = hashlib.sha1(NAMESPACE.bytes + b"%d\n" % occurrence, usedforsecurity=False)
    out = []
    for content in contents:
        hashed = prefix.copy()
        hashed.update(content)
        out.append(hashed.digest())
    return out


def _uuid5(digest: bytes) -> str:
    text = digest.hex()
    variant = "89ab"[digest[8] >> 4 & 3]
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"


def _contents(
    columns: Mapping[str, Column], lists: Mapping[str, Lists], rows: NDArray[np.int64]
) -> list[bytes]:
    """Every given field of these rows, each with its name and length, so that none runs over."""
    parts = []
    for field in FIELDS:
        if field == "id" or (field not in columns and field not in lists):
            continue
        column = _list_array(lists[field]) if field in lists else columns[field]
        column = column.take(make(rows))
        if column.null_count == len(rows):
            continue
        kind = column.type
        if pa.types.is_list(kind):
            flat = _measured(column.flatten())
            column = pc.binary_join(
                pa.ListArray.from_arrays(
                    make(pointers(_lengths(column)).astype(np.int32)),
                    flat,
                    mask=column.is_null() if column.null_count else None,
                ),
                ",",
            )
        elif pa.types.is_floating(kind):
            held = [None if value is None else repr(value) for value in column.to_pylist()]
            column = make(held, pa.string())
        parts.append(_measured(column.cast(pa.string()), f"{field}=").fill_null(""))
    joined = pc.binary_join_element_wise(*parts, "") if len(parts) > 1 else parts[0]
    return cast(list[bytes], joined.cast(pa.binary()).to_pylist())


def _lengths(lists: Column) -> NDArray[np.int64]:
    found = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return cast(NDArray[np.int64], found)


def _measured(values: Column, tag: str = "") -> Column:
    lengths = pc.binary_length(values).cast(pa.string())
    return pc.binary_join_element_wise(pa.scalar(tag), lengths, pa.scalar(":"), values, "")
