"""The short form: two environments that differ in everything but the processor's kernels."""

from __future__ import annotations

from . import same


def test_one_state_by_every_way() -> None:
    tally = same.run(ops=24, names=["OpenBLAS for Prescott", "hash seed 4242"])
    assert tally.violations == []
    assert tally.environments == 2
