"""Questions about long dialogues: files of the LoCoMo kind."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from fastassoc.quality.sets import AskedSet, Part, Question, need, whole_of

__all__ = ["load_dialogues"]

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}


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
    left_out: Counter[str] = Counter()
    for number, one in enumerate(document):
        where = f"{path}, dialogue {number}"
        good = isinstance(one, dict) and isinstance(one.get("conversation"), dict)
        need(good and isinstance(one.get("qa"), list), where, one, "'conversation' and 'qa'")
        title = str(one.get("sample_id") or f"dialogue{number}")
        rows = _turns(where, one["conversation"], left_out)
        turns = {row["id"] for row in rows}
        parts.append(Part(title, rows, _questions(where, title, one["qa"], turns, left_out)))
    return AskedSet(name, "dialogues", parts, "recall@10", left_out)


def _turns(
    where: str, conversation: dict[str, Any], left_out: Counter[str]
) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    sessions = [key for key in conversation if re.fullmatch(r"session_\d+", key)]
    for session in sorted(sessions, key=lambda key: int(key[8:])):
        turns = conversation[session]
        need(isinstance(turns, list), f"{where}, {session}", turns, "a list of turns")
        for turn in turns:
            good = isinstance(turn, dict) and isinstance(turn.get("dia_id"), str)
            need(good, f"{where}, {session}", turn, "a turn with 'speaker', 'dia_id' and 'text'")
            said, caption = str(turn.get("text") or ""), turn.get("blip_caption")
            if turn["dia_id"] in rows or not (said.strip() or caption):
                left_out["turns without a text, or with an id that came before"] += 1
                continue
            text = f"{turn.get('speaker', '')}: {said}" + (f" [{caption}]" if caption else "")
            rows[turn["dia_id"]] = {"id": turn["dia_id"], "text": text, "session": session}
    return list(rows.values())


def _questions(
    where: str, title: str, listed: list[Any], turns: set[str], left_out: Counter[str]
) -> list[Question]:
    questions = []
    for number, row in enumerate(listed):
        good = isinstance(row, dict) and isinstance(row.get("question"), str)
        need(good, f"{where}, question {number}", row, "a row with 'question' and 'evidence'")
        gold: dict[str, int] = {}
        evidence = row.get("evidence") or []
        for text in map(str, evidence if isinstance(evidence, list) else [evidence]):
            ids = re.findall(r"D\d+:\d+", text)
            if ids != [text.strip()]:
                left_out["evidence texts that are not one id (ids in them count)"] += 1
            gold.update((one, 1) for one in ids if one in turns)
            left_out["evidence ids of no turn"] += sum(one not in turns for one in ids)
        if not gold:
            left_out["questions without evidence"] += 1
            continue
        category = row.get("category")
        group = CATEGORIES.get(category, str(category)) if isinstance(category, int) else ""
        questions.append(Question(f"{title}-q{number}", row["question"], gold, group))
    left_out += Counter()  # without zeros
    return questions
