"""Whether two models are the same graph, and how they differ if not."""

from __future__ import annotations

import difflib

import onnx_ir as ir

from onnx_passes.model.canonical_text import canonical_lines
from onnx_passes.model.copy import copy_model
from onnx_passes.model.fingerprint import canonical_hash
from onnx_passes.model.walk import all_graphs

_LINES = 60


def structurally_equal(a: ir.Model, b: ir.Model) -> bool:
    """Whether two models are one up to inner names, node order and annotations.

    Constants are equal by content, whether they are initializers or Constant nodes, and
    initializers that nothing reads do not count. Neither model is changed.

    Args:
        a: A model.
        b: The other model.

    Raises:
        ModelError: A graph has a cycle, or weights cannot be read.
    """
    return _hash(_canonical(a)) == _hash(_canonical(b))


def explain_difference(a: ir.Model, b: ir.Model) -> str:
    """Show how models differ up to inner names, node order and annotations.

    Args:
        a: The actual model.
        b: The model expected.

    Returns:
        A unified diff from ``b`` to ``a``, of at most 60 lines; empty if they are equal.
    """
    got, want = _canonical(a), _canonical(b)
    lines = list(
        difflib.unified_diff(
            canonical_lines(want), canonical_lines(got), "expected", "actual", lineterm="", n=2
        )
    )
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"... and {len(lines) - _LINES} lines more"]
    if not lines and _hash(got) != _hash(want):
        return "equal line by line, but what one model shares the other repeats"
    return "\n".join(lines)


def _hash(model: ir.Model) -> str:
    return canonical_hash(model, annotations=False)


def _canonical(model: ir.Model) -> ir.Model:
    """Return a copy in which constants are initializers, and nothing unread is left."""
    copy = copy_model(model)
    for graph in all_graphs(copy):
        for node in list(graph):
            tensor = _constant(node)
            if tensor is not None:
                (value,) = node.outputs
                if value.is_graph_output():
                    continue
                constant = ir.Value(
                    name=value.name,
                    type=ir.TensorType(tensor.dtype),
                    shape=ir.Shape(tensor.shape.numpy()),
                    const_value=tensor,
                )
                value.replace_all_uses_with(constant)
                graph.remove(node)
                graph.register_initializer(constant)
        for name in [n for n, v in graph.initializers.items() if _unread(v)]:
            del graph.initializers[name]
    return copy


def _constant(node: ir.Node) -> ir.TensorProtocol | None:
    if node.op_type != "Constant" or node.domain or len(node.attributes) != 1:
        return None
    (attribute,) = node.attributes.values()
    if attribute.is_ref() or attribute.name == "sparse_value":
        return None
    if attribute.name == "value":
        # onnx-ir's function would rename the tensor, which the original shares.
        return attribute.as_tensor()
    return ir.convenience.get_const_tensor(node.outputs[0])


def _unread(value: ir.Value) -> bool:
    return not (value.uses() or value.is_graph_input() or value.is_graph_output())
