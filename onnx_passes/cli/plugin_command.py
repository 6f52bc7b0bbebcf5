"""``onnx-passes plugin``: operators that TensorRT plugins take over."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, Family, edit, edits
from onnx_passes.cli.output import echo_line
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.runtime.tensorrt.bindings import Package
    from onnx_passes.surgery.plugins import Match

_HELP = """\
Find the operators that TensorRT plugins replace, and replace them.

A plugin is a class with a pattern, in a Python file: see the docs on TensorRT.

\b
Examples:
  onnx-passes plugin match model.onnx --plugins my_plugins.py
  onnx-passes plugin replace model.onnx --plugins my_plugins.py -o out.onnx
  onnx-passes plugin list --plugins my_plugins.py
"""
_LIST = """\
List the plugins of Python files, or those that TensorRT has registered.

\b
Examples:
  onnx-passes plugin list --plugins my_plugins.py
  onnx-passes plugin list --engine tensorrt-rtx --library libmyplugins.so
"""
_MATCH = """\
List where plugins would replace nodes of MODEL, with numbers for replace.

\b
Examples:
  onnx-passes plugin match model.onnx --plugins my_plugins.py
  onnx-passes plugin match model.onnx --plugins my_plugins.py --json
"""
_REPLACE = """\
Replace nodes of MODEL by nodes of plugins.

Not verified: only TensorRT, with the library of the plugins, runs the result.

\b
Examples:
  onnx-passes plugin replace model.onnx --plugins my_plugins.py -o out.onnx
  onnx-passes plugin replace m.onnx --plugins mine.py -o out.onnx --only 1,3
"""

_sources = click.option(
    "--plugins",
    "sources",
    multiple=True,
    metavar="FILE|MODULE",
    help="Python file with plugins; its code runs. Repeat for several.",
)


@click.group("plugin", cls=Family, help=_HELP, no_args_is_help=True)
def command() -> None:
    """Work with TensorRT plugins."""


@command.command("list", help=_LIST)
@_sources
@click.option(
    "-e",
    "--engine",
    "package",
    type=click.Choice(["tensorrt-rtx", "tensorrt"]),
    help="List the plugins that this package has registered, in a child process.",
)
@click.option(
    "--library",
    "libraries",
    multiple=True,
    type=FILE,
    help="Library of plugins to load first. Repeat for several.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
def list_plugins(
    sources: tuple[str, ...],
    package: Package | None,
    libraries: tuple[Path, ...],
    as_json: bool,
) -> None:
    """List plugins."""
    if not sources and package is None:
        raise UsageError("there is nothing to list", help="give --plugins, or --engine")
    if libraries and package is None:
        raise UsageError("--library needs --engine", help="--engine tensorrt-rtx")
    done: PlainDict = {"plugins": [], "registered": []}
    if sources:
        from onnx_passes.surgery.plugins import load_plugins

        done["plugins"] = [
            {
                "name": cls.creator,
                "version": cls.version,
                "namespace": cls.namespace,
                "summary": (cls.__doc__ or "").partition("\n")[0],
            }
            for cls in load_plugins(sources)
        ]
    if package is not None:
        from onnx_passes.runtime.tensorrt.parsing import list_creators

        done["registered"] = list_creators(package, [str(file) for file in libraries])
    if as_json:
        click.echo(json.dumps(done, indent=2))
        return
    for one in done["plugins"]:
        echo_line(f"{one['name']} version {one['version']}: {one['summary']}")
    for one in done["registered"]:
        space = f" in {one['namespace']}" if one["namespace"] else ""
        echo_line(f"{one['name']} version {one['version']}{space}, registered")
    if package is not None and not done["registered"]:
        echo_line(f"{package} has no plugins registered")


@command.command("match", help=_MATCH, no_args_is_help=True)
@click.argument("model", type=FILE)
@_sources
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
def match(model: Path, sources: tuple[str, ...], as_json: bool) -> None:
    """List where plugins would replace nodes."""
    from onnx_passes.model.load import load_model
    from onnx_passes.surgery.plugins import find_matches, load_plugins

    plugins = load_plugins(_require(sources))
    found = find_matches(load_model(model).model, plugins)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        _echo(one)
    echo_line(f"{len(found)} places in {model}")


@command.command("replace", help=_REPLACE, no_args_is_help=True)
@click.argument("model", type=FILE)
@_sources
@click.option("--only", metavar="N,...", help="Numbers that match prints. Default: all.")
@edits
def replace(
    model: Path, sources: tuple[str, ...], only: str | None, output: Path, as_json: bool
) -> None:
    """Put plugins in place."""
    from onnx_passes.surgery import plugins as surgery

    plugins, numbers = surgery.load_plugins(_require(sources)), _numbers(only)

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        found = surgery.replace(model, plugins, numbers)
        if not found:
            raise UsageError("no plugin matches anything", help="onnx-passes plugin match")
        told = f"{len(found)} places replaced; not verified: only TensorRT runs plugins"
        return {"verified": False, "replaced": [asdict(one) for one in found]}, told

    edit(model, output, change, as_json=as_json)


def _require(sources: tuple[str, ...]) -> tuple[str, ...]:
    if not sources:
        raise UsageError("there are no plugins", help="give --plugins FILE.py")
    return sources


def _numbers(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError as error:
        raise UsageError(f"--only {text!r} is not a list of numbers", help="1,3") from error


def _echo(one: Match) -> None:
    echo_line(f"{one.number}: {one.plugin} computes {', '.join(one.values)}")
    for node in one.nodes:
        echo_line(f"    - {node}")
    echo_line(f"    + {one.node}")
