"""Edits of a model that is there, and steps from node to node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes._support.edit import supersede
from onnx_passes.plain import Plain
from onnx_passes.surgery.arguments import as_array, dtype_of
from onnx_passes.surgery.builder import Builder


def producer(of: ir.Node | ir.Value, index: int = 0) -> ir.Node | None:
    """Return the node that computes a value, or the input of a node at a position.

    Args:
        of: The value, or a node.
        index: Which input of a node; negative from the end.

    Raises:
        UsageError: The node has fewer inputs.
    """
    if isinstance(of, ir.Value):
        return of.producer()
    if not -len(of.inputs) <= index < len(of.inputs):
        raise UsageError(f"{of.op_type} {of.name!r} has {len(of.inputs)} inputs")
    value = of.inputs[index]
    return None if value is None else value.producer()


def consumer(of: ir.Node | ir.Value, index: int = 0) -> ir.Node | None:
    """Return one of the nodes that read a value, or the first output of a node.

    They are counted in the order in which they began to read; None if there are fewer.

    Args:
        of: The value, or a node.
        index: Which reader, from 0; negative from the end.
    """
    value = of.outputs[0] if isinstance(of, ir.Node) else of
    readers = list(dict.fromkeys(node for node, _ in value.uses()))
    return readers[index] if -len(readers) <= index < len(readers) else None


def insert_after(
    model: ir.Model, value: ir.Value, layer: Callable[[Builder, ir.Value], ir.Value]
) -> ir.Value:
    """Write something behind a value; what read the value then reads the result.

    An output of the graph keeps its name, and the value gets another.

    Args:
        model: The model, changed in place.
        value: An output of a node, an input or an initializer.
        layer: Gets a builder and the value; returns the result.

    Raises:
        UsageError: The value is both an input and an output of the graph.
    """
    if value.is_graph_output() and value.producer() is None:
        raise UsageError(
            f"{value.name!r} is read from outside under its own name",
            help="add another output instead",
        )
    readers = list(value.uses())
    builder = _behind(model, value)
    new = layer(builder, value)
    for node, index in readers:
        node.replace_input_with(index, new)
    if value.is_graph_output() and new is not value:
        graph = _graph_of(value)
        name, value.name = value.name, builder.name(f"{value.name}_before")
        new.name = name
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = new
    return new


def insert_before(
    model: ir.Model,
    node: ir.Node,
    layer: Callable[[Builder, ir.Value], ir.Value],
    index: int = 0,
) -> ir.Value:
    """Write something in front of an input of a node; other readers do not change.

    Args:
        model: The model, changed in place.
        node: The node.
        layer: Gets a builder and the value that the node reads; returns what it then reads.
        index: Which input.

    Raises:
        UsageError: The node has no such input.
    """
    value = node.inputs[index] if -len(node.inputs) <= index < len(node.inputs) else None
    if value is None:
        raise UsageError(f"{node.op_type} {node.name!r} has no input {index}")
    new = layer(Builder(model).before(node), value)
    node.replace_input_with(index % len(node.inputs), new)
    return new


def replace(
    model: ir.Model, value: ir.Value, layer: Callable[[Builder], ir.Value]
) -> ir.Value:
    """Compute something else where a value was; :func:`cleanup` removes what is left over.

    Args:
        model: The model, changed in place.
        value: An output of a node. If it is one of the graph, its name, type and shape stay.
        layer: Gets a builder in front of that node, and returns what replaces the value.

    Raises:
        UsageError: No node computes the value.
    """
    node = value.producer()
    if node is None:
        raise UsageError(
            f"no node computes {value.name!r}", help="use to_constant or to_variable"
        )
    new = layer(Builder(model).before(node))
    if new is not value:
        supersede(value, new, _count(model))
        value.name = value.name or Builder(model).name(f"{new.name}_replaced")
    return new


def remove(model: ir.Model, node: ir.Node, index: int = 0) -> None:
    """Take a node out; what read its output then reads one of its inputs.

    Args:
        model: The model, changed in place.
        node: A node with one output that is read.
        index: Which input.

    Raises:
        UsageError: It has no such input, several outputs are read, or it is in no graph.
    """
    value = node.inputs[index] if -len(node.inputs) <= index < len(node.inputs) else None
    read = [v for v in node.outputs if v.uses() or v.is_graph_output()]
    if value is None or len(read) > 1:
        why = f"has no input {index}" if value is None else "has several outputs that are read"
        raise UsageError(f"{node.op_type} {node.name!r} {why}", help="use replace")
    graph = _graph_of(node)
    for output in read:
        supersede(output, value, _count(model))
    graph.remove(node, safe=True)


def to_constant(model: ir.Model, value: ir.Value, array: object) -> ir.Value:
    """Let a value be an initializer from now on, under its name.

    Args:
        model: The model, changed in place.
        value: An input, an initializer, or an output of a node.
        array: What it holds; numbers get the type of the value.

    Returns:
        The initializer.

    Raises:
        UsageError: It is an output of the graph, or in no graph.
    """
    tensor = ir.tensor(as_array(array, value.dtype), name=value.name)
    graph = _graph_of(value)
    if value.producer() is not None:
        if value.is_graph_output():
            raise UsageError(f"{value.name!r} is an output of the graph")
        builder = Builder(model)
        name, value.name = str(value.name), builder.name(f"{value.name}_before")
        new = ir.Value(name=name)
        value.replace_all_uses_with(new)
    else:
        new = value
    new.const_value = tensor
    new.type, new.shape = ir.TensorType(tensor.dtype), ir.Shape(list(tensor.shape.numpy()))
    if new in graph.inputs:
        graph.inputs.remove(new)
    if not new.is_initializer():
        graph.register_initializer(new)
    return new


def to_variable(
    model: ir.Model,
    value: ir.Value,
    dtype: Plain = None,
    shape: Sequence[int | str | None] | None = None,
) -> ir.Value:
    """Let a value be an input of the graph from now on, under its name.

    Args:
        model: The model, changed in place.
        value: An initializer, or an output of a node.
        dtype: Its type; by default what is noted.
        shape: Its dimensions; by default what is noted.

    Returns:
        The input.

    Raises:
        UsageError: It is an output of the graph, or in none, or its type is not known.
    """
    if value.is_graph_output():
        raise UsageError(f"{value.name!r} is an output of the graph")
    if dtype is None and value.type is None:
        raise UsageError(f"the type of {value.name!r} is not known", help="say it: dtype=")
    graph = _graph_of(value)
    new = ir.Value(name=value.name, type=value.type, shape=value.shape)
    if dtype is not None:
        new.type = ir.TensorType(dtype_of(dtype))
    if shape is not None:
        new.shape = ir.Shape(list(shape))
    if value.is_initializer():
        del graph.initializers[str(value.name)]
    else:
        value.name = Builder(model).name(f"{value.name}_before")
    value.replace_all_uses_with(new)
    graph.inputs.append(new)
    return new


def _behind(model: ir.Model, value: ir.Value) -> Builder:
    node = value.producer()
    if node is not None:
        return Builder(model).after(node)
    graph = value.graph if isinstance(value.graph, ir.Graph) else model.graph
    builder = Builder(model)
    builder.graph = graph
    return builder.before(graph[0]) if len(graph) else builder


def _count(model: ir.Model) -> Counter[str]:
    names: Counter[str] = Counter()
    for graph in all_graphs(model):
        own = [*graph.inputs, *(v for node in graph for v in node.outputs)]
        names.update(str(v.name) for v in own)
        names.update(name for name, v in graph.initializers.items() if v not in graph.inputs)
    return names


def _graph_of(part: ir.Value | ir.Node) -> ir.Graph:
    """Return the graph that a value or a node is in.

    Raises:
        UsageError: It is in none, or in a function.
    """
    if not isinstance(part.graph, ir.Graph):
        raise UsageError(
            f"{part.name!r} is in no graph", help="take it from the model that is edited"
        )
    return part.graph
