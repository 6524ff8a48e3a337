"""The README's example gives the output that the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_ten_lines_print_what_they_say(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    want = re.findall(r"```text\n(.*?)```", README, re.DOTALL)[0]
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert [line.rstrip() for line in made.stdout.splitlines()] == want.splitlines()


def test_each_command_of_the_first_screen_is_one_line() -> None:
    first = README.split("## Ten lines")[0]
    commands = re.findall(r"```sh\n(.*?)```", first, re.DOTALL)
    assert [len(command.strip().splitlines()) for command in commands] == [1, 1]
    assert "&& fastassoc demo" in commands[0]
    assert "pytest" in commands[1]


def test_every_verb_has_an_example() -> None:
    """As the README says; they run with the tests."""
    import fastassoc as fa

    verbs = [name for name, one in vars(fa.Memory).items() if callable(one) and name[0] != "_"]
    verbs += ["read", "read_batch", "graph", "associate", "recent", "get", "close", "info"]
    without = [name for name in verbs if ">>>" not in (getattr(fa.Memory, name).__doc__ or "")]
    assert without == []
