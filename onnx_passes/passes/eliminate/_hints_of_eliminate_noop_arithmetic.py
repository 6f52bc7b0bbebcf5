"""Hints for the certificate of eliminate-noop-arithmetic: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint, Spec, data

_ZERO, _ONE, _ALL_BITS = (
    Hint(
        {
            "x": data("a b", "b", "a b c"),
            "c": tuple(Spec(dims, fill=numbers) for dims in ("", "", "1", "b")),
        }
    )
    for numbers in ((0.0, -0.0), (1.0,), (-1.0,))
)
HINTS: dict[str, Hint] = {
    f"eliminate-noop-arithmetic[{index}]": hint
    for hint, indices in (
        (_ZERO, (0, 1, 6, 7, 9, 10, 11, 12, 15, 16, 18, 19)),
        (_ONE, (2, 3, 4, 5, 13, 14)),
        (_ALL_BITS, (8, 17)),
    )
    for index in indices
}
