import numpy as np
import onnx_ir as ir

from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.intervals import IntervalSemantics, pair
from tests.tables import each_of

FLOAT = ir.DataType.DOUBLE
WITHIN = {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 9)}


@each_of("name", "acos", "cosh", "tan", "sinh", "exp", "abs", "neg", "asin", "atanh", "acosh")
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


@each_of("name", "mod", "fmod")
@each_of("dtype", FLOAT, ir.DataType.INT32)
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
