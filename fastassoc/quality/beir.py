"""Any set in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels/*.tsv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastassoc.errors import InvalidInput
from fastassoc.quality.sets import (
    AskedSet,
    LeftOut,
    Once,
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
    left_out = LeftOut()
    rows: dict[str, dict[str, Any]] = {}
    for where, row in lines_of(folder / "corpus.jsonl"):
        note, text = id_of(where, row, "_id"), text_of(where, row, "text")
        made = note_of(note, text_of(where, row, "title", ""), text, subjects)
        if not made["text"].strip() or note in rows:
            left_out.add(
                "notes without a text, or with an id that came before", f"{where}: {note!r}"
            )
            continue
        rows[note] = made
    table = _split(folder)
    judged = _judgements(table)
    questions = []
    once = Once("question id")
    for where, row in lines_of(folder / "queries.jsonl"):
        mark, text = id_of(where, row, "_id"), text_of(where, row, "text")
        once.take(where, mark)
        wanted = judged.pop(mark, None)
        if wanted is None:
            continue  # of another split
        gold = {note: grade for note, grade in wanted.items() if note in rows and grade > 0}
        for note in wanted:
            if note not in rows:
                left_out.add(
                    "judgements of notes that the corpus has not",
                    f"{table}: note {note!r} of question {mark!r}",
                )
        if not text.strip():
            left_out.add("questions without a text", f"{where}: {mark!r}")
        elif not gold:
            left_out.add("questions without a relevant note", f"{where}: {mark!r}")
        else:
            questions.append(Question(mark, text, gold))
    for mark in judged:
        left_out.add("judged questions that queries.jsonl has not", f"{table}: {mark!r}")
    return AskedSet(name, "beir", [Part(name, list(rows.values()), questions)], "ndcg@10", left_out)


def _split(folder: Path) -> Path:
    files = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    if not files:
        raise InvalidInput(
            f"{folder}: found no qrels/*.tsv, expected judgements beside the corpus."
        )
    return next((files[name] for name in SPLITS if name in files), next(iter(files.values())))


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    once = Once("pair of question and note")
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
        once.take(where, (cells[0], cells[1]))
        found.setdefault(cells[0], {})[cells[1]] = int(float(cells[2]))
    if not found:
        raise InvalidInput(f"{path}: found no judgement, expected query id, note id and a grade.")
    return found


def _grade(cell: str) -> bool:
    try:
        return float(cell).is_integer()
    except ValueError:
        return False
