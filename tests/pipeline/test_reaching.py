"""Inputs are found on which nodes give wanted values."""

import numpy as np

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.reaching import along_ray, reach
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from tests.tables import each_of, each_row, rule_pass

X = np.float32([[0.5, -2, 3, 0.25]])


def through(function):
    return lambda fills: [function(fill) for fill in fills]


@each_of(
    "function, wanted",
    (lambda x: x * np.float32(2.5), [3.75, -3.75, 0.25, 900000]),
    (lambda x: -x, [3.7, -3.7, 0.1, 900000]),
    (lambda x: x + np.float32([[1, 2, 3, 4]]), [3.5, -3.5, 0.125, 4096]),
    (lambda x: np.maximum(x, 0), [3.7, 2.5, 0.1, 1e-3]),
)
def test_what_moves_with_one_element_is_reached_exactly(function, wanted):
    wanted = np.float32([wanted])
    found = reach(through(function), X, wanted)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(function(found), wanted)


def test_elements_that_cannot_be_reached_stay_as_they_were():
    found = reach(through(lambda x: np.maximum(x, 0)), X, np.float32([[2, -1, 3, -4]]))
    np.testing.assert_array_equal(found, np.float32([[2, -2, 3, 0.25]]))


@each_of("function", lambda x: np.tanh(x) - 3, lambda x: x[:, :2], lambda x: None)
def test_what_is_out_of_reach_is_not_found(function):
    assert reach(through(function), X, np.zeros_like(X)) is None


rule_pass("OrEqual", "Greater(x, y) => GreaterOrEqual(x, y)")
rule_pass("LoseBranch", "Where(condition, x, y) => Identity(x)")
rule_pass("LoseLeast", "Max(x, least) => Identity(x)")
LOWERED = "Div(Exp(x), ReduceSum(Exp(x), Constant(value_ints=[-1]), keepdims=1))"
rule_pass("LoseMaximum", f"Softmax(x) => {LOWERED}", passes.verify.tolerance)
rule_pass("LoseClip", "Clip(x, low, high) => Identity(x)", passes.verify.tolerance)
rule_pass("LoseRelu", "ReduceMax(Relu(x), keepdims=0) => ReduceMax(x, keepdims=0)")
rule_pass("TieTurned", "Less(x, z) => Not(Greater(x, z))")


def run(step, text, *given):
    """Return the error of a run, and its preconditions."""
    done = run_pipeline(parse(text), default_config(["reproducers=false", *given], [step]))
    return str(done.error), done.report.preconditions


def run_compared(body, *given):
    return run("or-equal", f"(float[4,3] x) => (bool[4,3] y) {body}", *given)


@each_of("ahead", "Mul(x, d)", "Relu(x)", "Neg(x)", "Sub(x, d)")
def test_a_fault_at_ties_alone_is_found_behind_other_nodes(ahead):
    text = f"<float c = {{3.75}}, float d = {{2.5}}> {{ m = {ahead} y = Greater(m, c) }}"
    error, _ = run_compared(text)
    assert "expected False, got True" in error
    assert "drawn in x" in error


@each_row("""body
ties cannot occur: <float c = {3.75}, float d = {1}> { a = Abs(x) b = Add(a, d) m = Div(x, b) y
  = Greater(m, c) }
no input was found, and what was near looked as if it agreed: <float[3,3] v =
  {0.3,1.1,1.7,0.2,2.3,1.1,1.9,1.3,3.1}, float c = {0.7}> { p = MatMul(x, v) a = Tanh(p) b =
  Add(p, c) y = Greater(a, b) }
""")
def test_ties_that_no_input_makes_are_a_precondition_and_no_fault(body):
    told = "or-equal: y differs on drawn values, which no sample has"
    assert run_compared(body) == ("None", [told])


@each_row("""body | given
an interval rules them out: <float c = {3.75}> { m = Sigmoid(x) y = Greater(m, c) } | =()
between levels: <float c = {3.75}> { m = Sign(x) y = Greater(m, c) }
  | =('verify.drawn_parts=100',)
""")
def test_ties_that_cannot_be_are_no_precondition(body, given):
    assert run_compared(body, *given) == ("None", [])


def test_numbers_are_crossed_along_a_ray():
    feeds = {"x": np.float32([[3, 4]]), "w": np.float32([2])}

    def norm(row):
        return {"s": np.sqrt(np.sum(row["x"] ** 2, keepdims=True)) * row["w"]}

    rows = list(along_ray(norm, feeds, {"x": feeds["x"]}, {"s": (5e4, 7e4)}))
    found = [norm(row)["s"].item() for row in rows]
    expected = [5e4, 5e4, 1e5, 2.5e4, 7e4, 7e4, 1.4e5, 3.5e4]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[0] < 5e4 <= found[1]
    assert found[4] < 7e4 <= found[5]
    assert all(row["w"] is feeds["w"] for row in rows)


@each_row("""step | body
lose-branch: lose-branch | s = MatMul(x, w) c = Less(s, far) n = Neg(x) y = Where(c, n, x)
lose-branch-of-squares: lose-branch | s = Mul(x, x) q = ReduceSum(s) c = Less(q, far)
  y = Where(c, s, x)
lose-least: lose-least | n = ReduceL2(x, one) m = Max(n, near) y = Div(x, m)
lose-least-of-exp: lose-least | a = ReduceMax(x, one) b = Exp(a) m = Max(b, near) y = Div(x, m)
""")
def test_thresholds_behind_sums_norms_and_products_are_reached(step, body):
    error, _ = run(
        step,
        f"""(float[4,8] x, float[8,1] w) => (float[4,8] y)
        <float far = {{3e6}}, float near = {{1e-4}}, int64[1] one = {{1}}> {{ {body} }}""",
    )
    assert "drawn in" in error or "multiples of 1/2" in error


def test_an_overflow_behind_a_norm_is_reached_by_rows_of_weights():
    unit = str(np.eye(64, 2, dtype=int).ravel().tolist())[1:-1]
    text = f"""(float[4,64] x) => (float[4,2] y)
        <float[64,2] w = {{{unit}}}, float s = {{100}}, int64[1] one = {{1}}> {{
            n = ReduceL2(x, one) u = Div(x, n) c = MatMul(u, w) z = Mul(c, s)
            y = Softmax(z) }}"""
    assert "got nan" in run("lose-maximum", text)[0]


@each_row("""body
- { a = Exp(x) y = Max(a, zero) }
- { a = Softmax(x) y = Max(a, zero) }
- { m = ReduceMean(x, one) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, one) y = Max(v, zero)
  }
- { a = Relu(x) b = Add(a, a) c = Sqrt(b) y = Max(c, zero) }
""")
def test_a_bound_that_an_interval_keeps_is_no_precondition(body):
    head = "(float[4,8] x) => (float[a,b] y) <float zero = {0}, int64[1] one = {1}>"
    assert run("lose-least", f"{head} {body}") == ("None", [])


@each_of("shape", "", "[1]", "[4]", "[8,9]")
@each_of("ahead", "Identity(x)", "Mul(x, two)")
def test_lost_bounds_far_from_zero_are_found_in_tensors_of_any_size(shape, ahead):
    text = f"""(float{shape} x) => (float{shape} y)
        <float two = {{2}}, float low = {{-1000}}, float high = {{1000}}> {{
            m = {ahead} c = Clip(m, low, high) y = Neg(c) }}"""
    assert "c not within tolerance" in run("lose-clip", text)[0]


def test_a_relu_lost_ahead_of_a_maximum_of_many_is_found():
    text = "(float[50] x) => (float y) { a = Relu(x) y = ReduceMax <keepdims = 0> (a) }"
    assert "expected 0.0, got -" in run("lose-relu", text)[0]


@each_of("shape", "[4]", "[2,4]")
@each_of("ahead", "Identity(x)", "Neg(x)", "Mul(x, third)")
def test_ties_of_two_values_that_vary_are_drawn(shape, ahead):
    text = f"""(float[2,4] x, float{shape} z) => (bool[2,4] y) <float third = {{0.375}}> {{
        m = {ahead} y = Less(m, z) }}"""
    assert "drawn in" in run("tie-turned", text, "reference.samples=1")[0]
