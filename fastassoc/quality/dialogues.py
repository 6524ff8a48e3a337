"""Questions about long dialogues: files of the LoCoMo kind."""

from __future__ import annotations

import re
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
    need,
    sound_text,
    text_of,
    whole_of,
)

__all__ = ["load_dialogues"]

CATEGORIES = {
    "1": "multi-hop",
    "2": "temporal",
    "3": "open",
    "4": "single-hop",
    "5": "adversarial",
}


def load_dialogues(name: str, path: Path) -> AskedSet:
    """One store a dialogue; a turn is a note, and the turns of a session follow one another.

    A turn reads ``speaker: text [image caption]``. An evidence text may hold several turn ids;
    what is no id of a turn is left out and counted, and so is a question without any.

    Raises
    ------
    InvalidInput
        The file is not of this layout; the message says where.
    """
    document = whole_of(path)
    need(isinstance(document, list), str(path), document, "a list of dialogues")
    parts: list[Part] = []
    left_out = LeftOut()
    once = Once("dialogue")
    for number, one in enumerate(document):
        where = f"{path}, dialogue {number}"
        good = isinstance(one, dict) and isinstance(one.get("conversation"), dict)
        need(good and isinstance(one.get("qa"), list), where, one, "'conversation' and 'qa'")
        title = id_of(where, one, "sample_id", f"dialogue{number}")
        once.take(where, title)
        rows = _turns(where, one["conversation"], left_out)
        turns = {row["id"] for row in rows}
        parts.append(Part(title, rows, _questions(where, title, one["qa"], turns, left_out)))
    return AskedSet(name, "dialogues", parts, "recall@10", left_out)


def _turns(where: str, conversation: dict[str, Any], left_out: LeftOut) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    sessions = [key for key in conversation if re.fullmatch(r"session_\d+", key)]
    for session in sorted(sessions, key=lambda key: int(key[8:])):
        turns = conversation[session]
        need(isinstance(turns, list), f"{where}, {session}", turns, "a list of turns")
        for number, turn in enumerate(turns):
            place = f"{where}, {session}, turn {number}"
            need(isinstance(turn, dict), place, turn, "a turn with 'speaker', 'dia_id' and 'text'")
            mark = text_of(place, turn, "dia_id", blank=False)
            said, caption = (text_of(place, turn, key, "") for key in ("text", "blip_caption"))
            text = f"{text_of(place, turn, 'speaker', '')}: {said}"
            if mark in rows or not (said.strip() or caption.strip()):
                left_out.add("turns without a text, or with an id that came before", place)
                continue
            text += f" [{caption}]" if caption else ""
            rows[mark] = {"id": mark, "text": text, "session": session}
    return list(rows.values())


def _questions(
    where: str, title: str, rows: list[Any], turns: set[str], left_out: LeftOut
) -> list[Question]:
    questions = []
    for number, row in enumerate(rows):
        place = f"{where}, question {number}"
        need(isinstance(row, dict), place, row, "a row with 'question' and 'evidence'")
        asked = text_of(place, row, "question", blank=False)
        category = label_of(place, row, "category", "")
        gold: dict[str, int] = {}
        evidence = row.get("evidence")
        listed = evidence if isinstance(evidence, list) else [] if evidence is None else [evidence]
        for one in listed:
            text = sound_text(place, one, "or a list of texts under 'evidence'")
            ids = re.findall(r"D\d+:\d+", text)
            if ids != [text.strip()]:
                left_out.add(
                    "evidence texts that are not one id (ids in them count)",
                    f"{place}: {text!r:.80}",
                )
            gold.update((turn, 1) for turn in ids if turn in turns)
            for turn in ids:
                if turn not in turns:
                    left_out.add("evidence ids of no turn", f"{place}: {turn!r}")
        if not gold:
            what = f"{evidence!r:.80} under" if "evidence" in row else "no"
            left_out.add("questions without evidence", f"{place}: found {what} 'evidence'")
            continue
        group = CATEGORIES.get(category, category)
        questions.append(Question(f"{title}-q{number}", asked, gold, group))
    return questions
