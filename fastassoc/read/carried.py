"""What notes carry of a question, whether they say it or not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import bridge as kernels
from fastassoc.read.scan import Scan
from fastassoc.state import StateView
from fastassoc.text import TextView

__all__ = ["Carried"]

Scores = NDArray[np.float64]


class Carried:
    """Concepts of the question that notes were given: each counts as one more word of a note.

    It weighs its idf, as BM25 weighs one occurrence in a text of average length. Notes that declare
    the concept as their subject gain by that already, and names that were found in texts are said
    there.

    Parameters
    ----------
    named : uint32 [q]
        Concepts of the question, by name.
    idf : float64 [q]

    Attributes
    ----------
    ids : uint32 [c]
        Those of them that an allowed note carries without being about it.
    idf : float64 [c]
    asked_idf : float
        What these change in the idf of all that was asked: a concept stands for the words of its
        name where no text holds one of them.
    """

    def __init__(
        self,
        view: StateView,
        text: TextView,
        found: Scan,
        named: NDArray[np.uint32],
        idf: Scores,
    ) -> None:
        lists, subjects = view.notes.postings.lists, view.notes.subjects.lists
        given = view.notes.declared
        known = np.zeros(len(named), np.bool_)
        inside = named < len(given)
        known[inside] = given[named[inside]] > 0
        if known.any():
            known &= kernels.given(lists, subjects, found.allowed, named)
        self.ids, self.idf = named[known], idf[known]
        unknown: set[str] = set()
        self.asked_idf = 0.0
        for concept, weight in zip(self.ids.tolist(), self.idf.tolist(), strict=True):
            words = text.query(view.vocabulary.name(concept))
            if not any(text.meant(*word) for word in words):
                unknown.update(stem for stem, _ in words if stem in found.sought)
                self.asked_idf += weight
        if unknown:
            self.asked_idf -= len(unknown) * text.idf(-1)
