"""The function by which ONNX defines AffineGrid, where the number of its dimensions is known.

It computes grids of two and of three dimensions, in branches that are chosen by the number of
elements of ``size``, and hands Range tensors of one element. ONNX Runtime loads that while it
does not know better: once its optimisations have found sizes, its shape inference refuses the
Range, and the branch that is not taken.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

BRANCHES = {4: "then_branch", 5: "else_branch"}
"""The branch to take, by the number of elements of ``size``."""


def settle_rank(function: ir.Function, node: ir.Node) -> None:
    """Take the branches of the rank that a node has, and make scalars for Range.

    Args:
        function: The definition; unchanged if the rank is not known.
        node: The AffineGrid.
    """
    size = node.inputs[1] if len(node.inputs) > 1 else None
    count = size.shape[0] if size is not None and size.shape is not None else None
    branch = BRANCHES.get(count) if isinstance(count, int) else None
    if branch is None:
        return
    for inner in list(function):
        if inner.op_type == "If" and _asks_for_rank(inner):
            _take(function, inner, branch)
    for inner in list(function):
        if inner.op_type == "Range":
            _give_scalars(function, inner)


def _asks_for_rank(node: ir.Node) -> bool:
    """Whether the condition of an If compares the number of elements of something."""
    condition = node.inputs[0]
    compared = condition.producer() if condition is not None else None
    first = compared.inputs[0] if compared is not None and compared.inputs else None
    producer = first.producer() if first is not None else None
    return producer is not None and producer.op_type == "Size"


def _take(function: ir.Function, node: ir.Node, branch: str) -> None:
    body = node.attributes[branch].as_graph()
    nodes, results = list(body), list(body.outputs)
    body.outputs.clear()
    body.remove(nodes)
    function.graph.insert_before(node, nodes)
    for old, new in zip(node.outputs, results, strict=True):
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    function.graph.remove(node, safe=True)


def _give_scalars(function: ir.Function, node: ir.Node) -> None:
    for index, value in enumerate(node.inputs):
        assert value is not None, "a Range has three inputs"
        name = f"{node.outputs[0].name}_{index}"
        none = ir.tensor(np.zeros([0], np.int64))
        shape = ir.node("Constant", [], {"value": none}, name=f"{name}_shape")
        scalar = ir.node("Reshape", [value, shape.outputs[0]], name=f"{name}_scalar")
        for made in (shape, scalar):
            made.outputs[0].name = made.name
        function.graph.insert_before(node, [shape, scalar])
        node.replace_input_with(index, scalar.outputs[0])
