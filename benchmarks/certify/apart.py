"""Judge many things, each in a fork: imports are paid once, and a crash is a row."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
MEMORY = 8 << 30
"""Bytes of address space that one judgement may take."""

_RECORDS = {"apart.py", "certificates.py", "regression.py"}


def fingerprint() -> str:
    """Return a hash of the verifier of rules and of what is judged here.

    Without what only records or prints verdicts.
    """
    import onnx_passes.verify.rules as verifier

    digest = hashlib.sha256()
    for folder in (Path(verifier.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            if path.name not in _RECORDS:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def forked(work: Callable[[], Row], seconds: float) -> Row:
    """Return what ``work`` returns in a fork, or a row that says how the fork ended.

    Args:
        work: Runs in the fork; it must not have been preceded by a session of an engine, whose
            threads no fork has.
        seconds: After which the fork is ended.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    start = time.perf_counter()
    child = context.Process(target=_answer, args=(there, work))
    child.start()
    there.close()
    row: Row = {"ended": f"no answer in {seconds:g} s"}
    if here.poll(seconds):
        try:
            row = here.recv()
        except EOFError:
            row = {}
    else:
        child.kill()
    child.join()
    if not row:
        row = {"ended": f"the process ended with code {child.exitcode}"}
    return {**row, "seconds": time.perf_counter() - start}


def _answer(there: Connection, work: Callable[[], Row]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    there.send(work())


def resumed(
    keys: Sequence[str],
    work: Callable[[int], Row],
    *,
    rows: Path | None,
    part: tuple[int, int] = (1, 1),
    seconds: float = 120.0,
) -> Iterator[Row]:
    """Yield the rows of one part, those of ``rows`` first that no source has changed since.

    Args:
        keys: What distinguishes the judgements; a row holds its own as ``key``.
        work: Judges the one at a place, in a fork.
        rows: JSON lines, to which each new row is added as it comes; None keeps none.
        part: Which of how many equal parts, counted from 1.
        seconds: For one judgement.
    """
    source, known = fingerprint(), read_rows(rows)
    number, parts = part
    for index in range(number - 1, len(keys), parts):
        row = known.get(keys[index])
        if row is None or row["source"] != source:
            found = forked(lambda at=index: work(at), seconds)  # type: ignore[misc]
            row = {"key": keys[index], "source": source, **found}
            if rows is not None:
                with rows.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(row) + "\n")
        yield row


def read_rows(path: Path | None) -> dict[str, Row]:
    """Return the rows of a file by key, the last of each; none where there is no file."""
    if path is None or not path.exists():
        return {}
    found = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return {row["key"]: row for row in found}


def stale(rows: Mapping[str, Row]) -> int:
    """Return how many rows another source has judged."""
    source = fingerprint()
    return sum(row["source"] != source for row in rows.values())
