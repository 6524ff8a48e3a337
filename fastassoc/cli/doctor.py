"""The command ``doctor``: what this machine and installation look like from inside."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from fastassoc import __version__
from fastassoc.cli.common import App, count, example, size, store_argument, store_options
from fastassoc.errors import FastAssocError

__all__ = ["doctor"]

PACKAGES = (
    *("numpy", "scipy", "faiss-cpu", "numba", "pyarrow", "apsw", "xxhash"),
    *("snowballstemmer", "click", "rich"),
)
EXTRAS = (
    *("wordllama", "sentence-transformers", "model2vec"),
    *("fastapi", "mcp", "networkx", "pandas", "polars"),
)
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs", "lustre")
CORE_NAMES = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename",
              "openblas_get_corename64_", "openblas_get_corename")  # fmt: skip


@click.command(epilog=example("fastassoc doctor --warm"))
@store_argument
@click.option("--warm", is_flag=True, help="Compile every kernel now, so that no call waits later.")
@store_options
@click.pass_context
def doctor(ctx: click.Context, warm: bool) -> None:
    """Show versions, caches and disks; find what is amiss.

    The files of a store are checked as 'verify' does it. Exit code 1 where there are problems.
    """
    app = ctx.ensure_object(App)
    seconds = None
    if warm:
        import fastassoc as fa

        app.say("compiling kernels (the first time takes a while) ...")
        start = time.perf_counter()
        fa.warm()
        seconds = round(time.perf_counter() - start, 2)
    store = app.store or os.environ.get("FASTASSOC_STORE")
    facts, problems = examine(store, app.timeout)
    if seconds is not None:
        facts["kernels"] = {"compiled in": f"{seconds} s"}
    if app.json:
        app.emit({**facts, "problems": problems})
    else:
        _show(app, facts)
        for problem in problems:
            app.say(f"problem: {problem}")
        app.say(f"{count(len(problems), 'problem')} found." if problems else "no problems found.")
    if problems:
        ctx.exit(1)


def examine(
    store: str | None, timeout: float = 10.0
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Facts by section, and what a person should mend."""
    from fastassoc.embed import available

    problems: list[str] = []
    facts: dict[str, dict[str, Any]] = {
        "versions": _versions(problems),
        "machine": _machine(),
        "embedders": available(),
        "vectors": _vectors(),
        "numba cache": _numba_cache(problems),
    }
    if store:
        facts["store"] = _store(Path(store), problems)
        facts["store"]["files"] = _files(store, timeout, problems)
    return facts, problems


def _versions(problems: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"fastassoc": __version__, "python": platform.python_version()}
    for name in (*PACKAGES, *EXTRAS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            if name in PACKAGES:
                problems.append(f"the package {name} is not installed: pip install {name}")
    if sys.version_info < (3, 11):  # noqa: UP036  (run from source, where pip has not checked)
        problems.append(f"Python {found['python']} is too old; fastassoc needs 3.11.")
    return found


def _machine() -> dict[str, Any]:
    allowed = getattr(os, "sched_getaffinity", None)
    threads = {
        name: os.environ[name]
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        if name in os.environ
    }
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": len(allowed(0)) if allowed else os.cpu_count(),
        **threads,
        "openblas kernel": _openblas_kernel() or "not known",
    }


def _vectors() -> dict[str, Any]:
    """What searches vectors here, and whether it is at its best; never a problem, only slower."""
    try:
        from fastassoc import vectors

        told = vectors.openblas_advice() or "nothing to set"
        return {"faiss": version("faiss-cpu"), "openblas": told}
    except (ImportError, PackageNotFoundError):
        return {"faiss": "not installed"}


def _openblas_kernel() -> str | None:
    """The kernel that numpy's OpenBLAS chose for this processor, asked of the loaded library."""
    import numpy  # noqa: F401  (loads the library)

    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    for path in sorted({line.split()[-1] for line in maps.splitlines() if "openblas" in line}):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for name in CORE_NAMES:
            function = getattr(library, name, None)
            if function is not None:
                function.restype = ctypes.c_char_p
                answer = function()
                return answer.decode() if isinstance(answer, bytes) else None
    return None


def _numba_cache(problems: list[str]) -> dict[str, Any]:
    """Where compiled kernels are kept, in Numba's own order of looking."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parents[1] / "kernels" / "__pycache__"
    home = Path.home() / ".cache" / "numba"
    places = [Path(named)] if named else [beside, home]
    for place in places:
        if _can_write(place):
            files = sum(1 for _ in place.rglob("*.nbc")) if place.is_dir() else 0
            return {"folder": str(place), "compiled files": files}
    problems.append(
        "Numba can write no cache, so every process compiles anew: "
        "set NUMBA_CACHE_DIR to a folder of yours."
    )
    return {"folder": "none can be written"}


def _can_write(place: Path) -> bool:
    while not place.exists():
        if place == place.parent:
            return False
        place = place.parent
    return os.access(place, os.W_OK | os.X_OK)


def _store(store: Path, problems: list[str]) -> dict[str, Any]:
    place = store.absolute()
    while not place.exists():
        place = place.parent
    kind, mount = _file_system(place.resolve())
    free = shutil.disk_usage(place).free
    if kind in NETWORK:
        problems.append(
            f"{store} lies on a network file system ({kind}), where locks between hosts are not "
            "safe: keep the store on a local disk."
        )
    if free < 1 << 28:
        problems.append(f"only {size(free)} are free where {store} lies.")
    if not os.access(place, os.W_OK):
        problems.append(f"{place} cannot be written by you.")
    return {
        "path": str(store),
        "exists": store.exists(),
        "file system": kind or "not known",
        "mounted at": mount or "not known",
        "free": size(free),
    }


def _files(store: str, timeout: float, problems: list[str]) -> str:
    """What a check of every file says."""
    import fastassoc as fa

    try:
        report = fa.verify(store, timeout=timeout)
    except FastAssocError as error:
        problems.append(str(error))
        return "not checked"
    problems.extend(f"{store}: {file} is damaged: {reason}" for file, reason in report.problems)
    return f"{report.files} checked, {'sound' if report.ok else 'DAMAGED'}"


def _file_system(place: Path) -> tuple[str, str]:
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return "", ""
    best = ("", "")
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split()[4].replace("\\040", " ")
        inside = place == Path(mount) or Path(mount) in place.parents
        if inside and len(mount) >= len(best[1]):
            best = (after.split()[0], mount)
    return best


def _show(app: App, facts: dict[str, dict[str, Any]]) -> None:
    from rich.text import Text

    console = app.out()
    for section, values in facts.items():
        console.print(Text(section, style="bold"))
        width = max(map(len, values))
        for name, value in values.items():
            shown = {True: "yes", False: "no"}.get(value, value) if type(value) is bool else value
            console.print(Text(f"  {name:<{width}}  {shown}"), soft_wrap=True)
