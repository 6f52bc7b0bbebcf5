"""Merge a Concat of Concat into one."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.shapes import dims_of


@passes.verify.equality
@passes.register("eliminate")
class EliminateNestedConcat(passes.Transformation, passes.RewriteRulePass):
    """Merge a Concat of Concat into one.

    Before: ``Concat<axis = 1>(x, Concat<axis = 1>(a, b), z)``
    After:  ``Concat<axis = 1>(x, a, b, z)``

    Sound because parts are laid one behind the other along one axis, whoever lays them.

    Leaves alone: other axes; axes that count from different ends, of tensors of unknown rank;
    an inner Concat that something else reads, since its parts would be copied twice.
    """

    needs = ("shape-inference",)

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Concat(x, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: MatchContext, x: Value, y: Value) -> bool:
        root = context.root
        return any(_is_nested(value, root) for value in filter(None, root.inputs))

    def rewrite(self, op: Op, x: Value, y: Value) -> Value:
        outer = node_of(y)
        parts: list[ir.Value | None] = []
        for value in filter(None, outer.inputs):
            parts += node_of(value).inputs if _is_nested(value, outer) else [value]
        return op.Concat(*parts, axis=outer.attributes.get_int("axis"))


def _is_nested(value: ir.Value, outer: ir.Node) -> bool:
    inner = value.producer()
    if inner is None or (inner.domain, inner.op_type) != ("", "Concat"):
        return False
    if len(value.uses()) != 1 or value.is_graph_output() or inner.graph is not outer.graph:
        return False
    axes = [_axis(node) for node in (inner, outer)]
    return axes[0] is not None and axes[0] == axes[1]


def _axis(node: ir.Node) -> int | None:
    """Return the axis, counted from the front where the rank is known."""
    attribute = node.attributes.get("axis")
    if attribute is None or attribute.is_ref():
        return None
    axis = attribute.as_int()
    dims = next((d for d in map(dims_of, (*node.inputs, *node.outputs)) if d), None)
    return axis % len(dims) if dims else axis
