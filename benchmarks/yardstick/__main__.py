"""``python -m benchmarks yardstick``: has what the program says changed?

``run`` records a line for each suite, model and preset, and compares the lines with those
that are frozen in this folder. ``freeze`` replaces the frozen lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import click

from benchmarks.yardstick.comparison import (
    Records,
    compare,
    count,
    freeze,
    half_files,
    line_of,
    read,
    report,
    within,
)
from benchmarks.yardstick.server import Server
from benchmarks.yardstick.suites import ROOT, SIZES, SUITES, Key, Record, keys, sizes
from onnx_passes.runtime.environment import versions

OUT = ROOT / "out" / "yardstick"
SECONDS = 300.0
"""Processor time that one model may use."""
WALL_FACTOR = 10
"""A model also times out after this many times the limit in wall time."""
READ = (
    *("onnx_passes", "benchmarks", "certificates", "examples"),
    *("tests/corpus", "docs/console.py", "docs/tutorial.md", "certificates/rules.jsonl"),
)
"""What the lines of a record depend on, beside the installed packages."""
SUFFIXES = (".py", ".yaml", ".json", ".onnx", ".npy", ".npz", ".xz")
"""Files that count in the folders of ``READ``."""

half_option = click.option(
    "--half", type=click.IntRange(0, 1), help="Only this half; 1 is held back."
)
show_option = click.option(
    "--show", default=10, show_default=True, help="Models to name for each field."
)


@click.group()
def main() -> None:
    """Record what the program says of many models, and compare it with what is frozen."""


@main.command()
@click.argument("size", type=click.Choice(SIZES))
@click.option(
    "--suite",
    "suites",
    multiple=True,
    type=click.Choice(list(SUITES)),
    help="Run only this suite; may be repeated. By default all are run.",
)
@half_option
@click.option(
    "--networks",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of exported networks; without one, the suite 'exported' is not run.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The record. By default out/yardstick/CODE.jsonl, where CODE is a hash of the code.",
)
@click.option("--jobs", default=2, show_default=True, help="Number of processes.")
@click.option(
    "--seconds", default=SECONDS, show_default=True, help="Processor time of one model."
)
@show_option
def run(
    size: str,
    suites: Sequence[str],
    half: int | None,
    networks: Path | None,
    out: Path | None,
    jobs: int,
    seconds: float,
    show: int,
) -> None:
    """Append a line to the record for each item of SIZE; compare them with the frozen lines.

    Items that the record has are skipped, so that an interrupted run continues. Exits with 1
    if a frozen line differs or is gone.
    """
    out = out or OUT / f"{code_hash()}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    wanted = list(keys(size, suites, half))
    folder = str(networks.absolute()) if networks is not None else None
    spent = record(wanted, out, folder, jobs, seconds)
    found = read(out)
    found = {key: found[key] for key in wanted}
    click.echo(f"{out}\n" + "\n".join(count(found.items(), spent)))
    finish(within(read(*half_files()), size, suites, half), found, show, half)


def record(
    wanted: Sequence[Key], out: Path, networks: str | None, jobs: int, seconds: float
) -> dict[str, float]:
    """Append the lines that a record does not have; return processor seconds by suite."""
    present = {key for key, entry in read(out).items() if entry["outcome"] != "not run"}
    items: queue.SimpleQueue[Key] = queue.SimpleQueue()
    for key in wanted:
        if key not in present:
            items.put(key)
    spent: dict[str, float] = defaultdict(float)
    with out.open("a", encoding="utf-8") as lines:
        if lines.tell() and not out.read_bytes().endswith(b"\n"):
            lines.write("\n")  # after a line that an interrupted run left
        recorder = Recorder(items, lines, networks, seconds, spent)
        threads = [threading.Thread(target=recorder.work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            recorder.stop()
            for thread in threads:
                thread.join()
    if recorder.failures:
        raise recorder.failures[0]
    return spent


class Recorder:
    """Workers that take items from a queue and append their lines."""

    def __init__(
        self,
        items: queue.SimpleQueue[Key],
        lines: TextIO,
        networks: str | None,
        seconds: float,
        spent: dict[str, float],
    ) -> None:
        """Name the items, where their lines go, and the seconds of each item."""
        self.items = items
        self.lines = lines
        self.networks = networks
        self.seconds = seconds
        self.spent = spent
        self.failures: list[BaseException] = []
        self.stopped = False
        self._servers: list[Server] = []
        self._lock = threading.Lock()

    def work(self) -> None:
        """Take items until there are no more."""
        command = [sys.executable, "-m", "benchmarks.yardstick.suites", str(self.seconds)]
        server, suite = Server(command, WALL_FACTOR * self.seconds), ""
        self._servers.append(server)
        try:
            while not self.stopped:
                try:
                    key = self.items.get_nowait()
                except queue.Empty:
                    break
                if key[0] != suite:
                    server.stop()  # planted passes of a suite must not be in the next one
                    suite = key[0]
                answer = server.ask([*key, self.networks])
                with self._lock:
                    if not self.stopped:
                        self._write(key, *answer)
        except BaseException as error:
            self.failures.append(error)
        finally:
            server.stop()

    def _write(self, key: Key, kind: str, answer: Any) -> None:
        entry, seconds = answer if kind == "answer" else (ending(kind, answer), 0.0)
        self.spent[key[0]] += seconds
        self.lines.write(line_of(key, entry))
        self.lines.flush()

    def stop(self) -> None:
        """End what is being run; no line is written after this."""
        with self._lock:
            self.stopped = True
        for server in self._servers:
            if (child := server.child) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # its thread cleans up


def ending(kind: str, answer: str) -> Record:
    """Return the record of a worker that gave no answer."""
    if kind == "hangs" or answer == f"it ended with {-signal.SIGPROF}":
        return {"outcome": "timeout"}
    return {"outcome": "crashed", "error": answer}


def code_hash() -> str:
    """Return a hash of the files and packages that a record depends on."""
    digest = hashlib.sha256(repr(versions()).encode())
    for name in READ:
        inside = (path for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES)
        for path in (ROOT / name, *sorted(inside)):
            if path.is_file():
                digest.update(path.relative_to(ROOT).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def finish(frozen: Records, found: Records, show: int, half: int | None) -> None:
    """Print what differs; exit with 1 if a frozen line does."""
    compared = compare(frozen, found)
    click.echo("\n".join(report(compared, show, half)))
    raise SystemExit(1 if compared.differs else 0)


@main.command("compare")
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@half_option
@show_option
def compare_command(old: Path, new: Path, half: int | None, show: int) -> None:
    """Compare the records OLD and NEW; exit with 1 if a line differs."""
    finish(read(old), read(new), show, half)


@main.command("freeze")
@click.argument(
    "records",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--unstable", "reason", help="Why fields differ between the records.")
def freeze_command(records: Sequence[Path], reason: str | None) -> None:
    """Replace the frozen lines by those of RECORDS, which are of the same code.

    Fields that differ between the records are marked as unstable, and need a reason.
    """
    try:
        done = freeze([read(path) for path in records], sizes(), reason)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(done))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks yardstick")
