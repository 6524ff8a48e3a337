"""Vectors, note links, retention and the cold tier: random operations against the trusted model.

As in test_state, a store is written and read by a handle that is closed and opened again, by a
second long-lived handle and by a second process. It takes a tenth of ``FASTASSOC_STEPS`` steps.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from naive import fold
from naive_cognitive import CognitiveMemory
from naive_retention import DAY
from naive_retention import retention as retained
from worker import Clock, Worker, ask

STEPS = int(os.environ.get("FASTASSOC_STEPS", "4000")) // 10
LENGTH = 50
WHO = ("main", "second", "process")
NOTE_IDS = [f"n{number}" for number in range(14)]
NAMES = ["alpha", "Beta", "gamma", "delta", "狗"]
# whole numbers, so that sums are exact, and no two cosines that differ by rounding alone
VECTORS = [
    *([1, 0, 0, 0], [2, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [3, 4, 0, 0], [1, 1, 1, 1]),
    *([-1, 0, 0, 0], [0, 0, 1, -1], [1, 2, 3, 0], [0, 3, 0, 1]),
]
JUMPS = [1, DAY // 24, DAY, 7 * DAY, 30 * DAY, 120 * DAY, 400 * DAY, -1, -30 * DAY, -400 * DAY]

who = st.sampled_from(WHO)
names = st.sampled_from(NAMES)
note_ids = st.sampled_from(NOTE_IDS)
vectors = st.sampled_from(VECTORS)
sessions = st.sampled_from(["s", "s", "t"])
rows = st.fixed_dictionaries(
    {
        "id": note_ids,
        "text": st.sampled_from(["same", "same", "other words", "alpha and gamma"]),
        "concepts": st.lists(names, max_size=3),
        "vector": st.sampled_from([*VECTORS, None]),
        "session": st.sampled_from(["s", "s", "t", None]),
    },
    optional={
        "importance": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "category": st.sampled_from(["episodic", "semantic", "procedural", "core", "other"]),
        "domain": st.sampled_from(["general", "other"]),
        "fingerprint": st.sampled_from(["f1", "f2"]),
        "metadata": st.fixed_dictionaries({"n": st.integers(0, 2)}),
    },
)
bad_rows = st.sampled_from(
    [
        {"id": "bad", "text": "t", "concepts": [], "vector": [1, 0, 0]},
        {"id": "bad", "text": "t", "concepts": [], "vector": [0, 0, 0, 0]},
        {"id": "bad", "text": "t", "concepts": [], "vector": [1, math.nan, 0, 0]},
    ]
)
questions = st.fixed_dictionaries(
    {"k": st.integers(1, 7), "hops": st.integers(1, 3)},
    optional={
        "vector": vectors,
        "concepts": st.lists(names, min_size=1, max_size=2),
        "fingerprint": st.sampled_from(["f1", "f2"]),
        "domain": st.sampled_from(["general", "other"]),
        "where": st.sampled_from([{"n": 1}, {"n": {"in": [0, 2]}}]),
    },
).filter(lambda asked: {"vector", "concepts", "fingerprint"} & asked.keys())


class Machine(RuleBasedStateMachine):
    process: ClassVar[Worker]
    taken: ClassVar[int] = 0
    preset: ClassVar[str] = "cognitive"

    @initialize(
        first=st.lists(rows, min_size=6, max_size=14, unique_by=lambda row: row["id"]),
        vector=vectors,
    )
    def start(self, first: list[dict[str, Any]], vector: list[int]) -> None:
        import fastassoc as fa

        self.folder = Path(tempfile.mkdtemp(prefix="fastassoc-cognitive-"))
        self.path = self.folder / "state.fa"
        self.clock = Clock()
        self.naive = CognitiveMemory(lambda: self.clock.stamp, self.preset)
        made = getattr(fa.Settings, self.preset)()
        self.main = fa.open(self.path, clock=self.clock, sync="normal", settings=made)
        self.second = fa.open(self.path, clock=self.clock, sync="normal")
        self.turn = 0
        first[0]["vector"] = vector  # so that the width is known
        self.batch("main", first, "skip", {})

    def teardown(self) -> None:
        if hasattr(self, "main"):
            for by in WHO:
                self.same_state(by)
            self.main.close()
            self.second.close()
            self.process.ask(self.path, self.clock.stamp, "close")
            shutil.rmtree(self.folder)

    # -- helpers ---------------------------------------------------------------------------------

    def do(self, by: str, verb: str, *args: Any, **kwargs: Any) -> Any:
        if by == "process":
            return self.process.ask(self.path, self.clock.stamp, verb, *args, **kwargs)
        return ask(self.main if by == "main" else self.second, verb, *args, **kwargs)

    def look(self) -> None:
        """After a step: one answer from one of the ways in; the whole state now and then."""
        self.turn += 1
        by = WHO[self.turn % 3]
        vector = VECTORS[self.turn % len(VECTORS)]
        self.same_read(by, vector=vector, k=1 + self.turn % 5, hops=1 + self.turn % 3)
        if self.turn % 2 == 0:
            self.same_state(by)

    def same_state(self, by: str) -> None:
        now, naive = self.naive.time(), self.naive
        for verb, links in (("links", naive.links), ("note_links", naive.note_links)):
            found = {ends(key): row for key, row in self.do(by, verb).items()}
            if verb == "links":
                found = {tuple(sorted(map(fold, ab))): row for ab, row in found.items()}
            assert found.keys() == links.keys(), (by, verb)
            for ab, link in links.items():
                want = [link.weight, link.written, link.taught, link.count]
                assert found[ab][:4] == want, (by, verb, ab)
                assert found[ab][4] == pytest.approx(link.valence, abs=1e-6), (by, verb, ab)
                assert found[ab][5:] == [link.created_at, link.updated_at], (by, verb, ab)
        states = self.do(by, "states")
        assert states.keys() == naive.states.keys(), by
        for note, state in naive.states.items():
            keys = ("stability", "importance", "last_access", "accesses", "category", "cold")
            want = [*(state[key] for key in keys), retained(state, now)]
            assert states[note] == want, (by, note)
        assert self.do(by, "len") == len(naive.notes)

    def same_read(self, by: str, **asked: Any) -> None:
        want = self.naive.read_by_retention(**asked)
        found = self.do(by, "read", rank="retention", **asked)["hits"]
        said = (by, asked)
        assert [(h["id"], kind(h)) for h in found] == [(h.id, h.source) for h in want.hits], said
        for hit, model in zip(found, want.hits, strict=True):
            if model.source != "exact":
                assert hit["rank_score"] == pytest.approx(model.rank_score, rel=1e-12), said
            assert 0 <= hit["score"] <= 1, said
            if model.source == "association":
                self.good_path(hit)
        scores = [hit["rank_score"] for hit in found]
        assert scores == sorted(scores, reverse=True), said

    def good_path(self, hit: dict[str, Any]) -> None:
        """It leads to the note, and its steps are links as they are now."""
        assert hit["path"][-1][1] == hit["id"]
        for source, target, layer, weight, *_ in hit["path"]:
            if layer == "note":
                faded = self.naive.effective(source, target, self.naive.time())
                assert weight == pytest.approx(faded, rel=1e-12)
                assert weight >= 0.3
            elif layer == "carries":
                assert fold(source) in self.naive.notes[target].concepts

    @invariant()
    def count(self) -> None:
        Machine.taken += 1

    # -- the verbs -------------------------------------------------------------------------------

    @rule(by=who, row=rows)
    def write(self, by: str, row: dict[str, Any]) -> None:
        fields = {key: value for key, value in row.items() if key != "text"}
        if row["id"] in self.naive.notes:
            with pytest.raises(ValueError, match=row["id"]):
                self.do(by, "write", row["text"], **fields)
        else:
            self.do(by, "write", row["text"], **fields)
            self.naive.write_batch([row])
        self.look()

    @rule(
        by=who,
        batch=st.lists(rows | rows | rows | rows | bad_rows, max_size=9),
        on_duplicate=st.sampled_from(["skip", "replace", "error"]),
        on_error=st.sampled_from([{}, {"on_error": "reject"}]),
    )
    def batch(
        self, by: str, batch: list[dict[str, Any]], on_duplicate: str, on_error: dict[str, str]
    ) -> None:
        how = {"on_duplicate": on_duplicate, **on_error}
        try:
            want = self.naive.write_batch(batch, **how)
        except ValueError:
            with pytest.raises(ValueError):
                self.do(by, "write_batch", batch, **how)
        else:
            report = self.do(by, "write_batch", batch, **how)
            assert [number for number, _ in report["reasons"]] == [n for n, _ in want["rejected"]]
            assert (report["skipped"], report["replaced"]) == (want["skipped"], want["replaced"])
        self.look()

    @rule(
        by=who,
        asked=st.lists(names, max_size=2),
        used=st.lists(note_ids, min_size=1, max_size=4),
        outcome=st.sampled_from([1.0, 1.0, 0.5, 0.0, -0.3, -1.0]),
    )
    def feedback(self, by: str, asked: list[str], used: list[str], outcome: float) -> None:
        report = self.do(by, "feedback", asked=asked, used=used, outcome=outcome)
        want = self.naive.feedback(asked, used, outcome=outcome)
        assert set(report["missing"]) == set(want["missing"])
        self.look()

    @rule(by=who, a=names, b=names, weight=st.sampled_from([1.0, 3.0, -2.0]))
    def link(self, by: str, a: str, b: str, weight: float) -> None:
        if a != b:
            self.do(by, "link", a, b, weight)
            self.naive.link(a, b, weight)
            self.look()

    @precondition(lambda self: len(self.naive.notes) > 2)
    @rule(by=who, data=st.data())
    def chain(self, by: str, data: st.DataObject) -> None:
        """Links one after the other, so that there is something to follow."""
        notes = data.draw(st.permutations(sorted(self.naive.notes)))[:4]
        for a, b in itertools.pairwise(notes):
            self.do(by, "link", a, b, 0.8)
            self.naive.link_notes(a, b, 0.8)
        self.look()

    @precondition(lambda self: len(self.naive.notes) > 1)
    @rule(
        by=who,
        data=st.data(),
        weight=st.sampled_from([0.9, 0.9, 0.5, 0.5, 0.3, 2.0, -0.2]),
        layer=st.sampled_from([{}, {"layer": "note"}]),
    )
    def link_notes(
        self, by: str, data: st.DataObject, weight: float, layer: dict[str, str]
    ) -> None:
        a, b = data.draw(st.permutations(sorted(self.naive.notes)))[:2]
        self.do(by, "link", a, b, weight, **layer)
        self.naive.link_notes(a, b, weight)
        self.look()

    @precondition(lambda self: self.naive.note_links)
    @rule(by=who, data=st.data())
    def unlink_notes(self, by: str, data: st.DataObject) -> None:
        a, b = data.draw(st.sampled_from(sorted(self.naive.note_links)))
        self.do(by, "unlink", b, a)
        self.naive.unlink_notes(a, b)
        self.look()

    @precondition(lambda self: self.naive.notes)
    @rule(by=who, data=st.data())
    def forget(self, by: str, data: st.DataObject) -> None:
        live = st.sampled_from(sorted(self.naive.notes))
        doomed = data.draw(st.lists(live, min_size=1, max_size=3, unique=True))
        assert self.do(by, "forget", doomed)["forgotten"] == self.naive.forget(doomed)
        self.look()

    @rule(by=who, later=st.sampled_from([None, None, 0, 50 * DAY, 300 * DAY, -30 * DAY]))
    def tick(self, by: str, later: int | None) -> None:
        now = None if later is None else self.clock.stamp + later
        given = () if now is None else (now,)
        moved = self.naive.tick(self.naive.time() if now is None else now)
        assert self.do(by, "tick", *given)["updated"] == moved
        assert self.do(WHO[self.turn % 3], "tick", *given)["updated"] == 0
        self.look()

    @rule(by=who, days=st.sampled_from([60, 130, 250]))
    def neglect(self, by: str, days: int) -> None:
        """Nobody comes for long; then notes are looked for by way of others."""
        self.jump(by, days * DAY)
        self.tick(by, None)

    @rule(by=who, asked=questions)
    def read(self, by: str, asked: dict[str, Any]) -> None:
        self.same_read(by, **asked)

    @rule(by=who, asked=questions, session=st.none() | sessions)
    def reinforced(self, by: str, asked: dict[str, Any], session: str | None) -> None:
        given = {**asked, "reinforce": True, "session": session}
        self.same_read(by, **given)
        self.look()

    @precondition(lambda self: any(note in self.naive.vectors for note in self.naive.notes))
    @rule(by=who, data=st.data(), days=st.integers(6, 15))
    def habit(self, by: str, data: st.DataObject, days: int) -> None:
        """One question asked again and again, in two sessions."""
        vector = data.draw(vectors)
        for number in range(10):
            self.jump(by, days * DAY)
            session = "st"[number % 2]
            self.same_read(by, vector=vector, k=2, reinforce=True, session=session)
        self.look()

    @rule(by=who)
    def text(self, by: str) -> None:
        """A read by text leaves an index in the handle, which must not show in other answers."""
        self.do(by, "read", "other words alpha")

    @rule(by=st.sampled_from(["main", "second"]), fast=st.booleans())
    def reopen(self, by: str, fast: bool) -> None:
        import fastassoc as fa

        getattr(self, by).close()
        if not fast:
            self.do("process", "links")
        setattr(self, by, fa.open(self.path, clock=self.clock, sync="normal"))
        self.look()

    @rule(by=who)
    def snapshot(self, by: str) -> None:
        self.do(by, "snapshot")
        self.look()

    @rule(by=who)
    def vacuum(self, by: str) -> None:
        self.mark(by)
        self.do(by, "vacuum")
        self.naive.vacuum()
        self.look()

    @rule(by=who, span=st.sampled_from(JUMPS))
    def jump(self, by: str, span: int) -> None:
        self.mark(by)
        self.clock.stamp += span

    def mark(self, by: str) -> None:
        """Give the store and the model one last operation at the same time."""
        self.do(by, "link", "mark", "marked", 1.0)
        self.naive.link("mark", "marked", 1.0)


def ends(key: str) -> tuple[str, str]:
    a, b = sorted(key.split("\0"))
    return a, b


def kind(hit: dict[str, Any]) -> str:
    return hit["source"] if hit["source"] in ("exact", "association") else "direct"


@pytest.fixture
def second_process(worker: Worker) -> Iterator[None]:
    Machine.process = worker
    yield
    del Machine.process


@pytest.mark.usefixtures("second_process")
@pytest.mark.parametrize(("preset", "share"), [("cognitive", 1), ("counts", 4)])
def test_random_operations(preset: str, share: int) -> None:
    Machine.taken, Machine.preset = 0, preset
    while Machine.taken < STEPS // share:  # an example may be shorter than it could be
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=-(-(STEPS // share - Machine.taken) // LENGTH),
                stateful_step_count=LENGTH,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )


def test_an_outcome_of_zero_moves_the_valence(clock: Clock) -> None:
    import fastassoc as fa

    naive = CognitiveMemory(lambda: clock.stamp, dim=2)
    with fa.Memory(settings=fa.Settings.cognitive(), clock=clock) as mem:
        for note in ("a", "b"):
            mem.write(note, id=note, concepts=[])
            naive.write(note, id=note, concepts=[])
        for outcome in (1.0, 0.0):
            clock.advance(days=10)
            mem.feedback(used=["a", "b"], asked=[], outcome=outcome)
            naive.feedback(used=["a", "b"], outcome=outcome)
            link = naive.note_links["a", "b"]
            want = [link.weight, link.written, link.taught, link.count, link.valence]
            assert ask(mem, "note_links")["a\0b"] == [*want, link.created_at, link.updated_at]


def test_an_answer_does_not_depend_on_reads_before_it(clock: Clock) -> None:
    import fastassoc as fa

    with fa.Memory(settings=fa.Settings.cognitive(), clock=clock) as mem:
        mem.write("alpha again", id="words", concepts=["beta"])
        mem.write("other", id="concept", concepts=["alpha"])
        before = [hit.id for hit in mem.read(concepts=["alpha"])]
        mem.read("a text makes the handle look at words")
        assert [hit.id for hit in mem.read(concepts=["alpha"])] == before == ["concept"]


# -- the model by itself ---------------------------------------------------------------------------


def model(clock: Clock, *notes: dict[str, Any], preset: str = "cognitive") -> CognitiveMemory:
    naive = CognitiveMemory(lambda: clock.stamp, preset, dim=2)
    naive.write_batch([{"text": note["id"], "concepts": [], **note} for note in notes])
    return naive


def test_model_links_fade_by_time_alone(clock: Clock) -> None:
    naive = model(clock, {"id": "a", "vector": [1, 0]}, {"id": "b"}, {"id": "c"})
    naive.link_notes("a", "b", 0.9)
    naive.link_notes("a", "c", 0.5)
    clock.advance(days=30)
    for _ in range(1000):
        assert naive.read_by_retention(vector=[1, 0], k=2).hits
        assert naive.effective("a", "b", clock.stamp) == pytest.approx(0.644878, abs=1e-6)
    clock.advance(days=330)
    naive.link_notes("a", "c", 0.1)
    assert naive.note_links["a", "c"].weight == pytest.approx(0.109158, abs=1e-6)


def test_model_sessions(clock: Clock) -> None:
    notes = [
        {"id": f"n{number}", "session": "st"[number % 2], "vector": [1, number]}
        for number in range(6)
    ]
    plain = model(clock, *notes, {"id": "alone"}, preset="counts")
    found = {ab: link.weight for ab, link in plain.note_links.items()}
    pairs = [("n0", "n2"), ("n2", "n4"), ("n1", "n3"), ("n3", "n5")]
    assert found == dict.fromkeys(pairs, 1.0)
    plain.forget(["n2"])
    plain.write("next", id="n6", session="s")
    assert set(plain.note_links) == {("n1", "n3"), ("n3", "n5"), ("n4", "n6")}
    tagged = model(clock, *notes).note_links
    assert set(tagged) == {("n0", "n2"), ("n2", "n4"), ("n1", "n3"), ("n1", "n5"), ("n3", "n5")}
    sim = 1 / math.sqrt(5)  # of n0 and n2
    assert tagged["n0", "n2"].weight == pytest.approx(0.2 + (sim - 0.4) / 2, abs=2**-20)
    sim = 16 / math.sqrt(10 * 26)  # of n3 and n5
    assert tagged["n3", "n5"].weight == pytest.approx(0.2 + (sim - 0.4) / 2, abs=2**-20)


def test_model_keeps_a_third_for_associations(clock: Clock) -> None:
    notes = [{"id": f"n{number:02}", "vector": [50, number]} for number in range(20)]
    naive = model(clock, *notes)
    for near in range(3):
        for far in range(12, 17):
            naive.link_notes(f"n{near:02}", f"n{far}", 0.95)
    hits = naive.read_by_retention(vector=[1, 0], k=10).hits
    assert [hit.source for hit in hits].count("association") == 4
    assert [hit.id for hit in hits if hit.source == "direct"] == [f"n{n:02}" for n in range(6)]
    few = naive.read_by_retention(vector=[1, 0], k=1).hits
    assert [hit.source for hit in few] == ["direct"]


def test_model_cold_notes_come_by_links_only(clock: Clock) -> None:
    naive = model(clock, {"id": "old", "vector": [1, 0]})
    clock.advance(days=100)
    naive.write("new", id="new", vector=[1, 1])
    assert (naive.tick(), naive.tick()) == (1, 0)
    assert [hit.id for hit in naive.read_by_retention(vector=[1, 0]).hits] == ["new"]
    naive.link_notes("old", "new", 0.5)
    hits = naive.read_by_retention(vector=[1, 0], reinforce=True).hits
    assert [(hit.id, hit.source) for hit in hits] == [("new", "direct"), ("old", "association")]
    assert not naive.states["old"]["cold"]
    assert [hit.id for hit in naive.read_by_retention(vector=[1, 0]).hits] == ["old", "new"]
