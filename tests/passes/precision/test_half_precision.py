import numpy as np
import onnx_ir as ir

from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from tests.tables import each_of

WIDE = ir.DataType.FLOAT
LOOP = """(int64 n, float[3] x) => (float[3] y, float[k,3] all) {{
    y, all = Loop(n, , x) <body = b (int64 i, bool c, float[3] s) =>
        (bool d, float[3] t, float[3] u)
        {{ d = Identity(c) {inner} }}> }}"""
SCAN = """(float[4,3] x) => (float[3] y, float[4,3] all) <float[3] zero = {0, 0, 0}> {
    y, all = Scan <num_scan_inputs = 1, body = b (float[3] s, float[3] e) =>
        (float[3] t, float[3] u) { t = Add(s, e) u = Tanh(t) }> (zero, x) }"""
NESTED = """(int64 n, bool q, float[3] x) => (float[3] y) {
    y = Loop(n, , x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
        d = Identity(c)
        t = If(q) <then_branch = p () => (float[3] v) { v = Sin(s) },
                   else_branch = r () => (float[3] w) { w = Cos(s) }> }> }"""


def casts(model):
    """Return how many Casts each graph has, the main graph first."""
    return [sum(node.op_type == "Cast" for node in graph) for graph in model.graphs()]


def checked(model, feed, run):
    old = run(model, feed)
    assert ConvertFloat16().call(model).modified
    for one, other in zip(old, run(model, feed), strict=True):
        assert other.dtype == one.dtype
        np.testing.assert_allclose(one, other, atol=5e-3)
    assert not ConvertFloat16().call(model).modified
    return model


def test_the_state_of_a_loop_stays_in_float32(typed, run):
    text = LOOP.format(inner="t = Sin(s) u = Cos(s)")
    feed = {"n": np.int64(3), "x": np.array([0.1, 0.2, 0.3], np.float32)}
    model = checked(typed(text), feed, run)
    assert casts(model) == [0, 3]
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    assert [value.dtype for value in loop.outputs] == [WIDE, WIDE]


def test_a_state_that_is_read_in_float32_stays(typed, run):
    model = typed(LOOP.format(inner="t = Sin(s) u = Cos(s)"))
    ConvertFloat16(operators=["Sin"]).call(model)
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    assert [value.dtype for value in loop.outputs] == [WIDE, WIDE]
    run(model, {"n": np.int64(3), "x": np.ones(3, np.float32)})


def test_a_scan_computes_in_half_between_its_ends(typed, run):
    model = checked(typed(SCAN), {"x": np.eye(4, 3, dtype=np.float32)}, run)
    assert casts(model) == [0, 4]
    assert {v.dtype for v in model.graph.initializers.values()} == {WIDE}


def test_a_branch_in_a_loop(typed, run):
    feed = {"n": np.int64(2), "q": np.array(True), "x": np.ones(3, np.float32)}
    assert casts(checked(typed(NESTED), feed, run)) == [0, 1, 1, 1]


def test_neighbours_of_a_branch_read_what_it_returns(typed, run):
    model = typed("""(bool q, float[3] x) => (float[3] z) {
        y = If(q) <then_branch = p () => (float[3] v) { v = Sin(x) },
                   else_branch = r () => (float[3] w) { w = Cos(x) }>
        z = Exp(y) }""")
    model = checked(model, {"q": np.array(False), "x": np.ones(3, np.float32)}, run)
    assert casts(model) == [3, 1, 1]


@each_of("taken", True, False)
def test_a_branch_that_no_sample_takes_stays_in_float32(typed, run, taken):
    # exp(12) overflows, and exp(1) does not
    model = typed("""(bool q, float[3] x) => (float[3] z) {
        y = If(q) <then_branch = p () => (float[3] v) { m = Mul(x, x) e = Exp(m) v = Log(e) },
                   else_branch = r () => (float[3] w) { w = Cos(x) }>
        z = Neg(y) }""")
    pass_ = ConvertFloat16()
    samples = [{"q": np.array(False), "x": np.ones(3, np.float32)}]
    large = {"q": np.array(True), "x": np.full(3, 12**0.5, np.float32)}
    pass_.context.samples = [*samples, large] if taken else samples
    assert pass_.call(model).modified
    (told,) = (note for note in pass_.context.notes if "kept" in note)
    assert ("runs on no sample" in told, "overflow" in told) == (not taken, taken)
    np.testing.assert_allclose(run(model, large)[0], -12, rtol=1e-2)


def test_what_only_moves_in_a_branch_that_no_sample_takes_is_converted(typed):
    model = typed("""(bool q, float[3] x) => (float[3] z) { s = Sin(x)
        y = If(q) <then_branch = p () => (float[3] v) { v = Identity(s) },
                   else_branch = r () => (float[3] w) { w = Cos(s) }>
        z = Neg(y) }""")
    pass_ = ConvertFloat16()
    pass_.context.samples = [{"q": np.array(False), "x": np.ones(3, np.float32)}]
    assert pass_.call(model).modified
    assert not any("runs on no sample" in note for note in pass_.context.notes)


def test_a_branch_that_returns_what_is_around_it_stays_in_float32(typed, run):
    model = typed("""(bool q, float[3] x) => (float[3] z) { a = Exp(x)
        z = If(q) <then_branch = p () => (float[3] v) { v = Sin(a) },
                   else_branch = r () => (float[3] w) { w = Identity(x) }> }""")
    ConvertFloat16(operators=["Exp", "Sin"]).call(model)
    run(model, {"q": np.array(False), "x": np.ones(3, np.float32)})
    (choose,) = (node for node in model.graph if node.op_type == "If")
    assert choose.outputs[0].dtype is WIDE
