"""The verbs for a memory as a whole: its store, its copies, and its move to other vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fastassoc.embed import resolve
from fastassoc.errors import InvalidInput
from fastassoc.glance import vectors_at_a_glance
from fastassoc.keeping import Keeping
from fastassoc.moving import move
from fastassoc.paths import folder_of
from fastassoc.reports import Report
from fastassoc.state import State
from fastassoc.store import Store, Verification

__all__ = ["Upkeep"]


class Upkeep(Keeping):
    """The verbs for a memory as a whole."""

    def info(self) -> dict[str, Any]:
        """Return `stats`, the settings, and what the store takes on disk.

        Returns
        -------
        dict
            Besides: ``embedder`` (name and dim) that makes the store's vectors; ``reembed``
            (name, dim, notes done, total) while a move to another one is under way; ``index``,
            which of the ways to search vectors was chosen (kind ``"exact"``, ``"pq"`` or
            ``"ivf"``), with its measured recall@10 and the kinds that were tried, None before the
            index is made (a look makes none). Each is None where there is none.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.", concepts=["tea", "hot"])
        >>> mem.info()["notes"], mem.info()["links"]
        (1, 1)
        """
        view = self._view()
        with self._lock:
            size = self._state.links.nbytes
        return {
            **self.stats(),
            **vectors_at_a_glance(view, self._port, self.settings.recall_floor),
            "link_bytes": size,
            "settings": self.settings.to_dict(),
            **self._port.info(),
        }

    def snapshot(self) -> bool:
        """Save the state as a snapshot, so that an open need not replay the journal.

        Snapshots are taken by themselves as the journal grows. A crash leaves the old or the new.

        Returns
        -------
        bool
            False where there was nothing to save or another process is at it.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> mem.snapshot(), mem.snapshot()
        (True, False)
        >>> mem.close()
        """
        self._usable(writing=True)
        return self._store("snapshot").snapshot(self._still)

    def verify(self, *, digest: bool = False) -> Verification:
        """Check every file of the store against its hash, and the journal against its chain.

        Parameters
        ----------
        digest : bool
            Also load the store anew and give `Verification.digest`, equal in every process.

        Returns
        -------
        Verification
            ``ok``, ``problems`` (file, reason), ``files``, ``digest``.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> mem.verify().ok
        True
        >>> mem.close()
        """
        self._usable()
        return self._store("verify").verify(digest=digest)

    def vacuum(self) -> Report:
        """Erase what was forgotten from every file of the store.

        Names that no live note and no link holds go, too; those that outcomes taught stay.

        Returns
        -------
        Report
            With the names that stay although no note carries them, as `kept`.

        Raises
        ------
        VacuumIncomplete
            Readers hold the journal; run it again.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> mem.forget([nid]).forgotten
        1
        >>> mem.vacuum().kept
        []
        >>> mem.close()
        """
        self._usable(writing=True)
        store = self._store("vacuum")
        purge = partial(self._change, "purge", lambda _: ({}, None), None)
        return store.vacuum(self._still, purge)

    def backup(self, target: str | os.PathLike[str]) -> Path:
        """Copy the store to a new folder, whole and consistent, while others write.

        Parameters
        ----------
        target : path
            A folder that does not exist.

        Returns
        -------
        Path

        Raises
        ------
        StoreExists
            Something is at `target`.

        Examples
        --------
        >>> import tempfile, fastassoc as fa
        >>> folder = tempfile.mkdtemp()
        >>> mem = fa.open(folder + "/m.fa")
        >>> nid = mem.write("Tea is hot.", concepts=["tea"])
        >>> copy = mem.backup(folder + "/copy.fa")
        >>> mem.close()
        >>> with fa.open(copy) as kept:
        ...     nid in kept
        True
        """
        self._usable()
        return self._store("backup").backup(folder_of(target))

    def warm(self) -> None:
        """Make now what the first read by text and the first by vector would make.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.")
        >>> mem.warm()
        """
        self._with_index(self._view(text=True))

    def reembed(
        self, embedder: Any, *, progress: Callable[[int, int], None] | None = None
    ) -> Report:
        """Move the memory to another embedder, or give vectors to notes that have none.

        Texts are embedded batch by batch, each batch saved; a move that was cut off goes on
        where it stopped when it is called again. Until the last batch reads see the old vectors.
        With the embedder that the store has already, only notes without a vector get one.

        Parameters
        ----------
        embedder : str, object or callable
            As for `fastassoc.open`.
        progress : callable, optional
            Called after each batch with the notes done, and all.

        Returns
        -------
        Report
            ``updated`` notes that this call gave a vector.

        Raises
        ------
        InvalidInput
            It is no embedder, or gave something else than vectors.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.")
        >>> mem.reembed(lambda texts: [[len(text), 1.0] for text in texts]).updated
        1
        >>> mem.get(nid).vector.tolist()
        [11.0, 1.0]
        """
        target = resolve(embedder)
        if target is None:
            raise InvalidInput("embedder: found None, expected a name, an object or a callable.")
        self._usable(writing=True)
        report = move(self._view, self._change, target, progress)
        self._embedder = target
        if isinstance(self._port, Store) and report.updated:
            self._port.snapshot(self._still)  # an index is made of a snapshot's vectors
        return report

    def _store(self, verb: str) -> Store:
        if not isinstance(self._port, Store):
            raise InvalidInput(
                f"{verb}: this memory has no store: make it with fastassoc.open(path)."
            )
        return self._port

    def export_lines(self) -> Iterator[dict[str, Any]]:
        """Give the whole memory as JSON values, one a line; `import_lines` restores it.

        Settings, concepts, notes with their vectors and states, and all links are in it, and
        which embedder made the vectors. A `reembed` that was cut off is not: the lines have the
        vectors that reads see.

        Raises
        ------
        ClosedHandle
            The memory is closed.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.", concepts=["tea", "hot"])
        >>> kinds = [line["kind"] for line in mem.export_lines()]
        >>> kinds[0], kinds[-1]
        ('store', 'end')
        """
        from fastassoc.transfer import export_lines

        self._view()
        with self._lock:
            return export_lines(self._state)

    def import_lines(self, lines: Any) -> Report:
        """Restore what `export_lines` gave into an empty memory, weights and times included.

        All lines are checked before anything changes. They are then saved in operations of at
        most 3 MiB (one note may be larger); after an interruption the same call goes on. A
        memory that holds the export already is left as it is.

        Parameters
        ----------
        lines : iterable of dict

        Returns
        -------
        Report

        Raises
        ------
        InvalidInput
            A line cannot be taken, or the memory holds other things.
        EmbedderMismatch
            The memory has another embedder than the one of the vectors.
        SettingsMismatch
            The memory was made with other settings.

        Examples
        --------
        >>> import fastassoc as fa
        >>> mem = fa.Memory()
        >>> nid = mem.write("Tea is hot.", concepts=["tea", "hot"])
        >>> other = fa.Memory()
        >>> other.import_lines(mem.export_lines()).written, other.links.weight("tea", "hot")
        (1, 1.0)
        """
        from fastassoc.transfer import next_part, read_export

        whole = read_export(lines)
        total = Report(repeated=True, position=self.position)
        last = False
        while not last:
            sent: list[dict[str, Any]] = []

            def prepare(
                state: State, sent: list[dict[str, Any]] = sent
            ) -> tuple[dict[str, Any], bytes | None] | Report:
                part = next_part(state, whole)
                if part is None:
                    return Report()
                sent.append(part[0])
                return part

            made = self._change("import", prepare, None)
            last = not sent or sent[0]["ingest"]["final"]
            total = Report(
                written=total.written + made.written,
                links_created=total.links_created + made.links_created,
                cues_changed=total.cues_changed + made.cues_changed,
                repeated=total.repeated and not sent,
                position=made.position,
                seconds=total.seconds + made.seconds,
            )
        if self._given is not None and not total.repeated:
            self._given = whole.settings
        return total
