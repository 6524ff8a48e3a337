"""Run files that trec_eval and its kin read, with the judgements beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fastassoc.quality.reads import Ranked
from fastassoc.quality.sets import AskedSet

__all__ = ["write_trec"]


def write_trec(folder: Path, sets: Sequence[AskedSet], ranked: Ranked) -> list[Path]:
    """Write ``SET.SYSTEM.run`` for each system and ``SET.qrels`` for each set.

    White space in an id becomes ``_``. Ids of a set of several stores begin with the store's.

    Returns
    -------
    list of Path
        What was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for asked in sets:
        lines = [
            f"{plain(question.id)} 0 {plain(note_id(asked, part.name, note))} {grade}\n"
            for part in asked.parts
            for question in part.questions
            for note, grade in question.gold.items()
        ]
        written.append(_write(folder / f"{plain(asked.name)}.qrels", lines))
    for (name, system), lists in ranked.items():
        lines = [
            f"{plain(mark)} Q0 {plain(note)} {rank} {score:.9g} {system}\n"
            for mark, hits in lists
            for rank, (note, score) in enumerate(hits, 1)
        ]
        written.append(_write(folder / f"{plain(name)}.{system}.run", lines))
    return written


def note_id(asked: AskedSet, part: str, note: str) -> str:
    """A note's id in run files."""
    return f"{part}/{note}" if len(asked.parts) > 1 else note


def plain(text: str) -> str:
    """A text as one column."""
    return re.sub(r"[\s\x00-\x1f]+", "_", text) or "_"


def _write(path: Path, lines: list[str]) -> Path:
    path = path.with_name(path.name.replace("/", "_"))
    path.write_text("".join(lines), encoding="utf-8")
    return path
