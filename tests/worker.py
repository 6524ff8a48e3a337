"""Requests to a memory as plain data, asked here or in a process of its own.

``ask(mem, verb, ...)`` does what the public API does and gives its answer as JSON values: times as
whole microseconds, reports and hits as dicts. Run as a script it serves one request a line on
standard input, ``{"path", "now", "verb", "args", "kwargs"}``, and answers on standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = ("created_at", "since", "until")


def to_time(stamp: int) -> datetime:
    return EPOCH + timedelta(microseconds=stamp)


def to_stamp(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self, stamp: int = 1_800_000_000_000_000) -> None:
        self.stamp = stamp

    def __call__(self) -> datetime:
        return to_time(self.stamp)

    def advance(self, **span: float) -> None:
        self.stamp += timedelta(**span) // timedelta(microseconds=1)


def _given(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: to_time(inner) if key in TIMES and isinstance(inner, int) else _given(inner)
            for key, inner in value.items()
        }
    return [_given(inner) for inner in value] if isinstance(value, list) else value


def plain_hit(hit: Any) -> dict[str, Any]:
    return {
        "id": hit.id,
        "text": hit.text,
        "score": hit.score,
        "rank_score": hit.rank_score,
        "source": hit.source,
        "via": list(hit.via),
        "path": [
            [step.source, step.target, step.layer, step.weight, step.written, step.taught]
            for step in hit.path
        ],
        "valence": hit.valence,
    }


def plain_recall(recall: Any) -> dict[str, Any]:
    return {
        "hits": [plain_hit(hit) for hit in recall],
        "query_concepts": list(recall.query_concepts),
        "expanded": dict(recall.expanded_concepts),
        "reason": recall.reason,
        "position": recall.position,
    }


def plain_links(table: Any) -> dict[str, list[Any]]:
    """``"a\\0b"`` -> weight, written, taught, count, valence, created_at, updated_at."""
    out = {}
    for row in table.to_pylist():
        times = [
            to_stamp(row[name]) if isinstance(row[name], datetime) else row[name]
            for name in ("created_at", "updated_at")
        ]
        numbers = [row[name] for name in ("weight", "written", "taught", "count", "valence")]
        out[f"{row['a']}\0{row['b']}"] = numbers + times
    assert len(out) == table.num_rows
    return out


def plain_note(note: Any) -> dict[str, Any]:
    return {
        "id": note.id,
        "text": note.text,
        "concepts": list(note.concepts),
        "domain": note.domain,
        "created_at": to_stamp(note.created_at),
        "metadata": dict(note.metadata),
        "valence": note.valence,
    }


def plain_states(mem: Any) -> dict[str, list[Any]]:
    """By id: stability, importance, last access, accesses, category, whether cold, retention."""
    import numpy as np

    view = mem._view()
    states, now = view.notes.states, mem._moment(view)
    rows = {name: row for row, name in enumerate(view.notes.table.ids) if view.notes.alive[row]}
    kept = states.retention(np.array([*rows.values()], np.int64), now).tolist()
    out = {}
    for (name, row), retained in zip(rows.items(), kept, strict=True):
        note = mem.get(name)
        numbers = [note.stability, note.importance, to_stamp(note.last_access), note.accesses]
        out[name] = [*numbers, states.get(row).category, note.tier == "cold", retained]
    return out


def plain_graph(graph: Any) -> dict[str, Any]:
    return {
        "nodes": dict(graph.nodes),
        "edges": sorted(edge["a"] + "\0" + edge["b"] for edge in map(as_row, graph.edges)),
        "truncated": graph.truncated,
        "min_weight_applied": graph.min_weight_applied,
    }


def as_row(edge: Any) -> Any:
    return edge if isinstance(edge, dict) else {"a": edge.a, "b": edge.b}


def ask(mem: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = tuple(_given(list(args))), _given(kwargs)
    if verb == "read":
        return plain_recall(mem.read(*args, **kwargs))
    if verb == "feedback_on":  # feedback to a read, in the process that read
        question, rest = kwargs.pop("read"), kwargs
        return mem.feedback(mem.read(**question), *args, **rest).to_dict()
    if verb == "links":
        return plain_links(mem.links.to_arrow())
    if verb == "cue_links":
        rows = mem.cue_links.to_arrow().to_pylist()
        return [[row["kind"], row["a"], row["b"], row["weight"]] for row in rows]
    if verb == "digest":  # of the state in use, not of what an open would load
        mem._view()
        with mem._lock:
            return mem._state.digest()
    if verb == "note_links":
        return plain_links(mem.note_links.to_arrow())
    if verb == "states":
        return plain_states(mem)
    if verb == "control":
        return plain_links(mem.rebuild_links().links.to_arrow())
    if verb == "control_read":
        return plain_recall(mem.rebuild_links().read(*args, **kwargs))
    if verb == "graph":
        return plain_graph(mem.graph(*args, **kwargs))
    if verb == "recent":
        page = mem.recent(*args, **kwargs)
        return {"ids": [note.id for note in page], "cursor": page.next_cursor}
    if verb == "get":
        return plain_note(mem.get(*args, **kwargs))
    if verb == "associate":
        return [[name, weight] for name, weight in mem.associate(*args, **kwargs)]
    if verb == "len":
        return len(mem)
    if verb == "write":
        written = mem.write(*args, **kwargs)
        return {"id": str(written), **written.report.to_dict()}
    answer = getattr(mem, verb)(*args, **kwargs)
    return answer.to_dict() if hasattr(answer, "to_dict") else answer


def serve() -> None:
    import fastassoc as fa

    clock, path, mem = Clock(), None, None
    for line in sys.stdin:
        request = json.loads(line)
        if request["now"] is not None:
            clock.stamp = request["now"]
        try:
            if request["verb"] == "close" or request["path"] != path:
                if mem is not None:
                    mem.close()
                path, mem = None, None
            answer = None
            if request["verb"] != "close":
                if mem is None:
                    path = request["path"]
                    own = {"clock": clock} if request["now"] is not None else {}
                    mem = fa.open(path, sync="normal", **own)
                answer = ask(mem, request["verb"], *request["args"], **request["kwargs"])
            reply = {"answer": answer}
        except Exception as error:
            reply = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(reply, default=str), flush=True)


class Worker:
    """A process of its own that serves requests until it is closed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, path: Path | str, now: int | None, verb: str, *args: Any, **kwargs: Any) -> Any:
        self.send(path, now, verb, *args, **kwargs)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the other process ended with {self.process.poll()}"
        reply = json.loads(line)
        if "error" in reply:
            raise error_like(reply["error"], reply["text"])
        return reply["answer"]

    def kill(self) -> None:
        """Kill it without a word, and start another."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self.__init__()  # type: ignore[misc]

    def send(self, path: Path | str, now: int | None, verb: str, *args: Any, **kwargs: Any) -> None:
        """Ask for something, and do not wait for it."""
        request = {"path": str(path), "now": now, "verb": verb, "args": args, "kwargs": kwargs}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def error_like(name: str, text: str) -> Exception:
    """The other process's error as one of the same class."""
    import builtins

    from fastassoc import errors

    made: Callable[..., Any] = getattr(errors, name, None) or getattr(builtins, name, RuntimeError)
    error = made.__new__(made)  # type: ignore[call-overload]
    Exception.__init__(error, text)
    return error


if __name__ == "__main__":
    serve()
