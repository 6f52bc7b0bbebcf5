"""``onnx-passes sanitize``: the usual tidying, each step verified."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import click

from onnx_passes.cli.editing import path
from onnx_passes.errors import UsageError

HELP = """\
Tidy MODEL: shorthand for passes, each verified. What is asked of the interface comes first,
and the passes are held against the model with that interface.

\b
Exit codes:
  0  all verified
  1  a verification failed
  2  bad usage: no such input or value
  3  the model cannot be read, or the engine cannot run it

\b
Examples:
  onnx-passes sanitize model.onnx -o out.onnx --fold-constants --cleanup
  onnx-passes sanitize model.onnx -o out.onnx --override-input-shapes x:1x3x224x224 --outputs y
"""


@click.command("sanitize", help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@click.option("-o", "--output", type=path, required=True, help="Where it goes.")
@click.option("--fold-constants", is_flag=True, help="Compute what depends on no input.")
@click.option("--cleanup", is_flag=True, help="Take out what nothing reads.")
@click.option("--toposort", is_flag=True, help="Put the nodes in the order they run in.")
@click.option(
    "--override-input-shapes",
    "shapes",
    multiple=True,
    metavar="NAME:SHAPE",
    help="x:1x3x224x224, or x:[batch,3,224,224].",
)
@click.option(
    "--outputs", multiple=True, metavar="NAME", help="End at these values; repeatable."
)
@click.option(
    "--set-upper-bound",
    "bounds",
    multiple=True,
    metavar="NAME:BOUND",
    help="Bound a value, as TensorRT wants it of sizes that are computed.",
)
@click.option("--no-verify", is_flag=True, help="Check nothing. The report says so.")
@click.option("--json", "json_path", type=path, help="Write the report.")
@click.option("-v", "--verbose", count=True, help="Tell more.")
@click.option("-q", "--quiet", is_flag=True, help="Tell errors only.")
@click.option("--debug", is_flag=True, hidden=True)
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
    debug: bool,
) -> None:
    """Tidy a model."""
    del debug  # read by the program itself
    from onnx_passes.cli.destinations import check_destinations
    from onnx_passes.cli.run_command import execute
    from onnx_passes.config.load import default_config
    from onnx_passes.io.load import load_model
    from onnx_passes.surgery.sanitizing import prepare, steps_of

    wanted = {name: _shape(text) for name, text in map(_parted, shapes)}
    limits = {name: _number(text) for name, text in map(_parted, bounds)}
    steps = steps_of(fold_constants=fold_constants, cleanup=cleanup, toposort=toposort)
    if not (steps or wanted or limits or outputs):
        raise click.UsageError("nothing to do: give --fold-constants, --cleanup or another")
    loaded = load_model(model)
    reports = {"--json": json_path}
    check_destinations(output, reports, {"the model": [loaded.path]})
    settings = default_config(["verify=false"] if no_verify else [], steps)
    prepared = dataclasses.replace(
        loaded, model=prepare(loaded.model, wanted, outputs, limits)
    )
    places = {"--json": json_path, "--html": None, "--junit": None}
    run = execute(prepared, settings, str(model), output, places, -1 if quiet else verbose)
    raise click.exceptions.Exit(run.report.exit_code)


def _parted(text: str) -> tuple[str, str]:
    name, sign, rest = text.rpartition(":")
    if not (sign and name):
        raise UsageError(f"{text!r} has no ':'", help="write NAME:1x3x224x224 or NAME:100")
    return name, rest


def _shape(text: str) -> list[int | str]:
    if not re.fullmatch(r"\[[^\[\]]*\]|\d+(x\d+)*", text):
        raise UsageError(f"{text!r} is no shape", help="write 1x3x224x224, or [batch,3]")
    parts = text.strip("[]").split("," if text.startswith("[") else "x")
    return [int(p) if p.strip().isdigit() else p.strip() for p in parts if p.strip()]


def _number(text: str) -> float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no number", help="write NAME:100") from error
