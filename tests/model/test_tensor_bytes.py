import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import ModelError
from onnx_passes.model import tensor_bytes
from onnx_passes.model.load import load_model
from tests.tables import each_of


@each_of("dtype", *[d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING")], ids=str)
def test_content_is_as_onnx_ir_writes_it(dtype):
    array = np.arange(7).astype(dtype.numpy())
    tensor = ir.Tensor(array, dtype=dtype)
    assert bytes(tensor_bytes.tensor_buffer(tensor)) == tensor.tobytes()
    read_back = ir.from_proto(ir.to_proto(tensor))
    assert bytes(tensor_bytes.tensor_buffer(read_back)) == tensor.tobytes()
    lazy = ir.LazyTensor(lambda: tensor, dtype=dtype, shape=ir.Shape([7]))
    assert bytes(tensor_bytes.tensor_buffer(lazy)) == tensor.tobytes()
    assert tensor_bytes.tensor_buffer(tensor).nbytes == tensor.nbytes
    for kind in (tensor, read_back, lazy, tensor_bytes.immutable(tensor)):
        assert tensor_bytes.byte_count(kind) == tensor.nbytes


def test_layout_and_byte_order_make_no_difference():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    for other in (
        np.asfortranarray(array),
        array.astype(">i4"),
        np.repeat(array, 2, 1)[:, ::2],
    ):
        assert bytes(tensor_bytes.array_buffer(other)) == array.tobytes()


def test_plain_arrays_and_mapped_files_are_not_copied(external):
    array = np.arange(5, dtype=np.float32)
    buffer = tensor_bytes.array_buffer(array)
    array[0] = 9
    assert bytes(buffer) == array.tobytes()
    bfloat = np.arange(5).astype(ml_dtypes.bfloat16)
    assert np.shares_memory(
        np.frombuffer(tensor_bytes.array_buffer(bfloat), np.uint8), bfloat.view(np.uint8)
    )
    tensor = load_model(external()).model.graph.initializers["w"].const_value
    content = tensor_bytes.tensor_buffer(tensor)
    assert bytes(content) == np.arange(600, dtype=np.float32).tobytes()
    assert content.obj is tensor.raw


def test_data_that_went_away_are_named(external, tmp_path):
    tensor = load_model(external()).model.graph.initializers["w"].const_value
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match="'w' cannot be read"):
        tensor_bytes.tensor_buffer(tensor)


@each_of("layout", "array", "protobuf")
@each_of("dtype", *[d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING")], ids=str)
@each_of("shape", (7,), (), (2, 0), ids=str)
def test_an_immutable_tensor_is_equal(dtype, layout, shape):
    array = np.ones(shape).astype(dtype.numpy())
    tensor = ir.Tensor(array, dtype=dtype, name="w", doc_string="d")
    if layout == "protobuf":
        tensor = ir.from_proto(ir.to_proto(tensor))
    else:  # onnx-ir 1.1 writes those of protobufs twice
        tensor.metadata_props["k"] = "v"
    copy = tensor_bytes.immutable(tensor)
    assert tensor_bytes.is_immutable(copy)
    assert tensor_bytes.immutable(copy) is copy
    assert (copy.dtype, copy.shape, copy.name) == (tensor.dtype, tensor.shape, "w")
    assert (copy.doc_string, copy.metadata_props) == ("d", tensor.metadata_props)
    assert bytes(tensor_bytes.tensor_buffer(copy)) == bytes(tensor_bytes.tensor_buffer(tensor))
    np.testing.assert_array_equal(copy.numpy(), tensor.numpy(), strict=True)
    assert ir.to_proto(copy).SerializeToString() == ir.to_proto(tensor).SerializeToString()


def test_no_name_of_the_memory_leads_into_an_immutable_tensor():
    memory = np.zeros(8, np.float32)
    view = memory[:4]
    view.flags.writeable = False
    tensor = tensor_bytes.immutable(ir.Tensor(view))
    memory[:] = 7
    assert not tensor.numpy().any()
    with pytest.raises(ValueError, match="WRITEABLE"):
        tensor.numpy().flags.writeable = True
    strings = [b"a", b"b"]
    text = tensor_bytes.immutable(ir.StringTensor(strings, shape=ir.Shape([2])))
    strings[0] = b"c"
    assert list(text.string_data()) == [b"a", b"b"]
