"""The command line, as a person and as a script use it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import fastassoc as fa
from fastassoc.cli import cli
from fastassoc.cli.app import PLACES

COMMANDS = [name for name in PLACES if name != "demo" or find_spec("fastassoc.cli.demo")]
NOTES = [
    ("n1", "The deploy hit a timeout.", ["timeout", "deploy"]),
    ("n2", "A retry followed the timeout.", ["timeout", "retry"]),
    ("n3", "Another timeout, another retry.", ["timeout", "retry"]),
    ("n4", "Retry with backoff.", ["retry", "backoff"]),
    ("n5", "Backoff wants jitter.", ["backoff", "jitter"]),
    ("n6", "The deploy fills the cache.", ["cache", "deploy"]),
]
ENV = {"NO_COLOR": None, "FORCE_COLOR": None, "FASTASSOC_STORE": None, "COLUMNS": "80"}
Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run a command in this process; its exit code must be `code`, without a traceback."""

    def run_command(*args: object, code: int = 0, **more: Any) -> Result:
        env = {**ENV, **more.pop("env", {})}
        result = CliRunner().invoke(cli, [str(arg) for arg in args], env=env, **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return run_command


@pytest.fixture
def made(path: Path) -> Path:
    """A store with the worked example."""
    with fa.open(path) as mem:
        mem.write_batch([{"id": i, "text": text, "concepts": names} for i, text, names in NOTES])
    return path


def spawn(*args: object, env: dict[str, str] | None = None, **more: Any) -> Any:
    """A real process."""
    root = str(Path(fa.__file__).parents[1])
    whole = {**os.environ, "PYTHONPATH": root, **(env or {})}
    whole.pop("FASTASSOC_STORE", None)
    return subprocess.run(
        [sys.executable, "-m", "fastassoc", *map(str, args)],
        env=whole, capture_output=True, encoding="utf-8", timeout=120, check=False, **more,
    )  # fmt: skip


# -- help and usage -----------------------------------------------------------------------------


def test_help_lists_every_command_in_order(run: Run) -> None:
    text = run("--help").output
    places = [text.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    assert "Exit codes" in text
    assert "…" not in text
    assert "..." not in text.split("Options:")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_example(run: Run, name: str) -> None:
    text = run(name, "--help").output
    if name == "links":
        text = "".join(run("links", sub, "--help").output for sub in ("show", "top", "export"))
    assert "fastassoc" in text.split("Example", 1)[1]
    for option in ("--store", "--json"):
        assert option in text


@pytest.mark.parametrize(
    "args",
    [
        ["raed", "x"],
        ["read"],
        ["read", "x"],
        ["read", "x", "-k", "0", "--store", "s.fa"],
        ["read", "x", "--since", "yesterday", "--store", "s.fa"],
        ["write"],
        ["write", "x", "-c", "a", "--no-concepts", "--store", "s.fa"],
        ["write", "x", "--meta", "novalue", "--store", "s.fa"],
        ["feedback", "--asked", "a", "-o", "1", "--store", "s.fa"],
        ["feedback", "--used", "a", "-o", "1", "--store", "s.fa"],
        ["feedback", "--asked", "a", "--used", "n", "--store", "s.fa"],
        ["forget", "--store", "s.fa"],
        ["forget", "n1", "--domain", "x", "--store", "s.fa"],
        ["links", "export", "links.txt", "--store", "s.fa"],
        ["import", "not-there.jsonl", "--store", "s.fa"],
        ["graph", "--store", "s.fa"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2(run: Run, args: list[str], tmp_path: Path) -> None:
    os.chdir(tmp_path)
    result = run(*args, code=2)
    assert not result.stdout
    assert result.stderr
    assert not (tmp_path / "s.fa").exists()


def test_a_wrong_name_gets_a_hint(run: Run) -> None:
    assert "'read'" in run("raed", code=2).stderr


def test_a_missing_store_is_one_sentence(run: Run, tmp_path: Path) -> None:
    for command in (["info"], ["read", "x"], ["verify"], ["check"], ["links", "top"]):
        result = run(*command, "--store", tmp_path / "none.fa", code=1)
        assert result.stderr.startswith("fastassoc: ")
        assert len(result.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "none.fa").exists()


def test_the_store_is_named_anywhere(run: Run, made: Path) -> None:
    for args in (
        ["--store", made, "--json", "read", "-c", "timeout"],
        ["read", "-c", "timeout", "--json", "--store", made],
        ["--store", "/nowhere", "read", "-c", "timeout", "--json", "--store", made],
    ):
        assert len(json.loads(run(*args).stdout)["hits"]) == 4
    env = {"FASTASSOC_STORE": str(made)}
    assert len(json.loads(run("read", "-c", "timeout", "--json", env=env).stdout)["hits"]) == 4
    assert json.loads(run("info", made, "--json").stdout)["notes"] == 6


# -- a day's work -------------------------------------------------------------------------------


def test_a_first_day(run: Run, path: Path) -> None:
    for note, text, names in NOTES:
        given = [part for name in names for part in ("-c", name)]
        assert run("write", text, "--id", note, *given, "--store", path).stdout == f"{note}\n"
    before = json.loads(run("read", "-c", "timeout", "--json", "--store", path).stdout)
    assert [(h["id"], h["rank_score"], h["source"]) for h in before["hits"]] == [
        ("n3", 12, "concept"),
        ("n2", 12, "concept"),
        ("n1", 10, "concept"),
        ("n4", 2, "association"),
    ]
    for _ in range(2):
        run("feedback", "--asked", "timeout", "--used-concept", "retry",
            "--used-concept", "backoff", "--outcome", 1, "--store", path)  # fmt: skip
    after = json.loads(run("read", "-c", "timeout", "--json", "--store", path).stdout)
    assert after["expanded_concepts"] == {"backoff": 2, "retry": 4}
    assert [(h["id"], h["rank_score"]) for h in after["hits"]] == [
        ("n3", 14), ("n2", 14), ("n1", 10), ("n4", 6), ("n5", 2),
    ]  # fmt: skip
    assert after["hits"][3]["via"] == ["backoff", "retry"]
    shown = run("read", "-c", "timeout", "--store", path)
    assert "timeout ─4→ retry (2 taught)" in shown.stdout
    assert "timeout ─2→ backoff (2 taught)" in shown.stdout
    assert "asked: timeout" in shown.stderr


def test_a_table_fits_80_columns(run: Run, made: Path) -> None:
    run("write", "word " * 200, "-c", "timeout", "-c", "x" * 120, "--store", made)
    for args in (["read", "-c", "timeout"], ["recent"], ["graph", "timeout"], ["links", "top"]):
        lines = run(*args, "--store", made).stdout.splitlines()
        assert lines
        assert max(map(len, lines)) <= 80, args
        assert not any("\x1b" in line for line in lines)


def test_an_empty_answer_says_why(run: Run, made: Path) -> None:
    result = run("read", "-c", "kafka", "--store", made)
    assert result.stdout == ""
    assert "kafka" in result.stderr
    found = json.loads(run("read", "-c", "kafka", "--store", made, "--json").stdout)
    assert found["hits"] == []
    assert found["reason"]


def test_variants_are_told(run: Run, made: Path) -> None:
    run("write", "Timeouts again.", "-c", "timeouts", "-c", "alert", "--store", made)
    result = run("read", "-c", "timeouts", "--store", made)
    assert "asked: timeouts, timeout" in result.stderr


def test_what_a_note_says_cannot_touch_the_terminal(run: Run, path: Path) -> None:
    evil = "\x1b[31m[bold]red[/bold]\x07 :smile:"
    run("write", evil, "-c", "[red]x[/red]", "-c", "\x1b]0;t", "--store", path)
    for args in (["read", evil], ["recent"], ["links", "top"], ["graph", "[red]x[/red]"]):
        out = run(*args, "--store", path)
        assert "\x1b" not in out.output
        assert "\x07" not in out.output
    assert "[bold]red[/bold]" in run("recent", "--store", path).stdout
    assert "[red]x[/red]" in run("links", "top", "--store", path).stdout
    read = json.loads(run("read", evil, "--json", "--store", path).stdout)
    assert read["hits"][0]["text"] == evil


def test_colours_only_where_they_are_seen(run: Run, made: Path) -> None:
    args = ["read", "-c", "timeout", "--store", made]
    assert "\x1b" not in run(*args).output
    assert "\x1b[" in run(*args, env={"FORCE_COLOR": "1", "TERM": "xterm-256color"}).stdout
    forced = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[3" not in run(*args, env=forced).stdout


def test_links_are_shown_taught_and_cut(run: Run, made: Path, tmp_path: Path) -> None:
    run("link", "timeout", "cache", 3, "--store", made)
    rows = [
        json.loads(line)
        for line in run("links", "show", "Timeout", "--json", "--store", made).stdout.splitlines()
    ]
    assert [(r["a"], r["b"], r["weight"], r["taught"]) for r in rows] == [
        ("cache", "timeout", 3, 3), ("retry", "timeout", 2, 0), ("deploy", "timeout", 1, 0),
    ]  # fmt: skip
    one = run("links", "show", "retry", "TIMEOUT", "--json", "--store", made).stdout
    assert json.loads(one)["weight"] == 2
    top = json.loads(run("links", "top", "-n", 1, "--taught", "--json", "--store", made).stdout)
    assert top["a"] == "cache"
    linked = json.loads(run("associate", "timeout", "--json", "--store", made).stdout)
    assert linked[0]["concept"] == "cache"
    run("unlink", "timeout", "cache", "--store", made)
    linked = json.loads(run("associate", "timeout", "--json", "--store", made).stdout)
    assert linked[0]["concept"] == "retry"
    order = [one["concept"] for one in linked]
    assert set(order) == {"retry", "backoff", "deploy", "cache"}  # cache by others alone
    nothing = run("links", "show", "kafka", "--store", made)
    assert nothing.stdout == ""
    assert nothing.stderr


def test_links_leave_as_csv_and_parquet(run: Run, made: Path, tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    table = tmp_path / "links.parquet"
    run("links", "export", table, "--store", made)
    assert pyarrow.parquet.read_table(table).num_rows == 5
    run("links", "export", table, "--store", made, code=2)
    run("links", "export", table, "--store", made, "--force")
    text = tmp_path / "links.csv"
    run("links", "export", text, "--store", made)
    assert pyarrow.csv.read_csv(text).column("weight").to_pylist().count(2) == 1
    assert sorted(p.name for p in tmp_path.glob("*links*")) == ["links.csv", "links.parquet"]
    assert spawn("links", "export", "-", "--store", made).stdout.splitlines()[0].startswith('"a"')


def test_graph_is_a_tree(run: Run, made: Path) -> None:
    shown = run("graph", "timeout", "--depth", 2, "--store", made).stdout
    assert "timeout  2 links" in shown
    assert "─2→ retry" in shown
    assert "─1→ backoff" in shown
    found = json.loads(run("graph", "timeout", "--json", "--store", made).stdout)
    assert {node["concept"] for node in found["nodes"]} == {"timeout", "retry", "deploy"}
    assert run("graph", "kafka", "--store", made).stdout == ""


def test_recent_goes_page_by_page(run: Run, made: Path) -> None:
    seen, cursor = [], None
    while True:
        more = ["--cursor", cursor] if cursor else []
        page = json.loads(run("recent", "-n", 4, *more, "--json", "--store", made).stdout)
        seen += [note["id"] for note in page["notes"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == [note for note, _, _ in NOTES]
    first = run("recent", "-n", 4, "--store", made)
    assert "--cursor" in first.stderr
    run("recent", "--cursor", "nonsense", "--store", made, code=1)


def test_forget_by_id_and_by_filter(run: Run, made: Path) -> None:
    run("write", "An old one.", "-c", "a", "-d", "old", "--id", "o", "--store", made)
    assert "--yes" in run("forget", "--domain", "old", "--store", made, code=2).stderr
    assert run("forget", "--domain", "old", "--yes", "--store", made).stdout == "forgot 1 note\n"
    result = run("forget", "n1", "ghost", "--store", made)
    assert result.stdout == "forgot 1 note\n"
    assert "ghost" in result.stderr
    assert json.loads(run("info", made, "--json").stdout)["notes"] == 5


def test_outcomes_and_weights_may_be_negative(run: Run, made: Path) -> None:
    run("link", "timeout", "retry", "-0.5", "--store", made)
    run("feedback", "--asked", "timeout", "--used-concept", "retry", "-o", "-1", "--store", made)
    one = json.loads(run("links", "show", "timeout", "retry", "--json", "--store", made).stdout)
    assert (one["weight"], one["taught"]) == (0.5, -1.5)
    text = "What followed the timeout?"
    run("feedback", *text.split(), "--used", "n2", "-o", 1, "--store", made)
    again = json.loads(run("links", "show", "timeout", "retry", "--json", "--store", made).stdout)
    assert again["weight"] == 1.5
    wrong = run("feedback", "--asked", "a", "--used", "n2", "-o", 3, "--store", made, code=2)
    assert "outcome" in wrong.stderr
    gone = run("feedback", "--asked", "timeout", "--used", "ghost", "-o", 1, "--store", made)
    assert "ghost" in gone.stderr


def test_an_operation_id_works_once(run: Run, made: Path) -> None:
    args = ["link", "timeout", "cache", 3, "--operation-id", "x1", "--store", made, "--json"]
    assert not json.loads(run(*args).stdout)["repeated"]
    again = json.loads(run(*args).stdout)
    assert again["repeated"]
    assert again["weight"] == 3


def test_write_takes_every_field(run: Run, path: Path) -> None:
    given = ["-c", "Retry", "--subject", "Policy", "--id", "w", "-d", "ops",
             "--created-at", "2026-01-31T08:00", "-m", "n=1", "-m", "who=ann",
             "--session", "s", "--importance", 0.75, "--category", "c", "--fingerprint", "f",
             "--external-ref", "e", "--author", "a"]  # fmt: skip
    run("write", "-", *given, "--store", path, input="From standard input.\n")
    with fa.open(path) as mem:
        note = mem.get("w")
    assert note.text == "From standard input."
    assert note.metadata == {"n": 1, "who": "ann"}
    assert (note.domain, note.session, note.importance) == ("ops", "s", 0.75)
    assert (note.subjects, note.author) == (["Policy"], "a")
    run("write", "Newer.", "--supersedes", "w", "--id", "w2", "--store", path)
    found = json.loads(run("read", "-c", "Retry", "--json", "--store", path).stdout)
    assert found["hits"] == []
    duplicate = run("write", "Again.", "--id", "w", "--store", path, code=1)
    assert "w" in duplicate.stderr


def test_filters_reach_the_read(run: Run, path: Path) -> None:
    for n, when in enumerate(["2026-01-01", "2026-01-31T23:00", "2026-02-02"]):
        run("write", f"Note {n}.", "-c", "x", "--id", n, "-m", f"n={n}", "--created-at", when,
            "--store", path)  # fmt: skip

    def ids(*more: str) -> list[str]:
        found = json.loads(run("read", "-c", "x", *more, "--json", "--store", path).stdout)
        return sorted(hit["id"] for hit in found["hits"])

    assert ids("--since", "2026-01-31", "--until", "2026-01-31") == ["1"]
    assert ids("--where", "n=2") == ["2"]
    assert ids("--where", '{"n": {"in": [0, 2]}}') == ["0", "2"]
    assert ids("-k", "1") != ids("-k", "3")


# -- ingest -------------------------------------------------------------------------------------


def corpus(folder: Path, rows: int = 40, bad: int = 0) -> Path:
    """A JSON lines file with `rows` good notes and some bad ones at the end."""
    file = folder / "corpus.jsonl"
    lines = [
        json.dumps({"id": f"r{n}", "text": f"Row {n}.", "concepts": ["a", f"b{n % 5}"]})
        for n in range(rows)
    ]
    lines += ['{"id": "bad", "text": ""}'] * bad
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_ingest_says_what_it_did(run: Run, path: Path, tmp_path: Path) -> None:
    file = corpus(tmp_path)
    first = run("ingest", file, "--store", path)
    assert "40 notes written, 0 skipped" in first.stdout
    assert "5 links made" in first.stdout
    again = json.loads(run("ingest", file, "--store", path, "--json").stdout)
    assert (again["written"], again["skipped"]) == (0, 40)


def test_l65_a_dry_run_changes_nothing(run: Run, path: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("doc_id,body,tags,page\n1,Tea is hot.,tea;hot,7\n2,,x,8\n", encoding="utf-8")
    args = ["ingest", file, "--columns", "text=body,id=doc_id", "--columns", "concepts=tags",
            "--metadata-columns", "rest", "--max-rejects", 1, "--list-separator", ";"]  # fmt: skip
    said = run(*args, "--dry-run")
    assert "text         from body" in said.stdout
    assert "metadata     from page" in said.stdout
    assert "1 good row, 1 bad" in said.stdout
    assert "row 1" in said.stderr
    assert run(*args, "--dry-run", "--store", path).exit_code == 0
    assert not path.exists()
    plan = json.loads(run(*args, "--dry-run", "--json").stdout)
    assert (plan["rows"], plan["rejected"]) == (2, 1)
    done = run(*args, "--store", path)
    assert "1 row rejected" in done.stderr
    with fa.open(path) as mem:
        assert mem.get("1").concepts == ["tea", "hot"]
        assert mem.get("1").metadata == {"page": "7"}
    run("ingest", file, "--columns", "text", "--store", path, code=2)
    assert "body" in run("ingest", file, "--store", path, code=1).stderr


def test_a_missing_file_makes_no_store(run: Run, path: Path, tmp_path: Path) -> None:
    said = run("ingest", tmp_path / "none.jsonl", "--store", path, code=1).stderr
    assert "none.jsonl" in said
    assert not path.exists()
    run("write", "x", "--store", path)
    said = run("export", tmp_path / "no" / "x.jsonl", "--store", path, code=1).stderr
    assert said == f"fastassoc: {tmp_path}/no/x.jsonl: its folder is not there.\n"


def test_too_many_rejects_are_code_5(run: Run, path: Path, tmp_path: Path) -> None:
    file = corpus(tmp_path, rows=40, bad=10)
    result = run("ingest", file, "--store", path, code=5)
    assert "10 rows rejected" in result.stderr
    assert "row 40" in result.stderr
    assert "and 5 more" in result.stderr
    rejects = tmp_path / "bad.jsonl"
    more = ["--max-rejects", 0.5, "--rejects-file", rejects]
    done = run("ingest", file, "--store", path, *more)
    assert str(rejects) in done.stderr
    assert len(rejects.read_text().splitlines()) == 10


def test_ingest_reads_standard_input(path: Path, tmp_path: Path) -> None:
    text = corpus(tmp_path).read_text(encoding="utf-8")
    done = spawn("ingest", "-", "--format", "jsonl", "--store", path, input=text)
    assert done.returncode == 0, done.stderr
    assert "40 notes written" in done.stdout
    assert done.stderr.count("\n") == 1


def test_l64_an_interrupted_ingest_is_continued(path: Path, tmp_path: Path, run: Run) -> None:
    file = corpus(tmp_path, rows=150_000)  # seconds of work, so that it is cut off within
    root = str(Path(fa.__file__).parents[1])
    args = ["ingest", str(file), "--batch-rows", "500", "--store", str(path)]
    with subprocess.Popen(
        [sys.executable, "-m", "fastassoc", *args], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root},
    ) as process:  # fmt: skip
        for _ in range(3000):
            time.sleep(0.01)
            if path.exists():
                with (
                    contextlib.suppress(fa.errors.FastAssocError),
                    fa.open(path, create=False, read_only=True) as mem,
                ):
                    if len(mem) >= 400:
                        break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert "Run the same command again" in err
    assert out == ""
    with fa.open(path) as mem:
        kept = len(mem)
    assert 400 <= kept < 150_000
    done = run(*args)
    assert f"continued after {kept:,} rows" in done.stdout
    whole = tmp_path / "whole.fa"
    run("ingest", file, "--store", whole)
    with fa.open(path) as ours, fa.open(whole) as theirs:
        assert len(ours) == 150_000
        columns = ["a", "b", "weight", "count"]
        assert ours.links.to_arrow().select(columns).equals(theirs.links.to_arrow().select(columns))


# -- upkeep -------------------------------------------------------------------------------------


def test_info_is_a_glance(run: Run, made: Path) -> None:
    text = run("info", made).stdout
    for word in ("notes", "concepts", "links", "position", "journal", "disk"):
        assert word in text
    found = json.loads(run("info", made, "--json").stdout)
    assert (found["notes"], found["concepts"], found["links"]) == (6, 6, 5)


def test_snapshot_backup_vacuum_verify(run: Run, made: Path, tmp_path: Path) -> None:
    run("snapshot", made)
    run("forget", "n1", "--store", made)
    run("vacuum", made)
    copy = tmp_path / "copy.fa"
    assert run("backup", copy, "--store", made).stdout == f"{copy}\n"
    run("backup", copy, "--store", made, code=1)
    ours, theirs = (
        json.loads(run("verify", p, "--digest", "--json").stdout)["digest"] for p in (made, copy)
    )
    assert ours == theirs


def test_damage_is_code_3_and_named(run: Run, made: Path) -> None:
    run("snapshot", made)
    segment = next((made / "segments").glob("links-concept-*"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(bytes(data))
    for command in ("verify", "info", "check"):
        result = run(command, made, code=3)
        assert segment.name in result.stderr


def test_a_locked_store_is_code_4(run: Run, made: Path) -> None:
    code = (
        "import sys, apsw\n"
        "c = apsw.Connection(sys.argv[1]); c.execute('begin immediate')\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(made / "journal.db")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        result = run("write", "x", "--timeout", 0.1, "--store", made, code=4)
        assert "written by" in result.stderr
        run("read", "-c", "timeout", "--store", made)
        holder.communicate()


def test_doctor_reports(run: Run, made: Path) -> None:
    found = json.loads(run("doctor", made, "--json").stdout)
    assert found["versions"]["numpy"]
    assert found["store"]["file system"]
    assert "compiled files" in found["numba cache"]
    assert list(found["embedders"]) == ["wordllama", "minilm"]
    assert set(found["vectors"]) == {"faiss", "openblas"}
    assert "openblas" in run("doctor", made).stdout


def test_doctor_passes_on_what_faiss_needs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastassoc import vectors

    advice = "set OPENBLAS_CORETYPE=Haswell"
    monkeypatch.setattr(vectors, "openblas_advice", lambda: advice, raising=False)
    assert json.loads(run("doctor", "--json").stdout)["vectors"]["openblas"] == advice


def test_doctor_says_how_to_get_an_embedder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    told = run("doctor").stdout
    assert 'wordllama is not installed: pip install "fastassoc[embed]"' in told


def test_check_passes_with_evidence(run: Run, made: Path) -> None:
    before = run("verify", made, "--digest").stdout
    text = run("check", made).stdout
    assert text.count("✓ pass") == 3
    assert "by the link retry ─2→ timeout" in text
    assert run("verify", made, "--digest").stdout == before
    found = json.loads(run("check", made, "--json").stdout)
    assert found["passed"]
    assert found["asked"] == "retry"


def test_check_says_when_there_is_nothing_to_check(run: Run, path: Path) -> None:
    run("write", "One note.", "-c", "a", "-c", "b", "--store", path)
    assert "threshold" in run("check", path).stdout
    run("write", "The same two.", "-c", "a", "-c", "b", "--store", path)
    assert "nothing to check" in run("check", path).stdout


def test_check_fails_where_reads_follow_no_link(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastassoc.check import check_store

    honest = fa.Memory.read

    def lazy(self: Any, *args: Any, **more: Any) -> Any:
        return honest(self, *args, **{**more, "k": 3})

    monkeypatch.setattr(fa.Memory, "read", lazy)
    report = check_store(made)
    assert not report.passed
    assert not report.checks[0].passed


# -- moving a store -----------------------------------------------------------------------------


def rich_store(path: Path) -> None:
    """A store with something of everything that an export must keep."""
    odd = ["日本", "a|b"]
    with fa.open(path, settings=fa.Settings(language="german", names="exact")) as mem:
        mem.write_batch(
            [
                {"id": "a", "text": "Eins", "concepts": [*odd, 'q"\n', "🙂"], "domain": "x"},
                {"id": "b", "text": "Zwei", "concepts": odd, "metadata": {"n": [1, None]}},
                {"id": "c", "text": "Drei", "concepts": [], "importance": 0.25, "author": "ann"},
                {"id": "d", "text": "Das Alte Rathaus in Neu Ulm.", "created_at": "1999-12-31"},
                {"id": "e", "text": "Vier", "concepts": ["t"], "subjects": ["T"], "session": "s"},
            ]
        )  # fmt: skip
        mem.write("Fünf", id="f", concepts=["t", "日本"], supersedes=["a"], fingerprint="ff")
        mem.link("nur", "gelehrt", 2.5)
        mem.link("日本", "a|b", -0.25)
        mem.feedback(asked=["t"], used=["b", "c"], outcome=-0.5)
        mem.feedback(asked=["neu"], used=["f"], outcome=0.75)
        mem.update("b", metadata={"n": 2, "ü": "ß"})
        mem.forget(["e"])


def lines_of(path: Path) -> list[dict[str, Any]]:
    with fa.open(path, read_only=True) as mem:
        lines = list(mem.export_lines())
    return [without_moment(line) for line in lines]


def without_moment(line: dict[str, Any]) -> dict[str, Any]:
    """A line without what differs from one operation to the next."""
    return {k: v for k, v in line.items() if k not in ("position", "digest", "time")}


def test_l66_an_export_can_be_imported_without_loss(run: Run, path: Path, tmp_path: Path) -> None:
    rich_store(path)
    file, copy = tmp_path / "all.jsonl", tmp_path / "copy.fa"
    said = run("export", file, "--store", path)
    assert said.stdout == ""
    first = run("import", file, "--store", copy, "--json")
    assert json.loads(first.stdout)["written"] == 5
    assert lines_of(copy) == lines_of(path)
    again = run("import", file, "--store", copy, "--json")
    assert json.loads(again.stdout)["repeated"]
    assert lines_of(copy) == lines_of(path)
    assert "nothing changed" in run("import", file, "--store", copy).stdout
    run("snapshot", copy)
    assert lines_of(copy) == lines_of(path)
    for question in ({"concepts": ["t"]}, {"query": "Rathaus"}, {"query": "Eins"}):
        answers = []
        for one in (path, copy):
            with fa.open(one) as mem:
                answers.append(mem.read(**question).to_dicts())
        assert answers[0] == answers[1]
    piped = spawn("export", "--store", path).stdout
    assert piped == file.read_text(encoding="utf-8")
    other = tmp_path / "other.fa"
    run("import", "-", "--store", other, input=piped)
    assert lines_of(other) == lines_of(path)


def test_l66_an_interrupted_import_is_continued(
    run: Run, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rich_store(path)
    file, copy = tmp_path / "all.jsonl", tmp_path / "copy.fa"
    run("export", file, "--store", path)
    monkeypatch.setattr("fastassoc.exported.PART_ROWS", 2)
    for left in (1, 2, 4):
        with monkeypatch.context() as patch:
            patch.setattr(fa.Memory, "_change", stopping(fa.Memory._change, left))
            stopped = run("import", file, "--store", copy, code=130)
            assert "same command again" in stopped.stderr
    assert "imported" in run("import", file, "--store", copy).stdout
    assert lines_of(copy) == lines_of(path)


def stopping(change: Callable[..., Any], left: int) -> Callable[..., Any]:
    """Ctrl-C after so many changes."""

    def wrapped(self: Any, *args: Any, **more: Any) -> Any:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return change(self, *args, **more)

    return wrapped


def test_l66_a_memory_takes_an_export_with_its_settings(path: Path) -> None:
    with fa.open(path) as mem:
        mem.write("Tea is hot.", concepts=["Tea", "hot"])
        mem.link("tea", "milk", 3.0)
        mem.configure(concept_threshold=3.0, hop_factor=0.5)
        lines = list(mem.export_lines())
    copy = fa.Memory()
    assert copy.import_lines(lines).written == 1
    assert copy.settings.concept_links.threshold == 3.0
    assert copy.settings.hop_factor == 0.5
    assert [*map(without_moment, lines)] == [*map(without_moment, copy.export_lines())]
    assert copy.import_lines(lines).repeated
    with pytest.raises(fa.errors.SettingsMismatch):
        fa.Memory(settings=fa.Settings(names="exact")).import_lines(lines)


def test_l66_an_import_into_a_full_store_is_refused(
    run: Run, path: Path, made: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source.fa"
    rich_store(source)
    file = tmp_path / "all.jsonl"
    run("export", file, "--store", source)
    before = lines_of(made)
    result = run("import", file, "--store", made, code=1)
    assert "ingest" in result.stderr
    assert lines_of(made) == before
    copy = tmp_path / "copy.fa"
    run("import", file, "--store", copy)
    run("write", "More.", "-c", "t", "--store", copy)
    before = lines_of(copy)
    run("import", file, "--store", copy, code=1)
    assert lines_of(copy) == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: [line for line in lines if '"kind": "link"' not in line],
        lambda lines: [*lines, lines[1]],
        lambda lines: [lines[0], *lines],
        lambda lines: lines[1:],
        lambda lines: [line.replace('"format": 3', '"format": 99') for line in lines],
        lambda lines: [line.replace('"weight": 2.5', '"weight": NaN') for line in lines],
        lambda lines: [line.replace('"weight": 2.5', '"weight": "2"') for line in lines],
        lambda lines: [line.replace('"key": "nur"', '"key": "nie"') for line in lines],
        lambda lines: [*lines[:3], "{not json", *lines[3:]],
        lambda lines: [*lines[:3], "[]", *lines[3:]],
        lambda lines: [line.replace('"text": "Drei"', '"text": "\\ud800"') for line in lines],
        lambda lines: [line.replace('"id": "c"', '"id": "b"') for line in lines],
        lambda lines: [],
    ],
)
def test_a_damaged_export_changes_nothing(
    run: Run, path: Path, tmp_path: Path, damage: Callable[[list[str]], list[str]]
) -> None:
    rich_store(path)
    file, copy = tmp_path / "all.jsonl", tmp_path / "copy.fa"
    run("export", file, "--store", path)
    lines = file.read_text(encoding="utf-8").splitlines()
    changed = damage(lines)
    assert changed != lines
    file.write_text("\n".join(changed), encoding="utf-8")
    result = run("import", file, "--store", copy, code=1)
    assert result.stderr.count("\n") <= 2
    assert not copy.exists() or fa.open(copy).stats()["notes"] == 0


# -- processes ----------------------------------------------------------------------------------


def test_l67_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom fastassoc.cli import cli\n"
        "try: cli(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'pyarrow', 'scipy', 'faiss', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    root = str(Path(fa.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
    )  # fmt: skip


def test_real_processes_and_their_codes(made: Path, tmp_path: Path) -> None:
    done = spawn("read", "-c", "timeout", "--json", "--store", made)
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["hits"]) == 4
    assert done.stderr == ""
    assert spawn("read").returncode == 2
    missing = spawn("read", "x", "--store", tmp_path / "none.fa")
    assert missing.returncode == 1
    assert missing.stderr.startswith("fastassoc: ")
    ascii_only = spawn(
        "read", "-c", "timeout", "--store", made,
        env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )  # fmt: skip
    assert ascii_only.returncode == 0
    assert "timeout -2-> retry" in ascii_only.stdout


def test_a_broken_pipe_is_quiet(path: Path) -> None:
    with fa.open(path) as mem:
        mem.write_batch([{"text": f"Note {n} " * 20, "concepts": []} for n in range(5000)])
    root = str(Path(fa.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-m", "fastassoc", "export", "--store", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
