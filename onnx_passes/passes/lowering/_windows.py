"""The windows that convolutions and poolings slide over their input.

Poolings reduce whole images, or one axis after the other. Windows may also be gathered from
channels-last data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from onnx_passes.compat.names import is_for_seed
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Value
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.lowering._lowering_pass import FLOATS, LoweringPass, Primitives, Site


@dataclass(frozen=True)
class Window:
    """The windows along one axis.

    ``stride`` is between windows, ``dilation`` between elements of one. ``begin`` and ``end``
    are elements of padding, as the node says. ``count`` windows lie along ``size`` elements.
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

    ``kernel`` holds where the attribute ``kernel_shape`` is missing.
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

    ``x`` is [samples, channels, ...], with one window for each spatial axis.
    """
    begins = [0, 0, *(window.begin for window in windows)]
    ends = [0, 0, *(window.needed for window in windows)]
    return to.pad(x, begins + ends, number)


def gathered(to: Primitives, x: Value, window: Window, axis: int) -> Value:
    """Put an axis over the elements of windows and one over the windows in place of one.

    ``x`` is padded.
    """
    return to.node("Gather", x, to.tensor(window.places), axis=axis)


MAY_BE_NAN = "one of its floats may be NaN, unless assume_no_nan says otherwise"


class Maximum(LoweringPass):
    """A pooling whose maximum stays if one of its floats may be NaN.

    The user may say that there is none; pipelines for the seed system do.
    """

    assume_no_nan: bool = False

    def obstacle(self, site: Site) -> str | None:
        assumed = self.assume_no_nan or is_for_seed(self.config)
        if site.dtype in FLOATS and not assumed:
            return MAY_BE_NAN
        return super().obstacle(site)


class GlobalPool(LoweringPass):
    """A pooling over all axes but the first two.

    ``reduction`` is the operator that takes its place.
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


class WindowPass(LoweringPass):
    """Lowers what windows slide over, with standard operators or with Im2Col of our own."""

    to: Literal["gather", "im2col"] | None = None

    @property
    def to_im2col(self) -> bool:
        """Whether windows are gathered by Im2Col, from channels-last data."""
        return self.to == "im2col" or (self.to is None and is_for_seed(self.config))


class WindowPool(WindowPass):
    """A pooling over windows that each have something of the input.

    ``reduction`` is the operator that takes its place, along each axis.
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

        ``x`` is [samples, channels, ...], with one window for each spatial axis.
        """
        channels = (dims_of(x) or [None, None])[1]
        x = padded(to, x, windows, number)
        if self.to_im2col and isinstance(channels, int):
            return self._of_columns(to, x, windows, channels)
        for axis, window in enumerate(windows, 2):
            if not window.is_whole:
                parts = gathered(to, x, window, axis)
                x = to.reduce(self.reduction, parts, [axis], keepdims=0)
        return x

    def _of_columns(
        self, to: Primitives, x: Value, windows: list[Window], channels: int
    ) -> Value:
        axes = len(windows)
        x = to.node("Transpose", x, perm=[0, *range(2, axes + 2), 1])
        x = _windows(to, x, to.tensor(_indices(windows, channels)), windows)
        counts = [window.count for window in windows]
        elements = math.prod(window.kernel for window in windows)
        x = to.reshape(x, [0, *counts, elements, channels])
        x = to.reduce(self.reduction, x, [axes + 1], keepdims=0)
        return to.node("Transpose", x, perm=[0, axes + 1, *range(1, axes + 1)])


def channels_last(
    to: Primitives, site: Site, weights: Sequence[int], windows: Sequence[Window]
) -> Value:
    """Make ``Transpose(MatMul(Im2Col(Transpose(Pad(x))), w) + b)``.

    ``weights`` is their shape, ``[M, C / group, ...]``.
    """
    axes, group = len(windows), site.integer("group", 1)
    x = padded(to, site.given(0), windows, 0.0)
    x = to.node("Transpose", x, perm=[0, *range(2, axes + 2), 1])
    filters = to.node("Transpose", site.given(1), perm=[*range(2, axes + 2), 1, 0])
    filters = to.reshape(filters, [math.prod(weights[1:]), weights[0]])
    indices = to.tensor(_indices(windows, weights[1]))
    parts = [
        to.node("MatMul", _windows(to, part, indices, windows), matrix)
        for part, matrix in zip(
            _split(to, x, group, weights[1], -1),
            _split(to, filters, group, weights[0] // group, 1),
            strict=True,
        )
    ]
    result = parts[0] if group == 1 else to.node("Concat", *parts, axis=-1)
    if site.input(2) is not None:
        result = to.node("Add", result, site.given(2))
    return to.node("Transpose", result, perm=[0, axes + 1, *range(1, axes + 1)])


def _windows(to: Primitives, x: Value, indices: Value, windows: Sequence[Window]) -> Value:
    # The indices say it all; the attributes are what clients of the seed system match.
    form = {
        "dilations": [window.dilation for window in windows],
        "kernel_shape": [window.kernel for window in windows],
        "strides": [window.stride for window in windows],
    }
    return to.op.Im2Col(x, indices, **form, _domain=CUSTOM)


def _split(to: Primitives, x: Value, group: int, size: int, axis: int) -> list[Value]:
    """Cut a value into equal parts along an axis."""
    if group == 1:
        return [x]
    sizes = [size] * group
    if to.opset < 13:
        made = to.op.Split(x, axis=axis, split=sizes, _outputs=group)
    else:
        made = to.op.Split(x, to.ints(sizes), axis=axis, _outputs=group)
    return list(made)


def _indices(
    windows: Sequence[Window], channels: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return where the elements of windows lie in a flat image, as ``[..., kernel * C]``."""
    sizes = [w.begin + w.size + w.needed for w in windows]
    count = len(windows)
    place = np.zeros((1,) * (2 * count + 1), np.int64)
    for axis, window in enumerate(windows):
        shape = [1] * (2 * count + 1)
        shape[axis], shape[count + axis] = window.count, window.kernel
        stride = math.prod(sizes[axis + 1 :]) * channels
        place = place + (window.places.T * stride).reshape(shape)
    place = place + np.arange(channels, dtype=np.int64)
    return place.reshape(*(w.count for w in windows), -1)
