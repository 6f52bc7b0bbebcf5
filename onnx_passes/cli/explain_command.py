"""``onnx-passes explain``: everything about a pass."""

from __future__ import annotations

import click

from onnx_passes.cli.output import echo_line

HELP = """\
Explain a PASS, or each pass of a group: docstring, options, contract. Print a preset.

\b
Examples:
  onnx-passes explain optimize
  onnx-passes explain fuse-batch-normalization
  onnx-passes explain eliminate
"""


@click.command("explain", help=HELP)
@click.argument("name", metavar="PASS")
@click.option("-c", "--config", help="Pipeline file whose imports are searched as well.")
def command(name: str, config: str | None) -> None:
    """Explain a PASS, or each pass of a group: docstring, options, contract."""
    from onnx_passes.cli.pass_descriptions import explanation, import_from
    from onnx_passes.configs.pipeline_files import shipped_configs, shipped_source
    from onnx_passes.passes.registry import is_known, lookup

    scope = import_from(config)
    if name in shipped_configs() and not is_known(name):
        click.echo(shipped_source(name).text.rstrip())
        return
    for line in "\n\n".join(map(explanation, lookup(name, scope=scope))).splitlines():
        echo_line(line)
