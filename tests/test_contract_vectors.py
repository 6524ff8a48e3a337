"""The contract of test_contract for vectors and links between notes: in memory, in a store, opened
again after each change, and written by another process while this one reads."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from conftest import Subject

from fastassoc.settings import on_grid

DAY = 86_400_000_000
NOTES = [
    ("n1", "Deploys time out when the cache is cold.", ["timeout", "deploy"], [1, 0, 0]),
    ("n2", "A timeout is retried three times.", ["timeout", "retry"], [3, 4, 0]),
    ("n3", "Retry after a timeout, then give up.", ["timeout", "retry"], None),
    ("n4", "Backoff of two seconds between retries.", ["retry", "backoff"], [0, 2, 0]),
    ("n5", "Jitter spreads the backoff.", [], [0, 0, 5]),
    ("n6", "The cache is warmed at deploy.", [], [-1, 0, 0]),
]


def fill(subject: Subject, **fields: Any) -> None:
    for note, text, concepts, vector in NOTES:
        subject.do("write", text, id=note, concepts=concepts, vector=vector, **fields)


def shape(recall: dict[str, Any]) -> list[tuple[str, str]]:
    return [(hit["id"], hit["source"]) for hit in recall["hits"]]


def ids(recall: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in recall["hits"]]


def weights(subject: Subject) -> dict[str, float]:
    return {"-".join(key.split("\0")): row[0] for key, row in subject.ask("note_links").items()}


def path(hit: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(source, target, layer) for source, target, layer, *_ in hit["path"]]


# -- vectors ---------------------------------------------------------------------------------------


def test_reads_by_vector(subject: Subject) -> None:
    fill(subject)
    recall = subject.ask("read", vector=[2, 0, 0], rank="flat")
    assert shape(recall) == [(note, "semantic") for note in ("n1", "n2", "n4", "n5", "n6")]
    similar = [hit.similarity for hit in subject.mem.read(vector=[2, 0, 0], rank="flat")]
    assert similar == pytest.approx([1, 0.6, 0, 0, -1])
    found = subject.ask("read", vector=[2, 0, 0])["hits"]  # by default over what the nearest share
    assert [(hit["id"], hit["source"]) for hit in found[:2]] == [
        ("n1", "semantic"),
        ("n2", "semantic"),
    ]
    assert {hit["id"] for hit in found} == {note for note, *_ in NOTES}
    led = {hit["id"] for hit in found if hit["source"] == "association"}
    assert {"n3", "n6"} <= led  # n3 has no vector; both share words and concepts with n1
    parts = {hit.id: hit.parts for hit in subject.mem.read(vector=[2, 0, 0])}
    assert all(parts[note].get("bridge", 0) > 0 for note in led)
    assert ids(subject.ask("read", vector=[0, 0, 1], k=1)) == ["n5"]
    assert subject.mem.get("n2").vector.tolist() == [3, 4, 0]
    assert subject.mem.get("n3").vector is None
    stats = subject.ask("stats")
    assert (stats["vectors"], stats["dim"]) == (5, 3)
    for hit in subject.mem.read(vector=[2, 1, 0]):
        assert 0 <= hit.score <= 1
        assert sum(hit.parts.values()) == pytest.approx(hit.rank_score)


def test_a_vector_beside_text_and_concepts(subject: Subject) -> None:
    fill(subject)
    both = ids(subject.ask("read", "jitter", vector=[1, 0, 0], k=2))
    assert sorted(both) == ["n1", "n5"]
    recall = subject.ask("read", concepts=["backoff"], vector=[1, 0, 0], rank="retention", k=3)
    assert ("n4", "concept") in shape(recall)
    assert ("n1", "semantic") in shape(recall)
    counts = subject.ask("read", concepts=["timeout"], vector=[1, 0, 0], rank="counts")
    assert ids(counts)[:3] == ids(subject.ask("read", concepts=["timeout"]))[:3]
    like = ids(subject.ask("read", like="n1", rank="flat"))
    assert like[0] == "n2"
    assert "n1" not in like


def test_forgotten_and_replaced_vectors(subject: Subject) -> None:
    fill(subject)
    subject.do("forget", ["n1"])
    assert ids(subject.ask("read", vector=[1, 0, 0], k=1)) == ["n2"]
    row = {"id": "n2", "text": "other", "concepts": [], "vector": [0, 0, 1]}
    assert subject.do("write_batch", [row], on_duplicate="replace")["replaced"] == 1
    assert ids(subject.ask("read", vector=[0, 0, 2], k=2)) == ["n5", "n2"]
    assert ids(subject.ask("read", vector=[1, 0, 0], k=10)) == ["n4", "n5", "n2", "n6"]
    subject.do("write", "again", id="n1", concepts=[], vector=[1, 1, 1])
    assert ids(subject.ask("read", vector=[1, 1, 1], k=1)) == ["n1"]
    assert subject.ask("stats")["vectors"] == 5


def test_another_width_is_refused_with_both(subject: Subject) -> None:
    fill(subject)
    said = "2 numbers, expected 3"
    before = subject.ask("stats")
    with pytest.raises(ValueError, match=said):
        subject.do("write", "t", id="x", concepts=["x", "y"], vector=[1, 2])
    rows = [{"id": "x", "text": "t"}, {"id": "y", "text": "t", "vector": [1, 2]}]
    with pytest.raises(ValueError, match=said):
        subject.do("write_batch", rows)
    with pytest.raises(ValueError, match=said):
        subject.ask("read", vector=[1, 2])
    assert subject.ask("stats") == before
    report = subject.do("write_batch", rows, on_error="reject")
    assert (report["written"], report["rejected"]) == (1, 1)


def test_filters_apply_to_vectors_before_the_cut(subject: Subject) -> None:
    start, rows = subject.clock.stamp, []
    for n in range(40):
        rows.append(
            {
                "id": f"n{n}",
                "text": "t",
                "concepts": [],
                "vector": [100, n],
                "domain": "rare" if n % 10 == 9 else "general",
                "created_at": start + n * DAY,
                "metadata": {"n": n},
            }
        )
    subject.do("write_batch", rows)
    for rank in ("flat", "retention"):

        def found(rank: str = rank, **filters: Any) -> list[str]:
            return ids(subject.ask("read", vector=[1, 0], k=3, rank=rank, **filters))

        assert found() == ["n0", "n1", "n2"]
        assert found(domain="rare") == ["n9", "n19", "n29"]
        assert found(since=start + 38 * DAY) == ["n38", "n39"]
        assert found(until=start + DAY) == ["n0", "n1"]
        assert found(where={"n": {"in": [31, 7, 99]}}) == ["n7", "n31"]
        assert found(domain="none") == []


# -- links between notes ---------------------------------------------------------------------------


def test_links_between_notes_lead_on(subject: Subject) -> None:
    fill(subject)
    subject.do("link", "n1", "n5", 0.75)
    subject.do("link", "n5", "n6", 0.5)
    assert weights(subject) == {"n1-n5": 0.75, "n5-n6": 0.5}
    subject.do("forget", ["n2", "n4"])
    row = {"id": "n9", "text": "Nothing of the kind.", "concepts": []}
    subject.do("write_batch", [row])
    subject.do("link", "n6", "n9", 1.0)
    near = subject.ask("read", vector=[1, 0, 0], rank="retention", k=2, hops=2)
    assert shape(near) == [("n1", "semantic"), ("n9", "association")]
    asked = {"concepts": ["deploy"], "rank": "retention"}
    assert ids(subject.ask("read", **asked, hops=3, k=2)) == ["n1", "n5"]
    assert ids(subject.ask("read", **asked)) == ["n1", "n5"]
    whole = subject.ask("read", **asked, hops=3)
    found = {hit["id"]: hit for hit in whole["hits"]}
    assert path(found["n9"]) == [
        ("deploy", "n1", "carries"),
        ("n1", "n5", "note"),
        ("n5", "n6", "note"),
        ("n6", "n9", "note"),
    ]
    assert found["n9"]["rank_score"] == pytest.approx(0.1 * 0.75 * 0.5)
    subject.do("unlink", "n5", "n1")
    assert weights(subject) == {"n5-n6": 0.5, "n6-n9": 1.0}
    subject.do("forget", ["n6"])
    assert weights(subject) == {}


def test_consecutive_notes_of_a_session(subject: Subject) -> None:
    fill(subject, session="s")
    pairs = [f"{a[0]}-{b[0]}" for a, b in itertools.pairwise(NOTES)]
    assert weights(subject) == dict.fromkeys(pairs, 1.0)
    subject.do("write", "more", id="n7", concepts=[], session="s")
    assert weights(subject)["n6-n7"] == 1.0
    stamp = subject.clock.stamp
    assert subject.ask("note_links")["n6\0n7"] == [1, 1, 0, 1, 0, stamp, stamp]


def test_the_cognitive_life_of_a_link(cognitive: Subject) -> None:
    fill(cognitive, session="s")
    tags = {"n1-n2": 0.3, "n2-n4": 0.4}
    assert weights(cognitive) == {key: pytest.approx(v, abs=2**-20) for key, v in tags.items()}
    step, first = on_grid(0.1), weights(cognitive)["n1-n2"]
    cognitive.do("feedback", used=["n1", "n2", "n5"], outcome=1.0)
    after = weights(cognitive)
    assert after["n1-n2"] == first + step
    assert after["n1-n5"] == after["n2-n5"] == step
    cognitive.clock.stamp += 30 * DAY
    faded = cognitive.mem.note_links.weight("n1", "n2")
    assert faded == pytest.approx((first + step) * math.exp(-1 / 3))
    assert weights(cognitive) == after  # as they were when they changed
    cognitive.do("read", vector=[1, 0, 0], k=2, reinforce=True, session="t")
    assert cognitive.mem.note_links.weight("n1", "n2") == pytest.approx(faded + step)
    states = cognitive.ask("states")
    assert [states[note][3] for note in ("n1", "n2", "n4")] == [1, 1, 0]
    assert states["n1"][0] == pytest.approx(0.25 + 0.2)
    control = cognitive.mem.rebuild_links().note_links
    assert control.weight("n1", "n2") == pytest.approx(first * math.exp(-1 / 3))


def test_reads_by_retention(cognitive: Subject) -> None:
    fill(cognitive)
    cognitive.clock.stamp += 7 * DAY
    hits = cognitive.ask("read", vector=[1, 0, 0])["hits"]
    kept = 0.732632**0.3
    assert [hit["rank_score"] for hit in hits] == pytest.approx(
        [kept, 0.6 * kept, 0, 0, 0], abs=1e-6
    )
    cognitive.do("read", vector=[0, 1, 0], k=1, reinforce=True)
    found = {hit["id"]: hit for hit in cognitive.ask("read", vector=[3, 4, 0])["hits"]}
    assert found["n4"]["rank_score"] == pytest.approx(0.8)
    assert found["n2"]["rank_score"] == pytest.approx(kept, abs=1e-6)


def test_ticks_and_the_cold_tier(cognitive: Subject) -> None:
    fill(cognitive)
    cognitive.clock.stamp += 96 * DAY
    assert cognitive.do("tick")["updated"] == 6
    assert cognitive.do("tick")["updated"] == 0
    assert cognitive.ask("read", vector=[1, 0, 0])["hits"] == []
    cognitive.do("write", "new", id="new", concepts=[], vector=[0, 1, 0])
    cognitive.do("link", "new", "n1", 0.5)
    assert shape(cognitive.ask("read", vector=[0, 1, 0])) == [
        ("new", "semantic"),
        ("n1", "association"),
    ]
    cognitive.do("read", vector=[0, 1, 0], reinforce=True)
    assert ids(cognitive.ask("read", vector=[1, 0, 0])) == ["n1", "new"]
    assert cognitive.ask("stats")["cold"] == 5


def test_superseded_notes_leave_default_reads(cognitive: Subject) -> None:
    fill(cognitive)
    report = cognitive.do(
        "write", "new", id="new", concepts=[], vector=[1, 0, 0], supersedes=["n1", "gone"]
    )
    assert report["missing"] == ["gone"]
    assert ids(cognitive.ask("read", vector=[1, 0, 0], k=2)) == ["new", "n2"]
    both = cognitive.ask("read", vector=[1, 0, 0], k=2, include_superseded=True)
    assert ids(both) == ["n1", "new"]
    assert cognitive.mem.get("n1").superseded_by == ["new"]
    cognitive.do("forget", ["new"])
    assert ids(cognitive.ask("read", vector=[1, 0, 0], k=1)) == ["n1"]
    assert cognitive.mem.get("n1").superseded_by == []
