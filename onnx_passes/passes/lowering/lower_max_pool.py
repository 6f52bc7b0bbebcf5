"""Compute MaxPool by ReduceMax, over the windows of its input."""

import math

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
    lowest number of the type. The contract is a tolerance: minus infinity is a maximum for
    some engines, and for some it is not.

    Leaves alone: floats without ``assume_no_nan``; nodes whose indices are read; inputs whose
    type or spatial sizes are not known, as in functions; what is empty; windows of nothing but
    padding; ``auto_pad`` of SAME with dilations or windows smaller than the stride, on which
    engines do not agree.

    Attributes:
        assume_no_nan: Whether floats may be lowered, since none of them is NaN. ReduceMax
            hands NaN on; what ONNX Runtime's MaxPool makes of it depends on the order of a
            window.
    """

    assume_no_nan: bool = False

    since = 9
    dtypes = frozenset({*FLOATS, ir.DataType.INT8, ir.DataType.UINT8})

    def pattern(self, op: Op, x: Var) -> Var:
        return op.MaxPool(x, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        if site.dtype in FLOATS and not self.assume_no_nan:
            return "one of its floats may be NaN, unless assume_no_nan says otherwise"
        found = windows_of(site, None)
        if isinstance(found, str):
            return found
        full = all(window.inside(padding=False).all() for window in found)
        return None if full else "a window of it is nothing but padding"

    def lowered(self, to: Primitives, site: Site) -> Value:
        windows = windows_of(site, None)
        assert not isinstance(windows, str), "an obstacle otherwise"
        low = -math.inf if to.dtype in FLOATS else float(to.dtype.min)
        x = padded(to, site.given(0), windows, low)
        for axis, window in enumerate(windows, 2):
            if not window.is_whole:
                x = to.reduce("ReduceMax", gathered(to, x, window, axis), [axis], keepdims=0)
        return to.node("Identity", x) if x is site.given(0) else x
