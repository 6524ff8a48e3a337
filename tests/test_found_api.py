"""Defects that an independent tester found in the public interface, each by what was reported."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import fastassoc as fa
import numpy as np
import pyarrow as pa
import pytest
from fastassoc.errors import BatchRejected, InvalidInput


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
@pytest.mark.parametrize(
    "names", [[["a", "b"], ["c"]], [["a", "b"], [], ["c"]], [["a"], None, ["c"]], [None, ["a"]]]
)
def test_list_views_give_their_names(kind: Any, names: list[list[str] | None]) -> None:
    # pyarrow's own cast from a list view to a list loses names
    column = pa.array(names, kind(pa.string()))
    for given in (column, pa.concat_arrays([column, column]).slice(len(names))):
        mem = fa.Memory()
        rows = {"text": ["t"] * len(names), "id": [str(n) for n in range(len(names))]}
        mem.write_batch(pa.table({**rows, "concepts": given}))
        assert [mem.get(note).concepts for note in rows["id"]] == [one or [] for one in names]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**60], pa.timestamp("s")),
        pa.array([2**60], pa.timestamp("ms", "UTC")),
        pa.array([2**31 - 1], pa.int32()).view(pa.date32()),
        pa.array([2**64 - 5], pa.uint64()),
    ],
)
def test_times_that_do_not_fit_are_refused_not_wrapped(column: Any) -> None:
    mem = fa.Memory()
    with pytest.raises(BatchRejected, match="row 0: created_at: found"):
        mem.write_batch(pa.table({"text": ["t"], "created_at": column}))
    assert len(mem) == 0


def test_times_of_every_unit_are_taken() -> None:
    mem = fa.Memory()
    for unit in ("s", "ms", "us", "ns"):
        column = pa.array([1_700_000_000], pa.timestamp("s")).cast(pa.timestamp(unit))
        mem.write_batch(pa.table({"text": ["t"], "created_at": column}))
    mem.write_batch(
        pa.table({"text": ["t"], "created_at": pa.array([1_700_000_000_000_000], pa.uint64())})
    )
    finer = pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))
    mem.write_batch(pa.table({"text": ["t"], "created_at": finer}))
    assert len({note.created_at for note in mem.recent()}) == 1


@pytest.mark.parametrize("concepts", [None, [], ["a"]])
def test_more_than_256_subjects_are_refused(concepts: list[str] | None) -> None:
    mem = fa.Memory()
    with pytest.raises(InvalidInput, match="found 25[78] names, expected at most 256"):
        mem.write("Tea is hot.", concepts=concepts, subjects=[f"s{n}" for n in range(257)])
    assert len(mem) == len(mem.links) == 0
    mem.write("Tea is hot.", subjects=[f"s{n}" for n in range(256)])


def test_the_parts_of_an_exact_hit_are_its_own_score() -> None:
    mem = fa.Memory()
    for n in range(3):
        mem.write(f"zz{n}", concepts=["a", "b"])
    mem.write("one", concepts=["a"])
    mem.write("two", concepts=["b"])
    # k = 1: neither is among the best by counts
    one = mem.read("one", concepts=["a"], k=1)[0]
    two = mem.read("two", concepts=["a"], k=1)[0]
    assert one.source == two.source == "exact"
    assert (one.parts["asked"], one.parts["association"]) == (10.0, 0.0)
    assert (two.parts["asked"], two.parts["association"]) == (0.0, 3.0)
    assert sum(step.weight for step in two.path) == two.parts["association"]
    flat = mem.read("zz0", rank="flat", k=1)[0]
    assert flat.parts["text"] > 0 and flat.rank_score == sum(flat.parts.values())
