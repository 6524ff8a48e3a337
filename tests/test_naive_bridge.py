"""The slow twin of the default read against small cases worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from naive_bridge import CONSTANTS, Answer, Note, Question, Store, read

EVEN = {"bm25_b": 0.0, "zeros": False}  # every holder of a word once has the weight idf


def idf(n: int, df: int) -> float:
    return math.log(1 + (n - df + 0.5) / (df + 0.5))


def sums_up(answer: Answer) -> None:
    for i, score in answer.scores.items():
        assert math.isclose(sum(answer.parts[i].values()), score, abs_tol=1e-12)
    order = sorted(answer.scores, key=lambda i: (-answer.scores[i], i))
    assert answer.order == order


def test_nothing_asked_and_nothing_there() -> None:
    assert read(Store([]), Question(["a"], ["b"], [1.0])).scores == {}
    answer = read(Store([Note({"a"}), Note(stems={"b": 1})]), Question())
    assert answer.scores == {0: 0.0, 1: 0.0}
    assert (answer.pin, answer.seeds, answer.gate, answer.picks) == (None, [], 0.0, [])
    with pytest.raises(KeyError, match="bridge_seds"):
        read(Store([]), Question(), {"bridge_seds": 5})


def test_flat_and_subjects() -> None:
    notes = [
        Note({"x"}, {"x"}, {"red": 1, "fox": 1}, vector=[1, 0]),
        Note({"y"}, {"y"}, {"red": 1, "hen": 1}, vector=[3, 4]),
        Note(stems={"fog": 2}, vector=[-1, 0]),
        Note(stems={"red": 1, "cow": 1}, vector=[2, 0], allowed=False),
    ]
    answer = read(Store(notes), Question(["y"], ["hen", "red", "elk"], [1, 0]), {"pin": False})
    red, hen = idf(4, 3), idf(4, 1)  # filters change no idf; the unknown word no maximum
    parts = answer.parts
    assert [parts[i]["vector"] for i in range(3)] == pytest.approx([0.5, 0.3, 0.0])
    assert [parts[i]["text"] for i in range(3)] == pytest.approx([0.5 * red / (red + hen), 0.5, 0])
    assert [parts[i]["subject"] for i in range(3)] == [0.0, 0.4, 0.0]
    assert answer.order == [1, 0, 2]
    assert set(answer.scores) == {0, 1, 2}
    sums_up(answer)


def test_bm25_of_lengths() -> None:
    notes = [Note(stems={"a": 2}, length=6), Note(stems={"a": 1}, length=2)]
    text = {i: part["text"] for i, part in read(Store(notes), Question(stems=["a"])).parts.items()}
    first, second = 2 / (2 + 1.5 * (0.25 + 0.75 * 1.5)), 1 / (1 + 1.5 * (0.25 + 0.75 * 0.5))
    assert [text[0] / text[1], text[1]] == pytest.approx([first / second, 0.5])


@pytest.mark.parametrize(("near", "rest"), [(2, 0.6), (3, 0.0), (9, 0.0)])
def test_the_last_of_the_nearest_stands_for_all_others(near: int, rest: float) -> None:
    vectors: list[Any] = [[1, 0], [0, 1], [3, 4], None]
    notes = [Note(vector=vector) for vector in vectors] + [Note(vector=[5, 0], cold=True)]
    answer = read(Store(notes), Question(vector=[1, 0]), {"near": near, "pin": False})
    assert [answer.flat[i] for i in (0, 2)] == pytest.approx([0.5, 0.3])
    assert [answer.flat[i] for i in (1, 3, 4)] == pytest.approx([rest / 2] * 3)


def chain() -> list[Note]:
    """0 is about the question; 0 and 1 share c; 2 shares the rarer stem s with 0; 3 is alone."""
    return [
        Note({"q", "c"}, stems={"ask": 1, "s": 1}),
        Note({"c"}, stems={"end": 1}),
        Note(stems={"s": 1, "u": 1}),
        Note(stems={"v": 1}),
    ]


def test_the_bridge() -> None:
    answer = read(Store(chain()), Question(["q"], ["ask", "end"]), {**EVEN, "seeds": 1})
    # both words have df 1: note 0 and note 1 have .5 each; note 0, written first, is the seed
    assert answer.seeds == [0]
    assert answer.pin == 0
    raw = 2**-0.5 * 0.5
    over_c = raw / (raw + 0.5) * (0.3 + 1.0)  # p = 1: it holds q; the word that it lacks is there
    raw = 0.5 * 2**-0.5 * 0.5
    over_s = raw / (raw + 0.5) * 0.3
    s1 = answer.bridge_scores
    assert [s1[i] for i in range(4)] == pytest.approx([0.0, over_c, over_s, 0.0])
    assert answer.scores[1] == pytest.approx(0.5 + 2.5 * over_c)
    assert answer.scores[0] == pytest.approx(answer.scores[1] + 1e-6)
    assert answer.order == [0, 1, 2, 3]
    assert answer.paths[1].source == 0
    assert answer.paths[1].terms == [(("concept", "c"), pytest.approx(2**-0.5 * 0.5))]
    assert answer.paths[2].terms == [(("stem", "s"), pytest.approx(2**-0.5 * 0.25))]
    assert set(answer.paths) == {1, 2}
    sums_up(answer)
    halved = read(Store(chain()), Question([], ["ask", "end"]), {**EVEN, "seeds": 1})
    assert halved.bridge_scores[1] == pytest.approx(over_c / 2)
    named = read(Store(chain()), Question(["q", "c"], ["ask", "end", "s"]), {**EVEN, "seeds": 1})
    assert named.bridge_scores == dict.fromkeys(range(4), 0.0)  # nothing that was asked is crossed


def test_a_subject_counts_three_times_a_mention_and_a_second_seed_by_its_score() -> None:
    notes = [
        Note({"c", "d"}, stems={"ask": 1}),
        Note({"e"}, stems={"ask": 1, "x": 1}),
        Note({"c"}, {"c"}),
        Note({"d", "e"}),
    ]
    constants = {"bm25_b": 0.0, "pin": False, "zeros": False}
    answer = read(Store(notes), Question([], ["ask", "other"]), constants)
    assert answer.seeds == [0, 1]  # both .5, and no note holds a named concept: p = 1/2
    w = 2**-0.5
    assert answer.bridge_scores[2] == pytest.approx(0.5 * (1.5 * w / (1.5 * w + 0.5)) * 0.3)
    assert answer.bridge_scores[3] == pytest.approx(0.5 * (0.5 * w / (0.5 * w + 0.5)) * 0.3)
    assert answer.paths[3].source == 0  # equal ways: the first seed
    weak = [*notes[:1], Note({"e"}, stems={"ask": 1}, length=4), *notes[2:]]
    answer = read(Store(weak), Question([], ["ask"]), {"pin": False, "zeros": False})
    p = 0.5 * (answer.first_scores[1] / answer.first_scores[0]) ** 2
    assert p < 0.5
    only_e = read(Store(weak), Question(["d"], ["ask"]), {"pin": False, "zeros": False})
    assert only_e.bridge_scores[3] == pytest.approx(p * (0.5 * w / (0.5 * w + 0.5)) * 0.3)


def test_limits_of_what_is_crossed() -> None:
    for many, crossed in ((49, True), (50, False)):
        notes = [Note({"c"}, stems={"ask": 1}), *(Note({"c"}) for _ in range(many)), Note({"z"})]
        answer = read(Store(notes), Question([], ["ask"]), {"hub_share": 1.0, "zeros": False})
        assert (answer.bridge_scores[1] > 0) == crossed
    for many, crossed in ((19, True), (20, False)):  # of so few notes a tenth is less than 20
        notes = [Note(stems={"ask": 1, "s": 1}), *(Note(stems={"s": 1}) for _ in range(many))]
        answer = read(Store(notes), Question([], ["ask"]), {"zeros": False})
        assert (answer.bridge_scores[1] > 0) == crossed


def test_the_pin_can_be_taken_away() -> None:
    store, question = Store(chain()), Question(["q"], ["ask", "end"])
    free = read(store, question, {**EVEN, "seeds": 1, "pin": False})
    assert free.order[0] == 1
    assert (free.pin, free.parts[0]["pin"]) == (None, 0.0)


def titled() -> list[Note]:
    """0 answers two of four words; 1 repeats it; 2 and 3 bring one new word each."""
    return [
        Note({"a", "b", "c", "d"}, {"a"}, {"p": 1, "q": 1, "Up": 1, "low": 1}),
        Note({"a"}, {"a"}, {"p": 1, "q": 1}),
        Note({"b"}, {"b"}, {"r": 1, "Up": 1}),
        Note({"e"}, {"e"}, {"s": 1, "low": 1}),
        Note(),
    ]


CAPITALS = {"Up": (3, 4), "low": (1, 2)}  # half is not most


def test_word_weights_by_capitals() -> None:
    store = Store(titled(), capitals=CAPITALS)
    answer = read(store, Question([], ["p", "q"]), {**EVEN, "cover": False, "seeds": 1})
    assert dict(answer.paths[2].terms) == pytest.approx(
        {("concept", "b"): 2**-0.5 * 1.5, ("stem", "Up"): 0.75 * 2**-0.5 * 0.5}
    )
    assert dict(answer.paths[3].terms) == pytest.approx({("stem", "low"): 0.15 * 2**-0.5 * 0.5})
    plain = read(
        store, Question([], ["p", "q"]), {**EVEN, "cover": False, "caps": False, "seeds": 1}
    )
    assert plain.paths[3].terms[0][1] == pytest.approx(0.5 * 2**-0.5 * 0.5)


def test_the_gate() -> None:
    store = Store(titled(), capitals=CAPITALS)
    one = idf(5, 1) / math.log(6)
    asked = {"all": ["p", "q"], "one": ["p", "q", "r"], "two": ["p", "q", "r", "s"]}
    gates = {k: read(store, Question([], t), {"zeros": False}).gate for k, t in asked.items()}
    assert gates["all"] == 0.0
    assert gates["one"] == pytest.approx(min(1.0, max(0.0, (one - 0.5) / 0.5)))
    assert gates["two"] == 1.0
    bare = [Note(note.mentions, set(), note.stems) for note in titled()]
    assert read(Store(bare), Question([], asked["two"])).gate == 0.0
    assert read(store, Question([], asked["two"]), {"cover": False}).gate == 0.0


def test_spread_seeds_and_picks() -> None:
    store = Store(titled(), capitals=CAPITALS)
    asked = ["p", "q", "r", "s"]
    answer = read(store, Question([], asked), {**EVEN, "seeds": 1})
    double, single = idf(5, 2), idf(5, 1)
    top = 2 * double
    assert answer.flat == pytest.approx(
        {0: 0.5, 1: 0.5, 2: 0.5 * single / top, 3: 0.5 * single / top, 4: 0.0}
    )
    # after 0, note 1 is worth .5 - .5 * 1 = 0; the new words of 2 and 3 are worth more
    assert answer.spread == [0, 2, 3, 1]
    assert answer.seeds == [0]
    w, r = 2**-0.5, single / top
    raw = w * 1.5 + 0.75 * w * 0.5  # over b, a subject of 2, and over "Up"
    likeness = raw / (raw + 0.5)
    assert answer.bridge_scores[2] == pytest.approx(0.5 * likeness * (0.3 + r))
    raw = 0.15 * w * 0.5
    low = raw / (raw + 0.5)
    assert answer.bridge_scores[3] == pytest.approx(0.5 * low * (0.3 + r))
    # 1 has .5 + 2.5 * .5 * L * .3 over a (1.5 w), and loses .5 (.4 + 1.1) * 1 of it
    s1 = answer.bridge_scores[1]
    assert s1 == pytest.approx(0.5 * (1.5 * w / (1.5 * w + 0.5)) * 0.3)
    assert answer.pin == 0
    assert answer.picks[:2] == [0, 2]
    assert set(answer.picks) == {0, 1, 2, 3}
    path = answer.cover_paths[2]
    assert (path.source, path.adds) == (0, ["r"])
    assert [term for term, _ in path.terms] == [("concept", "b"), ("stem", "Up")]
    assert answer.order[: len(answer.picks)] == answer.picks
    sums_up(answer)
    without = read(store, Question([], asked), {**EVEN, "seeds": 1, "cover": False})
    high = sorted(without.scores.values())
    assert sorted(answer.scores.values()) == pytest.approx(high, abs=0.7)


def test_the_scores_are_dealt_anew() -> None:
    store = Store(titled(), capitals=CAPITALS)
    asked = Question([], ["p", "q", "r", "s"])
    answer = read(store, asked, EVEN)
    dealt = [answer.scores[i] for i in answer.order[:4]]
    before = {i: answer.first_scores[i] + answer.parts[i]["bridge"] for i in range(4)}
    before[0] += answer.parts[0]["pin"]
    want = sorted(before.values(), reverse=True)
    assert dealt == pytest.approx([x - n * 1e-9 for n, x in enumerate(want)], abs=1e-12)


def test_what_was_learned_about_notes() -> None:
    notes = [Note({"q"}, stems={"t": 1}), Note({"q"}, stems={"t": 1}), Note({"q"}), Note()]
    q, t = ("concept", "q"), ("stem", "t")
    cues = {(q, 0): 4.0, (q, 1): -5.0, (t, 1): 1.0, (("stem", "no"), 2): 9.0, (t, 3): 0.0}
    off = {"weight": 0.0, "pin": False}
    answer = read(Store(notes, cues=cues), Question(["q"], ["t"]), off)
    a, b = idf(4, 3), idf(4, 2)
    learned = [answer.parts[i]["taught"] for i in range(4)]
    share = a / (a + b)
    assert learned[0] == pytest.approx(share * 1.0 * share**2)  # 4 / sqrt(9) is cut to 1
    assert learned[1] == pytest.approx(-share + (1 - share))  # -5 / 3 to -1; it holds both terms
    assert learned[2:] == [0.0, 0.0]
    # a word that no note holds is part of the question that nothing explains
    unknown = read(Store(notes, cues=cues), Question(["q"], ["t", "zzz"]), off)
    share = a / (a + b + idf(4, 0))
    assert unknown.parts[0]["taught"] == pytest.approx(share**3)


def test_what_was_taught_between_concepts() -> None:
    notes = [Note({"q"}), Note({"k"}), Note({"k", "m", "q"}), Note({"w"})]
    taught = {("q", "k"): (3.0, 2.0), ("m", "q"): (2.0, 2.0), ("q", "w"): (1.5, 1.5)}
    taught[("k", "m")] = (9.0, 9.0)
    answer = read(Store(notes, taught=taught), Question(["q"]), {"weight": 0.0, "pin": False})
    a = 2.0 / math.sqrt(4.0)  # q alone is the question; the link to w lies below the threshold
    learned = [answer.parts[i]["taught concepts"] for i in range(4)]
    assert learned == pytest.approx([0.0, 0.5 * a * 2**-0.5, 0.5 * a * (2**-0.5 + 1.0), 0.0])


def test_links_between_notes_once() -> None:
    notes = [Note(stems={"t": 1}), Note(), Note(), Note(), Note(stems={"t": 1}, allowed=False)]
    links = {(0, 1): 1.0, (2, 1): 1.0, (0, 3): 0.29, (3, 4): 1.0}
    open_ = {"pin": False, "link_share": 0.5, "closed_links": 1.0}
    answer = read(Store(notes, note_links=links), Question([], ["t"]), open_)
    assert [answer.scores[i] for i in range(4)] == [0.5, 0.25, 0.0, 0.0]
    less = {**open_, "closed_links": 0.5}
    closed = read(Store(notes, note_links=links), Question([], ["t"]), less)
    assert closed.scores[1] == 0.125  # the first note holds all words: links lend less
    assert answer.link_sources == {1: 0}
    assert answer.parts[1]["links"] == 0.25
    off = {**open_, "link_threshold": 0.2, "link_share": 0.1}
    assert read(Store(notes, note_links=links), Question([], ["t"]), off).scores[3] == 0.05


def test_what_links_lend_passes_no_first_note_where_one_holds_all_words() -> None:
    notes = [
        Note(stems={"t": 1}, length=1),
        Note(stems={"t": 1}, length=9),
        Note(stems={"t": 1}, length=2),
    ]
    store = Store(notes, note_links={(1, 2): 1.0})
    lent = {"link_share": 0.9, "closed_links": 1.0}
    answer = read(store, Question([], ["t"]), lent)
    assert answer.order == [0, 2, 1]
    assert answer.scores[0] == pytest.approx(answer.scores[2] + 1e-6)
    assert read(store, Question([], ["t"]), {**lent, "pin": False}).order == [2, 1, 0]
    sums_up(answer)


def test_every_constant_is_used() -> None:
    source = read.__globals__["Reading"].__init__.__code__.co_filename
    with open(source, encoding="utf-8") as file:
        body = file.read().partition("@dataclass")[2]
    assert [name for name in CONSTANTS if f'"{name}"' not in body] == []
