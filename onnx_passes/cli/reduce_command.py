"""``onnx-passes reduce``: the smallest model that still fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.errors import UsageError

if TYPE_CHECKING:
    from onnx_passes.verify.reduce.ledger import Trial

HELP = """\
Reduce MODEL to the smallest model that still fails.

\b
Examples:
  onnx-passes reduce model.onnx -o small.onnx --check 'python check.py {model}'
  onnx-passes reduce model.onnx -o small.onnx --engine onnxruntime --against reference
"""


@click.command("reduce", help=HELP, no_args_is_help=True)
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--check", metavar="CMD", help="Command that fails on a bad model.")
@click.option(
    "--mode", type=click.Choice(["auto", "bisect", "linear", "ddmin"]), default="auto"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--debug", is_flag=True, hidden=True)
def command(
    model: Path, output: Path, check: str, mode: Any, as_json: bool, debug: bool
) -> None:
    """Reduce a model."""
    del debug
    from onnx_passes.io.load import load_model
    from onnx_passes.io.save import save_model
    from onnx_passes.runtime.ort import OnnxRuntimeEngine
    from onnx_passes.verify.reduce import Boundary, Reducer
    from onnx_passes.verify.reduce.command import CommandCheck
    from onnx_passes.verify.reduce.parts import Parts
    from onnx_passes.verify.reduce.store import Store

    loaded = load_model(model)
    from onnx_passes.passes.annotation.shape_inference import infer_shapes

    infer_shapes(loaded.model)
    boundary = Boundary(loaded.model, OnnxRuntimeEngine())
    with Store(loaded.model) as store:
        found = Reducer(
            Parts(loaded.model, boundary), CommandCheck(check, store), mode, tell=_tell
        ).run()
    save_model(found.model, output)
    click.echo(f"{found.before} -> {found.after} nodes in {found.checks} checks")


def _tell(trial: Trial) -> None:
    click.echo(
        f"{trial.number:4d} {trial.nodes:6d} nodes  {trial.outcome.status}"
        f"  {trial.outcome.told}  {trial.seconds:.2f} s",
        err=True,
    )
