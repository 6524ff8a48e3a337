"""Bulk: sources read batch by batch, checked, committed; progress, resume, rejects."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from fastassoc.batch import NoteBatch
from fastassoc.batches import (
    BATCH_BYTES,
    BATCH_ROWS,
    Batch,
    batches,
    checked,
    ingest_key,
    opened,
    parts,
)
from fastassoc.dryrun import IngestPlan, SourcePlan, plan
from fastassoc.errors import BatchRejected, InvalidInput, TooManyRejects
from fastassoc.mapping import Fields
from fastassoc.parts import Part
from fastassoc.plural import count
from fastassoc.rejects import Rejects
from fastassoc.reports import Report
from fastassoc.rows import Checked, ContentIds, from_dicts
from fastassoc.settings import Settings
from fastassoc.sources import sources

__all__ = [
    "IngestInterrupted",
    "IngestPlan",
    "IngestProgress",
    "IngestReport",
    "SourcePlan",
    "plan",
    "run",
    "sources",
]

CHECK_FROM = 1_000  # rows from which on the share of rejects counts
SHOWN = 20  # reasons that a report lists

DUPLICATES = ("skip", "replace", "error")
ERRORS = ("reject", "raise")
Ledger = dict[str, Any]
T = TypeVar("T")
Commit = Callable[[NoteBatch, "Ledger | None"], Report]


class IngestInterrupted(KeyboardInterrupt):
    """The user stopped an ingest; what was committed stays, the same call continues it.

    Attributes
    ----------
    report : IngestReport
    """

    def __init__(self, report: IngestReport) -> None:
        self.report = report
        super().__init__(
            f"stopped after {count(report.rows, 'row')}; the same call continues from there."
        )


@dataclass(kw_only=True, slots=True)
class IngestReport(Report):
    """What an ingest did; `reasons` holds the first rejects only, all are in the file.

    Attributes
    ----------
    rows : int
        Rows read, good or not, those of an earlier part among them.
    batches : int
        Batches that this call committed.
    resumed_rows : int
        Rows that an earlier, interrupted call had done.
    rejects_file : str or None
        Where the rejects are, if there are any.
    interrupted : bool
        Whether the user stopped it.
    """

    rows: int = 0
    batches: int = 0
    resumed_rows: int = 0
    rejects_file: str | None = None
    interrupted: bool = False


class IngestProgress(NamedTuple):
    """How far an ingest is; `total` and `time_left` (seconds) are None where nobody can know."""

    rows: int
    total: int | None
    written: int
    skipped: int
    rejected: int
    links_created: int
    seconds: float
    rate: float
    time_left: float | None


# -- the ingest -----------------------------------------------------------------------------------


def run(
    commit: Commit,
    source: Any,
    *,
    settings: Settings,
    columns: Mapping[str, str | None] | None = None,
    format: str | None = None,
    metadata_columns: Sequence[str] | str | None = None,
    list_separator: str | None = None,
    delimiter: str | None = None,
    batch_rows: int = BATCH_ROWS,
    on_duplicate: str = "skip",
    on_error: str = "reject",
    max_rejects: float = 0.01,
    rejects_file: str | os.PathLike[str] | Callable[[str | None], Path] | None = None,
    progress: Callable[[IngestProgress], None] | None = None,
    resume_state: Callable[[str], Mapping[str, Any] | None] | None = None,
    width: int | None = None,
) -> IngestReport:
    """Read a source batch by batch, check it, and give the good rows to `commit`.

    Rows without an id get a UUIDv5 of their content and its occurrence in the input, so that a
    repeated ingest changes nothing. A source of files that was interrupted is continued after the
    last batch that was committed. Ctrl-C waits for the batch that is being committed; a second one
    does not.

    Parameters
    ----------
    commit : callable
        Called as ``commit(batch, ledger)`` for each batch, one durable operation each; the ledger
        ``{"key", "batch", "rows_done", "rejected", "final"}`` is saved with it. It is None where a
        source is no file. The last batch of all may be empty.
    source, format, delimiter
        As in `sources`.
    settings : Settings
    columns, metadata_columns, list_separator
        Which column gives which field: as in `Fields`.
    batch_rows : int
        The most rows of one batch; one of 32 MiB is cut, too.
    on_duplicate : {"skip", "replace", "error"}
        Carried out by `commit`.
    on_error : {"reject", "raise"}
        Whether a bad row is left out, or stops the ingest before its batch.
    max_rejects : float
        Stop when a larger share of the rows seen is bad; looked at from 1,000 rows on, and at the
        end.
    rejects_file : path, callable or None
        Bad rows are appended to it, each with its number and reason, as JSON lines. A callable
        gives it for the key of the ingest (None where a source is no file).
    progress : callable or None
        Called with an IngestProgress after each batch.
    resume_state : callable or None
        Gives the last ledger of an unfinished ingest with this key, if there is one.
    width : int or None
        How many numbers a vector has; None: as many as the first one with nothing wrong.

    Returns
    -------
    IngestReport

    Raises
    ------
    InvalidInput
        There is no such source, it is damaged, or no column gives the text.
    BatchRejected
        A bad row, with ``on_error="raise"``; its number counts from the first row of all.
    TooManyRejects
        What was committed stays.
    IngestInterrupted
        The user stopped it; a KeyboardInterrupt.
    """
    _check_options(batch_rows, on_duplicate, on_error, max_rejects)
    fields = Fields(columns, metadata_columns, list_separator)
    found = opened(source, format, delimiter, fields)
    key = ingest_key(found, fields, [format, delimiter, on_duplicate])
    earlier = resume_state(key) if resume_state is not None and key is not None else None
    path = rejects_file(key) if callable(rejects_file) else rejects_file
    done = int(earlier["rows_done"]) if earlier else 0
    one = _Run(commit, settings, fields, key)
    one.width = width
    one.max_rejects, one.on_error, one.progress = max_rejects, on_error, progress
    one.start(earlier or {}, Rejects(None if path is None else Path(path), key, done))
    totals = [source.rows for source in found]
    one.total = None if None in totals else sum(total or 0 for total in totals)
    with _Interrupts() as stop:
        rows = one.skipped(parts(found, fields), done)
        return one.all(batches(rows, batch_rows, BATCH_BYTES, done), stop)


def _check_options(rows: int, on_duplicate: str, on_error: str, max_rejects: float) -> None:
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InvalidInput(f"batch_rows: found {rows!r}, expected a whole number from 1.")
    for name, value, known in (
        ("on_duplicate", on_duplicate, DUPLICATES),
        ("on_error", on_error, ERRORS),
    ):
        if value not in known:
            raise InvalidInput(f"{name}: found {value!r}, expected one of {', '.join(known)}.")
    if not isinstance(max_rejects, (int, float)) or not 0.0 <= max_rejects <= 1.0:
        raise InvalidInput(f"max_rejects: found {max_rejects!r}, expected a share from 0 to 1.")


class _Run:
    """One ingest while it goes on."""

    def __init__(
        self,
        commit: Commit,
        settings: Settings,
        fields: Fields,
        key: str | None,
    ) -> None:
        self._commit, self._settings, self._fields, self._key = commit, settings, fields, key
        self.max_rejects, self.on_error = 0.01, "reject"
        self.width: int | None = None
        self.progress: Callable[[IngestProgress], None] | None = None
        self._ids = ContentIds()
        self._begun = time.perf_counter()
        self._counts = dict.fromkeys(
            (
                "written",
                "skipped",
                "replaced",
                "links_created",
                "links_changed",
                "links_removed",
                "cues_changed",
            ),
            0,
        )
        self._reasons: list[tuple[int, str]] = []
        self._batches = self._position = 0
        self._share = self._share_begun = 0.0
        self.total: int | None = None

    def start(self, earlier: Mapping[str, Any], rejects: Rejects) -> None:
        """Take up where an earlier call was interrupted."""
        self._resumed = self._rows = int(earlier.get("rows_done", 0))
        self._rejected = int(earlier.get("rejected", 0))
        self._number = int(earlier.get("batch", -1)) + 1
        self._rejects = rejects

    def skipped(
        self, given: Iterator[tuple[Part, float]], rows: int
    ) -> Iterator[tuple[Part, float]]:
        """The parts after these rows; what came before only counts its occurrences."""
        settings = replace(self._settings, extract=False)
        for whole, share in given:
            part = whole
            if rows:
                head, part = part.cut(min(rows, len(part)))
                rows -= len(head)
                if self._nameless(head):
                    earlier = Batch([head], 0, len(head), 0.0)
                    checked(earlier, self._fields, settings, self._ids, self.width)
                self._share_begun = share
            if len(part):
                yield part, share

    def _nameless(self, part: Part) -> bool:
        """Whether a row may lack an id."""
        column = dict(self._fields.pairs).get("id")
        if part.table is None:
            return not all(isinstance(r, Mapping) and r.get(column) is not None for r in part.rows)
        return column not in part.table.column_names or part.table.column(column).null_count > 0

    def all(self, cut: Iterator[Batch], stop: _Interrupts) -> IngestReport:
        """Commit every batch; one is read ahead, since the last one must say so."""
        steps = self._checked(cut)
        try:
            # a stream may wait for ever, and rows may come from the caller's own code
            for batch, found, final in steps if self._key is None else ahead(steps):
                self._check_stop(stop)
                self._one(batch, found, final, stop)
        except IngestInterrupted:
            raise
        except KeyboardInterrupt:
            raise IngestInterrupted(self.report(interrupted=True)) from None
        if self._resumed and not self._batches:
            self._save(_empty(), True)
        return self.report()

    def _checked(self, cut: Iterator[Batch]) -> Iterator[tuple[Batch, Checked, bool]]:
        """Each batch with what is good of it, and whether it is the last."""
        batch = next(cut, None)
        while batch is not None:
            found = checked(batch, self._fields, self._settings, self._ids, self.width)
            if self.width is None:
                self.width = found[0].dim
            following = next(cut, None)
            yield batch, found, following is None
            batch = following

    def _check_stop(self, stop: _Interrupts) -> None:
        if stop.asked:
            raise IngestInterrupted(self.report(interrupted=True))

    def _one(self, batch: Batch, found: Checked, final: bool, stop: _Interrupts) -> None:
        notes, _, rejects = found
        numbered = [(batch.first + row, reason) for row, reason in rejects]
        if numbered and self.on_error == "raise":
            raise BatchRejected(numbered)
        self._reasons += numbered[: SHOWN - len(self._reasons)]
        self._rejects.write(batch, rejects)
        rows, rejected = batch.first + batch.rows, self._rejected + len(rejects)
        if rejected > self.max_rejects * rows and (rows >= CHECK_FROM or final):
            raise TooManyRejects(
                f"refused {rejected:,} of {count(rows, 'row')}, more than max_rejects="
                f"{self.max_rejects:g} allows; the first: row {self._reasons[0][0]}: "
                f"{self._reasons[0][1]} What was committed before stays.",
                self.report(rows=rows, rejected=rejected),
            )
        self._rows, self._rejected, self._share = rows, rejected, batch.share
        if len(notes) or self._key is not None:
            with stop.held():
                self._save(notes, final)
        if self.progress is not None:
            self.progress(self._state())

    def _save(self, notes: NoteBatch, final: bool) -> None:
        ledger = None
        if self._key is not None:
            ledger = {"key": self._key, "batch": self._number, "rows_done": self._rows}
            ledger |= {"rejected": self._rejected, "final": final}
        report = self._commit(notes, ledger)
        for name in self._counts:
            self._counts[name] += getattr(report, name)
        self._position = report.position
        self._number += 1
        self._batches += 1

    def _state(self) -> IngestProgress:
        seconds = max(1e-9, time.perf_counter() - self._begun)
        rate = (self._rows - self._resumed) / seconds
        left = None
        if self.total is not None:
            left = max(0.0, (self.total - self._rows) / rate) if rate > 0 else None
        elif self._share > self._share_begun:
            left = seconds * (1.0 - self._share) / (self._share - self._share_begun)
        counts = self._counts
        return IngestProgress(
            rows=self._rows,
            total=self.total,
            written=counts["written"],
            skipped=counts["skipped"],
            rejected=self._rejected,
            links_created=counts["links_created"],
            seconds=seconds,
            rate=rate,
            time_left=left,
        )

    def report(self, *, interrupted: bool = False, **changes: Any) -> IngestReport:
        """What was done so far."""
        path = self._rejects.path if self._rejects.written else None
        held: dict[str, Any] = {"rows": self._rows, "rejected": self._rejected, **self._counts}
        return IngestReport(
            **{**held, **changes},
            reasons=list(self._reasons),
            position=self._position,
            seconds=time.perf_counter() - self._begun,
            batches=self._batches,
            resumed_rows=self._resumed,
            rejects_file=None if path is None else str(path),
            interrupted=interrupted,
        )


def ahead(steps: Iterator[T]) -> Iterator[T]:
    """The same steps, each made by another thread while the one before is worked on."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, steps, None)
        while (step := following.result()) is not None:
            following = pool.submit(next, steps, None)
            yield step


def _empty() -> NoteBatch:
    return from_dicts([], Settings(extract=False))[0]


class _Interrupts:
    """While it is entered, Ctrl-C during a commit waits for its end; a second one does not."""

    def __init__(self) -> None:
        self.asked = False
        self._held = False
        self._old: Any = None

    def __enter__(self) -> _Interrupts:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._old = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked or not self._held:
            raise KeyboardInterrupt
        self.asked = True

    def held(self) -> _Held:
        """A block that the first Ctrl-C does not break."""
        return _Held(self)


class _Held:
    def __init__(self, owner: _Interrupts) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._owner._held = True

    def __exit__(self, *_: object) -> None:
        self._owner._held = False
