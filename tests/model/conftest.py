"""Small models from text and as files, and the error that loading one raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from onnx_passes.errors import ModelError
from onnx_passes.model.load import load_model

_TEXT = """
<ir_version: 10, opset_import: ["": 20]>
agraph (float[N, 4] x) => (float[N, 4] y)
<float[4] w = {1.0, 2.0, 3.0, 0.1}>
{
    z = Add(x, w)
    y = Relu(z)
}
"""


_HEADER = '<ir_version: 10, opset_import: ["": 20, "my": 1]>\n'


@pytest.fixture
def model() -> Callable[..., ir.Model]:
    """Return a function that makes a model of a text without a header."""

    def model(text: str, functions: str = "") -> ir.Model:
        return ir.from_onnx_text(_HEADER + text + functions)

    return model


@pytest.fixture
def proto() -> onnx.ModelProto:
    return onnx.parser.parse_model(_TEXT)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: onnx.ModelProto | bytes | str, name: str = "model.onnx") -> Path:
        if isinstance(content, onnx.ModelProto):
            content = content.SerializeToString()
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def refused(write: Callable[..., Path]) -> Callable[..., ModelError]:
    """Load what must be refused, and return the error, which says where and what to do."""

    def refused(content, name="model.onnx"):
        path = write(content, name)
        with pytest.raises(ModelError) as caught:
            load_model(path)
        assert str(path) in str(caught.value.where)
        assert caught.value.help
        return caught.value

    return refused


@pytest.fixture
def external(tmp_path: Path) -> Callable[..., Path]:
    """Write a model whose initializer ``w`` of 600 floats is in a data file."""

    def external(location: str = "w.bin", name: str = "model.onnx", **entries: int) -> Path:
        data = np.arange(600, dtype=np.float32)
        tensor = numpy_helper.from_array(data, "w")
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            tensor.external_data.add(key=key, value=str(value))
        if location == "w.bin":
            (tmp_path / location).write_bytes(data.tobytes())
        info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [600]) for n in "xy"]
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])], "g", info[:1], info[1:], [tensor]
        )
        path = tmp_path / name
        path.write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
        return path

    return external
