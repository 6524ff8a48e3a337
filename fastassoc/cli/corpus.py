"""The documentation found on this machine, as notes: which packages, each symbol once."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from fastassoc.cli.docsource import (
    Definition,
    Module,
    canonical_names,
    parse_module,
    settle_added,
    source_files,
)
from fastassoc.cli.doctext import split, summary

__all__ = ["PACKAGES", "Corpus", "Symbol", "collect"]

STANDARD = "python"  # how the standard library is called here
# what is read, if it is installed, in this order; nothing else is looked at
PACKAGES = (
    STANDARD, "numpy", "scipy", "pyarrow", "numba", "click", "rich", "apsw",
    "networkx", "pandas", "sklearn", "matplotlib", "requests", "sympy", "sqlalchemy", "flask",
)  # fmt: skip
MAX_FILES = 2_000  # so that a full machine takes no longer than a bare one

# modules in C, which have no source to read: the standard library's, and what fastassoc needs
COMPILED: dict[str, dict[str, str]] = {  # package -> module -> the name it is known by
    STANDARD: {
        "builtins": "builtins", "math": "math", "cmath": "cmath", "itertools": "itertools",
        "_io": "io", "time": "time", "sys": "sys", "posix": "os", "nt": "os",
        "_collections": "collections",
        "_functools": "functools", "array": "array", "zlib": "zlib", "_struct": "struct",
        "_bisect": "bisect", "_heapq": "heapq", "_operator": "operator", "_socket": "socket",
        "select": "select", "gc": "gc", "binascii": "binascii", "_thread": "threading",
        "unicodedata": "unicodedata", "_sqlite3": "sqlite3", "mmap": "mmap", "_csv": "csv",
        "fcntl": "fcntl", "resource": "resource", "_datetime": "datetime", "_statistics":
        "statistics", "_random": "random", "_hashlib": "hashlib", "_ssl": "ssl", "_lzma": "lzma",
        "_bz2": "bz2", "_weakref": "weakref", "_contextvars": "contextvars",
    },
    "numpy": {"numpy": "numpy", "numpy.random": "numpy.random", "numpy.linalg": "numpy.linalg"},
    "scipy": {"scipy.special": "scipy.special"},
    "pyarrow": {
        name: name
        for name in ("pyarrow", "pyarrow.compute", "pyarrow.dataset", "pyarrow.fs", "pyarrow.csv",
                     "pyarrow.json", "pyarrow.parquet")
    },
    "apsw": {"apsw": "apsw"},
}  # fmt: skip
# a compiler's insides: documented for those who work on it
INTERNAL = ("numba.core.", "numba.cpython.", "numba.np.", "numba.parfors.", "numba.misc.")


@dataclass(frozen=True)
class Symbol:
    """One documented thing.

    Attributes
    ----------
    name : str
        The best public name, ``numpy.linalg.solve``.
    kind, package, signature : str
    prose : str
        Its documentation without "See Also", examples and references.
    see : list of str
        What its "See Also" lists, as written.
    aliases : list of str
        Other public names of the same thing.
    """

    name: str
    kind: str
    package: str
    signature: str
    prose: str
    see: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The module or class that it is in."""
        return self.name.rpartition(".")[0]

    @property
    def short(self) -> str:
        """The name as people say it: ``linalg.solve``, ``Path.read_text``."""
        return ".".join(self.name.split(".")[-2:])

    @property
    def text(self) -> str:
        """The note's text: name and first sentence on a line, how to call it, then the rest."""
        call = f"{self.short}{self.signature}" if self.signature else ""
        rest = self.prose.partition("\n\n")[2]
        lines = [f"{self.name}: {summary(self.prose)}", call, rest]
        return "\n".join(line for line in lines if line.strip())


@dataclass
class Corpus:
    """What was collected.

    Attributes
    ----------
    symbols : list of Symbol
        By name, each once.
    packages : dict of str to int
        Symbols of each package.
    files : int
        Source files read.
    skipped : list of str
        Files that could not be read or parsed.
    left_out : list of str
        Packages that are installed but over the limit of files.
    """

    symbols: list[Symbol] = field(default_factory=list)
    packages: dict[str, int] = field(default_factory=dict)
    files: int = 0
    skipped: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def collect(
    packages: Sequence[str] = PACKAGES,
    *,
    progress: Callable[[int, int], None] | None = None,
    max_files: int = MAX_FILES,
) -> Corpus:
    """Read the documentation of the packages that are installed.

    Source is parsed, never run. Only modules in C, of the standard library and of packages that
    fastassoc itself needs, are imported, for they have no source.

    Parameters
    ----------
    packages : sequence of str
        Names to look for; ``"python"`` is the standard library.
    progress : callable, optional
        Called with the number of files so far, and of all.
    max_files : int
        Packages that would go beyond are left out.
    """
    corpus = Corpus()
    held: dict[str, Symbol] = {}
    chosen: dict[str, list[tuple[str, Path]]] = {}
    total = 0
    for package in packages:
        root = _root(package)
        if root is None:
            continue
        files = list(source_files(root, "" if package == STANDARD else package))
        if total + len(files) > max_files:
            corpus.left_out.append(package)
        else:
            chosen[package] = files
            total += len(files)
    for package, files in chosen.items():
        before = len(held)
        modules: dict[str, Module] = {}
        for name, path in files:
            try:
                modules[name] = parse_module(name, path)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                corpus.skipped.append(str(path))
            corpus.files += 1
            if progress is not None:
                progress(corpus.files, total)
        for symbol in _sourced(package, modules):
            held.setdefault(symbol.name, symbol)
        known = set(held) | {alias for one in held.values() for alias in one.aliases}
        for symbol in _compiled(package):
            if symbol.name not in known:
                held.setdefault(symbol.name, symbol)
        if package == STANDARD:
            for symbol in _topics():
                held.setdefault(symbol.name, symbol)
        corpus.packages[package] = len(held) - before
    corpus.symbols = sorted(held.values(), key=lambda one: one.name)
    return corpus


def _root(package: str) -> Path | None:
    """Where a package's source is, without importing it."""
    if package == STANDARD:
        return Path(sysconfig.get_path("stdlib"))
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        places = list(spec.submodule_search_locations or ()) if spec else []
        return Path(places[0]) if places else None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _symbol(package: str, name: str, one: Definition, aliases: Iterable[str] = ()) -> Symbol | None:
    parts = split(one.doc)
    if len(parts.prose.split()) < 3 or name.startswith(INTERNAL):
        return None
    return Symbol(
        name, one.kind, package, one.signature[:90], parts.prose, parts.see, list(aliases)
    )


def _sourced(package: str, modules: dict[str, Module]) -> list[Symbol]:
    """Symbols of parsed modules."""
    found: list[Symbol | None] = []
    settle_added(modules)
    for (home, name), paths in canonical_names(modules).items():
        module, (best, *aliases) = modules[home], paths
        if name in module.defined:
            found.append(_symbol(package, best, module.defined[name], aliases))
        for one in module.methods.get(name, ()):
            method = one.name.partition(".")[2]
            found.append(_symbol(package, f"{best}.{method}", one))
    for name, module in modules.items():
        if not any(part.startswith("_") for part in name.split(".")):
            found.append(_symbol(package, name, Definition(name, "module", "", module.doc)))
    return [one for one in found if one is not None]


def _topics() -> list[Symbol]:
    """What ``help("with")`` shows: the language reference by topic."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    found = []
    for name, text in sorted(topics.items()):
        one = _symbol(STANDARD, f"topic {name}", Definition(name, "topic", "", text.strip()))
        if one is not None:
            found.append(one)
    return found


# -- modules in C ---------------------------------------------------------------------------------


def _compiled(package: str) -> list[Symbol]:
    """Symbols of the package's modules in C, as far as they are here."""
    found: dict[int, list[tuple[str, Any]]] = {}
    for module_name, shown in COMPILED.get(package, {}).items():
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for attribute, value in _members(module):
            found.setdefault(id(value), []).append((f"{shown}.{attribute}", value))
    symbols: list[Symbol | None] = []
    for names in found.values():
        (best, value), *others = sorted(
            names, key=lambda one: (one[0].count("."), len(one[0]), one[0])
        )
        kind = "class" if inspect.isclass(value) else "function"
        one = _documented(best, kind, value)
        symbols.append(_symbol(package, best, one, [name for name, _ in others]))
        if inspect.isclass(value):
            symbols += [
                _symbol(package, f"{best}.{name}", _documented(name, "method", inner))
                for name, inner in sorted(vars(value).items())
                if not name.startswith("_") and (callable(inner) or inspect.isdatadescriptor(inner))
            ]
    return [one for one in symbols if one is not None]


def _members(module: ModuleType) -> list[tuple[str, Any]]:
    """Public things that belong to the module's package and are not Python functions."""
    top = module.__name__.partition(".")[0]
    found = []
    for name, value in sorted(vars(module).items()):
        home = getattr(value, "__module__", None) or top
        plain = inspect.isfunction(value) and top not in {"pyarrow"}
        if name.startswith("_") or plain or not callable(value) or not isinstance(home, str):
            continue
        if home.partition(".")[0].lstrip("_") == top.lstrip("_") or home == "builtins":
            found.append((name, value))
    return found


def _documented(name: str, kind: str, value: Any) -> Definition:
    """The docstring, and the signature that C code writes into its first line."""
    doc = inspect.cleandoc(str(getattr(value, "__doc__", None) or ""))
    first, _, rest = doc.partition("\n")
    short = name.rpartition(".")[2]
    if f"{short}(" in first and (not rest or not rest.split("\n")[0].strip()):
        signature = first[first.index(f"{short}(") + len(short) :].partition("->")[0].strip()
        signature = signature.removeprefix("(self, ").removeprefix("(self")
        if signature and not signature.startswith("("):
            signature = f"({signature}"
        return Definition(name, kind, signature, inspect.cleandoc(rest))
    return Definition(name, kind, "", doc)
