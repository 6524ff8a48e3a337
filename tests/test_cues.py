"""The cue layer: what outcomes and hands teach between the terms of questions and notes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from worker import Clock, Worker

import fastassoc as fa
from fastassoc.cues import Stems
from fastassoc.errors import InvalidInput, NoteNotFound
from fastassoc.links import LinkMatrix, keys_of
from fastassoc.settings import LinkRule, on_grid

ASKED = "Why do the flaky deploys fail?"
STEMS = ["flaki", "deploy", "fail"]


def cues(mem: Any) -> dict[tuple[str, str, str], float]:
    rows = mem.cue_links.to_arrow().to_pylist()
    return {(row["kind"], row["a"], row["b"]): row["weight"] for row in rows}


def fill(mem: fa.Memory) -> fa.Memory:
    mem.write("Backoff fixed it.", id="n1", concepts=["backoff"])
    mem.write("Jitter spreads the load.", id="n2", concepts=["jitter"])
    mem.write("Deploys wait.", id="n3", concepts=["Deploy"])
    return mem


def test_a_concept_that_was_only_asked_is_held_by_its_cue(mem: fa.Memory) -> None:
    mem.write("Nothing is said of it.", id="n", concepts=[])
    mem.feedback(asked=["a"], used=["n"], outcome=1.0)
    assert (mem.stats()["concepts"], mem.read(concepts=["a"]).query_concepts) == (1, ["a"])
    mem.forget(["n"])
    assert (mem.stats()["concepts"], mem.read(concepts=["a"]).query_concepts) == (0, [])


@pytest.fixture
def small(mem: fa.Memory) -> fa.Memory:
    return fill(mem)


# -- feedback --------------------------------------------------------------------------------------


def test_an_outcome_is_shared_by_the_notes_that_were_used(small: fa.Memory, clock: Clock) -> None:
    recall = small.read(ASKED)
    assert (recall.query_concepts, recall.query_stems) == (["Deploy"], STEMS)
    report = small.feedback(recall, used=["n1", "n2", "gone", "n1"], outcome=1.0)
    terms = [("concept", "Deploy"), *(("stem", stem) for stem in STEMS)]
    assert cues(small) == {(*term, note): 0.5 for term in terms for note in ("n1", "n2")}
    assert (report.cues_changed, report.links_created, report.updated) == (8, 2, 2)
    row = small.cue_links.get("flaky", "n1")
    assert row is not None
    assert (row["written"], row["taught"], row["count"], row["valence"]) == (0.0, 0.5, 0, 0.3)
    assert row["created_at"] == row["updated_at"] == clock()
    clock.advance(days=1)
    report = small.feedback(recall, used=["n1"], outcome=0.3)
    assert (report.cues_changed, cues(small)["stem", "flaki", "n1"]) == (4, 0.5 + on_grid(0.3))
    assert small.cue_links.get("flaky", "n1")["valence"] == pytest.approx(0.3)  # type: ignore[index]


def test_blame_makes_links_where_there_is_no_floor(small: fa.Memory) -> None:
    report = small.feedback(small.read("a rare question"), used=["n1"], outcome=-1.0)
    assert (report.cues_changed, report.links_created) == (2, 0)
    assert cues(small) == {("stem", "rare", "n1"): -1.0, ("stem", "question", "n1"): -1.0}
    small.feedback(small.read("a rare thing"), used=["n1"], outcome=1.0)
    assert cues(small) == {("stem", "question", "n1"): -1.0, ("stem", "thing", "n1"): 1.0}
    small.feedback(asked=["unheard"], used=["n2"], outcome=-1.0)
    assert small.read(concepts=["unheard"]).unknown == []
    floored = fill(fa.Memory(settings=fa.Settings(cue_links=LinkRule(write_step=0.0))))
    assert floored.feedback(floored.read(ASKED), used=["n1"], outcome=-1.0).cues_changed == 0
    assert (len(floored.cue_links), len(floored._state.cues.stems)) == (0, 0)
    assert floored.feedback(floored.read(ASKED), used=["n1"], outcome=1.0).cues_changed == 4


def test_what_teaches_no_cue(small: fa.Memory) -> None:
    recall = small.read(ASKED)
    assert small.feedback(recall, used_concepts=["backoff"], outcome=1.0).cues_changed == 0
    assert small.feedback(recall, used=["n1"], outcome=0.0).cues_changed == 0
    assert (len(small.cue_links), len(small._state.cues.stems)) == (0, 0)
    assert small.read(concepts=["backoff"]).query_stems == []
    assert small.read(like="n3").query_stems == []
    small.feedback(small.read(concepts=["backoff"]), used=["n1"], outcome=1.0)
    assert cues(small) == {("concept", "backoff", "n1"): 1.0}
    small.feedback(asked=["jitter", "Jitter"], used=["n1"], outcome=1.0)
    assert cues(small)["concept", "jitter", "n1"] == 1.0


def test_a_repeat_changes_nothing(small: fa.Memory) -> None:
    recall = small.read(ASKED)
    small.feedback(recall, used=["n1"], outcome=1.0, operation_id="once")
    again = small.feedback(recall, used=["n1"], outcome=1.0, operation_id="once")
    assert again.repeated
    assert set(cues(small).values()) == {1.0}


def test_links_to_notes_that_are_no_more_vanish(small: fa.Memory) -> None:
    small.feedback(small.read(ASKED), used=["n1", "n2"], outcome=1.0)
    assert small.forget(["n1"]).cues_changed == 4
    assert {note for _, _, note in cues(small)} == {"n2"}
    report = small.write_batch([{"id": "n2", "text": "anew"}], on_duplicate="replace")
    assert (report.cues_changed, cues(small)) == (4, {})
    small.write("Backoff again.", id="n1")
    assert cues(small) == {}


def test_a_layer_that_fades(clock: Clock) -> None:
    rule = LinkRule(write_step=0.0, floor=None, decay_days=10.0)
    mem = fill(fa.Memory(settings=fa.Settings(cue_links=rule), clock=clock))
    mem.feedback(mem.read(ASKED), used=["n1"], outcome=1.0)
    clock.advance(days=10)
    faded = np.exp(-1.0)
    assert mem.cue_links.weight("flaky", "n1") == pytest.approx(faded)
    assert mem.cue_links.to_scipy().sum() == pytest.approx(4 * faded)
    mem.feedback(mem.read("flaky"), used=["n1"], outcome=1.0)
    assert mem.cue_links.weight("flaky", "n1") == pytest.approx(1 + faded)


# -- by hand ---------------------------------------------------------------------------------------


def test_links_by_hand(small: fa.Memory) -> None:
    assert small.link("BACKOFF", "n2", 2.0, layer="cue").cues_changed == 1
    assert small.link("deploying", "n2", 0.5, layer="cue").cues_changed == 1  # no concept: a stem
    assert small.link("retries", "n2", -0.5, layer="cue").cues_changed == 1
    assert cues(small) == {
        ("concept", "backoff", "n2"): 2.0,
        ("stem", "deploy", "n2"): 0.5,
        ("stem", "retri", "n2"): -0.5,
    }
    table = small.cue_links
    assert (table.weight("backoff", "n2"), table.weight("retrying", "n2")) == (2.0, -0.5)
    assert (table.weight("retri", "n2"), table.weight("retry", "n1")) == (-0.5, 0.0)
    assert (table.weight("deploy", "n2"), table.weight("deploy", "n2", "concept")) == (0.5, 0.0)
    assert (table.get("nothing", "n2"), table.get("backoff", "n9"), len(table)) == (None, None, 3)
    assert [row["a"] for row in table.top(2)] == ["backoff", "deploy"]
    assert table.terms() == [("concept", "backoff"), ("stem", "deploy"), ("stem", "retri")]
    notes = small.note_links.names()
    assert table.to_scipy().toarray()[:, notes.index("n2")].tolist() == [2.0, 0.5, -0.5]
    assert small.unlink("retry", "n2", layer="cue").cues_changed == 1
    assert small.unlink("retry", "n2", layer="cue").cues_changed == 0
    assert small.unlink("never", "n2", layer="cue").cues_changed == 0
    assert len(table) == 2 == small.stats()["cue_links"]
    with pytest.raises(ValueError, match="kind"):
        table.weight("backoff", "n2", "note")


def test_a_name_that_is_a_concept_and_a_stem_is_seen_and_unlinked_whole(mem: fa.Memory) -> None:
    for note in ("a", "b"):
        mem.write(f"Jitter in {note}.", id=note, concepts=["timeout"])
    mem.feedback(mem.read("timeout"), used=["a"], outcome=1.0)
    both = {("concept", "timeout", "a"): 1.0, ("stem", "timeout", "a"): 1.0}
    assert cues(mem) == both
    assert mem.cue_links.named("timeout") == ["timeout"]
    assert mem.unlink("timeout", "a", layer="cue").cues_changed == 2
    assert (cues(mem), mem.cue_links.weight("timeout", "a")) == ({}, 0.0)
    mem.feedback(mem.read("timeouts"), used=["a"], outcome=0.5)  # a stem first
    mem.link("timeout", "b", 2.0, layer="cue")
    table = mem.cue_links
    assert table.weight("timeout", "a", "stem") == 0.5
    assert (table.weight("timeout", "b"), table.weight("timeout", "b", "stem")) == (2.0, 0.0)
    mem.link("timeout", "a", -cues(mem).get(("concept", "timeout", "a"), 0.0), layer="cue")
    assert cues(mem) == {("concept", "timeout", "b"): 2.0, ("stem", "timeout", "a"): 0.5}
    assert table.weight("timeout", "a") == 0.5  # there is a concept of this name, without the link
    assert table.get("timeout", "a")["kind"] == "stem"  # type: ignore[index]
    assert table.get("timeout", "b")["kind"] == "concept"  # type: ignore[index]
    assert mem.unlink("timeout", "a", layer="cue").cues_changed == 1
    assert cues(mem) == {("concept", "timeout", "b"): 2.0}


def test_a_stem_is_unlinked_by_itself_and_after_reopening(path: Path) -> None:
    with fill(fa.open(path)) as mem:
        mem.feedback(mem.read("ands flaky"), used=["n1"], outcome=1.0)
        mem.write("Retries.", id="n4", concepts=["flaky"])
        mem.link("flaky", "n1", 1.0, layer="cue")
        assert mem.unlink("and", "n1", layer="cue").cues_changed == 1  # a stop word, and a stem
        assert mem.unlink("flaky", "n1", layer="cue").cues_changed == 2
        assert cues(mem) == {}
    with fa.open(path) as mem:
        assert cues(mem) == {}


@pytest.mark.parametrize("term", ["the", "two words", "...", " "])
def test_what_is_no_term_is_refused(small: fa.Memory, term: str) -> None:
    position = small.position
    with pytest.raises(InvalidInput):
        small.link(term, "n1", 1.0, layer="cue")
    with pytest.raises(NoteNotFound, match="n9"):
        small.link("backoff", "n9", 1.0, layer="cue")
    with pytest.raises(NoteNotFound):
        small.unlink("n1", "backoff", layer="cue")
    assert small.position == position


# -- names that only the layer holds ---------------------------------------------------------------


def test_a_concept_lives_while_a_cue_link_holds_it(path: Path) -> None:
    with fill(fa.open(path)) as mem:
        mem.feedback(asked=["Ghost"], used=["n2"], outcome=-0.5)
        mem.forget(["n1"])
        mem.link("spectre", "n2", 1.0, layer="cue")
        mem.unlink("spectre", "n2", layer="cue")
        assert mem.read("a ghost?").query_concepts == ["Ghost"]
        report = mem.vacuum()
        assert report.kept == ["Ghost"]
        assert mem.stats()["concepts"] == 3
        assert mem.read(concepts=["backoff"]).unknown == ["backoff"]
        assert mem._state.cues.stems.to_arrow().num_rows == 0
    files = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    assert b"spectr" not in files
    with fa.open(path) as mem:
        assert cues(mem) == {("concept", "Ghost", "n2"): -0.5}
        mem.forget(["n2"])
        assert mem.read("a ghost?").query_concepts == []
        assert mem.vacuum().kept == []
        mem.link("another", "n3", 1.0, layer="cue")  # the id of a dropped stem is not used again
        assert mem._state.cues.stems.find("anoth") == 1
    with fa.open(path) as mem:
        assert cues(mem) == {("stem", "anoth", "n3"): 1.0}


def test_a_concept_on_one_note_is_found_in_questions_while_a_cue_link_holds_it(
    mem: fa.Memory,
) -> None:
    mem.write("Kim walked home.", id="a")
    mem.write("weather in spring is mild", id="c")
    assert mem.read("where is Kim?").query_concepts == []
    mem.link("Kim", "c", 5.0, layer="cue")
    recall = mem.read("where is Kim?")
    assert recall.query_concepts == ["Kim"]
    assert {hit.id for hit in recall} == {"a", "c"}
    mem.unlink("Kim", "c", layer="cue")
    assert mem.read("where is Kim?").query_concepts == []


# -- saved -----------------------------------------------------------------------------------------


def test_the_layer_survives_and_the_control_has_none_of_it(path: Path, worker: Worker) -> None:
    with fill(fa.open(path)) as mem:
        recall = mem.read(ASKED)
        mem.feedback(recall, used=["n1", "n2"], outcome=1.0)
        mem.feedback(recall, used=["n3"], outcome=-1.0)
        taught, digest = cues(mem), mem.verify(digest=True).digest
        assert cues(mem.rebuild_links()) == {}
        assert mem.rebuild_links().read(ASKED, rank="bridge")
    with fa.open(path) as mem:  # from the journal
        assert (cues(mem), mem.verify(digest=True).digest) == (taught, digest)
        mem.snapshot()
        assert worker.ask(path, None, "stats")["cue_links"] == len(taught)
        worker.ask(path, None, "link", "deploy", "n1", 1.0, layer="cue")
        assert cues(mem)["concept", "Deploy", "n1"] == 1.5
        mem.unlink("deploy", "n1", layer="cue")
        mem.link("deploy", "n1", 0.5, layer="cue")
        mem.link("deploying", "n1", 0.5, layer="cue")  # the stem's went, too
        worker.ask(path, None, "close")
        kinds = {file.name.rpartition("-")[0] for file in (path / "segments").iterdir()}
        assert {"links-cue", "stems"} <= kinds
        assert mem.info()["links_bytes_on_disk"] > 0
        copy = mem.backup(path.parent / "copy.fa")
    for one in (path, copy):  # from the snapshot
        with fa.open(one) as mem:
            assert cues(mem) == taught
            assert mem.verify(digest=True).ok


def test_a_store_without_cues_names_no_segment_of_them(path: Path) -> None:
    with fill(fa.open(path)) as mem:
        mem.snapshot()
    assert not list((path / "segments").glob("links-cue-*"))
    assert not list((path / "segments").glob("stems-*"))


@pytest.mark.parametrize("seed", range(3))
def test_the_state_is_the_same_however_it_was_reached(seed: int, tmp_path: Path) -> None:
    """Live, replayed from the journal, from snapshots in between."""
    rng = random.Random(seed)
    clock = Clock()
    mems = [fa.Memory(clock=clock), fa.open(tmp_path / "a.fa", clock=clock, sync="off")]
    words = ["flaky", "deploy", "retry", "storm", "gateway", "the", "late"]
    for step in range(40):
        clock.advance(hours=1)
        ids = [note.id for note in mems[0].recent(limit=100)]
        turn = rng.random()
        text = " ".join(rng.sample(words, 3))
        some = rng.sample(ids, min(len(ids), rng.randint(1, 2)))
        outcome = rng.choice([1.0, -1.0, 0.3, -0.7])
        name = rng.choice(words[:5])
        for mem in mems:
            if turn < 0.35 or len(ids) < 3:
                mem.write(text, id=f"n{step}", concepts=[name])
            elif turn < 0.7:
                mem.feedback(mem.read(text), used=some, outcome=outcome)
            elif turn < 0.8:
                mem.link(name, some[0], outcome, layer="cue")
            elif turn < 0.85:
                mem.unlink(name, some[0], layer="cue")
            elif turn < 0.95:
                mem.forget(some)
        if step % 10 == 9:
            mems[1].snapshot()
            mems[1].close()
            mems[1] = fa.open(tmp_path / "a.fa", clock=clock, sync="off")
        assert cues(mems[0]) == cues(mems[1])
    tables = [mem._state.cues.to_arrow(mem._state.notes.seq.array) for mem in mems]
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows > 5
    mems[1].close()


def test_an_export_has_the_layer(small: fa.Memory, clock: Clock) -> None:
    small.feedback(small.read(ASKED), used=["n1", "n2"], outcome=1.0)
    small.link("backoff", "n3", -1.0, layer="cue")
    lines = list(small.export_lines())
    rows = [line for line in lines if line.get("layer") == "cue"]
    assert [(row["term"], row["a"], row["b"]) for row in rows] == [
        ("concept", "backoff", "n3"),
        ("concept", "deploy", "n1"),
        ("concept", "deploy", "n2"),
        *(("stem", stem, note) for stem in STEMS for note in ("n1", "n2")),
    ]
    copy = fa.Memory(clock=clock)
    assert copy.import_lines(lines).cues_changed == len(rows)
    assert copy.cue_links.to_arrow().equals(small.cue_links.to_arrow())
    assert copy.import_lines(lines).repeated


# -- the structures --------------------------------------------------------------------------------


def test_stems_are_checked() -> None:
    stems = Stems()
    stems.intern(["a", "b", "c"])
    stems.drop([1, 1])
    assert (stems.find("b"), stems.name(1), len(stems), stems.n_ids) == (None, "", 2, 3)
    assert Stems.from_arrow(stems.to_arrow(), 3).to_arrow().equals(stems.to_arrow())
    assert Stems.from_arrow(None, 4).n_ids == 4
    for bad in ([("a", 3)], [("a", 1), ("b", 0)], [("a", 0), ("a", 1)], [(None, 0)]):
        table = pa.table({"stem": [s for s, _ in bad], "id": [n for _, n in bad]})
        with pytest.raises(InvalidInput, match="stems"):
            Stems.from_arrow(table, 3)


def changed(seed: int) -> Iterator[tuple[LinkMatrix, dict[tuple[int, int], list[float]]]]:
    """A matrix as it grows, and its links in a dict: weight and written."""
    rng = random.Random(seed)
    rule = LinkRule(floor=None)
    links, held = LinkMatrix(rule, 0.3), dict[tuple[int, int], list[float]]()
    for _ in range(60):
        pairs = [tuple(sorted(rng.sample(range(40), 2))) for _ in range(rng.choice([1, 3, 200]))]
        kind, amount = rng.choice(["write", "teach", "erase"]), rng.choice([1.0, -1.0, 0.5])
        keys = keys_of(*np.array(pairs).T)
        if kind == "erase":
            links.erase(keys)
        elif kind == "write":
            links.write(keys, at=0)
        else:
            links.teach(keys, np.full(len(keys), amount), np.full(len(keys), np.nan), at=0)
        for pair in pairs:
            one = held.setdefault(pair, [0.0, 0.0, 0])
            if kind == "write":
                one[0], one[1], one[2] = one[0] + 1, one[1] + 1, one[2] + 1
            elif kind == "teach":
                one[0] += amount
            if kind == "erase" or (one[2] == 0 and one[0] == 0.0):
                del held[pair]
        if rng.random() < 0.5:
            yield links, held


@pytest.mark.parametrize("seed", range(6))
def test_looks_by_the_first_end_and_at_what_was_taught(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastassoc.links.UNSIDED", 2)
    rng = random.Random(seed)
    for links, held in changed(seed):
        ids = rng.sample(range(41), 7)
        pairs = links.pairs()
        found = pairs.fans(np.array(ids, np.uint64))
        wanted = sorted((a, b) for a, b in held if a in ids)
        assert [(key >> 32, key & 0xFFFFFFFF) for key in found.keys.tolist()] == wanted
        assert found.reals[:, :2].tolist() == [held[pair][:2] for pair in wanted]
        ends = pairs.keys_to(np.array(ids, np.uint32)).tolist()
        assert {a << 32 | b for a, b in held if b in ids} <= set(ends)
        both = {**held, **{(b, a): one for (a, b), one in held.items()}}
        taught = {
            pair: one[0] - one[1]
            for pair, one in both.items()
            if pair[0] in ids and one[0] >= 2.0 and one[0] > one[1]
        }
        sources, targets, parts = links.view().taught(ids, threshold=2.0)
        told = list(zip(sources.tolist(), targets.tolist(), strict=True))
        assert told == sorted(taught)
        assert parts.tolist() == [taught[pair] for pair in told]
        for a, b in pairwise(sorted(ids)):
            one = links.view().get(a, b)
            assert (one is None) == ((a, b) not in held)
