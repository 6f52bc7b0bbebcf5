import json
from pathlib import Path

import numpy as np

from tests.tables import each_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


def test_the_digits_model_is_told(cli):
    done = cli("inspect", "model", DIGITS, "--show", "layers", "--list-unbounded")
    assert done.code == 0
    assert "input image: FLOAT[batch,1,8,8]" in done.out
    assert "unbounded image[0] = batch" in done.out
    assert done.out.count(" -> ") == 34


def test_data_goes_round_all_forms(cli, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(4.0))
    np.savez(tmp_path / "b.npz", y=np.arange(3))
    assert cli("data", "merge", "a.npz", "b.npz", "-o", "both.json").code == 0
    assert cli("data", "convert", "both.json", "-o", "folder").code == 0
    assert cli("data", "concat", "folder", "both.json", "-o", "two.json").code == 0
    done = cli("inspect", "data", "two.json", "--all", "--json")
    told = json.loads(done.out)
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
    assert done.code == 1
    assert "onnxruntime rejects 1 of 3 nodes" in done.out
    assert done.out.startswith("my::Op 'odd': ")
    assert "1 nodes  b -> c" in done.out
    taken = cli(*words[:2], "parts/part_2_supported.onnx", *words[3:], "--json")
    assert taken.code == 0
    assert json.loads(taken.out)["supported"] is True


@each_of(
    "engine, code, says",
    ("onnxruntime{provider=CUDAExecutionProvider}", 3, "has no CUDAExecutionProvider"),
    ("onnxrutime", 2, "did you mean 'onnxruntime'"),
)
def test_an_engine_that_is_not_there_is_told(cli, write, engine, code, says):
    write("odd.onnxtxt", ODD)
    done = cli("inspect", "capability", "odd.onnxtxt", "--engine", engine, "--json")
    assert (done.code, done.out) == (code, "")
    assert says in done.err
