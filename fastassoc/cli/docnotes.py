"""Documentation as notes: which concepts a symbol carries, and which relations were withheld.

Two notes should be linked when they share something that few others have. So the concepts of a
note are the symbols that it mentions, the words and the two-word phrases of its name and first
paragraphs, but only those that at least two and at most `MOST` notes have, and of these the
`KEPT` most telling. Names that every other note holds ("array", "returns") link nothing. Both
numbers were chosen with the figures of `fastassoc.cli.demomeasure` in view.

The notes of one module or class are a session, so that neighbours by name are linked, too.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from fastassoc.cli.corpus import Corpus, Symbol
from fastassoc.cli.doctext import mentions, summary, words

__all__ = ["Names", "notes", "relations"]

MOST = 20  # notes that share a concept; more common ones tell nothing apart
KEPT = 8  # concepts of a note, besides its names
LEAD = 3  # paragraphs that words are taken from
STOP_WORDS = """
a about above after all also an and any are as at be been before being below between both but by
can default do does during each either else even for from given gives had has have how if in into
is it its itself may more most must new no non none not of off on one only or other otherwise out
over part return returned returns same see set should so some such than that the their them then
there these they this those to true two up use used uses using value values was we were what when
where whether which while who will with without would you your
"""
STOP = frozenset(STOP_WORDS.split())


class Names:
    """Finds the symbol that a name in someone's documentation means."""

    def __init__(self, symbols: list[Symbol]) -> None:
        self._full: dict[str, str] = {}
        tails: dict[tuple[str, str], set[str]] = defaultdict(set)
        for one in symbols:
            tails[one.package, one.name.rpartition(".")[2]].add(one.name)
            self._full[one.name] = one.name
        for one in symbols:
            for alias in one.aliases:
                self._full.setdefault(alias, one.name)
        self._only = {key: min(names) for key, names in tails.items() if len(names) == 1}

    def find(self, name: str, near: Symbol) -> str | None:
        """The symbol's name: as written, seen from the class and modules around `near`, or unique.

        Parameters
        ----------
        name : str
            As written.
        near : Symbol
            In whose documentation it stands.
        """
        place = near.name
        while True:
            found = self._full.get(f"{place}.{name}")
            if found is not None:
                return found
            if "." not in place:
                break
            place = place.rpartition(".")[0]
        found = self._full.get(name) or self._full.get(f"builtins.{name}")
        return found or self._only.get((near.package, name.rpartition(".")[2]))


def relations(corpus: Corpus, names: Names) -> dict[str, list[str]]:
    """The withheld "See Also" relations: symbol to symbols, where both are notes."""
    found = {}
    for one in corpus.symbols:
        others = {names.find(name, one) for name in one.see} - {None, one.name}
        if others:
            found[one.name] = sorted(other for other in others if other)
    return found


def notes(corpus: Corpus, names: Names) -> list[dict[str, Any]]:
    """Rows for `ingest`, in order of name."""
    stems = Stems()
    weighed = [_candidates(one, names, stems) for one in corpus.symbols]
    shared = Counter(key for counts in weighed for key in counts)
    common = {key for key, count in shared.items() if count > MOST}
    total = len(weighed)
    rows = []
    for one, counts in zip(corpus.symbols, weighed, strict=True):
        telling = sorted(
            (-n / (n + 1.0) * math.log(total / shared[key]), key)
            for key, n in counts.items()
            if 2 <= shared[key] <= MOST
        )
        row = {
            "id": one.name,
            "text": one.text,
            "subjects": _subjects(one, stems, common),
            "concepts": [_label(stems.shown(key), stems, common) for _, key in telling[:KEPT]],
            "domain": one.package,
            "session": one.place or one.name,
            "metadata": {"kind": one.kind},
        }
        rows.append(row)
    return rows


def _subjects(one: Symbol, stems: Stems, common: set[str]) -> list[str]:
    """What the note is called."""
    name = one.name if one.kind == "topic" else _label(one.name, stems, common)
    return list(dict.fromkeys([name, one.short if "." in one.name else name]))


def _label(name: str, stems: Stems, common: set[str]) -> str:
    """The name; a module named by an everyday word, such as ``string``, says that it is one."""
    return f"module {name}" if stems.of(name) in common else name


def _candidates(one: Symbol, names: Names, stems: Stems) -> Counter[str]:
    """What the note could be linked by, and how much it says it."""
    counts: Counter[str] = Counter()
    for key in _phrases(one.name.rpartition(".")[2].replace("_", " "), stems):
        counts[key] += 2
    for key in _phrases(summary(one.prose), stems):
        counts[key] += 2
    for paragraph in one.prose.split("\n\n")[1:LEAD]:
        counts.update(_phrases(paragraph, stems))
    for name in mentions(one.prose):
        other = names.find(name, one)
        if other is not None and other != one.name:
            counts[stems.keep(f"@{other}", other)] += 2
    if "." in one.name:
        counts[stems.keep(f"@{one.place}", one.place)] += 3
    return counts


def _phrases(text: str, stems: Stems) -> Iterator[str]:
    """Words and pairs of neighbours, none of them a stop word, no sign between them."""
    for run in re.split(r"[^\w\s'-]|\n\s*\n|\s{3,}", text):
        held = words(run)
        for place, word in enumerate(held):
            if word in STOP:
                continue
            if len(word) > 3:
                yield stems.keep(stems.of(word), word)
            after = held[place + 1] if place + 1 < len(held) else "the"
            if after not in STOP:
                yield stems.keep(f"{stems.of(word)} {stems.of(after)}", f"{word} {after}")


class Stems:
    """Words by their stem, shown as they are mostly written."""

    def __init__(self) -> None:
        from snowballstemmer import stemmer

        self._stem = stemmer("english").stemWord
        self._known: dict[str, str] = {}
        self._written: dict[str, Counter[str]] = defaultdict(Counter)

    def of(self, word: str) -> str:
        """The stem of a word in lower case."""
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = str(self._stem(word))
        return found

    def keep(self, key: str, written: str) -> str:
        """Note how something was written; gives the key back."""
        self._written[key][written] += 1
        return key

    def shown(self, key: str) -> str:
        """The most frequent way of writing it, the first by the alphabet where several are."""
        return min(self._written[key].items(), key=lambda one: (-one[1], one[0]))[0]
