"""Files written whole or not at all, and what the system says of them in plain words.

Every touch of the disk goes through the one `disk` object.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import xxhash

from fastassoc.errors import CorruptStore, ReadOnlyStore, StoreError

__all__ = ["CHUNK", "Disk", "Sink", "damage", "digest", "disk", "fail", "publish", "same"]
__all__ += ["make_folder", "remove_tree", "sync_folder"]

CHUNK = 4 << 20


class Disk:
    """Every call that touches the disk, so that one object can be swapped to inject faults."""

    def open(self, path: Path, flags: int) -> int:
        """Open without following a symbolic link; a new file gets mode 0600."""
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int = 0) -> None:
        """Cut a file to a size and go to that place."""
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def size(self, fd: int) -> int:
        """Bytes of a regular file; anything else raises OSError(EINVAL)."""
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return info.st_size

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new, follow_symlinks=False)

    def touch(self, path: Path) -> None:
        os.utime(path, follow_symlinks=False)

    def mkdir(self, path: Path, mode: int = 0o700) -> None:
        os.mkdir(path, mode)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def chmod(self, path: Path, mode: int) -> None:
        os.chmod(path, mode)

    def status(self, path: Path) -> os.stat_result:
        """Of the entry itself, not of what a symbolic link points to."""
        return os.lstat(path)

    def lock(self, fd: int) -> None:
        """Take a lock of the whole file, or raise BlockingIOError at once."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def names(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))


disk = Disk()


# -- plain words for what the system says ---------------------------------------------------------


def fail(error: OSError, doing: str, file: str) -> NoReturn:
    """Turn an error of the system into one of ours."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        full = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
        raise StoreError(
            f"{full}: {doing} {file} did not fit, and nothing was changed. "
            "Free some space and try again."
        ) from error
    if error.errno == errno.EROFS:
        raise ReadOnlyStore(
            f"{doing} {file}: the medium cannot be written, and nothing was changed. "
            "Open the store with read_only=True, or copy it to a disk that can be written."
        ) from error
    if error.errno in (errno.EACCES, errno.EPERM):
        raise StoreError(
            f"{doing} {file}: this user may not ({error.strerror}), and nothing was changed. "
            "Run as the owner of the store, or mend its permissions."
        ) from error
    raise StoreError(
        f"{doing} {file} failed ({error.strerror or error}), and nothing was changed. "
        "Check the disk and try again."
    ) from error


def damage(error: OSError, file: str) -> NoReturn:
    """Turn an error of reading a file that the store needs into one of ours."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        raise CorruptStore(file, "the file is missing") from error
    if error.errno == errno.ELOOP:
        raise CorruptStore(file, "a symbolic link stands where a file must be") from error
    if error.errno in (errno.EINVAL, errno.EISDIR, errno.ENXIO):
        raise CorruptStore(file, "found something that is not a regular file") from error
    if error.errno == errno.EIO:
        raise CorruptStore(file, "the disk cannot read it (I/O error)") from error
    fail(error, "reading", file)


# -- files ---------------------------------------------------------------------------------------


def sync_folder(path: Path) -> None:
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.sync(fd)
    finally:
        disk.close(fd)


def make_folder(path: Path) -> None:
    """Make a folder, mode 0700, and those above it that are missing; what is there stays.

    Each name is synced, also that of a folder that is there: who made it may have been cut off.
    """
    above = [folder for folder in path.parents if not folder.exists()]
    for folder in (*reversed(above), path):
        with suppress(FileExistsError):
            disk.mkdir(folder, 0o700 if folder == path else 0o777)
        with suppress(PermissionError):  # a folder that may not be listed cannot be synced
            sync_folder(folder.parent)
    if not path.is_dir():
        raise FileExistsError(errno.EEXIST, "is a file", str(path))


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it; symbolic links in it go, not what they name."""
    if not stat.S_ISDIR(disk.status(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "is no folder", str(path))
    for name in disk.names(path):
        inner = path / name
        with suppress(FileNotFoundError):  # another was faster
            if stat.S_ISDIR(disk.status(inner).st_mode):
                remove_tree(inner)
            else:
                disk.unlink(inner)
    disk.rmdir(path)


class Sink:
    """A file to write that hashes what passes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.error: OSError | None = None
        self.restart()

    def restart(self) -> None:
        """Begin again with an empty file."""
        disk.truncate(self.fd)
        self.closed = False
        self.bytes = 0
        self.hash = xxhash.xxh3_128()

    def write(self, data: Any) -> int:
        if self.error is not None:
            raise self.error  # a writer that goes on after a failure must not seem to succeed
        view = memoryview(data).cast("B")
        rest = view
        try:
            while rest:
                rest = rest[disk.write(self.fd, rest) :]
        except OSError as error:
            self.error = error
            raise
        self.hash.update(view)
        self.bytes += len(view)
        return len(view)

    def finish(self) -> None:
        """Refuse whatever a forgotten writer still sends: the descriptor may be another's."""
        self.error = self.error or OSError(errno.EBADF, "the file is finished")

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True


def same(path: Path, size: int, expected: str) -> bool:
    """Tell whether a file stands there already with these very bytes."""
    with suppress(OSError, CorruptStore):
        fd = disk.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return disk.size(fd) == size and digest(fd)[0] == expected
        finally:
            disk.close(fd)
    return False


def publish(
    folder: Path, fill: Callable[[Sink], object], name: Callable[[Sink], str]
) -> tuple[str, Sink]:
    """Write under a temporary name, sync, rename, sync the folder.

    Before the rename a failure removes the temporary file; after it nothing is removed, for then
    the outcome is not known.
    """
    temporary = folder / f"tmp-{secrets.token_hex(16)}"
    fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            sink = Sink(fd)
            try:
                fill(sink)
            except Exception as error:  # what the system said counts, not what became of it
                if sink.error is None or sink.error is error:
                    raise
                raise sink.error from error
            finally:
                failed = sink.error
                sink.finish()
            if failed is not None:
                raise failed
            disk.sync(fd)
        finally:
            disk.close(fd)
        final = folder / name(sink)
        if same(final, sink.bytes, sink.hash.hexdigest()):
            disk.touch(final)  # young again: a sweep must not take it before it is named
            disk.unlink(temporary)
        else:
            disk.rename(temporary, final)
    except BaseException:
        with suppress(OSError):
            disk.unlink(temporary)
        raise
    sync_folder(folder)
    return final.name, sink


def digest(fd: int, keep: bool = False) -> tuple[str, bytes]:
    """Hash a file from its start; with `keep`, return its bytes too."""
    state = xxhash.xxh3_128()
    parts: list[bytes] = []
    while part := disk.read(fd, CHUNK):
        state.update(part)
        if keep:
            parts.append(part)
    return state.hexdigest(), b"".join(parts)
