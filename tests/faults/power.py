"""What a file system may legally leave after a loss of power.

`Recorder` keeps every call that changes something, in order. `Power` knows, at each moment, what is
durable: the bytes of a file as of its last sync and the names of a folder as of that folder's. What
came since may be there or not: each write and each truncation of a file on its own and in any
order, a write in parts of a sector, or as zeros where the file had grown; the names of a folder in
any subset.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from . import layer

SECTOR = 512
Change = tuple[Any, ...]  # ("write", offset, data) or ("truncate", size)
Move = tuple[Any, ...]  # ("enter", name, node), ("leave", name), ("move", old, new, node)


class Event(NamedTuple):
    kind: str
    path: str
    to: str = ""
    offset: int = 0
    data: bytes = b""
    size: int = 0
    node: int = -1

    def __str__(self) -> str:
        return f"{self.kind} {self.path}{' -> ' + self.to if self.to else ''}"


class Recorder(layer.Wire):
    """Writes down what is done to the disk; each file and folder is a number."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.events: list[Event] = []
        self.nodes: dict[str, int] = {"": 0}
        self.first: dict[str, bytes | None] = {}
        self._numbers = 1
        for folder, folders, names in os.walk(root):
            for name in sorted(folders):
                self._first(os.path.join(folder, name), None)
            for name in sorted(names):
                file = os.path.join(folder, name)
                self._first(file, Path(file).read_bytes())
        self.numbers = dict(self.nodes)  # as they are before the first event

    def _first(self, file: str, data: bytes | None) -> None:
        place = self.place(file)
        assert place is not None
        self.first[place] = data
        self._fresh(place)

    def _fresh(self, place: str) -> int:
        self.nodes[place] = self._numbers
        self._numbers += 1
        return self.nodes[place]

    def node(self, path: str) -> int | None:
        return self.nodes.get(path)

    def mark(self, kind: str, size: int = 0, path: str = "") -> None:
        """Note something that is no call: an acknowledgement."""
        self.events.append(Event(kind, path, size=size))

    def perform(self, call: layer.Call, do: layer.Do, half: layer.Do | None = None) -> Any:
        result = do()
        kind, path = call.kind, call.path
        if kind in ("create", "mkdir"):
            self.events.append(Event(kind, path, node=self._fresh(path)))
        elif kind == "write":
            data = call.data if not isinstance(result, int) else call.data[:result]
            self.events.append(Event(kind, path, "", call.offset, data, 0, call.node))
        elif kind in ("truncate", "sync"):
            self.events.append(Event(kind, path, size=call.size, node=call.node))
        elif kind == "syncdir":
            self.events.append(Event(kind, path, node=self.nodes[path]))
        elif kind in ("unlink", "rmdir"):
            self.events.append(Event(kind, path, node=self.nodes.pop(path)))
        elif kind == "link":
            self.nodes[call.to] = self.nodes[path]
            self.events.append(Event(kind, path, call.to, node=self.nodes[path]))
        elif kind == "rename":
            self.events.append(Event(kind, path, call.to, node=self.nodes[path]))
            for old in [n for n in self.nodes if n == path or n.startswith(path + "/")]:
                self.nodes[call.to + old[len(path) :]] = self.nodes.pop(old)
        return result


@dataclass
class File:
    """A file's durable bytes, and what was done to it since its last sync."""

    durable: bytes = b""
    pending: list[Change] = field(default_factory=list)
    cached: dict[Any, bytes] = field(default_factory=dict)


@dataclass
class Folder:
    durable: dict[str, int] = field(default_factory=dict)
    pending: list[Move] = field(default_factory=list)


def applied(durable: bytes, changes: list[Change]) -> bytes:
    data = bytearray(durable)
    for change in changes:
        if change[0] == "truncate":
            size = change[1]
            del data[size:]
            data += bytes(size - len(data))
        else:
            _, offset, part = change
            if len(data) < offset:
                data += bytes(offset - len(data))
            data[offset : offset + len(part)] = part
    return bytes(data)


def moved(durable: dict[str, int], moves: list[Move]) -> dict[str, int]:
    names = dict(durable)
    for move in moves:
        if move[0] == "enter":
            names[move[1]] = move[2]
        elif move[0] == "leave":
            if names.get(move[1]) == move[2]:
                del names[move[1]]
        else:
            if names.get(move[1]) == move[3]:
                del names[move[1]]
            names[move[2]] = move[3]
    return names


class Lot(NamedTuple):
    """How the power cut treats what is pending."""

    name: str
    files: str
    folders: str


LOTS = [
    Lot("nothing", "none", "none"),
    Lot("everything", "all", "all"),
    Lot("bytes only", "all", "none"),
    Lot("names only", "none", "all"),
    Lot("zeros", "zero", "all"),
    Lot("torn", "torn", "all"),
    Lot("early bytes", "prefix", "all"),
    Lot("late bytes", "suffix", "all"),
    Lot("all but one", "but one", "all"),
    Lot("one name lost", "all", "but one"),
    Lot("one name kept", "all", "one"),
    Lot("chance", "any", "any"),
]


class Power:
    """The disk as it passes through the events."""

    def __init__(self, first: dict[str, bytes | None], numbers: dict[str, int]) -> None:
        self.files: dict[int, File] = {}
        self.folders: dict[int, Folder] = {0: Folder()}
        self.current: dict[str, int] = {"": 0}
        for place, data in first.items():
            node = numbers[place]
            self.current[place] = node
            parent, name = os.path.split(place)
            self.folders[self.current[parent]].durable[name] = node
            if data is None:
                self.folders[node] = Folder()
            else:
                self.files[node] = File(data)

    def _in(self, path: str) -> tuple[Folder, str]:
        parent, name = os.path.split(path)
        return self.folders[self.current[parent]], name

    def pass_by(self, event: Event) -> None:
        kind, node = event.kind, event.node
        if kind == "create":
            self.files[node] = File()
        elif kind == "mkdir":
            self.folders[node] = Folder()
        if kind in ("create", "mkdir", "link"):
            place = event.to or event.path
            folder, name = self._in(place)
            folder.pending.append(("enter", name, node))
            self.current[place] = node
        elif kind == "write":
            self.files[node].pending.append(("write", event.offset, event.data))
        elif kind == "truncate":
            self.files[node].pending.append(("truncate", event.size))
        elif kind == "sync":
            file = self.files[node]
            file.durable, file.pending = applied(file.durable, file.pending), []
        elif kind == "syncdir":
            held = self.folders[node]
            held.durable, held.pending = moved(held.durable, held.pending), []
        elif kind in ("unlink", "rmdir"):
            folder, name = self._in(event.path)
            folder.pending.append(("leave", name, node))
            del self.current[event.path]
        elif kind == "rename":
            folder, name = self._in(event.path)
            into, new = self._in(event.to)
            assert folder is into, "a name moved from one folder to another"
            folder.pending.append(("move", name, new, node))
            path, to = event.path, event.to
            for old in [n for n in self.current if n == path or n.startswith(path + "/")]:
                self.current[to + old[len(path) :]] = self.current.pop(old)

    def states(self, lots: list[Lot], draw: random.Random) -> Iterator[tuple[str, State]]:
        """One state for each lot; those that chance has no say in come once."""
        for lot in lots:
            tree: dict[str, bytes | None] = {}
            self._fill(0, "", lot, draw, tree, {})
            yield lot.name, State(tree)

    def _fill(
        self,
        node: int,
        path: str,
        lot: Lot,
        draw: random.Random,
        tree: dict[str, bytes | None],
        made: dict[int, bytes],
    ) -> None:
        folder = self.folders[node]
        names = moved(folder.durable, chosen(folder.pending, lot.folders, draw))
        for name in sorted(names):
            child, place = names[name], f"{path}/{name}" if path else name
            if child in self.folders:
                tree[place] = None
                self._fill(child, place, lot, draw, tree, made)
            else:
                if child not in made:  # two names of one file show the same bytes
                    made[child] = content(self.files[child], lot.files, draw)
                tree[place] = made[child]


def chosen(pending: list[Any], how: str, draw: random.Random) -> list[Any]:
    """Which of the pending changes reach the disk, in their order."""
    count = len(pending)
    if how == "all" or not count:
        return pending
    if how == "none":
        return []
    if how == "prefix":
        return pending[: draw.randrange(count)]
    if how == "suffix":
        return pending[1 + draw.randrange(count) :]
    if how in ("but one", "one"):
        place = draw.randrange(count)
        return pending[:place] + pending[place + 1 :] if how == "but one" else [pending[place]]
    if how == "any":
        return [change for change in pending if draw.random() < 0.5]
    raise ValueError(how)


def content(file: File, how: str, draw: random.Random) -> bytes:
    if not file.pending or how == "none":
        return file.durable
    if how == "all":
        key = len(file.pending), len(file.durable)
        if key not in file.cached:
            file.cached = {key: applied(file.durable, file.pending)}
        return file.cached[key]
    if how in ("zero", "torn") or (how == "any" and draw.random() < 0.5):
        change = (lambda c: zeroed(c, len(file.durable))) if how == "zero" else None
        changes = [
            torn(c, draw) if change is None else change(c)
            for c in (file.pending if how != "any" else chosen(file.pending, "any", draw))
        ]
        return applied(file.durable, changes)
    return applied(file.durable, chosen(file.pending, how, draw))


def zeroed(change: Change, durable: int) -> Change:
    """A write beyond the end of what is durable: the size reached the disk, the bytes did not."""
    if change[0] == "write" and change[1] + len(change[2]) > durable:
        kept = max(0, durable - change[1])
        return "write", change[1], change[2][:kept] + bytes(len(change[2]) - kept)
    return change


def torn(change: Change, draw: random.Random) -> Change:
    """The first sectors of a write, or the last ones; what lies in one sector is never torn."""
    if change[0] != "write":
        return change
    _, offset, data = change
    cuts = [c for c in range(-offset % SECTOR, len(data), SECTOR) if c > 0]
    if not cuts:
        return change if draw.random() < 0.5 else ("write", offset, b"")
    cut = draw.choice(cuts)
    if draw.random() < 0.5:
        return "write", offset, data[:cut]
    return "write", offset + cut, data[cut:]


class State:
    """The names and bytes that are on the disk when the power comes back."""

    def __init__(self, tree: dict[str, bytes | None]) -> None:
        self.tree = tree

    def key(self) -> int:
        """Equal for equal states; Python keeps the hash of bytes that come again."""
        return hash(tuple(sorted((place, hash(data)) for place, data in self.tree.items())))

    def make(self, root: Path, pool: Pool) -> None:
        """Put it into an empty folder."""
        os.mkdir(root, 0o700)
        for place in sorted(self.tree):
            data, target = self.tree[place], f"{root}/{place}"
            if data is None:
                os.mkdir(target, 0o700)
            elif place.endswith((".parquet", ".json")):
                os.link(pool.file(data), target)
            else:
                with open(target, "wb", buffering=0) as file:
                    file.write(data)


class Pool:
    """Files that are never changed in place, written once and linked into every state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[bytes, str] = {}
        folder.mkdir(exist_ok=True)

    def file(self, data: bytes) -> str:
        if data not in self.made:
            self.made[data] = f"{self.folder}/{len(self.made)}"
            Path(self.made[data]).write_bytes(data)
        return self.made[data]
