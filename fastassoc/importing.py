"""What a part of an import does to the tables: everything takes the values that were exported."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.batch import NoteBatch
from fastassoc.concepts import Vocabulary
from fastassoc.cues import NOTE, Stems, concept_codes, stem_codes
from fastassoc.links import LinkMatrix
from fastassoc.notes import NoteTable
from fastassoc.retention import STATE_COLUMNS
from fastassoc.settings import LinkRule

__all__ = ["concept_ends", "cue_ends", "import_notes", "note_ends", "with_links"]


def import_notes(
    table: NoteTable,
    vocabulary: Vocabulary,
    rows: list[dict[str, Any]],
    vectors: bytes | None,
    at: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Append exported notes; they write no links.

    Returns the places of those with a vector, int64 [m], and the vectors, float32 [m, dim].
    """
    batch = NoteBatch.from_rows(rows, vectors)
    ids = vocabulary.intern(batch.keys, batch.keys)  # all there: concepts came first
    concepts = ids[batch.concepts] if len(batch.concepts) else batch.concepts
    places = table.append(batch, concepts, at)
    table.written_at.array[places[0] : places[-1] + 1] = [row["written_at"] for row in rows]
    table.join_sessions(places, batch.columns.get("session"))
    _restore_states(table, places, rows)
    for place, row in zip(places.tolist(), rows, strict=True):
        if row.get("valence"):
            table.valence[place] = row["valence"]
        if row.get("supersedes"):
            table.supersede(place, row["supersedes"])
    matrix, with_vector = batch.vector_matrix()
    return places[with_vector], matrix


def _restore_states(
    table: NoteTable, places: NDArray[np.int64], rows: list[dict[str, Any]]
) -> None:
    """What time and reinforced reads had made of the notes, as if they had been here all along."""
    new = table.states.view().notes.take(places)["stability"].tolist()
    told = [
        {"stability": stability, "last_access": row["written_at"], "accesses": 0}
        | row.get("state", {})
        for stability, row in zip(new, rows, strict=True)
    ]
    for state in told:
        if "sessions" in state:
            state["sessions"] = json.dumps(state["sessions"])
    table.states.restore(
        places,
        {
            name: pa.array([state.get(name) for state in told], dtype)
            for name, dtype in STATE_COLUMNS.items()
        },
    )


def concept_ends(vocabulary: Vocabulary, rows: list[list[Any]]) -> NDArray[np.uint32]:
    """The ids that exported links join, uint32 [2, m]; they begin with the keys of two concepts."""
    a, b, *_ = zip(*rows, strict=True)
    return np.array([vocabulary.intern(keys, keys) for keys in (list(a), list(b))], np.uint32)


def note_ends(table: NoteTable, rows: list[list[Any]]) -> NDArray[np.uint32]:
    """The rows that exported links join, uint32 [2, m]; they begin with the ids of two notes."""
    return np.array([[table.rows[row[end]] for row in rows] for end in (0, 1)], np.uint32)


def cue_ends(
    vocabulary: Vocabulary, stems: Stems, table: NoteTable, rows: list[list[Any]]
) -> NDArray[np.uint32]:
    """The codes that exported cue links join, uint32 [2, m].

    Rows begin with the kind of a term, the term and the id of a note; a stem that is new is made.
    """
    codes = []
    for kind, term, note, *_ in rows:
        if kind == "stem":
            code = stem_codes(stems.intern([term]))
        else:
            code = concept_codes(vocabulary.intern([term], [term]))
        codes.append((int(code[0]), table.rows[note] | NOTE))
    return np.array(codes, np.uint32).T


def with_links(
    links: LinkMatrix,
    ends: NDArray[np.uint32],
    rows: list[list[Any]],
    rule: LinkRule,
    valence_rate: float,
) -> LinkMatrix:
    """The links and exported ones, which are not among them; `ends` are what these join."""
    _, _, weight, written, valence, count, created, updated = zip(*rows, strict=True)
    held = links.to_arrow()
    values = {
        "a": ends.min(axis=0),
        "b": ends.max(axis=0),
        "weight": weight,
        "written": written,
        "count": count,
        "valence": valence,
        "created_at": created,
        "updated_at": updated,
    }
    added = pa.table({f.name: pa.array(values[f.name], f.type) for f in held.schema})
    whole = pa.concat_tables([held, added.cast(held.schema)])
    keys = whole.column("a").to_numpy().astype(np.uint64) << np.uint64(32)
    keys |= whole.column("b").to_numpy()
    if np.any(keys[1:] <= keys[:-1]):  # an export has them in order
        whole = whole.take(pa.array(np.argsort(keys, kind="stable")))
    return LinkMatrix.from_arrow(whole, rule, valence_rate)
