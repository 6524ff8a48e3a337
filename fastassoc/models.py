"""Models known by name, loaded at their first use from local files; what others call themselves."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastassoc.errors import FastAssocError

__all__ = ["NAMED", "MiniLM", "Named", "callable_name", "encode", "model_name", "model_width"]


class Named:
    """A model that is loaded at its first use, once, whichever threads ask."""

    name: str
    dim: int

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: Any = None

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        raise NotImplementedError

    def state(self) -> str:
        """``"ready"``, or what is missing and how to get it."""
        raise NotImplementedError

    def embed(self, texts: list[str], /) -> Any:
        """One row of `dim` floats for each text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<embedder {self.name}, {self.dim} numbers>"


class WordLlama(Named):
    """Means of word-piece vectors; the weights lie in the package itself."""

    name = "wordllama"
    dim = 256
    PIECE = 1 << 14  # characters; a longer text is the mean of its pieces, by their length
    PADDED = 1 << 14  # characters of a group, each text counted as long as the longest

    def state(self) -> str:
        folder = _folder("wordllama")
        if folder is None:
            return _install("wordllama", "embed")
        weights = folder / "weights" / f"l2_supercat_{self.dim}.safetensors"
        return "ready" if weights.is_file() else f"its weights are missing: {weights}"

    def _load(self) -> Any:
        state = self.state()
        if state != "ready":
            raise FastAssocError(f"embedder {self.name!r}: {state}")
        # its import sets up the root logger, which belongs to the caller
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        try:
            import wordllama
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
        # without this folder the tokenizer is not found beside the weights, but fetched
        return wordllama.WordLlama.load(
            "l2_supercat", cache_dir=_folder("wordllama"), dim=self.dim, disable_download=True
        )

    def embed(self, texts: list[str], /) -> NDArray[np.float32]:
        model = self._model()
        vectors = np.zeros((len(texts), self.dim), np.float32)
        pieces = [(row, piece) for row, text in enumerate(texts) for piece in _pieces(text)]
        pieces.sort(key=lambda piece: len(piece[1]))
        lengths = [len(text) for text in texts]
        for group in self._groups(pieces):
            found = model.embed([piece for _, piece in group], batch_size=len(group))
            for (row, piece), vector in zip(group, found, strict=True):
                if len(piece) == lengths[row]:
                    vectors[row] = vector
                else:
                    vectors[row] += vector * np.float32(len(piece) / lengths[row])
        return vectors

    def _groups(self, pieces: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
        """Shortest first, in groups whose padding to the longest stays bounded."""
        group: list[tuple[int, str]] = []
        for piece in pieces:
            if group and (len(group) + 1) * len(piece[1]) > self.PADDED:
                yield group
                group = []
            group.append(piece)
        if group:
            yield group


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces of bounded length, cut at a space where there is one."""
    start = 0
    while len(text) - start > WordLlama.PIECE:
        most = start + WordLlama.PIECE
        cut = text.rfind(" ", start + 1, most)
        cut = cut if cut > start else most
        yield text[start:cut]
        start = cut
    yield text[start:]


class MiniLM(Named):
    """The sentence-transformers model all-MiniLM-L6-v2, from files that are here already."""

    name = "minilm"
    dim = 384
    MODEL = "sentence-transformers/all-MiniLM-L6-v2"

    def state(self) -> str:
        if not _installed("sentence_transformers"):
            return _install("sentence-transformers", "minilm")
        return "ready" if self._files() else self._missing()

    def _load(self) -> Any:
        state = self.state()
        if state != "ready":
            raise FastAssocError(f"embedder {self.name!r}: {state}")
        from sentence_transformers import SentenceTransformer

        # a folder, so that nothing is asked of the network; one processor, one answer
        return SentenceTransformer(str(self._files()), device="cpu", local_files_only=True)

    def embed(self, texts: list[str], /) -> Any:
        return encode(self._model(), texts)

    def _caches(self) -> list[Path]:
        """Where the packages themselves keep what they fetched, in their order."""
        env = os.environ
        cache = env.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
        home = env.get("HF_HOME") or os.path.join(cache, "huggingface")
        hub = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
        places = [env.get("SENTENCE_TRANSFORMERS_HOME"), hub or os.path.join(home, "hub")]
        return [Path(os.path.expanduser(place)) for place in places if place]

    def _files(self) -> Path | None:
        for cache in self._caches():
            kept = cache / f"models--{self.MODEL.replace('/', '--')}"
            try:
                main = (kept / "refs" / "main").read_text(encoding="ascii").strip()
                folders = [kept / "snapshots" / main]
            except (OSError, UnicodeDecodeError):
                folders = sorted(kept.glob("snapshots/*"))
            for folder in (*folders, cache / self.MODEL.replace("/", "_")):
                if (folder / "modules.json").is_file():
                    return folder
        return None

    def _missing(self) -> str:
        places = " and ".join(map(str, self._caches()))
        return (
            f"the files of {self.MODEL} are not here; looked in {places}. Fetch them once, where "
            f"there is a network (`hf download {self.MODEL}`), or load the model from a folder of "
            "yours and pass the SentenceTransformer itself as the embedder."
        )


def encode(model: Any, texts: list[str]) -> Any:
    """Call ``encode`` with what keeps it quiet, where it takes that."""
    wishes = {"show_progress_bar": False, "convert_to_numpy": True}
    try:
        known = set(inspect.signature(model.encode).parameters)
    except (TypeError, ValueError):
        known = set()
    return model.encode(texts, **{key: wish for key, wish in wishes.items() if key in known})


# where models say what they are; the network may add to the last two, so files come first
_NAME_PATHS = (
    ("name",),
    ("transformers_model", "name_or_path"),
    (0, "auto_model", "name_or_path"),
    ("tokenizer", "name_or_path"),
    ("base_model_name",),
    ("model_card_data", "model_id"),
    ("model_card_data", "base_model"),
)
_WIDTH_CALLS = ("get_embedding_dimension", "get_sentence_embedding_dimension")


def model_name(model: Any) -> str:
    """What a model with ``encode`` calls itself, wherever its files lie."""
    found = (_at(model, path) for path in _NAME_PATHS)
    name = next((name for name in found if isinstance(name, str) and name.strip()), None)
    name = _qualified(type(model)) if name is None else _without_folder(name)
    if name.replace("sentence-transformers_", "sentence-transformers/") == MiniLM.MODEL:
        return MiniLM.name
    # Model2Vec names only what its vectors were distilled from, which many models share
    table = getattr(model, "embedding", None)
    return f"{name}#{_digest(model, table)}" if isinstance(table, np.ndarray) else name


def _digest(model: Any, table: NDArray[Any]) -> str:
    digest = xxhash.xxh3_64()
    for array in (table, getattr(model, "weights", None), getattr(model, "token_mapping", None)):
        if isinstance(array, np.ndarray):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _at(thing: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        try:
            thing = thing[step] if isinstance(step, int) else getattr(thing, step, None)
        except Exception:  # a stranger's property, which may raise anything
            return None
    return thing


def _without_folder(name: str) -> str:
    """The name of a model that was loaded from a folder, wherever that lies."""
    path = Path(name)
    if re.fullmatch(r"\d+_\w+", path.name):  # one module's folder within the model's
        path = path.parent
    parts = path.parts
    kept = next((part for part in parts if part.startswith("models--")), None)
    if kept is not None:
        return kept.removeprefix("models--").replace("--", "/")
    return path.absolute().name if path.is_absolute() or name[0] in ".~" else name


def model_width(model: Any) -> Any:
    """The width that a model tells, not checked; None where it tells none."""
    for name in _WIDTH_CALLS:
        width = getattr(model, name, None)
        if callable(width):
            found = width()
            if found is not None:
                return found
    dim = _at(model, ("dim",))
    return None if callable(dim) else dim


def callable_name(function: Any) -> Any:
    """The attribute ``name`` of a callable, or else its module and qualified name."""
    if getattr(function, "name", None) is not None:
        return function.name
    if isinstance(function, partial):
        return callable_name(function.func)
    return _qualified(function if hasattr(function, "__qualname__") else type(function))


def _qualified(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None) or 'builtins'}.{thing.__qualname__}"


def _installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def _folder(package: str) -> Path | None:
    """Where a package lies, found without importing it."""
    spec = importlib.util.find_spec(package) if _installed(package) else None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _install(package: str, extra: str) -> str:
    return f'{package} is not installed: pip install "fastassoc[{extra}]"'


NAMED: dict[str, WordLlama | MiniLM] = {"wordllama": WordLlama(), "minilm": MiniLM()}
