"""``onnx-passes extract``: a part of a model, cut at values that are named."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.destinations import check_destinations
from onnx_passes.errors import UsageError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.graph.extract import Cut
    from onnx_passes.runtime.base import Array

HELP = """\
Cut a part out of MODEL: what computes the outputs named from the inputs named.

Types and shapes are those of the model or inferred (auto) unless they are given, as in
x:1x3x224x224:float32 or x:[batch,3,224,224]:float32. Values of subgraphs are cut out of these.

\b
Exit codes:
  0  the part is written
  2  bad usage: no such value, or a cut that leaves inputs or outputs unconnected
  3  the model cannot be read or written, or does not run

\b
Examples:
  onnx-passes extract model.onnx -o part.onnx --inputs /conv1/Conv_output_0 --outputs logits
  onnx-passes extract model.onnx -o part.onnx --outputs hidden:float32 --with-data inputs.npz
"""
_path = click.Path(path_type=Path)


@click.command("extract", help=HELP, no_args_is_help=True)
@click.argument("model", type=_path)
@click.option("-o", "--output", type=_path, required=True, help="Where to write the part.")
@click.option(
    "--inputs",
    multiple=True,
    metavar="NAME[:SHAPE:DTYPE|:auto]",
    help="Where to begin; repeat for several. Default: at the inputs of MODEL.",
)
@click.option(
    "--outputs",
    multiple=True,
    metavar="NAME[:DTYPE|:auto]",
    help="Where to end; repeat for several. Default: at the outputs of MODEL.",
)
@click.option(
    "--with-data",
    metavar="FILE",
    help="Run MODEL on these inputs, and save what the part is fed and gives beside it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--debug", is_flag=True, hidden=True)
def command(
    model: Path,
    output: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    with_data: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Cut a part out of a model."""
    del debug  # read by the program itself
    from onnx_passes.graph.extract import extract
    from onnx_passes.io.load import load_model
    from onnx_passes.io.save import save_model
    from onnx_passes.passes.annotation.shape_inference import infer_shapes

    if output.exists() and model.exists() and output.samefile(model):
        raise UsageError(f"-o {output} is the model itself", help="give another path")
    check_destinations(output, {}, {"the data": [Path(with_data)] if with_data else []})
    loaded = load_model(model)
    infer_shapes(loaded.model)
    names = _names(loaded.model)
    part = extract(
        loaded.model,
        [_cut(text, names, "--inputs") for text in inputs],
        [_cut(text, names, "--outputs") for text in outputs],
    )
    data = _boundary(loaded.model, part, with_data) if with_data else {}
    written = {"model": str(output)}
    save_model(part, output, source=loaded)
    from onnx_passes.verify.saved import write_samples

    for what, values in data.items():
        path = output.with_name(f"{output.stem}-{what}.npz")
        write_samples(path, [values], kind="feeds" if what == "inputs" else "results")
        written[what] = str(path)
    count = len(part.graph)
    starts = [str(v.name) for v in part.graph.inputs]
    ends = [str(v.name) for v in part.graph.outputs]
    if as_json:
        told = {"nodes": count, "inputs": starts, "outputs": ends, "written": written}
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(f"{count} nodes from {', '.join(starts) or 'no inputs'} to {', '.join(ends)}")
    for what, place in written.items():
        click.echo(f"{what + ':':9s}{place}")


def _names(model: ir.Model) -> set[str]:
    from onnx_passes.graph.walk import all_graphs

    found = {str(v.name) for graph in all_graphs(model) for n in graph for v in n.outputs}
    for graph in all_graphs(model):
        found.update(str(value.name) for value in graph.inputs)
    return found


def _cut(text: str, names: set[str], option: str) -> Cut:
    """Read ``name``, ``name:auto``, ``name:dtype`` or ``name:shape:dtype``; names have colons.

    Raises:
        UsageError: The text is none of these.
    """
    from onnx_passes.graph.extract import Cut

    if text in names:
        return Cut(text)
    name, _, last = text.rpartition(":")
    if not name:
        return Cut(text)
    if last == "auto":
        return _cut(name, names, option) if name not in names else Cut(name)
    if name in names and _is_shape(last):
        return Cut(name, None, _shape(last, text, option))
    dtype = _dtype(last, text, option)
    if name in names:
        return Cut(name, dtype)
    name, _, shape = name.rpartition(":")
    if not name:
        return Cut(shape, dtype)
    return Cut(name, dtype, None if shape == "auto" else _shape(shape, text, option))


def _is_shape(text: str) -> bool:
    return bool(re.fullmatch(r"\[.*\]|\d+([x,]\d+)*", text))


def _shape(text: str, whole: str, option: str) -> tuple[int | str, ...]:
    if not re.fullmatch(r"\[[^\[\]]*\]|\d+([x,][^x,\[\]]+)*", text):
        raise UsageError(
            f"{option} {whole!r}: {text!r} is no shape",
            help="write 1x3x224x224, or [batch,3,224,224]",
        )
    inner = text.strip("[]")
    dims = re.split(",", inner) if text.startswith("[") else re.split("[x,]", inner)
    return tuple(int(d) if d.strip().isdigit() else d.strip() for d in dims if d.strip())


def _dtype(text: str, whole: str, option: str) -> ir.DataType:
    import onnx_ir as ir

    from onnx_passes.runtime.interface import did_you_mean

    known = {
        (d.name.lower() if d is not ir.DataType.FLOAT else "float32"): d
        for d in ir.DataType
        if d is not ir.DataType.UNDEFINED
    }
    known |= {"float64": ir.DataType.DOUBLE, "float": ir.DataType.FLOAT}
    if text.lower() not in known:
        raise UsageError(
            f"{option} {whole!r}: {text!r} is no element type",
            help=did_you_mean(text, known),
        )
    return known[text.lower()]


def _boundary(model: ir.Model, part: ir.Model, path: str) -> dict[str, dict[str, Array]]:
    from onnx_passes.errors import EngineError, ReferenceDataError
    from onnx_passes.runtime.ort import OnnxRuntimeEngine
    from onnx_passes.verify.recording import value_names
    from onnx_passes.verify.reduce import Boundary
    from onnx_passes.verify.saved import read_samples

    known = set(value_names(model))
    samples = read_samples(path)
    given = {k: v for k, v in (samples[0] if samples else {}).items() if k in known}
    needed = [str(v.name) for v in model.graph.inputs if not v.is_initializer()]
    if missing := [name for name in needed if name not in given]:
        raise ReferenceDataError(
            f"the file holds no value of the input {missing[0]!r}",
            where=path,
            help="onnx-passes data show FILE lists what it holds",
        )
    boundary = Boundary(model, OnnxRuntimeEngine(), given)
    found: dict[str, dict[str, Array]] = {"inputs": {}, "outputs": {}}
    for what, values in (("inputs", part.graph.inputs), ("outputs", part.graph.outputs)):
        for value in values:
            array = boundary.value(str(value.name))
            if array is None:
                raise EngineError(
                    f"the value {value.name!r} cannot be recorded: "
                    f"{boundary.why or 'it is inside a subgraph, or no tensor'}",
                    help="leave --with-data out",
                )
            found[what][str(value.name)] = array
    return found
