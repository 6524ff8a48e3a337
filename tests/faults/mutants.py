"""Safeguards taken out of the library, one at a time: the tests must notice each.

Each mutant replaces one exact text of one file in a copied tree, and names the tests that should
fail then. Before, all of them must pass in the clean copy. A text that is no longer in the source,
or stands there twice, is an error: so the list stays true.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .mutantlist import INSTRUMENTS, MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PATIENCE = 180  # seconds; a mutant whose tests hang is caught


@dataclass
class Tally:
    caught: list[str] = field(default_factory=list)
    survived: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # the harness, not the library
    seconds: float = 0.0

    def line(self) -> str:
        total = len(self.caught) + len(self.survived)
        share = len(self.caught) / total if total else 1.0
        return (
            f"{total} mutants, {len(self.caught)} caught ({share:.1%}), "
            f"{len(self.survived)} survived, {len(self.broken)} broken, {self.seconds:.0f} s"
        )


def misplaced(mutants: Sequence[Mutant] = MUTANTS) -> list[str]:
    """Mutants whose text is not exactly once in the source, or whose tests are not there."""
    wrong = []
    for mutant in mutants:
        count = (ROOT / "fastassoc" / mutant.file).read_text(encoding="utf-8").count(mutant.old)
        if count != 1:
            wrong.append(f"{mutant.name}: its text is {count} times in {mutant.file}")
        for check in mutant.checks:
            file, _, test = check.partition("::")
            test = test.partition("[")[0]
            if check in INSTRUMENTS:
                continue
            path = ROOT / "tests" / file
            if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
                wrong.append(f"{mutant.name}: there is no test {check}")
    return wrong


class Tree:
    """A copy of the project, changed and put back."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("fastassoc", "tests", "data"):
            shutil.copytree(ROOT / name, place / name)  # with the kernels that are compiled
        for name in ("pyproject.toml", "README.md", "FORMAT.md"):
            shutil.copy2(ROOT / name, place / name)

    def check(self, checks: Sequence[str], *, plain: bool) -> tuple[bool, str]:
        """Whether all hold, and what was said."""
        said = ""
        tests = [f"tests/{check}" for check in checks if check not in INSTRUMENTS]
        lines = [[sys.executable, "-c", INSTRUMENTS[c]] for c in checks if c in INSTRUMENTS]
        if tests:
            options = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header")
            lines.append([sys.executable, "-m", "pytest", *options, *tests])
        env = os.environ | {"PYTHONPATH": str(self.place), "PYTHONDONTWRITEBYTECODE": "1"}
        if plain:  # a changed kernel is not compiled
            env["NUMBA_DISABLE_JIT"] = "1"
        for line in lines:
            process = subprocess.Popen(
                line,
                cwd=self.place,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                said = process.communicate(timeout=PATIENCE)[0]
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.communicate()
                return False, "it hung"
            if process.returncode not in (0, 1):
                raise RuntimeError(f"{' '.join(line[2:])}: ended with {process.returncode}: {said}")
            if process.returncode:
                return False, said
        return True, said

    def run(self, mutant: Mutant) -> bool:
        """Whether the tests notice it."""
        path = self.place / "fastassoc" / mutant.file
        text, times = path.read_text(encoding="utf-8"), path.stat()
        try:
            path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
            return not self.check(mutant.checks, plain=mutant.plain)[0]
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its kernels stay good


def run(mutants: Sequence[Mutant] = MUTANTS, *, tell: Callable[[str], None] | None = None) -> Tally:
    """Try each of them."""
    tally, begun = Tally(), time.monotonic()
    tally.broken += misplaced(mutants)
    place = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        tree = Tree(place / "tree")
        for plain in (False, True):
            checks = sorted({c for m in mutants if m.plain == plain for c in m.checks})
            good, said = tree.check(checks, plain=plain) if checks else (True, "")
            if not good:
                tally.broken.append(f"the tests fail without any mutant: {said[-2000:]}")
        for mutant in mutants if not tally.broken else ():
            start = time.monotonic()
            try:
                seen = tree.run(mutant)
            except RuntimeError as error:
                tally.broken.append(f"{mutant.name}: {str(error)[-1000:]}")
                continue
            (tally.caught if seen else tally.survived).append(mutant.name)
            if tell is not None:
                verdict = "caught" if seen else "SURVIVED"
                tell(f"{mutant.name:58} {verdict:9} {time.monotonic() - start:5.1f} s")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    tally.seconds = time.monotonic() - begun
    return tally
