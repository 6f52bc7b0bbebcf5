"""Move a factor before what only moves elements, to the MatMul that can take it over."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import (
    MatchContext,
    Op,
    RewriteRuleSetPass,
    Rule,
    Transformation,
    Value,
    Var,
)
from onnx_passes.passes.common.matches import (
    FLOATS,
    PRECISE,
    feeds_attention,
    node_of,
    opset_at,
    read_once,
    scalar_of,
)
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, Specs, data, filled, ints

MOVES = ("Transpose", "Reshape", "GatherElements", "Slice")
FACTORS = ("Mul", "Div")
KINDS = tuple((factor, move) for factor in FACTORS for move in (*MOVES, "MatMul"))

LEAST = 1e-3
"""The least factor of an operand, so that few digits leave the range of its type."""


_OPERANDS: dict[str, dict[str, Specs]] = {
    "Transpose": {},
    "Reshape": {"moved.1": ints("a 2 e", "-1", "0 e 2")},
    "GatherElements": {"moved.1": (Spec("a 3", along=1),)},
    "Slice": {"moved.1": ints("0"), "moved.2": ints("e"), "moved.3": ints("1")},
    "MatMul": {"moved.1": data("2*e b")},
}


def _name(factor: str, move: str) -> str:
    return f"{factor}-behind-{move}"


@passes.verify.tolerance
@passes.register("fuse")
class MoveScaleToMatmul(Transformation, RewriteRuleSetPass):
    """Move a factor before what only moves elements, to the MatMul that can take it over.

    Before: ``Mul(Transpose(Reshape(MatMul(x, w), [2, -1, 4, 8])), 0.5)``
    After:  ``Transpose(Reshape(Mul(MatMul(x, w), 0.5), [2, -1, 4, 8]))``

    So it is with queries and keys, whose heads are parted before they are scaled. The factor
    of a product of two such, as of scores, goes to the first. ``fuse-matmul-scale`` then puts
    it into the weights.

    Sound because Transpose, Reshape, GatherElements and Slice compute nothing, one number
    scales each element wherever it is, and a product is linear in its first operand. The
    contract is a tolerance for the last: sums of scaled numbers round in another way.

    Leaves alone: a factor that is not a constant of one element, or that has a higher rank
    than the result; before a product of two, a factor over 1, which could overflow, under a
    thousandth, or in half precision; a MatMul without constant weights, or whose weights have
    other readers; before opset 13, an attention that ONNX Runtime knows as a whole; inner
    values that are read elsewhere.
    """

    needs = ("shape-inference",)

    always_pays = False

    exclusive = True
    commute = True
    hints: ClassVar[Hints] = {
        _name(factor, move): Hint(
            {
                "x": (Spec(node="MatMul", of=("left", "weights")),),
                "left": data("a d"),
                "weights": filled("d 2*e", 0.5, 2.0, -1.5),
                "c": filled("", 0.5, 8.0, -2.0),
                **_OPERANDS[move],
            },
            {"Reshape.allowzero": (None,), "GatherElements.axis": (1, -1)},
            (ir.DataType.FLOAT, ir.DataType.DOUBLE),
        )
        for factor, move in KINDS
    }

    def rules(self) -> Iterator[Rule]:
        for kind in KINDS:
            yield Rule(partial(_scaled, *kind), _moved, _can_be_moved, _name(*kind))


def _scaled(factor: str, move: str, op: Op, x: Var, c: Var) -> Var:
    moved = getattr(op, move)(x, _allow_other_inputs=True, _outputs=["moved"])
    return getattr(op, factor)(moved, c, _outputs=["y"])


def _can_be_moved(context: MatchContext, x: Value, c: Value, moved: Value, y: Value) -> bool:
    tensor, number = constant_of(c), scalar_of(c)
    if tensor is None or not number or len(tensor.shape) > 1 or x.dtype not in FLOATS:
        return False
    if node_of(moved).op_type == "MatMul":
        factor = number if node_of(y).op_type == "Mul" else 1 / number
        if x.dtype not in PRECISE or not LEAST <= abs(factor) <= 1:
            return False
    if len(tensor.shape) and not (dims_of(x) and dims_of(moved)):
        return False  # a row of one would widen a number
    return _ends_in_matmul(x, opset_at(context))


def _ends_in_matmul(x: Value, opset: int) -> bool:
    """Whether a product with constant weights, or its sum with a bias, is moved to here."""
    node = x.producer()
    while node is not None and node.op_type in MOVES and not node.domain and read_once(x):
        x = node.inputs[0] or x
        node = x.producer()
    if node is None or node.domain or not read_once(x):
        return False
    if node.op_type == "Add":
        products = [value for value in node.inputs if constant_of(value) is None]
        if len(products) != 1 or products[0] is None or not read_once(products[0]):
            return False
        node = products[0].producer()
    if node is None or (node.domain, node.op_type) != ("", "MatMul"):
        return False
    left, weights = node.inputs
    if weights is None or constant_of(weights) is None or len(weights.uses()) != 1:
        return False
    return not feeds_attention(left, opset)


def _moved(op: Op, x: Value, c: Value, moved: Value, y: Value) -> Value:
    factor, move = node_of(y), node_of(moved)
    first = factor.inputs[0] is moved
    operands = (x, c) if first or factor.op_type == "Div" else (c, x)
    scaled = getattr(op, factor.op_type)(*operands)
    return getattr(op, move.op_type)(scaled, *move.inputs[1:], **move.attributes)
