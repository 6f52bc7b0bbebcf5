"""Put one Clip in the place of a Min and a Max with constants."""

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes._support.matches import node_of, opset_at
from onnx_passes.passes._support.shapes import widens
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var

TYPES = (
    *(ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE),
    *(ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64),
)
"""Types that ONNX Runtime has all three operators for."""


@passes.verify.tolerance
@passes.register()
@passes.register("fuse")
class FuseMinMax(Transformation, RewriteRuleSetPass):
    """Put one Clip in the place of a Min and a Max with constants.

    Before: ``Min(Max(x, 0), 6)``, ``Max(Min(x, 6), 0)``
    After:  ``Clip(x, 0, 6)``

    Sound because that is what Clip does where its bounds are not crossed; NaN goes through all
    three. The contract is a tolerance for the sign of zero only: engines choose which of -0
    and 0 is the greater one.

    Leaves alone: bounds that are crossed, NaN, computed, that callers may override, or that
    make the tensor bigger; more than two operands; opsets before 12, where Clip has no
    integers; types that ONNX Runtime has no kernel for; a value between that something else
    reads.
    """

    requires: ClassVar[Any] = ("shape-inference",)
    exclusive: ClassVar[bool] = True

    def pattern(self) -> list[Any]:
        return [_Nested(*form) for form in _FORMS]

    def check(self) -> list[Any]:
        return [_can_be_fused for _ in _FORMS]

    def rewrite(self) -> list[Any]:
        return [_clip for _ in _FORMS]


_FORMS = [(outer, first) for outer in ("Min", "Max") for first in (True, False)]


class _Nested:
    """A Min of a Max or the other way round, the inner one first or second."""

    def __init__(self, outer: str, first: bool) -> None:
        self.outer, self.first = outer, first

    def __call__(self, op: Op, a: Var, b: Var, c: Var) -> Var:
        inner = getattr(op, "Max" if self.outer == "Min" else "Min")
        t = inner(a, b, _outputs=["t"])
        operands = (t, c) if self.first else (c, t)
        return getattr(op, self.outer)(*operands, _outputs=["y"])


def _can_be_fused(context: Any, c: Value, t: Value, y: Value, **_: Any) -> bool:
    return opset_at(context) >= 12 and _parts(c, t, y) is not None


def _clip(op: Op, c: Value, t: Value, y: Value, **_: Any) -> Value:
    parts = _parts(c, t, y)
    assert parts is not None, "check has seen to it"
    x, *bounds = parts
    low, high = (op.Constant(value=ir.tensor(np.asarray(bound))) for bound in bounds)
    made: Value = op.Clip(x, low, high)
    return made


def _parts(c: Value, t: Value, y: Value) -> tuple[Value, Any, Any] | None:
    """Return the tensor and its bounds."""
    x, inner = node_of(t).inputs
    if constant_of(inner) is None:
        x, inner = inner, x
    if x is None or constant_of(x) is not None:
        return None
    bounds = [_bound(x, value) for value in (inner, c)]
    if node_of(y).op_type == "Max":
        bounds.reverse()
    low, high = bounds
    if low is None or high is None or low.dtype != high.dtype or not low <= high:
        return None
    return x, low, high


def _bound(x: Value, value: Value | None) -> Any:
    tensor = constant_of(value)
    if tensor is None or tensor.size != 1 or tensor.dtype not in TYPES or widens(x, value):
        return None
    return tensor.numpy().reshape(-1)[0]
