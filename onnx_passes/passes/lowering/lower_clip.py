"""Lower Clip to Min and Max."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.constants import numbers_of
from onnx_passes.passes.lowering._lowering_pass import FLOATS, LoweringPass, Primitives, Site

NUMBERS = frozenset(
    {*FLOATS, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64}
    | {ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16}
)


@passes.verify.tolerance
@passes.register("lower")
class LowerClip(LoweringPass):
    """Lower Clip to Min and Max.

    Before: ``Clip(x, low, high)``
    After:  ``Min(Max(x, low), high)``; bounds of floats that are left out are their extremes

    Sound because this is how the operator is defined, also where the bounds are in the wrong
    order. NaN stays NaN. The contract is a tolerance: which of two zeros is the smaller one,
    kernels do not agree on. A computed bound is taken to be a number. One that is NaN makes
    NaN here, as the text of the standard says. The function of the standard, and ONNX Runtime,
    ignore it.

    Leaves alone: nodes whose type is not known, as in functions; opsets before 8, whose Min
    and Max do not broadcast; bfloat16 without one of the bounds; constant bounds that are NaN.
    """

    since = 8
    dtypes = NUMBERS

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Clip(x, _allow_other_inputs=True, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        bounds = (site.input(1), site.input(2))
        if site.dtype is ir.DataType.BFLOAT16 and None in bounds:
            return "what a bound left out means in bfloat16, engines do not agree on"
        limits = [
            *map(numbers_of, bounds),
            *(site.number(name, 0.0) for name in ("min", "max")),
        ]
        if any(limit is not None and np.isnan(limit).any() for limit in limits):
            return "what a bound that is NaN means, engines do not agree on"
        return None

    def lowered(self, to: Primitives, site: Site) -> Value:
        x = site.given(0)
        low = site.input(1) or self._bound(to, site, "min")
        high = site.input(2) or self._bound(to, site, "max")
        result = x if low is None else to.node("Max", x, low)
        result = result if high is None else to.node("Min", result, high)
        return to.node("Identity", x) if result is x else result

    def _bound(self, to: Primitives, site: Site, name: str) -> Value | None:
        """Return the bound where no input says it; None where it is all the type holds."""
        if site.dtype not in FLOATS:
            return None
        # Infinities exceed the default, and before opset 11 it was that of single precision.
        limit = float(getattr(ir.DataType.FLOAT if site.opset < 11 else to.dtype, name))
        with np.errstate(over="ignore"):
            return to.number(site.number(name, limit) if site.opset < 11 else limit)
