"""``onnx-passes lint``: everything that is wrong about a model, in one run."""

from __future__ import annotations

import json

import click

from onnx_passes.cli.output import echo_line
from onnx_passes.report.text import plural

HELP = """\
List all that is wrong, or looks wrong, about MODEL: the checker's findings, nodes that ONNX
Runtime does not load by themselves, unused inputs, NaN weights, dynamic shapes.

\b
Examples:
  onnx-passes lint model.onnx
  onnx-passes lint model.onnx --sarif > model.sarif
"""


@click.command("lint", help=HELP, no_args_is_help=True)
@click.argument("model")
@click.option("--no-engine", is_flag=True, help="Do not load nodes with ONNX Runtime.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0.")
def command(model: str, no_engine: bool, as_json: bool, as_sarif: bool) -> None:
    """List all that is wrong about a model."""
    from onnx_passes.model.load import load_model
    from onnx_passes.runtime.ort import OnnxRuntimeEngine
    from onnx_passes.verify.validity import lint, sarif

    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif are two forms: give one")
    found = lint(load_model(model).model, None if no_engine else OnnxRuntimeEngine())
    errors = sum(finding.severity == "error" for finding in found)
    if as_sarif:
        click.echo(json.dumps(sarif(found, model), indent=2))
    elif as_json:
        click.echo(json.dumps([finding.as_dict() for finding in found], indent=2))
    else:
        for each in found:
            colour = "red" if each.severity == "error" else "yellow"
            echo_line(f"{each.severity}[{each.rule}]: {each.message}", color=colour)
        warnings = plural(len(found) - errors, "warning")
        click.echo(f"{plural(errors, 'error')}, {warnings}")
    raise click.exceptions.Exit(1 if errors else 0)
