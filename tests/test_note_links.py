"""Links between notes: how sessions, outcomes, reads and hands make them, and where they lead."""

from __future__ import annotations

import itertools
import math
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_indexes import clustered, shrink, unit
from worker import Clock, Worker, plain_links, plain_recall

import fastassoc as fa
from fastassoc.errors import AmbiguousLink, InvalidInput, NoteNotFound
from fastassoc.settings import on_grid

COUNTS, COGNITIVE = fa.Settings.counts(), fa.Settings.cognitive()


def note_links(mem: Any) -> dict[str, list[Any]]:
    return plain_links(mem.note_links.to_arrow())


def weights(mem: Any) -> dict[str, float]:
    return {"-".join(pair.split("\0")): row[0] for pair, row in note_links(mem).items()}


def put(mem: Any, note: str, vector: Any = None, **fields: Any) -> None:
    mem.write(f"text {note}", **{"id": note, "concepts": [], "vector": vector, **fields})


def ids(recall: Any) -> list[str]:
    return [hit.id for hit in recall]


def tag(cosine: float) -> float:
    return on_grid(min(0.5, 0.2 + (cosine - 0.4) * 0.5))


# -- sessions --------------------------------------------------------------------------------------


def test_consecutive_notes_of_a_session_are_linked(path: Path, clock: Clock) -> None:
    with fa.open(path, clock=clock) as mem:
        for number in range(6):
            put(mem, f"n{number}", session="st"[number % 2])
        put(mem, "alone")
        pairs = ["n0-n2", "n2-n4", "n1-n3", "n3-n5"]
        assert weights(mem) == dict.fromkeys(pairs, 1.0)
        assert note_links(mem)["n0\0n2"] == [1, 1, 0, 1, 0, clock.stamp, clock.stamp]
        mem.link("n0", "n2", 0.5)  # clamped
        assert weights(mem)["n0-n2"] == 1.0
        mem.link("n0", "n2", -0.25)
        assert note_links(mem)["n0\0n2"][:4] == [0.75, 1, -0.25, 1]
        mem.forget(["n4"])
        assert mem.note_links.weight("n2", "n4") == 0.0
    with fa.open(path, clock=clock) as mem:
        put(mem, "n6", session="s")  # n4 is gone: n2 was the last
        assert weights(mem) == {"n0-n2": 0.75, "n1-n3": 1, "n3-n5": 1, "n2-n6": 1}
        assert weights(mem.rebuild_links()) == {"n0-n2": 1, "n1-n3": 1, "n3-n5": 1, "n2-n6": 1}


def test_similar_notes_of_a_session_are_tagged(path: Path, clock: Clock) -> None:
    vectors = {
        "a": [1, 0],
        "b": [0, 3],
        "c": [3, 4],
        "d": [10, 0],
        "e": [-1, 0],
        "f": [0.4, 0.9165151],
    }
    cosines = {
        pair: float(unit(vectors[pair[0]]) @ unit(vectors[pair[1]]))
        for pair in itertools.combinations(vectors, 2)
    }
    want = {
        f"{a}-{b}": pytest.approx(tag(cosine), abs=2**-20)
        for (a, b), cosine in cosines.items()
        if cosine >= 0.4
    }
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        for note, vector in vectors.items():
            put(mem, note, vector, session="s")
        put(mem, "other", [1, 0], session="t")
        put(mem, "none", [1, 0])
        put(mem, "plain", session="s")
        assert weights(mem) == want
        assert weights(mem)["a-d"] == 0.5
        assert weights(mem)["a-c"] == pytest.approx(0.3, abs=1e-6)
        assert weights(mem)["b-c"] == pytest.approx(0.4, abs=1e-6)
        row = note_links(mem)["a\0d"]
        assert row == [0.5, 0.5, 0, 1, 0, clock.stamp, clock.stamp]
    with fa.open(path, clock=clock) as mem:
        assert weights(mem) == weights(mem.rebuild_links()) == want
        put(mem, "g", [1, 0], session="s")
        assert weights(mem)["a-g"] == 0.5


def test_a_session_is_looked_back_at_for_256_notes(mem: Any, clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    rows = [
        {"id": f"n{n:03}", "text": "t", "concepts": [], "vector": [1, 0], "session": "s"}
        for n in range(260)
    ]
    mem.write_batch(rows)
    put(mem, "last", [1, 0], session="s")
    found = {
        a if b == "last" else b
        for a, b in (p.split("\0") for p in note_links(mem))
        if "last" in (a, b)
    }
    assert found == {f"n{n:03}" for n in range(4, 260)}
    assert len(note_links(mem)) == sum(min(n, 256) for n in range(261))


def rows_of(seed: int, count: int = 60) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    vectors = clustered(count, seed, dim=4)
    return [
        {
            "id": f"n{draw.randrange(count * 2 // 3)}",
            "text": f"text {number}",
            "concepts": draw.sample(["x", "y", "z"], 2),
            **({"vector": vectors[number]} if draw.random() < 0.8 else {}),
            **({"session": draw.choice("sst")} if draw.random() < 0.9 else {}),
        }
        for number in range(count)
    ]


def anew(mem: Any, rows: list[dict[str, Any]], rule: str, clock: Clock) -> Any:
    """A memory that was given the live notes of another and nothing else, in their order."""
    kept = {row["id"]: row for row in (rows if rule == "replace" else rows[::-1])}
    other = fa.Memory(settings=mem.settings, clock=clock)
    other.write_batch([kept[note] for note in mem.notes.to_arrow().column("id").to_pylist()])
    return other


NARROW = fa.Settings.cognitive(tag_window=5)


@pytest.mark.parametrize(
    "settings", [COUNTS, COGNITIVE, NARROW], ids=["counts", "cognitive", "narrow"]
)
@pytest.mark.parametrize("rule", ["skip", "replace"])
def test_no_split_of_a_batch_changes_a_bit(clock: Clock, settings: Any, rule: str) -> None:
    for seed in range(4):
        rows, draw = rows_of(seed), random.Random(seed)
        sizes = [[len(rows)], [1] * len(rows)]
        for _ in range(3):
            cuts = sorted(draw.sample(range(1, len(rows)), 7))
            sizes.append([b - a for a, b in itertools.pairwise([0, *cuts, len(rows)])])
        results = []
        for cut in sizes:
            mem, start = fa.Memory(settings=settings, clock=clock), 0
            for size in cut:
                mem.write_batch(rows[start : start + size], on_duplicate=rule)
                start += size
            asked = {"vector": [1, 0, 0, 1], "rank": "retention", "hops": 3, "k": 20}
            answer = plain_recall(mem.read(**asked))["hits"]
            results.append((note_links(mem), plain_links(mem.links.to_arrow()), answer))
        assert note_links(mem.rebuild_links()) == note_links(anew(mem, rows, rule, clock))
        # a note that was replaced stood between others, which the notes alone do not tell
        if rule == "skip" or settings is COGNITIVE:
            assert note_links(mem.rebuild_links()) == note_links(mem)
        assert len(results[0][0]) >= 10
        for other in results[1:]:
            assert other == results[0]


def test_the_control_has_the_untaught_note_links(path: Path, clock: Clock) -> None:
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        mem.write_batch(rows_of(1), on_duplicate="replace")
        written = note_links(mem)
        clock.advance(days=3)
        some = [note.id for note in mem.recent(limit=6)]
        mem.feedback(used=some, outcome=1.0)
        mem.link(*some[:2], 0.3)
        mem.read(vector=[1, 0, 0, 1], reinforce=True)
        assert note_links(mem) != written
        assert note_links(mem.rebuild_links()) == written
        taught = note_links(mem)
    with fa.open(path, clock=clock) as mem:
        control = mem.rebuild_links()
        assert note_links(control) == written
        assert note_links(mem) == taught
        asked = {"vector": [1, 0, 0, 1], "k": 6, "hops": 2}
        paths = [step for hit in control.read(**asked) for step in hit.path if step.layer == "note"]
        assert paths
        assert {step.taught for step in paths} == {0.0}
        with pytest.raises(InvalidInput, match="reinforce"):
            control.read(vector=[1, 0, 0, 1], reinforce=True)


# -- teaching --------------------------------------------------------------------------------------


def test_feedback_links_notes_used_together(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    for note in "abcd":
        put(mem, note)
    report = mem.feedback(used=["a", "b", "c", "gone", "a"], outcome=1.0)
    assert (report.links_created, report.missing, report.updated) == (3, ["gone"], 3)
    step = on_grid(0.1)
    assert weights(mem) == dict.fromkeys(["a-b", "a-c", "b-c"], step)
    assert note_links(mem)["a\0b"][:5] == [step, 0, step, 0, pytest.approx(0.3)]
    mem.feedback(used=["a", "b"], outcome=0.5)
    assert weights(mem)["a-b"] == step + on_grid(0.5 * step)
    report = mem.feedback(used=["a", "d"], outcome=-1.0)  # blame makes no link
    assert (report.links_created, "a-d" in weights(mem)) == (0, False)
    mem.feedback(used=["b", "c"], outcome=-1.0)
    assert "b-c" not in weights(mem)
    for _ in range(12):
        mem.feedback(used=["a", "b"], outcome=1.0)
    assert weights(mem)["a-b"] == 1.0
    mem.feedback(used=["a", "c"], outcome=-1.0)
    mem.feedback(used=["a", "c"], outcome=1.0)  # in order, each with its clamp
    assert weights(mem)["a-c"] == step
    again = mem.feedback(used=["a", "c"], outcome=1.0, operation_id="one")
    repeated = mem.feedback(used=["a", "c"], outcome=1.0, operation_id="one")
    assert (again.links_changed, repeated.repeated) == (1, True)
    assert weights(mem)["a-c"] == 2 * step


def test_feedback_leaves_note_links_alone_where_they_are_not_taught(mem: Any) -> None:
    for note in "ab":
        put(mem, note, session="s")
    mem.feedback(asked=["q"], used=["a", "b"], outcome=1.0)
    assert note_links(mem)["a\0b"][:5] == [1, 1, 0, 1, 0]


def test_links_by_hand(path: Path, clock: Clock) -> None:
    with fa.open(path, clock=clock) as mem:
        for note in ("a", "b", "c"):
            put(mem, note, concepts=["a", "b"] if note == "c" else [])
        with pytest.raises(AmbiguousLink, match="layer"):
            mem.link("a", "b", 0.5)
        with pytest.raises(AmbiguousLink, match="layer"):
            mem.unlink("a", "b")
        assert mem.link("a", "b", 0.5, layer="note").links_created == 1
        assert (mem.note_links.weight("b", "a"), mem.links.weight("a", "b")) == (0.5, 1.0)
        mem.link("a", "b", 2.0, layer="concept")
        assert (mem.note_links.weight("a", "b"), mem.links.weight("a", "b")) == (0.5, 3.0)
        assert mem.link("b", "c", 0.75).links_created == 1  # c is no concept
        assert mem.note_links.weight("c", "b") == 0.75
        assert mem.link("a", "unheard", 1.0).links_created == 1  # no note: concepts
        assert mem.links.weight("a", "unheard") == 1.0
        position = mem.position
        for bad in (("a", "nobody"), ("nobody", "a")):
            with pytest.raises(NoteNotFound, match="nobody"):
                mem.link(*bad, 0.5, layer="note")
            with pytest.raises(KeyError):
                mem.unlink(*bad, layer="note")
        with pytest.raises(ValueError, match="twice"):
            mem.link("a", "a", 0.5, layer="note")
        with pytest.raises(ValueError):
            mem.link("c", "c", 0.5)
        for weight in (math.nan, math.inf, "much"):
            with pytest.raises(ValueError, match="weight"):
                mem.link("b", "c", weight)
        with pytest.raises(ValueError, match="layer"):
            mem.link("b", "c", 0.5, layer="notes")
        assert mem.position == position
        assert mem.link("a", "c", -0.5).links_created == 0
        assert mem.unlink("a", "c").links_removed == 0
        assert mem.unlink("c", "b").links_removed == 1
        assert mem.note_links.weight("b", "c") == 0.0
        assert len(mem.note_links) == mem.stats()["note_links"] == 1
        mem.forget(["b"])
        assert len(mem.note_links) == 0
        put(mem, "b")  # the same id again is another note
        assert (len(mem.note_links), mem.note_links.weight("a", "b")) == (0, 0.0)
    with fa.open(path, clock=clock) as mem:
        assert len(mem.note_links) == 0


def test_unlinked_notes_of_a_session_stay_counted(mem: Any) -> None:
    put(mem, "a", [1, 0], session="s")
    put(mem, "b", session="s")
    assert ids(mem.read(vector=[1, 0], rank="retention")) == ["a", "b"]
    mem.unlink("a", "b")
    assert note_links(mem)["a\0b"][:4] == [0, 1, -1, 1]
    assert ids(mem.read(vector=[1, 0], rank="retention")) == ["a"]
    mem.link("a", "b", 0.5)
    assert ids(mem.read(vector=[1, 0], rank="retention")) == ["a", "b"]
    assert note_links(mem)["a\0b"][:4] == [0.5, 1, -0.5, 1]


# -- associated notes reach the caller -------------------------------------------------------------


def test_associated_notes_come_in_their_places_with_their_paths(clock: Clock) -> None:
    """200 notes with 10 links of 0.95 each, 100 reads with k = 10: a peer brought none of 1,000."""
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    draw = np.random.default_rng(3)
    vectors = draw.standard_normal((200, 24)).astype(np.float32)
    mem.write_batch(
        [
            {"id": f"n{n}", "text": "t", "concepts": [], "vector": vector}
            for n, vector in enumerate(vectors)
        ]
    )
    joined: dict[int, set[int]] = {n: set() for n in range(200)}
    for a, span in itertools.product(range(200), (17, 31, 53, 71, 89)):
        b = (a + span) % 200
        mem.link(f"n{a}", f"n{b}", 0.95)
        joined[a].add(b)
        joined[b].add(a)
    assert {len(others) for others in joined.values()} == {10}
    rows, places, kept = unit(vectors), 0, on_grid(0.95)
    for query in draw.standard_normal((100, 24)).astype(np.float32):
        cosines = rows @ unit(query)
        order = np.argsort(-cosines).tolist()
        seeds = set(order[:10])
        linked = {b for a in seeds for b in joined[a]} - seeds
        by_link = sorted(linked, key=lambda n: -cosines[n])[:4]
        scores = {n: cosines[n] for n in order[:6]} | {n: cosines[n] * kept for n in by_link}
        recall = mem.read(vector=query, k=10)
        assert len(recall) == 10
        assert {hit.id: hit.rank_score for hit in recall} == {
            f"n{n}": pytest.approx(max(0.0, score)) for n, score in scores.items()
        }
        assert [hit.rank_score for hit in recall] == sorted(
            (hit.rank_score for hit in recall), reverse=True
        )
        assert [hit.score for hit in recall] == sorted((h.score for h in recall), reverse=True)
        came = [hit for hit in recall if hit.source == "association"]
        assert {hit.id for hit in came} == {f"n{n}" for n in by_link}
        for hit in came:
            (step,) = hit.path
            assert (step.layer, step.target, step.weight, step.written) == ("note", hit.id, kept, 0)
            assert int(step.source[1:]) in seeds & joined[int(hit.id[1:])]
            assert hit.parts == {"association": hit.rank_score}
        places += len(came)
    assert places == 400


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 30])
def test_a_third_of_the_places_is_for_associations(clock: Clock, k: int) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    for number in range(60):
        put(mem, f"n{number:02}", [100, number])
    for number in range(30, 60):
        mem.link("n00", f"n{number}", 0.9)
    recall = mem.read(vector=[1, 0], k=k)
    share = min(math.ceil(k / 3), k - 1)
    assert [hit.source for hit in recall].count("association") == share
    assert [hit.id for hit in recall if hit.source == "semantic"] == [
        f"n{number:02}" for number in range(k - share)
    ]


def test_places_that_no_association_takes_are_for_others(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    for number in range(20):
        put(mem, f"n{number:02}", [100, number])
    mem.link("n00", "n15", 0.9)
    assert [hit.source for hit in mem.read(vector=[1, 0], k=9)].count("association") == 1
    put(mem, "far")
    mem.link("n01", "far", 0.3)  # inclusive
    found = {hit.id: hit for hit in mem.read(vector=[1, 0], k=9)}
    assert found["far"].rank_score == pytest.approx(0.1 * on_grid(0.3))
    assert found["far"].similarity is None
    mem.link("n01", "far", -(2**-20))
    assert "far" not in ids(mem.read(vector=[1, 0], k=9))
    few = mem.read(vector=[1, 0], k=3, domain="none")
    assert (few.hits, bool(few.reason)) == ([], True)


def test_walks_multiply_weights_and_take_the_best_path(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    put(mem, "a", [1, 0])
    for note in "bcdz":
        put(mem, note)
    for pair, weight in {"ab": 0.75, "bc": 0.5, "cd": 0.5, "az": 0.5, "zc": 0.5}.items():
        mem.link(*pair, weight)
    for hops, want in ((1, {"b": 0.75, "z": 0.5}), (2, {"c": 0.375}), (3, {"d": 0.1875})):
        found = {hit.id: hit for hit in mem.read(vector=[1, 0], k=20, hops=hops)}
        assert set(found) == {"a", *"bz", *("c" if hops > 1 else ""), *("d" if hops > 2 else "")}
        for note, strength in want.items():
            assert found[note].rank_score == pytest.approx(0.1 * strength)
            assert math.prod(step.weight for step in found[note].path) == strength
    assert [(step.source, step.target) for step in found["d"].path] == [
        *map(tuple, ("ab", "bc", "cd"))
    ]
    clock.advance(days=90)  # 0.75 is 0.276 by now
    assert ids(mem.read(vector=[1, 0], k=20, hops=3)) == ["a"]
    mem.configure(note_threshold=0.2)
    assert ids(mem.read(vector=[1, 0], k=20, hops=1)) == ["a", "b"]


def test_concepts_and_notes_lead_on_side_by_side(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    put(mem, "near", [1, 0])
    put(mem, "asked", concepts=["tea"])
    put(mem, "linked", concepts=["cup"])
    put(mem, "joined")
    mem.link("tea", "cup", 3.0)
    mem.link("near", "joined", 0.5)
    mem.link("asked", "joined", 0.75)
    found = {hit.id: hit for hit in mem.read(vector=[1, 0], concepts=["tea"])}
    assert {note: hit.source for note, hit in found.items()} == {
        "near": "semantic",
        "asked": "concept",
        "linked": "association",
        "joined": "association",
    }
    assert found["linked"].via == ["cup"]
    assert [step.layer for step in found["linked"].path] == ["concept", "carries"]
    assert found["linked"].rank_score == pytest.approx(0.1 * 3 / 4)
    assert [(s.source, s.target, s.layer) for s in found["joined"].path] == [
        ("tea", "asked", "carries"),
        ("asked", "joined", "note"),
    ]
    assert found["joined"].via == []


def test_a_diverse_answer_says_truly_what_brought_each_note(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    for number in range(30):
        concepts = ["same"] if number < 8 else [f"c{number}"]
        put(mem, f"n{number:02}", [100, number], concepts=concepts)
    hits = mem.read(vector=[1, 0], k=4, diversity=0.9).hits
    assert [hit.id for hit in hits] == ["n00", "n08", "n09", "n10"]
    assert {hit.source for hit in hits} == {"semantic"}  # no link brought any
    mem.link("n00", "n25", 0.9)
    mem.link("n00", "n08", 0.9)
    hits = mem.read(vector=[1, 0], k=4, diversity=0.9).hits
    assert {hit.id: hit.source for hit in hits} == {
        "n00": "semantic",
        "n08": "semantic",
        "n09": "semantic",
        "n25": "association",
    }
    assert {hit.id: list(hit.parts) for hit in hits}["n08"] == ["direct"]
    assert [step.target for hit in hits for step in hit.path] == ["n25"]
    mem.unlink("n00", "n25")
    assert len(mem.read(vector=[1, 0], k=4, diversity=0.9)) == 4  # n08 came directly
    mem.read(vector=[1, 0], k=4, diversity=0.9, reinforce=True)
    assert mem.note_links.weight("n08", "n09") == on_grid(0.1)


# -- L57: the filters, at every stage --------------------------------------------------------------

FILTERS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"domain": "in"}, {"domain": "in"}, {"domain": "out"}),
    ({"where": {"n": {"in": [1]}}}, {"metadata": {"n": 1}}, {"metadata": {"n": 2}}),
    ({"since": "2026-02-01"}, {"created_at": "2026-03-01"}, {"created_at": "2026-01-01"}),
    ({"until": "2026-02-01"}, {"created_at": "2026-01-01"}, {"created_at": "2026-03-01"}),
    (
        {"domain": ["in", "x"], "where": {"n": 1}},
        {"domain": "in", "metadata": {"n": 1}},
        {"domain": "in"},
    ),
]


@pytest.mark.parametrize(("how", "inside", "outside"), FILTERS, ids=lambda one: str(one)[:30])
@pytest.mark.parametrize("indexed", [False, True])
def test_l57_every_stage_obeys_the_filters(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    how: dict[str, Any],
    inside: dict[str, Any],
    outside: dict[str, Any],
    indexed: bool,
) -> None:
    if indexed:
        shrink("ivf", monkeypatch.setattr, monkeypatch.setitem)
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    ask = clustered(1)[0]
    for note in ("seed", "far"):  # nearest of all
        put(mem, note, ask, **inside)
    put(mem, "barred", ask, **outside)
    for note in ("a", "b", "c", "d"):
        put(mem, note, **(outside if note == "b" else inside), concepts=["own " + note])
    rest = [
        {"id": f"r{n}", "text": "t", "concepts": [], "vector": vector}
        | (inside if n % 3 else outside)
        for n, vector in enumerate(clustered(700 if indexed else 20, seed=5))
    ]
    mem.write_batch(rest)
    mem.link("barred", "d", 0.9)
    for pair in (("seed", "a"), ("a", "b"), ("b", "c")):
        mem.link(*pair, 0.9)
    assert {"a", "d"} <= set(ids(mem.read(vector=ask, k=10)))
    assert {"a", "b"} <= set(ids(mem.read(vector=ask, k=10, hops=2)))
    assert {"a", "b", "c"} <= set(ids(mem.read(vector=ask, k=12, hops=3)))
    good = {"seed", "far", "a", "c", "d"} | {f"r{n}" for n in range(len(rest)) if n % 3}
    for hops in (1, 2, 3):
        recall = mem.read(vector=ask, k=10, hops=hops, **how)
        assert len(recall) == 10
        assert set(ids(recall)) <= good
        assert ids(recall)[:2] == ["seed", "far"]
        # b is no step to c, and what is barred is no seed for d
        assert [hit.id for hit in recall if hit.source == "association"] == ["a"]
    mem.link("own a", "own b", 5.0)
    mem.link("own b", "own c", 5.0)
    recall = mem.read(concepts=["own a"], hops=2, **how)
    assert set(ids(recall)) == {"a", "seed", "c"}  # concepts lead on; only notes are filtered
    everything = mem.read(vector=ask, k=len(mem), hops=3, **how)
    assert set(ids(everything)) == good - {"c", "d"}


def test_l57_forgotten_and_superseded_notes_are_no_steps(path: Path, clock: Clock) -> None:
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        put(mem, "seed", [1, 0])
        for note in ("old", "x", "gone", "y"):
            put(mem, note)
        for pair in (("seed", "old"), ("old", "x"), ("seed", "gone"), ("gone", "y")):
            mem.link(*pair, 0.9)
        assert set(ids(mem.read(vector=[1, 0], hops=2))) == {"seed", "old", "x", "gone", "y"}
        mem.forget(["gone"])
        put(mem, "new", [0, 1], supersedes=["old"])
    for _ in range(2):
        with fa.open(path, clock=clock) as mem:
            assert set(ids(mem.read(vector=[1, 0], hops=3))) == {"seed", "new"}
            whole = mem.read(vector=[1, 0], hops=2, include_superseded=True)
            assert set(ids(whole)) == {"seed", "new", "old", "x"}
            mem.snapshot()


def test_l57_cold_notes_are_steps_and_obey_the_filters(clock: Clock) -> None:
    mem = fa.Memory(settings=COGNITIVE, clock=clock)
    for note, domain in (("cold", "in"), ("other", "out")):
        put(mem, note, [1, 0], domain=domain)
    clock.advance(days=100)
    assert mem.tick().updated == 2
    for note in ("seed", "end", "last"):
        put(mem, note, [1, 0] if note == "seed" else None, domain="in")
    for pair in (("seed", "cold"), ("cold", "end"), ("seed", "other"), ("other", "last")):
        mem.link(*pair, 0.9)
    assert set(ids(mem.read(vector=[1, 0], hops=2))) == {"seed", "cold", "other", "end", "last"}
    recall = mem.read(vector=[1, 0], hops=2, domain="in")
    assert set(ids(recall)) == {"seed", "cold", "end"}
    mem.read(vector=[1, 0], hops=2, domain="in", reinforce=True)
    assert (mem.get("cold").tier, mem.get("other").tier) == ("hot", "cold")


# -- supersession ----------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [COUNTS, COGNITIVE], ids=["counts", "cognitive"])
def test_a_chain_of_superseded_notes_stays_readable(
    path: Path, clock: Clock, settings: Any
) -> None:
    with fa.open(path, settings=settings, clock=clock) as mem:
        put(mem, "v1", [1, 0])
        put(mem, "v2", [1, 0.1], supersedes=["v1"])
        put(mem, "other", [0, 1])
        report = mem.write_batch(
            [
                {
                    "id": "v3",
                    "text": "t",
                    "concepts": [],
                    "vector": [1, 0.2],
                    "supersedes": ["v2", "no"],
                }
            ]
        )
        assert report.missing == ["no"]
        mem.snapshot()
    for again in range(2):
        with fa.open(path, clock=clock) as mem:
            assert ids(mem.read(vector=[1, 0])) == ["v3", "other"]
            assert ids(mem.read(vector=[1, 0], k=1)) == ["v3"]
            whole = mem.read(vector=[1, 0], include_superseded=True)
            assert ids(whole) == ["v1", "v2", "v3", "other"]
            assert [mem.get(f"v{n}").supersedes for n in (1, 2, 3)] == [[], ["v1"], ["v2"]]
            assert [mem.get(f"v{n}").superseded_by for n in (1, 2, 3)] == [["v2"], ["v3"], []]
            assert mem.get("v1").vector.tolist() == [1, 0]
            assert mem.stats()["superseded"] == 2
            if again:
                mem.forget(["v3"])
                assert ids(mem.read(vector=[1, 0])) == ["v2", "other"]
                mem.forget(["v2"])
                assert ids(mem.read(vector=[1, 0])) == ["v1", "other"]


# -- another process -------------------------------------------------------------------------------


def test_l42_another_process_sees_note_links_at_once(
    path: Path, clock: Clock, worker: Worker
) -> None:
    with fa.open(path, settings=COGNITIVE, clock=clock) as mem:
        assert mem.read(vector=[1, 0]).hits == []
        for number in range(8):
            clock.advance(days=1)
            now, note = clock.stamp, f"n{number}"
            fields = {"id": note, "concepts": [], "vector": [1, number], "session": "s"}
            worker.ask(path, now, "write", f"text {number}", **fields)
            assert mem.get(note).vector.tolist() == [1, number]
            assert mem.read(vector=[1, number], k=1)[0].id == note
            assert worker.ask(path, now, "note_links") == note_links(mem)
            assert worker.ask(path, now, "read", vector=[1, 2], hops=2, k=4) == plain_recall(
                mem.read(vector=[1, 2], hops=2, k=4)
            )
        worker.ask(path, clock.stamp, "read", vector=[1, 0], reinforce=True, session="s")
        assert mem.get("n0").accesses == 1
        worker.ask(path, clock.stamp, "link", "n0", "n7", 0.9)
        assert mem.note_links.weight("n0", "n7") >= 0.9
        worker.ask(path, clock.stamp, "snapshot")
        worker.ask(path, clock.stamp, "forget", ["n7"])
        assert mem.note_links.weight("n0", "n7") == 0.0
        later = clock.stamp + timedelta(days=900) // timedelta(microseconds=1)
        worker.ask(path, later, "tick")
        assert mem.stats()["cold"] == 7
    worker.ask(path, clock.stamp, "close")
