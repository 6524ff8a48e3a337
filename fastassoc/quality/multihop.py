"""Questions that take several passages: files of the MuSiQue, HotpotQA and 2Wiki kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastassoc.quality.sets import (
    AskedSet,
    LeftOut,
    Once,
    Part,
    Question,
    id_of,
    label_of,
    lines_of,
    need,
    note_of,
    sound_text,
    text_of,
)

__all__ = ["load_multihop"]

Passage = tuple[str, str, bool]  # title, text, whether it is part of the answer


def load_multihop(name: str, path: Path, *, subjects: bool = True) -> AskedSet:
    """Pool the passages of all questions into one store.

    Two kinds of rows: ``question`` and ``paragraphs`` (each with ``title``, ``paragraph_text``,
    ``is_supporting``), as MuSiQue has them; or ``question``, ``context`` (pairs of a title and
    its sentences, or one mapping of two lists) and ``supporting_facts``, as HotpotQA and 2Wiki.
    A passage that comes again, by title and text, is one note. ``is_supporting`` is true or false;
    a paragraph without it is no part of the answer.

    Parameters
    ----------
    name : str
    path : Path
        JSON lines, or a JSON list.
    subjects : bool
        Whether the title is declared as the subject.

    Raises
    ------
    InvalidInput
        A row is of neither kind; the message names it.
    """
    places: dict[tuple[str, str], str] = {}
    rows: list[dict[str, Any]] = []
    questions: list[Question] = []
    left_out = LeftOut()
    once = Once("question id")
    for number, (where, row) in enumerate(lines_of(path)):
        text = text_of(where, row, "question", blank=False)
        mark = id_of(where, row, "id" if "id" in row else "_id", f"q{number}")
        once.take(where, mark)
        group = _group(mark, label_of(where, row, "type", ""))
        gold: dict[str, int] = {}
        for title, body, supports in _passages(where, row, left_out):
            if not body.strip():
                left_out.add("empty passages", f"{where}: {title!r:.80}")
                continue
            note = places.get((title, body))
            if note is None:
                note = places[title, body] = f"p{len(places)}"
                rows.append(note_of(note, title, body, subjects))
            if supports:
                gold[note] = 1
        if not gold:
            left_out.add("questions without a supporting passage", where)
            continue
        questions.append(Question(mark, text, gold, group))
    return AskedSet(name, "multihop", [Part(name, rows, questions)], "recall@5", left_out)


def _group(mark: str, kind: str) -> str:
    hops = re.match(r"\d+hop", mark)
    return hops[0] if hops else kind


def _passages(where: str, row: dict[str, Any], left_out: LeftOut) -> Iterator[Passage]:
    if "paragraphs" in row:
        listed = row["paragraphs"]
        need(isinstance(listed, list), where, listed, "a list under 'paragraphs'")
        for number, one in enumerate(listed):
            place = f"{where}, paragraph {number}"
            need(isinstance(one, dict), place, one, "an object with 'title' and 'paragraph_text'")
            supports = one.get("is_supporting", False)
            good = isinstance(supports, bool)
            need(good, place, supports, "true or false under 'is_supporting'")
            body = text_of(place, one, "paragraph_text")
            yield text_of(place, one, "title", ""), body, supports
        return
    need("context" in row, where, sorted(row), "'paragraphs', or 'context' and 'supporting_facts'")
    facts = _pairs(where, row.get("supporting_facts"), "sent_id", "'supporting_facts'")
    wanted = dict.fromkeys(title for title, _ in facts)
    given = _pairs(where, row["context"], "sentences", "'context'")
    held = {title for title, _ in given}
    for title in wanted:
        if title not in held:
            left_out.add("supporting titles that 'context' has not", f"{where}: {title!r:.80}")
    for title, said in given:
        sentences = said if isinstance(said, list) else [said]
        told = f"for each sentence under 'context', {title!r:.40}"
        body = " ".join(sound_text(where, one, told).strip() for one in sentences)
        yield title, body, title in wanted


def _pairs(where: str, value: Any, second: str, what: str) -> list[tuple[str, Any]]:
    """Pairs, given as a list of pairs or as one mapping of two lists."""
    if isinstance(value, dict):
        titles, others = value.get("title"), value.get(second)
        good = isinstance(titles, list) and isinstance(others, list)
        good = good and len(titles) == len(others)  # type: ignore[arg-type]
        need(good, where, value, f"{what} with 'title' and '{second}', equally long")
        value = list(zip(titles, others, strict=True))  # type: ignore[arg-type]
    need(isinstance(value, list), where, value, f"a list under {what}")
    for pair in value:
        good = isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)
        need(good, where, pair, f"pairs of a title and more in {what}")
        sound_text(where, pair[0], f"for each title in {what}")
    return [(pair[0], pair[1]) for pair in value]
