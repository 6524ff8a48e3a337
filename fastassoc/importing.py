"""What a part of an import does to the tables: everything takes the values that were exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fastassoc.batch import NoteBatch
from fastassoc.concepts import Vocabulary
from fastassoc.links import LinkMatrix
from fastassoc.notes import NoteTable
from fastassoc.settings import LinkRule

__all__ = ["import_notes", "with_links"]


def import_notes(
    table: NoteTable, vocabulary: Vocabulary, rows: list[dict[str, Any]], at: int
) -> None:
    """Append exported notes; they write no links."""
    batch = NoteBatch.from_rows(rows)
    ids = vocabulary.intern(batch.keys, batch.keys)  # all there: concepts came first
    concepts = ids[batch.concepts] if len(batch.concepts) else batch.concepts
    places = table.append(batch, concepts, at).tolist()
    table.written_at.array[places[0] : places[-1] + 1] = [row["written_at"] for row in rows]
    for place, row in zip(places, rows, strict=True):
        if row.get("valence"):
            table.valence[place] = row["valence"]
        if row.get("supersedes"):
            table.supersede(place, row["supersedes"])


def with_links(
    links: LinkMatrix,
    vocabulary: Vocabulary,
    rows: list[list[Any]],
    rule: LinkRule,
    valence_rate: float,
) -> LinkMatrix:
    """The links and exported ones, which are not among them."""
    a, b, weight, written, valence, count, created, updated = zip(*rows, strict=True)
    ends = np.array([vocabulary.intern(keys, keys) for keys in (list(a), list(b))])
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
    whole = whole.sort_by([("a", "ascending"), ("b", "ascending")]).combine_chunks()
    return LinkMatrix.from_arrow(whole, rule, valence_rate)
