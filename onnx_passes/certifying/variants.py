"""Variants of a model that break rules: bodies, functions, dynamic shapes, shared values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.plain import Plain


def copied(
    nodes: Iterable[ir.Node], suffix: str
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """Return copies of nodes in topological order, and the copy of each of their results."""
    copies: list[ir.Node] = []
    values: dict[ir.Value, ir.Value] = {}
    for node in nodes:
        inputs = [None if v is None else values.get(v, v) for v in node.inputs]
        copy = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            list(node.attributes.values()),
            num_outputs=len(node.outputs),
        )
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name, new.type, new.shape = f"{old.name}{suffix}", old.type, old.shape
            values[old] = new
        copies.append(copy)
    return copies, values


def _value(name: str, dtype: ir.DataType, constant: Array | None = None) -> ir.Value:
    """Return a scalar, or a constant."""
    value = ir.val(name, dtype=dtype, shape=[] if constant is None else list(constant.shape))
    value.const_value = None if constant is None else ir.tensor(constant)
    return value


def _in_bodies(
    model: ir.Model,
    operator: str,
    inputs: Sequence[ir.Value | None],
    bodies: Sequence[str] = ("body",),
    given: Sequence[ir.Value] = (),
    first: Sequence[ir.Node] = (),
    **attributes: Any,
) -> ir.Model:
    """Move all nodes into the bodies of one node, behind those that come `first`."""
    copy = model.clone()
    graph = copy.graph
    for body in bodies:
        nodes, values = copied(graph, f"_{body}")
        outputs = [*(v for n in first for v in n.outputs), *(values[v] for v in graph.outputs)]
        imports, nodes = graph.opset_imports, [*first, *nodes]
        attributes[body] = ir.Graph(
            given, outputs, nodes=nodes, name=body, opset_imports=imports
        )
    for value in inputs:
        if value is not None and value.const_value is not None:
            graph.register_initializer(value)
    node = ir.node(operator, inputs, attributes=attributes, num_outputs=len(graph.outputs))
    return _only(copy, node, grown=operator != "If")


def looped(model: ir.Model) -> ir.Model:
    """Move all nodes into the body of a Loop that runs once; its outputs gain an axis."""
    given = [_value("step", ir.DataType.INT64), _value("going", ir.DataType.BOOL)]
    on = ir.node("Identity", [given[1]])
    (still,) = on.outputs
    still.name, still.type, still.shape = "still_going", given[1].type, ir.Shape([])
    trips = _value("trips", ir.DataType.INT64, np.array(1, np.int64))
    return _in_bodies(model, "Loop", [trips, None], given=given, first=[on])


def scanned(model: ir.Model) -> ir.Model:
    """Move all nodes into the body of a Scan over one element; its outputs gain an axis."""
    over = _value("scanned", ir.DataType.FLOAT, np.zeros(1, np.float32))
    given = [_value("element", ir.DataType.FLOAT)]
    return _in_bodies(model, "Scan", [over], given=given, num_scan_inputs=1)


def _nested(model: ir.Model) -> ir.Model:
    """Move all nodes into the branches of an If, which read the inputs from outside."""
    condition = _value("condition", ir.DataType.BOOL)
    made = _in_bodies(model, "If", [condition], ("then_branch", "else_branch"))
    made.graph.inputs.append(condition)
    return made


def in_function(model: ir.Model) -> ir.Model:
    """Move all nodes into a function, in which types and shapes are not declared."""
    copy = model.clone()
    graph = copy.graph
    nodes, values = copied(graph, "_inner")
    inputs = [ir.val(str(v.name)) for v in graph.inputs]
    stand_ins: dict[ir.Value, ir.Value] = dict(zip(graph.inputs, inputs, strict=True))
    constants = []
    for value in graph.initializers.values():
        constant = ir.node("Constant", [], attributes={"value": value.const_value})
        constant.outputs[0].name = str(value.name)
        constants.append(constant)
        stand_ins.setdefault(value, constant.outputs[0])
    for node in nodes:
        for index, used in enumerate(node.inputs):
            if used in stand_ins:
                node.replace_input_with(index, stand_ins[used])
        for output in node.outputs:
            output.type, output.shape = None, None
    outputs = [values[v] for v in graph.outputs]
    body = ir.Graph(
        inputs, outputs, nodes=[*constants, *nodes], opset_imports=graph.opset_imports
    )
    function = ir.Function("made", "Matched", graph=body, attributes=[])
    copy.functions[function.identifier()] = function
    copy.graph.opset_imports["made"] = 1
    call = ir.node(
        "Matched", list(graph.inputs), domain="made", num_outputs=len(graph.outputs)
    )
    copy = _only(copy, call, grown=False)
    for value in list(copy.graph.initializers.values()):
        if not value.is_graph_input():
            copy.graph.initializers.pop(str(value.name))
    return copy


def _only(copy: ir.Model, node: ir.Node, *, grown: bool = True) -> ir.Model:
    """Let one node be all there is in the main graph, and give it the old outputs' names."""
    graph = copy.graph
    old = list(graph.outputs)
    for before, after in zip(old, node.outputs, strict=True):
        after.name, after.type = before.name, before.type
        if before.shape is not None:
            after.shape = ir.Shape([1, *before.shape] if grown else before.shape)
    graph.outputs[:] = list(node.outputs)
    graph.remove(list(graph), safe=True)
    graph.append(node)
    return copy


def behind(value: ir.Value, graph: ir.Graph, operator: str, name: str = "") -> ir.Value:
    """Put an operator behind a value, and return its result, of the same type and shape."""
    node = ir.node(operator, [value])
    graph.append(node)
    (fresh,) = node.outputs
    fresh.name, fresh.type = f"{value.name}_{name or operator.lower()}", value.type
    fresh.shape = value.shape
    return fresh


def followed(model: ir.Model) -> ir.Model:
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
    return _inferred(copy)


def _dynamic(model: ir.Model, *, first: bool = False) -> ir.Model:
    """Give every dimension of the inputs, or the first one, a name instead of a size."""
    copy = model.clone()
    for value in copy.graph.inputs:
        sizes = list(value.shape or ())
        names = [f"{value.name}_{axis}" for axis in range(len(sizes))]
        # Equal sizes are one dimension, as a batch is.
        value.shape = ir.Shape([*map("n{}".format, sizes[:1]), *sizes[1:]] if first else names)
    _forget(copy)
    return _inferred(copy)


def _tapped(model: ir.Model) -> ir.Model | None:
    """Make the results of all inner nodes outputs too."""
    copy = model.clone()
    known = set(copy.graph.outputs)
    inner = [v for node in copy.graph for v in node.outputs if v not in known and v.dtype]
    copy.graph.outputs.extend(inner)
    return copy if inner else None


def _overridable(model: ir.Model) -> ir.Model | None:
    """Make the float initializers inputs too, which a caller may override."""
    copy = model.clone()
    floats = [
        v
        for v in copy.graph.initializers.values()
        if v.dtype is not None and v.dtype.is_floating_point()
    ]
    copy.graph.inputs.extend(floats)
    return copy if floats else None


def _twice(model: ir.Model) -> ir.Model:
    """Repeat all nodes on the same inputs."""
    copy = model.clone()
    nodes, values = copied(copy.graph, "_again")
    copy.graph.extend(nodes)
    copy.graph.outputs.extend([values[v] for v in list(copy.graph.outputs)])
    return copy


def read_often(model: ir.Model, count: int, *, inner: bool) -> ir.Model:
    """Return a copy with so many readers of operands, results, and if asked inner values."""
    copy = model.clone()
    graph = copy.graph
    results = [v for node in graph for v in node.outputs] if inner else graph.outputs
    for value in {**dict.fromkeys(graph.inputs), **dict.fromkeys(results)}:
        for number in range(len(value.uses()), count):
            graph.outputs.append(behind(value, graph, "Identity", str(number)))
    return copy


def with_attribute(
    model: ir.Model, places: Sequence[int], name: str, value: Plain
) -> ir.Model | None:
    """Return a copy in which nodes at some places have another attribute.

    Types and shapes behind them are inferred anew; None if they do not fit. The value None
    leaves the attribute out. Beside a group, weights have as many channels as it leaves.
    """
    copy = model.clone()
    for place, node in enumerate(copy.graph):
        if place in places:
            if name == "group" and isinstance(value, int):
                _shorten(node.inputs[1], 1, value * node.attributes.get_int("group", 1))
            node.attributes.pop(name, None)
            if value is not None:
                node.attributes[name] = ir.convenience.convert_attribute(name, value)
        for output in node.outputs:
            output.type, output.shape = None, None
    try:
        return _inferred(copy)
    except onnx.shape_inference.InferenceError:
        return None


def _shorten(value: ir.Value | None, axis: int, share: int) -> None:
    """Leave a share of the elements of an input or initializer along an axis."""
    if value is None or value.shape is None or value.producer() is not None:
        return
    if len(value.shape) <= axis:
        return
    sizes = [*value.shape]
    sizes[axis] = max(int(sizes[axis]) // share, 1)
    if value.const_value is not None:
        kept = tuple(map(slice, sizes))
        value.const_value = ir.tensor(np.ascontiguousarray(value.const_value.numpy()[kept]))
    value.shape = ir.Shape(sizes)


def _bare(model: ir.Model) -> ir.Model | None:
    """Take types and shapes from all inner values, as a model has them before inference."""
    copy = model.clone()
    kept = set(copy.graph.outputs)
    inner = [v for node in copy.graph for v in node.outputs if v not in kept]
    for value in inner:
        value.type, value.shape = None, None
    return copy if inner else None


RAISED = "constants of more axes"
"""Name of the surrounding in which numbers have more axes than the inputs."""


def _raised(model: ir.Model) -> ir.Model | None:
    """Give constants of one element an axis more than any input has."""
    copy = model.clone()
    axes = [1] * (1 + max((len(v.shape or ()) for v in copy.graph.inputs), default=0))
    found = False
    for value in copy.graph.initializers.values():
        number = value.const_value
        if number is not None and number.size == 1 and number.dtype != ir.DataType.INT64:
            value.const_value = ir.tensor(number.numpy().reshape(axes))
            value.shape, found = ir.Shape(axes), True
    _forget(copy)
    return _inferred(copy) if found else None


AMPLIFIED = "behind an amplifier"
"""Name of the surrounding in which small differences are made large."""


def _amplified(model: ir.Model) -> ir.Model | None:
    """Put 1/x, Sqrt and Log behind every float output, which stays an output as well."""
    copy = model.clone()
    graph = copy.graph
    floats = [v for v in graph.outputs if v.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE)]
    for output in floats:
        for operator in ("Reciprocal", "Sqrt", "Log"):
            graph.outputs.append(behind(output, graph, operator))
    return copy if floats else None


def _forget(model: ir.Model) -> None:
    for node in model.graph:
        for value in node.outputs:
            value.shape = None


def cut_array(array: Array, old: int, new: int, *, last: bool) -> Array:
    """Return the first elements, or the last, along every axis of one size."""
    kept = slice(-new, None) if last else slice(new)
    cut = array[tuple(kept if d == old else slice(None) for d in array.shape)]
    return np.ascontiguousarray(cut).reshape(cut.shape)


def resized(model: ir.Model, old: int, new: int, *, last: bool = False) -> ir.Model:
    """Return a copy in which inputs and constants are shorter along axes of one size."""
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


VARIANTS: tuple[tuple[str, Callable[[ir.Model], ir.Model | None]], ...] = (
    ("dynamic dimensions", _dynamic),
    ("a dynamic first dimension", functools.partial(_dynamic, first=True)),
    ("inner values are outputs", _tapped),
    ("initializers are inputs", _overridable),
    ("two matches share inputs", _twice),
    ("inside an If", _nested),
    ("inside a Loop", looped),
    ("inside a Scan", scanned),
    ("inside a function", in_function),
    ("types not inferred", _bare),
    (RAISED, _raised),
    (AMPLIFIED, _amplified),
)
"""What each surrounding is called, and what makes it; None where it does not apply."""
