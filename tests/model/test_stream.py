"""Models written weight by weight."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.errors import ModelError
from onnx_passes.model import save
from onnx_passes.model import wire as room
from onnx_passes.model.formats import inlined, render
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.model.wire import SMALL
from tests.tables import each_of

SIZE = SMALL // 2


def weight(name, dtype=np.float32, seed=0, size=SIZE):
    numbers = np.random.default_rng(seed).integers(0, 7, size)
    found = numpy_helper.from_array(numbers.astype(dtype), name)
    found.doc_string = "of " + name
    found.metadata_props.add(key="a", value="b")
    return found


def model_of(*weights, nested=()):
    body = f"() => (float[] r) {{ r = Identity({nested[0].name if nested else 'c'}) }}"
    found = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 20], metadata_props: ["late" : "field"]>
        g (bool c) => (float[] y) {{
          y = If(c) <then_branch = branch {body}, else_branch = branch {body}> }}""")
    for attribute in found.graph.node[0].attribute:
        attribute.g.initializer.extend(nested)
    found.graph.node.append(helper.make_node("Constant", [], ["k"], value=weight("k")))
    found.graph.initializer.extend(weights)
    found.graph.doc_string = "said"
    found.graph.metadata_props.add(key="x", value="y")
    return found


def as_protobuf_writes(model):
    """Return what protobuf makes of a model, all weights inside."""
    return render(save.serialise(model, inlined, "here"), "binary", "here")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.onnx"


@each_of(
    "weights",
    [],
    [weight("v"), weight("small", size=3), weight("w", seed=1)],
    [weight("h", np.float16), weight("b", ml_dtypes.bfloat16), weight("q", np.bool_)],
    [weight("i", ml_dtypes.int4, size=2 * SMALL + 1), weight("e", ml_dtypes.float8_e4m3fn)],
    [numpy_helper.from_array(np.array(["a" * SMALL], object), "s"), weight("v")],
    [weight("long", size=1 << 21)],
)
def test_the_bytes_are_those_that_protobuf_writes(path, tmp_path, weights):
    onnx.save(model_of(*weights, nested=[weight("n")]), path)
    loaded = load_model(path).model
    save_model(loaded, tmp_path / "new.onnx")
    assert (tmp_path / "new.onnx").read_bytes() == as_protobuf_writes(loaded)


def test_weights_that_protobufs_hold_as_numbers_stay_so(path):
    listed = helper.make_tensor("v", TensorProto.FLOAT, [SIZE], np.ones(SIZE))
    model = ir.from_proto(model_of(listed, weight("w")))
    expected = as_protobuf_writes(ir.from_proto(model_of(listed, weight("w"))))
    for value in model.graph.initializers.values():
        value.const_value.metadata_props.clear()  # onnx-ir would write them twice
    save_model(model, path)
    assert len(onnx.load(path).graph.initializer[0].float_data) == SIZE
    assert len(expected) - path.stat().st_size < 20


def test_a_weight_of_two_names_and_one_of_two_graphs_are_written_at_each(path):
    onnx.save(model_of(weight("v"), weight("w"), nested=[weight("n")]), path)
    model = load_model(path).model
    values = model.graph.initializers
    values["w"].const_value = values["v"].const_value
    branch = model.graph.node(0).attributes["then_branch"].as_graph()
    values["v"].const_value.name = "v"
    branch.initializers["n"].const_value = values["v"].const_value
    save_model(model, path)
    found = onnx.load(path)
    raw = weight("v").raw_data
    assert [tensor.raw_data for tensor in found.graph.initializer] == [raw, raw]
    assert found.graph.node[0].attribute[0].g.initializer[0].raw_data == raw


def test_weights_in_a_file_come_in_by_way_of_no_memory(path, tmp_path, monkeypatch):
    onnx.save(model_of(weight("w")), path, save_as_external_data=True, location="m.data")
    loaded = load_model(path)
    save_model(loaded.model, tmp_path / "in.onnx", external_data="inline")
    assert loaded.model.graph.initializers["w"].const_value.raw is None
    assert onnx.load(tmp_path / "in.onnx").graph.initializer[0].raw_data == (
        weight("w").raw_data
    )


def test_a_tensor_that_lies_about_its_size_leaves_the_old_file(path):
    onnx.save(model_of(weight("w")), path)
    before = path.read_bytes()
    model = load_model(path).model
    value = model.graph.initializers["w"]
    value.const_value = ir.Tensor(
        np.zeros(SIZE, np.float32), shape=ir.Shape([SIZE + 1]), name="w"
    )
    with pytest.raises(ModelError, match="its type and shape take"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["m.onnx"]


def test_a_model_beyond_the_limit_of_protobuf_is_refused(path, tmp_path, monkeypatch):
    onnx.save(model_of(weight("w")), path)
    model = load_model(path).model
    monkeypatch.setattr(room, "LIMIT", SMALL)
    with pytest.raises(ModelError, match="more than the"):
        save_model(model, tmp_path / "new.onnx", external_data="inline")
    assert not (tmp_path / "new.onnx").exists()
