"""``python -m fastassoc``: the same as the ``fastassoc`` command."""

from __future__ import annotations

if __name__ == "__main__":
    from fastassoc.cli import main

    main()
