"""``onnx-passes rename``: other names for inputs, outputs, inner values and nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import edit, edits, pairs, path
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnx_ir as ir

HELP = """\
Give values of MODEL other names, and nodes with --node. Two names may change places.

The pass rename-io does it for inputs and outputs in a pipeline, where it is verified.

\b
Examples:
  onnx-passes rename model.onnx -o out.onnx input.1=image 1234=logits
  onnx-passes rename model.onnx -o out.onnx --node Conv_0=stem
"""


@click.command("rename", help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@click.argument("names", nargs=-1, metavar="OLD=NEW...")
@click.option("--node", "nodes", multiple=True, metavar="OLD=NEW", help="Rename a node.")
@edits
def command(
    model: Path,
    names: tuple[str, ...],
    nodes: tuple[str, ...],
    output: Path,
    as_json: bool,
) -> None:
    """Rename values and nodes."""
    from onnx_passes.surgery.graph_edits import rename

    values, made = pairs(names, "OLD=NEW"), pairs(nodes, "OLD=NEW")
    if not values and not made:
        raise click.UsageError("nothing to rename: give OLD=NEW, or --node OLD=NEW")

    def change(model: ir.Model) -> PlainDict:
        rename(model, values, made)
        return {"values": values, "nodes": made}

    edit(
        model,
        output,
        change,
        lambda done: f"{len(values)} values and {len(made)} nodes renamed",
        as_json=as_json,
    )
