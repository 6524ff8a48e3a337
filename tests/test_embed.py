"""Embedders: what is taken for one, what its answers must be, and that nobody asks the network."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastassoc import models
from fastassoc.embed import (
    BATCH,
    BATCH_CHARACTERS,
    NAMES,
    available,
    embed_texts,
    identity,
    require_same,
    resolve,
)
from fastassoc.errors import EmbedderMismatch, FastAssocError, InvalidInput

needs_wordllama = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None,
    reason='wordllama is not installed: pip install "fastassoc[embed]"',
)


def vector(text: str, dim: int = 8) -> np.ndarray:
    """A vector that is a function of the text alone; zero for an empty one."""
    digest = hashlib.shake_128(text.encode()).digest(dim)
    return (np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5) * bool(text)


class Hashes:
    """An embedder as the protocol has it."""

    def __init__(self, name: str = "hashes", dim: int = 8, dtype: Any = np.float32) -> None:
        self.name, self.dim, self.dtype = name, dim, dtype
        self.calls: list[list[str]] = []

    def embed(self, texts: list[str]) -> Any:
        self.calls.append(texts)
        return np.array([vector(text, self.dim) for text in texts], self.dtype)


class Answers:
    """An embedder that answers what it is told to."""

    name, dim = "broken", 4

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def embed(self, texts: list[str]) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(len(texts)) if callable(self.answer) else self.answer


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0, 0.5] for text in texts]


class Encoder:
    """As a sentence-transformers model looks from outside."""

    def __init__(self, name: str | None = "org/model", dim: int | None = 8) -> None:
        self.tokenizer = SimpleNamespace(name_or_path=name)
        self.width = dim
        self.wishes: list[dict[str, Any]] = []

    def get_sentence_embedding_dimension(self) -> int | None:
        return self.width

    def encode(
        self,
        sentences: list[str],
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = False,
    ) -> Any:
        self.wishes.append({"bar": show_progress_bar, "numpy": convert_to_numpy})
        return np.array([vector(text) for text in sentences])

    def __call__(self, *_: Any) -> Any:
        raise AssertionError("a model with encode is not called")


class Static:
    """As a Model2Vec model looks from outside."""

    def __init__(self, seed: int = 0, base: str | None = "org/base") -> None:
        self.embedding = np.random.default_rng(seed).normal(size=(10, 8)).astype(np.float32)
        self.base_model_name = base
        self.weights = None
        self.tokenizer = object()

    @property
    def dim(self) -> int:
        return self.embedding.shape[1]

    def encode(self, sentences: list[str], **_: Any) -> Any:
        return np.array([self.embedding[len(text) % 10] for text in sentences])


# what is taken for an embedder


def test_none_and_what_is_one_already() -> None:
    assert resolve(None) is None
    own = Hashes()
    assert resolve(own) is own
    wrapped = resolve(lengths)
    assert resolve(wrapped) is wrapped


@pytest.mark.parametrize("name", NAMES)
def test_a_name_loads_nothing(name: str) -> None:
    before = set(sys.modules)
    found = resolve(name)
    assert found is resolve(name)
    assert identity(found) == {"name": name, "dim": {"wordllama": 256, "minilm": 384}[name]}
    assert not {"wordllama", "sentence_transformers", "torch"} & (set(sys.modules) - before)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("word2vec", "found 'word2vec', expected one of wordllama, minilm,"),
        (Hashes, "found the class Hashes, expected an object: make one"),
        (7, "found an int; expected one of wordllama"),
        (SimpleNamespace(embed=lengths), "found a SimpleNamespace, which lacks name and dim"),
        (Hashes(name=""), "found the name '', expected a text that is not empty"),
        (Hashes(name="\ud800"), "expected Unicode text of at most 512 bytes"),
        (Hashes(name="n" * 513), "expected Unicode text of at most 512 bytes"),
        (Hashes(dim=0), "embedder 'hashes': found the width 0, expected 1 to"),
        (Hashes(dim=True), "embedder 'hashes': found the width True, expected a whole number"),
        (Hashes(dim="8"), "embedder 'hashes': found the width '8', expected a whole number"),
    ],
)
def test_what_is_none_is_told(wrong: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as error:
        resolve(wrong)
    assert told in str(error.value)


def test_callables_have_names() -> None:
    class Caller:
        def __call__(self, texts: list[str]) -> Any:
            return lengths(texts)

        def method(self, texts: list[str]) -> Any:
            return lengths(texts)

    def tagged(texts: list[str]) -> Any:
        return lengths(texts)

    tagged.name = "my model"  # type: ignore[attr-defined]
    here = f"{__name__}.test_callables_have_names.<locals>."
    assert resolve(lengths).name == f"{__name__}.lengths"
    assert resolve(functools.partial(lengths)).name == f"{__name__}.lengths"
    assert resolve(Caller()).name == f"{here}Caller"
    assert resolve(Caller().method).name == f"{here}Caller.method"
    assert identity(resolve(tagged)) == {"name": "my model", "dim": 3}


def test_a_width_is_found_when_it_is_needed() -> None:
    calls = []

    def counted(texts: list[str]) -> Any:
        calls.append(texts)
        return lengths(texts)

    found = resolve(counted)
    assert calls == []
    assert embed_texts(found, ["a", "bb"]).vectors.shape == (2, 3)
    assert found.dim == 3
    assert calls == [["a", "bb"]]  # the texts themselves told it

    other = resolve(counted)
    assert (other.dim, other.dim) == (3, 3)
    assert len(calls) == 2
    counted.dim = 3  # type: ignore[attr-defined]
    assert resolve(counted).dim == 3
    assert len(calls) == 2


def test_a_callable_keeps_its_first_width() -> None:
    found = resolve(lambda texts: np.ones((len(texts), len(texts[0]))))
    embed_texts(found, ["abc"])
    with pytest.raises(InvalidInput, match=r"shape \(1, 2\), expected floats of shape \(1, 3\)"):
        embed_texts(found, ["ab"])


def test_a_sentence_transformer_as_it_is() -> None:
    model = Encoder()
    found = resolve(model)
    assert identity(found) == {"name": "org/model", "dim": 8}
    assert np.array_equal(embed_texts(found, ["a"]).vectors[0], vector("a"))
    assert model.wishes == [{"bar": False, "numpy": True}]
    assert resolve(Encoder(dim=None)).dim == 8  # a model that cannot say: it is asked


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("org/model", "org/model"),
        ("/home/me/.cache/hub/models--org--model/snapshots/0123abcd", "org/model"),
        ("/srv/models/mine", "mine"),
        ("./models/mine", "mine"),
        ("/srv/models/mine/", "mine"),
        ("/srv/models/mine/0_Transformer", "mine"),
        ("sentence-transformers/all-MiniLM-L6-v2", "minilm"),
        ("/c/models--sentence-transformers--all-MiniLM-L6-v2/snapshots/0", "minilm"),
        ("/c/sentence-transformers_all-MiniLM-L6-v2", "minilm"),
    ],
)
def test_a_model_has_one_name_wherever_its_files_lie(where: str, name: str) -> None:
    assert resolve(Encoder(where)).name == name


def test_a_model_without_a_name_is_called_by_its_class() -> None:
    assert resolve(Encoder(None)).name == f"{__name__}.Encoder"
    card = Encoder(None)
    card.model_card_data = SimpleNamespace(model_id=None, base_model="org/card")
    assert resolve(card).name == "org/card"


def test_a_model2vec_model_as_it_is() -> None:
    one, same, other = resolve(Static(0)), resolve(Static(0)), resolve(Static(1))
    assert identity(one) == identity(same)
    assert one.name.startswith("org/base#")
    assert identity(one) != identity(other)  # both distilled from one base
    assert embed_texts(one, ["ab", "c"]).vectors.shape == (2, 8)


def test_properties_that_raise_are_passed_over() -> None:
    class Hostile(Encoder):
        @property
        def transformers_model(self) -> Any:
            raise RuntimeError("not loaded")

    assert resolve(Hostile()).name == "org/model"


# answers


def test_equal_texts_are_embedded_once_and_every_text_gets_its_own() -> None:
    own = Hashes()
    texts = ["a", "b", "a", "", "b", "c"]
    vectors, has = embed_texts(own, texts)
    assert own.calls == [["a", "b", "", "c"]]
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, [vector(text) for text in texts])
    assert has.tolist() == [True, True, True, False, True, True]


def test_calls_are_of_bounded_size_and_in_order() -> None:
    own = Hashes()
    texts = [f"note {number}" for number in range(2 * BATCH + 1)]
    assert len(embed_texts(own, texts).vectors) == len(texts)
    assert [len(call) for call in own.calls] == [BATCH, BATCH, 1]
    assert [text for call in own.calls for text in call] == texts

    own = Hashes()
    half = BATCH_CHARACTERS // 2
    embed_texts(own, ["a" * half, "b" * half, "c", "d" * (3 * half), "e"])
    assert [[text[0] for text in call] for call in own.calls] == [["a", "b"], ["c"], ["d"], ["e"]]


def test_no_texts_make_no_call() -> None:
    own = Hashes()
    vectors, has = embed_texts(own, [])
    assert vectors.shape == (0, 8)
    assert vectors.dtype == np.float32
    assert has.shape == (0,)
    assert own.calls == []
    assert embed_texts(resolve(lengths), []).vectors.shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_floats_of_any_width_are_taken(dtype: Any) -> None:
    vectors, _ = embed_texts(Hashes(dtype=dtype), ["a", "b"])
    assert vectors.dtype == np.dtype(np.float32)
    assert np.array_equal(vectors, [vector("a"), vector("b")])


def test_an_answer_is_copied() -> None:
    buffer = np.ones((1, 4), np.float32)
    vectors, _ = embed_texts(Answers(buffer), ["a"])
    buffer[:] = 7
    assert vectors.tolist() == [[1, 1, 1, 1]]


@settings(max_examples=50)
@given(texts=st.lists(st.text(max_size=3), max_size=20))
def test_any_texts(texts: list[str]) -> None:
    texts = [text for text in texts if text.isprintable()]
    vectors, has = embed_texts(Hashes(), texts)
    expected = np.array([vector(text) for text in texts], np.float32).reshape(-1, 8)
    assert np.array_equal(vectors, expected)
    assert np.array_equal(has, expected.any(axis=1))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda n: np.ones((n, 5)), "an array of shape (3, 5), expected floats of shape (3, 4)"),
        (lambda n: np.ones((n - 1, 4)), "an array of shape (2, 4), expected floats of shape (3"),
        (lambda n: np.ones((n + 1, 4)), "found an array of shape (4, 4), expected"),
        (lambda n: np.ones(4), "found an array of shape (4,), expected"),
        (lambda n: np.ones((n, 4, 1)), "found an array of shape (3, 4, 1), expected"),
        (lambda n: np.ones((n, 4), int), "found int64, expected floats of shape (3, 4) (float16,"),
        (lambda n: np.ones((n, 4), complex), "found complex128, expected"),
        (lambda n: np.ones((n, 4), np.longdouble), "expected floats of shape (3, 4) (float16,"),
        (lambda n: [["1"] * 4] * n, "found a list (dtype <U1), expected"),
        (lambda n: [[1.0] * 4, [1.0]], "found a list that is no array, expected"),
        (lambda n: (row for row in ()), "found a generator (dtype object), expected"),
        (None, "found a NoneType (dtype object), expected"),
    ],
)  # fmt: skip
def test_another_answer_is_refused(answer: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as error:
        embed_texts(Answers(answer), ["a", "b", "c"])
    assert str(error.value).startswith("embedder 'broken': ")
    assert told in str(error.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_numbers_must_be_finite_and_the_text_is_named(bad: float) -> None:
    class Late(Hashes):
        def embed(self, texts: list[str]) -> Any:
            found = super().embed(texts).astype(np.float64)
            found[[text == "bad" for text in texts], 2] = bad
            return found

    texts = [f"note {number % 300}" for number in range(400)] + ["bad"]
    with pytest.raises(InvalidInput, match=r"in the vector of text 400, expected finite"):
        embed_texts(Late(), texts)


def test_an_error_of_the_embedder_is_the_cause_of_ours() -> None:
    cause = OSError("the service is away")
    with pytest.raises(FastAssocError) as error:
        embed_texts(Answers(cause), ["a"])
    assert error.value.__cause__ is cause
    assert not isinstance(error.value, ValueError)  # no input is wrong
    assert "embedder 'broken' failed on 1 text" in str(error.value)
    assert "OSError: the service is away" in str(error.value)
    with pytest.raises(KeyboardInterrupt):
        embed_texts(Answers(KeyboardInterrupt()), ["a"])

    def away(texts: list[str]) -> Any:
        raise cause

    with pytest.raises(FastAssocError, match="failed on 1 text:"):
        identity(resolve(away))


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ("text", "found a str, expected a list of texts"),
        (["a", 7], "text 1: found an int, expected a str"),
        (["a", None], "text 1: found a NoneType, expected a str"),
    ],
)
def test_texts_are_texts(texts: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        embed_texts(Hashes(), texts)


# identity


def test_another_embedder_is_refused_with_both_named() -> None:
    saved = identity(Hashes("one", 8))
    require_same(saved, Hashes("one", 8))
    require_same(None, Hashes())
    require_same(saved, None)
    for other in (Hashes("two", 8), Hashes("one", 16)):
        with pytest.raises(EmbedderMismatch) as error:
            require_same(saved, other)
        told = str(error.value)
        assert "'one' (width 8)" in told
        assert f"{other.name!r} (width {other.dim})" in told
        assert "mem.reembed(" in told


# models with names


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for model, extra in ((models.WordLlama(), "embed"), (models.MiniLM(), "minilm")):
        with pytest.raises(FastAssocError) as error:
            embed_texts(model, ["a"])
        assert f'pip install "fastassoc[{extra}]"' in str(error.value)
        assert model.name in str(error.value)
    assert all("not installed" in state for state in available().values())


def clean_caches(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(home))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """A package sentence_transformers that tells how it was called."""
    made: list[tuple[Any, dict[str, Any]]] = []

    class SentenceTransformer(Encoder):
        def __init__(self, where: Any, **how: Any) -> None:
            super().__init__(where, 384)
            made.append((where, how))

        def encode(self, sentences: list[str], **_: Any) -> Any:
            return np.array([vector(text, 384) for text in sentences])

    package = ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    return made


@pytest.mark.parametrize("layout", ["hub", "hub without refs", "folder"])
def test_minilm_is_loaded_from_files_that_are_here(
    layout: str, fake: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean_caches(monkeypatch, tmp_path)
    kept = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    folder = kept / "snapshots" / "0123"
    if layout == "folder":
        monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "st"))
        folder = tmp_path / "st" / "sentence-transformers_all-MiniLM-L6-v2"
    folder.mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    if layout == "hub":
        (kept / "snapshots" / "0000").mkdir()
        (kept / "refs").mkdir()
        (kept / "refs" / "main").write_text("0123")
    model = models.MiniLM()
    assert model.state() == "ready"
    assert fake == []
    assert embed_texts(model, ["a", "b"]).vectors.shape == (2, 384)
    embed_texts(model, ["c"])
    assert fake == [(str(folder), {"device": "cpu", "local_files_only": True})]


def test_minilm_without_files_says_where_it_looked(
    fake: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean_caches(monkeypatch, tmp_path)
    with pytest.raises(FastAssocError) as error:
        embed_texts(models.MiniLM(), ["a"])
    assert str(tmp_path / "hub") in str(error.value)
    assert "hf download sentence-transformers/all-MiniLM-L6-v2" in str(error.value)
    assert fake == []
    for name in ("HF_HOME", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert "looked in" in models.MiniLM().state()


def test_a_model_is_loaded_once_by_many_threads() -> None:
    class Slow(models.Named):
        name, dim = "slow", 8
        loads = 0

        def _load(self) -> Any:
            self.loads += 1
            return Hashes()

        def embed(self, texts: list[str], /) -> Any:
            return self._model().embed(texts)

    model = Slow()
    threads = [threading.Thread(target=embed_texts, args=(model, ["a"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.loads == 1


def test_a_long_text_is_cut_at_spaces() -> None:
    most = models.WordLlama.PIECE
    for text in ("", "word", "x" * (2 * most + 5), "many words " * most):
        pieces = list(models._pieces(text))
        assert "".join(pieces) == text
        assert max(map(len, pieces)) <= most
    assert all(piece[0] == " " for piece in list(models._pieces("word " * most))[1:])


@needs_wordllama
def test_wordllama_says_the_same_alone_and_in_a_batch() -> None:
    model = resolve("wordllama")
    rng = np.random.default_rng(5)
    words = ["retry", "backoff", "deploy", "timeout", "café", "日本語", "cache", "🙂"]
    texts = [" ".join(rng.choice(words, 1 + rng.integers(60))) for _ in range(300)]
    texts += ["x" * 3000, "a long one " * 8000, "", " "]
    together, has = embed_texts(model, texts)
    assert together.shape == (len(texts), 256)
    assert not has[texts.index("")]
    assert np.array_equal(together[::-1], embed_texts(model, texts[::-1]).vectors)
    for number in (0, 1, 2, 150, len(texts) - 3, len(texts) - 4):
        assert np.array_equal(together[number], embed_texts(model, [texts[number]]).vectors[0])


@needs_wordllama
def test_wordllama_finds_what_is_near() -> None:
    vectors, has = embed_texts(
        resolve("wordllama"),
        ["the car needs petrol", "fuel for the automobile", "a recipe for bread"],
    )
    assert has.all()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > unit[0] @ unit[2] + 0.1


@needs_wordllama
def test_a_long_text_in_pieces_is_close_to_the_whole() -> None:
    model = models.WordLlama()
    text = "Backoff of two seconds fixed the flaky call; the deploy kept timing out. " * 1000
    pieces = embed_texts(model, [text]).vectors[0].astype(float)
    whole = model._model().embed([text])[0].astype(float)
    assert pieces @ whole / np.linalg.norm(pieces) / np.linalg.norm(whole) > 0.9999


@needs_wordllama
def test_wordllama_leaves_the_root_logger_alone() -> None:
    code = (
        "import logging; from fastassoc.embed import *; embed_texts(resolve('wordllama'), ['a']);"
        "print(logging.getLogger().handlers, logging.getLogger().level)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["[]", str(logging.WARNING)]
    assert done.stderr == ""


@needs_wordllama
def test_wordllama_asks_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the network was asked")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    assert embed_texts(models.WordLlama(), ["a"]).given.all()


@needs_wordllama
def test_nothing_of_the_interpreter_asks_the_network_or_writes(tmp_path: Path) -> None:
    """Seen from below: the audit events of a new process, its imports included."""
    code = """
import sys
asked = []
def hook(event, args):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}:
        asked.append(event)
sys.addaudithook(hook)
from fastassoc.embed import available, embed_texts, resolve
available()
embed_texts(resolve("wordllama"), ["a", "b"])
print(asked)
"""
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], check=True, capture_output=True, text=True, env=home
    )
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []
