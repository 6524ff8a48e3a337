"""The default read in dicts and loops, from the rules alone: seeds, gaps, pin, picks, links.

Nothing here is fast, and nothing here comes from fastassoc: where the two differ, one is wrong.
Notes are numbers, in the order of writing; concepts and stems go by any names. Text, extraction and
stemming are not its business: a note says its mentions, its subjects and its stems.

>>> notes = [Note(mentions={"ann"}, stems={"ann": 1, "paint": 1}), Note(stems={"other": 1})]
>>> answer = read(Store(notes), Question(stems=["paint"]))
>>> answer.order, answer.parts[0]["text"], answer.seeds
([0, 1], 0.5, [0, 1])
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Name = Hashable
Term = tuple[str, Name]  # ("concept", name) or ("stem", stem)

PARTS = (
    "vector",
    "text",
    "concept",
    "subject",
    "bridge",
    "pin",
    "cover",
    "taught",
    "taught concepts",
    "links",
)

CONSTANTS: dict[str, Any] = {
    "bm25_k1": 1.5,
    "bm25_b": 0.75,
    "near": 100,  # how many of the nearest notes have their own cosine
    "flat_share": 0.5,  # of the vector; the text has as much again
    "subject_weight": 0.4,
    "seeds": 5,
    "seed_power": 2.0,
    "unnamed": 0.5,  # factor for a seed that holds no named concept of the question
    "weight": 2.5,
    "base": 0.3,
    "closed": 0.25,  # of base among titled notes, where one of the first holds all words
    "closed_links": 0.61,  # of link_share there, whatever the notes
    "closed_width": 0.25,
    "stem": 0.5,
    "mention": 0.5,
    "subject": 1.0,
    "saturation": 0.5,
    "max_df": 50,
    "hub_least": 20,
    "hub_share": 0.1,
    "pin": True,
    "pin_lift": 1e-6,
    # the covering pick
    "caps": True,  # word weights by capitals, also with the gate closed
    "capital_stem": 0.75,
    "plain_stem": 0.15,
    "rich_concepts": 4,
    "cover": True,
    "titled_share": 0.5,  # of the first notes, that must declare a subject
    "gate_notes": 10,
    "gate_least": 0.5,
    "gate_width": 0.5,
    "spread_seeds": 5,
    "spread_pool": 30,
    "spread_words": 0.5,
    "spread_subjects": 0.4,
    "pool": 50,
    "picks": 5,
    "pick_loss": 0.5,
    "pick_covered": 0.4,
    "pick_same": 1.1,
    "pick_gain": 2.0,
    "pick_open": 0.6,
    "deal": 1e-9,  # each further place of the pool lies lower by this, so that none are equal
    # what was learned, and links between notes
    "note_part": 1.0,
    "concept_part": 0.5,
    "concept_threshold": 2.0,
    "link_share": 0.53,
    "link_threshold": 0.3,
    "zeros": True,  # whether notes with a score of 0 fill the first places when others run out
}


@dataclass
class Note:
    """A live note: the concepts found in it, those declared as subjects (found, too), its stems.

    `carried` are the concepts that it was given, whether its text says them or not.
    """

    mentions: set[Name] = field(default_factory=set)
    subjects: set[Name] = field(default_factory=set)
    stems: Mapping[Name, int] = field(default_factory=dict)
    length: int | None = None  # words without stop words; None: the sum of the frequencies
    vector: Sequence[float] | None = None
    allowed: bool = True
    cold: bool = False  # out of the search by vector
    carried: set[Name] = field(default_factory=set)

    @property
    def words(self) -> int:
        return sum(self.stems.values()) if self.length is None else self.length


@dataclass
class Question:
    """Named concepts, stems in the order of the text (also such as no note holds), a vector.

    `said` are the stems of the question's own text, by which outcomes teach, where the text that is
    looked for is another.
    """

    concepts: Iterable[Name] = ()
    stems: Sequence[Name] = ()
    vector: Sequence[float] | None = None
    said: Sequence[Name] | None = None


@dataclass
class Store:
    """Live notes in the order of writing, links by effective weight, capitals of the words.

    `note_links` holds weights by pairs of notes and `taught` (weight, taught part) by pairs of
    concepts, each pair once in either order; `cues` holds weights by (term, note); `capitals` says
    of a stem how often the corpus writes it with a capital, and how often at all.
    """

    notes: Sequence[Note]
    note_links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    cues: Mapping[tuple[Term, int], float] = field(default_factory=dict)
    taught: Mapping[tuple[Name, Name], tuple[float, float]] = field(default_factory=dict)
    capitals: Mapping[Name, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Path:
    """From a seed or a pick to a note: terms with what each gave, largest first."""

    source: int
    terms: list[tuple[Term, float]]
    adds: list[Name] = field(default_factory=list)  # open words of the question that it holds


@dataclass
class Answer:
    """Scores and parts by note (allowed ones only), and how they came about."""

    scores: dict[int, float]
    parts: dict[int, dict[str, float]]
    order: list[int]
    flat: dict[int, float] = field(default_factory=dict)
    first_scores: dict[int, float] = field(default_factory=dict)  # s0
    bridge_scores: dict[int, float] = field(default_factory=dict)  # s1
    seeds: list[int] = field(default_factory=list)
    spread: list[int] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)
    gate: float = 0.0
    pin: int | None = None
    paths: dict[int, Path] = field(default_factory=dict)  # of the bridge
    cover_paths: dict[int, Path] = field(default_factory=dict)  # of picks after the first
    link_sources: dict[int, int] = field(default_factory=dict)  # the linked note that gave most


def read(store: Store, question: Question, constants: Mapping[str, Any] | None = None) -> Answer:
    """The answer of the default read, every note scored.

    Raises
    ------
    KeyError
        A constant has an unknown name.
    """
    return Reading(store, question, constants or {}).answer()


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine of two vectors, 0 where one is zero."""
    size = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return max(-1.0, min(1.0, dot / size)) if size else 0.0


class Reading:
    """One question put to one store; the steps in the order of the rules."""

    def __init__(self, store: Store, question: Question, constants: Mapping[str, Any]) -> None:
        unknown = set(constants) - set(CONSTANTS)
        if unknown:
            raise KeyError(f"unknown constants {sorted(unknown)}")
        self.c = {**CONSTANTS, **constants}
        self.store = store
        self.notes = store.notes
        self.n = len(store.notes)
        self.rows = [i for i, note in enumerate(store.notes) if note.allowed]
        self.stem_df: dict[Name, int] = {}
        self.concept_df: dict[Name, int] = {}
        self.mentions = [note.mentions | note.subjects for note in self.notes]
        self.average = sum(note.words for note in self.notes) / max(1, self.n)
        self.ways: dict[int, dict[Term, float]] = {}
        for note, mentions in zip(self.notes, self.mentions, strict=True):
            for stem in note.stems:
                self.stem_df[stem] = self.stem_df.get(stem, 0) + 1
            for concept in mentions:
                self.concept_df[concept] = self.concept_df.get(concept, 0) + 1
        self.named = list(dict.fromkeys(question.concepts))
        self.asked = list(dict.fromkeys(question.stems))
        self.words = [stem for stem in self.asked if self.stem_df.get(stem, 0)]  # T
        self.vector = question.vector
        self.said = list(dict.fromkeys(self.asked if question.said is None else question.said))
        self.cap = max(self.c["hub_least"], self.c["hub_share"] * self.n)
        self.words += [("own", q) for q in self.named if any(self.carries(i, q) for i in self.rows)]
        self.gained = [
            {("own", q): self.concept_idf(q) for q in self.named if self.carries(i, q)}
            for i in range(self.n)
        ]
        self.held = [
            {t for t in self.words if t in note.stems or self.gained[i].get(t)}
            for i, note in enumerate(self.notes)
        ]

    # -- statistics ------------------------------------------------------------------------------

    def idf(self, df: int) -> float:
        return math.log(1.0 + (self.n - df + 0.5) / (df + 0.5))

    def stem_idf(self, stem: Name) -> float:
        return self.idf(self.stem_df.get(stem, 0))

    def carries(self, i: int, q: Name) -> bool:
        return q in self.notes[i].carried and q not in self.notes[i].subjects

    def word_idf(self, t: Name) -> float:
        own = isinstance(t, tuple) and t[0] == "own"
        return self.concept_idf(t[1]) if own else self.stem_idf(t)

    def concept_idf(self, concept: Name) -> float:
        return self.idf(self.concept_df.get(concept, 0))

    def bm25(self, i: int, stem: Name) -> float:
        """The weight of a stem in a note."""
        tf = self.notes[i].stems.get(stem, 0)
        if not tf:
            return 0.0
        k1, b = self.c["bm25_k1"], self.c["bm25_b"]
        norm = k1 * (1.0 - b + b * self.notes[i].words / self.average)
        return self.stem_idf(stem) * tf * (k1 + 1.0) / (tf + norm)

    def ranked(self, scores: Mapping[int, float]) -> list[int]:
        """Notes by score, then by the order of writing."""
        kept = [i for i in self.rows if scores[i] > 0.0 or self.c["zeros"]]
        return sorted(kept, key=lambda i: (-scores[i], i))

    # -- steps -----------------------------------------------------------------------------------

    def answer(self) -> Answer:
        self.parts = {i: dict.fromkeys(PARTS, 0.0) for i in self.rows}
        self.flat()
        self.subjects()
        first = {i: self.first[i] for i in self.rows}
        self.order = self.ranked(first)
        self.out = Answer({}, self.parts, [], dict(self.flat_scores), first)
        if self.order and first[self.order[0]] > 0.0:
            self.out.gate = self.gate() if self.c["cover"] else 0.0
            self.out.seeds = self.order[: self.c["seeds"]]
            if self.out.gate > 0.0:
                self.out.spread = self.spread_seeds(self.out.gate)
        self.bridge()
        self.pin()
        if self.out.gate > 0.0:
            self.cover(self.out.gate)
        self.learned()
        self.links()
        self.out.scores = dict(self.s)
        self.out.order = sorted(self.rows, key=lambda i: (-self.s[i], i))
        return self.out

    def flat(self) -> None:
        """1: half of the cosine and half of BM25, each by its maximum."""
        share = self.c["flat_share"]
        near = self.nearness()
        highest = max(near.values(), default=0.0)
        text = {i: sum(self.bm25(i, t) for t in self.words) for i in self.rows}
        more = {i: sum(self.gained[i].values()) for i in self.rows}
        top = max((text[i] + more[i] for i in self.rows), default=0.0)
        for i in self.rows:
            if highest > 0.0:
                self.parts[i]["vector"] = share * (near[i] / highest)
            if top > 0.0:
                self.parts[i]["text"] = (1.0 - share) * (text[i] / top)
                self.parts[i]["concept"] = (1.0 - share) * (more[i] / top)
        self.top = top or 1.0
        self.weights = {
            (i, t): (self.bm25(i, t) + self.gained[i].get(t, 0.0)) / self.top
            for i in self.rows
            for t in self.words
        }
        parts = ("vector", "text", "concept")
        self.flat_scores = {i: sum(self.parts[i][part] for part in parts) for i in self.rows}

    def nearness(self) -> dict[int, float]:
        """d: of the nearest notes their own; every other note has that of the last of these."""
        if self.vector is None:
            return dict.fromkeys(self.rows, 0.0)
        own = {
            i: cosine(self.vector, self.notes[i].vector)  # type: ignore[arg-type]
            for i in self.rows
            if self.notes[i].vector is not None and not self.notes[i].cold
        }
        nearest = sorted(own, key=lambda i: (-own[i], i))[: self.c["near"]]
        kept = {i: max(0.0, own[i]) for i in nearest}
        rest = kept[nearest[-1]] if len(nearest) == self.c["near"] else 0.0
        return {i: kept.get(i, rest) for i in self.rows}

    def subjects(self) -> None:
        """2: named concepts of the question that a note declares as its subjects."""
        found = {
            i: sum(self.concept_idf(q) for q in self.named if q in self.notes[i].subjects)
            for i in self.rows
        }
        top = max(found.values(), default=0.0)
        self.subject_top = top or 1.0
        for i in self.rows:
            self.parts[i]["subject"] = self.c["subject_weight"] * (found[i] / self.subject_top)
        self.first = {i: self.flat_scores[i] + self.parts[i]["subject"] for i in self.rows}

    def worth(self, h: int) -> float:
        """p(h)."""
        p = (self.first[h] / self.first[self.order[0]]) ** self.c["seed_power"]
        named = set(self.named) & self.mentions[h]
        return float(p if named else p * self.c["unnamed"])

    def bridges(self, h: int) -> dict[Term, float]:
        """4: w(c) of the concepts and stems that lead away from a note."""
        if h in self.ways:
            return self.ways[h]
        note, out = self.notes[h], self.ways.setdefault(h, {})
        for concept in self.mentions[h]:
            df = self.concept_df[concept]
            if concept not in self.named and df <= self.c["max_df"] and df <= self.cap:
                out["concept", concept] = df**-0.5
        specific = sum(self.concept_df[c] <= self.cap for c in self.mentions[h])
        rich = bool(note.subjects) and specific >= self.c["rich_concepts"]
        for stem in note.stems:
            df = self.stem_df[stem]
            if stem in self.asked or df < 2 or df > self.c["max_df"] or df > self.cap:
                continue
            factor = self.c["stem"]
            if rich and self.c["caps"]:
                upper, all_ = self.store.capitals.get(stem, (0, 0))
                factor = self.c["capital_stem" if 2 * upper > all_ else "plain_stem"]
            out["stem", stem] = factor * df**-0.5
        return out

    def shares(self, h: int, i: int) -> dict[Term, float]:
        """What each concept and stem of h gives to another note: their sum is L unsaturated."""
        out = {}
        for term, w in self.bridges(h).items():
            kind, name = term
            note, gain = self.notes[i], 0.0
            if name in (self.mentions[i] if kind == "concept" else note.stems):
                gain += self.c["mention"]
            if kind == "concept" and name in note.subjects:
                gain += self.c["subject"]
            if gain:
                out[term] = w * gain
        return out

    def likeness(self, h: int, i: int) -> float:
        """L(h, n)."""
        total = math.fsum(self.shares(h, i).values())
        return total / (total + self.c["saturation"]) if total else 0.0

    def gap(self, h: int, i: int) -> float:
        """5: R(h, n)."""
        return sum(self.weights[i, t] for t in self.words if t not in self.held[h])

    def bridge(self) -> None:
        """6 and 7: the best way from a seed to each note."""
        best = dict.fromkeys(self.rows, 0.0)
        base = self.base()
        for h in dict.fromkeys([*self.out.seeds, *self.out.spread]):
            for i in self.rows:
                if i == h:
                    continue
                way = self.worth(h) * self.likeness(h, i) * (base + self.gap(h, i))
                if way > best[i]:
                    best[i] = way
                    self.out.paths[i] = Path(h, strongest(self.shares(h, i)))
        self.out.bridge_scores = best
        for i in self.rows:
            self.parts[i]["bridge"] = self.c["weight"] * best[i]
        self.s = {i: self.first[i] + self.parts[i]["bridge"] for i in self.rows}

    def pin(self) -> None:
        """The first flat note comes first, below what was learned."""
        flat = self.flat_scores
        if not self.c["pin"] or not self.rows or max(flat.values()) <= 0.0:
            return
        i = min(self.rows, key=lambda i: (-flat[i], i))
        self.out.pin = i
        self.move(i, "pin", max(self.s[i], max(self.s.values()) + self.c["pin_lift"]))

    def move(self, i: int, part: str, score: float) -> None:
        self.parts[i][part] += score - self.s[i]
        self.s[i] = score

    # -- the covering pick -----------------------------------------------------------------------

    def titled(self) -> bool:
        """Whether the first notes declare subjects; one of too many notes is no title."""
        first = self.order[: self.c["gate_notes"]]
        titled = sum(
            any(self.concept_df[c] <= self.cap for c in self.notes[i].subjects) for i in first
        )
        return bool(first) and bool(titled >= self.c["titled_share"] * len(first))

    def open(self) -> float:
        """The least idf that one of the first notes lacks, by ln(1 + N)."""
        left = min(
            sum(self.word_idf(t) for t in self.words if t not in self.held[i])
            for i in self.order[: self.c["gate_notes"]]
        )
        return left / math.log(1.0 + self.n)

    def closed(self, share: float) -> float:
        """`share` where one of the first notes holds all words, up to 1 where none nearly does."""
        if not self.words or not self.out.seeds:
            return 1.0
        return float(share + (1.0 - share) * min(1.0, self.open() / self.c["closed_width"]))

    def base(self) -> float:
        """What a way is worth without a gap: less where a titled note holds all words."""
        return float(self.c["base"]) * (self.closed(self.c["closed"]) if self.titled() else 1.0)

    def gate(self) -> float:
        """a: how much of the question the first notes leave open, if they declare subjects."""
        if not self.words or not self.titled():
            return 0.0
        om = self.open()
        return float(min(1.0, max(0.0, (om - self.c["gate_least"]) / self.c["gate_width"])))

    def spread_seeds(self, a: float) -> list[int]:
        """3: seeds that cover one another's words and subjects the least."""
        pool = self.order[: self.c["spread_pool"]]
        taken: list[int] = []
        while len(taken) < min(self.c["spread_seeds"], len(pool)):
            words = {t for i in taken for t in self.held[i]}
            about = {q for i in taken for q in self.named if q in self.notes[i].subjects}

            def value(i: int, words: set[Name] = words, about: set[Name] = about) -> float:
                held = sum(self.weights[i, t] for t in self.words if t in words)
                same = sum(
                    self.concept_idf(q) / self.subject_top
                    for q in self.named
                    if q in about and q in self.notes[i].subjects
                )
                loss = self.c["spread_words"] * held + self.c["spread_subjects"] * same
                return round(self.first[i] - a * loss, 12)  # what is 0 but for rounding is equal

            left = [i for i in pool if i not in taken]
            taken.append(max(left, key=value))  # the first of equals: by s0
        return taken

    def cover(self, a: float) -> None:
        """4 and 5: the first five, chosen together; the pool's scores dealt in their order."""
        pool = self.ranked(self.s)[: self.c["pool"]]
        picks = pool[:1]
        while len(picks) < min(self.c["picks"], len(pool)):
            left = [i for i in pool if i not in picks]
            chosen = max(left, key=lambda i: self.pick_value(i, picks, a))
            source = max(picks, key=lambda h: self.worth(h) * self.likeness(h, chosen))
            if self.worth(source) * self.likeness(source, chosen) > 0.0:
                covered = {t for h in picks for t in self.held[h]}
                adds = [t for t in self.words if t in self.held[chosen] and t not in covered]
                terms = strongest(self.shares(source, chosen))[:3]
                self.out.cover_paths[chosen] = Path(source, terms, adds)
            picks.append(chosen)
        self.out.picks = picks
        dealt = sorted((self.s[i] for i in pool), reverse=True)
        order = [*picks, *(i for i in pool if i not in picks)]
        for place, (i, score) in enumerate(zip(order, dealt, strict=True)):
            self.move(i, "cover", score - place * self.c["deal"])

    def pick_value(self, i: int, picks: Sequence[int], a: float) -> float:
        c, note = self.c, self.notes[i]
        held = {t for h in picks for t in self.held[h]}
        alike = [h for h in picks if self.notes[h].subjects & note.subjects]
        same = {t for h in alike for t in self.held[h]}
        mentioned = {q for h in picks for q in self.mentions[h]}
        best = max(self.worth(h) * self.likeness(h, i) for h in picks)
        covered = sum(self.weights[i, t] for t in self.words if t in held)
        repeated = sum(self.weights[i, t] for t in self.words if t in same)
        fresh = sum(self.weights[i, t] for t in self.words if t not in held)
        missing = sum(
            self.concept_idf(q) for q in self.named if q in note.subjects and q not in mentioned
        )
        value = self.s[i] - c["pick_loss"] * a * (
            c["pick_covered"] * covered + c["pick_same"] * repeated
        )
        value += c["pick_gain"] * a * best * (c["base"] + fresh)
        return round(value + c["pick_open"] * a * missing / math.log(1.0 + self.n), 12)

    # -- 8: what was learned, and links between notes --------------------------------------------

    def learned(self) -> None:
        terms: dict[Term, float] = {("concept", q): self.concept_idf(q) for q in self.named}
        terms.update({("stem", t): self.stem_idf(t) for t in self.said})
        total = math.fsum(terms.values())
        if not total:
            return
        by_note, by_concept = self.by_note(terms, total), self.by_concept(terms, total)
        for i in self.rows:
            concepts = sum(
                gain * self.concept_df[k] ** -0.5
                for k, gain in by_concept.items()
                if k in self.mentions[i]
            )
            self.move(i, "taught", self.s[i] + self.c["note_part"] * by_note[i])
            self.move(i, "taught concepts", self.s[i] + self.c["concept_part"] * concepts)

    def by_note(self, terms: Mapping[Term, float], total: float) -> dict[int, float]:
        """The note part: what outcomes taught between the question's terms and each note."""
        size: dict[Term, float] = {}
        for (term, _), weight in self.store.cues.items():
            size[term] = size.get(term, 0.0) + abs(weight)
        out = {}
        for i in self.rows:
            held = {t: self.store.cues.get((t, i), 0.0) for t in terms}
            held = {t: weight for t, weight in held.items() if weight}
            part = sum(
                terms[t] * max(-1.0, min(1.0, weight / math.sqrt(size[t])))
                for t, weight in held.items()
            )
            cover = sum(terms[t] for t in held) / total
            out[i] = part / total * cover**2
        return out

    def by_concept(self, terms: Mapping[Term, float], total: float) -> dict[Name, float]:
        """a(k): where the taught part of concept links leads from the named concepts."""
        out: dict[Name, float] = {}
        for q in self.named:
            led: dict[Name, float] = {}
            for (a, b), (weight, taught) in self.store.taught.items():
                if q in (a, b) and weight >= self.c["concept_threshold"] and taught > 0.0:
                    led[b if q == a else a] = taught
            size = math.sqrt(math.fsum(led.values()))
            for k, taught in led.items():
                if k not in self.named:
                    share = terms["concept", q] / total
                    out[k] = out.get(k, 0.0) + share * taught / size
        return out

    def links(self) -> None:
        """Links between notes, once, from the scores so far."""
        near: dict[int, list[int]] = {i: [] for i in self.rows}
        for (a, b), weight in self.store.note_links.items():
            if weight >= self.c["link_threshold"] and a in near and b in near and a != b:
                near[a].append(b)
                near[b].append(a)
        before = dict(self.s)
        share = self.c["link_share"] * self.closed(self.c["closed_links"])
        for i, others in near.items():
            if not others:
                continue
            best = min(others, key=lambda m: (-before[m], m))
            if before[best] > 0.0:
                self.out.link_sources[i] = best
                self.move(i, "links", self.s[i] + share * before[best])
        if self.out.link_sources and self.closed(0.0) == 0.0 and self.c["pin"]:
            first = min(self.rows, key=lambda i: (-before[i], i))
            others = max((self.s[i] for i in self.rows if i != first), default=-math.inf)
            self.move(first, "pin", max(self.s[first], others + self.c["pin_lift"]))


def strongest(shares: Mapping[Term, float]) -> list[tuple[Term, float]]:
    """Terms by what they give, concepts before stems, then by name."""
    return sorted(shares.items(), key=lambda item: (-item[1], item[0][0], str(item[0][1])))
