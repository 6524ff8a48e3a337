"""What commands say, as a first-time user reads it; each the smallest case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import fastassoc as fa
from fastassoc.cli import cli

ENV = {"NO_COLOR": None, "FORCE_COLOR": None, "FASTASSOC_STORE": None, "COLUMNS": "80"}
Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def run_command(*args: object, code: int = 0, **more: Any) -> Result:
        result = CliRunner().invoke(cli, [str(arg) for arg in args], env=ENV, **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run_command


@pytest.fixture
def linked(path: Path) -> Path:
    with fa.open(path) as mem:
        for _ in range(3):
            mem.write("A retry got past it.", concepts=["timeout", "retry"])
        mem.write("Backoff helps.", concepts=["backoff"])
    return path


def test_doctor_checks_the_store(linked: Path, run: Run) -> None:
    assert "sound" in run("doctor", linked).stdout
    assert "there is no" in run("doctor", linked / "nothing", code=1).stderr.lower()
    (linked / "head").unlink()
    told = run("doctor", linked, code=1).stderr
    assert "head" in told
    assert "1 problem found" in told


def test_arrows_are_plain_where_the_terminal_is(linked: Path) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "fastassoc", "read", "-c", "timeout", "-s", str(linked)]
    with fa.open(linked) as mem:
        mem.write("Retry storms.", concepts=["retry"])
    done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
    assert "timeout -3-> retry" in done.stdout


def test_what_was_replaced_is_no_unknown_word() -> None:
    mem = fa.Memory()
    old = mem.write("Hello there.", concepts=["greeting"])
    mem.write("Goodbye now.", supersedes=[old], concepts=["parting"])
    for asked in ({"query": "hello"}, {"concepts": ["greeting"]}):
        assert "include_superseded" in (mem.read(**asked).reason or "")
        assert mem.read(**asked, include_superseded=True)
    assert "supersede" not in (mem.read("unheard").reason or "")


def test_the_links_of_a_concept_begin_with_it(linked: Path, run: Run) -> None:
    (row,) = run("links", "show", "Timeout", "-s", linked).stdout.splitlines()[2:]
    assert row.split()[:2] == ["timeout", "retry"]
    (row,) = run("links", "show", "timeout", "retry", "-s", linked).stdout.splitlines()[2:]
    assert row.split()[:2] == ["timeout", "retry"]
    kept = json.loads(run("links", "show", "timeout", "-s", linked, "--json").stdout)
    assert (kept["a"], kept["b"]) == ("retry", "timeout")


def test_a_first_command_that_fails_makes_no_store(tmp_path: Path, linked: Path, run: Run) -> None:
    new = tmp_path / "new.fa"
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bad.jsonl").write_text("nothing\nof use\n")
    run("ingest", tmp_path / "other.csv", "-s", new, code=1)
    rejects = tmp_path / "rejects.jsonl"
    told = run("ingest", tmp_path / "bad.jsonl", "-s", new, "--rejects-file", rejects, code=5)
    assert "2 rows rejected" in told.stderr
    assert len(rejects.read_text().splitlines()) >= 2
    run("write", "", "-s", new, code=1)
    exported = run("export", "-s", linked).stdout.splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(exported[:-1]))
    run("import", tmp_path / "cut.jsonl", "-s", new, code=1)
    assert not new.exists()
    assert run("write", "", "-s", linked, code=1).stderr
    assert linked.exists()
    (tmp_path / "good.jsonl").write_text('{"text":"One."}\n')
    said = run("ingest", tmp_path / "good.jsonl", "-s", new).stdout
    assert "1 note written" in said
    assert "1 row in" in said


def test_doctor_says_yes(linked: Path, run: Run) -> None:
    assert any(
        line.split() == ["exists", "yes"] for line in run("doctor", linked).stdout.splitlines()
    )
