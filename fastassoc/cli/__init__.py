"""The command line: what a stranger can do with the public API, in order of a user's day.

Importing this loads click and nothing heavier; numpy, numba and pyarrow come in with the first
command that needs them.
"""

from __future__ import annotations

from fastassoc.cli.app import cli

__all__ = ["cli", "main"]


def main() -> None:
    """Run the ``fastassoc`` command with the process's arguments."""
    cli(prog_name="fastassoc")
