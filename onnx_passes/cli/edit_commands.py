"""Commands that edit a model.

These are insert, rename, strip-weights and restore-weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, edit, edits, pairs
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    import onnx_ir as ir


INSERT_HELP = """\
Replace what computes some values of MODEL from others by one node. The old nodes are removed
unless something else reads them. Not verified: compare the two models.

\b
Examples:
  onnx-passes insert m.onnx -o out.onnx --op Clip --inputs x,a,b --outputs y
  onnx-passes insert m.onnx -o o.onnx --op my::Fast --inputs x --outputs y k=1
"""


@click.command("insert", help=INSERT_HELP, no_args_is_help=True)
@click.argument("model", type=FILE)
@click.argument("attributes", nargs=-1, metavar="[ATTRIBUTE=VALUE]...")
@click.option("--op", required=True, metavar="OP", help="Operator, or domain::Operator.")
@click.option("--inputs", default="", metavar="A,B", help="Values that it reads.")
@click.option("--outputs", required=True, metavar="A,B", help="Values that it computes.")
@click.option("--name", help="Name of the node.")
@edits
def insert_command(
    model: Path,
    attributes: tuple[str, ...],
    op: str,
    inputs: str,
    outputs: str,
    name: str | None,
    output: Path,
    as_json: bool,
) -> None:
    """Insert a node."""
    from onnx_passes.surgery.graph_edits import insert

    domain, _, op_type = op.rpartition("::")
    given = {
        key: _attribute_value(text)
        for key, text in pairs(attributes, "ATTRIBUTE=VALUE").items()
    }

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        before = model.graph.num_nodes()
        reads, computes = ([n for n in text.split(",") if text] for text in (inputs, outputs))
        insert(model, op_type, reads, computes, given, domain=domain, name=name)
        removed = before + 1 - model.graph.num_nodes()
        done = {"op": op, "removed": removed}
        return done, f"{op} replaces {plural(removed, 'node')}"

    edit(model, output, change, as_json=as_json)


def _attribute_value(text: str) -> Plain:
    """Read numbers and lists as JSON has them; the rest is text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


RENAME_HELP = """\
Give values of MODEL other names, and nodes with --node. Two names may change places.

The pass rename-io does it for inputs and outputs in a pipeline, where it is verified.

\b
Examples:
  onnx-passes rename model.onnx -o out.onnx input.1=image 1234=logits
  onnx-passes rename model.onnx -o out.onnx --node Conv_0=stem
"""


@click.command("rename", help=RENAME_HELP, no_args_is_help=True)
@click.argument("model", type=FILE)
@click.argument("names", nargs=-1, metavar="OLD=NEW...")
@click.option("--node", "nodes", multiple=True, metavar="OLD=NEW", help="Rename a node.")
@edits
def rename_command(
    model: Path, names: tuple[str, ...], nodes: tuple[str, ...], output: Path, as_json: bool
) -> None:
    """Rename values and nodes."""
    from onnx_passes.surgery.graph_edits import rename

    values, made = pairs(names, "OLD=NEW"), pairs(nodes, "OLD=NEW")
    if not values and not made:
        raise click.UsageError("nothing to rename: give OLD=NEW, or --node OLD=NEW")

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        rename(model, values, made)
        told = f"{len(values)} values and {len(made)} nodes renamed"
        return {"values": values, "nodes": made}, told

    edit(model, output, change, as_json=as_json)


STRIP_WEIGHTS_HELP = """\
Remove the weights of MODEL. Each becomes a ConstantOfShape of its mean, so that the result
is small, valid and can be run; its metadata notes what restore-weights needs.

\b
Examples:
  onnx-passes strip-weights model.onnx -o stripped.onnx
  onnx-passes strip-weights model.onnx -o stripped.onnx --least 65536
"""


@click.command("strip-weights", help=STRIP_WEIGHTS_HELP, no_args_is_help=True)
@click.argument("model", type=FILE)
@click.option(
    "--least",
    type=click.IntRange(min=0),
    metavar="BYTES",
    help="Leave smaller weights. Default: 1024.",
)
@edits
def strip_weights_command(model: Path, least: int | None, output: Path, as_json: bool) -> None:
    """Take the weights out."""
    from onnx_passes.surgery.weights import LEAST, large_tensors, strip_weights

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        size = LEAST if least is None else least
        stripped, left = strip_weights(model, size), large_tensors(model, size)
        found = {"stripped": stripped, "left": left}
        told = f"{len(stripped)} weights removed"
        if left:
            told += (
                f"\nwarning: {plural(len(left), 'tensor')} of {size} bytes or more stay in "
                "the file, as callers may override them, or for their type: "
                + ", ".join(left[:5])
            )
        return found, told

    edit(model, output, change, as_json=as_json)


RESTORE_WEIGHTS_HELP = """\
Put weights into MODEL, which strip-weights made: those of the original, checked by their
digests, or random ones of the same mean, deviation and range.

\b
Examples:
  onnx-passes restore-weights stripped.onnx -o model.onnx --from original.onnx
  onnx-passes restore-weights stripped.onnx -o model.onnx --random 0
"""


@click.command("restore-weights", help=RESTORE_WEIGHTS_HELP, no_args_is_help=True)
@click.argument("model", type=FILE)
@click.option("--from", "source", type=FILE, help="The model that was stripped.")
@click.option("--random", "seed", type=int, metavar="SEED", help="Draw random weights.")
@edits
def restore_weights_command(
    model: Path, source: Path | None, seed: int | None, output: Path, as_json: bool
) -> None:
    """Put weights back."""
    from onnx_passes.model.load import load_model
    from onnx_passes.surgery.weights import restore_weights

    if (source is None) == (seed is None):
        raise click.UsageError("give either --from MODEL or --random SEED")

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        held = None if source is None else load_model(source).model
        restored = restore_weights(model, held, seed=seed or 0)
        return {"restored": restored}, f"{len(restored)} weights put back"

    read = [] if source is None else [source]
    edit(model, output, change, as_json=as_json, read=read)
