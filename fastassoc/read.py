"""The read: scan, plan, score, merge, explain; four steps over one view, then the reasons."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fastassoc.answers import Hit, Recall, Step
from fastassoc.errors import FastAssocError, NoteNotFound
from fastassoc.filters import allowed_rows
from fastassoc.links import Expansion
from fastassoc.query import Query
from fastassoc.settings import Settings
from fastassoc.state import StateView
from fastassoc.times import moment
from fastassoc.words import STOP_WORDS, tokens

__all__ = ["is_held", "needs_text", "read"]

Rows = NDArray[np.int32]
Scores = NDArray[np.float64]
DEFAULT_IMPORTANCE = 0.5

REPLACED = (
    "only notes that newer ones supersede match: include_superseded (--include-superseded) shows "
    "them"
)


def needs_text(query: Query, settings: Settings) -> bool:
    """Whether a read of this query looks at the text index."""
    return query.text is not None or (query.rank or settings.rank) == "flat" or bool(query.like)


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
    terms : uint32 [t]
        Known stems of the text, for BM25.
    coverage : float
        How much of the query anything in the store explains, in [0, 1].
    """

    allowed: NDArray[np.uint8]
    exact: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    variants: dict[str, list[int]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    terms: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    coverage: float = 0.0


@dataclass
class Scored:
    """Candidate rows, best first, and what made them candidates.

    Attributes
    ----------
    rows : list of int
    scores : list of float
        The rank score of each.
    direct : set of int
        Rows among the first k of the direct score.
    exact : dict of int to float
        The rank score of each exact row, be it among `rows` or not.
    """

    rows: list[int]
    scores: list[float]
    direct: set[int]
    expansion: Expansion | None = None
    exact: dict[int, float] = field(default_factory=dict)


def read(view: StateView, query: Query, settings: Settings, now: int) -> Recall:
    """The answer to one query over one view of the state.

    Parameters
    ----------
    view : StateView
    query : Query
    settings : Settings
        Read fields of the handle that asks.
    now : int
        Microseconds UTC, for decay.
    """
    clock = Clock()
    found = scan(view, query)
    clock.lap("scan")
    rank = plan(query, settings, found)
    pool = query.k + len(found.exact) + (4 * query.k if query.diversity else 0)
    scored = RANKED[rank](view, query, settings, found, now, pool)
    clock.lap("score")
    hits = merge(view, query, found, scored, rank)
    clock.lap("merge")
    recall = explain(view, query, settings, found, scored, rank, hits, now)
    if not hits and replaced_match(view, query, settings, now):
        recall = replace(recall, reason=REPLACED)
    clock.lap("explain")
    return replace(recall, timings=clock.laps)


def replaced_match(view: StateView, query: Query, settings: Settings, now: int) -> bool:
    """Whether nothing but notes that others supersede would answer."""
    if query.include_superseded or (view.notes.alive == view.notes.current).all():
        return False
    return bool(read(view, replace(query, include_superseded=True), settings, now))


class Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        """Close a stage."""
        now = perf_counter()
        self.laps[name] = now - self._last
        self._last = now


# -- scan ---------------------------------------------------------------------------------------


def scan(view: StateView, query: Query) -> Scan:
    """Find what the query names, and the rows that it may return."""
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
        text = text or notes.table.texts[row]
    rows: list[int] = []
    if query.fingerprint is not None:
        rows += notes.table.by_fingerprint(query.fingerprint)
    if query.text:
        rows += notes.table.by_text(query.text)
    found.exact = [row for row in dict.fromkeys(rows) if row < notes.n and found.allowed[row]]
    name_concepts(view, query, found)
    weigh_text(view, query, text, found)
    return found


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
    return (concept < len(df) and df[concept] > 0) or view.links.degree(concept) > 0


def eligible(view: StateView) -> Callable[[int], bool]:
    """Whether a concept may be found in a text: given to a live note, on two, or linked."""
    df, declared, links = view.notes.df, view.notes.declared, view.links

    def allowed(concept: int) -> bool:
        if concept < len(df) and (declared[concept] > 0 or df[concept] >= 2):
            return True
        return (concept >= len(df) or df[concept] == 0) and links.degree(concept) > 0

    return allowed


def weigh_text(view: StateView, query: Query, text: str | None, found: Scan) -> None:
    """Known stems of the text, and the share of the query that the store explains."""
    asked = len(query.concepts or ()) + (1 if query.like else 0)
    shares = [1.0 - len(found.unknown) / asked] if asked else []
    if text is None and query.concepts and view.text is not None:
        text = " ".join(query.concepts)
    if text and view.text is not None:
        stems = view.text.query(text)
        found.terms = np.array(sorted(term for _, term in stems if term >= 0), np.uint32)
        weights = [view.text.idf(term) for _, term in stems]
        known = sum(w for w, (_, term) in zip(weights, stems, strict=True) if term >= 0)
        covered = known / sum(weights) if weights else 0.0
        if query.text:
            found.words = [w for w in dict.fromkeys(tokens(text)) if w not in STOP_WORDS]
            parts = {word for c in found.named for word in tokens(view.vocabulary.name(c))}
            parts.update(word for said in found.variants for word in tokens(said))
            if found.words:
                named = sum(word in parts for word in found.words) / len(found.words)
                covered = max(covered, named)
            elif found.named:
                covered = 1.0
            shares.append(covered)
    found.coverage = min(1.0, sum(shares) / len(shares)) if shares else 0.0


def plan(query: Query, settings: Settings, found: Scan) -> str:
    """The rank to use: what was asked for, else counts where a concept was named, else flat."""
    words = found.words or (query.like is not None and len(found.terms))
    return query.rank or settings.rank or ("counts" if found.named or not words else "flat")


# -- score --------------------------------------------------------------------------------------


def score_counts(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """10 for each asked concept on a note, and the strength of each expanded one on it."""
    rule = settings.concept_links
    asked = np.array(sorted(found.named), np.uint32)
    expansion = view.links.expand(
        asked,
        threshold=rule.threshold,
        hops=query.hops,
        hop_factor=settings.hop_factor,
        product=rule.ceiling == 1.0,
        max_fanout=settings.max_fanout,
        now=now,
    )
    rows, scores, direct, direct_scores = view.notes.postings.count_read(
        asked, expansion.ids, expansion.strengths, found.allowed, pool, view.notes.prefix
    )
    first, ordered = by_text(view, rows, scores, pool)
    near, _ = by_text(view, direct, direct_scores, query.k)
    exact = {row: counts_of(view, row, set(found.named), expansion) for row in found.exact}
    return Scored(first, ordered, set(near), expansion, exact)


def counts_of(view: StateView, row: int, asked: set[int], expansion: Expansion) -> float:
    """The score by counts of one row, summed in the order of `PostingsView.count_read`."""
    held = set(view.notes.table.concepts_of(row)[0].tolist())
    score = 10.0 * len(held & asked)
    for concept in sorted(held - asked):
        place = int(np.searchsorted(expansion.ids, concept))
        if place < len(expansion.ids) and expansion.ids[place] == concept:
            score += max(0.0, float(expansion.strengths[place]))
    return score


def by_text(view: StateView, rows: Rows, scores: Scores, k: int) -> tuple[list[int], list[float]]:
    """The first k by score, then text descending in code-point order, then order of writing."""
    order = rows.argsort()
    rows, scores = rows[order], scores[order]
    texts = view.notes.table.texts.take(rows)
    held = nlargest(k, zip(scores.tolist(), texts, (-rows).tolist(), strict=True))
    return [-row for _, _, row in held], [score for score, _, _ in held]


def score_flat(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """BM25 over the stems of the text."""
    if view.text is None or not len(found.terms):
        return Scored([], [], set())
    rows, scores = view.text.best(
        found.terms, settings.bm25_k1, settings.bm25_b, found.allowed, pool
    )
    held = np.array(found.exact, np.int64)
    terms = [int(term) for term in found.terms]
    weights = view.text.weights(held, terms, settings.bm25_k1, settings.bm25_b).sum(axis=1)
    exact = dict(zip(found.exact, weights.tolist(), strict=True))
    return Scored(rows.tolist(), scores.tolist(), set(rows.tolist()), exact=exact)


RANKED: dict[str, Callable[[StateView, Query, Settings, Scan, int, int], Scored]] = {
    "counts": score_counts,
    "flat": score_flat,
}


# -- merge --------------------------------------------------------------------------------------


@dataclass
class Placed:
    """A row in its place, with its concepts and the parts of its rank score."""

    row: int
    source: str
    parts: dict[str, float]
    concepts: list[int]

    @property
    def rank_score(self) -> float:
        """The sum of the parts."""
        return math.fsum(self.parts.values())


def merge(view: StateView, query: Query, found: Scan, scored: Scored, rank: str) -> list[Placed]:
    """Exact notes first, then the candidates, cut to k."""
    asked = set(found.named)
    held = dict(zip(scored.rows, scored.scores, strict=True))
    above = max(scored.scores, default=0.0) + 1.0
    placed: list[Placed] = []
    for row in found.exact[: query.k]:
        one = place(view, row, scored.exact.get(row, 0.0), asked, rank)
        # a bonus that lifts it above every other note, so that rank_score keeps ordering
        placed.append(replace(one, source="exact", parts={"exact": above, **one.parts}))
    placed.sort(key=lambda one: -one.rank_score)
    room = query.k - len(placed)
    if room <= 0:
        return placed
    exact = set(found.exact)
    rest = [(row, score) for row, score in held.items() if row not in exact]
    if not query.diversity:
        rest = rest[:room]
    others = [place(view, row, score, asked, rank, scored.direct) for row, score in rest]
    return placed + (spread(view, others, query.diversity, room) if query.diversity else others)


def place(
    view: StateView,
    row: int,
    score: float,
    asked: set[int],
    rank: str,
    direct: Container[int] = (),
) -> Placed:
    """A row with the named parts of its rank score."""
    concepts = view.notes.table.concepts_of(row)[0].tolist()
    on_note = sum(c in asked for c in concepts)
    source = "association" if row not in direct else "concept" if on_note else "semantic"
    if rank == "flat":
        return Placed(row, source, {"text": score}, concepts)
    parts = {"asked": 10.0 * on_note, "association": score - 10.0 * on_note}
    return Placed(row, source, parts, concepts)


def spread(view: StateView, pool: list[Placed], diversity: float, k: int) -> list[Placed]:
    """The first k, each losing a share of its score for the concepts it has in common with a pick.

    Score times ``1 - diversity * overlap``, the overlap being the largest Jaccard index of the
    concepts, or of the words where neither note has a concept.
    """
    table = view.notes.table

    sets: dict[int, frozenset[object]] = {
        one.row: frozenset(one.concepts or tokens(table.texts[one.row])) for one in pool
    }
    picks: list[Placed] = []
    left = list(pool)
    overlap = dict.fromkeys(sets, 0.0)
    while left and len(picks) < k:
        best = max(left, key=lambda one: one.rank_score * (1.0 - diversity * overlap[one.row]))
        left.remove(best)
        lost = best.rank_score * diversity * overlap[best.row]
        parts = {**best.parts, "diversity": -lost} if lost else best.parts
        picks.append(replace(best, parts=parts))
        for one in left:
            a, b = sets[one.row], sets[best.row]
            common = len(a & b) / len(a | b) if a | b else 0.0
            overlap[one.row] = max(overlap[one.row], common)
    return picks


# -- explain ------------------------------------------------------------------------------------


def explain(
    view: StateView,
    query: Query,
    settings: Settings,
    found: Scan,
    scored: Scored,
    rank: str,
    placed: Sequence[Placed],
    now: int,
) -> Recall:
    """Hits with their reasons, and what the query was understood to ask."""
    paths = Paths(view, settings, found.named, scored.expansion, now)
    paths.reach({concept for one in placed for concept in one.concepts})
    hits: list[Hit] = []
    reached: dict[str, float] = {}
    name = view.vocabulary.name
    for one in placed:
        hit, through = hit_of(view, one, paths, found.coverage)
        if hit.score < query.min_score:
            continue
        hits.append(hit)
        reached.update({name(concept): paths.strengths[concept] for concept in through})
    if query.order_by == "recency":
        hits.sort(key=lambda hit: (hit.created_at, hit.id), reverse=True)
    named = [name(concept) for concept in found.named]
    return Recall(
        hits=hits,
        query_concepts=named,
        query_terms=list(dict.fromkeys([*named, *found.words])),
        expanded_concepts=dict(sorted(reached.items(), key=lambda item: (-item[1], item[0]))),
        variants={said: [name(o) for o in others] for said, others in found.variants.items()},
        unknown=found.unknown,
        reason=None if hits else why_empty(view, query, found, bool(placed)),
        rank=rank,
        position=view.position,
    )


class Paths:
    """How the expanded concepts were reached; each one's links are looked up once."""

    def __init__(
        self,
        view: StateView,
        settings: Settings,
        named: Sequence[int],
        expansion: Expansion | None,
        now: int,
    ) -> None:
        self._view = view
        self._expansion = expansion
        self._decay = settings.concept_links.decay_us
        self._now = now
        self._links: dict[int, list[Step]] = {}
        self.named = set(named)
        self.strengths: dict[int, float] = {}  # of the expanded concepts that hits carry

    def reach(self, concepts: set[int]) -> None:
        """Look up which of the hits' concepts were expanded to, and their strengths."""
        if self._expansion is not None and len(self._expansion.ids):
            asked = np.array(list(concepts), np.uint32)
            ids, strengths = self._expansion.ids, self._expansion.strengths
            places = np.minimum(ids.searchsorted(asked), len(ids) - 1)
            there = ids[places] == asked
            found = strengths[places[there]].tolist()
            self.strengths = dict(zip(asked[there].tolist(), found, strict=True))

    def steps(self, concept: int) -> list[Step]:
        """The links from an asked concept to `concept`."""
        links = self._links.get(concept)
        if links is None:
            links = self._links[concept] = self._steps(concept)
        return links

    def _steps(self, concept: int) -> list[Step]:
        name, out = self._view.vocabulary.name, []
        if self._expansion is None or concept in self.named:
            return []
        for a, b in self._expansion.path(concept):
            link = self._view.links.get(min(a, b), max(a, b))
            if link is None:
                raise FastAssocError(f"no link between {name(a)!r} and {name(b)!r} in the view")
            factor = math.exp(-max(0, self._now - link.updated_at) / self._decay)
            weight, written = link.weight * factor, link.written * factor
            out.append(Step(name(a), name(b), "concept", weight, written, weight - written))
        return out


def hit_of(view: StateView, one: Placed, paths: Paths, coverage: float) -> tuple[Hit, list[int]]:
    """A hit, and the expanded concepts that it carries, by name."""
    table, name = view.notes.table, view.vocabulary.name
    row = one.row
    note = table.ids[row]
    asked = [c for c in one.concepts if c in paths.named]
    through = sorted((c for c in one.concepts if c in paths.strengths), key=name)
    path: list[Step] = []
    for concept in (*asked, *through):
        path += paths.steps(concept)
        path.append(Step(name(concept), note, "carries", 0.0, 0.0, 0.0))
    rank_score = one.rank_score
    importance = table.plain["importance"][row]
    hit = Hit(
        id=note,
        text=table.texts[row],
        score=1.0 if one.source == "exact" else coverage * rank_score / (1.0 + rank_score),
        rank_score=rank_score,
        parts=one.parts,
        similarity=None,
        source=one.source,
        concepts=[name(c) for c in one.concepts],
        via=[name(c) for c in through] if one.source == "association" else [],
        path=path,
        domain=table.domains[int(view.notes.domain[row])],
        metadata=table.metadata(row),
        created_at=moment(int(view.notes.created_at[row])),
        valence=table.valence.get(row, 0.0),
        importance=DEFAULT_IMPORTANCE if importance is None else importance,
    )
    return hit, through


def why_empty(view: StateView, query: Query, found: Scan, weak: bool) -> str:
    """Why there is no hit, in plain words."""
    if not view.notes.table.n_alive:
        return "the store is empty"
    if not (query.text or query.concepts or query.like or query.fingerprint):
        return "the query is empty: give a text, concepts=, like= or fingerprint="
    if weak:
        return f"every hit scores below min_score {query.min_score:g}"
    if not found.allowed.any():
        return "no note passes the filters"
    if found.named:
        return "no note that passes the filters carries a named concept or one linked to it"
    if found.unknown:
        return f"the store has no concept named {', '.join(map(repr, found.unknown))}"
    return "the store knows no concept and no word of the query"
