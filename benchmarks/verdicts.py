"""``python -m benchmarks verdicts``: record what the gate says, and compare two records.

A record has a JSON line for each suite, model and preset. So the verdicts of two versions of
the gate can be compared, model by model.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import click

from benchmarks.peers.server import Server
from benchmarks.verdict_suites import SUITES, Record

Key = tuple[str, str, str]
"""Suite, model and preset."""

KEY = ("suite", "model", "preset")
WORDING = ("message", "reasons", "console")
"""Fields that hold sentences."""

WALL_FACTOR = 10
"""A model also times out after this many times the limit in wall time."""


@click.group()
def main() -> None:
    """Record the verdicts of the gate on many models, and compare two records."""


@main.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--suite",
    "suites",
    multiple=True,
    type=click.Choice(list(SUITES)),
    help="Run only this suite; may be repeated. By default all are run.",
)
@click.option(
    "--preset",
    "presets",
    multiple=True,
    help="Run only this preset; may be repeated. By default all of a suite are run.",
)
@click.option("--limit", type=int, help="Run at most this many models of a suite.")
@click.option("--every", default=1, show_default=True, help="Run every N-th model of a suite.")
@click.option(
    "--networks",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of .onnx files for the suite 'networks', searched with its subfolders. By "
    "default small models of benchmarks/models are built.",
)
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    help="Processor time in seconds that one model may use.",
)
def record(
    out: Path,
    suites: Sequence[str],
    presets: Sequence[str],
    limit: int | None,
    every: int,
    networks: Path | None,
    seconds: float,
) -> None:
    """Append a line to OUT for each model and preset that OUT does not have yet."""
    present = set(read(out)) if out.exists() else set()
    folder = str(networks.absolute()) if networks is not None else None
    command = [sys.executable, "-m", "benchmarks.verdict_suites", str(seconds)]
    worker = Server(command, WALL_FACTOR * seconds)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with out.open("a") as lines:
            if out.stat().st_size and not out.read_bytes().endswith(b"\n"):
                lines.write("\n")  # after a line that an interrupted run left
            for key in keys(suites, presets, limit, every, networks):
                if key in present:
                    continue
                answer = worker.ask([*key, folder])
                entry = dict(zip(KEY, key, strict=True)) | verdict_of(*answer)
                lines.write(json.dumps(entry) + "\n")
                lines.flush()
    finally:
        worker.stop()
    click.echo("\n".join(count(read(out))))


def keys(
    suites: Sequence[str],
    presets: Sequence[str],
    limit: int | None,
    every: int,
    networks: Path | None,
) -> Iterator[Key]:
    """Yield what is to be run, suite by suite and preset by preset."""
    for name in suites or SUITES:
        suite = SUITES[name]
        wanted = [p for p in suite.presets() if not presets or p in presets]
        models = suite.models(networks)[::every][:limit]
        yield from ((name, model, preset) for preset, model in product(wanted, models))


def verdict_of(kind: str, answer: Any) -> Record:
    """Return what a worker answered, or the way in which it ended."""
    if kind == "answer":
        return dict(answer)
    if kind == "hangs" or answer == f"it ended with {-signal.SIGPROF}":
        return {"outcome": "timeout", "exit_code": None}
    return {"outcome": "crashed", "exit_code": None, "message": answer}


def read(path: Path) -> dict[Key, Record]:
    """Return the lines of a record by key, without lines that were cut off."""
    found: dict[Key, Record] = {}
    with path.open() as lines:
        for line in lines:
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[tuple(entry.pop(name) for name in KEY)] = entry
    return found


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def counts(paths: Sequence[Path]) -> None:
    """Print how often each outcome stands in the records PATHS."""
    merged: dict[Key, Record] = {}
    for path in paths:
        merged |= read(path)
    click.echo("\n".join(count(merged)))


def count(records: dict[Key, Record]) -> list[str]:
    """Return a table of outcomes by suite and preset."""
    rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    seconds: Counter[tuple[str, str]] = Counter()
    for (suite, _, preset), entry in records.items():
        rows[suite, preset][entry["outcome"]] += 1
        seconds[suite, preset] += entry.get("seconds", 0)
    lines = ["| suite | preset | models | outcomes | seconds |", "|---" * 5 + "|"]
    for row, outcomes in rows.items():
        parts = ", ".join(f"{number} {name}" for name, number in outcomes.most_common())
        lines.append(
            f"| {' | '.join(row)} | {outcomes.total()} | {parts} | {seconds[row]:.0f} |"
        )
    return lines


@main.command()
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--show", default=10, show_default=True, help="Differences to print of each field."
)
@click.option("--wording", is_flag=True, help="Compare messages and console text, too.")
def diff(old: Path, new: Path, show: int, wording: bool) -> None:
    """Print what differs between the records OLD and NEW; exit with 1 if a field does."""
    before, after = read(old), read(new)
    changed = differences(before, after, wording=wording)
    click.echo("\n".join(report(before, after, changed, show)))
    raise SystemExit(1 if changed else 0)


def differences(
    before: dict[Key, Record], after: dict[Key, Record], *, wording: bool = False
) -> dict[str, dict[Key, str]]:
    """Return by field, and by key that both records have, the first thing that differs.

    Args:
        before: The old record.
        after: The new record.
        wording: Whether to compare messages and console text.
    """
    found: dict[str, dict[Key, str]] = {}
    skipped = {"seconds", *(() if wording else WORDING)}
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        for name in sorted((old.keys() | new.keys()) - skipped):
            if old.get(name) != new.get(name):
                found.setdefault(name, {})[key] = _first(old.get(name), new.get(name))
    return found


def _first(old: Any, new: Any) -> str:
    """Return the first part in which two values differ, as text."""
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        old, new = old.splitlines(), new.splitlines()
    if isinstance(old, list) and isinstance(new, list):
        pairs = zip_longest(old, new)
        return next(_first(a, b) for a, b in pairs if a != b)
    if isinstance(old, dict) and isinstance(new, dict):
        label = f"{old['pass']}: " if old.get("pass", "") == new.get("pass") else ""
        name = next(n for n in {**old, **new} if old.get(n) != new.get(n))
        return f"{label}{name} {_first(old.get(name), new.get(name))}"
    return " -> ".join(_short(value) for value in (old, new))


def _short(value: Any) -> str:
    if isinstance(value, dict) and "pass" in value:
        value = f"{value['pass']} ({value['verdict']})"
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def report(
    before: dict[Key, Record],
    after: dict[Key, Record],
    changed: dict[str, dict[Key, str]],
    show: int,
) -> list[str]:
    """Return what differs as lines: the number of models by field, then some of each."""
    both = before.keys() & after.keys()
    lines = [
        f"{len(both)} in both, {len(before.keys() - both)} only in the old record, "
        f"{len(after.keys() - both)} only in the new one"
    ]
    times = [sum(r[key].get("seconds", 0) for key in both) for r in (before, after)]
    lines.append(f"processor time: {times[0]:.0f} s -> {times[1]:.0f} s")
    if not changed:
        return [*lines, "no verdict differs"]
    for name in sorted(changed, key=lambda name: (name != "outcome", name)):
        texts = changed[name]
        lines += ["", f"{name}: {len(texts)} differ"]
        if name in ("outcome", "exit_code", "error"):
            kinds = Counter((key[0], key[2], text) for key, text in texts.items())
            lines += [f"  {n:5d}  {' '.join(kind)}" for kind, n in sorted(kinds.items())]
        lines += [f"  {' '.join(key)}: {texts[key]}" for key in sorted(texts)[:show]]
    return lines


if __name__ == "__main__":
    main(prog_name="python -m benchmarks verdicts")
