"""What a stranger found in the measurement of quality, each as the smallest case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import fastassoc as fa
from fastassoc.cli import cli
from fastassoc.errors import InvalidInput
from fastassoc.quality import Options, html_page, run
from fastassoc.quality.beir import load_beir
from fastassoc.quality.dialogues import load_dialogues
from fastassoc.quality.multihop import load_multihop
from fastassoc.quality.own import load_own
from fastassoc.quality.sets import AskedSet


def lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def whole(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def musique(mark: str | None = None, question: str = "what is hot?") -> dict[str, Any]:
    passage = {"title": "Tea", "paragraph_text": "Tea is hot.", "is_supporting": True}
    return {"id": mark, "question": question, "paragraphs": [passage]}


def hotpot(mark: str = "a", fact: str = "Tea") -> dict[str, Any]:
    return {
        "_id": mark,
        "question": "what is hot?",
        "context": [["Tea", ["Tea is hot."]]],
        "supporting_facts": [[fact, 0]],
    }


def talk(name: str = "talk", **asked: Any) -> dict[str, Any]:
    turn = {"speaker": "Ann", "dia_id": "D1:1", "text": "Tea is hot."}
    return {
        "sample_id": name,
        "conversation": {"session_1": [turn]},
        "qa": [{"question": "what is hot?", **asked}],
    }


def beir(folder: Path, queries: list[str], judged: str) -> Path:
    lines(folder / "corpus.jsonl", {"_id": "d", "title": "Tea", "text": "Hot."})
    lines(folder / "queries.jsonl", *({"_id": one, "text": "what is hot?"} for one in queries))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def command(*args: object, code: int = 0) -> Result:
    env = {"FASTASSOC_STORE": None, "FASTASSOC_DATA": None, "COLUMNS": "80"}
    words = ["bench", "quality", "--embedder", "none", *map(str, args)]
    result = CliRunner().invoke(cli, words, env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


# -- what comes twice ---------------------------------------------------------------------------


def of_own(tmp_path: Path, *rows: Any) -> AskedSet:
    with fa.open(tmp_path / "own.fa") as mem:
        mem.write("Tea is hot.", id="n", concepts=[])
    return load_own(lines(tmp_path / "m.jsonl", *rows), str(tmp_path / "own.fa"))


OWN = {"question": "tea", "gold": ["n"]}
TWICE: dict[str, tuple[Callable[[Path], AskedSet], str]] = {
    "musique": (
        lambda to: load_multihop("m", lines(to / "m.jsonl", musique("a"), musique(), musique("a"))),
        "m.jsonl, line 3: found the question id 'a' again, after .*m.jsonl, line 1",
    ),
    "hotpot": (
        lambda to: load_multihop("m", whole(to / "m.json", [hotpot("a"), hotpot("a", "none")])),
        "m.json, item 1: found the question id 'a' again, after .*m.json, item 0",
    ),
    "an id that stood for none": (
        lambda to: load_multihop("m", lines(to / "m.jsonl", musique(), musique("q0"))),
        "m.jsonl, line 2: found the question id 'q0' again",
    ),
    "dialogues": (
        lambda to: load_dialogues("m", whole(to / "m.json", [talk(evidence=["D1:1"])] * 2)),
        "m.json, dialogue 1: found the dialogue 'talk' again, after .*m.json, dialogue 0",
    ),
    "beir": (
        lambda to: load_beir("m", beir(to / "b", ["q", "r", "q"], "q\td\t1\n")),
        "queries.jsonl, line 3: found the question id 'q' again, after .*queries.jsonl, line 1",
    ),
    "beir, of another split": (
        lambda to: load_beir("m", beir(to / "b", ["q", "r", "r"], "q\td\t1\n")),
        "queries.jsonl, line 3: found the question id 'r' again",
    ),
    "qrels": (
        lambda to: load_beir("m", beir(to / "b", ["q"], "q\td\t1\nq\tx\t1\nq\td\t0\n")),
        r"test.tsv, line 4: found the pair .*\('q', 'd'\) again, after .*test.tsv, line 2",
    ),
    "own": (
        lambda to: of_own(to, {**OWN, "id": 7}, {**OWN, "id": "7"}),
        "m.jsonl, line 2: found the question id '7' again, after .*m.jsonl, line 1",
    ),
}


@pytest.mark.parametrize("case", TWICE)
def test_what_comes_twice_is_refused(tmp_path: Path, case: str) -> None:
    load, said = TWICE[case]
    with pytest.raises(InvalidInput, match=said):
        load(tmp_path)


def test_own_questions_are_no_set_of_the_folder(tmp_path: Path) -> None:
    """Both would be written to one run file."""
    data = lines(tmp_path / "sets" / "m" / "m.jsonl", musique())
    of_own(tmp_path, OWN)
    mine = str(tmp_path / "m.jsonl")
    both = Options(
        data=data, questions=mine, store=str(tmp_path / "own.fa"), embedder="none", parts=("reads",)
    )
    with pytest.raises(InvalidInput, match="several sets are named m"):
        run(both)


# -- what is left out, and where ----------------------------------------------------------------


UNUSABLE: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "hotpot": (
        lambda to: whole(to / "m.json", [hotpot(fact="Cocoa")]),
        ("supporting titles that 'context' has not: 1 (first: {to}/m.json, item 0: 'Cocoa')",),
    ),
    "musique": (
        lambda to: lines(to / "m.jsonl", musique() | {"paragraphs": [], "paragraph_text": ""}),
        ("questions without a supporting passage: 1 (first: {to}/m.jsonl, line 1)",),
    ),
    "evidence null": (
        lambda to: whole(to / "m.json", [talk(evidence=None)]),
        ("without evidence: 1 (first: {to}/m.json, dialogue 0, question 0: found None",),
    ),
    "evidence of no turn": (
        lambda to: whole(to / "m.json", [talk(evidence=["D7:1"])]),
        ("evidence ids of no turn: 1 (first: {to}/m.json, dialogue 0, question 0: 'D7:1')",),
    ),
    "notes that are not there": (
        lambda to: beir(to / "m", ["q"], "q\tx\t1\n"),
        ("{to}/m/qrels/test.tsv: note 'x' of question 'q'", "{to}/m/queries.jsonl, line 1: 'q'"),
    ),
    "questions that are not there": (
        lambda to: beir(to / "m", ["r"], "q\td\t1\n"),
        ("judged questions that queries.jsonl has not: 1 (first: {to}/m/qrels/test.tsv: 'q')",),
    ),
    "no judgement": (
        lambda to: beir(to / "m", ["r"], ""),
        ("{to}/m/qrels/test.tsv: found no judgement",),
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_set_without_usable_evidence_says_what_is_missing(tmp_path: Path, case: str) -> None:
    make, said = UNUSABLE[case]
    with pytest.raises(InvalidInput) as caught:
        run(Options(data=make(tmp_path), embedder="none"))
    for one in said:
        assert one.format(to=tmp_path) in str(caught.value)


def test_what_is_left_out_of_a_usable_set_is_told_everywhere(tmp_path: Path) -> None:
    data = whole(tmp_path / "m.json", [hotpot(), hotpot("b", "Cocoa")])
    report, _, _ = run(Options(data=data, embedder="none", parts=("reads",)))
    (one,) = report["sets"]
    assert one["left_out"]["supporting titles that 'context' has not"] == 1
    where = one["left_out_first"]["supporting titles that 'context' has not"]
    assert where == f"{data}, item 1: 'Cocoa'"
    assert "item 1: &#x27;Cocoa&#x27;" in html_page(report)
    shown = command("--data", data, "--part", "reads").stdout
    assert "'Cocoa'" in shown.replace("\n", "")


# -- nothing to measure -------------------------------------------------------------------------


def test_parts_that_no_set_has_measure_nothing(tmp_path: Path) -> None:
    norms = whole(tmp_path / "n.json", {"tea": {"hot": {"_count": 2}, "cup": {"_count": 1}}})
    said = command("--data", norms, "--part", "reads", code=1).output
    assert "nothing to measure" in said
    assert "n: skipped: of a set of its kind can be measured: associations." in said
    asked = lines(tmp_path / "m.jsonl", musique())
    said = command("--data", asked, "--part", "associations", code=1).output
    assert "can be measured: reads, lookups, feedback, scores." in said
    of_own(tmp_path / "own", OWN)
    mine = ("--questions", tmp_path / "own" / "m.jsonl", "--store", tmp_path / "own" / "own.fa")
    assert "can be measured: reads." in command(*mine, "--part", "scores", code=1).output
    shown = command("--data", tmp_path, "--part", "reads")
    assert "n: skipped: of a set of its kind" in shown.stderr


def test_the_cause_stands_first_on_a_line_of_its_own(tmp_path: Path) -> None:
    lines(tmp_path / "m" / "m.jsonl", musique() | {"paragraphs": [], "paragraph_text": ""})
    with pytest.raises(InvalidInput) as caught:
        run(Options(data=tmp_path, embedder="none"))
    told = str(caught.value).split("\n")
    assert told[0] == "nothing to measure:"
    assert told[1].startswith("  m: no question with an answer in it, skipped: ")
    assert all(line.startswith("  no set of the kind") for line in told[2:])
    assert len(told) == 6
    assert ";" not in "".join(told[2:])
