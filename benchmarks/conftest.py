"""Sizes by name, data made once a size, compile time apart, versions beside the figures."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import fastassoc as fa
from benchmarks.asked import Asked
from benchmarks.topics import SIZES, write_parquet

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the slow twins

PACKAGES = (
    *("fastassoc", "numpy", "scipy", "numba", "faiss-cpu", "pyarrow", "apsw", "duckdb", "polars"),
    *("igraph", "scikit-network", "networkx", "lancedb", "chromadb", "bm25s", "tantivy"),
    *("cognitive-memory", "hebbmem", "hyperrecall"),
)
COMPILED: dict[str, float] = {}


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = fa.__version__ if name == "fastassoc" else "not installed"
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The largest size runs only where it is named."""
    if "huge" in (config.option.keyword or ""):
        return
    left = [item for item in items if "huge" in item.name]
    items[:] = [item for item in items if "huge" not in item.name]
    config.hook.pytest_deselected(items=left)


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    machine_info["packages"] = versions()
    machine_info["load"] = round(os.getloadavg()[0], 1)


def pytest_benchmark_update_json(config: Any, benchmarks: Any, output_json: Any) -> None:
    output_json["compile"] = COMPILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if COMPILED:
        terminalreporter.write_line(
            f"kernels compiled (or loaded from the cache) before any figure: "
            f"{COMPILED['seconds']:.1f} s"
        )


@pytest.fixture(scope="session", autouse=True)
def compiled() -> float:
    """Compile everything first: no figure holds it."""
    COMPILED["seconds"] = round(fa.warm(), 2)
    return COMPILED["seconds"]


@pytest.fixture(scope="session", params=list(SIZES))
def size(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def notes(size: str) -> int:
    return SIZES[size]


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory, size: str) -> Iterator[Path]:
    """A folder of this size, gone when the next one begins."""
    folder = tmp_path_factory.mktemp(size)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def parquet(work: Path, notes: int) -> Path:
    file = work / "notes.parquet"
    write_parquet(file, notes)
    return file


@pytest.fixture(scope="session")
def store(work: Path, parquet: Path) -> Path:
    """A store of the notes, with a snapshot."""
    return filled(work / "notes.fa", parquet)


def filled(path: Path, file: Path) -> Path:
    with fa.open(path) as mem:
        mem.ingest(str(file))
        mem.snapshot()
    return path


@pytest.fixture(scope="session")
def mem(store: Path) -> Iterator[fa.Memory]:
    """The store, for reading only."""
    with fa.open(store, read_only=True) as memory:
        yield memory


@pytest.fixture(scope="session")
def asked(mem: fa.Memory, notes: int) -> Asked:
    return Asked(mem, notes)


@pytest.fixture
def folder(work: Path) -> Iterator[Callable[[], Path]]:
    """Gives names of new folders, gone after the test."""
    base = work / "scratch"
    base.mkdir()
    numbers = count()
    yield lambda: base / f"{next(numbers)}.fa"
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def copy(store: Path, folder: Callable[[], Path]) -> Callable[[], Path]:
    """Gives copies of the store, to be changed."""
    return lambda: Path(shutil.copytree(store, folder()))
