"""The journal's rows as values, and the chain of hashes that ties each to the one before."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import xxhash

from fastassoc.errors import CorruptStore, FormatTooNew
from fastassoc.formats import FORMAT

__all__ = ["Draft", "Entry", "Meta", "Pointer", "Position", "folded", "seal", "verify"]

Position = tuple[int, bytes]  # a sequence, and the chain hash after it
# previous hash, sequence, format, time; lengths of id (-1: none), kind, body, vectors (-1: none)
HEADER = struct.Struct("<16sqqqqqqq")
DONE = struct.Struct("<qq")  # sequence, time


class Draft(NamedTuple):
    """An operation that is to be appended.

    Parameters
    ----------
    op_id : str or None
        The caller's id: an operation with an id is saved at most once.
    kind : str
        What the operation is.
    at : int
        Its time, in microseconds.
    body : str
        JSON text.
    vectors : bytes or None
        Float32, little-endian.
    """

    op_id: str | None
    kind: str
    at: int
    body: str
    vectors: bytes | None = None


class Entry(NamedTuple):
    """An operation of the journal: a `Draft` with its sequence and its chain hash (16 bytes)."""

    seq: int
    op_id: str | None
    kind: str
    at: int
    body: str
    vectors: bytes | None
    hash: bytes


class Pointer(NamedTuple):
    """The current snapshot.

    Parameters
    ----------
    seq : int
        The last operation it holds.
    manifest, digest : str
        Name and hash of its manifest.
    chain : bytes
        Chain hash after `seq`, so that reading can go on from there.
    """

    seq: int
    manifest: str
    digest: str
    chain: bytes


class Meta(NamedTuple):
    """What the journal says of itself: one row, with a hash of its own.

    Parameters
    ----------
    format : int
        Format of the store.
    store : str
        Identity of the store, 32 hex digits.
    anchor : (int, bytes)
        Where the journal begins: the last dropped operation and the chain hash after it.
    current : Pointer or None
        The current snapshot.
    done : int or None
        What is kept of operations up to `anchor`, `folded`; None if an older version wrote this.
    """

    format: int
    store: str
    anchor: Position
    current: Pointer | None
    done: int | None = 0

    def key(self) -> bytes:
        """Identity as 16 bytes."""
        return bytes.fromhex(self.store)

    def genesis(self) -> bytes:
        """Chain hash before the first operation."""
        return xxhash.xxh3_128_digest(self.key())

    def known(self) -> list[Position]:
        """Positions whose chain hash is on record, ascending."""
        if self.current is None:
            return [self.anchor]
        return [self.anchor, (self.current.seq, self.current.chain)]

    def seal(self) -> tuple[str, bytes]:
        """Text and hash, as they are stored."""
        current = None
        if self.current is not None:
            current = [*self.current[:3], self.current.chain.hex()]
        content = json.dumps(
            {
                "format": self.format,
                "store": self.store,
                "anchor": [self.anchor[0], self.anchor[1].hex()],
                "current": current,
                "done": None if self.done is None else f"{self.done:016x}",
            }
        )
        return content, xxhash.xxh3_128_digest(content.encode())

    @classmethod
    def parse(cls, file: str, content: object, digest: object) -> Meta:
        """Read what `seal` gave.

        Raises
        ------
        CorruptStore
            It does not match its hash.
        FormatTooNew
            A newer version wrote it.
        """
        if not isinstance(content, str) or digest != xxhash.xxh3_128_digest(
            content.encode("utf-8", "surrogatepass")
        ):
            raise CorruptStore(file, "its meta row does not match its hash")
        data = json.loads(content)
        if data["format"] > FORMAT:
            raise FormatTooNew(data["format"], FORMAT)
        pointer = data["current"]
        if pointer is not None:
            pointer = Pointer(pointer[0], pointer[1], pointer[2], bytes.fromhex(pointer[3]))
        anchor = data["anchor"][0], bytes.fromhex(data["anchor"][1])
        done = None if data.get("done") is None else int(data["done"], 16)
        return cls(data["format"], data["store"], anchor, pointer, done)


def folded(file: str, rows: Iterable[Sequence[Any]], done: int = 0) -> int:
    """Fold ids of operations into a number that tells them; again, and they are out of it.

    Parameters
    ----------
    file : str
        Name for the error.
    rows : iterable of (op_id, seq, at)
    done : int
        What others were folded into.

    Raises
    ------
    CorruptStore
        A row is of other types.
    """
    for op_id, seq, at in rows:
        try:
            done ^= xxhash.xxh3_64_intdigest(DONE.pack(seq, at) + op_id)
        except (TypeError, struct.error):
            raise CorruptStore(file, "an id of an operation in it is none") from None
    return done


def _digest(
    before: bytes,
    numbers: tuple[int, int, int],
    op_id: bytes | None,
    content: tuple[bytes, bytes, bytes | None],
) -> bytes:
    """Hash a row (sequence, format, time; id; kind, body, vectors) and the hash before it."""
    kind, body, vectors = content
    header = HEADER.pack(
        before,
        *numbers,
        -1 if op_id is None else len(op_id),
        len(kind),
        len(body),
        -1 if vectors is None else len(vectors),
    )
    return xxhash.xxh3_128_digest(b"".join((header, op_id or b"", kind, body, vectors or b"")))


def seal(draft: Draft, position: Position) -> tuple[Entry, bytes | None]:
    """Give a draft its sequence and hash after a position; its id comes as bytes, too."""
    seq = position[0] + 1
    op_id = None if draft.op_id is None else draft.op_id.encode()
    digest = _digest(
        position[1],
        (seq, FORMAT, draft.at),
        op_id,
        (draft.kind.encode(), draft.body.encode(), draft.vectors),
    )
    return Entry(seq, draft.op_id, draft.kind, draft.at, draft.body, draft.vectors, digest), op_id


def verify(file: str, rows: Iterable[Sequence[Any]], position: Position) -> list[Entry]:
    """Check rows of the journal against the chain, from a position on.

    Parameters
    ----------
    file : str
        Name for the error.
    rows : iterable of (seq, op_id, format, kind, at, body, vectors, hash)
        In order.
    position : (int, bytes)
        The operation before the first row.

    Returns
    -------
    list of Entry

    Raises
    ------
    CorruptStore
        A row is missing or does not match its hash.
    FormatTooNew
        A newer version wrote a row.
    """
    last, before = position
    entries = []
    for seq, op_id, form, kind, at, body, vectors, digest in rows:
        if seq != last + 1:
            raise CorruptStore(file, f"lacks operation {last + 1} (found {seq} after {last})")
        try:
            content = (kind.encode(), body.encode(), vectors)
            expected = _digest(before, (seq, form, at), op_id, content)
            name = None if op_id is None else op_id.decode()
        except (AttributeError, TypeError, ValueError, struct.error):
            raise CorruptStore(file, f"operation {seq} is not a journal row") from None
        if digest != expected:
            raise CorruptStore(file, f"operation {seq} does not match its hash")
        if form > FORMAT:
            raise FormatTooNew(form, FORMAT)
        entries.append(Entry(seq, name, kind, at, body, vectors, expected))
        last, before = seq, expected
    return entries
