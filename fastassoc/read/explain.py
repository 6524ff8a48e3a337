"""Why each hit came: its score, its path, and what the query was understood to ask."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastassoc.answers import Hit, Recall, Step
from fastassoc.cues import NOTE, is_stem
from fastassoc.errors import FastAssocError
from fastassoc.links import Link
from fastassoc.notes import DEFAULT_IMPORTANCE
from fastassoc.query import Query
from fastassoc.read.merge import Placed, absolute
from fastassoc.read.ranks import Scored, Way
from fastassoc.read.scan import NEAREST, Scan
from fastassoc.settings import LinkRule, Settings
from fastassoc.state import StateView
from fastassoc.times import moment

__all__ = ["explain"]

FROM_NOTE, TO_NOTE = ("out of", "to word", "note"), ("into", "word", "note", "cue")


def explain(
    view: StateView,
    query: Query,
    settings: Settings,
    found: Scan,
    scored: Scored,
    rank: str,
    placed: Sequence[Placed],
    now: int,
    timings: dict[str, float],
) -> Recall:
    """Hits with their reasons, and what the query was understood to ask.

    `timings` is taken as it is, since the last stage ends after this.
    """
    paths = Paths(view, settings, found, scored, now)
    paths.reach({concept for one in placed for concept in one.concepts})
    cosines = similarities(view, query, found, placed)
    coverage = found.coverage if scored.coverage is None else scored.coverage
    hits: list[Hit] = []
    reached: dict[str, float] = {}
    names = view.vocabulary.names()

    for one, cosine in zip(placed, cosines, strict=True):
        # by counts, what links bring is part of every score; else of an associated note's only
        told = rank in {"counts", "bridge"} or one.source == "association"
        through = paths.through(one) if told else []
        hit = hit_of(view, names, one, paths.path(one, through), through, coverage, cosine)
        hits.append(hit)
        reached.update(
            zip(names_of(through, names), (paths.strengths[c] for c in through), strict=True)
        )
    if query.order_by == "recency":
        hits.sort(key=lambda hit: (hit.created_at, hit.id), reverse=True)
    named = names_of(found.named, names)
    return Recall(
        hits=hits,
        query_concepts=named,
        query_terms=list(dict.fromkeys([*named, *found.words])),
        query_stems=found.stems,
        expanded_concepts=dict(sorted(reached.items(), key=lambda item: (-item[1], item[0]))),
        variants={said: names_of(others, names) for said, others in found.variants.items()},
        unknown=found.unknown,
        reason=None if hits else why_empty(view, query, found, scored, rank),
        rank=rank,
        position=view.position,
        timings=timings,
    )


def similarities(
    view: StateView, query: Query, found: Scan, placed: Sequence[Placed]
) -> list[float | None]:
    """The cosine of each note with the query's vector, where both have one."""
    if query.vector is None or not placed:
        return [None] * len(placed)
    near = () if found.near is None else (one[:NEAREST].tolist() for one in found.near)
    known = dict(zip(*near, strict=True))  # to the bit what is told of them anew
    others = [one.row for one in placed if one.row not in known]
    if others:
        told = view.points.similarities(query.vector, np.array(others, np.int64))
        known.update(zip(others, told.tolist(), strict=True))
    cosines = [known[one.row] for one in placed]
    return [None if math.isnan(cosine) else cosine for cosine in cosines]


class Paths:
    """How notes were reached; each link is looked up once."""

    def __init__(
        self, view: StateView, settings: Settings, found: Scan, scored: Scored, now: int
    ) -> None:
        self._view = view
        self._found = found
        self._scored = scored
        self._settings = settings
        self._now = now
        self._links: dict[int, list[Step]] = {}
        self._names = view.vocabulary.names()
        self.named = set(found.named)
        self.strengths: dict[int, float] = {}  # of the expanded concepts that hits carry

    def reach(self, concepts: set[int]) -> None:
        """Look up which of the hits' concepts were expanded to, and their strengths."""
        expansion = self._scored.expansion
        if expansion is not None and len(expansion.ids):
            asked = np.array(list(concepts), np.uint32)
            ids, strengths = expansion.ids, expansion.strengths
            places = np.minimum(ids.searchsorted(asked), len(ids) - 1)
            there = ids[places] == asked
            found = strengths[places[there]].tolist()
            self.strengths = dict(zip(asked[there].tolist(), found, strict=True))

    def through(self, one: Placed) -> list[int]:
        """The expanded concepts that a note carries, by name."""
        if self._scored.way is not None:
            way = self._scored.way(one.row)
            last = {a for kind, a, b in way if b == one.row and kind == "into"}
            self.strengths.update({c: self._scored.reached[c] for c in last})
            return sorted((c for c in last if c not in self.named), key=self._concept)
        return sorted((c for c in one.concepts if c in self.strengths), key=self._concept)

    def path(self, one: Placed, through: Sequence[int]) -> list[Step]:
        """From what the query named to the note, over concepts, then over notes."""
        if self._scored.way is not None:
            return self._led(self._scored.way(one.row))
        note = self._note(one.row)
        path: list[Step] = []
        for concept in (*(c for c in one.concepts if c in self.named), *through):
            path += self._to_concept(concept)
            path.append(carries(self._concept(concept), note))
        walk = self._scored.walk
        if one.source == "association" and walk is not None and one.row in walk.ids:
            steps = walk.path(one.row)
            path += self._to_seed(steps[0][0])
            path += [self._step(a, b, "note") for a, b in steps]
        return path

    def _led(self, way: Sequence[Way]) -> list[Step]:
        """A way over notes and concepts alike; before a note that it leaves, how that was named."""
        path: list[Step] = []
        known: set[int] = set()  # notes that it came to
        for kind, a, b in way:
            if kind in FROM_NOTE and a not in known:
                path += self._to_seed(a)
            if kind in TO_NOTE:
                known.add(b)
            path.append(self._taken(kind, a, b))
        return path

    def _taken(self, kind: str, a: int, b: int) -> Step:
        """A step over notes and concepts alike."""
        if kind == "into":
            return carries(self._concept(a), self._note(b))
        if kind == "out of":
            return carries(self._note(a), self._concept(b))
        if kind == "word":
            return said(self._stem(a), self._note(b))
        if kind == "to word":
            return said(self._note(a), self._stem(b))
        if kind == "cue":
            term = self._view.cues.stems.name(a >> 1) if is_stem(a) else self._concept(a >> 1)
            link = self._view.cues.links.get(a, b | NOTE)
            return self._told(link, "cue", term, self._note(b))
        return self._step(a, b, "concept" if kind == "link" else "note")

    def _to_concept(self, concept: int) -> list[Step]:
        links = self._links.get(concept)
        if links is None:
            expansion = self._scored.expansion
            known = expansion is None or concept in self.named
            pairs = [] if known or expansion is None else expansion.path(concept)
            links = self._links[concept] = [self._step(a, b, "concept") for a, b in pairs]
        return links

    def _to_seed(self, row: int) -> list[Step]:
        """How the query named a note: itself, by a concept, else by its weightiest word, if any."""
        if row == self._found.like:
            return []
        for concept in self._view.notes.table.concepts_of(row)[0].tolist():
            if concept in self.named:
                return [carries(self._concept(concept), self._note(row))]
        text, terms = self._view.text, self._found.asked.ids
        if text is None or not len(terms):
            return []
        options = self._settings.bm25_k1, self._settings.bm25_b
        weights = text.weights_of(np.array([row]), self._found.asked, *options)[0]
        if not weights.any():
            return []
        return [said(text.stem(int(terms[weights.argmax()])), self._note(row))]

    def _step(self, a: int, b: int, layer: str) -> Step:
        """A link of a layer with its weights as they are now."""
        between = layer == "note"
        links = self._view.note_links if between else self._view.links
        name = self._note if between else self._concept
        return self._told(links.get(min(a, b), max(a, b)), layer, name(a), name(b))

    def _told(self, link: Link | None, layer: str, source: str, target: str) -> Step:
        rule: LinkRule = getattr(self._settings, f"{layer}_links")
        if link is None:
            raise FastAssocError(f"no link between {source!r} and {target!r} in the view")
        factor = math.exp(-max(0, self._now - link.updated_at) / rule.decay_us)
        weight, written = link.weight * factor, link.written * factor
        return Step(source, target, layer, weight, written, weight - written)

    def _concept(self, concept: int) -> str:
        return self._names[concept] or ""

    def _stem(self, term: int) -> str:
        if self._view.text is None:
            raise FastAssocError("a path over words, and no index of words")
        return self._view.text.stem(term)

    def _note(self, row: int) -> str:
        return self._view.notes.table.ids[row]


def names_of(concepts: Sequence[int], names: Sequence[str | None]) -> list[str]:
    """Names by id; "" for one that was dropped."""
    return [names[concept] or "" for concept in concepts]


def carries(concept: str, note: str) -> Step:
    """The step from a concept into a note that carries it."""
    return Step(concept, note, "carries", 0.0, 0.0, 0.0)


def said(source: str, target: str) -> Step:
    """The step from a word into a note that says it, or back."""
    return Step(source, target, "says", 0.0, 0.0, 0.0)


def hit_of(
    view: StateView,
    names: Sequence[str | None],
    one: Placed,
    path: list[Step],
    through: Sequence[int],
    coverage: float,
    cosine: float | None,
) -> Hit:
    """A hit with its reasons."""
    table, row = view.notes.table, one.row
    rank_score = one.rank_score
    importance = table.plain["importance"][row]
    return Hit(
        id=table.ids[row],
        text=table.texts[row],
        score=1.0 if one.source == "exact" else absolute(rank_score, coverage),
        rank_score=rank_score,
        parts=one.parts,
        similarity=cosine,
        source=one.source,
        concepts=names_of(one.concepts, names),
        via=names_of(through, names) if one.source == "association" else [],
        path=path,
        domain=table.domains[int(view.notes.domain[row])],
        metadata=table.metadata(row),
        created_at=moment(int(view.notes.created_at[row])),
        valence=table.valence.get(row, 0.0),
        importance=DEFAULT_IMPORTANCE if importance is None else importance,
    )


def why_empty(view: StateView, query: Query, found: Scan, scored: Scored, rank: str) -> str:
    """Why there is no hit, in plain words."""
    if not view.notes.table.n_alive:
        return "the store is empty"
    asked = query.text or query.concepts or query.like
    if not asked and not query.fingerprint and query.vector is None:
        return "the query is empty: give a text, concepts=, vector=, like= or fingerprint="
    if scored.candidates or scored.associated:
        return f"every hit scores below min_score {query.min_score:g}"
    if not found.allowed.any():
        given = query.domain, query.since, query.until, query.where
        if any(one is not None for one in given):
            return "no note passes the filters"
        if view.notes.table.n_alive == 1 and query.like is not None:
            return "the store has no note but the one that the query is like"
        return "newer notes supersede every note that could be found"
    if not asked and query.vector is None:
        return "no note that passes the filters has this fingerprint"
    if rank == "counts" and not (found.named or found.unknown):
        return "the query names no concept of the store, and rank 'counts' reads nothing else"
    if query.vector is not None and rank != "counts" and not (found.named or found.words):
        held = found.allowed[view.points.rows]
        if not held.any():
            return "no note that passes the filters has a vector"
        return "the notes with a vector that pass the filters are in the cold tier"
    if rank == "flat":
        return (
            "no note that passes the filters says a word of the query, and rank 'flat' reads no "
            "names of concepts"
        )
    if found.named:
        return "no note that passes the filters carries a named concept or one linked to it"
    if found.unknown:
        return f"the store has no concept named {', '.join(map(repr, found.unknown))}"
    return "the store knows no concept and no word of the query"
