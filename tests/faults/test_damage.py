"""Damaged stores: the short form of ``python -m tests.faults damage``, and each fault it found."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import fastassoc as fa
from fastassoc import errors

from . import damage
from .script import Stage, base

SEED = int(os.environ.get("FASTASSOC_SEED", "1"))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store that a kill left with a log."""
    base("killed", tmp_path / "made")
    return Stage(tmp_path / "made").path


def test_l31_a_damaged_store_answers_right_or_names_the_file() -> None:
    tally = damage.run(seed=SEED, count=400)
    assert tally.violations == []
    assert tally.count == 400
    assert tally.outcomes["refused"] > 50


def test_l31_a_pipe_in_the_place_of_head_is_not_waited_for(killed: Path) -> None:
    (killed / "head").unlink()
    os.mkfifo(killed / "head")
    with pytest.raises(errors.CorruptStore, match="head"):
        fa.open(killed)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_l31_what_is_no_file_beside_the_journal_is_named(
    killed: Path, suffix: str, make: Any
) -> None:
    """SQLite's message told that it cannot open a file, not which."""
    (killed / f"journal.db{suffix}").unlink()
    make(killed / f"journal.db{suffix}")
    with pytest.raises(errors.CorruptStore, match=f"journal.db{suffix}: is not a file"):
        fa.open(killed)
    assert fa.verify(killed).problems == [(f"journal.db{suffix}", "is not a file")]


def test_a_refused_open_leaves_a_damaged_log_as_it_is(killed: Path) -> None:
    """The close after it folded what SQLite saw of the log, and deleted all that came after."""
    log = killed / "journal.db-wal"
    data = bytearray(log.read_bytes())
    data[32 + 24 + 100] ^= 1  # in the first page of the log
    log.write_bytes(data)
    for _ in range(2):
        with pytest.raises(errors.CorruptStore):
            fa.open(killed)
        assert not fa.verify(killed).ok
    assert log.read_bytes() == data


@pytest.mark.parametrize("text", [b'{"format"', b"Tea in a kettle"])
def test_l31_a_flipped_bit_in_text_of_the_journal_is_damage(tmp_path: Path, text: bytes) -> None:
    """Text that is no UTF-8 any more raised Python's own error."""
    base("fresh", tmp_path / "made")
    path = Stage(tmp_path / "made").path
    data = (path / "journal.db").read_bytes()
    assert text in data
    (path / "journal.db").write_bytes(data.replace(text, b"\xff" + text[1:]))
    with pytest.raises(errors.CorruptStore, match=r"journal\.db"):
        fa.open(path)
    assert [file for file, _ in fa.verify(path).problems] == ["journal.db"]


@pytest.mark.parametrize("old", [b"seq INTEGER PRIMARY KEY", b"seq"])
def test_l31_a_damaged_schema_of_the_journal_is_damage(killed: Path, old: bytes) -> None:
    """A key that is none any more gave None for sequences, and Python's own TypeError."""
    with fa.open(killed):
        pass  # folds the log
    data = (killed / "journal.db").read_bytes()
    assert old in data
    (killed / "journal.db").write_bytes(data.replace(old, old[:-1] + b"~", 1))
    with pytest.raises(errors.CorruptStore, match=r"journal\.db"):
        fa.open(killed)
    assert {file for file, _ in fa.verify(killed).problems} == {"journal.db"}


def test_damage_is_played_on_copies(tmp_path: Path) -> None:
    made = damage.make("closed", tmp_path / "made")
    lab = damage.Lab({"closed": made}, tmp_path, 1)
    lab.lay("closed", made.image)
    assert damage.image_of(lab.path) == made.image
    shutil.rmtree(lab.path / "segments")
    lab.lay("closed", made.image)
    assert damage.image_of(lab.path) == made.image
