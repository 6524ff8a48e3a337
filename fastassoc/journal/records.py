"""What a connection finds in the journal: rows along their chain, ids, and the meta row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from fastassoc.errors import CorruptStore, FormatTooNew, StoreError
from fastassoc.formats import FORMAT
from fastassoc.journal import chain
from fastassoc.journal.chain import Entry, Meta, Position
from fastassoc.journal.sqlite import NAME, fetch

__all__ = ["CHUNK", "DONE", "ROWS", "Behind", "Records", "done"]

CHUNK = 4096  # rows fetched at once where all are walked
ROWS = (
    "SELECT seq, op_id, format, kind, at, body, vectors, hash FROM journal "
    "WHERE seq >= ? ORDER BY seq LIMIT ?"
)
DONE = "SELECT op_id, seq, at FROM done WHERE seq <= ?"
LAST = "SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1"


class Behind(StoreError):
    """A reader is further behind than the journal reaches; it reloads from the snapshot.

    Attributes
    ----------
    position, reaches : int
        Where the reader is, and the earliest position from which the journal can be read.
    """

    def __init__(self, position: int, reaches: int) -> None:
        self.position = position
        self.reaches = reaches
        super().__init__(
            f"the journal reaches back to operation {reaches}, this reader is at {position}: "
            "load the current snapshot."
        )


class Records:
    """The rows of one journal, as the connections of one handle show them.

    Attributes
    ----------
    store_id : str
        Identity of the store; empty until `check`.
    known : (int, bytes) or None
        The last row that was verified.
    format : int
        What the journal says of its format: rows of no higher one are in it. It may have gone up
        since.
    """

    def __init__(self) -> None:
        self.store_id = ""
        self.known: Position | None = None
        self.format = FORMAT
        self._cached: tuple[str, bytes, Meta] | None = None
        self._sized: tuple[int, int, int] = (-1, 0, 0)  # from, to, bytes

    def check(self, conn: apsw.Connection, locks: bool) -> None:
        """Read what the file says it is."""
        told = int(fetch(conn, "PRAGMA user_version")[0][0])
        try:
            meta = self.meta(conn)
        except CorruptStore:
            if told > FORMAT:  # a newer format may keep its meta otherwise
                raise FormatTooNew(told, FORMAT) from None
            raise
        if told != meta.format:  # unless another process just took it over to this format
            told = int(fetch(conn, "PRAGMA user_version")[0][0])
        if told != meta.format:
            raise CorruptStore(NAME, f"its header says format {told}, its table {meta.format}")
        mode = fetch(conn, "PRAGMA journal_mode")[0][0]
        if mode != "wal" and locks:
            raise CorruptStore(NAME, f"is in journal mode {mode}, expected wal")
        self.store_id = meta.store
        self.format = meta.format

    def meta(self, conn: apsw.Connection) -> Meta:
        """What the journal says of itself."""
        rows = fetch(conn, "SELECT content, hash FROM meta")
        if len(rows) != 1:
            raise CorruptStore(NAME, f"has {len(rows)} meta rows, expected 1")
        content, digest = rows[0]
        if self._cached is not None and self._cached[:2] == (content, digest):
            return self._cached[2]
        meta = Meta.parse(NAME, content, digest)
        if self.store_id and meta.store != self.store_id:
            raise CorruptStore(NAME, "was replaced by another store's journal")
        self._cached = (content, digest, meta)
        return meta

    def last(self, conn: apsw.Connection) -> Position:
        """The last operation; where the journal begins if it holds none."""
        rows = fetch(conn, LAST)
        if rows:
            return position_of(rows[0][0], rows[0][1])
        return self.meta(conn).anchor

    def size(self, conn: apsw.Connection) -> tuple[int, int]:
        """Operations that the current snapshot lacks, and their bytes (bodies and vectors)."""
        meta = self.meta(conn)
        start = meta.current.seq if meta.current is not None else 0
        last = self.last(conn)[0]
        first, upto, total = self._sized
        if first != start or upto > last:
            upto, total = start, 0
        if upto < last:
            total += fetch(
                conn,
                "SELECT ifnull(sum(octet_length(body) + ifnull(octet_length(vectors), 0)), 0) "
                "FROM journal WHERE seq > ? AND seq <= ?",
                (upto, last),
            )[0][0]
        self._sized = (start, last, total)
        return last - start, total

    def read(self, conn: apsw.Connection, after: int, limit: int | None) -> list[Entry]:
        """Read operations; see `Journal.read`."""
        known = self.known
        most = -1 if limit is None else limit
        if known is not None and known[0] == after:
            rows = fetch(conn, ROWS, (after, most if most < 0 else most + 1))
            if rows and rows[0][0] == after:
                if rows[0][7] != known[1]:
                    raise CorruptStore(NAME, f"operation {after} is not the one read before")
                return self._verified(conn, rows[1:], known)
        if conn.in_transaction:
            return self._walk(conn, after, most)
        conn.execute("BEGIN")  # several statements, one moment
        try:
            return self._walk(conn, after, most)
        finally:
            conn.execute("COMMIT")

    def _walk(self, conn: apsw.Connection, after: int, most: int) -> list[Entry]:
        """Read from a position whose hash is not at hand: verify from the nearest one that is."""
        meta = self.meta(conn)
        if after < meta.anchor[0]:
            raise Behind(after, meta.anchor[0])
        last = self.last(conn)[0]
        if after > last:
            raise CorruptStore(NAME, f"ends at operation {last}, but {after} was read before")
        bases = [known for known in meta.known() if known[0] <= after]
        if self.known is not None and self.known[0] <= after:
            bases.append(self.known)
        base = max(bases)
        while base[0] < after:
            rows = fetch(conn, ROWS, (base[0] + 1, min(CHUNK, after - base[0])))
            if not rows:
                raise CorruptStore(NAME, f"lacks operation {base[0] + 1}")
            self._verified(conn, rows, base)
            base = position_of(rows[-1][0], rows[-1][7])
        rows = fetch(conn, ROWS, (after, most if most < 0 else most + 1))
        if rows and rows[0][0] == after:
            if rows[0][7] != base[1]:
                raise CorruptStore(NAME, f"operation {after} does not match the chain")
            del rows[0]
        elif after > meta.anchor[0]:
            raise CorruptStore(NAME, f"lacks operation {after}")
        return self._verified(conn, rows if most < 0 else rows[:most], base)

    def _verified(
        self, conn: apsw.Connection, rows: Sequence[Sequence[Any]], base: Position
    ) -> list[Entry]:
        try:
            entries = chain.verify(NAME, rows, base)
        except CorruptStore:
            newer = self.meta(conn).format  # a newer version may have taken over meanwhile
            if newer > FORMAT:
                raise FormatTooNew(newer, FORMAT) from None
            raise
        if entries:
            self.known = (entries[-1].seq, entries[-1].hash)
        elif self.known is None or self.known[0] < base[0]:
            self.known = base
        return entries


def done(conn: apsw.Connection, op_id: str) -> tuple[int, int] | None:
    """Sequence and time of an operation that was saved under this id."""
    key = op_id.encode("utf-8", "surrogatepass")
    rows = fetch(conn, "SELECT seq, at FROM done WHERE op_id = ?", (key,))
    if not rows:
        return None
    if not all(isinstance(value, int) for value in rows[0]):
        raise CorruptStore(NAME, f"what it says of operation id {op_id!r:.60} is no position")
    return rows[0][0], rows[0][1]


def position_of(seq: object, digest: object) -> Position:
    """A row's sequence and hash; a damaged schema or header of a row gives other types."""
    if not isinstance(seq, int) or not isinstance(digest, bytes):
        raise CorruptStore(NAME, "a row in it is no operation")
    return seq, digest
