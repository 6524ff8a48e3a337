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
