import json
from pathlib import Path

import onnx

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


def test_a_model_does_not_differ_from_itself(cli):
    done = cli("diff", DIGITS, DIGITS)
    assert (done.code, done.out) == (0, "no differences\n")


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


def test_a_model_that_is_not_there_is_one_sentence(cli):
    done = cli("diff", DIGITS, "none.onnx")
    assert done.code == 3
    assert "none.onnx" in done.err
