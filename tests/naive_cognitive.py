"""Vectors, links between notes, retention and the cold tier in dicts and loops.

It extends the trusted model by the rules alone and imports nothing of fastassoc. A note says its
concepts and its vector; text queries are not its business here either.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import naive_retention as states
from naive import Hit, Link, NaiveMemory, Note, Recall, Refused, check_outcome, grid, pair
from naive_retention import DAY

FAR = 1e-9
SHARE = 1 / 3
NO_VECTOR = 0.1
POWER = 0.3
THRESHOLD = 0.3
WINDOW = 256
PRESETS: dict[str, dict[str, Any]] = {
    "counts": {"tau": math.inf, "joins": "consecutive", "teach": 0.0, "reinforce": 0.0},
    "cognitive": {"tau": 90.0 * DAY, "joins": "cosine", "teach": 0.1, "reinforce": 0.1},
}


def single(vector: Iterable[float]) -> list[float]:
    """A vector as it is kept: 32-bit numbers."""
    return [struct.unpack("f", struct.pack("f", value))[0] for value in vector]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    squares = sum(x * x for x in a) * sum(y * y for y in b)
    return max(-1.0, min(1.0, product / math.sqrt(squares)))


class CognitiveMemory(NaiveMemory):
    """A memory of a preset, its vectors all of one width."""

    def __init__(
        self, clock: Callable[[], int], preset: str = "cognitive", dim: int = 4, **options: Any
    ) -> None:
        super().__init__(clock, **options)
        self.preset, self.dim = PRESETS[preset], dim
        self.note_links: dict[tuple[str, str], Link] = {}
        self.vectors: dict[str, list[float]] = {}
        self.session_of: dict[str, str | None] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.fingerprints: dict[str, str | None] = {}

    # -- how one link between notes changes --------------------------------------------------------

    def fade(self, link: Link, now: int) -> float:
        return math.exp(-max(0, now - link.updated_at) / self.preset["tau"])

    def _change_note(
        self,
        a: str,
        b: str,
        at: int,
        *,
        weight: float = 0.0,
        count: int = 0,
        outcome: float | None = None,
        cut: bool = False,
    ) -> None:
        """Fade to `at`, add, clamp, stamp; what a count comes with is written."""
        key = pair(a, b)
        if key not in self.note_links:
            if cut or (weight <= 0 and count <= 0):
                return
            self.note_links[key] = Link(created_at=at, updated_at=at)
        link = self.note_links[key]
        faded = self.fade(link, at)
        link.weight, link.written = link.weight * faded, link.written * faded
        link.weight = 0.0 if cut else min(1.0, max(0.0, link.weight + weight))
        link.written += weight if count else 0.0
        link.count += count
        if outcome is not None:
            link.valence += self.valence_rate * (outcome - link.valence)
        link.updated_at = max(link.updated_at, at)
        if link.count == 0 and link.weight == 0.0:
            del self.note_links[key]

    def effective(self, a: str, b: str, now: int) -> float:
        link = self.note_links.get(pair(a, b))
        return 0.0 if link is None else link.weight * self.fade(link, now)

    # -- writing -----------------------------------------------------------------------------------

    def _fault(self, row: Mapping[str, Any]) -> str | None:
        reason, vector = super()._fault(row), row.get("vector")
        if reason is None and vector is not None:
            if len(vector) != self.dim:
                return f"a vector of {len(vector)} numbers, not {self.dim}"
            if not all(map(math.isfinite, vector)) or not any(vector):
                return "a vector with NaN, infinity or of zeros"
        return reason

    def _add(self, row: Mapping[str, Any], at: int) -> None:
        new, session = row["id"], row.get("session")
        mates = [
            note for note in self.notes if session is not None and self.session_of[note] == session
        ]
        super()._add(row, at)
        self.session_of[new] = session
        self.fingerprints[new] = row.get("fingerprint")
        self.states[new] = states.new(row.get("importance"), row.get("category"), at)
        if row.get("vector") is not None:
            self.vectors[new] = single(row["vector"])
        if self.preset["joins"] == "consecutive":
            for mate in mates[-1:]:
                self._change_note(mate, new, at, weight=1.0, count=1)
        elif new in self.vectors:
            for mate in mates[-WINDOW:]:
                if mate in self.vectors and pair(mate, new) not in self.note_links:
                    sim = cosine(self.vectors[mate], self.vectors[new])
                    if sim >= 0.4:
                        step = grid(min(0.5, 0.2 + (sim - 0.4) * 0.5))
                        self._change_note(mate, new, at, weight=step, count=1)

    def _forget(self, note_id: str, at: int) -> None:
        super()._forget(note_id, at)
        self.note_links = {ab: v for ab, v in self.note_links.items() if note_id not in ab}
        for held in (self.vectors, self.session_of, self.states, self.fingerprints):
            held.pop(note_id, None)

    # -- teaching ----------------------------------------------------------------------------------

    def feedback(
        self,
        asked: Iterable[str] = (),
        used: Iterable[str] = (),
        used_concepts: Iterable[str] = (),
        outcome: float = 1.0,
    ) -> dict[str, Any]:
        used = list(dict.fromkeys(used))
        check_outcome(outcome)
        report = super().feedback(asked, used, used_concepts, outcome)
        live = [note for note in used if note in self.notes]
        if self.preset["teach"]:
            step = grid(outcome * grid(self.preset["teach"]))
            for a, b in itertools.combinations(live, 2):
                self._change_note(a, b, self.last, weight=step, outcome=outcome)
        return report

    def link_notes(self, a: str, b: str, weight: float) -> None:
        if a == b or a not in self.notes or b not in self.notes:
            raise Refused("two live notes are needed")
        self._change_note(a, b, self._now(), weight=grid(weight))

    def unlink_notes(self, a: str, b: str) -> None:
        self._change_note(a, b, self._now(), cut=True)

    def tick(self, now: int | None = None) -> int:
        """Move what is due to the cold tier; says how many."""
        at = self._now()
        due = [s for s in self.states.values() if states.is_due(s, at if now is None else now)]
        for state in due:
            state["cold"] = True
        return len(due)

    # -- reading -----------------------------------------------------------------------------------

    def time(self) -> int:
        """The time of a read, which leaves no trace."""
        return max(self.last, self.clock())

    def similarity(self, note: str, vector: Sequence[float] | None) -> float:
        if vector is None or note not in self.vectors:
            return NO_VECTOR
        return cosine(self.vectors[note], vector)

    def base_score(self, note: str, vector: Sequence[float] | None, now: int) -> float:
        """What a direct hit scores; a cosine below 0 does not fade, and counts as next to 0."""
        sim = self.similarity(note, vector)
        kept = states.retention(self.states[note], now)
        return sim * (kept**POWER if sim > 0.0 else FAR)

    def along_notes(
        self, seeds: Sequence[str], allowed: Mapping[str, Note], hops: int, now: int
    ) -> dict[str, float]:
        """Strength of the best path from a seed to each note that is none."""
        level, best = dict.fromkeys(seeds, 1.0), {}
        for hop in range(hops):
            after: dict[str, float] = {}
            for source, strength in level.items():
                for ab in self.note_links:
                    if source not in ab:
                        continue
                    other, weight = ab[source == ab[0]], self.effective(*ab, now)
                    if weight >= THRESHOLD and other in allowed and other not in seeds:
                        after[other] = max(after.get(other, 0.0), strength * weight)
            for note, strength in after.items():
                best[note] = max(best.get(note, 0.0), strength * self.hop_factor**hop)
            level = after
        return best

    def read_by_retention(
        self,
        concepts: Sequence[str] = (),
        vector: Sequence[float] | None = None,
        k: int = 10,
        hops: int = 1,
        fingerprint: str | None = None,
        reinforce: bool = False,
        session: str | None = None,
        **filters: Any,
    ) -> Recall:
        now, order = self.time(), list(self.notes)
        vector = None if vector is None else single(vector)
        asked, grown = self._asked(concepts), self.expand(self._asked(concepts), hops)
        allowed = {n.id: n for n in self.notes.values() if self._passes(n, **filters)}
        score = {note: self.base_score(note, vector, now) for note in allowed}

        def best(found: Iterable[str], by: Mapping[str, float]) -> list[str]:
            return sorted(found, key=lambda note: (-by[note], order.index(note)))

        candidates = [n for n in allowed if set(asked) & set(allowed[n].concepts)]
        if vector is not None:
            hot = [n for n in allowed if n in self.vectors and not self.states[n]["cold"]]
            sims = {note: cosine(self.vectors[note], vector) for note in hot}
            candidates += best(hot, sims)[: max(100, 4 * k)]
        same = [n for n in allowed if fingerprint and self.fingerprints[n] == fingerprint]
        exact = best(same, score)[:k]
        ranked = best(dict.fromkeys(candidates), score)
        direct = ranked[:k]
        seeds = [*direct, *(note for note in exact if note not in direct)]
        strengths = self.along_notes(seeds, allowed, hops, now)
        for note in allowed.values():
            gained = sum(grown[c][0] for c in note.concepts if c in grown)
            if gained > 0:
                strengths[note.id] = max(strengths.get(note.id, 0.0), gained / (1 + gained))
        gain = {
            n: score[n] * (s if score[n] > 0.0 else 1.0 - s)
            for n, s in strengths.items()
            if n not in seeds
        }
        places = k - len(exact)
        direct_left = [note for note in ranked if note not in exact]
        associated = best(gain, gain)
        most = places - 1 if direct_left else places
        share = max(0, min(math.ceil(places * SHARE), len(associated), most))
        first = direct_left[: places - share]
        rest = [note for note in associated if note not in first][: places - len(first)]
        total = {**{n: score[n] for n in first}, **{n: gain[n] for n in rest}}
        hits = [Hit(note, math.inf, 1.0, "exact") for note in exact]
        for note in best(total, total):
            source = "direct" if note in first else "association"
            hits.append(Hit(note, total[note], total[note], source))
        if reinforce:
            self.reinforce(
                [hit.id for hit in hits if hit.source != "association"],
                [hit.id for hit in hits if hit.source == "association"],
                session,
            )
        through = {c: strength for c, (strength, _) in grown.items()}
        return Recall(hits, asked, through, None if hits else "nothing found")

    def reinforce(self, direct: list[str], associated: list[str], session: str | None) -> None:
        """What a reinforced read leaves behind, of the notes that it returned and only those."""
        if not direct and not associated:
            return
        at = self._now()
        for note in direct + associated:
            states.access(self.states[note], note in direct, session, at)
        if self.preset["reinforce"]:
            for a, b in itertools.combinations(direct, 2):
                self._change_note(a, b, at, weight=grid(self.preset["reinforce"]))
