"""One's own questions, asked of a store that is there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import fastassoc as fa
from fastassoc.errors import InvalidInput
from fastassoc.quality.sets import (
    AskedSet,
    Part,
    Question,
    id_of,
    label_of,
    lines_of,
    need,
    text_of,
)

__all__ = ["load_own"]


def load_own(path: Path, store: str) -> AskedSet:
    """Read rows ``{"question": text, "gold": [note ids]}``, with ``id`` and ``group`` if given.

    Ids may be whole numbers: they stand for their digits.

    Raises
    ------
    InvalidInput
        A row is not of this layout, or no question names a note of the store.
    """
    questions: list[Question] = []
    left_out: Counter[str] = Counter()
    with fa.open(store, create=False, read_only=True) as mem:
        for where, row in lines_of(path):
            text = text_of(where, row, "question", blank=False)
            named = row.get("gold")
            need(isinstance(named, list), where, named, "a list of note ids under 'gold'")
            gold = [id_of(where, {"gold": note}, "gold") for note in named or ()]
            mark = id_of(where, row, "id", f"q{len(questions)}")
            group = label_of(where, row, "group", "")
            known = {note: 1 for note in gold if note in mem}
            left_out["gold ids that the store has not"] += len(set(gold)) - len(known)
            if not known:
                left_out["questions without a note that the store has"] += 1
                continue
            questions.append(Question(mark, text, known, group))
    if not questions:
        raise InvalidInput(f"{path}: no question names a note of {store}: check the ids in 'gold'.")
    return AskedSet(
        path.stem, "own", [Part(path.stem, [], questions)], "recall@5", +left_out, store
    )
