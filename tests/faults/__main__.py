"""``python -m tests.faults io|crash|...``: see README.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    io = verbs.add_parser("io", help="every call to the disk fails in turn")
    io.add_argument("--seed", type=int, default=1)
    io.add_argument("--points", type=int, help="so many, drawn by the seed; all if not given")
    io.add_argument("--scene", action="append", help="only this one; may be repeated")
    crash = verbs.add_parser("crash", help="every state that a loss of power may leave")
    crash.add_argument("--seed", type=int, default=1)
    crash.add_argument("--states", type=int, help="stop after so many")
    crash.add_argument("--length", type=int, default=3, help="of the short sequences")
    crash.add_argument("--chances", type=int, default=2, help="random states a moment")
    crash.add_argument("--seconds", type=float, help="stop after so many")
    crash.add_argument("--share", type=float, default=1.0, help="of each sequence's states")
    cuts = verbs.add_parser("cuts", help="power cuts of a mounted file system")
    cuts.add_argument("--seed", type=int, default=1)
    cuts.add_argument("--cuts", type=int, default=200)
    cuts.add_argument("--kind", default="ext4")
    between = verbs.add_parser("between", help="one handle at every call of another")
    between.add_argument("--seed", type=int, default=1)
    between.add_argument("--points", type=int)
    damage = verbs.add_parser("damage", help="every byte flipped, every file cut, gone, exchanged")
    damage.add_argument("--seed", type=int, default=1)
    damage.add_argument("--cases", type=int, help="so many, drawn by the seed; all if not given")
    damage.add_argument("--only", help="only cases whose text holds this")
    many = verbs.add_parser("many", help="many processes on one store, some killed or frozen")
    many.add_argument("--seed", type=int, default=1)
    many.add_argument("--processes", type=int, default=8, help="that write")
    many.add_argument("--ops", type=int, default=2000, help="of each")
    many.add_argument("--repeats", type=int, default=20)
    many.add_argument("--rough", type=float, default=1.0, help="seconds between kills; 0: none")
    mutants = verbs.add_parser("mutants", help="safeguards left out: tests must notice each")
    mutants.add_argument("--only", action="append", help="those whose name holds this")
    same = verbs.add_parser("same", help="one state by every way in every environment")
    same.add_argument("--seed", type=int, default=1)
    same.add_argument("--ops", type=int, default=120)
    same.add_argument("--environment", action="append")
    samework = verbs.add_parser("samework")
    samework.add_argument("source", type=Path)
    samework.add_argument("place", type=Path)
    samework.add_argument("ops", type=int)
    samework.add_argument("seed", type=int)
    soak = verbs.add_parser("soak", help="a store in use for a long time")
    soak.add_argument("--seed", type=int, default=1)
    soak.add_argument("--minutes", type=float, default=30.0)
    soak.add_argument("--ops", type=int, default=1_000_000)
    fuzz = verbs.add_parser("fuzz", help="mutants of all that is read")
    fuzz.add_argument("--seed", type=int, default=1)
    fuzz.add_argument("--mutants", type=int, default=10_000)
    fuzz.add_argument("--only", type=int, help="the mutant of this number, in this process")
    verbs.add_parser("real", help="small, read-only and foreign file systems, limits")
    verbs.add_parser("sabotage", help="protocols with a step left out: each must be caught")
    writer = verbs.add_parser("cutwriter")
    writer.add_argument("path", type=Path)
    writer.add_argument("seed", type=int)
    given = parser.parse_args(arguments)
    if given.verb == "io":
        from .calls import sweep

        tally = sweep(given.seed, given.points, given.scene, lambda text: print(text, flush=True))
        print("\n".join(tally.lines()))
        count = sum(tally.points.values())
        print(f"{count} points, {len(tally.violations)} violations, {tally.seconds:.0f} s")
        return 1 if tally.violations else 0
    if given.verb == "crash":
        import random

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
            tell=lambda text: print(text, flush=True),
        )
        print("\n".join(found.lines()))
        return 1 if found.violations else 0
    if given.verb == "between":
        from . import between as pairs

        told = pairs.run(seed=given.seed, points=given.points, tell=print)
        print(
            f"{told.played} played, {told.waited} times the second waited, "
            f"{len(told.violations)} violations, {told.seconds:.0f} s"
        )
        return 1 if told.violations else 0
    if given.verb == "cuts":
        from . import cuts as power_cuts

        cut = power_cuts.run(given.cuts, given.seed, given.kind, print)
        print(f"{cut.cuts} cuts, {len(cut.violations)} violations, {cut.seconds:.0f} s")
        if cut.skipped:
            print(f"skipped: {cut.skipped}")
        return 1 if cut.violations else 0
    if given.verb == "damage":
        from . import damage as damages

        found_in = damages.run(
            seed=given.seed,
            count=given.cases,
            only=given.only,
            tell=lambda text: print(text, flush=True),
        )
        print("\n".join(found_in.lines()))
        return 1 if found_in.violations else 0
    if given.verb == "many":
        from . import many as herds

        held = herds.run(
            seed=given.seed,
            processes=given.processes,
            ops=given.ops,
            repeats=given.repeats,
            rough=given.rough,
            tell=lambda text: print(text, flush=True),
        )
        print(held.line())
        return 1 if held.violations else 0
    if given.verb == "mutants":
        from . import mutants as without

        only = given.only or [""]
        some = [m for m in without.MUTANTS if any(text in m.name for text in only)]
        tried = without.run(some, tell=lambda text: print(text, flush=True))
        print("\n".join(tried.broken))
        print(tried.line())
        return 1 if tried.survived or tried.broken else 0
    if given.verb == "same":
        from . import same as alike

        compared = alike.run(
            seed=given.seed,
            ops=given.ops,
            names=given.environment,
            tell=lambda text: print(text, flush=True),
        )
        print(compared.line())
        return 1 if compared.violations else 0
    if given.verb == "samework":
        from .same import work as play

        play(given.source, given.place, given.ops, given.seed)
        return 0
    if given.verb == "soak":
        from . import soak as long

        lasted = long.run(
            minutes=given.minutes,
            ops=given.ops,
            seed=given.seed,
            tell=lambda text: print(text, flush=True),
        )
        print("\n".join([*lasted.violations, lasted.line()]))
        return 1 if lasted.violations else 0
    if given.verb == "fuzz":
        from . import fuzz as fuzzing

        played = fuzzing.run(
            given.mutants,
            seed=given.seed,
            only=given.only,
            tell=lambda text: print(text, flush=True),
        )
        print("\n".join(played.lines()))
        return 1 if played.violations else 0
    if given.verb == "cutwriter":
        from .cuts import work

        work(given.path, given.seed)
    if given.verb == "real":
        return real()
    if given.verb == "sabotage":
        return sabotaged()
    return 2


def real() -> int:
    from . import real as means

    print(f"read-only mount: {means.read_only_mount() or 'well'}")
    print(f"another user: {means.another_user() or 'well'}")
    for left in (0, 4096, 16384, 65536):
        print(f"1 MiB tmpfs, {left} bytes left: {means.small_file_system(left)}")
    for limit in (4096, 20000, 60000):
        print(f"files of at most {limit} bytes: {means.file_size_limit(limit)}")
    return 0


def sabotaged() -> int:
    from . import caught

    missed = 0
    for name, found in caught.all_of():
        missed += not found
        print(f"{name:32} {found[0][:140] if found else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
