"""Add a copy of a constant in half precision for each node that reads it."""

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import annotated_names
from onnx_passes.passes.options import MIB, Size
from onnx_passes.passes.replace import Namer

_SHARED_BY_LOADER = 8
"""Elements up to which ONNX Runtime merges equal constants itself when it loads a model."""


@passes.verify.equality
@passes.register("suit-onnxruntime")
class CopyHalfConstants(passes.Transformation):
    """Add a copy of a constant in half precision for each node that reads it.

    Before: ``<float16[64, 64] w> { t = MatMul(x, w)  y = MatMul(t, w) }``
    After:  ``<float16[64, 64] w, float16[64, 64] v> { t = MatMul(x, w)  y = MatMul(t, v) }``

    On processors ONNX Runtime computes most operators in single precision. When it loads a
    model, it converts a constant that one node reads. One that several nodes read it converts
    in each run.

    Sound because a copy has the same elements.

    Leaves alone: constants of up to 8 elements, since ONNX Runtime merges their copies;
    initializers that are inputs or outputs, or that a quantization annotation names; nodes in
    another graph than the constant; functions; copies beyond the limit, the largest ones
    first.

    Attributes:
        growth_limit: Bytes that all copies may have together.
    """

    preserves = ("shape-inference", "topological-sort")
    always_pays = False
    tested_on = ("halves",)
    tested_after = ("lift-constants",)

    growth_limit: Size = MIB

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Copy constants of the main graph and of each subgraph, small ones first."""
        fixed, namer, left = annotated_names(model), Namer(model), self.growth_limit
        found = [
            use
            for graph in graphs_within(model.graph)
            for value in graph.initializers.values()
            if value.name not in fixed
            for use in _further_uses(value)
        ]
        found.sort(key=lambda use: use[0].nbytes)
        copied = 0
        for tensor, value, node, place in found:
            left -= tensor.nbytes
            if left < 0:
                break
            name = namer.value(value.name)
            held = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=name)
            copy = ir.Value(name=name, type=value.type, shape=value.shape, const_value=held)
            assert value.graph is not None, "an initializer is in a graph"
            value.graph.register_initializer(copy)
            node.replace_input_with(place, copy)
            copied += 1
        return ir.passes.PassResult(model, modified=copied > 0)


def _further_uses(
    value: ir.Value,
) -> Iterator[tuple[ir.TensorProtocol, ir.Value, ir.Node, int]]:
    """Yield where nodes read a constant, but for one place."""
    tensor = value.const_value
    if tensor is None or tensor.dtype is not ir.DataType.FLOAT16:
        return
    if value.is_graph_input() or value.is_graph_output() or tensor.size <= _SHARED_BY_LOADER:
        return
    uses = value.uses()
    away = any(node.graph is not value.graph for node, _ in uses)
    here = [(node, place) for node, place in uses if node.graph is value.graph]
    for node, place in here if away else here[1:]:
        yield tensor, value, node, place
