"""Many texts cut into words at once, so that each distinct word is looked up once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastassoc.kernels import cutting as kernels

__all__ = ["Cut", "cut", "pieces"]

TEXTS = 4096  # of a piece, at most; bounds the memory of what is made of it
CHARACTERS = 1 << 22  # the same
SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))  # nothing that is given out depends on it


class Cut(NamedTuple):
    """Words of some texts.

    Attributes
    ----------
    words : list of str
        Each distinct one once.
    numbers : int32[m]
        The place in `words` of each word of each text.
    capitals : bool[m]
        Whether it is written with a capital.
    ptr : int64[n + 1]
        Where the words of each text begin among these, and where the last one's end.
    """

    words: list[str]
    numbers: NDArray[np.int32]
    capitals: NDArray[np.bool_]
    ptr: NDArray[np.int64]


def pieces(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Texts in their order, some at a time.

    Examples
    --------
    >>> [len(piece) for piece in pieces(["tea"] * 5000)]
    [4096, 904]
    """
    start = held = 0
    for stop, text in enumerate(texts):
        if stop > start and (stop - start == TEXTS or held + len(text) > CHARACTERS):
            yield texts[start:stop]
            start, held = stop, 0
        held += len(text)
    if len(texts) > start:
        yield texts[start:]


def cut(texts: Sequence[str], words_of: Callable[[str], tuple[list[str], list[bool]]]) -> Cut:
    """Cut texts into words.

    Parameters
    ----------
    texts : sequence of str
    words_of : callable
        The words of a text, and whether each is written with a capital: of ASCII the runs of
        letters and digits in lower case, of others what it gives.

    Examples
    --------
    >>> found = cut(["The tea.", "Tea?"], lambda text: ([], []))
    >>> found.words, found.numbers.tolist(), found.capitals.tolist(), found.ptr.tolist()
    (['the', 'tea'], [0, 1, 1], [True, False, True], [0, 2, 3])
    """
    found = _cut_ascii([text for text in texts if text.isascii()])
    if len(found.ptr) > len(texts):
        return found
    plain = np.array([text.isascii() for text in texts], np.bool_)
    known = dict(zip(found.words, range(len(found.words)), strict=True))
    more: list[int] = []
    marks: list[bool] = []
    sizes = np.zeros(len(texts), np.int64)
    sizes[plain] = np.diff(found.ptr)
    for place in np.flatnonzero(~plain).tolist():
        words, upper = words_of(texts[place])
        more += [known.setdefault(word, len(known)) for word in words]
        marks += upper
        sizes[place] = len(words)
    held = np.repeat(plain, sizes)
    numbers, capitals = np.empty(held.size, np.int32), np.empty(held.size, np.bool_)
    numbers[held], capitals[held] = found.numbers, found.capitals
    numbers[~held], capitals[~held] = more, marks
    return Cut(list(known), numbers, capitals, np.concatenate([[0], np.cumsum(sizes)]))


def _cut_ascii(texts: Sequence[str]) -> Cut:
    if not texts:  # most often of few, and no kernel is loaded
        return Cut([], np.empty(0, np.int32), np.empty(0, np.bool_), np.zeros(1, np.int64))
    written = "".join(texts)
    lowered = written.lower()
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    as_bytes = [np.frombuffer(one.encode("ascii"), np.uint8) for one in (written, lowered)]
    numbers, capitals, ptr, starts, stops = kernels.cut(as_bytes[0], as_bytes[1], ends, SEED)
    words = [lowered[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
    return Cut(words, numbers, capitals, ptr)
