"""The list of safeguards is true, and a few of them are really tried."""

from __future__ import annotations

import os
import random

from . import mutants

SEED = int(os.environ.get("FASTASSOC_SEED", "1"))
QUICK = ("the hash of a row", "head never goes back", "no symbolic links", "the write lock")


def test_every_safeguard_and_every_test_of_it_is_there() -> None:
    assert mutants.misplaced() == []
    names = [mutant.name for mutant in mutants.MUTANTS]
    assert len(names) == len(set(names)) > 80


def test_a_sample_of_them_is_missed() -> None:
    chosen = random.Random(SEED).sample(QUICK, 2)
    tally = mutants.run([m for m in mutants.MUTANTS if m.name in chosen])
    assert tally.broken == []
    assert sorted(tally.caught) == sorted(chosen)
