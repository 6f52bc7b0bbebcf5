"""Replace QuantizeLinear, Clip and DequantizeLinear by one quantiser of QONNX."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import QONNX
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, filled
from onnx_passes.passes.quantised import _quantisers as quantisers
from onnx_passes.passes.quantised._quantised_hints import INT8_LEVELS, PAIR, SMALL
from onnx_passes.passes.streamline._rule_constants import constant


@passes.verify.tolerance
@passes.register()
class ConvertFromQcdq(RulePass):
    """Replace QuantizeLinear, Clip and DequantizeLinear by one quantiser of QONNX.

    Before: ``DequantizeLinear(QuantizeLinear(x, scale, zero), scale, zero)``, also with a
            ``Clip`` between; ``DequantizeLinear(integers, scale, zero)`` of constants
    After:  ``Quant(x, scale, zero, bits)``; of constants ``Quant(floats, scale, zero, bits)``

    Integers have 8, 4 or 2 bits, or fewer by the Clip. Scales may differ along an axis.

    Sound because both round the quotient to the nearest integer, ties to the even one, and
    saturate. Where the zero point is not 0, QONNX adds it before it rounds: a number within a
    rounding of a tie may come out one level off. Of NaN, QuantizeLinear makes some integer:
    the pass speaks of finite numbers.

    Leaves alone: zero points that are odd, whose ties go the other way, that differ, or that
    the bounds do not hold; parameters that are computed or that differ between both; scales
    that are not positive, of other types than float32, or of blocks; integers that something
    else reads; bounds that no number of bits has; other integer types.
    """

    exclusive = True
    finite_only = True
    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "*": PAIR,
        "constant": Hint(
            {"x": INT8_LEVELS, "t": filled("", 0.5, 0.25), "w": SMALL},
            {"DequantizeLinear.axis": (None,)},
            (ir.DataType.FLOAT,),
            13,
        ),
    }

    def table(self) -> list[TermRule]:
        return _RULES


@dataclass(frozen=True)
class _Form:
    """Parameters of a quantiser of QONNX, and the floats that it reads if they are known."""

    scale: Array
    zero: int
    bits: int
    signed: bool
    narrow: bool
    floats: Array | None = None


def _of_pair(v: Values) -> _Form | None:
    pair = quantisers.pair_of(node_of(v["y"]))
    if pair is None or constant_of(v["x"]) is not None:
        return None
    found = pair.quantiser
    return _form(found.scale, found.zero, quantisers.Levels(int(found.low), int(found.high)))


def _of_constant(v: Values) -> _Form | None:
    tensor, zero = constant_of(v["x"]), constant_of(v["w"])
    if tensor is None or zero is None or tensor.dtype not in (None, zero.dtype):
        return None
    grid = quantisers.grid_of(node_of(v["y"]), ir.Shape(tensor.shape.numpy()))
    if grid is None or not quantisers.is_integer_type(grid.dtype):
        return None
    floats = (tensor.numpy().astype(np.float32) - grid.zero) * grid.scale
    return _form(grid.scale, grid.zero, quantisers.range_of(grid.dtype), floats)


def _form(
    scale: Array, zeros: Array, levels: quantisers.Levels, floats: Array | None = None
) -> _Form | None:
    """Return the parameters; None if no number of bits has these levels and zero point."""
    zero, form = int(zeros.flat[0]), levels.form()
    if form is None or (zeros != zero).any() or zero % 2:
        return None
    return _Form(scale, zero, *form, floats) if levels.low <= zero <= levels.high else None


def _quantiser(op: Op, v: Values, found: _Form) -> Value:
    x = v["x"] if found.floats is None else constant(op, found.floats)
    return op.Quant(
        x,
        *(constant(op, part) for part in (found.scale, found.zero, found.bits)),
        signed=int(found.signed),
        narrow=int(found.narrow),
        rounding_mode="ROUND",
        _domain=QONNX,
    )


_INTEGERS = call("QuantizeLinear", "x", "s", "z", result="q")
_RULES = [
    TermRule(
        call("DequantizeLinear", inner, "t", "w", result="y"), find, _quantiser, name=name
    )
    for name, inner, find in (
        ("pair", _INTEGERS, _of_pair),
        ("pair-with-clip", call("Clip", _INTEGERS, "a", "b"), _of_pair),
        ("constant", "x", _of_constant),
    )
]
