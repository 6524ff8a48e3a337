"""What is measured with: sets of notes and questions, norms of words, notes with tags."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastassoc.errors import InvalidInput

__all__ = [
    "AskedSet",
    "Norms",
    "Part",
    "Question",
    "TagSet",
    "lines_of",
    "need",
    "not_measured",
    "note_of",
    "whole_of",
]

LONGEST_SUBJECT = 256  # bytes that a name may have


@dataclass(frozen=True)
class Question:
    """A question, and the notes that answer it.

    Attributes
    ----------
    id, text : str
    gold : dict of str to int
        Ids of the notes with their relevance, 1 or more.
    group : str
        The kind of question, such as the number of hops.
    """

    id: str
    text: str
    gold: dict[str, int]
    group: str = ""


@dataclass
class Part:
    """One store's worth of a set: its notes, as rows of `Memory.write_batch`, and its questions."""

    name: str
    rows: list[dict[str, Any]]
    questions: list[Question]


@dataclass
class AskedSet:
    """Notes with questions.

    Attributes
    ----------
    name, kind : str
    parts : list of Part
    main : str
        The measure that the set is known by.
    left_out : Counter of str
        What was skipped, by reason.
    store : str or None
        The folder of the store that is asked, where the notes are there already.
    """

    name: str
    kind: str
    parts: list[Part]
    main: str = "recall@5"
    left_out: Counter[str] = field(default_factory=Counter)
    store: str | None = None

    @property
    def questions(self) -> list[Question]:
        """All questions, part by part."""
        return [question for part in self.parts for question in part.questions]


@dataclass
class Norms:
    """What people say to a word: counts by cue and response."""

    name: str
    counts: dict[str, dict[str, int]]
    left_out: Counter[str] = field(default_factory=Counter)
    kind: str = "norms"


@dataclass
class TagSet:
    """Notes with curated concepts, as rows of `Memory.write_batch`."""

    name: str
    rows: list[dict[str, Any]]
    left_out: Counter[str] = field(default_factory=Counter)
    kind: str = "tags"


def need(good: bool, where: str, found: object, expected: str) -> None:
    """Refuse what is not of the layout that its file promised.

    Examples
    --------
    >>> need(False, "a.jsonl, line 2", 7, "an object")
    Traceback (most recent call last):
    fastassoc.errors.InvalidInput: a.jsonl, line 2: found 7, expected an object.
    """
    if not good:
        raise InvalidInput(f"{where}: found {found!r:.80}, expected {expected}.")


def whole_of(path: Path) -> Any:
    """The JSON document of a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: no JSON document ({error}).") from None


def lines_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object of a JSON lines file, or of a JSON list, with words for where it stands."""
    if path.suffix == ".json":
        document = whole_of(path)
        need(isinstance(document, list), str(path), document, "a list of objects")
        for number, row in enumerate(document):
            where = f"{path}, item {number}"
            need(isinstance(row, dict), where, row, "an object")
            yield where, row
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidInput(f"{where}: no JSON ({error}).") from None
            need(isinstance(row, dict), where, row, "an object")
            yield where, row


def note_of(note: str, title: str, text: str, subjects: bool) -> dict[str, Any]:
    """A titled passage as a note: the title goes before the text and is its subject."""
    title = title.strip()
    row: dict[str, Any] = {"id": note, "text": f"{title}. {text}" if title else text}
    if subjects and title and len(title.encode()) <= LONGEST_SUBJECT:
        row["subjects"] = [title]
    return row


def not_measured(failed: dict[str, str]) -> str:
    """A sentence about a set under ``failed`` of a report."""
    return f"{failed['name']}: not measured: {failed['reason']}"
