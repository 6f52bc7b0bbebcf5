"""Inputs are found on which nodes give wanted values."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.reaching import along_ray, reach
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from tests.tables import each_of, each_row

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


@passes.verify.equality
class OrEqual(Transformation, RewriteRulePass):
    """Take what is equal for greater."""

    def pattern(self, op, x, y):
        return op.Greater(x, y)

    def rewrite(self, op, x, y):
        return op.GreaterOrEqual(x, y)


@pytest.fixture
def run(monkeypatch):
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setitem(registry._passes, "or-equal", OrEqual)

    def call(body, *given):
        head = '<ir_version: 10, opset_import: ["" : 20]> g (float[4,3] x) => (bool[4,3] y)'
        config = default_config(["reproducers=false", *given], ["or-equal"])
        return run_pipeline(ir.from_onnx_text(f"{head} {body}"), config)

    return call


@each_of("ahead", "Mul(x, d)", "Relu(x)", "Neg(x)", "Sub(x, d)")
def test_a_fault_at_ties_alone_is_found_behind_other_nodes(run, ahead):
    done = run(f"<float c = {{3.75}}, float d = {{2.5}}> {{ m = {ahead} y = Greater(m, c) }}")
    assert "expected False, got True" in str(done.error)
    assert "drawn in x" in str(done.error)


def test_ties_that_cannot_occur_are_a_precondition_and_no_fault(run):
    done = run("""<float c = {3.75}, float d = {1}> { a = Abs(x) b = Add(a, d) m = Div(x, b)
        y = Greater(m, c) }""")
    assert done.error is None
    assert "y differs on drawn values, which no sample has" in done.report.preconditions[0]


def test_ties_that_an_interval_rules_out_are_none(run):
    done = run("<float c = {3.75}> { m = Sigmoid(x) y = Greater(m, c) }")
    assert done.error is None
    assert done.report.preconditions == []


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


@passes.verify.equality
class LoseBranch(Transformation, RewriteRulePass):
    """Take a condition for true."""

    def pattern(self, op, condition, x, y):
        return op.Where(condition, x, y)

    def rewrite(self, op, condition, x, y):
        return op.Identity(x)


@passes.verify.equality
class LoseLeast(Transformation, RewriteRulePass):
    """Lose a lower bound."""

    def pattern(self, op, x, least):
        return op.Max(x, least)

    def rewrite(self, op, x, least):
        return op.Identity(x)


@each_of(
    "rule, body",
    (LoseBranch, "{ s = MatMul(x, w) c = Less(s, far) n = Neg(x) y = Where(c, n, x) }"),
    (LoseBranch, "{ s = Mul(x, x) q = ReduceSum(s) c = Less(q, far) y = Where(c, s, x) }"),
    (LoseLeast, "{ n = ReduceL2(x, one) m = Max(n, near) y = Div(x, m) }"),
    (LoseLeast, "{ a = ReduceMax(x, one) b = Exp(a) m = Max(b, near) y = Div(x, m) }"),
)
def test_thresholds_behind_sums_norms_and_products_are_reached(monkeypatch, rule, body):
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setitem(registry._passes, "lose", rule)
    model = parse(f"""(float[4,8] x, float[8,1] w) => (float[4,8] y)
        <float far = {{3e6}}, float near = {{1e-4}}, int64[1] one = {{1}}> {body}""")
    done = run_pipeline(model, default_config(["reproducers=false"], ["lose"]))
    assert "drawn in" in str(done.error) or "multiples of 1/2" in str(done.error)


@passes.verify.tolerance
class LoseMaximum(Transformation, RewriteRulePass):
    """Lower Softmax without the maximum, which keeps the exponential from overflowing."""

    def pattern(self, op, x):
        return op.Softmax(x)

    def rewrite(self, op, x):
        e = op.Exp(x)
        return op.Div(e, op.ReduceSum(e, op.Constant(value_ints=[-1]), keepdims=1))


def test_an_overflow_behind_a_norm_is_reached_by_rows_of_weights(monkeypatch):
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setitem(registry._passes, "lose", LoseMaximum)
    unit = str(np.eye(64, 2, dtype=int).ravel().tolist())[1:-1]
    model = parse(f"""(float[4,64] x) => (float[4,2] y)
        <float[64,2] w = {{{unit}}}, float s = {{100}}, int64[1] one = {{1}}> {{
            n = ReduceL2(x, one) u = Div(x, n) c = MatMul(u, w) z = Mul(c, s)
            y = Softmax(z) }}""")
    done = run_pipeline(model, default_config(["reproducers=false"], ["lose"]))
    assert "got nan" in str(done.error)


@each_row("""body
- { a = Exp(x) y = Max(a, zero) }
- { a = Softmax(x) y = Max(a, zero) }
- { m = ReduceMean(x, one) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, one) y = Max(v, zero)
  }
- { a = Relu(x) b = Add(a, a) c = Sqrt(b) y = Max(c, zero) }
""")
def test_a_bound_that_an_interval_keeps_is_no_precondition(monkeypatch, body):
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setitem(registry._passes, "lose", LoseLeast)
    model = parse(f"""(float[4,8] x) => (float[a,b] y)
        <float zero = {{0}}, int64[1] one = {{1}}> {body}""")
    done = run_pipeline(model, default_config(["reproducers=false"], ["lose"]))
    assert done.error is None
    assert done.report.preconditions == []


@passes.verify.tolerance
class LoseClip(Transformation, RewriteRulePass):
    """Lose the bounds."""

    def pattern(self, op, x, low, high):
        return op.Clip(x, low, high)

    def rewrite(self, op, x, **_):
        return op.Identity(x)


@each_of("shape", "", "[1]", "[4]", "[8,9]")
@each_of("ahead", "Identity(x)", "Mul(x, two)")
def test_lost_bounds_far_from_zero_are_found_in_tensors_of_any_size(monkeypatch, shape, ahead):
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setitem(registry._passes, "lose-clip", LoseClip)
    model = parse(f"""(float{shape} x) => (float{shape} y)
        <float two = {{2}}, float low = {{-1000}}, float high = {{1000}}> {{
            m = {ahead} c = Clip(m, low, high) y = Neg(c) }}""")
    done = run_pipeline(model, default_config(["reproducers=false"], ["lose-clip"]))
    assert "c not within tolerance" in str(done.error)


@passes.verify.equality
class LoseRelu(Transformation, RewriteRulePass):
    """Lose a Relu ahead of a maximum."""

    def pattern(self, op, x):
        return op.ReduceMax(op.Relu(x), keepdims=0)

    def rewrite(self, op, x):
        return op.ReduceMax(x, keepdims=0)


def test_a_relu_lost_ahead_of_a_maximum_of_many_is_found(monkeypatch):
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setitem(registry._passes, "lose-relu", LoseRelu)
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[50] x) => (float y) { a = Relu(x) y = ReduceMax <keepdims = 0> (a) }""")
    done = run_pipeline(model, default_config(["reproducers=false"], ["lose-relu"]))
    assert "expected 0.0, got -" in str(done.error)


def test_ties_between_levels_are_no_precondition(run):
    done = run(
        "<float c = {3.75}> { m = Sign(x) y = Greater(m, c) }", "verify.drawn_parts=100"
    )
    assert done.error is None
    assert not done.report.preconditions


@passes.verify.equality
class TieTurned(Transformation, RewriteRulePass):
    """Turn a comparison around, ties included."""

    def pattern(self, op, x, z):
        return op.Less(x, z)

    def rewrite(self, op, x, z):
        return op.Not(op.Greater(x, z))


@each_of("shape", "[4]", "[2,4]")
@each_of("ahead", "Identity(x)", "Neg(x)", "Mul(x, third)")
def test_ties_of_two_values_that_vary_are_drawn(monkeypatch, shape, ahead):
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setitem(registry._passes, "tie-turned", TieTurned)
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,4] x, float{shape} z) => (bool[2,4] y) <float third = {{0.375}}> {{
            m = {ahead} y = Less(m, z) }}""")
    config = ["reproducers=false", "reference.samples=1"]
    done = run_pipeline(model, default_config(config, ["tie-turned"]))
    assert "drawn in" in str(done.error)


def test_a_fault_where_two_results_are_equal_stays_a_precondition(run):
    """No input was found that makes them equal, and what was near looked as if it agreed."""
    done = run(
        """<float[3,3] v = {0.3,1.1,1.7,0.2,2.3,1.1,1.9,1.3,3.1}, float c = {0.7}>
        { p = MatMul(x, v) a = Tanh(p) b = Add(p, c) y = Greater(a, b) }"""
    )
    assert done.error is None
    assert done.report.preconditions == [
        "or-equal: y differs on drawn values, which no sample has"
    ]
