"""Compute MaxPool by ReduceMax, over the windows of its input."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._base import LoweringPass, Site
from onnx_passes.passes.lowering._primitives import FLOATS, Primitives
from onnx_passes.passes.lowering._windows import gathered, padded, windows_of


@passes.verify.tolerance
@passes.register()
@passes.register("lower")
class LowerMaxPool(LoweringPass):
    """Compute MaxPool by ReduceMax, over the windows of its input.

    Before: ``MaxPool<kernel_shape, strides, dilations, pads, ceil_mode>(x)``
    After:  ``ReduceMax(Gather(Pad(x), windows))`` along each spatial axis, one after the other

    Sound because the maximum over a box is that of the maxima along its axes. Padding is the
    lowest number of the type, and NaN becomes that first, as in ONNX Runtime's kernels:
    ReduceMax would hand it on. The contract is a tolerance: other engines hand it on.

    Leaves alone: nodes whose indices are read; inputs whose type or spatial sizes are not
    known, as in functions; what is empty; windows of nothing but padding; ``auto_pad`` of SAME
    with dilations or windows smaller than the stride, on which engines do not agree.

    Attributes:
        ignore_nan: Whether to let a maximum be one of numbers where there are some, by IsNaN
            and Where; without it a NaN, and minus infinity alone, are handed on.
    """

    ignore_nan: bool = True

    since = 9
    dtypes = frozenset({*FLOATS, ir.DataType.INT8, ir.DataType.UINT8})

    def pattern(self, op: Op, x: Var) -> Var:
        return op.MaxPool(x, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        found = windows_of(site, None)
        if isinstance(found, str):
            return found
        full = all(window.inside(padding=False).all() for window in found)
        return None if full else "a window of it is nothing but padding"

    def lowered(self, to: Primitives, site: Site) -> Value:
        windows = windows_of(site, None)
        assert not isinstance(windows, str), "an obstacle otherwise"
        low, x = float(to.dtype.min), site.given(0)
        if self.ignore_nan and to.dtype in FLOATS:
            lowest = to.number(low)
            x = to.node("Max", to.node("Where", to.node("IsNaN", x), lowest, x), lowest)
        x = padded(to, x, windows, low)
        for axis, window in enumerate(windows, 2):
            if not window.is_whole:
                x = to.reduce("ReduceMax", gathered(to, x, window, axis), [axis], keepdims=0)
        return to.node("Identity", x) if x is site.given(0) else x
