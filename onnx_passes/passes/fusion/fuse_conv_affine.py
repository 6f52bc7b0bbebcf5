"""Put arithmetic with constants into the weights of a linear layer."""

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.linear import LAYERS, Linear, as_row
from onnx_passes.passes._support.matches import Array, node_of, read_once, wide
from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

FORMS = (("Mul", "tc"), ("Add", "tc"), ("Sub", "tc"), ("Sub", "ct"), ("Div", "tc"))
"""Operators, and whether the constant is their first or their second operand."""


@passes.verify.tolerance
@passes.register()
@passes.register("fuse")
class FuseConvAffine(Transformation, RewriteRuleSetPass):
    """Put arithmetic with constants into the weights of a linear layer.

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

    requires: ClassVar[Any] = ("shape-inference",)
    commute: ClassVar[bool] = True

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

    @staticmethod
    def new(x: Value, c: Value, t: Value, y: Value) -> Linear | None:
        """Return the layer that does both."""
        return _behind(node_of(t), node_of(y), c) if read_once(t) else None

    def can_be_fused(
        self, context: Any, x: Value, c: Value, t: Value, y: Value, **_: Any
    ) -> bool:
        new = self.new(x, c, t, y)
        return new is not None and new.tensors() is not None

    def fused(self, op: Op, x: Value, c: Value, t: Value, y: Value, **_: Any) -> Value:
        new = self.new(x, c, t, y)
        assert new is not None, "check has seen to it"
        return new.build(op, x)


class _Before(_Behind):
    """Arithmetic on the input of a layer."""

    def __call__(self, op: Op, x: Var, w: Var, c: Var) -> Var:
        t = getattr(op, self.operator)(*_ordered(x, c, self.order), _outputs=["t"])
        return getattr(op, self.layer)(t, w, _allow_other_inputs=True, _outputs=["y"])

    @staticmethod
    def new(x: Value, c: Value, t: Value, y: Value) -> Linear | None:
        if not read_once(t) or widens(x, c):
            return None
        return _before(node_of(y), node_of(t), c)


_RULES = [
    kind(layer, *form) for kind in (_Behind, _Before) for layer in LAYERS for form in FORMS
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


def _before(layer: ir.Node, arithmetic: ir.Node, c: Value) -> Linear | None:
    found = Linear.of(layer)
    pair = _affine(found, arithmetic, c, found.channels_in) if found else None
    if found is None or pair is None:
        return None
    factor, summand = pair
    with np.errstate(all="ignore"):
        shifted = found.shifted_before(summand) if summand.any() else found
        return shifted.scaled_before(factor) if shifted and (factor != 1).any() else shifted


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
