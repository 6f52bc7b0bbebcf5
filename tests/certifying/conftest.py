import logging

import pytest


@pytest.fixture(autouse=True)
def quiet():
    # onnx-ir logs the shape inference errors of graphs that are wrong on purpose.
    logger = logging.getLogger("onnx_ir")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
