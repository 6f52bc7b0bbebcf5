"""``onnx-passes tune``: choose the precision of each part of a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, OVERRIDES, file, flag, option
from onnx_passes.cli.output import advance, check_destinations, echo_line, echo_lines
from onnx_passes.cli.word_syntax import ManyWords
from onnx_passes.errors import UsageError
from onnx_passes.plain import Plain

if TYPE_CHECKING:
    from onnx_passes.model.load import LoadedModel
    from onnx_passes.tuning.search_record import SearchResult, Task


@click.command("tune", cls=ManyWords, no_args_is_help=True)
@click.argument("model", type=FILE)
@option("-c --config PIPELINE", "The pipeline file.", required=True)
@file("-o --output FILE", "Where to write the model.")
@OVERRIDES
@file("--json json_file FILE", "Write the result as JSON.")
@flag("-q --quiet", "Print no line for each step.")
@flag(
    "--culprits",
    "Name the fewest nodes that must stay in float32, all others in the first format.",
)
def command(
    model: Path,
    config: str,
    output: Path | None,
    overrides: tuple[str, ...],
    json_file: Path | None,
    quiet: bool,
    culprits: bool,
) -> None:
    """Choose the precision of each part of MODEL within a budget of what may be lost.

    It has the least time, size or bit operations. PIPELINE holds the data (reference), the
    budget (verify.metrics, tune.flips), and the formats, groups and objective (tune).

    Parts are scored by runs of their own on values that were recorded once. A choice is
    written only after the whole model was run, kept the budget, and its file was read back.
    Without a better one, the original is written.

    Examples:
      onnx-passes tune model.onnx -c tune.yaml -o small.onnx --json=found.json
      onnx-passes tune model.onnx -c tune.yaml --culprits
    """
    from onnx_passes.configs.pipeline_files import load_config
    from onnx_passes.model.load import load_model
    from onnx_passes.tuning.configured_search import task_of

    settings = load_config(config, overrides)
    if output is None and not culprits:
        raise UsageError("there is no -o: where to write the model", help="-o small.onnx")
    check_destinations(output, {"--json": json_file}, {"the model": [model]})
    loaded = load_model(model)
    task = task_of(loaded.model, settings)

    def report(text: str) -> None:
        if not quiet:
            echo_line(text, err=True)

    if culprits:
        for note in task.notes:
            report(note)
        _culprits(task, loaded, output, json_file, report)
        return
    assert output is not None, "it was asked for above"
    # JSON shows the error of each group.
    task = replace(task, score_all=json_file is not None)
    _search(task, loaded, output, json_file, report)


def _search(
    task: Task,
    loaded: LoadedModel,
    output: Path,
    json_file: Path | None,
    report: Callable[[str], None],
) -> None:
    from onnx_passes.cli.supervision import received
    from onnx_passes.tuning.budget_search import TuningSearch
    from onnx_passes.tuning.search_record import lines, save, to_json

    def progress(done: int, total: int) -> None:
        advance(done, total, "group")

    result: SearchResult = TuningSearch(task, report, progress).run()
    with received.unhurried():
        save(result, output, loaded)
        data = to_json(result)
        _write(json_file, data)
        echo_lines(lines(data))
    if result.ended == "interrupted":
        click.echo(f"interrupted: {output} holds the best model so far", err=True)
        raise click.exceptions.Exit(received.exit_code)


def _culprits(
    task: Task,
    loaded: LoadedModel,
    output: Path | None,
    json_file: Path | None,
    report: Callable[[str], None],
) -> None:
    from onnx_passes.model.save import save_model
    from onnx_passes.report.text import plural
    from onnx_passes.tuning.choice import find_culprits
    from onnx_passes.tuning.format_scores import record
    from onnx_passes.tuning.groups import FLOAT32, read_by_layers
    from onnx_passes.tuning.search_record import use_lines, use_to_json
    from onnx_passes.verify.snapshot import ReadBack

    item = next(item for name, item in task.formats.items() if name != FLOAT32)
    wanted = read_by_layers(task.model) if item.needs_values else set()
    recorded = record(task.model, task.engine, task.sketch, wanted)
    task.known.ranges.update(recorded.ranges)
    task.known.values = recorded.rows if wanted else ()
    found = find_culprits(task, item, report)
    if output is not None:
        save_model(found.model, output, source=loaded, inspect=ReadBack())
    keys, use = ("format", "nodes", "kept", "notes", "runs"), use_to_json(task, found.spent)
    _write(json_file, {key: getattr(found, key) for key in keys} | use)
    if found.nodes:
        count = plural(len(found.nodes), "node")
        echo_line(f"{count} must stay in float32, all others can be {item.name}:")
    else:
        echo_line(f"no node has to stay in float32 for the budget of {item.name}")
    echo_lines(f"  {name}" for name in found.nodes)
    if found.kept:
        echo_line(f"{item.pass_name} itself keeps {plural(len(found.kept), 'node')}:")
        echo_lines(f"  {name}" for name in found.kept)
    echo_lines(f"{item.pass_name}: {note}" for note in found.notes)
    echo_lines(use_lines(use))


def _write(path: Path | None, data: Plain) -> None:
    from onnx_passes.report.report_files import write_text

    if path is not None:
        write_text(json.dumps(data, indent=1) + "\n", path)
