"""Disposable files of a store: made once, checked at every open, mapped by every process.

Each entry is a body ``<kind>-<key>.bin`` and a sidecar ``<kind>-<key>.json`` that says what the
body must be. Whatever is in doubt is made again, with one warning; where nothing can be written
it is made in memory. The key names what the entry was made from, so nothing is ever stale.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import re
import stat
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastassoc import files
from fastassoc.errors import InvalidInput
from fastassoc.files import Sink

__all__ = ["FORMAT", "Cache"]

T = TypeVar("T")
Array = NDArray[Any]

FORMAT = 1
FOLDER = "cache"
SIDECAR_MOST = 1 << 20
ALIGNED = 64  # where each of several arrays in one file begins
PATIENCE = 120.0  # seconds to wait for another process that makes the same
POLL = 0.01

_KIND = re.compile(r"[a-z][a-z0-9]{0,23}(-[a-z0-9]{1,23}){0,3}")
_KEY = re.compile(r"[0-9a-f]{4,64}")
_ENTRY = re.compile(r"[a-z][a-z0-9-]{0,99}-([0-9a-f]{4,64})\.(bin|json)")
_TEMPORARY = re.compile(r"tmp-[0-9a-f]{32}")
_QUIET = (errno.EACCES, errno.EPERM, errno.EROFS)  # a folder that is not ours to write


class _Doubt(Exception):
    """Why an entry is not taken."""


class _Missing(Exception):
    """There is no such entry."""


class Cache:
    """The folder ``cache`` of a store.

    Parameters
    ----------
    root : Path or None
        The store; None keeps everything in memory.
    read_only : bool
        Take what is there, write nothing.
    patience : float
        Seconds to wait for another process that makes the same entry; then it is made here, too,
        and kept in memory.

    Examples
    --------
    >>> import tempfile
    >>> cache = Cache(Path(tempfile.mkdtemp()))
    >>> cache.array("squares", "00ff", lambda: np.arange(4) ** 2).tolist()
    [0, 1, 4, 9]
    >>> cache.array("squares", "00ff", lambda: 1 / 0).tolist()  # not made again
    [0, 1, 4, 9]
    """

    def __init__(
        self, root: Path | None, *, read_only: bool = False, patience: float = PATIENCE
    ) -> None:
        self.root = root
        self.folder = None if root is None else root / FOLDER
        self.read_only = read_only
        self.patience = patience

    # -- what is kept ----------------------------------------------------------------------------

    def array(
        self,
        kind: str,
        key: str,
        make: Callable[[], Array],
        *,
        versions: Mapping[str, str] | None = None,
    ) -> Array:
        """Return an array, mapped from its file, or made.

        Parameters
        ----------
        kind, key : str
            What it is (lower case, digits, hyphens), and the hash (hex) of what it is made from.
        make : callable
            Returns the array: numbers or bool, of any shape.
        versions : mapping, optional
            Versions of libraries on which the content depends; others than those of the file
            make it anew.

        Returns
        -------
        numpy.ndarray
            Read-only, C order, little-endian.
        """

        def load(fd: int, path: Path, meta: dict[str, Any]) -> Array:
            return _mapped(fd, [meta], mmap.ACCESS_READ)[0]

        return self._entry(kind, key, versions, load, lambda: _plain(kind, make()), _written)

    def arrays(
        self,
        kind: str,
        key: str,
        load: Callable[[dict[str, Array]], T],
        make: Callable[[], T],
        save: Callable[[T], Mapping[str, Array]],
        *,
        versions: Mapping[str, str] | None = None,
    ) -> T:
        """Return a thing that is made of several arrays, which are mapped from one file.

        Parameters
        ----------
        kind, key, versions
            As for `array`.
        load : callable
            Makes it from its arrays by name. To kernels they are as any other: what is written to
            them stays in this process. Whatever it raises means that the file is no good.
        make : callable
            Makes it from nothing.
        save : callable
            Gives its arrays by name: numbers or bool.

        Returns
        -------
        object
            What `load` returned; what `make` returned where nothing could be saved.

        Examples
        --------
        >>> import tempfile
        >>> cache = Cache(Path(tempfile.mkdtemp()))
        >>> pair = lambda: {"one": np.arange(3), "two": np.ones(2)}
        >>> cache.arrays("pair", "00ff", dict, pair, dict)["one"].tolist()
        [0, 1, 2]
        """

        def loaded(fd: int, path: Path, meta: dict[str, Any]) -> T:
            told = meta["arrays"]
            found = _mapped(fd, list(told.values()), mmap.ACCESS_COPY)
            return load(dict(zip(told, found, strict=True)))

        def written(made: T, sink: Sink) -> dict[str, Any]:
            told = {}
            for name, array in save(made).items():
                sink.write(bytes(-sink.bytes % ALIGNED))
                told[name] = _written(_plain(kind, array), sink)
            return {"arrays": told}

        return self._entry(kind, key, versions, loaded, make, written)

    def index(
        self,
        kind: str,
        key: str,
        load: Callable[[Path, dict[str, Any]], T],
        make: Callable[[], T],
        save: Callable[[T, Sink], dict[str, Any]],
        *,
        versions: Mapping[str, str] | None = None,
    ) -> T:
        """Return any other thing that can save itself.

        Parameters
        ----------
        kind, key, versions
            As for `array`.
        load : callable
            Makes it from the path of the checked body and what `save` returned. Whatever it
            raises means that the file is no good.
        make : callable
            Makes it from nothing.
        save : callable
            Writes the body and returns what `load` needs besides, as JSON takes it.

        Returns
        -------
        object
            What `load` returned; what `make` returned where nothing could be saved.
        """

        def loaded(fd: int, path: Path, meta: dict[str, Any]) -> T:
            return load(path, meta)

        return self._entry(kind, key, versions, loaded, make, save)

    def sweep(self, keep: set[str]) -> int:
        """Remove all entries but those of the keys in `keep`, and what was left half written.

        Returns the bytes that were freed. Mapped files stay readable for who has them. Unknown
        files are left alone. What cannot be removed stays.
        """
        return self._remove(lambda key: key not in keep, 1.0)

    def drop(self, key: str) -> int:
        """Remove the entries of one key, as `sweep` does."""
        return self._remove(lambda other: other == key, self.patience)

    def _remove(self, unwanted: Callable[[str], bool], patience: float) -> int:
        if self.folder is None or self.read_only or not self._folder_is_real():
            return 0
        freed = 0
        with self._locked("write", patience) as mine:
            for name in files.disk.names(self.folder) if mine else []:
                entry = _ENTRY.fullmatch(name)
                if not (_TEMPORARY.fullmatch(name) or (entry and unwanted(entry[1]))):
                    continue
                with suppress(OSError):
                    size = files.disk.status(self.folder / name).st_size
                    files.disk.unlink(self.folder / name)
                    freed += size
        return freed

    # -- one entry -------------------------------------------------------------------------------

    def _entry(
        self,
        kind: str,
        key: str,
        versions: Mapping[str, str] | None,
        load: Callable[[int, Path, dict[str, Any]], T],
        make: Callable[[], T],
        save: Callable[[T, Sink], dict[str, Any]],
    ) -> T:
        if not _KIND.fullmatch(kind) or not _KEY.fullmatch(key):
            raise InvalidInput(
                f"cache: found the kind {kind!r} and the key {key!r}, expected lower-case words "
                "with hyphens and 4 to 64 hexadecimal digits."
            )
        if self.folder is None:
            return make()
        name, needs = f"{kind}-{key}", dict(versions or {})
        told: list[str] = []
        with suppress(_Missing):
            return self._read(name, needs, load, told)
        if self.read_only or not self._ready():
            return make()
        with self._locked(f"make-{kind}", self.patience) as mine:
            if mine:
                with suppress(_Missing):  # another made it while we waited
                    return self._read(name, needs, load, told)
            made = make()
            if mine and self._write(name, needs, made, save):
                with suppress(_Missing):
                    return self._read(name, needs, load, told)
        return made

    def _read(
        self,
        name: str,
        needs: dict[str, str],
        load: Callable[[int, Path, dict[str, Any]], T],
        told: list[str],
    ) -> T:
        """Take an entry, or raise _Missing; what is in doubt is told once."""
        assert self.folder is not None
        body = self.folder / f"{name}.bin"
        try:
            if not self._folder_is_real():
                raise _Missing
            meta = self._sidecar(name, needs)
            fd = _open(body)
            try:
                if files.disk.size(fd) != meta["bytes"]:
                    raise _Doubt(f"found {files.disk.size(fd)} bytes, expected {meta['bytes']}")
                if files.digest(fd)[0] != meta["hash"]:
                    raise _Doubt("its bytes are not those that were written")
                return load(fd, body, meta["meta"])
            finally:
                files.disk.close(fd)
        except (FileNotFoundError, _Missing):
            raise _Missing from None
        except Exception as error:
            if not told:
                told.append(name)
                reason = error.strerror or error if isinstance(error, OSError) else error
                warnings.warn(
                    f"{FOLDER}/{body.name}: {reason}. It is only a cache and is made again.",
                    RuntimeWarning,
                    stacklevel=5,
                )
            raise _Missing from error

    def _sidecar(self, name: str, needs: dict[str, str]) -> dict[str, Any]:
        assert self.folder is not None
        fd = _open(self.folder / f"{name}.json")
        try:
            if files.disk.size(fd) > SIDECAR_MOST:
                raise _Doubt(f"its sidecar has more than {SIDECAR_MOST} bytes")
            _, data = files.digest(fd, keep=True)
        finally:
            files.disk.close(fd)
        try:
            said = json.loads(data)
            check = said.pop("check")
            if check != _check(said) or said["name"] != name:
                raise _Doubt("its sidecar is damaged")
            if said["format"] != FORMAT or said["versions"] != needs:
                raise _Doubt(
                    f"it was made by other versions (format {said['format']}, {said['versions']})"
                )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _Doubt("its sidecar is damaged") from error
        return dict(said)

    def _write(
        self,
        name: str,
        needs: dict[str, str],
        made: T,
        save: Callable[[T, Sink], dict[str, Any]],
    ) -> bool:
        """Publish body and sidecar whole; False where the disk does not take them."""
        assert self.folder is not None
        meta: dict[str, Any] = {}
        said: dict[str, Any] = {"format": FORMAT, "name": name, "versions": needs}
        try:
            with self._locked("write", self.patience) as mine:
                if not mine:
                    return False
                with suppress(FileNotFoundError):  # never an old sidecar beside a new body
                    files.disk.unlink(self.folder / f"{name}.json")
                _, sink = files.publish(
                    self.folder,
                    lambda sink: meta.update(save(made, sink)),
                    lambda sink: f"{name}.bin",
                )
                said |= {"bytes": sink.bytes, "hash": sink.hash.hexdigest(), "meta": meta}
                text = json.dumps(said | {"check": _check(said)}, indent=1).encode()
                files.publish(
                    self.folder, lambda sink: sink.write(text), lambda sink: f"{name}.json"
                )
        except Exception as error:  # whatever a saver raises, what was made is good
            if not (isinstance(error, OSError) and error.errno in _QUIET):
                reason = error.strerror or error if isinstance(error, OSError) else error
                warnings.warn(
                    f"{FOLDER}/{name}.bin: it could not be saved ({reason}); "
                    "it is kept in memory and made again at the next open.",
                    RuntimeWarning,
                    stacklevel=5,
                )
            return False
        return True

    # -- the folder ------------------------------------------------------------------------------

    def _folder_is_real(self) -> bool:
        """Tell whether the folder is there, and no symbolic link."""
        assert self.folder is not None
        try:
            return stat.S_ISDIR(files.disk.status(self.folder).st_mode)
        except OSError:
            return False

    def _ready(self) -> bool:
        assert self.folder is not None
        with suppress(OSError):
            files.disk.mkdir(self.folder)
        return self._folder_is_real()

    @contextmanager
    def _locked(self, what: str, patience: float) -> Iterator[bool]:
        """Hold a lock file; yields False where it cannot be had in time, or at all."""
        assert self.folder is not None
        until = time.monotonic() + patience
        try:
            fd = files.disk.open(self.folder / f"{what}.lock", os.O_RDWR | os.O_CREAT)
        except OSError:
            yield False
            return
        try:
            yield _take(fd, until)
        finally:
            with suppress(OSError):
                files.disk.unlock(fd)  # a forked child may still hold the descriptor
            with suppress(OSError):
                files.disk.close(fd)


def _take(fd: int, until: float) -> bool:
    while True:
        try:
            files.disk.lock(fd)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(POLL)
        except OSError:
            return False


def _open(path: Path) -> int:
    return files.disk.open(path, os.O_RDONLY | os.O_NONBLOCK)  # never wait on a pipe put there


def _check(said: dict[str, Any]) -> str:
    return xxhash.xxh3_128(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _plain(kind: str, array: Any) -> Array:
    """An array of numbers as it is kept: read-only, C order, little-endian."""
    made = np.asarray(array, order="C")
    made = made.astype(made.dtype.newbyteorder("<"), copy=False)
    if made.dtype.kind not in "biuf":
        raise InvalidInput(f"{kind}: found the dtype {made.dtype}, expected numbers.")
    made = made.view()
    made.flags.writeable = False
    return made


def _written(made: Array, sink: Sink) -> dict[str, Any]:
    """Write an array; returns what `_mapped` must know of it."""
    if made.nbytes:
        sink.write(made.reshape(-1).view(np.uint8))
    return {"dtype": made.dtype.str, "shape": list(made.shape)}


def _mapped(fd: int, told: Sequence[Mapping[str, Any]], access: int) -> list[Array]:
    """Map a checked body as the arrays that its sidecar describes, one after the other."""
    places: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []
    end = 0
    for one in told:
        dtype, shape = np.dtype(str(one["dtype"])), tuple(int(n) for n in one["shape"])
        if dtype.kind not in "biuf" or min(shape, default=0) < 0:
            raise _Doubt("its sidecar describes no array of numbers")
        start = end + -end % ALIGNED
        end = start + dtype.itemsize * math.prod(shape)
        places.append((start, dtype, shape))
    size = files.disk.size(fd)
    if size != end:
        raise _Doubt(f"found {size} bytes, expected {end} of its arrays")
    body: Any = mmap.mmap(fd, size, access=access) if size else b""  # nothing cannot be mapped
    found = []
    for start, dtype, shape in places:
        count = math.prod(shape)
        if count:
            found.append(np.frombuffer(body, dtype, count, start).reshape(shape))
        else:
            found.append(np.empty(shape, dtype))
            found[-1].flags.writeable = access != mmap.ACCESS_READ
    return found
