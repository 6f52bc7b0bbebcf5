import gc
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.bench.runs.runner import Loader, offload
from onnx_passes.errors import UsageError
from onnx_passes.model.save import save_model
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import model_of, outputs_of

WEIGHT = np.arange(256 * 256, dtype=np.float32).reshape(256, 256)


def made():
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[1, 256] x) => (float[1, 256] y) { y = MatMul(x, w) }"""
    return ir.from_proto(model_of(text, w=WEIGHT))


def test_weights_come_from_a_file_that_goes_with_the_model():
    model = made()
    feeds = {"x": np.ones((1, 256), np.float32)}
    expected = outputs_of(OnnxRuntimeEngine(), model, feeds)["y"]
    offload(model)
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert np.array_equal(tensor.numpy(), WEIGHT)
    with OnnxRuntimeEngine().prepare(model) as session:
        assert np.array_equal(session.run(feeds)["y"], expected)
    path = Path(tensor.path)
    assert path.exists()
    del model, tensor
    gc.collect()
    assert not path.exists()


def test_a_model_from_a_file_never_has_its_weights_in_memory(tmp_path):
    save_model(made(), tmp_path / "m.onnx")
    loader = Loader(tmp_path / "m.onnx")
    loader.offload()
    tensor = loader().graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert np.array_equal(tensor.numpy(), WEIGHT)
    folder = Path(tensor.path).parent
    assert folder != tmp_path
    del loader, tensor
    gc.collect()
    assert not folder.exists()


def test_a_temporary_folder_without_room_is_told(tmp_path, monkeypatch):
    def full(path, target):
        raise OSError(28, "No space left on device")

    save_model(made(), tmp_path / "m.onnx")
    monkeypatch.setattr("onnx_passes.model.load.parse_apart", full)
    with pytest.raises(UsageError, match=r"no room for the weights.*No space left"):
        Loader(tmp_path / "m.onnx").offload()
