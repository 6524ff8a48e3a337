"""A damaged store's remains in a new folder, and exactly what is not among them.

The damaged store is read and never written, not even by SQLite: it works on copies of the journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from fastassoc import files, pieces, saving
from fastassoc import snapshot as disk
from fastassoc.errors import CorruptStore, FastAssocError, StoreError, StoreNotFound
from fastassoc.journal import Entry, Journal
from fastassoc.journal.salvage import Salvaged, acknowledged, begin, copy_files, salvage
from fastassoc.paths import check_new, folder_of
from fastassoc.pieces import Loss, Pieces
from fastassoc.settings import Settings
from fastassoc.state import State
from fastassoc.store import Store, operation_of

__all__ = ["Loss", "Repair", "repair_store"]

JOURNAL = "journal.db"
UNFIT = (KeyError, IndexError, TypeError, ValueError, AttributeError, FastAssocError)


@dataclass
class Repair:
    """What a repair found.

    Attributes
    ----------
    path : str
        The new store.
    base : str
        The manifest that it starts from, or the journal alone.
    position : int
        The operation that it reflects.
    notes : int
        Live notes in it.
    digest : str
        As `verify` gives it.
    lost : list of Loss
        What is not in it.
    doubts : list of str
        What could not be checked.
    """

    path: str = ""
    base: str = ""
    position: int = 0
    notes: int = 0
    digest: str = ""
    lost: list[Loss] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether nothing was lost, and nothing is in doubt."""
        return not self.lost and not self.doubts


def repair_store(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> Repair:
    """Salvage what is left of a damaged store into a new folder.

    Nobody may have the store open. It starts from the snapshot that loses least: the current one,
    the one before it, or the journal alone, if the operations since then are all there. What no
    way leads to is left out and told. Forgotten notes never come back.

    Parameters
    ----------
    source : path
        The damaged store; it stays as it is.
    target : path
        A folder that does not exist.

    Returns
    -------
    Repair

    Raises
    ------
    StoreNotFound, StoreExists
        There is no store, or something is at `target`.
    StoreError
        The store is in use, or nothing can be salvaged.
    FormatTooNew
        A newer version wrote it.

    Examples
    --------
    >>> import tempfile, fastassoc as fa
    >>> folder = tempfile.mkdtemp()
    >>> with fa.open(folder + "/m.fa") as mem:
    ...     nid = mem.write("Tea is hot.")
    >>> found = repair_store(folder + "/m.fa", folder + "/whole.fa")
    >>> found.whole, found.digest == fa.verify(folder + "/m.fa", digest=True).digest
    (True, True)
    """
    old, new = folder_of(source), folder_of(target)
    if not old.is_dir():
        raise StoreNotFound(f"{old}: there is no store here.")
    check_new(new, old)
    scratch = new.with_name(f".{new.name}.{token_hex(4)}")
    draft = scratch / "store"
    try:
        files.make_folder(scratch)
        copy_files(old, scratch)
        one = _Salvage(old, salvage(scratch))
        state, report = one.best()
        report.digest, report.notes = state.digest(), state.notes.n_alive
        _write(draft, one, state)
        checked = Store.verified(draft, digest=True, timeout=10.0)
        if checked.digest != report.digest:
            raise StoreError(f"{new}: what was written is not what was salvaged: {checked}.")
        files.disk.rename(draft, new)
        files.sync_folder(new.parent)
    except OSError as error:
        raise StoreError(f"{new}: the repair cannot be written ({error}).") from error
    finally:
        with suppress(OSError):
            files.remove_tree(scratch)
    report.path = str(new)
    return report


def _write(draft: Path, one: _Salvage, state: State) -> None:
    """A store whose first snapshot is the state."""
    chain = one.found.known().get(state.position, bytes(16))
    begin(draft, one.store, (state.position, chain), one.found.ids)

    @contextmanager
    def still() -> Iterator[State]:
        yield state

    with Journal.open(draft) as journal:
        saving.snapshot(journal, still, lambda: None)


@dataclass
class _Base:
    """Where a repair may start: the pieces of a snapshot, or None for the journal alone."""

    seq: int
    pieces: Pieces | None
    checked: bool
    lost: list[tuple[int, int]] = field(default_factory=list)  # first and last, of operations

    @property
    def price(self) -> tuple[int, bool, int]:
        rows = 0 if self.pieces is None else self.pieces.lost_rows
        operations = sum(last - first + 1 for first, last in self.lost)
        return operations + rows, not self.checked, -self.seq


class _Salvage:
    """The files of one store, and the ways to go on from them."""

    def __init__(self, root: Path, found: Salvaged) -> None:
        self.root, self.found = root, found
        self.refused: list[str] = []  # why a manifest is no base
        self.bases = list(self._snapshots())
        meta = found.meta
        self.store = meta.store if meta is not None else ""
        for base in self.bases:
            if base.pieces is not None and not self.store:
                self.store = base.pieces.manifest["store"]
        self.store = self.store if len(self.store) == 32 else token_hex(16)
        first = found.entries.get(1)
        if first is not None and first.kind == "create":
            self.bases.append(_Base(0, None, True))
        self.last = max(
            [0, *found.entries, *found.damaged, *(base.seq for base in self.bases)]
            + ([meta.current.seq] if meta is not None and meta.current is not None else [])
        )
        self.last = max(self.last, acknowledged(root, self.store, self.last) or 0)
        for base in self.bases:
            base.lost = holes(sorted(s for s in found.entries if s > base.seq), base.seq, self.last)

    def _snapshots(self) -> Iterator[_Base]:
        meta = self.found.meta
        for seq, name in reversed(disk.list_manifests(self.root)):
            current = None if meta is None else meta.current
            known = current.digest if current is not None and current.manifest == name else None
            try:
                digest = known or disk.manifest_digest(self.root, name)
                manifest = disk.read_manifest(self.root, name, digest)
                if meta is not None and manifest["store"] != meta.store:
                    raise CorruptStore(name, "belongs to another store")
                found = pieces.pieces_of(self.root, manifest, name)
            except CorruptStore as error:
                self.refused.append(f"{error.file}: {error.reason}")
                continue
            if found.usable:
                yield _Base(seq, found, known is not None)
            else:
                self.refused.append(f"{name}: it is not known any more which notes were forgotten")

    def best(self) -> tuple[State, Repair]:
        """The state of the base that loses least."""
        for base in sorted(self.bases, key=lambda base: base.price):
            report = Repair()
            try:
                state = self._loaded(base, report)
            except UNFIT as error:
                self.refused.append(f"{self._name(base)}: {error}")
                continue
            self._replayed(state, base, report)
            report.position = state.position
            return state, report
        raise StoreError(
            f"{self.root}: nothing can be salvaged ({'; '.join(self.refused) or 'it is empty'}): "
            "restore a backup."
        )

    def _name(self, base: _Base) -> str:
        return "the journal alone" if base.pieces is None else base.pieces.name

    def _loaded(self, base: _Base, report: Repair) -> State:
        report.base = self._name(base)
        if base.pieces is None:
            body = operation_of(self.root, self.found.entries[1]).body
            return State(Settings.from_dict(body["settings"]))
        if not base.checked:
            report.doubts.append(
                f"{base.pieces.name}: no hash of it is on record, so its settings are taken as "
                "they stand"
            )
        names = [
            table
            for other in self.bases
            if other.pieces is not None
            for table in other.pieces.held.get("vocabulary", ())
        ]
        state, losses = pieces.state_of(base.pieces, names)
        report.lost += losses
        return state

    def _replayed(self, state: State, base: _Base, report: Repair) -> None:
        """Apply the operations after the base, as far as they are there and make sense."""
        for first, last in base.lost:
            report.lost.append(self._missing(first, last))
        for seq in sorted(self.found.entries):
            if seq > base.seq:
                self._apply(state, self.found.entries[seq], report)

    def _missing(self, first: int, last: int) -> Loss:
        wrong = [self.found.damaged.get(seq, "") for seq in range(first, min(last, first + 20) + 1)]
        reasons = "; ".join(dict.fromkeys(filter(None, wrong))) or "nothing is left of it"
        which = f"operation {first}" if first == last else f"operations {first} to {last}"
        return Loss("operations", last - first + 1, JOURNAL, f"{which}: {reasons}")

    def _apply(self, state: State, entry: Entry, report: Repair) -> None:
        file, which = JOURNAL, f"operation {entry.seq} ({entry.kind}, id {entry.op_id})"
        position, now = state.position, state.time
        try:
            state.apply(operation_of(self.root, entry), entry.seq)
            return
        except CorruptStore as error:
            file, why = error.file, error.reason
        except UNFIT as error:
            why = f"it does not fit what is left ({error!r})"
        state.torn = False
        if state.position != entry.seq:
            state.position, state.time = position, now
        report.lost.append(Loss("operations", 1, file, f"{which}: {why}"))


def holes(there: Sequence[int], after: int, last: int) -> list[tuple[int, int]]:
    """First and last of what is missing from the numbers above `after`, up to `last`.

    Examples
    --------
    >>> holes([4, 5, 8], 2, 9)
    [(3, 3), (6, 7), (9, 9)]
    """
    found = []
    for number in there:
        if number > after + 1:
            found.append((after + 1, number - 1))
        after = number
    if last > after:
        found.append((after + 1, last))
    return found


def told(report: Repair) -> dict[str, Any]:
    """A report as JSON values."""
    return {
        "path": report.path,
        "base": report.base,
        "position": report.position,
        "notes": report.notes,
        "digest": report.digest,
        "whole": report.whole,
        "lost": [vars(loss) for loss in report.lost],
        "doubts": report.doubts,
    }
