"""Random operations through four ways in at once, compared with the trusted model after each.

A store is written and read by a handle that is closed and opened again, by a second long-lived
handle and by a long-lived second process. ``FASTASSOC_STEPS`` says how many steps in all,
``FASTASSOC_SEED`` which.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from naive import NaiveMemory, fold
from naive_cognitive import CognitiveMemory
from worker import Clock, Worker, ask

STEPS = int(os.environ.get("FASTASSOC_STEPS", "400"))
LENGTH = 50
SEED = os.environ.get("FASTASSOC_SEED", "1")  # another one draws another walk
PARTS = max(1, STEPS // 2500)  # of the walk, so that all cores share it
DAY = 86_400_000_000
WHO = ("main", "second", "process")

NAMES = ["a", "B", "b ", "c|d", "c e", "Ünï", "ünï", "狗", "🙂", "it's", 'q"', "x1", "X1", "y", "z"]
WORDS = ["kettle", "steaming", "harbour"]  # which no note carries
NOTE_IDS = [f"n{number}" for number in range(14)]
TEXTS = ["same", "same", "other", "Zebra", "émigré", "短い", "a longer text, with a comma"]

who = st.sampled_from(WHO)
names = st.sampled_from(NAMES)
words = st.sampled_from(WORDS)
note_ids = st.sampled_from(NOTE_IDS)
some_names = st.lists(names, max_size=6)
outcomes = st.sampled_from([1.0, 1.0, 0.5, 0.3, -0.25, -1.0, -1.0, 0.0])
weights = st.sampled_from([1.0, 2.0, 0.1, 3.75, -1.0, -2.5, 1e6])
metadata = st.fixed_dictionaries(
    {}, optional={"n": st.integers(0, 3), "tags": st.lists(st.sampled_from("pqr"), max_size=2)}
)
rows = st.fixed_dictionaries(
    {"id": note_ids, "text": st.sampled_from(TEXTS), "concepts": some_names},
    optional={
        "session": st.sampled_from(["s", "t"]),
        "domain": st.sampled_from(["general", "other", "Other"]),
        "created_at": st.integers(0, 5).map(lambda day: 1_700_000_000_000_000 + day * DAY),
        "metadata": metadata,
    },
)
bad_rows = st.sampled_from(
    [
        {"id": "bad", "text": 5, "concepts": []},
        {"id": "bad", "text": "t", "concepts": "bare"},
        {"id": "bad", "text": "t", "concepts": ["a", ""]},
        {"id": "bad", "text": "t", "concepts": ["x" * 300]},
    ]
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "domain": st.sampled_from(["general", "other", "none"]),
        "since": st.integers(0, 3).map(lambda day: 1_700_000_000_000_000 + day * DAY),
        "until": st.integers(3, 5).map(lambda day: 1_700_000_000_000_000 + day * DAY),
        "where": st.sampled_from(
            [{"n": 1}, {"n": {"in": [0, 2]}}, {"tags": {"contains": "p"}}, {"domain": "other"}]
        ),
    },
)


class Machine(RuleBasedStateMachine):
    process: ClassVar[Worker]
    taken: ClassVar[int] = 0

    @initialize()
    def start(self) -> None:
        import fastassoc as fa

        self.folder = Path(tempfile.mkdtemp(prefix="fastassoc-state-"))
        self.path = self.folder / "state.fa"
        self.clock = Clock()
        self.naive = CognitiveMemory(lambda: self.clock.stamp, "counts")
        self.named = 0
        self.main = fa.open(self.path, clock=self.clock, sync="normal")
        self.second = fa.open(self.path, clock=self.clock, sync="normal")
        self.turn = 0

    def teardown(self) -> None:
        if hasattr(self, "main"):
            self.everything()
            self.elsewhere()
            self.main.close()
            self.second.close()
            self.process.ask(self.path, self.clock.stamp, "close")
            shutil.rmtree(self.folder)

    # -- helpers ---------------------------------------------------------------------------------

    def do(self, by: str, verb: str, *args: Any, **kwargs: Any) -> Any:
        if by == "process":
            return self.process.ask(self.path, self.clock.stamp, verb, *args, **kwargs)
        return ask(self.main if by == "main" else self.second, verb, *args, **kwargs)

    def change(self, by: str, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Do what changes something; every third one has an id, and is asked for again."""
        self.named += 1
        if self.named % 3:
            return self.do(by, verb, *args, **kwargs)
        kwargs["operation_id"] = f"op-{self.named}"
        report = self.do(by, verb, *args, **kwargs)
        again = self.do(WHO[self.named % len(WHO)], verb, *args, **kwargs)
        assert (again["repeated"], again["position"]) == (True, report["position"])
        return report

    def look(self) -> None:
        """After a step: one answer from one of the ways in; the whole state now and then."""
        self.turn += 1
        by = WHO[self.turn % 3]
        held = [key for key in self.naive.shown if self.naive.exists(key)]
        self.same_read(by, concepts=held[self.turn % 5 :: 5] or ["a"], hops=1 + self.turn % 3)
        if self.turn % 4 == 0:
            self.same_links(by)
            self.same_notes(by)
            self.same_cues(by)
            self.same_note_links(by)
        if self.turn % 24 == 0:
            self.elsewhere()

    def everything(self) -> None:
        for by in WHO:
            self.same_links(by)
            self.same_notes(by)
            for name in NAMES:
                self.same_read(by, concepts=[name])
            self.same_cues(by)
            self.same_note_links(by)
            control = self.do(by, "control")
            rebuilt = self.naive.rebuild_links().links
            assert {key: row[:4] for key, row in folded(control).items()} == {
                ab: [link.weight, link.written, link.taught, link.count]
                for ab, link in rebuilt.items()
            }

    def same_links(self, by: str) -> None:
        found = folded(self.do(by, "links"))
        assert found.keys() == self.naive.links.keys(), by
        for ab, link in self.naive.links.items():
            want = [link.weight, link.written, link.taught, link.count]
            assert found[ab][:4] == want, (by, ab)
            assert found[ab][4] == pytest.approx(link.valence, abs=1e-6), (by, ab)
            assert found[ab][5:] == [link.created_at, link.updated_at], (by, ab)

    def same_cues(self, by: str) -> None:
        found = {(kind, fold(a), b): weight for kind, a, b, weight in self.do(by, "cue_links")}
        assert found == self.naive.cues, by

    def same_note_links(self, by: str) -> None:
        found = self.do(by, "note_links")
        links = {"\0".join(ab): link for ab, link in self.naive.note_links.items()}
        assert {pair_by_id(key): row[:4] for key, row in found.items()} == {
            pair_by_id(key): [link.weight, link.written, link.taught, link.count]
            for key, link in links.items()
        }, by

    def elsewhere(self) -> None:
        """All three have one state, as have a copy and who loads it anew; an export says it all."""
        import fastassoc as fa

        values = {self.do(by, "digest") for by in WHO}
        found = self.main.verify(digest=True)
        assert found.ok, found.problems
        assert values == {found.digest}
        copy = self.main.backup(self.folder / f"copy-{self.turn}.fa")
        with fa.open(copy, create=False, clock=self.clock) as kept:
            assert ask(kept, "digest") == found.digest
        shutil.rmtree(copy)
        other = fa.Memory(clock=self.clock)
        other.import_lines(self.second.export_lines())
        for verb in ("links", "note_links", "cue_links"):
            assert ask(other, verb) == ask(self.main, verb), verb
        assert other.notes.to_arrow().equals(self.main.notes.to_arrow())

    def same_notes(self, by: str) -> None:
        want = self.naive.stats()
        found = self.do(by, "stats")
        assert {key: found[key] for key in ("notes", "links", "concepts")} == {
            key: want[key] for key in ("notes", "links", "concepts")
        }, by
        assert sorted(found["domains"]) == want["domains"], by
        assert self.do(by, "len") == want["notes"]
        assert self.do(by, "recent", limit=7)["ids"] == self.naive.recent(7)
        for note in list(self.naive.notes.values())[-3:]:
            got = self.do(by, "get", note.id)
            keys = [fold(name) for name in got.pop("concepts")]
            assert keys == note.concepts
            assert got.pop("valence") == pytest.approx(note.valence, abs=1e-6)
            assert got == {key: getattr(note, key) for key in got}

    def same_read(self, by: str, **asked: Any) -> None:
        found, want = self.do(by, "read", **asked), self.naive.read(**asked)
        said = (by, asked)
        got = [(h["id"], h["rank_score"], h["source"], via_of(h)) for h in found["hits"]]
        assert got == [(h.id, h.rank_score, h.source, h.via) for h in want.hits], said
        named = {fold(name) for name in found["query_concepts"]}
        assert {key for key in named if self.naive.exists(key)} == set(want.query_concepts), said
        through = {fold(name): strength for name, strength in found["expanded"].items()}
        assert through.items() <= want.expanded.items(), said
        assert {name for hit in want.hits for name in hit.via} <= through.keys(), said
        assert bool(found["reason"]) == (not want.hits), said
        scores = [hit["score"] for hit in found["hits"]]
        assert scores == sorted(scores, reverse=True), said
        assert all(0 <= score <= 1 for score in scores), said
        for hit in found["hits"]:
            self.good_path(hit, want, asked.get("hops", 1))

    def good_path(self, hit: dict[str, Any], want: Any, hops: int) -> None:
        """Any best path will do, but it must be one: real links, from the question to the note."""
        steps, reached, at = list(hit["path"]), [], None
        for source, target, layer, weight, written, taught in steps:
            start = fold(source)
            if at is None:
                assert start in want.query_concepts
                at, strength, length = start, float("inf"), 0
            assert start == at
            if layer == "carries":
                assert target == hit["id"]
                assert start in self.naive.notes[target].concepts
                if length:
                    reached.append(start)
                    assert strength * self.naive.hop_factor ** (length - 1) == want.expanded[start]
                at = None
            else:
                at = fold(target)
                link = self.naive.links[min(start, at), max(start, at)]
                assert (weight, written, taught) == (link.weight, link.written, link.taught)
                strength, length = min(strength, weight), length + 1
                assert length <= hops
        assert at is None
        if hit["source"] == "association":
            assert sorted(reached) == via_of(hit)

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
            before = {*self.naive.links, *self.naive.note_links}
            report = self.do(by, "write", row["text"], **fields)
            self.naive.write_batch([row])
            made = {*self.naive.links, *self.naive.note_links} - before
            assert report["links_created"] == len(made)
        self.look()

    @rule(
        by=who,
        batch=st.lists(rows | rows | rows | bad_rows, max_size=8),
        on_duplicate=st.sampled_from(["error", "skip", "replace"]),
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
        asked=some_names,
        used=st.lists(note_ids, max_size=3),
        used_concepts=some_names,
        outcome=outcomes,
    )
    def feedback(
        self, by: str, asked: list[str], used: list[str], used_concepts: list[str], outcome: float
    ) -> None:
        given = {"asked": asked, "used": used, "used_concepts": used_concepts, "outcome": outcome}
        if not used and not used_concepts:
            with pytest.raises(ValueError):
                self.do(by, "feedback", **given)
            return
        before = set(self.naive.links)
        want = self.naive.feedback(**given)
        report = self.change(by, "feedback", **given)
        assert set(report["missing"]) == set(want["missing"])
        assert report["links_created"] == len(self.naive.links.keys() - before)
        self.look()

    @rule(by=who, a=names, b=names, weight=weights)
    def link(self, by: str, a: str, b: str, weight: float) -> None:
        if fold(a) == fold(b):
            with pytest.raises(ValueError):
                self.do(by, "link", a, b, weight)
            return
        self.change(by, "link", a, b, weight)
        self.naive.link(a, b, weight)
        self.look()

    @precondition(lambda self: self.naive.links)
    @rule(by=who, data=st.data())
    def unlink(self, by: str, data: st.DataObject) -> None:
        a, b = data.draw(st.sampled_from(sorted(self.naive.links)))
        self.change(by, "unlink", b, a)
        self.naive.unlink(a, b)
        self.look()

    @precondition(lambda self: self.naive.notes)
    @rule(by=who, data=st.data())
    def forget(self, by: str, data: st.DataObject) -> None:
        live = st.sampled_from(sorted(self.naive.notes))
        doomed = data.draw(st.lists(live, min_size=1, max_size=4, unique=True))
        report = self.change(by, "forget", doomed)
        assert report["forgotten"] == self.naive.forget(doomed)
        self.look()

    @rule(by=who, where=st.sampled_from([{"n": 2}, {"domain": "Other"}, {"n": {"in": [1, 3]}}]))
    def forget_where(self, by: str, where: dict[str, Any]) -> None:
        report = self.change(by, "forget", where=where)
        assert report["forgotten"] == self.naive.forget(where=where)
        self.look()

    @precondition(lambda self: self.naive.notes)
    @rule(by=who, fresh=metadata, data=st.data())
    def update(self, by: str, fresh: dict[str, Any], data: st.DataObject) -> None:
        note = data.draw(st.sampled_from(sorted(self.naive.notes)))
        self.change(by, "update", note, metadata=fresh)
        self.naive.update(note, metadata=fresh)
        self.look()

    @precondition(lambda self: self.naive.notes)
    @rule(by=who, word=st.one_of(names, words), weight=weights, data=st.data())
    def link_cue(self, by: str, word: str, weight: float, data: st.DataObject) -> None:
        note = data.draw(st.sampled_from(sorted(self.naive.notes)))
        if word not in WORDS and not self.naive.exists(fold(word)):
            return
        self.change(by, "link", word, note, weight, layer="cue")
        self.naive.link_cue(word, note, weight)
        self.look()

    @precondition(lambda self: self.naive.cues)
    @rule(by=who, data=st.data())
    def unlink_cue(self, by: str, data: st.DataObject) -> None:
        _, name, note = data.draw(st.sampled_from(sorted(self.naive.cues)))
        self.change(by, "unlink", name, note, layer="cue")
        self.naive.unlink_cue(name, note)
        self.look()

    @precondition(lambda self: len(self.naive.notes) > 1)
    @rule(by=who, weight=weights, cut=st.booleans(), data=st.data())
    def link_notes(self, by: str, weight: float, cut: bool, data: st.DataObject) -> None:
        live = st.sampled_from(sorted(self.naive.notes))
        a, b = data.draw(st.lists(live, min_size=2, max_size=2, unique=True))
        if cut:
            self.change(by, "unlink", a, b, layer="note")
            self.naive.unlink_notes(a, b)
        else:
            self.change(by, "link", a, b, weight, layer="note")
            self.naive.link_notes(a, b, weight)
        self.look()

    @rule(by=who, some=st.lists(rows, max_size=6), size=st.integers(1, 4))
    def ingest(self, by: str, some: list[dict[str, Any]], size: int) -> None:
        """Batch by batch, each an operation; what is there is left alone."""
        report = self.do(by, "ingest", some, batch_rows=size)
        want = self.naive.write_batch(some, on_duplicate="skip")
        assert report["skipped"] == want["skipped"]
        assert report["written"] == len(some) - want["skipped"]
        self.look()

    @precondition(lambda self: self.turn % 32 == 31)  # to start another takes its time
    @rule(row=rows, waits=st.sampled_from([0.0, 0.001, 0.005]))
    def killed(self, row: dict[str, Any], waits: float) -> None:
        """The process is killed at some moment of a write; the same again counts once."""
        if row["id"] in self.naive.notes:
            self.process.kill()  # at rest
            return
        given = {key: value for key, value in row.items() if key != "text"}
        given["operation_id"] = f"killed-{self.turn}-{self.named}"
        self.mark("process")  # it has the store open
        self.process.send(self.path, self.clock.stamp, "write", row["text"], **given)
        time.sleep(waits)
        self.process.kill()
        before = self.do("main", "len")
        report = self.do("main", "write", row["text"], **given)
        assert report["repeated"] == (before > len(self.naive.notes))
        self.naive.write_batch([row])
        self.look()

    @rule(
        by=who,
        asked=st.lists(names, max_size=3),
        k=st.integers(1, 6),
        hops=st.integers(1, 3),
        some=filters,
    )
    def read(self, by: str, asked: list[str], k: int, hops: int, some: dict[str, Any]) -> None:
        self.same_read(by, concepts=asked, k=k, hops=hops, **some)

    @rule(by=who, seed=names, least=st.sampled_from([None, 0.0, 1.5]), depth=st.integers(1, 2))
    def graph(self, by: str, seed: str, least: float | None, depth: int) -> None:
        given = {"depth": depth, "min_weight": least}
        found = self.do(by, "graph", [seed], limit=500, **given)
        nodes, edges, applied = self.naive.graph([seed], **given)
        assert {fold(name): degree for name, degree in found["nodes"].items()} == nodes
        assert {pair_of(edge) for edge in found["edges"]} == edges
        assert (found["truncated"], found["min_weight_applied"]) == (False, applied)

    @rule(by=who, cues=st.lists(names, min_size=1, max_size=3))
    def associate(self, by: str, cues: list[str]) -> None:
        found = [(fold(name), weight) for name, weight in self.do(by, "associate", cues, k=3)]
        want = self.naive.associate(cues, k=100)
        assert [weight for _, weight in found] == pytest.approx([weight for _, weight in want[:3]])
        assert dict(found) == pytest.approx({name: dict(want)[name] for name, _ in found})

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
        self.mark(by)  # so that the purge shares its time with an operation that both know
        self.do(by, "vacuum")
        self.naive.vacuum()
        self.look()

    @rule(by=who, span=st.sampled_from([1, 3_600_000_000, 30 * DAY, -1, -DAY, -400 * DAY]))
    def jump(self, by: str, span: int) -> None:
        self.mark(by)
        self.clock.stamp += span

    def mark(self, by: str) -> None:
        """Give the store and the model one last operation at the same time."""
        self.change(by, "link", "mark", "marked", 1.0)
        self.naive.link("mark", "marked", 1.0)


def pair_of(edge: str) -> tuple[str, str]:
    a, b = sorted(map(fold, edge.split("\0")))
    return a, b


def pair_by_id(key: str) -> tuple[str, ...]:
    return tuple(sorted(key.split("\0")))


def folded(links: dict[str, list[Any]]) -> dict[tuple[str, str], list[Any]]:
    return {pair_of(key): row for key, row in links.items()}


def via_of(hit: dict[str, Any]) -> list[str]:
    return sorted(map(fold, hit["via"]))


@pytest.fixture
def second_process(worker: Worker) -> Iterator[None]:
    Machine.process = worker
    yield
    del Machine.process


@pytest.mark.usefixtures("second_process")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_operations(part: int) -> None:
    Machine.taken = 0
    while Machine.taken < STEPS // PARTS:  # an example may be shorter than it could be
        run_state_machine_as_test(
            seed(f"{SEED} {part} {Machine.taken}")(Machine),
            settings=settings(
                max_examples=-(-(STEPS // PARTS - Machine.taken) // LENGTH),
                stateful_step_count=LENGTH,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )


@pytest.mark.parametrize("seed", range(max(2, STEPS // 2000)))
def test_larger_runs(path: Path, clock: Clock, seed: int) -> None:
    """Batches, lessons and forgetting in hundreds and thousands, through two handles."""
    import fastassoc as fa

    draw, naive = random.Random(seed), NaiveMemory(lambda: clock.stamp)
    ways = [fa.open(path, clock=clock, sync="normal") for _ in range(2)]

    def concepts(most: int) -> list[str]:
        return [f"c{int(250 * draw.random() ** 2)}" for _ in range(draw.randint(0, most))]

    def some_rows(count: int) -> list[dict[str, Any]]:
        size = len(naive.notes)
        texts = [f"text {draw.randrange(50)}" for _ in range(count)]
        numbers = [
            size + n if draw.random() < 0.9 else draw.randrange(size + 1) for n in range(count)
        ]
        return [
            {"id": f"n{number}", "text": text, "concepts": concepts(6)}
            for number, text in zip(numbers, texts, strict=True)
        ]

    def compare(mem: Any) -> None:
        found = folded(ask(mem, "links"))
        want = {
            ab: [
                link.weight,
                link.written,
                link.taught,
                link.count,
                link.created_at,
                link.updated_at,
            ]
            for ab, link in naive.links.items()
        }
        assert {ab: row[:4] + row[5:] for ab, row in found.items()} == want
        assert all(abs(row[4] - naive.links[ab].valence) < 1e-6 for ab, row in found.items())
        for hops in (1, 2, 3):
            asked, k = concepts(3), draw.choice([1, 5, 20])
            hits = mem.read(concepts=asked, k=k, hops=hops)
            got = [(hit.id, hit.rank_score, hit.source, hit.via) for hit in hits]
            expected = naive.read(asked, k=k, hops=hops).hits
            assert got == [(hit.id, hit.rank_score, hit.source, hit.via) for hit in expected]

    for _ in range(20):
        clock.advance(minutes=draw.randint(0, 3))
        mem = draw.choice(ways)
        kind = draw.choice(
            ["batch", "batch", "teach", "teach", "forget", "snapshot", "vacuum", "open"]
        )
        if kind == "batch":
            batch, how = some_rows(draw.choice([5, 100, 1200])), draw.choice(["skip", "replace"])
            ask(mem, "write_batch", batch, on_duplicate=how)
            naive.write_batch(batch, on_duplicate=how)
        elif kind == "teach":
            used = draw.sample(sorted(naive.notes), min(3, len(naive.notes)))
            given = {"asked": concepts(4), "used": used, "used_concepts": ["c0", *concepts(90)]}
            for outcome in draw.sample([1.0, -1.0, 0.3, -0.7], 2):
                ask(mem, "feedback", **given, outcome=outcome)
                naive.feedback(**given, outcome=outcome)
        elif kind == "forget":
            doomed = draw.sample(sorted(naive.notes), len(naive.notes) // draw.choice([3, 50]))
            ask(mem, "forget", doomed)
            naive.forget(doomed)
        elif kind == "open":
            ways.remove(mem)
            mem.close()
            ways.append(fa.open(path, clock=clock, sync="normal"))
        else:
            ask(mem, kind)
        compare(draw.choice(ways))
    for mem in ways:
        mem.close()
