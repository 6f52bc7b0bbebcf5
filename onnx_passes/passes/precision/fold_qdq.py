"""Remove a dequantiser and a quantiser on the same grid, and keep the integers."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Rule, Transformation, Value, Var
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, filled

_MOST_BITS = 16
_ROOM = 2.0**24


def _grids(points: str, *zeros: float) -> Hint:
    """Return integers of both kinds, with scales and zero points that agree."""
    cases = (
        Hint(
            {
                "q": (Spec("a b", dtype=kind), Spec("b", dtype=kind)),
                **{name: filled("", scale) for name in "st"},
                **{name: filled("", zero, dtype=kind) for name in points},
            }
        )
        for kind in (ir.DataType.UINT8, ir.DataType.INT8)
        for scale in (0.5, 0.013, 3.0)
        for zero in zeros
    )
    return Hint({}, cases=tuple(cases), types=(ir.DataType.FLOAT,), since=13)


@passes.verify.equality
@passes.register()
class FoldQdq(Transformation, RewriteRuleSetPass):
    """Remove a dequantiser and a quantiser on the same grid, and keep the integers.

    Before: ``y = QuantizeLinear(DequantizeLinear(q, s, z), s, z)``
    After:  q in place of y

    Sound because an integer less the zero point, times a scale and divided by it in float32,
    is off by less than a half. So rounding gives the integer again.

    Leaves alone: scales or zero points that are computed or differ; integers of more than 16
    bits; scales whose product may overflow or be subnormal; other axes or blocks. A
    QuantizeLinear of a constant is computed by fold-constants.
    """

    needs = ("shape-inference",)

    hints: ClassVar[Hints] = {
        "with-zero-point": _grids("zu", 0.0, 7.0),
        "without-zero-point": _grids("u", 0.0),
    }

    def rules(self) -> Iterator[Rule]:
        yield Rule(_with_zero, _integers, _same_grid, "with-zero-point")
        yield Rule(_rewrite_without_zero, _integers, _same_grid, "without-zero-point")


def _with_zero(op: Op, q: Var, s: Var, z: Var, t: Var, u: Var) -> Var:
    wide = op.DequantizeLinear(q, s, z, _outputs=["wide"])
    return op.QuantizeLinear(wide, t, u, _outputs=["y"])


def _rewrite_without_zero(op: Op, q: Var, s: Var, t: Var, u: Var) -> Var:
    wide = op.DequantizeLinear(q, s, _outputs=["wide"])
    return op.QuantizeLinear(wide, t, u, _outputs=["y"])


def _same_grid(
    context: object,
    q: Value,
    s: Value,
    t: Value,
    u: Value,
    wide: Value,
    y: Value,
    z: Value | None = None,
) -> bool:
    scales, zeros = (constant_of(s), constant_of(t)), (constant_of(z), constant_of(u))
    if scales[0] is None or scales[1] is None or zeros[1] is None or q.dtype is None:
        return False
    kind = zeros[1].dtype
    if q.dtype is not kind or not kind.is_integer() or kind.bitwidth > _MOST_BITS:
        return False
    first, second = (scale.numpy() for scale in scales if scale is not None)
    if first.dtype != np.float32 or first.shape != second.shape or (first != second).any():
        return False
    zero = np.zeros(first.shape) if zeros[0] is None else zeros[0].numpy()
    if z is not None and zeros[0] is None:
        return False
    if zero.shape != zeros[1].numpy().shape or (zero != zeros[1].numpy()).any():
        return False
    info = np.finfo(np.float32)
    if not ((first > info.tiny * _ROOM) & (first < info.max / _ROOM)).all():
        return False
    return _place(wide) == _place(y) and set(node_of(y).attributes) <= {"axis", "block_size"}


def _place(value: ir.Value) -> tuple[object, ...]:
    attributes = node_of(value).attributes
    return attributes.get_int("axis", 1), attributes.get_int("block_size", 0)


def _integers(op: Op, q: Value, **_: object) -> Value:
    return op.Identity(q)
