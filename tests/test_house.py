"""The house rules, checked by reading the source: who imports whom, and what never appears."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "fastassoc"
FILES = sorted(ROOT.rglob("*.py"))

TOOLS = {"errors", "settings", "kernels", "words", "times", "fields", "columns", "batch", "reports"}
TOOLS |= {"postings", "scripts", "jsontext", "plural"}
TABLES = {"notes", "concepts", "text", "links", "mentionindex", "cues"}
INTAKE = {"batches", "dryrun", "mapping", "parts", "rejects", "rows", "sources"}
ROOMS: dict[str, set[str]] = {  # a room, and the rooms whose modules it may import
    "plural": set(),
    "errors": {"plural"},
    "settings": {"errors"},
    "formats": set(),
    "jsontext": set(),
    "kernels": {"kernels"},
    "scripts": set(),
    "words": {"errors", "scripts"},
    "times": {"errors"},
    "fields": {"errors", "times"},
    "columns": {"errors"},
    "batch": {"errors", "columns"},
    "reports": set(),
    "metadata": set(),
    "chains": set(),
    "filters": {"errors", "metadata", "notes"},
    "postings": {"columns", "errors", "kernels"},
    "recall": set(),
    "openblas": set(),
    "vectors": {"files", "openblas", "recall"},
    "cache": {"errors", "files"},
    "extract": {"words"},
    "mentions": {"scripts", "words"},
    "linkruns": set(),
    "packed": {"kernels", "linkruns"},
    "linkpairs": {"kernels", "linkruns", "packed"},
    "linkview": {"errors", "kernels", "linkpairs", "linkruns", "packed"},
    # the tables do not know one another, nor the disk
    "sessions": set(),
    "rowlookup": {"columns", "kernels"},
    "notes": TOOLS | {"chains", "metadata", "retention", "rowlookup", "sessions"},
    "retention": TOOLS,
    "concepts": TOOLS | {"extract", "mentions"},
    "termnumbers": {"scripts", "words"},
    "cutting": {"kernels"},
    "text": TOOLS | {"cutting", "termnumbers"},
    "mentionindex": TOOLS | {"cutting"},
    "links": TOOLS | {"linkpairs", "linkruns", "linkview", "packed"},
    "cues": TOOLS | {"linkpairs", "links"},
    "points": TOOLS,
    "tagging": {"errors", "kernels"},
    "space": {"errors", "points"},
    "indexed": {"points", "vectors"},
    "importing": TOOLS | TABLES | {"retention"},
    "digests": {"batch"},
    "changes": TOOLS | TABLES | {"importing", "space"},
    "state": TOOLS | TABLES | {"changes", "digests", "indexed", "points", "space"},
    "joining": TOOLS | {"state", "tagging"},
    "exported": TOOLS | {"concepts"},
    "transfer": TOOLS | {"cues", "exported", "notes", "points", "state"},
    # what callers bring
    "ids": {"errors", "query"},
    "vectorfield": TOOLS,
    "few": TOOLS | {"concepts", "vectorfield"},
    "models": {"errors"},
    "embed": {"errors", "models"},
    "rows": TOOLS | {"concepts", "few", "vectorfield"},
    "mapping": TOOLS | {"rows"},
    "arrowguard": {"errors"},
    "parquetguard": {"errors", "footer", "kernels"},
    "parts": {"errors"},
    "lines": TOOLS | {"parts", "rows"},
    "sources": TOOLS | {"arrowguard", "lines", "parquetguard", "parts"},
    "batches": TOOLS | {"rows", "mapping", "parts", "sources"},
    "rejects": TOOLS | {"files", "mapping", "batches"},
    "dryrun": TOOLS | {"rows", "mapping", "batches"},
    "ingest": TOOLS | INTAKE,
    # reading
    "answers": set(),
    "query": {"answers", "errors", "settings", "times", "filters", "vectorfield"},
    "read": TOOLS | TABLES | {"state", "answers", "filters", "query", "read"},
    "tables": {"errors", "settings", "times", "links", "state"},
    "cuetable": {"cues", "errors", "settings", "times", "links", "state", "tables"},
    "reader": TOOLS
    | TABLES
    | {"state", "answers", "cuetable", "embed", "filters", "query", "read", "tables"},
    "control": TOOLS | TABLES | {"state", "answers", "embed", "joining", "reader", "tagging"},
    # the disk moves Arrow tables and bytes, and knows no note and no link
    "files": {"errors"},
    "footer": set(),
    "parquet": {"errors", "footer"},
    "manifest": {"errors", "files", "formats", "jsontext", "parquet"},
    "journal": {"journal", "errors", "files", "formats"},
    "snapshot": {"errors", "files", "manifest", "parquet"},
    # the verbs
    "textcache": {"cache", "mentionindex", "named", "text"},
    "vectorcache": {"cache", "indexed", "space", "state", "vectors"},
    "ports": {"cache", "errors", "indexed", "notes", "state", "vectorcache", "vectors"},
    "named": {"errors", "journal", "snapshot"},
    "saving": TOOLS | {"cache", "files", "journal", "snapshot", "named", "ports", "state"},
    "storecare": {"errors", "files", "journal", "paths", "snapshot", "named", "state"},
    "store": TOOLS
    | {"journal", "snapshot", "named", "saving", "storecare", "ports", "state", "notes", "cache"}
    | {"indexed", "packed", "shapes", "sound", "text", "textcache", "vectorcache", "vectors"},
    "shapes": {"errors"},
    "sound": {"batch", "errors", "notes", "shapes"},
    "pieces": TOOLS
    | {"concepts", "control", "linkruns", "named", "notes", "shapes", "snapshot", "sound", "state"}
    | {"store"},
    "repair": TOOLS
    | {"files", "journal", "paths", "pieces", "saving", "snapshot", "state", "store"},
    "moving": TOOLS | {"embed", "state"},
    "handle": TOOLS | {"embed", "ids", "state", "ports", "query", "reader", "vectors"},
    "paths": {"errors", "query"},
    "writing": TOOLS
    | {"batches", "embed", "handle", "ids", "ingest", "joining", "moving"}
    | {"query", "rows", "state"},
    "learning": TOOLS | {"answers", "concepts", "cues", "handle", "query", "state"},
    "keeping": TOOLS | {"answers", "control", "filters", "handle", "query", "state"},
    "glance": {"moving", "ports", "state", "vectors"},
    "upkeep": TOOLS
    | {"embed", "glance", "keeping", "moving", "paths", "state", "store", "transfer"},
    "memory": TOOLS
    | {"embed", "learning", "paths", "ports", "query", "state", "store", "upkeep", "writing"},
    "warming": {"memory", "settings"},
    # strangers, who use what is public
    "__init__": {"errors", "settings", "memory", "answers", "reports", "warming"},
    "__main__": {"cli"},
    "check": {"__init__", "errors", "plural"},
    "quality": {"quality", "__init__", "errors", "settings", "embed", "plural", "words"},
    "latency": {"latency", "__init__", "errors", "settings", "quality", "plural"},
    "cli": {"cli", "__init__", "errors", "settings", "check", "embed", "vectors"}
    | {"latency", "plural", "quality", "repair"},
}
OWNERS = {  # a package, and the rooms that may import it
    "apsw": {"journal"},
    "click": {"cli"},
    "faiss": {"vectors"},
    "numba": {"kernels"},
    "rich": {"cli"},
    "sentence_transformers": {"models"},
    "wordllama": {"models"},
}
UNSAFE = {"object_", "ExtensionType", "PyExtensionType", "UnknownExtensionType"}
UNSAFE |= {"register_extension_type", "read_pickle", "to_pickle", "deserialize_pandas"}
FORBIDDEN = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module(path: Path) -> str:
    """The dotted name in the package, ``kernels.links``; a folder's ``__init__`` is the folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def room(name: str) -> str:
    return name.partition(".")[0]


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports at run time, inside functions too."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree(path)):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module(path)}: relative import, line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """Modules of the package that a file imports."""
    names = {module(other) for other in FILES}
    found = set()
    for name in imports(path):
        if name.partition(".")[0] != "fastassoc":
            continue
        inner = name.partition(".")[2]
        while inner and inner not in names:  # fastassoc.errors.InvalidInput is in fastassoc.errors
            inner = inner.rpartition(".")[0]
        found.add(inner or "__init__")
    return found - {module(path)}


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_follow_the_tree(path: Path) -> None:
    here = room(module(path))
    assert here in ROOMS, f"{module(path)} has no room: say in ROOMS what it may import"
    wrong = {name for name in ours(path) if room(name) not in ROOMS[here]}
    assert not wrong, f"{module(path)} imports {sorted(wrong)}"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_packages_have_one_owner(path: Path) -> None:
    here = room(module(path))
    packages = {name.partition(".")[0] for name in imports(path)}
    wrong = {name for name in packages if here not in OWNERS.get(name, {here})}
    assert not wrong, f"{module(path)} imports {sorted(wrong)}"
    if here == "kernels":
        known = {"numpy", "numba", "fastassoc"} | sys.stdlib_module_names
        assert packages <= known, f"{module(path)} imports {sorted(packages - known)}"


def test_no_import_cycles() -> None:
    graph = {module(path): ours(path) for path in FILES}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail, name])
        if name in done:
            return
        for other in sorted(graph[name]):
            visit(other, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_only_snapshot_and_the_command_line_write_parquet() -> None:
    for path in FILES:
        if room(module(path)) not in {"parquet", "snapshot", "cli"}:
            text = path.read_text(encoding="utf-8")
            assert not re.search(
                r"\b((parquet|pq)\.write_|ParquetWriter|write_to_dataset)", text
            ), path.name


CHANGES_DISK = {"chmod", "fdatasync", "fsync", "ftruncate", "link", "makedirs", "mkdir", "open"}
CHANGES_DISK |= {"pwrite", "remove", "rename", "replace", "rmdir", "rmtree", "symlink", "truncate"}
CHANGES_DISK |= {"unlink", "write_bytes", "write_text"}
ON_DISK = {"cache", "journal", "manifest", "named", "rejects", "repair", "saving", "snapshot"}
ON_DISK |= {"store", "storecare", "vectorcache"}


@pytest.mark.parametrize("path", [p for p in FILES if room(module(p)) in ON_DISK], ids=module)
def test_the_disk_is_changed_through_the_file_layer_alone(path: Path) -> None:
    """Else nothing could make the call fail, or record it: see tests/faults."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            whole = ast.unparse(node.func)
            if node.func.attr in CHANGES_DISK and not whole.startswith(("files.", "Journal.")):
                reads = whole.endswith(".open") and [ast.unparse(a) for a in node.args] == ["'rb'"]
                text = node.func.attr == "replace" and whole != "os.replace"
                own = whole.startswith(("self.", "cls."))
                assert reads or text or own, f"{module(path)}, line {node.lineno}: {whole}"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    packages = {name.partition(".")[0] for name in imports(path)}
    assert not packages & FORBIDDEN, f"{module(path)} imports {sorted(packages & FORBIDDEN)}"
    for node in ast.walk(tree(path)):
        where = f"{module(path)}, line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, where
            if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
                assert [ast.unparse(arg) for arg in node.args] != ["object"], where
            for keyword in node.keywords:
                value = ast.unparse(keyword.value)
                assert (keyword.arg, value) != ("allow_pickle", "True"), where
                assert keyword.arg != "dtype" or value not in {"object", "'O'", "'object'"}, where
        if isinstance(node, ast.Attribute):
            assert node.attr not in UNSAFE, where


FACE = {
    "__init__",
    "memory",
    "reader",
    "control",
    "answers",
    "reports",
    "tables",
    "cuetable",
    "notes",
    "errors",
}
FACE |= {"settings", "check", "warming", "cli", "kernels", "embed"}  # what others than us read
FILE_LIKE = {"close", "flush", "read", "seek", "tell", "write"}  # Python says what these do


def public(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def offered(path: Path) -> list[ast.stmt]:
    """What a module defines, or of that what its ``__all__`` lists."""
    body = tree(path).body
    listed = {
        name
        for node in body
        if isinstance(node, (ast.Assign, ast.AugAssign)) and "__all__" in ast.unparse(node)
        for name in ast.literal_eval(node.value)
    }
    return [node for node in body if not listed or getattr(node, "name", None) in listed]


@pytest.mark.parametrize("path", FILES, ids=module)
def test_public_things_have_docstrings(path: Path) -> None:
    """Behind the face, a function of one or two statements may speak for itself."""
    assert ast.get_docstring(tree(path)), f"{module(path)} does not say what it is"
    inside = room(module(path)) not in FACE
    bare = [
        f"{node.name}, line {node.lineno}"
        for node in public(offered(path))
        if not ast.get_docstring(node)
        and node.name not in FILE_LIKE
        and not any("overload" in ast.unparse(d) for d in node.decorator_list)
        and not (inside and isinstance(node, ast.FunctionDef) and len(node.body) <= 2)
    ]
    assert not bare, f"{module(path)}: no docstring on {'; '.join(bare)}"


def test_every_kernel_is_a_plain_function_first_and_has_a_twin() -> None:
    own = Path(__file__)
    tests = "\n".join(p.read_text(encoding="utf-8") for p in own.parent.glob("*.py") if p != own)
    kernels = []
    for path in (ROOT / "kernels").glob("*.py"):
        for node in tree(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                call = node.value
                if isinstance(call.func, ast.Name) and call.func.id == "jit":
                    name = ast.unparse(node.targets[0])
                    assert ast.unparse(call.args[0]) == f"_{name}", f"{path.name}: {name}"
                    kernels.append(name)
        decorated = [
            node.name
            for node in ast.walk(tree(path))
            if isinstance(node, ast.FunctionDef)
            and any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
        ]
        assert not decorated, f"{path.name}: {decorated} cannot run without a compiler"
    assert kernels
    untested = [name for name in kernels if not re.search(rf"\b{name}\b", tests)]
    assert not untested, f"no test names the kernels {untested}"


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    heavy = {"numpy", "numba", "faiss", "scipy", "pyarrow", "apsw", "rich", "click"}
    loaded = run(f"import sys, fastassoc; print(sorted({heavy!r} & set(sys.modules)))")
    assert loaded == "[]"


def test_public_names_resolve() -> None:
    code = (
        "import fastassoc as fa; print(all(hasattr(fa, n) for n in fa.__all__), fa.open, fa.Memory)"
    )
    assert run(code).startswith("True")
    assert (
        run("import fastassoc as fa; print({'open', 'Memory', 'Settings'} <= set(dir(fa)))")
        == "True"
    )


def test_the_trusted_model_is_a_stranger() -> None:
    for path in Path(__file__).parent.glob("naive*.py"):
        names = {name.partition(".")[0] for name in imports(path)}
        assert "fastassoc" not in names, path.name
