"""The `head` file: sixteen bytes that say how far a journal must reach."""

from __future__ import annotations

import contextlib
import os
import struct
import time
import uuid
from pathlib import Path

import xxhash

from fastassoc import files

__all__ = ["HeadFile"]

SIZE = 16
WINDOW = 4096  # how many sequences a damaged file's second half is compared with
PATIENCE = 1.0  # seconds; the lock is held for microseconds unless its holder was stopped
WORD = struct.Struct("<Q")


class HeadFile:
    """The last acknowledged sequence and a hash of it, written after each commit, never back.

    SQLite ends a damaged write-ahead log at the first bad frame and says nothing; a journal that
    ends before this file shows the loss.

    It is not synced with each commit. What it guards against is damage to the log, and for that
    the page cache is enough: it survives a killed process. After a loss of power the file holds
    this or an earlier sequence, and under ``sync="full"`` every sequence it can hold had reached
    the disk in the log before it was written here, so that it never accuses a whole journal;
    what it may miss is damage to the last seconds before the power went. A second sync for each
    commit would double the price of all commits for that. It is synced when a snapshot is
    published and when the handle closes. The file keeps its size and its place from its creation
    on, so that a write never needs space and is never half on disk.

    Parameters
    ----------
    path : Path
        The file.
    key : bytes
        Identity of the store (16 bytes): another store's file does not pass for this one's.
    """

    def __init__(self, path: Path, key: bytes) -> None:
        self.path = path
        self._seed = WORD.unpack(key[:8])[0]
        self._fd = -1
        self._dirty = False
        self._mine: tuple[int, bytes | None] = (-1, None)  # written last by this handle

    def _pack(self, sequence: int) -> bytes:
        word = WORD.pack(sequence)
        return word + WORD.pack(xxhash.xxh3_64_intdigest(word, self._seed))

    def _open(self) -> int:
        if self._fd < 0:
            self._fd = files.disk.open(self.path, os.O_RDWR)
        return self._fd

    def create(self, sequence: int) -> None:
        """Make the file, whole at once; one that is there already is left alone."""
        draft = self.path.with_name(f".new-{uuid.uuid4().hex}")
        fd = files.disk.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            files.disk.pwrite(fd, self._pack(sequence), 0)
            files.disk.sync(fd)
            with contextlib.suppress(FileExistsError):
                files.disk.link(draft, self.path)
        finally:
            files.disk.close(fd)
            files.disk.unlink(draft)
        files.sync_folder(self.path.parent)

    def _raw(self) -> bytes | None:
        try:
            if self._fd >= 0:
                return files.disk.pread(self._fd, SIZE + 1, 0)
            # never wait on a pipe put there
            fd = files.disk.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            return files.disk.pread(fd, SIZE + 1, 0)
        except OSError:  # a folder in its place
            return None
        finally:
            files.disk.close(fd)

    def read(self, last: int) -> tuple[int | None, str]:
        """Read the acknowledged sequence.

        Parameters
        ----------
        last : int
            Where the journal ends, looked up after this file may have been written.

        Returns
        -------
        int or None
            The sequence; None if the file does not tell it.
        str
            What is wrong with the file; empty if nothing is.
        """
        raw = self._raw()
        if raw is not None and raw == self._mine[1]:
            return self._mine[0], ""
        for _ in range(3):  # a read may meet a write half-way
            if raw is not None and len(raw) == SIZE:
                sequence: int = WORD.unpack_from(raw)[0]
                if raw == self._pack(sequence):
                    return sequence, ""
            time.sleep(0.001)
            raw = self._raw()
        if raw is None:
            return None, "is missing or cannot be read"
        if len(raw) != SIZE:
            return None, f"has {len(raw)} bytes, expected {SIZE}"
        # Each half names the sequence by itself, so that one damaged half (or a write cut short
        # before its operation was acknowledged) is no loss.
        for sequence in range(last, max(-1, last - WINDOW), -1):
            if raw[8:] == self._pack(sequence)[8:]:
                return sequence, "has a damaged first half"
        if WORD.unpack_from(raw)[0] == last:
            return last, "has a damaged second half"
        return None, "does not match its hash"

    def advance(self, sequence: int) -> None:
        """Write a sequence, unless a higher one is there (commits may get here out of order).

        Raises
        ------
        OSError
            The file could not be written.
        """
        try:
            fd = self._open()
        except FileNotFoundError:
            self.create(sequence)
            fd = self._open()
        _lock(fd)
        try:
            raw = files.disk.pread(fd, SIZE + 1, 0)
            if raw == self._mine[1]:
                if self._mine[0] >= sequence:
                    return
            elif len(raw) == SIZE:
                old: int = WORD.unpack_from(raw)[0]
                if old >= sequence and raw == self._pack(old):
                    return
            elif len(raw) > SIZE:
                files.disk.truncate(fd, SIZE)
            packed = self._pack(sequence)
            files.disk.pwrite(fd, packed, 0)
            self._mine = (sequence, packed)
            self._dirty = True
        finally:
            files.disk.unlock(fd)

    def sync(self) -> None:
        """Bring what was written to the disk."""
        if self._dirty:
            files.disk.sync(self._fd)
            self._dirty = False

    def close(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            files.disk.close(fd)


def _lock(fd: int) -> None:
    """Lock between handles and processes: flock belongs to the descriptor, not the process."""
    deadline = 0.0
    while True:
        try:
            files.disk.lock(fd)
            return
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + PATIENCE
            if now > deadline:
                raise
            time.sleep(0.0002)
