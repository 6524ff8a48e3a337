"""Faults by real means: small and read-only file systems, limits, other users.

Each function returns None, or why it cannot be done here.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fastassoc as fa
from fastassoc.errors import FastAssocError, ReadOnlyStore, StoreError

from .judge import Judge, require
from .script import NOW, SCENES, Ledger, Model, Scene, Stage, base, lines_file, small, strict, told

STEPS = [s for s in SCENES if s.opens and s.name not in ("close", "verify", "export")]


def mounted(place: Path, *options: str) -> str | None:
    """Mount something; why not, if it cannot be."""
    place.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            ["mount", *options, str(place)], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"no mount here ({error})"
    return done.stderr.strip() or "may not mount" if done.returncode else None


def unmount(place: Path) -> None:
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


class Tried:
    """A scene on a store that its means hinder, and what must be true afterwards."""

    def __init__(self, place: Path, scene: Scene) -> None:
        self.scene, self.place = scene, place
        with told(Ledger()) as self.ledger:
            base(scene.base, place)
        self.start = self.ledger.last
        lines_file(Stage(place))

    def play(self, hinder: Callable[[], None], free: Callable[[], None]) -> str:
        stage = Stage(self.place)
        outcome = "went well"
        operations = dict(self.ledger.operations)
        with told(Ledger([self.start], operations)) as ledger, strict():
            stage.open()
            hinder()
            try:
                self.scene.act(stage)
            except FastAssocError as error:
                outcome = f"{type(error).__name__}"
            acked = ledger.last
            position = stage.mem.position  # the store stays readable
            require(acked <= position <= acked + 1, f"reads {position}, acknowledged {acked}")
            stage.mem.read("tea")
            free()
            with suppress(FastAssocError):
                stage.close()
            stage.open(settings=None)
            self.scene.act(stage)
            stage.close()
            model = Model(ledger.operations, ledger.last, asked=False)
        Judge(model, whole=1).look(self.place / "s.fa", ledger.last, ledger.last)
        Judge(model, whole=1).use(stage)
        return outcome


@contextmanager
def folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


# -- a full file system ----------------------------------------------------------------------------


def small_file_system(
    room_left: int = 4096, scenes: list[str] | None = None
) -> str | dict[str, str]:
    """A tmpfs of 1 MiB that is full but for a few bytes when each operation begins."""
    found = {}
    with folder() as place, small():
        for scene in STEPS:
            if scenes is not None and scene.name not in scenes:
                continue
            mount = place / scene.name.replace(" ", "-")
            why = mounted(mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs")
            if why is not None:
                return why
            try:
                filler = mount / "filler"

                def fill(filler: Path = filler, left: int = room_left) -> None:
                    with filler.open("wb", buffering=0) as file, suppress(OSError):
                        while True:
                            file.write(bytes(4096))
                    os.truncate(filler, max(0, filler.stat().st_size - left))

                def free(filler: Path = filler, mount: Path = mount) -> None:
                    filler.unlink()
                    mounted(mount, "-o", "remount,size=8m")

                found[scene.name] = Tried(mount / "in", scene).play(fill, free)
            finally:
                unmount(mount)
    return found


# -- a limit on the size of files ------------------------------------------------------------------


def file_size_limit(limit: int = 8192, scenes: list[str] | None = None) -> dict[str, str]:
    """No file may grow beyond some bytes (EFBIG), in a process of its own."""
    found = {}
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with folder() as place, small():
        for scene in STEPS:
            if scenes is not None and scene.name not in scenes:
                continue
            tried = Tried(place / scene.name.replace(" ", "-") / "in", scene)
            found[scene.name] = tried.play(
                lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard)),
                lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)),
            )
    return found


# -- media and permissions -------------------------------------------------------------------------


def read_only_mount() -> str | None:
    """A bind mount that cannot be written: reading works, writing is refused with the reason."""
    with folder() as place:
        base("two", place / "in")
        mount = place / "mount"
        why = mounted(mount, "--bind", str(place / "in"))
        if why is not None:
            return why
        try:
            why = mounted(mount, "-o", "remount,bind,ro")
            if why is not None:
                return why
            refused(mount / "s.fa")
        finally:
            unmount(mount)
    return None


def refused(path: Path) -> None:
    with strict() as warned:
        try:
            fa.open(path, create=False).close()
        except ReadOnlyStore:
            pass
        else:
            raise AssertionError("a store that cannot be written was opened for writing")
        with fa.open(path, create=False, read_only=True, clock=lambda: NOW) as mem:
            require("late" in mem, "a note is missing")
            require(len(mem.read("tea")) > 0, "no answer")
            require(mem.verify(digest=True).ok, "verify found something")
    require(not warned, f"warned: {warned}")


def another_user() -> str | None:
    """Files of another user: those that may be read are read, others are refused in plain words."""
    if os.geteuid() != 0:
        return "needs to become another user"
    with folder() as place:
        base("two", place / "in")
        os.chmod(place, 0o755)
        os.chmod(place / "in", 0o755)
        path = place / "in" / "s.fa"
        for mode in (0o755, 0o700):
            for inner in (path, *path.rglob("*")):
                os.chmod(inner, mode)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    os.setgroups([])
                    os.setgid(65534)
                    os.setuid(65534)
                    if mode == 0o755:
                        refused(path)
                    else:
                        try:
                            fa.open(path, create=False, read_only=True)
                        except StoreError:
                            pass
                        else:
                            raise AssertionError("read what it may not")
                    code = 0
                except BaseException as error:
                    print(f"another user, mode {mode:o}: {type(error).__name__}: {error}")
                    sys.stdout.flush()
                finally:
                    os._exit(code)
            status = os.waitpid(child, 0)[1]
            require(status == 0, f"another user with mode {mode:o}: see above")
    return None


__all__ = ["another_user", "file_size_limit", "read_only_mount", "small_file_system"]
