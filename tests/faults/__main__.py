"""``python -m tests.faults io|crash|...``: see README.md."""

from __future__ import annotations

import argparse
import random
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Option = tuple[str, dict[str, Any]]
SEED: Option = ("--seed", {"type": int, "default": 1})


def say(text: str) -> None:
    print(text, flush=True)


def ended(lines: Iterable[str], wrong: Sequence[str]) -> int:
    """Print what was found; 1 where a promise was not kept."""
    say("\n".join(lines))
    return 1 if wrong else 0


# -- a function for each verb ----------------------------------------------------------------------


def io(given: Namespace) -> int:
    from .calls import sweep

    found = sweep(given.seed, given.points, given.scene, say)
    count = sum(found.points.values())
    last = f"{count} points, {len(found.violations)} violations, {found.seconds:.0f} s"
    return ended([*found.lines(), last], found.violations)


def crash(given: Namespace) -> int:
    from .crash import LONG, run, short_sequences

    sequences = [*LONG, *short_sequences(given.length)]
    random.Random(given.seed).shuffle(sequences)
    found = run(
        sequences,
        share=given.share,
        seed=given.seed,
        states=given.states,
        chances=given.chances,
        seconds=given.seconds,
        tell=say,
    )
    return ended(found.lines(), found.violations)


def between(given: Namespace) -> int:
    from .between import run

    found = run(seed=given.seed, points=given.points, tell=say)
    line = (
        f"{found.played} played, {found.waited} times the second waited, "
        f"{len(found.violations)} violations, {found.seconds:.0f} s"
    )
    return ended([line], found.violations)


def cuts(given: Namespace) -> int:
    from .cuts import run

    found = run(given.cuts, given.seed, given.kind, say)
    lines = [f"{found.cuts} cuts, {len(found.violations)} violations, {found.seconds:.0f} s"]
    if found.skipped:
        lines.append(f"skipped: {found.skipped}")
    return ended(lines, found.violations)


def cutwriter(given: Namespace) -> int:
    from .cuts import work

    work(given.path, given.seed)
    return 2  # it writes until it is killed


def damage(given: Namespace) -> int:
    from .damage import run

    found = run(seed=given.seed, count=given.cases, only=given.only, tell=say)
    return ended(found.lines(), found.violations)


def fuzz(given: Namespace) -> int:
    from .fuzz import run

    found = run(given.mutants, seed=given.seed, only=given.only, tell=say)
    return ended(found.lines(), found.violations)


def many(given: Namespace) -> int:
    from .many import run

    found = run(
        seed=given.seed,
        processes=given.processes,
        ops=given.ops,
        repeats=given.repeats,
        rough=given.rough,
        tell=say,
    )
    return ended([found.line()], found.violations)


def mutants(given: Namespace) -> int:
    from .mutants import MUTANTS, run

    some = [m for m in MUTANTS if any(text in m.name for text in given.only or [""])]
    found = run(some, tell=say)
    return ended([*found.broken, found.line()], [*found.survived, *found.broken])


def same(given: Namespace) -> int:
    from .same import run

    found = run(seed=given.seed, ops=given.ops, names=given.environment, tell=say)
    return ended([found.line()], found.violations)


def samework(given: Namespace) -> int:
    from .same import work

    work(given.source, given.place, given.ops, given.seed)
    return 0


def soak(given: Namespace) -> int:
    from .soak import run

    found = run(minutes=given.minutes, ops=given.ops, seed=given.seed, tell=say)
    return ended([*found.violations, found.line()], found.violations)


def real(given: Namespace) -> int:
    from . import real as means

    say(f"read-only mount: {means.read_only_mount() or 'well'}")
    say(f"another user: {means.another_user() or 'well'}")
    for left in (0, 4096, 16384, 65536):
        say(f"1 MiB tmpfs, {left} bytes left: {means.small_file_system(left)}")
    for limit in (4096, 20000, 60000):
        say(f"files of at most {limit} bytes: {means.file_size_limit(limit)}")
    return 0


def sabotage(given: Namespace) -> int:
    from .caught import all_of

    missed = 0
    for name, found in all_of():
        missed += not found
        say(f"{name:32} {found[0][:140] if found else 'MISSED'}")
    return 1 if missed else 0


# -- what each is given ----------------------------------------------------------------------------

VERBS: dict[Callable[[Namespace], int], tuple[str | None, list[Option]]] = {
    io: (
        "every call to the disk fails in turn",
        [
            SEED,
            ("--points", {"type": int, "help": "so many, drawn by the seed; all if not given"}),
            ("--scene", {"action": "append", "help": "only this one; may be repeated"}),
        ],
    ),
    crash: (
        "every state that a loss of power may leave",
        [
            SEED,
            ("--states", {"type": int, "help": "stop after so many"}),
            ("--length", {"type": int, "default": 3, "help": "of the short sequences"}),
            ("--chances", {"type": int, "default": 2, "help": "random states a moment"}),
            ("--seconds", {"type": float, "help": "stop after so many"}),
            ("--share", {"type": float, "default": 1.0, "help": "of each sequence's states"}),
        ],
    ),
    cuts: (
        "power cuts of a mounted file system",
        [SEED, ("--cuts", {"type": int, "default": 200}), ("--kind", {"default": "ext4"})],
    ),
    between: ("one handle at every call of another", [SEED, ("--points", {"type": int})]),
    damage: (
        "every byte flipped, every file cut, gone, exchanged",
        [
            SEED,
            ("--cases", {"type": int, "help": "so many, drawn by the seed; all if not given"}),
            ("--only", {"help": "only cases whose text holds this"}),
        ],
    ),
    fuzz: (
        "mutants of all that is read",
        [
            SEED,
            ("--mutants", {"type": int, "default": 10_000}),
            ("--only", {"type": int, "help": "the mutant of this number, in this process"}),
        ],
    ),
    many: (
        "many processes on one store, some killed or frozen",
        [
            SEED,
            ("--processes", {"type": int, "default": 8, "help": "that write"}),
            ("--ops", {"type": int, "default": 2000, "help": "of each"}),
            ("--repeats", {"type": int, "default": 20}),
            ("--rough", {"type": float, "default": 1.0, "help": "seconds between kills; 0: none"}),
        ],
    ),
    mutants: (
        "safeguards left out: tests must notice each",
        [("--only", {"action": "append", "help": "those whose name holds this"})],
    ),
    same: (
        "one state by every way in every environment",
        [
            SEED,
            ("--ops", {"type": int, "default": 120}),
            ("--environment", {"action": "append"}),
        ],
    ),
    soak: (
        "a store in use for a long time",
        [
            SEED,
            ("--minutes", {"type": float, "default": 30.0}),
            ("--ops", {"type": int, "default": 1_000_000}),
        ],
    ),
    real: ("small, read-only and foreign file systems, limits", []),
    sabotage: ("protocols with a step left out: each must be caught", []),
    # children of the others
    cutwriter: (None, [("path", {"type": Path}), ("seed", {"type": int})]),
    samework: (
        None,
        [
            ("source", {"type": Path}),
            ("place", {"type": Path}),
            ("ops", {"type": int}),
            ("seed", {"type": int}),
        ],
    ),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    shown = ",".join(act.__name__ for act, (about, _) in VERBS.items() if about)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar=f"{{{shown}}}")
    for act, (about, options) in VERBS.items():
        verb = verbs.add_parser(act.__name__, **({"help": about} if about else {}))
        verb.set_defaults(act=act)
        for name, how in options:
            verb.add_argument(name, **how)
    given = parser.parse_args(arguments)
    act: Callable[[Namespace], int] = given.act
    return act(given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
