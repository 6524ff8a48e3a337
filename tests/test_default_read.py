"""What a read does where nobody says how notes are ranked."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastassoc as fa
from fastassoc.errors import InvalidInput

WORKED: list[dict[str, Any]] = [  # texts that do not say what the notes are about
    {"id": "a", "text": "The gateway gave up.", "concepts": ["timeout", "deploy"]},
    {"id": "b", "text": "Doing it again got past it.", "concepts": ["timeout", "retry"]},
    {"id": "c", "text": "The second attempt was enough.", "concepts": ["timeout", "retry"]},
    {"id": "d", "text": "Storms want patience.", "concepts": ["retry", "backoff"]},
    {"id": "e", "text": "Some noise spreads them.", "concepts": ["backoff", "jitter"]},
    {"id": "f", "text": "Stale files break it.", "concepts": ["cache", "deploy"]},
]
ASKED = "why does the timeout come back?"


def worked(**settings: Any) -> fa.Memory:
    mem = fa.Memory(settings=fa.Settings(**settings))
    mem.write_batch(WORKED)
    return mem


def ids(recall: Any) -> list[str]:
    return [hit.id for hit in recall]


# -- which rank -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "rank"),
    [
        ({"concepts": ["timeout"]}, "counts"),
        ({"concepts": ["never heard of"]}, "counts"),
        ({"fingerprint": "f"}, "counts"),
        ({}, "counts"),
        ({"query": ASKED}, "bridge"),
        ({"query": "zzz"}, "bridge"),
        ({"query": ""}, "bridge"),
        ({"query": ASKED, "concepts": ["retry"]}, "bridge"),
        ({"vector": [1.0, 0.0]}, "bridge"),
        ({"vector": [1.0, 0.0], "concepts": ["timeout"]}, "bridge"),
        ({"like": "a"}, "bridge"),
        ({"like": "a", "concepts": ["timeout"]}, "bridge"),
    ],
)
def test_the_rank_by_what_is_asked_with(asked: dict[str, Any], rank: str) -> None:
    mem = worked()
    assert mem.read(**asked).rank == rank
    assert mem.read_batch([asked])[0].rank == rank
    for other in ("counts", "flat", "ppr", "bridge", "retention"):
        assert mem.read(**asked, rank=other).rank == other
        assert worked(rank=other).read(**asked).rank == other
    cognitive = fa.Memory(settings=fa.Settings.cognitive())
    cognitive.write_batch(WORKED)
    assert cognitive.read(**asked).rank == "retention"


def test_a_rank_that_was_configured_is_the_default(path: Path) -> None:
    with fa.open(path) as mem:
        mem.write_batch(WORKED)
        mem.configure(rank="flat")
        assert mem.read(ASKED).rank == mem.read(concepts=["timeout"]).rank == "flat"
    with fa.open(path) as mem:
        assert mem.read(ASKED).rank == "flat"
        mem.configure(rank=None)
        assert mem.read(ASKED).rank == "bridge"


class Counting:
    """An embedder that counts what it is asked."""

    name, dim = "counting", 2

    def __init__(self) -> None:
        self.asked = 0

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.asked += len(texts)
        return [[1.0, float(len(text) % 7)] for text in texts]


def test_counts_need_no_vector_whoever_asks_for_them() -> None:
    embedder = Counting()
    mem = fa.Memory(settings=fa.Settings(rank="counts"), embedder=embedder)
    mem.write_batch(WORKED)
    before = embedder.asked
    assert mem.read(ASKED).rank == "counts"
    assert embedder.asked == before
    assert mem.read(ASKED, rank="bridge")[0].similarity is not None
    assert embedder.asked == before + 1


# -- notes that carry a concept without saying it -------------------------------------------------


def test_a_text_finds_notes_by_the_concepts_that_they_were_given() -> None:
    recall = worked().read(ASKED)
    assert recall.query_concepts == ["timeout"]
    assert [(hit.id, hit.source) for hit in recall] == [
        *((note, "concept") for note in "abc"),  # equal but for the pin: as written
        ("f", "association"),  # over deploy, which fewer notes carry than retry
        ("d", "association"),
    ]
    assert [hit.parts.get("concept") for hit in recall] == [0.5, 0.5, 0.5, None, None]
    assert [hit.via for hit in recall] == [[], [], [], ["deploy"], ["retry"]]
    steps = [(step.source, step.target, step.layer) for step in recall[4].path]
    assert steps == [
        ("timeout", "b", "carries"), ("b", "retry", "carries"), ("retry", "d", "carries")
    ]  # fmt: skip
    assert set(recall.expanded_concepts) == {"retry", "deploy"}
    assert "e" not in ids(recall)  # two concepts away


def test_a_variant_of_the_concept_finds_them_too() -> None:
    recall = worked().read("why do the timeouts come back?")
    assert recall.variants == {"timeouts": ["timeout"]}
    assert ids(recall) == list("abcfd")


def test_a_concept_that_a_note_was_given_is_one_more_word() -> None:
    """It weighs its idf, whatever the text says: a note that says and carries it comes first."""
    mem = fa.Memory(settings=fa.Settings(extract=False))
    mem.write("red blue timeout", id="says")
    mem.write("green grey brown", id="carries", concepts=["timeout"])
    mem.write("pink white black", id="neither")
    mem.write("yellow timeout violet", id="both", concepts=["timeout"])
    found = {hit.id: hit for hit in mem.read("timeout")}
    assert set(found) == {"says", "carries", "both"}
    assert found["both"].parts["text"] == found["says"].parts["text"]
    assert found["both"].parts["concept"] == found["carries"].parts["concept"]
    assert found["both"].parts["text"] + found["both"].parts["concept"] == pytest.approx(0.5)
    # three notes mention it and two texts say it, so that the name weighs less than the word
    said, mentioned = math.log(1 + 2.5 / 2.5), math.log(1 + 1.5 / 3.5)
    parts = found["both"].parts
    assert parts["concept"] / parts["text"] == pytest.approx(mentioned / said)


def test_a_name_that_no_text_says_explains_the_question() -> None:
    mem = fa.Memory()
    mem.write("The gateway sleeps at night.", id="half", concepts=["gateway timeout"])
    mem.write("It was slow, and a timeout came.", id="word")
    mem.write("Nothing else.", id="none", concepts=["snmp trap"])
    found = {hit.id: hit.parts for hit in mem.read("the gateway timeout")}
    assert set(found) == {"half", "word"}
    assert set(found["half"]) >= {"text", "concept"}
    assert "concept" not in found["word"]
    alone = mem.read("an snmp trap")
    assert ids(alone) == ["none"]
    assert alone[0].score > 0.3


def test_a_concept_on_many_notes_fills_the_page() -> None:
    mem = fa.Memory()
    mem.write_batch(
        {"id": f"n{n}", "text": f"entry {n}", "concepts": ["bug"], "domain": f"d{n % 3}"}
        for n in range(300)
    )
    mem.write_batch({"id": f"o{n}", "text": "another"} for n in range(50))
    assert ids(mem.read("which bug?", k=7)) == [f"n{n}" for n in range(7)]
    assert len(mem.read("which bug?", k=1000)) == 300
    assert ids(mem.read("which bug?", k=3, domain="d2")) == ["n2", "n5", "n8"]
    assert ids(mem.read("which bug? entry 217", k=1)) == ["n217"]
    mem.forget([f"n{n}" for n in range(5)])
    assert ids(mem.read("which bug?", k=2)) == ["n5", "n6"]


def test_a_mixed_read_bridges_concepts_and_vectors() -> None:
    mem = worked()
    mem.write("Near.", id="near", vector=[1.0, 0.0])
    mem.write("Far.", id="far", vector=[-1.0, 0.1], concepts=["retry"])
    recall = mem.read(concepts=["timeout"], vector=[1.0, 0.0])
    assert recall.rank == "bridge"
    assert ids(recall)[:4] == ["a", "b", "c", "near"]
    assert {hit.source for hit in recall[:4]} == {"concept", "semantic"}
    assert {"d", "far"} <= {hit.id for hit in recall if hit.via == ["retry"]}
    # concepts beside a text stand by themselves: no word of theirs is asked
    recall = mem.read("the gateway", concepts=["jitter"])
    assert {"a", "e"} == set(ids(recall)[:2])
    assert recall.query_concepts == ["jitter"]


# -- what every read keeps, by the default rank ---------------------------------------------------


def test_filters_apply_before_every_step() -> None:
    mem = worked()
    mem.update("c", metadata={"team": "net"})
    mem.update("d", metadata={"team": "net"})
    recall = mem.read(ASKED, where={"team": "net"})
    assert [(hit.id, hit.source) for hit in recall] == [("c", "concept"), ("d", "association")]
    assert mem.read(ASKED, domain="nowhere").reason == "no note passes the filters"
    for hit in mem.read(ASKED, where={"team": "net"}):
        assert all(step.source not in "abef" for step in hit.path)  # no way over what is left out


def test_old_versions_come_only_when_asked_for() -> None:
    mem = worked()
    mem.write("It gave up, again.", id="new", concepts=["timeout"], supersedes=["a"])
    assert "a" not in ids(mem.read(ASKED))
    assert "new" in ids(mem.read(ASKED))
    assert {"a", "new"} <= set(ids(mem.read(ASKED, include_superseded=True)))


def test_exact_notes_come_first_and_count() -> None:
    mem = worked()
    mem.write("nothing to do with it", id="x", fingerprint="mark")
    recall = mem.read(ASKED, fingerprint="mark", k=3)
    assert [(hit.id, hit.source) for hit in recall] == [
        ("x", "exact"), ("a", "concept"), ("b", "concept")
    ]  # fmt: skip
    assert recall[0].score == 1.0
    assert recall[0].rank_score > recall[1].rank_score
    recall = mem.read("Storms want patience.", k=1)
    assert (recall[0].id, recall[0].source) == ("d", "exact")
    assert ids(mem.read(fingerprint="mark")) == ["x"]


def test_scores_and_orders() -> None:
    mem = worked()
    recall = mem.read("timeout")
    assert [hit.score for hit in recall] == sorted((hit.score for hit in recall), reverse=True)
    assert all(0.0 < hit.score < 1.0 for hit in recall)
    least = recall[3].score
    kept = mem.read("timeout", min_score=least)
    assert ids(kept) == ids(recall)[: len(kept)]
    assert kept[-1].score >= least > recall[-1].score
    assert "min_score" in str(mem.read("timeout", min_score=1.0).reason)
    newest = mem.read("timeout", order_by="recency")
    assert sorted(ids(newest)) == sorted(ids(recall))
    assert ids(newest) == ids(recall)[::-1] or newest[0].created_at >= newest[-1].created_at
    spread = mem.read("timeout", k=3, diversity=0.9)
    assert ids(spread) != ids(recall)[:3]
    assert all(sum(hit.parts.values()) == pytest.approx(hit.rank_score) for hit in spread)


def test_l56_a_question_about_something_else_scores_low_in_absolute_terms() -> None:
    rng = random.Random(1)
    words = [f"w{n}" for n in range(400)]
    mem = fa.Memory()
    mem.write_batch({"text": " ".join(rng.choices(words[:200], k=12))} for _ in range(500))
    for note in mem.recent(20):
        assert mem.read(" ".join(note.text.split()[:6]))[0].score > 0.25
        other = " ".join(rng.choices(words[200:], k=5))
        assert all(hit.score < 0.1 for hit in mem.read(f"{other} {note.text.split()[0]}"))
        assert not mem.read(other)


def test_a_short_page_means_that_nothing_else_matches() -> None:
    mem = worked()
    everything = ids(mem.read(ASKED, k=100))
    for k in range(1, len(everything) + 2):
        recall = mem.read(ASKED, k=k)
        assert len(recall) == min(k, len(everything))


@pytest.mark.parametrize("asked", [{"query": ""}, {"query": "  "}, {}])
def test_an_empty_query_says_so(asked: dict[str, Any]) -> None:
    recall = worked().read(**asked)
    assert recall.hits == []
    assert recall.reason


def test_stores_with_little_in_them() -> None:
    empty = fa.Memory()
    for asked in ({"query": "x"}, {"vector": [1.0]}, {"query": "x", "vector": [1.0]}):
        recall = empty.read(**asked)
        assert (recall.hits, recall.reason) == ([], "the store is empty")
    signs = fa.Memory()  # texts without a word
    signs.write("!!!", id="a", concepts=["tea"])
    signs.write("???", id="b", vector=[1.0, 0.0])
    assert ids(signs.read("tea")) == ["a"]
    assert ids(signs.read(vector=[1.0, 0.0])) == ["b"]
    assert signs.read("coffee").reason == "the store knows no concept and no word of the query"
    assert signs.read(like="b").hits == []
    texts = fa.Memory(settings=fa.Settings(extract=False))
    texts.write("plain words", id="a")
    assert ids(texts.read("some words")) == ["a"]
    assert texts.read(vector=[1.0]).reason == "no note that passes the filters has a vector"


def test_a_vector_that_no_note_can_answer_hides_nothing() -> None:
    """A read whose vector finds no vector explains as much as its words and concepts do."""
    mem = worked()
    alone = mem.read("timeout")
    for beside in (mem.read("timeout", vector=[1.0, 0.0]),
                   mem.read(concepts=["timeout"], vector=[1.0, 0.0])):  # fmt: skip
        assert ids(beside) == ids(alone)
        assert [hit.score for hit in beside] == pytest.approx([hit.score for hit in alone])
    mem.write("Elsewhere.", id="v", vector=[1.0, 0.0], domain="other")
    beside = mem.read("timeout", vector=[1.0, 0.0], domain="general")
    assert ids(beside) == ids(alone)
    assert beside[0].score > 0.2


def test_the_nearest_are_answers_on_whichever_side() -> None:
    """A page by vector is full where notes have vectors: those that point elsewhere come last."""
    mem = fa.Memory()
    for number, vector in enumerate([[-1, 0.1], [1, 0], [0, 1], [-1, -1], [1, 1]]):
        mem.write("t", id=f"n{number}", vector=vector, concepts=[f"c{number}"])
    recall = mem.read(vector=[1, 0])
    assert ids(recall) == ["n1", "n4", "n2", "n3", "n0"]
    assert [hit.source for hit in recall] == ["semantic"] * 5
    assert [hit.rank_score > 0 for hit in recall] == [True, True, False, False, False]
    assert ids(mem.read(vector=[1, 0], k=4)) == ids(recall)[:4]
    assert ids(mem.read(vector=[1, 0], min_score=0.001)) == ids(recall)[:2]
    assert ids(mem.read(like="n1")) == ids(recall)[1:]


@pytest.mark.parametrize("rank", ["flat", "bridge", "ppr", "retention"])
def test_far_notes_by_nearness_and_equal_ones_by_order_of_writing(rank: str) -> None:
    """The rank score alone orders an answer, also where no note points the way of the query."""
    mem = fa.Memory()
    for number, vector in enumerate([[-1, 0], [-1, -0.1], [-1, 0.5], [-2, 1], [-1, 0]]):
        mem.write("t", id=f"n{number}", vector=vector)
    recall = mem.read(vector=[1, 0], rank=rank)
    assert ids(recall) == ["n2", "n3", "n1", "n0", "n4"]
    scores = [hit.rank_score for hit in recall]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3  # n2 and n3 lie alike, n0 and n4 too
    assert all(sum(hit.parts.values()) == hit.rank_score < 0.0 == hit.score for hit in recall)
    assert {hit.source for hit in recall} == {"semantic"}
    for k in (1, 2, 4):
        assert ids(mem.read(vector=[1, 0], rank=rank, k=k)) == ids(recall)[:k]
        assert len(mem.read(vector=[1, 0], rank=rank, k=k, diversity=0.5)) == k


LEFT_OVER = [
    ([("f", "tower tower built parser", [], []), *((f"n{i}", "tower", [], []) for i in range(8)),
      ("s", "tower here", [], ["Oslo"])], "tower parser built Oslo", "bridge"),
    ([("a", "tower war jazz jazz", ["Oslo"], []), ("b", "war king king war", [], []),
      ("c", "war", ["Rhine"], [])], "jazz king Rhine", "ppr"),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "query", "rank"), LEFT_OVER)
def test_no_association_without_a_way(notes: list[Any], query: str, rank: str) -> None:
    """What is found by itself is no association, however others are lifted above it."""
    mem = fa.Memory(settings=fa.Settings(extract=False))
    for note, text, concepts, subjects in notes:
        mem.write(text, id=note, concepts=concepts, subjects=subjects)
    for k in (1, 2, 5):
        for hit in mem.read(query, rank=rank, k=k):
            assert hit.source != "association" or hit.path


some_words = st.sampled_from(["tower", "war", "jazz", "king", "built"])
some_names = st.sampled_from(["Oslo", "Rhine", "Thor"])
some_note = st.tuples(
    st.lists(some_words, min_size=1, max_size=4),
    st.lists(some_names, max_size=2),
    st.lists(some_names, max_size=1),
)


@given(
    st.lists(some_note, min_size=3, max_size=14),
    st.lists(some_words | some_names, min_size=1, max_size=4),
    st.integers(1, 5),
)
@settings(max_examples=100, deadline=None)
def test_every_association_tells_its_way(notes: list[Any], query: list[str], k: int) -> None:
    mem = fa.Memory(settings=fa.Settings(extract=False))
    mem.write_batch(
        {"text": " ".join(words), "concepts": concepts, "subjects": subjects}
        for words, concepts, subjects in notes
    )
    for rank in ("bridge", "ppr", "counts", "retention"):
        for hit in mem.read(" ".join(query), rank=rank, k=k):
            layers = {step.layer for step in hit.path}
            linked = hit.source == "association"
            assert bool(hit.path) or not linked
            assert not linked or hit.via or layers - {"carries", "says"} or len(hit.path) > 1


def test_a_read_changes_nothing() -> None:
    mem = worked()
    first, position = mem.read(ASKED), mem.position
    assert mem.read(ASKED).to_dicts() == first.to_dicts()
    assert mem.position == position


@pytest.mark.parametrize("rank", ["bridge", "ppr", "retention"])
def test_a_way_over_notes_begins_at_what_the_query_named(rank: str) -> None:
    mem = fa.Memory(settings=fa.Settings(extract=False))
    mem.write("anna here", id="n0")
    mem.write("lamp", id="n1")
    mem.write("timeout here", id="c0", concepts=["cache"])
    mem.write("elsewhere", id="c1", concepts=["cache"])
    mem.link("n0", "n1", 0.8)
    for query, wanted in {
        "anna": [("anna", "n0", "says"), ("n0", "n1", "note")],
        "timeout": [("timeout", "c0", "says"), ("c0", "cache", "carries"),
                    ("cache", "c1", "carries")],
    }.items():  # fmt: skip
        hits = {hit.id: hit for hit in mem.read(query, rank=rank)}
        if rank == "retention" and query == "timeout":
            continue  # it follows links, no concepts of notes
        hit = hits[wanted[-1][1]]
        assert [(step.source, step.target, step.layer) for step in hit.path] == wanted


def test_two_notes_that_are_linked_tell_no_circle() -> None:
    mem = fa.Memory(settings=fa.Settings(extract=False))
    mem.write("lamp house", id="n0")
    mem.write("anna 1999", id="n1", concepts=["of"])
    mem.write("anna lamp", id="n2", concepts=["of"])
    mem.link("n0", "n1", 0.8)
    ways = {hit.id: hit.path for hit in mem.read("1999 anna")}
    for way in ways.values():
        first = [step.source for step in way][:1]
        assert first == [] or first[0] in ("anna", "1999", "of")


def test_a_concept_on_every_note_makes_no_note_rich() -> None:
    """Words weigh otherwise where a titled note has four concepts: a hub is none of them."""
    found = []
    for hub in ([], ["everything"]):
        mem = fa.Memory(settings=fa.Settings(extract=False))
        rows = [
            ("a", "Zorro wrote the zebra parser in a cellar.", ["c1", "c2"], ["Zorro"]),
            ("b", "The cellar lies under Oslo.", ["c9"], ["Cellar X"]),
            ("d", "Her desk.", ["c7", "k"], ["D"]),
            *((f"f{i}", f"filler text {i}", [f"f{i}"], [f"S{i}"]) for i in range(40)),
        ]
        for note, text, concepts, subjects in rows:
            mem.write(text, id=note, concepts=[*concepts, *hub], subjects=subjects)
        found.append([(hit.id, hit.rank_score) for hit in mem.read("zebra parser")])
    assert found[0] == found[1]


def test_a_question_of_words_is_answered_whatever_vectors_count() -> None:
    mem = fa.Memory()
    mem.write("one two zebra", id="a")
    for share in (0.0, 1.0):
        with pytest.raises(InvalidInput, match=r"bridge_flat_share|flat_share"):
            mem.configure(bridge_flat_share=share)
    mem.configure(bridge_flat_share=0.99)
    assert ids(mem.read("zebra")) == ["a"]
