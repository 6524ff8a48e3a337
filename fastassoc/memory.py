"""Memory: all verbs together, made in memory or opened on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

from fastassoc import query as checks
from fastassoc.embed import resolve
from fastassoc.errors import InvalidInput, StoreError
from fastassoc.learning import Learning
from fastassoc.paths import folder_of
from fastassoc.ports import InMemory
from fastassoc.settings import Settings
from fastassoc.state import State
from fastassoc.store import Store, Verification
from fastassoc.upkeep import Upkeep
from fastassoc.writing import Writing

__all__ = ["Memory", "open_memory", "verify_store"]


class Memory(Writing, Learning, Upkeep):
    """An associative memory; in memory only, unless `fastassoc.open` made it.

    One memory may be used from many threads. It is a context manager that closes itself.

    Parameters
    ----------
    settings : Settings, optional
        `Settings.counts` by default.
    embedder : str, object or callable, optional
        What makes vectors of texts: a name (``"wordllama"``, ``"minilm"``), an object with
        ``name``, ``dim`` and ``embed(list of str)``, a model with ``encode``, or a callable that
        takes a list of texts and returns float32 [n, dim].
    clock : callable, optional
        Returns the time as an aware datetime; the system's by default.

    Examples
    --------
    >>> import fastassoc as fa
    >>> with fa.Memory() as mem:
    ...     nid = mem.write("Backoff fixed the flaky call.", concepts=["retry", "backoff"])
    ...     nid in mem
    True
    """

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        embedder: Any = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        check_settings(settings)
        state = State(settings or Settings.counts())
        self._setup(InMemory(), state, None, clock)
        self._use(resolve(embedder))


def open_memory(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    settings: Settings | None = None,
    embedder: Any = None,
    sync: str = "full",
    timeout: float = 10.0,
    clock: Callable[[], datetime] | None = None,
) -> Memory:
    """Open a store, or make one.

    Parameters
    ----------
    path : path
        The store's folder.
    create : bool
        Whether to make a store where there is none.
    read_only : bool
        Open for reading only.
    settings : Settings, optional
        Those of a new store. For an existing one the state fields must be the store's; read
        fields hold for this handle.
    embedder : str, object or callable, optional
        As for `Memory`. A store remembers its embedder by name and width and refuses another; it
        opens without one, too: then text and concepts are read, and vectors wait.
    sync : {"full", "normal", "off"}
        What a returned call means: it is on disk; in the journal, surviving a kill; the same
        without any sync, for loads that can be repeated.
    timeout : float
        Seconds to wait for another process that writes.
    clock : callable, optional
        Returns the time as an aware datetime.

    Returns
    -------
    Memory

    Raises
    ------
    StoreNotFound
        There is none, and `create` is false or `read_only` true.
    SettingsMismatch
        The store was made with other settings.
    EmbedderMismatch
        The store's vectors come from another embedder.
    CorruptStore, FormatTooNew, ReadOnlyStore, StoreLocked
        The store cannot be opened; the message says why.

    Examples
    --------
    >>> import tempfile, fastassoc as fa
    >>> folder = tempfile.mkdtemp()
    >>> with fa.open(folder + "/m.fa") as mem:
    ...     nid = mem.write("Tea is hot.")
    >>> with fa.open(folder + "/m.fa") as mem:
    ...     nid in mem
    True
    """
    check_settings(settings)
    found = resolve(embedder)
    checks.one_of(sync, "sync", ("full", "normal", "off"))
    wait = checks.real(timeout, "timeout", 0.0, 1e6)
    for name, value in (("create", create), ("read_only", read_only)):
        if not isinstance(value, bool):
            raise InvalidInput(f"{name}: found {value!r}, expected True or False.")
    folder = folder_of(path)
    memory = Memory.__new__(Memory)
    memory._clock = clock
    try:
        port, state = Store.open(
            folder,
            create=create and not read_only,
            read_only=read_only,
            settings=settings,
            sync=sync,
            timeout=wait,
            now=memory._now,
        )
    except OSError as error:
        raise StoreError(f"{folder}: the store cannot be opened ({error.strerror}).") from error
    try:
        if settings is not None:
            state.settings.require_same_state(settings)
        memory._setup(port, state, settings, clock)
        memory._use(found)
    except BaseException:
        port.close()
        raise
    return memory


def verify_store(
    path: str | os.PathLike[str], *, digest: bool = False, timeout: float = 10.0
) -> Verification:
    """Check every file of a store that may be too damaged to open.

    As `Memory.verify`, and it goes on after the first damaged file. Where none is, the store is
    loaded, too: whole files may make no sense.

    Parameters
    ----------
    path : path
        The store's folder.
    digest : bool
        Also give `Verification.digest`.
    timeout : float
        Seconds to wait for a snapshot that another process takes.

    Returns
    -------
    Verification
        ``ok``, ``problems`` (file, reason), ``files``, ``position``, ``digest``.

    Raises
    ------
    StoreNotFound
        There is none.

    Examples
    --------
    >>> import tempfile, fastassoc as fa
    >>> folder = tempfile.mkdtemp()
    >>> with fa.open(folder + "/m.fa") as mem:
    ...     nid = mem.write("Tea is hot.")
    >>> fa.verify(folder + "/m.fa").ok
    True
    """
    wait = checks.real(timeout, "timeout", 0.0, 1e6)
    return Store.verified(folder_of(path), digest=digest, timeout=wait)


def check_settings(settings: object) -> None:
    """Refuse what is no Settings."""
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidInput(f"settings: found {settings!r}, expected fastassoc.Settings(...).")
