"""``onnx-passes completion``: a script by which a shell completes words."""

from __future__ import annotations

import click

from onnx_passes.cli.common import SHELLS, script

HELP = """\
Print the script by which SHELL completes commands, options, pipelines, passes and files.

\b
Examples:
  onnx-passes completion bash \\
    > ~/.local/share/bash-completion/completions/onnx-passes
  onnx-passes completion fish > ~/.config/fish/completions/onnx-passes.fish
"""


@click.command("completion", help=HELP, no_args_is_help=True)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script."""
    click.echo(script(ctx.find_root().command, shell))
