"""What is left of a snapshot, and the state that it still makes; only `repair` uses it.

What is missing is made again where it can be, and told in any case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastassoc import snapshot as disk
from fastassoc.concepts import VOCABULARY_SCHEMA
from fastassoc.control import session_links, written_links
from fastassoc.errors import CorruptStore
from fastassoc.linkruns import LINKS_SCHEMA
from fastassoc.named import parts_of
from fastassoc.notes import NOTES_SCHEMA, NOTESTATE_SCHEMA
from fastassoc.shapes import check_state
from fastassoc.snapshot import Segment
from fastassoc.sound import check_tables, check_vectors
from fastassoc.state import State
from fastassoc.store import completed, without

__all__ = ["Loss", "Pieces", "pieces_of", "state_of"]

WHAT = {  # what a segment's rows are called
    "notes": "notes",
    "vectors": "vectors",
    "vectors-next": "vectors of a move to another embedder",
    "vocabulary": "names of concepts",
    "notestate": "changes of notes",
    "links-concept": "links between concepts",
    "links-note": "links between notes",
    "links-cue": "links from terms to notes",
    "stems": "stems of taught terms",
}
SHOWN = 20  # ids in a loss


@dataclass(frozen=True)
class Loss:
    """Something that is not in the repaired store.

    Attributes
    ----------
    what : str
        ``operations``, ``notes``, ``links between notes`` and so on.
    count : int or None
        How many; None where nobody can know.
    file : str
        The file that held them.
    detail : str
        Which ones, and what stands in their place.
    """

    what: str
    count: int | None
    file: str
    detail: str

    def __str__(self) -> str:
        count = "an unknown number of" if self.count is None else f"{self.count:,}"
        return f"{count} {self.what} ({self.file}): {self.detail}"


@dataclass
class Pieces:
    """The segments of one snapshot.

    Attributes
    ----------
    manifest : dict
    name : str
        Of the manifest.
    held : dict of list of pyarrow.Table
        What could be read, by kind.
    broken : list of (Segment, str)
        What could not, and why.
    """

    manifest: dict[str, Any]
    name: str
    held: dict[str, list[pa.Table]] = field(default_factory=dict)
    broken: list[tuple[Segment, str]] = field(default_factory=list)

    @property
    def lost_rows(self) -> int:
        """Rows of the segments that could not be read."""
        return sum(segment.rows for segment, _ in self.broken)

    @property
    def usable(self) -> bool:
        """Whether it is known which notes were forgotten: those never come back by a guess."""
        return not any(segment.kind == "dead" and segment.rows for segment, _ in self.broken)


def pieces_of(root: Path, manifest: dict[str, Any], name: str) -> Pieces:
    """Read the segments of a snapshot, as far as they are sound."""
    parts_of(manifest, name)
    found = Pieces(manifest, name)
    for segment in manifest["segments"]:
        if segment.kind != "dead" and segment.kind not in WHAT:
            continue
        try:
            table = disk.read_segment(root, segment)
        except CorruptStore as error:
            found.broken.append((segment, error.reason))
        else:
            found.held.setdefault(segment.kind, []).append(table)
    return found


def state_of(pieces: Pieces, names: Iterable[pa.Table] = ()) -> tuple[State, list[Loss]]:
    """The state that the pieces make, and what it lacks.

    Parameters
    ----------
    pieces : Pieces
    names : iterable of pyarrow.Table
        Vocabularies of other snapshots: a concept's id never changes its meaning.
    """
    manifest = pieces.manifest
    whole = {"notes": NOTES_SCHEMA, "notestate": NOTESTATE_SCHEMA}
    tables = {
        kind: pa.concat_tables(held) for kind, held in pieces.held.items() if kind not in whole
    }
    for kind, schema in whole.items():
        tables[kind] = completed(pieces.held.get(kind, ()), schema)
    losses: list[Loss] = []
    summary = dict(manifest["state"])
    broken = {segment.kind for segment, _ in pieces.broken}
    dead = tables["dead"].column("seq") if "dead" in tables else pa.chunked_array([[]], pa.int64())
    for kind in ("notes", "vectors"):
        if kind in tables:
            tables[kind] = without(tables[kind], dead)
    if broken:
        losses = [_told(manifest, segment, reason) for segment, reason in pieces.broken]
        losses += _fitted(tables, pieces, list(names))
        if "vectors-next" in broken:
            summary |= {"moving": None, "moved_through": -1}  # the move begins anew
    check_state(summary, manifest["seq"])
    check_tables(tables, summary)
    for kind in ("vectors", "vectors-next"):
        if kind in tables:
            check_vectors(tables[kind], kind)
    state = State.restore(tables, summary, manifest["seq"])
    if "links-concept" in broken:
        state.links = written_links(state.view().notes, state.settings)
    if "links-note" in broken:
        state.note_links = session_links(state.view())
    return state, [loss for loss in losses if loss.count != 0]


def _told(manifest: Mapping[str, Any], segment: Segment, reason: str) -> Loss:
    """What a segment held."""
    detail = {
        "links-concept": "what notes wrote was made again from them, what was taught is gone",
        "links-note": "what sessions wrote was made again, what was taught is gone",
        "notestate": "ratings, accesses, tiers, later metadata and what replaced what are gone",
        "vectors": "their notes are found by words and concepts alone: give vectors again",
        "vectors-next": "the move to another embedder begins anew",
        "vocabulary": "see below",
    }.get(segment.kind, "gone")
    for span in manifest["state"].get(segment.kind, ()):
        if span["name"] == segment.name:
            detail = f"notes number {span['after'] + 1} to {span['through']}; {detail}"
    file = f"segments/{segment.name}"
    return Loss(WHAT.get(segment.kind, segment.kind), segment.rows, file, f"{reason}; {detail}")


def _fitted(tables: dict[str, pa.Table], pieces: Pieces, names: list[pa.Table]) -> list[Loss]:
    """Take out of the tables what leads to something that is gone."""
    seqs = tables["notes"].column("seq")
    losses: list[Loss] = []

    def only(kind: str, mask: Any, why: str) -> None:
        held = tables[kind]
        tables[kind] = held.filter(mask)
        gone = held.num_rows - tables[kind].num_rows
        losses.append(Loss(WHAT[kind], gone, pieces.name, why))

    gone = "they belong to notes that are lost"
    only("notestate", pc.is_in(tables["notestate"].column("seq"), value_set=seqs), gone)
    if "links-note" not in tables:
        by_sequence = LINKS_SCHEMA
        for place, end in enumerate(("a", "b")):
            by_sequence = by_sequence.set(place, pa.field(end, pa.int64()))
        tables["links-note"] = by_sequence.empty_table()
    ends = [pc.is_in(tables["links-note"].column(end), value_set=seqs) for end in ("a", "b")]
    only("links-note", pc.and_(*ends), gone)
    if "links-concept" not in tables:
        tables["links-concept"] = LINKS_SCHEMA.empty_table()
    if "links-cue" in tables:
        only("links-cue", pc.is_in(tables["links-cue"].column("b"), value_set=seqs), gone)
        codes = tables["links-cue"].column("a").to_numpy()
        known = np.empty(0, np.int64)
        if "stems" in tables:
            known = tables["stems"].column("id").to_numpy()
        mask = (codes % 2 == 0) | np.isin(codes // 2, known)
        only("links-cue", pa.array(mask), "the stems of their terms are lost")
    if "vectors" in tables:
        only("vectors", pc.is_in(tables["vectors"].column("seq"), value_set=seqs), gone)
    tables["notestate"] = _superseded(tables["notestate"], tables["notes"].column("id"))
    if "vocabulary" not in tables:
        losses.append(_renamed(tables, names, pieces))
    return losses


def _superseded(state: pa.Table, ids: pa.ChunkedArray) -> pa.Table:
    """Without the ids of notes that are lost among what replaces a note."""
    known = set(ids.to_pylist())
    kept = []
    for text in state.column("superseded_by").to_pylist():
        newer = [note for note in json.loads(text or "[]") if note in known]
        kept.append(json.dumps(newer) if newer else None)
    place = state.column_names.index("superseded_by")
    return state.set_column(place, "superseded_by", pa.array(kept, pa.string()))


def _renamed(tables: dict[str, pa.Table], names: list[pa.Table], pieces: Pieces) -> Loss:
    """A vocabulary for the concepts in use: names of other snapshots, numbers for the rest."""
    used = [_flat(tables["notes"].column("concepts"))]
    used += [tables["links-concept"].column(end).to_numpy() for end in ("a", "b")]
    if "links-cue" in tables:
        codes = tables["links-cue"].column("a").to_numpy()
        used.append(codes[codes % 2 == 0] // 2)
    known: dict[int, tuple[str, str]] = {}
    for table in names:
        for row in table.to_pylist():
            known.setdefault(row["id"], (row["key"], row["shown"]))
    taken = {key for key, _ in known.values()}
    rows, lost = [], []
    for concept in np.unique(np.concatenate(used)).tolist():
        if concept not in known:
            name = f"lost name {concept}"
            while name in taken:
                name += "*"
            taken.add(name)
            lost.append(name)
            known[concept] = name, name
        rows.append((concept, *known[concept]))
    columns = zip(*rows, strict=True) if rows else [()] * len(VOCABULARY_SCHEMA)
    tables["vocabulary"] = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, VOCABULARY_SCHEMA, strict=True)],
        schema=VOCABULARY_SCHEMA,
    )
    shown = ", ".join(lost[:SHOWN]) + (" ..." if len(lost) > SHOWN else "")
    detail = f"other snapshots do not name them: they are called {shown}"
    return Loss("names of concepts in use", len(lost), pieces.name, detail)


def _flat(lists: pa.ChunkedArray) -> NDArray[np.uint32]:
    parts = [np.asarray(chunk.flatten().to_numpy()) for chunk in lists.chunks]
    found: NDArray[np.uint32] = np.concatenate([np.empty(0, np.uint32), *parts])
    return found
