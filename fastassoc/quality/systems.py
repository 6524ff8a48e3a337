"""The systems that are compared, each a way to read through the public API."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fastassoc as fa
from fastassoc.quality.places import fields_of
from fastassoc.settings import RANKS

__all__ = ["ABLATIONS", "SYSTEMS", "Answer", "System", "ask", "best_of", "usable"]

DEEP = 100  # hits of each list that is fused, or that links are looked for in
FUSION = 60  # the constant of reciprocal rank fusion (Cormack, Clarke and Buettcher 2009)
# parts of a rank score that links, words shared between notes, or lessons bring
LINKED = ("association", "bridge", "cover", "learned", "links", "note", "cue", "ppr")

Vector = NDArray[np.float32] | None


@dataclass(frozen=True)
class System:
    """A way to read.

    Attributes
    ----------
    name, title : str
    rank : str
        The rank that is asked for.
    text, vector : bool
        What is asked with: the question's text, its vector, or both.
    changes : mapping
        Read settings that differ from the defaults.
    how : {"read", "fusion", "links"}
        One read; two reads fused by rank; what only links brought, by their share of the score.
    """

    name: str
    title: str
    rank: str
    text: bool = True
    vector: bool = True
    changes: Mapping[str, Any] = field(default_factory=dict)
    how: str = "read"


class Answer(NamedTuple):
    """Ids with scores, best first; the seconds it took; the absolute score of the first hit."""

    hits: list[tuple[str, float]]
    seconds: float
    best: float
    recall: fa.Recall | None


DEFAULT = "bridge-default"  # what a read is where nothing else is asked for
PLAIN = {"cover": False}
NO_STEMS = {"stem": 0.0, "capital_stem": 0.0, "plain_stem": 0.0}
SYSTEMS = (
    System("dense", "dense: the vector alone", "flat", text=False),
    System("bm25", "BM25: the text alone", "flat", vector=False),
    System("fusion", "fusion of both by rank", "flat", how="fusion"),
    System("hybrid", "hybrid sum (flat)", "flat"),
    System("counts", "counts of links", "counts", vector=False),
    System("ppr", "ppr: personalised PageRank", "ppr"),
    System("links", "links: associations alone", "bridge", changes=PLAIN, how="links"),
    System("links", "links: associations, by counts", "counts", vector=False, how="links"),
    System("bridge-no-cover", "bridge, no covering pick", "bridge", changes=PLAIN),
    System(DEFAULT, "bridge, the default", "bridge", changes={"cover": True}),
)
ABLATIONS = tuple(
    System(
        f"{DEFAULT}-{name}",
        f"  {title}",
        "bridge",
        vector=name != "text",
        changes={"cover": True, **changes},
    )
    for name, title, changes in (
        ("text", "without the vector", {}),
        ("no-pin", "without the pin", {"pin": False}),
        ("no-note-links", "without note links", {"link_share": 0.0}),
        ("no-subjects", "without subject weight", {"subject_weight": 0.0}),
        ("no-stems", "without stems", NO_STEMS),
        ("no-bridge", "without the bridge", {"weight": 0.0}),
        ("one-seed", "with one spread seed", {"spread_seeds": 1}),
        ("whole-base", "with all of the base in look-ups", {"closed": 1.0}),
    )
)


def usable(systems: tuple[System, ...], vectors: bool) -> list[System]:
    """Those that this version has, and of these what makes sense without vectors.

    Of two of one name the first is taken.
    """
    found: dict[str, System] = {}
    for one in systems:
        fields = fields_of(one.changes)
        if one.rank not in RANKS or (fields is None and one.changes is not PLAIN):
            continue
        if not vectors and (not one.text or one.name in {"fusion", "hybrid", f"{DEFAULT}-text"}):
            continue
        changed = System(one.name, one.title, one.rank, one.text, one.vector, fields or {}, one.how)
        found.setdefault(one.name, changed)
    return list(found.values())


def best_of(systems: list[System]) -> System:
    """The best of what there is by design: the last of these that is usable."""
    by_name = {one.name: one for one in systems}
    order = ("counts", "bm25", "hybrid", "bridge-no-cover", DEFAULT)
    return [by_name[name] for name in order if name in by_name][-1]


def ask(mem: fa.Memory, system: System, text: str, vector: Vector, k: int = 10) -> Answer:
    """Ask one question in the way of a system."""
    begun = time.perf_counter()
    if system.how == "fusion":
        lists = [_read(mem, system, text, None, DEEP), _read(mem, system, None, vector, DEEP)]
        hits = fused([[hit.id for hit in recall] for recall in lists if recall is not None])[:k]
        return Answer(hits, time.perf_counter() - begun, hits[0][1] if hits else 0.0, None)
    recall = _read(
        mem,
        system,
        text if system.text else None,
        vector if system.vector else None,
        DEEP if system.how == "links" else k,
    )
    seconds = time.perf_counter() - begun
    if recall is None:
        return Answer([], seconds, 0.0, None)
    if system.how == "links":
        shares = [(hit.id, sum(hit.parts.get(part, 0.0) for part in LINKED)) for hit in recall]
        hits = sorted((one for one in shares if one[1] > 0), key=lambda one: -one[1])[:k]
        return Answer(hits, seconds, 0.0, recall)
    best = recall[0].score if len(recall) else 0.0
    return Answer([(hit.id, hit.rank_score) for hit in recall], seconds, best, recall)


def _read(
    mem: fa.Memory, system: System, text: str | None, vector: Vector, k: int
) -> fa.Recall | None:
    if text is None and vector is None:
        return None
    return mem.read(text, vector=vector, rank=system.rank, k=k)


def fused(lists: list[list[str]]) -> list[tuple[str, float]]:
    """Fuse ranked lists: each gives a note 1 / (60 + its rank).

    Examples
    --------
    >>> [note for note, _ in fused([["a", "b"], ["b", "c"]])]
    ['b', 'a', 'c']
    """
    total: dict[str, float] = {}
    for ranked in lists:
        for rank, note in enumerate(ranked, 1):
            total[note] = total.get(note, 0.0) + 1.0 / (FUSION + rank)
    return sorted(total.items(), key=lambda one: -one[1])
