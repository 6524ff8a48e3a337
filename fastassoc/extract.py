"""Names in a text: what a note's concepts are when the caller gives none."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from fastassoc.words import COMMON_WORDS, STARTERS, STOP_WORDS, casefold, word_set

__all__ = ["MAX_NAME_BYTES", "extract"]

MAX_NAME_BYTES: Final = 256
MAX_WORDS: Final = 8  # a longer run of capitalised words is a headline, not a name


def _upper_class() -> str:
    ranges = ((0x41, 0x2000), (0x2C00, 0x2E00), (0xA640, 0xA800), (0xFF21, 0xFF3B))
    chars = (chr(code) for start, stop in ranges for code in range(start, stop))
    return "".join(char for char in chars if char.isupper() or char.istitle())


_U = f"[{_upper_class()}]"
_WORD = r"[\w\u0300-\u036f]"  # a combining mark may follow its letter
_TITLES = (
    "Adm Bros Capt Col Dr Ft Gen Gov Hon Jr Lt Maj Mr Mrs Ms Mt Prof Rep Rev Sen Sgt Sr St Ste"
)
_BREAK = r"[ \t\xa0]"
_JOINERS = "of|the|and|de|del|della|der|den|des|di|da|dos|du|la|le|el|al|von|van|zu|zur"
_JOINERS += "|bin|ibn|y|e|et|und|af|av"
_ITEM = (
    rf"(?:(?:{_TITLES.replace(' ', '|')})\.(?={_BREAK}*{_U})"  # Dr. St.
    rf"|(?:{_U}\.){{2,}}"  # U.S. J.R.R.
    rf"|{_U}\.(?={_BREAK}{{0,2}}{_U})"  # J. Smith
    rf"|(?:[a-z]{{1,2}}|mac|watch)?{_U}{_WORD}*"  # Word, iPhone
    rf"(?:['’&\-\u2010\u2011]{_WORD}+|\.[a-z]{_WORD}*)*(?:\+\+?|\#)?"  # O'Neil, Node.js, C++
    r"|(?<![0-9][.,:])[0-9]{3,4}s?(?![\w%]|[.,:][0-9]))"  # 1984, 1990s
)
_SPACE = rf"(?:{_BREAK}{{1,3}}|(?<=\.))"
_find_spans = re.compile(
    rf"(?<![^\W_])(?<![^\W_][_.])(?<![\\$£€]){_ITEM}"
    # I, V and X before a full stop are numerals here (World War I. Then ...)
    rf"(?:{_SPACE}(?:(?:{_JOINERS}|&){_BREAK}{{1,3}}){{0,2}}(?![IVX]\.{_BREAK}){_ITEM})*"
).finditer
_drop_links = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]{0,20}://\S+|[^\s@]{1,64}@[^\s@]{2,}").sub
_owner = re.compile(r"['’](?:s|S|ll|d|re|ve|m)?\Z")
_names_like_common = word_set(
    """
    alfred ahmed mohammed muhammad manfred wilfred mildred hamed khaled waleed saeed ethelred italy
    july emily sally billy kelly molly holly polly dolly willy beverly sicily beijing nanjing
    chongqing sterling stirling boeing kipling irving harding fleming browning golding keating
    pershing clement constable
    """
)
_common_ending = re.compile(
    r".{2,}(?:ly|ing|ed|tions?|ness|ments?|able|ible|ful|ous|i[sz]es?|ifi?es|ates)\Z"
).match
_kept_capitals = frozenset({"US", "WHO"})  # stop words, but not in capitals
_contracted = frozenset({"", "s", "ll", "d", "re", "ve", "m"})
_joiners = frozenset(_JOINERS.split("|"))
_kept_inside = frozenset({"may", "will"})  # stop words, but names where no sentence starts


def extract(text: str) -> list[str]:
    """Names in a text, by a pure function of that text alone.

    A name is a run of capitalised words, initials and numbers of 3 or 4 digits on one line, with
    up to two small joining words (of, the, and, de, von ...) between two of them. Stop words and
    articles at its ends are dropped, and so is a possessive ending. A common word that opens a
    sentence alone is no name, nor is one that the text also writes in lower case. What "and"
    joins is taken apart, since it may be two names. Names under 3 characters, over 8 words or
    over 256 bytes are skipped, and so are web and mail addresses.

    Returns
    -------
    list of str
        Spellings in order of first appearance, distinct by `fold_name`.

    Examples
    --------
    >>> extract("The Bank of England was founded by William Paterson's friends in 1694.")
    ['Bank of England', 'William Paterson', '1694']
    >>> extract("However, it failed. Retries of the call did not help.")
    ['Retries']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "@" in text or "://" in text:
        text = _drop_links(" ", text)
    found: dict[str, str] = {}
    for match in _find_spans(text):
        words = match.group().split()
        for name in _names(text, match.start(), words):
            key = name.lower() if name.isascii() else casefold(name)
            if len(key) >= 3 and key not in found and len(name.encode()) <= MAX_NAME_BYTES:
                found[key] = name
    return list(found.values())


def _names(text: str, start: int, words: list[str]) -> list[str]:
    """The names in one span of words."""
    opens: bool | None = None
    if len(words) == 1:
        low = words[0].lower()
        if low in STOP_WORDS or low in STARTERS:
            opens = low not in _kept_inside or _opens_sentence(text, start)
            if opens and words[0] not in _kept_capitals:
                return []
        elif _may_be_common(text, words[0], low) and _opens_sentence(text, start):
            return []
    first, last = 0, len(words)
    if last > 1 and words[1] == "the" and words[0].lower() in COMMON_WORDS:
        first = 2 if _opens_sentence(text, start) else 0  # Join the United Nations
    while first < last and _drops(words[first]):
        if words[first].lower() in _kept_inside:
            if opens is None:
                opens = first == 0 and _opens_sentence(text, start)
            number = first + 1 < last and words[first + 1][0].isdigit()
            if not opens or (number and words[first] == "May"):
                break
        first += 1
    while last > first + 1 and _drops(words[last - 1]):
        short = len(words[last - 1]) == 1 or words[last - 1].lower() in _kept_inside
        if short and words[last - 2] not in _joiners:
            break  # Plan A, World War I; but not "Ann and I"
        last -= 1
    words = words[first:last]
    if not 0 < len(words) <= MAX_WORDS:
        return []
    if len(words) >= 4 and " ".join(words).isupper():
        return []  # shouting
    return [_spelling(part) for part in (_parts(words) if "and" in words else [words])]


def _parts(words: list[str]) -> list[list[str]]:
    """The runs between the joining words "and", without joining words at their ends."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "and":
            parts.append([])
        else:
            parts[-1].append(word)
    for part in parts:
        while part and part[0] in _joiners:
            del part[0]
        while part and part[-1] in _joiners:
            del part[-1]
    return [part for part in parts if part]


def _spelling(words: list[str]) -> str:
    name = _owner.sub("", " ".join(words)).rstrip("_")
    if name.endswith(".") and name.count(".") < 2 + name.count(". "):
        return name[:-1]  # a full stop, not an acronym's
    return name


def _drops(word: str) -> bool:
    """Whether a word cannot stand at either end of a name."""
    low = word.lower()
    if low in STOP_WORDS or low in STARTERS:
        return word not in _kept_capitals and (len(word) > 1 or low in "ai")
    head, mark, tail = low.replace("’", "'").partition("'")
    if not mark:
        return False
    if tail == "t":
        return True
    # I'm, That's; but O'Brien and D'Arc are names although o and d are stop words
    return tail in _contracted and (head in STOP_WORDS or head in STARTERS)


def _may_be_common(text: str, word: str, low: str) -> bool:
    """Whether a word that opens a sentence alone is a common one."""
    word, low = _owner.sub("", word), _owner.sub("", low)
    if low in COMMON_WORDS:
        return True
    if not word[1:].islower() or word[0].islower():
        return False  # an inner capital or a digit makes a name; islower ignores hyphens
    if "-" in word or (low not in _names_like_common and _common_ending(low)):
        return True
    at = text.find(low)
    while at >= 0:
        end = at + len(low)
        if not (at and text[at - 1].isalnum()) and not text[end : end + 1].isalnum():
            return True
        at = text.find(low, end)
    return False


_beside_sentences = " \t\xa0\"'“”‘’«»()[]{}*_#>~-–—•"


def _opens_sentence(text: str, start: int) -> bool:
    """Whether nothing but opening marks stands between a place and a sentence's or line's end."""
    at = start - 1
    while at >= 0 and text[at] in _beside_sentences:
        at -= 1
    if at < 0 or text[at] in "\n\r!?…:;。！？":
        return True
    if text[at] != ".":
        return False
    # the full stop of an initial ends no sentence, unless it is a numeral's
    return at < 2 or text[at - 2].isalnum() or not text[at - 1].isupper()
