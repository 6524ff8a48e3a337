"""What a query names, which notes it may return, and how much of it the store explains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fastassoc.errors import NoteNotFound
from fastassoc.filters import allowed_rows
from fastassoc.query import Query
from fastassoc.state import StateView
from fastassoc.text import Asked
from fastassoc.words import STOP_WORDS, terms

__all__ = ["NEAREST", "Scan", "is_held", "scan", "search"]

NEAREST = 100  # how many of the nearest notes a read looks at, at least
NOTHING = Asked(np.empty(0, np.uint32), np.empty(0), [])


@dataclass
class Scan:
    """What the query names, and which rows it may return.

    Attributes
    ----------
    allowed : uint8 [n]
    exact : list of int
        Rows with the query's text or fingerprint.
    named : list of int
        Concept ids that were asked, variants included, in order of mention.
    variants : dict of str to list of int
        What the query said, and the variants asked because of it; see `Recall`.
    unknown : list of str
    words : list of str
        Content words of the text.
    stems : list of str
        Stems of the content words of the query's own text.
    stem_terms : list of int
        The term of each in the text index, -1 for one that no live note holds.
    terms : uint32 [t]
        Known stems of the text, for BM25.
    asked : Asked
        The same in the order of the stems, with what each weighs.
    like : int or None
        The row of the note that the query is like; it is no answer, and links lead on from it.
    asked_idf, known_idf : float
        Sum of the idf of all stems of the text, and of those that a note holds.
    sought : frozenset of str
        These stems.
    near : (int64 [m], float64 [m]) or None
        The nearest rows by vector and their cosines, nearest first.
    more : bool
        Whether other notes have vectors, too, and lie further away.
    shares : list of float
        How much of each thing that was asked anything in the store explains, in [0, 1].
    """

    allowed: NDArray[np.uint8]
    exact: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    variants: dict[str, list[int]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    stems: list[str] = field(default_factory=list)
    stem_terms: list[int] = field(default_factory=list)
    terms: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    asked: Asked = NOTHING
    like: int | None = None
    asked_idf: float = 0.0
    known_idf: float = 0.0
    sought: frozenset[str] = frozenset()
    near: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
    more: bool = False
    shares: list[float] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        """How much of the query anything in the store explains, in [0, 1]."""
        return min(1.0, sum(self.shares) / len(self.shares)) if self.shares else 0.0


def scan(view: StateView, query: Query) -> tuple[Query, Scan]:
    """Find what the query names, and the rows that it may return.

    A query `like` a note asks with its vector, too, unless it has one of its own.
    """
    notes = view.notes
    found = Scan(
        allowed=allowed_rows(
            notes,
            domain=query.domain,
            since=query.since,
            until=query.until,
            where=query.where,
            include_superseded=query.include_superseded,
        )
    )
    text = query.text
    if query.like is not None:
        row = notes.table.rows.get(query.like)
        if row is None or row >= notes.n or not notes.alive[row]:
            raise NoteNotFound(f"like: no live note has the id {query.like!r}.")
        found.named.extend(int(c) for c in notes.table.concepts_of(row)[0])
        found.allowed = found.allowed.copy()
        found.allowed[row] = 0
        found.like = row
        text = text or notes.table.texts[row]
        if query.vector is None:
            query = replace(query, vector=view.points.vector(row))
    rows: list[int] = []
    if query.fingerprint is not None:
        rows += notes.table.by_fingerprint(query.fingerprint)
    if query.text:
        rows += notes.table.by_text(query.text)
    found.exact = [row for row in dict.fromkeys(rows) if row < notes.n and found.allowed[row]]
    name_concepts(view, query, found)
    weigh_text(view, query, text, found)
    return query, found


def search(
    view: StateView, vector: NDArray[np.float32], found: Scan, count: int, first: int
) -> None:
    """Find the nearest notes that may be returned; those of the cold tier are found by links.

    `count` are looked at; an index promises its recall for the `first` of them.
    """
    allowed = view.notes.states.hot_of(found.allowed)
    if view.index is None:
        near = view.points.nearest(vector, count, allowed)
    else:
        near = view.index.nearest(view.points, vector, count, allowed, first)
    found.near = near
    found.more = len(near[0]) == count
    found.shares.append(max(0.0, float(near[1][0])) if len(near[0]) else 0.0)


def name_concepts(view: StateView, query: Query, found: Scan) -> None:
    """Concepts given by name, then those found in the text, then variants of both."""
    vocabulary, name = view.vocabulary, view.vocabulary.name
    named = dict.fromkeys(found.named)
    said: dict[str, list[int]] = {}
    for given in query.concepts or ():
        concept = vocabulary.find(given)
        if concept is not None and not is_held(view, concept):
            concept = None  # forgotten, but for its number
        others = [other for other in vocabulary.variants_of(given) if is_held(view, other)]
        if concept is not None:
            named[concept] = None
        elif not others:
            found.unknown.append(given)
        said.setdefault(given if concept is None else name(concept), []).extend(others)
    if query.text:
        may_be = eligible(view)
        for concepts, words in vocabulary.find_in(query.text, may_be):
            if words is not None:
                said.setdefault(words, []).extend(concepts)
                continue
            for concept in concepts:
                named[concept] = None
                others = [other for other in vocabulary.variants(concept) if may_be(other)]
                said.setdefault(name(concept), []).extend(others)
    for words, others in said.items():
        asked = [other for other in dict.fromkeys(others) if other not in named]
        if asked:
            found.variants[words] = asked
    named.update(dict.fromkeys(c for others in found.variants.values() for c in others))
    found.named = list(named)


def is_held(view: StateView, concept: int) -> bool:
    """Whether a live note carries the concept, or a link holds it."""
    df = view.notes.df
    return (concept < len(df) and df[concept] > 0) or is_linked(view, concept)


def is_linked(view: StateView, concept: int) -> bool:
    """Whether a link of any layer holds the concept."""
    return view.links.degree(concept) > 0 or view.cues.holds(concept)


def eligible(view: StateView) -> Callable[[int], bool]:
    """Whether a concept may be found in a text: given to a live note, on two, or linked.

    One that a text alone named is linked where a cue link holds it, for notes link all that they
    name; one that no live note carries, by a link of any layer.
    """
    df, declared = view.notes.df, view.notes.declared

    def allowed(concept: int) -> bool:
        if concept < len(df) and (declared[concept] > 0 or df[concept] >= 2):
            return True
        if concept < len(df) and df[concept] > 0:
            return view.cues.holds(concept)
        return is_linked(view, concept)

    return allowed


def weigh_text(view: StateView, query: Query, text: str | None, found: Scan) -> None:
    """Known stems of the text, and the share of the query that the store explains."""
    asked = len(query.concepts or ()) + (1 if query.like else 0)
    shares = found.shares
    if asked:
        shares.append(1.0 - len(found.unknown) / asked)
    if text is None and query.concepts and view.text is not None:
        text = " ".join(query.concepts)
    if text and view.text is not None:
        stems = view.text.query(text)
        meant = [view.text.meant(stem, term) for stem, term in stems]
        found.asked = view.text.asked(dict.fromkeys(term for some in meant for term in some))
        found.terms = np.sort(found.asked.ids)
        idf = dict(zip(found.asked.ids.tolist(), found.asked.idf.tolist(), strict=True))
        unknown = view.text.idf(-1)
        weights = [idf[some[0]] if some else unknown for some in meant]
        found.asked_idf = sum(weights)
        found.sought = frozenset(stem for stem, _ in stems)
        found.known_idf = sum(weight for weight, some in zip(weights, meant, strict=True) if some)
        covered = found.known_idf / found.asked_idf if weights else 0.0
        if query.text:
            found.stems = [stem for stem, _ in stems]
            found.stem_terms = [term for _, term in stems]
            found.words = [w for w in dict.fromkeys(terms(text)) if w not in STOP_WORDS]
            parts = {word for c in found.named for word in terms(view.vocabulary.name(c))}
            parts.update(word for said in found.variants for word in terms(said))
            if found.words:
                named = sum(word in parts for word in found.words) / len(found.words)
                covered = max(covered, named)
            elif found.named:
                covered = 1.0
            shares.append(covered)
