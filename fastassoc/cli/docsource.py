"""Python source read for its docstrings, with `ast` and without importing anything."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "Definition",
    "Module",
    "canonical_names",
    "parse_module",
    "settle_added",
    "source_files",
]

# folders that hold no documentation for users
FOLDERS = """
__pycache__ _examples _vendor cuda distutils encodings ensurepip f2py idlelib lib2to3 macholib
pydoc_data site-packages dist-packages test testing tests turtledemo
"""
SKIPPED = frozenset(FOLDERS.split())
Target = tuple[str, str]  # a module and a name in it
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """A documented thing.

    Attributes
    ----------
    name : str
        As in its module, ``"Path.read_text"`` for a method.
    kind : str
        ``"function"``, ``"class"``, ``"method"``, ``"module"`` or ``"topic"``.
    signature : str
        ``"(a, b=None)"``, or nothing.
    doc : str
        Cleaned by `inspect.cleandoc`.
    """

    name: str
    kind: str
    signature: str
    doc: str


@dataclass
class Module:
    """What one file defines and what it takes from elsewhere.

    Attributes
    ----------
    name : str
    doc : str
    package : bool
        Whether it is an ``__init__``.
    defined : dict of str to Definition
    methods : dict of str to list of Definition
        By the name of the class.
    same : dict of str to (str, str)
        Names that stand for another module's name, or another name of this module.
    stars : list of str
        Modules of ``from x import *``.
    exported : list of str or None
        ``__all__``, where it is written as a plain list.
    added : list of (str, Definition)
        What ``add_newdoc`` documents, with the public module it belongs to.
    """

    name: str
    doc: str = ""
    package: bool = False
    defined: dict[str, Definition] = field(default_factory=dict)
    methods: dict[str, list[Definition]] = field(default_factory=dict)
    same: dict[str, Target] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    exported: list[str] | None = None
    added: list[tuple[str, Definition]] = field(default_factory=list)


def source_files(root: Path, package: str) -> Iterator[tuple[str, Path]]:
    """Names and files of a package's modules, in order; of one module where `root` is a file.

    Parameters
    ----------
    root : Path
        The package's folder, a module's file, or the folder of the standard library.
    package : str
        Its name; nothing for the standard library.
    """
    if root.is_file():
        yield package, root
        return
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if SKIPPED.intersection(parts) or any(part.startswith("test_") for part in parts):
            continue
        if parts[-1] == "__init__":
            parts = parts[:-1]
        name = ".".join([package, *parts] if package else parts)
        if name and all(part.isidentifier() for part in name.split(".")):
            yield name, path


def parse_module(name: str, path: Path) -> Module:
    """Read one file.

    Raises
    ------
    OSError, SyntaxError, ValueError, RecursionError
        It cannot be read or parsed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the file's authors did is not the reader's concern
        tree = ast.parse(path.read_bytes())
    module = Module(name, _docstring(tree), path.name == "__init__.py")
    _statements(module, tree.body)
    return module


def _statements(module: Module, body: Sequence[ast.stmt]) -> None:
    for node in body:
        if isinstance(node, Function):
            module.defined.setdefault(node.name, _function(node, ""))
        elif isinstance(node, ast.ClassDef):
            _class(module, node)
        elif isinstance(node, ast.ImportFrom):
            _import(module, node)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            _assign(module, node)
        elif isinstance(node, ast.If):
            _statements(module, [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handlers = [inner for handler in node.handlers for inner in handler.body]
            _statements(module, [*node.body, *handlers, *node.orelse])
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            _add_newdoc(module, node.value)


def _docstring(node: ast.Module | ast.ClassDef | Function) -> str:
    try:
        return ast.get_docstring(node) or ""
    except ValueError:  # a surrogate or a null character
        return ""


def _function(node: Function, owner: str) -> Definition:
    decorators = {ast.unparse(one).split(".")[-1] for one in node.decorator_list if _short(one)}
    shown = "" if decorators & {"property", "cached_property"} else _signature(node, bool(owner))
    kind = "method" if owner else "function"
    return Definition(f"{owner}{node.name}", kind, shown, _docstring(node))


def _short(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))


def _signature(node: Function, method: bool) -> str:
    given = node.args
    names = [*given.posonlyargs, *given.args]
    shown = [one.arg for one in names]
    for place, default in zip(range(len(names) - 1, -1, -1), given.defaults[::-1], strict=False):
        shown[place] += "=" + _default(default)
    if method and shown and shown[0] in {"self", "cls"}:
        shown = shown[1:]
    if given.vararg or given.kwonlyargs:
        shown.append(f"*{given.vararg.arg if given.vararg else ''}".replace("* ", "*"))
    for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        shown.append(one.arg + (f"={_default(value)}" if value is not None else ""))
    if given.kwarg:
        shown.append(f"**{given.kwarg.arg}")
    return f"({', '.join(one for one in shown if not one.startswith('_'))})"


def _default(node: ast.expr) -> str:
    text = ast.unparse(node) if isinstance(node, (ast.Constant, ast.Name, ast.UnaryOp)) else "..."
    return text if len(text) <= 20 else "..."


def _class(module: Module, node: ast.ClassDef) -> None:
    if node.name in module.defined:
        return
    module.defined[node.name] = Definition(node.name, "class", "", _docstring(node))
    held: dict[str, Definition] = {}
    for inner in node.body:
        if isinstance(inner, Function) and not inner.name.startswith("_"):
            held.setdefault(inner.name, _function(inner, f"{node.name}."))
    module.methods[node.name] = list(held.values())


def _import(module: Module, node: ast.ImportFrom) -> None:
    source = _absolute(module, node)
    for alias in node.names:
        if alias.name == "*":
            module.stars.append(source)
        else:
            module.same.setdefault(alias.asname or alias.name, (source, alias.name))


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    base = module.name.split(".")
    up = node.level - (1 if module.package else 0)
    base = base[: len(base) - up] if up else base
    return ".".join([*base, node.module] if node.module else base)


def _assign(module: Module, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [one.id for one in targets if isinstance(one, ast.Name)]
    if "__all__" in names:
        module.exported = _all(module, node)
        return
    value = node.value
    # ``norm = norm_gen(name="norm")``: documented by its class
    made = value.func if isinstance(value, ast.Call) else None
    if isinstance(made, ast.Name) and made.id in module.methods:
        value = made
    if isinstance(value, ast.Name):
        for name in names:
            if name != value.id:
                module.same.setdefault(name, (module.name, value.id))


def _all(module: Module, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[str] | None:
    value = node.value
    if not isinstance(value, (ast.List, ast.Tuple)):
        return None  # computed: every public name counts
    names = [
        one.value
        for one in value.elts
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    if isinstance(node, ast.AugAssign):
        return None if module.exported is None else [*module.exported, *names]
    return names


def _add_newdoc(module: Module, call: ast.Call) -> None:
    """``add_newdoc(place, name, doc)`` of numpy, ``add_newdoc(name, doc)`` of scipy.special."""
    if not isinstance(call.func, ast.Name) or call.func.id != "add_newdoc":
        return
    values = [_literal(one) for one in call.args]
    place, name, doc = values if len(values) == 3 else [module.name, *values, None][:3]
    kind, suffix = "function", ""
    if isinstance(doc, tuple) and len(doc) == 2:
        kind, suffix, doc = "method", f".{doc[0]}", doc[1]
    if isinstance(place, str) and isinstance(name, str) and isinstance(doc, str):
        home = place.split("._")[0]
        if not name.startswith("_") and not suffix.startswith("._"):
            one = Definition(name + suffix, kind, "", inspect.cleandoc(doc))
            module.added.append((home, one))


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


# -- one name for each thing ---------------------------------------------------------------------


def settle_added(modules: dict[str, Module]) -> None:
    """Put what ``add_newdoc`` documents into the modules that it belongs to."""
    for module in list(modules.values()):
        for home, one in module.added:
            place = modules.get(home)
            if place is None:
                continue
            name, _, method = one.name.partition(".")
            if method:
                held = place.methods.setdefault(name, [])
                if all(other.name != one.name for other in held):
                    held.append(one)
            else:
                place.defined.setdefault(name, one)


def canonical_names(modules: dict[str, Module]) -> dict[Target, list[str]]:
    """Every public path to each definition, the best first.

    A path is public without a part that begins with ``_``. The best has the fewest parts:
    what a package re-exports from its depths is known by the package's name for it.

    Parameters
    ----------
    modules : dict of str to Module
        By name.

    Returns
    -------
    dict of (str, str) to list of str
        By the module and name of the definition; without those that no public path leads to.
    """
    names = Names(modules)
    found: dict[Target, set[str]] = {}
    for module in modules.values():
        if _private(module.name):
            continue
        for one in names.offered(module):
            target = names.resolve(module.name, one)
            if target is not None:
                found.setdefault(target, set()).add(f"{module.name}.{one}")
    return {
        target: sorted(paths, key=lambda path: _far(path, target[1]))
        for target, paths in sorted(found.items())
    }


def _far(path: str, name: str) -> tuple[int, bool, bool, int, str]:
    """How far a path is from being the best name of what is defined as `name`."""
    last = path.rpartition(".")[2]
    # scipy.stats: norm is what people call, norm_gen its class
    return path.count("."), last.endswith("_gen"), last != name, len(path), path


def _private(name: str) -> bool:
    return any(part.startswith("_") for part in name.split("."))


class Names:
    """Follows imports between modules; every question is answered once."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self._modules = modules
        self._targets: dict[Target, Target | None] = {}
        self._stars: dict[str, set[str]] = {}

    def offered(self, module: Module) -> list[str]:
        """Names that a module lists, or else defines; those that a package imports, too."""
        names = set(module.exported or ())
        if module.exported is None or module.package:
            names.update(module.defined, module.methods)
            names.update(
                name
                for name, (home, _) in module.same.items()
                if home == module.name or (module.package and _family(home, module.name))
            )
            for star in module.stars:
                if _family(star, module.name):
                    names |= self.starred(star)
        return sorted(name for name in names if not name.startswith("_"))

    def starred(self, name: str) -> set[str]:
        """What ``from name import *`` brings."""
        module = self._modules.get(name)
        if module is None:
            return set()
        if name not in self._stars:
            self._stars[name] = set()  # cut circles
            names = set(module.exported or {*module.defined, *module.methods, *module.same})
            if module.exported is None:
                names.update(*(self.starred(star) for star in module.stars))
            self._stars[name] = names
        return self._stars[name]

    def resolve(self, home: str, name: str) -> Target | None:
        """Where a name of a module is defined."""
        key = (home, name)
        if key not in self._targets:
            self._targets[key] = None  # cut circles
            self._targets[key] = self._search(key)
        return self._targets[key]

    def _search(self, key: Target) -> Target | None:
        home, name = key
        module = self._modules.get(home)
        if module is None:
            return None
        if name in module.defined or name in module.methods:
            return key
        if name in module.same:
            target = self.resolve(*module.same[name])
            if target is not None:
                return target
        for star in module.stars:
            if name in self.starred(star):
                target = self.resolve(star, name)
                if target is not None:
                    return target
        return None


def _family(home: str, name: str) -> bool:
    """Whether a module belongs to the same package, or is the private half of a module."""
    base, top = home.split(".", maxsplit=1)[0], name.split(".", maxsplit=1)[0]
    return base == top or (base.startswith("_") and top in base)
