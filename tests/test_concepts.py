"""Names: their keys, extraction and the vocabulary, against slow twins."""

import threading
import time

import naive_concepts as naive
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastassoc.concepts import Vocabulary, extract, fold_name, loose_key, subject_keys
from fastassoc.errors import InvalidInput
from fastassoc.words import STOP_WORDS, Stemmer, casefold, tokens

ANY = st.text(st.characters(exclude_categories=()), max_size=12)
WORD = st.sampled_from([
    "timeout", "Timeouts", "retry", "retries", "dying", "die", "a", "aed", "x1", "ca\u0301fe",
    "Cafe", "C++", "c", "🙂", "->", "…", "...", "北京", "|", "日本", "does", "doe", "do", "doing",
    "sensible", "sensibility", "sensibly", "using", "use", "京", "日本北京", "北京retries", "ก็京",
])  # fmt: skip
NAME = st.lists(WORD, min_size=1, max_size=8).map(" ".join)


# few stems, so that texts and names meet often
STEMMY = st.lists(
    st.sampled_from(["Retry", "retries", "retried", "time-out", "time", "outs", "timing", "is"]),
    min_size=1, max_size=8,
).map(" ".join)  # fmt: skip


def everything(concept):
    return True


def found(vocabulary, text, eligible=everything):
    """Mentions as the twin gives them."""
    return [
        [list(ids), None if said is None else tokens(said)]
        for ids, said in vocabulary.find_in(text, eligible)
    ]


@given(ANY, st.sampled_from(["fold", "exact"]))
def test_fold_name_equals_the_twin(name, mode):
    try:
        expected = naive.fold_name(name, mode)
    except ValueError:
        with pytest.raises(InvalidInput):
            fold_name(name, mode)
    else:
        assert fold_name(name, mode) == expected


@given(st.text())
def test_loose_key_equals_the_twin(name):
    assert loose_key(name) == naive.loose_key(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "at least one character"),
        (" \n\t", "at least one character"),
        ("a\ud800b", r"lone surrogate '\\ud800' at character 1"),
        ("é" * 129, "258 bytes"),
        ("a" * 257, "257 bytes"),
        (7, r"found 7 \(int\), expected a str"),
        (None, "NoneType"),
        (b"x", "bytes"),
    ],
)
@pytest.mark.parametrize("mode", ["fold", "exact"])
def test_bad_names_say_what_was_found(name, message, mode):
    with pytest.raises(InvalidInput, match=message):
        fold_name(name, mode)


def test_l53_other_scripts_and_signs_stay_apart():
    names = [
        "北京",
        "東京",
        "مرحبا",
        "مرحبه",
        "🙂",
        "🙃",
        "a|b",
        "a b",
        "ab",
        'a"b',
        "a'b",
        "a\\b",
        "a\u200db",
    ]
    names += ["naïve", "naive", "C", "C++", "C#", "\x00", "\x01"]  # fmt: skip
    vocabulary = Vocabulary("fold", "english")
    ids = vocabulary.intern([fold_name(name) for name in names], names)
    assert ids.tolist() == list(range(len(names)))
    again = Vocabulary.from_arrow(vocabulary.to_arrow(), "fold", "english", len(names))
    assert [again.name(again.find(name)) for name in names] == names


def test_l54_case_variants_are_one():
    same = ["Straße", "STRASSE", " strasse ", "ｓｔｒａｓｓｅ"]
    assert len({fold_name(name) for name in same}) == 1
    assert fold_name("exponential\n\t backoff") == fold_name("Exponential Backoff")
    assert len({fold_name(name, "exact") for name in same}) == 4


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("Paris", ["Paris"]),
        ("Paris (Texas)", ["Paris"]),
        ("Paris, Texas", ["Paris, Texas", "Paris"]),
        ("Reading, Berkshire (town)", ["Reading, Berkshire", "Reading"]),
        ("(Texas)", ["(Texas)"]),
        (", Texas", [", Texas"]),
        ("f(x) rules", ["f(x) rules"]),
        ("odd)", ["odd)"]),
    ],
)
def test_subject_keys(title, keys):
    assert subject_keys(title) == keys


TEXTS = {
    "The Bank of England was founded by William Paterson's friends in 1694.": [
        "Bank of England", "William Paterson", "1694"],
    "J. R. R. Tolkien wrote The Lord of the Rings at the U.S. Embassy.": [
        "J. R. R. Tolkien", "Lord of the Rings", "U.S. Embassy"],
    "Hey Mel! Thanks. Great to see you. I'm with Caroline and Jon": [
        "Mel", "Caroline", "Jon"],
    "Caroline and I went. It's Caroline's. Don't! Will Ann come? May I?": ["Caroline", "Ann"],
    "She met Will Smith in May 2023. World War I ended; the US Navy won.": [
        "Will Smith", "May 2023", "World War I", "US Navy"],
    "Returns\n-------\nout : ndarray\n\nSee Also\n--------\nnumpy.linalg": [],
    "Jitter helps. More jitter, and NumPy's: LinAlgError; an iPhone, C++ and Node.js.": [
        "NumPy", "LinAlgError", "iPhone", "C++", "Node.js"],
    "Vincent van Gogh, Charles de Gaulle; École Normale, E\u0301cole. Москва 北京": [
        "Vincent van Gogh", "Charles de Gaulle", "École Normale", "École", "Москва"],
    "https://Example.com/Foo Bob@Example.org 3.1415 1,200 v1.234 12345 99% 1990s": ["1990s"],
    "1990 and 1991; 5,000": ["1990", "1991"],
    "NEVER USE THIS AT HOME. THE END": ["END"],
    "Trinidad and Tobago (PARIS). Paris": ["Trinidad", "Tobago", "PARIS"],
    "": [],
    "backoff of two seconds fixed the flaky call": [],
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_extraction(text):
    assert extract(text) == TEXTS[text]


@given(st.lists(
    st.sampled_from(["Zork", "Quux", "Blarg", "Vex", "of", "the", "and", "von", "zzz", "qqq", ".",
                     "Xy"]),
    max_size=25,
))  # fmt: skip
def test_extraction_equals_the_twin(words):
    # joining words stand between lower-case ones or names only, so that no end is trimmed
    text = " ".join(words).replace(" .", ".")
    assert extract(text) == naive.simple_names(text)


@given(
    st.text(),
    st.lists(st.sampled_from(["Ann", "of", " ", ". ", "\n", "’s", "1999", "É", "é", "-"])),
)
def test_extraction_is_pure_and_gives_good_names(text, pieces):
    text = text + "".join(pieces)
    found = extract(text)
    assert found == extract(text)
    keys = [fold_name(name) for name in found]
    assert len(set(keys)) == len(keys)
    assert all(len(key) >= 3 for key in keys)


@pytest.mark.parametrize(
    "piece", ["A", "A ", "A.", "aA", "A-", "a@", "x", " ", "1", "The ", "A and "]
)
def test_long_odd_texts_take_linear_time(piece):
    def steps(n):
        start = time.process_time()
        extract("Ann@b :// " + piece * n)
        subject_keys(piece * n + "(")
        return time.process_time() - start

    assert steps(100_000) < 2  # a quadratic scan of these takes minutes


def test_over_long_names_are_skipped():
    assert extract("met " + "X" * 257 + " today") == []
    assert extract("met " + " ".join(["Ann"] * 9) + " today") == []


@settings(deadline=None)
@given(
    st.lists(st.one_of(NAME.map(lambda n: ("add", n)), st.integers(0, 9).map(lambda i: ("drop", i)),
                       STEMMY.map(lambda n: ("add", n)), STEMMY.map(lambda n: ("ask", n)),
                       NAME.map(lambda n: ("ask", n)))),
    st.sampled_from(["fold", "exact"]), st.sampled_from(["english", "german", "french", "porter"]),
    st.booleans(),
)  # fmt: skip
def test_vocabulary_equals_the_twin(steps, mode, language, odd_only):
    fast, slow = Vocabulary(mode, language), naive.Vocabulary(mode, language, STOP_WORDS)

    def eligible(concept):
        return not odd_only or concept % 2 == 1

    for verb, value in [*steps, ("ask", "timeout retry 🙂 Café dying"), ("save", "")]:
        if verb == "add":
            key = fold_name(value, mode)
            assert fast.intern([key, key], [value, key]).tolist() == slow.intern(
                [key] * 2, [value] * 2
            )
        elif verb == "drop" and value < len(slow.names):
            fast.drop([value])
            slow.drop([value])
        elif verb == "ask":
            assert found(fast, value, eligible) == slow.find_in(value, eligible)
            assert fast.find(value) == slow.find(value)
            assert fast.variants_of(value) == slow.variants_of(value)
            for concept in range(len(slow.names)):
                assert fast.variants(concept) == slow.variants(concept)
        elif verb == "save":
            table = fast.to_arrow()
            fast = Vocabulary.from_arrow(table, mode, language, fast.n_ids)
            assert fast.to_arrow().equals(table)
        live = [i for i, name in enumerate(slow.names) if name]
        assert (len(fast), fast.n_ids) == (len(live), len(slow.names))
        assert [[fast.key(i), fast.name(i)] for i in live] == [slow.names[i] for i in live]
    assert [fast.find_key(slow.names[i][0]) for i in live] == live


ENDINGS = [
    "", "s", "es", "ed", "ing", "ingly", "ly", "y", "ies", "al", "ance", "er", "able", "ibly",
    "ment", "ism", "ate", "ity", "ous", "ive", "ize", "ation", "ful", "ness", "bility", "ogist",
    "eed", "ement", "isme", "ité", "ção", "heit", "en", "isch", "ости", "ый", "ají", "asjon",
]  # fmt: skip
LANGUAGES = ["english", "porter", "catalan", "czech", "dutch", "dutch_porter", "estonian",
             "french", "german", "hungarian", "italian", "romanian", "russian", "spanish",
             "swedish", "turkish"]  # fmt: skip


@given(
    st.lists(st.tuples(st.text("aeiouybdtlzsgncß", max_size=4),
                       st.lists(st.sampled_from(ENDINGS), max_size=3).map("".join)).map("".join),
             min_size=1, max_size=6),
    st.sampled_from(LANGUAGES), st.data(),
)  # fmt: skip
def test_words_wait_where_their_stems_look(words, language, data):
    words = [word for name in words for word in tokens(casefold(name))]
    stem = Stemmer(language).stem
    vocabulary = Vocabulary("fold", language)
    for n, word in enumerate(words):
        # asked in between or not, a word is found
        vocabulary.intern([word], [word])
        if data.draw(st.booleans()):
            known = sorted({vocabulary.find(w) for w in words[: n + 1] if stem(w) == stem(word)})
            assert vocabulary.variants_of(word) == [c for c in known if c != vocabulary.find(word)]
    if words:
        # the stem itself is a word that no name has, more often than not
        asked = stem(words[0])
        known = {vocabulary.find(w) for w in words if stem(w) == stem(asked)}
        assert set(vocabulary.variants_of(asked)) == known - {vocabulary.find(asked)}


def test_names_that_are_not_known_have_variants():
    vocabulary = Vocabulary("fold", "english")
    vocabulary.intern(
        ["timeout", "connection timeout", "->"], ["Timeout", "connection timeout", "->"]
    )
    assert vocabulary.variants_of("TIMEOUTS") == [0]
    assert vocabulary.variants_of("timeout") == []
    assert vocabulary.variants_of("Connected timeouts") == [1]
    assert vocabulary.variants_of("=>") == []
    with pytest.raises(InvalidInput, match="at least one character"):
        vocabulary.variants_of(" ")


def test_variants_in_a_text_are_told_as_written():
    vocabulary = Vocabulary("fold", "english")
    names = ["timeout", "connection timeout", "connections", "doe", "C"]
    vocabulary.intern(names, names)
    assert vocabulary.find_in("Why do the TimeOuts happen?", everything) == [((0,), "TimeOuts")]
    assert vocabulary.find_in("Does the (Connection-timeouts)?", everything) == [
        ((1,), "Connection-timeouts")
    ]
    # as long, the name itself; longer, the variant
    assert vocabulary.find_in("connections", everything) == [((2,), None)]
    assert vocabulary.find_in("connections timeout", everything) == [((1,), "connections timeout")]
    assert vocabulary.find_in("connections timeout", lambda c: c != 1) == [
        ((2,), None),
        ((0,), None),
    ]
    assert vocabulary.find_in("timeouts", lambda c: c > 0) == []
    assert vocabulary.find_in("cafe\u0301 time\u0301outs\u0301", everything) == [
        ((0,), "time\u0301outs\u0301")
    ]


@pytest.mark.parametrize("language", ["english", "german"])
def test_names_of_many_words_have_variants(language):
    vocabulary = Vocabulary("fold", language)
    names = ["one two three four five six seven", "one two three four five six seven eights",
             "one two three four five six sevens", "one two three four five six"]  # fmt: skip
    vocabulary.intern(names, names)
    assert vocabulary.variants(0) == [2]
    assert vocabulary.variants_of("one two three four five six seven eight") == [1]
    assert vocabulary.variants(3) == []
    vocabulary.drop([2])
    assert vocabulary.variants(0) == []
    vocabulary.intern(names[2:3], names[2:3])
    assert vocabulary.variants(0) == [4]


@pytest.mark.parametrize("language", ["english", "german", "french"])
def test_a_read_stems_few_of_many_names(language):
    names = [f"{a}{b}{c}{end}" for a in "bcdfghklmnprstvw" for b in "aeiou" for c in "bcdfglmnpr"
             for end in ("ns", "ted", "ring", " rings", " ring bells")]  # fmt: skip
    vocabulary = Vocabulary("fold", language)
    vocabulary.intern(names, names)
    vocabulary.find_in("the babs and rings of our bells fall deep into the sea", everything)
    assert len(vocabulary._mentions._words._stemmer._cache) < 800  # of 3,200 words


def test_what_is_remembered_of_texts_is_bounded(monkeypatch):
    monkeypatch.setattr("fastassoc.mentions.MAX_ASKED", 3)
    vocabulary = Vocabulary("fold", "english")
    for end in ("s", "ed", "ing"):
        for name in ("attack", "bread", "clock", "drain", "earth", "float"):
            vocabulary.intern([name + end], [name + end])
            both = vocabulary.variants_of(name)
            assert [vocabulary.name(c) for c in both if end in vocabulary.name(c)[-3:]]
            assert vocabulary.find_in(name, everything) == [(tuple(both), name)]
            words = vocabulary._mentions._words
            assert len(words._asked) <= 4
            assert len(words._settled) <= 4


def test_longest_match_up_to_six_tokens_without_overlap():
    vocabulary = Vocabulary("fold", "english")
    names = [
        "new york",
        "york",
        "new york city council",
        "a b c d e f",
        "a b c d e f g",
        "City-Council",
    ]
    vocabulary.intern([fold_name(n) for n in names], names)
    assert found(vocabulary, "New York City Council, York") == [[[2], None], [[1], None]]
    assert found(vocabulary, "new york city") == [[[0], None]]
    assert found(vocabulary, "a b c d e f g") == [[[3], None]]
    assert found(vocabulary, "New York City Council", lambda c: c != 2) == [
        [[0], None],
        [[5], None],
    ]


def test_dropped_ids_stay_gaps():
    vocabulary = Vocabulary("fold", "english")
    vocabulary.intern(["a", "b", "c"], ["A", "B", "C"])
    before = vocabulary.names()
    vocabulary.drop([1, 99])
    assert (vocabulary.find("b"), vocabulary.name(1), vocabulary.key(1)) == (None, "", "")
    assert before[1] == "B"
    assert vocabulary.names()[1] is None
    assert vocabulary.intern(["b"], ["b"]).tolist() == [3]
    with pytest.raises(KeyError, match="no concept has the id 4"):
        vocabulary.name(4)
    with pytest.raises(KeyError):
        vocabulary.name(-1)


@pytest.mark.parametrize(
    ("ids", "keys", "n_ids"),
    [([0, 1], ["a", "a"], 2), ([1, 0], ["a", "b"], 2), ([0, 2], ["a", "b"], 2), ([0], [None], 1)],
)
def test_a_broken_table_is_refused(ids, keys, n_ids):
    table = pa.table({"id": pa.array(ids, pa.uint32()), "key": keys, "shown": keys})
    with pytest.raises(InvalidInput, match="vocabulary"):
        Vocabulary.from_arrow(table, "fold", "english", n_ids)


def test_readers_while_a_writer_interns():
    vocabulary, wrong, done = Vocabulary("fold", "english"), [], threading.Event()

    def read():
        while not done.is_set():
            n = vocabulary.n_ids
            for concept in range(max(0, n - 20), n):
                name = vocabulary.name(concept)
                if vocabulary.find_in(f"the {name} x", everything) != [((concept,), None)]:
                    wrong.append(name)
                if not set(vocabulary.variants(concept)) <= {concept ^ 1}:
                    wrong.append(concept)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(300):
        names = [f"n{i} thing", f"n{i} things"]
        vocabulary.intern(names, names)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert vocabulary.variants(0) == [1]
