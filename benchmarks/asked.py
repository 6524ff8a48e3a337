"""What is asked: concepts drawn evenly or as often as notes carry them, words, seeded."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import fastassoc as fa
from benchmarks.topics import BLOCK, WORDS, concept_ids, zipf

DRAWS = ("uniform", "frequent")


def name(number: int) -> str:
    return f"concept {number:06d}"


class Asked:
    """Questions to a store of generated notes.

    Attributes
    ----------
    ids : numpy.ndarray
        uint32 [notes, 5]: concepts of (the first million of) the notes.
    """

    def __init__(self, mem: fa.Memory, notes: int) -> None:
        self.mem = mem
        self.ids = concept_ids(min(notes, BLOCK))

    @cached_property
    def known(self) -> NDArray[np.uint32]:
        """Numbers of all concepts that a note carries."""
        return np.unique(self.ids)

    def concepts(self, how: str, many: int, times: int, seed: int = 1) -> list[list[str]]:
        """So many distinct concepts at a time: of all evenly, or those of notes drawn evenly."""
        rng = np.random.default_rng((seed, many))
        pool = self.known if how == "uniform" else self.ids.ravel()
        out = []
        while len(out) < times:
            drawn = dict.fromkeys(pool[rng.integers(0, len(pool), 4 * many)].tolist())
            if len(drawn) >= many:
                out.append([name(n) for n in list(drawn)[:many]])
        return out

    def words(self, times: int, many: int = 2, seed: int = 2) -> list[str]:
        """Questions of so many words, drawn evenly from those that notes hold."""
        rng = np.random.default_rng(seed)
        return [
            " ".join(f"word{n:04d}" for n in rng.integers(0, WORDS, many)) for _ in range(times)
        ]

    def sentences(self, times: int, seed: int = 3) -> list[str]:
        """Questions that name two concepts among words as common as in the notes."""
        rng = np.random.default_rng(seed)
        pairs = self.concepts("frequent", 2, times, seed)
        said = zipf(rng, WORDS, (times, 6), 1.0)
        return [
            " ".join([f"word{n:04d}" for n in row] + pair)
            for row, pair in zip(said.tolist(), pairs, strict=True)
        ]
