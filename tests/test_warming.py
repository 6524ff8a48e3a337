"""After `warm` no verb waits for a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fastassoc as fa

WARMED = """
import sys
from importlib import import_module
from pkgutil import iter_modules

import fastassoc as fa
import fastassoc.kernels

folder = sys.argv[1]


def compiled():
    modules = [import_module("fastassoc.kernels." + one.name)
               for one in iter_modules(fastassoc.kernels.__path__)]
    return {(name, str(one)) for module in modules for name, kernel in vars(module).items()
            for one in getattr(kernel, "signatures", ())}


fa.warm()
before = compiled()

import numpy as np
import pyarrow as pa

rng = np.random.default_rng(0)


def rows(n, start=0, **more):
    matrix = rng.normal(size=(n, 8)).astype(np.float32) + 1
    return [{"id": "n%d" % k, "text": "river %d stone" % k, "concepts": ["c%d" % (k % 9)],
             "session": "s%d" % (k % 3), "vector": vector, **more}
            for k, vector in enumerate(matrix, start)]


def looks(mem):
    near = rng.normal(size=8)
    for question in ({"vector": near}, {"vector": near.tolist(), "domain": "general"},
                     {"like": mem.recent(limit=1)[0].id}, {"query": "river", "vector": near},
                     {"query": "river stone", "concepts": ["c1"], "vector": near, "hops": 3},
                     {"vector": near, "include_superseded": True, "hops": 2},
                     {"concepts": ["c1"]}, {"query": "river"}):
        for rank in (None, "flat", "retention"):
            mem.read(**question, rank=rank)
    mem.read_batch([{"vector": near}, {"concepts": ["c2"]}])
    mem.note_links.to_arrow()
    mem.note_links.top(3)
    mem.get(mem.recent(limit=1)[0].id)
    mem.rebuild_links().read(vector=near)
    mem.stats(), mem.info()


def verbs(mem):
    mem.write(**rows(1)[0])
    mem.write("without a vector", session="s1")
    mem.write_batch(rows(30, 10))
    table = {"text": [str(n) for n in range(40)], "session": ["s1"] * 40}
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=320), pa.float32()), 8)
    mem.ingest(pa.table({**table, "vector": vectors}))
    looks(mem)
    mem.read(vector=rng.normal(size=8), reinforce=True, session="a", k=5)
    mem.read("river", reinforce=True, session="b", k=5)
    mem.feedback(asked=["c1"], used=["n0", "n10", "n11"], outcome=1.0)
    mem.feedback(asked=["c1"], used=["n0", "n12"], outcome=-0.5)
    mem.link("n0", "n20", 0.8)
    mem.unlink("n0", "n20")
    mem.link("n0", "n21", 0.9)
    mem.write("new", supersedes=["n0"], vector=[1] * 8)
    mem.write_batch(rows(2, 10), on_duplicate="replace")
    mem.tick("2100-01-01")
    looks(mem)
    mem.forget(["n21", "n22"])
    looks(mem)
    for n in range(3):
        mem.write_batch(rows(1500, 100 + 1500 * n))
        looks(mem)
    mem.forget(["n%d" % n for n in range(100, 2000)])
    looks(mem)


for preset in (fa.Settings.cognitive(), fa.Settings.counts()):
    verbs(fa.Memory(settings=preset))
    where = folder + preset.session_links
    with fa.open(where, settings=preset) as mem:
        verbs(mem)
    for read_only in (False, True):
        with fa.open(where, read_only=read_only) as mem:
            looks(mem)
            if not read_only:
                mem.snapshot()
                mem.vacuum()
    with fa.open(where) as mem:
        looks(mem)
        mem.write_batch(rows(50, 90_000))
        mem.read(vector=[1] * 8, reinforce=True, session="c")
        mem.reembed(lambda texts: [[len(text), 1.0, 2.0] for text in texts])
        mem.read(vector=[1, 2, 3])
        lines = list(mem.export_lines())
    copy = fa.Memory(settings=preset)
    copy.import_lines(lines)
    copy.read(vector=[1, 2, 3])
    copy.write("last", vector=[1, 2, 3], session="s1")
    copy.tick("2200-01-01")
print(*sorted(compiled() - before), sep="\\n")
"""


def test_after_warm_vectors_and_note_links_wait_for_no_compiler(path: Path) -> None:
    words = [sys.executable, "-c", WARMED, str(path)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_a_kernel_is_compiled_anew_where_a_helper_of_another_file_changed(tmp_path: Path) -> None:
    """An upgrade that changes one file must not leave the code of the old one in others."""
    source = Path(fa.__file__).parent
    shutil.copytree(source, tmp_path / "fastassoc", ignore=shutil.ignore_patterns("__pycache__"))
    kernels = tmp_path / "fastassoc" / "kernels"
    (kernels / "helper.py").write_text(
        "from fastassoc.kernels import inline\n\n\n@inline\ndef given() -> int:\n    return 1\n"
    )
    (kernels / "caller.py").write_text(
        "from fastassoc.kernels import jit\nfrom fastassoc.kernels.helper import given\n\n\n"
        "def _asked() -> int:\n    return given()\n\n\nasked = jit(_asked)\n"
    )
    ask = "from fastassoc.kernels.caller import asked; print(asked(), sum(asked.stats[1].values()))"

    def said() -> str:
        done = subprocess.run(
            [sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        return done.stdout.strip()

    assert [said(), said()] == ["1 0", "1 1"]  # compiled, then found in the cache
    helper = kernels / "helper.py"
    helper.write_text(helper.read_text().replace("1", "2"))
    assert said() == "2 0"
