"""Whether two models are the same graph, and how they differ if not."""

from __future__ import annotations

import difflib
import itertools

import onnx_ir as ir

from onnx_passes.surgery.fingerprint import canonical_hash
from onnx_passes.surgery.walk import graphs_within


def structurally_equal(a: ir.Model, b: ir.Model) -> bool:
    """Whether two models are one up to inner names, node order and annotations.

    Constants are equal by content, whether they are initializers or Constant nodes.
    """
    return canonical_hash(_canonical(a), annotations=False) == canonical_hash(
        _canonical(b), annotations=False
    )


def explain_difference(a: ir.Model, b: ir.Model) -> str:
    """Return a unified diff from ``b`` to ``a`` as text, inner names replaced by numbers."""
    want, got = (_text(_canonical(model)).splitlines() for model in (b, a))
    return "\n".join(difflib.unified_diff(want, got, "expected", "actual", lineterm=""))


def _canonical(model: ir.Model) -> ir.Model:
    """Return a copy in which constants are initializers, and nothing unread is left."""
    copy = model.clone()
    for graph in graphs_within(copy.graph):
        for node in list(graph):
            tensor = _constant(node)
            if tensor is not None:
                (value,) = node.outputs
                if value.is_graph_output():
                    continue
                constant = ir.Value(
                    name=value.name,
                    type=ir.TensorType(tensor.dtype),
                    shape=ir.Shape(tensor.numpy().shape),
                    const_value=tensor,
                )
                value.replace_all_uses_with(constant)
                graph.remove(node)
                graph.register_initializer(constant)
        for name in [n for n, v in graph.initializers.items() if _unread(v)]:
            del graph.initializers[name]
    return copy


def _constant(node: ir.Node) -> ir.TensorProtocol | None:
    if node.op_type != "Constant" or node.domain:
        return None
    if any(a.is_ref() for a in node.attributes.values()) or "sparse_value" in node.attributes:
        return None
    return ir.convenience.get_const_tensor(node.outputs[0])


def _unread(value: ir.Value) -> bool:
    return not (value.uses() or value.is_graph_input() or value.is_graph_output())


def _text(model: ir.Model) -> str:
    """Print a model with inner names replaced by numbers, in the order of its nodes."""
    for graph in graphs_within(model.graph):
        graph.sort()
    numbers = itertools.count()
    public = {*model.graph.inputs, *model.graph.outputs}
    for graph in graphs_within(model.graph):
        for node in graph:
            node.name = None
            for value in node.outputs:
                if value not in public:
                    value.name, value.type, value.shape = f"v{next(numbers)}", None, None
    return ir.to_onnx_text(model)
