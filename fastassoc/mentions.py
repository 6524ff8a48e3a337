"""Names in a text: where it mentions a name of the vocabulary, or a variant of one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from fastassoc.scripts import JOINED, is_unspaced
from fastassoc.words import STOP_WORDS, Stemmer, casefold, spans, units

__all__ = ["MAX_TOKENS", "Mention", "Mentions"]

MAX_TOKENS: Final = 6  # the longest name, in tokens, that is found in a text
MAX_ASKED: Final = 1 << 16  # words of texts remembered with their answers

# How many of its last letters a stem may not have in common with its word, at most: what the
# suffix rules of these languages put in place of what they cut off. Other languages change the
# beginnings of words, too.
_CHANGED: Final = {
    "armenian": 0, "catalan": 1, "czech": 1, "danish": 0, "dutch_porter": 2, "estonian": 2,
    "french": 2, "german": 0, "hindi": 0, "hungarian": 1, "italian": 1, "lithuanian": 0,
    "nepali": 0, "norwegian": 0, "polish": 0, "porter": 2, "portuguese": 0, "romanian": 1,
    "russian": 0, "spanish": 1, "swedish": 0, "tamil": 2,
}  # fmt: skip
_umlauts = re.compile("([aou])e+").sub
# a folded name of up to 6 tokens that is its own looser key
_plain = re.compile(f"[a-z0-9]+(?: [a-z0-9]+){{0,{MAX_TOKENS - 1}}}").fullmatch


class Mention(NamedTuple):
    """A place of a text where the vocabulary has names.

    Attributes
    ----------
    concepts : tuple of int
        Ids, ascending.
    said : str or None
        None where the text has their name itself; else the words of the text, as written, that
        they are variants of.
    """

    concepts: tuple[int, ...]
    said: str | None


class Mentions:
    """Finds names by their looser keys, and by the stems of their words.

    A looser key is here the `units` of a name joined by spaces; "words" below are units. The 6
    tokens of a name count a run without spaces as one.

    Whoever calls `add` or `drop` holds `lock`; reads need none.
    """

    def __init__(self, language: str) -> None:
        self.lock = threading.Lock()
        self.upto = 0  # ids below it are in the index
        self._names: dict[str, int | tuple[int, ...]] = {}
        self._symbols: dict[str, int | tuple[int, ...]] = {}
        # beginnings of names that go on, within their first 6 tokens: what makes a walk stop early
        self._heads: set[str] = set()
        self._long: dict[str, list[str]] = {}  # first 6 tokens -> looser keys of more than 6
        self._words = _Words(language, self.lock)

    def extend(self, names: Sequence[str | None]) -> None:
        """Add the names of the ids from `upto` on by their folded keys, None where there is none.

        As `add` does it, but plain names all at once.
        """
        known = self._names
        plain: dict[str, int] = {}
        for concept, key in enumerate(names, self.upto):
            if key is None:
                continue
            if key not in known and _plain(key):
                plain[key] = concept
            else:
                self.add(concept, key)
        for key in [key for key in plain if key in known]:  # by an odd name meanwhile
            self.add(plain.pop(key), key)
        known.update(plain)
        self._words.extend(dict.fromkeys(" ".join(plain).split(" ")) if plain else ())
        heads = self._heads
        for key in plain:
            at = key.find(" ")
            while at >= 0:
                heads.add(key[:at])
                at = key.find(" ", at + 1)

    def add(self, concept: int, key: str) -> None:
        """Add a name by its folded key."""
        loose = _loose_of_key(key)
        if not loose:
            _put(self._symbols, casefold(key), concept)
            return
        if self._names.setdefault(loose, concept) != concept:
            _put(self._names, loose, concept)
            return  # its words are known
        words = loose.split(" ")
        seen, heads = self._words.seen, self._heads
        for word in words:
            if word not in seen:
                self._words.add(word)
        size = len(words)
        if size == 1:
            return
        cut = _cut(words)
        head = words[0]
        heads.add(head)
        for word in words[1 : size - 1 if cut == size else cut]:
            head = f"{head} {word}"
            heads.add(head)
        if cut < size:
            self._long.setdefault(head, []).append(loose)

    def drop(self, concept: int, key: str) -> None:
        """Take a name out. Its words stay: they lead to no name."""
        loose = _loose_of_key(key)
        if not loose:
            _take(self._symbols, casefold(key), concept)
            return
        _take(self._names, loose, concept)
        words = loose.split(" ")
        cut = _cut(words)
        if loose not in self._names and cut < len(words):
            head = " ".join(words[:cut])
            self._long[head] = [other for other in self._long.get(head, ()) if other != loose]

    def alike(self, key: str) -> list[int]:
        """Ids of all names whose words have the same stems as those of a folded key, ascending.

        Those with the same looser key are among them. A name without any letter or digit has none.
        """
        loose = _loose_of_key(key)
        if not loose:
            return []
        words = loose.split(" ")
        cut = _cut(words)
        levels = self._walk([self._words.alike(word) for word in words[:cut]], 0)
        if len(levels) < cut:
            return []
        keys = levels[-1]
        if cut < len(words):
            stem = self._words.stem
            rest = [stem(word) for word in words[cut:]]
            keys = [
                other
                for head in keys
                for other in self._long.get(head, ())
                if [stem(word) for word in other[len(head) + 1 :].split(" ")] == rest
            ]
        return sorted({concept for one in keys for concept in _all(self._names.get(one))})

    def stems(self, key: str) -> list[str]:
        """Stems of a folded key's words, as white space parts them."""
        return [self._words.stem(word) for word in casefold(key).split(" ")]

    def find(self, text: str, eligible: Callable[[int], bool]) -> list[Mention]:
        """Mentions of eligible names, in order; see `Vocabulary.find_in`."""
        words = units(text)
        runs = self._runs(words, eligible)
        places = spans(text) if any(said for _, _, _, said in runs) else []
        if not self._symbols:
            return [_mention(text, places, run) for run in runs]
        # a sign stands before the token of its number, a run at its first token
        found = [(run[0], 1, _mention(text, places, run)) for run in runs]
        inside = {at for start, stop, _, _ in runs for at in range(start + 1, stop)}
        before = 0
        for chunk in text.split():
            size = len(units(chunk))
            if not size and before not in inside:
                signs = _all(self._symbols.get(casefold(chunk)))
                ids = tuple(concept for concept in signs if eligible(concept))
                if ids:
                    found.append((before, 0, Mention(ids, None)))
            before += size
        found.sort(key=lambda one: one[:2])
        return [mention for _, _, mention in found]

    def _runs(self, words: list[str], eligible: Callable[[int], bool]) -> list[_Run]:
        """The longest known runs of words, from the left, no overlap."""
        stops, names, heads = self._words.stops, self._names, self._heads
        options = [(word,) if word in stops else self._words.alike(word) for word in words]
        runs: list[_Run] = []
        at = 0
        while at < len(words):
            option = options[at]
            word = option[0]
            known = len(option) > 1 or word[0] == JOINED or word in names or word in heads
            if not known:  # most words begin no name
                at += 1
                continue
            levels = self._walk(options, at)
            step = 1
            for size in range(len(levels), 0, -1):
                keys = [key for key in levels[size - 1] if key in names]
                if not keys:
                    continue
                own = words[at] if size == 1 else " ".join(words[at : at + size])
                own = own.removeprefix(JOINED)
                ids = [c for c in _all(names.get(own)) if eligible(c)]
                said = not ids
                if said:
                    others = {c for key in keys for c in _all(names.get(key))}
                    ids = sorted(c for c in others if eligible(c))
                if ids:
                    runs.append((at, at + size, tuple(ids), said))
                    step = size
                    break
            at += step
        return runs

    def _walk(self, options: Sequence[tuple[str, ...]], at: int) -> list[Sequence[str]]:
        """Looser keys that may be names, by their number of words, from options for each word.

        They begin at place `at` and have up to 6 tokens.
        """
        keys: Sequence[str] = options[at]
        if keys[0][0] == JOINED:
            keys = (keys[0][1:],)
        levels = [keys]
        heads = self._heads
        apart = 1
        for place in range(at + 1, len(options)):
            before = [key for key in keys if key in heads]
            if not before:
                break
            option = options[place]
            if option[0][0] != JOINED:
                apart += 1
                if apart > MAX_TOKENS:
                    break
            keys = [f"{head} {word}" for head in before for word in option]
            levels.append(keys)
        return levels


def _cut(words: Sequence[str]) -> int:
    """Where the units of the first 6 tokens end."""
    if len(words) <= MAX_TOKENS:
        return len(words)
    apart = 0
    for place, word in enumerate(words):
        apart += word[0] != JOINED
        if apart > MAX_TOKENS:
            return place
    return len(words)


_Run = tuple[int, int, tuple[int, ...], bool]  # first token, the one behind the last, ids, stems


def _mention(text: str, places: list[tuple[int, int]], run: _Run) -> Mention:
    start, stop, ids, said = run
    return Mention(ids, text[places[start][0] : places[stop - 1][1]] if said else None)


class _Words:
    """Words of names, by their stem.

    A Snowball stem costs 10 to 200 us in Python, so a word waits until a stem is asked for that
    may be its own: one that begins like it.
    """

    def __init__(self, language: str, lock: threading.Lock) -> None:
        self._stemmer = Stemmer(language)
        self.stem = self._stemmer.stem
        language = language.lower()
        self._english, self._german = language == "english", language == "german"
        self._changed = _CHANGED.get(language)
        self._whole = not self._english and self._changed is None  # words wait in one bucket
        self.stops: frozenset[str] = STOP_WORDS if self._english else frozenset()
        self._lock = lock
        self.seen: set[str] = set()
        # Each word either waits, by its first two letters, or has its place.
        self._waiting: dict[str, list[str]] = {}
        self._placed: dict[str, tuple[str, ...]] = {}
        self._settled: set[str] = set()  # beginnings of which no word waits
        self._asked: dict[str, tuple[str, ...]] = {}  # answers, until a word gets its place

    def extend(self, words: Collection[str]) -> None:
        """Add ASCII words, those that were not `seen`; the lock is held."""
        seen = self.seen
        seen.update([word for word in words if word[-1] <= "9"])  # digits, as in `add`
        self._asked = {}
        for word in words:
            if word not in seen:
                self.add(word)

    def add(self, word: str) -> None:
        """Add a word that was not `seen`; the lock is held."""
        self.seen.add(word)
        if is_unspaced(word):
            return  # such words have no variants
        if word[-1].isdigit():  # its own stem, so `seen` says all of it
            self._asked = {}
            return
        shape = self._shape(word)
        settled = self._settled
        begun = settled and any(shape[:n] in settled for n in range(len(shape) + 1))
        if begun:
            self._place(word)
        else:
            self._waiting.setdefault("" if self._whole else shape[:2], []).append(word)

    def alike(self, word: str) -> tuple[str, ...]:
        """Words of names with the stem of a word, and that word."""
        asked = self._asked  # taken first: an answer that is late goes where nobody looks
        found = asked.get(word)
        if found is not None:
            return found
        if is_unspaced(word):
            return (word,)
        stem = self.stem(word)
        if self._english and len(stem) == 1 and stem not in "aeiou":
            return (word,)  # endings are cut off behind a vowel only
        start = self._start(stem)
        if start not in self._settled:
            with self._lock:
                self._settle(start)
                asked = self._asked
        elif len(asked) >= MAX_ASKED:
            asked = self._asked = {}  # replaced, not cleared: a reader may be looking into it
        found = self._placed.get(stem, ())
        if stem[-1:].isdigit() and stem in self.seen:
            found = (stem, *found)
        found = asked[word] = found if word in found else (word, *found)
        return found

    def _shape(self, word: str) -> str:
        """A word as its stem begins: dying, lying, tying become die, lie, tie.

        In German ß becomes ss, and ae, oe, ue (written for umlauts) become a, o, u.
        """
        if self._english and word[1:] == "ying" and word[0] not in "aeiou":
            return word[0] + "ie"
        return _umlauts(r"\1", word.replace("ß", "ss")) if self._german else word

    def _start(self, stem: str) -> str:
        """What every word with a stem begins with, see `_shape`."""
        if self._english:
            # y -> i, -ing -> e, -ization -> ize, skies -> sky; -bility -> ble or bl
            if len(stem) <= 2:
                return stem
            if stem.endswith("ble"):
                return stem[:-2]
            return stem[:-1] if stem[-1] in "iey" or stem.endswith("bl") else stem
        if self._changed is None:
            return ""
        stem = self._shape(stem)
        return stem[: max(1, len(stem) - self._changed)]

    def _settle(self, start: str) -> None:
        """Give each waiting word with a beginning its place."""
        if len(start) >= 2:
            buckets = [start[:2]]
        else:
            buckets = [bucket for bucket in self._waiting if bucket.startswith(start)]
        for bucket in buckets:
            waiting = self._waiting.get(bucket, [])
            left = []
            for word in waiting:
                if self._shape(word).startswith(start):
                    self._place(word)
                else:
                    left.append(word)
            if len(left) < len(waiting):
                self._waiting[bucket] = left
        if len(self._settled) >= MAX_ASKED:
            self._settled, self._asked = set(), {}  # in this order
        self._settled.add(start)  # last: a reader that sees it needs no lock

    def _place(self, word: str) -> None:
        stem = self.stem(word)
        # always so; asked, since else an answer might depend on what was settled before
        if self._shape(word).startswith(self._start(stem)):
            self._placed[stem] = (*self._placed.get(stem, ()), word)
            self._asked = {}


def _loose_of_key(key: str) -> str:
    """The looser key of a stored key, quickly where the key is its own."""
    if key.isascii():
        low = key.lower()
        if low.isalnum():
            return low
        words = low.split(" ")
        if "".join(words).isalnum() and "" not in words:
            return low
    return " ".join(units(key))


def _put(index: dict[str, int | tuple[int, ...]], key: str, concept: int) -> None:
    """Add an id under a key. Values are replaced, never changed: a reader may hold them."""
    old = index.setdefault(key, concept)
    if old != concept:
        index[key] = tuple(sorted((*_all(old), concept)))


def _take(index: dict[str, int | tuple[int, ...]], key: str, concept: int) -> None:
    left = tuple(other for other in _all(index.get(key)) if other != concept)
    if left:
        index[key] = left
    else:
        index.pop(key, None)


def _all(value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if value is None else (value,) if isinstance(value, int) else value
