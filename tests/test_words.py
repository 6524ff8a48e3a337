"""Folding, tokens and stems against their slow twins."""

import threading
from itertools import pairwise

import naive_concepts as naive
import naive_text
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastassoc.cutting import CHARACTERS, TEXTS, cut, pieces
from fastassoc.errors import InvalidInput
from fastassoc.scripts import JOINED
from fastassoc.words import (
    COMMON_WORDS,
    STARTERS,
    STOP_WORDS,
    Stemmer,
    casefold,
    fold,
    spans,
    terms,
    tokens,
    units,
    written_terms,
)


@given(st.text())
def test_fold_and_tokens_equal_the_twin(text):
    assert fold(text) == naive.fold(text)
    assert tokens(text) == naive.tokens(text)


ODD = st.text(st.one_of(st.characters(), st.sampled_from("aÉİΣς½\u0301 \u0903한東京。ガㇰ㌔กิ๑ံလ〇")))


@given(ODD)
def test_units_and_terms_equal_the_twin(text):
    assert tokens(text) == naive.tokens(text)
    assert units(text) == [JOINED * joined + unit for unit, joined in naive.units(text)]
    assert terms(text) == naive_text.tokens(text)
    words, capitals = written_terms(text)
    assert words == terms(text)
    assert len(capitals) == len(words)


@given(ODD)
def test_spans_are_where_the_units_stand(text):
    places, words = spans(text), [unit.removeprefix(JOINED) for unit in units(text)]
    assert len(places) == len(words)
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(places))
    for (start, stop), word in zip(places, words, strict=True):
        assert word.replace("ς", "σ") in fold(text[start:stop]).replace("ς", "σ")
        assert stop == len(text) or fold(text[stop])  # no mark is left behind


@given(st.text(st.characters(codec="utf-8")))
def test_casefold_is_stable(text):
    assert casefold(casefold(text)) == casefold(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Crème brûlée, 2nd!", ["creme", "brulee", "2nd"]),
        ("snake_case don't", ["snake", "case", "don", "t"]),
        ("北京 Москва", ["北京", "москва"]),
        ("हिन्दी में", ["हिनदी", "में"]),
        ("مُحَمَّد", ["محمد"]),
        ("❤️ 🙂 -> ++", []),
        ("", []),
    ],
)
def test_tokens_of_any_script(text, expected):
    assert tokens(text) == [fold(word) for word in expected]


def test_lists_are_folded_and_apart():
    for words in (STOP_WORDS, STARTERS, COMMON_WORDS):
        assert all(tokens(word) == [word] for word in words)
    assert not STOP_WORDS & STARTERS


def test_stems_and_their_bounds():
    stemmer = Stemmer("english", limit=2)
    assert [stemmer.stem(w) for w in ("timeouts", "retries", "caching", "timeouts")] == [
        "timeout",
        "retri",
        "cach",
        "timeout",
    ]
    assert len(stemmer._cache) <= 2
    assert stemmer.stem("s" * 65) == "s" * 65
    assert stemmer.stem("x86") == "x86"
    assert Stemmer("dutch_porter").stem("huizen") == "huiz"


@pytest.mark.parametrize("language", ["klingon", "", "../english", None, "English stemmer"])
def test_unknown_language_names_the_known(language):
    with pytest.raises(InvalidInput, match="expected one of arabic"):
        Stemmer(language)


def test_stems_in_many_threads():
    words = [f"{a}{b}{end}" for a in "bcdfg" for b in "aeiou" for end in ("ning", "ts", "red")]
    stemmer, right = Stemmer("english"), {w: Stemmer("english").stem(w) for w in words}
    wrong = []

    def work():
        wrong.extend(w for w in words * 5 if stemmer.stem(w) != right[w])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def words_of(found):
    """The words of each text of a cut, with their marks."""
    return [
        [(found.words[number], mark) for number, mark in zip(
            found.numbers[a:b].tolist(), found.capitals[a:b].tolist(), strict=True
        )]
        for a, b in pairwise(found.ptr.tolist())
    ]  # fmt: skip


ASCII = st.text(st.one_of(st.characters(codec="ascii"), st.sampled_from("aAb_ 0\x00\x7f")))


@given(st.lists(ASCII, max_size=40))
def test_texts_cut_at_once_equal_the_twin(texts):
    assert words_of(cut(texts, None)) == naive_text.cut(texts)


@given(st.lists(st.one_of(ASCII, ODD), max_size=40))
def test_texts_of_any_script_are_cut_as_one_by_one(texts):
    found = cut(texts, written_terms)
    assert words_of(found) == [list(zip(*written_terms(text), strict=True)) for text in texts]
    assert len(set(found.words)) == len(found.words)


def test_words_of_one_hash_are_told_apart():
    """Nearly every place of the table is taken, and words are long, equal but for one character."""
    texts = [f"{'x' * 200}{number}{'y' * 200}" for number in range(3000)]
    found = cut(texts * 2, None)
    assert found.words == texts
    assert found.numbers.tolist() == [*range(3000)] * 2


def test_pieces_hold_so_many_texts_or_characters():
    long = "a" * (CHARACTERS - 1)
    texts = ["b", long, "cc", "d", *["e"] * (TEXTS + 1)]
    found = list(pieces(texts))
    assert [text for piece in found for text in piece] == texts
    assert [len(piece) for piece in found] == [2, TEXTS, 3]
    assert not list(pieces([]))
