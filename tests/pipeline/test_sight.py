"""Whether the outputs can see a change at all, where they are all that vouches for it."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.pipeline.sight import can_see, disturb_values
from onnx_passes.runtime.ort import OnnxRuntimeEngine

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g '
GATED = """(float[1, 4] x) => (float[1, 4] y, float[1, 4] z) <float[4] k = {K}> {
    e = Exp(x) r = Relu(e) g = Mul(r, k) y = Add(g, x) n = Neg(x) z = Sin(n)
}"""
X = {"x": np.float32([[0.1, 0.2, 0.3, 0.4]])}


def model(text):
    return ir.from_onnx_text(HEAD + text)


def sees(text, old, new, **more):
    assert old in text
    engine = OnnxRuntimeEngine()
    return can_see(engine, model(text), model(text.replace(old, new)), X, **more)


OPEN, CLOSED = GATED.replace("{K}", "{1, 1, 1, 1}"), GATED.replace("{K}", "{0, 0, 0, 0}")


def test_outputs_that_depend_on_what_was_replaced_see_it():
    assert sees(OPEN, "e = Exp(x) r = Relu(e)", "r = Exp(x)") is True


def test_outputs_behind_a_closed_gate_do_not():
    assert sees(CLOSED, "e = Exp(x) r = Relu(e)", "r = Exp(x)") is False


def test_another_change_that_they_see_is_not_asked_for_this_one():
    both = CLOSED.replace("z = Sin(n)", "m = Abs(n) z = Sin(m)")
    assert sees(both, "e = Exp(x) r = Relu(e)", "r = Exp(x)") is False


def test_an_output_that_is_no_evidence_does_not_count():
    old, new = "n = Neg(x) z = Sin(n)", "n = Abs(x) z = Sin(n)"
    assert sees(OPEN, old, new) is True
    assert sees(OPEN, old, new, ignored={"z"}) is False


def test_outputs_that_were_replaced_themselves_see_that():
    assert sees(OPEN, "z = Sin(n)", "z = Cos(n)") is True


def test_values_that_are_no_floats_are_not_asked():
    text = """(float[1, 4] x) => (float[1, 4] y) {
        i = Cast<to = 7>(x) j = Abs(i) f = Cast<to = 1>(j) y = Neg(f)
    }"""
    old, new = "i = Cast<to = 7>(x) j = Abs(i)", "j = Cast<to = 7>(x)"
    assert sees(text, old, new) in (None, True)


BRANCHES = """(float[4] x, bool c) => (float[4] y) {
    y = If(c) <
        then_branch = t () => (float[4] o) { a = Exp(x) b = Relu(a) o = Neg(b) },
        else_branch = e () => (float[4] p) { p = Sin(x) }
    >
}"""


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize(
    ("old", "new"), [("b = Relu(a) o = Neg(b)", "o = Neg(a)"), ("o = Neg(b)", "o = Sin(b)")]
)
def test_a_branch_that_is_not_taken_is_not_seen(taken, old, new):
    sample = {"x": X["x"][0], "c": np.array(taken)}
    before, after = model(BRANCHES), model(BRANCHES.replace(old, new))
    assert can_see(OnnxRuntimeEngine(), before, after, sample) is taken


@pytest.mark.parametrize("noted", [True, False])
def test_readers_see_a_disturbed_value_if_it_is_known_to_be_a_float(noted):
    given = model("(float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }")
    value = given.graph[0].outputs[0]
    value.type = ir.TensorType(ir.DataType.FLOAT) if noted else None
    assert disturb_values([value]) is noted
    with OnnxRuntimeEngine().prepare(given) as session:
        found = session.run({"x": np.float32([1, 2])})["y"]
    np.testing.assert_allclose(found, [1, 2.0625] if noted else [1, 2])
