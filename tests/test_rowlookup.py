"""From a text to its rows, whether a kernel hashed them or Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastassoc import rowlookup as module
from fastassoc.columns import ArrowColumn
from fastassoc.rowlookup import RowLookup

TEXTS = ["", "a", "b", "ß", "same beginning, one", "same beginning, two", "東京都", "a\0"]


@pytest.mark.parametrize("same", [False, True], ids=["", "all hashes alike"])
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_of_a_value(same: bool, data: Any) -> None:
    column, held = ArrowColumn(pa.string()), []
    lookup = RowLookup(column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", data.draw(st.integers(1, 6)))
        patch.setattr(module, "PIECE", data.draw(st.integers(1, 5)))
        if same:
            patch.setattr(module, "hashes_of", lambda values: np.zeros(len(values), np.uint64))
        for _ in range(data.draw(st.integers(1, 4))):
            new = data.draw(st.lists(st.none() | st.sampled_from(TEXTS), max_size=12))
            plain = data.draw(st.booleans())
            column.append(new if plain else pa.array(new, pa.string()), len(new))
            held += new
            seen = data.draw(st.integers(0, len(held)))
            for value in [*TEXTS, "nowhere", "\ud800"]:
                for n in (seen, len(held)):
                    wanted = [row for row, one in enumerate(held[:n]) if one == value]
                    assert lookup.find(value, n) == wanted


def test_a_hash_is_of_the_bytes_alone() -> None:
    whole = pa.array(["x", "one", "", "東京都", "one"])
    found = module.hashes_of(whole)
    assert found[1] == found[4]
    assert len(set(found.tolist())) == 4
    assert found[1:].tolist() == module.hashes_of(whole[1:]).tolist()
    assert found.tolist() == module.hashes_of(whole.cast(pa.binary())).tolist()
    assert module.hashes_of(pa.array(["", ""])).tolist() == [found[2]] * 2
