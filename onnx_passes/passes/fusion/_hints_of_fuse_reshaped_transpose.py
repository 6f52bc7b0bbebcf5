"""Hints for the certificate of fuse-reshaped-transpose: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint, data, ints

HINTS: dict[str, Hint] = {
    "fuse-reshaped-transpose": Hint(
        {
            "x": data("a b c d"),
            "merged": ints("a*b c d", "-1 c d", "a*b c -1"),
            "parted": ints("a b d c", "a b d -1", "-1 b d c"),
        },
        {"Reshape.allowzero": (None, 1)},
    ),
}
