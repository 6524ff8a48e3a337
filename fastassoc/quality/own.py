"""One's own questions, asked of a store that is there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import fastassoc as fa
from fastassoc.errors import InvalidInput
from fastassoc.quality.sets import AskedSet, Part, Question, lines_of, need

__all__ = ["load_own"]


def load_own(path: Path, store: str) -> AskedSet:
    """Read rows ``{"question": text, "gold": [note ids]}``, with ``id`` and ``group`` if given.

    Raises
    ------
    InvalidInput
        A row is not of this layout, or no question names a note of the store.
    """
    questions: list[Question] = []
    left_out: Counter[str] = Counter()
    with fa.open(store, create=False, read_only=True) as mem:
        for where, row in lines_of(path):
            text, gold = row.get("question"), row.get("gold")
            good = isinstance(text, str) and bool(text.strip())
            need(good, where, text, "a text under 'question'")
            good = isinstance(gold, list) and all(isinstance(note, str) for note in gold)
            need(good, where, gold, "a list of note ids under 'gold'")
            known = {note: 1 for note in gold or () if note in mem}
            left_out["gold ids that the store has not"] += len(set(gold or ())) - len(known)
            if not known:
                left_out["questions without a note that the store has"] += 1
                continue
            mark = str(row.get("id", f"q{len(questions)}"))
            questions.append(Question(mark, str(text), known, str(row.get("group", ""))))
    if not questions:
        raise InvalidInput(f"{path}: no question names a note of {store}: check the ids in 'gold'.")
    return AskedSet(
        path.stem, "own", [Part(path.stem, [], questions)], "recall@5", +left_out, store
    )
