"""``sanitize``: shorthand for passes, verified as everything is."""

import json

import onnx
import pytest

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[N, 4] x) => (float[N, 4] y) <float two = {2}, float unused = {1}> {
        four = Mul(two, two) a = Mul(x, four) dead = Exp(x) b = Neg(a) y = Identity(b)
    }"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.onnx"


def test_constants_are_folded_and_the_rest_goes_verified(cli, model, out, tmp_path):
    report = tmp_path / "report.json"
    end = cli("sanitize", model, "-o", out, "--fold-constants", "--cleanup", "--json", report)
    assert end.code == 0, end.err
    graph = onnx.load(out).graph
    assert [n.op_type for n in graph.node] == ["Mul", "Neg", "Identity"]
    assert len(graph.initializer) == 1
    told = json.loads(report.read_text())
    assert not told["not_verified"]
    assert {p["verdict"] for p in told["passes"]} <= {"passed", "unchanged"}


def test_shapes_and_outputs_are_those_asked_for(cli, model, out):
    words = ("--override-input-shapes", "x:3x4", "--outputs", "a", "--cleanup")
    end = cli("sanitize", model, "-o", out, *words)
    assert end.code == 0, end.err
    graph = onnx.load(out).graph
    assert [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == [3, 4]
    assert [v.name for v in graph.output] == ["a"]


def test_a_value_is_bounded(cli, model, out):
    assert cli("sanitize", model, "-o", out, "--set-upper-bound", "a:1.5").code == 0
    graph = onnx.load(out).graph
    least = next(n for n in graph.node if n.op_type == "Min")
    assert least.input[0] == "a"
    assert next(n for n in graph.node if n.op_type == "Neg").input[0] == least.output[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing to do"),
        (["--override-input-shapes", "z:1x4"], "the model has no input 'z'"),
        (["--override-input-shapes", "x:1x4x1"], "has 2 dimensions, not 3"),
        (["--override-input-shapes", "x:axb"], "'axb' is no shape"),
        (["--outputs", "yy"], "no value 'yy'"),
        (["--set-upper-bound", "a:many"], "'many' is no number"),
        (["--set-upper-bound", "nothing:1"], "no node computes 'nothing'"),
    ],
)
def test_what_is_not_there_is_told(cli, model, out, words, says):
    end = cli("sanitize", model, "-o", out, *words)
    assert end.code == 2
    assert says in end.err
    assert not out.exists()
