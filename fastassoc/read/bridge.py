"""The rank for questions that no single note answers: over what the best notes name, to others.

From the first notes that answer a question directly, the concepts that the question does not name
lead to other notes; a note gains by how rare these are and by the words of the question that the
first note lacks. Where notes declare subjects, the first five are chosen together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import get_type_hints

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import asked as asked_kernels
from fastassoc.kernels import bridge as kernels
from fastassoc.kernels.asked import HUB, Rule
from fastassoc.kernels.board import explained, first_places
from fastassoc.kernels.bridge import Index, Reach
from fastassoc.kernels.texts import FEW, Terms
from fastassoc.mentionindex import MentionView
from fastassoc.postings import zeros
from fastassoc.query import Query
from fastassoc.read.carried import Carried
from fastassoc.read.learned import PARTS as TAUGHT
from fastassoc.read.learned import Learned
from fastassoc.read.lookup import inside
from fastassoc.read.ranks import FAR, Parts, Scored, Way
from fastassoc.read.scan import NEAREST, Scan
from fastassoc.settings import BridgeRule, Settings
from fastassoc.state import StateView
from fastassoc.text import TextView

__all__ = ["score_bridge"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
PARTS = ("vector", "text", "concept", "subject", "bridge", "pin", "cover", *TAUGHT, "links")
NO_ROWS, NO_SCORES = np.empty(0, np.int64), np.empty(0)
MANY = 1 << 62  # concepts: no note has so many
CONSTANTS = get_type_hints(Rule)  # name to type
TOLD = 3  # concepts of a path, at most


def score_bridge(
    view: StateView, query: Query, settings: Settings, found: Scan, now: int, pool: int
) -> Scored:
    """The default read; see `BridgeRule` for its steps and constants."""
    if view.text is None or view.mentions is None:
        raise ValueError("the bridge reads the text index")
    board = Board(view, view.text, view.mentions, settings, found)
    learned = Learned(view, view.text, view.mentions, settings, found, now)
    seeds, direct = board.answer(query.k, pool)
    ways = Ways(board, learned, seeds)
    add_learned(board, learned)
    links(board, now, pool)
    places = board.firsts(board.score, pool)
    made = board.parts_of([*board.rows[places].tolist(), *found.exact])
    totals = {row: math.fsum(parts.values()) for row, parts in made.items()}
    # what speaks for a note makes it an answer; what was learned against it makes it the last
    order = [row for row in board.rows[places].tolist() if max(made[row].values()) > 0.0]
    order.sort(key=lambda row: (-totals[row], row))
    if len(order) < pool and found.near is not None:
        # the nearest by vector are answers, in whichever half of the space: last
        cosines = dict(zip(found.near[0].tolist(), found.near[1].tolist(), strict=True))
        last = list(cosines.keys() - set(order))
        for row, parts in board.parts_of(last, "vector").items():
            made[row] = {**parts, "vector": FAR * cosines[row]}
            totals[row] = math.fsum(made[row].values())
        order += last
        order.sort(key=lambda row: (-totals[row], row))
    return Scored(
        [(row, totals[row]) for row in order[:pool]],
        direct,
        lambda row, score, asked: made[row],
        {row: totals[row] for row in found.exact},
        coverage=board.coverage(),
        way=ways.tell(made).__getitem__,
        reached=ways.reached,
    )


@lru_cache
def constants(rule: BridgeRule) -> Rule:
    """The constants of a rule as kernels take them."""
    given = {name: kind(getattr(rule, name)) for name, kind in CONSTANTS.items() if name != "depth"}
    return Rule(depth=max(rule.seeds, rule.gate_notes, rule.spread_pool, rule.pool), **given)


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
    table : float64 [parts, m]
        The `PARTS` of each score.
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
        asked = self.asked_words = found.asked
        self.named = np.array(sorted(found.named, key=view.vocabulary.key), np.uint32)
        named_idf = mentions.idfs(self.named)
        self.carried = Carried(view, text, found, self.named, named_idf)
        self.idf = np.concatenate([asked.idf, self.carried.idf])
        rule = self.rule
        self.index = Index(
            mentions.postings.lists, mentions.rows_of, mentions.scan_of, mentions.void,
            view.notes.subjects.lists, text.postings.lists, text.removed, text.capitals,
        )  # fmt: skip
        hub = max(rule.hub_least, rule.hub_share * mentions.n_live)
        self.reach = Reach(
            float(min(rule.max_df, hub)), float(hub), rule.mention, rule.subject, rule.saturation,
            rule.stem, rule.capital_stem, rule.plain_stem,
            rule.rich_concepts if rule.capitals else MANY,
        )  # fmt: skip
        self._knows = asked_kernels.Knows(
            self.index, text.texts(settings.bm25_k1, settings.bm25_b), view.notes.postings.lists,
            found.allowed, self.reach, constants(rule), math.log(1.0 + mentions.n_live),
        )  # fmt: skip
        self.asked = frozenset(found.named)
        self.asked_ids, self.asked_terms = np.sort(self.named), found.terms
        near, cosines = found.near or (NO_ROWS, NO_SCORES)
        order = near.argsort()
        kept = np.maximum(cosines, 0.0)
        self._highest = float(kept[0]) if len(near) else 0.0
        self._far = float(kept[:NEAREST][-1]) if len(near) else 0.0
        rest = float(kept[-1]) if found.more else 0.0  # of every note further away
        self._asks = asked_kernels.Found(
            Terms(asked.ids, asked.idf, self.carried.ids, self.carried.idf), self.named, named_idf,
            self.asked_ids, self.asked_terms, near[order], kept[order], self._highest, rest,
            int(np.count_nonzero(cosines > rest)), np.array(found.exact, np.int64),
        )  # fmt: skip
        self._further = rule.flat_share * (rest / self._highest) if self._highest else 0.0
        self._n, self._all = 0, True
        self.beyond, self.now = 0.0, 0
        self.titled, self.open = False, math.inf  # without words nothing is closed

    def answer(self, k: int, pool: int) -> tuple[Seeds, set[int]]:
        """Bring together the notes that can come first, with all that leads to them.

        Also gives the rows that are among the first k by themselves.
        """
        allowed = self.found.allowed
        self.rows, self.words, self.table, sources, picks, led, direct, numbers = (
            asked_kernels.answer(
                self._knows, self._asks, len(PARTS), k, pool, FEW, HUB,
                zeros("rows", len(allowed)), zeros("places", len(allowed)),
            )
        )  # fmt: skip
        self._top, self._subject_top, last, titled, self.open, n = numbers.tolist()
        self._n, self.titled = int(n), bool(titled)
        self._bound(last)
        picked = zip(picks.tolist(), led.tolist(), strict=True)
        seeds = Seeds(self.rows, sources, {row: source for row, source in picked if source >= 0})
        return seeds, set(direct.tolist())

    def _bound(self, last: float) -> None:
        self._all = last < 0.0
        # sums in another order may be a little less
        self.beyond = self._further + max(0.0, last) * (1.0 + 1e-12)

    def deepen(self) -> bool:
        """Take in as many notes again by text; False where all are there."""
        if self._all:
            return False
        self._n *= 2
        rows, _, _, last = asked_kernels.begin(
            self._knows, self._asks, self._n, FEW, HUB, zeros("rows", len(self.found.allowed))
        )
        self.add(rows)
        self._bound(last)
        return True

    def add(self, rows: Rows) -> None:
        """Take in allowed rows that are not there yet."""
        if len(rows):
            self.rows, self.words, self.table = asked_kernels.take_in(
                self._knows, self._asks, self._top, self._subject_top, self.rows, self.words,
                self.table, rows, zeros("places", len(self.found.allowed)),
            )  # fmt: skip

    def part(self, name: str) -> Scores:
        """The part with a name of each note; may be written to."""
        row: Scores = self.table[PARTS.index(name)]
        return row

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
    def score(self) -> Scores:
        """The sum of all parts so far."""
        total: Scores = np.add.reduce(self.table, axis=0)
        return total

    def coverage(self) -> float | None:
        """How sure it is that the store knows of what is asked, in [0, 1]; None without words.

        A logistic function of how much of it one note explains and how much anything does; see
        `BridgeRule`.
        """
        found, rule = self.found, self.rule
        asked = found.asked_idf + self.carried.asked_idf
        if not asked:
            return None
        cosines = self.part("vector") * (self._highest / rule.flat_share)
        one = explained(
            self.words, self.idf, asked, cosines, rule.sure_note_cosine, rule.sure_note_both
        )
        known = math.fsum([found.known_idf, *self.carried.idf.tolist()])
        share = max(rule.sure_known_least, known / asked)
        weight = known / self._knows.log_n if known else 0.0
        if len(self._asks.near):
            numbers = (
                rule.sure_note, rule.sure_far, rule.sure_known, rule.sure_weight, rule.sure_asked,
                rule.sure_base,
            )  # fmt: skip
            more = self._far
        else:
            numbers = (
                rule.sure_text_note, rule.sure_text_words, rule.sure_text_known,
                rule.sure_text_weight, rule.sure_text_asked, rule.sure_text_base,
            )  # fmt: skip
            more = one.words
        signals = (one.best, more, share, weight, math.sqrt(asked), 1.0)
        sure = sum(number * signal for number, signal in zip(numbers, signals, strict=True))
        return 0.5 + 0.5 * math.tanh(0.5 * sure)  # the logistic function, without overflow

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
        made: dict[int, Parts] = {}
        for row, values in zip(rows, self.table[:, places].T.tolist(), strict=True):
            held = {name: part for name, part in zip(PARTS, values, strict=True) if part}
            made[row] = held or {least: 0.0}
        return made

    def lender(self, row: int) -> int:
        """The linked note that lent most to a note to which one did."""
        lent = self.part("links")
        least = self.settings.note_links.threshold
        others = self.view.note_links.neighbours(row, min_weight=least, now=self.now)[0].tolist()
        score = self.score - lent
        there: list[int] = [other for other in others if self.place(other) >= 0]
        worth = {other: round(float(score[self.place(other)]), 12) for other in there}
        return max(there, key=lambda other: (worth[other], -other))

    def mentioned(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of the question's concepts each row mentions, by name, bool [m, q]."""
        out = np.zeros((len(rows), len(self.named)), np.bool_)
        if len(self.named):
            kernels.mentioned(self.index, rows, self.named, out)
        return out


class Seeds:
    """Notes from which others were reached.

    Parameters
    ----------
    rows, sources : int64 [m]
        Notes, ascending, and the seed that led to each, -1 for none.
    picked : dict of int to int
        The pick that led to a note, which counts for more.
    """

    def __init__(self, rows: Rows, sources: Rows, picked: dict[int, int]) -> None:
        self._rows, self._sources, self._picked = rows, sources, picked

    def to(self, rows: Sequence[int]) -> dict[int, int]:
        """What led to each of some notes, where anything did."""
        found: dict[int, int] = {}
        if not len(self._rows):
            return found
        places = np.minimum(self._rows.searchsorted(rows), len(self._rows) - 1)
        there, sources = self._rows[places].tolist(), self._sources[places].tolist()
        for row, own, seed in zip(rows, there, sources, strict=True):
            source = self._picked.get(row, seed if own == row else -1)
            if source >= 0:
                found[row] = source
        return found


class Ways:
    """How notes were reached."""

    def __init__(self, board: Board, learned: Learned, seeds: Seeds) -> None:
        self._board, self._learned, self._seeds = board, learned, seeds
        self.reached: dict[int, float] = dict.fromkeys(board.asked, 1.0)

    def tell(self, made: Mapping[int, Parts]) -> dict[int, list[Way]]:
        """How the question led to notes: by themselves, and by the note that lent them most."""
        lenders = {row: self._board.lender(row) for row, parts in made.items() if "links" in parts}
        own = self._own(list(dict.fromkeys([*made, *lenders.values()])))
        ways = {row: list(own[row]) for row in made}
        if lenders:
            asked_in = self._asked_in(list(lenders.values()))
            for row, lender in lenders.items():
                named = self._to_source(lender, asked_in[lender]) or own[lender]
                ways[row] += [*named, ("note", lender, row)]
        return ways

    def _own(self, rows: Sequence[int]) -> dict[int, list[Way]]:
        """Ways over the question's own concepts, or by a seed over what it names.

        Of the concepts that the seed leads over, the three with the largest shares of L; of its
        words where there is none. Equals by name, for numbers come from history.
        """
        board = self._board
        key = board.view.vocabulary.key
        led = self._seeds.to(rows) if rows else {}
        asked_in = self._asked_in([*rows, *led.values()])
        taught = self._learned.shares
        ways: dict[int, list[Way]] = {}
        for row in rows:
            way = ways[row] = [("into", c, row) for c in asked_in[row]]
            way += self._learned.way(row)
            for concept in (a for kind, a, _ in way if kind == "into" and a in taught):
                self.reached[concept] = max(taught[concept], self.reached.get(concept, 0.0))
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


def add_learned(board: Board, learned: Learned) -> None:
    """Add what outcomes taught, after the pin, so that a note rated wrong can leave first place."""
    if not len(learned.rows):
        return
    board.add(learned.rows)
    for name, gain in zip(TAUGHT, (learned.notes, learned.concepts), strict=True):
        board.part(name)[:] = gain.of(board.rows)


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
        board.part("links")[:] = gain
        if rule.pin and board.open == 0.0 and gain.any():
            hold(board, score)
        return


def hold(board: Board, before: Scores) -> None:
    """Where a note holds all words, the first stays before those that their links lift."""
    first, after = int(np.argmax(before)), board.score
    own, after[first] = float(after[first]), -np.inf
    board.part("pin")[first] += max(0.0, float(after.max()) + board.rule.pin_lift - own)


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
