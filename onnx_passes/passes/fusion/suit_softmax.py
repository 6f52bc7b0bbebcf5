"""Replace a Softmax by a form that ONNX Runtime has a fast kernel for."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import node_of, opset_at
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.hints import Hint, Hints, data


@passes.verify.equality
@passes.register("suit-onnxruntime")
class SuitSoftmax(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace a Softmax by a form that ONNX Runtime has a fast kernel for.

    Before: ``Softmax<axis = 1>(x)`` of shape [1, 80, 22, 22],
            ``QuantizeLinear(Softmax(DequantizeLinear(q, s, z)), t, u)``
    After:  ``Reshape(Softmax<axis = 1>(Reshape(x, [0, 0, 484])), [0, 0, 22, 22])``,
            ``QuantizeLinear(Softmax(Sum(DequantizeLinear(q, s, z))), t, u)``

    ONNX Runtime exchanges the axis with the last one, and back: with another axis in between
    its Transpose is ten times as slow as with none. Between quantisers it takes its
    QLinearSoftmax, at four times the cost of the others together; it knows none with a Sum
    (1.31).

    Sound because a Reshape keeps the order of the elements, so that the same ones meet along
    the axis, and the Sum of one tensor is that tensor.

    The size of axes is computed where it is not known: a Reshape cannot infer it (-1) where a
    batch is empty.

    Leaves alone: the last two axes; opsets before 13, where the operator is over several axes,
    and before 15 where sizes behind the axis are not known; unknown ranks; sizes of 0;
    quantisers with something in between.
    """

    needs = ("shape-inference",)
    always_pays = False
    hints: ClassVar[Hints] = {
        "*": Hint({"x": data("a b c d", "a b c d e")}, {"Softmax.axis": (1, -3, 2)}, since=13)
    }

    def rules(self) -> Iterator[Rule]:
        yield Rule(_inner, _flat, _is_far_in, "inner-axis")
        yield Rule(_between, _kept_apart, None, "between-quantisers")


def _inner(op: Op, x: Var) -> Var:
    return op.Softmax(x, _outputs=["y"])


def _is_far_in(context: MatchContext, x: Value, y: Value) -> bool:
    dims, opset = dims_of(x), opset_at(context)
    if dims is None or 0 in dims or opset < 13:
        return False
    return _axis(x, y) < len(dims) - 2 and (opset >= 15 or _behind(x, y) is not None)


def _axis(x: Value, y: Value) -> int:
    axis = node_of(y).attributes.get_int("axis", -1) or 0
    return axis + len(dims_of(x) or ()) if axis < 0 else axis


def _behind(x: Value, y: Value) -> list[int] | None:
    """Return the sizes behind the axis, if all are known."""
    behind = (dims_of(x) or [])[_axis(x, y) + 1 :]
    sizes = [size for size in behind if isinstance(size, int)]
    return sizes if len(sizes) == len(behind) else None


def _flat(op: Op, x: Value, y: Value) -> Value:
    axis, sizes = _axis(x, y), _behind(x, y)
    if sizes is not None:
        kept = [0] * (axis + 1)
        rows = op.Reshape(x, _ints(op, [*kept, int(np.prod(sizes))]))
        return op.Reshape(op.Softmax(rows, axis=axis), _ints(op, [*kept, *sizes]))
    count = op.ReduceProd(op.Shape(x, start=axis + 1), keepdims=1)
    target = op.Concat(op.Shape(x, start=0, end=axis + 1), count, axis=0)
    made = op.Softmax(op.Reshape(x, target, allowzero=1), axis=axis)
    return op.Reshape(made, op.Shape(x), allowzero=1)


def _ints(op: Op, numbers: list[int]) -> Value:
    return op.Constant(value=ir.tensor(np.array(numbers, np.int64)))


def _between(op: Op, q: Var, s: Var, z: Var, t: Var, u: Var) -> Var:
    x = op.DequantizeLinear(q, s, z, _outputs=["x"])
    return op.QuantizeLinear(op.Softmax(x, _outputs=["y"]), t, u, _outputs=["r"])


def _kept_apart(
    op: Op, q: Value, s: Value, z: Value, t: Value, u: Value, x: Value, y: Value, r: Value
) -> Value:
    made = op.Softmax(op.Sum(x), **node_of(y).attributes)
    return op.QuantizeLinear(made, t, u, **node_of(r).attributes)
