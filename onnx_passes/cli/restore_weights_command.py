"""``onnx-passes restore-weights``: weights for a model that was stripped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import edit, edits, path
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnx_ir as ir

HELP = """\
Put weights into MODEL, which strip-weights made: those of the original, checked by their
digests, or random ones of the same mean, deviation and range.

\b
Examples:
  onnx-passes restore-weights stripped.onnx -o model.onnx --from original.onnx
  onnx-passes restore-weights stripped.onnx -o model.onnx --random 0
"""


@click.command("restore-weights", help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@click.option("--from", "source", type=path, help="The model that was stripped.")
@click.option("--random", "seed", type=int, metavar="SEED", help="Draw random weights.")
@edits
def command(
    model: Path,
    source: Path | None,
    seed: int | None,
    output: Path,
    as_json: bool,
) -> None:
    """Put weights back."""
    from onnx_passes.model.load import load_model
    from onnx_passes.surgery.weights import restore_weights

    if (source is None) == (seed is None):
        raise click.UsageError("give either --from MODEL or --random SEED")

    def change(model: ir.Model) -> PlainDict:
        held = None if source is None else load_model(source).model
        return {"restored": restore_weights(model, held, seed=seed or 0)}

    edit(
        model,
        output,
        change,
        lambda done: f"{len(done['restored'])} weights put back",
        as_json=as_json,
        read=[] if source is None else [source],
    )
