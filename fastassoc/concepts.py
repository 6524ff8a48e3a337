"""Concept names: their keys, and the vocabulary of a memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput
from fastassoc.extract import MAX_NAME_BYTES, extract
from fastassoc.words import Stemmer, casefold, tokens

__all__ = [
    "VOCABULARY_SCHEMA",
    "Vocabulary",
    "extract",
    "fold_name",
    "loose_key",
    "subject_keys",
]

MAX_TOKENS: Final = 6  # the longest name, in tokens, that is found in a text
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("id", pa.uint32()),
    ("key", pa.string()),
    ("shown", pa.string()),
]
VOCABULARY_SCHEMA: Final = pa.schema(_COLUMNS)


def fold_name(name: str, mode: str = "fold") -> str:
    r"""The key of a concept name: two names are one concept when their keys are equal.

    Parameters
    ----------
    name : str
        A name as given, at most 256 bytes of UTF-8.
    mode : {"fold", "exact"}
        "fold": Unicode NFKC, casefold, inner white space collapsed to one space, trimmed.
        "exact": as typed.

    Raises
    ------
    InvalidInput
        The name is no str, is empty or only white space, holds a lone surrogate, or is too long.

    Examples
    --------
    >>> fold_name("  Exponential\n Backoff ")
    'exponential backoff'
    >>> fold_name("a|b"), fold_name("Straße"), fold_name("Retry", "exact")
    ('a|b', 'strasse', 'Retry')
    """
    if not isinstance(name, str):
        raise InvalidInput(
            f"concept name: found {name!r} ({type(name).__name__}), expected a str; "
            "pass each name as text."
        )
    if name.isascii():
        size = len(name)
    else:
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"concept name: found the lone surrogate {name[error.start]!a} at character "
                f"{error.start} of {name!a}, expected valid Unicode; decode the text properly "
                "or drop that character."
            ) from None
    key = casefold(name)
    if not key:
        raise InvalidInput(
            f"concept name: found {name!r}, expected at least one character that is not white "
            "space; leave empty names out."
        )
    if size > MAX_NAME_BYTES:
        raise InvalidInput(
            f"concept name: found {size} bytes of UTF-8 ({name[:40]!r}...), expected at most "
            f"{MAX_NAME_BYTES}; shorten it."
        )
    return name if mode == "exact" else key


def loose_key(name: str) -> str:
    """The key by which a name is found in a text: its tokens joined by one space.

    It is "" for a name without any letter or digit. Names that share it stay different concepts.

    Examples
    --------
    >>> loose_key("St. Mary's-Café"), loose_key("C++"), loose_key("->")
    ('st mary s cafe', 'c', '')
    """
    return " ".join(tokens(name))


def subject_keys(title: str) -> list[str]:
    """The names that a title stands for: without a trailing bracket, and the part before a comma.

    Spellings, not folded, distinct; the title itself where nothing is left of it.

    Examples
    --------
    >>> subject_keys("Mercury (planet)"), subject_keys("Springfield, Illinois")
    (['Mercury'], ['Springfield, Illinois', 'Springfield'])
    """
    name = title.strip()
    opening = _OPENING.get(name[-1:])
    if opening:
        name = name[: max(name.rfind(opening), 0)].rstrip() or title
    head = name.partition(",")[0].strip()
    return [name] if not head or head == name else [name, head]


_OPENING: Final = {")": "(", "]": "[", "）": "（"}


class Vocabulary:
    """Names to ids, by first appearance; ids are never renumbered nor used again.

    One thread at a time may change it (`intern`, `drop`); any number may read meanwhile without a
    lock. The indexes behind `variants` and `find_in` are caught up by the first read that needs
    them.

    Parameters
    ----------
    mode : {"fold", "exact"}
        How names are folded, see `fold_name`.
    language : str
        Snowball language of `variants`.

    Examples
    --------
    >>> vocabulary = Vocabulary("fold", "english")
    >>> vocabulary.intern(["timeout", "timeouts"], ["Timeout", "timeouts"])
    array([0, 1], dtype=uint32)
    >>> vocabulary.find("TIMEOUT"), vocabulary.name(0), vocabulary.variants(0)
    (0, 'Timeout', [1])
    >>> vocabulary.find_in("why the time-out? a timeout!", lambda concept: True)
    [0]
    """

    def __init__(self, mode: str, language: str) -> None:
        if mode not in ("fold", "exact"):
            raise InvalidInput(f"mode: found {mode!r}, expected 'fold' or 'exact'.")
        self._mode = mode
        self._ids: dict[str, int] = {}
        # Append only: a reader may hold them. `drop` puts changed copies in their place.
        self._keys: list[str | None] = []
        self._shown: list[str | None] = []
        self._lock = threading.Lock()
        self._mentions = _Mentions()
        self._stems = _Stems(language)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def n_ids(self) -> int:
        """Number of ids ever given: live names and gaps."""
        return len(self._shown)

    def intern(self, keys: Sequence[str], shown: Sequence[str]) -> NDArray[np.uint32]:
        """Ids of names, new ones added in order.

        Parameters
        ----------
        keys : sequence of str
            Folded names (`fold_name`); repeats are allowed.
        shown : sequence of str
            Their spellings, kept for names that are new.

        Returns
        -------
        ndarray of uint32, shape (len(keys),)
        """
        if len(keys) != len(shown):
            raise InvalidInput(f"intern: found {len(keys)} keys and {len(shown)} spellings.")
        found: list[int | None] = list(map(self._ids.get, keys))
        if None not in found:
            return np.array(found, dtype=np.uint32)
        ids, names, spellings = self._ids, self._keys, self._shown
        get = ids.get
        for place, known in enumerate(found):
            if known is None:
                key, spelling = keys[place], shown[place]
                concept = get(key)
                if concept is None:
                    concept = len(names)
                    # the id is published last, so that a reader that has it can name it
                    spellings.append(key if spelling == key else spelling)
                    names.append(key)
                    ids[key] = concept
                found[place] = concept
        return np.array(found, dtype=np.uint32)

    def find(self, name: str) -> int | None:
        """The id of a name, folded first; None where it is unknown.

        Raises
        ------
        InvalidInput
            As `fold_name`.
        """
        return self._ids.get(fold_name(name, self._mode))

    def find_key(self, key: str) -> int | None:
        """The id of a folded name; None where it is unknown."""
        return self._ids.get(key)

    def key(self, concept: int) -> str:
        """The folded name of an id; "" where the name was dropped.

        Raises
        ------
        KeyError
            The id was never given.
        """
        return self._at(self._keys, concept)

    def name(self, concept: int) -> str:
        """The first spelling of an id's name; "" where the name was dropped.

        Raises
        ------
        KeyError
            The id was never given.
        """
        return self._at(self._shown, concept)

    def names(self) -> Sequence[str | None]:
        """First spellings by id, None for gaps: what a read takes once, and `drop` never changes.

        It may grow meanwhile; treat it as read only.
        """
        return self._shown

    @staticmethod
    def _at(names: list[str | None], concept: int) -> str:
        if not 0 <= concept < len(names):
            raise KeyError(f"no concept has the id {concept}")
        return names[concept] or ""

    def variants(self, concept: int) -> list[int]:
        """Other ids whose names have the same Snowball stems, word by word, ascending.

        A name without any letter or digit has none, nor has a dropped one.
        """
        names = self._keys
        key = names[concept] if 0 <= concept < len(names) else None
        if key is None:
            return []
        self._catch_up()
        loose = _loose_of_key(key)
        if not loose:
            return []
        if self._stems.waits(loose):
            with self._lock:
                self._stems.settle(loose, self._keys)
        return [other for other in self._stems.alike(loose) if other != concept]

    def find_in(self, text: str, eligible: Callable[[int], bool]) -> list[int]:
        """Concepts whose names stand in a text.

        At each token the longest name of up to 6 tokens is taken that an eligible concept has, and
        the search goes on behind it; names that differ only in the looser key (`loose_key`) are
        all found. Names without any letter or digit are found as whole words between white space.

        Parameters
        ----------
        text : str
            Any text, such as a question.
        eligible : callable
            Says of an id whether it may be found.

        Returns
        -------
        list of int
            Distinct ids, in order of appearance; those of one place ascending.
        """
        self._catch_up()
        return self._mentions.find(text, eligible)

    def drop(self, concepts: Iterable[int]) -> None:
        """Forget names; their ids are never used again. Unknown ids are skipped."""
        with self._lock:
            keys, shown = list(self._keys), list(self._shown)
            for concept in concepts:
                number = int(concept)
                key = keys[number] if 0 <= number < len(keys) else None
                if key is not None:
                    keys[number] = shown[number] = None
                    del self._ids[key]
                    loose = _loose_of_key(key)
                    self._mentions.drop(number, key, loose)
                    if loose:
                        self._stems.drop(number, loose)
            self._keys, self._shown = keys, shown

    def _catch_up(self) -> None:
        if self._mentions.upto < len(self._keys):
            with self._lock:
                names = self._keys
                start, stop = self._mentions.upto, len(names)
                for concept in range(start, stop):
                    key = names[concept]
                    if key is not None:
                        loose = _loose_of_key(key)
                        self._mentions.add(concept, key, loose)
                        if loose:
                            self._stems.add(concept, loose)
                self._mentions.upto = stop

    def to_arrow(self) -> pa.Table:
        """Live names as a table of `VOCABULARY_SCHEMA`: id uint32 ascending, key, shown."""
        keys = self._keys
        shown = self._shown[: len(keys)]
        live = [concept for concept, key in enumerate(keys[: len(shown)]) if key is not None]
        return pa.table(
            {
                "id": pa.array(live, pa.uint32()),
                "key": pa.array([keys[concept] for concept in live], pa.string()),
                "shown": pa.array([shown[concept] for concept in live], pa.string()),
            },
            schema=VOCABULARY_SCHEMA,
        )

    @classmethod
    def from_arrow(cls, table: pa.Table, mode: str, language: str, n_ids: int) -> Vocabulary:
        """The vocabulary that `to_arrow` gave.

        Parameters
        ----------
        table : pyarrow.Table
            Columns id, key and shown, ids ascending.
        mode, language : str
            As for the class.
        n_ids : int
            Number of ids ever given.

        Raises
        ------
        InvalidInput
            Ids do not ascend or are not below `n_ids`, or a key repeats or is null.
        """
        new = cls(mode, language)
        ids = cast(list[int], table.column("id").to_pylist())
        keys = cast(list[str], table.column("key").to_pylist())
        shown = cast(list[str], table.column("shown").to_pylist())
        if any(column.null_count for column in table.columns):
            raise InvalidInput("vocabulary: found a null, expected an id, a key and a spelling.")
        if (ids and ids[-1] >= n_ids) or any(a >= b for a, b in pairwise(ids)):
            raise InvalidInput(f"vocabulary: expected ascending ids below {n_ids}.")
        new._ids = dict(zip(keys, ids, strict=True))
        if len(new._ids) != len(keys):
            raise InvalidInput("vocabulary: found a key twice, expected distinct keys.")
        shown = [
            k if k == s else s for k, s in zip(keys, shown, strict=True)
        ]  # one object for both
        if len(ids) == n_ids:
            new._keys, new._shown = list[str | None](keys), list[str | None](shown)
        else:
            new._keys, new._shown = [None] * n_ids, [None] * n_ids
            for concept, key, spelling in zip(ids, keys, shown, strict=True):
                new._keys[concept], new._shown[concept] = key, spelling
        return new


def _loose_of_key(key: str) -> str:
    """`loose_key` of a stored key, quickly where the key is its own."""
    if key.isascii():
        low = key.lower()
        if low.isalnum() or (low.replace(" ", "").isalnum() and " ".join(low.split()) == low):
            return low
    return loose_key(key)


def _put(index: dict[str, int | tuple[int, ...]], key: str, concept: int) -> None:
    """Add an id under a key. Values are replaced, never changed: a reader may hold them."""
    old = index.setdefault(key, concept)
    if old != concept:
        index[key] = (*_all(old), concept)


def _take(index: dict[str, int | tuple[int, ...]], key: str, concept: int) -> None:
    left = tuple(other for other in _all(index.get(key)) if other != concept)
    if left:
        index[key] = left
    else:
        index.pop(key, None)


def _all(value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if value is None else (value,) if isinstance(value, int) else value


class _Mentions:
    """Finds names in texts by their looser keys. Reads need no lock."""

    def __init__(self) -> None:
        self.upto = 0
        self._loose: dict[str, int | tuple[int, ...]] = {}
        self._symbols: dict[str, int | tuple[int, ...]] = {}
        self._longest: dict[str, int] = {}  # first token -> tokens of its longest name, if over 1

    def add(self, concept: int, key: str, loose: str) -> None:
        if not loose:
            _put(self._symbols, casefold(key), concept)
            return
        size = loose.count(" ") + 1
        if size > MAX_TOKENS:
            return
        _put(self._loose, loose, concept)
        if size > 1:
            first = loose.partition(" ")[0]
            if size > self._longest.get(first, 1):
                self._longest[first] = size

    def drop(self, concept: int, key: str, loose: str) -> None:
        if loose:
            _take(self._loose, loose, concept)
        else:
            _take(self._symbols, casefold(key), concept)

    def find(self, text: str, eligible: Callable[[int], bool]) -> list[int]:
        if not self._symbols:
            runs = _longest_first(tokens(text), self._loose, self._longest.get, eligible)
            return list(dict.fromkeys(concept for _, _, ids in runs for concept in ids))
        words: list[str] = []
        places: list[int] = []  # of each token: the number of its word between white space
        signs: list[str] = []
        sign_places: list[int] = []
        for place, chunk in enumerate(text.split()):
            inside = tokens(chunk)
            words += inside
            places += [place] * len(inside)
            if not inside:
                signs.append(casefold(chunk))
                sign_places.append(place)
        spans = [
            (places[start], places[stop - 1], ids)
            for start, stop, ids in _longest_first(words, self._loose, self._longest.get, eligible)
        ]
        covered = {place for first, last, _ in spans for place in range(first, last + 1)}
        for place, sign in zip(sign_places, signs, strict=True):
            ids = [c for c in _all(self._symbols.get(sign)) if eligible(c)]
            if ids and place not in covered:
                spans.append((place, place, ids))
        spans.sort(key=lambda span: span[0])
        return list(dict.fromkeys(concept for _, _, ids in spans for concept in ids))


def _longest_first(
    words: list[str],
    index: dict[str, int | tuple[int, ...]],
    longest: Callable[[str, int], int],
    eligible: Callable[[int], bool],
) -> list[tuple[int, int, list[int]]]:
    """Start, stop and ids of the longest known runs of words, from the left, no overlap."""
    spans = []
    at, n = 0, len(words)
    while at < n:
        size = min(longest(words[at], 1), n - at)
        while size:
            known = index.get(words[at] if size == 1 else " ".join(words[at : at + size]))
            ids = [concept for concept in _all(known) if eligible(concept)]
            if ids:
                spans.append((at, at + size, ids))
                break
            size -= 1
        at += size or 1
    return spans


class _Stems:
    """Names with equal stems, word by word.

    A Snowball stem costs 10 to 40 us in Python, so names wait in buckets, by what a stem keeps of
    its words, until one of their bucket is asked for.
    """

    def __init__(self, language: str) -> None:
        self._stemmer = Stemmer(language)
        self._prefix = language in ("english", "porter")  # a stem keeps the first letters
        self._waiting: dict[str, list[int]] = {}
        self._alike: dict[str, int | tuple[int, ...]] = {}

    def _bucket(self, loose: str) -> str:
        spaces = loose.count(" ")
        if not self._prefix:
            return str(spaces)
        first = loose.partition(" ")[0] if spaces else loose
        # of a first vowel only itself is sure (aed: a); dying, lying, tying become die, lie, tie
        if first[0] in "aeiouy":
            start = first[0]
        else:
            start = first[0] + "i" if first[1:] == "ying" else first[:2]
        return f"{start}{spaces}{loose[loose.rfind(' ') + 1]}"

    def _stems(self, loose: str) -> str:
        return " ".join(map(self._stemmer.stem, loose.split(" ")))

    def add(self, concept: int, loose: str) -> None:
        self._waiting.setdefault(self._bucket(loose), []).append(concept)

    def waits(self, loose: str) -> bool:
        return self._bucket(loose) in self._waiting

    def settle(self, loose: str, keys: Sequence[str | None]) -> None:
        bucket = self._bucket(loose)
        for concept in self._waiting.get(bucket, ()):
            key = keys[concept]
            if key is not None:
                _put(self._alike, self._stems(_loose_of_key(key)), concept)
        self._waiting.pop(bucket, None)  # last: a reader that sees it gone needs no lock

    def alike(self, loose: str) -> tuple[int, ...]:
        return _all(self._alike.get(self._stems(loose)))

    def drop(self, concept: int, loose: str) -> None:
        # an id that waits is left out when its bucket is settled, since its name is gone then
        if self._alike:
            _take(self._alike, self._stems(loose), concept)
