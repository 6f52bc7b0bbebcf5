"""``onnx-passes set-metadata``: what a model says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import edit, edits, pairs, path
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnx_ir as ir

HELP = """\
Set metadata of MODEL, remove it, or name its producer.

\b
Examples:
  onnx-passes set-metadata model.onnx -o out.onnx license=MIT trained=2026
  onnx-passes set-metadata m.onnx -o out.onnx --remove commit --doc "Digits"
"""


@click.command("set-metadata", help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@click.argument("properties", nargs=-1, metavar="KEY=VALUE...")
@click.option("--remove", multiple=True, metavar="KEY", help="Remove a key.")
@click.option("--producer", metavar="NAME", help="The program that made the model.")
@click.option("--doc", metavar="TEXT", help="The model's documentation.")
@edits
def command(
    model: Path,
    properties: tuple[str, ...],
    remove: tuple[str, ...],
    producer: str | None,
    doc: str | None,
    output: Path,
    as_json: bool,
) -> None:
    """Set metadata."""
    from onnx_passes.surgery.graph_edits import set_metadata

    wanted: dict[str, str | None] = {**pairs(properties, "KEY=VALUE"), **dict.fromkeys(remove)}

    if not wanted and producer is None and doc is None:
        raise click.UsageError("nothing to set: give KEY=VALUE, --remove, --producer or --doc")

    def change(model: ir.Model) -> PlainDict:
        set_metadata(model, wanted, producer=producer, doc=doc)
        return {
            "metadata": dict(model.metadata_props),
            "producer": model.producer_name,
            "doc": model.doc_string,
        }

    def says(done: PlainDict) -> str:
        rows = [f"{key}={value}" for key, value in done["metadata"].items()]
        return "\n".join(rows) or "no metadata"

    edit(model, output, change, says, as_json=as_json)
