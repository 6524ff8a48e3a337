"""Safeguards that no other test would miss: see mutantlist.py."""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pyarrow as pa
import pytest

import fastassoc as fa
from fastassoc import files, parquet, snapshot
from fastassoc.cache import Cache
from fastassoc.errors import CorruptStore, ForkedHandle
from fastassoc.journal import Draft, Journal, chain
from fastassoc.journal.headfile import HeadFile
from fastassoc.links import LinkMatrix
from fastassoc.settings import LinkRule, RetentionRule, Settings

from . import layer
from .children import ended
from .power import Recorder


def add(journal: Journal, *bodies: str) -> None:
    with journal.locked() as transaction:
        transaction.append([Draft(None, "write", 0, body) for body in bodies])


# -- locks -----------------------------------------------------------------------------------------


def test_an_open_waits_while_another_recovers_the_log(path: Path) -> None:
    Journal.create(path).close()
    other = apsw.Connection(str(path / "journal.db"))
    other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    other.execute("BEGIN EXCLUSIVE")

    def release() -> None:
        time.sleep(0.3)
        other.execute("ROLLBACK")
        other.close()

    thread = threading.Thread(target=release)
    thread.start()
    with Journal.open(path, timeout=20) as journal:
        add(journal, "{}")
    thread.join()


def test_the_connection_that_reads_cannot_write(path: Path) -> None:
    with Journal.create(path) as journal:
        add(journal, "{}")
        with pytest.raises(fa.errors.ReadOnlyStore), journal._connections.guard() as conn:
            conn.execute("DELETE FROM journal")
        assert journal.head() == 1


def test_an_interrupted_read_does_not_freeze_the_moment(path: Path) -> None:
    with Journal.create(path) as journal, Journal.open(path) as other:
        add(journal, "{}")
        with suppress(KeyboardInterrupt), journal._connections.guard() as conn:
            conn.execute("BEGIN")
            conn.execute("SELECT count(*) FROM journal").fetchall()
            raise KeyboardInterrupt
        add(other, "{}")
        assert journal.head() == 2


def test_a_forked_memory_says_so_itself() -> None:
    mem = fa.Memory()
    mem.write("Tea.")

    def act() -> None:
        with pytest.raises(ForkedHandle):
            mem.read("tea")

    assert ended(act) == 0


def test_a_childs_garbage_leaves_the_parents_locks_alone(path: Path) -> None:
    """SQLite would fold the log and remove it when the child's garbage takes a connection."""
    held = [Journal.create(path)]
    add(held[0], "{}")

    def descriptors() -> int:
        count = 0
        for fd in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # that of the list itself
                count += "journal.db" in os.readlink(f"/proc/self/fd/{fd}")
        return count

    def act() -> None:
        before = descriptors()
        held.clear()
        gc.collect()
        assert before == descriptors() > 0

    assert ended(act) == 0
    add(held[0], "{}")
    held[0].close()
    with Journal.open(path) as journal:
        assert journal.head() == 2


# -- what is on the disk ---------------------------------------------------------------------------


def test_head_is_synced_when_a_snapshot_is_published_and_at_the_close(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = files.disk.sync

    def told(fd: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        sync(fd)

    with fa.open(path) as mem:
        monkeypatch.setattr(files.disk, "sync", told)
        mem.write("Tea.")
        assert synced.count("head") == 0
        mem.snapshot()
        assert synced.count("head") == 1
        mem.write("Milk.")
    assert synced.count("head") == 2


def test_head_of_another_handle_never_goes_back(tmp_path: Path) -> None:
    """Commits of two processes may get here in another order than they were made."""
    first, second = (HeadFile(tmp_path / "head", bytes(16)) for _ in range(2))
    first.create(0)
    first.advance(5)
    second.advance(4)
    assert first.read(5) == second.read(5) == (5, "")
    first.close()
    second.close()


def test_a_head_that_is_made_late_is_on_the_disk_before_anything_is_saved(tmp_path: Path) -> None:
    Journal.create(tmp_path / "s.fa").close()
    (tmp_path / "s.fa" / "head").unlink()
    recorder = Recorder(tmp_path)
    with layer.on(recorder), Journal.open(tmp_path / "s.fa") as journal:
        add(journal, "{}")
    seen = [str(event).replace(".new-", ".new- ").split()[:2] for event in recorder.events]
    start = seen.index(["write", "s.fa/.new-"])
    saved = seen.index(["write", "s.fa/journal.db-wal"])
    steps = ["write", "sync", "link", "unlink", "syncdir"]
    assert [kind for kind, _ in seen[start:saved]] == steps


def test_a_publication_is_on_the_disk_before_anything_goes(tmp_path: Path) -> None:
    """At every level: else a loss of power brings the old snapshot back, without its files."""
    for level in ("normal", "off"):
        recorder = Recorder(tmp_path)
        with layer.on(recorder), fa.open(tmp_path / "s.fa", sync=level) as mem:
            for n in range(3):
                mem.write("Tea.", id=f"{level}{n}")
                mem.snapshot()
            mem.write("Milk.", id=f"{level} milk")
            start = len(recorder.events)
            mem.vacuum()
        seen = [str(event) for event in recorder.events[start:]]
        named = seen.index(next(text for text in seen if "-> s.fa/manifest" in text))
        gone = next(n for n, text in enumerate(seen) if n > named and "unlink s.fa/seg" in text)
        assert "sync s.fa/journal.db-wal" in seen[named:gone], (level, seen)


def test_another_stores_meta_row_is_noticed_by_who_has_it_open(path: Path, tmp_path: Path) -> None:
    Journal.create(tmp_path / "b").close()
    with Journal.create(path) as journal:
        add(journal, "{}")
        rows = apsw.Connection(str(tmp_path / "b" / "journal.db")).execute("SELECT * FROM meta")
        other = apsw.Connection(str(path / "journal.db"))
        other.execute("UPDATE meta SET content = ?2, hash = ?3 WHERE id = ?1", rows.fetchall()[0])
        other.close()
        with pytest.raises(CorruptStore, match="another store's journal"):
            journal.current()


def test_a_whole_meta_row_of_a_newer_format_is_refused(path: Path) -> None:
    with Journal.create(path) as journal, journal._connections.guard() as conn:
        meta = journal._records.meta(conn)
    other = apsw.Connection(str(path / "journal.db"))
    other.execute("PRAGMA user_version = 99")
    other.execute("UPDATE meta SET content = ?, hash = ?", meta._replace(format=99).seal())
    other.close()
    with pytest.raises(fa.errors.FormatTooNew):
        Journal.open(path)


def test_a_sidecar_that_was_written_by_hand_is_not_believed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.array("table", "00ff", lambda: np.arange(6).reshape(2, 3))
    sidecar = tmp_path / "cache" / "table-00ff.json"
    told = json.loads(sidecar.read_text())
    assert told["meta"]["shape"] == [2, 3]
    told["meta"]["shape"] = [3, 2]
    sidecar.write_text(json.dumps(told))
    with pytest.warns(RuntimeWarning, match="sidecar is damaged"):
        found = cache.array("table", "00ff", lambda: np.arange(6).reshape(2, 3))
    assert found.shape == (2, 3)


def test_a_sink_that_failed_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    sink = files.Sink(fd)

    def broken(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(files.disk, "write", broken)
        with pytest.raises(OSError, match="full"):
            sink.write(b"lost")
    with pytest.raises(OSError, match="full"):
        sink.write(b"after a hole")
    os.close(fd)


def test_a_changed_meta_row_is_noticed(path: Path) -> None:
    with fa.open(path) as mem:
        mem.write("Tea.")
        mem.snapshot()
    conn = apsw.Connection(str(path / "journal.db"))
    content = conn.execute("SELECT content FROM meta").fetchall()[0][0]
    changed = content[: content.index('"current"')] + '"current": null}'
    conn.execute("UPDATE meta SET content = ?", (changed,))
    conn.close()
    with pytest.raises(CorruptStore, match="meta row"):
        fa.open(path)


def test_a_journal_rolled_back_and_written_on_is_noticed_by_who_has_it_open(path: Path) -> None:
    with Journal.create(path) as journal:
        add(journal, *"abc")
        entries = journal.read(0)
        other = apsw.Connection(str(path / "journal.db"))
        entry, _ = chain.seal(Draft(None, "write", 0, "another"), (2, entries[1].hash))
        other.execute("UPDATE journal SET body = ?, hash = ? WHERE seq = 3", (entry[4], entry.hash))
        other.close()
        with pytest.raises(CorruptStore, match="not the one read before"):
            journal.read(3)


def test_a_writer_notices_a_journal_that_lost_its_end(path: Path) -> None:
    with Journal.create(path) as journal:
        add(journal, *"abc")
        other = apsw.Connection(str(path / "journal.db"))
        other.execute("DELETE FROM journal WHERE seq = 3")
        other.close()
        with pytest.raises(CorruptStore, match="ends at operation 2"):
            add(journal, "d")


def test_a_journal_older_than_its_manifest_is_an_error(path: Path, tmp_path: Path) -> None:
    with fa.open(path) as mem:
        mem.write("Tea.")
    for name in ("journal.db", "head"):
        shutil.copy(path / name, tmp_path / name)
    with fa.open(path) as mem:
        mem.write("Milk.")
        mem.snapshot()
    for name in ("journal.db", "head"):
        shutil.copy(tmp_path / name, path / name)
    with pytest.raises(CorruptStore, match="newer than the journal"):
        fa.open(path)
    with pytest.warns(RuntimeWarning), fa.open(path, sync="normal") as mem:
        assert len(mem) == 1


def test_a_segment_of_other_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before memory is taken for them."""
    snapshot.create_folders(tmp_path)
    segment = snapshot.write_segment(tmp_path, "dead", pa.table({"seq": [4, 8]}))

    def never(*_: Any, **__: Any) -> None:
        pytest.fail("it was read")

    monkeypatch.setattr(parquet.pq.ParquetFile, "read", never)
    with pytest.raises(CorruptStore, match="found 2 rows, expected 3"):
        snapshot.read_segment(tmp_path, replace(segment, rows=3))


@pytest.mark.parametrize("mapped", [False, True])
def test_no_thread_of_arrows_holds_memory_of_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped: bool
) -> None:
    """One that let go of it while the process ends would abort it: about one exit in 100."""
    if mapped:
        monkeypatch.setattr(snapshot, "MAPPED", 0)
    snapshot.create_folders(tmp_path)
    segment = snapshot.write_segment(tmp_path, "dead", pa.table({"seq": [4, 8]}))
    lent: list[bool] = []
    whole, opened = parquet.pq.ParquetFile.read, parquet.pa.BufferReader

    def reader(memory: pa.Buffer) -> Any:
        lent.append(not memory.is_mutable)  # Arrow's own is; bytes and a map are not
        return opened(memory)

    def read(file: Any, **options: Any) -> Any:
        assert not (lent[-1] and options.get("use_threads", True))
        return whole(file, **options)

    monkeypatch.setattr(parquet.pa, "BufferReader", reader)
    monkeypatch.setattr(parquet.pq.ParquetFile, "read", read)
    assert snapshot.read_segment(tmp_path, segment)["seq"].to_pylist() == [4, 8]
    assert lent == [mapped]


def test_a_handle_far_behind_loads_the_snapshot(path: Path) -> None:
    with fa.open(path) as behind, fa.open(path) as mem:
        mem.write("Tea.", id="tea", concepts=["a", "b"])
        assert "tea" in behind
        for n in range(3):
            mem.write("Milk.", id=f"n{n}", concepts=["a", "b"])
            mem.snapshot()
        assert len(behind) == 4
        assert behind.links.weight("a", "b") == 4
        assert behind.position == mem.position


def test_a_change_before_the_last_one_fades_nothing() -> None:
    links = LinkMatrix(LinkRule(floor=0.0, ceiling=1.0, decay_days=90.0), 0.3)
    key, nothing = np.array([1 << 32 | 2], np.uint64), np.full(1, np.nan)
    links.teach(key, np.full(1, 0.5), nothing, 100 * 86_400_000_000)
    links.teach(key, np.full(1, 0.25), nothing, 0)
    link = links.get(1, 2)
    assert link is not None
    assert (link.weight, link.updated_at) == (0.75, 100 * 86_400_000_000)


def test_a_new_notes_stability_ends_at_one() -> None:
    rule = RetentionRule(base_stability=0.9, importance_stability=0.5)
    mem = fa.Memory(settings=Settings.cognitive(retention=rule))
    note = mem.get(mem.write("Tea.", importance=1.0))
    assert note.stability == 1.0
