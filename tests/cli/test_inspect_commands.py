"""Commands that read models and change none: view, diff, lint, inspect data, analyses."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx.parser

from tests.tables import each_row

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


def data_of(path):
    found = re.search(r'id="data">(.*?)</script>', path.read_text(), re.S)
    return json.loads(found[1])


def values(data):
    return {value["n"]: value for value in data["values"]}


def test_a_page_is_written_beside_the_caller(cli, model, tmp_path):
    end = cli("view", model)
    assert (end.code, end.out) == (0, "wrote model.html\n")
    data = data_of(tmp_path / "model.html")
    assert [node["o"] for node in data["nodes"]] == ["Add", "Identity", "Relu"]
    # Shapes are inferred, and a Relu is not negative whatever goes in.
    assert values(data)["s"]["t"] == "float[N, 2]"
    assert values(data)["y"]["r"][0] == 0.0


def test_a_run_marks_what_it_has_changed(cli, model, tmp_path):
    assert cli("-c", "cleanup", "-o", "out.onnx", "--json", "run.json", model).code == 0
    assert cli("view", "out.onnx", "--report", "run.json", "-o", "p/page.html").code == 0
    data = data_of(tmp_path / "p" / "page.html")
    marked = [node for node in data["nodes"] if "e" in node]
    assert marked
    assert {node["e"] for node in marked} <= {"proved", "executed"}


def test_an_attribute_that_differs_is_told(cli, tmp_path):
    model = onnx.load(DIGITS)
    (node,) = [n for n in model.graph.node if n.op_type == "Conv"][:1]
    (pads,) = [a for a in node.attribute if a.name == "pads"]
    pads.ints[0] += 1
    onnx.save(model, tmp_path / "other.onnx")
    done = cli("diff", DIGITS, "other.onnx", "--json")
    assert done.code == 1
    assert [d["kind"] for d in json.loads(done.out)["differences"]] == ["attribute"]
    assert "\x1b" not in cli("diff", DIGITS, "other.onnx").out


BAD = """<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x, float[2] z, bool p) => (float[2] y) <float[2] w = {nan, 1}> {
  a = Add(x, w)
  y = If(p) <then_branch = t () => (float[2] u) { u = Elu(a) },
             else_branch = e () => (float[2] v) { v = com.none.Odd(a) }>
}"""


def test_all_findings_come_in_one_run(cli, tmp_path):
    model = onnx.parser.parse_model(
        BAD.replace("nan", "3").replace("20]", '20, "com.none" : 1]')
    )
    weight = onnx.numpy_helper.from_array(np.array([np.nan, 1], np.float32), "w")
    model.graph.initializer[0].CopyFrom(weight)
    onnx.save(model, tmp_path / "bad.onnx")
    done = cli("lint", "bad.onnx", "--json")
    assert done.code == 1
    rules = {finding["rule"] for finding in json.loads(done.out)}
    assert {"nan", "unused-input", "engine"} <= rules


def test_weights_that_callers_may_override_are_told(cli, tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {3, 1}> { y = Add(x, w) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    done = cli("lint", "m.onnx", "--no-engine")
    done.prints(0, "weight-as-input", "remove-initializers-from-inputs")


def test_the_digits_model_is_told(cli):
    done = cli("inspect", "model", DIGITS, "--show", "layers", "--list-unbounded")
    done.prints(0, "input image: FLOAT[batch,1,8,8]", "unbounded image[0] = batch")
    assert done.out.count(" -> ") == 34


def test_data_goes_round_all_forms(cli, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(4.0))
    np.savez(tmp_path / "b.npz", y=np.arange(3))
    assert cli("data", "merge", "a.npz", "b.npz", "-o", "both.json").code == 0
    assert cli("data", "concat", "both.json", "-o", "folder").code == 0
    assert cli("data", "concat", "folder", "both.json", "-o", "two.json").code == 0
    told = json.loads(cli("inspect", "data", "two.json", "--all", "--json").out)
    assert told["samples"] == 2
    assert [row["name"] for row in told["values"]] == ["x", "y", "x", "y"]
    assert told["values"][0]["statistics"]["max_at"] == [3]


def test_the_runner_of_each_result_is_told(cli):
    assert cli("compare", DIGITS, DIGITS, "--save-outputs", "r.json").code == 0
    done = cli("inspect", "data", "r.json", "--all", "--stats")
    assert "[0] scores of model.onnx on onnxruntime: float32" in done.out
    assert "[3] scores of model.onnx on onnxruntime #2: float32" in done.out
    rows = json.loads(cli("inspect", "data", "r.json", "--all", "--json").out)["values"]
    assert rows[-1]["runner"] == "model.onnx on onnxruntime #2"


ODD = """<ir_version: 10, opset_import: ["": 20, "my": 1]>
main (float[2] a) => (float[2] y) <float[2] c> { b = Relu(a) [odd] c = my.Op(b) y = Neg(c) }"""


def test_what_an_engine_rejects_is_told_and_the_parts_are_saved(cli, write):
    write("odd.onnxtxt", ODD)
    words = ("inspect", "capability", "odd.onnxtxt", "--engine", "onnxruntime")
    done = cli(*words, "--partition", "parts")
    done.prints(1, "onnxruntime rejects 1 of 3 nodes")
    assert done.out.startswith("my::Op 'odd': ")
    assert "1 nodes  b -> c" in done.out
    taken = cli(*words[:2], "parts/part_2_supported.onnx", *words[3:], "--json")
    assert taken.code == 0
    assert json.loads(taken.out)["supported"] is True


@each_row("""engine | code | says
- onnxruntime{provider=CUDAExecutionProvider} | =3 | has no CUDAExecutionProvider
- onnxrutime | =2 | did you mean 'onnxruntime'
""")
def test_an_engine_that_is_not_there_is_told(cli, write, engine, code, says):
    write("odd.onnxtxt", ODD)
    done = cli("inspect", "capability", "odd.onnxtxt", "--engine", engine, "--json")
    assert (done.code, done.out) == (code, "")
    assert says in done.err


# What somebody sees who runs an analysis.


def test_an_analysis_tells_what_it_found_without_being_asked_twice(cli):
    done = cli(DIGITS, "cost{dims={batch: 1}}", "-o", "o.onnx")
    done.tells(0, "Conv '/conv2/Conv': ", "FLOP")


def test_a_model_of_pytorch_is_printed_though_its_constants_have_slashes_in_their_names(cli):
    cli("-o", "-", DIGITS, "cost").prints(0, "main_graph (float[batch,1,8,8] image)")
