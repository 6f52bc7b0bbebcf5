"""``onnx-passes strip-weights``: a model that can be shared where its weights cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import edit, edits, path
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnx_ir as ir

HELP = """\
Remove the weights of MODEL. Each becomes a ConstantOfShape of its mean, so that the result
is small, valid and can be run; its metadata notes what restore-weights needs.

\b
Examples:
  onnx-passes strip-weights model.onnx -o stripped.onnx
  onnx-passes strip-weights model.onnx -o stripped.onnx --least 65536
"""


@click.command("strip-weights", help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@click.option(
    "--least",
    type=click.IntRange(min=0),
    metavar="BYTES",
    help="Leave smaller weights. Default: 1024.",
)
@edits
def command(model: Path, least: int | None, output: Path, as_json: bool) -> None:
    """Take the weights out."""
    from onnx_passes.surgery.weights import LEAST, strip_weights

    def change(model: ir.Model) -> PlainDict:
        return {"stripped": strip_weights(model, LEAST if least is None else least)}

    edit(
        model,
        output,
        change,
        lambda done: f"{len(done['stripped'])} weights removed",
        as_json=as_json,
    )
