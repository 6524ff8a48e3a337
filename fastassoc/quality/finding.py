"""Which sets lie in a folder: each is known by its layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastassoc.errors import InvalidInput
from fastassoc.quality.beir import load_beir
from fastassoc.quality.dialogues import load_dialogues
from fastassoc.quality.multihop import load_multihop
from fastassoc.quality.sets import AskedSet, Norms, TagSet
from fastassoc.quality.words import load_norms, load_tags

__all__ = ["LAYOUTS", "Found", "find"]

SNIFFED = 1 << 17  # bytes of a file that tell its kind
LAYOUTS = {
    "multihop": "question with paragraphs, or with context and supporting_facts (JSON, JSON lines)",
    "dialogues": "a list of conversation with qa (JSON), as LoCoMo",
    "norms": "cue, response and counts (JSON), as the USF norms",
    "tags": "id, text and concepts (JSON lines), as Debian's packages",
    "beir": "a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv",
}


@dataclass(frozen=True)
class Found:
    """A set in a folder: its name, its kind, and the file (of BEIR the folder) that holds it."""

    name: str
    kind: str
    path: Path

    def load(self, *, subjects: bool = True) -> AskedSet | Norms | TagSet:
        """Read it; InvalidInput says where it is not of its layout."""
        if self.kind == "multihop":
            return load_multihop(self.name, self.path, subjects=subjects)
        if self.kind == "beir":
            return load_beir(self.name, self.path, subjects=subjects)
        if self.kind == "dialogues":
            return load_dialogues(self.name, self.path)
        return (load_norms if self.kind == "norms" else load_tags)(self.name, self.path)


def find(folder: Path) -> tuple[list[Found], list[str]]:
    """Look into a folder and the folders in it, or at one file.

    Returns
    -------
    list of Found
        In order of the kinds in `LAYOUTS`, then by name.
    list of str
        A sentence for each kind that is not there, for each file of passages that has no
        questions, and for each file that is empty.

    Raises
    ------
    InvalidInput
        There is no such folder, or a file is of no layout that is known.
    """
    if folder.is_file():
        return [_one(folder)], []
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: found no folder of this name, expected one that holds sets.")
    inside = sorted(one for one in folder.iterdir() if one.is_dir() and one.name[0] != ".")
    found: list[Found] = []
    said: list[str] = []
    for place in (folder, *inside):
        for one in _sets(place):
            if one.kind == "empty":
                said.append(f"{one.path}: empty, skipped.")
            elif one.kind == "passages":
                said.append(f"{one.name}: passages without questions ({one.path.name}), skipped.")
            else:
                found.append(one)
    order = list(LAYOUTS)
    found.sort(key=lambda one: (order.index(one.kind), one.name))
    kinds = {one.kind for one in found}
    said += [
        f"no set of the kind {kind!r} in {folder}, skipped: {layout}."
        for kind, layout in LAYOUTS.items()
        if kind not in kinds
    ]
    return found, said


def _sets(place: Path) -> Iterator[Found]:
    if (place / "corpus.jsonl").is_file() and (place / "queries.jsonl").is_file():
        yield Found(place.name, "beir", place)
        return
    files = sorted(path for path in place.iterdir() if path.suffix in {".json", ".jsonl"})
    kinds = [(path, kind) for path in files if path.is_file() and (kind := _kind(path))]
    for path, kind in kinds:
        alone = sum(other == kind for _, other in kinds) == 1
        yield Found(place.name if alone and len(kinds) == 1 else path.stem, kind, path)


def _one(path: Path) -> Found:
    """The set that a file is."""
    kind = _kind(path)
    if kind == "empty":
        raise InvalidInput(f"{path}: it is empty, expected a set of notes and questions.")
    if kind == "passages":
        raise InvalidInput(f"{path}: found passages without questions, expected a set of both.")
    if kind is None:
        known = "; ".join(layout for name, layout in LAYOUTS.items() if name != "beir")
        raise InvalidInput(f"{path}: found no layout that is known, expected {known}.")
    return Found(path.stem, kind, path)


def _kind(path: Path) -> str | None:
    """The kind of a JSON file, told by the keys near its beginning, or that it is empty."""
    with path.open("rb") as file:
        start = file.read(SNIFFED).decode("utf-8", "replace")
    if re.fullmatch(r"\s*(\[\s*\]|\{\s*\})?\s*", start):
        return "empty"
    keys = set(re.findall(r'"(\w+)"\s*:', start))
    if start.lstrip()[:1] == "{" and path.suffix == ".json":
        return "norms" if "_count" in keys else None
    if {"paragraphs", "paragraph_text"} <= keys or {"context", "supporting_facts"} <= keys:
        return "multihop"
    if {"question", "evidence"} <= keys and path.suffix == ".json":
        return "dialogues"
    if {"id", "text", "concepts"} <= keys:
        return "tags"
    return "passages" if {"title", "text"} <= keys else None
