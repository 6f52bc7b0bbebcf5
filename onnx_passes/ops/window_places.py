"""Which elements of an image each place of a kernel reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.semantics import Elements, Misfit, Unsupported

Places = npt.NDArray[np.int64]


class Geometry:
    """A kernel over an image: which elements of the image each place of the result reads.

    Attributes:
        output: Number of places along each axis.
    """

    output: tuple[int, ...]

    def places(self) -> Places:
        """Return flat indices by place and offset; -1 where nothing is read."""
        raise NotImplementedError

    def rows(self, call: Call, x: Tensor, padding: float) -> Elements:
        """Return the elements that are read, by sample, channel, place and offset.

        Args:
            call: The call, for its arithmetic.
            x: The tensor [samples, channels, ...].
            padding: The number outside of the image.
        """
        flat = x.data.reshape(*x.shape[:2], -1)
        wide = np.empty((*flat.shape[:2], flat.shape[2] + 1), flat.dtype)
        wide[..., :-1] = flat
        wide[..., -1] = call.semantics.padding(padding, x.dtype)
        return wide[..., self.places()]


def _flat(axes: Sequence[Array], sizes: Sequence[int]) -> Places:
    """Combine indices along axes, by place and offset each, into flat ones."""
    rank, found = len(axes), np.zeros((), np.int64)
    outside = np.zeros((), np.bool_)
    for k, (at, size) in enumerate(zip(axes, sizes, strict=True)):
        shape = [1] * (2 * rank)
        shape[k], shape[rank + k] = at.shape
        at = at.reshape(shape)
        outside = outside | (at < 0) | (at >= size)
        found = found * size + at
    found = np.where(outside, -1, found)
    return found.reshape(math.prod(a.shape[0] for a in axes), -1)


@dataclass(frozen=True, slots=True)
class SlidingWindow(Geometry):
    """A kernel that slides over an image, in any number of spatial dimensions.

    Attributes:
        image: Spatial sizes of the image.
        kernel: Spatial sizes of the kernel.
        strides: Steps between places.
        dilations: Steps between elements of the kernel.
        before: Padding before each axis.
        after: Padding after each axis.
        output: Number of places along each axis.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    output: tuple[int, ...]

    @staticmethod
    def of(call: Call, image: Sequence[int], kernel: Sequence[int]) -> SlidingWindow:
        """Read strides, dilations and padding from a node's attributes.

        Args:
            call: The call, for attributes.
            image: Spatial sizes of the input.
            kernel: Spatial sizes of the window.

        Raises:
            Unsupported: The kernel does not fit.
        """
        rank = len(image)
        strides = call.integers("strides") or [1] * rank
        dilations = call.integers("dilations") or [1] * rank
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        mode = call.text("auto_pad", "NOTSET")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            pads = [
                _same(size, span, step, mode == "SAME_UPPER")
                for size, span, step in zip(image, reach, strides, strict=True)
            ]
            before, after = [p[0] for p in pads], [p[1] for p in pads]
        else:
            given = call.integers("pads") if mode == "NOTSET" else None
            given = given or [0] * (2 * rank)
            before, after = given[:rank], given[rank:]
        ceil = call.flag("ceil_mode")
        output = [
            _places(size + b + a - span, step, size + b if ceil else None)
            for size, b, a, span, step in zip(
                image, before, after, reach, strides, strict=True
            )
        ]
        if any(o <= 0 for o in output):
            raise Misfit(f"a kernel of {list(kernel)} over {list(image)}")
        parts = (image, kernel, strides, dilations, before, after, output)
        return SlidingWindow(*(tuple(int(v) for v in part) for part in parts))

    def places(self) -> Places:
        axes = [
            np.arange(o)[:, None] * s + np.arange(k) * d - b
            for o, s, k, d, b in zip(
                *(self.output, self.strides, self.kernel, self.dilations, self.before),
                strict=True,
            )
        ]
        return _flat(axes, self.image)


@dataclass(frozen=True, slots=True)
class Spread(Geometry):
    """A kernel that each element of an image is spread over.

    Attributes:
        image: Spatial sizes of the image.
        kernel: Spatial sizes of the kernel.
        strides: Steps between the places of neighbours.
        dilations: Steps between elements of the kernel.
        before: What is cut off before each axis.
        output: Sizes of the result.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    output: tuple[int, ...]

    @staticmethod
    def of(call: Call, image: Sequence[int], kernel: Sequence[int]) -> Spread:
        """Read strides, dilations and padding from a node's attributes.

        Args:
            call: The call, for attributes.
            image: Spatial sizes of the input.
            kernel: Spatial sizes of the window.

        Raises:
            Unsupported: Padding is to be worked out.
        """
        rank = len(image)
        if call.text("auto_pad", "NOTSET") != "NOTSET" or call.integers("output_shape"):
            raise Unsupported("ConvTranspose with padding that is worked out")
        strides = call.integers("strides") or [1] * rank
        dilations = call.integers("dilations") or [1] * rank
        pads = call.integers("pads") or [0] * (2 * rank)
        extra = call.integers("output_padding") or [0] * rank
        output = [
            s * (size - 1) + e + (k - 1) * d + 1 - pads[i] - pads[i + rank]
            for i, (size, k, s, d, e) in enumerate(
                zip(image, kernel, strides, dilations, extra, strict=True)
            )
        ]
        parts = (image, kernel, strides, dilations, pads[:rank], output)
        return Spread(*(tuple(int(v) for v in part) for part in parts))

    def places(self) -> Places:
        axes = []
        parts = (self.image, self.kernel, self.strides, self.dilations, self.before)
        for o, size, k, s, d, b in zip(self.output, *parts, strict=True):
            at, rest = np.divmod(np.arange(o)[:, None] - np.arange(k) * d + b, s)
            axes.append(np.where((rest == 0) & (at < size), at, -1))
        return _flat(axes, self.image)


def _same(size: int, span: int, step: int, upper: bool) -> tuple[int, int]:
    total = max((-(-size // step) - 1) * step + span - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def _places(room: int, step: int, limit: int | None) -> int:
    """Count the places of a kernel; with a limit, count a last one that hangs over."""
    if limit is None:
        return room // step + 1
    count = -(-room // step) + 1
    # The last place must start inside the image or its padding before.
    return count - 1 if (count - 1) * step >= limit else count
