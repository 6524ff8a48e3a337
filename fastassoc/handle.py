"""A handle on a memory: how every change and every look is taken, in this thread or another."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Condition, Lock, RLock
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from fastassoc.batch import NoteBatch
from fastassoc.embed import Embedder, identity, require_same
from fastassoc.errors import (
    ClosedHandle,
    FastAssocError,
    ForkedHandle,
    InvalidInput,
    ReadOnlyStore,
    StoreError,
)
from fastassoc.ids import check_operation_id
from fastassoc.ports import Held, Port
from fastassoc.reader import Reader, check_width
from fastassoc.reports import Report
from fastassoc.settings import Settings
from fastassoc.state import Operation, State, StateView
from fastassoc.times import micros
from fastassoc.vectors import EXACT_BELOW

__all__ = ["Handle", "Prepared"]

# an operation's body, and the notes or the vectors that belong to it
Prepared = tuple[dict[str, Any], NoteBatch | bytes | None]


class Handle(Reader):
    """A state, the port that keeps its operations in order, and two locks.

    ``_writing`` lets one writer of this handle in at a time and is held while it waits for other
    processes; ``_lock`` guards the state and is never held while waiting for them, so that reads
    do not wait for a writer.
    """

    def _setup(
        self,
        port: Port,
        state: State,
        settings: Settings | None,
        clock: Callable[[], datetime] | None,
    ) -> None:
        self._given = settings
        self._port = port
        self._state = state
        self._clock = clock
        self._pid = os.getpid()
        self._closed = False
        self._broken: BaseException | None = None
        self._saving: Operation | None = None
        self._writing = RLock()
        self._lock = RLock()
        self._applied = Condition(self._lock)
        self._indexing = Lock()  # one thread makes an index, the others wait for it
        self._now()

    def _use(self, embedder: Embedder | None) -> None:
        """Take an embedder, the store's own; one that has none yet remembers it."""
        if embedder is None:
            return
        told = identity(embedder)

        def prepare(state: State) -> Prepared | Report:
            require_same(state.space.embedder, embedder)
            if state.space.embedder is not None:
                return Report()
            check_width(told["dim"], state.space.dim)
            return {"embedder": told}, None

        if self._port.read_only:
            prepare(self._state)
        else:
            self._change("embedder", prepare, None)
        self._embedder = embedder

    def _change(
        self, kind: str, prepare: Callable[[State], Prepared | Report], operation_id: str | None
    ) -> Report:
        """Take the lock, catch up, check, journal, apply.

        `prepare` makes the last checks against the state and returns the operation's body, or a
        report where there is nothing to do.
        """
        self._usable(writing=True)
        start = perf_counter()
        check_operation_id(operation_id)
        with self._writing, self._port.locked() as held:
            with self._lock:
                self._state = held.catch_up(self._state)
            known = None if operation_id is None else held.done(operation_id)
            if known is not None:
                return Report(repeated=True, ids=known, position=self._state.position)
            made, at = prepare(self._state), max(self._now(), self._state.time)
            if not isinstance(made, Report):
                body, data = made
                batch = data if isinstance(data, NoteBatch) else None
                vectors = data if isinstance(data, bytes) else None
                operation = Operation(kind, at, body, operation_id, batch, vectors)
                report = self._save(held, operation)
            elif operation_id is None:
                made.position = self._state.position
                return made
            else:  # there was nothing to do, and a repeat must do nothing either
                report = made
                done = self._save(held, Operation("nothing", at, {}, operation_id))
                report.position = done.position
        self._tend()
        report.seconds = perf_counter() - start
        return report

    def _save(self, held: Held, operation: Operation) -> Report:
        """Journal an operation, then apply it."""
        try:
            with self._lock:  # the state is caught up, and the write lock keeps it so
                self._saving = operation  # no read takes it from the journal before we do
            position = held.append(operation)  # without the lock: reads do not wait for the disk
            with self._lock:
                self._saving = None
                self._applied.notify_all()
                return self._apply(operation, position)
        finally:
            self._saving = None

    def _tend(self) -> None:
        """What is due after an operation; that one is saved, whatever comes of this."""
        try:
            self._port.tend(self._still)
        except (FastAssocError, OSError) as error:
            warnings.warn(
                f"the operation is saved, but no snapshot could be taken after it: {error}",
                RuntimeWarning,
                stacklevel=4,
            )

    def _apply(self, operation: Operation, position: int) -> Report:
        try:
            return self._state.apply(operation, position)
        except BaseException as error:  # it is journalled: this handle no longer shows the truth
            self._broken = error
            raise

    def _caught_up(self) -> None:
        self._usable()
        if self._state.torn or self._port.changed(self._state.position):
            self._catch_up()

    def _view(self, *, text: bool = False, at_least: int | None = None) -> StateView:
        self._caught_up()
        if at_least is not None:
            self._wait_for(at_least)
        with self._lock:
            return self._state.view(text=text)

    def _with_index(self, view: StateView) -> StateView:
        if len(view.points) <= EXACT_BELOW:
            return view
        forgotten = self._state.forgotten  # it only grows
        with self._indexing:
            index = self._port.index(view, forgotten, self.settings.recall_floor)
        return replace(view, index=index)

    @contextmanager
    def _still(self) -> Iterator[State]:
        """The state, caught up, that no one changes while the context lasts."""
        with self._lock:
            self._caught_up()
            yield self._state

    def _catch_up(self) -> None:
        with self._lock:
            saving = self._saving
            while saving is not None and self._saving is saving and self._overtaken():
                self._applied.wait(0.05)
            # else all is there but what our own writer is about to apply
            if self._saving is None:
                self._state = self._port.catch_up(self._state)

    def _overtaken(self) -> bool:
        """Whether others saved something after what our own writer is about to apply."""
        position = self._state.position
        return self._port.changed(position) and self._port.changed(position + 1)

    def _wait_for(self, position: int) -> None:
        end = time.monotonic() + self._port.timeout
        while self._state.position < position:
            if time.monotonic() > end:
                raise StoreError(
                    f"at_least: waited {self._port.timeout:g} s for operation {position}, "
                    f"the memory is at {self._state.position}. Was it written to this store?"
                )
            time.sleep(0.002)
            self._catch_up()

    def _usable(self, *, writing: bool = False) -> None:
        if self._pid != os.getpid():
            raise ForkedHandle(
                "this process was forked after the memory was opened: open it again in the child."
            )
        if self._closed:
            raise ClosedHandle("the memory is closed: open it again.")
        if self._broken is not None:
            raise ClosedHandle(
                f"an operation could not be applied ({self._broken!r}), so this handle is broken; "
                "nothing saved is lost: close it, run `fastassoc verify`, and open the store again."
            )
        if writing and self._port.read_only:
            raise ReadOnlyStore("the store is open for reading only: open it without read_only.")

    def _now(self) -> int:
        if self._clock is None:
            return time.time_ns() // 1000
        now = self._clock()
        if not isinstance(now, datetime) or now.tzinfo is None:
            raise InvalidInput(f"clock: it gave {now!r}, expected an aware datetime.")
        return micros(now, "clock")

    @property
    def settings(self) -> Settings:
        """The settings given for this handle, else those that the store holds now."""
        return self._state.settings if self._given is None else self._given

    @property
    def embedder(self) -> dict[str, Any] | None:
        """Name and dim of the embedder that makes the store's vectors, None where callers do."""
        return self._view().space.embedder

    @property
    def path(self) -> Path | None:
        """The store's folder, None for a memory that is nowhere else."""
        return self._port.path

    @property
    def position(self) -> int:
        """The operation that the memory reflects."""
        return self._view().position

    @property
    def closed(self) -> bool:
        """Whether the memory was closed."""
        return self._closed

    def close(self) -> None:
        """Close the memory; what was acknowledged is saved. Closing twice does nothing.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> mem.close()
        >>> mem.closed
        True
        """
        if self._closed or self._pid != os.getpid():
            return
        with self._writing, self._lock:
            self._closed = True
            self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            if hasattr(self, "_port"):
                self.close()

    def __repr__(self) -> str:
        where = self.path or "in memory"
        return f"<fastassoc.Memory {where}{' (closed)' if self._closed else ''}>"
