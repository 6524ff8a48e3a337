"""How many withheld "See Also" relations a memory of documentation finds by itself."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastassoc as fa

__all__ = ["Measure", "measure"]

FIRST = 10  # places that count
DEPTH = 50  # hits of each read that the two together are made from
BATCH = 50
MOST_ASKED = 1_000  # symbols; more would only take longer
DRAWS = 400  # of the bootstrap
GAINS = {  # what is gained, by which way over which
    "links": ("links", "concepts"),
    "vectors to text": ("mixed", "flat"),
    "vectors to text and links": ("all", "both"),
    "retention": ("retention", "vectors"),
}
Interval = tuple[float, float, float]  # the value and its bounds
Answer = list[tuple[str, float]]  # ids with their rank scores, best first


@dataclass(frozen=True)
class Measure:
    """Shares of true relations found in the first ten, by way of asking; see `measure`.

    Attributes
    ----------
    asked : int
        Symbols that were asked.
    relations : int
        Their relations, all of which could be found.
    shares : dict of str to (float, float, float)
        Share, and the bounds of its 95 % interval, by way.
    gains : dict of str to (float, float, float)
        The same of differences between two ways, over the same draws, by what makes them.
    """

    asked: int
    relations: int
    shares: dict[str, Interval]
    gains: dict[str, Interval]

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON values."""
        shares = {
            way: {"share": one[0], "low": one[1], "high": one[2]}
            for way, one in self.shares.items()
        }
        gains = {
            what: {"gain": one[0], "low": one[1], "high": one[2]}
            for what, one in self.gains.items()
        }
        return {"asked": self.asked, "relations": self.relations, "first": FIRST, **shares,
                "gains": gains}  # fmt: skip


def measure(
    mem: Any,
    unlinked: Any,
    relations: Mapping[str, Sequence[str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Measure:
    """Ask each symbol's note for what is like it, in several ways, and count true relations.

    ``flat`` asks its words, ``links`` its concepts and what is linked to them, ``concepts`` the
    same without following a link, so that nobody takes the work of one for that of the other.
    ``both`` adds ``flat`` and ``links``, each score divided by the best of its answer.

    Where notes have vectors: ``vectors`` asks the note's vector alone, ``mixed`` its words and its
    vector, ``all`` adds ``mixed`` and ``links``, and ``retention`` is the rank of that name.

    Parameters
    ----------
    mem : Memory or its control
        Its notes are named by symbol. It has no embedder, so that words are asked as words.
    unlinked : Memory or its control
        The same with a threshold that no link reaches.
    relations : mapping of str to list of str
        The truth.
    progress : callable, optional
        Called with the symbols asked so far, and all.
    """
    names = sorted(relations)
    step = max(1, -(-len(names) // MOST_ASKED))
    names = names[::step]
    near = mem.stats()["dim"] is not None
    found: dict[str, list[int]] = defaultdict(list)
    for start in range(0, len(names), BATCH):
        part = names[start : start + BATCH]
        ways = {**_ways(mem, unlinked, part), **(_with_vectors(mem, part) if near else {})}
        ways["both"] = [together(pair) for pair in zip(ways["flat"], ways["links"], strict=True)]
        if near:
            ways["all"] = [
                together(pair) for pair in zip(ways["mixed"], ways["links"], strict=True)
            ]
        for way, answers in ways.items():
            for name, answer in zip(part, answers, strict=True):
                first = {one for one, _ in answer[:FIRST]}
                found[way].append(len(first.intersection(relations[name])))
        if progress is not None:
            progress(min(start + BATCH, len(names)), len(names))
    return _measured(found, [len(relations[name]) for name in names])


def _ways(mem: Any, unlinked: Any, names: list[str]) -> dict[str, list[Answer]]:
    """Answers by words, by concepts, and by concepts and links."""
    texts = [{"query": mem.get(name).text} for name in names]  # `like` would ask its vector, too
    like = [{"like": name} for name in names]
    return {
        "flat": _answers(names, mem.read_batch(texts, rank="flat", k=DEPTH + 1)),
        "concepts": _answers(names, unlinked.read_batch(like, rank="counts", k=FIRST)),
        "links": _answers(names, mem.read_batch(like, rank="counts", k=DEPTH)),
    }


def _with_vectors(mem: Any, names: list[str]) -> dict[str, list[Answer]]:
    """Answers by vector, by words and vector, and by the rank that asks all three."""
    vectors = [{"vector": mem.get(name).vector} for name in names]
    like = [{"like": name} for name in names]
    return {
        "vectors": _answers(names, mem.read_batch(vectors, rank="flat", k=FIRST + 1)),
        "mixed": _answers(names, mem.read_batch(like, rank="flat", k=DEPTH)),
        "retention": _answers(names, mem.read_batch(like, rank="retention", k=FIRST)),
    }


def _answers(names: list[str], recalls: Sequence[fa.Recall]) -> list[Answer]:
    """The answers without the notes that asked."""
    return [
        [(hit.id, hit.rank_score) for hit in recall if hit.id != name]
        for name, recall in zip(names, recalls, strict=True)
    ]


def together(answers: Sequence[Answer]) -> Answer:
    """The first ten of several answers added, each score divided by its best."""
    sums: dict[str, float] = defaultdict(float)
    for answer in answers:
        for name, score in answer:
            sums[name] += score / (answer[0][1] or 1.0)
    return sorted(sums.items(), key=lambda one: (-one[1], one[0]))[:FIRST]


def _measured(found: Mapping[str, Sequence[int]], totals: Sequence[int]) -> Measure:
    """Shares of all relations, with bootstrap intervals over the symbols."""
    draw = random.Random(0)
    places = range(len(totals))
    draws = [draw.choices(places, k=len(totals)) for _ in range(DRAWS)]
    drawn = [sum(totals[n] for n in taken) for taken in draws]
    of = {
        way: [
            sum(counts[n] for n in taken) / total for taken, total in zip(draws, drawn, strict=True)
        ]
        for way, counts in found.items()
    }
    whole = {way: sum(counts) / sum(totals) for way, counts in found.items()}
    shares = {way: (whole[way], *_bounds(of[way])) for way in found}
    gains = {
        what: (whole[a] - whole[b], *_bounds([x - y for x, y in zip(of[a], of[b], strict=True)]))
        for what, (a, b) in GAINS.items()
        if a in found and b in found
    }
    return Measure(len(totals), sum(totals), shares, gains)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """Between which 95 % of the values lie."""
    ordered = sorted(values)
    return ordered[DRAWS // 40], ordered[-1 - DRAWS // 40]
