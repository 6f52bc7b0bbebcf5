"""What rounding explains is not a fault of a rule; what it does not explain is."""

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import testing
from onnx_passes.verify.double_precision import agree_in_double, is_rounding
from onnx_passes.verify.rules.replay import Replayer

SUM = "(float[3] x) => (float[1] y) <int64[1] a = {{0}}> {{ {} }}"
CENTERED = "m = ReduceMean(x, a) d = Sub(x, m) z = Abs(d) s = ReduceSum(z, a) y = {}"


def models(*bodies):
    return [testing.parse(SUM.format(body)) for body in bodies]


def test_noise_that_cancellation_magnifies_is_rounding():
    # The mean of equal numbers is one of them, or its neighbor; a large factor shows it.
    big = "c = Constant<value = float {1e7}>() q = Mul(s, c) y = Identity(q)"
    text = CENTERED.format("Identity(t)").replace("y = Identity(t)", big)
    before, after = models(text, text)
    x = np.full(3, 0.1, np.float32)
    exact, noisy = np.zeros(1, np.float32), np.full(1, 0.2, np.float32)
    assert is_rounding(before, after, {"x": x}, exact, noisy, "y")
    assert not is_rounding(before, after, {"x": x}, exact, np.full(1, 1e3, np.float32), "y")


def test_a_factor_close_to_one_in_a_long_sum_is_a_fault():
    text = """(float[100000] x) => (float[1] y) <int64[1] a = {{0}}, float f = {{{}}}>
    {{ t = Mul(x, f) y = ReduceSum(t, a) }}"""
    before, right = testing.parse(text.format(1)), testing.parse(text.format(1))
    rng = np.random.default_rng(0)
    x = rng.random(100000).astype(np.float32)
    total = np.float32([x.astype(np.float64).sum()])
    other = np.cumsum(x, dtype=np.float32)[-1:]
    assert total != other
    assert is_rounding(before, right, {"x": x}, total, other, "y")
    wrong = testing.parse(text.format(1.5))
    assert not is_rounding(before, wrong, {"x": x}, total, total * np.float32(1.5), "y")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_what_differs_in_shape_or_is_not_a_number_is_no_rounding(dtype):
    before, after = models("y = ReduceSum(x, a)", "y = ReduceSum(x, a)")
    x, one = np.ones(3, np.float32), np.ones(1, dtype)
    assert not is_rounding(before, after, {"x": x}, one, np.ones((1, 1), dtype), "y")
    assert not is_rounding(before, after, {"x": x}, one, np.full(1, np.nan, dtype), "y")


def test_integers_are_never_rounded():
    before = testing.parse("(int64[1] x) => (int64[1] y) { y = Neg(x) }")
    one = np.ones(1, np.int64)
    assert not is_rounding(before, before, {"x": one}, one, one + 1, "y")


def test_an_operator_without_a_bound_leaves_the_limit_to_decide():
    text = "(float[4] x) => (float[4] y) { y = NonMaxSuppression(x) }"
    before = testing.parse(text.replace("NonMaxSuppression", "BlackmanWindow"))
    x = np.ones(4, np.float32)
    assert not is_rounding(before, before, {"x": x}, x, x + 1, "y")


def test_a_replay_lets_rounding_pass_and_shows_a_fault():
    text = """(float[4] x) => (float[4] y) <float big = {{60000}}, int64[1] a = {{0}}>
    {{ m = ReduceMean(x, a) d = Sub(x, m) v = Mul(d, big) y = {} }}"""
    before, negated = (testing.parse(text.format(op)) for op in ("Identity(v)", "Neg(v)"))
    noise = {"x": np.float32([1.1, 1.1, 1.1, 1.1 + 1e-7])}
    clear = {"x": np.float32([1, 2, 3, 4])}
    replayer = Replayer(before, negated)
    assert replayer.compare(noise, real=True) is None
    assert replayer.compare(noise, real=False) is not None
    assert replayer.compare(clear, real=True) is not None


def test_digits_that_an_engine_loses_are_not_a_wrong_value():
    # ONNX Runtime multiplies first: 60,000 less its own mean is not 0 then.
    header = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,1] x) => (float[1,1,1] y)'
    weights = "<float[1] s = {1}, float[1] b = {0.5}>"
    plain = ir.from_onnx_text(
        header + weights + "{ m = ReduceMean(x) d = Sub(x, m) q = Mul(d, s) y = Add(q, b) }"
    )
    fused = ir.from_onnx_text(header + weights + "{ y = InstanceNormalization(x, s, b) }")
    wrong = ir.from_onnx_text(header + weights + "{ y = InstanceNormalization(x, s, s) }")
    feeds = {"x": np.full((1, 1, 1), 60_000, np.float32)}
    assert Replayer(plain, fused).compare(feeds, real=False) is not None
    assert Replayer(plain, fused).compare(feeds, real=True) is None
    assert Replayer(plain, wrong).compare(feeds, real=True) is not None


def test_a_boolean_that_no_bound_decides_is_compared_as_such():
    text = "(float[1] x, float[1] e) => (bool[1] y) {{ t = Mul(x, e) y = {}(t, x) }}"
    less, greater = (
        testing.parse(text.format(op)) for op in ("LessOrEqual", "GreaterOrEqual")
    )
    feeds = {"x": np.float32([3]), "e": np.float32([1])}
    assert agree_in_double(less, greater, feeds, "y")
    feeds = {"x": np.float32([3]), "e": np.float32([2])}
    assert not agree_in_double(less, greater, feeds, "y")


def test_a_maximum_of_nan_that_depends_on_the_order_is_not_a_wrong_value():
    text = "(float[2, 2] x) => (float y) {{ {} y = ReduceMax <keepdims = 0> ({}) }}"
    before = testing.parse(text.format("t = Transpose <perm = [1, 0]> (x)", "t"))
    after = testing.parse(text.format("", "x"))
    x = np.float32([[0, 0], [np.nan, 1]])
    assert agree_in_double(before, after, {"x": x}, "y")
    assert not agree_in_double(before, after, {"x": np.float32([[0, 0], [2, 1]])}, "y")
