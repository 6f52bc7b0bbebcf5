import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import ModelError
from onnx_passes.io.load import load_model
from onnx_passes.io.tensors import array_buffer, tensor_buffer


@pytest.mark.parametrize(
    "dtype", [d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING")], ids=str
)
def test_content_is_as_onnx_ir_writes_it(dtype):
    array = np.arange(7).astype(dtype.numpy())
    tensor = ir.Tensor(array, dtype=dtype)
    assert bytes(tensor_buffer(tensor)) == tensor.tobytes()
    read_back = ir.from_proto(ir.to_proto(tensor))
    assert bytes(tensor_buffer(read_back)) == tensor.tobytes()
    lazy = ir.LazyTensor(lambda: tensor, dtype=dtype, shape=ir.Shape([7]))
    assert bytes(tensor_buffer(lazy)) == tensor.tobytes()
    assert tensor_buffer(tensor).nbytes == tensor.nbytes


def test_layout_and_byte_order_make_no_difference():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    for other in (
        np.asfortranarray(array),
        array.astype(">i4"),
        np.repeat(array, 2, 1)[:, ::2],
    ):
        assert bytes(array_buffer(other)) == array.tobytes()


def test_plain_arrays_and_mapped_files_are_not_copied(external):
    array = np.arange(5, dtype=np.float32)
    buffer = array_buffer(array)
    array[0] = 9
    assert bytes(buffer) == array.tobytes()
    bfloat = np.arange(5).astype(ml_dtypes.bfloat16)
    assert np.shares_memory(
        np.frombuffer(array_buffer(bfloat), np.uint8), bfloat.view(np.uint8)
    )
    tensor = load_model(external()).model.graph.initializers["w"].const_value
    content = tensor_buffer(tensor)
    assert bytes(content) == np.arange(600, dtype=np.float32).tobytes()
    assert content.obj is tensor.raw


def test_data_that_went_away_are_named(external, tmp_path):
    tensor = load_model(external()).model.graph.initializers["w"].const_value
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match="'w' cannot be read"):
        tensor_buffer(tensor)
