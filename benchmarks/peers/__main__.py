"""``python -m benchmarks.peers CACHE [MODEL]...``: run all tools, print the tables."""

from __future__ import annotations

import json
from pathlib import Path

import click

from benchmarks.environments import compile_bytecode
from benchmarks.peers import table
from benchmarks.peers.corpus import corpus, listed
from benchmarks.peers.measure import from_json, measure, to_json
from benchmarks.peers.tools import PEERS, ours


@click.command()
@click.argument("cache", type=click.Path(file_okay=False, path_type=Path))
@click.argument("names", metavar="[MODEL]...", nargs=-1)
@click.option("--runs", default=3, show_default=True, help="How often each tool is run.")
@click.option("--tool", "chosen", multiple=True, help="Only this tool; may be repeated.")
@click.option(
    "--untimed",
    is_flag=True,
    help="Compare results, but time no inference with them: enough to count nodes.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure the networks of this folder in place of those of CACHE.",
)
@click.option("--print-only", is_flag=True, help="Measure nothing: print what was measured.")
def main(
    cache: Path,
    names: tuple[str, ...],
    runs: int,
    chosen: tuple[str, ...],
    untimed: bool,
    folder: Path | None,
    print_only: bool,
) -> None:
    """Measure each MODEL (default: all) that CACHE holds no figures of, and print all.

    CACHE keeps the environments of the tools, the exported models
    (``python -m benchmarks.export CACHE``) and, in ``peers.json``, the figures.
    """
    if not print_only:
        fill(cache, names, runs, chosen, timed=not untimed, folder=folder)
    print("\n".join(table.tables(cache)))


def fill(
    cache: Path,
    names: tuple[str, ...],
    runs: int,
    chosen: tuple[str, ...] = (),
    *,
    timed: bool = True,
    folder: Path | None = None,
) -> None:
    """Measure models, and write what came out after each."""
    compile_bytecode()
    models, tools = corpus(cache) if folder is None else listed(folder), (*PEERS, *ours())
    for kind, wanted, known in (
        ("model", names, list(models)),
        ("tool", chosen, [tool.name for tool in tools]),
    ):
        for name in wanted:
            if name not in known:
                raise click.UsageError(f"no {kind} {name!r}; there are: {'; '.join(known)}")
    tools = tuple(tool for tool in tools if not chosen or tool.name in chosen)
    path = cache / "peers.json"
    for name in names or models:
        figures = json.loads(path.read_text()) if path.exists() else {}
        row = figures.setdefault(name, {"original": table.describe(models[name]), "cells": {}})
        missing = [tool for tool in tools if tool.name not in row["cells"]]
        if not missing:
            continue
        click.echo(f"{name}: {', '.join(tool.name for tool in missing)}", err=True)
        measured = measure(cache, models[name], missing, runs, timed=timed)
        cells = {**from_json(row["cells"]), **measured}
        row["cells"] = to_json(cells)
        path.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
