"""The geometry that convolution and pooling share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.ops.call import Call
from onnx_passes.ops.semantics import Unsupported


@dataclass(frozen=True, slots=True)
class Window:
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
    def of(call: Call, image: Sequence[int], kernel: Sequence[int]) -> Window:
        """Read strides, dilations and padding from a node's attributes.

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
        ceil = call.integer("ceil_mode", 0)
        output = [
            _places(size + b + a - span, step, size + b if ceil else None)
            for size, b, a, span, step in zip(
                image, before, after, reach, strides, strict=True
            )
        ]
        if any(o <= 0 for o in output):
            raise Unsupported(f"a kernel of {list(kernel)} over {list(image)}")
        parts = (image, kernel, strides, dilations, before, after, output)
        return Window(*(tuple(int(v) for v in part) for part in parts))

    def positions(
        self, place: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yield (index in the kernel, index in the image) under the kernel at ``place``."""
        for offset in np.ndindex(*self.kernel):
            at = tuple(
                p * s + o * d - b
                for p, s, o, d, b in zip(
                    place, self.strides, offset, self.dilations, self.before, strict=True
                )
            )
            if all(0 <= i < size for i, size in zip(at, self.image, strict=True)):
                yield offset, at


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
