"""Learning measured: half of the questions are taught, then all are asked again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import fastassoc as fa
from fastassoc.quality.measures import Bootstrap, measure
from fastassoc.quality.places import Place, Progress
from fastassoc.quality.sets import AskedSet, Question
from fastassoc.quality.systems import Answer, System, ask

__all__ = ["measure_lessons"]

GROUPS = ("re-asked", "related", "unrelated")
TAUGHT = {
    "all": "every right note was named to the memory",
    "shown": "only right notes among the ten that were shown",
}


def measure_lessons(
    asked: AskedSet,
    places: Sequence[Place],
    systems: Sequence[System],
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """Teach the right notes of half of the questions with outcome 1, and ask all of them again.

    Of the questions that were not taught, *related* ones share a right note with a taught one and
    *unrelated* ones do not. In another copy of the store, first hits that are wrong are rated
    with outcome -1.

    Returns
    -------
    dict
        ``measure``, and for each system and each way to teach, for each group: ``questions``,
        ``before``, ``after`` and ``change`` with intervals, where there are any; ``wrong``: how
        many first hits were rated wrong, and how many of them left first place.
    """
    out = []
    steps = len(systems) * (len(TAUGHT) + 1) * len(places)
    done = 0
    for system in systems:
        row: dict[str, Any] = {"name": system.name, "title": system.title, "taught": {}}
        for way in TAUGHT:
            lists: dict[str, list[tuple[float, float]]] = {group: [] for group in GROUPS}
            for place in places:
                _teach(asked.main, place, system, seed, way, lists)
                done += 1
                progress(f"{asked.name}: feedback", done, steps)
            row["taught"][way] = {name: _told(pairs, seed) for name, pairs in lists.items()}
        rated = left = 0
        for place in places:
            one = _rate_wrong(place, system, seed)
            rated, left = rated + one[0], left + one[1]
            done += 1
            progress(f"{asked.name}: feedback", done, steps)
        row["wrong"] = {"rated": rated, "left_first_place": left}
        out.append(row)
    return {"measure": asked.main, "ways": TAUGHT, "systems": out}


def halves(questions: Sequence[Question], seed: int) -> tuple[list[Question], list[Question]]:
    """The questions that are taught, and the others."""
    order = list(questions)
    random.Random(seed).shuffle(order)
    half = (len(order) + 1) // 2
    return order[:half], order[half:]


def _teach(
    main: str,
    place: Place,
    system: System,
    seed: int,
    way: str,
    lists: dict[str, list[tuple[float, float]]],
) -> None:
    taught, others = halves(place.part.questions, seed)
    known = {note for question in taught for note in question.gold}
    with place.fresh() as mem:
        _configure(mem, system)
        before = {q.id: _ask(mem, place, system, q) for q in (*taught, *others)}
        for question in taught:
            used = list(question.gold)
            if way == "shown":
                shown = {note for note, _ in before[question.id].hits}
                used = [note for note in used if note in shown]
            if used:
                mem.feedback(before[question.id].recall, used=used, outcome=1.0)
        for number, question in enumerate((*taught, *others)):
            related = known & set(question.gold)
            group = "re-asked" if number < len(taught) else "related" if related else "unrelated"
            pair = (before[question.id], _ask(mem, place, system, question))
            values = [measure([n for n, _ in one.hits], question.gold)[main] for one in pair]
            lists[group].append((values[0], values[1]))


def _rate_wrong(place: Place, system: System, seed: int) -> tuple[int, int]:
    """How many first hits were rated wrong, and how many of them then left first place."""
    taught, _ = halves(place.part.questions, seed)
    wrong = []
    with place.fresh() as mem:
        _configure(mem, system)
        for question in taught:
            answer = _ask(mem, place, system, question)
            if answer.hits and answer.hits[0][0] not in question.gold:
                wrong.append((question, answer))
        left = 0
        for question, answer in wrong:
            first = answer.hits[0][0]
            mem.feedback(answer.recall, used=[first], outcome=-1.0)
            again = _ask(mem, place, system, question)
            left += not again.hits or again.hits[0][0] != first
    return len(wrong), left


def _configure(mem: fa.Memory, system: System) -> None:
    if system.changes:
        mem.configure(**system.changes)


def _ask(mem: fa.Memory, place: Place, system: System, question: Question) -> Answer:
    return ask(mem, system, question.text, place.vector(question))


def _told(pairs: list[tuple[float, float]], seed: int) -> dict[str, Any]:
    if not pairs:
        return {"questions": 0}
    table = np.array(pairs, np.float64).reshape(len(pairs), 2)
    columns = np.column_stack([table, table[:, 1] - table[:, 0]])
    before, after, change = Bootstrap(len(pairs), seed).intervals(columns)
    return {"questions": len(pairs), "before": before, "after": after, "change": change}
