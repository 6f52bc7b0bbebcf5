"""Fold arithmetic with constants into the weights of a linear layer."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.linear_layers import LAYERS, Linear, as_row
from onnx_passes.passes.common.matches import is_moderate, node_of, read_once, scalar_of, wide
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.constants import constant_of

FORMS = (
    *(("Mul", "tc"), ("Mul", "ct"), ("Add", "tc"), ("Add", "ct")),
    *(("Sub", "tc"), ("Sub", "ct"), ("Div", "tc")),
)
"""Operators, and whether the constant is their first or their second operand."""

GELU = (("Mul",), ("Mul",), ("Add",), ("Erf", "Tanh"))
"""Operators of a Gelu's formula, from its result backwards to its curve."""


@passes.verify.tolerance
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
    that pads; Div by the layer's output; weights that overflow or lose digits by it; factors
    so large or small that their product may leave the range before the next; the last factor
    of a Gelu's formula, ``x * (1 + Erf(z)) * 0.5``, which engines look for.
    """

    needs = ("shape-inference",)

    def rules(self) -> Iterator[Rule]:
        for layer, form in product(LAYERS, FORMS):
            yield Rule(
                partial(_layer_first, layer, *form), _fused_behind, _can_be_fused_behind
            )
        for kinds, names in ((LAYERS, ("Mul", "Div")), (("Conv", "Gemm"), ("Add", "Sub"))):
            for layer, name in product(kinds, names):
                yield Rule(
                    partial(_layer_last, layer, name), _fused_before, _can_be_fused_before
                )


def _layer_first(layer: str, operator: str, order: str, op: Op, x: Var, w: Var, c: Var) -> Var:
    """Arithmetic on the output of a layer."""
    t = getattr(op, layer)(x, w, _allow_other_inputs=True, _outputs=["t"])
    return getattr(op, operator)(*((t, c) if order == "tc" else (c, t)), _outputs=["y"])


def _can_be_fused_behind(context: object, c: Value, t: Value, y: Value, **_: object) -> bool:
    new = _behind(node_of(t), node_of(y), c) if read_once(t) else None
    return new is not None and new.tensors() is not None


def _fused_behind(op: Op, x: Value, c: Value, t: Value, y: Value, **_: object) -> Value:
    new = _behind(node_of(t), node_of(y), c)
    assert new is not None, "check has seen to it"
    return new.build(op, x)


def _layer_last(layer: str, operator: str, op: Op, a: Var, b: Var, w: Var) -> Var:
    """Arithmetic on the input of a layer."""
    t = getattr(op, operator)(a, b, _outputs=["t"])
    return getattr(op, layer)(t, w, _allow_other_inputs=True, _outputs=["y"])


def _can_be_fused_before(context: object, t: Value, y: Value, **_: object) -> bool:
    halves = 0.5 in map(scalar_of, node_of(t).inputs)
    found = None if halves and _is_made_by(t, *GELU) else _before(node_of(y), t)
    return found is not None and found[1].tensors() is not None


def _fused_before(op: Op, t: Value, y: Value, **_: object) -> Value:
    found = _before(node_of(y), t)
    assert found is not None, "check has seen to it"
    x, new = found
    return new.build(op, x)


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


def _is_made_by(value: Value | None, *path: tuple[str, ...]) -> bool:
    """Whether a value is computed by operators that a path names backwards."""
    node = value.producer() if value is not None else None
    if node is None or node.domain or node.op_type not in path[0]:
        return False
    return len(path) == 1 or any(_is_made_by(x, *path[1:]) for x in node.inputs)


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
    if arithmetic.op_type in ("Mul", "Div"):
        if arithmetic.op_type == "Div" and not row.all():
            return None
        factor = 1 / row if arithmetic.op_type == "Div" else row
        return (factor, zeros) if is_moderate(factor, layer.dtype) else None
    if arithmetic.op_type == "Add":
        return ones, row
    return (-ones, row) if arithmetic.inputs[0] is c else (ones, -row)
