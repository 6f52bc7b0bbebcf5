"""``run --engine``: which engines check a pipeline, from the command line."""

import json

import pytest

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N,8] x) => (float[N,8] y) <float[8] w = {1, -2, 3, -4, 5, -6, 7, -8}>
    { a = Relu(x) b = Mul(a, w) c = Identity(b) y = Add(c, x) }"""


@pytest.fixture
def model(write):
    return write("m.txt", TEXT)


def engines(path):
    return [one["name"] for one in json.loads(path.read_text())["engines"]]


def test_it_stands_in_place_of_those_of_the_pipeline(cli, model, tmp_path):
    words = ["-o", "o.onnx", model, "eliminate-identity", "--json", "r.json"]
    cli("-e", "reference", "-e", "onnxruntime{optimization=all}", *words).tells(0)
    assert engines(tmp_path / "r.json") == ["reference", "onnxruntime[optimization=all]"]


def test_openvino_is_compared_and_asked_what_it_takes(cli, model):
    pytest.importorskip("openvino", reason="pip install -e '.[openvino]'")
    done = cli("compare", model, "--engine", "onnxruntime", "--engine", "openvino")
    done.prints(0, "agrees  y")
    done = cli("inspect", "capability", model, "--engine", "openvino")
    done.prints(0, "openvino takes the model: 4 nodes")
