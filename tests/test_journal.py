"""The journal: order, locks, damage, failing disks; with real processes where it matters."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import fastassoc.journal.host
from fastassoc import errors
from fastassoc.formats import FORMAT
from fastassoc.journal import Behind, Draft, Journal

HEAD = "import os, sys, time\nfrom fastassoc.journal import Draft, Journal\n"


def script(code: str, *args: object, **options: Any) -> subprocess.Popen[str]:
    root = str(Path(__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": root}
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(code), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def add(journal: Journal, *ids: str | None, body: str = "{}", at: int = 0) -> int:
    with journal.locked() as transaction:
        return transaction.append([Draft(i, "write", at, body) for i in ids])[-1].seq


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store.fa"


@pytest.fixture
def journal(folder: Path) -> Iterator[Journal]:
    with Journal.create(folder) as handle:
        yield handle


def killed(folder: Path, count: int) -> None:
    """Leave a store as a killed process does: with a log."""
    code = """
    journal = Journal.open(sys.argv[1])
    for i in range(int(sys.argv[2])):
        with journal.locked() as tx:
            tx.append([Draft(f"k{i}", "write", i, '{"n": %d}' % i)])
    print("ready", flush=True)
    time.sleep(60)
    """
    process = script(code, folder, count)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    assert (folder / "journal.db-wal").stat().st_size > 0


# -- the four verbs -------------------------------------------------------------------------------


def test_what_is_appended_is_read_back_here_and_after_reopening(folder: Path) -> None:
    drafts = [
        Draft("a", "write", 5, '{"t": "héé\\u0000"}', b"\x00\x01\x02\x03"),
        Draft(None, "link", -7, "", b""),
        Draft("naïve 名", "link", 2**62, "x" * 100_000),
    ]
    with Journal.create(folder) as journal:
        assert journal.head() == 0
        assert journal.read(0) == []
        with journal.locked() as transaction:
            made = transaction.append(drafts)
            assert transaction.head == 3
            assert journal.head() == 0  # not before the commit
        assert [Draft(*entry[1:6]) for entry in made] == drafts
        assert [entry.seq for entry in made] == [1, 2, 3]
        assert journal.read(0) == made
        assert journal.read(1, limit=1) == made[1:2]
        assert journal.read(2) == made[2:]
        assert journal.read(3) == []
        assert journal.done("naïve 名") == (3, 2**62)
        assert journal.done("b") is None
    with Journal.open(folder) as journal:
        assert journal.read(2) == made[2:]
        assert journal.read(0) == made
        assert journal.verify() == []


def test_an_exception_rolls_back(journal: Journal) -> None:
    def fail() -> None:
        with journal.locked() as transaction:
            transaction.append([Draft("a", "write", 0, "{}")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert journal.head() == 0
    assert journal.done("a") is None
    assert add(journal, "a") == 1


def test_an_id_counts_once(journal: Journal) -> None:
    add(journal, "a")
    with pytest.raises(errors.InvalidInput, match="'a' was used before"):
        add(journal, "b", "a")
    assert journal.head() == 1
    with pytest.raises(errors.InvalidInput, match="UTF-8"):
        add(journal, "c", body="\ud800")
    assert add(journal, "b") == 2


def test_changed_compares_with_the_callers_position(folder: Path, journal: Journal) -> None:
    assert not journal.changed(0)
    at = add(journal, "a")
    assert journal.changed(0)
    assert not journal.changed(at)
    with Journal.open(folder) as other:
        add(other, "b")
        assert journal.changed(at)
        assert journal.changed(at)  # until the caller has moved
        assert not journal.changed(at + 1)


def test_a_snapshot_drops_what_the_one_before_it_holds(folder: Path, journal: Journal) -> None:
    add(journal, *"abcdef")
    assert journal.current() is None
    journal.publish("manifest-3.json", 3, "h3")
    assert journal.size()[0] == 3
    assert [e.seq for e in journal.read(0)] == [1, 2, 3, 4, 5, 6]
    pointer = journal.publish("manifest-5.json", 5, "h5")
    assert journal.current() == pointer
    with Journal.open(folder) as other:
        assert other.current() == pointer
        assert [e.seq for e in other.read(5)] == [6]
        assert [e.seq for e in other.read(3)] == [4, 5, 6]
        with pytest.raises(Behind) as caught:
            other.read(2)
        assert (caught.value.position, caught.value.reaches) == (2, 3)
        assert other.done("a") == (1, 0)
        assert other.verify() == []
    with pytest.raises(errors.StoreError, match="later snapshot"):
        journal.publish("manifest-4.json", 4, "h4")
    with pytest.raises(errors.StoreError, match="does not hold"):
        journal.publish("manifest-9.json", 9, "h9")
    with pytest.raises(errors.StoreError, match="cannot be dropped"):
        journal.drop(6)
    journal.publish("manifest-6.json", 6, "h6")
    assert journal.drop(6) == 1  # the publication dropped those up to 5
    assert journal.head() == 6
    assert journal.read(6) == []
    assert add(journal, "g") == 7
    assert [e.seq for e in journal.read(6)] == [7]
    assert journal.size() == (1, 2)
    assert journal.verify() == []


def test_ids_are_forgotten_after_a_week_but_not_before_they_leave(journal: Journal) -> None:
    day = 86_400 * 1_000_000
    add(journal, "old")
    add(journal, "young", at=3 * day)
    add(journal, "now", at=9 * day)
    journal.publish("manifest-3.json", 3, "h")
    assert journal.done("old") == (1, 0)
    journal.publish("manifest-3.json", 3, "h")
    assert journal.done("old") is None
    assert journal.done("young") == (2, 3 * day)
    assert journal.verify() == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE done SET op_id = x'6f6e67' WHERE seq = 2",
        "UPDATE done SET at = at + 1 WHERE seq = 1",
        "UPDATE done SET seq = 9 WHERE seq = 2",
        "UPDATE done SET at = 'x' WHERE seq = 2",
        "DELETE FROM done WHERE seq = 1",
        "INSERT INTO done VALUES (x'00', 2, 0)",
    ],
)
@pytest.mark.parametrize("older", [False, True])
def test_ids_whose_rows_are_gone_are_checked(folder: Path, damage: str, older: bool) -> None:
    with Journal.create(folder) as journal:
        add(journal, "one", "two", "three")
        journal.publish("manifest-2.json", 2, "h")
        if older:  # a version that knew no sum of them wrote this
            with journal.locked(durable=True) as tx:
                meta = tx._records.meta(tx._open())._replace(done=None)
                tx._write_meta(tx._open(), meta)
            assert journal.verify() == []
        journal.publish("manifest-3.json", 3, "h")
        add(journal, "four")
        assert journal.verify() == []
        assert journal.done("two") == (2, 0)
    conn = apsw.Connection(str(folder / "journal.db"))
    conn.execute(damage)
    conn.close()
    with Journal.open(folder) as journal:
        (problem,) = journal.verify()
    assert problem[0] == "journal.db"
    assert "id" in problem[1]


# -- several handles, threads and processes -------------------------------------------------------

WRITER = """
journal = Journal.open(sys.argv[1], sync="normal")
for i in range(int(sys.argv[3])):
    with journal.locked() as tx:
        tx.entries_after(max(0, tx.head - 3))
        tx.append([Draft(f"{sys.argv[2]}-{i}", "write", i, "{}")])
journal.close()
"""


def test_l40_writers_of_several_processes_lose_nothing(folder: Path) -> None:
    Journal.create(folder).close()
    processes = [script(WRITER, folder, name, 150) for name in "abcd"]
    with Journal.open(folder) as reader:
        position = 0
        while any(p.poll() is None for p in processes):
            entries = reader.read(position)
            assert [e.seq for e in entries] == list(
                range(position + 1, position + 1 + len(entries))
            )
            position += len(entries)
            time.sleep(0.005)
        for process in processes:
            finish(process)
        entries = reader.read(0)
        assert len({e.op_id for e in entries}) == len(entries) == 600
        assert reader.verify() == []
    assert sorted(os.listdir(folder)) == ["head", "journal.db"]


def test_l44_two_handles_in_one_process(folder: Path) -> None:
    Journal.create(folder).close()
    handles = [Journal.open(folder, sync="normal") for _ in range(2)]

    def work(name: int) -> None:
        for i in range(200):
            add(handles[name % 2], f"{name}-{i}")
            handles[(name + 1) % 2].read(max(0, i - 5), limit=10)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [e.seq for e in handles[0].read(0)] == list(range(1, 801))
    # closing one handle must not cancel the other's locks
    handles[0].close()
    with handles[1].locked() as transaction:
        other = script(
            """
            from fastassoc.errors import StoreLocked
            try:
                with Journal.open(sys.argv[1]).locked(timeout=0.05): print("in")
            except StoreLocked as error: print(error.holder)
            """,
            folder,
        )
        assert finish(other).strip() == str(os.getpid())
        transaction.append([Draft(None, "write", 0, "{}")])
    assert handles[1].verify() == []
    handles[1].close()


def test_l43_a_held_lock_is_waited_for_and_its_holder_named(folder: Path) -> None:
    Journal.create(folder).close()
    holder = script(
        """
        with Journal.open(sys.argv[1]).locked() as tx:
            tx.append([Draft("lost", "write", 0, "{}")])
            print("held", flush=True)
            time.sleep(60)
        """,
        folder,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with Journal.open(folder) as journal:
        with pytest.raises(errors.StoreLocked) as caught, journal.locked(timeout=0.2):
            pass
        assert caught.value.holder == holder.pid
        assert 0.2 <= caught.value.waited < 5
        assert journal.read(0) == []  # reading never waits
        threading.Timer(0.2, holder.kill).start()
        start = time.monotonic()
        with journal.locked(timeout=30) as transaction:
            assert transaction.done("lost") is None
        assert time.monotonic() - start < 5
    holder.communicate()


def test_threads_of_one_handle_wait_for_one_another(journal: Journal) -> None:
    with journal.locked():
        found: list[object] = []

        def wait() -> None:
            try:
                with journal.locked(timeout=0.05):
                    pass
            except errors.StoreLocked as error:
                found.append(error.holder)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert found == [os.getpid()]


def test_l32_a_killed_writer_loses_nothing_acknowledged(folder: Path) -> None:
    Journal.create(folder).close()
    code = """
    journal = Journal.open(sys.argv[1], sync=sys.argv[2])
    while True:
        with journal.locked() as tx:
            made = tx.append([Draft(None, "write", 0, "x" * 3000)])
        print(made[0].seq, flush=True)
    """
    for turn, sync in enumerate(("full", "normal", "off", "full")):
        process = script(code, folder, sync)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05 * turn)
        process.send_signal(signal.SIGKILL)
        lines = process.communicate()[0].split("\n")
        with Journal.open(folder) as journal:
            if len(lines) > 1:
                assert int(lines[-2]) <= journal.head() <= int(lines[-2]) + 1
            assert journal.verify() == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_l45_after_a_fork_the_handle_is_dead_in_the_child_only(journal: Journal) -> None:
    add(journal, "a")
    with journal.locked() as transaction:
        transaction.append([Draft("b", "write", 0, "{}")])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for verb in (
                    journal.head,
                    lambda: journal.changed(1),
                    lambda: transaction.done(""),
                ):
                    try:
                        verb()
                    except errors.ForkedHandle:
                        continue
                    os._exit(2)
                journal.close()
                held = journal._connections
                held.reader = held.writer = None  # collected: must touch nothing
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    assert journal.head() == 2
    assert journal.verify() == []


def test_l48_descriptors_stay_flat(folder: Path) -> None:
    with Journal.create(folder) as kept:
        add(kept, "a")
        Journal.open(folder).close()  # SQLite keeps its descriptors for the next one meanwhile
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(300):
            with Journal.open(folder) as journal:
                journal.read(0)
        assert len(os.listdir("/proc/self/fd")) == before
    count = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with Journal.open(folder) as journal:
            journal.read(0)
    assert len(os.listdir("/proc/self/fd")) == count


# -- opening and closing --------------------------------------------------------------------------


def test_modes_and_names(folder: Path) -> None:
    with Journal.create(folder) as journal:
        add(journal, "a")
        assert folder.stat().st_mode & 0o777 == 0o700
        for name in os.listdir(folder):
            assert (folder / name).stat().st_mode & 0o777 == 0o600, name
        assert (folder / "head").stat().st_size == 16
    assert sorted(os.listdir(folder)) == ["head", "journal.db"]
    with pytest.raises(errors.StoreExists):
        Journal.create(folder)
    with pytest.raises(errors.StoreNotFound):
        Journal.open(folder / "none")
    with pytest.raises(errors.InvalidInput, match="full, normal, off"):
        Journal.open(folder, sync="maybe")


def test_a_closed_handle_says_so(journal: Journal) -> None:
    journal.close()
    journal.close()
    for verb in (journal.head, journal.current, journal.verify, lambda: journal.changed(0)):
        with pytest.raises(errors.ClosedHandle):
            verb()
    with pytest.raises(errors.ClosedHandle), journal.locked():
        pass


def test_read_only_handles_take_no_writes_and_leave_no_log(folder: Path) -> None:
    writer = Journal.create(folder)
    add(writer, "a")
    with Journal.open(folder, read_only=True) as reader:
        with pytest.raises(errors.ReadOnlyStore), reader.locked():
            pass
        add(writer, "b")
        assert reader.changed(1)
        assert len(reader.read(0)) == 2
        writer.close()
    assert sorted(os.listdir(folder)) == ["head", "journal.db"]


def test_media_that_cannot_be_written(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    folder = Path("/tmp") / f"journal-{os.getpid()}"
    code = """
    sys.path.insert(0, sys.argv[2])
    import apsw
    from fastassoc import errors, journal as _
    os.setuid(65534)
    try:
        Journal.open(sys.argv[1])
    except errors.ReadOnlyStore: print("refused")
    try:
        with Journal.open(sys.argv[1], read_only=True) as j:
            print(len(j.read(0)), j.changed(2), j.verify())
    except errors.ReadOnlyStore as error:
        print("unclean" if "closed cleanly" in str(error) else error)
    """
    try:
        with Journal.create(folder) as journal:
            add(journal, "a", "b")
        for path in (folder, *folder.iterdir()):
            path.chmod(0o555)
        assert finish(script(code, folder, "")).split("\n") == ["refused", "2 False []", ""]
        killed(folder, 1)
        for path in folder.iterdir():
            path.chmod(0o555)
        assert finish(script(code, folder, "")).split("\n") == ["refused", "unclean", ""]
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_network_file_systems_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    Journal.create(folder).close()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/x / ext4 rw 0 0\nhost:/x {folder} {kind} rw 0 0\n")
    monkeypatch.setattr(fastassoc.journal.host, "MOUNTS", str(mounts))
    with pytest.raises(errors.StoreError, match=kind):
        Journal.open(folder)
    with pytest.raises(errors.StoreError, match=kind):
        Journal.create(folder / "inner")
    with Journal.open(folder, read_only=True) as journal:
        assert journal.head() == 0


def test_a_store_that_a_newer_version_takes_over_is_refused(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(journal, "a")
    newer = FORMAT + 1
    for module in ("transaction", "chain", "records"):
        monkeypatch.setattr(f"fastassoc.journal.{module}.FORMAT", newer)
    add(journal, "b")
    monkeypatch.undo()
    with pytest.raises(errors.FormatTooNew, match=f"format {newer}"):
        journal.read(1)
    with (
        pytest.raises(errors.FormatTooNew, match=f"format {newer}"),
        journal.locked() as transaction,
    ):
        transaction.entries_after(1)
    with pytest.raises(errors.FormatTooNew) as caught:
        Journal.open(journal.path)
    assert (caught.value.found, caught.value.known) == (newer, FORMAT)


def test_an_older_journal_is_read_and_taken_over_by_the_first_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [f"fastassoc.journal.{name}.FORMAT" for name in ("transaction", "chain", "folder")]
    for name in modules:
        monkeypatch.setattr(name, 1)
    with Journal.create(folder) as old:
        add(old, "a", "b")
        hashes = [entry.hash for entry in old.read(0)]
    monkeypatch.undo()
    with Journal.open(folder) as journal, Journal.open(folder) as other:
        assert [entry.hash for entry in journal.read(0)] == hashes
        assert told(folder) == (1, 1, [1, 1])
        with contextlib.suppress(ZeroDivisionError), journal.locked() as transaction:
            transaction.append([Draft("c", "write", 0, "{}")])
            raise ZeroDivisionError
        assert told(folder) == (1, 1, [1, 1])
        add(journal, "c")
        add(other, "d")
        assert told(folder) == (FORMAT, FORMAT, [1, 1, FORMAT, FORMAT])
        assert journal.verify() == other.verify() == []
    with Journal.open(folder) as journal:
        assert [entry.op_id for entry in journal.read(0)] == ["a", "b", "c", "d"]
        for name in modules:
            monkeypatch.setattr(name, 1)
        monkeypatch.setattr("fastassoc.journal.records.FORMAT", 1)
        with pytest.raises(errors.FormatTooNew) as caught:
            Journal.open(folder)
        assert (caught.value.found, caught.value.known) == (FORMAT, 1)
        monkeypatch.undo()


def told(folder: Path) -> tuple[int, int, list[int]]:
    """What the header, the meta row and each row say of their format."""
    code = """
        import json, apsw
        conn = apsw.Connection(sys.argv[1])
        print(json.dumps([
            conn.execute("PRAGMA user_version").get,
            json.loads(conn.execute("SELECT content FROM meta").get)["format"],
            conn.execute("SELECT json_group_array(format) FROM journal").get,
        ]))
    """
    found = json.loads(finish(script(code, folder / "journal.db")))
    return found[0], found[1], json.loads(found[2])


def test_a_snapshot_takes_an_older_journal_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("transaction", "chain", "folder"):
        monkeypatch.setattr(f"fastassoc.journal.{name}.FORMAT", 1)
    with Journal.create(folder) as old:
        add(old, "a")
    monkeypatch.undo()
    with Journal.open(folder) as journal:
        journal.publish("manifest-1.json", 1, "0" * 32)
        assert told(folder) == (FORMAT, FORMAT, [1])
        assert journal.verify() == []
    Journal.open(folder).close()


def test_a_creation_that_was_cut_short_is_no_obstacle(folder: Path) -> None:
    folder.mkdir()
    (folder / ".new-1234").write_bytes(b"half")
    Journal.create(folder).close()
    (folder / "head").unlink()  # the last step of a creation
    with Journal.open(folder) as journal:
        add(journal, "a")
    Journal.open(folder).close()
    assert sorted(os.listdir(folder)) == ["head", "journal.db"]


def test_a_newer_format_is_refused_with_both_numbers(folder: Path) -> None:
    Journal.create(folder).close()
    conn = apsw.Connection(str(folder / "journal.db"))
    conn.execute("PRAGMA user_version = 7; UPDATE meta SET content = 'new', hash = x''")
    conn.close()
    with pytest.raises(errors.FormatTooNew) as caught:
        Journal.open(folder)
    assert (caught.value.found, caught.value.known) == (7, FORMAT)


# -- damage ---------------------------------------------------------------------------------------


def test_a_log_that_ends_early_is_noticed(folder: Path) -> None:
    Journal.create(folder).close()
    killed(folder, 9)
    log = folder / "journal.db-wal"
    data = bytearray(log.read_bytes())
    data[len(data) - 3000] ^= 1  # the last commit
    log.write_bytes(data)
    with pytest.raises(errors.CorruptStore, match="ends at operation 8, but 9 was acknowledged"):
        Journal.open(folder)
    with pytest.warns(RuntimeWarning, match="ends at operation 8"):
        journal = Journal.open(folder, sync="normal")
    assert journal.warning_counts == {"journal.db": 1}
    assert add(journal, "next") == 9
    assert journal.verify() == []
    journal.close()
    Journal.open(folder).close()


@pytest.mark.parametrize("damage", ["remove", "empty", "zero", "long", "other"])
def test_a_damaged_head_is_named(folder: Path, tmp_path: Path, damage: str) -> None:
    with Journal.create(folder) as journal:
        add(journal, "a", "b")
    head = folder / "head"
    if damage == "remove":
        head.unlink()
    elif damage == "other":
        with Journal.create(tmp_path / "other") as other:
            add(other, "a")
        shutil.copy(tmp_path / "other" / "head", head)
    else:
        head.write_bytes({"empty": b"", "zero": bytes(16), "long": head.read_bytes() * 2}[damage])
    with pytest.raises(errors.CorruptStore) as caught:
        Journal.open(folder)
    assert caught.value.file == "head"
    with pytest.warns(RuntimeWarning), Journal.open(folder, sync="normal") as journal:
        add(journal, "c")
    Journal.open(folder).close()  # mended


def test_one_damaged_half_of_head_is_no_loss(folder: Path) -> None:
    with Journal.create(folder) as journal:
        add(journal, *"abcde")
    head = folder / "head"
    whole = head.read_bytes()
    for place in range(16):
        head.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.warns(RuntimeWarning), Journal.open(folder) as journal:
            assert journal.head() == 5


def test_head_never_goes_back(folder: Path, journal: Journal) -> None:
    add(journal, *"abc")
    head = journal._connections.head
    assert head is not None
    head.advance(2)
    assert head.read(3) == (3, "")


def test_l31_every_damage_of_the_file_is_named_or_harmless(folder: Path) -> None:
    with Journal.create(folder) as journal:
        add(journal, *"abcdefgh", body='{"x": "%s"}' % ("y" * 900))
        journal.publish("manifest-2.json", 2, "h2")
        journal.publish("manifest-4.json", 4, "h4")
        truth = (journal.read(2), journal.current())
    file = folder / "journal.db"
    data = file.read_bytes()
    cases = [data[:n] for n in range(0, len(data), 2048)] + [bytes(len(data))]
    cases += [data[:i] + bytes([data[i] ^ 16]) + data[i + 1 :] for i in range(0, len(data), 61)]
    cases += [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in range(100)]
    caught = 0
    for case in cases:
        file.write_bytes(case)
        try:
            with Journal.open(folder, read_only=True) as journal:
                assert (journal.read(2), journal.current()) == truth
        except (errors.CorruptStore, errors.FormatTooNew):
            caught += 1
        for suffix in ("-wal", "-shm"):
            (folder / f"journal.db{suffix}").unlink(missing_ok=True)
    assert caught > 50
    file.unlink()
    with pytest.raises(errors.CorruptStore, match=r"journal\.db"):
        Journal.open(folder)


def test_a_changed_row_breaks_the_chain(folder: Path) -> None:
    with Journal.create(folder) as journal:
        add(journal, *"abcd")
        conn = apsw.Connection(str(folder / "journal.db"))
        conn.execute("UPDATE journal SET body = '[]' WHERE seq = 3")
        with pytest.raises(errors.CorruptStore, match="operation 3 does not match"):
            journal.read(1)
        assert journal.verify() == [("journal.db", "operation 3 does not match its hash")]
        conn.execute("UPDATE journal SET body = '{}' WHERE seq = 3")
        assert len(journal.read(1)) == 3
        conn.execute("DELETE FROM journal WHERE seq = 3")
        with pytest.raises(errors.CorruptStore, match="lacks operation 3"):
            journal.read(1)
        conn.execute("DELETE FROM journal WHERE seq > 2")
        with pytest.raises(errors.CorruptStore, match="ends at operation 2"):
            journal.read(4)
        with pytest.raises(errors.CorruptStore, match="4 was acknowledged"), journal.locked():
            pass
        conn.close()


def test_another_stores_journal_is_noticed(folder: Path, tmp_path: Path) -> None:
    with Journal.create(folder) as journal, Journal.create(tmp_path / "b") as other:
        add(journal, *"ab")
        add(other, *"abc")
    shutil.copy(tmp_path / "b" / "journal.db", folder / "journal.db")
    with pytest.raises(errors.CorruptStore):
        Journal.open(folder)


# -- failing disks --------------------------------------------------------------------------------


class Disk(apsw.VFS):
    """A file system whose writes and syncs can be made to fail."""

    def __init__(self) -> None:
        self.fail: dict[str, type[Exception]] = {}
        self.syncs: list[str] = []
        super().__init__("failing", "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return File(self, name, flags)


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk = disk
        self.kind = "wal" if flags[0] & apsw.SQLITE_OPEN_WAL else "db"

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if error := self.disk.fail.get(f"write {self.kind}"):
            raise error
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.disk.syncs.append(self.kind)
        if error := self.disk.fail.get(f"sync {self.kind}"):
            raise error
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


def test_one_sync_a_commit(folder: Path, disk: Disk) -> None:
    Journal.create(folder).close()
    for sync, expected in (("full", ["wal"] * 20), ("normal", []), ("off", [])):
        with Journal.open(folder, sync=sync, vfs="failing") as journal:
            add(journal, None)  # the first one of a log also syncs its start
            disk.syncs.clear()
            for _ in range(20):
                add(journal, None)
            assert disk.syncs == expected


def test_l36_a_failed_sync_leaves_the_outcome_open_and_the_retry_counts_once(
    folder: Path, disk: Disk
) -> None:
    Journal.create(folder).close()
    for fault in ("sync wal", "write wal"):
        journal = Journal.open(folder, vfs="failing")
        before = journal.head()
        add(journal, f"{fault} a")
        disk.fail = {fault: apsw.IOError}
        with pytest.raises(errors.OutcomeUnknown) as caught:
            add(journal, f"{fault} b")
        assert caught.value.operation_id == f"{fault} b"
        disk.fail = {}
        assert journal.head() in (before + 1, before + 2)  # readable
        with pytest.raises(errors.ClosedHandle, match="Open the store again"):
            add(journal, "more")
        journal.close()
        with Journal.open(folder) as journal:
            if journal.done(f"{fault} b") is None:
                add(journal, f"{fault} b")
            assert [e.op_id for e in journal.read(before)] == [f"{fault} a", f"{fault} b"]
            assert journal.verify() == []


def test_l35_a_full_disk_changes_nothing_and_work_goes_on_after(folder: Path, disk: Disk) -> None:
    Journal.create(folder).close()
    with Journal.open(folder, vfs="failing") as journal:
        add(journal, "a")
        disk.fail = {"write wal": apsw.FullError}
        with pytest.raises(errors.StoreError, match=r"disk is full.*Nothing was changed") as caught:
            add(journal, "b", body="x" * 10_000)
        assert not isinstance(caught.value, errors.OutcomeUnknown)
        assert [e.op_id for e in journal.read(0)] == ["a"]
        disk.fail = {}
        assert add(journal, "b") == 2
        assert journal.verify() == []


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("may not mount")
    except OSError:
        pytest.skip("cannot mount")
    folder = mount / "store"
    filler = mount / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(512))

    try:
        with Journal.create(folder) as journal:
            add(journal, *"abc")
        fill()  # after a clean end: no room for a log
        with pytest.raises(errors.StoreError):
            Journal.open(folder)
        with Journal.open(folder, read_only=True) as journal:
            assert len(journal.read(0)) == 3
            assert journal.verify() == []
        filler.unlink()
        with Journal.open(folder) as journal:
            with pytest.raises(errors.StoreError, match=r"Nothing was changed"):  # noqa: PT012
                while True:
                    add(journal, None, body="x" * 50_000)
            count = journal.head()
            assert len(journal.read(0)) == count > 3
        fill()  # the log could not be folded in
        with Journal.open(folder) as journal:
            assert len(journal.read(0)) == count
        filler.unlink()
        subprocess.run(["mount", "-o", "remount,size=8m", str(mount)], check=True)
        with Journal.open(folder) as journal:
            add(journal, "again")
            assert [e.seq for e in journal.read(count)] == [count + 1]
            assert journal.verify() == []
        assert sorted(os.listdir(folder)) == ["head", "journal.db"]
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_l36_a_publication_of_unknown_outcome_deletes_nothing(folder: Path, disk: Disk) -> None:
    Journal.create(folder).close()
    journal = Journal.open(folder, sync="normal", vfs="failing")
    add(journal, *"abc")
    journal.publish("manifest-2.json", 2, "h2")
    disk.fail = {"sync wal": apsw.IOError}
    with pytest.raises(errors.StoreError, match=r"Delete nothing") as caught:
        journal.publish("manifest-3.json", 3, "h3")
    assert not isinstance(caught.value, errors.OutcomeUnknown)
    disk.fail = {}
    journal.close()
    with Journal.open(folder) as journal:
        current = journal.current()
        assert current is not None
        assert current.seq in (2, 3)
        assert journal.verify() == []


def test_a_thread_does_not_wait_for_itself(journal: Journal) -> None:
    with journal.locked():
        with pytest.raises(errors.InvalidInput, match="already"), journal.locked():
            pass
        with pytest.raises(errors.InvalidInput, match="not inside"):
            journal.close()
    assert add(journal, "a") == 1


# -- care -----------------------------------------------------------------------------------------


def test_l23_dropped_rows_are_erased(folder: Path) -> None:
    with Journal.create(folder) as journal:
        for i in range(30):
            add(journal, None, body=f'"canary-{i}-' + "z" * 5000 + 'yranac"')
        journal.publish("manifest-30.json", 30, "h")
        journal.drop(30)
        with Journal.open(folder, read_only=True) as reader:
            held = reader._connections.guard().conn
            assert held is not None
            held.execute("BEGIN")
            held.execute("SELECT * FROM meta").fetchall()
            add(journal, "later")
            with pytest.raises(errors.VacuumIncomplete):
                journal.truncate_wal(timeout=0.1)
            held.execute("COMMIT")
            journal.truncate_wal()
        assert (folder / "journal.db-wal").stat().st_size == 0
        assert [e.op_id for e in journal.read(30)] == ["later"]
    for path in folder.iterdir():
        assert b"canary" not in path.read_bytes()
        assert b"yranac" not in path.read_bytes()


def test_a_backup_is_a_store_of_its_own(folder: Path, tmp_path: Path, journal: Journal) -> None:
    add(journal, *"abc")
    pointer = journal.publish("manifest-2.json", 2, "h2")
    add(journal, "d")
    copy = tmp_path / "copy"
    assert journal.backup(copy) == pointer
    assert sorted(os.listdir(copy)) == ["head", "journal.db"]
    add(journal, "e")
    with Journal.open(copy) as other:
        assert [e.op_id for e in other.read(0)] == [*"abcd"]
        assert add(other, "x") == 5
        assert other.verify() == []
    with pytest.raises(errors.StoreExists):
        journal.backup(copy)
    assert journal.verify() == []


def test_off_folds_its_log_with_a_sync(
    folder: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    monkeypatch.setattr("fastassoc.journal.connections.OFF_CHECKPOINT", 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Journal.create(folder, sync="off", vfs="failing") as journal:
            disk.syncs.clear()
            for _ in range(100):
                add(journal, None, body="x" * 4000)
            assert {"wal", "db"} <= set(disk.syncs)
            assert (folder / "journal.db-wal").stat().st_size < 100 * 4096
            assert journal.verify() == []
