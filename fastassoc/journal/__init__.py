"""The journal: the order of everything since the last snapshots, and which snapshot is current.

A port of four verbs (append, read, head, drop) and a write lock. It moves JSON text and bytes and
knows no note and no link; SQLite is one implementation and nothing above knows. Nobody opens
``journal.db``, ``-wal`` or ``-shm`` but SQLite: closing any other descriptor of them would cancel
its locks.
"""

from fastassoc.journal.chain import Draft, Entry, Pointer
from fastassoc.journal.handle import Journal
from fastassoc.journal.records import Behind
from fastassoc.journal.transaction import Transaction

__all__ = ["Behind", "Draft", "Entry", "Journal", "Pointer", "Transaction"]
