"""Run files that trec_eval and its kin read, with the judgements beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fastassoc.quality.reads import Ranked
from fastassoc.quality.sets import AskedSet

__all__ = ["write_trec"]


def write_trec(folder: Path, sets: Sequence[AskedSet], ranked: Ranked) -> list[Path]:
    """Write ``SET.SYSTEM.run`` for each system and ``SET.qrels`` for each set.

    White space in an id becomes ``_``. Ids of a set of several stores begin with the store's.
    Scores fall strictly, as readers of run files sort by them alone; ``trec_eval -c`` counts the
    questions that a system found nothing for.

    Returns
    -------
    list of Path
        What was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    names = Columns()
    for asked in sets:
        notes, marks = Columns(), Columns()
        lines = [
            f"{marks[question.id]} 0 {notes[note_id(asked, part.name, note)]} {grade}\n"
            for part in asked.parts
            for question in part.questions
            for note, grade in question.gold.items()
        ]
        name = names[asked.name].replace("/", "_")
        written.append(_write(folder / f"{name}.qrels", lines))
        for (of, system), lists in ranked.items():
            if of != asked.name:
                continue
            lines = []
            for mark, hits in lists:
                scores = falling([score for _, score in hits])
                for rank, ((note, _), score) in enumerate(zip(hits, scores, strict=True), 1):
                    lines.append(f"{marks[mark]} Q0 {notes[note]} {rank} {score:.9g} {system}\n")
            written.append(_write(folder / f"{name}.{system}.run", lines))
    return written


def falling(scores: Sequence[float]) -> list[float]:
    """Scores that sort as they stand: each as it is where it falls, else the next smaller one.

    They are numbers of 32 bits, as trec_eval reads them; nine digits tell any two apart.

    Examples
    --------
    >>> [f"{score:.9g}" for score in falling([0.5, 0.25, 0.25, 0.1])]
    ['0.5', '0.25', '0.249999985', '0.100000001']
    """
    out: list[float] = []
    last = np.float32(np.inf)
    for score in scores:
        last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
        out.append(float(last))
    return out


class Columns(dict[str, str]):
    """Texts as one column each; those that would be one column get a number behind.

    Examples
    --------
    >>> made = Columns()
    >>> made["a b"], made["a_b"], made["a b"]
    ('a_b', 'a_b_2', 'a_b')
    """

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = set()

    def __missing__(self, text: str) -> str:
        made = first = re.sub(r"[\s\x00-\x1f]+", "_", text) or "_"
        number = 1
        while made in self._taken:
            number += 1
            made = f"{first}_{number}"
        self._taken.add(made)
        self[text] = made
        return made


def note_id(asked: AskedSet, part: str, note: str) -> str:
    """A note's id in run files."""
    return f"{part}/{note}" if len(asked.parts) > 1 else note


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path
