"""Association of concepts measured: a link or a tag is hidden, and `Memory.associate` looks for it.

*Norms*: the links of the memory have no direction, so the link between a cue and a response
weighs both counts together. The cue's strongest response is hidden, either as an answer to this
cue (what was said the other way round stays) or both ways; it counts as found if it is among the
first ten words that are not other responses to the cue, which are known already.

*Tags*: some notes are not written; of each, one tag is hidden and the others are the cues.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import fastassoc as fa
from fastassoc.quality.measures import Bootstrap, milliseconds
from fastassoc.quality.places import Progress, Vectors
from fastassoc.quality.sets import Norms, TagSet
from fastassoc.words import casefold

__all__ = ["measure_norms", "measure_tags"]

CUES = 1_000
HELD_OUT = 2_000
LEAST_TAGS = 3  # of a held-out note: two cues and the hidden one
FIRST = 10
Array = np.ndarray[Any, np.dtype[np.float64]]


def measure_norms(
    norms: Norms, vectors: Vectors, limit: int | None, seed: int, progress: Progress
) -> dict[str, Any]:
    """Hide the strongest response of some cues, one direction and both.

    Beside `Memory.associate`: the strongest links, the sum over two links of products of weights,
    and the words nearest by vector.
    """
    if not norms.counts:
        return {"cues": 0, "found@10": {}}
    draw = random.Random(seed)
    cues = draw.sample(sorted(norms.counts), min(limit or CUES, len(norms.counts)))
    mem = fa.Memory()
    for number, (cue, responses) in enumerate(norms.counts.items(), 1):
        for response, many in responses.items():
            mem.link(cue, response, float(many))
        if number % 100 == 0:
            progress(f"{norms.name}: links", number, len(norms.counts))
    net = _Net(mem)
    words = [net.names[at] for at in range(len(net.names))]
    vectors.prepare([word.lower() for word in words], norms.name)
    table = _unit(vectors, [word.lower() for word in words])
    out: dict[str, Any] = {}
    seconds: list[float] = []
    for both in (False, True):
        found: dict[str, list[float]] = {}
        for number, cue in enumerate(cues, 1):
            for name, good in _hidden(mem, net, table, norms, cue, both, seconds).items():
                found.setdefault(name, []).append(float(good))
            if number % 10 == 0:
                progress(f"{norms.name}: {'both' if both else 'one'} hidden", number, len(cues))
        sure = Bootstrap(len(cues), seed)
        out["both" if both else "one"] = {name: sure.interval(v) for name, v in found.items()}
    mem.close()
    return {"cues": len(cues), "found@10": out, "milliseconds": milliseconds(seconds)}


def _hidden(
    mem: fa.Memory,
    net: _Net,
    table: Array | None,
    norms: Norms,
    cue: str,
    both: bool,
    seconds: list[float],
) -> dict[str, bool]:
    """Whether each way finds the strongest response of a cue while that is hidden."""
    responses = norms.counts[cue]
    wanted = max(responses, key=lambda one: (responses[one], one))
    back = norms.counts.get(wanted, {}).get(cue, 0)
    taken = float(responses[wanted] + (back if both else 0))
    known = {net.places[casefold(one)] for one in responses if one != wanted}
    at, target = net.places[casefold(cue)], net.places[casefold(wanted)]
    known.add(at)
    mem.link(cue, wanted, -taken)
    try:
        mem.associate([cue], k=1)  # brings the change in, which is not the reading's time
        hits, took = _timed(lambda: mem.associate([cue], k=FIRST + len(known)))
    finally:
        mem.link(cue, wanted, taken)
    seconds.append(took)
    told = [net.places[casefold(hit.concept)] for hit in hits]
    row = net.row(at)
    row[target] -= taken
    ways: dict[str, list[int]] = {
        "associate": [one for one in told if one not in known][:FIRST],
        "strongest links": net.first(row, known),
        "two links": net.first(net.weights.T @ row, known),
    }
    if table is not None:
        ways["nearest words"] = net.first(table @ table[at], known)
    return {name: target in places for name, places in ways.items()}


class _Net:
    """The concept links as a matrix, for the plain ways beside."""

    def __init__(self, mem: fa.Memory) -> None:
        self._mem = mem
        self.names: list[str] = mem.links.names()
        self.weights: csr_array = mem.links.to_scipy()
        self.places = {casefold(name): at for at, name in enumerate(self.names)}

    def row(self, at: int) -> Array:
        """Weights from one concept, float64 [n], a copy."""
        out: Array = self.weights[[at]].toarray()[0]
        return out

    @staticmethod
    def first(scores: Array, known: set[int]) -> list[int]:
        """The first ten by score that are above 0 and not known."""
        scores = np.array(scores, np.float64)
        scores[list(known)] = 0.0
        top = np.argsort(-scores, kind="stable")[:FIRST]
        return [at for at in top.tolist() if scores[at] > 0]


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    from time import perf_counter

    begun = perf_counter()
    out = call()
    return out, perf_counter() - begun


def _unit(vectors: Vectors, words: Sequence[str]) -> Array | None:
    """Vectors of length 1; None without an embedder."""
    if vectors.embedder is None:
        return None
    rows = [vectors.of(word) for word in words]
    width = next((len(row) for row in rows if row is not None), 1)
    table = np.array([np.zeros(width) if row is None else row for row in rows], np.float64)
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    out: Array = table / np.where(lengths > 0, lengths, 1.0)
    return out


def measure_tags(tags: TagSet, limit: int | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Predict one hidden tag from the others, of notes that the memory has not seen.

    Beside `Memory.associate`: the sums of plain counts, and of cosines (counts divided by the
    root of both frequencies), and the tags that are on most notes.
    """
    draw = random.Random(seed)
    able = [number for number, row in enumerate(tags.rows) if len(row["concepts"]) >= LEAST_TAGS]
    most = max(1, len(tags.rows) // 4)
    if not able:
        return {"held_out": 0, "ways": {}, "groups": {}}
    held = draw.sample(able, min(limit or HELD_OUT, len(able), most))
    apart = set(held)
    mem = fa.Memory()
    kept = [row for number, row in enumerate(tags.rows) if number not in apart]
    for start in range(0, len(kept), 5_000):
        mem.write_batch(kept[start : start + 5_000], on_error="reject")
        progress(f"{tags.name}: notes", min(start + 5_000, len(kept)), len(kept))
    net = _Net(mem)
    often = np.zeros(len(net.names))
    for row in kept:
        for concept in {casefold(one) for one in row["concepts"]}:
            if concept in net.places:
                often[net.places[concept]] += 1
    root = 1 / np.sqrt(np.maximum(often, 1.0))
    found: dict[str, list[list[float]]] = {}
    groups: dict[str, list[list[float]]] = {}
    seconds: list[float] = []
    for number, place in enumerate(held, 1):
        names = sorted(tags.rows[place]["concepts"])
        hidden = draw.choice(names)
        cues = [one for one in names if one != hidden]
        hits, took = _timed(lambda cues=cues: mem.associate(cues, k=FIRST))  # type: ignore[misc]
        seconds.append(took)
        at = [net.places[casefold(one)] for one in cues if casefold(one) in net.places]
        known = set(at)
        rows = np.array([net.row(one) for one in at]).reshape(len(at), len(net.names))
        ways = {
            "associate": [net.places.get(casefold(hit.concept), -1) for hit in hits],
            "sum of counts": net.first(rows.sum(axis=0), known),
            "sum of cosines": net.first((rows * root[at][:, None]).sum(axis=0) * root, known),
            "most frequent tags": net.first(often, known),
        }
        target = net.places.get(casefold(hidden), -2)
        for name, told in ways.items():
            found.setdefault(name, []).append([float(target in told[:k]) for k in (1, 5, 10)])
        group = "2 cues" if len(cues) == 2 else "3 or 4 cues" if len(cues) < 5 else "5 cues or more"
        groups.setdefault(group, []).append(found["associate"][-1])
        if number % 20 == 0:
            progress(f"{tags.name}: hidden tags", number, len(held))
    mem.close()
    sure = Bootstrap(len(held), seed)
    told_of = {
        name: dict(zip(("@1", "@5", "@10"), sure.intervals(np.array(rows)), strict=True))
        for name, rows in found.items()
    }
    return {
        "held_out": len(held),
        "ways": told_of,
        "groups": {
            name: {
                "questions": len(rows),
                **dict(
                    zip(("@1", "@5", "@10"), np.mean(rows, axis=0).round(5).tolist(), strict=True)
                ),
            }
            for name, rows in sorted(groups.items())
        },
        "milliseconds": milliseconds(seconds),
    }
