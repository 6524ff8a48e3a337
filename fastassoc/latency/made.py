"""Generated notes with the shape of real ones: topics, a Zipf tail of concepts, clustered vectors.

A note belongs to a topic and draws its concepts from the topic's own list, the first ones most
often; some concepts stand in many topics. At 1M notes this gives 10M pair events, several million
distinct pairs, and one concept on tens of thousands of notes. The same seed gives the same notes,
and a million of them are made at a time, so that any number fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = [
    "BLOCK",
    "CONCEPTS",
    "WORDS",
    "clustered",
    "concept_ids",
    "names",
    "table",
    "tables",
    "zipf",
]

CONCEPTS = 200_000
TOPICS = 4_000
PER_TOPIC = 300
PER_NOTE = 5
WORDS = 2_000
BLOCK = 1_000_000
PER_CENTRE = 250


def zipf(rng: np.random.Generator, n: int, size: tuple[int, ...], skew: float) -> NDArray[np.int64]:
    """Ranks 0 to n - 1, the share of rank r falling as ``(r + 1) ** -skew``."""
    shares = np.cumsum((np.arange(n) + 1.0) ** -skew)
    return np.searchsorted(shares / shares[-1], rng.random(size)).astype(np.int64)


def concept_ids(notes: int, seed: int = 7, block: int = 0) -> NDArray[np.uint32]:
    """Concept ids of each note, distinct within a note, uint32 [notes, 5]."""
    rng = np.random.default_rng(seed)
    # the lists of the topics: drawn with a tail, so that some concepts are in many of them
    lists = zipf(rng, CONCEPTS, (TOPICS, PER_TOPIC), 0.75)
    lists = rng.permutation(CONCEPTS)[lists]
    if block:  # the same topics, other notes
        rng = np.random.default_rng((seed, block))
    topic = zipf(rng, TOPICS, (notes,), 0.6)
    drawn = lists[topic[:, None], zipf(rng, PER_TOPIC, (notes, 4 * PER_NOTE), 0.9)]
    # the first five distinct ones of the draw
    order = np.argsort(drawn, axis=1, kind="stable")
    ranked = np.take_along_axis(drawn, order, axis=1)
    repeat = np.zeros_like(drawn, dtype=bool)
    np.put_along_axis(repeat, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    keep = np.argsort(repeat, axis=1, kind="stable")[:, :PER_NOTE]
    return np.take_along_axis(drawn, keep, axis=1).astype(np.uint32)


def names() -> pa.Array:
    """What the concepts are called, by id."""
    return pa.array([f"concept {n:06d}" for n in range(CONCEPTS)])


def table(notes: int, seed: int = 7, block: int = 0) -> pa.Table:
    """Notes as a table of ``id, text, concepts``, texts of about a dozen words."""
    rng = np.random.default_rng((seed + 1, block) if block else seed + 1)
    ids = concept_ids(notes, seed, block)
    words = pa.array([f"word{n:04d}" for n in range(WORDS)])
    said = [words.take(pa.array(zipf(rng, WORDS, (notes,), 1.0))) for _ in range(12)]
    offsets = pa.array(np.arange(notes + 1, dtype=np.int32) * ids.shape[1])
    numbers = pa.array(np.arange(notes) + block * BLOCK).cast("string")
    return pa.table(
        {
            "id": pc.binary_join_element_wise("n", numbers, ""),
            "text": pc.binary_join_element_wise(*said, " "),
            "concepts": pa.ListArray.from_arrays(offsets, names().take(pa.array(ids.ravel()))),
        }
    )


def tables(notes: int, seed: int = 7) -> Iterator[pa.Table]:
    """The same, a million notes at a time."""
    for block, first in enumerate(range(0, notes, BLOCK)):
        yield table(min(BLOCK, notes - first), seed, block)


def clustered(notes: int, dim: int, seed: int = 7) -> Iterator[NDArray[np.float32]]:
    """Vectors, float32 [some, dim], a block at a time: a centre for 250, as much noise as centre.

    Examples
    --------
    >>> [block.shape for block in clustered(10, 4)]
    [(10, 4)]
    """
    rng = np.random.default_rng((seed, dim))
    centres = rng.standard_normal((max(10, notes // PER_CENTRE), dim), dtype=np.float32)
    for first in range(0, notes, BLOCK):
        many = min(BLOCK, notes - first)
        block: Any = rng.standard_normal((many, dim), dtype=np.float32)
        block += centres[rng.integers(0, len(centres), many)]
        yield block
