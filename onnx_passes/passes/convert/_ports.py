"""Edits at the boundary of a model: its inputs and outputs, and the nodes beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.errors import PassError
from onnx_passes.model.walk import all_graphs, graphs_within
from onnx_passes.passes.common.graph_edits import QUANTIZATION, own_values
from onnx_passes.passes.options import did_you_mean
from onnx_passes.passes.replace import Namer


def find(
    values: Sequence[ir.Value], names: Iterable[str], pass_: str, word: str
) -> list[ir.Value]:
    """Return the inputs or outputs of the given names.

    Args:
        values: All inputs, or all outputs.
        names: Names of those that are wanted.
        pass_: Name of the pass, for the message.
        word: "input" or "output", for the message.

    Raises:
        PassError: The model has none of that name.
    """
    known = {value.name or "": value for value in values}
    for name in names:
        if name not in known:
            raise PassError(
                f"{pass_}: the model has no {word} {name!r}",
                help=did_you_mean(name, known, f"its {word}s are: {', '.join(known)}"),
            )
    return [known[name] for name in names]


def refuse_pass_through(model: ir.Model, value: ir.Value, pass_: str) -> None:
    """Refuse what cannot have a node at its boundary.

    Args:
        model: The model.
        value: The input or output.
        pass_: Name of the pass, for the message.

    Raises:
        PassError: The value is an input and an output at once, or an input with a default.
    """
    if value.is_graph_input() and value.is_graph_output():
        raise PassError(
            f"{pass_}: {value.name!r} is an input and an output at once",
            help="put an Identity between them, which names the output anew",
        )
    if value.is_graph_input() and value.is_initializer():
        raise PassError(
            f"{pass_}: input {value.name!r} has a default value",
            help="remove-initializers-from-inputs makes it a constant",
        )


def put_behind_input(
    model: ir.Model, value: ir.Value, node: ir.Node, namer: Namer
) -> ir.Value:
    """Let a node that reads an input replace it, wherever the input was read.

    Args:
        model: The model.
        value: The input; its name stays, type and shape are the caller's business.
        node: A node with ``value`` as its input, and one output without a name.
        namer: Of the model.

    Returns:
        The node's output, which has the type and shape that the input had.
    """
    inner = node.outputs[0]
    inner.name = namer.value(f"{value.name}_{node.op_type.lower()}")
    node.name = namer.node(inner.name)
    inner.type, inner.shape = value.type, value.shape and value.shape.copy()
    value.replace_all_uses_with(inner)
    node.replace_input_with(0, value)
    first = next(iter(model.graph), None)
    if first is None:
        model.graph.append(node)
    else:
        model.graph.insert_before(first, node)
    return inner


def put_before_output(
    model: ir.Model, value: ir.Value, node: ir.Node, namer: Namer
) -> ir.Value:
    """Let the output of a node take the place and the name of an output of the model.

    Args:
        model: The model.
        value: The output; it stays as an inner value under another name.
        node: A node with ``value`` as its input, and one output without a name.
        namer: Of the model.

    Returns:
        The new output, without type and shape.
    """
    name = value.name or ""
    rename_value(value, namer.value(f"{name}_{node.op_type.lower()}"))
    new = node.outputs[0]
    new.name = name
    new.doc_string = value.doc_string
    node.name = namer.node(new.name)
    model.graph.append(node)
    outputs = model.graph.outputs
    outputs[list(outputs).index(value)] = new
    return new


def rename_ports(
    model: ir.Model, values: Mapping[ir.Value, str], namer: Namer, pass_: str
) -> None:
    """Give inputs and outputs new names; inner values that have them make way.

    Args:
        model: The model.
        values: The new name of each input or output.
        namer: Gives names that are free.
        pass_: Name of the pass, for the message.

    Raises:
        PassError: Two would have one name.
    """
    others = {v.name for v in (*model.graph.inputs, *model.graph.outputs) if v not in values}
    wanted = list(values.values())
    for name in wanted:
        if name in others or wanted.count(name) > 1 or not name:
            raise PassError(
                f"{pass_}: {name!r} cannot name two inputs or outputs, nor be empty"
                if not name or wanted.count(name) > 1
                else f"{pass_}: another input or output is named {name!r} already",
                help="choose names that differ",
            )
    for value in values:
        rename_value(value, namer.value(f"{value.name}_renamed"))
    for graph in all_graphs(model):
        for other in own_values(graph):
            if other.name in wanted:
                rename_value(other, namer.value(other.name))
    for value, name in values.items():
        rename_value(value, name)


def rename_value(value: ir.Value, name: str) -> None:
    """Rename a value, and what quantization annotations call it.

    Args:
        value: The value.
        name: Its new name.
    """
    if value.graph is not None:
        for graph in graphs_within(value.graph):
            for other in own_values(graph):
                noted = other.meta.get(QUANTIZATION) or {}
                for key in [k for k, named in noted.items() if named == value.name]:
                    noted[key] = name
    value.name = name
