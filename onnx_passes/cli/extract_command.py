"""``onnx-passes extract``: a part of a model, cut at values that are named."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE
from onnx_passes.cli.output import check_destinations, echo_line, echo_lines
from onnx_passes.cli.word_syntax import (
    ManyWords,
    Several,
    looks_like_shape,
    read_dtype,
    read_shape,
)
from onnx_passes.errors import UsageError
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.model.extract import Cut

HELP = """\
Extract the part of MODEL that computes the outputs named from the inputs named.

Types and shapes are those of the model or inferred (auto) unless they are given, as in
x:1x3x224x224:float32, or x:[batch,3,224,224]:float32 with names for dynamic dimensions. Values
of subgraphs are cut out of these.

\b
Examples:
  onnx-passes extract model.onnx -o part.onnx --inputs hidden --outputs logits
  onnx-passes extract model.onnx -o part.onnx --outputs hidden:auto --json
"""


@click.command("extract", cls=ManyWords, help=HELP, no_args_is_help=True)
@click.argument("model", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="Where to write the part.")
@click.option(
    "--inputs",
    cls=Several,
    multiple=True,
    metavar="NAME[:SHAPE][:DTYPE|:auto]",
    help="Where to begin; one or several. Default: at the inputs of MODEL.",
)
@click.option(
    "--outputs",
    cls=Several,
    multiple=True,
    metavar="NAME[:SHAPE][:DTYPE|:auto]",
    help="Where to end; one or several. Default: at the outputs of MODEL.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
def command(
    model: Path,
    output: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Cut a part out of a model."""
    from onnx_passes.model.load import load_model
    from onnx_passes.model.save import save_model
    from onnx_passes.surgery.graph_edits import extract, find_unranked

    if output.exists() and model.exists() and output.samefile(model):
        raise UsageError(f"-o {output} is the model itself", help="give another path")
    check_destinations(output, {}, {})
    loaded = load_model(model)
    names = _names(loaded.model)
    starts = [_cut(text, names, "--inputs") for text in inputs]
    ends = [_cut(text, names, "--outputs") for text in outputs]
    part = extract(loaded.model, starts, ends)
    if not len(part.graph):
        raise UsageError(
            "no node lies between these values",
            help="--inputs begin the part, --outputs end it",
        )
    save_model(part, output, source=loaded)
    count = len(part.graph)
    taken = [str(v.name) for v in part.graph.inputs]
    given = [str(v.name) for v in part.graph.outputs]
    echo_lines((f"note: {note}" for note in loaded.notes), err=True)
    for name in find_unranked(part):
        click.echo(
            f"note: the shape of {name!r} is not known; to say it write {name}:[batch,4]:auto",
            err=True,
        )
    if as_json:
        summary = {
            "nodes": count,
            "inputs": taken,
            "outputs": given,
            "written": {"model": str(output)},
        }
        click.echo(json.dumps(summary, indent=2))
        return
    whence = ", ".join(taken) or "no inputs"
    echo_line(f"{plural(count, 'node')} from {whence} to {', '.join(given)}")
    echo_line(f"model:   {output}")


def _names(model: ir.Model) -> set[str]:
    from onnx_passes.model.walk import all_graphs

    found = {str(v.name) for graph in all_graphs(model) for n in graph for v in n.outputs}
    for graph in all_graphs(model):
        found.update(str(value.name) for value in graph.inputs)
    return found


def _cut(text: str, names: set[str], option: str) -> Cut:
    """Read ``name[:auto]``, ``name:dtype`` or ``name:shape:dtype``; names have colons."""
    from onnx_passes.model.extract import Cut

    name, parts = text, list[str]()
    while name not in names and ":" in name and len(parts) < 2:
        name, _, last = name.rpartition(":")
        parts.insert(0, last)
    if name not in names:
        # A value that does not exist is reported when the model is cut.
        return Cut(_PART.sub("", text))
    shape, dtype = None, None
    if len(parts) == 2 or (parts and looks_like_shape(parts[0])):
        shape = parts.pop(0)
    if parts:
        dtype = parts[0]
    return Cut(
        name,
        None if dtype in (None, "auto") else read_dtype(dtype, text, option),
        None if shape in (None, "auto") else read_shape(shape, text, option),
    )


_PART = re.compile(r"(:(auto|\[[^\[\]]*\]|\d+x[\dx]*|[a-z]+\d+\w*)){1,2}$")
"""What is not part of a name, most likely."""
