"""The import, and the first read of a process that just began."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.case import FLOOR, OURS, measure

ROOT = Path(__file__).parents[1]
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
COLD = """
import time
t = time.perf_counter()
import fastassoc as fa
with fa.open({path!r}, read_only=True) as mem:
    assert mem.read(concepts=["concept 000001"], rank={rank!r}) is not None
    print(time.perf_counter() - t)
"""


def inside(code: str) -> float:
    """Seconds that a new process tells."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


@pytest.mark.parametrize("size", ["small"], indirect=True)
@pytest.mark.parametrize(
    ("who", "package"),
    [(OURS, "fastassoc"), (FLOOR + "json", "json"), ("numpy", "numpy"), ("faiss", "faiss")],
)
def test_import(benchmark: Any, size: str, who: str, package: str) -> None:
    measure(
        benchmark, "import", who, size, lambda: inside(IMPORT.format(package)), rounds=5, told=True
    )


@pytest.mark.parametrize("rank", ["counts", "flat"])
def test_cold_start(benchmark: Any, size: str, store: Path, rank: str) -> None:
    """Import, open and read in a new process; kernels come from Numba's cache."""
    code = COLD.format(path=str(store), rank=rank)
    row = "cold-start" if rank == "counts" else f"cold-start-{rank}"
    measure(benchmark, row, OURS, size, lambda: inside(code), rounds=3, told=True)


def test_cold_start_beside(benchmark: Any, size: str, store: Path) -> None:
    code = "import time; t = time.perf_counter(); import numpy, numba, pyarrow, apsw, scipy.sparse;"
    code += "print(time.perf_counter() - t)"
    who = FLOOR + "import numpy, numba, pyarrow, apsw, scipy.sparse"
    measure(benchmark, "cold-start", who, size, lambda: inside(code), rounds=3, told=True)
