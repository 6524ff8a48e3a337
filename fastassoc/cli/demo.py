"""The command ``demo``: the whole memory at work on the documentation that is on this machine."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastassoc.cli.common import App, example, store_options
from fastassoc.cli.outputs import check_trees
from fastassoc.errors import InvalidInput

if TYPE_CHECKING:
    import fastassoc as fa
    from fastassoc.cli.corpus import Corpus
    from fastassoc.cli.demoscript import TimedEmbedder
    from fastassoc.cli.demoshow import Page

__all__ = ["demo", "run"]

BATCH_ROWS = 1_000
Advance = Callable[[int, int], None]  # done, of all


@click.command(epilog=example("fastassoc demo", "fastassoc demo --keep docs.fa"))
@click.option("--keep", type=click.Path(), metavar="PATH", help="Put the store there.")
@store_options
@click.pass_obj
def demo(app: App, keep: str | None) -> None:
    """Watch it work on real text, in about a minute and offline.

    Reads the documentation of Python and of the libraries installed here, remembers it, answers
    questions, learns from feedback, opens the store in a new process, and measures itself. With
    the extra 'embed' notes have vectors, too. The store stays, so that you can go on with it;
    without --keep it lies in the temporary folder.
    """
    document = run(app, keep or app.store)
    if app.json:
        app.emit(document)
    if not all(document["passed"].values()):
        click.get_current_context().exit(1)


def run(app: App, keep: str | None, packages: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Run the demonstration.

    Parameters
    ----------
    app : App
        Where output goes; with `json` nothing but the result goes to stdout.
    keep : str or None
        The store's folder; a new temporary one if None.
    packages : tuple of str, optional
        What to read; `PACKAGES` by default.

    Returns
    -------
    dict
        Every figure, in JSON values.

    Raises
    ------
    InvalidInput
        `keep` exists, or there is no documentation.
    """
    from fastassoc.cli.demoshow import Page

    begun = time.perf_counter()
    path, folder = _place(keep)
    page = Page(app)
    try:
        document = _steps(app, page, path, packages)
    except BaseException:  # a half-made store is of no use to anyone, and stops the next run
        shutil.rmtree(folder or path, ignore_errors=True)
        raise
    document["seconds"] = round(time.perf_counter() - begun, 2)
    page.end(document)
    return document


def _place(keep: str | None) -> tuple[Path, Path | None]:
    """The store's folder, and the temporary one around it."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="fastassoc-demo-"))
        return folder / "docs.fa", folder
    path = Path(keep)
    check_trees(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInput(
            f"{path} exists, and the demonstration begins with a new store: name another folder "
            "with --keep, or remove it."
        )
    return path, None


def _steps(app: App, page: Page, path: Path, packages: tuple[str, ...] | None) -> dict[str, Any]:
    import fastassoc as fa
    from fastassoc.cli.docnotes import Names, notes, relations

    ready = _warm(app)  # first, so that no later figure holds the compiler's time
    page.ready(ready)
    corpus, seconds = _collect(app, packages)
    names = Names(corpus.symbols)
    truth = relations(corpus, names)
    rows = notes(corpus, names)
    if not rows:
        raise InvalidInput("no documentation was found on this machine.")
    document: dict[str, Any] = {"store": str(path), "ready_seconds": ready,
                                "corpus": _about(corpus, truth, seconds)}  # fmt: skip
    page.collected(document["corpus"])
    embedder, missing = _embedder()
    document["ingest"] = _ingest(app, path, rows, embedder)
    # without the embedder: so questions are read by their concepts and words alone
    with fa.open(path, sync="full") as mem:
        document["ingest"]["first_read_seconds"] = _first_read(mem)
        page.ingested(document["ingest"])
        document["questions"] = _ask(page, mem)
        document["beside"] = _beside(page, path, embedder, missing)
        document |= _teach(page, mem, path)
        document["checks"] = _check(page, path)
        document["measure"] = _measure(app, page, mem, path, truth)
        document["position"] = mem.position
    document["bytes"] = sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    document["passed"] = {
        "new process": document["new_process"].get("same", True),
        "control": document["control"].get("forgot", True),
        "checks": document["checks"]["passed"],
    }
    return document


def _warm(app: App) -> float:
    """Seconds until every kernel was there."""
    import fastassoc as fa

    with _bar(app, "compiling, once on this machine") as advance:
        return round(fa.warm(advance), 2)


def _collect(app: App, packages: tuple[str, ...] | None) -> tuple[Corpus, float]:
    from fastassoc.cli.corpus import PACKAGES, collect

    begun = time.perf_counter()
    with _bar(app, "reading documentation") as advance:
        corpus = collect(packages or PACKAGES, progress=advance)
    return corpus, time.perf_counter() - begun


def _about(corpus: Corpus, truth: dict[str, list[str]], seconds: float) -> dict[str, Any]:
    return {
        "symbols": len(corpus.symbols),
        "packages": corpus.packages,
        "files": corpus.files,
        "skipped": corpus.skipped,
        "left_out": corpus.left_out,
        "withheld_symbols": len(truth),
        "withheld_relations": sum(map(len, truth.values())),
        "seconds": round(seconds, 2),
    }


def _embedder() -> tuple[TimedEmbedder | None, str]:
    """What makes vectors here, or what is missing."""
    from fastassoc.cli.demoscript import EMBEDDER, TimedEmbedder
    from fastassoc.embed import available, resolve

    state = available()[EMBEDDER]
    found = resolve(EMBEDDER) if state == "ready" else None
    return None if found is None else TimedEmbedder(found), state


def _ingest(
    app: App, path: Path, rows: list[dict[str, Any]], embedder: TimedEmbedder | None
) -> dict[str, Any]:
    import fastassoc as fa

    with fa.open(path, sync="full", embedder=embedder) as mem, _bar(app, "remembering") as advance:
        report = mem.ingest(
            rows, batch_rows=BATCH_ROWS, progress=lambda state: advance(state.rows, len(rows))
        )
        stats = mem.stats()
    embedding = 0.0 if embedder is None else embedder.seconds
    told = ("notes", "concepts", "links", "links_followed", "note_links", "vectors", "dim")
    return {
        **{name: stats[name] for name in told},
        "rejected": report.rejected,
        "embedder": None if embedder is None else embedder.name,
        "embedding_seconds": round(embedding, 3),
        "seconds": round(report.seconds - embedding, 3),
    }


def _first_read(mem: fa.Memory) -> float:
    from fastassoc.cli.demoscript import QUESTIONS

    begun = time.perf_counter()
    mem.read(QUESTIONS[0])
    return round(time.perf_counter() - begun, 3)


def _ask(page: Page, mem: fa.Memory) -> list[dict[str, Any]]:
    from fastassoc.cli.demoscript import SHOWN, telling

    page.asking()
    answers = []
    for question in telling(mem):
        begun = time.perf_counter()
        recall = mem.read(question, k=SHOWN)
        seconds = time.perf_counter() - begun
        page.answer(question, recall, seconds)
        answers.append({"question": question, "milliseconds": round(seconds * 1e3, 2),
                        "rank": recall.rank, "hits": recall.to_dicts()})  # fmt: skip
    return answers


def _beside(
    page: Page, path: Path, embedder: TimedEmbedder | None, missing: str
) -> list[dict[str, Any]]:
    """Hits by vector, by concept and by link in one answer."""
    import fastassoc as fa
    from fastassoc.cli.demoscript import beside

    if embedder is None:
        page.no_vectors(missing)
        return []
    with fa.open(path, create=False, read_only=True, embedder=embedder) as mem:
        shown = beside(mem, embedder)
    page.beside(shown)
    return [
        {"question": one.question, "milliseconds": round(one.seconds * 1e3, 2),
         "rank": one.recall.rank, "hits": one.recall.to_dicts(),
         "places_by_vector": [one.places.get(hit.id) for hit in one.recall]}
        for one in shown
    ]  # fmt: skip


def _teach(page: Page, mem: fa.Memory, path: Path) -> dict[str, Any]:
    """Feedback, a new process, the control."""
    from fastassoc.cli.demoscript import LINKS, PAGE, ask_elsewhere, choose_lesson, taught

    lesson = choose_lesson(mem)
    if lesson is None:
        page.nothing_to_teach()
        return {"feedback": {}, "new_process": {}, "control": {}}
    held = taught(mem, lesson)
    page.taught(held)
    before, after = ([hit.id for hit in one] for one in (held.before, held.after))
    answer, process, seconds = ask_elsewhere(path, lesson.question)
    elsewhere = [(hit["id"], hit["rank_score"], hit["source"]) for hit in answer["hits"]]
    same = elsewhere == [(hit.id, hit.rank_score, hit.source) for hit in held.after]
    page.new_process(held, answer, process, seconds, same)
    control = mem.rebuild_links().read(lesson.question, k=PAGE, rank=LINKS)
    forgot = [(h.id, h.rank_score) for h in control] == [(h.id, h.rank_score) for h in held.before]
    page.control(control, forgot)
    return {
        "feedback": {**asdict(lesson), "asked": held.asked, "before": before, "after": after,
                     "links": [list(one) for one in held.links]},
        "new_process": {"process": process, "seconds": round(seconds, 2), "same": same,
                        "hits": [one[0] for one in elsewhere]},
        "control": {"hits": [hit.id for hit in control], "forgot": forgot},
    }  # fmt: skip


def _measure(
    app: App, page: Page, mem: fa.Memory, path: Path, truth: dict[str, list[str]]
) -> dict[str, Any] | None:
    import fastassoc as fa
    from fastassoc.cli.demomeasure import measure

    if not truth:
        page.nothing_to_measure()
        return None
    begun = time.perf_counter()  # on the links as the notes wrote them, without the lesson
    with _bar(app, "measuring") as advance:
        apart = mem.settings.with_changes({"concept_links.threshold": 1e12})
        with fa.open(path, create=False, read_only=True, settings=apart) as unlinked:
            found = measure(mem.rebuild_links(), unlinked.rebuild_links(), truth, progress=advance)
    page.measured(found)
    return {**found.to_dict(), "seconds": round(time.perf_counter() - begun, 2)}


def _check(page: Page, path: Path) -> dict[str, Any]:
    from fastassoc.check import check_store

    report = check_store(path)
    page.checked(report)
    return report.to_dict()


@contextmanager
def _bar(app: App, what: str) -> Iterator[Advance]:
    """A progress bar on stderr where that is a terminal; it goes when its work is done."""
    console = app.err()
    if not console.is_terminal:
        app.say(f"{what} ...")
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<31}"), BarColumn(24), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
