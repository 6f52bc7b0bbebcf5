"""Hints for the certificate of fuse-silu: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, filled

HINTS: dict[str, Hint] = {
    "fuse-silu": Hint({"a": filled("", 1.702, 0.5, 2.0, 0.1)}, {}, (ir.DataType.FLOAT,), 24),
}
