"""The cache: never wrong, never in the way, made again on any doubt."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from fastassoc import files
from fastassoc.cache import Cache
from fastassoc.errors import InvalidInput

KEY = "00ab12"
TABLE = np.arange(6000, dtype=np.float32).reshape(-1, 3)
BODY, SIDECAR = f"table-{KEY}.bin", f"table-{KEY}.json"


class Made:
    """Counts how often it was made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Any:
        self.times += 1
        return TABLE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def filled(root: Path) -> Path:
    Cache(root).array("table", KEY, Made())
    return root / "cache"


def names(root: Path) -> set[str]:
    return {p.name for p in (root / "cache").iterdir() if p.suffix != ".lock"}


# -- arrays --------------------------------------------------------------------------------------


def test_an_array_is_made_once_and_mapped(root: Path) -> None:
    made = Made()
    for _ in range(3):
        found = Cache(root).array("table", KEY, made)
        assert np.array_equal(found, TABLE)
        assert found.dtype == TABLE.dtype
        assert not found.flags.writeable
        assert str(root / "cache" / BODY) in Path("/proc/self/maps").read_text()
    assert made.times == 1
    assert names(root) == {BODY, SIDECAR}
    assert (root / "cache").stat().st_mode & 0o777 == 0o700
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in (root / "cache").iterdir())


@pytest.mark.parametrize(
    "array",
    [
        np.empty(0, np.int64),
        np.empty((0, 7), np.float32),
        np.array(3.5),
        np.array([True, False]),
        np.arange(5, dtype=">u2"),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(20)[::3],
    ],
    ids=repr,
)
def test_any_array_of_numbers_comes_back(root: Path, array: Any) -> None:
    for _ in range(2):
        found = Cache(root).array("table", KEY, lambda: array)
        assert np.array_equal(found, array)
        assert found.shape == array.shape
        assert found.dtype == array.dtype.newbyteorder("<")
        assert not found.flags.writeable


SEVERAL = {
    "one": np.arange(5, dtype=np.uint8),
    "none": np.empty((0, 3), np.float32),
    "two": np.arange(12.0).reshape(3, 4),
    "last": np.empty(0, np.int64),
}


def test_several_arrays_lie_in_one_file(root: Path) -> None:
    for _ in range(3):
        found = Cache(root).arrays("several", KEY, dict, lambda: SEVERAL, dict)
        assert list(found) == list(SEVERAL)
        for name, array in SEVERAL.items():
            assert np.array_equal(found[name], array)
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            assert found[name].flags.aligned
        found["two"][0] = 7.0  # stays here
    assert f"several-{KEY}.bin" in Path("/proc/self/maps").read_text()
    assert names(root) == {f"several-{KEY}.bin", f"several-{KEY}.json"}


def test_one_key_is_dropped(root: Path) -> None:
    cache = Cache(root)
    for kind, key in (("table", "aaaa"), ("other", "aaaa"), ("table", "bbbb")):
        cache.array(kind, key, lambda: TABLE)
    assert Cache(root, read_only=True).drop("aaaa") == Cache(None).drop("aaaa") == 0
    assert cache.drop("aaaa") > 2 * TABLE.nbytes
    assert names(root) == {"table-bbbb.bin", "table-bbbb.json"}


def test_another_key_is_another_entry(root: Path) -> None:
    cache = Cache(root)
    assert cache.array("table", "aaaa", lambda: np.arange(2)).tolist() == [0, 1]
    assert cache.array("table", "bbbb", lambda: np.arange(3)).tolist() == [0, 1, 2]
    assert cache.array("other", "aaaa", lambda: np.arange(4)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["", "A", "../x", "a/b", "a.b", "a--b", "x" * 200, "a\0"])
def test_l62_a_kind_is_never_a_path(root: Path, kind: str) -> None:
    with pytest.raises(InvalidInput, match="expected lower-case words"):
        Cache(root).array(kind, KEY, Made())
    with pytest.raises(InvalidInput, match="hexadecimal"):
        Cache(root).array("table", kind, Made())


def test_object_arrays_are_refused(root: Path) -> None:
    with pytest.raises(InvalidInput, match="expected numbers"):
        Cache(root).array("table", KEY, lambda: np.array([[], None], dtype="O"))


def test_without_a_store_everything_is_made_in_memory() -> None:
    made = Made()
    for _ in range(2):
        assert np.array_equal(Cache(None).array("table", KEY, made), TABLE)
    assert made.times == 2
    assert Cache(None).sweep(set()) == 0


# -- doubt ---------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 16
    path.write_bytes(data)


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a sidecar as somebody would who knows how its check is made."""
    said = json.loads(path.read_text())
    del said["check"]
    change(said)
    check = xxhash.xxh3_128(json.dumps(said, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(said | {"check": check}))


def replaced_by_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


HARM: dict[str, tuple[str, Callable[[Path], object]]] = {
    "truncated": (BODY, lambda p: os.truncate(p, 1000)),
    "empty": (BODY, lambda p: os.truncate(p, 0)),
    "zeroed": (BODY, lambda p: p.write_bytes(bytes(p.stat().st_size))),
    "longer": (BODY, lambda p: p.write_bytes(p.read_bytes() + b"x")),
    "first byte": (BODY, lambda p: flip(p, 0)),
    "last byte": (BODY, lambda p: flip(p, -1)),
    "a link": (BODY, replaced_by_a_link),
    "a folder": (BODY, lambda p: (p.unlink(), p.mkdir())),
    "a pipe": (BODY, lambda p: (p.unlink(), os.mkfifo(p))),
    "sidecar truncated": (SIDECAR, lambda p: os.truncate(p, 40)),
    "sidecar empty": (SIDECAR, lambda p: os.truncate(p, 0)),
    "sidecar zeroed": (SIDECAR, lambda p: p.write_bytes(bytes(p.stat().st_size))),
    "sidecar huge": (SIDECAR, lambda p: os.truncate(p, 1 << 40)),
    "sidecar deep": (SIDECAR, lambda p: p.write_text("[" * 100_000)),
    "sidecar list": (SIDECAR, lambda p: p.write_text("[1]")),
    "sidecar link": (SIDECAR, replaced_by_a_link),
    "other format": (SIDECAR, lambda p: rewrite(p, lambda s: s.update(format=99))),
    "other library": (SIDECAR, lambda p: rewrite(p, lambda s: s.update(versions={"x": "1"}))),
    "other name": (SIDECAR, lambda p: rewrite(p, lambda s: s.update(name="table-ffff"))),
    "l61 huge shape": (SIDECAR, lambda p: rewrite(p, lambda s: s["meta"].update(shape=[1 << 62]))),
    "object dtype": (SIDECAR, lambda p: rewrite(p, lambda s: s["meta"].update(dtype="|O"))),
    "no dtype": (SIDECAR, lambda p: rewrite(p, lambda s: s["meta"].update(dtype="what"))),
}


@pytest.mark.parametrize("harm", HARM)
def test_l33_a_damaged_entry_is_made_again_with_one_warning(root: Path, harm: str) -> None:
    name, change = HARM[harm]
    change(filled(root) / name)
    made = Made()
    with pytest.warns(RuntimeWarning, match=f"cache/{BODY}: .*made again") as told:
        assert np.array_equal(Cache(root).array("table", KEY, made), TABLE)
    ours = [w for w in told if w.category is RuntimeWarning]
    if harm == "a folder":  # nothing can be renamed over it
        assert [str(w.message).count("could not be saved") for w in ours] == [0, 1]
        return
    assert len(ours) == 1
    assert made.times == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(Cache(root).array("table", KEY, made), TABLE)
    assert made.times == 1


def test_every_flipped_byte_of_a_sidecar_is_seen(root: Path) -> None:
    path = filled(root) / SIDECAR
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole)
        flip(path, at)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.array_equal(Cache(root, read_only=True).array("table", KEY, Made()), TABLE)


@pytest.mark.parametrize("name", [BODY, SIDECAR])
def test_a_missing_file_gives_no_warning(root: Path, name: str) -> None:
    (filled(root) / name).unlink()
    made = Made()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(Cache(root).array("table", KEY, made), TABLE)
    assert made.times == 1
    assert names(root) == {BODY, SIDECAR}


def test_a_folder_that_is_a_link_is_not_used(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (root / "cache").symlink_to(other)
    made = Made()
    for _ in range(2):
        assert np.array_equal(Cache(root).array("table", KEY, made), TABLE)
    assert made.times == 2
    assert list(other.iterdir()) == []


# -- where nothing can be written ----------------------------------------------------------------


def test_a_read_only_store_takes_what_is_there_and_writes_nothing(root: Path) -> None:
    made = Made()
    cache = Cache(root, read_only=True)
    assert np.array_equal(cache.array("table", KEY, made), TABLE)
    assert not (root / "cache").exists()
    filled(root)
    before = {p.name: p.stat().st_mtime_ns for p in (root / "cache").iterdir()}
    assert np.array_equal(cache.array("table", KEY, made), TABLE)
    assert made.times == 1
    assert cache.sweep(set()) == 0
    assert before == {p.name: p.stat().st_mtime_ns for p in (root / "cache").iterdir()}


class Faulty(files.Disk):
    """Fails at the n-th call of any kind, or at all calls of one kind."""

    def __init__(self, code: int, at: int = 0, kind: str = "") -> None:
        self.code, self.left, self.kind = code, at, kind

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("left", "code", "kind") or name.startswith("_"):
            return found

        def call(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0 or name == self.kind:
                if name == "close":
                    found(*args)
                raise OSError(self.code, os.strerror(self.code))
            return found(*args)

        return call


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
@pytest.mark.parametrize("kind", ["mkdir", "write", "rename"])
def test_a_folder_that_cannot_be_written_is_no_error(
    root: Path, code: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "disk", Faulty(code, kind=kind))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Cache(root).array("table", KEY, Made())
    assert np.array_equal(found, TABLE)
    assert not found.flags.writeable
    assert list(root.rglob("tmp-*")) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_l35_a_fault_at_any_call_gives_the_right_array(
    root: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = files.disk
    for harmed in (False, True):
        for at in range(1, 200):
            if harmed:
                flip(filled(root) / BODY, 5)
            else:
                Cache(root).sweep(set())
            faulty = Faulty(code, at)
            monkeypatch.setattr(files, "disk", faulty)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert np.array_equal(Cache(root).array("table", KEY, Made()), TABLE)
                monkeypatch.setattr(files, "disk", whole)
                assert np.array_equal(Cache(root).array("table", KEY, Made()), TABLE)
            assert list(root.rglob("tmp-*")) == []
            if faulty.left > 0:
                break
        assert at > 15


def test_l35_a_full_disk_is_told_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "disk", Faulty(errno.ENOSPC, kind="write"))
    with pytest.warns(RuntimeWarning, match="could not be saved .*No space") as told:
        assert np.array_equal(Cache(root).array("table", KEY, Made()), TABLE)
    assert len(told) == 1
    assert names(root) == set()


# -- other things than arrays --------------------------------------------------------------------


def test_an_index_saves_and_loads_itself(root: Path) -> None:
    made: list[str] = []

    def make() -> str:
        made.append("made")
        return "said"

    def save(thing: str, sink: files.Sink) -> dict[str, Any]:
        sink.write(thing.encode())
        return {"length": len(thing)}

    def load(path: Path, meta: dict[str, Any]) -> str:
        text = path.read_text()
        assert len(text) == meta["length"]
        return text

    options: Any = {"versions": {"lib": "1"}}
    for _ in range(2):
        assert Cache(root).index("thing", KEY, load, make, save, **options) == "said"
    assert len(made) == 1
    with pytest.warns(RuntimeWarning, match="other versions"):
        Cache(root).index("thing", KEY, load, make, save, versions={"lib": "2"})
    assert len(made) == 2

    def refuse(path: Path, meta: dict[str, Any]) -> str:
        raise RuntimeError("not for this library")

    with pytest.warns(RuntimeWarning, match="not for this library"):
        assert Cache(root).index("thing", KEY, refuse, make, save, versions={"lib": "2"}) == "said"

    def broken(thing: str, sink: files.Sink) -> dict[str, Any]:
        sink.write(b"half")
        raise RuntimeError("cannot save")

    Cache(root).sweep(set())
    with pytest.warns(RuntimeWarning, match="cannot save"):
        assert Cache(root).index("thing", KEY, load, make, broken) == "said"
    assert names(root) == set()


def test_an_error_of_the_maker_is_the_callers(root: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        Cache(root).array("table", KEY, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert np.array_equal(Cache(root, patience=0.1).array("table", KEY, Made()), TABLE)


# -- sweeping ------------------------------------------------------------------------------------


def test_sweep_keeps_what_is_named_and_what_is_unknown(root: Path) -> None:
    cache = Cache(root)
    mapped = cache.array("table", "aaaa", lambda: TABLE)
    cache.array("table", "bbbb", lambda: TABLE)
    (root / "cache" / ("tmp-" + "0" * 32)).write_bytes(b"left by a crash")
    (root / "cache" / "notes.txt").write_text("mine")
    assert cache.sweep({"bbbb"}) > TABLE.nbytes
    assert names(root) == {"table-bbbb.bin", "table-bbbb.json", "notes.txt"}
    assert np.array_equal(mapped, TABLE)  # who has it keeps it


# -- several at once -----------------------------------------------------------------------------


def test_threads_make_it_once(root: Path) -> None:
    made, found = Made(), []

    def slowly() -> Any:
        time.sleep(0.05)
        return made()

    threads = [
        threading.Thread(target=lambda: found.append(Cache(root).array("table", KEY, slowly)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made.times == 1
    assert all(np.array_equal(one, TABLE) for one in found)


def test_who_waited_long_enough_makes_its_own(root: Path) -> None:
    inside, go = threading.Event(), threading.Event()

    def forever() -> Any:
        inside.set()
        go.wait(30)
        return TABLE

    first = threading.Thread(target=lambda: Cache(root).array("table", KEY, forever))
    first.start()
    inside.wait(30)
    made = Made()
    assert np.array_equal(Cache(root, patience=0.05).array("table", KEY, made), TABLE)
    assert made.times == 1
    go.set()
    first.join()
    assert names(root) == {BODY, SIDECAR}


PROCESS = """
import sys, time
import numpy as np
from pathlib import Path
from fastassoc.cache import Cache

def make():
    with open(sys.argv[1] + "/made", "a") as out:
        out.write("x")
    time.sleep(0.3)
    return np.arange(1000)

assert Cache(Path(sys.argv[1])).array("table", "abcd", make).sum() == 499500
"""


def test_two_processes_make_it_once(root: Path) -> None:
    others = [subprocess.Popen([sys.executable, "-c", PROCESS, str(root)]) for _ in range(3)]
    assert [other.wait(60) for other in others] == [0, 0, 0]
    assert (root / "made").read_text() == "x"


def test_a_maker_that_is_killed_frees_the_rest(root: Path) -> None:
    slow = PROCESS.replace("time.sleep(0.3)", "time.sleep(60)")
    other = subprocess.Popen([sys.executable, "-c", slow, str(root)])
    while not (root / "made").exists():
        time.sleep(0.01)
        assert other.poll() is None
    other.kill()
    other.wait()
    assert np.array_equal(Cache(root).array("table", "abcd", lambda: TABLE), TABLE)
    assert names(root) == {"table-abcd.bin", "table-abcd.json"}
