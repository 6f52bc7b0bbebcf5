"""Merge a Concat into the Concat that reads it."""

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.matches import read_once
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var


@passes.verify.equality
@passes.register()
@passes.register("fuse")
class MergeConcats(Transformation, RewriteRulePass):
    """Merge a Concat into the Concat that reads it.

    Before: ``Concat<axis = 1>(a, Concat<axis = 1>(b, c), d)``
    After:  ``Concat<axis = 1>(a, b, c, d)``

    Sound because the parts lie one after the other either way.

    Leaves alone: another axis, or the same one in another number (1 and -1); a Concat that
    something else reads.
    """

    def pattern(self, op: Op) -> Var:
        return op.Concat(_allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, y: Value, **_: Any) -> bool:
        node = context.root
        return any(_is_part(value, node) for value in node.inputs)

    def rewrite(self, op: Op, y: Value, **_: Any) -> Value:
        node = y.producer()
        assert node is not None, "the pattern has matched a node"
        parts: list[ir.Value | None] = []
        for value in node.inputs:
            part = _is_part(value, node)
            parts.extend([value] if part is None else part.inputs)
        made: Value = op.Concat(*parts, **node.attributes)
        return made


def _is_part(value: ir.Value | None, node: ir.Node) -> ir.Node | None:
    """Return the Concat behind an input of a Concat if both are one."""
    inner = value.producer() if value is not None else None
    if value is None or inner is None or not read_once(value):
        return None
    # A branch may read, but not take in, what is computed around it.
    if inner.op_identifier() != node.op_identifier() or inner.graph is not node.graph:
        return None
    axes = [n.attributes.get("axis") for n in (inner, node)]
    if any(axis is not None and axis.is_ref() for axis in axes):
        return None
    first, second = (1 if axis is None else axis.as_int() for axis in axes)
    return inner if first == second else None
