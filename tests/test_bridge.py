"""The default read through the public API against its slow twin, on small stores."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import naive_bridge as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_concepts import Vocabulary, fold_name
from naive_mentions import Mentioning
from naive_text import Texts
from snowballstemmer import stemmer
from worker import Worker, ask

import fastassoc as fa
from fastassoc.words import STOP_WORDS

WORDS = ["zorb", "flim", "krel", "tavo", "quint", "marsk", "pell", "grond", "the", "of", "with"]
WORDS += ["krels", "flims", "Zorb", "Quint", "Tavo", "arlo"]
NAMES = ["Arlo", "Vex", "Arlo Vex", "Borim", "Celwyn", "Dorn", "Celwyn of Dorn", "Ester", "Fayd"]
NAMES += ["Krels", "Hulme"]
GIVEN = [*NAMES, "zorb", "pell grond", "krel", "Marsk"]
TITLES = ["Arlo", "Borim", "Dorn", "Ester (town)", "Fayd, Dorn", "Celwyn of Dorn", "pell"]
DOMAINS = ["general", "other"]
TOLERANCE = 1e-9
snowball = stemmer("english")


def stem(word: str) -> str:
    return word if word[-1].isdigit() else str(snowball.stemWord(word))


def titles(subjects: Iterable[str]) -> set[str]:
    """Keys that titles stand for: without a bracket, with a comma the part before it, too."""
    out = set()
    for title in subjects:
        name = re.sub(r"\s*\(.*\)$", "", title)
        out |= {fold_name(name), fold_name(name.partition(",")[0])}
    return out


def over_links(hit: Any, notes: Sequence[str]) -> bool:
    """Whether a path leads over a link, or out of a note, and not straight from the question."""
    return any(step.layer not in ("carries", "says") or step.source in notes for step in hit.path)


class World:
    """A memory, and what was written into it."""

    def __init__(self, mem: fa.Memory | None = None) -> None:
        self.mem = fa.Memory() if mem is None else mem
        self.rows: dict[str, dict[str, Any]] = {}  # live notes in the order of writing
        self.vocabulary = Vocabulary("fold", "english", STOP_WORDS)
        self.constants: dict[str, Any] = {}

    def write(self, *rows: Mapping[str, Any]) -> None:
        self.mem.write_batch([dict(row) for row in rows], on_duplicate="replace")
        for row in rows:
            self.rows.pop(row["id"], None)
            self.rows[row["id"]] = dict(row)

    def forget(self, *ids: str) -> None:
        self.mem.forget(list(ids))
        for note in ids:
            del self.rows[note]

    def configure(self, **changes: Any) -> None:
        self.mem.configure(**{f"bridge.{name}": value for name, value in changes.items()})
        self.constants.update(
            {"caps" if name == "capitals" else name: value for name, value in changes.items()}
        )

    # -- what the twin is told ---------------------------------------------------------------------

    def own(self, note: str) -> dict[str, bool]:
        """Keys of a note's concepts, and whether they were given."""
        row, names = self.rows[note], self.mem.get(note).concepts
        about = titles(row.get("subjects", ()))
        given_too = row.get("concepts") is not None
        assert about <= set(map(fold_name, names))
        return {fold_name(name): given_too or fold_name(name) in about for name in names}

    def twin(self, question: Mapping[str, Any]) -> tuple[naive.Store, naive.Question]:
        """The store and the question in the twin's words, from the texts and the taught links."""
        self.linked: set[str] = set()  # concepts that nothing but a link holds
        self.cued = {fold_name(link["a"]) for link in self.mem.cue_links.to_arrow().to_pylist()
                     if link["kind"] == "concept"}  # fmt: skip
        mentioning, texts = Mentioning(), Texts(stem, STOP_WORDS)
        capital: Counter[str] = Counter()
        written: Counter[str] = Counter()
        owned = {note: self.own(note) for note in self.rows}
        for note, row in self.rows.items():
            mentioning.write(row["text"], owned[note])
            texts.append([row["text"]])
            for word in re.findall("[A-Za-z0-9]+", row["text"]):
                written[stem(word.lower())] += 1
                capital[stem(word.lower())] += word[0].isupper()
        mentions = mentioning.mentions()
        given_once = {key for own in owned.values() for key, by_hand in own.items() if by_hand}
        notes = []
        for place, (note, row) in enumerate(self.rows.items()):
            words = texts.rows[place]
            assert words is not None
            vector = row.get("vector")
            notes.append(
                naive.Note(
                    mentions[place],
                    titles(row.get("subjects", ())),
                    Counter(words),
                    vector=None if vector is None else np.float32(vector).tolist(),
                    allowed=self.allowed(note, question),
                    carried={key for key in owned[note] if key in given_once},
                )
            )
        place_of = {note: place for place, note in enumerate(self.rows)}
        links = {
            (place_of[link["a"]], place_of[link["b"]]): link["weight"]
            for link in self.mem.note_links.to_arrow().to_pylist()
        }
        capitals = {word: (capital[word], written[word]) for word in written}
        cues = {
            ((link["kind"], self.term(link)), place_of[link["b"]]): link["weight"]
            for link in self.mem.cue_links.to_arrow().to_pylist()
        }
        taught = {
            (fold_name(link["a"]), fold_name(link["b"])): (link["weight"], link["taught"])
            for link in self.mem.links.to_arrow().to_pylist()
        }
        for name in {name for pair in taught for name in pair} | self.cued:
            if not any(name in own for own in owned.values()):
                self.linked.add(name)
        store = naive.Store(notes, note_links=links, cues=cues, taught=taught, capitals=capitals)
        return store, self.asked(question, owned, texts, mentioning.eligible())

    @staticmethod
    def term(link: Mapping[str, Any]) -> str:
        return fold_name(link["a"]) if link["kind"] == "concept" else str(link["a"])

    def allowed(self, note: str, question: Mapping[str, Any]) -> bool:
        row = self.rows[note]
        if note == question.get("like"):
            return False
        if question.get("domain") not in (None, row.get("domain", "general")):
            return False
        old = bool(self.mem.get(note).superseded_by)
        return bool(question.get("include_superseded")) or not old

    def asked(
        self,
        question: Mapping[str, Any],
        owned: Mapping[str, Mapping[str, bool]],
        texts: Texts,
        eligible: set[str],
    ) -> naive.Question:
        names = self.vocabulary
        held = {key: None for own in owned.values() for key in own}
        held |= dict.fromkeys(sorted(self.linked))
        eligible = eligible | self.linked | self.cued
        names.intern(list(held), list(held))
        key_of = [name[0] for name in names.names]
        named: dict[str, None] = {}
        variants: list[int] = []
        text, vector = question.get("query"), question.get("vector")
        if "like" in question:
            note = question["like"]
            named.update(dict.fromkeys(owned[note]))
            text_of_words = self.rows[note]["text"]
            vector = self.rows[note].get("vector")
        else:
            text_of_words = text or " ".join(question.get("concepts", ()))
        for one in question.get("concepts", ()):
            if fold_name(one) in held:
                named[fold_name(one)] = None
            variants += [i for i in names.variants_of(one) if key_of[i] in held]
        if text:
            for ids, said in names.find_in(text, lambda i: key_of[i] in eligible):
                if said is not None:
                    variants += ids
                    continue
                for i in ids:
                    named[key_of[i]] = None
                    variants += [j for j in names.variants(i) if key_of[j] in eligible]
        named.update(dict.fromkeys(key_of[i] for i in variants))
        stems = texts.words(text_of_words)
        said = texts.words(text) if text else []
        place = None if vector is None else np.float32(vector).tolist()
        return naive.Question(named, stems, place, said)

    # -- comparing ---------------------------------------------------------------------------------

    def check(self, question: Mapping[str, Any], near: int = 100) -> fa.Recall:
        """Read, and compare with the twin."""
        recall = self.mem.read(rank="bridge", **{"k": 60, **question})
        store, asked = self.twin(question)
        k = question.get("k", 60)
        exact = [hit.id for hit in recall if hit.source == "exact"]
        constants = {"near": max(near, 4 * k, k + len(exact)), "zeros": False, **self.constants}
        answer = naive.read(store, asked, constants)
        ids = list(self.rows)
        speaks = {i for i in answer.order if max(answer.parts[i].values()) > 0.0}
        places = [i for i in answer.order if i in speaks]
        near_only = [i for i in self.nearest(store, asked, constants["near"]) if i not in speaks]
        places = sorted([*places, *near_only], key=lambda i: -answer.scores[i])
        wanted = [ids[i] for i in places if ids[i] not in exact]
        last = [ids[i] for i in near_only if ids[i] not in exact]
        assert recall.rank == "bridge"
        assert set(map(fold_name, recall.query_concepts)) == set(asked.concepts)
        assert [hit.id for hit in recall] == exact + wanted[: k - len(exact)]
        for hit in recall:
            parts = answer.parts[ids.index(hit.id)]
            mine = {name: part for name, part in hit.parts.items() if name != "exact"}
            assert set(mine) <= set(parts)
            for name, part in parts.items():
                assert mine.get(name, 0.0) == pytest.approx(part, abs=TOLERANCE), (hit.id, name)
            assert sum(hit.parts.values()) == pytest.approx(hit.rank_score, abs=1e-12)
        for above, below in pairwise(recall):
            assert above.rank_score >= below.rank_score
            assert above.score >= below.score
        by_first = sorted(
            (i for i in answer.first_scores if answer.first_scores[i] > 0.0),
            key=lambda i: (-answer.first_scores[i], i),
        )
        direct = {ids[i] for i in by_first[:k]} | set(last)
        for hit in recall:
            if hit.source != "exact":
                carried = set(self.own(hit.id)) & set(asked.concepts)
                kind = "concept" if carried else "semantic"
                by_itself = hit.id in direct or not over_links(hit, ids)
                assert hit.source == (kind if by_itself else "association"), hit.id
            self.check_path(hit, store, asked, answer)
        return recall

    def nearest(self, store: naive.Store, asked: naive.Question, near: int) -> list[int]:
        """Notes that may be returned by their vectors, nearest first."""
        if asked.vector is None:
            return []
        cosines = {
            i: naive.cosine(asked.vector, note.vector)
            for i, note in enumerate(store.notes)
            if note.allowed and note.vector is not None
        }
        return sorted(cosines, key=lambda i: (-cosines[i], i))[:near]

    def check_path(
        self, hit: Any, store: naive.Store, asked: naive.Question, answer: naive.Answer
    ) -> None:
        """Every step holds, and the path begins at what was named, or at a note found before."""
        ids = list(self.rows)
        place = ids.index(hit.id)
        mentions = {ids[i]: note.mentions | note.subjects for i, note in enumerate(store.notes)}
        sources = {ids[i] for i in {*answer.seeds, *answer.spread, *answer.picks}}
        sources |= {ids[i] for i in answer.link_sources.values()}
        reached: set[str] = {*asked.concepts, *(asked.said or ()), *sources}
        over, said, words = [], [], set()
        # its own ways first, then how the note that lent it most was named, then that link
        own = 1 + max((i for i, step in enumerate(hit.path[:-1]) if step.target == hit.id),
                      default=-1)  # fmt: skip
        if not hit.parts.get("links"):
            own = len(hit.path)
        for number, step in enumerate(hit.path):
            if step.layer == "says":
                note, word = sorted((step.source, step.target), key=lambda end: end not in ids)
                assert word in store.notes[ids.index(note)].stems
                assert step.source in (*reached, *asked.stems, *words)
                if step.source == note:
                    words.add(word)
                    said += [word] if number < own else []
                reached.add(note)
                continue
            a, b = fold_name(step.source), fold_name(step.target)
            a, b = (step.source if step.source in ids else a), (step.target if b in ids else b)
            assert a in reached, hit.path
            if step.layer in ("cue", "concept"):
                assert step.weight == pytest.approx(self.weight(step))
                assert step.weight == step.written + step.taught
            elif step.layer == "note":
                assert step.weight >= 0.3
                assert (a, b) == (ids[answer.link_sources[place]], hit.id)
            else:
                note, concept = (a, b) if a in ids else (b, a)
                assert concept in mentions[note] or (b == note and concept in self.own(note))
                if a in ids and number < own:
                    over.append(b)
            reached.add(b)
        if hit.path:
            assert hit.path[-1].target == hit.id
        lent = [step.source for step in hit.path if step.layer == "note"]
        assert len(lent) == bool(hit.parts.get("links"))
        if lent and len(hit.path) == own + 1:  # nothing that was asked names the lender
            lender = store.notes[ids.index(lent[0])]
            assert not set(lender.stems) & set(asked.stems)
            assert not mentions[lent[0]] & set(asked.concepts)
        elif lent:
            assert hit.path[-2].target == lent[0]
        cues = [step for step in hit.path[:own] if step.layer == "cue"]
        assert bool(cues) == (hit.parts.get("taught", 0.0) > 0.0)
        taught = [step.target for step in hit.path[:own] if step.layer == "concept"]
        assert bool(taught) == (hit.parts.get("taught concepts", 0.0) > 0.0)
        if hit.source == "association":
            assert set(taught) <= set(hit.via)
        path = answer.cover_paths.get(place) or answer.paths.get(place)
        by_term: Mapping[naive.Term, float] = {}
        if path is not None:
            shares = naive.Reading(store, asked, {**self.constants, "zeros": False})
            by_term = shares.shares(path.source, place)
        terms = sorted(
            (-share, name) for (kind, name), share in by_term.items() if kind == "concept"
        )
        assert over == [name for _, name in terms[:3]]
        spoken = sorted(
            (-share, name) for (kind, name), share in by_term.items() if kind == "stem" and share
        )
        assert said == ([] if over else [name for _, name in spoken[:3]])
        if hit.source == "association":
            assert hit.path or asked.vector is not None

    def weight(self, step: Any) -> float:
        """The weight of a taught link that a path names."""
        if step.layer == "concept":
            return self.mem.links.weight(step.source, step.target)
        weights = (
            self.mem.cue_links.weight(step.source, step.target, kind)
            for kind in ("concept", "stem")
        )
        return next((one for one in weights if one == pytest.approx(step.weight)), 0.0)


# -- random worlds ---------------------------------------------------------------------------------


def some_text(rng: random.Random, most: int = 9) -> str:
    many = rng.randint(1, most)
    return " ".join(rng.choice(WORDS if rng.random() < 0.65 else NAMES) for _ in range(many))


def some_vector(rng: random.Random) -> list[float]:
    return [rng.gauss(0.3, 1.0) for _ in range(4)]


def some_row(rng: random.Random, note: str, ids: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": note, "text": some_text(rng)}
    if rng.random() < 0.4:
        row["concepts"] = rng.sample(GIVEN, rng.randint(0, 4))
    if rng.random() < 0.6:
        row["subjects"] = rng.sample(TITLES, rng.randint(1, 2))
    if rng.random() < 0.6:
        row["vector"] = some_vector(rng)
    if rng.random() < 0.3:
        row["session"] = rng.choice(["s", "t"])
    if rng.random() < 0.25:
        row["domain"] = "other"
    if ids and rng.random() < 0.1:
        row["supersedes"] = [rng.choice(ids)]
    return row


def some_question(rng: random.Random, ids: list[str]) -> dict[str, Any]:
    question: dict[str, Any] = {}
    kind = rng.random()
    if kind < 0.1 and ids:
        question["like"] = rng.choice(ids)
    elif kind < 0.75:
        question["query"] = some_text(rng, 6)
    if "like" not in question and rng.random() < 0.25:
        question["concepts"] = rng.sample(GIVEN, rng.randint(1, 2))
    if "like" not in question and (not question or rng.random() < 0.4):
        question["vector"] = some_vector(rng)
    if rng.random() < 0.2:
        question["domain"] = rng.choice(DOMAINS)
    if rng.random() < 0.2:
        question["include_superseded"] = True
    if rng.random() < 0.5:
        question["k"] = rng.choice([1, 2, 3, 5, 10])
    return question


def some_lesson(rng: random.Random, world: World, ids: list[str]) -> None:
    """Feedback on a question, or a link by hand."""
    mem, turn = world.mem, rng.random()
    outcome = rng.choice([1.0, 1.0, 0.3, -1.0, -0.4])
    some = rng.sample(ids, rng.randint(1, min(3, len(ids))))
    if turn < 0.7:
        recall = mem.read(rank="bridge", **some_question(rng, ids))
        for _ in range(rng.randint(1, 3)):
            mem.feedback(recall, used=some, outcome=outcome)
    elif turn < 0.8:
        mem.feedback(asked=rng.sample(GIVEN, 2), used=some, outcome=outcome)
    elif turn < 0.9:
        mem.link(rng.choice(GIVEN[:2] + WORDS[:8]), some[0], 3 * outcome, layer="cue")
    else:
        mem.link(*rng.sample(GIVEN, 2), 3 * outcome, layer="concept")


def some_world(rng: random.Random, world: World, steps: int, *, taught: bool = False) -> World:
    """Writes one by one and in batches, replaces, forgets, teaches."""
    for step in range(steps):
        ids = list(world.rows)
        turn = rng.random()
        if taught and ids and rng.random() < 0.5:
            some_lesson(rng, world, ids)
        if turn < 0.15 and len(ids) > 2:
            world.forget(*rng.sample(ids, rng.randint(1, 2)))
        elif turn < 0.25 and ids:
            world.write(some_row(rng, rng.choice(ids), []))
        else:
            many = rng.randint(1, 5)
            world.write(*(some_row(rng, f"n{step}-{n}", ids) for n in range(many)))
    return world


@pytest.mark.parametrize("seed", range(20))
def test_reads_of_random_stores(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    for _ in range(4):
        some_world(rng, world, 4)
        for _ in range(4):
            world.check(some_question(rng, list(world.rows)))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 2**40), st.integers(1, 5))
def test_reads_of_any_store(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    world = some_world(rng, World(), steps)
    for _ in range(3):
        world.check(some_question(rng, list(world.rows)))


@pytest.mark.parametrize("seed", range(20))
def test_reads_of_taught_stores(seed: int) -> None:
    rng = random.Random(3000 + seed)
    world = World()
    for _ in range(4):
        some_world(rng, world, 4, taught=True)
        for _ in range(4):
            world.check(some_question(rng, list(world.rows)))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 2**40), st.integers(2, 6))
def test_reads_of_any_taught_store(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    world = some_world(rng, World(), steps, taught=True)
    for _ in range(3):
        world.check(some_question(rng, list(world.rows)))


SWITCHED: list[dict[str, Any]] = [
    {"pin": False},
    {"cover": False},
    {"capitals": False},
    {"link_share": 0.0},
    {"link_share": 0.9, "closed_links": 1.0, "closed_width": 2.0},
    {"closed": 0.0, "closed_width": 2.0},
    {"seeds": 200},
    {"seeds": 1, "spread_seeds": 1},
    {"cover": False, "pin": False, "link_share": 0.9},
    {"flat_share": 0.7, "subject_weight": 0.9, "weight": 1.0, "base": 0.0},
    {"titled_share": 0.0, "gate_least": 0.0, "gate_notes": 2, "spread_pool": 4, "pool": 4},
    {"max_df": 3, "hub_least": 2, "hub_share": 0.2},
    {"hub_least": 1, "hub_share": 0.05},
    {"rich_concepts": 1, "capital_stem": 1.0, "plain_stem": 0.0},
    {"mention": 0.0, "saturation": 2.0, "seed_power": 1.0, "unnamed": 1.0},
    {"note_part": 0.0},
    {"concept_part": 3.0, "note_part": 0.5},
    {"picks": 3, "pick_loss": 1.0, "pick_gain": 0.5, "pick_open": 2.0, "pick_covered": 0.0},
]


@pytest.mark.parametrize("changes", SWITCHED, ids=",".join)
def test_constants_one_by_one(changes: dict[str, Any]) -> None:
    rng = random.Random(str(changes))
    world = some_world(rng, World(), 12, taught="part" in str(changes))
    world.configure(**changes)
    for _ in range(12):
        world.check(some_question(rng, list(world.rows)))


@pytest.mark.parametrize("seed", range(12))
def test_notes_beyond_the_nearest_and_the_best(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read looks at few notes, and answers as if it had looked at all."""
    monkeypatch.setattr("fastassoc.read.NEAREST", 3)
    rng = random.Random(1000 + seed)
    world = some_world(rng, World(), 14)
    small = {"seeds": 2, "gate_notes": 3, "spread_seeds": 2, "spread_pool": 3, "pool": 4}
    world.configure(**small, picks=3)
    for turn in range(10):
        if turn == 5:
            world.configure(seeds=8, gate_notes=10, spread_pool=9)
        world.check({**some_question(rng, list(world.rows)), "k": rng.randint(1, 4)}, near=3)


@pytest.mark.parametrize("seed", range(24))
def test_what_many_notes_hold_is_passed_over(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read leaves long lists out, and answers as if it had walked them."""
    monkeypatch.setattr("fastassoc.read.bridge.FEW", 0)
    monkeypatch.setattr("fastassoc.read.bridge.HUB", seed % 3)
    monkeypatch.setattr("fastassoc.read.NEAREST", 3)
    rng = random.Random(5000 + seed)
    world = some_world(rng, World(), 14, taught=seed % 2 == 1)
    world.configure(seeds=2, gate_notes=3, spread_seeds=2, spread_pool=3, pool=4, picks=3)
    for _ in range(10):
        world.check({**some_question(rng, list(world.rows)), "k": rng.randint(1, 4)}, near=3)


def test_words_that_are_a_note_come_first() -> None:
    world = some_world(random.Random(7), World(), 6)
    world.write({"id": "a", "text": "Arlo Vex zorb"}, {"id": "b", "text": "Arlo Vex zorb"})
    recall = world.check({"query": "Arlo Vex zorb"})
    assert [hit.source for hit in recall[:3]][:2] == ["exact", "exact"]
    world.check({"query": "Arlo Vex zorb", "k": 1})


# -- the same, whatever came before ----------------------------------------------------------------


def told(mem: fa.Memory, questions: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Answers without what names the moment of a read, names as they are compared.

    A name is shown as it was written first, be it by a note that is no more.
    """
    return [plain(mem.read(rank="bridge", **question)) for question in questions]


def plain(recall: fa.Recall) -> list[Any]:
    hits = [
        (hit.id, hit.rank_score, hit.score, hit.parts, hit.source, sorted(map(fold_name, hit.via)),
         [(fold_name(step.source), fold_name(step.target), step.layer) for step in hit.path])
        for hit in recall
    ]  # fmt: skip
    expanded = {fold_name(name): share for name, share in recall.expanded_concepts.items()}
    return [hits, sorted(map(fold_name, recall.query_concepts)), expanded, recall.unknown]


@pytest.mark.parametrize("seed", range(8))
def test_built_note_by_note_or_at_once(seed: int, tmp_path: Path) -> None:
    """With forgets, replaced notes, snapshots and opening again, to the last bit."""
    rng = random.Random(2000 + seed)
    world = World(fa.open(tmp_path / "a.fa", sync="off"))
    for step in range(6):
        some_world(rng, world, 4, taught=True)
        ids = list(world.rows)
        told(world.mem, [some_question(rng, ids)])
        if step % 2:
            world.mem.snapshot()
        if step % 3 == 2:
            world.mem.close()
            world.mem = fa.open(tmp_path / "a.fa", sync="off")
    for row in world.rows.values():  # what is left of chains depends on the notes between
        row.pop("supersedes", None)
        row.pop("session", None)
    world.write(*(row for row in list(world.rows.values())))
    questions = [some_question(rng, list(world.rows)) for _ in range(12)]
    bulk = fa.Memory()
    bulk.write_batch(list(world.rows.values()))
    for link in world.mem.note_links.to_arrow().to_pylist():
        bulk.link(link["a"], link["b"], link["weight"], layer="note")
    assert len(world.mem.cue_links) == 0  # their notes were replaced
    for link in world.mem.links.to_arrow().to_pylist():
        if link["taught"]:
            bulk.link(link["a"], link["b"], link["taught"], layer="concept")
    ids = list(world.rows)
    for _ in range(6):
        question, outcome = some_question(rng, ids), rng.choice([1.0, 0.3, -1.0])
        used = rng.sample(ids, min(2, len(ids)))
        for mem in (world.mem, bulk):
            mem.feedback(mem.read(rank="bridge", **question), used=used, outcome=outcome)
    assert told(world.mem, questions) == told(bulk, questions)
    for question in questions[:3]:
        world.check(question)
    world.mem.close()
    with fa.open(tmp_path / "a.fa") as again:
        assert told(again, questions) == told(bulk, questions)


def test_batches_and_single_reads_are_equal() -> None:
    rng = random.Random(5)
    world = some_world(rng, World(), 12)
    questions = [some_question(rng, list(world.rows)) for _ in range(20)]
    batch = world.mem.read_batch(questions, rank="bridge")
    assert [plain(recall) for recall in batch] == told(world.mem, questions)
    assert told(world.mem, questions) == told(world.mem, questions)


def test_two_processes_are_equal(path: Path, worker: Worker) -> None:
    rng = random.Random(6)
    with fa.open(path) as mem:
        world = some_world(rng, World(mem), 12)
        for _ in range(8):
            question = {"rank": "bridge", **some_question(rng, list(world.rows))}
            assert worker.ask(path, None, "read", **question) == ask(mem, "read", **question)
        worker.ask(path, None, "close")


# -- hubs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["concepts", "subjects", "text"])
def test_l9_a_concept_on_every_note_changes_nothing(kind: str) -> None:
    """A hub leads nowhere: a specific neighbour comes before notes that share the hub alone."""
    made: list[fa.Memory] = []
    for hub in (False, True):
        rows: list[dict[str, Any]] = [
            {"id": "asked", "text": "zorb flim", "concepts": ["Arlo", "Vex"]},
            {"id": "other", "text": "krel tavo", "concepts": ["Vex", "Borim"]},
        ]
        rows += [{"id": f"n{n}", "text": f"pell w{n}", "concepts": [f"c{n}"]} for n in range(60)]
        for row in rows if hub else []:
            if kind == "text":
                row["text"] += " everywhere"
            else:
                row[kind] = [*row.get(kind, []), "Everywhere"]
        made.append(fa.Memory())
        made[-1].write_batch(rows)
    without, with_hub = (mem.read("zorb about Arlo", rank="bridge") for mem in made)
    assert [hit.id for hit in without] == ["asked", "other"]
    assert [(hit.id, hit.source) for hit in with_hub] == [(hit.id, hit.source) for hit in without]
    for one, two in zip(without, with_hub, strict=True):
        assert one.rank_score == pytest.approx(two.rank_score)
        assert one.path == two.path
    asked = made[1].read("everywhere zorb", concepts=["Everywhere"], rank="bridge")
    assert (asked[0].id, asked[1].id if kind != "subjects" else "other") == ("asked", "other")
