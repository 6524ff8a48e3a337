"""The notes: texts, ids, domains, times, metadata, and which concepts each one carries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastassoc.batch import NOTE_COLUMNS, NoteBatch
from fastassoc.chains import Chains
from fastassoc.columns import ArrowColumn, Growable
from fastassoc.errors import CorruptStore
from fastassoc.jsontext import loads
from fastassoc.kernels.notes import prefixes
from fastassoc.metadata import MetadataIndex
from fastassoc.postings import Postings, PostingsView
from fastassoc.retention import NoteStates, StatesView
from fastassoc.rowlookup import RowLookup
from fastassoc.sessions import Sessions
from fastassoc.settings import RetentionRule

__all__ = [
    "DEFAULT_IMPORTANCE",
    "NOTES_SCHEMA",
    "Note",
    "NoteTable",
    "NotesView",
    "metadata_of",
]

DEFAULT_DOMAIN = "general"
DEFAULT_IMPORTANCE = 0.5
PLAIN = ("session", "category", "importance", "fingerprint", "external_ref", "author", "metadata")

NOTES_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        pa.field("created_at", pa.int64(), nullable=False),
        pa.field("written_at", pa.int64(), nullable=False),
        pa.field("session", pa.string()),
        pa.field("category", pa.string()),
        pa.field("importance", pa.float64()),
        pa.field("fingerprint", pa.string()),
        pa.field("external_ref", pa.string()),
        pa.field("author", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("subjects", pa.list_(pa.uint32()), nullable=False),
        pa.field("concepts", pa.list_(pa.uint32()), nullable=False),
        pa.field("extracted", pa.bool_(), nullable=False),
        pa.field("bucket", pa.uint16(), nullable=False),
    ]
)

NOTESTATE_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("valence", pa.float64(), nullable=False),
        pa.field("stability", pa.float64()),
        pa.field("last_access", pa.int64()),
        pa.field("accesses", pa.int64()),
        pa.field("tier", pa.string()),
        pa.field("superseded_by", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("category", pa.string()),
        pa.field("sessions", pa.string()),
    ]
)


@dataclass(frozen=True, eq=False)
class Note:
    """A stored note, as `Memory.get` and `Memory.recent` give it.

    Attributes
    ----------
    id, text, domain : str
    concepts, subjects : list of str
        Names as they are shown; subjects are among the concepts.
    created_at, written_at : datetime
        Aware, UTC.
    metadata : dict
    valence : float
        Mean tendency of the outcomes it took part in, in [-1, 1].
    importance : float
    session, category, fingerprint, external_ref, author : str or None
        The category is ``"core"`` once a note became one.
    supersedes, superseded_by : list of str
        Ids of the notes that it replaced, and of those that replaced it.
    vector : numpy.ndarray of float32 [dim], or None
    stability : float
        How well it withstands time, in [0, 1]; see `RetentionRule`.
    accesses : int
        Reinforced reads that returned it.
    last_access : datetime
        The last of them, or when it was written.
    tier : {"hot", "cold"}
        Cold notes are found by links, text and concepts, not by their vectors.
    """

    id: str
    text: str
    concepts: list[str]
    subjects: list[str]
    domain: str
    created_at: datetime
    written_at: datetime
    metadata: dict[str, Any]
    valence: float
    importance: float
    session: str | None
    category: str | None
    fingerprint: str | None
    external_ref: str | None
    author: str | None
    supersedes: list[str]
    superseded_by: list[str]
    vector: NDArray[np.float32] | None
    stability: float
    accesses: int
    last_access: datetime
    tier: str


class NoteTable:
    """Notes by row, a row being the order of writing among those in memory."""

    def __init__(self, retention: RetentionRule) -> None:
        self.ids: list[str] = []
        self._rows: dict[str, int] | None = {}  # None: not asked for yet
        self._rows_lock = Lock()
        self.next_seq = 0
        self.seq = Growable(np.int64)
        self.texts = ArrowColumn(pa.string())
        self.prefix = Growable(np.uint64)
        self.created_at = Growable(np.int64)
        self.written_at = Growable(np.int64)
        self.domain = Growable(np.int32)
        self.domains: list[str] = []
        self._domain_codes: dict[str, int] = {}
        self.plain = {name: ArrowColumn(NOTE_COLUMNS[name]) for name in PLAIN}
        self.postings = Postings(with_values=False)
        self.subjects = Postings(with_values=False)  # concepts that a row declares
        self.subject = Growable(np.bool_)
        self.extracted = Growable(np.bool_)
        self.alive = Growable(np.uint8)
        self.current = Growable(np.uint8)  # alive and not superseded
        self.n_alive = 0
        self.df = Growable(np.int64)  # live notes that carry a concept
        self.declared = Growable(np.int64)  # of these, the notes that were given it
        self.valence: dict[int, float] = {}
        self.metadata_updates: dict[int, str] = {}
        self.chains = Chains()
        self.sessions = Sessions()
        self.states = NoteStates(retention)
        self._look_up()

    # -- changes, under the owner's lock -----------------------------------------------------

    def append(self, batch: NoteBatch, concepts: NDArray[np.uint32], at: int) -> NDArray[np.int64]:
        """Add resolved notes whose ids are new; `concepts` are flat ids, parallel to the batch's.

        Returns the rows, int64 [n].
        """
        n, first = len(batch), len(self.ids)
        seqs = np.arange(self.next_seq, self.next_seq + n, dtype=np.int64)
        self._add(batch.columns, batch.ids, seqs, np.full(n, at, np.int64), batch.extracted)
        self._add_concepts(concepts, batch.ptr, batch.subject, batch.extracted)
        self.next_seq += n
        return np.arange(first, first + n, dtype=np.int64)

    def _add(
        self,
        columns: Mapping[str, pa.Array],
        ids: list[str],
        seqs: NDArray[np.int64],
        written_at: NDArray[np.int64],
        extracted: NDArray[np.bool_],
    ) -> None:
        n, first = len(seqs), len(self.ids)
        self.seq.append(seqs)
        self.texts.append(columns["text"], n)
        self.prefix.append(text_prefixes(columns["text"]))
        created = columns.get("created_at")
        self.created_at.append(written_at if created is None else filled(created, written_at))
        self.written_at.append(written_at)
        self.domain.append(self._code_domains(columns.get("domain"), n))
        for name, column in self.plain.items():
            column.append(columns.get(name), n)
        self.extracted.append(extracted)
        ones = np.ones(n, np.uint8)
        self.alive.append(ones)
        self.current.append(ones)
        importance = weights(columns.get("importance"), n)
        self.states.append(importance, columns.get("category"), written_at)
        self.ids.extend(ids)
        with self._rows_lock:
            if self._rows is not None:
                self._rows.update(zip(ids, range(first, first + n), strict=True))
        self.n_alive += n

    def join_sessions(
        self, rows: NDArray[np.int64], names: pa.Array | None
    ) -> list[tuple[int, int]]:
        """Enter new rows into their sessions; pairs of the live note before each, and it."""
        if names is None or names.null_count == len(names):
            return []
        return list(self.sessions.extend(int(rows[0]), names.to_pylist(), self.alive.array))

    def _add_concepts(
        self,
        concepts: NDArray[np.uint32],
        ptr: NDArray[np.int64],
        subject: NDArray[np.bool_],
        extracted: NDArray[np.bool_],
    ) -> None:
        self.postings.append(concepts, ptr)
        marks = np.zeros(len(subject) + 1, np.int64)
        np.cumsum(subject, out=marks[1:])
        self.subjects.append(concepts[subject], marks[ptr])
        self.subject.append(subject)
        self._count(concepts, subject | ~np.repeat(extracted, np.diff(ptr)), 1)

    def _count(self, concepts: NDArray[np.uint32], given: NDArray[np.bool_], step: int) -> None:
        if not len(concepts):
            return
        top = int(concepts.max()) + 1
        self.df.extend_to(top)
        self.declared.extend_to(top)
        if len(concepts) > 1000:
            counts = np.bincount(concepts, minlength=top)
            self.df.array[:top] += step * counts[:top]
            self.declared.array[:top] += step * np.bincount(concepts[given], minlength=top)[:top]
        else:
            np.add.at(self.df.array, concepts, step)
            np.add.at(self.declared.array, concepts[given], step)

    def remove(self, rows: Sequence[int]) -> None:
        """Forget rows; arrays that readers hold stay as they were."""
        alive, current = self.alive.array.copy(), self.current.array.copy()
        for row in rows:
            alive[row] = current[row] = 0
            concepts, subject = self.concepts_of(row)
            self._count(concepts, subject | ~self.extracted.array[row], -1)
            note = self.ids[row]
            if self.rows.get(note) == row:
                del self.rows[note]
            self.metadata_index.forget(row)
            for older in self.chains.remove(row):
                current[older] = alive[older]
            self.valence.pop(row, None)
            self.metadata_updates.pop(row, None)
        self.states.forget(rows)
        self.alive.replace(alive)
        self.current.replace(current)
        self.n_alive -= len(rows)

    def supersede(self, row: int, old: Sequence[str]) -> list[str]:
        """Let the note at `row` replace older ones in default reads; returns ids of none of them.

        Only notes written before it can be replaced, however a batch is split.
        """
        found = {note: self.rows.get(note, row) for note in old}
        current = self.current.array.copy() if found else self.current.array
        for other in found.values():
            if other < row:
                self.chains.add(row, other)
                current[other] = 0
        self.current.replace(current)
        return [note for note, other in found.items() if other >= row]

    def set_metadata(self, row: int, metadata: str) -> None:
        """Replace a note's metadata, given as canonical JSON."""
        self.metadata_index.forget(row)
        self.metadata_updates[row] = metadata
        self.metadata_index.add(row)

    def _code_domains(self, values: pa.Array | None, n: int) -> NDArray[np.int32]:
        if values is None:
            return np.full(n, self._domain_code(DEFAULT_DOMAIN), np.int32)
        encoded = values.dictionary_encode()
        codes = [self._domain_code(name) for name in encoded.dictionary.to_pylist()]
        table = np.array([*codes, self._domain_code(DEFAULT_DOMAIN)], np.int32)
        places: NDArray[np.int64] = encoded.indices.fill_null(len(codes)).to_numpy()
        return table[places]

    def _domain_code(self, name: str) -> int:
        code = self._domain_codes.get(name)
        if code is None:
            code = self._domain_codes[name] = len(self.domains)
            self.domains.append(name)
        return code

    def copy(self) -> NoteTable:
        """The table as it is now: later changes of this one do not reach the copy.

        Columns are shared, since they only grow.
        """
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (Growable, ArrowColumn, dict, list)):
                setattr(other, name, copy(value))
        other.plain = {name: copy(column) for name, column in self.plain.items()}
        other.chains = deepcopy(self.chains)
        other.sessions = deepcopy(self.sessions)
        other.states = self.states.copy()
        other.df.replace(self.df.array.copy())
        other.declared.replace(self.declared.array.copy())
        other._look_up()
        return other

    @property
    def rows(self) -> dict[str, int]:
        """The row of each live note, by its id; what was loaded is looked through when asked."""
        if self._rows is None:
            with self._rows_lock:
                if self._rows is None:
                    self._rows = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return self._rows

    def _look_up(self) -> None:
        """Make the indexes that are built when they are first asked."""
        self.metadata_index = MetadataIndex(self.metadata)
        self._fingerprints = RowLookup(self.plain["fingerprint"])
        self._by_text = RowLookup(self.texts)

    # -- looking ------------------------------------------------------------------------------

    def concepts_of(self, row: int) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        """Concept ids of a row in given order, and which are subjects."""
        flat, ptr = self.postings.forward()
        a, b = ptr[row], ptr[row + 1]
        return flat[a:b], self.subject.array[a:b]

    def carried(self, rows: Iterable[int]) -> list[NDArray[np.uint32]]:
        """Concept ids of rows, each in given order."""
        flat, ptr = self.postings.forward()
        return [flat[ptr[row] : ptr[row + 1]] for row in rows]

    def named(self, rows: Iterable[int]) -> list[str]:
        """Ids of rows."""
        return [self.ids[row] for row in rows]

    def metadata(self, row: int) -> dict[str, Any]:
        """A note's metadata; an empty dict where it has none."""
        return metadata_of(
            self.ids[row], self.metadata_updates.get(row) or self.plain["metadata"][row]
        )

    def check_metadata(self) -> None:
        """Raise CorruptStore where a live note's metadata cannot be read."""
        for row in np.flatnonzero(self.alive.array).tolist():
            self.metadata(row)

    def by_fingerprint(self, fingerprint: str) -> list[int]:
        """Rows, dead ones included, with this fingerprint, in order of writing."""
        return self._fingerprints.find(fingerprint, len(self.ids))

    def by_text(self, text: str) -> list[int]:
        """Rows, dead ones included, with exactly this text, in order of writing."""
        return self._by_text.find(text, len(self.ids))

    def domain_code(self, name: str) -> int | None:
        """The code of a domain, None if no note ever had it."""
        return self._domain_codes.get(name)

    def view(self) -> NotesView:
        """What a read works on: nothing in it changes afterwards but names of later notes."""
        return NotesView(
            table=self,
            n=len(self.ids),
            alive=self.alive.array,
            current=self.current.array,
            created_at=self.created_at.array,
            domain=self.domain.array,
            prefix=self.prefix.array,
            df=self.df.array,
            declared=self.declared.array,
            postings=self.postings.view(),
            subjects=self.subjects.view(),
            states=self.states.view(),
        )

    # -- disk -----------------------------------------------------------------------------------

    def to_arrow(self, after_seq: int = -1) -> pa.Table:
        """Live notes written after `after_seq`, as NOTES_SCHEMA."""
        seqs = self.seq.array
        start, stop = int(np.searchsorted(seqs, after_seq, "right")), len(seqs)
        keep = np.flatnonzero(self.alive.array[start:stop]).astype(np.int64)
        flat, ptr = self.postings.forward()
        flat, subject = flat[ptr[start] : ptr[stop]], self.subject.array[ptr[start] : ptr[stop]]
        offsets = ptr[start : stop + 1] - ptr[start]
        marks = np.concatenate([[0], np.cumsum(subject)])[offsets]
        names = pa.array(self.domains, pa.string())
        columns = {
            "seq": pa.array(seqs[start:stop]),
            "id": pa.array(self.ids[start:stop], pa.string()),
            "text": self.texts.to_arrow(start, stop),
            "domain": names.take(pa.array(self.domain.array[start:stop])),
            "created_at": pa.array(self.created_at.array[start:stop]),
            "written_at": pa.array(self.written_at.array[start:stop]),
            **{name: column.to_arrow(start, stop) for name, column in self.plain.items()},
            "subjects": list_array(marks, flat[subject]),
            "concepts": list_array(offsets, flat),
            "extracted": pa.array(self.extracted.array[start:stop]),
        }
        columns["bucket"] = buckets(columns["id"])
        schema = pa.schema([f.with_type(columns[f.name].type) for f in NOTES_SCHEMA])
        table = pa.Table.from_arrays([columns[f.name] for f in schema], schema=schema)
        return table if len(keep) == stop - start else table.take(pa.array(keep))

    def with_updates(self, metadata: pa.ChunkedArray) -> pa.ChunkedArray:
        """The metadata of all live notes as they are now, given as they were written."""
        alive = np.flatnonzero(self.alive.array)
        rows = sorted(row for row in self.metadata_updates if self.alive.array[row])
        if not rows:
            return metadata
        changed = np.zeros(len(alive), np.bool_)
        changed[np.searchsorted(alive, rows)] = True
        texts = pa.array([self.metadata_updates[row] for row in rows], pa.string())
        return pc.replace_with_mask(metadata, pa.array(changed), texts.cast(metadata.type))

    def state_to_arrow(self) -> pa.Table:
        """What may change about a live note, for the notes where it did."""
        changed = {*self.states.changed().tolist(), *self.chains.replaced()}
        rows = sorted(changed.union(self.valence, self.metadata_updates))
        rows = [row for row in rows if self.alive.array[row]]
        n = len(rows)
        columns = {
            "seq": pa.array(self.seq.array[rows] if n else [], pa.int64()),
            "valence": pa.array([self.valence.get(row, 0.0) for row in rows], pa.float64()),
            "superseded_by": pa.array(
                [dumped(self.named(self.chains.newer(row))) for row in rows], pa.string()
            ),
            "metadata": pa.array([self.metadata_updates.get(row) for row in rows], pa.string()),
            **self.states.to_columns(rows),
        }
        return pa.Table.from_arrays(
            [columns.get(f.name, pa.nulls(n, f.type)) for f in NOTESTATE_SCHEMA],
            schema=NOTESTATE_SCHEMA,
        )

    def restore(self, notes: pa.Table, state: pa.Table, next_seq: int) -> None:
        """Load live notes, ascending by sequence, and what changed about them."""
        self._rows = None
        # one batch a chunk of the segments, so that no text column passes 2 GiB
        for part in notes.to_batches(max_chunksize=1 << 20):
            columns = {name: part.column(name) for name in part.schema.names}
            extracted = np.asarray(columns["extracted"].to_numpy(zero_copy_only=False))
            self._add(
                {name: columns[name] for name in NOTE_COLUMNS if name in columns},
                columns["id"].to_pylist(),
                columns["seq"].to_numpy(),
                columns["written_at"].to_numpy(),
                extracted,
            )
            concepts, subjects = columns["concepts"], columns["subjects"]
            flat = concepts.flatten().to_numpy()
            ptr = offsets_of(concepts)
            marked = mark_subjects(flat, ptr, subjects.flatten().to_numpy(), offsets_of(subjects))
            first = len(self.ids) - len(part)
            self.join_sessions(np.arange(first, len(self.ids)), columns.get("session"))
            self._add_concepts(flat, ptr, marked, extracted)
        self.next_seq = next_seq
        self._restore_state(state)

    def _restore_state(self, state: pa.Table) -> None:
        seqs = state.column("seq").to_numpy()
        rows = np.searchsorted(self.seq.array, seqs).tolist()
        current = self.current.array.copy()
        self.states.restore(rows, state)
        values = state.select(["valence", "superseded_by", "metadata"]).to_pylist()
        for row, value in zip(rows, values, strict=True):
            if value["valence"]:
                self.valence[row] = value["valence"]
            if value["metadata"] is not None:
                self.metadata_updates[row] = value["metadata"]
            if value["superseded_by"]:
                current[row] = 0
                for newer in json.loads(value["superseded_by"]):
                    self.chains.add(self.rows[newer], row)
        self.current.replace(current)


@dataclass(frozen=True)
class NotesView:
    """The notes as one read sees them.

    Attributes
    ----------
    n : int
        Rows, dead ones included.
    alive, current : uint8 [n]
        Not forgotten; not forgotten and not superseded.
    created_at : int64 [n]
    domain : int32 [n]
    prefix : uint64 [n]
        First 8 bytes of the text, big-endian.
    df, declared : int64 [concepts]
        Live notes that carry a concept, and those among them that were given it.
    postings, subjects : PostingsView
        Concepts of each row, and those among them that it declares; dead rows included.
    """

    table: NoteTable
    n: int
    alive: NDArray[np.uint8]
    current: NDArray[np.uint8]
    created_at: NDArray[np.int64]
    domain: NDArray[np.int32]
    prefix: NDArray[np.uint64]
    df: NDArray[np.int64]
    declared: NDArray[np.int64]
    postings: PostingsView
    subjects: PostingsView
    states: StatesView


def metadata_of(note: str, text: str | None) -> dict[str, Any]:
    """What a note's metadata say, given as they are kept; an empty dict where there are none."""
    try:
        found = loads(text) if text else {}
    except ValueError:
        found = None
    if type(found) is not dict:  # no writer of ours made it
        raise CorruptStore("notes", f"metadata of {note!r} is no JSON object")
    return found


def text_prefixes(texts: pa.Array) -> NDArray[np.uint64]:
    """First 8 UTF-8 bytes of each text, big-endian, uint64 [n]: they order as the texts do."""
    if len(texts) < 64:
        heads = (text.encode()[:8].ljust(8, b"\0") for text in texts.to_pylist())
        return np.array([int.from_bytes(head, "big") for head in heads], np.uint64)
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    out = np.empty(len(texts), np.uint64)
    prefixes(starts, np.frombuffer(data, np.uint8), out)
    return out


def filled(values: pa.Array, default: NDArray[np.int64]) -> NDArray[np.int64]:
    """An int64 column with its nulls replaced by `default`, parallel to it."""
    known = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    out: NDArray[np.int64] = np.where(known, values.fill_null(0).to_numpy(), default)
    return out


def weights(values: pa.Array | None, n: int) -> NDArray[np.float64]:
    """The importance of each note, float64 [n], the default where it has none."""
    if values is None:
        return np.full(n, DEFAULT_IMPORTANCE)
    return np.asarray(values.fill_null(DEFAULT_IMPORTANCE).to_numpy(), np.float64)


def list_array(offsets: NDArray[np.int64], values: NDArray[np.uint32]) -> pa.Array:
    """A list<uint32> array from offsets and flat values."""
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(values.astype(np.uint32))
    )


def offsets_of(lists: pa.Array) -> NDArray[np.int64]:
    """Offsets of a list array, from 0, parallel to what ``flatten`` gives."""
    offsets = np.asarray(lists.offsets.to_numpy(), np.int64)
    return np.asarray(offsets - offsets[0], np.int64)


def mark_subjects(
    flat: NDArray[np.uint32],
    ptr: NDArray[np.int64],
    subjects: NDArray[np.uint32],
    subject_ptr: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which of each row's concepts stand among the row's subjects, bool [m]."""
    row = np.repeat(np.arange(len(ptr) - 1, dtype=np.uint64), np.diff(ptr)) << np.uint64(32)
    of = np.arange(len(subject_ptr) - 1, dtype=np.uint64)
    named = (np.repeat(of, np.diff(subject_ptr)) << np.uint64(32)) | subjects.astype(np.uint64)
    marked: NDArray[np.bool_] = np.isin(row | flat.astype(np.uint64), named)
    return marked


def buckets(ids: pa.Array) -> pa.Array:
    """uint16 of each id: the low 16 bits of xxh3-64 of its UTF-8 bytes (FORMAT.md)."""
    from xxhash import xxh3_64_intdigest

    hashes = map(xxh3_64_intdigest, ids.cast(pa.binary()).to_pylist())
    return pa.array(np.fromiter(hashes, np.uint64, len(ids)).astype(np.uint16))


def dumped(names: list[str] | None) -> str | None:
    """A list of names as JSON, None where there are none."""
    return json.dumps(names, ensure_ascii=False) if names else None
