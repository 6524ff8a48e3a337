"""Damaged stores: the short form of ``python -m tests.faults damage``, and each fault it found."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash

import fastassoc as fa
from fastassoc import errors, snapshot

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


# -- whole files that do not fit one another -------------------------------------------------------


def told_anew(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of the current snapshot, and make its hash fit again."""
    newest = max(path.glob("manifest-*.json"), key=lambda p: int(p.stem.partition("-")[2]))
    manifest = json.loads(newest.read_text())
    change(manifest)
    newest.write_text(json.dumps(manifest))
    with sqlite3.connect(path / "journal.db") as database:
        ((content,),) = database.execute("SELECT content FROM meta")
        meta = json.loads(content)
        meta["current"][2] = xxhash.xxh3_128_hexdigest(newest.read_bytes())
        content = json.dumps(meta)
        digest = xxhash.xxh3_128_digest(content.encode())
        database.execute("UPDATE meta SET content = ?, hash = ?", (content, digest))
    database.close()


def sealed_anew(path: Path, kind: str, change: Any) -> None:
    """Change a table of the current snapshot, and make every name and hash fit again."""

    def told(manifest: dict[str, Any]) -> None:
        parts = [snapshot.Segment(**part) for part in manifest["segments"]]
        (old,) = (part for part in parts if part.kind == kind)
        new = snapshot.write_segment(path, kind, change(snapshot.read_segment(path, old)))
        manifest["segments"] = [vars(new if part is old else part) for part in parts]
        for span in manifest["state"].get(kind, ()):
            span["name"] = new.name

    told_anew(path, told)


def put(name: str, value: Any, kind: Any = None) -> Any:
    """A table with one value of a column changed."""

    def change(table: Any) -> Any:
        import pyarrow as pa

        values = table.column(name).to_pylist()
        values[-1] = value
        place = table.column_names.index(name)
        return table.set_column(
            place, name, pa.array(values, kind or table.schema.field(name).type)
        )

    return change


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("links-concept", put("b", 4_000_000_000)),
        ("links-concept", put("weight", float("nan"))),
        ("links-concept", put("updated_at", 2**62)),
        ("notes", put("concepts", [4_000_000_000])),
        ("notes", put("subjects", [77])),
        ("notes", put("seq", 2**40)),
        ("notes", put("id", None)),
        ("notes", put("created_at", -(2**62))),
        ("vocabulary", put("id", 4_000_000_000)),
        ("vocabulary", lambda table: table.slice(1)),
        ("vectors", put("vector", None)),
        ("vectors", put("vector", [0.0, -0.0, 0.0])),
        ("vectors", put("vector", [1.0, float("nan"), 0.0])),
        ("vectors", put("vector", [1.0, 0.0, float("-inf")])),
        ("notes", put("importance", -0.5)),
        ("notes", put("importance", float("nan"))),
        ("notestate", put("valence", 2.0)),
        ("notestate", put("stability", float("nan"))),
        ("notestate", put("accesses", 2**63 - 1)),
        ("links-concept", put("count", 2**63 - 1)),
    ],
)
def test_l31_tables_that_do_not_fit_one_another_are_damage(
    tmp_path: Path, kind: str, change: Any
) -> None:
    """Numbers beyond an array went to the kernels as they came."""
    base("fresh", tmp_path / "made")
    path = Stage(tmp_path / "made").path
    with fa.open(path) as mem:
        mem.write("Milk.", id="m", concepts=["milk", "tea"], vector=[1.0, 2.0, 3.0])
        mem.read("milk", reinforce=True)
        mem.snapshot()
    sealed_anew(path, kind, lambda table: table)
    assert fa.verify(path).ok
    sealed_anew(path, kind, change)
    with pytest.raises(errors.CorruptStore):
        fa.open(path)
    assert not fa.verify(path).ok


# -- what else may lie in a store ------------------------------------------------------------------


def test_l34_leftovers_and_strangers_stop_nothing(killed: Path) -> None:
    """They are left alone by an open, and swept under the snapshotters' lock, strangers never."""
    stale = [killed / f"tmp-{'0' * 32}", killed / "segments" / f"tmp-{'1' * 32}"]
    stale.append(killed / f".new-{'2' * 32}")
    strangers = [killed / "notes.txt", killed / "segments" / "mine.parquet", killed / ".hidden"]
    for file in (*stale, *strangers):
        file.write_bytes(b"left")
        os.utime(file, (1, 1))
    with fa.open(killed) as mem:
        assert all(file.exists() for file in stale)
        mem.write("Later.")
        with pytest.warns(UserWarning, match="unknown files"):
            mem.snapshot()
        assert not any(file.exists() for file in stale)
        assert mem.verify().ok
    assert all(file.read_bytes() == b"left" for file in strangers)


def test_l38_what_is_forgotten_while_a_snapshot_is_written_stays_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastassoc.journal import Journal

    path, publish = tmp_path / "s.fa", Journal.publish
    mem = fa.open(path)
    mem.write_batch([{"id": f"n{n}", "text": "Tea.", "concepts": ["tea"]} for n in range(5)])

    def paused(self: Any, *given: Any, **more: Any) -> Any:
        monkeypatch.undo()  # the snapshot is written and not yet current
        with fa.open(path) as other:
            other.forget(["n1"])
        mem.forget(["n2"])
        return publish(self, *given, **more)

    monkeypatch.setattr(Journal, "publish", paused)
    assert mem.snapshot()
    for _ in range(2):
        assert sorted(note.id for note in mem.recent()) == ["n0", "n3", "n4"]
        assert "n1" not in [hit.id for hit in mem.read(concepts=["tea"])]
        mem.close()
        mem = fa.open(path)
        mem.snapshot()
    mem.close()


class Planted:
    """Runs when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


def test_l60_planted_pickles_are_never_loaded(tmp_path: Path) -> None:
    import pickle

    made = damage.make("closed", tmp_path / "made")
    lab = damage.Lab({"closed": made}, tmp_path, 1)
    ran = tmp_path / "ran"
    planted = pickle.dumps(Planted(ran))
    names = [*made.image, "cache/index.pkl", "embedder.pkl", "cache/x.npy", "segments/x.pickle"]
    for file in names:
        lab.lay("closed", made.image)
        lab.forget(file)
        (lab.path / file).write_bytes(planted)
        with damage.cached(), damage.strict():
            try:
                with fa.open(lab.path) as mem:
                    mem.read("tea")
                    mem.read(vector=[1.0, 0.5, 0.0])
                    mem.snapshot()
            except errors.StoreError:
                pass
            fa.verify(lab.path)
        assert not ran.exists(), file
    pickle.loads(planted)
    assert ran.exists()
