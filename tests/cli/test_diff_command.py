import json
from pathlib import Path

import onnx

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


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
