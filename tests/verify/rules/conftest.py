import logging

import onnx_ir as ir
import pytest


@pytest.fixture
def graph():
    """Build a model from ONNX text: inputs, outputs, nodes."""

    def build(inputs, outputs, nodes, opset=18):
        header = f'<ir_version: 10, opset_import: ["" : {opset}]>'
        return ir.from_onnx_text(f"{header}\ng ({inputs}) => ({outputs}) {{ {nodes} }}")

    return build


@pytest.fixture(autouse=True)
def quiet():
    # onnx-ir logs the shape inference errors of graphs that are wrong on purpose.
    logger = logging.getLogger("onnx_ir")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
