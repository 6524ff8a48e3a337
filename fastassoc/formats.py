"""The version of the store that this library writes; it reads this one and every older one."""

__all__ = ["FORMAT"]

FORMAT = 3  # of manifests, of the journal and of each of its rows: what changed is in FORMAT.md
