"""A few rows as a NoteBatch, checked one after the other: for them, Arrow's calls cost too much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fastassoc.batch import NoteBatch, some
from fastassoc.concepts import extract, fold_name, subject_keys
from fastassoc.errors import InvalidInput
from fastassoc.fields import FIELDS, Bad, Reasons, from_value, misfit
from fastassoc.settings import Settings
from fastassoc.vectorfield import read_vectors

__all__ = ["FEW", "MOST_CONCEPTS", "from_few", "too_many", "unknown_fields"]

FEW = 32  # rows up to which this is faster
MOST_CONCEPTS = 256


def from_few(
    rows: Sequence[Mapping[str, Any]],
    reasons: Reasons,
    settings: Settings,
    new_id: Callable[[int], str] | None,
    width: int | None = None,
) -> tuple[NoteBatch, list[int], list[tuple[int, str]]]:
    """As `fastassoc.rows.from_dicts`, which calls it; rows in `reasons` are refused already."""
    good: dict[int, dict[str, Any]] = {}
    given = [row.get("vector") for row in rows]
    wrong: Reasons = {}
    vectors = None
    if any(one is not None for one in given):
        vectors = read_vectors(
            given, wrong, width, lambda: _but_vectors(rows, reasons, settings, new_id is not None)
        )
    for number, row in enumerate(rows):
        if number not in reasons:
            try:
                good[number] = _resolved(number, row, settings, new_id, wrong)
            except Bad as bad:
                reasons[number] = str(bad)
    batch = NoteBatch.from_rows(list(good.values()))
    if vectors is not None:
        batch = replace(batch, vectors=some(vectors.take(pa.array(list(good), pa.int64()))))
    return batch, list(good), sorted(reasons.items())


def _but_vectors(
    rows: Sequence[Mapping[str, Any]], reasons: Reasons, settings: Settings, named: bool
) -> list[int]:
    """The rows that are good but for their vectors."""
    bare = [{name: row[name] for name in row if name != "vector"} for row in rows]
    new_id = str if named else None
    return from_few(bare, dict(reasons), replace(settings, extract=False), new_id)[1]


def unknown_fields(fields: set[Any]) -> str:
    """Why rows with these fields are refused."""
    found = ", ".join(sorted(map(repr, fields)))
    return f"found the fields {found}, expected each once, and only: {', '.join(FIELDS)}."


def too_many(found: int) -> str:
    """Why a row with so many names is refused."""
    return f"concepts: found {found} names, expected at most {MOST_CONCEPTS}; split the note."


def _resolved(
    number: int,
    row: Mapping[str, Any],
    settings: Settings,
    new_id: Callable[[int], str] | None,
    wrong: Reasons,
) -> dict[str, Any]:
    """A row as `NoteBatch.from_rows` takes it, but for its vector; `wrong` has the bad ones."""
    unknown = set(row).difference(FIELDS)
    if unknown:
        raise Bad(unknown_fields(unknown))
    out: dict[str, Any] = {}
    for field in FIELDS:
        value = row.get(field)
        if field == "vector":
            if number in wrong:
                raise Bad(wrong[number])
        elif value is not None:
            out[field] = from_value(field, value)
    if "text" not in out:
        raise Bad("text: found none, expected text.")
    if "id" not in out and new_id is None:
        raise Bad("id: found none, expected a str.")
    for name in out.get("supersedes", ()):
        reason = misfit("id", name)
        if reason is not None:
            raise Bad(f"supersedes: {reason}")
    named = _names(out.pop("concepts", None), out.pop("subjects", ()), out["text"], settings)
    if "id" not in out and new_id is not None:
        out["id"] = new_id(number)
    return {name: value for name, value in out.items() if value not in (None, [])} | named


def _names(
    given: Sequence[str] | None, subjects: Sequence[str], text: str, settings: Settings
) -> dict[str, Any]:
    """The row's distinct names, given or extracted, then declared."""
    mode = settings.names
    extracted = given is None and settings.extract
    declared: list[str] = []
    for title in subjects:
        _folded(title, mode, "subjects")
        declared += subject_keys(title) or [title]
    spelled: dict[str, str] = {}
    for name in extract(text)[:MOST_CONCEPTS] if extracted else given or ():
        key = _folded(name, mode, None if extracted else "concepts")
        if key is not None:
            spelled.setdefault(key, name)
    marked = set()
    for name in declared:
        key = _folded(name, mode, None)
        if key is not None:
            spelled.setdefault(key, name)
            marked.add(key)
    # names found in the text were cut to as many; those declared beside them were given
    told = len(marked) if extracted else len(spelled)
    if told > MOST_CONCEPTS:
        raise Bad(too_many(told))
    out: dict[str, Any] = {"concepts": list(spelled), "spelled": list(spelled.values())}
    out["subjects"] = [place for place, key in enumerate(spelled) if key in marked]
    out["extracted"] = extracted
    return out


def _folded(name: str, mode: str, field: str | None) -> str | None:
    """The key of a name; a bad one is refused for its field, or has none where no one gave it."""
    try:
        return fold_name(name, mode)
    except InvalidInput as error:
        if field is None:
            return None
        raise Bad(f"{field}: {error}") from None
