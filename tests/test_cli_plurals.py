"""No message and no page says "1 notes": what is counted is said by one function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import fastassoc as fa
from fastassoc.cli.app import cli

ROOT = Path(__file__).parents[1] / "fastassoc"
ROOMS = ("cli", "quality", "latency", "check.py", "errors.py", "ingest.py", "repair.py")
FILES = sorted(
    path
    for room in ROOMS
    for path in ([ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py"))
)
# the words that follow a number in a text and are no plural, or say what cannot be one
OTHERS = {"allows", "as", "does", "exists", "has", "holds", "is", "lies", "ms", "needs", "stands"}
OTHERS |= {"was"}


def plurals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Numbers in a text that a plural follows, whatever the number is."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            found = re.match(r" (?:more |bad |other )*([a-z]+s)\b", str(after.value))
            if found and found[1] not in OTHERS and numeric(value):
                yield node.lineno, ast.unparse(node)


def numeric(value: ast.FormattedValue) -> bool:
    """Whether it is shown as a number: by its format, or because it is counted."""
    told = ast.unparse(value.value)
    if value.format_spec is not None and "+" in ast.unparse(value.format_spec):
        return False  # signed: a change, not a count
    if value.format_spec is not None:
        return bool(re.search(r"[,f]", ast.unparse(value.format_spec)))
    return bool(re.search(r"\blen\(|\bsum\(|cores|questions|many|limit|files|cues|held|dim", told))


def test_the_search_finds_them() -> None:
    bad = 'f"{n:,} notes", f"{len(x)} more bad rows", f"{s:.0f} seconds", f"{one.questions} cues"'
    assert len(list(plurals(ast.parse(bad)))) == 4
    good = 'f"{count(n, \'note\')} in", f"{n:,} is", f"{name} needs", f"{x:.3f} s"'
    assert not list(plurals(ast.parse(good)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_plural_of_one(path: Path) -> None:
    found = list(plurals(ast.parse(path.read_text())))
    assert not found, f"say these by plural.count: {found}"


def test_one_of_each(tmp_path: Path) -> None:
    store, rows = str(tmp_path / "one.fa"), tmp_path / "one.jsonl"
    rows.write_text('{"text": "Tea is hot.", "concepts": ["tea", "hot"]}\n')
    beside = tmp_path / "x"

    def run(*words: str) -> str:
        env = {"FASTASSOC_STORE": store, "COLUMNS": "100"}
        return CliRunner().invoke(cli, list(words), env=env).output

    mine = tmp_path / "q.jsonl"
    with fa.open(store):
        pass
    commands = [
        ("ingest", str(rows), "--dry-run"),
        ("ingest", str(rows)),
        ("info",),
        ("read", "tea"),
        ("recent",),
        ("graph", "tea"),
        ("verify",),
        ("check",),
        ("doctor",),
        ("export", f"{beside}.jsonl"),
        ("links", "export", f"{beside}.csv"),
        ("bench", "quality", "--questions", str(mine), "--embedder", "none", "--limit", "1"),
        ("bench", "latency", "--reads", "1", "--cold", "0", "--threads", "1", "--batch", "1",
         "--seconds", "0.1", "--html", f"{beside}.html"),
    ]  # fmt: skip
    for words in commands:
        if words[0] == "bench":
            with fa.open(store) as mem:
                note = mem.recent(limit=1)[0].id
            mine.write_text(f'{{"question": "tea", "gold": ["{note}"]}}\n')
        said = run(*words)
        assert "Traceback" not in said
        assert not re.findall(r"(?<![\d.,])1 [a-z]+s\b(?<! s)(?<!1 is)(?<!1 has)", said), said
    page = Path(f"{beside}.html").read_text()
    assert not re.findall(r"(?<![\d.,])1 (?:notes|links|questions|numbers|points)\b", page)
