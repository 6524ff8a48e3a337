"""One contract for every way of having a memory: fresh in memory, a fresh store, a store opened
again after each change, and a store that another process writes while this one reads."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import Subject
from naive_association import walk
from worker import to_stamp

NOTES = [
    ("n1", "Deploys time out when the cache is cold.", ["timeout", "deploy"]),
    ("n2", "A timeout is retried three times.", ["timeout", "retry"]),
    ("n3", "Retry after a timeout, then give up.", ["timeout", "retry"]),
    ("n4", "Backoff of two seconds between retries.", ["retry", "backoff"]),
    ("n5", "Jitter spreads the backoff.", ["backoff", "jitter"]),
    ("n6", "The cache is warmed at deploy.", ["cache", "deploy"]),
]
BEFORE = [("n3", 12, []), ("n2", 12, []), ("n1", 10, []), ("n4", 2, ["retry"])]
AFTER = [
    ("n3", 14, []),
    ("n2", 14, []),
    ("n1", 10, []),
    ("n4", 6, ["backoff", "retry"]),
    ("n5", 2, ["backoff"]),
]
DAY = 86_400_000_000


def fill(subject: Subject) -> None:
    for note_id, text, concepts in NOTES:
        subject.do("write", text, id=note_id, concepts=concepts)


def teach(subject: Subject, times: int = 2) -> None:
    for _ in range(times):
        subject.do("feedback", asked=["timeout"], used_concepts=["retry", "backoff"], outcome=1.0)


def shape(recall: dict[str, Any]) -> list[tuple[str, float, list[str]]]:
    return [(hit["id"], hit["rank_score"], hit["via"]) for hit in recall["hits"]]


def ids(recall: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in recall["hits"]]


def weights(subject: Subject) -> dict[str, float]:
    return {"-".join(key.split("\0")): row[0] for key, row in subject.ask("links").items()}


# -- reading, teaching -----------------------------------------------------------------------------


def test_the_worked_example(subject: Subject) -> None:
    fill(subject)
    recall = subject.ask("read", concepts=["timeout"])
    assert shape(recall) == BEFORE
    assert recall["expanded"] == {"retry": 2}
    assert recall["query_concepts"] == ["timeout"]
    assert [hit["source"] for hit in recall["hits"]] == ["concept"] * 3 + ["association"]
    teach(subject)
    recall = subject.ask("read", concepts=["timeout"])
    assert shape(recall) == AFTER
    assert recall["expanded"] == {"backoff": 2, "retry": 4}
    assert [step[:4] for step in recall["hits"][3]["path"] if step[2] == "concept"] == [
        ["timeout", "backoff", "concept", 2],
        ["timeout", "retry", "concept", 4],
    ]
    assert [step[:3] for step in recall["hits"][3]["path"] if step[2] != "concept"] == [
        ["backoff", "n4", "carries"],
        ["retry", "n4", "carries"],
    ]
    assert [step[4:] for step in recall["hits"][3]["path"] if step[2] == "concept"] == [
        [0, 2],
        [2, 2],
    ]
    control = subject.ask("control_read", concepts=["timeout"])
    assert shape(control) == BEFORE
    assert control["expanded"] == {"retry": 2}


def test_links_carry_their_whole_state(subject: Subject) -> None:
    fill(subject)
    written_at = subject.clock.stamp
    subject.clock.advance(days=1)
    teach(subject)
    links = subject.ask("links")
    assert links["retry\0timeout"] == [
        4,
        2,
        2,
        2,
        pytest.approx(0.51),
        written_at,
        written_at + DAY,
    ]
    assert links["backoff\0timeout"][:5] == [2, 0, 2, 0, pytest.approx(0.51)]
    assert links["backoff\0timeout"][5:] == [written_at + DAY] * 2
    assert links["backoff\0retry"] == [1, 1, 0, 1, 0, written_at, written_at]
    assert all(a < b for a, b in (key.split("\0") for key in links))
    assert subject.mem.links.weight("timeout", "retry") == 4
    assert subject.mem.links.weight("retry", "timeout") == 4
    assert subject.mem.links.weight("retry", "nowhere") == 0.0
    matrix = subject.mem.links.to_scipy()
    assert (matrix != matrix.T).nnz == 0
    assert matrix.sum() == 2 * sum(row[0] for row in links.values())


def test_a_hit_adds_up(subject: Subject) -> None:
    fill(subject)
    teach(subject)
    hits = list(subject.mem.read(concepts=["timeout"]))
    for hit in hits:
        assert sum(hit.parts.values()) == pytest.approx(hit.rank_score)
        assert 0 <= hit.score <= 1
        assert hit.path
        assert hit.path[0].source == "timeout"
        assert (hit.path[-1].layer, hit.path[-1].target) == ("carries", hit.id)
    for hit in hits[3:]:
        links = [step for step in hit.path if step.layer == "concept"]
        assert sum(step.weight for step in links) == hit.rank_score
        assert all(step.weight == step.written + step.taught for step in links)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    least = scores[2]
    kept = subject.mem.read(concepts=["timeout"], min_score=least)
    assert [hit.id for hit in kept] == [hit.id for hit in hits if hit.score >= least]


def test_a_note_beyond_the_first_k_of_the_direct_score_is_an_association(subject: Subject) -> None:
    subject.do("write", "b", id="b", concepts=["a"])
    subject.do("write", "c", id="c", concepts=["a"])
    subject.do("write", "a", id="a", concepts=["a", "z"])
    subject.do("link", "a", "z", 4.0)
    found = subject.ask("read", concepts=["a"], k=2)["hits"]
    assert [(h["id"], h["rank_score"], h["source"], h["via"]) for h in found] == [
        ("a", 15, "association", ["z"]),
        ("c", 10, "concept", []),
    ]


def test_equal_scores_come_by_text_backwards_then_by_the_order_of_writing(subject: Subject) -> None:
    rows = [(f"id{n}", text) for n, text in enumerate(["a", "é", "b", "a", "Z", "𝔘", "ￜ"])]
    subject.do("write_batch", [{"id": i, "text": t, "concepts": ["x"]} for i, t in rows])
    want = [i for i, _ in sorted(rows, key=lambda row: row[1], reverse=True)]
    assert ids(subject.ask("read", concepts=["x"])) == want
    assert want[-3:] == ["id0", "id3", "id4"]
    for k in range(1, 8):
        assert ids(subject.ask("read", concepts=["x"], k=k)) == want[:k]


def test_several_asked_concepts_and_the_largest_path(subject: Subject) -> None:
    subject.do("write", "both", id="both", concepts=["a", "b"])
    subject.do("write", "one", id="one", concepts=["a", "c"])
    subject.do("write", "far", id="far", concepts=["c", "d"])
    subject.do("link", "b", "c", 5.5)
    subject.do("link", "a", "c", 1.0)
    recall = subject.ask("read", concepts=["a", "b"])
    assert recall["expanded"] == {"c": 5.5}
    assert [(h["id"], h["rank_score"]) for h in recall["hits"]] == [
        ("both", 20),
        ("one", 15.5),
        ("far", 5.5),
    ]
    assert recall["hits"][2]["path"][0][:4] == ["b", "c", "concept", 5.5]


def test_hops_follow_the_weakest_link(subject: Subject) -> None:
    for a, b, weight in (("a", "b", 5.0), ("b", "c", 3.0), ("c", "d", 4.0), ("d", "e", 9.0)):
        subject.do("link", a, b, weight)
    for name in "bcde":
        subject.do("write", f"about {name}", id=name, concepts=[name])
    assert ids(subject.ask("read", concepts=["a"])) == ["b"]
    assert ids(subject.ask("read", concepts=["a"], hops=2)) == ["b", "c"]
    recall = subject.ask("read", concepts=["a"], hops=3)
    assert [(h["id"], h["rank_score"]) for h in recall["hits"]] == [("b", 5), ("d", 3), ("c", 3)]
    assert [step[:3] for step in recall["hits"][1]["path"]] == [
        ["a", "b", "concept"],
        ["b", "c", "concept"],
        ["c", "d", "concept"],
        ["d", "d", "carries"],
    ]


def test_a_link_just_below_the_threshold_is_not_followed(subject: Subject) -> None:
    subject.do("write", "there", id="there", concepts=["b"])
    subject.do("link", "a", "b", 2 - 2**-20)
    assert subject.ask("read", concepts=["a"])["hits"] == []
    subject.do("link", "a", "b", 2**-20)
    assert ids(subject.ask("read", concepts=["a"])) == ["there"]


def test_text_reads(subject: Subject) -> None:
    fill(subject)
    subject.do("write", "Penguins huddle against the wind.", id="p", concepts=[])
    assert ids(subject.ask("read", "penguins in the wind"))[0] == "p"
    exact = subject.ask("read", "Jitter spreads the backoff.")["hits"][0]
    assert (exact["id"], exact["source"], exact["score"]) == ("n5", "exact", 1)
    recall = subject.ask("read", "what about the timeout?")
    assert recall["query_concepts"] == ["timeout"]
    assert {"n1", "n2", "n3"} <= set(ids(recall))
    flat = subject.ask("read", "jitter", rank="flat")
    assert ids(flat)[0] == "n5"
    off = subject.ask("read", "quantum chromodynamics")
    assert off["hits"] == [] or off["hits"][0]["score"] < 0.1


def test_extraction_is_on_and_an_empty_list_means_none(subject: Subject) -> None:
    subject.do("write", "We met Ada Lovelace in London.", id="extracted")
    subject.do("write", "We met Grace Hopper in London.", id="none", concepts=[])
    assert "ada lovelace" in [
        name.casefold() for name in subject.ask("get", "extracted")["concepts"]
    ]
    assert subject.ask("get", "none")["concepts"] == []


def test_read_batch_is_the_same_reads(subject: Subject) -> None:
    fill(subject)
    asked: list[Any] = [{"concepts": ["timeout"]}, "backoff", {"concepts": ["cache"], "k": 1}]
    together = subject.mem.read_batch(asked, k=5)
    alone = [
        subject.mem.read(**{"k": 5, **(q if isinstance(q, dict) else {"query": q})}) for q in asked
    ]
    assert [[(h.id, h.rank_score, h.score) for h in r] for r in together] == [
        [(h.id, h.rank_score, h.score) for h in r] for r in alone
    ]


def test_a_recall_is_a_sequence(subject: Subject) -> None:
    fill(subject)
    recall = subject.mem.read(concepts=["timeout"])
    assert len(recall) == len(recall.hits) == 4
    assert [hit.id for hit in recall] == [hit.id for hit in recall.hits]
    assert recall[0] is recall.hits[0]
    assert recall[-1].id == "n4"
    assert [hit.id for hit in recall[1:3]] == ["n2", "n1"]
    assert [row["id"] for row in recall.to_dicts()] == ["n3", "n2", "n1", "n4"]
    assert recall.to_arrow().column("id").to_pylist() == ["n3", "n2", "n1", "n4"]
    assert "timeout" in recall.query_terms
    hit = recall[0]
    assert (hit.domain, hit.metadata, set(hit.concepts)) == ("general", {}, {"timeout", "retry"})
    assert hit.created_at == subject.clock()


def test_feedback_on_a_recall(subject: Subject) -> None:
    fill(subject)
    report = subject.do("feedback_on", read={"concepts": ["timeout"]}, used=["n4"], outcome=1.0)
    assert (report["links_created"], report["links_changed"]) == (1, 1)
    assert subject.mem.links.weight("timeout", "backoff") == 1
    assert subject.mem.links.weight("timeout", "retry") == 3
    assert subject.ask("get", "n4")["valence"] == pytest.approx(0.3)
    subject.do("feedback_on", read={"concepts": ["timeout"]}, used=["n4"], outcome=-1.0)
    assert subject.mem.links.weight("timeout", "backoff") == 0
    assert subject.ask("get", "n4")["valence"] == pytest.approx(0.3 + 0.3 * (-1 - 0.3))


def test_feedback_changes_each_pair_once_and_creates_nothing_by_blame(subject: Subject) -> None:
    asked, used = ["a", "b", "A"], ["b", "c", "a", "C"]
    subject.do("feedback", asked=asked, used_concepts=used, outcome=1.0)
    assert weights(subject) == {"a-b": 1, "a-c": 1, "b-c": 1}
    report = subject.do("feedback", asked=["a"], used_concepts=["new"], outcome=-1.0)
    assert (report["links_created"], report["links_changed"]) == (0, 0)
    assert "a-new" not in weights(subject)
    subject.do("feedback", asked=["a"], used_concepts=["c"], outcome=-0.25)
    assert weights(subject) == {"a-b": 1, "a-c": 0.75, "b-c": 1}


def test_changes_apply_in_order_each_with_its_clamp(subject: Subject) -> None:
    for outcome in (-1.0, 1.0):
        subject.do("feedback", asked=["a"], used_concepts=["b"], outcome=outcome)
    assert weights(subject) == {"a-b": 1}
    for outcome in (1.0, -1.0, -1.0, -1.0, 1.0):
        subject.do("feedback", asked=["a"], used_concepts=["b"], outcome=outcome)
    assert weights(subject) == {"a-b": 1}


def test_link_and_unlink(subject: Subject) -> None:
    fill(subject)
    subject.do("link", "timeout", "retry", 2.0)
    assert subject.ask("links")["retry\0timeout"][:4] == [4, 2, 2, 2]
    subject.do("unlink", "retry", "timeout")
    assert subject.ask("links")["retry\0timeout"][:4] == [0, 2, -2, 2]
    subject.do("link", "timeout", "backoff", 2.5)
    assert subject.mem.links.weight("timeout", "backoff") == 2.5
    subject.do("unlink", "timeout", "backoff")
    assert "backoff\0timeout" not in subject.ask("links")


def test_a_missing_rated_note_is_reported(subject: Subject) -> None:
    fill(subject)
    subject.do("forget", ["n5"])
    report = subject.do("feedback", asked=["timeout"], used=["n5", "n4"], outcome=1.0)
    assert report["missing"] == ["n5"]
    assert subject.mem.links.weight("timeout", "backoff") == 1


# -- writing ---------------------------------------------------------------------------------------


def test_notes_come_back_whole(subject: Subject) -> None:
    created = to_stamp(datetime(2020, 5, 17, 12, 30, 0, 123456, tzinfo=UTC))
    subject.do(
        "write",
        "Körper und Geist 🙂\n\twith a \u0000 inside",
        id="straße/1",
        concepts=["One", "two", "ONE"],
        subjects=["Three"],
        domain="Домен",
        created_at=created,
        metadata={"a": [1, 2.5, None, {"b": True}], "c": "ü"},
        session="s1",
        importance=0.75,
        category="semantic",
        fingerprint="f-1",
        external_ref="ref-1",
        author="someone",
    )
    note = subject.ask("get", "straße/1")
    assert note["text"] == "Körper und Geist 🙂\n\twith a \u0000 inside"
    assert note["concepts"] == ["One", "two", "Three"]
    assert (note["domain"], note["created_at"]) == ("Домен", created)
    assert note["metadata"] == {"a": [1, 2.5, None, {"b": True}], "c": "ü"}
    whole = subject.mem.get("straße/1")
    assert (whole.session, whole.importance, whole.category) == ("s1", 0.75, "semantic")
    assert (whole.fingerprint, whole.external_ref, whole.author) == ("f-1", "ref-1", "someone")
    assert subject.ask("read", fingerprint="f-1")["hits"][0]["source"] == "exact"
    assert "straße/1" in subject.mem
    assert "other" not in subject.mem
    assert len(subject.mem) == 1


def test_ids_that_nobody_gives_are_uuids(subject: Subject) -> None:
    from uuid import UUID

    one = subject.do("write", "one", concepts=[])["id"]
    two = subject.do("write", "one", concepts=[])["id"]
    assert UUID(one).version == UUID(two).version == 7
    assert one != two


def test_a_batch_equals_singles(subject: Subject, mem: Any) -> None:
    fill(subject)
    rows = [{"id": i, "text": text, "concepts": concepts} for i, text, concepts in NOTES]
    report = mem.write_batch(rows)
    assert (report.written, report.skipped, report.links_created) == (6, 0, 5)
    from worker import plain_links, plain_recall

    assert plain_links(mem.links.to_arrow()) == subject.ask("links")
    ours, theirs = (
        plain_recall(mem.read(concepts=["timeout"])),
        subject.ask("read", concepts=["timeout"]),
    )
    assert ours["hits"] == theirs["hits"]


def test_duplicates(subject: Subject) -> None:
    from fastassoc.errors import DuplicateNote

    fill(subject)
    before = subject.ask("links")
    with pytest.raises(DuplicateNote, match="n1"):
        subject.do("write", "again", id="n1", concepts=["x", "y"])
    rows = [
        {"id": "n1", "text": "again", "concepts": ["x", "y"]},
        {"id": "n7", "text": "new", "concepts": ["y", "z"]},
        {"id": "n7", "text": "newer", "concepts": ["y", "w"]},
    ]
    with pytest.raises(ValueError, match="n1"):
        subject.do("write_batch", rows)
    assert subject.ask("links") == before
    assert len(subject.mem) == 6
    report = subject.do("write_batch", rows, on_duplicate="skip")
    assert (report["written"], report["skipped"]) == (1, 2)
    assert subject.ask("get", "n7")["text"] == "new"
    report = subject.do("write_batch", rows, on_duplicate="replace")
    assert report["replaced"] == 3
    assert subject.ask("get", "n1")["text"] == "again"
    assert subject.ask("get", "n7")["text"] == "newer"
    assert weights(subject).keys() >= {"x-y", "w-y"}
    assert not {"y-z", "deploy-timeout"} & weights(subject).keys()
    assert len(subject.mem) == 7


def test_one_bad_row_refuses_the_batch_unless_told_otherwise(subject: Subject) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "good", "text": "good", "concepts": ["a", "b"]},
        {"id": "bare", "text": "bare", "concepts": "abc"},
        {"id": "empty", "text": "empty", "concepts": [""]},
        {"id": "long", "text": "long", "concepts": ["x" * 257]},
        {"id": "many", "text": "many", "concepts": [f"c{n}" for n in range(257)]},
        {"id": "text", "text": 5},
        {"id": "odd", "text": "odd", "colour": "red"},
        {"id": "fine", "text": "fine", "concepts": ["b", "c"]},
    ]
    with pytest.raises(ValueError, match="row 1"):
        subject.do("write_batch", rows)
    assert len(subject.mem) == 0
    assert subject.ask("links") == {}
    report = subject.do("write_batch", rows, on_error="reject")
    assert (report["written"], report["rejected"]) == (2, 6)
    assert [number for number, _ in report["reasons"]] == [1, 2, 3, 4, 5, 6]
    assert all(reason for _, reason in report["reasons"])
    assert weights(subject) == {"a-b": 1, "b-c": 1}


def test_a_repeated_operation_changes_nothing(subject: Subject) -> None:
    rows = [{"id": "x", "text": "x", "concepts": ["a", "b"]}]
    taught = {"asked": ["a"], "used_concepts": ["b"], "outcome": 1.0}
    calls: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("write", ["a text"], {"concepts": ["a", "b"]}),
        ("write_batch", [rows], {}),
        ("feedback", [], taught),
        ("link", ["a", "b", 2.0], {}),
        ("update", ["x"], {"metadata": {"k": 1}}),
        ("unlink", ["a", "b"], {}),
        ("forget", [["x"]], {}),
    ]
    for verb, args, kwargs in calls:
        first = subject.do(verb, *args, **kwargs, operation_id=f"op-{verb}")
        assert not first["repeated"]
        before = subject.ask("links"), len(subject.mem)
        again = subject.do(verb, *args, **kwargs, operation_id=f"op-{verb}")
        assert again["repeated"]
        assert (subject.ask("links"), len(subject.mem)) == before, verb


def test_update_changes_metadata_and_no_link(subject: Subject) -> None:
    subject.do("write", "text", id="x", concepts=["a", "b"], metadata={"v": 1})
    before = subject.ask("links")
    subject.clock.advance(hours=1)
    subject.do("update", "x", metadata={"v": 2})
    assert subject.ask("links") == before
    assert subject.ask("get", "x")["metadata"] == {"v": 2}
    assert ids(subject.ask("read", concepts=["a"], where={"v": 2})) == ["x"]
    assert ids(subject.ask("read", concepts=["a"], where={"v": 1})) == []
    with pytest.raises(KeyError):
        subject.do("update", "nobody", metadata={})


def test_forget(subject: Subject) -> None:
    fill(subject)
    teach(subject, 1)
    report = subject.do("forget", ["n2", "n5"])
    assert report["forgotten"] == 2
    assert subject.ask("links")["retry\0timeout"][:4] == [2, 1, 1, 1]
    assert "backoff\0jitter" not in subject.ask("links")
    assert ids(subject.ask("read", concepts=["timeout"])) == ["n3", "n1", "n4"]
    assert subject.ask("read", concepts=["jitter"])["reason"]
    with pytest.raises(KeyError):
        subject.ask("get", "n2")
    assert "n2" not in subject.mem
    subject.do("forget", ["n3", "n1"])
    assert subject.ask("links")["retry\0timeout"][:4] == [1, 0, 1, 0]


def test_forget_where(subject: Subject) -> None:
    for n in range(6):
        domain, metadata = "old" if n % 2 else "new", {"n": n}
        subject.do("write", f"t{n}", id=f"n{n}", concepts=["a"], domain=domain, metadata=metadata)
    subject.do("forget", where={"domain": "old"})
    assert sorted(ids(subject.ask("read", concepts=["a"]))) == ["n0", "n2", "n4"]
    subject.do("forget", where={"n": {"in": [2, 4]}})
    assert ids(subject.ask("read", concepts=["a"])) == ["n0"]


def test_supersedes(subject: Subject) -> None:
    subject.do("write", "The office is in Bonn.", id="old", concepts=["office"])
    subject.do(
        "write", "The office is in Berlin.", id="new", concepts=["office"], supersedes=["old"]
    )
    assert ids(subject.ask("read", concepts=["office"])) == ["new"]
    both = ids(subject.ask("read", concepts=["office"], include_superseded=True))
    assert sorted(both) == ["new", "old"]
    assert subject.ask("get", "old")["text"] == "The office is in Bonn."


# -- filters, names --------------------------------------------------------------------------------


def test_filters_apply_before_the_cut(subject: Subject) -> None:
    start = subject.clock.stamp
    rows = []
    for n in range(40):
        metadata = {"n": n, "tags": ["even" if n % 2 == 0 else "odd", "all"], "word": f"w{n}x"}
        rows.append(
            {
                "id": f"n{n}",
                "text": f"{100 - n}",
                "concepts": ["a", "b"],
                "domain": "rare" if n % 10 == 9 else "general",
                "created_at": start + n * DAY,
                "metadata": metadata,
            }
        )
    subject.do("write_batch", rows)

    def found(**filters: Any) -> list[str]:
        return ids(subject.ask("read", concepts=["a"], k=4, **filters))

    assert found(domain="rare") == ["n9", "n19", "n29", "n39"]
    assert found(domain="Rare") == []
    assert found(since=start + 37 * DAY) == ["n37", "n38", "n39"]
    assert found(until=start + 2 * DAY) == ["n1", "n2", "n0"]
    assert found(since=start + 5 * DAY, until=start + 5 * DAY) == ["n5"]
    assert found(where={"n": 31}) == ["n31"]
    assert found(where={"n": {"in": [31, 7, 99]}}) == ["n7", "n31"]
    assert found(where={"tags": {"contains": "odd"}}) == ["n1", "n3", "n5", "n7"]
    assert found(where={"word": {"contains": "39"}}) == ["n39"]
    assert found(where={"tags": {"contains": "odd"}, "n": {"in": [8, 9]}}, domain="rare") == ["n9"]
    assert found(where={"nothing": 1}) == []


def test_names_fold_and_the_first_spelling_is_shown(subject: Subject) -> None:
    subject.do("write", "one", id="one", concepts=["New  York", "ﬁsh"])
    subject.do("write", "two", id="two", concepts=[" new york ", "FISH"])
    assert list(weights(subject).values()) == [2]
    assert subject.ask("stats")["concepts"] == 2
    shown = subject.ask("get", "two")["concepts"]
    assert [" ".join(name.split()) for name in shown] == ["New York", "ﬁsh"]
    assert set(ids(subject.ask("read", concepts=["NEW YORK"]))) == {"one", "two"}


def test_variants_bridge_reads_and_never_merge(subject: Subject) -> None:
    subject.do("write", "one", id="one", concepts=["timeout"])
    subject.do("write", "two", id="two", concepts=["timeouts", "x"])
    assert subject.ask("stats")["concepts"] == 3
    recall = subject.ask("read", concepts=["timeouts"])
    assert sorted(ids(recall)) == ["one", "two"]
    assert set(recall["query_concepts"]) == {"timeouts", "timeout"}
    subject.do("forget", ["two"])
    recall = subject.ask("read", concepts=["timeouts"])
    assert ids(recall) == ["one"]


def test_like_and_order(subject: Subject) -> None:
    fill(subject)
    teach(subject)
    alike = ids(subject.ask("read", like="n2"))
    assert "n3" in alike
    assert {hit for hit in alike if hit != "n2"} >= {"n1", "n3", "n4"}
    recall = subject.mem.read(concepts=["timeout"], order_by="recency", k=3)
    assert sorted(hit.id for hit in recall) == ["n1", "n2", "n3"]
    assert subject.mem.read(concepts=["timeout"], at_least=recall.position).position >= 1
    with pytest.raises(KeyError):
        subject.ask("read", like="nobody")


def test_a_link_between_names_that_are_notes_and_concepts_is_ambiguous(subject: Subject) -> None:
    from fastassoc.errors import AmbiguousLink

    for name in ("a", "b"):
        subject.do("write", f"about {name}", id=name, concepts=["a", "b"])
    with pytest.raises(AmbiguousLink, match="layer"):
        subject.do("link", "a", "b", 1.0)
    subject.do("link", "a", "b", 1.0, layer="concept")
    assert weights(subject) == {"a-b": 3}


def test_graph(subject: Subject) -> None:
    fill(subject)
    teach(subject)
    graph = subject.ask("graph", ["timeout"])
    assert graph["nodes"] == {"timeout": 3, "deploy": 2, "retry": 2, "backoff": 3}
    assert graph["edges"] == ["backoff\0timeout", "deploy\0timeout", "retry\0timeout"]
    assert (graph["truncated"], graph["min_weight_applied"]) == (False, 0)
    graph = subject.ask("graph", ["timeout"], depth=2)
    assert set(graph["nodes"]) == {"timeout", "deploy", "retry", "backoff", "jitter", "cache"}
    assert graph["min_weight_applied"] == 0.05
    graph = subject.ask("graph", ["timeout"], min_weight=4)
    assert graph["edges"] == ["retry\0timeout"]
    assert graph["min_weight_applied"] == 4
    empty = subject.ask("graph", ["unknown"])
    assert (empty["nodes"], empty["edges"]) == ({}, [])
    assert subject.ask("graph", ["timeout"], limit=1)["truncated"]


def test_associate_over_several_links(subject: Subject) -> None:
    fill(subject)
    teach(subject)
    links = {("timeout", "deploy"): 1.0, ("timeout", "retry"): 4.0, ("timeout", "backoff"): 2.0}
    links |= {("retry", "backoff"): 1.0, ("backoff", "jitter"): 1.0, ("cache", "deploy"): 1.0}
    found = dict(subject.ask("associate", ["timeout"]))
    want = walk(links, ["timeout"], 2, 0.3, 0.0, 0.5)
    assert found == pytest.approx(want)
    assert list(found) == sorted(want, key=lambda name: -want[name])
    assert set(list(found)[:2]) == {"retry", "backoff"}
    several = subject.ask("associate", ["Timeout", "jitter", "unknown"], k=2)
    assert dict(several).keys() == {"backoff", "retry"}
    assert dict(several)["backoff"] == pytest.approx(
        walk(links, ["timeout", "jitter"], 2, 0.9, 0.5)["backoff"]
    )
    assert subject.ask("associate", ["unknown"]) == []


def test_recent_pages_are_complete(subject: Subject) -> None:
    start, rows = subject.clock.stamp, []
    for n in range(23):
        created = start - (n % 5) * DAY
        rows.append({"id": f"n{n:02}", "text": "t", "concepts": [], "created_at": created})
    subject.do("write_batch", rows)
    want = sorted(((row["created_at"], row["id"]) for row in rows), reverse=True)
    assert subject.ask("recent", limit=100) == {"ids": [i for _, i in want], "cursor": None}
    found, cursor = [], None
    while True:
        page = subject.ask("recent", limit=4, cursor=cursor)
        found += page["ids"]
        cursor = page["cursor"]
        if cursor is None:
            break
        assert len(page["ids"]) == 4
    assert found == [i for _, i in want]


def test_stats(subject: Subject) -> None:
    fill(subject)
    subject.do("link", "x", "y", 1.0)
    stats = subject.ask("stats")
    assert (stats["notes"], stats["concepts"], stats["links"]) == (6, 8, 6)
    subject.do("unlink", "x", "y")
    stats = subject.ask("stats")
    assert (stats["notes"], stats["concepts"], stats["links"]) == (6, 6, 5)


def test_the_control_changes_nothing_and_takes_nothing(subject: Subject) -> None:
    fill(subject)
    teach(subject)
    before = subject.ask("links")
    control = subject.mem.rebuild_links()
    assert control.links.weight("timeout", "backoff") == 0
    assert control.links.weight("timeout", "retry") == 2
    assert {key: row[:1] for key, row in subject.ask("control").items()} == {
        "backoff\0retry": [1],
        "backoff\0jitter": [1],
        "cache\0deploy": [1],
        "deploy\0timeout": [1],
        "retry\0timeout": [2],
    }
    if hasattr(control, "write"):
        with pytest.raises(Exception, match=r"."):
            control.write("no", concepts=["a"])
    assert subject.ask("links") == before


# -- bad input -------------------------------------------------------------------------------------

BAD: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("read", [], {"concepts": "timeout"}),
    ("read", [], {"concepts": ["timeout"], "k": 0}),
    ("read", [], {"concepts": ["timeout"], "k": 2.5}),
    ("read", [], {"concepts": ["timeout"], "hops": 0}),
    ("read", [], {"concepts": ["timeout"], "hops": 4}),
    ("read", [], {"concepts": ["timeout"], "rank": "best"}),
    ("read", [], {"concepts": ["timeout"], "where": {"a": {"like": 1}}}),
    ("read", [], {"concepts": ["timeout"], "where": "a"}),
    ("read", [], {"concepts": ["timeout"], "order_by": "colour"}),
    ("feedback", [], {"asked": ["a"], "used_concepts": ["b"], "outcome": math.nan}),
    ("feedback", [], {"asked": ["a"], "used_concepts": ["b"], "outcome": 1.01}),
    ("feedback", [], {"asked": ["a"], "used_concepts": ["b"], "outcome": "good"}),
    ("feedback", [], {"asked": ["a"], "outcome": 1.0}),
    ("feedback", [], {"asked": "a", "used_concepts": ["b"], "outcome": 1.0}),
    ("feedback", [], {"asked": ["a"], "used_concepts": "b", "outcome": 1.0}),
    ("link", ["a", "a", 1.0], {}),
    ("link", ["a", "A", 1.0], {}),
    ("link", ["a", "b", math.nan], {}),
    ("link", ["a", "b", math.inf], {}),
    ("link", ["a", "", 1.0], {}),
    ("write", [5], {}),
    ("write", ["t"], {"concepts": "abc"}),
    ("write", ["t"], {"concepts": ["a", 5]}),
    ("write", ["t"], {"concepts": ["\ud800"]}),
    ("write", ["t"], {"concepts": ["a"], "metadata": {"x": math.nan}}),
    ("write", ["t"], {"concepts": ["a"], "metadata": [1]}),
    ("write", ["t"], {"concepts": ["a"], "importance": 2.0}),
    ("write", ["t"], {"concepts": ["a"], "id": ""}),
    ("write", ["\udfff"], {"concepts": ["a"]}),
    ("write_batch", [{"text": "one"}], {}),
    ("write_batch", [[{"text": "t"}]], {"on_duplicate": "maybe"}),
    ("write_batch", [[{"text": "t"}]], {"on_error": "maybe"}),
    ("forget", ["n1"], {}),
    ("graph", [["a"]], {"depth": 0}),
    ("graph", [["a"]], {"depth": 4}),
    ("graph", ["a"], {}),
    ("recent", [], {"limit": 0}),
    ("recent", [], {"cursor": "!"}),
    ("associate", [["a"]], {"k": 0}),
    ("associate", ["a"], {}),
    ("configure", [], {"colour": 1}),
]


@pytest.mark.parametrize(("verb", "args", "kwargs"), BAD, ids=lambda value: repr(value)[:50])
def test_bad_input_is_refused_with_reasons(
    mem: Any, verb: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    from fastassoc.errors import FastAssocError

    mem.write("a text", id="n1", concepts=["a", "b"])
    before = mem.links.to_arrow()
    with pytest.raises(ValueError) as caught:
        getattr(mem, verb)(*args, **kwargs)
    assert isinstance(caught.value, FastAssocError)
    assert len(str(caught.value)) > 15
    assert mem.links.to_arrow().equals(before)
    assert len(mem) == 1


def test_times_naive_is_utc_and_the_clock_never_runs_back(subject: Subject) -> None:
    subject.do("write", "one", id="one", concepts=["a", "b"])
    first = subject.clock.stamp
    subject.clock.stamp -= 400 * DAY
    subject.do("write", "two", id="two", concepts=["a", "b"])
    assert subject.ask("links")["a\0b"][5:] == [first, first]
    naive = datetime(2024, 2, 29, 12)
    if subject.way == "memory":
        subject.mem.write("three", id="three", concepts=["c"], created_at=naive)
        assert subject.mem.get("three").created_at == naive.replace(tzinfo=UTC)
        found = subject.mem.read(concepts=["c"], since=naive, until=naive + timedelta(seconds=1))
        assert [hit.id for hit in found] == ["three"]


def test_a_closed_memory_says_so(mem: Any) -> None:
    from fastassoc.errors import ClosedHandle

    mem.write("text", id="x", concepts=["a"])
    mem.close()
    mem.close()
    calls: list[Any] = [
        lambda: mem.read(concepts=["a"]),
        lambda: mem.write("more"),
        lambda: mem.get("x"),
        lambda: mem.links.weight("a", "b"),
        lambda: len(mem),
    ]
    for call in calls:
        with pytest.raises(ClosedHandle):
            call()


def test_an_operation_id_has_one_byte_at_least(subject: Subject) -> None:
    for bad in ("", "x" * 513, 7, "\ud800"):
        with pytest.raises(ValueError, match="operation_id"):
            subject.do("write", "a", operation_id=bad)
        with pytest.raises(ValueError, match="operation_id"):
            subject.do("write_batch", [{"text": "a"}], operation_id=bad)
    assert len(subject.mem) == 0


def test_a_note_rated_twice_in_a_call_is_rated_once(subject: Subject) -> None:
    subject.do("write", "a", id="n", concepts=["x"])
    report = subject.do("feedback", asked=["y"], used=["n", "n", "-", "-"], outcome=1.0)
    assert (report["updated"], report["missing"]) == (1, ["-"])
    assert subject.ask("get", "n")["valence"] == pytest.approx(0.3)


def test_a_name_that_nothing_holds_is_unknown(subject: Subject) -> None:
    subject.do("link", "x", "a", 2.0)
    subject.do("unlink", "x", "a")
    recall = subject.mem.read(concepts=["a"])
    assert (recall.query_concepts, recall.unknown) == ([], ["a"])
