"""Scripts that write no spaces between words: Han, kana, Thai, Lao, Khmer and Myanmar.

Of a run of them nothing says where a word ends. The text index takes its pairs of characters, and
names are found character by character.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Final

__all__ = ["FIRST", "JOINED", "UNSPACED", "characters", "is_unspaced", "joined", "pairs"]

JOINED: Final = "\u2060"  # begins a character that follows another of its run; folding keeps it out

_BLOCKS: Final = (
    (0x0E00, 0x0F00),  # Thai, Lao
    (0x1000, 0x10A0), (0xA9E0, 0xAA00), (0xAA60, 0xAA80),  # Myanmar
    (0x1780, 0x1800),  # Khmer
    (0x3005, 0x3008), (0x3021, 0x3030), (0x3038, 0x303D),  # Han: marks of repetition, numerals
    (0x3041, 0x3100), (0x31F0, 0x3200), (0xFF66, 0xFF9E),  # kana
    (0x1AFF0, 0x1B170),
    (0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x323B0),  # Han
)  # fmt: skip
FIRST: Final = "\u0e00"  # no character of them comes before it


def _classes() -> tuple[str, str]:
    """Insides of two classes of a regular expression: letters and digits, and marks of letters."""
    letters, marks = [], []
    for start, stop in _BLOCKS:
        if stop - start > 0x1000:  # ideographs, those that Python's Unicode does not know yet, too
            letters.append((start, stop - 1))
            continue
        for code in range(start, stop):
            char = chr(code)
            if char.isalnum():
                letters.append((code, code))
            elif unicodedata.category(char) in ("Mn", "Mc") and not unicodedata.combining(char):
                marks.append((code, code))
    return _ranges(letters), _ranges(marks)


def _ranges(spans: list[tuple[int, int]]) -> str:
    """Few ranges: each beyond U+FFFF costs time at every character."""
    out: list[tuple[int, int]] = []
    for first, last in spans:
        if out and out[-1][1] + 1 == first:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in out)


_LETTERS, _MARKS = _classes()
UNSPACED: Final = _LETTERS + _MARKS  # inside of a class of a regular expression
_has_marks = re.compile(f"[{_MARKS}]").search
_characters = re.compile(f"[{_LETTERS}][{_MARKS}]*|[{_MARKS}]").findall
_is_unspaced = re.compile(f"[{JOINED}{UNSPACED}]").match


def is_unspaced(token: str) -> bool:
    """Whether a token is a run of these scripts, or a character of one, `JOINED` or not."""
    return token[0] >= FIRST and _is_unspaced(token) is not None


def characters(run: str) -> list[str]:
    """The characters of a run, each with the vowel signs that belong to it.

    Examples
    --------
    >>> characters("東京都"), len(characters("กินดี"))
    (['東', '京', '都'], 3)
    """
    found: list[str] = _characters(run) if _has_marks(run) else list(run)
    return found


def joined(run: str) -> list[str]:
    """The characters of a run, `JOINED` before each but the first."""
    found = characters(run)
    return [found[0], *(JOINED + char for char in found[1:])]


def pairs(run: str) -> list[str]:
    """Neighbours in a run, two by two; a single character stays one.

    Examples
    --------
    >>> pairs("東京都"), pairs("茶")
    (['東京', '京都'], ['茶'])
    """
    found = characters(run)
    return [a + b for a, b in pairwise(found)] or found
