"""What Softmax and LogSoftmax share."""

from __future__ import annotations

from onnx_passes.passes.base import Value
from onnx_passes.passes.lowering._base import LoweringPass, Site
from onnx_passes.passes.lowering._primitives import Primitives


class SoftmaxPass(LoweringPass):
    """A rule for an operator over exponentials that add up along axes."""

    def obstacle(self, site: Site) -> str | None:
        if site.opset < 13 and site.axis(1) in (None, site.rank()):
            return "which axes it is over is not known"
        return None

    def shifted(self, wide: Primitives, site: Site) -> tuple[Value, Value, Value]:
        """Return the input less its maximum, the exponentials of that, and their sum.

        Args:
            wide: Makes nodes in the type computed in.
            site: The node that is lowered.
        """
        axes = self._axes(site)
        x = wide.cast(site.given(0), site.dtype)
        low = wide.node("Sub", x, wide.reduce("ReduceMax", x, axes))
        exponentials = wide.node("Exp", low)
        return low, exponentials, wide.reduce("ReduceSum", exponentials, axes)

    def _axes(self, site: Site) -> list[int]:
        if site.opset >= 13:
            # From the front, where the rank is known: ONNX Runtime reduces no axis of an empty
            # tensor that is counted from the end.
            axis = site.axis(-1)
            return [site.integer("axis", -1) if axis is None else axis]
        # Before, the input was taken for a matrix whose columns begin at the axis.
        axis, rank = site.axis(1), site.rank()
        assert axis is not None, "an obstacle otherwise"
        assert rank is not None, "an obstacle otherwise"
        return list(range(axis, rank))
