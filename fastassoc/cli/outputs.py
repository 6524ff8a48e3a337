"""Where output goes is looked at before the work, not after it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from fastassoc.errors import InvalidInput

__all__ = ["check_files", "check_trees"]


def check_files(*files: str | None) -> None:
    """Refuse files that could not be written; None and ``-`` name none.

    Examples
    --------
    >>> check_files("-", None)
    >>> check_files("nowhere/report.html")
    Traceback (most recent call last):
    fastassoc.errors.InvalidInput: nowhere/report.html: its folder is not there.
    """
    paths = [Path(name) for name in files if name not in {None, "-"}]
    for path in paths:
        if path.is_dir():
            raise InvalidInput(f"{path}: found a folder, expected a file to write.")
        if not path.absolute().parent.is_dir():
            raise InvalidInput(f"{path}: its folder is not there.")
        if path.exists() and not os.access(path, os.W_OK):
            raise InvalidInput(f"{path}: it may not be written.")
        if not os.path.lexists(path):
            _try(path, path.absolute().parent)
    for path in paths:
        if sum(os.path.realpath(path) == os.path.realpath(other) for other in paths) > 1:
            raise InvalidInput(f"{path}: named twice, and one output would overwrite the other.")


def check_trees(*folders: str | Path | None) -> None:
    """Refuse folders that could not be made, nor filled where they are there."""
    for folder in folders:
        if folder is None:
            continue
        path = Path(folder)
        found = next(one for one in (path, *path.absolute().parents) if os.path.lexists(one))
        if not found.is_dir():
            place = "it" if found == path else str(found)
            raise InvalidInput(f"{path}: {place} is a file, expected a folder.")
        _try(path, found)


def _try(path: Path, folder: Path) -> None:
    """Make something in a folder, and remove it: rights alone do not tell whether that works."""
    try:
        with tempfile.TemporaryDirectory(prefix=".fastassoc-", dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(f"{path}: nothing can be made in {folder} ({error.strerror}).") from None
