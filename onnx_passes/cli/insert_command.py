"""``onnx-passes insert``: replace a part by one node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import edit, edits, pairs, path
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    import onnx_ir as ir

HELP = """\
Replace what computes some values of MODEL from others by one node. The old nodes are removed
unless something else reads them. Not verified: compare the two models.

\b
Examples:
  onnx-passes insert m.onnx -o out.onnx --op Clip --inputs x,a,b --outputs y
  onnx-passes insert m.onnx -o o.onnx --op my::Fast --inputs x --outputs y k=1
"""


@click.command("insert", help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@click.argument("attributes", nargs=-1, metavar="[ATTRIBUTE=VALUE]...")
@click.option("--op", required=True, metavar="OP", help="Operator, or domain::Operator.")
@click.option("--inputs", default="", metavar="A,B", help="Values that it reads.")
@click.option("--outputs", required=True, metavar="A,B", help="Values that it computes.")
@click.option("--name", help="Name of the node.")
@edits
def command(
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
    given = {key: _value(text) for key, text in pairs(attributes, "ATTRIBUTE=VALUE").items()}

    def change(model: ir.Model) -> PlainDict:
        before = model.graph.num_nodes()
        reads, computes = ([n for n in text.split(",") if text] for text in (inputs, outputs))
        insert(model, op_type, reads, computes, given, domain=domain, name=name)
        return {"op": op, "removed": before + 1 - model.graph.num_nodes()}

    edit(
        model,
        output,
        change,
        lambda done: f"{op} replaces {plural(done['removed'], 'node')}",
        as_json=as_json,
    )


def _value(text: str) -> Plain:
    """Read numbers and lists as JSON has them; the rest is text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
