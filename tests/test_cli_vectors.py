"""The command line on vectors, links between notes, sessions and time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import fastassoc as fa
from fastassoc.cli import cli
from fastassoc.cli.show import path_text
from fastassoc.models import NAMED

ENV = {
    "NO_COLOR": None,
    "FORCE_COLOR": None,
    "FASTASSOC_STORE": None,
    "FASTASSOC_EMBEDDER": None,
    "COLUMNS": "80",
}
Run = Callable[..., Result]

needs_wordllama = pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra embed")


class Lengths:
    """Stands for an embedder that has a name here; counts letters."""

    def __init__(self, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim
        self.most: int | None = None  # calls until the user stops it

    def state(self) -> str:
        return "ready"

    def embed(self, texts: list[str], /) -> Any:
        if self.most is not None:
            self.most -= 1
            if self.most < 0:
                raise KeyboardInterrupt
        letters = "etaoinshrdlcum"[: self.dim]
        return np.array([[text.count(c) + 0.1 for c in letters] for text in texts], np.float32)


@pytest.fixture(autouse=True)
def embedders(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Small embedders under the known names, but where the real one is asked for."""
    made = {"wordllama": Lengths("wordllama", 8), "minilm": Lengths("minilm", 12)}
    if "real_processes" not in request.node.name:
        for name, one in made.items():
            monkeypatch.setitem(NAMED, name, one)
    return made


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
def talk(path: Path, run: Run) -> Path:
    """A cognitive store of three notes with vectors, made on the command line."""
    at = ["--store", path, "--session", "monday"]
    run("write", "North.", "--id", "n", "--vector", "[1, 0]", "--preset", "cognitive", *at)
    run("write", "Nearly north.", "--id", "m", "--vector", "[0.9, 0.1]", *at)
    run("write", "East.", "--id", "e", "--vector", "[0, 1]", *at)
    return path


def told(result: Result) -> Any:
    return json.loads(result.stdout)


# -- vectors by hand ----------------------------------------------------------------------------


def test_vectors_come_as_lists_files_and_streams(run: Run, talk: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.array([[0.0, 2.0]], np.float16))
    (tmp_path / "v.json").write_text("[0, 3]")
    run("write", "A.", "--id", "a", "--vector", tmp_path / "v.npy", "--store", talk)
    run("write", "B.", "--id", "b", "--vector", tmp_path / "v.json", "--store", talk)
    run("write", "C.", "--id", "c", "--vector", "-", "--store", talk, input="[0, 4]\n")
    found = told(run("read", "--vector", "-", "--json", "--store", talk, input="[0, 1]"))
    near = [hit["id"] for hit in found["hits"] if (hit["similarity"] or 0) > 0.99]
    assert sorted(near) == ["a", "b", "c", "e"]


@pytest.mark.parametrize(
    ("vector", "code", "says"),
    [
        ("[1, 2, 3]", 1, "found 3 numbers, expected 2"),
        ("[0, 0]", 1, "expected"),
        ("[1, NaN]", 1, "expected"),
        ('[1, "a"]', 1, "expected numbers"),
        ("[1, 2", 2, "expected a JSON list"),
        ('{"a": 1}', 2, "expected a JSON list"),
        ("none.npy", 2, "No such file"),
        ("bad.npy", 2, "expected a JSON list"),
        ("pickled.npy", 2, "expected a JSON list"),
        ("object.json", 2, "expected a JSON list"),
        ("", 2, "expected a JSON list"),
    ],
)
def test_a_bad_vector_is_one_sentence(
    run: Run, talk: Path, tmp_path: Path, vector: str, code: int, says: str
) -> None:
    (tmp_path / "bad.npy").write_bytes(b"nothing of the kind")
    np.save(tmp_path / "pickled.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "object.json").write_text('{"vector": [1, 2]}')
    os.chdir(tmp_path)
    before = told(run("info", talk, "--json"))["position"]
    for command in (["read"], ["write", "x"]):
        result = run(*command, "--vector", vector, "--store", talk, code=code)
        assert says in result.stderr
        assert not result.stdout
    assert told(run("info", talk, "--json"))["position"] == before


def test_a_bad_vector_makes_no_store(run: Run, path: Path) -> None:
    run("write", "x", "--vector", "[0, 0]", "--store", path, code=1)
    run("write", "-", "--vector", "-", "--store", path, code=2, input="x")
    assert not path.exists()


# -- embedders ----------------------------------------------------------------------------------


def test_an_embedder_is_named_or_set(run: Run, path: Path) -> None:
    run("write", "eeee", "--id", "e", "--embedder", "wordllama", "--store", path)
    env = {"FASTASSOC_EMBEDDER": "wordllama"}
    run("write", "tttt", "--id", "t", "--store", path, env=env)
    bare = run("write", "aaaa", "--id", "a", "--store", path)
    assert "--embedder wordllama" in bare.stderr
    assert bare.stdout == "a\n"
    quiet = run("write", "oooo", "--id", "o", "--embedder", "none", "--store", path, env=env)
    assert "--embedder" not in quiet.stderr
    found = told(run("info", path, "--json"))
    assert (found["vectors"], found["dim"], found["notes"]) == (2, 8, 4)
    assert found["embedder"] == {"name": "wordllama", "dim": 8}
    first = told(run("read", "et", "--embedder", "wordllama", "--json", "--store", path))["hits"]
    assert first[0]["similarity"] is not None
    for words in ("et", "eeee"):  # which no note says, and which one says
        without = run("read", words, "--store", path)
        assert without.stderr.count("--embedder") == 1
        assert "embedder=" not in without.stderr
        assert "--embedder" not in run("read", words, "--store", path, env=env).stderr
    assert "cosine" in run("read", "et", "--store", path, env=env).stdout


def test_another_embedder_is_refused_with_the_way_out(run: Run, path: Path) -> None:
    run("write", "eeee", "--embedder", "wordllama", "--store", path)
    for command in (["read", "x"], ["write", "x"]):
        result = run(*command, "--embedder", "minilm", "--store", path, code=1)
        assert f"fastassoc reembed minilm --store {path}" in result.stderr
        assert "wordllama" in result.stderr
        assert "--embedder none" in result.stderr


def test_an_embedder_of_another_width_is_refused(run: Run, talk: Path) -> None:
    env = {"FASTASSOC_EMBEDDER": "wordllama"}
    result = run("read", "x", "--store", talk, env=env, code=1)
    assert "FASTASSOC_EMBEDDER" in result.stderr
    assert "found 8 numbers, expected 2" in result.stderr
    run("read", "x", "--embedder", "none", "--store", talk, env=env)


def test_an_unknown_embedder_is_wrong_usage(run: Run, path: Path) -> None:
    for args, env in (
        (["write", "x", "--embedder", "word2vec", "--store", path], {}),
        (["write", "x", "--store", path], {"FASTASSOC_EMBEDDER": "word2vec"}),
        (["reembed", "none", "--store", path], {}),
        (["reembed", "--store", path], {}),
    ):
        result = run(*args, env=env, code=2)
        assert not result.stdout
    assert "wordllama" in run("reembed", "word2vec", "--store", path, code=2).stderr
    assert not path.exists()


def test_an_embedder_that_is_not_installed_makes_no_store(run: Run, path: Path) -> None:
    code = (
        "import sys; sys.modules['sentence_transformers'] = None\n"
        "from fastassoc.cli import main; main()"
    )
    whole = {key: value for key, value in os.environ.items() if not key.startswith("FASTASSOC_")}
    done = subprocess.run(
        [sys.executable, "-c", code, "write", "x", "--embedder", "minilm", "--store", str(path)],
        env=whole, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("fastassoc: embedder 'minilm': sentence-transformers is not")
    assert not path.exists()


# -- ingest, index, reembed ---------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    target = tmp_path / "notes.jsonl"
    rows = [{"id": f"r{n}", "text": f"the row {n} tells {'e' * (n % 7)}"} for n in range(300)]
    target.write_text("\n".join(map(json.dumps, rows)))
    return target


def test_ingest_embeds_and_tells_the_index(run: Run, path: Path, file: Path) -> None:
    said = run("ingest", file, "--embedder", "wordllama", "--preset", "cognitive", "--index",
               "--store", path)  # fmt: skip
    assert "index: exact scan" in said.stdout
    found = told(run("info", path, "--json"))
    assert (found["vectors"], found["notes"], found["dim"]) == (300, 300, 8)
    assert found["snapshot_position"] == found["position"]
    assert found["settings"]["rank"] == "retention"
    again = told(run("ingest", file, "--index", "--json", "--store", path))
    assert (again["written"], again["index"]["kind"]) == (0, "exact")
    assert again["index"]["recall"] == 1.0


def test_ingest_without_the_embedder_says_so(run: Run, path: Path, file: Path) -> None:
    run("write", "eeee", "--embedder", "wordllama", "--store", path)
    assert "--embedder wordllama" in run("ingest", file, "--store", path).stderr
    quiet = run("ingest", file, "--embedder", "none", "--on-duplicate", "replace", "--store", path)
    assert "--embedder" not in quiet.stderr


def test_a_dry_run_knows_the_embedder_s_width(run: Run, path: Path, tmp_path: Path) -> None:
    file = tmp_path / "wide.jsonl"
    file.write_text('{"text": "x", "vector": [1, 2, 3]}\n')
    refused = run("ingest", file, "--dry-run", "--embedder", "wordllama", "--store", path, code=5)
    assert "3" in refused.stderr
    run("ingest", file, "--dry-run", "--store", path)
    run("ingest", file, "--embedder", "wordllama", "--store", path, code=5)
    assert not path.exists()


def test_info_makes_no_index_and_tells_the_one_made(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastassoc import handle, vectors

    for module in (handle, vectors):
        monkeypatch.setattr(module, "EXACT_BELOW", 1_000)
    rng = np.random.default_rng(0)
    centres = np.repeat(4 * rng.standard_normal((20, 16)), 100, axis=0)
    table = (centres + rng.standard_normal((2_000, 16))).astype(np.float32)
    with fa.open(path) as mem:
        assert mem.info()["index"] is None  # no vectors
        mem.write_batch([{"text": f"note {n}", "vector": v} for n, v in enumerate(table)])
        mem.snapshot()
        assert mem.info()["index"] is None
    assert "not made yet" in run("info", path).stdout
    assert not list((path / "cache").glob("index-*"))
    with fa.open(path) as mem:
        mem.warm()
        made = mem.info()["index"]
        assert made["kind"] in ("pq", "ivf", "exact")
        assert made["tried"]
    assert told(run("info", path, "--json"))["index"] == made
    text = run("info", path).stdout
    for kind, recall in made["tried"]:
        assert f"{kind} with recall {recall:.3f}" in text
    if made["kind"] != "exact":
        assert f"{made['kind']}: measured recall@10 {made['recall']:.3f}" in text
    for file in (path / "cache").glob("index-*"):
        file.unlink()
    assert told(run("info", path, "--json"))["index"] is None

    memory = fa.Memory()
    memory.write_batch([{"text": f"note {n}", "vector": v} for n, v in enumerate(table)])
    assert memory.info()["index"] is None
    memory.warm()
    assert made["kind"] == "exact" or memory.info()["index"]["kind"] == made["kind"]


def test_reembed_is_continued(
    run: Run, path: Path, embedders: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastassoc import moving

    monkeypatch.setattr(moving, "STEP_NOTES", 100)
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(json.dumps({"text": f"{'e' * n} t", "id": f"r{n}"})
                              for n in range(1, 301)))  # fmt: skip
    run("ingest", file, "--embedder", "wordllama", "--store", path)
    embedders["minilm"].most = 2
    stopped = run("reembed", "minilm", "--store", path, code=130)
    assert "Run the same command again" in stopped.stderr
    assert "200 notes" in stopped.stderr
    found = told(run("info", path, "--json"))
    assert found["embedder"]["name"] == "wordllama"
    assert found["reembed"] == {"name": "minilm", "dim": 12, "done": 200, "total": 300}
    assert "minilm, 200 of 300 notes done" in run("info", path).stdout
    embedders["minilm"].most = None
    done = run("reembed", "minilm", "--store", path)
    assert "going on after 200 of 300 notes" in done.stderr
    assert done.stdout == "100 notes got a vector from minilm\n"
    found = told(run("info", path, "--json"))
    assert (found["embedder"], found["reembed"]) == ({"name": "minilm", "dim": 12}, None)
    assert (found["vectors"], found["dim"]) == (300, 12)
    assert told(run("reembed", "minilm", "--json", "--store", path))["updated"] == 0


def test_reembed_needs_a_store(run: Run, path: Path) -> None:
    assert "fastassoc: " in run("reembed", "minilm", "--store", path, code=1).stderr
    assert not path.exists()


# -- presets ------------------------------------------------------------------------------------


def test_a_preset_is_that_of_the_store(run: Run, path: Path) -> None:
    run("write", "x", "--preset", "cognitive", "--store", path)
    run("write", "y", "--preset", "cognitive", "--store", path)
    run("write", "z", "--store", path)
    refused = run("write", "w", "--preset", "counts", "--store", path, code=1)
    assert "leave --preset out" in refused.stderr
    assert "session_links" in refused.stderr
    run("write", "w", "--preset", "none", "--store", path, code=2)
    text = run("info", path).stdout
    assert "cognitive" in text
    assert "tiers" in text
    assert told(run("info", path, "--json"))["notes"] == 3


# -- links between notes ------------------------------------------------------------------------


def test_note_links_are_made_shown_and_cut(run: Run, talk: Path, tmp_path: Path) -> None:
    at = ["--store", talk]
    assert told(run("link", "m", "e", "0.4", "--json", *at))["layer"] == "note"
    lines = run("links", "show", "m", "--layer", "note", "--json", *at).stdout.splitlines()
    rows = [*map(json.loads, lines)]
    assert [(row["a"], row["b"]) for row in rows] == [("m", "n"), ("e", "m")]
    assert all(0 < row["effective"] <= row["weight"] for row in rows)
    shown = run("links", "show", "m", "--layer", "note", *at).stdout.splitlines()
    assert shown[0].split() == ["a", "b", "now", "weight", "changed"]
    assert [line.split()[:2] for line in shown[2:4]] == [["m", "n"], ["m", "e"]]
    heaviest = run("links", "top", "-n", 1, "--layer", "note", "--json", *at).stdout
    assert json.loads(heaviest)["b"] == "n"
    assert len(run("links", "top", "--taught", "--layer", "note", "--json", *at).stdout) > 0
    run("links", "export", tmp_path / "n.csv", "--layer", "note", *at)
    assert len((tmp_path / "n.csv").read_text().splitlines()) == 3
    one = told(run("links", "show", "m", "e", "--layer", "note", "--json", *at))
    assert one["weight"] == pytest.approx(0.4)
    assert "m ─0─ e" in run("unlink", "m", "e", "--layer", "note", *at).stdout
    assert "no such links" in run("links", "show", "e", "--layer", "note", *at).stderr


def test_cue_links_are_made_shown_and_cut(run: Run, talk: Path, tmp_path: Path) -> None:
    at, cue = ["--store", talk], ["--layer", "cue"]
    made = told(run("link", "oolong", "e", "0.5", "--json", *cue, *at))
    assert (made["layer"], made["cues_changed"], made["weight"]) == ("cue", 1, 0.5)
    assert (
        "words and concepts" in run("feedback", "an oolong", "--used", "m", "-o", "1", *at).stdout
    )
    shown = run("links", "show", "oolongs", "--json", *cue, *at).stdout.splitlines()
    assert [json.loads(line)["b"] for line in shown] == ["m", "e"]
    shown = run("links", "show", "e", *cue, *at).stdout.splitlines()
    assert shown[-1].split()[:3] == ["oolong", "e", "0.5"]
    assert told(run("links", "show", "oolong", "e", "--json", *cue, *at))["kind"] == "stem"
    assert told(run("links", "top", "-n", 1, "--json", *cue, *at))["b"] == "m"
    run("links", "export", tmp_path / "cues.csv", *cue, *at)
    assert len((tmp_path / "cues.csv").read_text().splitlines()) == 3
    assert "2 from terms" in run("info", *at).stdout
    assert "oolong ─1→ this note (taught)" in run("read", "oolong", "--rank", "bridge", *at).stdout
    assert "oolong ─0─ e" in run("unlink", "oolong", "e", *cue, *at).stdout
    assert "no such link" in run("unlink", "oolong", "e", *cue, *at).stderr
    for args in (["link", "oolong", "zz", *cue], ["link", "the", "e", *cue]):
        assert run(*args, *at, code=1).stderr.startswith("fastassoc: ")


def test_wrong_note_links_are_one_sentence(run: Run, talk: Path) -> None:
    at = ["--store", talk]
    for args in (
        ["link", "n", "zz", "--layer", "note"],
        ["link", "n", "n", "--layer", "note"],
        ["unlink", "zz", "n", "--layer", "note"],
        ["links", "show", "zz", "--layer", "note"],
        ["links", "show", "n", "zz", "--layer", "note"],
        ["get", "zz"],
    ):
        result = run(*args, *at, code=1)
        assert result.stderr.startswith("fastassoc: ")
        assert len(result.stderr.splitlines()) == 1
    run("link", "n", "m", "--layer", "notes", *at, code=2)
    run("links", "top", "--layer", "notes", *at, code=2)
    run("write", "Two names.", "-c", "n", "-c", "m", *at)
    assert "layer" in run("link", "n", "m", *at, code=1).stderr
    assert told(run("link", "n", "m", "--layer", "concept", "--json", *at))["weight"] == 2.0


def test_a_path_over_notes_is_shown(run: Run, talk: Path) -> None:
    run("link", "n", "e", "0.9", "--store", talk)
    found = run("read", "--vector", "[1, 0]", "-k", 2, "--store", talk).stdout
    assert "note n ─0.9→ this note" in found
    hits = told(run("read", "--vector", "[1, 0]", "-k", 2, "--json", "--store", talk))["hits"]
    assert [(hit["id"], hit["source"]) for hit in hits][1] == ("e", "association")
    assert hits[1]["path"][-1]["layer"] == "note"


def test_paths_of_both_layers_are_told_apart() -> None:
    def step(source: str, target: str, layer: str, weight: float) -> fa.Step:
        return fa.Step(source, target, layer, weight, 0.0, weight)

    carries = [step("tea", "n1", "carries", 0.0)]
    walk = [step("n1", "n2", "note", 0.5), step("n2", "n3", "note", 0.25)]
    assert path_text([*carries, *walk]) == ["note n1 (carries tea) ─0.5→ note n2 ─0.25→ this note"]
    assert path_text(walk) == ["note n1 ─0.5→ note n2 ─0.25→ this note"]
    over = [step("tea", "milk", "concept", 3.0), step("milk", "n3", "carries", 0.0)]
    own = [step("tea", "n3", "carries", 0.0)]
    assert path_text([*own, *over, *walk]) == [
        "carries tea",
        "tea ─3→ milk (3 taught)",
        "note n1 ─0.5→ note n2 ─0.25→ this note",
    ]
    assert path_text([]) == []


def test_paths_over_what_notes_carry_are_told() -> None:
    def step(source: str, target: str, layer: str = "carries", weight: float = 0.0) -> fa.Step:
        return fa.Step(source, target, layer, weight, 0.0, 0.0)

    led = [step("tea", "n1"), step("n1", "milk"), step("milk", "n3")]
    more = [step("n1", "pot"), step("pot", "n3")]
    own, lent = [step("cup", "n3")], [step("n2", "n3", "note", 0.5)]
    assert path_text([*led, *more]) == ["note n1 (carries tea) → milk, pot"]
    assert path_text([*led[1:], *more]) == ["note n1 → milk, pot"]  # its words led to n1
    assert path_text([*own, *lent, *led, *more]) == [
        "carries cup",
        "note n2 ─0.5→ this note",
        "note n1 (carries tea) → milk, pot",
    ]
    assert path_text([*lent, *led], 1) == ["note n2 ─0.5→ this note", "and 1 way more (--full)"]
    far = [step("tea", "n1"), step("n1", "milk"), step("milk", "n2"), step("n2", "pot")]
    assert path_text([*far, step("pot", "n3")]) == ["note n1 (carries tea) → milk → note n2 → pot"]


# -- keeping and fading -------------------------------------------------------------------------


def test_only_reinforce_changes_anything(run: Run, talk: Path) -> None:
    at = ["--vector", "[1, 0]", "-k", 2, "--rank", "retention", "--store", talk]
    before = told(run("info", talk, "--json"))["position"]
    run("read", *at)
    run("read", "--like", "n", "-k", 2, "--store", talk)
    assert told(run("info", talk, "--json"))["position"] == before
    assert "2 notes strengthened" in run("read", "--reinforce", "--session", "x", *at).stderr
    kept = told(run("get", "n", "--json", "--store", talk))
    assert (kept["accesses"], kept["tier"], kept["vector"]) == (1, "hot", [1.0, 0.0])
    run("read", "--session", "x", *at, code=2)
    run("read", *at, "--rank", "best", code=2)
    assert "1,000" in run("read", "--reinforce", *at, "-k", 2000, code=1).stderr.replace(
        "1000", "1,000"
    )


def test_get_shows_how_a_note_is_kept(run: Run, talk: Path) -> None:
    run("write", "A newer north.", "--id", "n2", "--supersedes", "n", "--supersedes", "zz",
        "--category", "semantic", "--importance", 1, "-m", "n=1", "--store", talk)  # fmt: skip
    text = run("get", "n2", "--store", talk).stdout
    for words in (
        ("supersedes", "n"),
        ("category", "semantic"),
        ("importance", "1"),
        ("stability", "0.4"),
        ("accesses", "0,"),
        ("tier", "hot"),
        ("vector", "none"),
        ("metadata", "n", "1"),
    ):
        assert any(line.split()[: len(words)] == list(words) for line in text.splitlines()), words
    assert "superseded by  n2" in run("get", "n", "--store", talk).stdout
    assert "2 numbers" in run("get", "n", "--store", talk).stdout


def test_superseding_nothing_is_told(run: Run, talk: Path) -> None:
    said = run("write", "Newer.", "--supersedes", "zz", "--store", talk)
    assert "no such notes to supersede: zz" in said.stderr


def test_notes_with_vectors_are_json(run: Run, talk: Path) -> None:
    notes = told(run("recent", "--json", "--store", talk))["notes"]
    assert [note["vector_width"] for note in notes] == [2, 2, 2]
    assert "vector" not in notes[0]


def test_tick_counts_days(run: Run, talk: Path) -> None:
    assert run("tick", talk).stdout == "0 notes moved to the cold tier\n"
    assert run("tick", "--now", "2090-01-01", talk).stdout == "3 notes moved to the cold tier\n"
    again = told(run("tick", "--now", "2090-01-01", "--json", "--store", talk))
    assert (again["updated"], again["cold"]) == (0, 3)
    assert "0 hot, 3 cold" in run("info", talk).stdout
    assert told(run("get", "n", "--json", "--store", talk))["tier"] == "cold"
    run("tick", "--now", "soon", talk, code=2)
    run("tick", talk.with_name("none.fa"), code=1)


def test_check_passes_where_notes_fade(run: Run, talk: Path) -> None:
    assert "nothing to check" in run("check", talk).stdout
    for n, names in enumerate([("a", "b"), ("a", "b"), ("b", "c"), ("c", "d")]):
        given = [word for name in names for word in ("-c", name)]
        run("write", f"Text {n}.", "--id", f"t{n}", *given, "--session", "s", "--vector",
            f"[1, 0.{n}]", "--store", talk)  # fmt: skip
    run("link", "t0", "t3", 0.8, "--layer", "note", "--store", talk)
    found = told(run("check", talk, "--json"))
    assert found["passed"]
    assert len(found["checks"]) == 3


# -- the real thing -----------------------------------------------------------------------------


@needs_wordllama
def test_wordllama_in_real_processes(path: Path, tmp_path: Path) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("FASTASSOC_")}
    env |= {"FASTASSOC_STORE": str(path), "FASTASSOC_EMBEDDER": "wordllama"}

    def real(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fastassoc", *args],
            env=env, capture_output=True, encoding="utf-8", timeout=300, check=True,
        )  # fmt: skip

    notes = ["Ann drinks green tea every morning.", "The deploy hit a timeout.", "Tea is hot."]
    file = tmp_path / "notes.jsonl"
    rows = [{"id": f"w{n}", "text": text, "session": "s"} for n, text in enumerate(notes)]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert (
        "index: exact scan" in real("ingest", str(file), "--preset", "cognitive", "--index").stdout
    )
    hits = json.loads(real("read", "a hot beverage at breakfast", "--json").stdout)["hits"]
    assert hits[0]["id"] in ("w0", "w2")
    assert hits[0]["source"] == "semantic"
    assert json.loads(real("info", "--json").stdout)["embedder"] == {
        "name": "wordllama",
        "dim": 256,
    }
    assert real("reembed", "wordllama").stdout == "0 notes got a vector from wordllama\n"


def test_two_useful_notes_need_no_question(run: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "c.fa")
    for name in "ab":
        run("write", name * 4, "--id", name, "--preset", "cognitive", "--store", path)
    alone = run("feedback", "--used", "a", "-o", "1", "--store", path, code=2)
    assert "two notes" in alone.stderr
    run("feedback", "--used", "a", "--used", "b", "-o", "1", "--store", path)
    assert "a" in run("links", "top", "--layer", "note", "--store", path).stdout
