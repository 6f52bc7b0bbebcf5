"""Remove a Loop that never runs."""

from collections import Counter

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import discard, name_counts, roots, supersede
from onnx_passes.passes.common.shapes import sizes_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.replace import Namer


@passes.verify.equality
@passes.register("eliminate")
class EliminateIdleLoop(passes.Transformation):
    """Remove a Loop that never runs.

    Before: ``y, z = Loop(0, c, x) <body = {...}>``
    After:  ``x`` for ``y``, and an empty tensor for ``z``, which the body would have filled

    Sound because a trip count of 0 or less, or a condition that is false, says that nothing
    runs. What is carried stays as it starts, and what is collected is empty.

    Leaves alone: counts and conditions that are computed or that callers may override;
    collected results whose type and sizes the body does not declare; bodies that refer to an
    attribute of a function.
    """

    needs = ("shape-inference",)
    needed_operators = frozenset({("", "Loop")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look into subgraphs and functions too."""
        names, namer, removed = name_counts(model), Namer(model), 0
        for root, _ in roots(model):
            for graph in list(graphs_within(root)):
                for node in list(graph):
                    empty = _empty(node) if _is_idle(node) else None
                    if empty is None or node.graph is not graph:
                        continue
                    carried = list(node.inputs[2:])
                    for index, old in enumerate(node.outputs):
                        new = carried[index] if index < len(carried) else None
                        if new is None:
                            new = _constant(node, empty[index - len(carried)], namer, names)
                        supersede(old, new, names)
                        names.subtract([old.name] if old.name else [])
                    discard(node)
                    removed += 1
        return ir.passes.PassResult(model, modified=removed > 0)


def _is_idle(node: ir.Node) -> bool:
    if (node.domain, node.op_type) != ("", "Loop") or node.attributes["body"].is_ref():
        return False
    count, condition = (constant_of(value) for value in node.inputs[:2])
    never = count is not None and count.size == 1 and int(count.numpy().item()) <= 0
    false = condition is not None and condition.size == 1 and not condition.numpy().item()
    return never or false


def _empty(node: ir.Node) -> list[Array] | None:
    """Return what the results are that a Loop collects, if all of them are known."""
    carried = len(node.inputs) - 2
    body = node.attributes["body"].as_graph()
    if len(body.outputs) != len(node.outputs) + 1 or None in node.inputs[2:]:
        return None
    found = []
    for value in body.outputs[carried + 1 :]:
        sizes = sizes_of(value)
        if sizes is None or value.dtype is None or value.dtype is ir.DataType.STRING:
            return None
        found.append(np.empty((0, *sizes), value.dtype.numpy()))
    return found


def _constant(node: ir.Node, array: Array, namer: Namer, names: Counter[str]) -> ir.Value:
    assert node.graph is not None, "the node is in a graph"
    wish = f"{node.name or node.op_type}_empty"
    tensor = ir.tensor(array)
    output = ir.Value(
        name=namer.value(wish), type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape)
    )
    names.update([str(output.name)])
    constant = ir.Node(
        "", "Constant", [], [ir.AttrTensor("value", tensor)], outputs=[output],
        name=namer.node(wish),
    )  # fmt: skip
    node.graph.insert_before(node, constant)
    return output
