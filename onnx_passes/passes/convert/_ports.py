"""Edits at the boundary of a model: its inputs and outputs, and the nodes beside them."""

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.errors import PassError
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes.common.graph_edits import own_values, rename_value
from onnx_passes.passes.options import did_you_mean
from onnx_passes.passes.replace import Namer


def find(
    values: Sequence[ir.Value], names: Iterable[str], pass_: str, word: str
) -> list[ir.Value]:
    """Return the inputs or outputs of the given names.

    ``word`` is "input" or "output", for the PassError about a name that the model does not
    have.
    """
    known = {value.name or "": value for value in values}
    for name in names:
        if name not in known:
            raise PassError(
                f"{pass_}: the model has no {word} {name!r}",
                help=did_you_mean(name, known, f"its {word}s are: {', '.join(known)}"),
            )
    return [known[name] for name in names]


def refuse_pass_through(value: ir.Value, pass_: str, *, both: bool = False) -> None:
    """Refuse what cannot have a node at its boundary.

    The PassError is about an input that is an output too, but for one that changes as ``both``
    alike, or has a default.
    """
    if value.is_graph_input() and value.is_graph_output() and not both:
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

    The node reads ``value`` and has one output without a name, which gets the type and shape
    that the input had. Those of the input are up to the caller.
    """
    inner = node.outputs[0]
    inner.name = namer.value(f"{value.name}_{node.op_type.lower()}")
    node.name = namer.node(inner.name)
    inner.type, inner.shape = value.type, value.shape and value.shape.copy()
    for user, index in value.uses():
        user.replace_input_with(index, inner)
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

    The node reads ``value``, which stays as an inner value under another name, and has one
    output without a name. Returns that, without type and shape.
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

    A PassError says that two would have one name.
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
