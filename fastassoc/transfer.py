"""A whole store as plain rows and back, without loss: what ``export`` and ``import`` move.

The rows, in this order: one ``store`` (settings and counts), then every ``concept`` by age, every
``note`` in order of writing, every ``link``, and one ``end`` whose counts say that nothing is
missing. Times are microseconds since 1970, UTC. Concepts are named by their key (the folded name).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastassoc.batch import NoteBatch
from fastassoc.errors import InvalidInput
from fastassoc.exported import (
    FORMAT,
    PART_ROWS,
    TEXT_FIELDS,
    Exported,
    counts,
    read_export,
)
from fastassoc.reports import Report

if TYPE_CHECKING:
    from fastassoc.memory import Memory
    from fastassoc.state import State

__all__ = [
    "FORMAT",
    "Exported",
    "apply_part",
    "export_lines",
    "import_into",
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
    old = {
        table.ids[row]: sorted(names, key=lambda note: table.rows.get(note, -1))
        for row, names in table.supersedes.items()
    }
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


# -- the operation ------------------------------------------------------------------------------


def import_into(mem: Memory, lines: Iterable[Mapping[str, Any]]) -> Report:
    """Bring an export into an empty memory, part by part; see `Memory.import_lines`.

    All rows are checked before the first part is saved. After an interruption the same import goes
    on where it stopped; where everything is there already, nothing changes (``repeated``).
    """
    whole = read_export(lines)
    total = Report(repeated=True, position=mem.position)
    last = not whole.parts
    while not last:
        sent: list[dict[str, Any]] = []

        def prepare(
            state: State, sent: list[dict[str, Any]] = sent
        ) -> tuple[dict[str, Any], None] | Report:
            sent.extend(pending_parts(state, whole)[:1])
            return (sent[0], None) if sent else Report()

        made = mem._change("import", prepare, None)
        last = not sent or sent[0]["ingest"]["final"]
        total = Report(
            written=total.written + made.written,
            links_created=total.links_created + made.links_created,
            repeated=total.repeated and not sent,
            position=made.position,
            seconds=total.seconds + made.seconds,
        )
    held, wanted = mem.settings.to_dict(), whole.settings.to_dict()
    changes = {name: value for name, value in wanted.items() if held[name] != value}
    if changes and not total.repeated:
        total = replace(total, position=mem.configure(**changes).position)
    return total


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


def apply_part(state: State, body: Mapping[str, Any], at: int) -> Report:
    """Bring one part of a plan into a state that holds nothing else.

    Links take exactly the values given: the notes of an import write none.
    """
    if "concepts" in body:
        keys, shown = zip(*body["concepts"], strict=True)
        state.vocabulary.intern(list(keys), list(shown))
    if "notes" in body:
        _apply_notes(state, body["notes"], at)
    if "links" in body:
        _apply_links(state, body["links"])
    return Report(
        written=len(body.get("notes", ())),
        links_created=len(body.get("links", ())),
        position=state.position,
    )


def _apply_notes(state: State, rows: list[dict[str, Any]], at: int) -> None:
    table, batch = state.notes, NoteBatch.from_rows(rows)
    ids = state.vocabulary.intern(batch.keys, batch.keys)  # all there: concepts came first
    concepts = ids[batch.concepts] if len(batch.concepts) else batch.concepts
    places = table.append(batch, concepts, at).tolist()
    table.written_at.array[places[0] : places[-1] + 1] = [row["written_at"] for row in rows]
    for place, row in zip(places, rows, strict=True):
        if row.get("valence"):
            table.valence[place] = row["valence"]
        if row.get("supersedes"):
            table.supersede(place, row["supersedes"])


def _apply_links(state: State, rows: list[list[Any]]) -> None:
    a, b, weight, written, valence, count, created, updated = zip(*rows, strict=True)
    ends = np.array([state.vocabulary.intern(keys, keys) for keys in (list(a), list(b))])
    held = state.links.to_arrow()
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
    whole = whole.sort_by([("a", "ascending"), ("b", "ascending")]).combine_chunks()
    rule, rate = state.settings.concept_links, state.settings.valence_rate
    state.links = type(state.links).from_arrow(whole, rule, rate)
