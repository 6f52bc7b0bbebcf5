"""Fold a factor into the constant weights of a MatMul."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.linear_layers import SMALL, multiplied
from onnx_passes.passes.common.matches import FLOATS, node_of, wide
from onnx_passes.passes.constants import constant_of


@passes.verify.tolerance
@passes.register("fuse")
class FuseMatmulScale(Transformation, RewriteRuleSetPass):
    """Fold a factor into the constant weights of a MatMul.

    Before: ``Mul(MatMul(x, w), s)``, ``Div(Add(MatMul(x, w), b), s)``
    After:  ``MatMul(x, w * s)``, ``Add(MatMul(x, w / s), b / s)``

    Sound because a product of matrices is linear in each column of the second, and a sum is
    scaled with its parts. The contract is a tolerance: the weights, computed in double
    precision, are rounded once more.

    Leaves alone: weights or a summand that are computed, that callers may override, or that
    something else reads; a factor that is neither a number nor a row of one for each column;
    weights that overflow or lose digits by it; a product that something else reads.
    """

    exclusive = True
    commute = True

    def rules(self) -> Iterator[Rule]:
        for name in ("Mul", "Div"):
            yield Rule(partial(_of_product, name), _product, _can_be_fused)
        for name in ("Mul", "Div"):
            yield Rule(partial(_of_sum, name), _sum, _can_be_fused)


def _of_product(operator: str, op: Op, x: Var, w: Var, s: Var) -> Var:
    return getattr(op, operator)(op.MatMul(x, w), s, _outputs=["y"])


def _of_sum(operator: str, op: Op, x: Var, w: Var, s: Var, b: Var) -> Var:
    t = op.Add(op.MatMul(x, w), b)
    return getattr(op, operator)(t, s, _outputs=["y"])


def _can_be_fused(
    context: object, x: Value, w: Value, s: Value, y: Value, b: Value | None = None
) -> bool:
    return all(_scaled(value, w, s, y) is not None for value in (w, b) if value is not None)


def _product(op: Op, x: Value, w: Value, s: Value, y: Value) -> Value:
    return op.MatMul(x, _constant(op, w, w, s, y))


def _sum(op: Op, x: Value, w: Value, s: Value, y: Value, b: Value) -> Value:
    product = _product(op, x, w, s, y)
    return op.Add(product, _constant(op, b, w, s, y))


def _constant(op: Op, value: Value, w: Value, s: Value, y: Value) -> Value:
    array = _scaled(value, w, s, y)
    assert array is not None, "check has seen to it"
    return op.Constant(value=ir.tensor(array))


def _scaled(value: Value, w: Value, s: Value, y: Value) -> Array | None:
    """Return the weights or the summand times the factor."""
    tensor, factor, weights = constant_of(value), wide(s), constant_of(w)
    if tensor is None or tensor.dtype not in FLOATS or factor is None or weights is None:
        return None
    if len(weights.shape) < 2 or factor.ndim > 1 or not np.isfinite(factor).all():
        return None
    if factor.size != 1 and factor.size != weights.shape[-1]:
        return None
    if len(value.uses()) > 1 and tensor.size > SMALL:
        return None
    if node_of(y).op_type == "Div":
        if not factor.all():
            return None
        factor = 1 / factor
    array = tensor.numpy()
    if np.broadcast_shapes(array.shape, factor.shape) != array.shape:
        return None  # a summand of one number would become a row
    return multiplied(array, factor, dtype=tensor.dtype)
