"""The engine for notes, concepts and concept links in dicts and loops, from the rules alone.

Nothing here is fast, and nothing here comes from fastassoc: where the two differ, one is wrong.
Times are whole microseconds (UTC). Concepts go by their folded names. Text queries, extraction and
vectors are not its business: a note says its concepts.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import snowballstemmer
from naive_association import walk

FLOOR = 0.0


class Refused(ValueError):
    """Bad input; nothing was changed."""


@dataclass
class Note:
    id: str
    text: str
    concepts: list[str]
    domain: str
    created_at: int
    metadata: dict[str, Any]
    valence: float = 0.0


@dataclass
class Link:
    created_at: int
    updated_at: int
    weight: float = 0.0
    written: float = 0.0
    count: int = 0
    valence: float = 0.0

    @property
    def taught(self) -> float:
        return self.weight - self.written


@dataclass
class Hit:
    id: str
    rank_score: float
    score: float
    source: str
    via: list[str] = field(default_factory=list)
    path: list[tuple[str, str, str, float]] = field(default_factory=list)  # from, to, layer, weight


@dataclass
class Recall:
    hits: list[Hit]
    query_concepts: list[str]
    expanded: dict[str, float]  # the whole expansion
    reason: str | None


def fold(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def grid(step: float) -> float:
    """A step is a multiple of 2^-20, so that sums of steps are exact in any order."""
    return round(step * 2**20) / 2**20


def pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def check_outcome(outcome: float) -> None:
    if math.isnan(outcome) or not -1 <= outcome <= 1:
        raise Refused(f"outcome {outcome} is not in [-1, 1]")


class NaiveMemory:
    def __init__(
        self,
        clock: Callable[[], int],
        *,
        names: str = "fold",
        threshold: float = 2.0,
        write_step: float = 1.0,
        teach_step: float = 1.0,
        hop_factor: float = 1.0,
        valence_rate: float = 0.3,
    ) -> None:
        self.clock = clock
        self.options = {
            "names": names,
            "threshold": threshold,
            "write_step": write_step,
            "teach_step": teach_step,
            "hop_factor": hop_factor,
            "valence_rate": valence_rate,
        }
        self.fold = fold if names == "fold" else str
        self.threshold, self.hop_factor = threshold, hop_factor
        self.write_step, self.teach_step = grid(write_step), teach_step
        self.valence_rate = valence_rate
        self.notes: dict[str, Note] = {}  # in the order of writing
        self.links: dict[tuple[str, str], Link] = {}
        # weights between what was asked ("concept" or "stem", its name) and a note that was used
        self.cues: dict[tuple[str, str, str], float] = {}
        self.shown: dict[str, str] = {}  # key -> first spelling, in the order of appearance
        self.last = -(2**63)
        self.stem = snowballstemmer.stemmer("english").stemWord

    # -- how one link changes: the only place ------------------------------------------------------

    def _now(self) -> int:
        self.last = max(self.last, self.clock())
        return self.last

    def _change(
        self,
        key: tuple[str, str],
        at: int,
        *,
        weight: float = 0.0,
        written: float = 0.0,
        count: int = 0,
        outcome: float | None = None,
    ) -> None:
        if key not in self.links:
            if FLOOR + weight <= FLOOR and count <= 0:
                return  # nothing to take away from
            self.links[key] = Link(created_at=at, updated_at=at)
        link = self.links[key]
        link.weight = max(FLOOR, link.weight + weight)
        link.written += written
        link.count += count
        if outcome is not None:
            link.valence += self.valence_rate * (outcome - link.valence)
            link.valence = min(1.0, max(-1.0, link.valence))
        link.updated_at = max(link.updated_at, at)
        if link.count == 0 and link.weight == FLOOR:
            del self.links[key]

    def _spell(self, names: Iterable[str]) -> list[str]:
        """Distinct keys in the given order."""
        keys = []
        for name in names:
            self.shown.setdefault(self.fold(name), name)
            keys.append(self.fold(name))
        return list(dict.fromkeys(keys))

    # -- writing -----------------------------------------------------------------------------------

    def _fault(self, row: Mapping[str, Any]) -> str | None:
        if not isinstance(row.get("text"), str):
            return "text must be a string"
        concepts = row.get("concepts", [])
        if not isinstance(concepts, (list, tuple, set)):
            return "concepts must be a list of names"
        if len(concepts) > 256:
            return "more than 256 concepts"
        for name in [*concepts, *row.get("subjects", [])]:
            if not isinstance(name, str) or not fold(name) or len(name.encode()) > 256:
                return f"bad concept name {name!r}"
        return None

    def write(self, text: str, **fields: Any) -> str:
        row = {"text": text, "id": f"note-{len(self.notes)}-{self.last}", **fields}
        self.write_batch([row])
        return row["id"]

    def write_batch(
        self,
        rows: Sequence[Mapping[str, Any]],
        on_duplicate: str = "error",
        on_error: str = "raise",
    ) -> dict[str, Any]:
        plan, rejected, skipped, replaced, seen = [], [], 0, 0, set(self.notes)
        for number, row in enumerate(rows):
            reason = self._fault(row)
            if not reason and row["id"] in seen and on_duplicate == "error":
                reason = f"id {row['id']} exists"
            if reason:
                rejected.append((number, reason))
            elif row["id"] in seen and on_duplicate == "skip":
                skipped += 1
            else:
                plan.append(row)
                seen.add(row["id"])
        if rejected and on_error != "reject":
            raise Refused(f"row {rejected[0][0]}: {rejected[0][1]}")
        at = self._now()
        for row in plan:
            if row["id"] in self.notes:
                self._forget(row["id"], at)
                replaced += 1
            self._add(row, at)
        return {"skipped": skipped, "replaced": replaced, "rejected": rejected}

    def _add(self, row: Mapping[str, Any], at: int) -> None:
        keys = self._spell([*row.get("concepts", []), *row.get("subjects", [])])
        self.notes[row["id"]] = Note(
            id=row["id"],
            text=row["text"],
            concepts=keys,
            domain=row.get("domain", "general"),
            created_at=row.get("created_at", at),
            metadata=dict(row.get("metadata", {})),
        )
        for a, b in itertools.combinations(keys, 2):
            self._change(pair(a, b), at, weight=self.write_step, written=self.write_step, count=1)

    def _forget(self, note_id: str, at: int) -> None:
        note = self.notes.pop(note_id)
        self.cues = {cue: weight for cue, weight in self.cues.items() if cue[2] != note_id}
        step = self.write_step
        for a, b in itertools.combinations(note.concepts, 2):
            self._change(pair(a, b), at, weight=-step, written=-step, count=-1)

    def forget(self, ids: Iterable[str] = (), where: Mapping[str, Any] | None = None) -> int:
        doomed = [i for i in dict.fromkeys(ids) if i in self.notes]
        if where is not None:
            doomed = [n.id for n in self.notes.values() if self._passes(n, where=where)]
        at = self._now()
        for note_id in doomed:
            self._forget(note_id, at)
        return len(doomed)

    def update(self, note_id: str, metadata: Mapping[str, Any]) -> None:
        self._now()
        self.notes[note_id].metadata = dict(metadata)

    # -- teaching ----------------------------------------------------------------------------------

    def feedback(
        self,
        asked: Iterable[str],
        used: Iterable[str] = (),
        used_concepts: Iterable[str] = (),
        outcome: float = 1.0,
    ) -> dict[str, Any]:
        used, used_concepts = list(dict.fromkeys(used)), list(used_concepts)
        check_outcome(outcome)
        if not used and not used_concepts:
            raise Refused("nothing used")
        at = self._now()
        live = [self.notes[i] for i in used if i in self.notes]
        for note in live:
            note.valence += self.valence_rate * (outcome - note.valence)
        targets = self._spell(used_concepts) + [key for note in live for key in note.concepts]
        asked = self._spell(asked)
        for key in asked:
            for note in live:
                self._change_cue(("concept", key, note.id), grid(outcome / len(live)))
        pairs = {pair(a, b) for a in asked for b in targets if a != b}
        for key in pairs:
            self._change(key, at, weight=grid(outcome * self.teach_step), outcome=outcome)
        return {"missing": [i for i in used if i not in self.notes]}

    def link(self, a: str, b: str, weight: float) -> None:
        first, second = self._spell([a, b])
        self._change(pair(first, second), self._now(), weight=grid(weight))

    def unlink(self, a: str, b: str) -> None:
        key, at = pair(self.fold(a), self.fold(b)), self._now()
        if key in self.links:
            self._change(key, at, weight=FLOOR - self.links[key].weight)

    def _change_cue(self, cue: tuple[str, str, str], amount: float) -> None:
        """A cue link may be negative, and is gone where it comes to nothing."""
        weight = self.cues.pop(cue, 0.0) + amount
        if weight:
            self.cues[cue] = weight

    def _term(self, name: str) -> tuple[str, str]:
        """A concept that something holds, else the stem of a word."""
        key = self.fold(name)
        return ("concept", key) if self.exists(key) else ("stem", self.stem(key))

    def link_cue(self, name: str, note_id: str, weight: float) -> None:
        self._now()
        self._change_cue((*self._term(name), note_id), grid(weight))

    def unlink_cue(self, name: str, note_id: str) -> None:
        """Every term of that name."""
        self._now()
        key = self.fold(name)
        for term in (self._term(name), ("stem", self.stem(key)), ("stem", key)):
            self.cues.pop((*term, note_id), None)

    # -- reading -----------------------------------------------------------------------------------

    def exists(self, key: str) -> bool:
        on_note = any(key in note.concepts for note in self.notes.values())
        cued = any(("concept", key) == cue[:2] for cue in self.cues)
        linked = any(key in ab and link.weight > FLOOR for ab, link in self.links.items())
        return on_note or cued or linked

    def _stems(self, key: str) -> list[str]:
        return [self.stem(word) for word in key.split()]

    def _asked(self, names: Iterable[str]) -> list[str]:
        """Known concepts among the names, then their variants (equal stems word by word)."""
        keys = list(dict.fromkeys(self.fold(name) for name in names))
        variants = [v for k in keys for v in self.shown if self._stems(v) == self._stems(k)]
        return [key for key in dict.fromkeys(keys + variants) if self.exists(key)]

    def neighbours(self, key: str, least: float) -> dict[str, float]:
        found = {}
        for (a, b), link in self.links.items():
            if key in (a, b) and link.weight >= least:
                found[b if key == a else a] = link.weight
        return found

    def expand(self, asked: Sequence[str], hops: int = 1) -> dict[str, tuple[float, list[str]]]:
        """For each concept reached: strength of the best path, and the path."""
        order = list(self.shown)
        level: dict[str, tuple[float, list[str]]] = {key: (math.inf, [key]) for key in asked}
        best: dict[str, tuple[float, list[str]]] = {}
        for hop in range(hops):
            after: dict[str, tuple[float, list[str]]] = {}
            for parent in sorted(level, key=order.index):
                strength, path = level[parent]
                for child, weight in self.neighbours(parent, self.threshold).items():
                    least = min(strength, weight)
                    if child not in asked and (child not in after or least > after[child][0]):
                        after[child] = (least, [*path, child])
            for child, (strength, path) in after.items():
                damped = strength * self.hop_factor**hop
                if child not in best or damped > best[child][0]:
                    best[child] = (damped, path)
            level = after
        return best

    def _passes(
        self,
        note: Note,
        domain: str | None = None,
        since: int | None = None,
        until: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> bool:
        if domain is not None and note.domain != domain:
            return False
        if since is not None and note.created_at < since:
            return False
        if until is not None and note.created_at > until:
            return False
        for key, want in (where or {}).items():
            have = note.domain if key == "domain" else note.metadata.get(key)
            if have is None:
                return False
            if not isinstance(want, dict):
                good = have == want
            elif "in" in want:
                good = have in want["in"]
            else:
                good = isinstance(have, (str, list)) and want["contains"] in have
            if not good:
                return False
        return True

    def read(
        self,
        concepts: Sequence[str],
        k: int = 10,
        hops: int = 1,
        min_score: float = 0.0,
        **filters: Any,
    ) -> Recall:
        asked = self._asked(concepts)
        grown = self.expand(asked, hops)
        pool = [note for note in self.notes.values() if self._passes(note, **filters)]
        direct = {note.id: 10.0 * len(set(asked) & set(note.concepts)) for note in pool}
        gains = {note.id: [grown[c][0] for c in note.concepts if c in grown] for note in pool}
        total = {note.id: direct[note.id] + sum(gains[note.id]) for note in pool}

        def ranked(score: dict[str, float]) -> list[Note]:  # reverse keeps equal ones in order
            found = [note for note in pool if score[note.id] > 0]
            return sorted(found, key=lambda note: (score[note.id], note.text), reverse=True)[:k]

        first = {note.id for note in ranked(direct)}
        known = sum(bool(self._asked([name])) for name in set(concepts))
        coverage = known / max(1, len(set(concepts)))
        hits = []
        for note in ranked(total):
            s = total[note.id]
            hit = Hit(note.id, s, coverage * s / (1 + s), "concept")
            if note.id not in first:
                hit.source = "association"
                hit.via = sorted(c for c in note.concepts if c in grown)
                for name in hit.via:
                    steps = itertools.pairwise(grown[name][1])
                    hit.path += [(a, b, "concept", self.links[pair(a, b)].weight) for a, b in steps]
                    hit.path.append((name, note.id, "carries", 1.0))
            if hit.score >= min_score:
                hits.append(hit)
        reason = None if hits else "nothing found"
        return Recall(hits, asked, {c: strength for c, (strength, _) in grown.items()}, reason)

    def get(self, note_id: str) -> Note:
        return self.notes[note_id]

    def recent(self, limit: int = 20) -> list[str]:
        stamps = sorted((note.created_at, note.id) for note in self.notes.values())
        return [note_id for _, note_id in stamps[::-1]][:limit]

    def associate(self, cues: Sequence[str], k: int = 10) -> list[tuple[str, float]]:
        known = {self.fold(cue) for cue in cues if self.exists(self.fold(cue))}
        stay, back, power = (0.3, 0.0, 0.5) if len(known) == 1 else (0.9, 0.5, 1.0)
        weights = {ends: link.weight for ends, link in self.links.items()}
        found = walk(weights, known, 2, stay, back, power) if known else {}
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))[:k]

    def graph(
        self, seeds: Iterable[str], depth: int = 1, min_weight: float | None = None
    ) -> tuple[dict[str, int], set[tuple[str, str]], float]:
        """Nodes with the number of their links, edges, and the least weight applied."""
        least = min_weight if min_weight is not None else (0.0 if depth == 1 else 0.05)
        nodes = {self.fold(name) for name in seeds if self.exists(self.fold(name))}
        edges, front = set(), set(nodes)
        for _ in range(depth):
            reached = {(a, b) for a in front for b in self.neighbours(a, least)}
            edges |= {pair(a, b) for a, b in reached}
            front = {b for _, b in reached} - nodes
            nodes |= front
        return {key: len(self.neighbours(key, -math.inf)) for key in nodes}, edges, least

    def stats(self) -> dict[str, Any]:
        return {
            "notes": len(self.notes),
            "links": len(self.links),
            "concepts": sum(self.exists(key) for key in self.shown),
            "domains": sorted({note.domain for note in self.notes.values()}),
        }

    def vacuum(self) -> None:
        """Names that nothing holds are dropped: a later note spells them anew."""
        self.shown = {key: name for key, name in self.shown.items() if self.exists(key)}

    def rebuild_links(self) -> NaiveMemory:
        """The control: the same notes, and links as the notes alone write them."""
        control = NaiveMemory(self.clock, **self.options)
        for note in self.notes.values():
            control.write_batch([vars(note)])
        return control
