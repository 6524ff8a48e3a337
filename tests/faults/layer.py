"""Every call that a store makes to the disk, through one place that may watch it or break it.

`Wire` stands below both ways to the disk: `Disk` takes the place of ``fastassoc.files.disk``
(segments, manifests, head, folders), `System` is a SQLite file system that all new connections
use (journal and its side files). Each call becomes a `Call`, and the wire's `perform` decides what
becomes of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from fastassoc import files

Do = Callable[[], Any]
JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
NAME = "broken"  # of the SQLite file system
BASE = "unix"  # what it stands on


@dataclass
class Call:
    """One call to the disk; `kind` is what it does, `path` what to, below the watched folder."""

    kind: str
    path: str
    to: str = ""
    offset: int = 0
    data: bytes = b""
    size: int = 0
    node: Any = None
    way: str = "disk"  # or sqlite

    def __str__(self) -> str:
        more = f" -> {self.to}" if self.to else ""
        size = f" {len(self.data)} bytes at {self.offset}" if self.kind == "write" else ""
        return f"{self.way} {self.kind} {self.path}{more}{size}"


class Wire:
    """Passes every call on; the base of what watches and what breaks.

    Parameters
    ----------
    root : Path
        Calls outside of it are none of ours.
    """

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)

    def perform(self, call: Call, do: Do, half: Do | None = None) -> Any:
        """Do it; `half` does the first half of it, where there is such a thing."""
        return do()

    def node(self, path: str) -> Any:
        """What stands for the file of this name as long as it is open."""
        return None

    def place(self, path: str | Path) -> str | None:
        """A path below the root; None for others."""
        whole = os.path.abspath(path)
        if whole == self.root:
            return ""
        return whole[len(self.root) + 1 :] if whole.startswith(self.root + "/") else None


class Disk(files.Disk):
    """The file layer, on a wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.opened: dict[int, tuple[str, Any]] = {}

    def _two(self, kind: str, path: Path, do: Do, **more: Any) -> Any:
        place = self.wire.place(path)
        if place is None:
            return do()
        return self.wire.perform(Call(kind, place, **more), do)

    def _fd(self, kind: str, fd: int, do: Do, half: Do | None = None, **more: Any) -> Any:
        if fd not in self.opened:
            return do()
        path, node = self.opened[fd]
        return self.wire.perform(Call(kind, path, node=node, **more), do, half)

    def open(self, path: Path, flags: int) -> int:
        there = super()
        place = self.wire.place(path)
        if place is None:
            return there.open(path, flags)
        kind = "create" if flags & os.O_CREAT and not os.path.lexists(path) else "open"
        fd: int = self.wire.perform(Call(kind, place), lambda: there.open(path, flags))
        self.opened[fd] = (place, self.wire.node(place))
        return fd

    def close(self, fd: int) -> None:
        self.opened.pop(fd, None)
        super().close(fd)

    def read(self, fd: int, size: int) -> bytes:
        there = super()
        found: bytes = self._fd("read", fd, lambda: there.read(fd, size))
        return found

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        there = super()
        found: bytes = self._fd("read", fd, lambda: there.pread(fd, size, offset))
        return found

    def write(self, fd: int, data: memoryview) -> int:
        there, size = super(), (len(data) + 1) // 2
        place = os.lseek(fd, 0, os.SEEK_CUR) if fd in self.opened else 0
        written: int = self._fd(
            "write",
            fd,
            lambda: there.write(fd, data),
            lambda: there.write(fd, data[:size]),
            data=bytes(data),
            offset=place,
        )
        return written

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        there, size = super(), (len(data) + 1) // 2
        written: int = self._fd(
            "write",
            fd,
            lambda: there.pwrite(fd, data, offset),
            lambda: there.pwrite(fd, data[:size], offset),
            data=data,
            offset=offset,
        )
        return written

    def truncate(self, fd: int, size: int = 0) -> None:
        there = super()
        self._fd("truncate", fd, lambda: there.truncate(fd, size), size=size)

    def sync(self, fd: int) -> None:
        there = super()
        folder = fd in self.opened and os.path.isdir(f"/proc/self/fd/{fd}")
        self._fd("syncdir" if folder else "sync", fd, lambda: there.sync(fd))

    def rename(self, old: Path, new: Path) -> None:
        there = super()
        to = self.wire.place(new) or ""
        self._two("rename", old, lambda: there.rename(old, new), to=to)

    def unlink(self, path: Path) -> None:
        there = super()
        self._two("unlink", path, lambda: there.unlink(path))

    def link(self, old: Path, new: Path) -> None:
        there = super()
        to = self.wire.place(new) or ""
        self._two("link", old, lambda: there.link(old, new), to=to)

    def mkdir(self, path: Path, mode: int = 0o700) -> None:
        there = super()
        if not os.path.lexists(path):  # else it fails, and changes nothing
            self._two("mkdir", path, lambda: there.mkdir(path, mode))
        else:
            there.mkdir(path, mode)

    def rmdir(self, path: Path) -> None:
        there = super()
        self._two("rmdir", path, lambda: there.rmdir(path))

    def chmod(self, path: Path, mode: int) -> None:
        there = super()
        self._two("chmod", path, lambda: there.chmod(path, mode))

    def touch(self, path: Path) -> None:
        there = super()
        self._two("touch", path, lambda: there.touch(path))

    def lock(self, fd: int) -> None:
        there = super()
        self._fd("lock", fd, lambda: there.lock(fd))

    def names(self, path: Path) -> list[str]:
        there = super()
        found: list[str] = self._two("list", path, lambda: there.names(path))
        return found

    def status(self, path: Path) -> os.stat_result:
        there = super()
        found: os.stat_result = self._two("look", path, lambda: there.status(path))
        return found


class System(apsw.VFS):
    """The file system below SQLite, on a wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        super().__init__(NAME, BASE, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = None if name is None else str(getattr(name, "filename", lambda: name)())
        place = None if path is None else self.wire.place(path)
        if path is None or place is None:
            return apsw.VFSFile(BASE, name, flags)
        made = not os.path.lexists(path)
        kind = "create" if made and flags[0] & apsw.SQLITE_OPEN_CREATE else "open"
        fresh = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & JOURNALS)
        file = Opened(self.wire, place, fresh)
        with _told("open"):
            self.wire.perform(Call(kind, place, way="sqlite"), lambda: file.begin(name, flags))
        file.node = self.wire.node(place)
        return file

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802
        there, place = super(), self.wire.place(name)
        if place is None or not os.path.lexists(name):
            return there.xDelete(name, syncdir)
        with _told("unlink"):
            call = Call("unlink", place, way="sqlite")
            self.wire.perform(call, lambda: there.xDelete(name, syncdir))
            if syncdir:
                folder = os.path.dirname(place)
                self.wire.perform(Call("syncdir", folder, way="sqlite"), lambda: None)
        return None


class Opened(apsw.VFSFile):
    """A file of SQLite's."""

    def __init__(self, wire: Wire, place: str, fresh: bool) -> None:
        self.wire, self.place, self.fresh, self.node = wire, place, fresh, None

    def begin(self, name: Any, flags: list[int]) -> None:
        super().__init__(BASE, name, flags)

    def _call(self, kind: str, do: Do, half: Do | None = None, **more: Any) -> Any:
        with _told(kind):
            call = Call(kind, self.place, node=self.node, way="sqlite", **more)
            return self.wire.perform(call, do, half)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        there = super()
        found: bytes = self._call("read", lambda: there.xRead(amount, offset))
        return found

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        there, size = super(), (len(data) + 1) // 2
        self._call(
            "write",
            lambda: there.xWrite(data, offset),
            lambda: there.xWrite(data[:size], offset),
            data=bytes(data),
            offset=offset,
        )

    def xTruncate(self, size: int) -> None:  # noqa: N802
        there = super()
        self._call("truncate", lambda: there.xTruncate(size), size=size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        there = super()
        self._call("sync", lambda: there.xSync(flags))
        if self.fresh:  # the first sync of a journal by each who may have made it
            self.fresh = False
            call = Call("syncdir", os.path.dirname(self.place), way="sqlite")
            with _told("sync"):
                self.wire.perform(call, lambda: None)

    def xLock(self, level: int) -> None:  # noqa: N802
        if level == apsw.SQLITE_LOCK_EXCLUSIVE:  # of a close, which tells nobody of an error
            super().xLock(level)
        else:
            there = super()
            self._call("lock", lambda: there.xLock(level))


RESULTS = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "unlink": apsw.SQLITE_IOERR_DELETE,
    "lock": apsw.SQLITE_IOERR_LOCK,
}


@contextmanager
def _told(kind: str) -> Iterator[None]:
    """Tell SQLite of an error as its own file system would."""
    try:
        yield
    except OSError as error:
        if kind == "open":
            raise apsw.CantOpenError(str(error)) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and kind in ("write", "truncate"):
            raise apsw.FullError(str(error)) from error
        raised = apsw.IOError(str(error))
        raised.extendedresult = RESULTS.get(kind, apsw.SQLITE_IOERR)
        raise raised from error


@contextmanager
def on(wire: Wire) -> Iterator[None]:
    """Put every new descriptor and connection of this process on a wire."""
    before, files.disk = files.disk, Disk(wire)
    system = System(wire)
    try:
        yield
    finally:
        files.disk = before
        system.unregister()
