"""Values of the bodies of If, Loop and Scan, as outputs of the nodes that hold them."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.recording import exposed
from onnx_passes.verify.runs import Runner, Settings, compare
from onnx_passes.verify.runs.batches import in_order
from onnx_passes.verify.runs.body_values import expose, not_shown, typed

HEAD = '<ir_version: 10, opset_import: ["" : 20]> '
IF = """g (float[2] x, bool c) => (float[2] y) {
    y = If (c) <
        then_branch = t () => (float[2] p) { q = Exp(x) p = Neg(q) },
        else_branch = e () => (float[2] r) { w = Sin(x) r = Neg(w) }>
}"""
LOOP = """g (float[2] x, int64 n) => (float[2] y) {
    t = Constant <value = bool {1}> ()
    y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u) {
        d = Identity(c)
        one = Constant <value = float[1] {1}> ()
        e = Mul(s, s)
        u = Add(e, one)
    }>
}"""
SCAN = """g (float[3, 2] x, float[2] s0) => (float[2] f, float[2, 3] z) {
    f, z = Scan <num_scan_inputs = 1, scan_output_axes = [1],
        body = b (float[2] s, float[2] v) => (float[2] u, float[2] w) {
            u = Add(s, v) k = Mul(u, u) w = Neg(k)
        }>(s0, x)
}"""
NESTED = """g (float[2] x, bool c) => (float[2] y) {
    y = If (c) <
        then_branch = t () => (float[2] p) {
            p = If (c) <
                then_branch = tt () => (float[2] pp) { deep = Exp(x) pp = Neg(deep) },
                else_branch = te () => (float[2] pr) { pr = Sin(x) }>
        },
        else_branch = e () => (float[2] r) { r = Abs(x) }>
}"""


def read(text):
    return ir.from_proto(onnx.parser.parse_model(HEAD + text))


def values(text, feeds):
    model = exposed(expose(typed(read(text))))
    with OnnxRuntimeEngine().prepare(model) as session:
        return session.run(feeds)


X = np.array([0.5, 2.0], np.float32)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_is_not_taken_is_empty(taken):
    found = values(IF, {"x": X, "c": np.array(taken)})
    full, empty = ("y/then_branch/q", "y/else_branch/w")[:: 1 if taken else -1]
    assert np.allclose(found[full], np.exp(X) if taken else np.sin(X))
    assert found[empty].size == 0


def test_a_loop_gives_every_iteration():
    found = values(LOOP, {"x": X, "n": np.array(3)})
    expected, state = [], X
    for _ in range(3):
        state = state * state + 1
        expected.append(state)
    assert np.allclose(found["y/body/u"], expected)
    assert found["y/body/e"].shape == (3, 2)
    assert np.allclose(found["y"], state)


def test_a_loop_of_no_iteration_gives_nothing():
    found = values(LOOP, {"x": X, "n": np.array(0)})
    assert found["y/body/u"].shape == (0, 2)
    assert np.array_equal(found["y"], X)


def test_a_scan_gives_every_step_and_keeps_its_axes():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = values(SCAN, {"x": x, "s0": np.zeros(2, np.float32)})
    assert np.array_equal(found["f/body/u"], np.cumsum(x, 0))
    assert np.array_equal(found["z"], -(np.cumsum(x, 0) ** 2).T)


def test_bodies_in_bodies_are_opened():
    found = values(NESTED, {"x": X, "c": np.array(True)})
    assert np.allclose(found["y/then_branch/p/then_branch/deep"], np.exp(X))


def test_what_is_inside_comes_before_what_it_makes():
    names = in_order(exposed(expose(typed(read(IF)))))
    assert names.index("y/then_branch/q") < names.index("y")


def test_the_model_is_left_as_it_is():
    model = read(NESTED)
    before = ir.to_proto(model)
    expose(typed(model))
    assert ir.to_proto(model) == before


def test_only_what_is_asked_for_is_given():
    model = expose(typed(read(IF)), {"y/else_branch/w"})
    assert [v.name for v in model.graph.node(0).outputs] == ["y", "y/else_branch/w"]


def test_batches_of_one_value_find_the_same():
    feeds = [{"x": X, "n": np.array(2)}]
    whole, small = (
        compare(
            [Runner(read(LOOP)), Runner(read(LOOP.replace("Mul", "Add")))],
            feeds,
            settings=Settings(outputs="all", memory_limit=limit),
        )
        for limit in (1 << 30, 16)
    )
    assert whole.pairs[0].outputs == small.pairs[0].outputs
    assert small.runs[0].batches > 1
    assert whole.pairs[0].first.check.output == "y/body/e"


def test_a_loop_whose_state_grows_is_left_out_and_told():
    text = """g (float[1] x, int64 n) => (float[M] y) {
        t = Constant <value = bool {1}> ()
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[K] s) => (bool d, float[L] u) {
            d = Identity(c)
            e = Exp(s)
            u = Concat <axis = 0> (e, e)
        }>
    }"""
    assert values(text, {"x": X[:1], "n": np.array(2)})["y"].shape == (4,)
    model = typed(read(text))
    names = in_order(exposed(expose(model)))
    assert "y/body/e" not in names
    assert "bodies of Loop 'y'" in not_shown(model, names)


def test_all_that_is_shown_leaves_nothing_to_say():
    model = typed(read(IF))
    assert not not_shown(model, in_order(exposed(expose(model))))
