"""Hints for the certificate of eliminate-noop-expand: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint, data, ints

HINTS: dict[str, Hint] = {
    "eliminate-noop-expand[1]": Hint(
        {},
        cases=tuple(
            Hint({"x": data(dims), "Tile.1": ints(ones, ones, twos)})
            for dims, ones, twos in (("a b", "1 1", "1 2"), ("a b c", "1 1 1", "2 1 1"))
        ),
    ),
}
