"""Lower MaxPool to ReduceMax, over the windows of its input."""

import math

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import FLOATS, Primitives, Site
from onnx_passes.passes.lowering._windows import Maximum, WindowPool


@passes.verify.tolerance
@passes.register("lower")
class LowerMaxPool(Maximum, WindowPool):
    """Lower MaxPool to ReduceMax, over the windows of its input.

    Before: ``MaxPool<kernel_shape, strides, dilations, pads, ceil_mode>(x)``
    After:  ``ReduceMax(Gather(Pad(x), windows))`` along each spatial axis, one after the other

    Sound because the maximum over a box is that of the maxima along its axes. Padding is the
    lowest number of the type. The contract is a tolerance: of nothing but minus infinity the
    maximum is minus infinity. Some kernels (ONNX Runtime's for single precision, of most
    windows) give the lowest finite number.

    Leaves alone: floats without ``assume_no_nan``, except where the pipeline has keys of the
    seed system; nodes whose indices are read; inputs whose
    type or spatial sizes are not known, as in functions; what is empty; windows of nothing but
    padding; ``auto_pad`` of SAME with dilations or windows smaller than the stride, on which
    engines do not agree.

    Attributes:
        assume_no_nan: Whether floats may be lowered, since none of them is NaN. ReduceMax
            hands NaN on; what ONNX Runtime's MaxPool makes of it depends on the order of a
            window.
        to: ``gather`` for standard operators alone, ``im2col`` for windows of channels-last
            data by one operator of our own. None for the first, except where the pipeline has
            keys of the seed system.
    """

    reduction = "ReduceMax"
    dtypes = frozenset({*FLOATS, ir.DataType.INT8, ir.DataType.UINT8})

    def pattern(self, op: Op, x: Var) -> Var:
        return op.MaxPool(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        low = -math.inf if to.dtype in FLOATS else float(to.dtype.min)
        x = self.reduced(to, site.given(0), self.windows(site), low)
        return to.node("Identity", x) if x is site.given(0) else x
