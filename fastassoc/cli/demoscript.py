"""The steps of the demonstration: each does one thing to the store and returns what it saw."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastassoc as fa
from fastassoc.embed import Embedder

__all__ = [
    "EMBEDDER",
    "LINKS",
    "QUESTIONS",
    "Lesson",
    "Taught",
    "TimedEmbedder",
    "ask_elsewhere",
    "beside",
    "choose_lesson",
    "command",
    "taught",
    "telling",
]

EMBEDDER = "wordllama"  # of the extra `embed`; works without a network

QUESTIONS = (
    "fit a smoothing spline to noisy data",
    "find the eigenvalues of a symmetric matrix",
    "test whether two samples have the same mean",
    "parse command line options",
    "draw a progress bar in the terminal",
)
ASKED = 3  # questions whose answers are shown
SHOWN = 4  # hits of an answer
LINKS = "counts"  # the rank that shows what is taught: links between concepts, and their weights
PAGE = 5  # hits of an answer that is taught
BESIDE = 9  # hits of an answer that shows all three kinds, a third of them by links
KINDS = {"semantic", "concept", "association"}
FAR = 1_000  # places by vector that are looked at
ROUNDS = 2  # outcomes: a taught link is followed from a weight of 2 on

# a question, and the note that turned out to help
LESSONS = (
    ("draw a progress bar in the terminal", "rich.progress.track"),
    ("find the eigenvalues of a symmetric matrix", "scipy.sparse.linalg.eigsh"),
    ("temporary directory that cleans up after itself", "contextlib.ExitStack"),
    ("parse command line options", "argparse.ArgumentParser"),
)


class TimedEmbedder:
    """An embedder that counts the seconds it takes, loading included.

    Parameters
    ----------
    given : Embedder
    """

    def __init__(self, given: Embedder) -> None:
        self.name, self.dim, self._given = given.name, given.dim, given
        self.seconds = 0.0

    def embed(self, texts: list[str], /) -> Any:
        """One row of `dim` floats for each text."""
        begun = time.perf_counter()
        found = self._given.embed(texts)
        self.seconds += time.perf_counter() - begun
        return found


def telling(mem: fa.Memory) -> list[str]:
    """The questions to show, first those whose answers tell of each way that leads to a note."""

    def ways(question: str) -> int:
        hits = [hit for hit in mem.read(question, k=SHOWN) if hit.source == "association"]
        over_concepts = any(hit.via for hit in hits)
        return over_concepts + any(step.layer == "note" for hit in hits for step in hit.path)

    return sorted(QUESTIONS, key=ways, reverse=True)[:ASKED]


@dataclass(frozen=True)
class Beside:
    """A question whose answer has hits of all kinds.

    Attributes
    ----------
    question : str
    recall : Recall
        By the rank ``"retention"``.
    places : dict of str to int
        Where the nearest notes by vector alone stand, from 1, by id.
    seconds : float
        What the read took.
    """

    question: str
    recall: fa.Recall
    places: dict[str, int]
    seconds: float


def beside(mem: fa.Memory, embedder: Embedder) -> list[Beside]:
    """At most two questions: one answered in all three ways, one that names no concept.

    Parameters
    ----------
    mem : Memory
        With vectors, and open with the embedder.
    embedder : Embedder
        The same.
    """
    found: list[Beside] = []
    mem.read(QUESTIONS[0], rank="retention")  # builds the word index
    for suits in (of_all_kinds, naming_nothing):
        for question in QUESTIONS:
            begun = time.perf_counter()
            recall = mem.read(question, rank="retention", k=BESIDE)
            seconds = time.perf_counter() - begun
            if suits(recall):
                vector = embedder.embed([question])[0]
                near = mem.read(vector=vector, rank="flat", k=FAR)
                places = {hit.id: place for place, hit in enumerate(near, 1)}
                found.append(Beside(question, recall, places, seconds))
                break
    return found


def of_all_kinds(recall: fa.Recall) -> bool:
    """Whether each kind of hit is in the answer."""
    return {hit.source for hit in recall} >= KINDS


def naming_nothing(recall: fa.Recall) -> bool:
    """Whether there is an answer to a question that names no concept."""
    return bool(recall) and not recall.query_concepts


@dataclass(frozen=True)
class Lesson:
    """A question and the note that helped, which the answer did not put first."""

    question: str
    helped: str


@dataclass(frozen=True)
class Taught:
    """The same read before and after feedback.

    Attributes
    ----------
    lesson : Lesson
    asked : list of str
        Concepts that the question names.
    before, after : Recall
    links : list of (str, str, float, float)
        Links that changed: the ends, the weight before and after.
    """

    lesson: Lesson
    asked: list[str]
    before: fa.Recall
    after: fa.Recall
    links: list[tuple[str, str, float, float]]


def choose_lesson(mem: fa.Memory) -> Lesson | None:
    """The first lesson that this machine's documentation allows, None where there is none."""
    for question, helped in LESSONS:
        recall = mem.read(question, k=PAGE, rank=LINKS)
        if recall.query_concepts and helped in mem and helped not in _ids(recall)[:2]:
            return Lesson(question, helped)
    for question in [*QUESTIONS, *(one[0] for one in LESSONS)]:
        recall = mem.read(question, k=PAGE, rank=LINKS)
        if recall.query_concepts and len(recall) > 2:
            return Lesson(question, recall[-1].id)
    return None


def _ids(recall: fa.Recall) -> list[str]:
    return [hit.id for hit in recall]


def taught(mem: fa.Memory, lesson: Lesson) -> Taught:
    """Read, say twice which note helped, read again."""
    before = mem.read(lesson.question, k=PAGE, rank=LINKS)
    asked = list(before.query_concepts)
    carried = mem.get(lesson.helped).concepts
    pairs = [(a, b) for a in asked for b in carried if a != b]
    weights = {pair: mem.links.weight(*pair) for pair in pairs}
    for _ in range(ROUNDS):
        mem.feedback(before, used=[lesson.helped], outcome=1.0)
    after = mem.read(lesson.question, k=PAGE, rank=LINKS)
    links = [(a, b, weights[a, b], mem.links.weight(a, b)) for a, b in pairs]
    return Taught(lesson, asked, before, after, [one for one in links if one[2] != one[3]])


def command(*words: str) -> str:
    """A command line to copy; the store is named by FASTASSOC_STORE."""
    return " ".join(["fastassoc", *map(shlex.quote, words)])


def ask_elsewhere(store: Path, question: str) -> tuple[dict[str, Any], int, float]:
    """Ask in a new process through the command line.

    Returns
    -------
    (dict, int, float)
        The answer as ``fastassoc read --json`` prints it, the process's id, seconds.

    Raises
    ------
    OSError
        The process failed; the message is its last line.
    """
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "FASTASSOC_STORE": str(store),
                   "FASTASSOC_EMBEDDER": "none"}  # fmt: skip
    root = str(Path(fa.__file__).parents[1])
    path = [root, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    start = time.perf_counter()
    words = ["read", "-k", str(PAGE), "--rank", LINKS, "--json", question]
    with subprocess.Popen(
        [sys.executable, "-m", "fastassoc", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env=environment,
    ) as process:  # fmt: skip
        out, err = process.communicate()
    if process.returncode:
        last = (err.strip().splitlines() or ["no message"])[-1]
        raise OSError(f"the new process failed: {last}")
    answer = json.loads(out)
    assert isinstance(answer, dict)
    return answer, process.pid, time.perf_counter() - start
