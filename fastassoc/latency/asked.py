"""Questions to a store, made of its own notes: concepts, words, points; seeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import fastassoc as fa
from fastassoc.errors import InvalidInput
from fastassoc.settings import RANKS

__all__ = ["KINDS", "Asked", "ids_of", "kinds_of"]

KINDS = {  # what is asked, by rank; where notes have no vectors, those with a vector are left out
    "counts": ("concepts",),
    "flat": ("text", "vector"),
    "bridge": ("text", "text and vector"),
    "ppr": ("text", "text and vector"),
    "retention": ("text", "vector"),
}
WORDS = 12  # the most words of a question
NOISE = 0.5  # length of the noise beside a note's vector of length 1


def kinds_of(rank: str, vectors: bool) -> list[str]:
    """What a rank is asked.

    Examples
    --------
    >>> kinds_of("flat", True), kinds_of("flat", False)
    (['text', 'vector'], ['text'])
    """
    known = KINDS.get(rank, ("text",))
    return [kind for kind in known if vectors or "vector" not in kind]


def ids_of(mem: fa.Memory) -> pa.ChunkedArray:
    """The ids of all notes, in order of writing."""
    return mem.notes.to_arrow().column("id")


@dataclass(frozen=True)
class Asked:
    """Questions by kind, as arguments of `Memory.read`.

    Attributes
    ----------
    by_kind : dict of str to list of dict
        Empty lists where the store has nothing to ask by.
    vectors : numpy.ndarray or None
        float32 [q, dim], each of length 1: the points that are asked.
    """

    by_kind: dict[str, list[dict[str, Any]]]
    vectors: NDArray[np.float32] | None

    @classmethod
    def of(
        cls, mem: fa.Memory, ids: Sequence[Any] | pa.ChunkedArray, many: int, seed: int
    ) -> Asked:
        """Draw notes and make a question of each.

        Raises
        ------
        InvalidInput
            The store holds no notes.
        """
        if not len(ids):
            raise InvalidInput("the store holds no notes: there is nothing to read.")
        rng = np.random.default_rng(seed)
        drawn = [mem.get(str(ids[int(n)])) for n in rng.integers(0, len(ids), many)]
        concepts = [
            {"concepts": [note.concepts[int(rng.integers(len(note.concepts)))]]}
            for note in drawn
            if note.concepts
        ]
        texts = [text for note in drawn if (text := half_of(note.text, rng))]
        held = [note.vector for note in drawn if note.vector is not None]
        points = None
        if held:
            table = np.stack(held).astype(np.float32)
            noise = rng.standard_normal(table.shape, dtype=np.float32)
            points = _unit(_unit(table) + np.float32(NOISE) * _unit(noise))
        near = [] if points is None else [{"vector": point} for point in points]
        return cls(
            {
                "concepts": concepts,
                "text": [{"query": text} for text in texts],
                "vector": near,
                "text and vector": [
                    {"query": text, **one} for text, one in zip(texts, near, strict=False)
                ],
            },
            points,
        )

    def rows(self, ranks: Sequence[str]) -> list[tuple[str, str]]:
        """Each rank with each kind that this store can be asked by it."""
        return [
            (rank, kind)
            for rank in ranks
            for kind in kinds_of(rank, self.vectors is not None)
            if self.by_kind[kind]
        ]


def half_of(text: str, rng: np.random.Generator) -> str:
    """Half of the words of a text, at most a dozen, in their order.

    Examples
    --------
    >>> half_of("one two three four", np.random.default_rng(1))
    'one two'
    """
    words = text.split()
    many = min(WORDS, (len(words) + 1) // 2)
    places = np.sort(rng.permutation(len(words))[:many])
    return " ".join(words[n] for n in places.tolist())


def check_ranks(ranks: Sequence[str]) -> None:
    """Refuse what is no rank."""
    unknown = [rank for rank in ranks if rank not in RANKS]
    if unknown:
        raise InvalidInput(f"rank: found {', '.join(unknown)}, expected of {', '.join(RANKS)}.")


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    out: NDArray[np.float32] = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return out
