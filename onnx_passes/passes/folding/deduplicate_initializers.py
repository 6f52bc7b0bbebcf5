"""Merge initializers with the same content."""

from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.digest import tensor_digest
from onnx_passes.model.walk import graphs_within, subgraphs_of
from onnx_passes.passes.common.graph_edits import annotated_names, name_counts


@passes.verify.equality
@passes.register("cleanup")
class DeduplicateInitializers(passes.Transformation):
    """Merge initializers with the same content.

    Before: ``<float[2] a = {1, 2}, float[2] b = {1, 2}> { t = Mul(x, a)  y = Add(t, b) }``
    After:  ``<float[2] a = {1, 2}> { t = Mul(x, a)  y = Add(t, a) }``

    An initializer of a subgraph gives way to one around the subgraph.

    Sound because type, shape and every bit of the content are the same; 0 and -0 differ.

    Leaves alone: initializers that are inputs, since callers may override them; those that a
    graph returns or that a quantization annotation names.
    """

    preserves = ("shape-inference", "topological-sort")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Compare by size first, by content only where sizes repeat."""
        candidates = [
            value
            for graph in graphs_within(model.graph)
            for value in graph.initializers.values()
            if value.const_value is not None and not value.is_graph_input()
        ]
        sizes = Counter(_outline(value.const_value) for value in candidates)
        self._repeated = {outline for outline, count in sizes.items() if count > 1}
        self._names = name_counts(model)
        self._fixed = annotated_names(model)
        removed = self._sweep(model.graph, {})
        return ir.passes.PassResult(model, modified=removed > 0)

    def _sweep(self, graph: ir.Graph, outer: Mapping[bytes, ir.Value]) -> int:
        removed = 0
        seen = dict(outer)
        for name, value in list(graph.initializers.items()):
            tensor = value.const_value
            if value.is_graph_input() or tensor is None:
                continue
            if _outline(tensor) not in self._repeated:
                continue
            digest = tensor_digest(tensor)
            twin = seen.get(digest)
            fixed = value.is_graph_output() or name in self._fixed
            # The subgraph must see the outer value, not its own of the same name.
            hidden = twin and twin.graph is not graph and self._names[str(twin.name)] > 1
            if twin is None or fixed or hidden:
                seen.setdefault(digest, value)
                continue
            value.replace_all_uses_with(twin)
            del graph.initializers[name]
            removed += 1
        for node in graph:
            removed += sum(self._sweep(subgraph, seen) for subgraph in subgraphs_of(node))
        return removed


def _outline(tensor: ir.TensorProtocol | None) -> tuple[object, ...]:
    return () if tensor is None else (tensor.dtype, *tensor.shape)
