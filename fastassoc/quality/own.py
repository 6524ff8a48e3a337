"""One's own questions, asked of a store that is there."""

from __future__ import annotations

from pathlib import Path

import fastassoc as fa
from fastassoc.errors import InvalidInput
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
    left_out = LeftOut()
    once = Once("question id")
    with fa.open(store, create=False, read_only=True) as mem:
        for number, (where, row) in enumerate(lines_of(path)):
            text = text_of(where, row, "question", blank=False)
            named = row.get("gold")
            need(isinstance(named, list), where, named, "a list of note ids under 'gold'")
            gold = [id_of(where, {"gold": note}, "gold") for note in named or ()]
            mark = id_of(where, row, "id", f"q{number}")
            once.take(where, mark)
            group = label_of(where, row, "group", "")
            known = {note: 1 for note in gold if note in mem}
            for note in dict.fromkeys(gold):
                if note not in known:
                    left_out.add("gold ids that the store has not", f"{where}: {note!r}")
            if not known:
                left_out.add("questions without a note that the store has", where)
                continue
            questions.append(Question(mark, text, known, group))
    if not questions:
        told = "; ".join(left_out.told())
        raise InvalidInput(f"{path}: no question names a note of {store}: left out: {told}.")
    return AskedSet(path.stem, "own", [Part(path.stem, [], questions)], "recall@5", left_out, store)
