"""A whole store as plain rows and back, without loss: what ``export`` and ``import`` move.

The rows, in this order: one ``store`` (settings and counts), then every ``concept`` by age, every
``note`` in order of writing, every ``link``, and one ``end`` whose counts say that nothing is
missing. Times are microseconds since 1970, UTC. Concepts are named by their key (the folded name).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fastassoc.errors import InvalidInput
from fastassoc.exported import (
    FORMAT,
    PART_ROWS,
    TEXT_FIELDS,
    Exported,
    counts,
    read_export,
)
from fastassoc.state import State

__all__ = [
    "FORMAT",
    "Exported",
    "export_lines",
    "pending_parts",
    "read_export",
]

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
    notes = state.notes.to_arrow()
    table = state.notes
    changed = {
        table.ids[row]: (table.valence.get(row, 0.0), table.metadata_updates.get(row))
        for row in {*table.valence, *table.metadata_updates}
    }
    old = {table.ids[row]: table.named(table.chains.older(row)) for row in table.chains.replacing()}
    links = state.links.to_arrow()
    header = {
        "kind": "store",
        "format": FORMAT,
        "settings": state.settings.to_dict(),
        "position": state.position,
        "digest": state.digest(),
        **counts(len(held), notes.num_rows, links.num_rows),
    }
    return _rows(header, names=names, notes=notes, changed=changed, old=old, links=links)


def _rows(
    header: dict[str, Any],
    *,
    names: dict[int, tuple[str, str]],
    notes: pa.Table,
    changed: dict[str, tuple[float, str | None]],
    old: dict[str, list[str]],
    links: pa.Table,
) -> Iterator[dict[str, Any]]:
    yield header
    for key, shown in names.values():
        yield {"kind": "concept", "key": key, "name": shown}
    for batch in notes.to_batches(max_chunksize=PART_ROWS):
        for note in batch.to_pylist():
            yield _note_row(note, names, changed, old)
    for batch in links.to_batches(max_chunksize=PART_ROWS):
        for link in batch.to_pylist():
            ends = {"a": names[link["a"]][0], "b": names[link["b"]][0]}
            yield {"kind": "link", "layer": "concept", **link, **ends}
    yield {"kind": "end", **{name: header[name] for name in ("concepts", "notes", "links")}}


def _note_row(
    note: dict[str, Any],
    names: dict[int, tuple[str, str]],
    changed: dict[str, tuple[float, str | None]],
    old: dict[str, list[str]],
) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "note", "id": note["id"], "text": note["text"]}
    row["concepts"] = [names[concept][0] for concept in note["concepts"]]
    if note["subjects"]:
        row["subjects"] = [names[concept][0] for concept in note["subjects"]]
    if note["extracted"]:
        row["extracted"] = True
    for name in ("domain", "created_at", "written_at", *TEXT_FIELDS, "importance"):
        if note[name] is not None:
            row[name] = note[name]
    valence, metadata = changed.get(note["id"], (0.0, None))
    metadata = metadata or note["metadata"]
    if metadata is not None:
        row["metadata"] = json.loads(metadata)
    if valence:
        row["valence"] = valence
    if note["id"] in old:
        row["supersedes"] = old[note["id"]]
    return row


# -- in -----------------------------------------------------------------------------------------


def pending_parts(state: State, whole: Exported) -> list[dict[str, Any]]:
    """Bodies that are still to be applied, in order; none where the state holds the whole export.

    Each carries a ledger under ``ingest``, by which an interrupted import is continued.

    Raises
    ------
    InvalidInput
        The state holds something else.
    SettingsMismatch
        It was made with other settings.
    """
    ledger = state.ingests.get(whole.key)
    done = 0 if ledger is None else int(ledger["part"]) + 1
    notes, links = state.notes.n_alive, len(state.links)
    if ledger is None and (notes or links):
        if read_export(export_lines(state)).parts == whole.parts:
            return []
        raise InvalidInput(
            f"found a store with {notes} notes and {links} links, expected an empty one: an import "
            "restores a whole memory and adds to none. Import into a new store, or add its notes "
            "with ingest, which writes links anew and leaves out what was taught."
        )
    state.settings.require_same_state(whole.settings)
    last = len(whole.parts) - 1
    return [
        {**part, "ingest": {"key": whole.key, "part": place, "final": place == last}}
        for place, part in enumerate(whole.parts)
        if place >= done
    ]
