"""What is measured with: sets of notes and questions, norms of words, notes with tags."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastassoc.errors import InvalidInput

__all__ = [
    "NO_CUE",
    "NO_LOOKUP",
    "NO_TAG",
    "NO_WRONG",
    "AskedSet",
    "LeftOut",
    "Norms",
    "Once",
    "Part",
    "Question",
    "TagSet",
    "concept_of",
    "id_of",
    "label_of",
    "lines_of",
    "need",
    "need_rows",
    "not_measured",
    "note_of",
    "sound_text",
    "text_of",
    "told_of",
    "whole_of",
]

LONGEST_NAME = 256  # bytes that the name of a concept may have
LONGEST_ID = 512  # bytes


class LeftOut(Counter[str]):
    """What was skipped: how many by reason, and under ``first`` where each reason began.

    Examples
    --------
    >>> left = LeftOut()
    >>> left.add("empty passages", "a.jsonl, line 2")
    >>> left.add("empty passages", "a.jsonl, line 7")
    >>> left.told()
    ['empty passages: 2 (first: a.jsonl, line 2)']
    """

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, str] = {}

    def add(self, reason: str, where: str) -> None:
        """Count one."""
        self[reason] += 1
        self.first.setdefault(reason, where)

    def told(self) -> list[str]:
        """A few words about each reason."""
        return told_of(self, self.first)


def told_of(left_out: Mapping[str, int], first: Mapping[str, str]) -> list[str]:
    """A few words about each reason that something was left out for."""
    return [
        f"{reason}: {many:,}" + (f" (first: {first[reason]})" if reason in first else "")
        for reason, many in left_out.items()
    ]


class Once:
    """Where each id of a file stands, so that none comes twice.

    Examples
    --------
    >>> once = Once("id")
    >>> once.take("a.jsonl, line 1", "q1")
    >>> once.take("a.jsonl, line 4", "q1")
    Traceback (most recent call last):
    fastassoc.errors.InvalidInput: a.jsonl, line 4: found the id 'q1' again, after a.jsonl, line 1.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._places: dict[object, str] = {}

    def take(self, where: str, mark: object) -> None:
        """Refuse an id that came before."""
        before = self._places.setdefault(mark, where)
        if before is not where:
            raise InvalidInput(f"{where}: found the {self._what} {mark!r} again, after {before}.")


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
    left_out : LeftOut
        What was skipped, by reason.
    store : str or None
        The folder of the store that is asked, where the notes are there already.
    """

    name: str
    kind: str
    parts: list[Part]
    main: str = "recall@5"
    left_out: LeftOut = field(default_factory=LeftOut)
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
    left_out: LeftOut = field(default_factory=LeftOut)
    kind: str = "norms"


@dataclass
class TagSet:
    """Notes with curated concepts, as rows of `Memory.write_batch`."""

    name: str
    rows: list[dict[str, Any]]
    left_out: LeftOut = field(default_factory=LeftOut)
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


def sound_text(where: str, value: object, what: str) -> str:
    """A text that can be stored and asked; `what` says where in the row it stands.

    Examples
    --------
    >>> sound_text("a.jsonl, line 2", True, "under 'text'")
    Traceback (most recent call last):
    fastassoc.errors.InvalidInput: a.jsonl, line 2: found True, expected a text under 'text'.
    """
    need(isinstance(value, str), where, value, f"a text {what}")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = text[max(0, error.start - 20) : error.start + 20]
        need(False, where, found, f"a text without a lone surrogate {what}")
    return text


def text_of(
    where: str, row: dict[str, Any], key: str, absent: str | None = None, *, blank: bool = True
) -> str:
    """The text under a key; `absent`, where one is given, is what null and no such key mean.

    Without `blank`, a text of nothing but white space is refused.
    """
    value = row.get(key)
    if value is None and absent is not None:
        return absent
    text = sound_text(where, value, f"under {key!r}")
    need(blank or bool(text.strip()), where, text, f"a text under {key!r} that is not blank")
    return text


def label_of(where: str, row: dict[str, Any], key: str, absent: str | None = None) -> str:
    """As `text_of`; a whole number is taken for its digits, and nothing else for a text."""
    value = row.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    good = isinstance(value, str) or (value is None and absent is not None)
    need(good, where, value, f"a text or a whole number under {key!r}")
    return text_of(where, row, key, absent)


def id_of(where: str, row: dict[str, Any], key: str, absent: str | None = None) -> str:
    """As `label_of`, of a length that an id may have."""
    mark = label_of(where, row, key, absent)
    good = bool(mark.strip()) and len(mark.encode()) <= LONGEST_ID
    need(good, where, mark, f"an id of 1 to {LONGEST_ID} bytes under {key!r}")
    return mark


def concept_of(where: str, value: object, what: str) -> str:
    """A name that a concept may have."""
    name = sound_text(where, value, what)
    good = bool(name.strip()) and len(name.encode()) <= LONGEST_NAME
    need(good, where, name, f"a name of 1 to {LONGEST_NAME} bytes {what}")
    return name


def need_rows(rows: object, path: Path) -> None:
    """Refuse a file that holds nothing."""
    if not rows:
        raise InvalidInput(f"{path}: it is empty.")


def whole_of(path: Path) -> Any:
    """The JSON document of a file."""
    try:
        document = json.loads(path.read_bytes().strip() or b"null")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: no JSON document ({error}).") from None
    need_rows(document is not None and document not in ([], {}), path)
    return document


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
    found = False
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            found = True
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidInput(f"{where}: no JSON ({error}).") from None
            need(isinstance(row, dict), where, row, "an object")
            yield where, row
    need_rows(found, path)


def note_of(note: str, title: str, text: str, subjects: bool) -> dict[str, Any]:
    """A titled passage as a note: the title goes before the text and is its subject."""
    title = title.strip()
    row: dict[str, Any] = {"id": note, "text": f"{title}. {text}" if title else text}
    if subjects and title and len(title.encode()) <= LONGEST_NAME:
        row["subjects"] = [title]
    return row


NO_LOOKUP = "no easy look-up could be made: no sentence of six words or more is in one note alone"
NO_TAG = "no tag could be hidden: no note has three tags or more"
NO_CUE = "no cue has a response other than itself: nothing could be hidden"
NO_WRONG = "no first hit was wrong, so none was rated wrong"


def not_measured(failed: dict[str, str]) -> str:
    """A sentence about a set under ``failed`` of a report."""
    return f"{failed['name']}: not measured: {failed['reason']}"
