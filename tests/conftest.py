"""Memories to test, and a clock that can be set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from worker import Clock, Worker, ask

if TYPE_CHECKING:
    import fastassoc as fa


# a first call may compile a kernel
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# other processes find the package that is tested, installed or not
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def mem(clock: Clock) -> Iterator[fa.Memory]:
    """A fresh memory that lives in memory only."""
    import fastassoc as fa

    with fa.Memory(clock=clock) as memory:
        yield memory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.fa"


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[fa.Memory]:
    """A fresh store on disk."""
    import fastassoc as fa

    with fa.open(path, clock=clock) as memory:
        yield memory


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """Another process, which serves requests on any store."""
    other = Worker()
    yield other
    other.close()


class Subject:
    """A memory under contract: `do` changes it, `mem` is where it is read."""

    def __init__(
        self, way: str, path: Path, clock: Clock, worker: Worker | None, preset: str = "counts"
    ) -> None:
        self.way, self.path, self.clock, self.worker = way, path, clock, worker
        self.preset = preset
        self.stale = False
        self._mem = self._open()

    def _open(self) -> Any:
        import fastassoc as fa

        settings = None  # as a caller who takes the default, or who opens what is there
        if self.preset != "counts" and not self.path.exists():
            settings = getattr(fa.Settings, self.preset)()
        if self.way == "memory":
            return fa.Memory(clock=self.clock, settings=settings)
        return fa.open(self.path, clock=self.clock, sync="normal", settings=settings)

    def do(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        if self.worker is not None:
            return self.worker.ask(self.path, self.clock.stamp, verb, *args, **kwargs)
        self.stale = self.way == "reopened"
        return ask(self._mem, verb, *args, **kwargs)

    def ask(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        return ask(self.mem, verb, *args, **kwargs)

    @property
    def mem(self) -> Any:
        if self.stale:
            self._mem.close()
            self._mem = self._open()
            self.stale = False
        return self._mem

    def close(self) -> None:
        self._mem.close()
        if self.worker is not None:
            self.worker.ask(self.path, self.clock.stamp, "close")


WAYS = ["memory", "store", "reopened", "other process"]


def subject_of(
    request: pytest.FixtureRequest, path: Path, clock: Clock, preset: str
) -> Iterator[Subject]:
    other = request.getfixturevalue("worker") if request.param == "other process" else None
    under_test = Subject(request.param, path, clock, other, preset)
    yield under_test
    under_test.close()


@pytest.fixture(params=WAYS)
def subject(request: pytest.FixtureRequest, path: Path, clock: Clock) -> Iterator[Subject]:
    yield from subject_of(request, path, clock, "counts")


@pytest.fixture(params=WAYS)
def cognitive(request: pytest.FixtureRequest, path: Path, clock: Clock) -> Iterator[Subject]:
    """As `subject`, of the cognitive preset."""
    yield from subject_of(request, path, clock, "cognitive")
