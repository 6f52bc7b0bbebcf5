"""Merge equal dimensions, whatever they are read from."""

from collections import Counter

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.domains.sizes import KnownTensor
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.shapes import Knowledge


@passes.verify.equality
@passes.register()
class MergeEqualDimensions(passes.Transformation):
    """Merge equal dimensions, whatever they are read from.

    Before: ``t = Relu(x)  a = Shape<end = 1>(x)  b = Shape<end = 1>(t)``
    After:  ``t = Relu(x)  a = Shape<end = 1>(x)``, and ``a`` for ``b``

    Shape arithmetic is followed symbolically: sums, products and exact quotients of dimensions
    have one form, so that ``(n + n) * 2`` is found to be ``n * 4``.

    Sound because dimensions of one name are one number, and integers wrap around alike in
    sums and products.

    Leaves alone: what holds a size that is not known at all; Identity nodes; functions, whose
    dimensions depend on the call; values of other graphs than the node's.
    """

    needs = ("topological-sort", "shape-inference")
    preserves = ("shape-inference", "topological-sort")
    # No other operator computes dimensions.
    needed_operators = frozenset({("", "Shape"), ("", "Size")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Merge within the main graph and within each subgraph."""
        facts, names = Knowledge(model.graph.opset_imports), graph_edits.name_counts(model)
        merged = sum(_merge(graph, facts, names) for graph in list(graphs_within(model.graph)))
        return ir.passes.PassResult(model, modified=merged > 0)


def _merge(graph: ir.Graph, facts: Knowledge, names: Counter[str]) -> int:
    first: dict[KnownTensor, ir.Value] = {}
    repeated: list[tuple[ir.Node, ir.Value]] = []
    for node in graph:
        known = facts.visit(node)
        if known is None or node.op_type == "Identity" or not is_computed(known):
            continue
        (value,) = node.outputs
        twin = first.setdefault(known, value)
        if twin is not value and not value.meta.get(graph_edits.QUANTIZATION):
            repeated.append((node, twin))
    for node, twin in repeated:
        (value,) = node.outputs
        graph_edits.supersede(value, twin, names)
        names.subtract([value.name] if value.name else [])
    graph_edits.discard_unread(node for node, _ in repeated)
    return len(repeated)


def is_computed(known: KnownTensor) -> bool:
    """Whether all of a tensor is known, and it takes the inputs to compute it."""
    return None not in known.elements and known.numbers is None
