"""Run files say what is printed, and their names say which read it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastassoc as fa
from fastassoc.quality import Options, run, write_trec
from fastassoc.quality.sets import AskedSet, Part, Question
from fastassoc.quality.systems import ABLATIONS, SYSTEMS, best_of, usable


def lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def columns(path: Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield line.split(" ")


def sorted_as_trec_eval(path: Path) -> dict[str, list[str]]:
    """Notes by question: the rank column is not looked at, scores have 32 bits, ids break ties."""
    held: dict[str, list[tuple[np.float32, str]]] = {}
    for mark, _, note, _, score, _ in columns(path):
        held.setdefault(mark, []).append((np.float32(float(score)), note))
    return {mark: [note for _, note in sorted(rows)[::-1]] for mark, rows in held.items()}


def recall(run_file: Path, qrels: Path, k: int) -> float:
    """As ``trec_eval -c``: a mean over all questions that are judged."""
    found, gold = sorted_as_trec_eval(run_file), {}
    for mark, _, note, grade in columns(qrels):
        gold.setdefault(mark, {})[note] = int(grade)
    shares = [
        len(set(found.get(mark, [])[:k]) & set(right)) / len(right) for mark, right in gold.items()
    ]
    return sum(shares) / len(shares)


def test_run_files_sorted_by_score_alone_give_the_printed_figures(tmp_path: Path) -> None:
    """Many notes of one text tie; by id, which trec_eval falls back to, the last comes first."""
    rows = [
        {
            "id": f"q{n}",
            "question": f"which river is near town{n % 4}?",
            "paragraphs": [
                {
                    "title": "",
                    "paragraph_text": f"The river near town{n % 4} is wide{' ' * copy}",
                    "is_supporting": copy in {0, 3},
                }
                for copy in range(8)
            ],
        }
        for n in range(8)
    ]
    data = lines(tmp_path / "m.jsonl", *rows)
    report, sets, ranked = run(
        Options(data=data, embedder="none", parts=("reads",), ablations=True)
    )
    write_trec(tmp_path, sets, ranked)
    assert any(len({score for _, score in hits}) < len(hits) for _, hits in ranked["m", "bm25"])
    for row in report["sets"][0]["reads"]:
        file = tmp_path / f"m.{row['name']}.run"
        order = {mark: [note for note, _ in hits] for mark, hits in ranked["m", row["name"]]}
        assert sorted_as_trec_eval(file) == {mark: ids for mark, ids in order.items() if ids}
        for k in (2, 5, 10):
            value = recall(file, tmp_path / "m.qrels", k)
            assert value == pytest.approx(row["measures"][f"recall@{k}"]["value"], abs=1e-5)


def test_scores_fall_as_they_are_written(tmp_path: Path) -> None:
    """Also where two differ by less than the file holds, rise, or are nothing."""
    scores = [1.0, 1.0, 1.0 - 1e-12, 2.0, 0.5, 0.5 + 1e-9, 0.0, 0.0, -0.0]
    hits = [(f"n{n}", score) for n, score in enumerate(scores)]
    asked = AskedSet("s", "own", [Part("s", [], [Question("q", "x", {"n0": 1})])])
    write_trec(tmp_path, [asked], {("s", "bm25"): [("q", hits)]})
    file = tmp_path / "s.bm25.run"
    assert sorted_as_trec_eval(file) == {"q": [note for note, _ in hits]}
    written = [float(row[4]) for row in columns(file)]
    assert (written[0], written[4]) == (1.0, 0.5)
    assert written == sorted(set(written), reverse=True)
    assert written == pytest.approx([1, 1, 1, 1, 0.5, 0.5, 0, 0, 0], abs=1e-6)


def test_ids_that_differ_in_white_space_stay_two(tmp_path: Path) -> None:
    questions = [Question("q 1", "x", {"n 1": 1, "n_1": 1}), Question("q_1", "x", {"n\t1": 1})]
    sets = [AskedSet(name, "own", [Part(name, [], questions)]) for name in ("a b", "a_b")]
    hits = [("n_1", 2.0), ("n 1", 1.0)]
    ranked = {(one.name, "bm25"): [("q 1", hits), ("q_1", hits)] for one in sets}
    written = write_trec(tmp_path, sets, ranked)
    assert len(set(written)) == 4
    for name in ("a_b", "a_b_2"):
        pairs = [(mark, note) for mark, _, note, _ in columns(tmp_path / f"{name}.qrels")]
        assert len(set(pairs)) == 3
        assert recall(tmp_path / f"{name}.bm25.run", tmp_path / f"{name}.qrels", 5) == 0.5


def test_the_default_read_has_a_name_of_its_own() -> None:
    """`cover` was what a read does by default, and `bridge` was the bridge without a step."""
    systems = usable(SYSTEMS, True)
    best = best_of(systems)
    assert (best.name, best.title) == ("bridge-default", "bridge, the default")
    kept = fa.Settings().to_dict()
    assert best.rank == "bridge"
    assert all(kept[name] == value for name, value in best.changes.items())
    for one in systems:  # a row begins with the first word of its file's name
        assert one.title.lower().split()[0].rstrip(":,") == one.name.split("-")[0]
    assert [one.name for one in systems if "default" in one.name] == ["bridge-default"]
    assert all(one.name.startswith("bridge-default-") for one in ABLATIONS)
