"""Models with operators of QONNX and of our own domain, as text."""

import pytest

HEADER = """<ir_version: 10, opset_import: ["" : 20, "qonnx.custom_op.general" : 1,
"onnx.brevitas" : 1, "onnx_passes.ops" : 1]> main """


@pytest.fixture
def text():
    """Write a graph behind a header that imports the domains; ``q.`` and ``o.`` are short."""

    def write(graph):
        short = graph.replace("q.", "qonnx.custom_op.general.").replace(
            "o.", "onnx_passes.ops."
        )
        return HEADER + short

    return write
