"""Evaluate a graph over scalars of any arithmetic."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Call, Tensor, constant
from onnx_passes.ops.node_queries import RANDOM
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import (
    MALFORMED,
    Misfit,
    Opaque,
    Semantics,
    Unsupported,
    scalars,
)


def unknowns(values: Sequence[ir.Value], semantics: Semantics) -> dict[str, Tensor]:
    """Return fresh unknowns by name; ``Unsupported`` without a concrete shape and type."""
    tensors = {}
    for value in values:
        shape, dtype = concrete_shape(value), value.dtype
        if dtype is None:
            raise Unsupported(f"input {value.name!r} without a type")
        names = [f"{value.name}[{','.join(map(str, at))}]" for at in np.ndindex(*shape)]
        elements = [semantics.variable(name, dtype) for name in names]
        tensors[str(value.name)] = Tensor(scalars(elements, shape), dtype)
    return tensors


def concrete_shape(value: ir.Value) -> tuple[int, ...]:
    """Return the shape of a value; raise ``Unsupported`` if a size is not a known number."""
    if value.shape is None or not all(isinstance(d, int) for d in value.shape):
        raise Unsupported(f"value {value.name!r} without a concrete shape")
    return tuple(int(d) for d in value.shape if isinstance(d, int))


def evaluate(
    graph: ir.Graph, feeds: Mapping[str, Tensor], semantics: Semantics
) -> dict[str, Tensor]:
    """Return the outputs of ``graph`` by name.

    ``feeds`` has a tensor for every input that has no initializer. An initializer named there
    has this value instead. Raises ``Unsupported``, which says what has no semantics.
    """
    known: dict[ir.Value, Tensor] = {}
    for value in graph.inputs:
        if str(value.name) in feeds:
            known[value] = feeds[str(value.name)]
    for name, value in graph.initializers.items():
        if name in feeds:
            known[value] = feeds[name]
    results = _run(graph, known, semantics, graph.opset_imports)
    return {str(o.name): result for o, result in zip(graph.outputs, results, strict=True)}


def _run(
    graph: ir.Graph,
    known: dict[ir.Value, Tensor],
    semantics: Semantics,
    opsets: Mapping[str, int],
) -> list[Tensor]:
    """Return the outputs of a graph or of a body, which reads what is ``known`` around it."""
    for value in graph.initializers.values():
        tensor = value.const_value
        if value not in known and tensor is not None and not value.is_graph_input():
            known[value] = constant(_array(tensor, semantics), tensor.dtype, semantics)
    for node in graph:
        opset = node.version or opsets.get(node.domain, 1)
        body = partial(_body, node, known, semantics, opsets)
        tensors = evaluate_node(node, known, semantics, opset, body)
        pairs = zip(node.outputs, tensors, strict=False)
        known.update((output, result) for output, result in pairs if result is not None)
    return [_lookup(known, o) for o in graph.outputs]


def _body(
    node: ir.Node,
    known: Mapping[ir.Value, Tensor],
    semantics: Semantics,
    opsets: Mapping[str, int],
    name: str,
    *tensors: Tensor,
) -> list[Tensor]:
    """Return the outputs of a body of a node, which reads what is ``known`` around it."""
    graph = node.attributes[name].as_graph()
    inner = dict(known) | dict(zip(graph.inputs, tensors, strict=True))
    return _run(graph, inner, semantics, opsets)


def _array(tensor: ir.TensorProtocol, semantics: Semantics) -> Array:
    if tensor.size > semantics.most:
        raise Unsupported(f"a constant of {tensor.size} elements")
    return tensor.numpy()


def _lookup(known: Mapping[ir.Value, Tensor], value: ir.Value) -> Tensor:
    if value not in known:
        raise Unsupported(f"value {value.name!r} that nothing defines")
    return known[value]


def evaluate_node(
    node: ir.Node,
    known: Mapping[ir.Value, Tensor],
    semantics: Semantics,
    opset: int,
    run: Callable[..., list[Tensor]] | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the outputs of one node; None for those without semantics (a pool's indices).

    ``run`` evaluates a body of the node; None if it is not to be looked into. Raises
    ``Unsupported`` if the node has no semantics, and ``Misfit`` if its operands do not fit it.
    """
    inputs = [None if v is None or v.name == "" else _lookup(known, v) for v in node.inputs]
    call = Call(node, inputs, semantics, opset, run)
    operator = operator_of(node, opset)
    try:
        told = operator is not None and operator.evaluates
        result = operator.evaluate(call) if operator and told else _opaque(call)
    except Opaque as gap:
        try:
            result = _opaque(call)
        except Unsupported:
            raise gap from None
    except MALFORMED as error:
        # A size of -1 cannot be worked out of no elements, which may fit all the same.
        empty = any(0 in tensor.shape for tensor in inputs if tensor is not None)
        kind = Unsupported if empty else Misfit
        raise kind(f"{node.op_type} on operands that do not fit: {error}") from error
    tensors = result if isinstance(result, tuple) else (result,)
    largest = max((t.data.size for t in tensors if t is not None), default=0)
    if largest > semantics.most:
        raise Unsupported(f"a tensor of {largest} elements")
    return tensors


def _opaque(call: Call) -> tuple[Tensor, ...]:
    """Take an operator without semantics as a function of all elements of its inputs.

    That is sound for every deterministic operator, and enough for a rewrite that leaves the
    operator alone and moves what is around it.
    """
    node = call.node
    subgraphs = {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}
    if node.op_type in RANDOM or any(a.type in subgraphs for a in node.attributes.values()):
        raise Unsupported(f"the operator {node.op_type}")
    tensors = [t for t in call.inputs if t is not None]
    if sum(t.data.size for t in tensors) > 256:
        raise Unsupported(f"the operator {node.op_type} on so many elements")
    elements = [s for t in tensors for s in t.data.flat]
    settings = ",".join(f"{a.name}={a.value}" for a in node.attributes.values())
    shapes = ",".join(str(None if t is None else t.shape) for t in call.inputs)
    label = f"{node.domain}::{node.op_type}[{settings}]({shapes})"
    outputs = []
    for k, output in enumerate(node.outputs):
        if output.dtype is None or output.shape is None:
            raise Unsupported(f"the operator {node.op_type}")
        shape = concrete_shape(output)
        values = [
            call.semantics.function(f"{label}.{k}{list(at)}", output.dtype, *elements)
            for at in np.ndindex(*shape)
        ]
        outputs.append(Tensor(scalars(values, shape), output.dtype))
    return tuple(outputs)
