"""What a call did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Report", "Written"]


@dataclass(kw_only=True, slots=True)
class Report:
    """What really changed.

    Attributes
    ----------
    written, skipped, replaced, rejected, forgotten, updated : int
        Notes stored; left alone because their id exists; stored in place of one with the same id;
        refused; forgotten; given other metadata or another valence.
    links_created, links_changed, links_removed : int
        Links between concepts and links between notes.
    cues_changed : int
        Links from terms to notes that were made, changed or removed.
    ids : list of str
        Ids of the stored notes, in order; empty for an ingest.
    reasons : list of (int, str)
        Row number, from 0, and reason of each refused row.
    missing : list of str
        Ids that were named but are not live notes.
    kept : list of str
        Names that a vacuum leaves: no note carries them, but outcomes taught links of theirs.
    repeated : bool
        The operation id was seen before and nothing was done.
    position : int
        The operation that the memory reflects after the call.
    seconds : float
    """

    written: int = 0
    skipped: int = 0
    replaced: int = 0
    rejected: int = 0
    forgotten: int = 0
    updated: int = 0
    links_created: int = 0
    links_changed: int = 0
    links_removed: int = 0
    cues_changed: int = 0
    ids: list[str] = field(default_factory=list, repr=False)
    reasons: list[tuple[int, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    repeated: bool = False
    position: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Written(str):
    """The id of a note just written; a str that also carries its `report`.

    Attributes
    ----------
    report : Report
    """

    report: Report

    def __new__(cls, note: str, report: Report) -> Written:
        self = super().__new__(cls, note)
        self.report = report
        return self

    @property
    def repeated(self) -> bool:
        """Whether the operation id was seen before, so that nothing was done."""
        return self.report.repeated
