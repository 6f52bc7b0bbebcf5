"""Remove an Expand whose reader would repeat the tensor by itself."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.common.shapes import widens

BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Mod", "Sum", "Where"),
        *("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    )
)
"""Operators that repeat operands to one shape, and give the same bits however they do it.

Not so Pow, which ONNX Runtime squares where one exponent says so; nor Mean, which the
reference evaluator does not compute for two shapes.
"""

OF_INTEGERS = frozenset(("Min", "Max"))
"""Those where ONNX Runtime chooses either -0 or 0."""


@passes.verify.equality
@passes.register("eliminate")
class EliminateExpandBeforeBroadcast(passes.Transformation):
    """Remove an Expand whose reader would repeat the tensor by itself.

    Before: ``Add(x, Expand(mask, Shape(x)))``, ``Where(Expand(c, [2, 1, 8]), x, y)``
    After:  ``Add(x, mask)``, ``Where(c, x, y)``

    Where another operand has all that the Expand repeats. What is left without a reader is
    removed as unused, the arithmetic that made the target too.

    Sound because broadcasting repeats the same elements, and the other operand gives the
    result the shape that it had.

    Leaves alone: other operands whose shape is not known, or may have a dimension of 1 where
    the Expand repeats; Pow and Mean; Min and Max of floats; functions, where shapes are
    unknown.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference", "topological-sort")
    needed_operators = frozenset({("", "Expand")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look into subgraphs too."""
        found = 0
        for node in all_nodes(model):
            if _broadcasts(node):
                found += sum(_relieve(node, i) for i in range(len(node.inputs)))
        return ir.passes.PassResult(model, modified=found > 0)


def _broadcasts(node: ir.Node) -> bool:
    if node.op_type in OF_INTEGERS and not node.domain:
        types = {value.dtype for value in node.inputs if value is not None}
        return all(dtype is not None and dtype.is_integer() for dtype in types)
    return node.op_type in BROADCASTING and not node.domain


def _relieve(node: ir.Node, index: int) -> bool:
    """Let a node read what an Expand reads, if another operand has the shape of both."""
    value = node.inputs[index]
    expand = None if value is None else value.producer()
    if expand is None or (expand.domain, expand.op_type) != ("", "Expand"):
        return False
    others = [other for other in node.inputs if other is not value]
    if all(widens(other, value) for other in others):
        return False
    node.replace_input_with(index, expand.inputs[0])
    return True
