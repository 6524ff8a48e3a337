"""What a first-time user found in the second round, each as the smallest case."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastassoc as fa

# -- names from a column of texts ---------------------------------------------------------------


TITLES = ["Tea; a history", "[sic]", '["jug", "pot"]']


def titled(tmp_path: Path, kind: str) -> Any:
    rows = [{"text": f"Text {n}.", "title": title} for n, title in enumerate(TITLES)]
    file = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "csv":
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, ["text", "title"])
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        return rows if kind == "dicts" else pa.Table.from_pylist(rows)
    return file


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "dicts", "arrow"])
@pytest.mark.parametrize("field", ["subjects", "concepts"])
def test_a_text_in_a_mapped_column_is_one_name(tmp_path: Path, kind: str, field: str) -> None:
    source, columns = titled(tmp_path, kind), {field: "title"}
    assert fa.plan(source, columns=columns).rejected == 0
    assert kept(source, field, columns=columns) == [["Tea; a history"], ["[sic]"], ["jug", "pot"]]
    parted = kept(source, field, columns=columns, list_separator=";", max_rejects=1.0)
    assert parted == [["Tea", "a history"], ["jug", "pot"]]


def kept(source: Any, field: str, **options: Any) -> list[list[str]]:
    mem = fa.Memory()
    mem.ingest(source, **options)
    notes = sorted(mem.recent(limit=9), key=lambda note: note.text)
    return [list(getattr(note, field)) for note in notes]


def test_a_text_in_a_column_of_the_fields_own_name_is_still_a_list(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,concepts\nTea.,tea;cup\n")
    mem = fa.Memory()
    mem.ingest(file)
    assert list(mem.recent(limit=1)[0].concepts) == ["tea", "cup"]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("Größe", "Größe"),
        ("Größe", "Welche GRÖSSE hat es?"),
        ("Straße", "die Straße nach Rom"),
        ("ẞ", "ß"),
        ("νόμος", "Λόγος και νόμος"),
        ("νόμος", "ΝΟΜΟΣ"),
    ],
)
def test_a_name_is_found_whatever_letters_its_folding_gives(name: str, asked: str) -> None:
    mem = fa.Memory()
    mem.write("Es zählt.", concepts=[name, "other"])
    assert mem.read(asked).query_concepts == [name]
