"""The cue layer: links from terms to notes, made by outcomes and by hand alone.

A term is a concept or a stem. Inside, a concept goes by ``2 * id``, a stem by ``2 * id + 1`` and a
note by ``row | NOTE``, so that each link is an ordinary pair of one `LinkMatrix`, the term first.
Outside of memory notes go by their sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastassoc.columns import places_in
from fastassoc.errors import InvalidInput
from fastassoc.links import LINKS_SCHEMA, Changed, LinkMatrix, Pairs
from fastassoc.settings import LinkRule
from fastassoc.words import STOP_WORDS, Stemmer, terms

__all__ = [
    "NOTE",
    "STEMS_SCHEMA",
    "CueView",
    "Cues",
    "Stems",
    "concept_codes",
    "is_stem",
    "one_stem",
    "stem_codes",
]

NOTE: Final = 1 << 31  # marks the code of a note; every code of a term is below it
STEMS_SCHEMA: Final = pa.schema([("stem", pa.string()), ("id", pa.uint32())])
Codes = NDArray[np.uint64]
Ids = Sequence[int] | NDArray[np.uint32]


def concept_codes(concepts: Ids) -> Codes:
    """Codes of concepts, uint64 [m]."""
    return np.asarray(concepts, np.uint64) * np.uint64(2)


def stem_codes(stems: Ids) -> Codes:
    """Codes of taught stems, uint64 [m]."""
    return np.asarray(stems, np.uint64) * np.uint64(2) + np.uint64(1)


def term_codes(concepts: Iterable[int], stems: Iterable[int]) -> Codes:
    """Codes of terms of both kinds, uint64 [m], ascending, each once; they are few."""
    codes = {2 * concept for concept in concepts}
    codes.update(2 * stem + 1 for stem in stems)
    return np.array(sorted(codes), np.uint64)


def is_stem(code: int) -> bool:
    """Whether the code of a term is that of a stem."""
    return bool(code & 1)


def note_codes(rows: Sequence[int] | NDArray[np.int64]) -> Codes:
    """Codes of notes, uint64 [m]."""
    return np.asarray(rows, np.uint64) | np.uint64(NOTE)


def crossed(codes: Codes, rows: Sequence[int]) -> Codes:
    """Keys of every pair of a term and a note, ascending."""
    return (np.sort(codes)[:, None] << np.uint64(32) | note_codes(sorted(rows))).ravel()


@lru_cache(maxsize=64)
def _stemmer(language: str) -> Stemmer:
    return Stemmer(language)


def one_stem(word: str, language: str) -> str | None:
    """The stem of a single content word; None for several, for a stop word and for none.

    Examples
    --------
    >>> one_stem("Deploying", "english"), one_stem("the", "english"), one_stem("a b", "english")
    ('deploy', None, None)
    """
    found = terms(word)
    stemmer = _stemmer(language)
    if len(found) != 1 or (stemmer.language.lower() == "english" and found[0] in STOP_WORDS):
        return None
    return stemmer.stem(found[0])


class Stems:
    """Taught stems to ids, by first appearance; ids are never used again.

    One thread at a time may change it; any number may read meanwhile.

    Examples
    --------
    >>> stems = Stems()
    >>> stems.intern(["deploi", "retri", "deploi"])
    [0, 1, 0]
    >>> stems.find("retri"), stems.name(0), len(stems)
    (1, 'deploi', 2)
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._names: list[str | None] = []  # append only; `drop` puts a changed copy in its place

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def n_ids(self) -> int:
        """Number of ids ever given."""
        return len(self._names)

    def intern(self, stems: Iterable[str]) -> list[int]:
        """Ids of stems, new ones added in order."""
        found = []
        for stem in stems:
            known = self._ids.get(stem)
            if known is None:
                known = len(self._names)
                self._names.append(stem)
                self._ids[stem] = known  # last, so that a reader that has it can name it
            found.append(known)
        return found

    def find(self, stem: str) -> int | None:
        """The id of a stem, None for one that nothing ever taught."""
        return self._ids.get(stem)

    def named(self, word: str, language: str) -> list[str]:
        """The known stems that a name can mean: the stem of a word, and a stem as it is.

        Examples
        --------
        >>> stems = Stems()
        >>> _ = stems.intern(["retri"])
        >>> stems.named("retries", "english"), stems.named("retri", "english")
        (['retri'], ['retri'])
        """
        stems = dict.fromkeys((one_stem(word, language), word))
        return [stem for stem in stems if stem is not None and stem in self._ids]

    def name(self, number: int) -> str:
        """The stem with an id, "" for one that was dropped."""
        return self._names[number] or ""

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget stems; their ids are never used again."""
        names = list(self._names)
        for number in numbers:
            stem = names[number]
            if stem is not None:
                names[number] = None
                del self._ids[stem]
        self._names = names

    def to_arrow(self) -> pa.Table:
        """Live stems by id, as STEMS_SCHEMA."""
        live = [(stem, number) for number, stem in enumerate(self._names) if stem is not None]
        columns = [[stem for stem, _ in live], [number for _, number in live]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, STEMS_SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=STEMS_SCHEMA)

    @classmethod
    def from_arrow(cls, table: pa.Table | None, n_ids: int) -> Stems:
        """The table that `to_arrow` gave, None for none.

        Raises
        ------
        InvalidInput
            Ids do not ascend or are not below `n_ids`, or a stem repeats or is null.
        """
        new = cls()
        new._names = [None] * n_ids
        rows = [] if table is None else table.to_pylist()
        last = -1
        for row in rows:
            stem, number = row["stem"], row["id"]
            if stem is None or number is None or not last < number < n_ids or stem in new._ids:
                raise InvalidInput(f"stems: expected distinct ones with ascending ids < {n_ids}.")
            new._names[number] = stem
            new._ids[stem] = last = number
        return new


@dataclass(frozen=True, slots=True)
class CueView:
    """The cue layer at one moment."""

    links: Pairs
    stems: Stems

    def holds(self, concept: int) -> bool:
        """Whether a cue link holds a concept."""
        return bool(len(self.links) and len(self.links.fans(concept_codes([concept])).keys))


class Cues:
    """Cue links with the stems that they join; one thread writes.

    Parameters
    ----------
    rule : LinkRule
    valence_rate : float

    Examples
    --------
    >>> from fastassoc.settings import Settings
    >>> cues = Cues(Settings().cue_links, 0.3)
    >>> codes = stem_codes(cues.stems.intern(["deploi"]))
    >>> cues.teach(codes, [4], 0.5, 1.0, at=0).created
    1
    >>> cues.forget([4]).removed, len(cues.links)
    (1, 0)
    """

    def __init__(self, rule: LinkRule, valence_rate: float) -> None:
        self.rule, self.valence_rate = rule, valence_rate
        self.links = LinkMatrix(rule, valence_rate)
        self.stems = Stems()

    def makes(self, amount: float) -> bool:
        """Whether an amount makes a link where there is none.

        A negative one does only where weights have no floor, or one below 0: a note that was rated
        wrong must be able to lose.
        """
        return amount > 0.0 or (amount < 0.0 and self.rule.bounds[0] < 0.0)

    def teach(
        self, codes: Codes, rows: Sequence[int], amount: float, outcome: float, at: int
    ) -> Changed:
        """Add an amount to the link of each of some terms with each of some notes.

        A NaN outcome leaves the valence.
        """
        if not len(codes) or not len(rows) or (amount == 0.0 and np.isnan(outcome)):
            return Changed(0, 0, 0)
        keys = crossed(codes, rows)
        amounts, outcomes = np.full(len(keys), amount), np.full(len(keys), outcome)
        return self.links.teach(keys, amounts, outcomes, at)

    def unlink(self, codes: Codes, rows: Sequence[int], at: int) -> Changed:
        """Set the links of terms with notes to the floor, 0 without one."""
        return self.links.unlink(crossed(codes, rows), at)

    def forget(self, rows: Sequence[int]) -> Changed:
        """Remove every link to notes that are no more."""
        if not len(self.links):
            return Changed(0, 0, 0)
        ends = note_codes(rows).astype(np.uint32)
        return self.links.erase(self.links.pairs().keys_to(ends))

    def view(self) -> CueView:
        """What a read works on."""
        return CueView(self.links.pairs(), self.stems)

    def held(self, n_concepts: int) -> NDArray[np.bool_]:
        """Which concept ids a link holds, bool [n_concepts]."""
        codes = self._codes()
        held = np.zeros(n_concepts, np.bool_)
        held[codes[codes % 2 == 0] // 2] = True
        return held

    def purge(self) -> None:
        """Drop the stems that no link holds."""
        codes = self._codes()
        held = set((codes[codes % 2 == 1] // 2).tolist())
        self.stems.drop(number for number in range(self.stems.n_ids) if number not in held)

    def _codes(self) -> NDArray[np.uint32]:
        codes: NDArray[np.uint32] = self.links.pairs().columns().a
        return codes

    # -- disk -------------------------------------------------------------------------------------

    def to_arrow(self, seqs: NDArray[np.int64]) -> pa.Table:
        """Links as `LINKS_SCHEMA`, but for ``b``: the note's sequence, int64."""
        table = self.links.to_arrow()
        rows = table.column("b").to_numpy() - np.uint32(NOTE)
        column = pa.field("b", pa.int64(), nullable=False)
        return table.set_column(1, column, pa.array(seqs[rows], pa.int64()))

    @classmethod
    def restored(
        cls,
        links: pa.Table | None,
        stems: pa.Table | None,
        seqs: NDArray[np.int64],
        rule: LinkRule,
        valence_rate: float,
        n_stems: int,
    ) -> Cues:
        """The layer that `to_arrow` and `Stems.to_arrow` gave; None is a table of nothing.

        Raises
        ------
        InvalidInput
            A link names a note or a stem that is not there, or is no link.
        """
        new = cls(rule, valence_rate)
        new.stems = Stems.from_arrow(stems, n_stems)
        if links is None or not links.num_rows:
            return new
        ends = links.column("b").to_numpy()
        rows, known = places_in(seqs, ends)
        if not known.all():
            raise InvalidInput("a cue link names a note that is not there.")
        codes = pa.array(note_codes(rows).astype(np.uint32))
        links = links.set_column(1, LINKS_SCHEMA.field("b"), codes)
        new.links = LinkMatrix.from_arrow(links, rule, valence_rate)
        odd = new._codes()
        if not all(new.stems.name(n) for n in np.unique(odd[odd % 2 == 1] // 2).tolist()):
            raise InvalidInput("a cue link names a stem that is not there.")
        return new
