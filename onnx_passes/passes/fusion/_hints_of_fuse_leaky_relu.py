"""Hints for the certificate of fuse-leaky-relu: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, filled

HINTS: dict[str, Hint] = {
    "fuse-leaky-relu": Hint({"a": filled("", 0.1, 0.01, 0.25, 1.0)}, {}, (ir.DataType.FLOAT,)),
}
