"""What fades by time alone: links between notes, retention, core notes and the cold tier."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from test_faults import HASHES, python
from worker import Clock, Worker, plain_links, plain_states

import fastassoc as fa

COGNITIVE = fa.Settings.cognitive()
DAYS = (0, 7, 30, 90, 365)
RETAINED = {  # importance 0.5, stability 0.25
    "episodic": (1, 0.732632, 0.263597, 0.02, 0.02),
    "semantic": (1, 0.943335, 0.778801, 0.472367, 0.047755),
    "core": (1, 0.889882, 0.606531, 0.6, 0.6),
    "procedural": (1, 1, 1, 1, 1),
}


def linked(mem: Any) -> Any:
    """Notes a, b and c, without a concept, so that their ids can only be ids."""
    mem.write("first", id="a", concepts=[], vector=[1, 0])
    mem.write("second", id="b", concepts=[])
    mem.write("third", id="c", concepts=[])
    return mem


def note_links(mem: Any) -> dict[str, list[Any]]:
    return plain_links(mem.note_links.to_arrow())


def found(mem: Any, **how: Any) -> dict[str, Any]:
    return {hit.id: hit for hit in mem.read(**{"vector": [1, 0], **how})}


def retained(mem: Any, **how: Any) -> dict[str, float]:
    """What the rank score of a note with the query's vector tells of its retention."""
    return {note: hit.rank_score ** (1 / 0.3) for note, hit in found(mem, **how).items()}


# -- L5 to L7: links between notes -----------------------------------------------------------------


@pytest.mark.parametrize("way", ["one look", "a thousand looks", "opened each day"])
def test_l5_looking_does_not_hasten_the_fading(path: Path, clock: Clock, way: str) -> None:
    mem = linked(fa.open(path, settings=COGNITIVE, clock=clock))
    mem.link("a", "b", 0.9)
    stored = note_links(mem)
    for day in range(30):
        clock.advance(days=1)
        for _ in range(34 if way == "a thousand looks" else 0):
            assert found(mem)["b"].source == "association"
        if way == "opened each day":
            assert mem.tick().updated == 0
            if day % 7 == 0:
                mem.snapshot()
            mem.close()
            mem = fa.open(path, clock=clock)
    assert mem.note_links.weight("a", "b") == pytest.approx(0.644878, abs=1e-6)
    assert mem.note_links.weight("b", "a") == pytest.approx(0.9 * math.exp(-30 / 90), abs=1e-6)
    hits = found(mem)
    assert hits["b"].path[-1].weight == mem.note_links.weight("a", "b")
    kept = (0.263597**0.3) * 0.1 * 0.644878
    assert hits["b"].rank_score == pytest.approx(kept, abs=1e-6)
    assert mem.note_links.to_scipy().max() == pytest.approx(0.644878, abs=1e-6)
    assert note_links(mem) == stored
    mem.close()


def test_l5_a_change_comes_after_the_fading(clock: Clock) -> None:
    for step in ("link", "feedback", "reinforce"):
        mem = linked(fa.Memory(settings=COGNITIVE, clock=clock))
        mem.write("fourth", id="d", concepts=[], vector=[1, 0])
        mem.link("a", "d", 0.5)
        start = clock.stamp
        clock.advance(days=360)
        if step == "link":
            mem.link("a", "d", 0.1)
        elif step == "feedback":
            mem.feedback(used=["a", "d"], outcome=1.0)
        else:
            assert [hit.source for hit in mem.read(vector=[1, 0], reinforce=True)] == [
                "semantic"
            ] * 2
        assert mem.note_links.weight("a", "d") == pytest.approx(0.109158, abs=1e-6)
        (row,) = note_links(mem).values()
        assert row[0] == pytest.approx(0.109158, abs=1e-6)
        assert row[5:] == [start, clock.stamp]


def test_l5_what_was_written_fades_with_the_weight(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    for note in "ab":
        mem.write(note, id=note, concepts=[], vector=[1, 0], session="s")
    clock.advance(days=90)
    mem.link("a", "b", 0.25)
    weight, written, taught, count, *_ = note_links(mem)["a\0b"]
    assert written == pytest.approx(0.5 / math.e)
    assert (weight, taught) == (pytest.approx(0.25 + 0.5 / math.e), pytest.approx(0.25))
    assert count == 1
    step = mem.read(like="a", k=1)[0]
    assert step.id == "b"


def test_l6_a_clock_set_back_raises_nothing(path: Path, clock: Clock) -> None:
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        linked(mem).link("a", "b", 0.9)
        clock.advance(days=30)
        mem.link("a", "c", 0.5)
        hits = found(mem)
        weight = mem.note_links.weight("a", "b")
        stored, states = note_links(mem), plain_states(mem)
        for days in (-1, -29, -370):
            clock.advance(days=days)
            now = found(mem)
            assert mem.note_links.weight("a", "b") == weight
            assert {note: hit.rank_score for note, hit in now.items()} == {
                note: hit.rank_score for note, hit in hits.items()
            }
            assert mem.tick().updated == 0
        assert (note_links(mem), plain_states(mem)) == (stored, states)
        mem.link("b", "c", 0.5)  # the operation is not in the past
        assert note_links(mem)["b\0c"][6] == stored["a\0c"][6]
        mem.read(vector=[1, 0], reinforce=True)
        assert mem.get("a").last_access >= datetime.fromtimestamp(stored["a\0c"][6] / 1e6, UTC)
    with fa.open(path, clock=clock) as mem:
        assert mem.note_links.weight("a", "b") <= weight
        mem.write("x", id="x", concepts=[], vector=[1, 0], created_at=datetime(2090, 1, 1))
        assert retained(mem)["x"] == pytest.approx(1)
        clock.advance(days=400 + 7)
        assert retained(mem)["x"] == pytest.approx(0.732632, abs=1e-6)


def test_l7_naive_and_aware_times_in_any_order(clock: Clock) -> None:
    noon = datetime(2026, 3, 1, 12)
    stamps = [
        noon,
        noon.replace(tzinfo=UTC) + timedelta(hours=1),
        (noon + timedelta(hours=7)).replace(tzinfo=timezone(timedelta(hours=5))),
        "2026-03-01T15:00:00",
        "2026-03-01T16:00:00Z",
    ]
    rows = [
        {"id": f"n{n}", "text": "t", "concepts": [], "vector": [1, 0], "created_at": stamp}
        for n, stamp in enumerate(stamps)
    ]
    for order in (rows, rows[::-1], rows[2:] + rows[:2]):
        mem = fa.Memory(settings=COGNITIVE, clock=clock)
        mem.write_batch(order)
        for number in range(4):
            mem.link(f"n{number}", f"n{number + 1}", 0.9)
        late = found(mem, since=noon + timedelta(hours=3), hops=3)
        assert late.keys() == {"n3", "n4"}
        assert found(mem, until=noon.replace(tzinfo=UTC)).keys() == {"n0"}
        later = clock() + timedelta(days=96)
        assert mem.tick(later.replace(tzinfo=None) - timedelta(days=2)).updated == 0
        assert mem.tick(later).updated == 5
        assert mem.tick(later.replace(tzinfo=None)).updated == 0


# -- L4 --------------------------------------------------------------------------------------------


def test_l4_plain_reads_change_nothing_and_reinforced_ones_what_they_say(
    path: Path, clock: Clock
) -> None:
    rows = [
        {"id": f"n{n}", "text": f"text {n}", "concepts": [f"c{n}", "all"], "vector": [50, n]}
        for n in range(20)
    ]
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        mem.write_batch(rows)
        mem.link("n0", "n15", 0.95)
        mem.link("n1", "n16", 0.9)
        mem.snapshot()
        mem.link("n2", "n17", 0.9)
        before, files, position = note_links(mem), python(HASHES, path), mem.position
        concepts = plain_links(mem.links.to_arrow())
        asks: list[dict[str, Any]] = [
            {"vector": [1, 0]},
            {"vector": [0, 1], "hops": 3, "concepts": ["c1"]},
            {"query": "text 7", "session": "s"},
            {"like": "n3"},
        ]
        for number in range(400):
            mem.read(**asks[number % 4])
        mem.read_batch(asks)
        mem.rebuild_links().read(vector=[1, 0])
        assert python(HASHES, path) == files
        assert (mem.position, note_links(mem)) == (position, before)

        clock.advance(days=7)
        states = plain_states(mem)
        recall = mem.read(vector=[1, 0], k=5, session="s", reinforce=True)
        direct = [hit.id for hit in recall if hit.source != "association"]
        joined = [hit.id for hit in recall if hit.source == "association"]
        assert (direct, joined) == (["n0", "n1", "n2"], ["n15", "n16"])
        assert mem.position == position + 1
        after = note_links(mem)
        pairs = {"n0\0n1", "n0\0n2", "n1\0n2"}
        assert after.keys() - before.keys() == pairs
        for pair in pairs:
            assert after[pair][0] == pytest.approx(0.1, abs=1e-6)
            assert after[pair][1:] == [0, after[pair][0], 0, 0, clock.stamp, clock.stamp]
        assert {pair: row for pair, row in after.items() if pair not in pairs} == before
        assert plain_links(mem.links.to_arrow()) == concepts
        now = plain_states(mem)
        for note, (stability, _, last, accesses, category, cold, _) in states.items():
            boost = 0.1 if note in direct else 0.03 if note in joined else 0.0
            assert now[note][0] == pytest.approx(stability + boost)
            assert now[note][2] == (clock.stamp if boost else last)
            assert now[note][3] == accesses + bool(boost)
            assert now[note][4:6] == [category, cold]
        again = plain_states(mem), note_links(mem)
        assert mem.read(concepts=["unknown"], reinforce=True).hits == []
        assert mem.position == position + 1
    with fa.open(path, clock=clock) as mem:
        assert (plain_states(mem), note_links(mem)) == again
    with fa.open(path, clock=clock, read_only=True) as mem:
        assert mem.read(vector=[1, 0]).hits
        with pytest.raises(fa.errors.ReadOnlyStore):
            mem.read(vector=[1, 0], reinforce=True)


# -- the values of retention -----------------------------------------------------------------------


def test_what_is_retained_by_category(path: Path, clock: Clock) -> None:
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        for category in RETAINED:
            mem.write(category, id=category, concepts=[], vector=[1, 0], category=category)
        mem.write("none", id="none", concepts=[], vector=[3, 4])
        start = clock.stamp
    for place, days in enumerate(DAYS):
        clock.stamp = start
        clock.advance(days=days)
        with fa.open(path, clock=clock) as mem:
            kept = retained(mem)
            for category, values in RETAINED.items():
                assert kept[category] == pytest.approx(values[place], abs=1e-6)
            hit = found(mem)["none"]
            assert hit.similarity == pytest.approx(0.6)
            assert hit.rank_score == pytest.approx(
                0.6 * RETAINED["episodic"][place] ** 0.3, abs=1e-6
            )
            assert hit.rank_score == pytest.approx(sum(hit.parts.values()))
            mem.snapshot()


def test_importance_slows_the_fading(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    for importance in (0.0, 0.5, 1.0):
        note = f"n{importance}"
        mem.write(note, id=note, concepts=[], vector=[1, 0], importance=importance)
        assert mem.get(note).stability == pytest.approx(0.1 + 0.3 * importance)
    clock.advance(days=7)
    kept = retained(mem)
    for importance in (0.0, 0.5, 1.0):
        span = (0.1 + 0.3 * importance) * min(3, 1 + 2 * importance) * 45
        assert kept[f"n{importance}"] == pytest.approx(max(0.02, math.exp(-7 / span)), abs=1e-9)


@pytest.mark.parametrize(("days", "grown"), [(0, 0), (3.5, 0.5), (7, 1), (14, 2), (70, 2)])
def test_stability_grows_with_the_days_since_the_last_access(
    clock: Clock, days: float, grown: float
) -> None:
    mem = linked(fa.Memory(settings=COGNITIVE, clock=clock))
    mem.link("a", "b", 0.9)
    clock.advance(days=days)
    mem.read(vector=[1, 0], reinforce=True)
    assert mem.get("a").stability == pytest.approx(0.25 + 0.1 * grown)
    assert mem.get("b").stability == pytest.approx(0.25 + 0.03 * grown)
    assert mem.get("c").stability == 0.25
    assert [mem.get(note).accesses for note in "abc"] == [1, 1, 0]
    mem.read(vector=[1, 0], reinforce=True)  # at once: it counts, and adds nothing
    assert mem.get("a").stability == pytest.approx(0.25 + 0.1 * grown)
    assert mem.get("a").accesses == 2
    for _ in range(12):
        clock.advance(days=14)
        mem.read(vector=[1, 0], reinforce=True)
    assert mem.get("a").stability == 1


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_note_asked_for_ten_times_in_two_sessions_is_core(
    path: Path, clock: Clock, sessions: int
) -> None:
    def open_memory() -> Any:
        return fa.open(path, settings=COGNITIVE, clock=clock, sync="normal")

    mem = open_memory()
    mem.write("often", id="a", concepts=[], vector=[1, 0])
    mem.write("seldom", id="b", concepts=[], vector=[0, 1])
    for number in range(10):
        assert mem.get("a").category is None
        clock.advance(days=14)
        mem.read(vector=[1, 0], k=1, reinforce=True, session=f"s{number % sessions}")
        if number == 4:
            mem.snapshot()
        if number % 3 == 1:
            mem.close()
            mem = open_memory()
    assert mem.get("a").category == ("core" if sessions == 2 else None)
    assert mem.stats()["core"] == sessions - 1
    assert mem.get("b").category is None
    clock.advance(days=4000)
    kept = retained(mem)["a"]
    assert kept == pytest.approx(0.6 if sessions == 2 else 0.02)
    assert mem.tick().updated == (1 if sessions == 2 else 2)  # b; core notes stay
    mem.close()


def test_many_reads_at_once_make_no_core_note(clock: Clock) -> None:
    mem = linked(fa.Memory(settings=COGNITIVE, clock=clock))
    for number in range(20):
        mem.read(vector=[1, 0], reinforce=True, session=f"s{number % 2}")
    assert (mem.get("a").accesses, mem.get("a").category) == (20, None)


# -- the cold tier ---------------------------------------------------------------------------------


def test_a_tick_counts_days_and_never_calls(path: Path, clock: Clock, worker: Worker) -> None:
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        linked(mem)
        mem.write("how", id="how", concepts=[], vector=[1, 1], category="procedural")
        position = mem.position
        floor = 0.25 * 2 * 45 * math.log(50)  # days until the least retention
        clock.advance(days=floor + 7 - 0.01)
        for _ in range(50):
            assert mem.tick().updated == 0
        assert (mem.position, mem.stats()["cold"]) == (position, 0)
        clock.advance(days=0.02)
        assert worker.ask(path, clock.stamp, "tick")["updated"] == 3
        assert mem.position == position + 1
        assert mem.tick().updated == 0
        assert (mem.position, mem.stats()["cold"]) == (position + 1, 3)
        assert [mem.get(note).tier for note in ("a", "b", "c", "how")] == ["cold"] * 3 + ["hot"]
    worker.ask(path, clock.stamp, "close")
    with fa.open(path, clock=clock) as mem:
        assert found(mem).keys() == {"how"}
        mem.snapshot()
    with fa.open(path, clock=clock) as mem:
        assert found(mem).keys() == {"how"}
        assert mem.tick().updated == 0
        assert mem.get("a").vector.tolist() == [1, 0]  # kept, but out of the search


@pytest.mark.parametrize("indexed", [False, True])
def test_a_cold_note_comes_by_a_link_and_back_by_reinforcement(
    path: Path, clock: Clock, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from small_indexes import clustered, shrink

    if indexed:
        shrink("ivf", monkeypatch.setattr, monkeypatch.setitem)
    mem = fa.open(path, settings=COGNITIVE, clock=clock, sync="normal")
    ask = clustered(1)[0]
    mem.write("old", id="old", concepts=[], vector=ask)
    mem.write("other", id="other", concepts=[], vector=ask)
    clock.advance(days=100)
    new = [
        {"id": f"n{n}", "text": "t", "concepts": [], "vector": vector}
        for n, vector in enumerate(clustered(600 if indexed else 30, seed=4))
    ]
    mem.write_batch(new)
    mem.snapshot()
    assert mem.tick().updated == 2
    for again in (False, True):
        if again:
            mem.close()
            mem = fa.open(path, clock=clock, sync="normal")
        assert not {"old", "other"} & found(mem, vector=ask, k=100).keys()
    near = mem.read(vector=ask, k=1)[0].id
    mem.link(near, "other", 0.25)
    mem.link(near, "old", 0.5)
    hits = found(mem, vector=ask)
    assert "other" not in hits  # below the threshold
    assert hits["old"].source == "association"
    assert hits["old"].similarity == pytest.approx(1)
    assert hits["old"].rank_score == pytest.approx(0.02**0.3 * 0.5)
    assert [step.layer for step in hits["old"].path] == ["note"]
    assert mem.get("old").tier == "cold"  # a plain read changes nothing
    mem.read(vector=ask, reinforce=True)
    assert (mem.get("old").tier, mem.get("other").tier) == ("hot", "cold")
    for again in (False, True):
        if again:
            mem.close()
            mem = fa.open(path, clock=clock, sync="normal")
        hit = mem.read(vector=ask, k=1)[0]
        assert (hit.id, hit.source) == ("old", "semantic")
        assert hit.rank_score == pytest.approx(1)
    mem.close()


def test_a_cold_note_is_found_by_text_and_concepts(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    mem.write("Penguins huddle.", id="a", concepts=["penguin"], vector=[1, 0], fingerprint="f")
    assert mem.tick(clock() + timedelta(days=100)).updated == 1
    assert mem.read(vector=[1, 0]).hits == []
    for asked in ({"query": "penguins"}, {"concepts": ["penguin"]}, {"fingerprint": "f"}):
        assert [hit.id for hit in mem.read(**asked)] == ["a"]
