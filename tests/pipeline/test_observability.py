import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.observability import can_see, disturb, disturb_values, nodes_behind
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import Kind, Verdict
from tests.tables import each_of, outputs_of

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


@each_of("taken", True, False)
@each_of("old, new", ("b = Relu(a) o = Neg(b)", "o = Neg(a)"), ("o = Neg(b)", "o = Sin(b)"))
def test_a_branch_that_is_not_taken_is_not_seen(taken, old, new):
    sample = {"x": X["x"][0], "c": np.array(taken)}
    before, after = model(BRANCHES), model(BRANCHES.replace(old, new))
    assert can_see(OnnxRuntimeEngine(), before, after, sample) is taken


@each_of("noted", True, False)
def test_readers_see_a_disturbed_value_if_it_is_known_to_be_a_float(noted):
    given = model("(float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }")
    value = given.graph[0].outputs[0]
    value.type = ir.TensorType(ir.DataType.FLOAT) if noted else None
    assert disturb_values([value]) is noted
    found = outputs_of(OnnxRuntimeEngine(), given, {"x": np.float32([1, 2])})["y"]
    np.testing.assert_allclose(found, [1, 2.0625] if noted else [1, 2])


POOL = """(float[1, 2, 8, 8] x) => (float[1, 2, 8, 8] y) {
    r = Relu(x) p = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(r)
    q = Relu(p) y = Sin(q)
}"""
SATURATED = """(float[1, 16] x) => (float[1, 3] y)
    <float[16, 3] w = {weights}, float[3] b = {bias}> {
    a = Abs(x) n = Neg(a) r = Relu(n) h = Mul(x, x) s = Sub(r, h) v = Relu(s)
    m = MatMul(v, w) t = Add(m, b) y = Softmax(t)
}"""


class _Drop(Transformation):
    which: tuple[str, ...] = ()

    def call(self, model):
        gone = [
            n
            for n in model.graph
            if n.op_type == "Relu" and (not self.which or n.outputs[0].name in self.which)
        ]
        for node in gone:
            ir.convenience.replace_all_uses_with(node.outputs[0], node.inputs[0])
            model.graph.remove(node, safe=True)
        return ir.passes.PassResult(model, bool(gone))


@passes.verify.equality
@passes.register()
class DropInnerRelu(_Drop):
    """Right for a Relu under a MaxPool under a Relu."""

    which: tuple[str, ...] = ("r",)


@passes.verify.equality
@passes.register()
class DropAllRelus(_Drop):
    """Wrong, wherever a Relu has anything to do."""


@passes.verify.equality(at="outputs")
@passes.register()
class DropAllRelusForTheOutputs(_Drop):
    """Promises no more than equal outputs."""


def saturated():
    weights = ", ".join(["0.01"] * 48)
    return SATURATED.replace("{weights}", f"{{{weights}}}").replace("{bias}", "{900, 0, -900}")


def run(text, *steps):
    model = ir.from_onnx_text(HEAD + text)
    return run_pipeline(model, default_config(["reproducers=false"], list(steps)))


def test_a_value_that_what_follows_does_not_need_is_followed_to_where_the_models_agree():
    found = run(POOL, "drop-inner-relu")
    (done,) = found.report.passes
    assert done.verdict is Verdict.PASSED, [c.reason for c in done.checks]
    assert {one.kind for one in done.evidence} == {Kind.EXECUTED}
    assert found.error is None


def test_outputs_that_a_saturated_softmax_blinds_excuse_nothing():
    found = run(saturated(), "drop-all-relus")
    (done,) = found.report.passes
    assert done.verdict is Verdict.FAILED
    assert found.error is not None
    (reason,) = [c.reason for c in done.checks if c.verdict is Verdict.FAILED]
    assert reason.startswith("s not as expected")
    assert "y agrees, and cannot see" in reason
    assert '@passes.verify.equality(at="outputs")' in reason


def test_a_pass_that_promises_outputs_alone_is_blind_there_and_not_verified():
    (done,) = run(saturated(), "drop-all-relus-for-the-outputs").report.passes
    assert done.verdict is Verdict.NOT_VERIFIED
    assert {one.kind for one in done.evidence} == {Kind.BLIND}


def chain(length):
    nodes = " ".join(f"v{i} = Neg(v{i - 1})" for i in range(1, length))
    return ir.from_onnx_text(
        HEAD + f"(float[2] x) => (float[2] y) {{ v0 = Exp(x) {nodes} y = Abs(v{length - 1}) }}"
    )


def test_nodes_behind_come_nearest_first_and_up_to_a_number():
    model = chain(10)
    assert [n.outputs[0].name for n in nodes_behind(model, {"v2"}, 3)] == ["v3", "v4", "v5"]
    assert len(nodes_behind(model, {"v2"})) == 8


def test_a_node_whose_body_captures_a_value_is_behind_it():
    model = ir.from_onnx_text(
        HEAD
        + """(float[2] x, bool c) => (float[2] y) {
        k = Exp(x)
        y = If(c) <
            then_branch = t () => (float[2] o) { o = Abs(k) },
            else_branch = e () => (float[2] p) { p = Neg(x) }
        >
    }"""
    )
    assert [n.op_type for n in nodes_behind(model, {"k"})] == ["If"]


@each_of("sign", 1, -1)
@each_of("dtype", np.float32, np.float16, np.int64)
def test_a_value_is_disturbed_by_as_much_as_it_differs(dtype, sign):
    old = np.array([1, 2, 3, 4], dtype)
    moved = disturb(old, np.array([1, 4, 3, 0], dtype), 0, sign)
    assert moved.dtype == old.dtype
    np.testing.assert_array_equal(np.abs(moved - old), [0, 2, 0, 4])
