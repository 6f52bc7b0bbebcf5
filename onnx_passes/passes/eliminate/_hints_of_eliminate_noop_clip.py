"""Hints for the certificate of eliminate-noop-clip: operands that its guards admit."""

from __future__ import annotations

import math

from onnx_passes.passes.hints import Hint, Spec, data, filled


def _bounded(operator: str, end: float) -> Hint:
    """Return operands that bound a tensor by nothing: the end of its type, or itself."""
    bounds = (*filled("", end), *filled("", end), Spec("1", fill=(end,)), Spec(of=("x",)))
    inputs = {f"{operator}.{index}": bounds for index in (1, 2)}
    return Hint({"x": data("a b", "a", "a b c"), **inputs})


HINTS: dict[str, Hint] = {
    "eliminate-noop-clip[1]": _bounded("Max", -math.inf),
    "eliminate-noop-clip[2]": _bounded("Min", math.inf),
}
