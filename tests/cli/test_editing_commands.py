"""Commands that change a model's names, metadata and weights."""

import json
import shutil
from pathlib import Path

import onnx
import pytest

from tests.tables import each_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


@pytest.fixture
def model(tmp_path):
    return Path(shutil.copy(DIGITS, tmp_path / "model.onnx"))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.onnx"


def test_inputs_and_nodes_are_renamed(cli, model, out):
    old = onnx.load(model).graph
    name, node = old.input[0].name, old.node[0].name
    end = cli("rename", model, "-o", out, f"{name}=image", "--node", f"{node}=first")
    assert end.code == 0, end.err
    new = onnx.load(out).graph
    assert (new.input[0].name, new.node[0].name) == ("image", "first")
    onnx.checker.check_model(onnx.load(out), full_check=True)


def test_weights_go_and_come_back(cli, model, out, tmp_path):
    assert cli("strip-weights", model, "-o", out).code == 0
    assert out.stat().st_size < model.stat().st_size / 3
    back = tmp_path / "back.onnx"
    assert cli("restore-weights", out, "-o", back, "--from", model).code == 0
    assert cli("diff", model, back).code == 0
    made = tmp_path / "random.onnx"
    assert cli("restore-weights", out, "-o", made, "--random", 3).code == 0
    assert cli("diff", model, made).code == 1


def test_a_node_is_inserted(cli, model, out):
    relu = next(n for n in onnx.load(model).graph.node if n.op_type == "Relu")
    ports = ("--inputs", relu.input[0], "--outputs", relu.output[0])
    assert cli("insert", model, "-o", out, "--op", "Elu", *ports, "alpha=0.5").code == 0
    made = next(n for n in onnx.load(out).graph.node if n.op_type == "Elu")
    assert (made.attribute[0].f, made.output[0]) == (0.5, relu.output[0])


def test_a_node_that_would_read_what_it_makes_is_refused(cli, model, out):
    graph = onnx.load(model).graph
    first = next(n for n in graph.node if n.op_type == "Relu")
    words = ("--op", "Elu", "--inputs", graph.output[0].name, "--outputs", first.output[0])
    cli("insert", model, "-o", out, *words).tells(2, "is computed from its own output")
    assert not out.exists()


def test_what_is_written_into_a_model_is_printed_without_control_characters(cli, model, out):
    relu = next(n for n in onnx.load(model).graph.node if n.op_type == "Relu")
    ports = ("--inputs", relu.input[0], "--outputs", relu.output[0])
    done = cli("insert", model, "-o", out, "--op", "own::a\x1b[31m", *ports)
    done.prints(0, "a\\x1b[31m")
    assert "\x1b" not in done.out


# ``onnx-passes extract``: cuts as text, and bad input.


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
