"""Lower Conv to MatMul, over the windows of its input (im2col)."""

import math

from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var
from onnx_passes.passes.lowering._lowering_pass import Primitives, Site
from onnx_passes.passes.lowering._windows import (
    Window,
    WindowPass,
    channels_last,
    gathered,
    padded,
    windows_of,
)


@passes.verify.tolerance
@passes.register("lower")
class LowerConv(WindowPass):
    """Lower Conv to MatMul, over the windows of its input (im2col).

    With ``to: im2col`` the windows are gathered by one operator ``onnx_passes.ops.Im2Col``
    from channels-last data, as the seed system has it, between two Transposes.

    Before: ``Conv<group, strides, dilations, pads>(x, w, b)``
    After:  ``Reshape(MatMul(Reshape(w), columns), [0, M, ...]) + b`` with ``columns`` of shape
            [N, C / group * kernel, windows]

    Each spatial axis of the padded ``x`` is gathered into one over the elements of a window
    and one over the windows. A Transpose and a Reshape bring these together.

    Any number of spatial axes; with groups, MatMul has an axis over these. The columns take as
    many times the memory of ``x`` as windows overlap.

    Sound because each output is the dot product of a window and a filter. The contract is a
    tolerance: engines sum up in another order.

    Leaves alone: inputs whose type or spatial sizes are not known, as in functions; weights
    whose shape is not known; ``auto_pad`` of SAME with dilations or windows smaller than the
    stride, on which engines do not agree; what is empty. (A dynamic batch that turns out to be
    empty is beyond ONNX Runtime's MatMul, which does not broadcast to nothing.)

    Attributes:
        to: ``gather`` for standard operators alone, ``im2col`` for one operator of our own.
            None for the first, except where the pipeline has keys of the seed system.
    """

    since = 9

    def pattern(self, op: Op, x: Var, w: Var) -> Var:
        return op.Conv(x, w, _allow_other_inputs=True, _outputs=["y"])

    def obstacle(self, site: Site) -> str | None:
        weights = site.sizes(1)
        if weights is None or 0 in weights:
            return "the shape of its weights is not known, or empty"
        channels = (site.dims() or [None, None])[1]
        group = site.integer("group", 1)
        if channels not in (None, weights[1] * group) or weights[0] % group:
            return "its weights are not for its channels"
        if site.input(2) is not None and site.rank(2) != 1:
            return "its bias is not known to be a row"
        found = windows_of(site, weights[2:])
        return found if isinstance(found, str) else None

    def lowered(self, to: Primitives, site: Site) -> Value:
        weights, group = site.sizes(1), site.integer("group", 1)
        assert weights is not None, "an obstacle otherwise"
        windows = windows_of(site, weights[2:])
        assert not isinstance(windows, str), "an obstacle otherwise"
        if self.to_im2col:
            return channels_last(to, site, weights, windows)
        counts = [window.count for window in windows]
        rows, depth = weights[0] // group, math.prod(weights[1:])
        groups = [group] if group > 1 else []
        columns = to.reshape(
            self._columns(to, site.given(0), windows), [0, *groups, depth, math.prod(counts)]
        )
        filters = to.reshape(site.given(1), [*groups, rows, depth])
        result = to.reshape(to.node("MatMul", filters, columns), [0, weights[0], *counts])
        bias = site.input(2)
        if bias is None:
            return result
        return to.node("Add", result, to.unsqueeze(bias, range(1, len(counts) + 1)))

    def _columns(self, to: Primitives, x: Value, windows: list[Window]) -> Value:
        """Return the input as [N, C, elements of a window..., windows...]."""
        x = padded(to, x, windows, 0.0)
        elements, places, rank = [], [], 2
        for window in windows:
            if window.is_whole:
                places.append(rank)
                rank += 1
                continue
            x = gathered(to, x, window, rank)
            elements.append(rank)
            places.append(rank + 1)
            rank += 2
        order = [0, 1, *elements, *places]
        return x if order == sorted(order) else to.node("Transpose", x, perm=order)
