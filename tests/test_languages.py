"""Languages and scripts: words, names in texts, and the bridge, each with notes of its own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import snowballstemmer

import fastassoc as fa
from fastassoc.scripts import JOINED
from fastassoc.words import Stemmer, spans, terms, tokens, units, written_terms


@dataclass(frozen=True)
class Case:
    """Notes of one language.

    `right` is what `words` (which name no concept) look for. It carries `name`, and so does
    `second`, which shares no word with `words`. `asked` names the concept within a question.
    """

    language: str
    right: str
    name: str
    words: str
    asked: str
    second: str
    others: tuple[str, ...]


CASES = {
    "Chinese": Case(
        "english",
        "昨天我们在实验室用石墨烯做了新的电池实验。",
        "石墨烯",
        "电池的实验怎么样?",
        "请问石墨烯是什么材料?",
        "石墨烯由安德烈·海姆首先分离。",
        ("今天的天气很好,适合散步。", "他喜欢在周末看电影。", "超市里的苹果涨价了。"),
    ),
    "Japanese": Case(
        "english",
        "先月、東京都の図書館で珍しい地図を見つけた。",
        "東京",
        "珍しい地図はどこ",
        "東京都に行ったのはいつですか?",
        "東京タワーの夜景がきれいだ。",
        ("今日はカレーを作りました。", "猫がソファで寝ている。", "電車が遅れたので歩いた。"),
    ),
    "Korean": Case(
        "english",
        "어제 도서관 에서 서울 지도 를 찾았다.",
        "서울",
        "지도 찾았다",
        "서울 은 어떤 곳 인가요?",
        "서울 야경 이 아름답다.",
        ("오늘 날씨 가 좋다.", "고양이 가 소파 에서 잔다.", "기차 가 늦게 왔다."),
    ),
    "Arabic": Case(
        "arabic",
        "وجدنا خريطة نادرة في مكتبة القاهرة أمس.",
        "القاهرة",
        "أين الخريطة النادرة؟",
        "متى زرنا القاهرة؟",
        "القاهرة مدينة كبيرة على النيل.",
        ("الطقس جميل اليوم.", "القطة تنام على السرير.", "تأخر القطار كثيرا."),
    ),
    "Hebrew": Case(
        "english",
        "מצאנו מפה נדירה בספרייה של חיפה אתמול.",
        "חיפה",
        "איפה מפה נדירה?",
        "מתי היינו ליד חיפה?",
        "חיפה יושבת על הר הכרמל.",
        ("מזג האוויר נעים היום.", "החתול ישן על הספה.", "הרכבת איחרה מאוד."),
    ),
    "Hindi": Case(
        "hindi",
        "कल पुस्तकालय में दिल्ली का पुराना नक्शा मिला।",
        "दिल्ली",
        "पुराने नक्शे",
        "क्या आप दिल्ली गए थे?",
        "दिल्ली यमुना के किनारे है।",
        ("आज मौसम अच्छा है।", "बिल्ली सोफे पर सोती है।", "ट्रेन देर से आई।"),
    ),
    "Thai": Case(
        "english",
        "เมื่อวานเราพบแผนที่เก่าในห้องสมุดเชียงใหม่",
        "เชียงใหม่",
        "แผนที่เก่า",
        "คุณไปเชียงใหม่เมื่อไร",
        "เชียงใหม่มีดอยสุเทพ",
        ("อากาศวันนี้ดีมาก", "แมวนอนบนโซฟา", "รถไฟมาช้า"),
    ),
    "Russian": Case(
        "russian",
        "Вчера мы нашли старую карту в библиотеке, её привезли из Казани.",
        "Казань",
        "старые карты",
        "что мы знаем про казань?",
        "Казань стоит на Волге.",
        ("Сегодня хорошая погода.", "Кошка спит на диване.", "Поезд опоздал."),
    ),
    "Greek": Case(
        "greek",
        "Χθες βρήκαμε έναν παλιό χάρτη στη βιβλιοθήκη.",
        "Πάτρα",
        "παλιοί χάρτες",
        "ΠΟΤΕ ΠΗΓΑΜΕ ΣΤΗΝ ΠΑΤΡΑ;",
        "Η Πάτρα έχει μεγάλο λιμάνι.",
        ("Ο καιρός είναι καλός σήμερα.", "Η γάτα κοιμάται.", "Το τρένο άργησε."),
    ),
    "German": Case(
        "german",
        "Gestern fanden wir eine alte Landkarte in der Bücherei.",
        "Köln",
        "alten landkarten",
        "wann waren wir in köln?",
        "Köln liegt am Rhein.",
        ("Heute ist schönes Wetter.", "Die Katze schläft.", "Der Zug kam zu spät."),
    ),
    "Turkish": Case(
        "turkish",
        "Dün kütüphanede eski bir harita bulduk.",
        "İzmir",
        "eski haritalar",
        "ne zaman izmir gezdik?",
        "İzmir deniz kıyısında.",
        ("Bugün hava güzel.", "Kedi koltukta uyuyor.", "Tren geç geldi."),
    ),
    "chat": Case(
        "english",
        "lol found that weird old map at the library yesterday w/ priya",
        "priya",
        "weird maps??",
        "wait did priya say when",
        "priya is moving to leeds btw",
        ("so tired today ugh", "cat is asleep on the sofa again", "train late, as usual"),
    ),
    "emoji": Case(
        "english",
        "lol found that weird old map at the library",
        "🎉",
        "weird maps??",
        "was there any 🎉 last week?",
        "balloons and cake on friday 🎉",
        ("so tired today ugh 😴", "cat is asleep on the sofa", "train late, as usual 🚂"),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def remembered(case: Case, **settings: Any) -> fa.Memory:
    mem = fa.Memory(settings=fa.Settings(language=case.language, **settings))
    rows: list[dict[str, Any]] = [
        {"id": f"o{place}", "text": text, "concepts": [f"other {place}"]}
        for place, text in enumerate(case.others)
    ]
    rows.insert(1, {"id": "second", "text": case.second, "concepts": [case.name]})
    rows.insert(3, {"id": "right", "text": case.right, "concepts": [case.name]})
    mem.write_batch(rows)
    return mem


def test_words_find_the_right_note(case: Case) -> None:
    with remembered(case) as mem:
        recall = mem.read(case.words, rank="flat")
        assert recall.query_concepts == []
        assert recall[0].id == "right"
        assert recall[0].parts["text"] > 0


def test_a_given_concept_is_found_in_a_question(case: Case) -> None:
    with remembered(case) as mem:
        recall = mem.read(case.asked, rank="bridge")
        assert recall.query_concepts == [case.name]
        assert {"right", "second"} <= {hit.id for hit in mem.read(case.asked, rank="counts")}


def test_the_bridge_crosses_a_shared_concept(case: Case) -> None:
    with remembered(case) as mem:
        recall = mem.read(case.words, rank="bridge")
        assert [hit.id for hit in recall[:2]] == ["right", "second"]
        assert recall[1].parts["bridge"] > 0
        assert case.name in recall.expanded_concepts


def test_texts_that_say_a_name_mention_it(case: Case) -> None:
    """A note is found over a name that it only says; note by note as in one batch."""
    rows = [{"id": "a", "text": case.second, "concepts": ["x"]},
            {"id": "b", "text": "-", "concepts": [case.name]},
            {"id": "c", "text": case.asked, "concepts": ["y"]}]  # fmt: skip
    once = fa.Memory(settings=fa.Settings(language=case.language))
    once.write_batch(rows)
    one_by_one = fa.Memory(settings=fa.Settings(language=case.language))
    for row in rows:
        one_by_one.write(**row)
        one_by_one.warm()
    said = [0, 1, 2] if tokens(case.name) else [1]
    for mem in (once, one_by_one):
        view = mem._view(text=True)
        concept = view.vocabulary.find(case.name)
        assert view.mentions is not None
        assert concept is not None
        assert view.mentions.rows(concept).tolist() == said


@pytest.mark.parametrize("language", snowballstemmer.algorithms())
def test_no_stemmer_changes_words_of_scripts_without_spaces(language: str) -> None:
    """They are not stemmed; Snowball would leave them alone."""
    snowball = snowballstemmer.stemmer(language)
    for word in ("東京", "ひら", "カナ", "ราคา", "ກິນ", "ភាសា", "မြန်", "京"):
        assert Stemmer(language).stem(word) == snowball.stemWord(word) == word


# -- names within runs -----------------------------------------------------------------------------


def said(names: list[str], text: str) -> list[str]:
    """Names that a question names, and that a note mentions: the same."""
    with fa.Memory() as mem:
        mem.write("-", id="names", concepts=names)
        mem.write(text, id="text", concepts=["none of them"])
        view = mem._view(text=True)
        assert view.mentions is not None
        mentioned = {view.vocabulary.name(c) for c in view.mentions.of(1).tolist()}
        found = mem.read(text).query_concepts
        assert set(found) == mentioned - {"none of them"}
        return found


@pytest.mark.parametrize(
    ("names", "text", "found"),
    [
        (["東京"], "東京都に行った", ["東京"]),
        (["東京"], "昨日は東京", ["東京"]),
        (["東京", "京都"], "東京都に行った", ["東京"]),  # from the left, no overlap
        (["東京", "東京都", "京都"], "東京都に行った", ["東京都"]),  # the longest
        (["日本"], "今日、本を買った", []),  # not across a comma
        (["東京"], "東 京", []),
        (["東京 大学"], "東京大学と東京 大学", ["東京 大学"]),
        (["茶"], "我喜欢喝茶", ["茶"]),
        (["AI技術"], "日本のAI技術", ["AI技術"]),
        (["AI 技術"], "日本のＡＩ技術", ["AI 技術"]),
        (["AI"], "生成AIの話", ["AI"]),
        (["2024年"], "2024年の夏", ["2024年"]),
        (["データサイエンス"], "これはデータサイエンスです", ["データサイエンス"]),
        (["ガラス"], "ｶﾞﾗｽの皿", ["ガラス"]),
        (["แมว"], "ฉันมีแมวสองตัว", ["แมว"]),
        (["ก"], "กิน", []),  # the vowel sign belongs to its letter
        (["ភ្នំពេញ"], "ខ្ញុំនៅភ្នំពេញ", ["ភ្នំពេញ"]),
        (["ລາວ"], "ພາສາລາວ", ["ລາວ"]),
        (["ရန်ကုန်"], "ကျွန်တော်ရန်ကုန်မှာ", ["ရန်ကုန်"]),
        (["서울"], "서울 지도", ["서울"]),
        (["one two three four five 東京"], "one two three four five 東京都",
         ["one two three four five 東京"]),
        (["one two three four five 東京 seven"], "one two three four five 東京 seven", []),
    ],
)  # fmt: skip
def test_names_within_runs(names: list[str], text: str, found: list[str]) -> None:
    assert said(names, text) == found


def test_a_variant_beside_a_run_is_told_as_written() -> None:
    with fa.Memory() as mem:
        mem.write("-", concepts=["東京 tower"])
        assert mem.read("昨日の東京 Towers、").variants == {"東京 Towers": ["東京 tower"]}
        assert mem.read(concepts=["東京 towers"]).variants == {"東京 towers": ["東京 tower"]}


def test_keys_stay_as_they_were() -> None:
    """How names are found changes none of their keys."""
    with fa.Memory() as mem:
        mem.write("-", concepts=["東京都", "ＡＩ技術", "ガラス"])
        vocabulary = mem._view().vocabulary
        assert [vocabulary.key(c) for c in range(3)] == ["東京都", "ai技術", "ガラス"]


def test_a_single_character_becomes_a_name_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes that hold it within a run are scanned again, found by their pairs of characters."""
    monkeypatch.setattr("fastassoc.mentionindex.NOTES_PER_NAME", 0)
    with fa.Memory() as mem:
        mem.write_batch([{"text": t} for t in ("我喜欢喝茶", "茶。", "咖啡", "tea", "茶叶很好")])
        mem.warm()
        view = mem._view(text=True)
        assert view.text is not None
        rows = view.text.holding(["茶"])
        assert rows is not None
        assert rows.tolist() == [0, 1, 4]
        mem.write("-", concepts=["茶", "酒"])
        view = mem._view(text=True)
        assert view.mentions is not None
        assert view.mentions.rows(0).tolist() == [0, 1, 4, 5]
        assert view.mentions.rows(1).tolist() == [5]


@pytest.mark.parametrize(
    ("question", "found"),
    [("猫", ["a", "b", "c"]), ("猫、犬", ["a", "b", "c"]), ("กิ", ["d"]), ("ก", []), ("虎", [])],
)
def test_a_word_of_one_character_is_found(question: str, found: list[str]) -> None:
    """Alone and within a run, by the pairs that hold it, though the index holds pairs alone."""
    with fa.Memory(settings=fa.Settings(extract=False)) as mem:
        for note, text in zip("abcdef", ("黒猫が好き", "猫。犬", "三毛猫", "เรากิน", "鳥", "虫だ"),
                              strict=True):  # fmt: skip
            mem.write(text, id=note)
        for rank in ("flat", "bridge"):
            recall = mem.read(question, rank=rank)
            assert sorted(hit.id for hit in recall) == found
            assert "犬" not in question or recall[0].id == "b"
            assert all(0.3 < hit.score <= 1.0 for hit in recall[:1])
        assert recall.query_stems == question.split("、")


def test_the_dotless_i_of_turkish_is_found_by_its_capital() -> None:
    with fa.Memory(settings=fa.Settings.counts(language="turkish")) as mem:
        mem.write("Işık söndü.", id="a", concepts=["ırmak"])
        for said in ("ışık", "IŞIK", "Işık", "IRMAK", "ırmak"):
            assert [hit.id for hit in mem.read(said)] == ["a"]


# -- terms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("東京都に", ["東京", "京都", "都に"]),
        ("茶", ["茶"]),
        ("東京、茶。", ["東京", "茶"]),
        ("iPhone15を2台", ["iphone15", "を", "2", "台"]),
        ("กินดี", ["กิน", "นดี"]),
        ("한국어 문장", tokens("한국어 문장")),
        ("ไทยคำ", ["ไท", "ทย", "ยคํ", "คํา"]),  # sara am folds to a mark of its letter and a vowel
        ("人々〇〆", ["人々", "々〇", "〇〆"]),
    ],
)
def test_terms(text: str, wanted: list[str]) -> None:
    assert terms(text) == wanted


def test_capitals_beside_runs() -> None:
    assert written_terms("東京都とÉlan Ai") == (
        ["東京", "京都", "都と", "elan", "ai"], [False, False, False, True, True],
    )  # fmt: skip
    # compatibility characters fold to several, so that places are looked up one by one
    assert written_terms("½㌔のÉlan") == (["1", "2", "キロ", "ロの", "elan"], [False] * 4 + [True])


# -- nothing breaks --------------------------------------------------------------------------------

ODD = [
    "\u0301", "\u0e34", "\u0e34\u0e01", "\u3099", "か\u3099", "\u200d", "\u2060東\u2060京",
    "\ufeff", "क\u094d", "\u0903", "ـ", "\u202e東京\u202c", "a\u0301東\u0301京", "🇯🇵", "❤️",
    "\U0001f468\u200d\U0001f469", "東京abcМосква서울ไทย123", "\U00020000\U000323af", "\U000e0100",
    "〆〇々ー・", "ﾊﾟﾊﾟ", "㍿㌔Ⅷ½", "ក្រុង", "ຄຳ", "ມື້ນີ້", "မြန်မာ", "ꧠꩠ", "\x00", "ı İ ß ς Σ",
    "a" * 70 + "東" * 300,
]  # fmt: skip


@pytest.mark.parametrize("language", ["english", "arabic", "hindi", "turkish"])
def test_odd_texts_are_written_and_read(language: str) -> None:
    with fa.Memory(settings=fa.Settings(language=language)) as mem:
        names = [text for text in ODD if text.strip() and len(text) < 60]
        mem.write_batch([{"text": text} for text in ODD if text.strip()])
        mem.write_batch([{"text": f"see {name}", "concepts": [name]} for name in names])
        for text in ODD:
            for rank in ("bridge", "flat", "ppr", "counts"):
                mem.read(f"{text}?", rank=rank)
            mem.read(text + " ".join(ODD), diversity=0.5)
            if tokens(text):
                assert mem.read(text, rank="flat")


class Counted:
    """Counts the lines of Python that run meanwhile: a measure of time that is always the same."""

    def __enter__(self) -> Counted:
        self.lines = 0
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def _trace(self, frame: Any, event: str, arg: object) -> Any:
        self.lines += 1
        return self._trace

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)


@pytest.mark.parametrize("piece", ["東京都に行", "กินดี", "あ", "ក្រុង"])
def test_long_runs_take_linear_time(piece: str) -> None:
    def lines(n: int) -> int:
        with fa.Memory() as mem:
            mem.write("-", concepts=[piece, piece * 3 + "x"])
            run = piece * (n // len(piece))
            with Counted() as counted:
                for split in (terms, units, tokens, written_terms):
                    split(run)
                mem._view().vocabulary.find_in(run, lambda concept: True)
            return counted.lines

    lines(100)
    assert lines(8000) < 5 * lines(2000)


def test_a_run_of_a_megabyte() -> None:
    run = "東京都に行った人々" * (1_000_000 // 27)  # three bytes each
    with fa.Memory() as mem:
        mem.write_batch([{"id": "long", "text": run}, {"id": "b", "text": "京都"}])
        mem.write("-", id="names", concepts=["東京都", "行"])
        assert mem.read("人々", rank="flat")[0].id == "long"
        view = mem._view(text=True)
        assert view.mentions is not None
        assert view.mentions.of(0).tolist() == [0, 1]
    assert len(spans(run[:9000])) == len(units(run[:9000])) == 9000


def test_units_tell_where_a_run_goes_on() -> None:
    assert units("東京 AI技") == ["東", JOINED + "京", "ai", "技"]
    assert units("กิน") == ["กิ", JOINED + "น"]


def test_reopened_stores_answer_alike(tmp_path: Any) -> None:
    """In every language: note by note, with a forget, as opened anew, and as one batch."""
    rng = np.random.default_rng(5)
    texts = [text for case in CASES.values() for text in (case.right, case.second, *case.others)]
    names = [case.name for case in CASES.values()]
    rows = [
        {"id": str(n), "text": " ".join(rng.choice(texts, 2)), "concepts": [names[n % len(names)]]}
        for n in range(40)
    ]
    with fa.open(tmp_path / "a.fa") as mem:
        for row in rows:
            mem.write(**row)
            mem.read("東京")
        mem.forget(["3", "17"])
        before = answers(mem)
        mem.snapshot()
    with fa.open(tmp_path / "a.fa") as mem:
        assert answers(mem) == before
    with fa.Memory() as mem:
        mem.write_batch([row for row in rows if row["id"] not in ("3", "17")])
        assert answers(mem) == before


def answers(mem: fa.Memory) -> list[Any]:
    questions = [question for case in CASES.values() for question in (case.words, case.asked)]
    return [
        [(hit.id, hit.rank_score, hit.parts) for hit in mem.read(question)]
        for question in questions
    ]
