"""Every number that a quantized formula yields lies on the grid that is stated for it."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.scaled import ScaledSemantics, accumulator_bits, ends, grid
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.testing import parse

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
