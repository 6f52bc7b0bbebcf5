"""Hints for the certificate of convert-to-qcdq: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint
from onnx_passes.passes.quantised._hints_of_quantisers import quantiser

HINTS: dict[str, Hint] = {
    **{f"convert-to-qcdq[{i}]": quantiser("s", "z", "b") for i in range(5)},
}
