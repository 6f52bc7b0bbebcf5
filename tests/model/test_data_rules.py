import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.errors import ModelError
from onnx_passes.model.load import load_model


def test_external_data_are_found_from_the_models_folder(external, tmp_path, monkeypatch):
    path = external()
    monkeypatch.chdir("/")
    loaded = load_model(path)
    assert loaded.external == (tmp_path / "w.bin",)
    monkeypatch.chdir(tmp_path)
    relative = load_model("model.onnx")
    for model in (loaded.model, relative.model):
        tensor = model.graph.initializers["w"].const_value
        assert isinstance(tensor, ir.ExternalTensor)
        assert tensor.raw is None, "nothing is read or mapped before it is used"
        assert tensor.numpy()[599] == 599


def test_external_data_in_attributes_of_functions_are_found_too(external, tmp_path):
    proto = onnx.load(external(), load_external_data=False)
    function = onnx.parser.parse_function(
        '<domain: "my", opset_import: ["": 20]> f (a) => (b) { b = Identity(c) }'
    )
    constant = helper.make_node("Constant", [], ["c"], value=proto.graph.initializer[0])
    function.node.insert(0, constant)
    proto.functions.append(function)
    path = tmp_path / "with_function.onnx"
    path.write_bytes(proto.SerializeToString())
    node = load_model(path).model.functions["my", "f", ""].graph.node(0)
    assert node.attributes["value"].as_tensor().numpy()[3] == 3


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("/etc/passwd", "outside"),
        ("../w.bin", "outside"),
        ("sub/../../w.bin", "outside"),
        ("none.bin", "No such file"),
        ("", "no file name"),
        ("a\0b", "no file name"),
        (".", "is not a regular file"),
    ],
)
def test_locations_that_are_refused(external, location, says):
    with pytest.raises(ModelError, match=says) as caught:
        load_model(external(location))
    assert "initializer 'w'" in str(caught.value.where)


def test_links_out_of_the_folder_are_refused_and_links_inside_are_not(external, tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    path = external()
    os.rename(path, folder / "model.onnx")
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match="link to outside"):
        load_model(folder / "model.onnx")
    (folder / "w.bin").unlink()
    os.rename(tmp_path / "w.bin", folder / "real.bin")
    (folder / "w.bin").symlink_to("real.bin")
    assert load_model(folder / "model.onnx").external == (folder / "w.bin",)


def test_hard_links_are_refused_before_onnx_ir_does(external, tmp_path):
    path = external()
    os.link(tmp_path / "w.bin", tmp_path / "other.bin")
    with pytest.raises(ModelError, match="hard link"):
        load_model(path)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"offset": 4}, "2400 bytes, but the tensor's data end at 2404"),
        ({"offset": -1}, "says -1 from byte -1"),
        ({"length": 2000}, "needs 2400 bytes"),
        ({"offset": "x"}, "is not a number"),
    ],
)
def test_offsets_and_lengths_that_do_not_fit(external, entries, says):
    with pytest.raises(ModelError, match=says):
        load_model(external(**entries))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dims": [5]}, "needs 5 elements of float_data, but has 4"),
        ({"dims": [-4]}, "shape"),
        ({"data_type": 99}, "unknown element type 99"),
        ({"data_type": 0}, "unknown element type 0"),
        ({"data_type": TensorProto.INT64}, "int64_data"),
        ({"raw_data": b"1234"}, "needs 16 bytes, but has 4"),
        ({"segment": TensorProto.Segment(begin=0, end=4)}, "segments"),
    ],
)
def test_tensors_whose_data_do_not_fit(refused, proto, change, says):
    tensor = proto.graph.initializer[0]
    for name in change:
        tensor.ClearField(name)
    tensor.MergeFrom(TensorProto(**change))
    error = refused(proto)
    assert says in error.message
    assert "initializer 'w'" in str(error.where)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    "dtype", [d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING")], ids=str
)
def test_every_element_type_in_both_layouts(write, proto, dtype, raw):
    array = np.array([[1, 2, 1], [2, 1, 1]]).astype(dtype.numpy())
    if raw:
        tensor = ir.to_proto(ir.Tensor(array, dtype=dtype, name="v"))
    else:
        tensor = helper.make_tensor("v", dtype, [2, 3], array)
    proto.graph.initializer.append(tensor)
    value = load_model(write(proto)).model.graph.initializers["v"].const_value
    assert value.dtype == dtype
    assert value.numpy().tobytes() == array.tobytes()


def test_strings_and_empty_tensors(write, proto):
    proto.graph.initializer.append(numpy_helper.from_array(np.array(["a", "bc"]), "t"))
    proto.graph.initializer.append(TensorProto(name="e", data_type=1, dims=[0, 3]))
    initializers = load_model(write(proto)).model.graph.initializers
    assert initializers["t"].const_value.shape == [2]
    assert initializers["e"].const_value.numpy().shape == (0, 3)
