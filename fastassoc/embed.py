"""Embedders: what turns texts into vectors. Two are known by name; both work without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fastassoc.errors import EmbedderMismatch, FastAssocError, InvalidInput
from fastassoc.models import NAMED, MiniLM, Named, callable_name, encode, model_name, model_width

__all__ = [
    "NAMES",
    "Embedded",
    "Embedder",
    "available",
    "embed_texts",
    "identity",
    "require_same",
    "resolve",
]

BATCH = 256  # texts of one call of an embedder
BATCH_CHARACTERS = 1 << 20  # of one call, unless a single text is longer
WIDEST = 1 << 16
LONGEST_NAME = 512  # bytes
LEAST = 2.0**-126  # smaller numbers alone are a row of zeros
PROBE = "fastassoc"  # the text that tells a width which nothing else tells
NAMES = tuple(NAMED)


class Embedder(Protocol):
    """What turns texts into vectors; any object of this shape is one.

    The name stands for the model: where it is the same, so must be the vectors.

    Attributes
    ----------
    name : str
    dim : int
    """

    @property
    def name(self) -> str:
        """What the store remembers it by."""

    @property
    def dim(self) -> int:
        """The width of its vectors."""

    def embed(self, texts: list[str], /) -> Any:
        """Embed texts.

        Parameters
        ----------
        texts : list of str

        Returns
        -------
        ndarray, float32, shape (n, dim)
            One row for each text; a row of zeros says that the text has no vector. float16,
            float64 and lists of floats are taken, too.
        """


class Embedded(NamedTuple):
    """What `embed_texts` returns.

    Attributes
    ----------
    vectors : ndarray, float32, shape (n, dim)
    given : ndarray, bool, shape (n,)
        False where the row is zero: the text has no vector.
    """

    vectors: NDArray[np.float32]
    given: NDArray[np.bool_]


class _Found:
    """Something of the caller's, as an embedder: its width is asked of it when it is needed."""

    def __init__(self, given: Any, name: str, dim: int | None) -> None:
        self.given = given
        self.name = name
        self.known = dim

    @property
    def dim(self) -> int:
        if self.known is None:
            answer = _answer(partial(self.embed, [PROBE]), self.name, 1)
            self.known = _checked(answer, self.name, 1, None).shape[1]
        return self.known

    def embed(self, texts: list[str], /) -> Any:
        return self.given(texts)

    def __repr__(self) -> str:
        return f"<embedder {self.name}>"


class _Encoder(_Found):
    """An object with ``encode``, as those of Model2Vec and sentence-transformers are."""

    def embed(self, texts: list[str], /) -> Any:
        return encode(self.given, texts)


def resolve(embedder: Any) -> Embedder | None:
    """Find the embedder that a caller means.

    Nothing is loaded: a model that has a name here is loaded when it first embeds.

    Parameters
    ----------
    embedder : None, str, or object
        None; a name of `NAMES`; an object with ``name``, ``dim`` and ``embed(list of str)``; a
        Model2Vec or sentence-transformers model (any object with ``encode``); or a callable that
        takes a list of str and returns one row of floats for each. The name of a model is found
        in it; that of a callable is its attribute ``name``, or else its module and qualified name.
        A width that no attribute tells is found by embedding one word, when it is first needed.

    Returns
    -------
    Embedder or None

    Raises
    ------
    InvalidInput
        An unknown name, or something that is no embedder.

    Examples
    --------
    >>> from fastassoc.embed import resolve
    >>> resolve("wordllama").dim
    256
    >>> resolve(lambda texts: [[float(len(text)), 1.0] for text in texts]).dim
    2
    >>> resolve("word2vec")
    Traceback (most recent call last):
    fastassoc.errors.InvalidInput: embedder: found 'word2vec', expected one of wordllama, minilm, \
or an object with name, dim and embed, a model with encode, or a callable.
    """
    if embedder is None or isinstance(embedder, (Named, _Found)):
        return embedder
    if isinstance(embedder, str):
        named = {**NAMED, MiniLM.MODEL: NAMED["minilm"]}
        if embedder not in named:
            raise InvalidInput(f"embedder: found {embedder!r}, expected {_kinds()}.")
        return named[embedder]
    if isinstance(embedder, type):
        raise InvalidInput(
            f"embedder: found the class {embedder.__qualname__}, expected an object: make one."
        )
    if all(hasattr(embedder, part) for part in ("name", "dim", "embed")):
        _name(embedder.name)
        _width(embedder.dim, embedder.name)
        checked: Embedder = embedder
        return checked
    if callable(getattr(embedder, "encode", None)):
        name = _name(model_name(embedder))
        dim = _answer(partial(model_width, embedder), name, 0)
        return _Encoder(embedder, name, None if dim is None else _width(dim, name))
    if callable(embedder):
        name = _name(callable_name(embedder))
        dim = getattr(embedder, "dim", None)
        return _Found(embedder, name, None if dim is None else _width(dim, name))
    parts = [part for part in ("name", "dim", "embed") if not hasattr(embedder, part)]
    missing = f", which lacks {' and '.join(parts)}" if len(parts) < 3 else ""
    kind = type(embedder).__name__
    raise InvalidInput(f"embedder: found {_a(kind)}{missing}; expected {_kinds()}.")


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Embedded:
    """Embed texts in calls of bounded size, and check every answer.

    Equal texts are embedded once. The order of the texts is kept in the calls.

    Parameters
    ----------
    embedder : Embedder
        As `resolve` gives it.
    texts : sequence of str

    Returns
    -------
    Embedded
        ``vectors``, float32 of shape (n, dim), finite, and ``given``, bool of shape (n,), False
        where a row is zero: that text has no vector.

    Raises
    ------
    InvalidInput
        A text that is no str, or an answer of another shape, width or dtype than expected, or
        with NaN or infinity.
    FastAssocError
        The embedder failed; its own error is the cause of this one.

    Examples
    --------
    >>> from fastassoc.embed import embed_texts, resolve
    >>> lengths = resolve(lambda texts: [[len(text), len(text) / 2] for text in texts])
    >>> vectors, given = embed_texts(lengths, ["ab", "", "ab"])
    >>> vectors.tolist(), given.tolist()
    ([[2.0, 1.0], [0.0, 0.0], [2.0, 1.0]], [True, False, True])
    """
    if isinstance(texts, (str, bytes)):
        raise InvalidInput(f"texts: found {_a(type(texts).__name__)}, expected a list of texts.")
    places: dict[str, int] = {}
    first: list[int] = []
    rows = np.empty(len(texts), np.int64)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInput(f"text {number}: found {_a(type(text).__name__)}, expected a str.")
        rows[number] = places.setdefault(text, len(places))
        if len(places) > len(first):
            first.append(number)
    distinct = list(places)
    found = []
    for start, stop in _batches(distinct):
        batch = distinct[start:stop]
        answer = _answer(partial(embedder.embed, batch), embedder.name, len(batch))
        learn = isinstance(embedder, _Found) and embedder.known is None
        dim = None if learn else _width(embedder.dim, embedder.name)
        vectors = _checked(answer, embedder.name, len(batch), dim, first[start:stop])
        if isinstance(embedder, _Found):
            embedder.known = vectors.shape[1]
        found.append(vectors)
    if not found:
        found.append(np.empty((0, _width(embedder.dim, embedder.name)), np.float32))
    whole = found[0] if len(found) == 1 else np.concatenate(found)
    vectors = whole if len(distinct) == len(texts) else whole[rows]
    return Embedded(vectors, np.abs(vectors).max(axis=1, initial=0.0) >= LEAST)


def identity(embedder: Embedder) -> dict[str, Any]:
    """What a store remembers of an embedder.

    Returns
    -------
    dict
        ``name`` (str) and ``dim`` (int).

    Examples
    --------
    >>> from fastassoc.embed import identity, resolve
    >>> identity(resolve("wordllama"))
    {'name': 'wordllama', 'dim': 256}
    """
    name = _name(embedder.name)
    return {"name": name, "dim": _width(embedder.dim, name)}


def require_same(saved: Mapping[str, Any] | None, embedder: Embedder | None) -> None:
    """Refuse an embedder that is not the one of the store; None on either side agrees.

    Parameters
    ----------
    saved : mapping or None
        The `identity` that the store remembers.
    embedder : Embedder or None

    Raises
    ------
    EmbedderMismatch
        Another name or width; the message has both.

    Examples
    --------
    >>> from fastassoc.embed import require_same, resolve
    >>> require_same({"name": "minilm", "dim": 384}, resolve("wordllama"))
    Traceback (most recent call last):
    fastassoc.errors.EmbedderMismatch: the store's vectors come from the embedder 'minilm' \
(width 384), found 'wordllama' (width 256): open the store with the first, or without an \
embedder and move it with mem.reembed(embedder).
    """
    if saved is None or embedder is None:
        return
    given = identity(embedder)
    if (given["name"], given["dim"]) != (saved["name"], saved["dim"]):
        raise EmbedderMismatch(
            f"the store's vectors come from the embedder {saved['name']!r} (width {saved['dim']}), "
            f"found {given['name']!r} (width {given['dim']}): open the store with the first, or "
            "without an embedder and move it with mem.reembed(embedder)."
        )


def available() -> dict[str, str]:
    """Say for each name of `NAMES` whether it can be used; nothing is loaded.

    Returns
    -------
    dict of str to str
        ``"ready"``, or what is missing and how to get it.

    Examples
    --------
    >>> from fastassoc.embed import available
    >>> list(available())
    ['wordllama', 'minilm']
    """
    return {name: embedder.state() for name, embedder in NAMED.items()}


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    start = characters = 0
    for number, text in enumerate(texts):
        characters += len(text)
        if number > start and (number - start == BATCH or characters > BATCH_CHARACTERS):
            yield start, number
            start, characters = number, len(text)
    if start < len(texts):
        yield start, len(texts)


def _answer(call: Callable[[], Any], name: str, n: int) -> Any:
    try:
        return call()
    except FastAssocError:
        raise
    except Exception as error:
        raise FastAssocError(
            f"embedder {name!r} failed on {n} text{'s' * (n != 1)}: {type(error).__name__}: {error}"
        ) from error


def _checked(
    answer: Any, name: str, n: int, dim: int | None, numbers: Sequence[int] | None = None
) -> NDArray[np.float32]:
    """An answer as float32 of its own, shape (n, dim); `numbers` are those of the texts."""
    wanted = f"expected floats of shape ({n}, {'width' if dim is None else dim})"
    try:
        array = np.asarray(answer)
    except Exception as error:
        kind = _a(type(answer).__name__)
        raise InvalidInput(
            f"embedder {name!r}: found {kind} that is no array, {wanted}."
        ) from error
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        what = array.dtype if isinstance(answer, np.ndarray) else _a(type(answer).__name__)
        more = "" if isinstance(answer, np.ndarray) else f" (dtype {array.dtype})"
        raise InvalidInput(
            f"embedder {name!r}: found {what}{more}, {wanted} (float16, float32 or float64)."
        )
    if array.ndim != 2 or len(array) != n or array.shape[1] != (dim or array.shape[1]):
        raise InvalidInput(
            f"embedder {name!r}: found an array of shape {array.shape}, {wanted}: one row for each "
            "text."
        )
    _width(array.shape[1], name)
    with np.errstate(over="ignore"):
        vectors = array.astype(np.float32)
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        number = row if numbers is None else numbers[row]
        raise InvalidInput(
            f"embedder {name!r}: found NaN, or a number beyond float32, in the vector of text "
            f"{number}, expected finite numbers; a row of zeros says that there is no vector."
        )
    return vectors


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"embedder: found the name {name!r}, expected a text that is not empty.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = LONGEST_NAME + 1
    if size > LONGEST_NAME:
        raise InvalidInput(
            f"embedder: found the name {name[:40]!a}..., expected Unicode text of at most "
            f"{LONGEST_NAME} bytes."
        )
    return name


def _width(dim: Any, name: str) -> int:
    if isinstance(dim, (bool, np.bool_)) or not isinstance(dim, (int, np.integer)):
        raise InvalidInput(f"embedder {name!r}: found the width {dim!r}, expected a whole number.")
    if not 1 <= dim <= WIDEST:
        raise InvalidInput(f"embedder {name!r}: found the width {dim}, expected 1 to {WIDEST}.")
    return int(dim)


def _kinds() -> str:
    return (
        f"one of {', '.join(NAMES)}, or an object with name, dim and embed, a model with encode, "
        "or a callable"
    )


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
