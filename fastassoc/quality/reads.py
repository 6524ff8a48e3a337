"""Reads measured: every system on every question, and on easy look-ups."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastassoc.quality.measures import MEASURES, Bootstrap, measure, milliseconds
from fastassoc.quality.places import Place, Progress
from fastassoc.quality.sets import AskedSet, Question
from fastassoc.quality.systems import System, ask

__all__ = ["Ranked", "easy_questions", "measure_lookups", "measure_reads"]

LOOKUPS = 500
LEAST_WORDS = 6  # of a sentence that is looked up
Asked = tuple[Place, Question]
# for TREC files: set, system, then question id, ranked (note id, score)
Ranked = dict[tuple[str, str], list[tuple[str, list[tuple[str, float]]]]]


def measure_reads(
    asked: AskedSet,
    places: Sequence[Place],
    systems: Sequence[System],
    seed: int,
    progress: Progress,
    ranked: Ranked,
) -> list[dict[str, Any]]:
    """Ask every question in the way of every system.

    Returns
    -------
    list of dict
        A system each: ``measures`` (value, low, high), ``gain`` of the main measure over the
        hybrid sum (BM25 where there are no vectors), by the same resamples, ``milliseconds`` of a
        read, ``groups`` of questions.
    """
    pairs = [(place, question) for place in places for question in place.part.questions]
    sure = Bootstrap(len(pairs), seed)
    tables: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}
    out = []
    many = len(asked.parts) > 1
    for number, system in enumerate(systems):
        rows, seconds, lists = [], [], []
        what = f"{asked.name}: {system.title.strip()}"
        for place, answers in _each(places, system, pairs, what, progress):
            for question, answer in answers:
                rows.append(list(measure([n for n, _ in answer.hits], question.gold).values()))
                seconds.append(answer.seconds)
                mark = f"{place.part.name}/" if many else ""
                lists.append((question.id, [(mark + note, s) for note, s in answer.hits]))
        ranked[asked.name, system.name] = lists
        table = tables[system.name] = np.array(rows, np.float64).reshape(len(pairs), len(MEASURES))
        measures = dict(zip(MEASURES, sure.intervals(table), strict=True))
        out.append(
            {
                "name": system.name,
                "title": system.title,
                "rank": system.rank,
                "changes": dict(system.changes),
                "measures": measures,
                "milliseconds": milliseconds(seconds),
                "groups": _groups(pairs, table),
            }
        )
        progress(f"{asked.name}: systems", number + 1, len(systems))
    base = "hybrid" if "hybrid" in tables else "bm25"
    place_of = MEASURES.index(asked.main)
    for row in out:
        better = tables[str(row["name"])][:, place_of] - tables[base][:, place_of]
        row["gain"] = {"over": base, "measure": asked.main, **sure.interval(better)}
    return out


def _each(
    places: Sequence[Place],
    system: System,
    pairs: Sequence[Asked],
    what: str,
    progress: Progress,
    k: int = 10,
) -> Any:
    """Answers by place; what a first read makes once is made before any is timed."""
    done = 0
    for place in places:
        own = [question for other, question in pairs if other is place]
        if not own:
            continue
        with place.asked(system.changes) as mem:
            for question in own[:2]:
                ask(mem, system, question.text, place.vector(question), k)
            answers = []
            for question in own:
                answers.append(
                    (question, ask(mem, system, question.text, place.vector(question), k))
                )
                done += 1
                if done % 20 == 0:
                    progress(what, done, len(pairs))
        yield place, answers


def _groups(
    pairs: Sequence[Asked], table: np.ndarray[Any, np.dtype[np.float64]]
) -> dict[str, dict[str, float]]:
    names = np.array([question.group for _, question in pairs])
    out = {}
    for name in sorted(set(names.tolist())):
        held = table[names == name]
        means = dict(zip(MEASURES, held.mean(axis=0).round(5).tolist(), strict=True))
        out[name] = {"questions": len(held), **means}
    return out if len(out) > 1 else {}


# -- easy look-ups ------------------------------------------------------------------------------


def easy_questions(places: Sequence[Place], count: int, seed: int) -> list[Asked]:
    """Half of the words of one sentence of a note, in their order: the note is the answer.

    Sentences of fewer than six words, and those that stand in several notes of a store, are no
    questions.
    """
    draw = random.Random(seed)
    sentences: list[tuple[Place, str, str]] = []
    for place in places:
        held = [(row["id"], one) for row in place.part.rows for one in _sentences(row["text"])]
        times = Counter(sentence for _, sentence in held)
        sentences += [(place, note, one) for note, one in held if times[one] == 1]
    asked = []
    for number, (place, note, sentence) in enumerate(
        draw.sample(sentences, min(count, len(sentences)))
    ):
        words = sentence.split()
        kept = sorted(draw.sample(range(len(words)), (len(words) + 1) // 2))
        text = " ".join(words[at] for at in kept)
        asked.append((place, Question(f"lookup{number}", text, {note: 1})))
    return asked


def _sentences(text: str) -> list[str]:
    found = re.split(r"(?<=[.!?])\s+|\n+", text)
    return list(dict.fromkeys(one for one in found if len(one.split()) >= LEAST_WORDS))


def measure_lookups(
    places: Sequence[Place],
    systems: Sequence[System],
    name: str,
    seed: int,
    progress: Progress,
    vectors: Any,
    count: int = LOOKUPS,
) -> dict[str, Any]:
    """How often the note itself comes first, or among the first five; no figure of no question."""
    pairs = easy_questions(places, count, seed)
    if not pairs:
        return {"questions": 0, "systems": []}
    vectors.prepare([question.text for _, question in pairs], f"{name}: look-ups")
    sure = Bootstrap(len(pairs), seed)
    out = []
    for system in systems:
        rows = []
        what = f"{name}: look-ups, {system.title.strip()}"
        for _, answers in _each(places, system, pairs, what, progress, 5):
            for question, answer in answers:
                ids = [note for note, _ in answer.hits]
                rows.append(
                    [float(note in question.gold) for note in (ids[0] if ids else "",)]
                    + [float(any(note in question.gold for note in ids[:5]))]
                )
        first, five = sure.intervals(np.array(rows, np.float64).reshape(len(pairs), 2))
        out.append({"name": system.name, "title": system.title, "@1": first, "@5": five})
    return {"questions": len(pairs), "systems": out}
