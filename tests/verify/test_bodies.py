import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.bench.runs import Runner, Settings, compare
from onnx_passes.bench.runs.runner import in_order
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.bodies import (
    changed_bodies,
    expose_bodies,
    hidden_values_note,
    pair_holders,
    typed,
)
from onnx_passes.verify.recording import expose_values
from onnx_passes.verify.region import changed_region
from tests.tables import each_of, outputs_of

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g '
IF = """(float[N] x, bool c) => (float[N] y) {
    k = Exp(x) w = Constant<value_float = 2.0>()
    y = If(c) <
        then_branch = t () => (float[N] o) { m = Abs(k) o = Mul(m, w) },
        else_branch = e () => (float[N] p) { p = Neg(x) }
    >
}"""
LOOP = """(float[N] x, int64 n, bool c) => (float[N] y) {
    y = Loop(n, c, x) <body = b (int64 i, bool go, float[N] s) => (bool on, float[N] u) {
        on = Identity(go) e = Mul(s, s) u = Add(e, x)
    }>
}"""
SCAN = """(float[T, 2] x, float[2] s0) => (float[2] f, float[T, 2] z) {
    f, z = Scan<num_scan_inputs = 1,
        body = b (float[2] s, float[2] v) => (float[2] u, float[2] w) {
            u = Add(s, v) k = Abs(u) w = Neg(k)
        }>(s0, x)
}"""
X = np.array([0.5, 2.0], np.float32)


def bodies(text, old, new, samples):
    assert old in text
    before, after = (ir.from_onnx_text(HEAD + t) for t in (text, text.replace(old, new)))
    region = changed_region(before, after)
    engine = OnnxRuntimeEngine()
    holders = pair_holders(region.removed, region.nodes, samples, {})
    return list(changed_bodies(before, after, holders, samples, {}, engine))


def outputs(model, feeds):
    return list(outputs_of(OnnxRuntimeEngine(), model, feeds).values())


@each_of("taken", True, False)
def test_a_branch_is_run_on_what_it_reads_around_it_whether_taken_or_not(taken):
    sample = {"x": X, "c": np.array(taken), "k": np.exp(X)}
    found, other = bodies(IF, "m = Abs(k)", "m = Relu(k)", [sample])
    assert (found.name, other.name) == ("then_branch", "else_branch")
    assert found.certain
    (feeds,) = found.feeds
    assert set(feeds) == {"k"}
    for model in (found.before, found.after):
        np.testing.assert_array_equal(outputs(model, feeds)[0], np.exp(X) * 2)


def test_what_only_one_side_reads_is_an_input_of_both():
    sample = {"x": X, "c": np.array(True), "k": np.exp(X)}
    found, _ = bodies(IF, "m = Abs(k)", "m = Abs(x)", [sample])
    for model in (found.before, found.after):
        assert {v.name for v in model.graph.inputs} == {"k", "x"}
        assert outputs(model, found.feeds[0])


def test_a_body_that_did_not_change_is_not_run():
    sample = {"x": X, "c": np.array(True), "k": np.exp(X)}
    assert bodies(IF, "k = Exp(x)", "k = Sin(x)", [sample]) == []


def test_a_loop_is_entered_with_the_values_of_its_first_iterations():
    sample = {"x": X, "n": np.array(9), "c": np.array(True)}
    (found,) = bodies(LOOP, "Add(e, x)", "Add(x, e)", [sample])
    assert [int(feeds["i"]) for feeds in found.feeds] == [0, 1, 2]
    state = X
    for feeds in found.feeds:
        np.testing.assert_array_equal(feeds["s"], state)
        state = state * state + X


def test_a_loop_of_no_iteration_is_entered_once_all_the_same():
    sample = {"x": X, "n": np.array(0), "c": np.array(True)}
    (found,) = bodies(LOOP, "Add(e, x)", "Sub(e, x)", [sample])
    assert len(found.feeds) == 1


def test_a_scan_is_entered_with_one_slice_after_the_other():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    sample = {"x": x, "s0": np.zeros(2, np.float32)}
    (found,) = bodies(SCAN, "k = Abs(u)", "k = Relu(u)", [sample])
    np.testing.assert_array_equal([feeds["v"] for feeds in found.feeds], x)
    np.testing.assert_array_equal(found.feeds[2]["s"], x[0] + x[1])


def test_a_scan_that_runs_backwards_is_entered_so():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    text = SCAN.replace(
        "num_scan_inputs = 1,", "num_scan_inputs = 1, scan_input_directions = [1],"
    )
    sample = {"x": x, "s0": np.zeros(2, np.float32)}
    (found,) = bodies(text, "k = Abs(u)", "k = Relu(u)", [sample])
    np.testing.assert_array_equal([feeds["v"] for feeds in found.feeds], x[::-1])


def test_inputs_and_results_are_paired_by_position():
    sample = {"x": X, "n": np.array(2), "c": np.array(True)}
    other = LOOP.replace("float[N] s)", "float[N] e)").replace(
        "u = Add(e, x)", "s = Add(u, x)"
    )
    other = other.replace("e = Mul(s, s)", "u = Mul(e, e)").replace(
        "float[N] u)", "float[N] s)"
    )
    (found,) = bodies(LOOP, LOOP, other, [sample])
    for side in ("inputs", "outputs"):
        one, two = (getattr(m.graph, side) for m in (found.before, found.after))
        assert [v.name for v in one] == [v.name for v in two]
    for feeds in found.feeds:
        for one, two in zip(
            *(outputs(m, feeds) for m in (found.before, found.after)), strict=True
        ):
            np.testing.assert_array_equal(one, two)


def test_a_result_that_is_an_input_is_one_on_both_sides():
    sample = {"x": X, "n": np.array(2), "c": np.array(True)}
    text = LOOP.replace("on = Identity(go) ", "").replace("bool on", "bool go")
    (found,) = bodies(text, "Mul(s, s)", "Abs(s)", [sample])
    one, two = ([v.name for v in m.graph.outputs] for m in (found.before, found.after))
    assert one == two == ["go/given0", "u"]


def test_branches_behind_another_condition_do_not_stand_for_each_other():
    sample = {"x": X, "c": np.array(True), "k": np.exp(X)}
    found = bodies(IF, "y = If(c)", "n = Not(c) y = If(n)", [sample])
    assert not any(body.certain for body in found)


def test_a_body_that_reads_what_was_not_recorded_is_left_out():
    found = bodies(IF, "m = Abs(k)", "m = Relu(k)", [{"x": X, "c": np.array(True)}])
    assert [[node.op_type for node in body.before.graph] for body in found] == [["Neg"]]


HEAD_BODY_VALUES = '<ir_version: 10, opset_import: ["" : 20]> '
IF_BODY_VALUES = """g (float[2] x, bool c) => (float[2] y) {
    y = If (c) <
        then_branch = t () => (float[2] p) { q = Exp(x) p = Neg(q) },
        else_branch = e () => (float[2] r) { w = Sin(x) r = Neg(w) }>
}"""
LOOP_BODY_VALUES = """g (float[2] x, int64 n) => (float[2] y) {
    t = Constant <value = bool {1}> ()
    y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u) {
        d = Identity(c)
        one = Constant <value = float[1] {1}> ()
        e = Mul(s, s)
        u = Add(e, one)
    }>
}"""
SCAN_BODY_VALUES = """g (float[3, 2] x, float[2] s0) => (float[2] f, float[2, 3] z) {
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
    return ir.from_proto(onnx.parser.parse_model(HEAD_BODY_VALUES + text))


def values(text, feeds):
    model = expose_values(expose_bodies(typed(read(text))))
    return outputs_of(OnnxRuntimeEngine(), model, feeds)


def test_a_loop_gives_every_iteration():
    found = values(LOOP_BODY_VALUES, {"x": X, "n": np.array(3)})
    expected, state = [], X
    for _ in range(3):
        state = state * state + 1
        expected.append(state)
    assert np.allclose(found["y/body/u"], expected)
    assert found["y/body/e"].shape == (3, 2)
    assert np.allclose(found["y"], state)


def test_a_scan_gives_every_step_and_keeps_its_axes():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = values(SCAN_BODY_VALUES, {"x": x, "s0": np.zeros(2, np.float32)})
    assert np.array_equal(found["f/body/u"], np.cumsum(x, 0))
    assert np.array_equal(found["z"], -(np.cumsum(x, 0) ** 2).T)


def test_bodies_in_bodies_are_opened():
    found = values(NESTED, {"x": X, "c": np.array(True)})
    assert np.allclose(found["y/then_branch/p/then_branch/deep"], np.exp(X))


def test_batches_of_one_value_find_the_same():
    feeds = [{"x": X, "n": np.array(2)}]
    whole, small = (
        compare(
            [
                Runner(read(LOOP_BODY_VALUES)),
                Runner(read(LOOP_BODY_VALUES.replace("Mul", "Add"))),
            ],
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
    names = in_order(expose_values(expose_bodies(model)))
    assert "y/body/e" not in names
    assert "bodies of Loop 'y'" in hidden_values_note(model, names)


def test_all_that_is_shown_leaves_nothing_to_say():
    model = typed(read(IF_BODY_VALUES))
    assert not hidden_values_note(model, in_order(expose_values(expose_bodies(model))))
