"""Slow twins of words, names in a text, and the vocabulary: plain loops, nothing of fastassoc."""

import re
import unicodedata
from itertools import pairwise

from snowballstemmer import stemmer


def fold_name(name, mode="fold"):
    if not isinstance(name, str):
        raise ValueError("no str")
    if any(0xD800 <= ord(char) < 0xE000 for char in name):
        raise ValueError("surrogate")
    if len(name.encode()) > 256 or not name.strip():
        raise ValueError("length")
    if mode == "exact":
        return name
    out = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    words, word = [], ""
    for char in out + " ":
        if char.isspace():
            words += [word] if word else []
            word = ""
        else:
            word += char
    return " ".join(words)


def own_sound(char):
    indic = 0x900 <= ord(char) < 0x1D00 or 0xA800 <= ord(char) < 0xAC00
    return indic and unicodedata.category(char) in ("Mn", "Mc") and not unicodedata.combining(char)


def fold(text):
    kept = [
        char
        for char in unicodedata.normalize("NFKD", text)
        if unicodedata.category(char)[0] != "M" or own_sound(char)
    ]
    return "".join(kept).casefold().replace("ı", "i")  # as its capital


SPACELESS = [
    (0xE00, 0xEFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F),
    (0x3005, 0x3007), (0x3021, 0x302F), (0x3038, 0x303C), (0x3041, 0x30FF), (0x31F0, 0x31FF),
    (0xFF66, 0xFF9D), (0xF900, 0xFAFF), (0x1AFF0, 0x1B16F),
]  # fmt: skip
IDEOGRAPHS = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x323AF)]


def among(char, blocks):
    return any(first <= ord(char) <= last for first, last in blocks)


def kind(char):
    """Of a character: whether it belongs to a run without spaces, to a word, or to none."""
    if among(char, IDEOGRAPHS):
        return "run"
    if not (char.isalnum() or own_sound(char)):
        return ""
    return "run" if among(char, SPACELESS) else "word"


def tokens(text):
    return [token for token, _ in kinds(text)]


def kinds(text):
    """Tokens, each with its kind."""
    out, token, before = [], "", ""
    for char in fold(text) + " ":
        if kind(char) != before and token:
            out.append((token, before))
            token = ""
        before = kind(char)
        token += char if before else ""
    return out


def units(text):
    """[unit, whether it stands behind another of its run]: tokens, runs by character."""
    out = []
    for token, its in kinds(text):
        if its == "word":
            out.append((token, False))
            continue
        chars = []
        for char in token:
            if chars and own_sound(char):
                chars[-1] += char
            else:
                chars.append(char)
        out += [(char, place > 0) for place, char in enumerate(chars)]
    return out


def loose_key(name):
    return " ".join(tokens(name))


class Vocabulary:
    """Names in a list of [key, shown] or None."""

    def __init__(self, mode, language, stops=()):
        self.mode, self.snowball, self.names = mode, stemmer(language), []
        self.known = {}  # stems, only to save time
        self.stops = stops if language == "english" else ()

    def intern(self, keys, shown):
        out = []
        for key, spelling in zip(keys, shown, strict=True):
            known = [i for i, name in enumerate(self.names) if name and name[0] == key]
            if not known:
                known = [len(self.names)]
                self.names.append([key, spelling])
            out.append(known[0])
        return out

    def find(self, name):
        key = fold_name(name, self.mode)
        for i, one in enumerate(self.names):
            if one and one[0] == key:
                return i
        return None

    def drop(self, ids):
        for i in ids:
            self.names[i] = None

    def stem(self, word):
        if word not in self.known:
            own = word[-1].isdigit() or len(word) > 64
            self.known[word] = word if own else self.snowball.stemWord(word)
        return self.known[word]

    def stems(self, words):
        return [self.stem(word) for word in words]

    def variants_of(self, name):
        key = fold_name(name, self.mode)
        return [
            i
            for i, one in enumerate(self.names)
            if one and tokens(key) and one[0] != key and self.endings_apart(one[0], key)
        ]

    def endings_apart(self, one, two):
        """Equal stems, word by word, signs and all."""
        words = (fold_name(name, "fold").split(" ") for name in (one, two))
        return self.stems(tokens(one)) == self.stems(tokens(two)) and (
            [self.stem(word) for word in next(words)] == [self.stem(word) for word in next(words)]
        )

    def variants(self, concept):
        own = self.names[concept]
        return self.variants_of(own[0]) if own else []

    def may_stand_for(self, said, word):
        return said == word or (said not in self.stops and self.stem(said) == self.stem(word))

    def find_in(self, text, eligible):
        """[ids, None or the tokens that they are variants of] in order."""
        live = [(i, one[0]) for i, one in enumerate(self.names) if one and eligible(i)]
        live = [(i, key, units(key)) for i, key in live if len(tokens(key)) <= 6]
        words = [(token, joined, place) for place, chunk in enumerate(text.split())
                 for token, joined in units(chunk)]  # fmt: skip
        hits, at = [], 0
        longest = max([len(name) for _, _, name in live], default=0)
        while at < len(words):
            for size in range(longest, 0, -1):
                run = [(token, joined) for token, joined, _ in words[at : at + size]]
                run[0] = (run[0][0], False)  # a name may begin within a run
                if len(run) < size:
                    continue
                ids = [i for i, _, name in live if name == run]
                said = None
                if not ids:
                    said = [token for token, _ in run]
                    for i, _, name in live:
                        if len(name) == size and all(
                            here[1] == there[1] and self.may_stand_for(here[0], there[0])
                            for here, there in zip(run, name, strict=True)
                        ):
                            ids.append(i)
                if ids:
                    hits.append((words[at][2], words[at + size - 1][2], ids, said))
                    at += size - 1
                    break
            at += 1
        taken = {place for first, last, _, _ in hits for place in range(first, last + 1)}
        for place, chunk in enumerate(text.split()):
            ids = [i for i, key, name in live if not name and fold_name(key) == fold_name(chunk)]
            if ids and place not in taken:
                hits.append((place, place, ids, None))
        return [[ids, said] for _, _, ids, said in sorted(hits, key=lambda hit: hit[0])]


JOINERS = {"of", "the", "and", "von"}


def simple_names(text):
    """Names of a text of plain words, full stops and spaces only, none of them a listed word."""
    out = []
    for sentence in re.split(r"\. ?", text):
        words = sentence.split(" ")
        capital = [i for i, word in enumerate(words) if word[:1].isupper()]
        runs = []
        for i in capital:
            between = words[runs[-1][-1] + 1 : i] if runs else []
            if runs and len(between) <= 2 and all(word in JOINERS for word in between):
                runs[-1].append(i)
            else:
                runs.append([i])
        for run in runs:
            name = words[run[0] : run[-1] + 1]
            if len(name) > 8:
                continue
            ands = [-1, *(i for i, word in enumerate(name) if word == "and"), len(name)]
            parts = [name[a + 1 : b] for a, b in pairwise(ands)]
            for part in parts:
                if len(parts) > 1:
                    while part and part[0] in JOINERS:
                        part.pop(0)
                    while part and part[-1] in JOINERS:
                        part.pop()
            out += [" ".join(part) for part in parts]
    seen, names = set(), []
    for name in out:
        if len(name) >= 3 and name.lower() not in seen:
            seen.add(name.lower())
            names.append(name)
    return names
