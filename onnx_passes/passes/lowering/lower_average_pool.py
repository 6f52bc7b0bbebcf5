"""Lower AveragePool to ReduceSum, over the windows of its input."""

from functools import reduce

import numpy as np

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import Primitives, Site
from onnx_passes.passes.lowering._windows import WindowPool


@passes.verify.tolerance
@passes.register("lower")
class LowerAveragePool(WindowPool):
    """Lower AveragePool to ReduceSum, over the windows of its input.

    Before: ``AveragePool<kernel_shape, strides, dilations, pads, count_include_pad>(x)``
    After:  ``s / sizes``, where ``s`` is ``ReduceSum(Gather(Pad(x), windows))`` along each
            spatial axis, one after the other, and ``sizes`` counts what is in each window

    Sound because the sum over a box is that of the sums along its axes. Half precision is
    computed in single precision. The contract is a tolerance: engines sum up in another order.

    Leaves alone: inputs whose type or spatial sizes are not known, as in functions; what is
    empty; windows of nothing but padding; ``auto_pad`` of SAME
    with dilations or windows smaller than the stride, on which engines do not agree.

    Attributes:
        to: ``gather`` for standard operators alone, ``im2col`` for windows of channels-last
            data by one operator of our own. None for the first, except where the pipeline has
            keys of the seed system.
    """

    reduction = "ReduceSum"

    def pattern(self, op: Op, x: Var) -> Var:
        return op.AveragePool(x, _outputs=["y"])

    def lowered(self, to: Primitives, site: Site) -> Value:
        windows, wide = self.windows(site), to.widened()
        x = self.reduced(wide, wide.cast(site.given(0), to.dtype), windows, 0.0)
        padding = bool(site.integer("count_include_pad", 0))
        sizes = [window.inside(padding=padding) for window in windows]
        return to.cast(wide.node("Div", x, self._divisor(wide, sizes)), wide.dtype)

    def _divisor(self, wide: Primitives, sizes: list[Array]) -> Value:
        products = reduce(np.multiply.outer, sizes)
        if (products == products.flat[0]).all():
            return wide.number(float(products.flat[0]))
        return wide.tensor(products.astype(wide.dtype.numpy()))
