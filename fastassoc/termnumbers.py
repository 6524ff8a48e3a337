"""The terms of a text index by number: which number the stem of a token has."""

from __future__ import annotations

from collections.abc import Sequence

from fastassoc.scripts import FIRST, characters, is_unspaced
from fastassoc.words import STOP_WORDS, Stemmer

__all__ = ["STOPPED", "TermNumbers"]

STOPPED = -1
CACHED = 1 << 20  # tokens remembered with their term


class TermNumbers(dict[str, int]):
    """Token to term, STOPPED for a stop word; numbers a new stem at its first token.

    Parameters
    ----------
    language : str
        A Snowball language.
    stems : sequence of str
        Those that have a number, in its order.

    Examples
    --------
    >>> terms = TermNumbers("english", ["call"])
    >>> terms["calling"], terms["moons"], terms["the"], terms.stems
    (0, 1, -1, ['call', 'moon'])
    """

    def __init__(self, language: str, stems: Sequence[str] = ()) -> None:
        self.stemmer = Stemmer(language)
        self.stops: frozenset[str] = (
            STOP_WORDS if self.stemmer.language.lower() == "english" else frozenset()
        )
        self.stems: list[str] = list(stems)
        self.of_stem: dict[str, int] = {stem: term for term, stem in enumerate(self.stems)}
        self.of_character: dict[str, list[int]] = {}  # terms that are or hold a lone character
        for term, stem in enumerate(self.stems):
            if stem >= FIRST:
                self._put_characters(stem, term)

    def _put_characters(self, stem: str, term: int) -> None:
        if is_unspaced(stem):  # which is its own stem
            for char in set(characters(stem)):
                self.of_character.setdefault(char, []).append(term)

    def __missing__(self, token: str) -> int:
        if token in self.stops:
            term = STOPPED
        else:
            stem = self.stemmer.stem(token)
            known = self.of_stem.get(stem)
            if known is None:
                term = len(self.stems)
                self.stems.append(stem)
                self.of_stem[stem] = term
                self._put_characters(token, term)
            else:
                term = known
        if len(self) >= CACHED:
            self.clear()
        self[token] = term
        return term
