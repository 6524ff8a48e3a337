"""The rank for questions that no single note answers: over what the best notes name, to others.

From the first notes that answer a question directly, the concepts that the question does not name
lead to other notes; a note gains by how rare these are and by the words of the question that the
first note lacks. Where notes declare subjects, the first five are chosen together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import bridge as kernels
from fastassoc.kernels.board import (
    absent,
    first_allowed,
    first_places,
    merge_board,
    most_held,
    row_sums,
    spread_places,
)
from fastassoc.kernels.bridge import Index, Pick, Reach
from fastassoc.mentionindex import MentionView
from fastassoc.postings import gather, zeros
from fastassoc.query import Query
from fastassoc.read.carried import Carried
from fastassoc.read.learned import PARTS as TAUGHT
from fastassoc.read.learned import Learned
from fastassoc.read.lookup import Lookup, inside
from fastassoc.read.ranks import Parts, Scored, Way
from fastassoc.read.scan import Scan
from fastassoc.settings import Settings
from fastassoc.state import StateView
from fastassoc.text import TextView

__all__ = ["score_bridge"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
PARTS = ("vector", "text", "concept", "subject", "bridge", "pin", "cover", *TAUGHT, "links")
NO_ROWS = np.empty(0, np.int64)
MANY = 1 << 62  # concepts: no note has so many
TOLD = 3  # concepts of a path, at most


def score_bridge(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """The default read; see `BridgeRule` for its steps and constants."""
    if view.text is None or view.mentions is None:
        raise ValueError("the bridge reads the text index")
    board = Board(view, view.text, view.mentions, settings, found)
    board.begin(pool)
    first = board.firsts(board.first, max(query.k, board.depth))
    first = first[board.first[first] > 0.0]  # notes with nothing are no answer, come what may
    direct = set(board.rows[first[: query.k]].tolist())
    learned = Learned(view, view.text, view.mentions, settings, found, now)
    seeds, a = Seeds(board, learned), 0.0
    if len(first):
        board.settle(first)
        a = gate(board) if settings.bridge.cover else 0.0
        taken = board.rows[first[: settings.bridge.seeds]].tolist()
        if a > 0.0:
            taken += [row for row in spread_seeds(board, first, a) if row not in taken]
        seeds.cross(taken)
    pin(board)
    if a > 0.0:
        cover(board, seeds, a)
    add_learned(board, learned)
    links(board, now, pool)
    places = board.firsts(board.score, pool)
    made = board.parts_of([*board.rows[places].tolist(), *found.exact])
    totals = {row: math.fsum(parts.values()) for row, parts in made.items()}
    # what speaks for a note makes it an answer; what was learned against it makes it the last
    order = [row for row in board.rows[places].tolist() if max(made[row].values()) > 0.0]
    order.sort(key=lambda row: (-totals[row], row))
    if len(order) < pool and found.near is not None:
        # the nearest by vector are answers, in whichever half of the space: last, nearest first
        held = set(order)
        last = [row for row in found.near[0].tolist() if row not in held]
        made.update(board.parts_of(last, "vector"))
        totals.update((row, math.fsum(made[row].values())) for row in last)
        direct.update(last)
        order += last
        order.sort(key=lambda row: -totals[row])
    return Scored(
        [(row, totals[row]) for row in order[:pool]],
        direct,
        lambda row, score, asked: made[row],
        {row: totals[row] for row in found.exact},
        coverage=board.coverage(),
        way=seeds.tell(made).__getitem__,
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
        BM25 weight of each of the question's words, then of the concepts that are `Carried`, by the
        best note's sum.
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
        self.asked_words = text.asked(found.terms)
        self.named = np.array(sorted(found.named, key=view.vocabulary.key), np.uint32)
        self.named_idf = mentions.idfs(self.named)
        self.carried = Carried(view, text, found, self.named, self.named_idf)
        self.idf = np.concatenate([self.asked_words.idf, self.carried.idf])
        rule = self.rule
        self.depth = max(rule.seeds, rule.gate_notes, rule.spread_pool, rule.pool)
        self.index = Index(
            mentions.postings.lists, mentions.rows_of, mentions.scan_of, mentions.void,
            view.notes.subjects.lists, text.postings.lists, text.removed, text.capitals,
        )  # fmt: skip
        hub = max(rule.hub_least, rule.hub_share * mentions.n_live)
        self.reach = Reach(
            float(min(rule.max_df, hub)), float(hub), rule.mention, rule.subject,
            rule.saturation, rule.stem, rule.capital_stem, rule.plain_stem,
            rule.rich_concepts if rule.capitals else MANY,
        )  # fmt: skip
        self.rows = NO_ROWS
        self.words = np.zeros((0, len(self.idf)))
        self.parts = {name: np.zeros(0) for name in PARTS}
        self.asked = frozenset(found.named)
        self.asked_ids, self.asked_terms = np.sort(self.named), np.sort(found.terms)
        near, cosines = found.near or (NO_ROWS, np.zeros(0))
        cosines = np.maximum(cosines, 0.0)
        self._near = Lookup(near, cosines)
        self._highest = float(cosines[0]) if len(near) else 0.0
        self._rest = float(cosines[-1]) if found.more else 0.0  # of every note further away
        self._top, self._n, self._all = 1.0, 0, True
        self.beyond, self.now = 0.0, 0
        self.titled, self.open = False, math.inf  # without words nothing is closed
        self._subjects = Lookup(NO_ROWS, np.zeros(0))
        self.subject_top = 1.0

    def begin(self, pool: int) -> None:
        """Take in the nearest notes, the best by text, and those about a named concept."""
        view, found = self.view, self.found
        near = NO_ROWS if found.near is None else found.near[0]
        best = NO_ROWS
        if len(self.idf):
            # a note beyond these has as many before it, whatever k is
            self._n = max(pool, self.depth) + len(near)
            best = self._best()
            self._top = float(row_sums(self._weights(best[:1]))[0]) if len(best) else 1.0
            self._top = self._top or 1.0
        if len(self.named):
            rows, sums = gather(view.notes.subjects, self.named, self.named_idf, found.allowed)
            self._subjects = Lookup(rows, sums)
            self.subject_top = float(sums.max()) if len(sums) else 1.0
        self.add(np.concatenate([near, best, self._subjects.keys, np.array(found.exact, np.int64)]))
        need, rest = max(pool, self.depth), self._rest
        if rest and found.near and np.count_nonzero(found.near[1] > rest) < need:
            # all notes beyond the nearest are as near as the last: the first written come first
            self.add(first_allowed(found.allowed, need))
        self._bound(best)

    def _best(self) -> Rows:
        """The first `_n` notes by what they say and carry."""
        options = self.settings.bm25_k1, self.settings.bm25_b
        more = self.carried.add if len(self.carried.ids) else None
        rows, _ = self.text.best_of(self.asked_words, *options, self.found.allowed, self._n, more)
        return rows.astype(np.int64)

    def _bound(self, best: Rows) -> None:
        rest = self._rest / self._highest if self._highest else 0.0
        self.beyond = self.rule.flat_share * rest
        self._all = not len(self.idf) or len(best) < self._n
        if not self._all:
            last = self.place(int(best[-1]))
            self.beyond += float(self.parts["text"][last] + self.parts["concept"][last])

    def deepen(self) -> bool:
        """Take in as many notes again by text; False where all are there."""
        if self._all:
            return False
        self._n *= 2
        best = self._best()
        self.add(best)
        self._bound(best)
        return True

    def _weights(self, rows: Rows) -> Scores:
        """By word what rows say, then by concept what they carry, float64 [m, t + c]."""
        options = self.settings.bm25_k1, self.settings.bm25_b
        said = self.text.weights_of(rows, self.asked_words, *options)
        if not len(self.carried.ids):
            return said
        return np.concatenate([said, self.carried.weights(rows)], axis=1)

    def add(self, rows: Rows) -> None:
        """Take in allowed rows that are not there yet."""
        new = absent(rows, self.rows)
        if not len(new):
            return
        weights = self._weights(new)
        share, highest = self.rule.flat_share, self._highest
        said = len(self.asked_words.ids)
        made = {"text": (1.0 - share) * (row_sums(weights[:, :said]) / self._top)}
        if len(self.carried.ids):  # both together are 1 for the best
            made["concept"] = (1.0 - share) * (row_sums(weights[:, said:]) / self._top)
        if len(self._subjects.keys):
            about = self._subjects.of(new) / self.subject_top
            made["subject"] = self.rule.subject_weight * about
        if highest:
            made["vector"] = share * (self._near.of(new, self._rest) / highest)
        nothing = np.zeros(len(new))
        fresh = np.array([made.get(name, nothing) for name in self.parts])
        size = len(self.rows) + len(new)
        merged = (
            np.empty(size, np.int64),
            np.empty((size, self.words.shape[1])),
            np.empty((len(fresh), size)),
        )
        held = self.rows, self.words, np.array(list(self.parts.values()))
        merge_board(*held, new, weights / self._top, fresh, *merged)
        self.rows, self.words, table = merged
        self.parts = dict(zip(self.parts, table, strict=True))

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
        """Nearness, words, and the concepts that notes carry."""
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
        share = min(1.0, most_held(self.words, self.idf) / asked)
        if found.near is None or not len(found.near[0]):
            sure = rule.sure_words * share + rule.sure_text
        else:
            sure = rule.sure_share * share + rule.sure_cosine * self._highest
            sure += rule.sure_length * min(len(found.sought), 20) + rule.sure_vector
        return 1.0 / (1.0 + math.exp(-sure))

    def settle(self, first: Rows) -> None:
        """See whether the first notes have titles, and how much of the question they leave open."""
        top = first[: self.rule.gate_notes]
        titled = kernels.titled(self.index, self.reach, self.rows[top])
        self.titled = titled >= self.rule.titled_share * len(top)
        if len(self.idf):
            left = ((self.words[top] == 0.0) * self.idf).sum(axis=1).min()
            self.open = float(left) / math.log(1.0 + self.mentions.n_live)

    def closed(self, share: float) -> float:
        """`share` where one of the first notes holds all words, up to 1 where none nearly does."""
        return share + (1.0 - share) * min(1.0, self.open / self.rule.closed_width)

    def firsts(self, scores: Scores, n: int) -> Rows:
        """The first n places by score descending, then by order of writing."""
        places: Rows = first_places(scores, n)
        return places

    def parts_of(self, rows: Sequence[int], least: str = "text") -> dict[int, Parts]:
        """By row, the parts of its score that are not 0; `least` where there is none."""
        places = self.rows.searchsorted(rows)
        columns = [column[places].tolist() for column in self.parts.values()]
        made: dict[int, Parts] = {}
        for row, values in zip(rows, zip(*columns, strict=True), strict=True):
            held = {name: part for name, part in zip(self.parts, values, strict=True) if part}
            made[row] = held or {least: 0.0}
        return made

    def lender(self, row: int) -> int:
        """The linked note that lent most to a note to which one did."""
        lent = self.parts["links"]
        least = self.settings.note_links.threshold
        others = self.view.note_links.neighbours(row, min_weight=least, now=self.now)[0].tolist()
        score = self.score - lent
        there: list[int] = [other for other in others if self.place(other) >= 0]
        worth = {other: round(float(score[self.place(other)]), 12) for other in there}
        return max(there, key=lambda other: (worth[other], -other))

    def worth(self, places: Rows) -> Scores:
        """How much notes count as seeds, p(h)."""
        first, named = self.first, self.mentioned(self.rows[places]).any(axis=1)
        share: Scores = (first[places] / first.max()) ** self.rule.seed_power
        return np.where(named, share, share * self.rule.unnamed)

    def mentioned(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of the question's concepts each row mentions, by name, bool [m, q]."""
        out = np.zeros((len(rows), len(self.named)), np.bool_)
        if len(self.named):
            kernels.mentioned(self.index, rows, self.named, out)
        return out

    def about(self, rows: Rows) -> Scores:
        """The idf of each of the question's concepts that is a subject of a row, [m, q]."""
        out = np.zeros((len(rows), len(self.named)))
        if len(self.named):
            kernels.about(self.index.subjects, rows, self.named, self.named_idf, out)
        return out


class Seeds:
    """Notes from which others are reached, and how."""

    def __init__(self, board: Board, learned: Learned) -> None:
        self._board, self._learned = board, learned
        self._sources = NO_ROWS, NO_ROWS  # rows, and the seed that led to each, -1 for none
        self._picked: dict[int, int] = {}
        self.reached: dict[int, float] = dict.fromkeys(board.asked, 1.0)

    def cross(self, seeds: Sequence[int]) -> None:
        """Reach other notes from the seeds; each gains by its best way."""
        board, rule, allowed = self._board, self._board.rule, self._board.found.allowed
        rows = np.array(seeds, np.int64)
        reached, likeness, ptr = kernels.reach(
            board.index, board.reach, rows, board.asked_ids, board.asked_terms, allowed,
            zeros("rows", len(allowed)),
        )  # fmt: skip
        board.add(reached)
        base = rule.base * (board.closed(rule.closed) if board.titled else 1.0)
        places = board.rows.searchsorted(rows)
        best, source = np.zeros(len(board.rows)), np.full(len(board.rows), -1, np.int64)
        kernels.cross(
            board.rows, board.words, places, board.worth(places), reached, likeness, ptr,
            base, zeros("places", len(allowed)), best, source,
        )  # fmt: skip
        board.parts["bridge"][:] = rule.weight * best
        self._sources = board.rows, np.append(rows, -1)[source]

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

    def tell(self, made: Mapping[int, Parts]) -> dict[int, list[Way]]:
        """How the question led to notes: over its own concepts, or by a seed over what it names.

        Of the concepts that the seed leads over, the three with the largest shares of L; of its
        words where there is none. Equals by name, for numbers come from history.
        """
        board = self._board
        key = board.view.vocabulary.key
        sources = {row: self.source_of(row) for row in made}
        led = {row: source for row, source in sources.items() if source is not None}
        asked_in = self._asked_in([*made, *led.values()])
        taught = self._learned.shares
        ways: dict[int, list[Way]] = {}
        for row, parts in made.items():
            way = ways[row] = [("into", c, row) for c in asked_in[row]]
            way += self._learned.way(row)
            for concept in (a for kind, a, _ in way if kind == "into" and a in taught):
                self.reached[concept] = max(taught[concept], self.reached.get(concept, 0.0))
            if parts.get("links"):
                way.append(("note", board.lender(row), row))
        if not led:
            return ways
        ids, shares, ptr, are_stems = kernels.strongest(
            board.index, board.reach, np.array(list(led.values()), np.int64),
            np.array(list(led), np.int64), board.asked_ids, board.asked_terms, TOLD,
        )  # fmt: skip
        pairs = list(zip(shares.tolist(), ids.tolist(), strict=True))
        ends = ptr.tolist()
        for place, ((row, source), by_stem) in enumerate(
            zip(led.items(), are_stems.tolist(), strict=True)
        ):
            name = board.text.stem if by_stem else key
            given = [
                (-share, name(one), one) for share, one in pairs[ends[place] : ends[place + 1]]
            ]
            told = sorted(given)[:TOLD]
            way = ways[row]
            if told:
                way += self._to_source(source, asked_in[source])
            for share, _, one in told:
                if by_stem:
                    way += [("to word", source, one), ("word", one, row)]
                    continue
                both = taught.get(one, 0.0) - share
                self.reached[one] = max(both, self.reached.get(one, 0.0))
                way += [("out of", source, one), ("into", one, row)]
        return ways

    def _to_source(self, source: int, asked: Sequence[int]) -> list[Way]:
        """How the question named a seed: by its first concept, else by its weightiest word."""
        if asked:
            return [("into", asked[0], source)]
        board = self._board
        said = board.words[board.place(source), : len(board.asked_words.ids)]
        if not said.any():
            return []
        return [("word", int(board.asked_words.ids[said.argmax()]), source)]

    def _asked_in(self, rows: Sequence[int]) -> dict[int, list[int]]:
        """By row, the question's concepts that it mentions, by name."""
        board = self._board
        if not len(board.named):
            return {row: [] for row in rows}
        named, held = board.named.tolist(), board.mentioned(np.array(rows, np.int64)).tolist()
        return {
            row: [c for c, there in zip(named, mine, strict=True) if there]
            for row, mine in zip(rows, held, strict=True)
        }


def pin(board: Board) -> None:
    """Keep the first note by nearness and words in front: easy questions stay easy."""
    flat = board.flat
    if not board.rule.pin or not len(flat):
        return
    place = int(flat.argmax())
    if flat[place] > 0.0:
        score = board.score
        board.parts["pin"][place] = max(0.0, score.max() + board.rule.pin_lift - score[place])


def add_learned(board: Board, learned: Learned) -> None:
    """Add what outcomes taught, after the pin, so that a note rated wrong can leave first place."""
    board.add(learned.rows)
    for name, gain in zip(TAUGHT, (learned.notes, learned.concepts), strict=True):
        board.parts[name] = gain.of(board.rows)


# -- the covering pick ----------------------------------------------------------------------------


def gate(board: Board) -> float:
    """How much of the question the first notes leave open, in [0, 1]; 0 unless they have titles."""
    rule = board.rule
    if not len(board.idf) or not board.titled:
        return 0.0
    return min(1.0, max(0.0, (board.open - rule.gate_least) / rule.gate_width))


def spread_seeds(board: Board, first: Rows, a: float) -> list[int]:
    """Seeds that cover one another's words and subjects the least."""
    rule, pool = board.rule, first[: board.rule.spread_pool]
    taken = spread_places(
        board.words[pool], board.about(board.rows[pool]), board.first[pool], rule.spread_seeds,
        a * rule.spread_words, a * rule.spread_subjects / board.subject_top,
    )  # fmt: skip
    return list(board.rows[pool[taken]].tolist())


def cover(board: Board, seeds: Seeds, a: float) -> None:
    """Choose the first notes together, and deal the scores of the pool along the new order."""
    rule, allowed = board.rule, board.found.allowed
    score = board.score
    pool = board.firsts(score, rule.pool)
    pool = pool[score[pool] > 0.0]
    rows, base = board.rows[pool], score[pool]
    log_n = math.log(1.0 + board.mentions.n_live)
    pick = Pick(
        rule.picks, rule.base, a * rule.pick_loss, rule.pick_covered, rule.pick_same,
        a * rule.pick_gain, a * rule.pick_open / log_n,
    )  # fmt: skip
    picks, sources = kernels.cover(
        board.index, board.reach, pick, rows, board.words[pool], base, board.worth(pool),
        board.about(rows), board.named, board.asked_ids, board.asked_terms, allowed,
        zeros("rows", len(allowed)), zeros("places", len(allowed)),
    )  # fmt: skip
    for place, source in zip(picks.tolist(), sources.tolist(), strict=True):
        if source >= 0:
            seeds.came_from(int(rows[place]), int(rows[source]))
    dealt = np.sort(base)[::-1] - rule.deal * np.arange(len(rows))
    order = np.concatenate([picks, np.delete(np.arange(len(rows)), picks)])
    board.parts["cover"][pool[order]] = dealt - base[order]


# -- links between notes --------------------------------------------------------------------------


def links(board: Board, now: int, pool: int) -> None:
    """A note gains a share of the best score among the notes that it is linked to.

    Notes beyond the board are taken in as far as they can change the first `pool`.
    """
    view, rule = board.view, board.rule
    share = rule.link_share * board.closed(rule.closed_links)
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
