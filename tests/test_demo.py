"""The demonstration: what it collects, what it withholds, and that it runs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fastassoc as fa
from fastassoc.cli import cli, corpus
from fastassoc.cli.corpus import Corpus, collect
from fastassoc.cli.demomeasure import measure
from fastassoc.cli.demoshow import ways
from fastassoc.cli.docnotes import MOST, Names, notes, relations
from fastassoc.cli.docsource import parse_module
from fastassoc.cli.doctext import split
from fastassoc.embed import available

FILES = {
    "__init__.py": '''
        """Tools for gears and levers."""
        from ._gears import *
        from ._gears import turn as rotate
        from . import levers
        ''',
    "_gears.py": r'''
        """Private."""
        __all__ = ["turn", "Gear"]

        def turn(angle, times=1, *rest, fast=False, _secret=None):
            """Turn the gear wheel by an angle.

            Uses `Gear` and :func:`made_up.levers.pull`.

            See Also
            --------
            made_up.levers.pull : Pulling withheldword.
            Gear.stop, no_such_thing
            os.path.join

            Notes
            -----
            Wheels are "\d" round.
            """

        class Gear:
            """A gear wheel with teeth on it.

            .. seealso::

                :func:`turn` and anotherwithheld words

            It turns.
            """

            def stop(self):
                """Stop the gear wheel at once. See also `turn`, thirdwithheld."""

            def _hidden(self):
                """Nobody sees this one."""

        def unlisted():
            """This one is not in the list."""
        ''',
    "levers.py": '''
        from ._gears import Gear as Cog

        def pull(self_like):
            """Pull the lever by hand."""

        tug = pull

        if True:
            def push():
                """Push the lever by hand.

                see also:
                    fourthwithheld `pull`
                """
        ''',
    "broken.py": "def oops(:\n",
    "nulls.py": "x = '\0'\n",
    "tests/test_gears.py": 'def check():\n    """A test is no documentation."""\n',
}


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package that runs no code unnoticed."""
    root = tmp_path / "made_up"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return root


@pytest.fixture
def found(made_up: Path) -> Corpus:
    return collect(["made_up", "not_installed_here"])


def test_each_symbol_comes_once_by_its_public_name(found: Corpus) -> None:
    by_name = {one.name: one for one in found.symbols}
    assert list(by_name) == [
        "made_up", "made_up.Gear", "made_up.Gear.stop",
        "made_up.levers.pull", "made_up.levers.push", "made_up.turn",
    ]  # fmt: skip
    assert by_name["made_up.turn"].aliases == ["made_up.rotate"]
    assert by_name["made_up.levers.pull"].aliases == ["made_up.levers.tug"]
    assert by_name["made_up.turn"].signature == "(angle, times=1, *rest, fast=False)"
    assert found.packages == {"made_up": 6}
    assert "made_up" not in sys.modules


def test_broken_files_are_skipped_and_counted(found: Corpus) -> None:
    assert [Path(one).name for one in found.skipped] == ["broken.py", "nulls.py"]
    assert found.files == len(FILES) - 1


def test_see_also_is_withheld_and_becomes_the_truth(found: Corpus) -> None:
    names = Names(found.symbols)
    rows = notes(found, names)
    assert "withheld" not in json.dumps(rows).lower()
    assert "see also" not in json.dumps(rows).lower()
    assert relations(found, names) == {
        "made_up.Gear": ["made_up.turn"],
        "made_up.Gear.stop": ["made_up.turn"],
        "made_up.levers.push": ["made_up.levers.pull"],
        "made_up.turn": ["made_up.Gear.stop", "made_up.levers.pull"],
    }
    text = {row["id"]: row["text"] for row in rows}
    assert text["made_up.turn"].startswith("made_up.turn: Turn the gear wheel by an angle.\n")
    assert 'Wheels are "\\d" round.' in text["made_up.turn"]
    assert "It turns." in text["made_up.Gear"]
    assert text["made_up.Gear.stop"].endswith("Stop the gear wheel at once.\nGear.stop()")


def test_concepts_are_shared_by_few_notes(found: Corpus) -> None:
    rows = {row["id"]: row for row in notes(found, Names(found.symbols))}
    assert rows["made_up.turn"]["subjects"] == ["made_up.turn"]
    assert rows["made_up.Gear.stop"]["subjects"] == ["made_up.Gear.stop", "Gear.stop"]
    assert "gear wheel" in rows["made_up.turn"]["concepts"]
    assert "gear wheel" in rows["made_up.Gear"]["concepts"]
    held: dict[str, int] = {}
    for row in rows.values():
        for name in row["concepts"]:
            held[name] = held.get(name, 0) + 1
    assert max(held.values()) <= MOST
    with fa.Memory() as mem:
        assert mem.ingest(list(rows.values())).rejected == 0


def test_nothing_is_said_about_other_peoples_source(
    made_up: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = collect(["made_up"]), collect(["made_up"])
    assert first == second
    assert capfd.readouterr() == ("", "")


def test_a_package_beyond_the_limit_is_left_out(made_up: Path) -> None:
    assert collect(["made_up"], max_files=2).left_out == ["made_up"]


@pytest.mark.parametrize(
    ("doc", "prose", "see"),
    [
        ("Add.\n\nSee Also\n--------\na.b, c : x\n    more d\n`e`\n\nNotes\n-----\nN.",
         "Add.\n\nNotes\n-----\nN.", ["a.b", "c", "e"]),
        ("Add.\n\n    See also\n    ========\n    numpy.sub", "Add.", ["numpy.sub"]),
        ("Go (see also `x`), then\nstop `y`.\n\nEnd.", "Go\n\nEnd.", ["x", "y"]),
        (".. seealso:: :func:`~a.b`\n   and `c`\n\nEnd.", "End.", ["a.b", "c"]),
        ("See also:\n\n  **PEP 1** - `x`\n     More.\n\nEnd.", "End.", ["x"]),
        ("Seen. Also nice.", "Seen. Also nice.", []),
        ("A.\n\nExamples\n--------\n>>> 1\n\nReferences\n----------\nB.", "A.", []),
    ],
)  # fmt: skip
def test_sections(doc: str, prose: str, see: list[str]) -> None:
    assert split(doc) == (prose, see)


def test_added_documentation_is_found(tmp_path: Path) -> None:
    path = tmp_path / "_add_newdocs.py"
    path.write_text('add_newdoc("pack._core", "thing", ("size", """How big it is."""))\n')
    module = parse_module("pack._core._add_newdocs", path)
    assert [(home, one.name) for home, one in module.added] == [("pack", "thing.size")]


def test_pages_of_a_module_are_a_session(found: Corpus) -> None:
    rows = {row["id"]: row["session"] for row in notes(found, Names(found.symbols))}
    assert rows["made_up"] == rows["made_up.turn"] == rows["made_up.Gear"] == "made_up"
    assert rows["made_up.Gear.stop"] == "made_up.Gear"
    assert rows["made_up.levers.pull"] == rows["made_up.levers.push"] == "made_up.levers"


def test_the_measure_counts_true_relations() -> None:
    with fa.Memory() as mem:
        mem.write_batch(
            [
                {"id": "a", "text": "gear wheel", "concepts": ["gear"]},
                {"id": "b", "text": "gear tooth", "concepts": ["gear"]},
                {"id": "c", "text": "tea pot", "concepts": ["tea"]},
            ]
        )
        found = measure(mem, mem, {"a": ["b"], "b": ["a", "c"]})
    assert (found.asked, found.relations) == (2, 3)
    for way in ("flat", "concepts", "links", "both"):
        share, low, high = found.shares[way]
        assert share == pytest.approx(2 / 3)
        assert low <= share <= high
    assert list(found.gains) == ["links"]


def test_the_measure_asks_vectors_where_notes_have_them() -> None:
    rows = [
        {"id": "a", "text": "gear", "vector": [1.0, 0.0]},
        *({"id": f"w{n}", "text": f"gear wheel {n}", "vector": [0.0, 1.0]} for n in range(12)),
        {"id": "b", "text": "gear among cogs, teeth, axles, shafts", "vector": [0.9, 0.1]},
    ]
    with fa.Memory() as mem:
        mem.write_batch([{**row, "concepts": []} for row in rows])
        found = measure(mem, mem, {"a": ["b"]})
    whole = {way: share for way, (share, _, _) in found.shares.items()}
    assert whole == {"flat": 0.0, "concepts": 0.0, "links": 0.0, "both": 0.0,
                     "vectors": 1.0, "mixed": 1.0, "all": 1.0, "retention": 1.0}  # fmt: skip
    assert found.gains["vectors to text"] == (1.0, 1.0, 1.0)
    assert found.gains["retention"] == (0.0, 0.0, 0.0)
    assert found.to_dict()["gains"]["links"] == {"gain": 0.0, "low": 0.0, "high": 0.0}


SMALL = ("rich", "click")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little documentation, so that the whole takes seconds."""
    monkeypatch.setattr(corpus, "PACKAGES", SMALL)


MISSING = 'wordllama is not installed: pip install "fastassoc[embed]"'


@pytest.fixture
def with_vectors() -> None:
    if available()["wordllama"] != "ready":
        pytest.skip("wordllama is not installed here, so notes of the demonstration get no vectors")


@pytest.fixture
def without_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the extra `embed`."""
    monkeypatch.setattr("fastassoc.embed.available", lambda: {"wordllama": MISSING})


WAYS = ["with_vectors", "without_vectors"]


def demonstrate(*args: str, code: int = 0) -> Any:
    env = {"NO_COLOR": None, "FORCE_COLOR": None, "FASTASSOC_STORE": None, "COLUMNS": "80"}
    result = CliRunner().invoke(cli, ["demo", *args], env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", WAYS)
def test_the_whole_demonstration(path: Path, way: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(way)
    result = demonstrate("--keep", str(path), "--json")
    document = json.loads(result.stdout)
    assert document["ready_seconds"] > 0
    assert set(document["corpus"]["packages"]) == set(SMALL)
    assert document["ingest"]["notes"] == document["corpus"]["symbols"] > 400
    assert [one["rank"] for one in document["questions"]] == ["bridge"] * 3
    hits = [hit for one in document["questions"] for hit in one["hits"]]
    linked = [hit for hit in hits if hit["source"] == "association" and hit["path"]]
    assert any(hit["via"] for hit in linked)
    for hit in linked:  # each says what led to it: a link, or what another note names, too
        last = hit["path"][-1]
        assert last["target"] == hit["id"]
        assert last["layer"] == "note" or last["source"] in {*hit["via"], *hit["concepts"]}
    assert document["feedback"]["before"] != document["feedback"]["after"]
    assert document["new_process"]["hits"] == document["feedback"]["after"]
    assert document["control"]["hits"] == document["feedback"]["before"]
    assert document["passed"] == {"new process": True, "control": True, "checks": True}
    near = way == "with_vectors"
    with fa.open(path, create=False, read_only=True) as mem:
        assert len(mem) == document["ingest"]["notes"]
        assert mem.stats()["vectors"] == document["ingest"]["vectors"] == near * len(mem)
    assert document["ingest"]["embedder"] == ("wordllama" if near else None)
    assert (document["ingest"]["embedding_seconds"] > 0) == near
    assert bool(document["beside"]) == near
    assert document["measure"] is None  # this documentation has no "See Also"
    again = demonstrate("--keep", str(path), code=1)
    assert "name another folder" in again.stderr


@pytest.mark.usefixtures("small", "with_vectors")
def test_hits_of_three_kinds_come_side_by_side(path: Path) -> None:
    document = json.loads(demonstrate("--keep", str(path), "--json").stdout)
    first, *_ = document["beside"]
    assert first["rank"] == "retention"
    by_kind: dict[str, list[Any]] = {}
    for hit, place in zip(first["hits"], first["places_by_vector"], strict=True):
        by_kind.setdefault(hit["source"], []).append(hit)
        assert hit["similarity"] is not None
        assert place is None or place >= 1
    assert set(by_kind) == {"semantic", "concept", "association"}
    assert first["places_by_vector"][first["hits"].index(by_kind["semantic"][0])] <= 9
    assert all(step["layer"] == "carries" for hit in by_kind["concept"] for step in hit["path"])
    layers = {step["layer"] for hit in by_kind["association"] for step in hit["path"]}
    assert layers & {"concept", "note"}


def test_a_hit_says_by_which_links_it_came() -> None:
    with fa.Memory() as mem:
        mem.write_batch(
            [
                {"id": "m.a", "text": "gear", "concepts": ["x"], "vector": [1, 0], "session": "m"},
                {"id": "m.b", "text": "tea", "concepts": [], "vector": [0.1, 1], "session": "m"},
                {"id": "n.c", "text": "pot", "concepts": ["y"], "vector": [0.2, 1]},
            ]
        )
        mem.link("x", "y", 3.0)
        recall = mem.read(concepts=["x"], vector=[1, 0], rank="retention", k=1)
        assert ways(recall[0]) == ["carries x"]
        linked = {}
        for k in (2, 3):
            linked |= {hit.id: ways(hit) for hit in mem.read(concepts=["x"], rank="retention", k=k)}
    assert linked == {"m.a": ["carries x"], "m.b": ["note a ─1→ b"], "n.c": ["x ─3→ y (3 taught)"]}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", WAYS)
def test_the_page_fits_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(way)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = demonstrate().stdout
    (store,) = tmp_path.glob("fastassoc-demo-*/docs.fa")
    assert f"export FASTASSOC_STORE={store}" in text
    assert "compil" in text[: text.index("1. ")].lower()
    assert "\x1b" not in text
    long = [line for line in text.splitlines() if len(line) > 80 and str(tmp_path) not in line]
    assert not long
    assert "ANOTHER" not in text
    section = text[text.index("Questions in plain words") : text.index("Feedback changes")]
    assert "association " in section
    assert "─1→ this note" in section or "(carries " in section
    near = way == "with_vectors"
    assert ("side by side" in text) == ("cosine place  source" in text) == near
    assert (f"   No hits by vector: {MISSING}" in text.splitlines()) != near
    assert text.count("--embedder wordllama") == near
    if near:
        asked = ["read", "--embedder", "wordllama", "--rank", "retention", "threads"]
        done = CliRunner().invoke(cli, [*asked, "--store", str(store), "--json"])
        assert json.loads(done.stdout)["rank"] == "retention"


def test_no_documentation_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "PACKAGES", ("not_installed_here",))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert "no documentation" in demonstrate(code=1).stderr
    assert not list(tmp_path.iterdir())


WARMED = """
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import fastassoc as fa
import fastassoc.kernels
from fastassoc import embed
from fastassoc.cli.common import App

EMBEDDERS
folder, *packages = sys.argv[1:]


def compiled():
    modules = [import_module("fastassoc.kernels." + one.name)
               for one in iter_modules(fastassoc.kernels.__path__)]
    return {(name, str(one)) for module in modules for name, kernel in vars(module).items()
            for one in getattr(kernel, "signatures", ())}


fa.warm()
before = compiled()
demo = import_module("fastassoc.cli.demo")
demo.run(App(json=True), folder, tuple(packages))
with fa.open(folder) as mem:
    for start in range(0, 8_000, 1_000):
        rows = [{"text": "river %d stone %d" % (n, n % 7),
                 "concepts": ["n%d" % (n * k % 4099) for k in range(1, 8)]}
                for n in range(start, start + 1_000)]
        mem.ingest(rows, batch_rows=100 + start // 10)
        mem.read("which stone lies in the river")
        mem.read(concepts=["n1", "n5"])
with fa.open(folder, read_only=True) as mem:
    mem.read("which stone lies in the river")
    mem.read(concepts=["n1", "n5"])
print(*sorted(compiled() - before), sep="\\n")
"""


@pytest.mark.parametrize(
    "embedders", ["", f"embed.available = lambda: dict(wordllama={MISSING!r})"], ids=WAYS
)
def test_after_warm_nothing_is_compiled(path: Path, embedders: str) -> None:
    words = [sys.executable, "-c", WARMED.replace("EMBEDDERS", embedders), str(path), *SMALL]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
