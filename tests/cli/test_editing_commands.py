"""Commands that change a model's names, metadata and weights."""

import shutil
from pathlib import Path

import onnx
import pytest

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
    cli("rename", model, "-o", out, f"{name}=image", "--node", f"{node}=first").tells(0)
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
