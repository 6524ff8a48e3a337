"""What an ingest would do: everything read and checked, nothing changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fastassoc.batches import BATCH_BYTES, BATCH_ROWS, batches, checked, opened, parts, place_of
from fastassoc.mapping import Fields
from fastassoc.rows import ContentIds
from fastassoc.settings import Settings

__all__ = ["IngestPlan", "SourcePlan", "plan"]

SHOWN = 20  # reasons that a plan lists


@dataclass(frozen=True)
class SourcePlan:
    """One source of an ingest: its columns, which field each one gives, and its rows.

    `fields` maps our field to their column, `metadata` names the columns that become metadata,
    `ignored` those that nothing is taken from.
    """

    name: str
    format: str
    rows: int
    rejected: int
    columns: list[str]
    types: list[str]
    fields: dict[str, str]
    metadata: list[str]
    ignored: list[str]


@dataclass(frozen=True)
class IngestPlan:
    """What an ingest would do: nothing was changed.

    `reasons` holds the first rejects as (source, row from 0, reason); `without_id` counts good rows
    that would get an id made from their content.
    """

    sources: list[SourcePlan]
    rows: int
    rejected: int
    without_id: int
    reasons: list[tuple[str, int, str]] = field(default_factory=list)


def plan(
    source: Any,
    *,
    settings: Settings | None = None,
    columns: Mapping[str, str | None] | None = None,
    format: str | None = None,
    metadata_columns: Sequence[str] | str | None = None,
    list_separator: str | None = None,
    delimiter: str | None = None,
    width: int | None = None,
) -> IngestPlan:
    """Read and check everything, change nothing; arguments as in `run`.

    `width` is how many numbers a vector of the store has, where that is known.

    Raises
    ------
    InvalidInput
        There is no such source, or no column gives the text.

    Examples
    --------
    >>> found = plan([{"body": "Tea", "n": 1}, {"body": ""}], columns={"text": "body"})
    >>> found.rows, found.rejected, found.sources[0].fields, found.sources[0].ignored
    (2, 1, {'text': 'body'}, ['n'])
    """
    fields = Fields(columns, metadata_columns, list_separator)
    checks = replace(settings or Settings(), extract=False)
    found = opened(source, format, delimiter, fields)
    plans: list[SourcePlan] = []
    reasons: list[tuple[str, int, str]] = []
    without_id = 0
    for one in found:
        names = dict.fromkeys(one.columns or ())
        rows = rejected = 0
        for batch in batches(parts([one], fields), BATCH_ROWS, BATCH_BYTES):
            if one.columns is None:
                for part in batch.parts:
                    for row in part.rows:
                        names.update(dict.fromkeys(row) if isinstance(row, Mapping) else {})
            counter = _CountIds()
            good, _, rejects = checked(batch, fields, checks, counter, width)
            width = good.dim if width is None else width
            rows, rejected = rows + batch.rows, rejected + len(rejects)
            without_id += counter.made
            for row, reason in rejects[: SHOWN - len(reasons)]:
                part, place = place_of(batch, row)
                reasons.append((one.name, part.first + place, reason))
        listed = [str(name) for name in names]
        given, extras = fields.found(listed), fields.extras(listed)
        ignored = [name for name in listed if name not in {*given.values(), *extras}]
        types = one.types or [""] * len(listed)
        plans.append(
            SourcePlan(one.name, one.format, rows, rejected, listed, types, given, extras, ignored)
        )
    return IngestPlan(
        plans,
        sum(one.rows for one in plans),
        sum(one.rejected for one in plans),
        without_id,
        reasons,
    )


class _CountIds(ContentIds):
    """Counts the rows that need an id, and makes none that lasts."""

    made = 0

    def take(self, contents: Sequence[bytes]) -> list[str]:
        self.made += len(contents)
        return [f"{number}" for number in range(len(contents))]
