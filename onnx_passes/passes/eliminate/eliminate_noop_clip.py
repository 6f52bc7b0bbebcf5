"""Remove bounds that exclude no number."""

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.matches import FLOATS
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.common.shapes import widens
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled


def _bounded(operator: str, end: float) -> Hint:
    """Return operands that bound a tensor by nothing: the end of its type, or itself."""
    bounds = (*filled("", end), *filled("", end), Spec("1", fill=(end,)), Spec(of=("x",)))
    inputs = {f"{operator}.{index}": bounds for index in (1, 2)}
    return Hint({"x": data("a b", "a", "a b c"), **inputs})


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopClip(IdlePass):
    """Remove bounds that exclude no number.

    Before: ``Clip(x)`` of integers, ``Clip(x, -inf, inf)``, ``Max(x, -inf)``, ``Max(x, x)``
    After:  ``x``

    Sound because no number is below the least of its type or above the greatest; NaN passes
    through all three operators. Nor does a tensor exclude itself.

    Leaves alone: a Clip of floats without bounds, which makes infinities finite; bounds that
    are computed or that callers may override; a bound whose shape makes the result bigger;
    bounds as attributes, which they are before opset 11; bounds that come as the first
    operand.
    """

    operators = ("Clip", "Max", "Min")
    hints: ClassVar[Hints] = {
        "Clip": Hint(
            {
                "x": data("a b", "a"),
                "Clip.1": filled("", -np.inf),
                "Clip.2": filled("", np.inf),
            }
        ),
        "Max": _bounded("Max", -np.inf),
        "Min": _bounded("Min", np.inf),
    }

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether every bound is the end of the type, or the tensor itself."""
        dtype = x.dtype
        if dtype is None or not (dtype in FLOATS or dtype.is_integer()) or node.attributes:
            return False
        others = list(node.inputs[1:])
        if node.op_type != "Clip":
            sign = -1 if node.op_type == "Max" else 1
            return bool(others) and all(v is x or _is_end(v, x, sign) for v in others)
        bounds = [*others, None, None][:2]
        return all(
            dtype.is_integer() if bound is None else _is_end(bound, x, sign)
            for bound, sign in zip(bounds, (-1, 1), strict=True)
        )


def _is_end(bound: ir.Value | None, x: ir.Value, sign: int) -> bool:
    """Whether a constant is nothing but the least (-1) or the greatest (1) of its type."""
    tensor = constant_of(bound)
    if tensor is None or tensor.dtype is not x.dtype or widens(x, bound) or not tensor.size:
        return False
    dtype = tensor.dtype
    ends = (dtype.min, dtype.max) if dtype.is_integer() else (-np.inf, np.inf)
    return bool(np.all(tensor.numpy() == ends[sign > 0]))
