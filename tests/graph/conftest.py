"""Models from short text, without a header."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import pytest

HEADER = '<ir_version: 10, opset_import: ["": 20, "my": 1]>\n'


@pytest.fixture
def model() -> Callable[..., ir.Model]:
    def model(text: str, functions: str = "") -> ir.Model:
        return ir.from_onnx_text(HEADER + text + functions)

    return model
