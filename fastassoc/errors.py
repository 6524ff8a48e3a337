"""The one family of errors: every message says what was found, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fastassoc.plural import count

__all__ = [
    "AmbiguousLink",
    "BatchRejected",
    "ClosedHandle",
    "CorruptStore",
    "DuplicateNote",
    "EmbedderMismatch",
    "FastAssocError",
    "ForkedHandle",
    "FormatTooNew",
    "InvalidInput",
    "NoteNotFound",
    "OutcomeUnknown",
    "ReadOnlyStore",
    "SettingsMismatch",
    "StoreError",
    "StoreExists",
    "StoreLocked",
    "StoreNotFound",
    "TooManyRejects",
    "VacuumIncomplete",
]


class FastAssocError(Exception):
    """Base of every error that fastassoc raises on purpose."""


class InvalidInput(FastAssocError, ValueError):
    """A value that cannot be taken; nothing was changed."""


class BatchRejected(InvalidInput):
    """A batch with at least one bad row; nothing of it was stored.

    Attributes
    ----------
    rejected : list of (int, str)
        Row numbers, from 0, with the reason for each.
    """

    def __init__(self, rejected: Sequence[tuple[int, str]]) -> None:
        self.rejected = list(rejected)
        row, reason = self.rejected[0]
        others = len(self.rejected) - 1
        more = f" ({count(others, 'more bad row')})" if others else ""
        super().__init__(
            f"row {row}: {reason.rstrip('.')}{more}. Nothing of the batch was stored; "
            'mend the rows, or pass on_error="reject" to store the good ones.'
        )


class DuplicateNote(InvalidInput):
    """A note with this id exists."""


class AmbiguousLink(InvalidInput):
    """Both names are ids of live notes and names of concepts; say which layer is meant."""


class SettingsMismatch(InvalidInput):
    """The store was made with other settings that shape its state.

    Attributes
    ----------
    fields : list of str
        The fields that differ.
    """

    def __init__(self, message: str, fields: Sequence[str]) -> None:
        self.fields = list(fields)
        super().__init__(message)


class EmbedderMismatch(InvalidInput):
    """The store's vectors come from another embedder."""


class NoteNotFound(FastAssocError, KeyError):
    """No live note has this id."""

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0]) if self.args else ""


class ClosedHandle(FastAssocError, ValueError):
    """The handle was closed, or broke; open the store again."""


class ForkedHandle(FastAssocError):
    """The process forked after the store was opened; open it again in the child."""


class TooManyRejects(FastAssocError):
    """An ingest refused more rows than `max_rejects` allows; what was committed stays.

    Attributes
    ----------
    report : object
        The ingest's report up to the stop.
    """

    def __init__(self, message: str, report: object = None) -> None:
        self.report = report
        super().__init__(message)


class StoreError(FastAssocError):
    """Base of what can go wrong with a store on disk."""


class StoreNotFound(StoreError, KeyError):
    """There is no store at this path."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StoreExists(StoreError):
    """Something is at this path already."""


class ReadOnlyStore(StoreError):
    """The store is open for reading only, or its medium cannot be written."""


class CorruptStore(StoreError):
    """A file of the store is damaged or missing; no answer is given from it.

    Attributes
    ----------
    file : str
        The file, relative to the store where it lies in it.
    reason : str
        What is wrong with it.
    """

    def __init__(self, file: str | Path, reason: str) -> None:
        self.file = str(file)
        self.reason = reason
        super().__init__(
            f"{self.file}: {reason}. The store is damaged: run `fastassoc verify` for the whole "
            "picture and restore a backup; `fastassoc repair` salvages what is left."
        )


class FormatTooNew(StoreError):
    """The store was written by a newer version."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the store has format {found}, this version reads formats up to {known}: "
            "install a newer fastassoc."
        )


class StoreLocked(StoreError):
    """Another process held the write lock for longer than `timeout`.

    Attributes
    ----------
    waited : float
        Seconds waited.
    holder : int or None
        Process id of the holder, where the system tells it.
    """

    def __init__(self, waited: float, holder: int | None) -> None:
        self.waited = waited
        self.holder = holder
        who = f"process {holder}" if holder is not None else "another process"
        super().__init__(
            f"the store is being written by {who}; waited {waited:.1f} s for it. "
            "Nothing was changed: try again, or pass a longer timeout."
        )


class OutcomeUnknown(StoreError):
    """The disk failed while an operation was being saved; it may or may not be there.

    Attributes
    ----------
    operation_id : str
        Repeat the call with this id: it is applied once, whatever happened.
    """

    def __init__(self, operation_id: str, cause: str) -> None:
        self.operation_id = operation_id
        super().__init__(
            f"saving operation {operation_id} failed ({cause}), and it is not known whether it "
            "reached the disk. Open the store again and repeat the call with "
            f'operation_id="{operation_id}": it is applied once.'
        )


class VacuumIncomplete(StoreError):
    """Vacuum could not erase everything (readers hold the journal, say); run it again."""
