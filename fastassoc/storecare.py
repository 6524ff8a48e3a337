"""The care of a store: copying all its files as of one moment, and checking them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from fastassoc import files
from fastassoc import snapshot as disk
from fastassoc.errors import CorruptStore, StoreError
from fastassoc.journal import Journal, Pointer
from fastassoc.named import bulk_segments, entries_from, manifest_of, parts_of
from fastassoc.paths import check_new
from fastassoc.snapshot import Segment
from fastassoc.state import State

__all__ = ["Verification", "backup", "check_manifests", "verify"]


@dataclass(frozen=True)
class Verification:
    """What `Memory.verify` found.

    Attributes
    ----------
    problems : list of (str, str)
        File and what is wrong with it.
    files : int
        Files looked at.
    position : int
        The operation that the store reflects.
    digest : str or None
        Equal for stores that hold the same.
    """

    problems: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0
    position: int = 0
    digest: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok


def backup(journal: Journal, target: Path) -> Path:
    """Copy the store, as of one moment, into a folder that appears whole.

    What lies in ``cache`` stays behind: it is made again where it is missing.
    """
    check_new(target, journal.path)
    draft = target.with_name(f".{target.name}.{token_hex(4)}")
    try:
        with _undisturbed(journal):
            disk.create_folders(draft)
            pointer = journal.backup(draft)
            _copy_files(journal, draft, pointer)
        files.disk.rename(draft, target)
        files.sync_folder(target.parent)
    except OSError as error:
        raise StoreError(f"{target}: the backup cannot be written ({error}).") from error
    finally:
        with suppress(OSError):
            files.remove_tree(draft)
    return target


def _copy_files(journal: Journal, draft: Path, pointer: Pointer | None) -> None:
    if pointer is not None:
        for segment in manifest_of(journal, pointer)["segments"]:
            disk.copy_segment(journal.path, segment, draft)
        disk.copy_manifest(journal.path, pointer.manifest, pointer.digest, draft)
    with Journal.open(draft, sync=journal.sync) as copy:
        start = 0 if pointer is None else pointer.seq
        for segment in bulk_segments(entries_from(copy, start)):
            disk.copy_segment(journal.path, segment, draft)


def verify(
    journal: Journal, load: Callable[[], State] | None, *, digest: bool = False
) -> Verification:
    """Check every file, then `load` the store anew, if that is given.

    Files in ``cache`` are no part of what is saved, and checked whenever one is used.
    """
    with _undisturbed(journal):
        problems = list(journal.verify())
        files = 2
        pointer = journal.current()
        segments: list[Segment] = []
        try:
            if pointer is not None:
                files += 1
                manifest = manifest_of(journal, pointer)
                segments += manifest["segments"]
                parts_of(manifest, pointer.manifest)
            start = 0 if pointer is None else pointer.seq
            segments += bulk_segments(entries_from(journal, start))
            check_manifests(journal, stacklevel=5)
        except CorruptStore as error:
            problems.append((error.file, error.reason))
        for segment in segments:
            files += 1
            try:
                disk.verify_segment(journal.path, segment)
            except CorruptStore as error:
                problems.append((error.file, error.reason))
        value, position = None, journal.head()
        if load is not None and not problems:
            try:
                state = load()
                state.notes.check_metadata()
                value, position = state.digest() if digest else None, state.position
            except CorruptStore as error:
                problems.append((error.file, error.reason))
    return Verification(list(dict.fromkeys(problems)), files, position, value)


def check_manifests(journal: Journal, *, stacklevel: int) -> None:
    """Compare the newest manifest with the journal: one that is ahead of it tells of a loss."""
    newest = disk.newest_manifest(journal.path)
    head = journal.head()
    if newest is None or newest[0] <= head:
        return  # a snapshot that was cut off before it became current is no harm
    reason = f"is newer than the journal, which ends at operation {head}"
    if journal.sync == "full":
        raise CorruptStore(newest[1], f'{reason} (sync="normal" opens the store without it)')
    warnings.warn(f"{journal.path}: {newest[1]} {reason}", RuntimeWarning, stacklevel=stacklevel)


@contextmanager
def _undisturbed(journal: Journal) -> Iterator[None]:
    """Hold off snapshots, so that no file goes while it is copied or checked."""
    if not os.access(journal.path, os.W_OK):
        yield  # no one else can take one here, either
        return
    end = time.monotonic() + journal.timeout
    while True:
        with disk.try_lock(journal.path) as mine:
            if mine:
                yield
                return
        if time.monotonic() > end:
            raise StoreError("another process is taking a snapshot; try again.")
        time.sleep(0.005)
