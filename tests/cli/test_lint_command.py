import json

import numpy as np
import onnx
import onnx.parser

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
    assert done.code == 0
    assert "weight-as-input" in done.out
    assert "remove-initializers-from-inputs" in done.out
