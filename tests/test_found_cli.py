"""What a stranger's first hour with the command line found, each as the smallest case."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import fastassoc as fa
from fastassoc.cli import cli

ROOT = Path(__file__).parent.parent
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
        return result

    return run_command


def test_both_install_commands_of_the_readme_work_in_one_environment() -> None:
    """`pip install .` leaves Numba's cache behind; only a plain path goes before that folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["package-dir"] == {"": "."}


def test_a_first_line_that_is_no_utf8_is_one_bad_row(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_bytes(b'{"text":"\xff"}\n{"text":"fine"}\n')
    result = run("ingest", "-s", tmp_path / "s.fa", file, "--max-rejects", "1")
    assert "1 notes written" in result.stdout or "1 note written" in result.stdout
    assert "no UTF-8" in result.stderr


@pytest.mark.parametrize("delimiter", [";;", "", '"', "\n"])
def test_a_delimiter_that_is_none_is_told(tmp_path: Path, run: Run, delimiter: str) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("text\nfine\n")
    result = run("ingest", "-s", tmp_path / "s.fa", file, "--delimiter", delimiter, code=1)
    assert "expected one character" in result.stderr


def test_a_tab_can_be_typed_as_backslash_t(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("text\tid\nfine\tn1\n")
    run("ingest", "-s", tmp_path / "s.fa", file, "--delimiter", r"\t")
    with fa.open(tmp_path / "s.fa") as mem:
        assert mem.get("n1").text == "fine"


def test_the_table_of_notes_has_updated_metadata(path: Path) -> None:
    """Also after a snapshot, when the row as written and its update lie in two files."""
    with fa.open(path) as mem:
        for name in ("gone", "kept", "other"):
            mem.write(name, id=name, metadata={"v": 1})
        mem.update("gone", metadata={"v": 2})
        mem.update("other", metadata={"v": 3})
        mem.forget(["gone"])
        assert mem.notes.to_arrow().column("metadata").to_pylist() == ['{"v":1}', '{"v":3}']
        mem.snapshot()
    with fa.open(path) as mem:
        assert mem.notes.to_arrow().column("metadata").to_pylist() == ['{"v":1}', '{"v":3}']


def test_verify_names_every_damaged_file(path: Path, run: Run) -> None:
    """A store too damaged to open is what verify is for; it told one file and to run verify."""
    with fa.open(path) as mem:
        mem.write("one", concepts=["a", "b"])
        mem.snapshot()
    damaged = []
    for kind in ("notes", "vocabulary"):
        file = next(path.glob(f"segments/{kind}-*"))
        content = bytearray(file.read_bytes())
        content[30] ^= 1
        file.write_bytes(content)
        damaged.append(f"segments/{file.name}")
    with pytest.raises(fa.errors.CorruptStore):
        fa.open(path)
    result = run("verify", path, code=3)
    assert [name for name in damaged if name in result.stderr] == damaged
    document = json.loads(run("verify", path, "--json", code=3).stdout)
    assert sorted(name for name, _ in document["problems"]) == damaged
    next(path.glob("manifest-*")).unlink()
    assert "manifest" in run("verify", path, code=3).stderr
    (path / "head").unlink()
    assert "head" in run("verify", path, code=3).stderr
    run("verify", path / "nothing", code=1)


def test_a_demonstration_that_was_stopped_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left a half-made store behind, and the same command refused to begin over it."""
    from fastassoc.cli.common import App

    demo = import_module("fastassoc.cli.demo")

    def stopped(app: App, page: object, path: Path, packages: object) -> None:
        fa.open(path).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_steps", stopped)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            demo.run(App(), str(tmp_path / "kept.fa"))
    assert not (tmp_path / "kept.fa").exists()


def test_a_backup_does_not_lie_in_its_store(path: Path, run: Run) -> None:
    """There, forgotten notes would outlive every vacuum."""
    with fa.open(path) as mem:
        mem.write("one")
    assert "in the store itself" in run("backup", "-s", path, path / "b.fa", code=1).stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["read one --json", "write -", "export"])
def test_a_closed_stream_is_no_traceback(path: Path, command: str, closed: str) -> None:
    with fa.open(path) as mem:
        mem.write("one", concepts=["a"])
    line = f"{sys.executable} -m fastassoc -s {path} {command} {closed}"
    done = subprocess.run(line, shell=True, input=b"two", capture_output=True, check=False)
    assert done.returncode == (1 if command == "write -" and "<" in closed else 0)
    assert b"Traceback" not in done.stderr
    assert fa.verify(path).ok


def test_the_next_page_is_of_the_same_list(path: Path, run: Run) -> None:
    """The command that was shown forgot the store, the domain and the times."""
    with fa.open(path) as mem:
        for n in range(6):
            mem.write("note", id=f"n{n}", domain="ab"[n % 2], created_at=f"2026-01-0{n + 1}")
    result = run("recent", "-s", path, "-n", 2, "-d", "b", "--until", "2026-01-06")
    assert {"n5", "n3"} <= set(result.stdout.split())
    again = shlex.split(result.stderr.partition("more: ")[2])
    assert again[0] == "fastassoc"
    shown = run(*again[1:]).stdout
    assert "n1" in shown
    assert not {"n0", "n2", "n4"} & set(shown.split())


def test_a_dry_run_fails_where_the_ingest_would(tmp_path: Path, run: Run) -> None:
    """It is there to be asked first, by scripts too; with one good row of two it said 0."""
    file = tmp_path / "notes.jsonl"
    file.write_text('{"text":"fine"}\n{"text":7}\n')
    result = run("ingest", file, "--dry-run", code=5)
    assert "1 good row, 1 bad" in result.stdout
    run("ingest", file, "--dry-run", "--max-rejects", "0.5")
    assert json.loads(run("ingest", file, "--dry-run", "--json", code=5).stdout)["rejected"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("read", "one", "--rank", "best"),
        ("ingest", "-", "--format", "xml"),
        ("feedback", "one", "--used", "n1", "--outcome", "2"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_wrong_usage(
    path: Path, run: Run, words: tuple[str, ...]
) -> None:
    fa.open(path).close()
    result = run(*words, "-s", path, code=2)
    assert "Usage:" in result.stderr
    assert "None" not in result.stderr


def test_feedback_that_teaches_nothing_says_why(path: Path, run: Run) -> None:
    with fa.open(path) as mem:
        mem.write("one", concepts=["a"], id="n1")
    result = run("feedback", "-s", path, "zebra", "--used", "n1", "--used", "n2", "-o", 1)
    assert "names no concept" in result.stderr
    assert "no such notes: n2" in result.stderr


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_links_keep_their_names_on_a_narrow_terminal(path: Path, run: Run, columns: int) -> None:
    """The numbers took the width: at 40 columns both names were gone."""
    with fa.open(path) as mem:
        mem.link("retry", "storm", 2.0)
    shown = run("links", "top", "-s", path, env={"COLUMNS": str(columns)}).stdout
    assert {"retry", "storm", "weight", "taught"} <= set(shown.split())
    assert max(map(len, shown.splitlines())) <= columns


def test_a_pipe_with_a_name_is_a_stream(path: Path) -> None:
    """`fastassoc ingest <(zcat notes.gz)` ended with "Illegal seek"."""
    line = f"{sys.executable} -m fastassoc -s {path} ingest /dev/stdin --format csv"
    rows = b"text,id\nfine,n1\n"
    done = subprocess.run(line, shell=True, input=rows, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    with fa.open(path) as mem:
        assert "n1" in mem


def test_links_on_stdout_are_json_when_asked(path: Path, run: Run) -> None:
    with fa.open(path) as mem:
        mem.link("a", "b", 2.0)
    assert json.loads(run("links", "export", "-", "--json", "-s", path).stdout)["weight"] == 2.0
    missing = path.parent / "none" / "x.csv"
    assert "its folder is not there" in run("links", "export", missing, "-s", path, code=1).stderr


def test_unlinking_nothing_says_so(path: Path, run: Run) -> None:
    with fa.open(path) as mem:
        mem.link("a", "b", 2.0)
    assert "no such link" not in run("unlink", "a", "b", "-s", path).stderr
    assert "no such link" in run("unlink", "a", "zebra", "-s", path).stderr


# -- where output goes --------------------------------------------------------------------------


OUTPUTS: dict[str, tuple[str, ...]] = {
    "bench quality --json": ("bench", "quality", "--data", "{data}", "--json", "{to}"),
    "bench quality --html": ("bench", "quality", "--data", "{data}", "--html", "{to}"),
    "bench quality --trec": ("bench", "quality", "--data", "{data}", "--trec", "{to}"),
    "bench latency --json": ("bench", "latency", "--notes", "9", "--json", "{to}"),
    "bench latency --html": ("bench", "latency", "--notes", "9", "--html", "{to}"),
    "export": ("export", "{to}"),
    "export --force": ("export", "--force", "{to}"),
    "links export": ("links", "export", "{to}.csv"),
    "links export --force": ("links", "export", "--force", "{to}.csv"),
    "ingest --rejects-file": ("ingest", "{rows}", "--rejects-file", "{to}"),
    "backup": ("backup", "{to}"),
    "repair": ("repair", "{store}", "{to}"),
    "demo --keep": ("demo", "--keep", "{to}"),
}
TREES = {"bench quality --trec", "backup", "repair", "demo --keep"}  # what makes folders


@pytest.fixture
def no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names of what is there; and whatever would take long fails the test."""
    store, rows, data = tmp_path / "s.fa", tmp_path / "rows.jsonl", tmp_path / "m.jsonl"
    with fa.open(store) as mem:
        mem.write("Tea is hot.", concepts=["tea", "hot"])
    rows.write_text('{"text": "Tea."}\n{"text": 7}\n')
    passage = {"title": "Tea", "paragraph_text": "Tea is hot.", "is_supporting": True}
    data.write_text(json.dumps({"question": "what is hot?", "paragraphs": [passage]}))

    def worked(*_: object, **__: object) -> None:
        pytest.fail("it worked before it looked where its output goes")

    for place in (
        "fastassoc.quality.run",
        "fastassoc.latency.run",
        "fastassoc.cli.demo._steps",
        "fastassoc.Memory.ingest",
        "fastassoc.Memory.export_lines",
    ):
        monkeypatch.setattr(place, worked)
    return {"store": str(store), "rows": str(rows), "data": str(data)}


def refused(no_work: dict[str, str], words: tuple[str, ...], to: Path) -> str:
    """What is said of an output that cannot be."""
    env = {"FASTASSOC_STORE": no_work["store"], "FASTASSOC_DATA": None}
    result = CliRunner().invoke(cli, [one.format(to=to, **no_work) for one in words], env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in {1, 2}, result.output
    assert str(to.parent if "--rejects-file" in words else to) in result.output
    return result.output


@pytest.mark.parametrize("name", [name for name in OUTPUTS if name not in TREES])
def test_a_folder_is_no_file_to_write(no_work: dict[str, str], tmp_path: Path, name: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there.csv").mkdir()
    said = refused(no_work, OUTPUTS[name], tmp_path / "there")
    assert "a folder" in said or "is a directory" in said


@pytest.mark.parametrize("name", sorted({*OUTPUTS} - {"ingest --rejects-file", *TREES}))
def test_the_folder_of_an_output_is_looked_for(
    no_work: dict[str, str], tmp_path: Path, name: str
) -> None:
    assert "folder is not there" in refused(no_work, OUTPUTS[name], tmp_path / "no" / "file")


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_below_a_file_is_refused(
    no_work: dict[str, str], tmp_path: Path, name: str
) -> None:
    (tmp_path / "plain").write_text("")
    said = refused(no_work, OUTPUTS[name], tmp_path / "plain" / "out")
    assert "Errno" not in said


@pytest.mark.parametrize("name", sorted(TREES))
def test_a_file_is_no_folder_to_fill(no_work: dict[str, str], tmp_path: Path, name: str) -> None:
    (tmp_path / "plain").write_text("")
    refused(no_work, OUTPUTS[name], tmp_path / "plain")


def test_two_outputs_are_not_one_file(no_work: dict[str, str], tmp_path: Path) -> None:
    words = ("bench", "quality", "--data", "{data}", "--json", "{to}", "--html", "{to}")
    assert "twice" in refused(no_work, words, tmp_path / "r")


@pytest.mark.parametrize("name", sorted({*OUTPUTS} - {"ingest --rejects-file"}))
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no folder that takes nothing")
def test_a_folder_that_takes_nothing_is_told_before_the_work(
    no_work: dict[str, str], name: str
) -> None:
    """Rights do not tell: root may write everywhere, and still makes nothing in /proc."""
    said = refused(no_work, OUTPUTS[name], Path("/proc/fastassoc"))
    assert "nothing can be made in /proc" in said


def test_looking_where_output_goes_leaves_nothing_behind(tmp_path: Path) -> None:
    from fastassoc.cli.outputs import check_files, check_trees

    (tmp_path / "there").write_text("kept")
    check_files(str(tmp_path / "r.json"), str(tmp_path / "there"))
    check_trees(tmp_path, tmp_path / "a" / "b")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("there", "kept")]


@pytest.mark.parametrize("option", ["--part", "--only"])
@pytest.mark.parametrize("value", [",", "", " , "])
def test_a_list_of_no_names_is_wrong_usage(
    no_work: dict[str, str], run: Run, option: str, value: str
) -> None:
    said = run("bench", "quality", "--data", no_work["data"], option, value, code=2).output
    assert option in said
    assert "no name" in said


@pytest.mark.parametrize("option", ["--rank", "--threads", "--batch", "--recall-floor"])
def test_a_list_of_no_names_is_wrong_usage_of_latency_too(run: Run, option: str) -> None:
    assert option in run("bench", "latency", "--notes", "9", option, ",", code=2).output
