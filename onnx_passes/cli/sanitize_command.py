"""``onnx-passes sanitize``: the usual tidying, each step verified."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE
from onnx_passes.cli.output import check_destinations
from onnx_passes.cli.word_syntax import ManyWords, Several, read_named_shape
from onnx_passes.errors import UsageError

if TYPE_CHECKING:
    import onnx_ir as ir

HELP = """\
Tidy MODEL: shorthand for passes, each verified. Changes of the interface are made first, and
the passes are verified against the model with that interface. Shapes are written as extract
has them: x:1x3x224x224, or x:[batch,3,224,224] with names for dynamic dimensions.

\b
Examples:
  onnx-passes sanitize model.onnx -o out.onnx --fold-constants --cleanup
  onnx-passes sanitize m.onnx -o out.onnx --override-input-shapes x:1x3x8x8
"""


@click.command("sanitize", cls=ManyWords, help=HELP, no_args_is_help=True)
@click.argument("model", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="Where to write the model.")
@click.option("--fold-constants", is_flag=True, help="Compute what depends on no input.")
@click.option("--cleanup", is_flag=True, help="Remove what nothing reads.")
@click.option("--toposort", is_flag=True, help="Sort the nodes topologically.")
@click.option(
    "--override-input-shapes",
    "shapes",
    cls=Several,
    multiple=True,
    metavar="NAME:SHAPE...",
    help="x:1x3x224x224, or x:[batch,3,224,224].",
)
@click.option(
    "--outputs", cls=Several, multiple=True, metavar="NAME...", help="End at these values."
)
@click.option(
    "--set-upper-bound",
    "bounds",
    cls=Several,
    multiple=True,
    metavar="NAME:BOUND...",
    help="Bound a computed size, as TensorRT requires.",
)
@click.option("--no-verify", is_flag=True, help="Check nothing. The report says so.")
@click.option("--json", "json_path", type=FILE, metavar="FILE", help="Write the report.")
@click.option("-v", "--verbose", count=True, help="Print more.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    output: Path,
    fold_constants: bool,
    cleanup: bool,
    toposort: bool,
    shapes: tuple[str, ...],
    outputs: tuple[str, ...],
    bounds: tuple[str, ...],
    no_verify: bool,
    json_path: Path | None,
    verbose: int,
    quiet: bool,
) -> None:
    """Tidy a model."""
    from onnx_passes.cli.run_command import execute
    from onnx_passes.configs.pipeline_files import default_config
    from onnx_passes.model.load import load_model
    from onnx_passes.surgery.sanitizing import check_runs, prepare, steps_of

    wanted = dict(read_named_shape(text, "--override-input-shapes") for text in shapes)
    limits = dict(map(_read_bound, bounds))
    steps = steps_of(fold_constants=fold_constants, cleanup=cleanup, toposort=toposort)
    loaded = load_model(model)
    if not (steps or wanted or limits or outputs or loaded.notes):
        # What the loader had to repair is written as it is; else nothing is left to do.
        raise click.UsageError("nothing to do: give --fold-constants, --cleanup or another")
    if json_path is not None and str(json_path).startswith("-"):
        raise click.UsageError(f"--json takes a file, and is given {str(json_path)!r}")
    reports = {"--json": json_path}
    check_destinations(output, reports, {"the model": [loaded.path]})
    settings = default_config(["verify=false"] if no_verify else [], steps)
    before = _contents(loaded.model)
    changed = prepare(loaded.model, wanted, outputs, limits)
    told = [*loaded.notes, *_changes(before, _contents(changed))]
    prepared = dataclasses.replace(loaded, model=changed, notes=told)
    if wanted and not no_verify:
        check_runs(changed)
    places = {"--json": json_path, "--html": None, "--junit": None}
    run = execute(prepared, settings, str(model), output, places, -1 if quiet else verbose)
    raise click.exceptions.Exit(run.report.exit_code)


def _contents(model: ir.Model) -> dict[str, str]:
    """Return what a change of the interface may change, as a reader sees it."""
    from onnx_passes.model.walk import all_nodes

    sides = {"input": model.graph.inputs, "output": model.graph.outputs}
    ports = {
        f"{side} {value.name}": "?" if value.shape is None else f"{value.shape}"
        for side, values in sides.items()
        for value in values
    }
    return {**ports, "nodes": f"{sum(1 for _ in all_nodes(model))}"}


def _changes(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for port in {**before, **after}:
        old, new = before.get(port, "none"), after.get(port, "none")
        if old != new:
            yield f"{port}: {old} -> {new}, as asked for"


def _read_bound(text: str) -> tuple[str, float]:
    option = f"--set-upper-bound {text!r}"
    name, sign, bound = text.rpartition(":")
    if not (sign and name):
        raise UsageError(f"{option} has no ':'", help="write NAME:100")
    try:
        return name, int(bound) if bound.lstrip("-").isdigit() else float(bound)
    except ValueError as error:
        raise UsageError(
            f"{option}: {bound!r} is not a number", help="write NAME:100"
        ) from error
