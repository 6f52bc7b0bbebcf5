"""``python -m benchmarks.models transformer out.onnx layers=2``: build one and write it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click
import onnx

from benchmarks import models


def _arguments(name: str, settings: tuple[str, ...]) -> dict[str, Any]:
    """Read ``KEY=VALUE`` as what the builder's defaults are: whole or fractional numbers."""
    parameters = inspect.signature(getattr(models, name)).parameters
    defaults = {key: p.default for key, p in parameters.items() if p.default is not p.empty}
    arguments = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in defaults:
            raise click.UsageError(f"{name} has no {key!r}; it has {', '.join(defaults)}")
        kind = type(defaults[key])
        try:
            arguments[key] = kind(value)
        except ValueError:
            wanted = "whole number" if kind is int else "number"
            raise click.UsageError(f"{key} is a {wanted}, not {value!r}") from None
    return arguments


@click.command()
@click.argument("name", type=click.Choice(models.__all__))
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
def main(name: str, out: Path, settings: tuple[str, ...]) -> None:
    """Build the model NAME and write it to OUT."""
    arguments = _arguments(name, settings)
    model: onnx.ModelProto = getattr(models, name)(**arguments)
    onnx.save(model, out)
    weights = sum(onnx.numpy_helper.to_array(t).size for t in model.graph.initializer)
    click.echo(f"{out}: {len(model.graph.node)} nodes, {weights / 1e6:.1f} million weights")


if __name__ == "__main__":
    main()
