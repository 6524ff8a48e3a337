"""Where nothing could be measured no figure stands: not on the terminal, in JSON, or in HTML."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fastassoc.cli.app import cli


def measured(folder: Path, *options: object) -> tuple[str, dict[str, Any], str]:
    """What the terminal, the JSON file and the page say."""
    files = folder / "r.json", folder / "r.html"
    whole = ["bench", "quality", "--embedder", "none", "--json", files[0], "--html", files[1]]
    env = {"FASTASSOC_STORE": None, "FASTASSOC_DATA": None, "COLUMNS": "100"}
    result = CliRunner().invoke(cli, [*map(str, whole), *map(str, options)], env=env)
    assert result.exit_code == 0, result.output
    return result.output, json.loads(files[0].read_text()), files[1].read_text()


def write_lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A set whose notes have no sentence of six words."""
    rows = [
        {
            "question": f"what is {what}?",
            "paragraphs": [
                {"title": name, "paragraph_text": f"{name} is {what}.", "is_supporting": True},
                {"title": f"{name} {name}", "paragraph_text": "Not so.", "is_supporting": False},
            ],
        }
        for name, what in (("Tea", "hot"), ("Ice", "cold"))
    ]
    return write_lines(tmp_path / "m.jsonl", *rows)


def test_no_look_ups(short: Path, tmp_path: Path) -> None:
    shown, report, page = measured(tmp_path, "--data", short, "--part", "lookups")
    assert report["sets"][0]["lookups"] == {"questions": 0, "systems": []}
    for text in (shown, page):
        assert "no easy look-up could be made" in text.lower()
        assert "six words" in text
    assert not re.search(r"\.000\b", shown)
    assert "0.000" not in page.partition("Easy look-ups")[2]


def test_no_related_questions_and_no_wrong_first_hits(short: Path, tmp_path: Path) -> None:
    shown, report, page = measured(tmp_path, "--data", short, "--part", "feedback")
    for row in report["sets"][0]["feedback"]["systems"]:
        for groups in row["taught"].values():
            assert groups["related"] == {"questions": 0}
            assert set(groups["re-asked"]) == {"questions", "before", "after", "change"}
        assert row["wrong"] == {"rated": 0, "left_first_place": 0}
    assert "related" not in re.sub("unrelated", "", page)
    for text in (shown, page):
        assert "no first hit was wrong" in text.lower()


def test_no_tag_to_hide(tmp_path: Path) -> None:
    rows = [{"id": f"n{n}", "text": "Tea.", "concepts": ["tea", "hot"]} for n in range(9)]
    data = write_lines(tmp_path / "t.jsonl", *rows)
    shown, report, page = measured(tmp_path, "--data", data)
    assert report["sets"][0]["associations"] == {"held_out": 0, "ways": {}, "groups": {}}
    for text in (shown, page):
        assert "no tag could be hidden" in text.lower()
        assert "three tags" in text.lower()
        assert not re.search(r"[\s>][01]?\.000\b", text)


def test_no_cue(tmp_path: Path) -> None:
    data = tmp_path / "n.json"
    data.write_text(json.dumps({"tea": {"_count": 3, "tea": {"_count": 1}}}))
    shown, report, page = measured(tmp_path, "--data", data)
    assert report["sets"][0]["associations"] == {"cues": 0, "found@10": {}}
    for text in (shown, page):
        assert "no cue has a response" in text.lower()
        assert not re.search(r"[\s>][01]?\.000\b", text)
