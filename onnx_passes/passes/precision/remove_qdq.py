"""Remove pairs of quantisers, and compute in floats."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._grid import dequantise_node
from onnx_passes.passes.precision._half_precision import WIDE, drop_constant
from onnx_passes.passes.precision._insert import Inserter
from onnx_passes.passes.precision._node_selection import OnSomeNodes

QUANTISERS = ("QuantizeLinear", "DequantizeLinear")


@passes.verify.metric
@passes.register()
class RemoveQdq(OnSomeNodes):
    """Remove pairs of quantisers, and compute in floats.

    Before: ``y = DequantizeLinear(QuantizeLinear(x, s, z), s, z)``,
            ``w = DequantizeLinear(w8, t)``
    After:  x in place of y; w as a constant in float32, where ``weights`` asks for it

    Sound because both sides have the same type and shape; the rounding that goes changes
    numbers, which the metrics of the pipeline judge.

    Calls of functions with quantisers are replaced by their bodies.

    Leaves alone: a QuantizeLinear whose integers other nodes read as well, for these; pairs
    whose types differ.

    Attributes:
        nodes: Names of DequantizeLinear nodes, or patterns; empty for all.
        weights: Whether constants are stored as float32 again.
    """

    needs = ("shape-inference",)

    weights: bool = False

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Remove the pairs."""
        removed = int(self.open_functions(model, QUANTISERS))
        inserter = Inserter(model)
        for node in self.select(model, bodies=True):
            if node.domain or node.op_type != "DequantizeLinear" or node.graph is None:
                continue
            levels = node.inputs[0]
            first = levels.producer() if levels is not None else None
            if first is not None and first.op_type == "QuantizeLinear" and not first.domain:
                removed += remove_pair(first, node, inserter)
            elif self.weights and constant_of(levels) is not None:
                removed += store_floats(node, inserter)
        return ir.passes.PassResult(model, modified=bool(removed))


def remove_pair(first: ir.Node, second: ir.Node, inserter: Inserter) -> bool:
    """Let readers of a pair read what it rounds; return whether that was possible."""
    source, (result,) = first.inputs[0], second.outputs
    if source is None or source.dtype is None or source.dtype is not result.dtype:
        return False
    parameters = [v for v in (*first.inputs[1:], *second.inputs[1:]) if v is not None]
    graph, maker = second.graph, source.producer()
    assert graph is not None, "it stands somewhere"
    ends = list(graph.outputs)
    if result in ends:
        if source.is_graph_output() or maker is None or maker.graph is not graph:
            (kept,) = inserter.node(
                "Identity", [source], [source.dtype], str(result.name), behind=second
            )
            source = kept
        name = str(result.name)
        result.name = inserter.namer.value(f"{name}_rounded")
        source.name, source.shape = name, result.shape
        for place in (i for i, end in enumerate(ends) if end is result):
            graph.outputs[place] = source
    result.replace_all_uses_with(source)
    graph.remove(second, safe=True)
    levels = first.outputs[0]
    if not levels.uses() and not levels.is_graph_output() and first.graph is not None:
        first.graph.remove(first, safe=True)
    for value in parameters:
        drop_constant(value)
    return True


def store_floats(node: ir.Node, inserter: Inserter) -> bool:
    """Store the constant behind a DequantizeLinear in float32; return whether that worked."""
    (result,) = node.outputs
    array = dequantise_node(node) if result.dtype in (WIDE, None) else None
    if array is None:
        return False
    new = inserter.constant(array, f"{result.name}_float")
    if result.is_graph_output():
        (new,) = inserter.node("Identity", [new], [WIDE], str(result.name), behind=node)
    inserter.take_over(result, new)
    return True
