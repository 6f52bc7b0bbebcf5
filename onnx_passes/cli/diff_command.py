"""``onnx-passes diff``: how two models differ, whatever their inner names are."""

from __future__ import annotations

import json

import click

from onnx_passes.cli.output import echo_line
from onnx_passes.report.text import plural

HELP = """\
List how model B differs from model A: nodes, attributes, weights, wiring, interface.

Names of inner values, the order of nodes and annotations do not count.

\b
Examples:
  onnx-passes diff model.onnx optimized.onnx
  onnx-passes diff before.onnx after.onnx --json
"""
_COLOURS = {"added": "green", "removed": "red"}


@click.command("diff", help=HELP, no_args_is_help=True)
@click.argument("a")
@click.argument("b")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
def command(a: str, b: str, as_json: bool) -> None:
    """List how two models differ."""
    from onnx_passes.model.diff import diff
    from onnx_passes.model.load import load_model

    found = diff(load_model(a).model, load_model(b).model)
    if as_json:
        click.echo(
            json.dumps({"equal": not found, "differences": [d.as_dict() for d in found]})
        )
    else:
        for each in found:
            # click drops the colours where the output is not a terminal.
            echo_line(str(each), color=_COLOURS.get(each.kind, "yellow"))
        click.echo(plural(len(found), "difference") if found else "no differences")
    raise click.exceptions.Exit(1 if found else 0)
