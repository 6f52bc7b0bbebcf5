"""What the poolings share: whole images, and windows along one axis after the other."""

from __future__ import annotations

from typing import ClassVar

from onnx_passes.passes.base import Value
from onnx_passes.passes.lowering._base import LoweringPass, Site
from onnx_passes.passes.lowering._primitives import FLOATS, Primitives
from onnx_passes.passes.lowering._windows import Window, gathered, padded, windows_of

MAY_BE_NAN = "one of its floats may be NaN, unless assume_no_nan says otherwise"


class GlobalPool(LoweringPass):
    """A pooling over all axes but the first two.

    Attributes:
        reduction: The operator that takes its place.
    """

    reduction: ClassVar[str] = ""

    def obstacle(self, site: Site) -> str | None:
        spatial = (site.dims() or [])[2:]
        return "it has no spatial axes" if not spatial or 0 in spatial else None

    def lowered(self, to: Primitives, site: Site) -> Value:
        wide, rank = to.widened(), site.rank()
        assert rank is not None, "an obstacle otherwise"
        x = wide.cast(site.given(0), to.dtype)
        return to.cast(wide.reduce(self.reduction, x, range(2, rank)), wide.dtype)


class WindowPool(LoweringPass):
    """A pooling over windows that each have something of the input.

    Attributes:
        reduction: The operator that takes its place, along each axis.
    """

    reduction: ClassVar[str] = ""
    since = 9

    def obstacle(self, site: Site) -> str | None:
        found = windows_of(site, None)
        if isinstance(found, str):
            return found
        full = all(window.inside(padding=False).all() for window in found)
        return None if full else "a window of it is nothing but padding"

    def windows(self, site: Site) -> list[Window]:
        """Return the windows along each spatial axis."""
        found = windows_of(site, None)
        assert not isinstance(found, str), "an obstacle otherwise"
        return found

    def reduced(self, to: Primitives, x: Value, windows: list[Window], number: float) -> Value:
        """Pad with a number, and reduce the windows along one axis after the other.

        Args:
            to: Makes nodes.
            x: The input, [samples, channels, ...].
            windows: The window along each spatial axis.
            number: The number outside of the image.
        """
        x = padded(to, x, windows, number)
        for axis, window in enumerate(windows, 2):
            if not window.is_whole:
                parts = gathered(to, x, window, axis)
                x = to.reduce(self.reduction, parts, [axis], keepdims=0)
        return x


def nan_obstacle(site: Site, assumed: bool) -> str | None:
    """Return why a maximum stays, where one of its floats may be NaN.

    Args:
        site: The node that is lowered.
        assumed: Whether the user says that there is no NaN.
    """
    return MAY_BE_NAN if site.dtype in FLOATS and not assumed else None
