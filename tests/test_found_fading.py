"""Faults that were found in reads of notes that fade, each by an example of its kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import fastassoc as fa

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    days = 0.0

    def __call__(self) -> datetime:
        return START + timedelta(days=self.days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def mem(clock: Clock) -> Any:
    return fa.Memory(settings=fa.Settings.cognitive(), clock=clock)


def test_words_count_without_vectors(mem: Any) -> None:
    for n in range(150):
        mem.write(f"note {n} about a machine", concepts=[])
    mem.write("the coffee machine is broken again", id="best", concepts=[])
    recall = mem.read("coffee machine broken")
    assert recall[0].id == "best"
    assert recall[0].rank_score == pytest.approx(0.1)


@pytest.mark.parametrize("k", [1, 60, 151])
def test_a_fresh_note_is_found_among_nearer_faded_ones(mem: Any, clock: Clock, k: int) -> None:
    rows = [{"text": f"o{n}", "concepts": [], "vector": [0.9, 0.1 + n * 1e-5]} for n in range(150)]
    mem.write_batch(rows)
    clock.days = 60
    mem.write("fresh", id="fresh", concepts=[], vector=[0.85, 0.3])
    assert mem.read(vector=[1, 0], k=k)[0].id == "fresh"


def test_links_lead_on_from_the_note_that_a_query_is_like(mem: Any) -> None:
    for name in "abc":
        mem.write(f"{name * 4}", id=name, concepts=[])
    mem.link("a", "b", 0.9)
    recall = mem.read(like="a", hops=2)
    assert [(hit.id, hit.source) for hit in recall] == [("b", "association")]
    assert [(step.source, step.target, step.layer) for step in recall[0].path] == [
        ("a", "b", "note")
    ]


def test_weak_associations_leave_their_places_to_others(mem: Any) -> None:
    mem.write_batch(
        [{"text": f"n{n}", "id": f"n{n}", "concepts": [], "vector": [1, n / 100]} for n in range(9)]
        + [{"text": f"x{n}", "id": f"x{n}", "concepts": [], "vector": [0.02, 1]} for n in range(3)]
    )
    for n in range(3):
        mem.link("n0", f"x{n}", 0.9)
    sources = [hit.source for hit in mem.read(vector=[1, 0], k=6)]
    assert sources.count("association") == 2
    strong = mem.read(vector=[1, 0], k=6, min_score=0.3)
    assert [hit.source for hit in strong] == ["semantic"] * 6
    assert "min_score" in mem.read(vector=[1, 0], min_score=0.9).reason


def test_of_equal_associations_the_stronger_link_comes_first(mem: Any) -> None:
    mem.write("seed", id="s", concepts=[], vector=[1, 0])
    for n, weight in enumerate([0.3, 0.5, 0.9]):
        mem.write(f"x{n}", id=f"x{n}", concepts=[], vector=[-0.1, 1])
        mem.link("s", f"x{n}", weight)
    assert [hit.id for hit in mem.read(vector=[1, 0], k=2)] == ["s", "x2"]


def test_an_answer_is_empty_for_the_reason_it_tells(mem: Any) -> None:
    mem.write("tea", concepts=[], vector=[1, 0])
    mem.tick("2060-01-01")
    assert "cold tier" in mem.read(vector=[1, 0]).reason
    assert mem.read(vector=[1, 0], domain="none").reason == "no note passes the filters"
