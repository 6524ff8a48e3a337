"""Stores to ask: made in memory from the notes of a set, or one's own, which stays as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastassoc as fa
from fastassoc.embed import Embedder, embed_texts
from fastassoc.quality.sets import AskedSet, Part, Question

__all__ = ["Place", "Progress", "Vectors", "fields_of", "places_of"]

Progress = Callable[[str, int, int], None]  # what is done, how many are done, of all
BATCH = 1_000
Rows = list[dict[str, Any]]


class Vectors:
    """Vectors of texts, each made once, so that no read's time holds the embedder's."""

    def __init__(self, embedder: Embedder | None, progress: Progress) -> None:
        self.embedder = embedder
        self._progress = progress
        self._known: dict[str, NDArray[np.float32] | None] = {}

    def prepare(self, texts: Sequence[str], what: str) -> None:
        """Make those that are missing, with progress."""
        if self.embedder is None:
            return
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(new), BATCH):
            some = new[start : start + BATCH]
            vectors, given = embed_texts(self.embedder, some)
            for text, vector, good in zip(some, vectors, given.tolist(), strict=True):
                self._known[text] = vector if good else None
            self._progress(f"{what}: vectors", start + len(some), len(new))

    def of(self, text: str) -> NDArray[np.float32] | None:
        """The vector of a text; None without an embedder, or where the text has none."""
        if self.embedder is None:
            return None
        if text not in self._known:
            self.prepare([text], "vectors")
        return self._known[text]


def fields_of(changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read settings under the names that this version has for them; None where it has not all.

    Examples
    --------
    >>> fields_of({"hop_factor": 0.5}), fields_of({"no such setting": 1})
    ({'hop_factor': 0.5}, None)
    """
    known = fa.Settings.read_fields()
    out = {}
    for name, value in changes.items():
        forms = (name, f"bridge.{name}", f"bridge_{name}", f"bridge.{name.replace('bridge_', '')}")
        found = next((form for form in forms if form in known), None)
        if found is None:
            return None
        out[found] = value
    return out


class Place:
    """A store that questions are asked of, by part of a set.

    Attributes
    ----------
    part : Part
    seconds : float
        What writing its notes took, embedding left out.
    notes : int
    rejected : list of (int, str)
        Rows that were refused, with the reasons.
    """

    def __init__(
        self, part: Part, vectors: Vectors, store: str | None = None, prepare: bool = True
    ) -> None:
        self.part, self._vectors, self._store = part, vectors, store
        self.seconds, self.rejected = 0.0, []  # type: float, list[tuple[int, str]]
        if prepare and store is None:
            vectors.prepare([row["text"] for row in part.rows], part.name)
        self._mem = self._made() if store is None else None
        if self._mem is not None:
            self.notes = len(self._mem)
        else:
            with self.asked({}) as mem:
                self.notes = len(mem)

    def _made(self) -> fa.Memory:
        mem = fa.Memory(settings=fa.Settings.counts())
        rows = self.part.rows
        begun = time.perf_counter()
        for start in range(0, len(rows), BATCH):
            some: Rows = []
            for row in rows[start : start + BATCH]:
                vector = self._vectors.of(row["text"])
                some.append(row if vector is None else {**row, "vector": vector})
            report = mem.write_batch(some, on_error="reject")
            self.rejected += [(start + number, reason) for number, reason in report.reasons]
        self.seconds = time.perf_counter() - begun
        return mem

    def fresh(self) -> fa.Memory:
        """The same notes in a new memory, for what changes it."""
        return self._made()

    @contextmanager
    def asked(self, changes: Mapping[str, Any]) -> Iterator[fa.Memory]:
        """The store, with some read settings changed meanwhile."""
        if self._mem is None:
            with fa.open(str(self._store), create=False, read_only=True) as stored:
                settings = stored.settings
            if changes:
                settings = settings.with_changes(changes, read_only=True)
            with fa.open(
                str(self._store), create=False, read_only=True, settings=settings
            ) as stored:
                yield stored
            return
        before = self._mem.settings.to_dict()
        if changes:
            self._mem.configure(**changes)
        try:
            yield self._mem
        finally:
            if changes:
                self._mem.configure(**{name: before[name] for name in changes})

    def vector(self, question: Question) -> NDArray[np.float32] | None:
        """The vector of a question."""
        return self._vectors.of(question.text)


def places_of(asked: AskedSet, vectors: Vectors, progress: Progress) -> list[Place]:
    """Make every store of a set."""
    places = []
    vectors.prepare([question.text for question in asked.questions], asked.name)
    for number, part in enumerate(asked.parts, 1):
        places.append(Place(part, vectors, asked.store))
        progress(f"{asked.name}: stores", number, len(asked.parts))
    return places
