"""What notes carry of a question without saying it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fastassoc.read.lookup import inside
from fastassoc.read.scan import Scan
from fastassoc.state import StateView
from fastassoc.text import TextView

__all__ = ["Carried"]

Scores = NDArray[np.float64]


class Carried:
    """Concepts of the question that notes were given: each counts as if the note said it once.

    A word of the concept's name that the question has and the note's text lacks weighs its idf, as
    BM25 weighs one occurrence in a text of average length; all of a name's words together at most
    the idf of the concept. A concept of which the question has no word that any text holds is a
    word of its own. Notes that declare the concept as their subject gain by that already.

    Parameters
    ----------
    terms : list of int
        The question's words that texts hold: the first columns.
    idf : float64 [t]
    named : uint32 [q]
        Concepts of the question, by name.
    named_idf : float64 [q]

    Attributes
    ----------
    rows : int64 [m]
        Allowed notes that lack a word of a concept which they carry.
    idf : float64 [n_columns]
        Of the words, and of the concepts that are words of their own.
    asked_idf : float
        What these add to the idf of all that was asked, in place of words that no text holds.
    """

    def __init__(
        self,
        view: StateView,
        text: TextView,
        found: Scan,
        terms: Sequence[int],
        idf: Scores,
        named: NDArray[np.uint32],
        named_idf: Scores,
    ) -> None:
        place = {term: at for at, term in enumerate(terms)}
        own: list[float] = []
        unknown: set[str] = set()
        self._lists: list[tuple[NDArray[np.int32], list[int], Scores]] = []
        rows: list[NDArray[np.int32]] = []
        given = view.notes.declared
        for concept, weight in zip(named.tolist(), named_idf.tolist(), strict=True):
            if concept >= len(given) or not given[concept]:
                continue  # names that were found in texts are said there
            holders = self._holders(view, found, concept)
            if not len(holders):
                continue
            words = text.query(view.vocabulary.name(concept))
            columns = sorted(place[term] for _, term in words if term in place)
            if columns:
                values = idf[columns] * min(1.0, weight / float(idf[columns].sum()))
                said = [inside(holders, text.postings.rows(terms[column])) for column in columns]
                rows.append(holders[~np.logical_and.reduce(said)])
            else:
                columns, values = [len(terms) + len(own)], np.array([weight])
                rows.append(holders)
                own.append(weight)
                unknown |= {stem for stem, _ in words if stem in found.sought}
            self._lists.append((holders, columns, values))
        self.asked_idf = sum(own) - len(unknown) * text.idf(-1)
        self.idf = np.concatenate([idf, np.array(own)])
        self.rows = np.unique(np.concatenate(rows or [np.empty(0, np.int32)])).astype(np.int64)

    @staticmethod
    def _holders(view: StateView, found: Scan, concept: int) -> NDArray[np.int32]:
        """Allowed rows that carry a concept and are not about it."""
        rows: NDArray[np.int32] = view.notes.postings.rows(concept)
        rows = rows[found.allowed[rows] != 0]
        subjects = view.notes.subjects
        if concept < subjects.n_terms:
            rows = rows[~inside(rows, subjects.rows(concept))]
        return rows

    def weights(self, rows: NDArray[np.int64], said: Scores) -> Scores:
        """What rows gain by word, float64 [m, n_columns], from the weights of what they say."""
        gained = np.zeros((len(rows), len(self.idf)))
        for holders, columns, values in self._lists:
            there = np.flatnonzero(inside(rows, holders))
            for column, value in zip(columns, values.tolist(), strict=True):
                lack = there if column >= said.shape[1] else there[said[there, column] == 0.0]
                gained[lack, column] = np.maximum(gained[lack, column], value)
        return gained
