"""Memory: the verbs. Each one checks, journals, applies; where things happen is elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastassoc import query as checks
from fastassoc.answers import Hit, Recall
from fastassoc.batch import NoteBatch
from fastassoc.concepts import fold_name
from fastassoc.control import Control
from fastassoc.embed import require_same, resolve
from fastassoc.errors import (
    AmbiguousLink,
    BatchRejected,
    DuplicateNote,
    InvalidInput,
    NoteNotFound,
    StoreError,
)
from fastassoc.fields import from_values
from fastassoc.filters import allowed_rows, check_where
from fastassoc.handle import Handle, Prepared
from fastassoc.ids import id_maker
from fastassoc.joining import tagged
from fastassoc.moving import move, with_embeddings
from fastassoc.ports import InMemory
from fastassoc.reports import Report, Written
from fastassoc.rows import from_arrow, from_dicts
from fastassoc.settings import Settings, on_grid
from fastassoc.state import State
from fastassoc.store import Store, Verification
from fastassoc.times import micros

if TYPE_CHECKING:
    from fastassoc.ingest import IngestProgress, IngestReport

__all__ = ["Memory", "open_memory", "verify_store"]

DUPLICATES = ("error", "skip", "replace")
ON_ERROR = ("raise", "reject")


class Memory(Handle):
    """An associative memory; in memory only, unless `fastassoc.open` made it.

    One memory may be used from many threads. It is a context manager that closes itself.

    Parameters
    ----------
    settings : Settings, optional
        `Settings.counts` by default.
    embedder : str, object or callable, optional
        What makes vectors of texts: a name (``"wordllama"``, ``"minilm"``), an object with
        ``name``, ``dim`` and ``embed(list of str)``, a model with ``encode``, or a callable that
        takes a list of texts and returns float32 [n, dim].
    clock : callable, optional
        Returns the time as an aware datetime; the system's by default.

    Examples
    --------
    >>> import fastassoc as fa
    >>> with fa.Memory() as mem:
    ...     nid = mem.write("Backoff fixed the flaky call.", concepts=["retry", "backoff"])
    ...     nid in mem
    True
    """

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        embedder: Any = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        check_settings(settings)
        state = State(settings or Settings.counts())
        self._setup(InMemory(), state, None, clock)
        self._use(resolve(embedder))

    # -- writing --------------------------------------------------------------------------------

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
            raise InvalidInput(
                f"rows: found {type(rows).__name__}, expected a list of mappings, an Arrow table "
                "or a data frame. To read a file, use ingest."
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
            wanted &= np.array([note not in known for note in batch.columns["id"].to_pylist()])
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
        return run(
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
                if all(note in known for note in batch.columns["id"].to_pylist()):
                    seen = Report(skipped=len(batch))
                    return seen if not self._marks(state, ledger) else (body, batch.take([]))
            return body, self._settled(state, batch, on_duplicate)

        return self._change("write", prepare, None)

    @staticmethod
    def _marks(state: State, ledger: dict[str, Any] | None) -> bool:
        """Whether the ledger must be journalled although no note is: an unfinished ingest ends."""
        return ledger is not None and ledger["final"] and ledger["key"] in state.ingests

    # -- learning -------------------------------------------------------------------------------

    def feedback(
        self,
        recall: Recall | None = None,
        *,
        asked: Sequence[str] | None = None,
        used: Sequence[str | Hit] | None = None,
        used_concepts: Sequence[str] | None = None,
        outcome: float,
        operation_id: str | None = None,
    ) -> Report:
        """Teach from an outcome: the links from what was asked to what was used grow or shrink.

        Each unordered pair of an asked and a used concept changes once, by ``outcome`` times the
        layer's step, and so does each pair of used notes where the note layer is taught. A
        negative outcome makes no link that was not there. Valences of the links and of the used
        notes move towards the outcome.

        Parameters
        ----------
        recall : Recall, optional
            The answer that is rated: its `query_concepts` were asked.
        asked : list of str, optional
            Concepts that were asked.
        used : list of str or Hit, optional
            Notes that were used: their concepts count as used. At most 1,000 where the note
            layer is taught.
        used_concepts : list of str, optional
        outcome : float
            How much it helped, in [-1, 1].
        operation_id : str, optional

        Returns
        -------
        Report
            ``updated`` notes, ``missing`` ids that are no live notes, and the links' counts.

        Raises
        ------
        InvalidInput
            The outcome is not in [-1, 1], or nothing was used.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> mem.feedback(asked=["timeout"], used_concepts=["retry"], outcome=1.0).links_created
        1
        """
        amount = checks.real(outcome, "outcome", -1.0, 1.0)
        if recall is not None and not isinstance(recall, Recall):
            raise InvalidInput(f"recall: found {type(recall).__name__}, expected what read gave.")
        names = list(recall.query_concepts) if recall is not None else []
        names += checks.list_of_names(asked, "asked") if asked is not None else ()
        ids = [] if used is None else list(dict.fromkeys(note_ids(used, "used")))
        given = (
            () if used_concepts is None else checks.list_of_names(used_concepts, "used_concepts")
        )
        if not ids and not given:
            raise InvalidInput("nothing was used: give used= (note ids) or used_concepts=.")
        body = {
            "asked": self._spelled(names),
            "names": self._spelled(given),
            "outcome": amount,
            "amount": on_grid(amount * self.settings.concept_links.teach_step),
            "together": on_grid(amount * self.settings.note_links.teach_step),
        }
        if body["together"] and len(ids) > checks.MOST_REINFORCED:
            raise InvalidInput(
                f"used: found {len(ids)} notes, expected at most {checks.MOST_REINFORCED}: every "
                "two of them would be linked."
            )
        missing: list[str] = []

        def prepare(state: State) -> Prepared | Report:
            missing.extend(note for note in ids if note not in state.notes.rows)
            body["used"] = [note for note in ids if note in state.notes.rows]
            return (body, None) if body["used"] or body["names"] else Report()

        report = self._change("feedback", prepare, operation_id)
        return replace(report, missing=missing)

    def _spelled(self, names: Sequence[str]) -> list[list[str]]:
        """Folded names with their spelling, each once, in order."""
        mode = self.settings.names
        found: dict[str, str] = {}
        for name in names:
            found.setdefault(fold_name(name, mode), name)
        return [[key, shown] for key, shown in found.items()]

    def link(
        self,
        a: str,
        b: str,
        weight: float,
        *,
        layer: str | None = None,
        operation_id: str | None = None,
    ) -> Report:
        """Add to the taught part of a link; the layer's bounds hold.

        Ids of two live notes are linked in the note layer, any other names as concepts.

        Parameters
        ----------
        a, b : str
        weight : float
            What to add; negative takes away.
        layer : {"concept", "note"}, optional
            Say it where both names are concepts and also ids of notes.
        operation_id : str, optional

        Returns
        -------
        Report

        Raises
        ------
        AmbiguousLink
            Both names are ids of live notes and names of concepts.
        NoteNotFound
            ``layer="note"``, and a name is no live note's id.
        InvalidInput
            A value cannot be taken, or a is b.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.link("timeout", "backoff", 2.0)
        >>> mem.links.weight("backoff", "timeout")
        2.0
        """
        amount = on_grid(checks.real(weight, "weight", -1e9, 1e9))
        return self._link("link", a, b, {"amount": amount}, layer, operation_id)

    def unlink(
        self, a: str, b: str, *, layer: str | None = None, operation_id: str | None = None
    ) -> Report:
        """Set a link's weight to the floor; what notes wrote stays counted.

        Parameters
        ----------
        a, b : str
        layer : {"concept", "note"}, optional
        operation_id : str, optional

        Returns
        -------
        Report
            With no link changed or removed where there is none.

        Raises
        ------
        AmbiguousLink, NoteNotFound, InvalidInput
            As in `link`.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.link("timeout", "backoff", 2.0)
        >>> mem.unlink("timeout", "backoff").links_removed
        1
        """
        return self._link("unlink", a, b, {}, layer, operation_id)

    def _link(
        self,
        kind: str,
        a: str,
        b: str,
        body: dict[str, Any],
        layer: str | None,
        operation_id: str | None,
    ) -> Report:
        checks.one_of(layer, "layer", (None, "concept", "note"))
        checks.list_of_names([a, b], "names")

        def prepare(state: State) -> Prepared:
            if layer == "note" or (layer is None and self._are_notes(state, a, b)):
                for note in (a, b):
                    if note not in state.notes.rows:
                        raise NoteNotFound(f"no live note has the id {note!r}.")
                if a == b:
                    raise InvalidInput(f"{a!r} is given twice: a link joins two notes.")
                return {"layer": "note", "a": a, "b": b, **body}, None
            spelled = self._spelled([a, b])
            if len(spelled) < 2:
                raise InvalidInput(f"{a!r} and {b!r} are one concept: a link joins two.")
            return {"layer": "concept", "a": spelled[0], "b": spelled[1], **body}, None

        return self._change(kind, prepare, operation_id)

    def _are_notes(self, state: State, a: str, b: str) -> bool:
        """Whether two names can only be ids of notes; refuse what can be both."""
        if a not in state.notes.rows or b not in state.notes.rows:
            return False
        if all(state.vocabulary.find(name) is not None for name in (a, b)):
            raise AmbiguousLink(
                f"{a!r} and {b!r} are ids of notes and names of concepts: say layer="
                '"note" or layer="concept".'
            )
        return True

    # -- keeping and fading ---------------------------------------------------------------------

    def _may_reinforce(self) -> None:
        self._usable(writing=True)

    def _reinforce(self, recall: Recall, session: str | None) -> None:
        """Strengthen what a read returned, as one operation."""
        linked = [hit.id for hit in recall if hit.source == "association"]
        direct = [hit.id for hit in recall if hit.source != "association"]

        def prepare(state: State) -> Prepared | Report:
            held = state.notes.rows
            body = {
                "direct": [note for note in direct if note in held],
                "associated": [note for note in linked if note in held],
                "session": session,
                "amount": state.settings.reinforce_step,
            }
            return (body, None) if body["direct"] or body["associated"] else Report()

        if len(recall):
            self._change("reinforce", prepare, None)

    def tick(self, now: Any = None, *, operation_id: str | None = None) -> Report:
        """Do what time asks for: notes long at the floor of their retention move to the cold tier.

        Days count, never calls: a second call at the same time does nothing, and any process may
        call it. Weights and retention need no tick; they fade by the clock.

        Parameters
        ----------
        now : datetime, str or int, optional
            The time to look at; the clock's by default. Naive times are UTC.
        operation_id : str, optional

        Returns
        -------
        Report
            ``updated`` notes moved.

        Raises
        ------
        InvalidInput
            `now` is no time.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory(settings=fa.Settings.cognitive())
        >>> nid = mem.write("Tea is hot.", created_at="2026-01-01")
        >>> mem.tick().updated, mem.tick("2040-01-01").updated, mem.get(nid).tier
        (0, 1, 'cold')
        """
        asked = None if now is None else micros(now, "now")

        def prepare(state: State) -> Prepared | Report:
            at = max(self._now(), state.time) if asked is None else asked
            return ({"now": at}, None) if len(state.due(at)) else Report()

        return self._change("tick", prepare, operation_id)

    # -- changing and forgetting ----------------------------------------------------------------

    def update(
        self, note: str, *, metadata: Mapping[str, Any], operation_id: str | None = None
    ) -> Report:
        """Replace a note's metadata; its links are not touched.

        Raises
        ------
        NoteNotFound
            No live note has this id.
        InvalidInput
            The metadata is not a JSON object.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.")
        >>> _ = mem.update(nid, metadata={"seen": True})
        >>> mem.get(nid).metadata
        {'seen': True}
        """
        reasons: dict[int, str] = {}
        text = from_values("metadata", [metadata], reasons)[0].as_py() or "{}"
        if reasons or metadata is None:
            raise InvalidInput(reasons.get(0, "metadata: found None, expected a JSON object."))

        def prepare(state: State) -> Prepared:
            if not isinstance(note, str) or note not in state.notes.rows:
                raise NoteNotFound(f"no live note has the id {note!r}.")
            return {"id": str(note), "metadata": text}, None

        return self._change("update", prepare, operation_id)

    def forget(
        self,
        notes: Sequence[str | Hit] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        operation_id: str | None = None,
    ) -> Report:
        """Forget notes: what they wrote leaves the links, what was taught stays.

        Parameters
        ----------
        notes : list of str or Hit, optional
            Ids; those that are no live notes are reported as `missing`.
        where : mapping, optional
            All notes that fit, as in `read`.
        operation_id : str, optional

        Returns
        -------
        Report

        Raises
        ------
        InvalidInput
            Neither or both of `notes` and `where` are given, or `where` is empty.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.")
        >>> mem.forget([nid]).forgotten, len(mem)
        (1, 0)
        """
        if (notes is None) == (where is None):
            raise InvalidInput("forget: give ids or where=, one of them.")
        ids = [] if notes is None else list(dict.fromkeys(note_ids(notes, "notes")))
        if where is not None and not check_where(where):
            raise InvalidInput("where: found no clause; forgetting everything must be said by ids.")
        missing: list[str] = []

        def prepare(state: State) -> Prepared | Report:
            if where is None:
                missing.extend(note for note in ids if note not in state.notes.rows)
                gone = [note for note in ids if note in state.notes.rows]
            else:
                gone = self._fitting(state, where)
            return ({"ids": gone}, None) if gone else Report()

        report = self._change("forget", prepare, operation_id)
        return replace(report, missing=missing)

    def _fitting(self, state: State, where: Mapping[str, Any]) -> list[str]:
        with self._lock:
            view = state.view()
        mask = allowed_rows(
            view.notes, domain=None, since=None, until=None, where=where, include_superseded=True
        )
        return [state.notes.ids[row] for row in mask.nonzero()[0].tolist()]

    def configure(self, *, operation_id: str | None = None, **changes: Any) -> Report:
        """Save other values of read settings, for every later open of the store.

        Parameters
        ----------
        operation_id : str, optional
        **changes
            Read fields of `Settings`. A rule's field goes by its names with an underscore:
            ``concept_threshold``, ``note_threshold``, ``retention_power``.

        Returns
        -------
        Report

        Raises
        ------
        SettingsMismatch
            A field shapes the state and is fixed.
        InvalidInput
            A field is unknown or a value out of range.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.configure(concept_threshold=3.0)
        >>> mem.settings.concept_links.threshold
        3.0
        """
        known = {
            field.replace("_links.", "_").replace(".", "_"): field
            for field in Settings.read_fields()
        }
        asked = {known.get(name, name): value for name, value in changes.items()}
        if not asked:
            raise InvalidInput(
                f"configure: name a setting: {', '.join(sorted(Settings.read_fields()))}."
            )
        mine = None if self._given is None else self._given.with_changes(asked, read_only=True)

        def prepare(state: State) -> Prepared:
            state.settings.with_changes(asked, read_only=True)
            return {"changes": asked}, None

        report = self._change("configure", prepare, operation_id)
        if not report.repeated:
            self._given = mine
        return report

    # -- the control ----------------------------------------------------------------------------

    def rebuild_links(self) -> Control:
        """Return the control: the same notes, links recomputed from them alone, for reading.

        What outcomes taught is not in it. It shows the memory of now and does not follow it.

        Returns
        -------
        Control
            It has every verb that looks.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> _ = mem.link("timeout", "backoff", 2.0)
        >>> mem.rebuild_links().links.weight("timeout", "backoff")
        0.0
        """
        with self._still() as state:
            view = state.view(text=True)
            view = replace(view, notes=state.notes.copy().view())
        return Control(view, self.settings, self._now, self._embedder)

    # -- the store ------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """Return `stats`, the settings and what the store takes on disk.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.", concepts=["tea", "hot"])
        >>> mem.info()["notes"], mem.info()["links"]
        (1, 1)
        """
        with self._lock:
            size = self._state.links.nbytes
        return {
            **self.stats(),
            "link_bytes": size,
            "settings": self.settings.to_dict(),
            **self._port.info(),
        }

    def snapshot(self) -> bool:
        """Save the state as a snapshot, so that an open need not replay the journal.

        Snapshots are taken by themselves as the journal grows. A crash leaves the old or the new.

        Returns
        -------
        bool
            False where there was nothing to save or another process is at it.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> mem.snapshot(), mem.snapshot()
        (True, False)
        >>> mem.close()
        """
        self._usable(writing=True)
        return self._store("snapshot").snapshot(self._still)

    def verify(self, *, digest: bool = False) -> Verification:
        """Check every file of the store against its hash, and the journal against its chain.

        Parameters
        ----------
        digest : bool
            Also load the store anew and give `Verification.digest`, equal in every process.

        Returns
        -------
        Verification
            ``ok``, ``problems`` (file, reason), ``files``, ``digest``.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> mem.verify().ok
        True
        >>> mem.close()
        """
        self._usable()
        return self._store("verify").verify(digest=digest)

    def vacuum(self) -> Report:
        """Erase what was forgotten from every file of the store.

        Names that no live note and no link holds go, too; those that outcomes taught stay.

        Returns
        -------
        Report
            With the names that stay although no note carries them, as `kept`.

        Raises
        ------
        VacuumIncomplete
            Readers hold the journal; run it again.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> mem.forget([nid]).forgotten
        1
        >>> mem.vacuum().kept
        []
        >>> mem.close()
        """
        self._usable(writing=True)
        store = self._store("vacuum")
        purge = partial(self._change, "purge", lambda _: ({}, None), None)
        return store.vacuum(self._still, purge)

    def backup(self, target: str | os.PathLike[str]) -> Path:
        """Copy the store to a new folder, whole and consistent, while others write.

        Parameters
        ----------
        target : path
            A folder that does not exist.

        Returns
        -------
        Path

        Raises
        ------
        StoreExists
            Something is at `target`.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> copy = mem.backup(folder + "/copy.fa")
        >>> mem.close()
        >>> with fa.open(copy) as kept:
        ...     nid in kept
        True
        """
        self._usable()
        return self._store("backup").backup(folder_of(target))

    def reembed(
        self, embedder: Any, *, progress: Callable[[int, int], None] | None = None
    ) -> Report:
        """Move the memory to another embedder, or give vectors to notes that have none.

        Texts are embedded batch by batch, each batch saved; a move that was cut off goes on
        where it stopped when it is called again. Until the last batch reads see the old vectors.
        With the embedder that the store has already, only notes without a vector get one.

        Parameters
        ----------
        embedder : str, object or callable
            As for `fastassoc.open`.
        progress : callable, optional
            Called after each batch with the notes done, and all.

        Returns
        -------
        Report
            ``updated`` notes that this call gave a vector.

        Raises
        ------
        InvalidInput
            It is no embedder, or gave something else than vectors.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.")
        >>> mem.reembed(lambda texts: [[len(text), 1.0] for text in texts]).updated
        1
        >>> mem.get(nid).vector.tolist()
        [11.0, 1.0]
        """
        target = resolve(embedder)
        if target is None:
            raise InvalidInput("embedder: found None, expected a name, an object or a callable.")
        self._usable(writing=True)
        report = move(self._view, self._change, target, progress)
        self._embedder = target
        return report

    def _store(self, verb: str) -> Store:
        if not isinstance(self._port, Store):
            raise InvalidInput(
                f"{verb}: this memory has no store: make it with fastassoc.open(path)."
            )
        return self._port

    def export_lines(self) -> Iterator[dict[str, Any]]:
        """Give the whole memory as JSON values, one a line; `import_lines` restores it.

        Raises
        ------
        ClosedHandle
            The memory is closed.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.", concepts=["tea", "hot"])
        >>> kinds = [line["kind"] for line in mem.export_lines()]
        >>> kinds[0], kinds[-1]
        ('store', 'end')
        """
        from fastassoc.transfer import export_lines

        self._view()
        with self._lock:
            return export_lines(self._state)

    def import_lines(self, lines: Any) -> Report:
        """Restore what `export_lines` gave into an empty memory, weights and times included.

        Parameters
        ----------
        lines : iterable of dict

        Returns
        -------
        Report

        Raises
        ------
        InvalidInput
            A line cannot be taken, or the memory holds other things.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.", concepts=["tea", "hot"])
        >>> other = fa.Memory()
        >>> other.import_lines(mem.export_lines()).written, other.links.weight("tea", "hot")
        (1, 1.0)
        """
        from fastassoc.transfer import pending_parts, read_export

        whole = read_export(lines)
        total = Report(repeated=True, position=self.position)
        last = not whole.parts
        while not last:
            sent: list[dict[str, Any]] = []

            def prepare(
                state: State, sent: list[dict[str, Any]] = sent
            ) -> tuple[dict[str, Any], None] | Report:
                sent.extend(pending_parts(state, whole)[:1])
                return (sent[0], None) if sent else Report()

            made = self._change("import", prepare, None)
            last = not sent or sent[0]["ingest"]["final"]
            total = Report(
                written=total.written + made.written,
                links_created=total.links_created + made.links_created,
                repeated=total.repeated and not sent,
                position=made.position,
                seconds=total.seconds + made.seconds,
            )
        held, wanted = self.settings.to_dict(), whole.settings.to_dict()
        changes = {name: value for name, value in wanted.items() if held[name] != value}
        if changes and not total.repeated:
            total = replace(total, position=self.configure(**changes).position)
        return total


def open_memory(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    settings: Settings | None = None,
    embedder: Any = None,
    sync: str = "full",
    timeout: float = 10.0,
    clock: Callable[[], datetime] | None = None,
) -> Memory:
    """Open a store, or make one.

    Parameters
    ----------
    path : path
        The store's folder.
    create : bool
        Whether to make a store where there is none.
    read_only : bool
        Open for reading only.
    settings : Settings, optional
        Those of a new store. For an existing one the state fields must be the store's; read
        fields hold for this handle.
    embedder : str, object or callable, optional
        As for `Memory`. A store remembers its embedder by name and width and refuses another; it
        opens without one, too: then text and concepts are read, and vectors wait.
    sync : {"full", "normal", "off"}
        What a returned call means: it is on disk; in the journal, surviving a kill; the same
        without any sync, for loads that can be repeated.
    timeout : float
        Seconds to wait for another process that writes.
    clock : callable, optional
        Returns the time as an aware datetime.

    Returns
    -------
    Memory

    Raises
    ------
    StoreNotFound
        There is none, and `create` is false or `read_only` true.
    SettingsMismatch
        The store was made with other settings.
    EmbedderMismatch
        The store's vectors come from another embedder.
    CorruptStore, FormatTooNew, ReadOnlyStore, StoreLocked
        The store cannot be opened; the message says why.

    Examples
    --------
    >>> import tempfile, fastassoc as fa
    >>> folder = tempfile.mkdtemp()
    >>> with fa.open(folder + "/m.fa") as mem:
    ...     nid = mem.write("Tea is hot.")
    >>> with fa.open(folder + "/m.fa") as mem:
    ...     nid in mem
    True
    """
    check_settings(settings)
    found = resolve(embedder)
    checks.one_of(sync, "sync", ("full", "normal", "off"))
    wait = checks.real(timeout, "timeout", 0.0, 1e6)
    for name, value in (("create", create), ("read_only", read_only)):
        if not isinstance(value, bool):
            raise InvalidInput(f"{name}: found {value!r}, expected True or False.")
    folder = folder_of(path)
    memory = Memory.__new__(Memory)
    memory._clock = clock
    try:
        port, state = Store.open(
            folder,
            create=create and not read_only,
            read_only=read_only,
            settings=settings,
            sync=sync,
            timeout=wait,
            now=memory._now,
        )
    except OSError as error:
        raise StoreError(f"{folder}: the store cannot be opened ({error.strerror}).") from error
    try:
        if settings is not None:
            state.settings.require_same_state(settings)
        memory._setup(port, state, settings, clock)
        memory._use(found)
    except BaseException:
        port.close()
        raise
    return memory


def folder_of(path: object) -> Path:
    """The path of a folder; refuse what is none."""
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, str) and text.strip() and "\0" not in text:
            checks.text(text, "path")
            return Path(text)
    raise InvalidInput(f"path: found {path!r}, expected the path of a folder.")


def verify_store(
    path: str | os.PathLike[str], *, digest: bool = False, timeout: float = 10.0
) -> Verification:
    """Check every file of a store that may be too damaged to open.

    As `Memory.verify`, and it goes on after the first damaged file.

    Parameters
    ----------
    path : path
        The store's folder.
    digest : bool
        Also load the store and give `Verification.digest`.
    timeout : float
        Seconds to wait for a snapshot that another process takes.

    Returns
    -------
    Verification
        ``ok``, ``problems`` (file, reason), ``files``, ``position``, ``digest``.

    Raises
    ------
    StoreNotFound
        There is none.

    Examples
    --------
    >>> import tempfile, fastassoc as fa
    >>> folder = tempfile.mkdtemp()
    >>> with fa.open(folder + "/m.fa") as mem:
    ...     nid = mem.write("Tea is hot.")
    >>> fa.verify(folder + "/m.fa").ok
    True
    """
    wait = checks.real(timeout, "timeout", 0.0, 1e6)
    return Store.verified(folder_of(path), digest=digest, timeout=wait)


def check_settings(settings: object) -> None:
    """Refuse what is no Settings."""
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidInput(f"settings: found {settings!r}, expected fastassoc.Settings(...).")


def repeated_ids(batch: NoteBatch, state: State) -> list[tuple[int, str]]:
    """Places and ids of rows whose id exists, or came before in the batch."""
    seen: set[str] = set()
    twice = []
    for place, note in enumerate(batch.columns["id"].to_pylist()):
        if note in state.notes.rows or note in seen:
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


def note_ids(notes: Any, name: str) -> list[str]:
    """Ids from a list of ids or hits."""
    if isinstance(notes, (str, bytes)) or not hasattr(notes, "__iter__"):
        raise InvalidInput(f"{name}: found {notes!r}, expected a list of note ids or hits.")
    found = []
    for one in notes:
        note = one.id if isinstance(one, Hit) else one
        if not isinstance(note, str):
            raise InvalidInput(f"{name}: found {one!r} in the list, expected note ids or hits.")
        found.append(str(note))
    return found
