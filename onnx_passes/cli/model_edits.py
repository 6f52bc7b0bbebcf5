"""What commands share that read a model, change it, and write it elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from onnx_passes.cli.destinations import check_destinations
from onnx_passes.cli.printing import echo_line
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    import onnx_ir as ir

Command: TypeAlias = Callable[..., object]

path = click.Path(path_type=Path)


def edits(command: Command) -> Command:
    """Give a command the argument and the options that all of them have."""
    for option in (
        click.option(
            "--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE."
        ),
        click.option(
            "-o", "--output", type=path, required=True, help="Where to write the model."
        ),
    ):
        command = option(command)
    return command


def edit(
    model: Path,
    output: Path,
    change: Callable[[ir.Model], PlainDict],
    says: Callable[[PlainDict], str],
    *,
    as_json: bool,
    read: Sequence[Path] = (),
) -> None:
    """Read a model, change it, write it, and print what was done.

    Args:
        model: Where it is.
        output: Where the result goes.
        change: Changes the model in place, and returns what there is to print.
        says: Puts that into a sentence.
        as_json: Whether to print it as JSON instead.
        read: Other files that are read.

    Raises:
        OnnxPassesError: The model cannot be read, changed, or written.
    """
    from onnx_passes.model.load import load_model
    from onnx_passes.model.save import save_model

    check_destinations(output, {}, {"the model": [model], "another model": list(read)})
    loaded = load_model(model)
    done = change(loaded.model)
    files = save_model(loaded.model, output, source=loaded)
    done["written"] = [str(file) for file in files]
    if as_json:
        click.echo(json.dumps(done, indent=2))
        return
    for line in (*says(done).split("\n"), str(files[-1])):
        echo_line(line)


def pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """Read ``OLD=NEW`` texts.

    Args:
        texts: Values of one option.
        what: The form that is expected, for messages.

    Raises:
        UsageError: A text is not of this form.
    """
    found: dict[str, str] = {}
    for text in texts:
        one, sign, other = text.partition("=")
        if not (one and sign):
            raise UsageError(f"{text!r} is not in the form {what}")
        if one in found:
            raise UsageError(f"{one!r} is given twice")
        found[one] = other
    return found
