"""The indexes of a snapshot's texts, kept in the cache: the same answers, nothing indexed twice."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_indexes
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import fastassoc as fa
import fastassoc.postings as lists
from fastassoc import text as texts
from fastassoc import textcache
from fastassoc.cache import Cache
from fastassoc.errors import InvalidInput
from fastassoc.mentionindex import Corpus, MentionIndex
from fastassoc.named import Keys
from fastassoc.text import TextIndex
from fastassoc.words import STOP_WORDS, written_terms

K1, B = 1.5, 0.75
WORDS = ["the", "call", "calls", "Calling", "Retries", "CAFÉ", "42", "漢字", "字", "東京都", "ราคา"]
some_text = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
some_texts = st.lists(some_text, max_size=9)
QUESTIONS = ("calling the retries", "café 42", "漢字 of 東京", "字", "ราคา", "")


@pytest.fixture(params=[(1024, 8192, 32), (5, 20, 2)], ids=["late", "folds"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(("LATE_MOST", "TAIL_LEAST", "TAIL_SHARE"), request.param, strict=True):
        monkeypatch.setattr(lists, name, value)


def told(index: TextIndex) -> dict[str, Any]:
    """All that a view answers, by stems: numbers and runs are its own affair."""
    view = index.view()
    live = np.ones(view.n_rows, np.uint8)
    out: dict[str, Any] = {"rows": (view.n_rows, view.n_live, view.total_length)}
    out["lengths"] = view.lengths.tolist()
    for term in range(view.n_terms):
        out[view.stem(term)] = (
            view.df(term), view.idf(term), view.postings.rows(term).tolist(),
            view.postings.values(term).tolist(), view.capitals[term].tolist(),
        )  # fmt: skip
    for question in QUESTIONS:
        asked = [term for _, term in view.query(question)]
        scores = np.zeros(view.n_rows)
        view.scores(asked, K1, B, scores)
        best = view.best(asked, K1, B, live, 5)
        held = view.holding(question.lower().split())
        out[f"? {question}"] = (
            [stem for stem, _ in view.query(question)], scores.tolist(),
            [found.tolist() for found in best], None if held is None else held.tolist(),
        )  # fmt: skip
    return out


def content(arrays: dict[str, Any]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.usefixtures("limits")
def test_an_index_of_arrays_goes_on_as_the_one_that_gave_them(data: Any) -> None:
    index, other = TextIndex("english"), TextIndex("english")
    for _ in range(data.draw(st.integers(1, 3))):
        new = data.draw(some_texts)
        for one in (index, other):
            one.append(new)
            if data.draw(st.booleans()):
                one.view()
        n = index.n_rows
        gone = data.draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set()
        for one in (index, other):
            one.remove(gone)
        before = told(other)
        arrays = other.arrays()
        assert told(other) == before
        was, old, view = content(arrays), other, other.view()
        other = TextIndex.from_arrays("english", arrays)
        assert told(index) == told(other) == before
    other.append(["The last Call 字"])
    other.remove([other.n_rows - 1, 0])
    assert content(arrays) == was  # they are others' as well
    assert old.view() is view
    index.append(["The last Call 字"])
    index.remove([index.n_rows - 1, 0])
    assert told(index) == told(other)
    assert told(TextIndex.from_arrays("english", other.arrays())) == told(index)


@given(some_texts)
@settings(max_examples=20, deadline=None)
def test_nothing_is_written_to_what_is_read_only(new: list[str]) -> None:
    index = TextIndex("english")
    index.append(["one call"])
    arrays = index.arrays()
    for array in arrays.values():
        array.flags.writeable = False
    other = TextIndex.from_arrays("english", arrays)
    other.append([])
    other.append(["", *new])
    other.remove([0])
    index.append(["", *new])
    index.remove([0])
    assert (other.n_rows, other._total_length) == (index.n_rows, index._total_length)
    assert other._capitals.tolist() == index._capitals.tolist()


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    index = TextIndex("english")
    index.append(["one call", "another call"])
    arrays = index.arrays()
    for name in arrays.keys() - {"removed"}:
        with pytest.raises(InvalidInput, match="expected"):
            TextIndex.from_arrays("english", {**arrays, name: arrays[name][:-1]})


def test_other_rules_have_another_number() -> None:
    """Whoever changes what is counted must raise RULES, or stores go on with the old terms."""
    hashed = xxhash.xxh3_128(" ".join(sorted(STOP_WORDS)).encode())
    for text in (
        "The Élan of 3Com isn't Node.js",
        "2024年のAI技術部",
        "Straße naïve ışık",
        "x_y गीत",
    ):
        hashed.update(repr(written_terms(text)).encode())
    index = TextIndex("english")
    index.append(["The naïve retries of 東京都 aren't timeouts2"])
    hashed.update(repr(index._terms.stems).encode())
    names = sorted(f"{name} {array.dtype}" for name, array in index.arrays().items())
    hashed.update(" ".join(names).encode())
    assert (texts.RULES, hashed.hexdigest()) == (3, "a88411c3069703ce289691f679069186")


# -- in a store ----------------------------------------------------------------------------------

KINDS = ("text", "mentions")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textcache, "KEPT_FROM", 3)


@pytest.fixture
def store(tmp_path: Path, few: None) -> Path:
    path = tmp_path / "s.fa"
    with fa.open(path) as mem:
        mem.write_batch([{"id": f"n{n}", "text": f"The call {n} of Tokyo 東京"} for n in range(6)])
        mem.snapshot()
    return path


class Indexed:
    """Counts the texts that are indexed, by words and by names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.words, append = 0, TextIndex.append
        self.names, scan = 0, MentionIndex._scan

        def appended(index: TextIndex, new: Any) -> None:
            self.words += len(new)
            append(index, new)

        def scanned(index: MentionIndex, corpus: Corpus, rows: Any, new: Any) -> Any:
            self.names += len(new)
            return scan(index, corpus, rows, new)

        monkeypatch.setattr(TextIndex, "append", appended)
        monkeypatch.setattr(MentionIndex, "_scan", scanned)

    @property
    def count(self) -> int:
        """How many were indexed, by words as by names."""
        assert self.words == self.names
        return self.words


@pytest.fixture
def indexed(store: Path, monkeypatch: pytest.MonkeyPatch) -> Indexed:
    return Indexed(monkeypatch)


def entries(path: Path) -> list[str]:
    return sorted(file.name for kind in KINDS for file in (path / "cache").glob(f"{kind}-*"))


def answers(mem: Any) -> list[Any]:
    asked = [
        mem.read(text, rank=rank) for text in ("calls", "東京", "4") for rank in ("flat", None)
    ]
    return [[(hit.id, hit.score) for hit in hits] for hits in asked]


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def read_all(path: Path, **options: Any) -> list[Any]:
    with fa.open(path, **options) as mem:
        return answers(mem)


def test_it_is_made_once(store: Path, indexed: Indexed) -> None:
    with quiet():
        first = read_all(store)
        assert indexed.count == 6
        assert len(entries(store)) == 4
        assert read_all(store) == read_all(store, read_only=True) == first
        assert indexed.count == 6
        with fa.open(store) as mem:  # what came after the snapshot is added to it
            mem.forget(["n4"])
            mem.write("The call 7 of Osaka", id="n7")
            assert "n4" not in str(answers(mem))
            assert indexed.count == 7
            later = answers(mem)
        assert read_all(store) == later
        assert indexed.count == 8
        (store / "cache" / entries(store)[0]).unlink()
        assert read_all(store) == later


def test_without_a_text_none_is_made(store: Path, indexed: Indexed) -> None:
    with fa.open(store) as mem:
        mem.write("more", concepts=["a"])
        mem.read(concepts=["a"], rank="counts")
        mem.recent()
    assert indexed.count == 0
    assert entries(store) == []


def test_few_notes_are_indexed_each_time(
    store: Path, indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textcache, "KEPT_FROM", 7)
    assert read_all(store) == read_all(store)
    assert indexed.count == 12
    assert entries(store) == []


def test_what_cannot_be_written_is_made_in_memory(store: Path, indexed: Indexed) -> None:
    with quiet():
        first = read_all(store, read_only=True)
        assert entries(store) == []
        (store / "cache").write_text("in the way")
        assert read_all(store) == first


def damaged(path: Path, change: Callable[[bytearray], Any]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def flipped(data: bytearray) -> None:
    data[len(data) // 2] ^= 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".bin", ".json"])
@pytest.mark.parametrize("change", [flipped, lambda data: data.pop(), bytearray.clear])
def test_a_damaged_entry_is_told_once_and_made_again(
    store: Path, indexed: Indexed, kind: str, suffix: str, change: Any
) -> None:
    first = read_all(store)
    damaged(next((store / "cache").glob(f"{kind}-*{suffix}")), change)
    with pytest.warns(RuntimeWarning, match="only a cache and is made again") as caught:
        assert read_all(store) == first
    assert len(caught) == 1
    wanted = (12, 6) if kind == "text" else (6, 12)
    assert (indexed.words, indexed.names) == wanted
    with quiet():
        assert read_all(store) == first
    assert (indexed.words, indexed.names) == wanted


def test_an_entry_of_other_texts_is_made_again(store: Path, indexed: Indexed) -> None:
    first = read_all(store)
    names, texts = (name.rpartition("-")[2][:32] for name in entries(store)[::2])
    other, named = TextIndex("english"), MentionIndex()
    other.append(["one"] * 5)
    for key in (texts, names):
        Cache(store).drop(key)
    kept = textcache.Kept(Cache(store), Keys("00", texts, names), "english", lambda made: None)
    kept.text(5, lambda: other)
    kept.mentions(5, lambda: named)
    with pytest.warns(RuntimeWarning) as caught:
        assert read_all(store) == first
    told = sorted(str(one.message).rpartition(": ")[2] for one in caught)
    assert [words.partition(". ")[0] for words in told] == [
        "found 0 texts, expected 6", "found 5 texts, expected 6",
    ]  # fmt: skip


@pytest.mark.parametrize("what", ["language", "rules", "snowballstemmer", "unicode"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_versions_make_it_anew(
    store: Path, indexed: Indexed, monkeypatch: pytest.MonkeyPatch, kind: str, what: str
) -> None:
    first = read_all(store)
    versions = textcache.versions

    def others(made: str, language: str) -> dict[str, str]:
        return versions(made, language) | ({what: "x"} if made == kind else {})

    monkeypatch.setattr(textcache, "versions", others)
    with pytest.warns(RuntimeWarning, match="other versions"):
        assert read_all(store) == first
    wanted = (12, 6) if kind == "text" else (6, 12)
    assert (indexed.words, indexed.names) == wanted
    with quiet():
        assert read_all(store) == first
    assert (indexed.words, indexed.names) == wanted


def test_an_entry_goes_with_what_it_was_made_from(store: Path) -> None:
    kept: list[list[str]] = []
    for n in range(3):
        with fa.open(store) as mem:
            mem.forget([f"n{n}"])
            mem.snapshot()
        read_all(store)
        kept.append(entries(store))
    assert [len(names) for names in kept] == [4, 8, 8]  # that of the snapshot before stays
    assert not set(kept[2]) & set(kept[0])
    with fa.open(store) as mem:
        answers(mem)
        mem.vacuum()
    assert entries(store) == []
    before = read_all(store), entries(store)
    with fa.open(store) as mem:
        mem.link("n4", "n5", 0.5)
        mem.snapshot()
        mem.unlink("n4", "n5")
        mem.snapshot()
    assert before == (read_all(store), entries(store))  # links alone change nothing of it


def test_two_handles_at_once(store: Path, indexed: Indexed) -> None:
    ready, found = threading.Barrier(2), []

    def look() -> None:
        with fa.open(store) as mem:
            ready.wait()
            found.append(answers(mem))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert indexed.count == 6
    assert len(entries(store)) == 4


def test_nothing_is_put_there_behind_a_vacuum(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note is erased by another while an index of it is made here."""
    arrays, now = Cache.arrays, []

    def late(cache: Cache, kind: str, key: str, load: Any, make: Any, *more: Any, **v: Any) -> Any:
        def slow() -> Any:
            made = make()
            monkeypatch.setattr(Cache, "arrays", arrays)
            with fa.open(store) as mem:
                mem.forget(["n3"])
                mem.vacuum()
            read_all(store)  # makes the folder again
            now.extend(entries(store))
            return made

        return arrays(cache, kind, key, load, slow, *more, **v)

    monkeypatch.setattr(Cache, "arrays", late)
    with fa.open(store) as mem:
        assert "n3" in [hit.id for hit in mem.read("3", rank="flat")]
        assert len(now) == 4
        assert entries(store) == now
        assert "n3" not in str(answers(mem))
    assert entries(store) == now


@pytest.mark.parametrize("way", ["array", "index"])
def test_no_vectors_are_put_there_behind_a_vacuum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """As above, of what is made of vectors while a store is opened, and for a read."""
    small_indexes.shrink("ivf", monkeypatch.setattr, monkeypatch.setitem)
    path, vectors = tmp_path / "s.fa", small_indexes.clustered(300).tolist()
    with fa.open(path) as mem:
        mem.write_batch([{"id": f"n{n}", "text": "x", "vector": v} for n, v in enumerate(vectors)])
        mem.snapshot()
    keep = getattr(Cache, way)
    now: list[str] = []

    def held() -> list[str]:
        return sorted(file.name for file in (path / "cache").glob("*.bin"))

    def late(cache: Cache, kind: str, key: str, *given_: Any, **more: Any) -> Any:
        place = 0 if way == "array" else 1
        make = given_[place]

        def slow() -> Any:
            made = make()
            monkeypatch.setattr(Cache, way, keep)
            with fa.open(path) as mem:
                mem.forget(["n3"])
                mem.vacuum()
            with fa.open(path) as mem:
                mem.read(vector=vectors[0])
            now.extend(held())
            return made

        steps = (*given_[:place], slow, *given_[place + 1 :])
        return keep(cache, kind, key, *steps, **more)

    monkeypatch.setattr(Cache, way, late)
    with fa.open(path) as mem:
        mem.read(vector=vectors[0])
    assert now
    assert held() == now
