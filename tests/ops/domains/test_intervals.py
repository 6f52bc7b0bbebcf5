import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.intervals import (
    IntervalSemantics,
    ScaledSemantics,
    accumulator_bits,
    ends,
    grid,
    pair,
)
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.testing import parse

FLOAT = ir.DataType.DOUBLE
WITHIN = {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 9)}


@pytest.mark.parametrize(
    "name", ["acos", "cosh", "tan", "sinh", "exp", "abs", "neg", "asin", "atanh", "acosh"]
)
def test_of_one_operand(name):
    rng, least, most = np.random.default_rng(0), *WITHIN.get(name, (-9, 9))
    for _ in range(200):
        low, high = sorted(
            rng.uniform(least, most, 2) * rng.choice([0.1, 1.0]).clip(least, most)
        )
        low, high = max(low, least), min(max(high, low, least), most)
        found = IntervalSemantics().apply(name, FLOAT, pair(low, high))
        at = ConcreteSemantics().apply(name, FLOAT, np.linspace(low, high, 50))
        assert float(found["low"]) <= at.min()
        assert at.max() <= float(found["high"])


def test_the_tangent_is_bounded_between_its_poles():
    within = IntervalSemantics().apply("tan", FLOAT, pair(2.0, 4.0))
    assert -2.2 < float(within["low"]) < float(within["high"]) < 1.2
    across = IntervalSemantics().apply("tan", FLOAT, pair(1.0, 2.0))
    assert (float(across["low"]), float(across["high"])) == (-np.inf, np.inf)


@pytest.mark.parametrize("name", ["mod", "fmod"])
@pytest.mark.parametrize("dtype", [FLOAT, ir.DataType.INT32])
def test_of_a_remainder(name, dtype):
    rng = np.random.default_rng(1)
    for _ in range(200):
        ends = np.sort(rng.integers(-20, 20, (2, 2)), axis=-1)
        found = IntervalSemantics().apply(name, dtype, *(pair(*end) for end in ends))
        x, y = (rng.integers(low, high + 1, 50).astype(dtype.numpy()) for low, high in ends)
        at = ConcreteSemantics().apply(name, dtype, x[y != 0], y[y != 0])
        if at.size:
            assert float(found["low"]) <= at.min()
            assert at.max() <= float(found["high"])


BODIES = [
    "y = Add(x, x)",
    "y = Sub(x, c)",
    "y = Mul(x, w)",
    "y = MatMul(x, m)",
    "a = MatMul(x, m) b = Add(a, c) y = Relu(b)",
    "a = Neg(x) b = Mul(a, c) y = Transpose(b)",
    "a = Div(x, w) b = Round(a) y = Clip(b, lo, hi)",
    "y = ReduceSum<keepdims = 1>(x, one)",
    "a = Sub(x, w) y = Mul(a, c)",
]
CONSTANTS = """float w = {0.25}, float lo = {-3}, float hi = {5}, int64[1] one = {1},
float[3] c = {0.5, -1, 2}, float[3,3] m = {1, -2, 3, 0, 1, 1, -1, 4, 2}"""


@pytest.mark.parametrize("body", BODIES)
def test_results_lie_on_their_grid(body):
    model = parse(f"(double[2,3] x) => (double[?,?] y) <{CONSTANTS}> {{ {body} }}")
    for value in model.graph.initializers.values():
        if value.dtype == ir.DataType.FLOAT:
            value.const_value = ir.tensor(value.const_value.numpy().astype(np.float64))
            value.dtype = ir.DataType.DOUBLE
    told = evaluate(
        model.graph,
        {"x": Tensor(grid(np.full((2, 3), -8), 7, 0.5, 0.0), ir.DataType.DOUBLE)},
        ScaledSemantics(),
    )["y"].data
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = 0.5 * rng.integers(-8, 8, (2, 3))
        feeds = {"x": constant(x, ir.DataType.DOUBLE, ConcreteSemantics())}
        found = evaluate(model.graph, feeds, ConcreteSemantics())["y"].data
        low, high = ends(told)
        assert (low - 1e-9 <= found).all()
        assert (found <= high + 1e-9).all()
        steps = (found - told["offset"]) / told["scale"]
        known = ~np.isnan(told["scale"])
        assert known.all()
        assert np.allclose(steps[known], np.rint(steps[known]))


def test_the_width_of_an_accumulator():
    weights = grid(np.full((4, 16), -8), 7)
    data = grid(np.zeros((1, 16)), 15)
    sums = ScaledSemantics().dot(data, weights, ir.DataType.FLOAT)
    assert (int(sums["low"].min()), int(sums["high"].max())) == (-8 * 15 * 16, 7 * 15 * 16)
    assert accumulator_bits(sums) == 12


def test_what_lies_on_no_grid_is_said_to():
    semantics, dtype = ScaledSemantics(), ir.DataType.FLOAT
    found = semantics.apply("exp", dtype, grid(np.zeros(2), 3))
    assert np.isnan(found["scale"]).all()
    assert ends(found)[1].tolist() == [np.inf, np.inf]
    with pytest.raises(Unsupported, match="no grid"):
        accumulator_bits(found)
    mixed = semantics.apply("add", dtype, grid(0, 3, 1.0), grid(0, 3, 2 / 3))
    assert np.isnan(mixed["scale"])
