"""Paths that callers give."""

from __future__ import annotations

import os
from pathlib import Path

from fastassoc import query as checks
from fastassoc.errors import InvalidInput

__all__ = ["folder_of"]


def folder_of(path: object) -> Path:
    """The path of a folder; refuse what is none."""
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, str) and text.strip() and "\0" not in text:
            checks.text(text, "path")
            return Path(text)
    raise InvalidInput(f"path: found {path!r}, expected the path of a folder.")
