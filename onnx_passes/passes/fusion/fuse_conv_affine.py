"""Fold arithmetic with constants into the weights of a linear layer."""

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.linear import LAYERS, Linear, as_row
from onnx_passes.passes._support.matches import Array, node_of, read_once, wide
from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

FORMS = (
    *(("Mul", "tc"), ("Mul", "ct"), ("Add", "tc"), ("Add", "ct")),
    *(("Sub", "tc"), ("Sub", "ct"), ("Div", "tc")),
)
"""Operators, and whether the constant is their first or their second operand."""


@passes.verify.tolerance
@passes.register()
@passes.register("fuse")
class FuseConvAffine(Transformation, RewriteRuleSetPass):
    """Fold arithmetic with constants into the weights of a linear layer.

    Before: ``Add(Mul(Conv(x, w, b), s), c)``, ``Conv(Mul(x, s), w, b)``
    After:  ``Conv(x, w * s, b * s + c)``, ``Conv(x, w * s, b)``

    Mul, Add, Sub and Div by a number, or by one number for each channel, behind or before a
    Conv, ConvTranspose or Gemm.

    Sound because the layer is linear, and a channel has one factor and one summand wherever
    it is. The contract is a tolerance: the weights, computed in double precision, are rounded
    once more.

    Leaves alone: weights that are computed, that callers may override, or that other layers
    read as well; a layer or an operand that something else reads; constants that differ
    along another axis than that of channels, or make the result bigger; a sum before a layer
    that pads; Div by the layer's output; weights that overflow or lose digits by it.
    """

    needs = ("shape-inference",)

    def pattern(self) -> list[Any]:
        return list(_RULES)

    def check(self) -> list[Any]:
        return [rule.can_be_fused for rule in _RULES]

    def rewrite(self) -> list[Any]:
        return [rule.fused for rule in _RULES]


class _Behind:
    """Arithmetic on the output of a layer."""

    def __init__(self, layer: str, operator: str, order: str) -> None:
        self.layer, self.operator, self.order = layer, operator, order

    def __call__(self, op: Op, x: Var, w: Var, c: Var) -> Var:
        t = getattr(op, self.layer)(x, w, _allow_other_inputs=True, _outputs=["t"])
        return getattr(op, self.operator)(*_ordered(t, c, self.order), _outputs=["y"])

    def can_be_fused(self, context: object, c: Value, t: Value, y: Value, **_: object) -> bool:
        new = _behind(node_of(t), node_of(y), c) if read_once(t) else None
        return new is not None and new.tensors() is not None

    def fused(self, op: Op, x: Value, c: Value, t: Value, y: Value, **_: object) -> Value:
        new = _behind(node_of(t), node_of(y), c)
        assert new is not None, "check has seen to it"
        return new.build(op, x)


class _Before:
    """Arithmetic on the input of a layer."""

    def __init__(self, layer: str, operator: str) -> None:
        self.layer, self.operator = layer, operator

    def __call__(self, op: Op, a: Var, b: Var, w: Var) -> Var:
        t = getattr(op, self.operator)(a, b, _outputs=["t"])
        return getattr(op, self.layer)(t, w, _allow_other_inputs=True, _outputs=["y"])

    def can_be_fused(self, context: object, t: Value, y: Value, **_: object) -> bool:
        found = _before(node_of(y), t)
        return found is not None and found[1].tensors() is not None

    def fused(self, op: Op, t: Value, y: Value, **_: object) -> Value:
        found = _before(node_of(y), t)
        assert found is not None, "check has seen to it"
        x, new = found
        return new.build(op, x)


_RULES: list[_Behind | _Before] = [
    *(_Behind(layer, *form) for layer in LAYERS for form in FORMS),
    *(_Before(layer, name) for layer in LAYERS for name in ("Mul", "Div")),
    *(_Before(layer, name) for layer in ("Conv", "Gemm") for name in ("Add", "Sub")),
]


def _ordered(t: Var, c: Var, order: str) -> tuple[Var, Var]:
    return (t, c) if order == "tc" else (c, t)


def _behind(layer: ir.Node, arithmetic: ir.Node, c: Value) -> Linear | None:
    found = Linear.of(layer)
    pair = _affine(found, arithmetic, c, found.channels) if found else None
    if found is None or pair is None:
        return None
    factor, summand = pair
    with np.errstate(all="ignore"):
        scaled = found.scaled(factor) if (factor != 1).any() else found
        return scaled.shifted(summand) if scaled and summand.any() else scaled


def _before(layer: ir.Node, t: Value) -> tuple[Value, Linear] | None:
    """Return what the arithmetic is done to, and the layer that does it itself."""
    found, arithmetic = Linear.of(layer), node_of(t)
    x, c = arithmetic.inputs
    if constant_of(c) is None and arithmetic.op_type != "Div":
        x, c = c, x
    if found is None or x is None or c is None or not read_once(t) or widens(x, c):
        return None
    pair = _affine(found, arithmetic, c, found.channels_in)
    if pair is None:
        return None
    factor, summand = pair
    with np.errstate(all="ignore"):
        new = found.shifted_before(summand) if summand.any() else found
        new = new.scaled_before(factor) if new and (factor != 1).any() else new
    return None if new is None else (x, new)


def _affine(
    layer: Linear, arithmetic: ir.Node, c: Value, channels: int
) -> tuple[Array, Array] | None:
    """Return the factors and the summands that the arithmetic comes to."""
    tensor, array = constant_of(c), wide(c)
    if tensor is None or array is None or tensor.dtype != layer.dtype:
        return None
    row = as_row(array, layer.rank, channels)
    if row is None or not np.isfinite(row).all():
        return None
    ones, zeros = np.ones_like(row), np.zeros_like(row)
    match arithmetic.op_type:
        case "Mul":
            return row, zeros
        case "Div":
            return (1 / row, zeros) if row.all() else None
        case "Add":
            return ones, row
        case _:
            return (-ones, row) if arithmetic.inputs[0] is c else (ones, -row)
