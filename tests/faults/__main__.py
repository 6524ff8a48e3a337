"""``python -m tests.faults io|crash|...``: see README.md."""

from __future__ import annotations

import argparse
import sys


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
    crash.add_argument("--seconds", type=float, help="begin no sequence after so many")
    given = parser.parse_args(arguments)
    if given.verb == "io":
        from .calls import sweep

        tally = sweep(given.seed, given.points, given.scene, lambda text: print(text, flush=True))
        print("\n".join(tally.lines()))
        count = sum(tally.points.values())
        print(f"{count} points, {len(tally.violations)} violations, {tally.seconds:.0f} s")
        return 1 if tally.violations else 0
    if given.verb == "crash":
        from .crash import LONG, run, short_sequences

        found = run(
            [*LONG, *short_sequences(given.length)],
            seed=given.seed,
            states=given.states,
            chances=given.chances,
            seconds=given.seconds,
            tell=lambda text: print(text, flush=True),
        )
        print("\n".join(found.lines()))
        return 1 if found.violations else 0
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
