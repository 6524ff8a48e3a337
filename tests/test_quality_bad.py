"""What strangers' sets hold that cannot be used: it is refused with the place, before any work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastassoc as fa
from fastassoc.errors import InvalidInput
from fastassoc.quality import Options, run
from fastassoc.quality.beir import load_beir
from fastassoc.quality.dialogues import load_dialogues
from fastassoc.quality.finding import Found
from fastassoc.quality.multihop import load_multihop
from fastassoc.quality.own import load_own
from fastassoc.quality.sets import AskedSet
from fastassoc.quality.words import load_norms, load_tags

TORN = "tea \ud800"  # a lone surrogate, as JSON can say it
LONG = "x" * 600  # longer than an id or a name may be


def lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def musique(**changes: Any) -> dict[str, Any]:
    passage = {"title": "Tea", "paragraph_text": "Tea is hot.", "is_supporting": True}
    row = {"id": "2hop__1", "question": "what is hot?", "paragraphs": [passage]}
    inner = {key: value for key, value in changes.items() if key in passage}
    row.update({key: value for key, value in changes.items() if key not in passage})
    return row | ({"paragraphs": [passage | inner]} if inner else {})


def hotpot(**changes: Any) -> dict[str, Any]:
    return {
        "_id": "a",
        "question": "what is hot?",
        "type": "bridge",
        "context": [["Tea", ["Tea is hot.", "It is brown."]]],
        "supporting_facts": [["Tea", 0]],
        **changes,
    }


def talk(**changes: Any) -> dict[str, Any]:
    turn = {"speaker": "Ann", "dia_id": "D1:1", "text": "Tea is hot.", "blip_caption": "a cup"}
    asked = {"question": "what is hot?", "evidence": ["D1:1"], "category": 1}
    for row in (turn, asked):
        row.update({key: value for key, value in changes.items() if key in row})
    return {
        "sample_id": changes.get("sample_id", "talk"),
        "conversation": {"session_1": [turn]},
        "qa": [asked],
    }


def beir(
    folder: Path,
    note: dict[str, Any] | None = None,
    asked: dict[str, Any] | None = None,
    judged: str = "q\td\t1\n",
) -> Path:
    lines(folder / "corpus.jsonl", {"_id": "d", "title": "Tea", "text": "Hot."} | (note or {}))
    lines(folder / "queries.jsonl", {"_id": "q", "text": "what is hot?"} | (asked or {}))
    (folder / "qrels").mkdir()
    table = b"query-id\tcorpus-id\tscore\n" + judged.encode("utf-8", "surrogateescape")
    (folder / "qrels" / "test.tsv").write_bytes(table)
    return folder


def tag(**changes: Any) -> dict[str, Any]:
    return {"id": "n", "text": "Tea is hot.", "concepts": ["tea", "hot"], **changes}


WRONG: dict[str, Any] = {
    "question": [TORN, 7, None, True, [], " "],
    "paragraph_text": [TORN, 7, None],
    "title": [TORN, 7, True, ["Tea"]],
    "is_supporting": ["false", "true", 0, 1, None, [], "yes"],
    "id": [TORN, True, 1.5, ["a"], LONG, " "],
    "type": [TORN, True, ["a"]],
}


@pytest.mark.parametrize("key", WRONG)
def test_what_musique_rows_cannot_be(tmp_path: Path, key: str) -> None:
    for value in WRONG[key]:
        path = lines(tmp_path / "m.jsonl", musique(id="first"), musique(**{key: value}))
        with pytest.raises(InvalidInput) as caught:
            load_multihop("m", path)
        assert f"{path}, line 2" in str(caught.value), value
        assert f"'{key}'" in str(caught.value), value


def test_the_paragraph_that_is_wrong_is_named(tmp_path: Path) -> None:
    row = musique()
    row["paragraphs"].append(row["paragraphs"][0] | {"is_supporting": "false"})
    path = tmp_path / "m.json"
    path.write_text(json.dumps([musique(id="first"), row]))
    with pytest.raises(InvalidInput) as caught:
        load_multihop("m", path)
    assert f"{path}, item 1, paragraph 1: found 'false', expected true or false" in str(
        caught.value
    )


def test_what_may_be_absent_is_absent_when_it_is_null(tmp_path: Path) -> None:
    bare = musique(id=None, title=None, type=None)
    del bare["paragraphs"][0]["is_supporting"]
    made = load_multihop("m", lines(tmp_path / "m.jsonl", musique(id=7), bare))
    assert [(q.id, q.group) for q in made.questions] == [("7", "")]
    assert made.left_out == {"questions without a supporting passage": 1}
    assert [row["text"] for row in made.parts[0].rows] == ["Tea. Tea is hot.", "Tea is hot."]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("question", TORN),
        ("_id", {"a": 1}),
        ("type", 1.5),
        ("context", [["Tea", [TORN]]]),
        ("context", [["Tea", [1, 2]]]),
        ("context", [["Tea", [["Tea is hot."]]]]),
        ("context", [["Tea", None]]),
        ("context", [[TORN, ["Tea is hot."]]]),
        ("context", {"title": [TORN], "sentences": [["Tea is hot."]]}),
        ("supporting_facts", [[TORN, 0]]),
        ("supporting_facts", None),
    ],
)
def test_what_hotpotqa_and_2wiki_rows_cannot_be(tmp_path: Path, key: str, value: Any) -> None:
    path = lines(tmp_path / "m.jsonl", hotpot(_id="first"), hotpot(**{key: value}))
    with pytest.raises(InvalidInput, match=f"m.jsonl, line 2.*{key}"):
        load_multihop("m", path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sample_id", True),
        ("sample_id", TORN),
        ("speaker", 7),
        ("speaker", TORN),
        ("dia_id", TORN),
        ("dia_id", 7),
        ("text", 7),
        ("text", TORN),
        ("blip_caption", True),
        ("blip_caption", TORN),
        ("question", TORN),
        ("question", " "),
        ("evidence", [7]),
        ("evidence", {"D1:1": 1}),
        ("evidence", 7),
        ("category", True),
        ("category", [1]),
    ],
)
def test_what_dialogues_cannot_be(tmp_path: Path, key: str, value: Any) -> None:
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([talk(sample_id="first"), talk(**{key: value})]))
    with pytest.raises(InvalidInput) as caught:
        load_dialogues("m", path)
    said = str(caught.value)
    assert f"{path}, dialogue 1" in said
    assert f"'{key}'" in said
    inner = {"sample_id": "", "question": ", question 0", "evidence": ", question 0"}
    inner["category"] = ", question 0"
    assert inner.get(key, ", session_1, turn 0") in said


def test_a_category_is_a_number_or_a_text(tmp_path: Path) -> None:
    path = tmp_path / "talks.json"
    for value, group in ((2, "temporal"), ("2", "temporal"), ("odd", "odd"), (9, "9"), (None, "")):
        path.write_text(json.dumps([talk(category=value)]))
        assert load_dialogues("m", path).questions[0].group == group


BEIR: dict[str, tuple[Callable[[Path], Path], str]] = {
    "torn text": (lambda to: beir(to, {"text": TORN}), "corpus.jsonl, line 1: .*'text'"),
    "torn id": (lambda to: beir(to, {"_id": TORN}), "corpus.jsonl, line 1: .*'_id'"),
    "long id": (lambda to: beir(to, {"_id": LONG}), "corpus.jsonl, line 1: .*'_id'"),
    "id of a truth": (lambda to: beir(to, {"_id": True}), "corpus.jsonl, line 1: .*'_id'"),
    "id of a share": (lambda to: beir(to, {"_id": 1.5}), "corpus.jsonl, line 1: .*'_id'"),
    "no id": (lambda to: beir(to, {"_id": None}), "corpus.jsonl, line 1: .*'_id'"),
    "text of a number": (lambda to: beir(to, {"text": 7}), "corpus.jsonl, line 1: .*'text'"),
    "title of a list": (lambda to: beir(to, {"title": ["a"]}), "corpus.jsonl, line 1: .*'title'"),
    "torn question": (lambda to: beir(to, None, {"text": TORN}), "queries.jsonl, line 1: .*'text'"),
    "question's id": (lambda to: beir(to, None, {"_id": []}), "queries.jsonl, line 1: .*'_id'"),
    "grade of half": (lambda to: beir(to, judged="q\td\t0.5\n"), "test.tsv, line 2"),
    "grade of no number": (lambda to: beir(to, judged="q\td\tnan\n"), "test.tsv, line 2"),
    "grade of a truth": (lambda to: beir(to, judged="q\td\ttrue\n"), "test.tsv, line 2"),
    "no utf-8": (lambda to: beir(to, judged="q\td\udcff\t1\n"), "test.tsv, line 2: no UTF-8"),
}


@pytest.mark.parametrize("case", BEIR)
def test_what_beir_folders_cannot_hold(tmp_path: Path, case: str) -> None:
    make, reason = BEIR[case]
    with pytest.raises(InvalidInput, match=reason):
        load_beir("m", make(tmp_path / "set"))


def test_ids_of_beir_may_be_numbers(tmp_path: Path) -> None:
    made = load_beir("m", beir(tmp_path / "set", {"_id": 1}, {"_id": 2}, "2\t1\t1\n"))
    assert [row["id"] for row in made.parts[0].rows] == ["1"]
    assert [(q.id, q.gold) for q in made.questions] == [("2", {"1": 1})]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", TORN),
        ("id", LONG),
        ("id", None),
        ("text", TORN),
        ("text", 7),
        ("concepts", "tea"),
        ("concepts", [7]),
        ("concepts", [TORN]),
        ("concepts", [" "]),
        ("concepts", [LONG]),
        ("concepts", [f"c{n}" for n in range(300)]),
    ],
)
def test_what_rows_with_tags_cannot_be(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"t.jsonl, line 2: .*'{key}'"):
        load_tags("m", lines(tmp_path / "t.jsonl", tag(), tag(**{key: value})))


@pytest.mark.parametrize(
    "bad",
    [
        {TORN: {"hot": {"_count": 1}}},
        {" ": {"hot": {"_count": 1}}},
        {LONG: {"hot": {"_count": 1}}},
        {"tea": {TORN: {"_count": 1}}},
        {"tea": {"": {"_count": 1}}},
        {"tea": {"hot": {"_count": True}}},
        {"tea": {"hot": {"_count": "3"}}},
        {"tea": {"hot": {"_count": 10**400}}},
    ],
)
def test_what_norms_cannot_be(tmp_path: Path, bad: dict[str, Any]) -> None:
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"cup": {"tea": {"_count": 2}}, **bad}))
    with pytest.raises(InvalidInput, match=r"n.json, cue "):
        load_norms("m", path)


def test_a_response_may_not_be_its_cue_in_another_spelling(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"tea": {"TEA ": {"_count": 2}, "hot": {"_count": 1}}}))
    made = load_norms("m", path)
    assert made.left_out == {"responses equal to their cue": 1}
    assert made.counts == {"tea": {"hot": 1}}


def own(tmp_path: Path, *rows: Any) -> AskedSet:
    store = str(tmp_path / "own.fa")
    with fa.open(store) as mem:
        if "7" not in mem:
            mem.write("Tea is hot.", id="7", concepts=[])
    return load_own(
        lines(tmp_path / "mine.jsonl", {"question": "tea", "gold": ["7"]}, *rows), store
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("question", TORN),
        ("question", " "),
        ("question", 7),
        ("gold", "7"),
        ("gold", [[]]),
        ("gold", [True]),
        ("gold", [TORN]),
        ("id", True),
        ("id", TORN),
        ("group", True),
        ("group", TORN),
    ],
)
def test_what_own_questions_cannot_be(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"mine.jsonl, line 2: .*'{key}'"):
        own(tmp_path, {"question": "tea", "gold": ["7"], key: value})


def test_own_questions_may_have_numbers_for_ids(tmp_path: Path) -> None:
    made = own(tmp_path, {"question": "hot", "gold": [7], "id": 3, "group": None})
    assert [(q.id, q.gold, q.group) for q in made.questions] == [
        ("q0", {"7": 1}, ""),
        ("3", {"7": 1}, ""),
    ]


def test_a_bad_set_is_told_and_the_others_measured(tmp_path: Path) -> None:
    lines(tmp_path / "good" / "m.jsonl", musique())
    bad = lines(tmp_path / "torn" / "m.jsonl", musique(id="first"), musique(question=TORN))
    table = beir(tmp_path / "beir", judged="q\td\udcff\t1\n") / "qrels" / "test.tsv"
    report, _, _ = run(Options(data=tmp_path, embedder="none", parts=("reads",)))
    assert [one["name"] for one in report["sets"]] == ["good"]
    failed = {one["name"]: one["reason"] for one in report["failed"]}
    assert failed["torn"].startswith(f"{bad}, line 2: found 'tea \\ud800', expected ")
    assert failed["beir"].startswith(f"{table}, line 2: no UTF-8")


@pytest.mark.parametrize("text", ["", " \n", "[]", "[ ]\n", "{}"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"m.json: .*empty"):
        run(Options(data=path, embedder="none"))
    (tmp_path / "m.jsonl").write_text("")
    with pytest.raises(InvalidInput, match=r"m.json: empty, skipped\.\n.*m.jsonl: empty, skipped"):
        run(Options(data=tmp_path, embedder="none"))


@pytest.mark.parametrize("kind", ["multihop", "dialogues", "norms", "tags", "beir"])
def test_an_empty_set_is_said_to_be_empty(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "m.json"
    path.write_text("{}" if kind == "norms" else "[]")
    if kind == "beir":
        path = beir(tmp_path / "set")
        (path / "corpus.jsonl").write_text("")
    with pytest.raises(InvalidInput, match="it is empty"):
        Found("m", kind, path).load()


def test_an_empty_file_of_own_questions_is_said_to_be_empty(tmp_path: Path) -> None:
    own(tmp_path)
    empty = tmp_path / "none.jsonl"
    empty.write_text("\n")
    with pytest.raises(InvalidInput, match=r"none.jsonl: it is empty"):
        load_own(empty, str(tmp_path / "own.fa"))
