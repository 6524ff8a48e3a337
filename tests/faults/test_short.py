"""The short form of every instrument; the long form is ``python -m tests.faults``."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import between, calls, caught, crash, cuts, layer, real, sabotage
from .children import ended
from .power import Recorder
from .script import Ledger, Stage, small, told

SEED = int(os.environ.get("FASTASSOC_SEED", "1"))


def test_l32_l35_l36_every_call_fails_in_turn() -> None:
    tally = calls.sweep(SEED, 60)
    assert tally.violations == []
    assert sum(tally.points.values()) == 60
    assert tally.ends["killed"] > 5
    assert tally.ends["refused"] > 20


def test_every_state_after_a_loss_of_power() -> None:
    sequences = [*crash.short_sequences(2)[7:], *crash.LONG]
    chosen = random.Random(SEED).sample(sequences, 8)
    tally = crash.run(chosen, seed=SEED, share=0.03, states=800)
    assert tally.violations == []
    assert tally.count > 400


@pytest.mark.parametrize("name", sabotage.CUTS)
def test_a_step_left_out_is_seen_after_a_loss_of_power(name: str) -> None:
    assert caught.by_states(name)


@pytest.mark.parametrize("name", sabotage.DAMAGE)
def test_a_check_left_out_is_seen_in_damage(name: str) -> None:
    assert crash.damaged(count=20) == []
    assert caught.by_damage(name)


@pytest.mark.parametrize("name", sabotage.LOCKS)
def test_a_lock_left_out_is_seen_between_two_handles(name: str) -> None:
    assert caught.by_pairs(name)


def test_l40_one_handle_at_calls_of_another() -> None:
    tally = between.run(seed=SEED, points=15)
    assert tally.violations == []


def test_the_recorder_sees_what_the_system_sees(tmp_path: Path) -> None:
    """The calls on the wire are those that reach the kernel, by their kinds and their number."""
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    root, log = tmp_path / "in", tmp_path / "log"
    code = (
        "import sys; from pathlib import Path; from faults.test_short import played;"
        "played(Path(sys.argv[1]))"
    )
    paths = [str(Path(__file__).parents[up]) for up in (2, 1)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    kinds = "fsync,fdatasync,rename,unlink,link,linkat,mkdir,pwrite64,ftruncate"
    done = subprocess.run(
        [
            *("strace", "-f", "-y", "-qq", "-e", f"trace={kinds}", "-o", str(log)),
            *(sys.executable, "-c", code, str(root)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        pytest.skip(f"cannot trace: {done.stderr[-200:]}")
    seen = [
        line for line in log.read_text().splitlines() if f"{root}/" in line or f"{root}>" in line
    ]
    told_lines = (tmp_path / "events").read_text().splitlines()
    for call, names in (
        ("sync", ("fsync(", "fdatasync(")),
        ("rename", ("rename(",)),
        ("unlink", ("unlink(",)),
        ("link", ("link(", "linkat(")),
        ("mkdir", ("mkdir(",)),
    ):
        ours = [line for line in told_lines if line.split()[0] in (call, f"{call}dir")]
        theirs = [line for line in seen if any(f" {name}" in line for name in names)]
        theirs = [line for line in theirs if "= 0" in line and "-shm" not in line]
        assert len(ours) == len(theirs), (call, ours, theirs)


def played(root: Path) -> None:
    root.mkdir()
    recorder = Recorder(root)
    with small(), layer.on(recorder), told(Ledger()):
        stage = Stage(root)
        stage.open()
        for number, verb in enumerate(
            ("write", "bulk", "snapshot", "forget", "snapshot", "vacuum")
        ):
            crash.VERBS[verb](stage, number)
        stage.close()
    (root.parent / "events").write_text("\n".join(map(str, recorder.events)))


# -- real means ------------------------------------------------------------------------------------

FEW = ["write", "snapshot", "vacuum"]


def skipped(why: str | dict[str, str] | None) -> None:
    if isinstance(why, str):
        pytest.skip(why)


@pytest.mark.parametrize("left", [0, 16384])
def test_l35_a_small_file_system(left: int) -> None:
    found = real.small_file_system(left, FEW)
    skipped(found)
    assert isinstance(found, dict)
    assert "StoreError" in found.values()


def test_l35_a_limit_on_files() -> None:
    def act() -> None:
        real.file_size_limit(4096, FEW)

    assert ended(act) == 0  # the limit stays in the child


def test_a_read_only_mount() -> None:
    skipped(real.read_only_mount())


def test_files_of_another_user() -> None:
    skipped(real.another_user())


def test_power_cuts_of_a_mounted_file_system() -> None:
    tally = cuts.run(2, SEED)
    skipped(tally.skipped or None)
    assert tally.violations == []
