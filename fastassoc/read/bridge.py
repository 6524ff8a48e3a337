"""The rank for questions that no single note answers: over what the best notes name, to others.

From the first notes that answer a question directly, the concepts that the question does not name
lead to other notes; a note gains by how rare these are and by the words of the question that the
first note lacks. Where notes declare subjects, the first five are chosen together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fastassoc.mentionindex import MentionView
from fastassoc.postings import gather
from fastassoc.query import Query
from fastassoc.read.carried import Carried
from fastassoc.read.learned import PARTS as TAUGHT
from fastassoc.read.learned import Learned
from fastassoc.read.lookup import Lookup, inside
from fastassoc.read.ranks import Cosines, Parts, Scored, Way
from fastassoc.read.scan import Scan
from fastassoc.settings import Settings
from fastassoc.state import StateView
from fastassoc.text import TextView

__all__ = ["score_bridge"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
PARTS = ("vector", "text", "concept", "subject", "bridge", "pin", "cover", *TAUGHT, "links")
NO_ROWS = np.empty(0, np.int64)


def score_bridge(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """The default read; see `BridgeRule` for its steps and constants."""
    if view.text is None or view.mentions is None:
        raise ValueError("the bridge reads the text index")
    board = Board(view, view.text, view.mentions, settings, found)
    board.begin(pool)
    first = board.order(board.first)  # notes with nothing are no answer, wherever they come from
    first = first[board.first[first] > 0.0]
    direct = set(board.rows[first[: query.k]].tolist())
    learned = Learned(view, view.text, view.mentions, settings, found, now)
    seeds, a = Seeds(board, learned), 0.0
    if len(first):
        a = gate(board, first) if settings.bridge.cover else 0.0
        taken = board.rows[first[: settings.bridge.seeds]].tolist()
        if a > 0.0:
            taken += [row for row in spread_seeds(board, first, a) if row not in taken]
        seeds.cross(taken)
    pin(board)
    if a > 0.0:
        cover(board, seeds, a)
    add_learned(board, learned)
    links(board, now, pool)
    made = {int(board.rows[place]): board.parts_at(place) for place in board.best(pool)}
    totals = {row: math.fsum(parts.values()) for row, parts in made.items()}
    order = sorted((row for row in made if totals[row] > 0.0), key=lambda r: (-totals[r], r))
    if len(order) < pool and found.near is not None:
        # the nearest by vector are answers, in whichever half of the space: last, nearest first
        score = board.score
        last = [row for row in found.near[0].tolist() if score[board.place(row)] <= 0.0]
        made.update((row, {"vector": 0.0}) for row in last)
        totals.update(dict.fromkeys(last, 0.0))
        direct.update(last)
        order += last
    made.update((row, board.parts_at(board.place(row))) for row in found.exact)
    return Scored(
        [(row, totals[row]) for row in order[:pool]],
        direct,
        lambda row, score, asked: made[row],
        {row: math.fsum(made[row].values()) for row in found.exact},
        coverage=board.coverage(),
        way=seeds.way,
        reached=seeds.reached,
    )


class Board:
    """The notes that can come first, with everything that adds to their scores, by place.

    Every other allowed note has no subject and no bridge, and a score of `beyond` at most.

    Attributes
    ----------
    rows : int64 [m]
        Ascending; a place changes when others come in before it.
    words : float64 [m, t]
        BM25 weight of each of the question's words, and of what is `Carried`, by the best note's
        sum.
    parts : dict of str to float64 [m]
    beyond : float
        The most that a note can have which is not there.
    """

    def __init__(
        self,
        view: StateView,
        text: TextView,
        mentions: MentionView,
        settings: Settings,
        found: Scan,
    ) -> None:
        self.view, self.text, self.mentions = view, text, mentions
        self.settings, self.rule, self.found = settings, settings.bridge, found
        # sums of floats go by name or by weight: numbers come from history
        self.terms = sorted(map(int, found.terms), key=text.stem)
        idf = np.array([text.idf(term) for term in self.terms])
        self.named = np.array(sorted(found.named, key=view.vocabulary.key), np.uint32)
        self.named_idf = self.concept_idf(self.named)
        self.carried = Carried(view, text, found, self.terms, idf, self.named, self.named_idf)
        self.idf = self.carried.idf
        self.cap = max(self.rule.hub_least, self.rule.hub_share * mentions.n_live)
        rule = self.rule
        self.depth = max(rule.seeds, rule.gate_notes, rule.spread_pool, rule.pool)
        self.rows = NO_ROWS
        self.words = np.zeros((0, len(self.idf)))
        self.parts = {name: np.zeros(0) for name in PARTS}
        self.asked = frozenset(found.named)
        self.asked_ids, self.asked_terms = np.sort(self.named), np.sort(found.terms)
        self._near = Cosines(found)
        near, cosines = found.near or (NO_ROWS, np.zeros(0))
        self._cosines = Lookup(near, np.maximum(cosines, 0.0))
        self._top, self._n, self._all = 1.0, 0, True
        self.beyond, self.now = 0.0, 0
        self._subjects = Lookup(NO_ROWS, np.zeros(0))
        self.subject_top = 1.0

    def begin(self, pool: int) -> None:
        """Take in the nearest notes, the best by text, and those about a named concept."""
        view, found = self.view, self.found
        near = NO_ROWS if found.near is None else found.near[0]
        best = NO_ROWS
        if self.terms:
            # a note beyond these has as many before it, whatever k is
            self._n = max(pool, self.depth) + len(near)
            best = self._best()
        said, gained = self._weights(np.concatenate([best[:1], self.carried.rows]))
        self._top = float((said + gained).sum(axis=1).max(initial=0.0)) or 1.0
        if len(self.named):
            idf = self.named_idf
            subjects = view.notes.subjects
            known = self.named < subjects.n_terms
            rows, sums = gather(subjects, self.named[known], idf[known], found.allowed)
            self._subjects = Lookup(rows, sums)
            self.subject_top = float(sums.max()) if len(sums) else 1.0
        exact = np.array(found.exact, np.int64)
        self.add(np.concatenate([near, best, self.carried.rows, self._subjects.keys, exact]))
        need, rest = max(pool, self.depth), self._near.rest
        if rest and found.near and np.count_nonzero(found.near[1] > rest) < need:
            # all notes beyond the nearest are as near as the last: the first written come first
            self.add(np.flatnonzero(found.allowed)[:need])
        self._bound(best)

    def _best(self) -> Rows:
        """The first `_n` notes by text."""
        options = self.settings.bm25_k1, self.settings.bm25_b
        rows, _ = self.text.best(self.found.terms, *options, self.found.allowed, self._n)
        return rows.astype(np.int64)

    def _bound(self, best: Rows) -> None:
        rest = self._near.rest / self._near.highest if self._near.highest else 0.0
        self.beyond = self.rule.flat_share * rest
        self._all = not self.terms or len(best) < self._n
        if not self._all:
            self.beyond += float(self.parts["text"][self.place(int(best[-1]))])

    def deepen(self) -> bool:
        """Take in as many notes again by text; False where all are there."""
        if self._all:
            return False
        self._n *= 2
        best = self._best()
        self.add(best)
        self._bound(best)
        return True

    def concept_idf(self, ids: NDArray[np.uint32]) -> Scores:
        """``ln(1 + (N - df + 0.5) / (df + 0.5))`` of concepts, by the notes that mention them."""
        df = self.mentions.dfs_of(ids)
        idf: Scores = np.log(1.0 + (self.mentions.n_live - df + 0.5) / (df + 0.5))
        return idf

    def _weights(self, rows: Rows) -> tuple[Scores, Scores]:
        """By word: what the texts of rows say, and what the notes carry beyond it."""
        options = self.settings.bm25_k1, self.settings.bm25_b
        said = np.zeros((len(rows), len(self.idf)))
        said[:, : len(self.terms)] = self.text.weights(rows, self.terms, *options)
        return said, self.carried.weights(rows, said[:, : len(self.terms)])

    def add(self, rows: Rows) -> None:
        """Take in allowed rows that are not there yet."""
        new = np.unique(rows)
        new = new[~inside(new, self.rows)]
        if not len(new):
            return
        said, gained = self._weights(new)
        share, highest = self.rule.flat_share, self._near.highest
        made = {
            "text": (1.0 - share) * (said.sum(axis=1) / self._top),  # with the next 1 for the best
            "concept": (1.0 - share) * (gained.sum(axis=1) / self._top),
            "subject": self.rule.subject_weight * (self._subjects.of(new) / self.subject_top),
        }
        if highest:
            made["vector"] = share * (self._cosines.of(new, self._near.rest) / highest)
        rows = np.concatenate([self.rows, new])
        order = np.argsort(rows)
        self.rows = rows[order]
        self.words = np.concatenate([self.words, (said + gained) / self._top])[order]
        nothing = np.zeros(len(new))
        self.parts = {
            name: np.concatenate([column, made.get(name, nothing)])[order]
            for name, column in self.parts.items()
        }

    def place(self, row: int) -> int:
        """Where a row is, -1 for one that is not there."""
        place = int(self.rows.searchsorted(row))
        return place if place < len(self.rows) and self.rows[place] == row else -1

    def places(self, rows: Rows) -> Rows:
        """Where rows are, int64 [m], -1 for those that are not there."""
        places = self.rows.searchsorted(rows)
        places[~inside(rows, self.rows)] = -1
        return places

    @property
    def flat(self) -> Scores:
        """Nearness and words, and the concepts that notes carry without a word."""
        return self.parts["vector"] + self.parts["text"] + self.parts["concept"]

    @property
    def first(self) -> Scores:
        """What a note has by itself."""
        return self.flat + self.parts["subject"]

    @property
    def score(self) -> Scores:
        """The sum of all parts so far."""
        total = np.zeros(len(self.rows))
        for column in self.parts.values():
            total += column
        return total

    def coverage(self) -> float | None:
        """How sure it is that the store knows of what is asked, in [0, 1]; None without words.

        A logistic function of the largest idf share of the question that one note holds, of the
        best cosine and of the number of words, fitted so that a best hit of a question about the
        store scores above 0.3 and that of any other below, on sets of several kinds; see
        `BridgeRule`.
        """
        found, rule = self.found, self.rule
        asked = found.asked_idf + self.carried.asked_idf
        if not asked:
            return None
        held = ((self.words > 0.0) * self.idf).sum(axis=1).max(initial=0.0)
        share = min(1.0, float(held) / asked)
        if found.near is None or not len(found.near[0]):
            sure = rule.sure_words * share + rule.sure_text
        else:
            sure = rule.sure_share * share + rule.sure_cosine * self._near.highest
            sure += rule.sure_length * min(len(found.sought), 20) + rule.sure_vector
        return 1.0 / (1.0 + math.exp(-sure))

    def order(self, scores: Scores) -> Rows:
        """Places by score descending, then by order of writing."""
        return np.argsort(-scores, kind="stable")

    def best(self, n: int) -> list[int]:
        """The first n places by score."""
        return list(self.order(self.score)[:n].tolist())

    def parts_at(self, place: int) -> Parts:
        """The parts of a note's score that are not 0."""
        held = {name: float(column[place]) for name, column in self.parts.items()}
        return {name: value for name, value in held.items() if value} or {"text": 0.0}

    def lender(self, row: int) -> int | None:
        """The linked note that lent most to a note, None where none did."""
        lent = self.parts["links"]
        if not lent[self.place(row)]:
            return None
        least = self.settings.note_links.threshold
        others = self.view.note_links.neighbours(row, min_weight=least, now=self.now)[0].tolist()
        score = self.score - lent
        there: list[int] = [other for other in others if self.place(other) >= 0]
        worth = {other: round(float(score[self.place(other)]), 12) for other in there}
        return max(there, key=lambda other: (worth[other], -other))

    def named_in(self, row: int) -> bool:
        """Whether a note mentions a concept that the question names."""
        return not self.asked.isdisjoint(self.mentions.of(row).tolist())


class Seeds:
    """Notes from which others are reached, and how strongly.

    Attributes
    ----------
    likeness : dict of int to Lookup
        For each seed L of the rows that share a bridge with it.
    """

    def __init__(self, board: Board, learned: Learned) -> None:
        self._board, self._learned = board, learned
        self.likeness: dict[int, Lookup] = {}
        self._worth: dict[int, float] = {}
        self._ways: dict[int, tuple[NDArray[np.uint32], Scores, NDArray[np.uint32], Scores]] = {}
        self._sources = NO_ROWS, NO_ROWS  # rows, and the seed that led to each, -1 for none
        self._picked: dict[int, int] = {}
        self._told: dict[int, list[Way]] = {}
        self.reached: dict[int, float] = dict.fromkeys(board.asked, 1.0)

    def worth(self, row: int) -> float:
        """How much a note counts as a seed, p(h)."""
        held = self._worth.get(row)
        if held is None:
            board, rule = self._board, self._board.rule
            first = board.first
            held = float((first[board.place(row)] / first.max()) ** rule.seed_power)
            held = self._worth[row] = held if board.named_in(row) else held * rule.unnamed
        return held

    def ways(self, row: int) -> tuple[NDArray[np.uint32], Scores, NDArray[np.uint32], Scores]:
        """The concepts and the stems that lead away from a note, each with w(c)."""
        held = self._ways.get(row)
        if held is None:
            held = self._ways[row] = self._find_ways(row)
        return held

    def _find_ways(self, row: int) -> tuple[NDArray[np.uint32], Scores, NDArray[np.uint32], Scores]:
        board, rule = self._board, self._board.rule
        most = min(rule.max_df, board.cap)
        concepts = board.mentions.of(row)
        n_concepts = len(concepts)
        concepts = concepts[~inside(concepts, board.asked_ids)]
        df = board.mentions.dfs_of(concepts)
        concepts, df = concepts[df <= most], df[df <= most]
        stems = board.text.postings.row(row)[0]
        stems = stems[~inside(stems, board.asked_terms)]
        sdf = board.text.dfs_of(stems)
        fits = (sdf >= 2) & (sdf <= most)
        stems, sdf = stems[fits], sdf[fits]
        factor = np.full(len(stems), rule.stem)
        about = board.view.notes.subjects.row(row)[0]
        if rule.capitals and len(about) and n_concepts >= rule.rich_concepts:
            written = board.text.capitalised(stems)
            factor = np.where(written, rule.capital_stem, rule.plain_stem)
        stem_weights: Scores = factor * sdf**-0.5
        order, stem_order = np.argsort(df, kind="stable"), np.argsort(-stem_weights, kind="stable")
        concept_weights: Scores = df[order].astype(np.float64) ** -0.5
        return concepts[order], concept_weights, stems[stem_order], stem_weights[stem_order]

    def like(self, row: int) -> Lookup:
        """L(h, n) for every allowed note n that shares a bridge with h."""
        held = self.likeness.get(row)
        if held is None:
            held = self.likeness[row] = self._find_like(row)
        return held

    def _find_like(self, row: int) -> Lookup:
        board, rule = self._board, self._board.rule
        allowed = board.found.allowed
        concepts, weights, stems, stem_weights = self.ways(row)
        subjects = board.view.notes.subjects
        about = concepts < subjects.n_terms
        found = [
            board.mentions.gather(concepts, rule.mention * weights, allowed),
            gather(subjects, concepts[about], rule.subject * weights[about], allowed),
            gather(board.text.postings, stems, rule.mention * stem_weights, allowed),
        ]
        rows = np.unique(np.concatenate([rows for rows, _ in found]))
        total = np.zeros(len(rows))
        for some, sums in found:
            total[np.searchsorted(rows, some)] += sums
        total = total / (total + rule.saturation)
        others = rows != row
        return Lookup(rows[others], total[others])

    def cross(self, seeds: Sequence[int]) -> None:
        """Reach other notes from the seeds; each gains by its best way."""
        board, rule = self._board, self._board.rule
        reached = [self.like(seed).keys for seed in seeds]
        board.add(np.concatenate(reached) if reached else NO_ROWS)
        best = np.zeros(len(board.rows))
        source = np.full(len(board.rows), -1, np.int64)
        for seed in seeds:
            like = self.like(seed)
            places = board.places(like.keys)
            open_ = board.words[board.place(seed)] == 0.0
            gap = board.words[places][:, open_].sum(axis=1)
            way = self.worth(seed) * like.values * (rule.base + gap)
            better = way > best[places]
            best[places[better]] = way[better]
            source[places[better]] = seed
        board.parts["bridge"] = rule.weight * best
        self._sources = board.rows, source

    def came_from(self, row: int, source: int) -> None:
        """Say which pick led to a note."""
        self._picked[row] = source

    def source_of(self, row: int) -> int | None:
        """The pick or seed that led to a note."""
        rows, sources = self._sources
        place = int(rows.searchsorted(row))
        found = int(sources[place]) if place < len(rows) and rows[place] == row else -1
        found = self._picked.get(row, found)
        return None if found < 0 else found

    def way(self, row: int) -> list[Way]:
        """How the question led to a note; see `_find_way`."""
        held = self._told.get(row)
        if held is None:
            held = self._told[row] = self._find_way(row)
        return held

    def _find_way(self, row: int) -> list[Way]:
        """How the question led to a note: over its own concepts, or by a seed over what it names.

        Of the concepts that the seed leads over, the three with the largest shares of L; equals by
        name, for numbers come from history.
        """
        board, rule = self._board, self._board.rule
        source = self.source_of(row)
        own, key = board.mentions.of(row), board.view.vocabulary.key
        way: list[Way] = [
            ("into", c, row) for c in sorted(board.asked.intersection(own.tolist()), key=key)
        ]
        taught = self._learned.shares
        way += self._learned.way(row)
        for concept in (a for kind, a, _ in way if kind == "into" and a in taught):
            self.reached[concept] = max(taught[concept], self.reached.get(concept, 0.0))
        lender = board.lender(row)
        if lender is not None:
            way.append(("note", lender, row))
        if source is None:
            return way
        concepts, weights, _, _ = self.ways(source)
        about = inside(concepts, np.sort(board.view.notes.subjects.row(row)[0]))
        shares = weights * (rule.mention * inside(concepts, own) + rule.subject * about)
        given = [
            (-share, key(c), c) for c, share in zip(concepts.tolist(), shares.tolist(), strict=True)
        ]
        taken = [(c, -share) for share, _, c in sorted(given)[:3] if share]
        if taken:
            led = board.asked.intersection(board.mentions.of(source).tolist())
            way += [("into", c, source) for c in sorted(led, key=key)[:1]]
        for concept, share in taken:
            both = share + taught.get(concept, 0.0)
            self.reached[concept] = max(both, self.reached.get(concept, 0.0))
            way += [("out of", source, concept), ("into", concept, row)]
        return way


def pin(board: Board) -> None:
    """Keep the first note by nearness and words in front: easy questions stay easy."""
    flat = board.flat
    if not board.rule.pin or not len(flat) or flat.max() <= 0.0:
        return
    place = int(board.order(flat)[0])
    score = board.score
    board.parts["pin"][place] = max(0.0, score.max() + board.rule.pin_lift - score[place])


def add_learned(board: Board, learned: Learned) -> None:
    """Add what outcomes taught, after the pin, so that a note rated wrong can leave first place."""
    board.add(learned.rows)
    gains = (learned.notes, learned.concepts)
    board.parts.update(
        (name, gain.of(board.rows)) for name, gain in zip(TAUGHT, gains, strict=True)
    )


# -- the covering pick ----------------------------------------------------------------------------


def gate(board: Board, first: Rows) -> float:
    """How much of the question the first notes leave open, in [0, 1]; 0 unless they have titles."""
    rule, top = board.rule, first[: board.rule.gate_notes]
    titled = sum(len(board.view.notes.subjects.row(row)[0]) > 0 for row in board.rows[top].tolist())
    if not len(board.idf) or titled < rule.titled_share * len(top):
        return 0.0
    left = ((board.words[top] == 0.0) * board.idf).sum(axis=1).min()
    open_ = float(left) / math.log(1.0 + board.mentions.n_live)
    return min(1.0, max(0.0, (open_ - rule.gate_least) / rule.gate_width))


def spread_seeds(board: Board, first: Rows, a: float) -> list[int]:
    """Seeds that cover one another's words and subjects the least."""
    rule, pool = board.rule, first[: board.rule.spread_pool]
    words, score = board.words[pool], board.first[pool]
    about = Abouts(board, board.rows[pool])
    held = np.zeros(words.shape[1], np.bool_)
    same = np.zeros(len(board.named), np.bool_)
    taken: list[int] = []
    left = np.ones(len(pool), np.bool_)
    while len(taken) < min(rule.spread_seeds, len(pool)):
        loss = rule.spread_words * words[:, held].sum(axis=1)
        loss += rule.spread_subjects * about.weights[:, same].sum(axis=1) / board.subject_top
        value = np.where(left, score - a * loss, -np.inf)
        place = first_of(value)
        left[place] = False
        held |= words[place] > 0.0
        same |= about.weights[place] > 0.0
        taken.append(int(board.rows[pool[place]]))
    return taken


def first_of(values: Scores) -> int:
    """Where the largest value is; of equals the first.

    Equal but for rounding: where every word is covered, what is left of many notes is 0.
    """
    return int(np.argmax(np.round(values, 12)))


class Abouts:
    """Which of some notes declare which of the question's concepts as their subjects.

    Attributes
    ----------
    weights : float64 [m, q]
        The concept's idf where the note is about it.
    sets : list of set of int
        All subjects of each note.
    """

    def __init__(self, board: Board, rows: Rows) -> None:
        subjects = board.view.notes.subjects
        self.sets = [set(subjects.row(row)[0].tolist()) for row in rows.tolist()]
        asked = list(
            zip(board.named.tolist(), board.concept_idf(board.named).tolist(), strict=True)
        )
        found = [[idf if c in about else 0.0 for c, idf in asked] for about in self.sets]
        self.weights = np.array(found).reshape(len(rows), len(asked))


def cover(board: Board, seeds: Seeds, a: float) -> None:
    """Choose the first notes together, and deal the scores of the pool along the new order."""
    rule = board.rule
    score = board.score
    pool = board.order(score)[: rule.pool]
    pool = pool[score[pool] > 0.0]
    rows, words, base = board.rows[pool], board.words[pool], score[pool]
    about = Abouts(board, rows)
    words_held = words > 0.0
    same = np.zeros(words.shape, np.bool_)  # words that picks with a subject of the note hold
    mentioned: set[int] = set()
    log_n = math.log(1.0 + board.mentions.n_live)
    picks = [0]
    best, source = np.zeros(len(rows)), np.full(len(rows), -1, np.int64)
    while len(picks) < min(rule.picks, len(pool)):
        last = int(rows[picks[-1]])
        way = seeds.worth(last) * seeds.like(last).of(rows)
        source[way > best] = last
        best = np.maximum(best, way)
        mentioned.update(board.mentions.of(last).tolist())
        alike = [not about.sets[picks[-1]].isdisjoint(mine) for mine in about.sets]
        same[alike] |= words_held[picks[-1]]
        held = words_held[picks].any(axis=0)
        named = np.array([c in mentioned for c in board.named.tolist()], np.bool_)
        loss = rule.pick_covered * words[:, held].sum(axis=1)
        loss += rule.pick_same * (words * same).sum(axis=1)
        value = base - rule.pick_loss * a * loss
        value += rule.pick_gain * a * best * (rule.base + words[:, ~held].sum(axis=1))
        value += rule.pick_open * a * about.weights[:, ~named].sum(axis=1) / log_n
        value[picks] = -np.inf
        pick = first_of(value)
        if source[pick] >= 0:
            seeds.came_from(int(rows[pick]), int(source[pick]))
        picks.append(pick)
    others = [place for place in range(len(rows)) if place not in set(picks)]
    dealt = np.sort(base)[::-1] - rule.deal * np.arange(len(rows))
    order = np.array([*picks, *others])
    board.parts["cover"][pool[order]] = dealt - base[order]


# -- links between notes --------------------------------------------------------------------------


def links(board: Board, now: int, pool: int) -> None:
    """A note gains a share of the best score among the notes that it is linked to.

    Notes beyond the board are taken in as far as they can change the first `pool`.
    """
    view, share = board.view, board.rule.link_share
    if not len(view.note_links) or not share or not len(board.rows):
        return
    least, allowed = board.settings.note_links.threshold, board.found.allowed
    board.now = now
    asked: set[int] = set()
    pairs = False
    while True:
        score = board.score
        there = score > 0.0
        ids, best = view.note_links.best_of(
            board.rows[there], score[there], threshold=least, now=now, allowed=allowed
        )
        at = board.places(ids)
        gain = np.zeros(len(board.rows))
        gain[at[at >= 0]] = share * best[at >= 0]
        after = score + gain
        last = float(np.sort(after)[-pool]) if len(after) >= pool else 0.0
        # those that it leads to, and those that may lend more to one that may come among the first
        new = ids[(at < 0) & (board.beyond + share * best >= last)].tolist()
        more = share * board.beyond
        owed = gain < more
        close = set(board.rows[owed & (score + more >= last)].tolist()).union(
            row for row in board.found.exact if owed[board.place(row)]
        )
        for row in sorted(close - asked):
            others = view.note_links.neighbours(row, min_weight=least, now=now)[0]
            new += others[allowed[others] != 0].tolist()
        asked |= close
        before = len(board.rows)
        board.add(np.array(sorted(new), np.int64))
        if len(board.rows) > before:
            continue
        if board.beyond + more >= last and board.beyond > 0.0:
            if board.deepen():
                continue
            if not pairs:  # all that are left are equal: the first written come first
                pairs = True
                board.add(first_pairs(board, least, now, pool))
                continue
        board.parts["links"] = gain
        return


def first_pairs(board: Board, least: float, now: int, n: int) -> Rows:
    """The first n notes beyond the board that are linked to others there, and these."""
    links, allowed = board.view.note_links, board.found.allowed
    held = np.zeros(len(allowed), np.bool_)
    held[board.rows] = True
    found: list[int] = []
    for row in links.linked().tolist():
        if n <= 0:
            break
        if row < len(allowed) and allowed[row] and not held[row]:
            others = links.neighbours(row, min_weight=least, now=now)[0]
            others = others[(allowed[others] != 0) & ~held[others]]
            if len(others):
                n -= 1
                found += [row, *others.tolist()]
    return np.array(found, np.int64)
