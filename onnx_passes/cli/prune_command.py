"""``onnx-passes prune``: weights in the 2:4 pattern of sparse tensor cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import edit, edits, path
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnx_ir as ir

HELP = """\
Set two of each four weights of Conv, Gemm and MatMul in MODEL to zero: the smaller ones, along
the axis that is summed over.

The result computes other numbers and is not verified: train it on, or try what engines make of
the pattern. compare says how far the numbers are off.

\b
Examples:
  onnx-passes prune model.onnx -o sparse.onnx
  onnx-passes prune model.onnx -o sparse.onnx --json
"""


@click.command("prune", help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@edits
def command(model: Path, output: Path, as_json: bool) -> None:
    """Prune the weights."""
    from onnx_passes.surgery.weights import prune

    def change(model: ir.Model) -> PlainDict:
        found = prune(model)
        return {"verified": False, "pruned": found.weights, "left": found.left}

    edit(model, output, change, _says, as_json=as_json)


def _says(done: PlainDict) -> str:
    lines = [f"left {name!r}: {reason}" for name, reason in done["left"].items()]
    zeros = sum(done["pruned"].values())
    lines.append(f"{len(done['pruned'])} weights pruned, {zeros} elements set to zero")
    lines.append("not verified: the result computes other numbers")
    return "\n".join(lines)
