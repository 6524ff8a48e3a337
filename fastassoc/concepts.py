"""Concept names: their keys, and the vocabulary of a memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.errors import InvalidInput
from fastassoc.extract import MAX_NAME_BYTES, extract
from fastassoc.mentions import Mention, Mentions
from fastassoc.words import casefold, tokens

__all__ = [
    "VOCABULARY_SCHEMA",
    "Mention",
    "Vocabulary",
    "extract",
    "fold_name",
    "loose_key",
    "subject_keys",
]

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
    >>> vocabulary.find_in("A timeout, or timeouting?", lambda concept: True)
    [Mention(concepts=(0,), said=None), Mention(concepts=(0, 1), said='timeouting')]
    """

    def __init__(self, mode: str, language: str) -> None:
        if mode not in ("fold", "exact"):
            raise InvalidInput(f"mode: found {mode!r}, expected 'fold' or 'exact'.")
        self._mode = mode
        self._ids: dict[str, int] = {}
        # Append only: a reader may hold them. `drop` puts changed copies in their place.
        self._keys: list[str | None] = []
        self._shown: list[str | None] = []
        self._mentions = Mentions(language)

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
        ids = self._ids
        found = np.fromiter(map(ids.get, keys, repeat(-1)), np.int64, len(keys))
        missing = np.flatnonzero(found < 0)
        if len(missing):
            asked = list(map(keys.__getitem__, missing.tolist()))
            names = list(dict.fromkeys(asked))
            first, after = len(self._keys), len(self._keys) + len(names)
            if shown is keys:
                self._shown += names
            else:  # of repeats the first stays
                spelled = dict(
                    zip(asked[::-1], map(shown.__getitem__, missing[::-1].tolist()), strict=True)
                )
                self._shown += [k if k == spelled[k] else spelled[k] for k in names]
            self._keys += names
            # ids are published last, so that a reader that has one can name it
            ids.update(zip(names, range(first, after), strict=True))
            once = len(names) == len(asked)
            found[missing] = np.arange(first, after) if once else [ids[key] for key in asked]
        return found.astype(np.uint32)

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

    def keys(self) -> Sequence[str | None]:
        """Folded names by id, as `names` gives the first spellings."""
        return self._keys

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
        return [] if key is None else self._variants(key, concept)

    def variants_of(self, name: str) -> list[int]:
        """The `variants` of a name, be it known or not: ids, its own left out, ascending.

        Raises
        ------
        InvalidInput
            As `fold_name`.

        Examples
        --------
        >>> vocabulary = Vocabulary("fold", "english")
        >>> vocabulary.intern(["timeout"], ["timeout"])
        array([0], dtype=uint32)
        >>> vocabulary.variants_of("Timeouts"), vocabulary.variants_of("timeout")
        ([0], [])
        """
        key = fold_name(name, self._mode)
        return self._variants(key, self._ids.get(key))

    def _variants(self, key: str, own: int | None) -> list[int]:
        self._catch_up()
        stems = self._mentions.stems
        # what is alike in a text, such as "a|b" and "a b", is not one name with other endings
        own_stems = stems(key)
        found = ((other, self._keys[other]) for other in self._mentions.alike(key) if other != own)
        return [other for other, held in found if held and stems(held) == own_stems]

    def find_in(self, text: str, eligible: Callable[[int], bool]) -> list[Mention]:
        """Where a text mentions concepts, by their names or by variants of them.

        At each token the longest run of up to 6 tokens is taken that is the name of an eligible
        concept (by its `loose_key`), or has the stems of one, word by word; of equally long ones
        the name itself. The search goes on behind it. All names of one run are found. English stop
        words have no variants here: "does" is no "doe". Names without any letter or digit are
        found as whole words between white space. In scripts that write no spaces a name is found
        anywhere in a run, by its characters: the run counts as one token, the longest name has the
        most characters, and such names have no variants.

        Parameters
        ----------
        text : str
            Any text, such as a question.
        eligible : callable
            Says of an id whether it may be found.

        Returns
        -------
        list of Mention
            In order of appearance: ids, and the words of the text where they are variants only.
        """
        self._catch_up()
        return self._mentions.find(text, eligible)

    def drop(self, concepts: Iterable[int]) -> None:
        """Forget names; their ids are never used again. Unknown ids are skipped."""
        with self._mentions.lock:
            keys, shown = list(self._keys), list(self._shown)
            for concept in concepts:
                number = int(concept)
                key = keys[number] if 0 <= number < len(keys) else None
                if key is not None:
                    keys[number] = shown[number] = None
                    del self._ids[key]
                    if number < self._mentions.upto:
                        self._mentions.drop(number, key)
            self._keys, self._shown = keys, shown

    def _catch_up(self) -> None:
        mentions = self._mentions
        if mentions.upto < len(self._keys):
            with mentions.lock:
                names = self._keys[mentions.upto :]
                mentions.extend(names)
                mentions.upto += len(names)

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
        if any(column.null_count for column in table.columns):
            raise InvalidInput("vocabulary: found a null, expected an id, a key and a spelling.")
        new = cls(mode, language)
        order = table.column("id").to_numpy()
        if len(order) and (order[-1] >= n_ids or (order[1:] <= order[:-1]).any()):
            raise InvalidInput(f"vocabulary: expected ascending ids below {n_ids}.")
        ids = cast(list[int], order.tolist())
        keys = cast(list[str], table.column("key").to_pylist())
        new._ids = dict(zip(keys, ids, strict=True))
        if len(new._ids) != len(keys):
            raise InvalidInput("vocabulary: found a key twice, expected distinct keys.")
        shown = keys  # one object for both where they are equal
        if not table.column("key").equals(table.column("shown")):
            spelled = cast(list[str], table.column("shown").to_pylist())
            shown = [k if k == s else s for k, s in zip(keys, spelled, strict=True)]
        if len(ids) == n_ids:
            new._keys, new._shown = list[str | None](keys), list[str | None](shown)
        else:
            new._keys, new._shown = [None] * n_ids, [None] * n_ids
            for concept, key, spelling in zip(ids, keys, shown, strict=True):
                new._keys[concept], new._shown[concept] = key, spelling
        return new
