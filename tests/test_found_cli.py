"""What a stranger's first hour with the command line found, each as the smallest case."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_both_install_commands_of_the_readme_work_in_one_environment() -> None:
    """`pip install .` leaves Numba's cache behind; only a plain path goes before that folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["package-dir"] == {"": "."}
