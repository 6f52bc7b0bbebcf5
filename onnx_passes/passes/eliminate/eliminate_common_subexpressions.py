"""Merge equal expressions, so that each is computed once."""

from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.value_numbering import Determinism, Key, node_key


@passes.verify.equality
@passes.register("eliminate-common-subexpression")
@passes.register("eliminate")
@passes.register("cleanup")
class EliminateCommonSubexpressions(passes.Transformation):
    """Merge equal expressions, so that each is computed once.

    Before: ``a = Exp(x)  b = Exp(x)  y = Add(a, b)``
    After:  ``a = Exp(x)  y = Add(a, a)``

    Two nodes are equal if operator, inputs and attributes are; tensors are compared by
    content, subgraphs by structure, the operands of sums and products in any order. A node in
    a subgraph may be replaced by one outside of it, never the other way round.

    Sound because a deterministic operator gives the same result for the same inputs, bit for
    bit, as the same kernel computes it.

    Leaves alone: nodes that draw random numbers, directly, in a subgraph or in a function;
    operators of domains that are not known; Identity nodes that name outputs.
    """

    preserves = ("shape-inference", "topological-sort")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Sweep the graphs in order, subgraphs where their node stands, until all differ.

        A second sweep finds what an Identity that the first put in is equal to.
        """
        self._deterministic = Determinism(model)
        self._names = graph_edits.name_counts(model)
        modified = False
        while self._sweep_all(model):
            modified = True
        return ir.passes.PassResult(model, modified=modified)

    def _sweep_all(self, model: ir.Model) -> int:
        self._removed = 0
        for graph, imports in graph_edits.roots(model):
            self._sweep(graph, {}, imports)
        return self._removed

    def _sweep(
        self, graph: ir.Graph, outer: Mapping[Key, ir.Node], imports: Mapping[str, int]
    ) -> None:
        seen: dict[Key, ir.Node] = {}
        for node in list(graph):
            for subgraph in subgraphs_of(node):
                self._sweep(subgraph, {**outer, **seen}, imports)
            if not self._deterministic.holds(node, imports):
                continue
            key = node_key(node)
            twin = seen.get(key) or outer.get(key)
            if twin is None:
                seen[key] = node
            elif self._may_merge(node, twin, self._names):
                for old, new in zip(node.outputs, twin.outputs, strict=False):
                    graph_edits.supersede(old, new, self._names)
                self._names.subtract(str(v.name) for v in node.outputs if v.name)
                graph_edits.discard(node)
                self._removed += 1

    @staticmethod
    def _may_merge(node: ir.Node, twin: ir.Node, names: Counter[str]) -> bool:
        if any(value.meta.get(graph_edits.QUANTIZATION) for value in node.outputs):
            return False
        # A subgraph must see the twin's values, not its own of the same name.
        hidden = any(names[str(value.name)] > 1 for value in twin.outputs)
        if twin.graph is not node.graph and hidden:
            return False
        returned = any(value.is_graph_output() for value in node.outputs)
        return not (returned and (node.domain, node.op_type) == ("", "Identity"))
