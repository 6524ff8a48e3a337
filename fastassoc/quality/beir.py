"""Any set in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels/*.tsv."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from fastassoc.errors import InvalidInput
from fastassoc.quality.sets import (
    AskedSet,
    Part,
    Question,
    id_of,
    lines_of,
    need,
    need_rows,
    note_of,
    text_of,
)

__all__ = ["load_beir"]

SPLITS = ("test", "dev", "validation", "train")


def load_beir(name: str, folder: Path, *, subjects: bool = True) -> AskedSet:
    """Read a BEIR folder; of several files of judgements test, else dev, else train is taken.

    Ids are texts or whole numbers, which stand for their digits.

    Raises
    ------
    InvalidInput
        A file is missing or not of this layout; the message names the line.
    """
    left_out: Counter[str] = Counter()
    rows: dict[str, dict[str, Any]] = {}
    for where, row in lines_of(folder / "corpus.jsonl"):
        note, text = id_of(where, row, "_id"), text_of(where, row, "text")
        made = note_of(note, text_of(where, row, "title", ""), text, subjects)
        if not made["text"].strip() or note in rows:
            left_out["notes without a text, or with an id that came before"] += 1
            continue
        rows[note] = made
    judged = _judgements(_split(folder))
    questions = []
    for where, row in lines_of(folder / "queries.jsonl"):
        mark, text = id_of(where, row, "_id"), text_of(where, row, "text")
        wanted = judged.get(mark)
        if wanted is None:
            continue  # of another split
        gold = {note: grade for note, grade in wanted.items() if note in rows and grade > 0}
        left_out["judgements of notes that the corpus has not"] += sum(
            n not in rows for n in wanted
        )
        if gold and text.strip():
            questions.append(Question(mark, text, gold))
        else:
            left_out["questions without a relevant note"] += 1
    return AskedSet(
        name, "beir", [Part(name, list(rows.values()), questions)], "ndcg@10", +left_out
    )


def _split(folder: Path) -> Path:
    files = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    if not files:
        raise InvalidInput(
            f"{folder}: found no qrels/*.tsv, expected judgements beside the corpus."
        )
    return next((files[name] for name in SPLITS if name in files), next(iter(files.values())))


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    need_rows(path.stat().st_size, path)
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{where}: no UTF-8 ({error.reason}).") from None
        cells = line.split("\t")
        if not line.strip() or (number == 1 and not _grade(cells[-1])):
            continue  # the header
        need(len(cells) == 3 and _grade(cells[2]), where, line, "query id, note id and a grade")
        found.setdefault(cells[0], {})[cells[1]] = int(float(cells[2]))
    return found


def _grade(cell: str) -> bool:
    try:
        return float(cell).is_integer()
    except ValueError:
        return False
