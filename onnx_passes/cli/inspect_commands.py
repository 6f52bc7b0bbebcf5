"""Commands that show what a model or saved data hold: inspect, diff, lint, view."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import Family, file, flag, option, several
from onnx_passes.cli.output import check_destinations, check_folder, echo_line, echo_lines
from onnx_passes.cli.word_syntax import ManyWords, Several
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict, spelled
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.bench.compiler_support import ModelPart
    from onnx_passes.bench.model_page import Interval
    from onnx_passes.model.load import LoadedModel


@click.group("inspect", cls=Family, no_args_is_help=True)
def inspect_command() -> None:
    """Print what a model or saved data hold, and which nodes an engine accepts.

    Examples:
      onnx-passes inspect model model.onnx --show layers
      onnx-passes inspect data inputs.npz --stats
      onnx-passes inspect capability model.onnx --engine tensorrt-rtx
    """


inspect_command.default = "model"


@inspect_command.command("model", cls=ManyWords)
@click.argument("file", metavar="MODEL")
@several(
    "--show",
    "Print nodes, attributes, initializers, or their statistics; one or several.",
    cls=Several,
    type=click.Choice(["layers", "attrs", "weights", "values"]),
)
@flag("--list-unbounded", "List dimensions without a fixed size.")
@flag("--json as_json", "Print JSON, or write it to FILE.")
def inspect_model_command(
    file: str, show: tuple[str, ...], list_unbounded: bool, as_json: bool
) -> None:
    """Print the inputs, outputs, opsets and nodes of MODEL, in stable text meant for diff.

    Examples:
      onnx-passes inspect model model.onnx --show layers attrs
      onnx-passes inspect model model.onnx --show values --json
    """
    from onnx_passes.bench.inspection import inspect_lines, inspect_model, unbounded
    from onnx_passes.model.load import load_model

    loaded = load_model(file)
    report = inspect_model(loaded.model, show)
    if list_unbounded:
        report["unbounded"] = unbounded(loaded.model)
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    echo_lines(inspect_lines(report))
    echo_lines(f"unbounded {line}" for line in report.get("unbounded", ()))
    echo_lines((f"note: {note}" for note in loaded.notes), err=True)


@inspect_command.command("capability")
@click.argument("file", metavar="MODEL")
@option("-e --engine ENGINE", "onnxruntime[:PROVIDER], openvino, ...", required=True)
@file("--partition DIR", "Save the parts that the engine accepts, and the rest, as models.")
@flag("--json as_json", "Print JSON, or write it to FILE.")
def inspect_capability_command(
    file: str, engine: str, partition: Path | None, as_json: bool
) -> None:
    """Print which nodes of MODEL an engine rejects, and why.

    TensorRT's parser is called again on the remaining nodes, until it accepts them. ONNX
    Runtime loads each node by itself, on a provider without the CPU as fallback. Nothing is
    executed.

    Examples:
      onnx-passes inspect capability model.onnx --engine onnxruntime:CUDA
      onnx-passes inspect capability model.onnx -e tensorrt-rtx --partition parts
    """
    from onnx_passes.bench import compiler_support as capabilities
    from onnx_passes.configs.engine_text import parse_engine
    from onnx_passes.model.load import load_model

    if partition is not None:
        check_folder("--partition", partition)
    asked, loaded = parse_engine(engine), load_model(file)
    found = capabilities.capability(loaded.model, asked)
    report = found.as_dict()
    if partition is not None:
        report["parts"] = _save(found.parts(), partition, loaded)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        echo_lines(capabilities.lines(report))
    raise click.exceptions.Exit(0 if found.supported else 1)


def _save(parts: list[ModelPart], folder: Path, source: LoadedModel) -> list[PlainDict]:
    from onnx_passes.model.save import save_model

    report = []
    for index, part in enumerate(parts):
        kind = "supported" if part.supported else "rest"
        place = folder / f"part_{index}_{kind}.onnx"
        save_model(part.model, place, source=source)
        report.append(
            {
                "file": str(place),
                "supported": part.supported,
                "nodes": len(part.model.graph),
                "inputs": [str(value.name) for value in part.model.graph.inputs],
                "outputs": [str(value.name) for value in part.model.graph.outputs],
            }
        )
    return report


@inspect_command.command("data")
@click.argument("file", metavar="DATA")
@flag("--all every", "Print every sample, not the first only.")
@flag("--stats", "Print mean, median, variance, min, max, NaN and Inf.")
@flag("--values", "Print the elements.")
@flag("--json as_json", "Print JSON, or write it to FILE.")
def inspect_data_command(
    file: str, every: bool, stats: bool, values: bool, as_json: bool
) -> None:
    """Print what saved inputs or outputs hold: .npz, .npy, .json, .pb, ONNX test data folders.

    Examples:
      onnx-passes inspect data inputs.npz --stats
      onnx-passes inspect data results.json --all --json
    """
    import numpy as np

    from onnx_passes.bench import inspection as numbers
    from onnx_passes.verify.saved import describe, read_samples, runners_of

    samples, runners = read_samples(file), runners_of(file)
    report: list[PlainDict] = []
    for index, sample in enumerate(samples if every else samples[:1]):
        for name, array in sample.items():
            row: PlainDict = {"sample": index, "name": name, "type": describe(array)}
            if runners:
                row["runner"] = runners[index]
            lines = []
            if stats or as_json:
                row["statistics"] = numbers.statistics(array)
                lines.append(numbers.statistics_text(row["statistics"]))
            if values:
                row["values"] = spelled(array.tolist())
                lines += np.array2string(array, threshold=2**31 - 1).splitlines()
            report.append(row)
            if not as_json:
                given_by = f" of {runners[index]}" if runners else ""
                echo_line(f"[{index}] {name}{given_by}: {row['type']}")
                echo_lines(f"    {line}" for line in lines)
    if as_json:
        click.echo(json.dumps({"samples": len(samples), "values": report}, indent=2))
    elif len(samples) > 1 and not every:
        click.echo(f"{len(samples)} samples; --all prints each")
    if not report:
        raise UsageError(f"{file} holds no values", help="save values by name: np.savez")


_COLOURS = {"added": "green", "removed": "red"}


@click.command("diff", no_args_is_help=True)
@click.argument("a")
@click.argument("b")
@flag("--json as_json", "Print JSON, or write it to FILE.")
def diff_command(a: str, b: str, as_json: bool) -> None:
    """List how model B differs from model A: nodes, attributes, weights, wiring, interface.

    Names of inner values, the order of nodes and annotations do not count.

    Examples:
      onnx-passes diff model.onnx optimized.onnx
      onnx-passes diff before.onnx after.onnx --json
    """
    from onnx_passes.model.diff import diff
    from onnx_passes.model.load import load_model

    found = diff(load_model(a).model, load_model(b).model)
    if as_json:
        click.echo(
            json.dumps({"equal": not found, "differences": [d.as_dict() for d in found]})
        )
    else:
        for each in found:
            # click drops the colours where the output is not a terminal.
            echo_line(str(each), color=_COLOURS.get(each.kind, "yellow"))
        click.echo(plural(len(found), "difference") if found else "no differences")
    raise click.exceptions.Exit(1 if found else 0)


@click.command("lint", no_args_is_help=True)
@click.argument("model")
@flag("--no-engine", "Do not load nodes with ONNX Runtime.")
@flag("--json as_json", "Print JSON, or write it to FILE.")
def lint_command(model: str, no_engine: bool, as_json: bool) -> None:
    """List all that is wrong, or looks wrong, about MODEL.

    That is the checker's findings, nodes that ONNX Runtime does not load by themselves, unused
    inputs, NaN weights, dynamic shapes.

    Examples:
      onnx-passes lint model.onnx
      onnx-passes lint model.onnx --json
    """
    from onnx_passes.model.load import load_model
    from onnx_passes.runtime.ort import OnnxRuntimeEngine
    from onnx_passes.verify.validity import lint

    found = lint(load_model(model).model, None if no_engine else OnnxRuntimeEngine())
    errors = sum(finding.severity == "error" for finding in found)
    if as_json:
        click.echo(json.dumps([finding.as_dict() for finding in found], indent=2))
    else:
        for each in found:
            colour = "red" if each.severity == "error" else "yellow"
            echo_line(f"{each.severity}[{each.rule}]: {each.message}", color=colour)
        warnings = plural(len(found) - errors, "warning")
        click.echo(f"{plural(errors, 'error')}, {warnings}")
    raise click.exceptions.Exit(1 if errors else 0)


@click.command("view", no_args_is_help=True)
@click.argument("model")
@file(
    "-o --output FILE", "Where to write the page; by default MODEL.html in the working folder."
)
@file("--report FILE", "Report of a run (--json FILE) that read or wrote MODEL.")
def view_command(model: str, output: Path | None, report: Path | None) -> None:
    """Write the graph of MODEL as a page for a browser: one file, which needs no network.

    Nodes are collapsed by scope; click a group to open it. The page finds nodes and values by
    name, and colours them by operator, format, range, or (with --report) by what a run has
    changed and the evidence for it.

    Examples:
      onnx-passes view model.onnx
      onnx-passes view out.onnx --report run.json -o out.html
    """
    from onnx_passes.bench.model_page import PageContent, facts_of, marks_of, to_page
    from onnx_passes.model.inference import annotate
    from onnx_passes.model.load import load_model
    from onnx_passes.report.json import read_json
    from onnx_passes.report.report_files import write_text

    loaded = load_model(model)
    place = output or Path(f"{Path(model).stem}.html")
    read = {"the model itself": [loaded.path]}
    read |= {"the report": [report]} if report is not None else {}
    check_destinations(None, {"-o": place}, read)
    annotate(loaded.model)
    marks = {} if report is None else marks_of(read_json(report), loaded.model)
    ranges, told = _bounds(loaded.model)
    data = PageContent(ranges, marks).of(loaded.model)
    write_text(to_page(Path(model).name, data, facts_of(loaded.model), told), place)
    echo_lines((f"note: {note}" for note in loaded.notes), err=True)
    echo_line(f"wrote {place}")


def _bounds(model: ir.Model) -> tuple[dict[str, Interval], str]:
    from onnx_passes.errors import OnnxPassesError
    from onnx_passes.passes.analysis.value_ranges import ranges_of

    try:
        found = ranges_of(model, {}, {}).intervals
    except OnnxPassesError as error:
        return {}, f"none, since {error.message}"
    return found, "bounds by interval arithmetic, for any input"
