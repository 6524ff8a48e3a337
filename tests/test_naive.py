"""The trusted model, by itself: the worked example, and the corners of the arithmetic."""

from __future__ import annotations

import pytest
from naive import NaiveMemory, Refused, grid

NOTES = [
    ("n1", "Deploys time out when the cache is cold.", ["timeout", "deploy"]),
    ("n2", "A timeout is retried three times.", ["timeout", "retry"]),
    ("n3", "Retry after a timeout, then give up.", ["timeout", "retry"]),
    ("n4", "Backoff of two seconds between retries.", ["retry", "backoff"]),
    ("n5", "Jitter spreads the backoff.", ["backoff", "jitter"]),
    ("n6", "The cache is warmed at deploy.", ["cache", "deploy"]),
]


def memory(**options: float) -> NaiveMemory:
    return NaiveMemory(lambda: 0, **options)


@pytest.fixture
def worked() -> NaiveMemory:
    mem = memory()
    for note_id, text, concepts in NOTES:
        mem.write(text, id=note_id, concepts=concepts)
    return mem


def shape(mem: NaiveMemory) -> list[tuple[str, float, list[str]]]:
    return [(hit.id, hit.rank_score, hit.via) for hit in mem.read(["timeout"]).hits]


BEFORE = [("n3", 12, []), ("n2", 12, []), ("n1", 10, []), ("n4", 2, ["retry"])]
AFTER = [
    ("n3", 14, []),
    ("n2", 14, []),
    ("n1", 10, []),
    ("n4", 6, ["backoff", "retry"]),
    ("n5", 2, ["backoff"]),
]


def test_the_worked_example(worked: NaiveMemory) -> None:
    assert worked.read(["timeout"]).expanded == {"retry": 2}
    assert shape(worked) == BEFORE
    for _ in range(2):
        worked.feedback(["timeout"], used_concepts=["retry", "backoff"], outcome=1.0)
    recall = worked.read(["timeout"])
    assert recall.expanded == {"backoff": 2, "retry": 4}
    assert shape(worked) == AFTER
    assert recall.hits[3].path == [
        ("timeout", "backoff", "concept", 2),
        ("backoff", "n4", "carries", 1),
        ("timeout", "retry", "concept", 4),
        ("retry", "n4", "carries", 1),
    ]
    assert shape(worked.rebuild_links()) == BEFORE


def test_changes_to_a_pair_apply_in_order() -> None:
    mem = memory()
    for outcome in (-1, +1):
        mem.feedback(["a"], used_concepts=["b"], outcome=outcome)
    assert mem.links["a", "b"].weight == 1
    for outcome in (-1, -1, +1, -1):
        mem.feedback(["a"], used_concepts=["b"], outcome=outcome)
    assert ("a", "b") not in mem.links


def test_forgetting_keeps_what_was_taught() -> None:
    mem = memory()
    mem.write("x", id="x", concepts=["a", "b"])
    mem.write("y", id="y", concepts=["b", "a", "A"])
    mem.link("a", "b", 0.5)
    mem.forget(["x"])
    link = mem.links["a", "b"]
    assert (link.weight, link.written, link.count, link.taught) == (1.5, 1, 1, 0.5)
    mem.unlink("a", "b")
    assert (link.weight, link.written, link.count) == (0, 1, 1)
    mem.forget(["y"])
    assert not mem.links
    assert mem.stats()["concepts"] == 0


def test_a_batch_is_checked_whole() -> None:
    mem = memory()
    rows = [{"id": "x", "text": "x", "concepts": ["a"]}, {"id": "y", "text": "y", "concepts": "a"}]
    with pytest.raises(Refused, match="row 1"):
        mem.write_batch(rows)
    assert not mem.notes
    assert [n for n, _ in mem.write_batch(rows, on_error="reject")["rejected"]] == [1]
    assert mem.write_batch(rows[:1], on_duplicate="skip")["skipped"] == 1
    assert mem.write_batch(rows[:1], on_duplicate="replace")["replaced"] == 1


def test_three_hops_are_damped_by_the_step_and_a_cycle_adds_nothing() -> None:
    mem = memory(hop_factor=0.5)
    for a, b in ("ab", "bc", "cd", "da"):
        mem.link(a, b, 4.0)
    mem.unlink("d", "a")
    assert {c: s for c, (s, _) in mem.expand(["a"], 3).items()} == {"b": 4, "c": 2, "d": 1}
    mem.link("d", "a", 4.0)
    assert {c: s for c, (s, _) in mem.expand(["a"], 3).items()} == {"b": 4, "c": 2, "d": 4}


def test_steps_lie_on_the_grid() -> None:
    assert grid(0.1) * 2**20 == 104858
    assert sum([grid(0.1)] * 10) == 10 * grid(0.1)
