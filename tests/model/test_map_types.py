"""Maps that classifiers compute stay in files, though onnx-ir cannot hold their types."""

import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.errors import ModelError
from onnx_passes.model.inference import annotate, infer
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from tests.tables import each_of

TEXT = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
g (float[n, 2] x) => (int64[n] label, seq(map(int64, float)) scores) {
    same = Identity(x)
    label, raw = ai.onnx.ml.LinearClassifier
        <coefficients = [1.0, 2.0, -1.0, 0.5],
         intercepts = [0.0, 1.0], classlabels_ints = [3, 5]>
        (same)
    scores = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 5]> (raw)
    unread = ai.onnx.ml.ZipMap <classlabels_strings = ["a", "b"]> (raw)
}"""


@pytest.fixture
def proto():
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(TEXT))
    assert any(info.type.HasField("sequence_type") for info in proto.graph.value_info)
    # Converters declare no shape of a number in a map; the syntax of text always does.
    scores = proto.graph.output[1].type.sequence_type.elem_type.map_type
    scores.value_type.tensor_type.ClearField("shape")
    return proto


@pytest.fixture
def path(proto, tmp_path):
    onnx.save(proto, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@each_of("name", "out.onnx", "out.onnxtxt", "out.json")
def test_a_file_declares_its_maps_as_before(proto, path, name):
    loaded = load_model(path)
    assert loaded.notes == []
    save_model(loaded.model, path.with_name(name))
    save_model(load_model(path.with_name(name)).model, path)
    assert onnx.load(path).graph.output == proto.graph.output


@each_of("given", "path", "proto")
def test_a_run_over_a_classifier_is_verified(request, given):
    run = onnx_passes.run(request.getfixturevalue(given))
    assert run.verdict == "VERIFIED"
    kept = run.proto()
    assert [node.op_type for node in kept.graph.node] == ["LinearClassifier", "ZipMap"]
    onnx.checker.check_model(kept, full_check=True)
    assert kept.graph.output[1].type.sequence_type.elem_type.HasField("map_type")


def test_an_output_that_is_renamed_declares_its_map(proto, path):
    rename = {"rename-io": {"outputs": {"scores": "likelihood"}}}
    kept = onnx_passes.run(path, {"passes": [rename]}).raise_for_verdict().proto()
    assert kept.graph.output[1].name == "likelihood"
    assert kept.graph.output[1].type == proto.graph.output[1].type


def test_a_wrong_score_in_a_map_is_seen(proto, path):
    proto.graph.node[1].attribute[0].floats[0] = 1.5
    assert not onnx_passes.compare(path, proto).passed


def test_inference_leaves_maps_out(proto, path):
    assert all("map_type" not in str(info) for info in infer(proto).graph.value_info)
    model = load_model(path).model
    annotate(model)
    types = {v.name: v.type for node in model.graph for v in node.outputs}
    assert types["raw"] == ir.TensorType(ir.DataType.FLOAT)
    assert types["unread"] is None
    assert {node.op_type for node in model.graph} == {"Identity", "LinearClassifier", "ZipMap"}


def test_a_map_that_no_zip_map_makes_is_refused(proto, path):
    proto.graph.node[2].op_type = "Own"
    onnx.save(proto, path)
    with pytest.raises(ModelError, match="map type"):
        load_model(path)
