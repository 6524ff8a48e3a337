"""Each fault that these instruments found, as a test of its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastassoc as fa
from fastassoc import errors
from fastassoc.journal import Draft, Journal, folder

from . import layer
from .power import Power, Recorder

LOOKS = ("open", "read", "look", "list", "lock")


class Breaking(layer.Wire):
    """Fails the calls that a test names; with `stays`, then every call that changes something."""

    def __init__(
        self, root: Path, broken: Callable[[layer.Call], bool], *, stays: bool = False
    ) -> None:
        super().__init__(root)
        self.broken = broken
        self.stays = stays
        self.struck = 0

    def perform(self, call: layer.Call, do: layer.Do, half: layer.Do | None = None) -> Any:
        if self.broken(call) or (self.stays and self.struck and call.kind not in LOOKS):
            self.struck += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return do()


def add(journal: Journal) -> None:
    with journal.locked() as transaction:
        transaction.append([Draft(None, "write", 0, "{}")])


def durable(recorder: Recorder) -> set[str]:
    """The names that a loss of power now leaves at least."""
    power = Power(recorder.first, recorder.numbers)
    for event in recorder.events:
        power.pass_by(event)
    return durable_names(power)


def durable_names(power: Power) -> set[str]:
    found: set[str] = set()

    def walk(node: int, path: str) -> None:
        for name, child in power.folders[node].durable.items():
            found.add(path + name)
            if child in power.folders:
                walk(child, f"{path}{name}/")

    walk(0, "")
    return found


# -- making a store --------------------------------------------------------------------------------


def test_a_creation_that_the_disk_fails_raises_one_of_our_errors(tmp_path: Path) -> None:
    """SQLite's own error came through when closing the half-made journal failed as well."""
    (tmp_path / "s.fa").mkdir()

    def in_log(call: layer.Call) -> bool:
        return call.kind == "write" and call.path.endswith("-wal") and call.offset > 0

    wire = Breaking(tmp_path, in_log, stays=True)
    with layer.on(wire), pytest.raises(errors.StoreError):
        folder.make(tmp_path / "s.fa", "full", None)
    Journal.create(tmp_path / "s.fa").close()


def test_a_store_whose_creation_was_cut_short_is_sound(tmp_path: Path) -> None:
    """An open took a missing `head` of an empty journal, verify called it damage."""
    Journal.create(tmp_path / "s.fa").close()
    (tmp_path / "s.fa" / "head").unlink()
    with Journal.open(tmp_path / "s.fa") as journal:
        assert journal.verify() == []
        add(journal)
    (tmp_path / "s.fa" / "head").unlink()
    with pytest.warns(RuntimeWarning), Journal.open(tmp_path / "s.fa", sync="normal") as journal:
        assert journal.verify() == [("head", "is missing or cannot be read")]


def test_a_new_store_survives_a_loss_of_power(tmp_path: Path) -> None:
    """The folder itself was never synced into the one above it."""
    recorder = Recorder(tmp_path)
    with layer.on(recorder):
        with Journal.create(tmp_path / "deep" / "down" / "s.fa") as journal:
            add(journal)
        kept = durable(recorder)
    assert {"deep/down/s.fa/journal.db", "deep/down/s.fa/head"} <= kept


def test_a_head_that_is_made_late_survives_a_loss_of_power(tmp_path: Path) -> None:
    """The first commit after a creation that was cut short made `head` and did not sync its name:

    after a loss of power the store was refused.
    """
    Journal.create(tmp_path / "s.fa").close()
    (tmp_path / "s.fa" / "head").unlink()
    recorder = Recorder(tmp_path)
    with layer.on(recorder), Journal.open(tmp_path / "s.fa") as journal:
        add(journal)
        kept = durable(recorder)
    assert "s.fa/head" in kept


# -- backup ----------------------------------------------------------------------------------------


def test_a_backup_survives_a_loss_of_power(tmp_path: Path) -> None:
    """Its last step, the rename, was not synced."""
    recorder = Recorder(tmp_path)
    with layer.on(recorder), fa.open(tmp_path / "s.fa") as mem:
        mem.write("Tea is hot.")
        mem.snapshot()
        mem.backup(tmp_path / "copy.fa")
        kept = durable(recorder)
    assert {"copy.fa/journal.db", "copy.fa/head", "copy.fa/segments"} <= kept
    assert any(name.startswith("copy.fa/segments/notes-") for name in kept)


# -- vacuum and rejects ----------------------------------------------------------------------------


def refused(path: Path) -> Path:
    """A store with a file of refused rows."""
    with fa.open(path) as mem:
        mem.ingest([{"id": "a", "text": "Tea."}, {"id": "b", "text": 5}], max_rejects=1.0)
    return path


def test_a_vacuum_that_cannot_empty_the_rejects_says_so(tmp_path: Path) -> None:
    """It reported success, and the refused text was still there."""
    with fa.open(refused(tmp_path / "s.fa")) as mem:
        held = list((tmp_path / "s.fa" / "rejects").iterdir())
        assert held
        wire = Breaking(tmp_path, lambda call: "rejects" in call.path and call.kind == "unlink")
        with layer.on(wire), pytest.raises(errors.VacuumIncomplete, match="rejects"):
            mem.vacuum()
        assert wire.struck
        assert held[0].exists()
        mem.vacuum()
        assert not held[0].exists()


def test_a_failing_file_of_rejects_raises_one_of_our_errors(tmp_path: Path) -> None:
    """An error of the system came through as it was."""
    rows = [{"id": "a", "text": "Tea."}, {"id": "b", "text": 5}]
    with fa.open(tmp_path / "s.fa") as mem:
        wire = Breaking(tmp_path, lambda call: "rejects" in call.path and call.kind == "write")
        with layer.on(wire), pytest.raises(errors.StoreError):
            mem.ingest(rows, max_rejects=1.0)
        assert wire.struck
        assert mem.ingest(rows, max_rejects=1.0).written == 1


def test_rejects_survive_a_loss_of_power(tmp_path: Path) -> None:
    """Neither the folder nor the file's name was synced."""
    recorder = Recorder(tmp_path)
    with layer.on(recorder), fa.open(tmp_path / "s.fa") as mem:
        mem.ingest([{"id": "a", "text": "Tea."}, {"id": "b", "text": 5}], max_rejects=1.0)
        kept = durable(recorder)
    assert any(name.startswith("s.fa/rejects/") for name in kept)


def test_a_loss_of_power_while_a_store_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    """`head` could reach the disk before the journal did, and the store was refused for ever."""
    recorder = Recorder(tmp_path)
    with layer.on(recorder):
        Journal.create(tmp_path / "s.fa").close()
    power = Power(recorder.first, recorder.numbers)
    for event in recorder.events:
        if event.kind == "link" and event.to.endswith("/head"):
            assert "s.fa/journal.db" in durable_names(power)
        power.pass_by(event)


def test_a_kill_after_the_first_commit_of_a_store_that_was_cut_short(tmp_path: Path) -> None:
    """`head` was made after that commit, and the store was refused for the lack of it."""
    Journal.create(tmp_path / "s.fa").close()
    (tmp_path / "s.fa" / "head").unlink()
    recorder = Recorder(tmp_path)
    with layer.on(recorder), Journal.open(tmp_path / "s.fa") as journal:
        add(journal)
    power = Power(recorder.first, recorder.numbers)
    for event in recorder.events:
        if event.kind == "write" and event.path.endswith("-wal"):
            assert "s.fa/head" in durable_names(power)
        power.pass_by(event)
