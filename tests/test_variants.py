"""Variants in reads: what is asked besides the names that the query said, and how it is told."""

import fastassoc as fa
from fastassoc.concepts import Vocabulary


def memory(*notes):
    mem = fa.Memory()
    for number, concepts in enumerate(notes):
        mem.write(f"note {number}", id=f"n{number}", concepts=concepts)
    return mem


def ids(recall):
    return [hit.id for hit in recall]


def test_a_name_that_is_not_known_asks_its_variants():
    mem = memory(["timeout", "deploy"], ["cache"])
    recall = mem.read(concepts=["Timeouts"])
    assert (ids(recall), recall.query_concepts) == (["n0"], ["timeout"])
    assert (recall.variants, recall.unknown) == ({"Timeouts": ["timeout"]}, [])
    assert recall[0].score == 10 / 11  # the whole query is explained
    assert recall[0].path[0].source == "timeout"
    lost = mem.read(concepts=["kafkas", "Timeouts"])
    assert (lost.unknown, lost.query_concepts) == (["kafkas"], ["timeout"])


def test_words_of_a_text_ask_the_names_that_they_are_variants_of():
    mem = memory(["timeout", "deploy"], ["Doe"], ["connection pool"])
    recall = mem.read("Why does the TimeOuts happen?")
    assert recall.query_concepts == ["timeout"]
    assert recall.variants == {"TimeOuts": ["timeout"]}
    assert (ids(recall)[0], recall.rank, recall.unknown) == ("n0", "bridge", [])
    assert "concept" in recall[0].parts
    counted = mem.read("Why does the TimeOuts happen?", rank="counts")
    assert (ids(counted), counted.variants) == (["n0"], recall.variants)
    recall = mem.read("pools? connected pools!")
    assert recall.variants == {"connected pools": ["connection pool"]}


def test_a_known_name_goes_by_its_first_spelling():
    mem = memory(["Timeout"], ["timeouts"], ["timeouting"])
    for recall in (mem.read(concepts=["TIMEOUT"]), mem.read("any timeout?")):
        assert recall.query_concepts == ["Timeout", "timeouts", "timeouting"]
        assert recall.variants == {"Timeout": ["timeouts", "timeouting"]}
    both = mem.read(concepts=["timeout", "timeouts"])
    assert both.query_concepts == ["Timeout", "timeouts", "timeouting"]
    assert both.variants == {"Timeout": ["timeouting"], "timeouts": ["timeouting"]}
    assert mem.read("timeouted, timeout and timeouts").variants == {
        "timeouted": ["timeouting"],
        "Timeout": ["timeouting"],
        "timeouts": ["timeouting"],
    }


def test_variants_that_nothing_holds_are_not_asked():
    mem = memory(["timeout"], ["timeouts"])
    mem.forget(["n1"])
    assert mem.read(concepts=["timeout"]).query_concepts == ["timeout"]
    assert mem.read("the timeout").variants == {}
    mem.forget(["n0"])
    recall = mem.read(concepts=["timeouting"])
    assert (recall.unknown, recall.query_concepts) == (["timeouting"], [])
    mem.link("timeout", "cache", 3.0)
    assert mem.read(concepts=["timeouting"]).variants == {"timeouting": ["timeout"]}


def test_a_name_seen_once_in_a_text_is_asked_by_name_only():
    mem = fa.Memory()
    mem.write("They met Zorks there.", id="a")
    assert mem.read(concepts=["zork"]).variants == {"zork": ["Zorks"]}
    assert mem.read("who is zork").query_concepts == []
    mem.write("Then Zorks left.", id="b")
    assert mem.read("who is zork").variants == {"zork": ["Zorks"]}


def test_variants_are_those_of_the_language():
    mem = fa.Memory(settings=fa.Settings(language="german"))
    mem.write("eins", id="a", concepts=["Katze"])
    assert mem.read("alle Katzen").variants == {"Katzen": ["Katze"]}
    assert fa.Memory().read("alle Katzen").variants == {}


def test_names_added_at_once_answer_as_names_added_one_by_one() -> None:
    base = ["a b", "a|b", "b2b s", "b2bs", "01", "a01", "a01s", "café 2", "cafe 2", "run man 3"]
    names = [*base, "runs men 3", "one two three four five six", "one two three four five six 7s"]
    at_once, in_turn = Vocabulary("fold", "english"), Vocabulary("fold", "english")
    at_once.intern(names, names)
    for name in names:
        in_turn.intern([name], [name])
        in_turn.variants_of(name)
    for name in names:
        assert at_once.variants_of(name) == in_turn.variants_of(name)
        found, said = (v.find_in(f"the {name}?", lambda _: True) for v in (at_once, in_turn))
        assert found == said, name
