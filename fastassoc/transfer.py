"""A whole store as plain rows and back, without loss: what ``export`` and ``import`` move.

The rows, in this order: one ``store`` (settings, embedder, width of the vectors, counts), then
every ``concept`` by age, every ``note`` in order of writing, every ``link`` between concepts, then
every one between notes, then those of the layer ``cue`` (``term`` says whether ``a`` is a
``concept`` or a ``stem``, ``b`` is a note), and one ``end`` whose counts say that nothing is
missing. Times are microseconds since 1970, UTC. Concepts are named by their key (the folded name),
notes by their id.

A note's ``vector`` is base64 of its little-endian float32 numbers. Its ``state``, where reinforced
reads or time changed it, holds ``stability``, ``last_access``, ``accesses``, ``sessions`` (the
first two), ``category`` ("core" where it was promoted) and ``tier`` ("cold"). A move to another
embedder that is under way is not exported: the rows have the vectors that reads see, and the move
begins anew in the copy.

Format 1 had neither vectors, states nor links between notes, format 2 no links of the layer
``cue``; both can still be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.cues import NOTE
from fastassoc.errors import EmbedderMismatch, InvalidInput
from fastassoc.exported import (
    COUNTED,
    FORMAT,
    PART_ROWS,
    TEXT_FIELDS,
    Exported,
    read_export,
    vector_text,
)
from fastassoc.notes import metadata_of
from fastassoc.points import PointsView
from fastassoc.state import State

__all__ = [
    "FORMAT",
    "Exported",
    "export_lines",
    "next_part",
    "read_export",
]

ROWS = 1_000  # notes whose vectors are taken at once

# -- out ----------------------------------------------------------------------------------------


def export_lines(state: State) -> Iterator[dict[str, Any]]:
    """The state as JSON-able rows; it is captured at once, so it may change while rows are taken.

    Parameters
    ----------
    state : State
        Read under the owner's lock; the iterator needs no lock.

    Returns
    -------
    iterator of dict
        Rows with ``kind``: ``store``, ``concept``, ``note``, ``link`` or ``end``.
    """
    held = np.flatnonzero(state.held_concepts()).tolist()
    names = {concept: (state.vocabulary.key(concept), state.vocabulary.name(concept))
             for concept in held}  # fmt: skip
    table, space = state.notes, state.space
    notes, cues = table.to_arrow(), state.cues
    links, note_links = state.links.to_arrow(), state.note_links.to_arrow()
    cue_links = cues.links.to_arrow()
    header = {
        "kind": "store",
        "format": FORMAT,
        "settings": state.settings.to_dict(),
        "embedder": space.embedder,
        "dim": space.points.dim,
        "time": state.time,
        "position": state.position,
        "digest": state.digest(),
        "concepts": len(held),
        "notes": notes.num_rows,
        "links": links.num_rows,
        "note_links": note_links.num_rows,
        "cue_links": cue_links.num_rows,
    }
    changes = Changes.of(state)
    key = {concept: one for concept, (one, _) in names.items()}
    ids = list(table.ids) if note_links.num_rows or cue_links.num_rows else []
    stems = [cues.stems.name(number) for number in range(cues.stems.n_ids)]
    told = [
        Told(links, {"layer": "concept"}, key, key),
        Told(note_links, {"layer": "note"}, ids, ids),
        Told(halved(cue_links, 0), {"layer": "cue", "term": "concept"}, key, ids),
        Told(halved(cue_links, 1), {"layer": "cue", "term": "stem"}, stems, ids),
    ]
    return _rows(header, names, notes, changes, told)


class Told(NamedTuple):
    """Links of one kind: what their rows begin with, and names of both ends by number."""

    links: pa.Table
    row: dict[str, str]
    first: Mapping[int, str] | Sequence[str]
    second: Mapping[int, str] | Sequence[str]


def halved(links: pa.Table, odd: int) -> pa.Table:
    """Cue links of concepts (0) or of stems (1), by id and row."""
    codes, notes = (links.column(name).to_numpy() for name in ("a", "b"))
    kept = np.flatnonzero(codes % 2 == odd)
    for place, (name, numbers) in enumerate((("a", codes // 2), ("b", notes - NOTE))):
        links = links.set_column(place, name, pa.array(numbers))
    return links.take(pa.array(kept))


@dataclass(frozen=True)
class Changes:
    """What there is of a note beside the table of notes; all by row or id, none of it changes."""

    valence: dict[str, float]
    metadata: dict[str, str]
    older: dict[str, list[str]]
    states: dict[str, dict[str, Any]]
    points: PointsView
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, state: State) -> Changes:
        """Those of a state as it is now."""
        table = state.notes
        changed = table.states.changed()
        changed = changed[table.alive.array[changed] == 1]
        columns = table.states.to_columns(changed)
        values = zip(*(column.to_pylist() for column in columns.values()), strict=True)
        return cls(
            valence={table.ids[row]: value for row, value in table.valence.items()},
            metadata={table.ids[row]: text for row, text in table.metadata_updates.items()},
            older={
                table.ids[row]: table.named(table.chains.older(row))
                for row in table.chains.replacing()
            },
            states={
                note: _state(dict(zip(columns, found, strict=True)))
                for note, found in zip(table.named(changed.tolist()), values, strict=True)
            },
            points=state.space.points.view(),
            rows=np.flatnonzero(table.alive.array),
        )


def _state(columns: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in columns.items() if value is not None}
    if "sessions" in found:
        found["sessions"] = json.loads(found["sessions"])
    return found


def _rows(
    header: dict[str, Any],
    names: dict[int, tuple[str, str]],
    notes: pa.Table,
    changes: Changes,
    told: list[Told],
) -> Iterator[dict[str, Any]]:
    yield header
    for key, shown in names.values():
        yield {"kind": "concept", "key": key, "name": shown}
    first = 0
    for batch in notes.to_batches(max_chunksize=ROWS):
        vectors, found = changes.points.take(changes.rows[first : first + len(batch)])
        first += len(batch)
        for place, note in enumerate(batch.to_pylist()):
            row = _note_row(note, names, changes)
            if found[place]:
                row["vector"] = vector_text(vectors[place])
            yield row
    for part in told:
        for batch in part.links.to_batches(max_chunksize=PART_ROWS):
            for link in batch.to_pylist():
                ends = {"a": part.first[link["a"]], "b": part.second[link["b"]]}
                yield {"kind": "link", **part.row, **link, **ends}
    yield {"kind": "end", **{name: header[name] for name in COUNTED}}


def _note_row(
    note: dict[str, Any], names: dict[int, tuple[str, str]], changes: Changes
) -> dict[str, Any]:
    name = note["id"]
    row: dict[str, Any] = {"kind": "note", "id": name, "text": note["text"]}
    row["concepts"] = [names[concept][0] for concept in note["concepts"]]
    if note["subjects"]:
        row["subjects"] = [names[concept][0] for concept in note["subjects"]]
    if note["extracted"]:
        row["extracted"] = True
    for field in ("domain", "created_at", "written_at", *TEXT_FIELDS, "importance"):
        if note[field] is not None:
            row[field] = note[field]
    metadata = changes.metadata.get(name) or note["metadata"]
    if metadata is not None:
        row["metadata"] = metadata_of(name, metadata)
    if changes.valence.get(name):
        row["valence"] = changes.valence[name]
    if name in changes.older:
        row["supersedes"] = changes.older[name]
    if name in changes.states:
        row["state"] = changes.states[name]
    return row


# -- in -----------------------------------------------------------------------------------------


def next_part(state: State, whole: Exported) -> tuple[dict[str, Any], bytes | None] | None:
    """Body and vectors of the operation that is to be applied next.

    It carries a ledger under ``ingest``, by which an interrupted import is continued. None where
    the state holds the whole export.

    Raises
    ------
    InvalidInput
        The state holds something else, or was changed since the import was cut off.
    EmbedderMismatch
        Its vectors are another embedder's.
    SettingsMismatch
        It was made with other settings.
    """
    ledger = state.ingests.get(whole.key)
    if ledger is not None:
        place = int(ledger["part"]) + 1
        if ledger.get("position") != state.position:
            raise InvalidInput(
                "the store was changed after an import into it had been cut off, so it cannot go "
                "on: import into a new store."
            )
    else:
        place = -1
        notes, links = state.notes.n_alive, len(state.links) + len(state.cues.links)
        if notes or links:
            if _same_space(state, whole) and read_export(export_lines(state)).parts == whole.parts:
                return None
            raise InvalidInput(
                f"found a store with {notes} notes and {links} links, expected an empty one: an "
                "import restores a whole memory and adds to none. Import into a new store, or add "
                "its notes with ingest, which writes links anew and leaves out what was taught."
            )
        state.settings.require_same_state(whole.settings)
        if not whole.parts and _same_space(state, whole):
            return None
    # the first operation has no rows: it says what holds for all of them
    if place < 0:
        _check_space(state, whole)
        held = state.settings.to_dict()
        changed = {k: v for k, v in whole.settings.to_dict().items() if held[k] != v}
        space = {"embedder": whole.embedder, "dim": whole.dim, "time": whole.time}
        body: dict[str, Any] = {"store": {"settings": changed, **space}}
        vectors = b""
    else:
        body, vectors = whole.parts[place].body(), whole.parts[place].vectors
    final = place == len(whole.parts) - 1
    body["ingest"] = {"key": whole.key, "part": place, "final": final}
    return body, vectors or None


def _same_space(state: State, whole: Exported) -> bool:
    """Whether the state's vectors are of the embedder and width that the export's are of."""
    space = state.space
    return whole.embedder in (None, space.embedder) and whole.dim in (None, space.points.dim)


def _check_space(state: State, whole: Exported) -> None:
    own = state.space.embedder
    if own is not None and whole.embedder not in (None, own):
        made = whole.embedder or {}
        raise EmbedderMismatch(
            f"the export's vectors come from the embedder {made['name']!r} (width "
            f"{made['dim']}), those of this store from {own['name']!r} (width {own['dim']}): "
            "import into a store opened without an embedder, then move it with mem.reembed."
        )
    width = whole.dim or (None if whole.embedder is None else whole.embedder["dim"])
    if width is not None and state.space.dim not in (None, width):
        raise InvalidInput(
            f"the export's vectors have {width} numbers, those of this store {state.space.dim}: "
            "import into a new store."
        )
