"""Commands that edit a model.

They are sanitize, extract, insert, rename, strip-weights and restore-weights.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, edit, edits, file, flag, option, pairs, several
from onnx_passes.cli.output import check_destinations, echo_line, echo_lines
from onnx_passes.cli.word_syntax import (
    ManyWords,
    Several,
    looks_like_shape,
    read_dtype,
    read_named_shape,
    read_shape,
)
from onnx_passes.errors import UsageError
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.model.extract import Cut


@click.command("sanitize", cls=ManyWords, no_args_is_help=True)
@click.argument("model", type=FILE)
@file("-o --output", "Where to write the model.", required=True)
@flag("--fold-constants", "Compute what depends on no input.")
@flag("--cleanup", "Remove what nothing reads.")
@flag("--toposort", "Sort the nodes topologically.")
@several(
    "--override-input-shapes shapes NAME:SHAPE...",
    "x:1x3x224x224, or x:[batch,3,224,224].",
    cls=Several,
)
@several("--outputs NAME...", "End at these values.", cls=Several)
@several(
    "--set-upper-bound bounds NAME:BOUND...",
    "Bound a computed size, as TensorRT requires.",
    cls=Several,
)
@flag("--no-verify", "Check nothing. The report says so.")
@file("--json json_path FILE", "Write the report.")
@option("-v --verbose", "Print more.", count=True)
@flag("-q --quiet", "Print errors only.")
def sanitize_command(
    model: Path,
    output: Path,
    fold_constants: bool,
    cleanup: bool,
    toposort: bool,
    shapes: tuple[str, ...],
    outputs: tuple[str, ...],
    bounds: tuple[str, ...],
    no_verify: bool,
    json_path: Path | None,
    verbose: int,
    quiet: bool,
) -> None:
    """Tidy MODEL: shorthand for passes, each verified.

    Changes of the interface are made first, and the passes are verified against the model with
    that interface. Shapes are written as extract has them: x:1x3x224x224, or
    x:[batch,3,224,224] with names for dynamic dimensions.

    Examples:
      onnx-passes sanitize model.onnx -o out.onnx --fold-constants --cleanup
      onnx-passes sanitize m.onnx -o out.onnx --override-input-shapes x:1x3x8x8
    """
    from onnx_passes.cli.run_command import execute
    from onnx_passes.configs.pipeline_files import default_config
    from onnx_passes.model.load import load_model
    from onnx_passes.surgery.sanitizing import check_runs, prepare, steps_of

    wanted = dict(read_named_shape(text, "--override-input-shapes") for text in shapes)
    limits = dict(map(_read_bound, bounds))
    steps = steps_of(fold_constants=fold_constants, cleanup=cleanup, toposort=toposort)
    loaded = load_model(model)
    if not (steps or wanted or limits or outputs or loaded.notes):
        # What the loader had to repair is written as it is; else nothing is left to do.
        raise click.UsageError("nothing to do: give --fold-constants, --cleanup or another")
    if json_path is not None and str(json_path).startswith("-"):
        raise click.UsageError(f"--json takes a file, and is given {str(json_path)!r}")
    reports = {"--json": json_path}
    check_destinations(output, reports, {"the model": [loaded.path]})
    settings = default_config(["verify=false"] if no_verify else [], steps)
    before = _contents(loaded.model)
    changed = prepare(loaded.model, wanted, outputs, limits)
    told = [*loaded.notes, *_changes(before, _contents(changed))]
    prepared = dataclasses.replace(loaded, model=changed, notes=told)
    if wanted and not no_verify:
        check_runs(changed)
    places = {"--json": json_path, "--html": None, "--junit": None}
    run = execute(prepared, settings, str(model), output, places, -1 if quiet else verbose)
    raise click.exceptions.Exit(run.report.exit_code)


def _contents(model: ir.Model) -> dict[str, str]:
    """Return what a change of the interface may change, as a reader sees it."""
    from onnx_passes.model.walk import all_nodes

    sides = {"input": model.graph.inputs, "output": model.graph.outputs}
    ports = {
        f"{side} {value.name}": "?" if value.shape is None else f"{value.shape}"
        for side, values in sides.items()
        for value in values
    }
    return {**ports, "nodes": f"{sum(1 for _ in all_nodes(model))}"}


def _changes(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for port in {**before, **after}:
        old, new = before.get(port, "none"), after.get(port, "none")
        if old != new:
            yield f"{port}: {old} -> {new}, as asked for"


def _read_bound(text: str) -> tuple[str, float]:
    option = f"--set-upper-bound {text!r}"
    name, sign, bound = text.rpartition(":")
    if not (sign and name):
        raise UsageError(f"{option} has no ':'", help="write NAME:100")
    try:
        return name, int(bound) if bound.lstrip("-").isdigit() else float(bound)
    except ValueError as error:
        raise UsageError(
            f"{option}: {bound!r} is not a number", help="write NAME:100"
        ) from error


@click.command("extract", cls=ManyWords, no_args_is_help=True)
@click.argument("model", type=FILE)
@file("-o --output", "Where to write the part.", required=True)
@several(
    "--inputs NAME[:SHAPE][:DTYPE|:auto]",
    "Where to begin; one or several. Default: at the inputs of MODEL.",
    cls=Several,
)
@several(
    "--outputs NAME[:SHAPE][:DTYPE|:auto]",
    "Where to end; one or several. Default: at the outputs of MODEL.",
    cls=Several,
)
@flag("--json as_json", "Print JSON, or write it to FILE.")
def extract_command(
    model: Path, output: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], as_json: bool
) -> None:
    """Extract the part of MODEL that computes the outputs named from the inputs named.

    Types and shapes are those of the model or inferred (auto) unless they are given, as in
    x:1x3x224x224:float32, or x:[batch,3,224,224]:float32 with names for dynamic dimensions.
    Values of subgraphs are cut out of these.

    Examples:
      onnx-passes extract model.onnx -o part.onnx --inputs hidden --outputs logits
      onnx-passes extract model.onnx -o part.onnx --outputs hidden:auto --json
    """
    from onnx_passes.model.load import load_model
    from onnx_passes.model.save import save_model
    from onnx_passes.surgery.graph_edits import extract, find_unranked

    if output.exists() and model.exists() and output.samefile(model):
        raise UsageError(f"-o {output} is the model itself", help="give another path")
    check_destinations(output, {}, {"the model": []})
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


@click.command("insert", no_args_is_help=True)
@click.argument("model", type=FILE)
@click.argument("attributes", nargs=-1, metavar="[ATTRIBUTE=VALUE]...")
@option("--op OP", "Operator, or domain::Operator.", required=True)
@option("--inputs A,B", "Values that it reads.", default="")
@option("--outputs A,B", "Values that it computes.", required=True)
@option("--name", "Name of the node.")
@edits
def insert_command(
    model: Path,
    attributes: tuple[str, ...],
    op: str,
    inputs: str,
    outputs: str,
    name: str | None,
    output: Path,
    as_json: bool,
) -> None:
    """Replace what computes some values of MODEL from others by one node.

    The old nodes are removed unless something else reads them. Not verified: compare the two
    models.

    Examples:
      onnx-passes insert m.onnx -o out.onnx --op Clip --inputs x,a,b --outputs y
      onnx-passes insert m.onnx -o o.onnx --op my::Fast --inputs x --outputs y k=1
    """
    from onnx_passes.surgery.graph_edits import insert

    domain, _, op_type = op.rpartition("::")
    given = {
        key: _attribute_value(text)
        for key, text in pairs(attributes, "ATTRIBUTE=VALUE").items()
    }

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        before = model.graph.num_nodes()
        reads, computes = ([n for n in text.split(",") if text] for text in (inputs, outputs))
        insert(model, op_type, reads, computes, given, domain=domain, name=name)
        removed = before + 1 - model.graph.num_nodes()
        done = {"op": op, "removed": removed}
        return done, f"{op} replaces {plural(removed, 'node')}"

    edit(model, output, change, as_json=as_json)


def _attribute_value(text: str) -> Plain:
    """Read numbers and lists as JSON has them; the rest is text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@click.command("rename", no_args_is_help=True)
@click.argument("model", type=FILE)
@click.argument("names", nargs=-1, metavar="OLD=NEW...")
@several("--node nodes OLD=NEW", "Rename a node.")
@edits
def rename_command(
    model: Path, names: tuple[str, ...], nodes: tuple[str, ...], output: Path, as_json: bool
) -> None:
    """Give values of MODEL other names, and nodes with --node. Two names may change places.

    The pass rename-io does it for inputs and outputs in a pipeline, where it is verified.

    Examples:
      onnx-passes rename model.onnx -o out.onnx input.1=image 1234=logits
      onnx-passes rename model.onnx -o out.onnx --node Conv_0=stem
    """
    from onnx_passes.surgery.graph_edits import rename

    values, made = pairs(names, "OLD=NEW"), pairs(nodes, "OLD=NEW")
    if not values and not made:
        raise click.UsageError("nothing to rename: give OLD=NEW, or --node OLD=NEW")

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        rename(model, values, made)
        told = f"{plural(len(values), 'value')} and {plural(len(made), 'node')} renamed"
        return {"values": values, "nodes": made}, told

    edit(model, output, change, as_json=as_json)


@click.command("strip-weights", no_args_is_help=True)
@click.argument("model", type=FILE)
@edits
def strip_weights_command(model: Path, output: Path, as_json: bool) -> None:
    """Remove the weights of MODEL.

    Each becomes a ConstantOfShape of its mean, so that the result is small, valid and can be
    run; its metadata notes what restore-weights needs.

    Examples:
      onnx-passes strip-weights model.onnx -o stripped.onnx
    """
    from onnx_passes.surgery.weights import LEAST, large_tensors, strip_weights

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        stripped, left = strip_weights(model), large_tensors(model)
        found = {"stripped": stripped, "left": left}
        told = f"{plural(len(stripped), 'weight')} removed"
        if left:
            told += (
                f"\nwarning: {plural(len(left), 'tensor')} of {LEAST} bytes or more stay in "
                "the file, as callers may override them, or for their type: "
                + ", ".join(left[:5])
            )
        return found, told

    edit(model, output, change, as_json=as_json)


@click.command("restore-weights", no_args_is_help=True)
@click.argument("model", type=FILE)
@file("--from source", "The model that was stripped.")
@option("--random seed SEED", "Draw random weights.", type=int)
@edits
def restore_weights_command(
    model: Path, source: Path | None, seed: int | None, output: Path, as_json: bool
) -> None:
    """Put weights into MODEL, which strip-weights made.

    They are those of the original, checked by their digests, or random ones of the same mean,
    deviation and range.

    Examples:
      onnx-passes restore-weights stripped.onnx -o model.onnx --from original.onnx
      onnx-passes restore-weights stripped.onnx -o model.onnx --random 0
    """
    from onnx_passes.model.load import load_model
    from onnx_passes.surgery.weights import restore_weights

    if (source is None) == (seed is None):
        raise click.UsageError("give either --from MODEL or --random SEED")

    def change(model: ir.Model) -> tuple[PlainDict, str]:
        held = None if source is None else load_model(source).model
        restored = restore_weights(model, held, seed=seed or 0)
        return {"restored": restored}, f"{plural(len(restored), 'weight')} put back"

    read = [] if source is None else [source]
    edit(model, output, change, as_json=as_json, read=read)
