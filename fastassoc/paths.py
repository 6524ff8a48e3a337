"""Paths that callers give."""

from __future__ import annotations

import os
from pathlib import Path

from fastassoc import query as checks
from fastassoc.errors import InvalidInput, StoreError, StoreExists

__all__ = ["check_new", "folder_of"]


def folder_of(path: object) -> Path:
    """The path of a folder; refuse what is none."""
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, str) and text.strip() and "\0" not in text:
            checks.text(text, "path")
            return Path(text)
    raise InvalidInput(f"path: found {path!r}, expected the path of a folder.")


def check_new(target: Path, store: Path) -> None:
    """Refuse a folder for what is made of a store where something is, or in the store itself.

    Raises
    ------
    StoreExists, StoreError
    """
    if target.exists() or target.is_symlink():
        raise StoreExists(f"{target} exists: name a folder that does not.")
    if store.resolve() in target.resolve().parents:
        raise StoreError(f"{target} lies in the store itself: name a folder outside of it.")
