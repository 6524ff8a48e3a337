"""The links of a memory from terms to notes, as a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastassoc.cues import NOTE, concept_codes, is_stem, stem_codes
from fastassoc.errors import InvalidInput
from fastassoc.links import Link
from fastassoc.settings import Settings
from fastassoc.state import StateView
from fastassoc.tables import LINKS, Notes, link_values

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["CueTable"]

KINDS = ("concept", "stem")
SCHEMA = LINKS.append(pa.field("kind", pa.string()))


class CueTable:
    """The links from terms of questions to notes; every look sees the memory as it is then.

    A term is a concept, by name, or a stem. A word stands for the concept of that name and for its
    stem. Notes go by id. Rows hold weights as they were at ``updated_at``; `weight` and `to_scipy`
    give effective ones, faded to now where the layer fades.
    """

    def __init__(
        self,
        view: Callable[[], StateView],
        now: Callable[[StateView], int],
        settings: Settings,
    ) -> None:
        self._view = view
        self._now = now
        self._us = settings.cue_links.decay_us
        self._language = settings.language

    def __len__(self) -> int:
        return len(self._view().cues.links)

    def weight(self, term: str, note: str, kind: str | None = None) -> float:
        """Return the effective weight between a term and a note, 0.0 without a link.

        Parameters
        ----------
        term : str
            A concept, or else a word or its stem.
        note : str
            Its id.
        kind : {"concept", "stem"}, optional
            Which of the two is meant; without it the concept's link if there is one, else the
            stem's.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Backoff fixed it.", concepts=["backoff"])
        >>> _ = mem.feedback(mem.read("flaky deploys"), used=[nid], outcome=1.0)
        >>> mem.cue_links.weight("deploys", nid), mem.cue_links.weight("tea", nid)
        (1.0, 0.0)
        """
        view = self._view()
        link = self._link(view, term, note, kind)
        if link is None:
            return 0.0
        return float(link.weight * math.exp(-max(0, self._now(view) - link.updated_at) / self._us))

    def get(self, term: str, note: str, kind: str | None = None) -> dict[str, Any] | None:
        """Return a link as a row of `to_arrow`, None where there is none."""
        view = self._view()
        link = self._link(view, term, note, kind)
        return None if link is None else cue_row(view, link)

    def top(self, limit: int = 20) -> list[dict[str, Any]]:
        """Return the heaviest links as rows of `to_arrow`, heaviest first, then by name."""
        order = [("weight", "descending"), *((name, "ascending") for name in ("a", "b", "kind"))]
        rows: list[dict[str, Any]] = self.to_arrow().sort_by(order).slice(0, limit).to_pylist()
        return rows

    def _link(self, view: StateView, term: str, note: str, kind: str | None) -> Link | None:
        if kind not in (None, *KINDS):
            raise InvalidInput(f"kind: found {kind!r}, expected None, 'concept' or 'stem'.")
        row = Notes().find(view, note)
        if row is None:
            return None
        codes = self._codes(view, term, kind)
        links = (view.cues.links.get(code, row | NOTE) for code in codes)
        return next((link for link in links if link is not None), None)

    def _codes(self, view: StateView, term: str, kind: str | None) -> list[int]:
        """Codes of every term of a name, the concept's first."""
        concept = view.vocabulary.find(term) if kind != "stem" else None
        known = view.cues.stems
        stems = [] if kind == "concept" else known.named(term, self._language)
        numbers = [number for stem in stems if (number := known.find(stem)) is not None]
        concepts = [] if concept is None else [concept]
        return [*concept_codes(concepts).tolist(), *stem_codes(numbers).tolist()]

    def named(self, term: str) -> list[str]:
        """Return the names under which rows of `to_arrow` know a term: a concept's, and a stem."""
        view = self._view()
        codes = self._codes(view, term, None)
        return list(dict.fromkeys(term_of(view, code)[1] for code in codes))

    def terms(self) -> list[tuple[str, str]]:
        """Return the kind and the name of what each row of `to_scipy` stands for, in order."""
        view = self._view()
        return sorted(term_of(view, code) for code in _codes(view))

    def to_scipy(self) -> csr_array:
        """Return the effective weights as a matrix, float64 [terms, notes].

        Row i is ``terms()[i]``, column j the note ``note_links.names()[j]``.
        """
        from scipy.sparse import coo_array

        view = self._view()
        columns = view.cues.links.columns()
        ages = np.maximum(0, self._now(view) - columns.updated_at)
        codes = _codes(view)
        ordered = sorted(range(len(codes)), key=lambda place: term_of(view, codes[place]))
        row_of = np.empty(len(codes), np.int64)
        row_of[ordered] = np.arange(len(codes))
        places = row_of[np.searchsorted(codes, columns.a)], (columns.b - NOTE).astype(np.int64)
        weights = columns.weight * np.exp(-ages / self._us)
        return coo_array((weights, places), shape=(len(codes), view.notes.n)).tocsr()

    def to_arrow(self) -> pa.Table:
        """Return every link: the columns of `LinksTable.to_arrow`, and ``kind``.

        ``a`` is a term, ``b`` a note's id, ``kind`` "concept" or "stem". Concepts come first; then
        it goes by a and by b.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Backoff fixed it.", id="n1", concepts=["backoff"])
        >>> _ = mem.link("retry", nid, 1.0, layer="cue")
        >>> mem.cue_links.to_arrow().select(["a", "b", "weight", "kind"]).to_pylist()
        [{'a': 'retri', 'b': 'n1', 'weight': 1.0, 'kind': 'stem'}]
        """
        view = self._view()
        columns = view.cues.links.columns()
        links = map(Link._make, zip(*(column.tolist() for column in columns), strict=True))
        rows = [cue_row(view, link) for link in links]
        rows.sort(key=lambda row: (row["kind"], row["a"], row["b"]))
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def _codes(view: StateView) -> list[int]:
    """Codes of the terms that have links, ascending."""
    codes: list[int] = np.unique(view.cues.links.columns().a).tolist()
    return codes


def term_of(view: StateView, code: int) -> tuple[str, str]:
    """The kind and the name of a term."""
    if is_stem(code):
        return "stem", view.cues.stems.name(code >> 1)
    return "concept", view.vocabulary.name(code >> 1)


def cue_row(view: StateView, link: Link) -> dict[str, Any]:
    """A row of `CueTable.to_arrow`."""
    kind, term = term_of(view, link.a)
    ends = {"a": term, "b": view.notes.table.ids[link.b - NOTE]}
    return {**ends, **link_values(link), "kind": kind}
