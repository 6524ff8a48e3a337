"""What outcomes change in the default read: which notes come, in which order, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker import Clock, Worker, ask

import fastassoc as fa
from fastassoc.answers import Step

ROWS: list[dict[str, Any]] = [
    {"id": "n0", "text": "The deploy hit a timeout.", "concepts": ["timeout", "deploy"]},
    {"id": "n1", "text": "A timeout wants a retry.", "concepts": ["timeout", "retry"]},
    {"id": "n2", "text": "Timeout and retry again.", "concepts": ["timeout", "retry"]},
    {"id": "n3", "text": "Give each retry some backoff.", "concepts": ["retry", "backoff"]},
    {"id": "n4", "text": "Jitter spreads backoff.", "concepts": ["backoff", "jitter"]},
    {"id": "n5", "text": "Cold caches slow a start.", "concepts": ["cache", "cold start"]},
    {"id": "n6", "text": "Tea is hot.", "concepts": ["tea"], "domain": "kitchen"},
]
ASKED = "what helps against a timeout?"


def fill(mem: fa.Memory) -> fa.Memory:
    mem.write_batch([dict(row) for row in ROWS])
    return mem


@pytest.fixture
def small(mem: fa.Memory) -> fa.Memory:
    return fill(mem)


def read(mem: Any, text: str = ASKED, **options: Any) -> fa.Recall:
    recall: fa.Recall = mem.read(text, rank="bridge", **options)
    return recall


def ids(recall: fa.Recall) -> list[str]:
    return [hit.id for hit in recall]


def test_a_note_that_helped_comes_although_nothing_else_leads_to_it(small: fa.Memory) -> None:
    before = read(small)
    assert "n5" not in ids(before)
    small.feedback(before, used=["n5"], outcome=1.0)
    after = read(small)
    hit = next(hit for hit in after if hit.id == "n5")
    assert hit.source == "association"
    assert hit.parts == {"taught": pytest.approx(1.0)}  # the whole question led to it
    assert hit.rank_score == sum(hit.parts.values())
    assert hit.via == []
    assert [step[1:3] for step in hit.path] == [("n5", "cue")] * 3
    assert {step.source for step in hit.path} <= {"timeout", *before.query_stems}
    assert all((step.weight, step.written, step.taught) == (1.0, 0.0, 1.0) for step in hit.path)
    # in part of another question it counts by the square of its share
    other = next(hit for hit in read(small, "does tea help?") if hit.id == "n5")
    assert 0.0 < other.parts["taught"] < 0.5
    assert "n5" not in ids(read(small, "tea and caching"))[:1]


def test_a_note_rated_wrong_leaves_first_place(small: fa.Memory) -> None:
    before = read(small)
    first = before[0].id
    assert before[0].parts.get("taught", 0.0) == 0.0
    small.feedback(before, used=[first], outcome=-1.0)
    after = read(small)
    assert after[0].id != first
    assert first in ids(after)  # an answer it is still
    for hit in after:
        assert hit.rank_score == pytest.approx(sum(hit.parts.values()), abs=1e-12)
        assert all(step.layer != "cue" for step in hit.path)  # blame leads nowhere
    exact = read(small, ROWS[0]["text"])
    small.feedback(exact, used=["n0"], outcome=-1.0)
    again = read(small, ROWS[0]["text"])
    assert (again[0].id, again[0].source, again[0].score) == ("n0", "exact", 1.0)
    assert [hit.rank_score for hit in again] == sorted(
        (hit.rank_score for hit in again), reverse=True
    )


def test_filters_hold_for_what_was_learned(small: fa.Memory) -> None:
    small.feedback(read(small), used=["n5", "n6"], outcome=1.0)
    assert {"n5", "n6"} <= set(ids(read(small)))
    assert "n6" not in ids(read(small, domain="general"))
    assert ids(read(small, domain="kitchen")) == ["n6"]
    small.write("Caches are warm now.", id="n7", supersedes=["n5"])
    assert "n5" not in ids(read(small))
    assert "n5" in ids(read(small, include_superseded=True))
    assert len(read(small, k=1)) == 1


def test_the_expansion_changes_and_the_path_names_the_taught_link(small: fa.Memory) -> None:
    """The three checks hold for a text that is read by the default rank, too."""
    before = read(small)
    for _ in range(2):
        small.feedback(before, used=["n4"], outcome=1.0)
    after = read(small)
    assert before.expanded_concepts != after.expanded_concepts
    assert {"backoff", "jitter"} <= set(after.expanded_concepts)
    shares = list(after.expanded_concepts.values())
    assert shares == sorted(shares, reverse=True)
    hit = next(hit for hit in after if hit.id == "n3")
    assert hit.parts["taught concepts"] > 0.0
    place = hit.path.index(Step("timeout", "backoff", "concept", 2.0, 0.0, 2.0))
    assert hit.path[place + 1] == Step("backoff", "n3", "carries", 0.0, 0.0, 0.0)
    via = next(hit for hit in after if hit.id == "n4")
    assert ("jitter" in via.via) == (via.source == "association")


def test_what_was_learned_outlives_the_process_and_the_control_does_not_know_it(
    path: Path, worker: Worker
) -> None:
    with fill(fa.open(path)) as mem:
        untaught = ask(mem, "read", ASKED, rank="bridge")
        for _ in range(2):
            mem.feedback(read(mem), used=["n4", "n5"], outcome=1.0)
        taught = ask(mem, "read", ASKED, rank="bridge")
        assert taught["expanded"] != untaught["expanded"]
        assert worker.ask(path, None, "read", ASKED, rank="bridge") == taught
        control = worker.ask(path, None, "control_read", ASKED, rank="bridge")
        assert {**control, "position": 0} == {**untaught, "position": 0}
        mem.snapshot()
        worker.ask(path, None, "close")
    with fa.open(path) as mem:
        assert ask(mem, "read", ASKED, rank="bridge") == taught


def test_a_concept_that_only_a_link_holds_leads_on(small: fa.Memory) -> None:
    small.link("Ghost", "n6", 1.0, layer="cue")  # no concept of the store: a word
    small.link("spectre", "backoff", 3.0)
    assert ids(read(small, "of ghosts")) == ["n6"]
    recall = read(small, "a spectre")
    assert recall.query_concepts == ["spectre"]
    assert set(ids(recall)) == {"n3", "n4"}
    assert recall.expanded_concepts == {"backoff": recall[0].rank_score}
    small.unlink("ghost", "n6", layer="cue")
    empty = read(small, "of ghosts")
    assert (len(empty), empty.reason is not None) == (0, True)


def test_what_was_learned_fades_with_the_layer(clock: Clock) -> None:
    rule = fa.settings.LinkRule(write_step=0.0, floor=None, decay_days=1.0)
    mem = fill(fa.Memory(settings=fa.Settings(cue_links=rule), clock=clock))
    mem.feedback(read(mem), used=["n5"], outcome=1.0)
    first = next(hit for hit in read(mem) if hit.id == "n5").parts["taught"]
    clock.advance(days=2)
    faded = next(hit for hit in read(mem) if hit.id == "n5")
    # A / sqrt(A) fades by the root
    assert faded.parts["taught"] == pytest.approx(first * 2.718281828**-1.0)
    assert faded.path[0].weight == pytest.approx(2.718281828**-2.0)
    clock.advance(days=100_000)
    assert "n5" not in ids(read(mem))
