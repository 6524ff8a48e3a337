"""The verbs that bring notes in: one, a batch, or all that a source holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastassoc import query as checks
from fastassoc.batch import NoteBatch
from fastassoc.embed import require_same
from fastassoc.errors import BatchRejected, DuplicateNote, InvalidInput
from fastassoc.handle import Handle, Prepared
from fastassoc.ids import id_maker
from fastassoc.joining import tagged
from fastassoc.moving import with_embeddings
from fastassoc.reports import Report, Written
from fastassoc.rows import from_arrow, from_dicts
from fastassoc.state import State

if TYPE_CHECKING:
    from fastassoc.ingest import IngestProgress, IngestReport

__all__ = ["Writing"]

DUPLICATES = ("error", "skip", "replace")
ON_ERROR = ("raise", "reject")


class Writing(Handle):
    """The verbs that bring notes in."""

    def write(
        self,
        text: str,
        *,
        concepts: Sequence[str] | None = None,
        subjects: Sequence[str] | None = None,
        vector: Any = None,
        id: str | None = None,
        domain: str | None = None,
        created_at: Any = None,
        metadata: Mapping[str, Any] | None = None,
        session: str | None = None,
        importance: float | None = None,
        category: str | None = None,
        fingerprint: str | None = None,
        external_ref: str | None = None,
        author: str | None = None,
        supersedes: Sequence[str] | None = None,
        operation_id: str | None = None,
    ) -> Written:
        """Store a note; each pair of its concepts is linked, or its link grows.

        With a session it is linked to earlier notes of that session, as the settings say.

        Parameters
        ----------
        text : str
        concepts : list of str, optional
            Names, at most 256; None extracts them from the text, an empty list means none.
        subjects : list of str, optional
            What the note is about, such as a title; these are concepts of it too.
        vector : array of float32 [dim], or list of float, optional
            The note as a point; as wide as all others of the store. Without it the embedder
            makes one of the text, if the memory has an embedder.
        id : str, optional
            An id of yours; a UUID (version 7) otherwise.
        domain : str, optional
            A label to filter by; ``general`` by default.
        created_at : datetime, str or int, optional
            For filters and `recent`; now by default. Naive times are UTC; a whole number is
            microseconds (not seconds) since 1970.
        metadata : mapping, optional
            A JSON object.
        session, fingerprint, external_ref, author : str, optional
        category : str, optional
            ``"episodic"``, ``"semantic"``, ``"procedural"`` and ``"core"`` say how it fades; any
            other fades as episodic.
        importance : float, optional
            In [0, 1]; 0.5 by default.
        supersedes : list of str, optional
            Ids of notes that this one replaces: they leave default reads. Ids of no live note
            written before are told as the report's `missing`.
        operation_id : str, optional
            A repeat with the same id changes nothing and says so.

        Returns
        -------
        Written
            The id, a str; its `report` says what changed.

        Raises
        ------
        DuplicateNote
            The id exists.
        InvalidInput
            A value cannot be taken.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Coffee with milk.", concepts=["coffee", "milk"], id="n1")
        >>> nid, nid.report.links_created
        ('n1', 1)
        """
        row = {
            "text": text,
            "concepts": concepts,
            "subjects": subjects,
            "vector": vector,
            "id": id,
            "domain": domain,
            "created_at": created_at,
            "metadata": metadata,
            "session": session,
            "importance": importance,
            "category": category,
            "fingerprint": fingerprint,
            "external_ref": external_ref,
            "author": author,
            "supersedes": supersedes,
        }
        self._usable(writing=True)
        if text is None:  # of a row it means that there is none
            raise InvalidInput("text: found None, expected a str.")
        batch, _, refused = from_dicts([row], self.settings, id_maker(operation_id), self._width)
        if refused:
            raise InvalidInput(refused[0][1])
        batch = self._embedded(batch)
        note = batch.columns["id"][0].as_py()

        def prepare(state: State) -> Prepared:
            if note in state.notes.rows:
                raise DuplicateNote(
                    f"a note with the id {note!r} exists: choose another id, or use write_batch "
                    'with on_duplicate="replace" or "skip".'
                )
            return {"on_duplicate": "error"}, self._settled(state, batch, "error")

        report = self._change("write", prepare, operation_id)
        # a repeat names the note that the first call wrote, where the journal still tells it
        return Written(report.ids[0] if report.repeated and report.ids else note, report)

    def write_batch(
        self,
        rows: Any,
        *,
        on_duplicate: str = "error",
        on_error: str = "raise",
        operation_id: str | None = None,
    ) -> Report:
        """Store many notes as one operation: all of it is saved, or nothing.

        Parameters
        ----------
        rows : iterable of mappings, or an Arrow table or stream, or a data frame
            Fields as in `write`.
        on_duplicate : {"error", "skip", "replace"}
            What to do with a row whose id exists, or comes twice in the batch. ``"replace"``
            forgets the old note and writes the new one, atomically.
        on_error : {"raise", "reject"}
            Whether one bad row refuses the batch, or is left out and reported.
        operation_id : str, optional
            A repeat with the same id changes nothing and says so.

        Returns
        -------
        Report

        Raises
        ------
        BatchRejected
            A row is bad; the message names it, and nothing was stored.
        DuplicateNote
            An id exists; nothing was stored.
        InvalidInput
            An option cannot be taken.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> report = mem.write_batch([{"text": "a", "id": "1"}, {"text": "b", "id": "2"}])
        >>> report.written, report.ids
        (2, ['1', '2'])
        """
        checks.one_of(on_duplicate, "on_duplicate", DUPLICATES)
        checks.one_of(on_error, "on_error", ON_ERROR)
        self._usable(writing=True)
        batch, numbers, refused = self._resolve(rows, operation_id)
        if refused and on_error == "raise":
            raise BatchRejected(refused)
        batch = self._embedded(batch, skip=on_duplicate == "skip")

        def prepare(state: State) -> Prepared | Report:
            kept, bad = batch, list(refused)
            if on_duplicate == "error":
                twice = repeated_ids(batch, state)
                if twice and on_error == "raise":
                    place, note = twice[0]
                    raise DuplicateNote(
                        f"row {numbers[place]}: a note with the id {note!r} exists. Nothing of "
                        'the batch was stored; pass on_duplicate="skip" or "replace".'
                    )
                if twice:
                    gone = {place for place, _ in twice}
                    kept = batch.take([n for n in range(len(batch)) if n not in gone])
                    bad += [
                        (numbers[n], f"a note with the id {note!r} exists") for n, note in twice
                    ]
            reasons.extend(sorted(bad))
            if not len(kept):
                return Report()
            return {"on_duplicate": on_duplicate}, self._settled(state, kept, on_duplicate)

        reasons: list[tuple[int, str]] = []
        report = self._change("write", prepare, operation_id)
        return replace(report, rejected=len(reasons), reasons=reasons)

    def _resolve(
        self, rows: Any, operation_id: str | None
    ) -> tuple[NoteBatch, list[int], list[tuple[int, str]]]:
        """Rows of any kind that `write_batch` takes, resolved."""
        new_id = id_maker(operation_id)
        table = as_table(rows)
        if table is not None:
            return from_arrow(table, self.settings, new_id, self._width)
        if isinstance(rows, (str, bytes, Mapping)) or not hasattr(rows, "__iter__"):
            file = " To read a file, use ingest." if isinstance(rows, (str, bytes)) else ""
            raise InvalidInput(
                f"rows: found {type(rows).__name__}, expected a list of mappings, an Arrow table "
                f"or a data frame.{file}"
            )
        return from_dicts(list(rows), self.settings, new_id, self._width)

    @property
    def _width(self) -> int | None:
        """The width that a vector must have, None while any will do."""
        return self._state.space.dim

    def _embedded(self, batch: NoteBatch, *, skip: bool = False) -> NoteBatch:
        """The batch with vectors, made of the texts, for notes that came without one.

        `skip` leaves out notes whose ids exist: they will not be written.
        """
        if self._embedder is None or not len(batch):
            return batch
        require_same(self._state.space.embedder, self._embedder)
        _, held = batch.vector_matrix()
        wanted = np.ones(len(batch), np.bool_)
        wanted[held] = False
        if skip:
            known = self._state.notes.rows
            wanted &= np.array([note not in known for note in batch.ids])
        return with_embeddings(batch, np.flatnonzero(wanted), self._embedder)

    def _settled(self, state: State, batch: NoteBatch, on_duplicate: str) -> NoteBatch:
        """The batch as it is journalled, checked against the store as it is now."""
        if batch.dim is not None:
            if self._embedder is not None:
                require_same(state.space.embedder, self._embedder)
            dim = state.space.dim
            if dim is not None and batch.dim != dim:
                raise InvalidInput(
                    f"vector: found {batch.dim} numbers, expected {dim}, as the store's vectors "
                    "have. Nothing was stored."
                )
        return tagged(state, batch, on_duplicate)

    def ingest(
        self,
        source: Any,
        *,
        columns: Mapping[str, str | None] | None = None,
        format: str | None = None,
        metadata_columns: Sequence[str] | str | None = None,
        list_separator: str | None = None,
        delimiter: str | None = None,
        batch_rows: int | None = None,
        on_duplicate: str = "skip",
        on_error: str = "reject",
        max_rejects: float = 0.01,
        rejects_file: str | os.PathLike[str] | None = None,
        progress: Callable[[IngestProgress], None] | None = None,
    ) -> IngestReport:
        """Store all that a source holds, batch by batch, in bounded memory.

        Rows without an id get one from their content, so that repeating an ingest changes
        nothing. An ingest of files that was cut off goes on where it stopped when it is called
        again, and ends as if it had not been cut off. `fastassoc.plan` looks before it leaps.

        Parameters
        ----------
        source : path, list of paths, ``"-"``, open file, iterable of mappings, or Arrow data
            JSON lines, CSV, Parquet or Arrow files (``*`` for many), standard input, or anything
            with ``__arrow_c_stream__``, data frames among them.
        columns : mapping, optional
            Which of its columns gives which field: ``{"text": "body", "id": "doc_id"}``. Whole
            numbers for ``created_at`` are microseconds (not seconds) since 1970.
        format : {"jsonl", "csv", "parquet", "arrow"}, optional
            Guessed from the name otherwise.
        metadata_columns : list of str or "rest", optional
            Columns that go into the metadata.
        list_separator : str, optional
            What parts names in a text (";"). A text in a column that `columns` names for the
            concepts or subjects, such as a title, is one name unless this is given.
        delimiter : str, optional
            What parts fields in CSV.
        batch_rows : int, optional
            The most rows of one batch, which is one operation.
        on_duplicate : {"skip", "replace", "error"}
            What to do with a row whose id exists.
        on_error : {"reject", "raise"}
            Whether a bad row is left out and reported, or stops the ingest.
        max_rejects : float
            Stop when more than this share of the rows is bad.
        rejects_file : path, optional
            Where bad rows go, with reasons; in the store's folder ``rejects`` otherwise.
        progress : callable, optional
            Called with an `IngestProgress` after each batch.

        Returns
        -------
        IngestReport

        Raises
        ------
        TooManyRejects
            More than `max_rejects` of the rows are bad; what was committed stays.
        InvalidInput
            The source or an option cannot be taken.
        IngestInterrupted
            The user stopped it; the same call goes on.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> rows = [{"text": "Tea is hot.", "concepts": ["tea"]}]
        >>> mem.ingest(rows).written, mem.ingest(rows).written
        (1, 0)
        """
        from fastassoc.batches import BATCH_ROWS
        from fastassoc.ingest import run

        self._usable(writing=True)
        report = run(
            lambda batch, ledger: self._commit_batch(batch, ledger, on_duplicate),
            source,
            settings=self.settings,
            width=self._width,
            columns=columns,
            format=format,
            metadata_columns=metadata_columns,
            list_separator=list_separator,
            delimiter=delimiter,
            batch_rows=BATCH_ROWS if batch_rows is None else batch_rows,
            on_duplicate=on_duplicate,
            on_error=on_error,
            max_rejects=max_rejects,
            rejects_file=self._rejects_file() if rejects_file is None else rejects_file,
            progress=progress,
            resume_state=self._unfinished,
        )
        report.position = report.position or self.position  # 0 where no batch came
        return report

    def _rejects_file(self) -> Callable[[str | None], Path] | None:
        """Where the bad rows of an ingest go unless the caller says, by the ingest's key."""
        if self.path is None:
            return None
        folder = self.path / "rejects"
        return lambda key: folder / f"{key or 'stream'}.jsonl"

    def _unfinished(self, key: str) -> dict[str, Any] | None:
        """The ledger of an ingest that was cut off."""
        self._view()
        return self._state.ingests.get(key)

    def _commit_batch(
        self, batch: NoteBatch, ledger: dict[str, Any] | None, on_duplicate: str
    ) -> Report:
        """Save one batch of an ingest with its place in the ledger, as one operation."""
        batch = self._embedded(batch, skip=on_duplicate == "skip")

        def prepare(state: State) -> Prepared | Report:
            body: dict[str, Any] = {"on_duplicate": on_duplicate}
            if ledger is not None:
                body["ingest"] = ledger
            if on_duplicate == "error":
                twice = repeated_ids(batch, state)
                if twice:
                    raise DuplicateNote(
                        f"a note with the id {twice[0][1]!r} exists. What was committed before "
                        'stays; pass on_duplicate="skip" or "replace".'
                    )
            elif on_duplicate == "skip":
                # a batch that holds nothing new is not worth an operation
                known = state.notes.rows
                if all(note in known for note in batch.ids):
                    seen = Report(skipped=len(batch))
                    return seen if not self._marks(state, ledger) else (body, batch.take([]))
            return body, self._settled(state, batch, on_duplicate)

        return self._change("write", prepare, None)

    @staticmethod
    def _marks(state: State, ledger: dict[str, Any] | None) -> bool:
        """Whether the ledger must be journalled although no note is: an unfinished ingest ends."""
        return ledger is not None and ledger["final"] and ledger["key"] in state.ingests


def repeated_ids(batch: NoteBatch, state: State) -> list[tuple[int, str]]:
    """Places and ids of rows whose id exists, or came before in the batch."""
    ids, known = batch.ids, state.notes.rows
    if len(set(ids)) == len(ids) and known.keys().isdisjoint(ids):
        return []
    seen: set[str] = set()
    twice = []
    for place, note in enumerate(ids):
        if note in known or note in seen:
            twice.append((place, note))
        seen.add(note)
    return twice


def as_table(rows: Any) -> pa.Table | None:
    """Rows that come as Arrow data or as a data frame, as a table; None for other rows."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    return None
