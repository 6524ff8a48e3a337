"""The measurement of quality, on small made-up sets in every layout that it knows."""

from __future__ import annotations

import json
import math
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import fastassoc as fa
from fastassoc.cli import cli
from fastassoc.cli.bench import PARTS as OFFERED
from fastassoc.cli.benchshow import folded
from fastassoc.embed import resolve
from fastassoc.errors import InvalidInput
from fastassoc.quality import PARTS, SCHEMA, Options, find, html_page, run, write_trec
from fastassoc.quality.beir import load_beir
from fastassoc.quality.dialogues import load_dialogues
from fastassoc.quality.lessons import halves
from fastassoc.quality.measures import Bootstrap, measure
from fastassoc.quality.multihop import load_multihop
from fastassoc.quality.own import load_own
from fastassoc.quality.places import Place, Vectors, fields_of
from fastassoc.quality.reads import easy_questions
from fastassoc.quality.scores import FOREIGN, off_topic
from fastassoc.quality.sets import AskedSet, Part, Question
from fastassoc.quality.systems import SYSTEMS, fused, usable
from fastassoc.quality.words import load_norms, load_tags
from fastassoc.settings import RANKS

TOWNS = ("Ashford", "Birkdale", "Corwen", "Dunmere", "Elstow", "Farleigh", "Garstang", "Holbeck")
RIVERS = ("Avon", "Brant", "Cam", "Dove", "Eden", "Frome", "Gade", "Humber")


def passages() -> list[tuple[str, str]]:
    """Titled passages: a town lies on a river, a river rises in some hills."""
    made = []
    for number, (town, river) in enumerate(zip(TOWNS, RIVERS, strict=True)):
        made.append(
            (town, f"{town} is a market town on the {river} River with {number + 3} mills.")
        )
        made.append(
            (f"{river} River", f"The {river} River rises in the hills and flows past {town}.")
        )
    return made


def multihop_rows() -> list[dict[str, Any]]:
    rows = []
    for number, (town, river) in enumerate(zip(TOWNS, RIVERS, strict=True)):
        paragraphs = [
            {
                "title": title,
                "paragraph_text": text,
                "is_supporting": title.split()[0] in {town, river},
            }
            for title, text in passages()[2 * number : 2 * number + 2] + passages()[:2]
        ]
        question = f"Where does the river of the market town {town} rise?"
        rows.append(
            {"id": f"{number % 2 + 2}hop__{number}", "question": question, "paragraphs": paragraphs}
        )
    return rows


def hotpot_rows(columns: bool) -> list[dict[str, Any]]:
    """The layout of HotpotQA's and 2Wiki's own files, or that of their copies in two columns."""
    rows = []
    for number, (town, river) in enumerate(zip(TOWNS, RIVERS, strict=True)):
        context = [
            [title, [f"{text} ", "It is old."]]
            for title, text in passages()[2 * number : 2 * number + 2]
        ]
        facts = [[town, 0], [f"{river} River", 1]]
        row = {"_id": f"h{number}", "type": "bridge", "question": f"Which river has {town}?"}
        if columns:
            titles, sentences = zip(*context, strict=True)
            row |= {
                "context": {"title": list(titles), "sentences": list(sentences)},
                "supporting_facts": {"title": [f[0] for f in facts], "sent_id": [0, 1]},
            }
        else:
            row |= {"context": context, "supporting_facts": facts}
        rows.append(row)
    return rows


def dialogue() -> dict[str, Any]:
    turns = [
        ("Ann", "I bought a red bicycle last week for the school run."),
        ("Bob", "Mine was stolen near the old harbour in March."),
        ("Ann", "Did the police find who took it from the harbour?"),
        ("Bob", "They found the thief and a shed full of bicycles."),
    ]
    session = [
        {"speaker": who, "dia_id": f"D1:{n}", "text": text}
        for n, (who, text) in enumerate(turns, 1)
    ]
    session[0]["blip_caption"] = "a red bicycle in the rain"
    later = [
        {"speaker": "Ann", "dia_id": "D2:1", "text": "The garden needs rain this summer."},
        {"speaker": "Bob", "dia_id": "D2:2", "text": ""},
        {"speaker": "Bob", "dia_id": "D2:3", "text": "My tomatoes died of thirst again."},
    ]
    qa = [
        {"question": "What did Ann buy?", "evidence": ["D1:1"], "category": 4},
        {"question": "Where was it stolen?", "evidence": ["D1:2; D1:3"], "category": 1},
        {"question": "Who has tomatoes?", "evidence": ["D2:3", "D", "D9:9"], "category": 5},
        {"question": "What is nowhere?", "evidence": [], "category": 3},
        {"question": "Who died?", "evidence": ["D:2:3"], "category": 2},
    ]
    return {
        "sample_id": "talk",
        "qa": qa,
        "conversation": {
            "speaker_a": "Ann",
            "session_1": session,
            "session_10": [],
            "session_2_date_time": "noon",
            "session_2": later,
        },
    }


def norms() -> dict[str, Any]:
    draw = random.Random(5)
    words = [f"WORD{n}" for n in range(20)]
    made: dict[str, Any] = {}
    for at, word in enumerate(words):
        near = {words[(at + step) % 20]: {"_count": draw.randint(3, 40)} for step in (1, 2, 3)}
        made[word] = {"_count": 100, **near, word: {"_count": 2}}
    return made


def tags() -> list[dict[str, Any]]:
    draw = random.Random(6)
    rows = []
    for number in range(80):
        group = number % 4
        names = [f"tag{group}{letter}" for letter in draw.sample("abcde", 4)]
        rows.append({"id": f"n{number}", "text": f"Package {number}", "concepts": names})
    return [*rows, rows[0]]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_json(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def write_beir(folder: Path, qrels: str | None = None) -> Path:
    rows = [
        {"_id": f"d {n}", "title": title, "text": text}
        for n, (title, text) in enumerate(passages())
    ]
    write_lines(folder / "corpus.jsonl", [*rows, {"_id": "empty", "title": "", "text": " "}])
    write_lines(
        folder / "queries.jsonl",
        [
            {"_id": "1", "text": "market town with three mills"},
            {"_id": "2", "text": "where does the Brant rise"},
            {"_id": "3", "text": "of another split"},
        ],
    )
    (folder / "qrels").mkdir()
    table = "query-id\tcorpus-id\tscore\n1\td 0\t2\n1\td 1\t1\n2\td 3\t1\n2\tgone\t1\n2\td 5\t0\n"
    (folder / "qrels" / "test.tsv").write_text(table if qrels is None else qrels)
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n3\td 0\t1\n")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "sets"
    write_lines(root / "musique" / "dev.jsonl", multihop_rows())
    write_json(root / "locomo" / "talks.json", [dialogue()])
    write_json(root / "usf" / "norms.json", norms())
    write_lines(root / "debian" / "packages.jsonl", tags())
    write_beir(root / "towns")
    write_json(root / "wiki" / "corpus.json", [{"title": a, "text": b} for a, b in passages()])
    return root


@pytest.fixture
def vectors_of_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small embedder under a known name: counts of letters."""

    class Letters:
        name = "wordllama"
        dim = 26

        def embed(self, texts: list[str]) -> Any:
            rows = [Counter(ch for ch in text.lower() if "a" <= ch <= "z") for text in texts]
            return np.array([[row[chr(97 + n)] for n in range(26)] for row in rows], np.float32)

    monkeypatch.setattr("fastassoc.quality.bench.resolve", lambda name: resolve(Letters()))
    monkeypatch.setattr("fastassoc.quality.bench.available", lambda: {"wordllama": "ready"})


def quiet(*_: Any) -> None:
    return None


# -- loaders ------------------------------------------------------------------------------------


def test_sets_are_known_by_their_layout(data: Path) -> None:
    found, said = find(data)
    assert [(one.name, one.kind) for one in found] == [
        ("musique", "multihop"),
        ("locomo", "dialogues"),
        ("usf", "norms"),
        ("debian", "tags"),
        ("towns", "beir"),
    ]
    assert said == ["wiki: passages without questions (corpus.json), skipped."]
    alone, said = find(data / "towns")
    assert [(one.name, one.kind) for one in alone] == [("towns", "beir")]
    assert len(said) == 4
    assert all("skipped" in sentence for sentence in said)


@pytest.mark.parametrize("subjects", [True, False])
def test_musique_pools_passages_and_counts_hops(tmp_path: Path, subjects: bool) -> None:
    path = write_lines(
        tmp_path / "m.jsonl",
        [
            *multihop_rows(),
            {
                "id": "x",
                "question": "Nothing?",
                "paragraphs": [
                    {"title": "T", "paragraph_text": " ", "is_supporting": True},
                    {"title": "T", "paragraph_text": "x", "is_supporting": False},
                ],
            },
        ],
    )
    made = load_multihop("m", path, subjects=subjects)
    rows = made.parts[0].rows
    assert len(rows) == 17
    assert rows[0]["text"].startswith("Ashford. Ashford is a market town")
    assert rows[0].get("subjects") == (["Ashford"] if subjects else None)
    assert Counter(q.group for q in made.questions) == {"2hop": 4, "3hop": 4}
    assert all(len(q.gold) == 2 for q in made.questions)
    assert made.left_out == {"empty passages": 1, "questions without a supporting passage": 1}


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("lines", [False, True])
def test_hotpot_and_2wiki(tmp_path: Path, columns: bool, lines: bool) -> None:
    rows = hotpot_rows(columns)
    path = (write_lines if lines else write_json)(tmp_path / f"h.json{'l' * lines}", rows)
    made = load_multihop("h", path)
    assert len(made.parts[0].rows) == 16
    assert made.parts[0].rows[0]["text"].endswith("with 3 mills. It is old.")
    assert [len(q.gold) for q in made.questions] == [2] * 8
    assert made.questions[0].group == "bridge"
    assert find(tmp_path)[0][0].kind == "multihop"


def test_locomo_turns_evidence_and_sessions(tmp_path: Path) -> None:
    made = load_dialogues("l", write_json(tmp_path / "l.json", [dialogue()]))
    rows = made.parts[0].rows
    assert rows[0]["text"] == (
        "Ann: I bought a red bicycle last week for the school run. [a red bicycle in the rain]"
    )
    assert [row["id"] for row in rows] == ["D1:1", "D1:2", "D1:3", "D1:4", "D2:1", "D2:3"]
    assert [sorted(q.gold) for q in made.questions] == [["D1:1"], ["D1:2", "D1:3"], ["D2:3"]]
    assert [q.group for q in made.questions] == ["single-hop", "multi-hop", "adversarial"]
    assert made.left_out == {
        "turns without a text, or with an id that came before": 1,
        "evidence texts that are not one id (ids in them count)": 3,
        "evidence ids of no turn": 1,
        "questions without evidence": 2,
    }
    mem = Place(made.parts[0], Vectors(None, quiet)).fresh()
    pairs = {(row["a"], row["b"]) for row in mem.note_links.to_arrow().to_pylist()}
    assert ("D1:1", "D1:2") in pairs
    assert ("D1:4", "D2:1") not in pairs


def test_beir_grades_splits_and_what_is_missing(tmp_path: Path) -> None:
    made = load_beir("b", write_beir(tmp_path / "b"))
    assert [(q.id, q.gold) for q in made.questions] == [
        ("1", {"d 0": 2, "d 1": 1}),
        ("2", {"d 3": 1}),
    ]
    assert made.main == "ndcg@10"
    assert made.left_out == {
        "notes without a text, or with an id that came before": 1,
        "judgements of notes that the corpus has not": 1,
    }
    assert made.parts[0].rows[1]["subjects"] == ["Avon River"]
    headless = load_beir("b", write_beir(tmp_path / "c", "1\td 0\t1\n"))
    assert len(headless.questions) == 1


def test_norms_and_tags(tmp_path: Path) -> None:
    made = load_norms("n", write_json(tmp_path / "n.json", norms()))
    assert len(made.counts) == 20
    assert all(len(responses) == 3 for responses in made.counts.values())
    assert made.left_out == {"responses equal to their cue": 20}
    kept = load_tags("t", write_lines(tmp_path / "t.jsonl", tags()))
    assert len(kept.rows) == 80
    assert kept.left_out == {"rows without a text, or with an id that came before": 1}


def test_own_questions_of_a_store(tmp_path: Path) -> None:
    store = str(tmp_path / "own.fa")
    with fa.open(store) as mem:
        mem.write_batch([{"id": f"n{n}", "text": text} for n, (_, text) in enumerate(passages())])
        position = mem.position
    path = write_lines(
        tmp_path / "mine.jsonl",
        [
            {"question": "market town Ashford", "gold": ["n0", "gone"]},
            {
                "question": "the hills of the Brant River",
                "gold": ["n3"],
                "id": "b",
                "group": "hills",
            },
            {"question": "nothing here", "gold": ["gone"]},
        ],
    )
    made = load_own(path, store)
    assert [(q.id, q.gold) for q in made.questions] == [("q0", {"n0": 1}), ("b", {"n3": 1})]
    assert made.left_out["questions without a note that the store has"] == 1
    report, _, _ = run(Options(questions=str(path), store=store, embedder="none"))
    reads = {row["name"]: row for row in report["sets"][0]["reads"]}
    assert reads["bm25"]["measures"]["recall@5"]["value"] == 1.0
    assert "feedback" not in report["sets"][0]
    with fa.open(store) as mem:
        assert mem.position == position


def test_vectors_of_another_embedder_are_refused(tmp_path: Path, vectors_of_letters: None) -> None:
    def two(texts: list[str]) -> Any:
        return [[1.0, float(len(text))] for text in texts]

    path = write_lines(tmp_path / "mine.jsonl", [{"question": "tea", "gold": ["a"]}])
    for name, how, vector, reason in (
        ("a", two, None, "come from the embedder .* none leaves vectors out"),
        ("b", None, [1.0, 2.0], "found 26 numbers, expected 2.* none leaves vectors out"),
    ):
        with fa.open(tmp_path / name, embedder=how) as mem:
            mem.write("Tea is hot.", id="a", vector=vector)
        with pytest.raises(InvalidInput, match=reason):
            run(Options(questions=str(path), store=str(tmp_path / name)))


BAD = {
    "no JSON": ("m.jsonl", "{", "line 1: no JSON"),
    "no object": ("m.jsonl", "[1]\n", "line 1: found [1], expected an object"),
    "no question": ("m.jsonl", '{"paragraphs": []}', "expected a text under 'question'"),
    "no paragraphs": ("m.jsonl", '{"question": "x"}', "expected 'paragraphs', or 'context'"),
    "a paragraph without text": (
        "m.jsonl",
        '{"question": "x", "paragraphs": [{"title": "t"}]}',
        "'paragraph_text'",
    ),
    "a context of texts": (
        "m.jsonl",
        '{"question": "x", "context": ["a"], "supporting_facts": []}',
        "pairs of a",
    ),
    "columns of two lengths": (
        "m.jsonl",
        '{"question": "x", "context": {"title": ["a"], "sentences": []}, "supporting_facts": []}',
        "equally long",
    ),
    "no list": ("m.json", '{"question": "x"}', "expected a list of objects"),
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_questions_are_refused_with_the_place(tmp_path: Path, case: str) -> None:
    name, text, reason = BAD[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_multihop("m", tmp_path / name)
    assert reason in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_other_malformed_sets_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        (
            lambda: load_dialogues("x", write_json(tmp_path / "a.json", {"a": 1})),
            "a list of dialogues",
        ),
        (lambda: load_dialogues("x", write_json(tmp_path / "b.json", [{}])), "dialogue 0"),
        (
            lambda: load_dialogues(
                "x", write_json(tmp_path / "c.json", [{"conversation": {"session_1": 3}, "qa": []}])
            ),
            "a list of turns",
        ),
        (lambda: load_norms("x", write_json(tmp_path / "d.json", {"A": 3})), "cue 'A'"),
        (lambda: load_norms("x", write_json(tmp_path / "e.json", {"A": {"B": 0}})), "a count"),
        (lambda: load_tags("x", write_lines(tmp_path / "f.jsonl", [{"id": "a"}])), "line 1"),
        (
            lambda: load_beir("x", write_beir(tmp_path / "g", "1\td 0\t1\n1 d 0\n")),
            "test.tsv, line 2",
        ),
    ]
    for call, reason in cases:
        with pytest.raises(InvalidInput, match=reason):
            call()
    for table in (tmp_path / "g" / "qrels").iterdir():
        table.unlink()
    with pytest.raises(InvalidInput, match="qrels"):
        load_beir("x", tmp_path / "g")
    with pytest.raises(InvalidInput, match="no folder"):
        find(tmp_path / "nowhere")


# -- measures -----------------------------------------------------------------------------------


def test_measures_by_hand() -> None:
    made = measure(["x", "a", "y", "b"], {"a": 2, "b": 1, "c": 1})
    assert made["recall@2"] == pytest.approx(1 / 3)
    assert made["recall@5"] == made["recall@10"] == pytest.approx(2 / 3)
    assert (made["all@5"], made["mrr"]) == (0.0, 0.5)
    best = 2 + 1 / math.log2(3) + 1 / 2
    assert made["ndcg@10"] == pytest.approx((2 / math.log2(3) + 1 / math.log2(5)) / best)
    assert set(measure([], {"a": 1}).values()) == {0.0}
    assert measure(["a", "a", "b"], {"b": 1})["mrr"] == 0.5


def test_intervals_are_seeded_and_cover() -> None:
    draw = np.random.default_rng(0)
    inside = 0
    for seed in range(40):
        sure = Bootstrap(200, seed).interval((draw.random(200) < 0.3).astype(float))
        assert sure["low"] <= sure["value"] <= sure["high"]
        assert 0.08 < sure["high"] - sure["low"] < 0.18
        inside += sure["low"] <= 0.3 <= sure["high"]
    assert inside >= 32
    values = draw.random(50)
    assert Bootstrap(50, 1).interval(values) == Bootstrap(50, 1).interval(values)
    assert Bootstrap(50, 1).interval(values) != Bootstrap(50, 2).interval(values)


def test_systems_follow_the_ranks_that_there_are() -> None:
    names = {one.name for one in usable(SYSTEMS, True)}
    assert {"dense", "bm25", "fusion", "hybrid", "counts", "links"} <= names
    assert ("ppr" in names) == ("ppr" in RANKS)
    assert ("bridge-default" in names) == ("bridge" in RANKS)
    without = {one.name for one in usable(SYSTEMS, False)}
    assert not without & {"dense", "fusion", "hybrid"}
    assert fields_of({"hop_factor": 1.0, "no such": 2}) is None
    assert [note for note, _ in fused([["a", "b", "c"], ["c"]])] == ["c", "a", "b"]


def test_lookups_and_halves_are_seeded() -> None:
    rows = [{"id": f"n{n}", "text": text} for n, (_, text) in enumerate(passages())]
    rows.append({"id": "twin", "text": rows[0]["text"]})
    place = Place(Part("p", rows, []), Vectors(None, quiet))
    made = easy_questions([place], 500, 3)
    assert len(made) == 15  # each sentence that stands in one note
    again = easy_questions([place], 500, 3)
    assert [q for _, q in made] == [q for _, q in again]
    texts = {row["id"]: row["text"].split() for row in rows}
    for _, question in made:
        (note,) = question.gold
        words = iter(texts[note])
        assert all(word in words for word in question.text.split())  # in their order
        assert len(question.text.split()) == (len(texts[note]) + 1) // 2
    questions = [Question(str(n), "x", {"a": 1}) for n in range(7)]
    taught, others = halves(questions, 1)
    assert (len(taught), len(others)) == (4, 3)
    assert {q.id for q in taught} | {q.id for q in others} == {q.id for q in questions}


def test_off_topic_kinds() -> None:
    sets = {
        name: AskedSet(
            name,
            "multihop",
            [
                Part(
                    name,
                    [{"text": f"{name} words stand here"}],
                    [Question("q", f"about {name}?", {"a": 1})],
                )
            ],
        )
        for name in ("one", "two")
    }
    made = off_topic(sets["one"], sets, 1)
    assert made["questions of two"] == ["about two?"]
    assert not any("one" in text.split() for text in made["random words"])
    assert made["other languages"] == list(FOREIGN)
    assert made == off_topic(sets["one"], sets, 1)


# -- the whole ----------------------------------------------------------------------------------


def check_schema(report: dict[str, Any]) -> None:
    """Every key that readers of the document rely on."""
    assert report["schema"] == SCHEMA == {"name": "fastassoc-quality", "version": 1}
    assert {
        "fastassoc",
        "python",
        "machine",
        "embedder",
        "seed",
        "limit",
        "subjects",
        "parts",
        "ranks",
        "skipped",
        "sets",
        "seconds",
    } <= set(report)
    spans: list[dict[str, float]] = []
    for one in report["sets"]:
        assert {"name", "kind", "left_out"} <= set(one)
        if one["kind"] in {"norms", "tags"}:
            continue
        assert {"stores", "notes", "questions", "main", "best", "write_seconds"} <= set(one)
        for row in one["reads"]:
            assert {"name", "title", "rank", "changes", "milliseconds", "groups"} <= set(row)
            assert set(row["milliseconds"]) == {"p50", "p95"}
            spans += [*row["measures"].values(), row["gain"]]
        for row in one.get("lookups", {"systems": []})["systems"]:
            spans += [row["@1"], row["@5"]]
        for row in one.get("feedback", {"systems": []})["systems"]:
            for groups in row["taught"].values():
                assert list(groups) == ["re-asked", "related", "unrelated"]
                for told in groups.values():
                    assert ("before" in told) == (told["questions"] > 0)
                    spans += [told[name] for name in ("before", "after", "change") if name in told]
            assert row["wrong"]["rated"] >= row["wrong"]["left_first_place"]
        for row in one.get("scores", {"systems": []})["systems"]:
            for told in row["kinds"].values():
                assert len(told["histogram"]) == 20
                assert 0.0 <= told["right"] <= 1.0
    for span in spans:
        assert span["low"] <= span["value"] <= span["high"]
    json.dumps(report, allow_nan=False)


class Outline(HTMLParser):
    """Open tags, and every attribute that could name something outside."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.outside += [
            f"{tag} {name}" for name, _ in attrs if name in {"src", "href", "xlink:href", "data"}
        ]


def test_everything_with_vectors(data: Path, tmp_path: Path, vectors_of_letters: None) -> None:
    told: list[tuple[str, int, int]] = []
    options = Options(data=data, ablations=True)
    report, sets, ranked = run(options, lambda *state: told.append(state))
    check_schema(report)
    assert told
    assert all(0 < done <= of for _, done, of in told)
    by_name = {one["name"]: one for one in report["sets"]}
    assert list(by_name) == ["musique", "locomo", "usf", "debian", "towns"]
    reads = {row["name"]: row for row in by_name["musique"]["reads"]}
    assert {"dense", "bm25", "fusion", "hybrid", "counts", "links"} <= set(reads)
    assert reads["hybrid"]["gain"]["value"] == 0.0
    assert set(reads["bm25"]["groups"]) == {"2hop", "3hop"}
    assert reads["bm25"]["measures"]["recall@10"]["value"] > 0.5
    usf = by_name["usf"]["associations"]
    assert set(usf["found@10"]) == {"one", "both"}
    assert set(usf["found@10"]["one"]) == {
        "associate",
        "strongest links",
        "two links",
        "nearest words",
    }
    assert usf["found@10"]["both"]["strongest links"]["value"] == 0.0
    assert usf["found@10"]["both"]["two links"]["value"] > 0.5
    tagged = by_name["debian"]["associations"]
    assert tagged["ways"]["associate"]["@5"]["value"] > 0.9
    assert (
        sum(group["questions"] for group in tagged["groups"].values()) == tagged["held_out"] == 20
    )

    files = write_trec(tmp_path / "runs", sets, ranked)
    assert all(path.is_file() for path in files)
    for path in files:
        for line in path.read_text().splitlines():
            columns = line.split(" ")
            if path.suffix == ".qrels":
                assert len(columns) == 4
                assert int(columns[3]) > 0
            else:
                assert len(columns) == 6
                assert columns[1] == "Q0"
                assert columns[5] == path.name.split(".")[1]
                float(columns[4])
    run_file = (tmp_path / "runs" / "towns.bm25.run").read_text()
    assert "1 Q0 d_0 1 " in run_file
    ranks = [int(line.split()[3]) for line in run_file.splitlines() if line.startswith("1 ")]
    assert ranks == list(range(1, len(ranks) + 1))

    page = html_page(report)
    outline = Outline()
    outline.feed(page)
    assert not outline.outside
    assert "http" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "<script" not in page
    assert outline.tags["svg"] >= 8
    assert outline.tags["table"] >= 8
    ET.fromstring(page.partition("\n")[2])  # every tag is closed


def test_without_vectors_and_with_a_limit(data: Path) -> None:
    options = Options(
        data=data, embedder="none", only=("musique",), limit=3, parts=("reads", "feedback")
    )
    report, _, _ = run(options)
    check_schema(report)
    (one,) = report["sets"]
    assert one["questions"] == 3
    assert "scores" not in one
    assert one["reads"][0]["gain"]["over"] == "bm25"
    groups = one["feedback"]["systems"][0]["taught"]["all"]
    assert sum(told["questions"] for told in groups.values()) == 3


def test_an_embedder_that_is_not_there_is_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastassoc.quality.bench.available", lambda: {"minilm": "not installed"})
    options = Options(data=data, embedder="minilm", only=("towns",), parts=("reads",))
    report, _, _ = run(options)
    assert report["embedder"] is None
    assert report["skipped"] == ["embedder minilm: not installed; what needs vectors is skipped."]


def test_settings_are_as_before_after_a_read_with_others() -> None:
    place = Place(Part("p", [{"id": "a", "text": "Tea is hot."}], []), Vectors(None, quiet))
    with place.asked({"bm25_k1": 0.7}) as mem:
        assert mem.settings.bm25_k1 == 0.7
    with place.asked({}) as mem:
        assert mem.settings.bm25_k1 == fa.Settings.counts().bm25_k1


# -- the command --------------------------------------------------------------------------------


def command(*args: object, code: int = 0, env: dict[str, str | None] | None = None) -> Result:
    whole = {"FASTASSOC_STORE": None, "FASTASSOC_DATA": None, "COLUMNS": "80", **(env or {})}
    result = CliRunner().invoke(cli, ["bench", "quality", *map(str, args)], env=whole)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_the_command_prints_and_writes(data: Path, tmp_path: Path) -> None:
    assert OFFERED == PARTS
    files = tmp_path / "report.json", tmp_path / "report.html", tmp_path / "runs"
    result = command(
        "--embedder",
        "none",
        "--only",
        "musique,locomo",
        "--only",
        "debian",
        "--json",
        files[0],
        "--html",
        files[1],
        "--trec",
        files[2],
        env={"FASTASSOC_DATA": str(data)},
    )
    for word in ("musique", "BM25", "recall@5", "easy look-up", "feedback", "unseen note", "95 %"):
        assert word in result.stdout
    assert "…" not in result.stdout
    check_schema(json.loads(files[0].read_text()))
    assert files[1].read_text().startswith("<!DOCTYPE html>")
    assert (files[2] / "locomo.qrels").is_file()
    with fa.open(tmp_path / "own.fa") as mem:
        mem.write("Tea is hot.", id="a")
    mine = write_lines(tmp_path / "mine.jsonl", [{"question": "tea", "gold": ["a"]}])
    shown = command(
        "--questions",
        mine,
        "--store",
        tmp_path / "own.fa",
        "--embedder",
        "none",
        "--json",
        "-",
        env={"FASTASSOC_DATA": str(data)},
    )
    assert [one["name"] for one in json.loads(shown.stdout)["sets"]] == ["mine"]
    shown = command("--data", data, "--embedder", "none", "--only", "usf", "--json", "-")
    assert json.loads(shown.stdout)["sets"][0]["kind"] == "norms"


def test_one_file_is_a_set(data: Path, tmp_path: Path) -> None:
    found, said = find(data / "musique" / "dev.jsonl")
    assert ([(one.name, one.kind) for one in found], said) == ([("dev", "multihop")], [])
    shown = command("--data", data / "usf" / "norms.json", "--embedder", "none", "--json", "-")
    assert [one["name"] for one in json.loads(shown.stdout)["sets"]] == ["norms"]
    said = command("--data", data / "wiki" / "corpus.json", code=1).output
    assert "passages without questions" in said
    (tmp_path / "notes.txt").write_text("tea")
    said = command("--data", tmp_path / "notes.txt", code=1).output
    assert "no layout that is known" in said
    assert "supporting_facts" in said
    bad = write_json(tmp_path / "bad.json", [{"question": "x", "context": ["a"],
                                              "supporting_facts": []}])  # fmt: skip
    assert "pairs of a" in command("--data", bad, code=1).output
    assert "no folder" in command("--data", tmp_path / "nowhere.json", code=1).output


def test_a_malformed_set_does_not_end_the_measurement(data: Path, tmp_path: Path) -> None:
    bad = write_lines(data / "torn" / "t.jsonl", [{"question": "x", "paragraphs": [{"title": "t"}],
                                                   "paragraph_text": ""}])  # fmt: skip
    wrong = write_json(data / "wrong" / "n.json", {"A": {"B": {"_count": 0}}})
    options = ("--data", data, "--embedder", "none", "--only", "torn,wrong,debian,usf")
    page = tmp_path / "r.html"
    shown = command(*options, "--json", "-", "--html", page, code=1)
    report = json.loads(shown.stdout)
    assert [one["name"] for one in report["sets"]] == ["usf", "debian"]
    assert [one["name"] for one in report["failed"]] == ["torn", "wrong"]
    for name, path in (("torn", bad), ("wrong", wrong)):
        assert f"{name}: not measured: {path}" in shown.stderr
        assert f"{name}: not measured: {path}" in page.read_text()
    shown = command("--data", data, "--embedder", "none", "--only", "torn,debian", code=1)
    assert "unseen note" in shown.stdout
    assert f"torn: not measured: {bad}" in shown.stderr
    said = command("--data", data, "--only", "torn,wrong", code=1).output
    assert "nothing to measure" in said
    assert str(bad) in said
    assert str(wrong) in said


@pytest.mark.parametrize("columns", [40, 60, 80, 140])
def test_no_number_is_cut(data: Path, vectors_of_letters: None, columns: int) -> None:
    shown = command(
        "--data", data, "--only", "musique,locomo,usf,debian", "--ablations",
        env={"COLUMNS": str(columns)},
    ).stdout  # fmt: skip
    assert "…" not in shown
    lines = shown.splitlines()
    told = shown[shown.index(" reads; gain") : shown.index("by kind of question")]
    for head in ("r@2", "r@5", "r@10", "all@5", "mrr", "gain", "ms"):
        assert len(re.findall(rf"(?<!\S){head}(?!\S)", told)) >= 1, head
    tables = [line for line in told.splitlines() if re.match(" {10,}[a-z]", line)]
    assert (len(tables) > 1) == (columns < 140), tables
    assert all(len(line) <= columns for line in lines if re.search(r"(?<!\d)\.\d{3}\s", line))


def test_an_interval_stays_beside_its_value() -> None:
    head = ["", "a", "95 %", "b", "c"]
    rows = [["a long name of a row", "1.000", "+.100 1.000", "1.000", "-1.000"]]
    assert folded(80, head, rows) == [[1, 2, 3, 4]]
    assert folded(46, head, rows) == [[1, 2, 3], [4]]
    assert folded(40, head, rows) == [[1, 2], [3, 4]]
    assert folded(25, head, rows) == [[1, 2], [3, 4]]
    assert folded(20, ["", "a"], [["x", "1"]]) == [[1]]


def test_the_command_refuses_clearly(data: Path, tmp_path: Path) -> None:
    assert "FASTASSOC_DATA" in command(code=2).output
    assert "expected of reads" in command("--data", data, "--part", "x", code=2).output
    assert "--embedder" in command("--data", data, "--embedder", "x", code=2).output
    assert "--store" in command("--questions", "q.jsonl", code=2).output
    said = command("--data", data, "--only", "nq", code=1).output
    assert "nq not found" in said
    assert "musique, locomo, usf, debian, towns" in said
    assert "no folder" in command("--data", tmp_path / "no", code=1).output
    (tmp_path / "empty").mkdir()
    said = command("--data", tmp_path / "empty", code=1).output
    assert "nothing to measure" in said
    assert "corpus.jsonl" in said
    said = command("--data", data, "--html", tmp_path / "no" / "r.html", code=1).output
    assert "its folder is not there" in said
