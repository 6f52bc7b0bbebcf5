"""The windows that convolutions and poolings slide over their input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.passes._support.shapes import dims_of
from onnx_passes.passes.base import Value
from onnx_passes.passes.lowering._base import Site
from onnx_passes.passes.lowering._primitives import Primitives


@dataclass(frozen=True)
class Window:
    """The windows along one axis.

    Attributes:
        size: Of the input.
        kernel: Elements of a window.
        stride: From one window to the next.
        dilation: From one element of a window to the next.
        begin: Elements padded in front.
        end: Elements padded behind, as the node says.
        count: Number of windows.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    count: int

    @property
    def needed(self) -> int:
        """Elements padded behind that windows reach; with ceil_mode more than ``end``."""
        return max(0, int(self.places.max()) + 1 - self.begin - self.size)

    @property
    def places(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Where the elements of the windows lie in the padded input, as [kernel, count]."""
        steps = np.arange(self.kernel, dtype=np.int64)[:, None] * self.dilation
        return steps + np.arange(self.count, dtype=np.int64) * self.stride

    @property
    def is_whole(self) -> bool:
        """Whether each element is a window, and each window an element."""
        return (self.kernel, self.stride, self.begin + self.needed) == (1, 1, 0)

    def inside(self, *, padding: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Count what each window has of the input, or also of the declared padding."""
        low, high = self.begin, self.begin + self.size
        if padding:
            low, high = 0, high + self.end
        counted: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = (
            (self.places >= low) & (self.places < high)
        ).sum(axis=0)
        return counted


def windows_of(site: Site, kernel: Sequence[int] | None) -> list[Window] | str:
    """Return the windows along each spatial axis, or why they are not known.

    Args:
        site: A Conv or a pooling.
        kernel: The size of a window, where the attribute ``kernel_shape`` does not say it.
    """
    dims = site.dims()
    sizes = [dim for dim in (dims or [])[2:] if isinstance(dim, int)]
    kernel = site.integers("kernel_shape") or kernel
    if dims is None or len(sizes) < max(1, len(dims) - 2) or kernel is None:
        return "its spatial sizes are not known"
    count = len(sizes)
    strides = site.integers("strides") or [1] * count
    dilations = site.integers("dilations") or [1] * count
    pads = site.integers("pads") or [0] * 2 * count
    if {len(kernel), len(strides), len(dilations), len(pads) // 2} != {count}:
        return "its attributes are not for its rank"
    if site.text("auto_pad", "NOTSET").startswith("SAME"):
        wide = any(k < s for k, s in zip(kernel, strides, strict=True))
        if wide or any(dilation > 1 for dilation in dilations):
            return "engines do not agree on its padding"
    found = [
        _window(site, *numbers)
        for numbers in zip(sizes, kernel, strides, dilations, pads, pads[count:], strict=False)
    ]
    known = (dims_of(site.node.outputs[0]) or [])[2:]
    pairs = zip(found, known, strict=False)
    if any(isinstance(dim, int) and dim != window.count for window, dim in pairs):
        return "its windows are others than shape inference says"
    if any(window.size < 1 or window.count < 1 for window in found):
        return "it is empty"
    return found


def _window(
    site: Site, size: int, kernel: int, stride: int, dilation: int, begin: int, end: int
) -> Window:
    reach = (kernel - 1) * dilation + 1
    mode = site.text("auto_pad", "NOTSET")
    if mode == "VALID":
        begin = end = 0
    elif mode.startswith("SAME"):
        count = -(-size // stride)
        total = max(0, (count - 1) * stride + reach - size)
        begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
        end = total - begin
    free = size + begin + end - reach
    count = free // stride + 1
    if site.integer("ceil_mode", 0):
        count = -(-free // stride) + 1
        if (count - 1) * stride >= size + begin:
            count -= 1  # a window may not begin behind the input
    return Window(size, kernel, stride, dilation, begin, end, count)


def padded(to: Primitives, x: Value, windows: Sequence[Window], number: float) -> Value:
    """Pad as far as the windows reach.

    Args:
        to: Makes nodes.
        x: The input, [samples, channels, ...].
        windows: The window along each spatial axis.
        number: The number outside of the image.
    """
    begins = [0, 0, *(window.begin for window in windows)]
    ends = [0, 0, *(window.needed for window in windows)]
    return to.pad(x, begins + ends, number)


def gathered(to: Primitives, x: Value, window: Window, axis: int) -> Value:
    """Put an axis over the elements of windows and one over the windows in place of one.

    Args:
        to: Makes nodes.
        x: The padded input.
        window: The window along the axis.
        axis: The axis.
    """
    return to.node("Gather", x, to.tensor(window.places), axis=axis)
