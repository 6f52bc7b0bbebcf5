import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper

from onnx_passes.errors import ModelError
from onnx_passes.model import load
from onnx_passes.model.load import load_model
from onnx_passes.model.tensor_bytes import is_immutable
from onnx_passes.model.wire import SMALL, FileBytes, fields, parse_apart, parse_pieces
from tests.tables import each_of


def message():
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], raw_data=b"12345678")
    graph = onnx.GraphProto(name="g" * 200, initializer=[tensor])
    return onnx.ModelProto(ir_version=8, producer_name="p", graph=graph).SerializeToString()


@each_of(
    "data, said",
    (b"\x0b", "wire type 3"),
    (b"\x0a\x05a", "behind"),
    (b"\xff" * 11, "10 bytes"),
)
def test_what_is_no_message_is_refused(data, said):
    with pytest.raises(ValueError, match=said):
        list(fields(data, 0, len(data)))


def test_a_file_that_becomes_shorter_is_told(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(message())
    with open(path, "rb") as stream:
        content = FileBytes(stream)
        path.write_bytes(b"short")
        with pytest.raises(ValueError, match="too early"):
            content[0 : len(content)]
        with pytest.raises(IndexError):
            content[100]


LARGE = SMALL // 4


def model_of(*weights):
    names = ["x", *(f"{weight.name}_y" for weight in weights)]
    sums = [
        f"{w.name}_y = Add({last}, {w.name})" for w, last in zip(weights, names, strict=False)
    ]
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 18], metadata_props: ["a" : "b"]>
        g (float[{LARGE}] x) => (float[{LARGE}] y) {{
        {" ".join(sums)} y = Relu({names[-1]}) }}""")
    model.graph.initializer.extend(weights)
    return model


def weight(name, size=LARGE, seed=0):
    array = np.random.default_rng(seed).random(size, np.float32)
    return numpy_helper.from_array(array, name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.onnx"


@pytest.fixture
def target(tmp_path):
    return tmp_path / "weights-0"


def test_what_is_read_is_what_is_read_otherwise(path, target):
    onnx.save(model_of(weight("v"), weight("small", 1), weight("w", seed=1)), path)
    lean, plain = load_model(path, weights=target), load_model(path)
    kept = {n: v.const_value for n, v in lean.model.graph.initializers.items()}
    for name, value in plain.model.graph.initializers.items():
        assert np.array_equal(kept[name].numpy(), value.const_value.numpy())
    assert isinstance(kept["v"], ir.ExternalTensor)
    assert not isinstance(kept["small"], ir.ExternalTensor)
    assert (lean.external, lean.notes) == (plain.external, plain.notes)
    assert [n.op_type for n in lean.model.graph] == [n.op_type for n in plain.model.graph]
    assert lean.model.metadata_props == plain.model.metadata_props


def test_weights_start_where_pages_do(path, target):
    # Kernels take memory that is mapped as it is, and read it in vectors.
    onnx.save(model_of(weight("v", LARGE + 1), weight("w", LARGE + 3)), path)
    found = parse_apart(path, target).graph.initializer
    offsets = [int(e.value) for t in found for e in t.external_data if e.key == "offset"]
    assert len(offsets) == 2
    assert all(offset % 4096 == 0 for offset in offsets)


def test_a_location_that_a_model_names_itself_is_looked_at(path, target):
    bad = weight("w")
    bad.ClearField("raw_data")
    bad.data_location = TensorProto.EXTERNAL
    bad.external_data.add(key="location", value="../secret")
    onnx.save(model_of(bad, weight("v")), path)
    with pytest.raises(ModelError, match="outside of the model's folder"):
        load_model(path, weights=target)


def test_pieces_are_what_protobuf_reads(path, monkeypatch):
    noted = weight("v")
    noted.doc_string = "said"
    noted.metadata_props.add(key="a", value="b")
    packed = TensorProto(name="i", data_type=TensorProto.INT4, dims=[2 * SMALL])
    packed.raw_data = bytes(SMALL)
    onnx.save(model_of(noted, weight("small", 1), weight("w", seed=1), packed), path)
    pieces = load_model(path).model
    monkeypatch.setattr(load, "_pieces", lambda path: None)
    plain = load_model(path).model
    assert list(pieces.graph.initializers) == list(plain.graph.initializers)
    for name, value in plain.graph.initializers.items():
        old, new = value.const_value, pieces.graph.initializers[name].const_value
        assert type(new) is type(old)
        assert (new.dtype, new.shape, new.name) == (old.dtype, old.shape, old.name)
        assert (new.doc_string or "") == (old.doc_string or "")
        assert new.metadata_props == old.metadata_props
        assert new.tobytes() == old.tobytes()
        assert is_immutable(new)


def test_pieces_stay_what_they_were_when_the_file_changes(path):
    onnx.save(model_of(weight("v")), path)
    loaded = load_model(path)
    path.write_bytes(b"")
    kept = loaded.model.graph.initializers["v"].const_value
    assert kept.tobytes() == weight("v").raw_data


def test_a_file_cut_short_while_it_is_read_is_no_model(path, monkeypatch):
    onnx.save(model_of(weight("v"), weight("w")), path)

    def cut(self, start, stop):
        os.truncate(path, 1000)
        return whole(self, start, stop)

    whole = FileBytes._slice
    monkeypatch.setattr(FileBytes, "_slice", cut)
    assert parse_pieces(path) is None
    with pytest.raises(ModelError, match="damaged"):
        load_model(path)


def test_a_weight_said_to_be_outside_is_not_taken_from_inside(path):
    bad = weight("w")
    bad.data_location = TensorProto.EXTERNAL
    path.write_bytes(model_of(bad, weight("v")).SerializeToString())
    with pytest.raises(ModelError, match="no file name"):
        load_model(path)


def outcome(path, **given):
    """Return the nodes that were read, or what was said against the model."""
    try:
        return [str(node) for node in load_model(path, **given).model.graph]
    except ModelError as error:
        return error.message


@settings(max_examples=150)
@given(place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 400))
def test_damage_never_gets_further_than_the_usual_reader(tmp_path_factory, place, byte, cut):
    folder = tmp_path_factory.mktemp("damaged")
    data = bytearray(model_of(weight("w")).SerializeToString())
    # The weight lies in the middle: damage goes to what is before and behind it.
    data[place if place < 200 else -(place - 199)] = byte
    path = folder / "m.onnx"
    path.write_bytes(data[: len(data) - (cut if cut < 50 else 0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "_pieces", lambda path: None)
        usual = outcome(path)
        assert outcome(path, weights=folder / "w") == usual
    assert outcome(path) == usual
