"""``onnx-passes extract``: cuts as text, and bad input."""

import json
from pathlib import Path

import onnx

from tests.tables import each_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


def test_a_part_is_written(cli, model, tmp_path):
    part = tmp_path / "part.onnx"
    told = cli(
        *("extract", model, "-o", part, "--inputs", "s:auto", "--outputs", "y:float32"),
        "--json",
    )
    assert told.code == 0
    found = json.loads(told.out)
    assert (found["nodes"], found["inputs"], found["outputs"]) == (2, ["s"], ["y"])
    assert [n.op_type for n in onnx.load(part).graph.node] == ["Identity", "Relu"]


def test_types_that_nobody_knows_are_asked_for(cli, write, tmp_path):
    # The part had an output without a type, which no checker takes.
    text = """<ir_version: 10, opset_import: ["" : 20, "com.x" : 1]>
        g (float[N] x) => (float[N] y) { a = com.x.Foo(x) y = Relu(a) }"""
    write("foo.onnxtxt", text)
    part = tmp_path / "part.onnx"
    words = ("extract", "foo.onnxtxt", "-o", part, "--outputs")
    cli(*words, "a").tells(2, "the type of 'a' is not known")
    assert not part.exists()
    cli(*words, "a:float32").tells(0, "the shape of 'a' is not known")
    assert cli(*words, "a:[N]:float32").err == ""
    assert onnx.load(part).graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"


@each_of(
    "last, dims",
    ("MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (p)", ["n", 4, 4, 4]),
    ("ReduceMax <keepdims = 0, axes = [1]> (p)", ["n", 8, 8]),
    ("Concat <axis = 1> (p, p)", ["n", 8, 8, 8]),
)
@each_of("auto", ":auto", "")
def test_the_shape_of_an_output_without_one_is_inferred(cli, tmp_path, last, dims, auto):
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 16]> g (float[n,4,8,8] x) => (float[] y)
        {{ p = Relu(x) y = {last} }}"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    words = ("--inputs", "p", "--outputs", f"y{auto}", "-o", tmp_path / "part.onnx")
    assert cli("extract", tmp_path / "m.onnx", *words).code == 0
    part = onnx.load(tmp_path / "part.onnx")
    onnx.checker.check_model(part, full_check=True)
    found = part.graph.output[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in found] == dims
