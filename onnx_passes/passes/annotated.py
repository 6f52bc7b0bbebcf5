"""Whether nodes that a rewrite has made say their types and shapes."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.model.walk import subgraphs_of

INVENTED = "unk__"
"""What inference begins the names with that it gives to unknown dimensions."""


def annotate_constants(nodes: Iterable[ir.Node]) -> None:
    """Note types and shapes of constants, unless they are outputs, which are their user's.

    Args:
        nodes: Nodes in a graph, whose ``const_value`` is noted.
    """
    for value in (value for node in nodes for value in node.outputs):
        tensor = value.const_value
        if tensor is not None and value.type is None and not value.is_graph_output():
            value.type = ir.TensorType(tensor.dtype)
            value.shape = ir.Shape(tensor.shape.numpy())


def is_annotated(node: ir.Node) -> bool:
    """Whether types and shapes of a node's results are known, and it has no body.

    A dimension is known if it has a number, or a name that inference has not invented.
    """
    for value in node.outputs:
        if value.type is None or value.shape is None:
            return False
        if any(map(is_invented, value.shape.dims)):
            return False
    return not any(subgraphs_of(node))


def is_invented(dim: int | ir.SymbolicDim) -> bool:
    """Whether a dimension has no number, and no name but one that inference gave to it."""
    return not isinstance(dim, int) and (dim.value is None or dim.value.startswith(INVENTED))
