"""``onnx-passes config``: pipeline files."""

from __future__ import annotations

import json

import click

from onnx_passes.cli.common import Family

HELP = """\
Check or print a pipeline file, or print the JSON Schema of all of them.

\b
Examples:
  onnx-passes config show optimize > pipeline.yaml
  onnx-passes config check optimize --set verify.memory_limit=2GiB
  onnx-passes config schema > onnx-passes.schema.json
"""
_CHECK = """\
Check each FILE (or shipped pipeline), and print the pipeline that results from it.

\b
Examples:
  onnx-passes config check pipeline.yaml
  onnx-passes config check optimize
"""
_SHOW = """\
Print FILE (or a shipped pipeline) as YAML, with what it extends: a file to begin from.

\b
Examples:
  onnx-passes config show optimize > pipeline.yaml
  onnx-passes config show pipeline.yaml --set verify.scope=model
"""
_SCHEMA = """\
Print the JSON Schema of pipeline files, so that editors complete them.

\b
Examples:
  onnx-passes config schema > onnx-passes.schema.json
  onnx-passes config schema -c pipeline.yaml
"""


_set = click.option(
    "-s", "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key."
)


@click.group("config", cls=Family, help=HELP, no_args_is_help=True)
def command() -> None:
    """Check or print a pipeline file, or print the JSON Schema of all of them."""


@command.command("check", help=_CHECK)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@_set
def check(files: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """Check FILE (or a shipped pipeline), and print the pipeline that results from it."""
    from onnx_passes.configs.engine_configs import resolve_engines
    from onnx_passes.configs.pipeline_files import load_config
    from onnx_passes.configs.resolve import format_pipeline, resolve

    for file in files:
        config = load_config(file, overrides)
        pipeline = resolve(config)
        resolve_engines(config)
        click.echo(format_pipeline(pipeline))


@command.command("show", help=_SHOW)
@click.argument("file")
@_set
def show(file: str, overrides: tuple[str, ...]) -> None:
    """Print a pipeline file, or a shipped pipeline, as YAML."""
    from onnx_passes.configs.pipeline_files import load_config
    from onnx_passes.configs.steps import format_file

    data = dict(load_config(file, overrides).tree.data)
    data.pop("extends", None)  # it is all there
    click.echo("\n".join(format_file(data)))


@command.command("schema", help=_SCHEMA)
@click.option("-c", "--config", help="Pipeline file whose passes are offered as well.")
def schema(config: str | None) -> None:
    """Print the JSON Schema of pipeline files, so that editors complete them."""
    from onnx_passes.cli.pass_descriptions import import_from
    from onnx_passes.configs.json_schema import json_schema

    import_from(config)
    click.echo(json.dumps(json_schema(), indent=2))
