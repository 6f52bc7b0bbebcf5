"""Surroundings in which rules go wrong, put around a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.verify.rules.generate_copies import Variant, copied
from onnx_passes.verify.rules.generate_scopes import in_function, looped, scanned


def followed(model: ir.Model) -> Variant:
    """Put a node behind every output, so that the match ends inside of the graph."""
    copy = model.clone()
    graph = copy.graph
    shape = ir.val("followed_shape", dtype=ir.DataType.INT64, shape=[1])
    shape.const_value = ir.tensor(np.array([1], np.int64))
    graph.register_initializer(shape)
    for index, output in enumerate(list(graph.outputs)):
        node = ir.node("Expand", [output, shape])
        graph.append(node)
        fresh = node.outputs[0]
        fresh.name, fresh.type = f"{output.name}_followed", output.type
        graph.outputs[index] = fresh
    return _inferred(copy), tuple(model.graph.inputs)


def _dynamic(model: ir.Model) -> Variant:
    """Give every dimension of the inputs a name instead of a size."""
    copy = model.clone()
    for value in copy.graph.inputs:
        names = [f"{value.name}_{axis}" for axis in range(len(value.shape or ()))]
        value.shape = ir.Shape(names)
    _forget(copy)
    return _inferred(copy), tuple(model.graph.inputs)


def _tapped(model: ir.Model) -> Variant | None:
    """Make the results of all inner nodes outputs too."""
    copy = model.clone()
    known = set(copy.graph.outputs)
    inner = [v for node in copy.graph for v in node.outputs if v not in known and v.dtype]
    copy.graph.outputs.extend(inner)
    return (copy, tuple(model.graph.inputs)) if inner else None


def _overridable(model: ir.Model) -> Variant | None:
    """Make the float initializers inputs too, which a caller may override."""
    copy = model.clone()
    floats = [
        v
        for v in copy.graph.initializers.values()
        if v.dtype is not None and v.dtype.is_floating_point()
    ]
    copy.graph.inputs.extend(floats)
    return (copy, tuple(copy.graph.inputs)) if floats else None


def _twice(model: ir.Model) -> Variant:
    """Repeat all nodes on the same inputs."""
    copy = model.clone()
    nodes, values = copied(copy.graph, "_again")
    copy.graph.extend(nodes)
    copy.graph.outputs.extend([values[v] for v in list(copy.graph.outputs)])
    return copy, tuple(model.graph.inputs)


def _nested(model: ir.Model) -> Variant:
    """Move all nodes into the branches of an If, which read the inputs from outside."""
    copy = model.clone()
    graph = copy.graph
    branches = []
    for name in ("then", "else"):
        nodes, values = copied(graph, f"_{name}")
        outputs = [values[v] for v in graph.outputs]
        branches.append(
            ir.Graph([], outputs, nodes=nodes, name=name, opset_imports=graph.opset_imports)
        )
    condition = ir.val("condition", dtype=ir.DataType.BOOL, shape=[])
    old = list(graph.outputs)
    node = ir.node(
        "If",
        [condition],
        attributes={"then_branch": branches[0], "else_branch": branches[1]},
        num_outputs=len(old),
    )
    for before, after in zip(old, node.outputs, strict=True):
        after.name, after.type, after.shape = before.name, before.type, before.shape
    graph.outputs[:] = list(node.outputs)
    graph.remove(list(graph), safe=True)
    graph.append(node)
    graph.inputs.append(condition)
    port = ir.val("condition", dtype=ir.DataType.BOOL, shape=[])
    return copy, (*model.graph.inputs, port)


def _bare(model: ir.Model) -> Variant | None:
    """Take types and shapes from all inner values, as a model has them before inference."""
    copy = model.clone()
    kept = set(copy.graph.outputs)
    inner = [v for node in copy.graph for v in node.outputs if v not in kept]
    for value in inner:
        value.type, value.shape = None, None
    return (copy, tuple(model.graph.inputs)) if inner else None


AMPLIFIED = "behind an amplifier"
"""Name of the surrounding in which small differences are made large."""


def _amplified(model: ir.Model) -> Variant | None:
    """Put 1/x, Sqrt and Log behind every float output, which stays an output as well."""
    copy = model.clone()
    graph = copy.graph
    floats = [v for v in graph.outputs if v.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE)]
    for output in floats:
        for operator in ("Reciprocal", "Sqrt", "Log"):
            node = ir.node(operator, [output])
            graph.append(node)
            (fresh,) = node.outputs
            fresh.name, fresh.type = f"{output.name}_{operator.lower()}", output.type
            fresh.shape = output.shape
            graph.outputs.append(fresh)
    return (copy, tuple(model.graph.inputs)) if floats else None


def _forget(model: ir.Model) -> None:
    for node in model.graph:
        for value in node.outputs:
            value.shape = None


def cut_array(array: Array, old: int, new: int, *, last: bool) -> Array:
    """Return the first elements, or the last, along every axis of one size.

    Args:
        array: An array of any shape and type.
        old: The size of the axes that are cut.
        new: Their size in the result.
        last: Whether the last elements are kept.
    """
    kept = slice(-new, None) if last else slice(new)
    cut = array[tuple(kept if d == old else slice(None) for d in array.shape)]
    return np.ascontiguousarray(cut).reshape(cut.shape)


def resized(model: ir.Model, old: int, new: int, *, last: bool = False) -> ir.Model:
    """Return a copy in which inputs and constants are shorter along axes of one size.

    Args:
        model: The model; it stays as it is.
        old: The size of the axes that are cut.
        new: Their size in the result.
        last: Whether the last elements are kept.
    """
    copy = model.clone()
    for value in {*copy.graph.inputs, *copy.graph.initializers.values()}:
        if value.const_value is not None:
            array = value.const_value.numpy()
            value.const_value = ir.tensor(cut_array(array, old, new, last=last))
        if value.shape is not None:
            value.shape = ir.Shape([new if d == old else d for d in value.shape])
    _forget(copy)
    return _inferred(copy)


def _inferred(model: ir.Model) -> ir.Model:
    # onnx-ir's pass logs what it cannot infer; here that is an answer like any other.
    return ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(model)))


VARIANTS: tuple[tuple[str, Callable[[ir.Model], Variant | None]], ...] = (
    ("dynamic dimensions", _dynamic),
    ("inner values are outputs", _tapped),
    ("initializers are inputs", _overridable),
    ("two matches share inputs", _twice),
    ("inside an If", _nested),
    ("inside a Loop", looped),
    ("inside a Scan", scanned),
    ("inside a function", in_function),
    ("types not inferred", _bare),
    (AMPLIFIED, _amplified),
)
"""What each surrounding is called, and what makes it; None where it does not apply."""
