"""Inverted lists, the count read and BM25 in dicts and loops, from the rules alone.

Nothing here comes from fastassoc: where the two differ, one is wrong.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

MEANT = 64  # terms that a single character of a question stands for, at most
Scored = list[tuple[int, float]]


def hash_of(text: bytes) -> int:
    """Length and words of 8 bytes, multiplied and mixed, all by 64 bits."""
    mixed = len(text)
    for start in range(0, len(text), 8):
        word = int.from_bytes(text[start : start + 8], "big")
        mixed = (mixed ^ word) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        mixed ^= mixed >> 31
    return mixed


def rows_of(rows: Sequence[Iterable[int]]) -> dict[int, list[int]]:
    """The rows that hold each term, ascending."""
    lists: dict[int, list[int]] = {}
    for row, terms in enumerate(rows):
        for term in terms:
            lists.setdefault(term, []).append(row)
    return lists


def accumulate(
    rows: Sequence[Iterable[int]], ids: Sequence[int], weights: Sequence[float]
) -> list[float]:
    """The sum of the weights of each row's terms, taken in the order of `ids`."""
    sums = []
    for terms in rows:
        held = set(terms)
        total = 0.0
        for term, weight in zip(ids, weights, strict=True):
            if term in held:
                total += weight
        sums.append(total)
    return sums


def count_scores(
    rows: Sequence[Iterable[int]],
    asked: Iterable[int],
    expanded: Mapping[int, float],
    allowed: Sequence[int],
) -> tuple[dict[int, float], dict[int, float]]:
    """Whole and direct score of every allowed row that scores at all."""
    whole: dict[int, float] = {}
    direct: dict[int, float] = {}
    names = set(asked)
    for row, terms in enumerate(rows):
        if not allowed[row]:
            continue
        held = set(terms)
        score = 10.0 * len(held & names)
        if score > 0:
            direct[row] = score
        for term in sorted(expanded):
            if term in held and expanded[term] > 0:
                score += expanded[term]
        if score > 0:
            whole[row] = score
    return whole, direct


def first_by_text(scores: Mapping[int, float], texts: Sequence[str], k: int) -> Scored:
    """Score descending, then text descending by code points, then row ascending."""
    order = sorted(scores)
    order.sort(key=lambda row: texts[row], reverse=True)  # keeps the rows of one text ascending
    order.sort(key=lambda row: scores[row], reverse=True)
    return [(row, scores[row]) for row in order[:k]]


def first_by_row(scores: Sequence[float], allowed: Sequence[int], k: int) -> Scored:
    """Score descending, then row ascending; only allowed rows with a score above 0."""
    found = [(row, s) for row, s in enumerate(scores) if s > 0 and allowed[row]]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:k]


def tokens(text: str) -> list[str]:
    """Runs of letters and digits, without marks, in lower case; pairs where none writes spaces."""
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in plain if unicodedata.category(c)[0] != "M" or sounds(c))
    plain = plain.casefold().replace("ı", "i")  # as its capital
    out: list[str] = []
    for word in re.findall(f"[{SPACELESS}]+|[^{SPACELESS}]+", plain):
        if re.match(f"[{SPACELESS}]", word):
            kept = (c if c.isalnum() or sounds(c) or c >= "\u3400" else " " for c in word)
            for run in "".join(kept).split():
                chars = re.findall(f"[{SOUNDS}]|[^{SOUNDS}][{SOUNDS}]*", run)
                out += [a + b for a, b in itertools.pairwise(chars)] or chars
        else:
            out += re.findall(rf"(?:[^\W_]|[{SOUNDS}])+", word)
    return out


def sounds(c: str) -> bool:
    """Whether a mark is a vowel sign that is part of its word."""
    return bool(re.match(f"[{SOUNDS}]", c))


SOUNDS = "".join(
    c for c in map(chr, [*range(0x900, 0x1D00), *range(0xA800, 0xAC00)])
    if unicodedata.category(c) in ("Mn", "Mc") and unicodedata.combining(c) == 0
)  # fmt: skip
# Thai and Lao, Myanmar, Khmer, kana, and Han
SPACELESS = "\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff"
SPACELESS += "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9d\U0001aff0-\U0001b16f"
SPACELESS += "\u3005-\u3007\u3021-\u302f\u3038-\u303c\u3400-\u4dbf\u4e00-\u9fff"
SPACELESS += "\uf900-\ufaff\U00020000-\U000323af"


class Texts:
    """BM25 over the live texts, counted anew at every question."""

    def __init__(self, stem: Callable[[str], str], stops: Iterable[str]) -> None:
        self.stem = stem
        self.stops = set(stops)
        self.rows: list[list[str] | None] = []

    def words(self, text: str) -> list[str]:
        return [self.stem(t) for t in tokens(text) if t not in self.stops]

    def append(self, texts: Iterable[str]) -> None:
        self.rows.extend(self.words(text) for text in texts)

    def remove(self, rows: Iterable[int]) -> None:
        for row in rows:
            self.rows[row] = None

    def live(self) -> list[list[str]]:
        return [words for words in self.rows if words is not None]

    def df(self, stem: str) -> int:
        return sum(stem in words for words in self.live())

    def idf(self, stem: str) -> float:
        df = self.df(stem)
        return math.log(1.0 + (len(self.live()) - df + 0.5) / (df + 0.5))

    def average(self) -> float:
        live = self.live()
        return sum(map(len, live)) / len(live)

    def weight(self, row: int, stem: str, k1: float, b: float) -> float:
        words = self.rows[row]
        tf = words.count(stem) if words else 0
        if not words or not tf:
            return 0.0
        norm = tf + k1 * (1.0 - b + b * len(words) / self.average())
        return self.idf(stem) * (k1 + 1.0) * tf / norm

    def meant(self, stem: str) -> list[str]:
        """A stem, and for a single character the pairs that hold it: those on most texts."""
        if not re.fullmatch(f"[{SPACELESS}][{SOUNDS}]*", stem):
            return [stem]
        held = {
            word
            for words in self.live()
            for word in words
            if re.match(f"[{SPACELESS}]", word)
            and stem in re.findall(f"[{SOUNDS}]|[^{SOUNDS}][{SOUNDS}]*", word)
        }
        return sorted(held, key=lambda word: (-self.df(word), word))[:MEANT]

    def scores(self, question: str, k1: float, b: float) -> list[float]:
        """Sums in the order of the stems; removed texts score 0."""
        stems = sorted({one for stem in self.words(question) for one in self.meant(stem)})
        scores = []
        for row in range(len(self.rows)):
            total = 0.0
            for stem in stems:
                total += self.weight(row, stem, k1, b)
            scores.append(total)
        return scores


def cut(texts):
    """The runs of ASCII letters and digits of each text, lowered, and whether one begins large."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    kept = set(letters + letters.upper() + "0123456789")
    out = []
    for text in texts:
        words = "".join(char if char in kept else " " for char in text).split(" ")
        out.append([(word.lower(), word[0] in letters.upper()) for word in words if word])
    return out
