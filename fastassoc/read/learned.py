"""What outcomes taught, as gains of notes: by links to the notes, and by links between concepts.

Every sum goes by names, since numbers of concepts and stems come from history.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.cues import NOTE, concept_codes, stem_codes
from fastassoc.links import effective
from fastassoc.mentionindex import MentionView
from fastassoc.read.lookup import Lookup, inside
from fastassoc.read.ranks import Way
from fastassoc.read.scan import Scan
from fastassoc.settings import Settings
from fastassoc.state import StateView
from fastassoc.text import TextView

__all__ = ["PARTS", "Learned"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
PARTS = ("taught", "taught concepts")
TOLD = 3  # terms, and concepts, that a path names
NOTHING = Lookup(np.empty(0, np.int64), np.empty(0))


class Term(NamedTuple):
    """A concept or a stem of the question."""

    concept: int | None
    code: int | None  # None for a stem that nothing ever taught
    idf: float


class Led(NamedTuple):
    """A concept to which what was taught leads: from which one, and how strongly from all."""

    source: int
    best: float
    share: float


class Learned:
    """What was taught about a question; see `BridgeRule`.

    Parameters
    ----------
    view : StateView
    text : TextView
    mentions : MentionView
    settings : Settings
    found : Scan
    now : int
        Microseconds UTC.

    Attributes
    ----------
    notes : Lookup
        What allowed notes gain by links of the question's terms with them; may be negative.
    concepts : Lookup
        What they gain by mentioning concepts that were taught with the named ones.
    shares : dict of int to float
        What each of these concepts gives to a note that mentions it.
    """

    def __init__(
        self,
        view: StateView,
        text: TextView,
        mentions: MentionView,
        settings: Settings,
        found: Scan,
        now: int,
    ) -> None:
        self._view, self._mentions, self._settings = view, mentions, settings
        self._allowed, self._now = found.allowed, now
        self.notes, self.concepts = NOTHING, NOTHING
        self.shares: dict[int, float] = {}
        self._led: dict[int, Led] = {}
        self._gains: list[tuple[int, Rows, Scores]] = []  # by term: its code, notes, what they gain
        links = view.links.taught(
            found.named if settings.bridge.concept_part else [],
            threshold=settings.concept_links.threshold,
            now=now,
        )
        cued = settings.bridge.note_part > 0.0 and len(view.cues.links) > 0
        if not cued and not len(links[0]):
            return  # nothing was ever taught
        terms = self._terms(text, found)
        total = math.fsum(term.idf for term in terms)
        if cued and total:
            self.notes = self._by_note(terms, total)
        if len(links[0]) and total:
            self.concepts = self._by_concept(terms, total, *links)

    @property
    def rows(self) -> Rows:
        """The notes that anything taught tells of."""
        return np.concatenate([self.notes.keys, self.concepts.keys])

    def _terms(self, text: TextView, found: Scan) -> list[Term]:
        """The question's concepts, then its stems, each kind by name."""
        stems = self._view.cues.stems
        named = sorted(found.named, key=self._view.vocabulary.key)
        idf = self._mentions.idfs(np.array(named, np.uint32))
        codes = concept_codes(named).tolist()
        terms = [Term(*one) for one in zip(named, codes, idf.tolist(), strict=True)]
        for stem, term in sorted(zip(found.stems, found.stem_terms, strict=True)):
            number = stems.find(stem)
            code = None if number is None else int(stem_codes([number])[0])
            terms.append(Term(None, code, text.idf(term)))
        return terms

    def _by_note(self, terms: list[Term], total: float) -> Lookup:
        """The links of terms with notes, each by what its term has, times the share explained."""
        links, allowed = self._view.cues.links, self._allowed
        known = [(term.code, term.idf) for term in terms if term.code is not None]
        run = links.fans(np.array([code for code, _ in known], np.uint64))
        weights = effective(run, 0, self._now, links.tau)
        kept = weights != 0.0
        keys, weights = run.keys[kept], weights[kept]
        rows = (keys & np.uint64(NOTE - 1)).astype(np.int64)
        held: list[tuple[Rows, Scores, float]] = []
        for code, idf in known:
            start, stop = keys.searchsorted(np.array([code << 32, code + 1 << 32], np.uint64))
            some, own = rows[start:stop], weights[start:stop]
            if not len(some):
                continue
            size = math.sqrt(math.fsum(np.abs(own).tolist()))
            gains = idf * np.clip(own / size, -1.0, 1.0)
            may = allowed[some] != 0
            held.append((some[may], gains[may], idf))
            self._gains.append((code, some[may], gains[may]))
        if not held:
            return NOTHING
        all_rows, places = np.unique(
            np.concatenate([some for some, _, _ in held]), return_inverse=True
        )
        idfs = np.concatenate([np.full(len(some), idf) for some, _, idf in held])
        part = np.bincount(places, np.concatenate([gains for _, gains, _ in held]), len(all_rows))
        cover = np.bincount(places, idfs, len(all_rows)) / total
        return Lookup(all_rows, self._settings.bridge.note_part * (part / total * cover**2))

    def _by_concept(
        self,
        terms: list[Term],
        total: float,
        sources: NDArray[np.uint32],
        targets: NDArray[np.uint32],
        taught: Scores,
    ) -> Lookup:
        """The concepts to which taught links lead, and the notes that mention them."""
        settings, key = self._settings, self._view.vocabulary.key
        named = [(term.concept, term.idf) for term in terms if term.concept is not None]
        asked = {concept for concept, _ in named}
        led: dict[int, Led] = {}
        for concept, idf in named:
            start, stop = sources.searchsorted(np.array([concept, concept + 1], np.uint32))
            parts = taught[start:stop].tolist()
            size = math.sqrt(math.fsum(parts)) if parts else 1.0
            for target, part in zip(targets[start:stop].tolist(), parts, strict=True):
                if target not in asked:
                    share = idf / total * part / size
                    old = led.get(target, Led(concept, 0.0, 0.0))
                    best = concept if share > old.best else old.source
                    led[target] = Led(best, max(share, old.best), old.share + share)
        ids = np.array(sorted(led, key=key), np.uint32)
        df = self._mentions.dfs_of(ids)
        ids, df = ids[df > 0], df[df > 0]
        if not len(ids):
            return NOTHING
        share = np.array([led[concept].share for concept in ids.tolist()])
        weights = settings.bridge.concept_part * (share * df.astype(np.float64) ** -0.5)
        self._led = led
        self.shares = dict(zip(ids.tolist(), weights.tolist(), strict=True))
        return Lookup(*self._mentions.gather(ids, weights, self._allowed))

    def way(self, row: int) -> list[Way]:
        """By what a note gained most: links with it, then concepts of it that were taught."""
        return [*self._way_of_terms(row), *self._way_of_concepts(row)]

    def _way_of_terms(self, row: int) -> list[Way]:
        if not self._gains:
            return []
        one = np.array([row], np.int64)
        if self.notes.of(one)[0] <= 0.0:
            return []
        gains = [(-float(Lookup(rows, own).of(one)[0]), code) for code, rows, own in self._gains]
        best = sorted((gain for gain in gains if gain[0] < 0.0), key=lambda gain: gain[0])
        return [("cue", code, row) for _, code in best[:TOLD]]  # equal ones stay in order of names

    def _way_of_concepts(self, row: int) -> list[Way]:
        if not self.shares:
            return []
        own = self._mentions.of(row)
        led = own[inside(own, np.array(sorted(self.shares), np.uint32))].tolist()
        key = self._view.vocabulary.key
        way: list[Way] = []
        for concept in sorted(led, key=lambda c: (-self.shares[c], key(c)))[:TOLD]:
            way += [("link", self._led[concept].source, concept), ("into", concept, row)]
        return way
