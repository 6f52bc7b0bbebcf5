"""``tune`` judges values of 16 bits as ONNX has them, and refuses nothing silently."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx.reference

from tests.tables import each_of, model_of

ROWS = np.random.default_rng(3).normal(size=(64, 16)).astype(np.float32)
WEIGHT = np.random.default_rng(4).normal(size=(16, 4)).astype(np.float32)


def save(body, opset=18, **weights):
    text = f"""<ir_version: 9, opset_import: ["" : {opset}]>
    main (float[n,16] x) => (float[n,4] y) {{ {body} }}"""
    model = model_of(text, **weights)
    for node in model.graph.node:
        node.name = f"{node.output[0]}_node"
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "model.onnx")
    np.save("x.npy", ROWS)
    return model


def lost_tails():
    """A product whose logarithm is infinite once a sigmoid is rounded to one in float16."""
    return save(
        "h = MatMul(x, w) s = Sigmoid(h) d = Sub(one, s) l = Log(d) y = Mul(l, d)",
        w=WEIGHT,
        one=np.float32(1),
    )


def layers(opset=18):
    """Two layers."""
    big = np.random.default_rng(5).normal(size=(16, 64)).astype(np.float32)
    other = np.random.default_rng(6).normal(size=(64, 4)).astype(np.float32)
    return save("h = MatMul(x, w) r = Relu(h) y = MatMul(r, v)", opset, w=big, v=other)


def settings(metrics, formats, objective="bops", **more):
    data = {
        "reference": {"inputs": {"x": "x.npy"}},
        "verify": {"metrics": metrics},
        "tune": {"formats": formats, "objective": objective, **more},
    }
    Path("tune.yaml").write_text(json.dumps(data).replace('"inf"', ".inf"))
    return "tune.yaml"


def as_onnx_has_it(path):
    return onnx.reference.ReferenceEvaluator(path).run(None, {"x": ROWS})[0]


@each_of("metric", {"top_1_agreement": [0.9, 1]}, {"cosine": [-1, 1]}, ids=str)
def test_a_network_that_is_not_finite_in_float16_keeps_no_budget(cli, metric):
    lost_tails()
    found = cli("tune", "model.onnx", "-c", settings(metric, ["float16"]), "-o", "out.onnx")
    found.prints(
        0, "the original is returned", "y has NaN or infinity where the original has not"
    )
    assert np.isfinite(as_onnx_has_it("out.onnx")).all()


def test_all_nodes_that_have_to_stay_are_named_and_a_run_shows_it(cli):
    lost_tails()
    config = settings({"snr": [20, "inf"]}, ["float16"])
    found = cli(
        *("tune", "model.onnx", "-c", config, "--culprits", "-o", "out.onnx"),
        *("--json", "found.json"),
    )
    assert found.code == 0, found.err
    data = json.loads(Path("found.json").read_text())
    assert {"s_node", "d_node"} <= set(data["nodes"])
    assert data["values"]["snr"] >= 20
    assert "onnxruntime[optimization=all] gives" in found.out
    expected = as_onnx_has_it("model.onnx")
    noise = np.square(as_onnx_has_it("out.onnx") - expected).sum()
    assert 10 * np.log10(np.square(expected).sum() / noise) > 20
    skip = ",".join(data["nodes"])
    run = (f"convert-float16{{skip=[{skip}]}}", "--inputs", "x.npy", "--metric", "snr=20:inf")
    assert cli("-o", "again.onnx", "model.onnx", *run).code == 0
    for name in data["nodes"]:  # and none of them may be left out
        fewer = run[0].replace(name, "h_node" if name != "h_node" else "y_node")
        assert cli("-o", "again.onnx", "model.onnx", fewer, *run[1:]).code == 1


def test_what_the_pass_itself_keeps_is_named(cli):
    save(
        "q = Mul(x, x) s = ReduceSum(q, axes) r = Sqrt(s) u = Div(x, r) y = MatMul(u, w)",
        w=WEIGHT,
        axes=np.array([-1]),
    )
    np.save("x.npy", ROWS * 200)
    found = cli(
        "tune", "model.onnx", "-c", settings({"cosine": [0.9, 1]}, ["float16"]), "--culprits"
    )
    found.prints(0, "convert-float16 itself keeps 3 nodes:\n  q_node\n  s_node\n  r_node\n")


def test_a_format_that_needs_another_opset_raises_it(cli):
    layers(opset=13)
    config = settings({"cosine": [0.9, 1]}, ["int4-weights"], "size")
    found = cli("tune", "model.onnx", "-c", config, "-o", "out.onnx")
    found.prints(0, "int4-weights needs opset 21: raised from 13")
    made = onnx.load("out.onnx")
    assert onnx.TensorProto.INT4 in {t.data_type for t in made.graph.initializer}
    assert made.opset_import[0].version == 21
    cli("tune", "model.onnx", "-c", config, "--culprits").tells(0)


def test_an_opset_that_cannot_be_raised_is_told(cli):
    save(
        "h = MatMul(x, w) y = Upsample(h, scales)", 9, w=WEIGHT, scales=np.ones(2, np.float32)
    )
    config = settings({"cosine": [0.9, 1]}, ["int4-weights"], "size")
    found = cli("tune", "model.onnx", "-c", config, "-o", "out.onnx")
    found.prints(0, "int4-weights needs opset 21: ")


def test_a_pass_that_converts_nothing_says_so(cli):
    save(
        "h = Relu(x) y = Slice(h, from, to, axes)",
        **{"from": np.array([0]), "to": np.array([4]), "axes": np.array([1])},
    )
    config = settings({"cosine": [0.9, 1]}, ["int8-weights"], "size")
    found = cli("tune", "model.onnx", "-c", config, "-o", "out.onnx")
    found.prints(
        0,
        "the original is returned: no group can have another format",
        "quantize-weights changes nothing in it: nothing to convert: the model has no Conv",
    )


def test_a_choice_whose_file_is_not_smaller_is_not_run(cli):
    """A weight that another group keeps is stored twice."""
    square = np.random.default_rng(7).normal(size=(16, 16)).astype(np.float32)
    save("h = MatMul(x, w) r = Relu(h) g = MatMul(r, w) y = MatMul(g, v)", w=square, v=WEIGHT)
    groups = {"first": {"nodes": ["h_node"]}}
    config = settings({"snr": [10, "inf"]}, ["int8-weights"], "size", groups=groups)
    found = cli("tune", "model.onnx", "-c", config, "-o", "out.onnx", "--json", "out.json")
    assert found.code == 0, found.err
    data = json.loads(Path("out.json").read_text())
    assert data["cost"]["chosen"] == data["cost"]["original"]
    assert data["gap"] <= 1
    assert data["work"]["whole model"] == 1, "that is the original"
    assert "bytes, which is not less" in found.out
