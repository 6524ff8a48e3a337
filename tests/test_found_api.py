"""Defects that an independent tester found in the public interface, each by what was reported."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import random
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastassoc as fa
from fastassoc.errors import BatchRejected, InvalidInput
from fastassoc.settings import BridgeRule, LinkRule


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
@pytest.mark.parametrize(
    "names", [[["a", "b"], ["c"]], [["a", "b"], [], ["c"]], [["a"], None, ["c"]], [None, ["a"]]]
)
def test_list_views_give_their_names(kind: Any, names: list[list[str] | None]) -> None:
    # pyarrow's own cast from a list view to a list loses names
    column = pa.array(names, kind(pa.string()))
    for given in (column, pa.concat_arrays([column, column]).slice(len(names))):
        mem = fa.Memory()
        rows = {"text": ["t"] * len(names), "id": [str(n) for n in range(len(names))]}
        mem.write_batch(pa.table({**rows, "concepts": given}))
        assert [mem.get(note).concepts for note in rows["id"]] == [one or [] for one in names]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**60], pa.timestamp("s")),
        pa.array([2**60], pa.timestamp("ms", "UTC")),
        pa.array([2**31 - 1], pa.int32()).view(pa.date32()),
        pa.array([2**64 - 5], pa.uint64()),
    ],
)
def test_times_that_do_not_fit_are_refused_not_wrapped(column: Any) -> None:
    mem = fa.Memory()
    with pytest.raises(BatchRejected, match="row 0: created_at: found"):
        mem.write_batch(pa.table({"text": ["t"], "created_at": column}))
    assert len(mem) == 0


def test_times_of_every_unit_are_taken() -> None:
    mem = fa.Memory()
    for unit in ("s", "ms", "us", "ns"):
        column = pa.array([1_700_000_000], pa.timestamp("s")).cast(pa.timestamp(unit))
        mem.write_batch(pa.table({"text": ["t"], "created_at": column}))
    mem.write_batch(
        pa.table({"text": ["t"], "created_at": pa.array([1_700_000_000_000_000], pa.uint64())})
    )
    finer = pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))
    mem.write_batch(pa.table({"text": ["t"], "created_at": finer}))
    assert len({note.created_at for note in mem.recent()}) == 1


@pytest.mark.parametrize("concepts", [None, [], ["a"]])
def test_more_than_256_subjects_are_refused(concepts: list[str] | None) -> None:
    mem = fa.Memory()
    with pytest.raises(InvalidInput, match=r"found 25[78] names, expected at most 256"):
        mem.write("Tea is hot.", concepts=concepts, subjects=[f"s{n}" for n in range(257)])
    assert len(mem) == len(mem.links) == 0
    mem.write("Tea is hot.", subjects=[f"s{n}" for n in range(256)])


def test_the_parts_of_an_exact_hit_are_its_own_score() -> None:
    mem = fa.Memory()
    for n in range(3):
        mem.write(f"zz{n}", concepts=["a", "b"])
    mem.write("one", concepts=["a"])
    mem.write("two", concepts=["b"])
    # k = 1: neither is among the best by counts
    one = mem.read("one", concepts=["a"], k=1, rank="counts")[0]
    two = mem.read("two", concepts=["a"], k=1, rank="counts")[0]
    assert one.source == two.source == "exact"
    assert (one.parts["asked"], one.parts["association"]) == (10.0, 0.0)
    assert (two.parts["asked"], two.parts["association"]) == (0.0, 3.0)
    assert sum(step.weight for step in two.path) == two.parts["association"]
    flat = mem.read("zz0", rank="flat", k=1)[0]
    assert flat.parts["text"] > 0
    assert flat.rank_score == sum(flat.parts.values())


def test_a_note_named_twice_is_rated_once() -> None:
    mem = fa.Memory()
    mem.write("Tea is hot.", concepts=["tea"], id="t")
    report = mem.feedback(asked=["hot"], used=["t", "t", "gone", "gone"], outcome=1.0)
    assert (report.updated, report.missing) == (1, ["gone"])
    assert mem.get("t").valence == pytest.approx(0.3)


def test_a_repeated_configure_changes_nothing() -> None:
    mem = fa.Memory()
    mem.configure(hop_factor=0.5, operation_id="one")
    assert mem.configure(hop_factor=0.9, operation_id="one").repeated
    assert mem.settings.hop_factor == 0.5


@pytest.mark.parametrize(
    "bad", [10**400, -(10**400), np.True_, np.complex128(0.5), np.array([0.5]), np.array([1, 2])]
)
def test_what_is_no_number_in_range_is_refused_by_name(bad: Any) -> None:
    mem = fa.Memory()
    mem.write("Tea is hot.", concepts=["tea", "hot"])
    calls = {
        "min_score": lambda: mem.read("tea", min_score=bad),
        "diversity": lambda: mem.read("tea", diversity=bad),
        "k": lambda: mem.read("tea", k=bad),
        "rank": lambda: mem.read("tea", rank=bad),
        "order_by": lambda: mem.read("tea", order_by=bad),
        "limit": lambda: mem.recent(limit=bad),
        "min_weight": lambda: mem.graph(["tea"], min_weight=bad),
        "outcome": lambda: mem.feedback(asked=["tea"], used_concepts=["hot"], outcome=bad),
        "weight": lambda: mem.link("tea", "hot", bad),
        "setting hop_factor": lambda: fa.Settings(hop_factor=bad),
        "setting max_fanout": lambda: fa.Settings(max_fanout=bad),
        "setting threshold": lambda: fa.LinkRule(threshold=bad),
        "setting extractor": lambda: fa.Settings(extractor=bad),
    }
    for name, call in calls.items():
        with pytest.raises(InvalidInput, match=name):
            call()
    assert mem.links.weight("tea", "hot") == 1.0


def test_numbers_of_every_kind_are_taken() -> None:
    mem = fa.Memory()
    mem.write("Tea is hot.", concepts=["tea", "hot"])
    for one in (1, 0.5, np.float32(0.5), np.float64(0.5), np.int8(1), np.uint64(1)):
        mem.read("tea", min_score=one)
        mem.feedback(asked=["tea"], used_concepts=["hot"], outcome=one)


def test_things_of_other_types_are_refused_with_errors_of_ours() -> None:
    mem = fa.Memory()
    for bad in (None, 5, object()):
        with pytest.raises(InvalidInput, match="queries"):
            mem.read_batch(bad)  # type: ignore[arg-type]
    for note in (["x"], {"x"}, None, 5):
        with pytest.raises(fa.errors.NoteNotFound):
            mem.update(note, metadata={})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "when", [date(2024, 5, 1), " 2024-05-01 ", np.int64(1_714_521_600_000_000)]
)
def test_since_and_until_take_what_created_at_takes(when: Any) -> None:
    mem = fa.Memory()
    mem.write("Tea is hot.", concepts=["tea"], created_at=when)
    assert len(mem.read("tea", since=when, until=when)) == 1
    assert len(mem.recent(since=when, until=when)) == 1


def test_a_time_that_is_none_is_refused_as_a_bound() -> None:
    pandas = pytest.importorskip("pandas")
    mem = fa.Memory()
    with pytest.raises(InvalidInput, match="since"):
        mem.read("tea", since=pandas.NaT)


def test_a_filter_compares_values_not_their_types() -> None:
    mem = fa.Memory()
    mem.write("one", id="1", concepts=["a"], metadata={"n": 1, "s": "1", "l": [1.0, {"x": 2.0}]})
    for where in (
        {"n": np.int64(1)},
        {"n": np.float32(1)},
        {"n": {"in": [np.int64(1)]}},
        {"l": {"contains": np.int64(1)}},
        {"l": [1, {"x": 2}]},
        {"s": np.str_("1")},
    ):
        assert len(mem.read(concepts=["a"], where=where)) == 1, where
    for where in ({"s": np.int64(1)}, {"s": 1}, {"n": True}, {"n": np.True_}, {"n": "1"}):
        assert len(mem.read(concepts=["a"], where=where)) == 0, where


@pytest.mark.parametrize("bad", [b"1", object(), {1, 2}, date(2024, 5, 1), np.array([1])])
def test_a_filter_refuses_what_metadata_cannot_hold(bad: Any) -> None:
    mem = fa.Memory()
    for clause in (bad, {"in": [bad]}, {"contains": bad}) if not isinstance(bad, set) else (bad,):
        with pytest.raises(InvalidInput, match="where"):
            mem.read(concepts=["a"], where={"n": clause})
        with pytest.raises(InvalidInput, match="where"):
            mem.forget(where={"n": clause})


def test_a_chain_reads_the_same_after_a_snapshot(tmp_path: Path) -> None:
    with fa.open(tmp_path / "m.fa", sync="off") as mem:
        for note in ("a", "z", "g"):
            mem.write(f"text {note}", id=note, concepts=[])
        mem.write("new", id="n", concepts=[], supersedes=["z", "a", "z", "g", "none"])
        mem.forget(["g"])
        live = [(mem.get(i).supersedes, mem.get(i).superseded_by) for i in ("a", "z", "n")]
        assert live == [([], ["n"]), ([], ["n"]), (["a", "z"], [])]
    with fa.open(tmp_path / "m.fa") as mem:
        assert [(mem.get(i).supersedes, mem.get(i).superseded_by) for i in ("a", "z", "n")] == live
        mem.snapshot()
    with fa.open(tmp_path / "m.fa") as mem:
        assert [(mem.get(i).supersedes, mem.get(i).superseded_by) for i in ("a", "z", "n")] == live
        mem.forget(["n"])
        assert [note.id for note in mem.recent()] == ["z", "a"]


def test_a_chain_forgets_its_middle() -> None:
    mem = fa.Memory()
    mem.write("one", id="1", concepts=[])
    mem.write("two", id="2", concepts=[], supersedes=["1"])
    mem.write("three", id="3", concepts=[], supersedes=["2"])
    mem.forget(["2"])
    assert mem.get("3").supersedes == ["1"]  # it takes the place of the one between
    assert mem.get("1").superseded_by == ["3"]
    assert [note.id for note in mem.recent()] == ["3"]


def test_a_rejected_batch_is_told_in_sentences() -> None:
    with pytest.raises(BatchRejected) as caught:
        fa.Memory().write_batch([{"text": "t", "concepts": "x"}, {}])
    assert ".." not in str(caught.value)
    assert ". (" not in str(caught.value)


def test_a_note_without_concepts_is_asked_by_its_words() -> None:
    mem = fa.Memory()
    mem.write("plain words here", concepts=[], id="p")
    mem.write("plain words there", concepts=[], id="q")
    recall = mem.read(like="p")
    assert (recall.rank, [hit.id for hit in recall]) == ("bridge", ["q"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("She met Tim O'Reilly in Dublin.", ["Tim O'Reilly", "Dublin"]),
        ("He saw O'Brien's dog.", ["O'Brien"]),
        ("I like Scarlett O\u2019Hara.", ["Scarlett O\u2019Hara"]),
        ("We met D'Angelo Russell.", ["D'Angelo Russell"]),
        ("I'm late. That's Ann. Don't ask. It's Bob's.", ["Ann", "Bob"]),
    ],
)
def test_names_with_an_apostrophe_are_names(text: str, names: list[str]) -> None:
    mem = fa.Memory()
    assert mem.get(mem.write(text)).concepts == names


def reason(mem: fa.Memory, *text: str, **asked: Any) -> str:
    recall = mem.read(*text, **asked)
    assert recall.hits == []
    return str(recall.reason)


def test_a_rank_that_does_not_read_what_was_asked_says_so() -> None:
    mem = fa.Memory()
    mem.write("plain words", concepts=["a"], id="p", vector=[1.0, 0.0])
    said = "the query names no concept of the store, and rank 'counts' reads nothing else"
    assert reason(mem, vector=[1.0, 0.0], rank="counts") == said
    assert reason(mem, "plain", rank="counts") == said
    assert "concept named 'zz'" in reason(mem, concepts=["zz"], rank="counts")
    said = "no note that passes the filters says a word of the query, and rank 'flat' reads no "
    assert reason(mem, concepts=["a"], rank="flat").startswith(said)
    assert reason(mem, "other things", rank="flat").startswith(said)
    bare = fa.Memory()
    bare.write("plain words", concepts=["a"])
    assert "has a vector" in reason(bare, vector=[1.0, 0.0], rank="flat")
    assert reason(bare, fingerprint="f") == "no note that passes the filters has this fingerprint"


def test_a_store_without_another_note_is_no_matter_of_filters() -> None:
    mem = fa.Memory()
    mem.write("plain words", id="p")
    assert reason(mem, like="p") == "the store has no note but the one that the query is like"
    assert reason(mem, like="p", domain="none") == "no note passes the filters"
    mem.write("other matters", id="q", supersedes=["p"])
    assert reason(mem, like="q").startswith("newer notes supersede every note")
    assert reason(mem, like="q", domain="none") == "no note passes the filters"


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_diverse_answer_sum_up_exactly(seed: int) -> None:
    rng = random.Random(seed)
    mem = fa.Memory()
    words = ["tea", "pot", "hot", "cup", "leaf"]
    for number in range(20):
        names = rng.sample(["a", "b"], rng.randint(1, 2))
        vector = [rng.random() for _ in range(3)]
        text = " ".join(rng.choices(words, k=6))
        mem.write(text, concepts=names, vector=vector, id=f"n{number}")
    for rank in ("bridge", "flat", "ppr", "counts", "retention"):
        asked = {"concepts": ["a", "b"], "vector": [1.0, 0.3, 0.1], "rank": rank, "k": 20}
        for diversity in (1.0, 0.7):
            hits = mem.read("tea pot", diversity=diversity, **asked).hits
            assert any("diversity" in hit.parts for hit in hits)
            scores = [hit.rank_score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            for hit in hits:
                assert sum(hit.parts.values()) == hit.rank_score
                assert hit.rank_score == 0.0 or hit.rank_score > 1e-12
                assert math.copysign(1.0, hit.rank_score) == math.copysign(1.0, hit.score) == 1.0
            if diversity == 1.0:
                assert hits[-1].rank_score == 0.0


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("bridge.rich_concepts", 0),
        ("bridge.capitals", 1),
        ("bridge.weight", "x"),
        ("association.steps", 11),
        ("association.stay", 2.0),
        ("retention.power", -1.0),
        ("retention.similarity", 3.0),
        ("concept_links.threshold", "x"),
        ("note_links.threshold", None),
        ("hop_factor", 2.0),
    ],
)
def test_a_wrong_setting_is_named_as_it_was_given(name: str, bad: Any) -> None:
    for call in (lambda: fa.Memory().configure(**{name: bad}),
                 lambda: fa.Settings().with_changes({name: bad})):  # fmt: skip
        with pytest.raises(InvalidInput, match=f"^setting {name}: found"):
            call()


@pytest.mark.parametrize("name", ["concept_links", "bridge", "retention", "association"])
@pytest.mark.parametrize("bad", [None, 3, {"seeds": 3}])
def test_a_rule_that_is_none_is_refused_before_a_store_is_made(
    tmp_path: Path, name: str, bad: Any
) -> None:
    with pytest.raises(InvalidInput, match=f"^setting {name}: found"):
        fa.open(tmp_path / "s.fa", settings=fa.Settings(**{name: bad}))
    assert not (tmp_path / "s.fa").exists()
    mem = fa.Memory()
    with pytest.raises(InvalidInput, match=name):
        mem.configure(**{name: bad})


@pytest.mark.parametrize("rank", ["bridge", "flat", "counts", "ppr"])
def test_a_shorter_answer_is_the_beginning_of_a_longer_one(rank: str) -> None:
    """Where more notes are exact than are asked for, too."""
    mem = fa.Memory()
    for n in range(4):
        mem.write("same text tower", id=str(n), concepts=["a"] if n < 2 else ["a", "b"])
        mem.write("note " + "tower " * n, id=f"f{n}", fingerprint="f", concepts=[])
    for asked in ({"query": "same text tower", "concepts": ["b"]},
                  {"query": "tower", "fingerprint": "f"}):  # fmt: skip
        whole = [hit.id for hit in mem.read(**asked, k=8, rank=rank) if hit.source == "exact"]
        for k in range(1, len(whole) + 1):
            assert [hit.id for hit in mem.read(**asked, k=k, rank=rank)] == whole[:k]


def test_a_vector_that_points_elsewhere_is_not_called_cold() -> None:
    mem = fa.Memory()
    mem.write("t", id="t", vector=[-1, 0], concepts=[])
    for rank in ("flat", "bridge", "ppr", "retention"):
        found = mem.read(vector=[1, 0], rank=rank)
        assert [hit.id for hit in found] == ["t"]
        assert found.reason is None


def test_two_settings_of_a_rule_are_named_whole() -> None:
    said = "^setting note_links.floor, note_links.ceiling: "
    with pytest.raises(InvalidInput, match=said):
        fa.Settings().with_changes({"note_links.floor": 0.5})
    with pytest.raises(InvalidInput, match=r"^setting seeds: "):
        BridgeRule(seeds=0)


# -- settings and arguments that are not there --------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        fa.Settings,
        fa.Settings.counts,
        fa.Settings.cognitive,
        lambda **named: fa.Settings.from_dict(named),
        lambda **named: fa.Settings().with_changes(named),
        lambda **named: fa.Memory().configure(**named),
        lambda **named: dataclasses.replace(fa.Settings(), **named),
    ],
)
def test_an_unknown_setting_is_told_alike_everywhere(make: Callable[..., Any]) -> None:
    said = set()
    for name, near in (("hop_factr", "hop_factor"), ("foo", None)):
        with pytest.raises(InvalidInput) as caught:
            make(**{name: 1})
        said.add(str(caught.value))
        assert str(caught.value).startswith(f"unknown settings: {name}. ")
        assert (f"Did you mean {near}?" in str(caught.value)) == (near is not None)
        assert "bm25_k1" in str(caught.value)
        assert "__init__" not in str(caught.value)
        assert type(caught.value) is InvalidInput
    assert len(said) == 2


def test_an_unknown_field_of_a_rule_is_told_by_its_whole_name() -> None:
    for make in (fa.Settings.from_dict, fa.Settings().with_changes):
        with pytest.raises(InvalidInput, match=r"concept_links\.treshold.*concept_links\.thresh"):
            make({"concept_links.treshold": 1.0})
        with pytest.raises(InvalidInput, match=r"unknown settings: foo\.x\. Known"):
            make({"foo.x": 1.0})
    with pytest.raises(InvalidInput, match=r"unknown settings: treshold. Did you mean threshold"):
        LinkRule(treshold=1.0)  # type: ignore[call-arg]


def test_presets_take_fields_of_rules_as_others_do() -> None:
    for preset in (fa.Settings.counts, fa.Settings.cognitive):
        made = preset(**{"note_links.threshold": 0.5})
        assert made == preset().with_changes({"note_links.threshold": 0.5})
    assert fa.Settings.cognitive(**{"note_links.threshold": 0.5}).note_links.decay_days == 90.0


def test_a_bad_setting_is_one_of_the_public_errors() -> None:
    for make in (
        lambda: fa.Settings(hop_factor=7.0),
        lambda: fa.Settings.counts(rank="x"),
        lambda: fa.Settings().with_changes({"bridge.seeds": -1}),
        lambda: LinkRule(threshold="x"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput) as caught:
            make()
        assert type(caught.value) is InvalidInput
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_settings_are_copied_and_pickled_as_before() -> None:
    made = fa.Settings.cognitive(hop_factor=0.5)
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made


@pytest.mark.parametrize("value", [None, 3, 0.5, {"a": 1}, True])
def test_the_advice_fits_what_was_given(value: Any) -> None:
    mem = fa.Memory()
    for call in (mem.associate, mem.graph, lambda found: mem.read(concepts=found)):
        if value is None and call not in (mem.associate, mem.graph):
            continue
        with pytest.raises(InvalidInput) as caught:
            call(value)
        assert str(caught.value) == f"concepts: found {value!r}, expected a list of names."
    with pytest.raises(InvalidInput) as caught:
        mem.write(value)
    kind = "" if value is None else f"{type(value).__name__} "
    assert str(caught.value) == f"text: found {kind}{value!r}, expected a str."
    with pytest.raises(InvalidInput) as caught:
        mem.write_batch(value)
    assert "ingest" not in str(caught.value)


def test_a_name_alone_is_told_how_to_be_a_list() -> None:
    mem = fa.Memory()
    with pytest.raises(InvalidInput, match=r"such as \['tea'\]"):
        mem.associate("tea")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="To read a file, use ingest"):
        mem.write_batch("notes.jsonl")  # type: ignore[arg-type]
    for row in ({"text": None}, {"concepts": []}):
        with pytest.raises(InvalidInput, match="row 0: text: found none, expected text"):
            mem.write_batch([row])
    with pytest.raises(InvalidInput, match=r"text: found nothing but white space"):
        mem.write("")
