"""Generated inputs that the model does not run on are replaced by some that it runs on."""

import onnx
import onnx.parser
import pytest

from onnx_passes.bench.reducing.parts import Boundary
from onnx_passes.model.load import load_model
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.cli.modules import read_json

# Reshape takes as many tokens as the mask has: shape inference does not see that batch is 1.
BATCH_OF_1 = """<ir_version: 8, opset_import: ["" : 17]>
main (int64[batch,seq] ids, int64[1,seq] mask) => (float[n] y) {
  sh = Shape(mask) n = ReduceProd<axes = [0], keepdims = 1>(sh)
  f = Reshape(ids, n) m = Reshape(mask, n)
  a = Add(f, m) i = Identity(a) y = Cast<to = 1>(i)
}"""

# The shape of the output is an input, and the number of elements does not change.
SHAPE_IS_AN_INPUT = """<ir_version: 8, opset_import: ["" : 17]>
main (float[6,4] x, int64[2] shape) => (float[3,8] y) {
  two = Constant<value = int64[1] {2}>() s = Abs(shape) d = Div(s, two) t = Mul(d, two)
  rest = Sub(s, t) sum = Add(t, rest) r = Reshape(x, sum) i = Identity(r) y = Relu(i)
}"""

NEVER = """<ir_version: 8, opset_import: ["" : 17]>
main (float[batch,4] x, float[3,5] z) => (float[n] y) {
  sh = Shape(x) n = ReduceProd<axes = [0], keepdims = 1>(sh)
  r = Reshape(z, n) i = Identity(r) y = Relu(i)
}"""

# Sizes that a reflection and a window in a body need are not among the usual ones.
SHORT_IN_A_BODY = """<ir_version: 8, opset_import: ["" : 17]>
main (float[batch,1,time] x, bool c) => (float[batch,2,frames] y)
<int64[6] pads = {0,0,64,0,0,64}, int64[3] w3 = {2,1,256}> {
  ones = ConstantOfShape<value = float[1] {0.1}>(w3)
  z = If (c) <
    then_branch = t () => (float[batch,2,frames] s) {
      p = Pad<mode = "reflect">(x, pads) s = Conv<strides = [128]>(p, ones) },
    else_branch = e () => (float[batch,2,frames] r) {
      q = Pad<mode = "reflect">(x, pads) n = Neg(q) r = Conv<strides = [128]>(n, ones) }>
  five = Constant<value = int64[1] {5}>() zero = Constant<value = int64[1] {0}>()
  two = Constant<value = int64[1] {2}>() i = Slice(z, zero, five, two)
  back = Identity(i) y = Relu(back)
}"""


@pytest.fixture
def saved(tmp_path):
    def put(text):
        path = tmp_path / "model.onnx"
        path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
        return path

    return put


def test_a_static_batch_beside_a_dynamic_one_runs_with_batch_1(cli, saved):
    cli("-c", "simplify", "-o", "o.onnx", "--json", "r.json", saved(BATCH_OF_1)).tells(0)
    report = read_json("r.json")
    assert report["reference"]["source"] == "generated (seed 0), batch=1, seq=5"
    assert report["reference"]["inputs"]["ids"].startswith("int64[1,5]")
    assert any("batch=1" in note for note in report["notes"])


def test_sizes_that_a_body_takes_are_found(cli, saved):
    done = cli("-c", "optimize", "-o", "o.onnx", saved(SHORT_IN_A_BODY))
    assert done.code == 0, done.err
    assert "VERIFIED" in done.out + done.err
    assert "used: batch=2, time=" in done.out + done.err


def test_a_shape_that_is_an_input_is_that_of_the_output(cli, saved):
    done = cli("-c", "simplify", "-o", "o.onnx", "--json", "r.json", saved(SHAPE_IS_AN_INPUT))
    assert done.code == 0, done.err
    assert "[3, 8] as shape" in read_json("r.json")["reference"]["source"]


def test_what_was_tried_in_vain_is_said(cli, saved):
    done = cli("-c", "simplify", "-o", "o.onnx", saved(NEVER))
    done.tells(3, "cannot be reshaped", "tried in vain as well: batch=", "reference")


def test_adversarial_inputs_have_the_sizes_that_run(cli, saved):
    cli(
        *("-c", "simplify", "-o", "o.onnx", "--json", "r.json"),
        *("-s", "verify.inputs=adversarial", saved(BATCH_OF_1)),
    ).tells(0)
    assert any("zeros" in name for name in read_json("r.json")["reference"]["names"])


def test_compare_finds_inputs_that_run(cli, saved):
    path = saved(BATCH_OF_1)
    done = cli("compare", path, path)
    assert done.code == 0, done.out + done.err
    assert "batch=1" in done.out + done.err


def test_reduce_records_values_of_inputs_that_run(saved):
    boundary = Boundary(load_model(saved(BATCH_OF_1)).model, OnnxRuntimeEngine())
    assert boundary.value("f").shape == (5,), boundary.why
    assert boundary.feeds()["ids"].shape == (1, 5)


def test_an_image_is_decoded(cli, saved):
    text = """<ir_version: 9, opset_import: ["" : 20]>
    main (uint8[300] data) => (uint8[h,w,c] y) { i = Identity(data) y = ImageDecoder(i) }"""
    cli("-c", "simplify", "-o", "o.onnx", saved(text)).tells(0)
