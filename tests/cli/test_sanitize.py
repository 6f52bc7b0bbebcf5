"""``sanitize``: shorthand for passes, verified as everything is."""

import json

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.surgery.sanitizing import prepare
from tests.tables import each_of

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
    assert "input x: [N,4] -> [3,4], as asked for" in end.err


def test_what_other_outputs_remove_is_in_the_summary_and_the_report(cli, model, out, tmp_path):
    report = tmp_path / "report.json"
    words = ("sanitize", model, "-o", out, "--outputs", "four")
    end = cli(*words, "--cleanup", "--json", report)
    assert end.code == 0, end.err
    assert len(onnx.load(out).graph.node) == 1
    told = ["output y: [N,4] -> none, as asked for", "nodes: 5 -> 1, as asked for"]
    assert set(told) <= set(json.loads(report.read_text())["notes"])
    assert all(f"note: {line}" in end.err for line in told)
    assert "copied" not in end.err
    assert "as asked for" not in cli(*words, "--toposort", "-q").err


def test_a_shape_that_no_kernel_takes_is_refused(cli, tmp_path, out):
    # The channels of a Conv are not looked at by shape inference, and nothing was run.
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[N, 1, 4, 4] x) => (float[N, 1, 4, 4] y) <float[1, 1, 1, 1] w = {2}> {
            y = Conv(x, w)
        }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "conv.onnx")
    words = ("sanitize", "conv.onnx", "-o", out, "--override-input-shapes", "x:1x3x4x4")
    cli(*words).tells(2, "does not run with these shapes")
    assert not out.exists()
    assert cli(*words, "--no-verify").code == 0


def test_a_value_is_bounded(cli, model, out):
    assert cli("sanitize", model, "-o", out, "--set-upper-bound", "a:1.5").code == 0
    graph = onnx.load(out).graph
    least = next(n for n in graph.node if n.op_type == "Min")
    assert least.input[0] == "a"
    assert next(n for n in graph.node if n.op_type == "Neg").input[0] == least.output[0]


def test_an_output_without_a_type_is_repaired_by_itself(cli, tmp_path, out):
    untyped = onnx.parser.parse_model(MODEL)
    untyped.graph.output[0].ClearField("type")
    onnx.save(untyped, "untyped.onnx")
    cli("sanitize", "untyped.onnx", "-o", out).tells(0)
    found = onnx.load(out).graph.output[0].type.tensor_type
    assert found.elem_type == onnx.TensorProto.FLOAT
    assert [dim.dim_param or dim.dim_value for dim in found.shape.dim] == ["N", 4]
    assert cli("sanitize", out, "-o", "again.onnx").code == 2  # now there is nothing to do


FEEDS = "float[b, h, w] x, float[h, b] c, int64[3] target"


@each_of(
    "shape, declared, expected",
    pytest.param(["b", 8, 8], "b, 3, own", ["b", None, "own"], id="stays"),
    pytest.param(["b", 8, "w"], "h, w, w", [None, "w", "w"], id="one-place-is-fixed"),
    pytest.param(["b", "w", "h"], "b, w, h", ["b", None, None], id="exchanged"),
)
def test_an_output_keeps_names_of_dimensions_that_are_as_before(shape, declared, expected):
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g ({FEEDS}) => (float[{declared}] y)
    {{
        y = Reshape(x, target)
    }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    (output,) = prepare(model, {"x": shape}, (), {}).graph.outputs
    assert output.shape is not None
    kept = [d if d in ("b", "h", "w", "own") else None for d in map(_plain, output.shape)]
    assert kept == expected


@each_of("formula, kept", ('"2*b"', True), ('"b*h"', False), ('"b+w"', True))
def test_a_formula_holds_while_its_names_do(formula, kept):
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g ({FEEDS}) => (float[{formula}] y) {{
        i = Slice(target, one, two) y = Reshape(x, i)
    }}"""
    text = text.replace(") {", ") <int64[1] one = {1}, int64[1] two = {2}> {")
    model = ir.from_proto(onnx.parser.parse_model(text))
    (output,) = prepare(model, {"x": ["b", 8, "w"]}, (), {}).graph.outputs
    assert output.shape is not None
    assert (_plain(output.shape[0]) == formula.strip('"')) == kept


def test_a_size_that_inference_finds_wins_over_a_name():
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g ({FEEDS}) => (float[b, own, w] y) {{
        y = Relu(x)
    }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    (output,) = prepare(model, {"x": ["b", 8, "w"]}, (), {}).graph.outputs
    assert output.shape == ir.Shape(["b", 8, "w"])


def _plain(dim):
    return dim if isinstance(dim, int) else dim.value
