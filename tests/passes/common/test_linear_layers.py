"""Products of weights and factors."""

import tracemalloc

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.scores import BLOCK
from onnx_passes.passes.common.linear_layers import multiplied
from onnx_passes.passes.common.matches import narrowed
from tests.tables import each_of

TYPES = {
    ir.DataType.FLOAT16: np.float16,
    ir.DataType.BFLOAT16: ml_dtypes.bfloat16,
    ir.DataType.FLOAT: np.float32,
    ir.DataType.DOUBLE: np.float64,
}


@each_of("dtype", *TYPES, ids=lambda dtype: dtype.name)
@each_of(
    "shape, factor",
    ((), ()),
    ((3,), (1,)),
    ((2, 0), (2, 1)),
    ((5, 7), (7,)),
    ((BLOCK // 100 + 1, 201), (201,)),
    ((300, 3, 17, 9), (300, 1, 1, 1)),
    ((2, BLOCK + 5), (2, 1)),
)
@each_of("order", *"CF")
def test_blocks_are_multiplied_as_the_whole(dtype, shape, factor, order):
    rng = np.random.default_rng(0)
    weights = np.asarray(rng.uniform(0.5, 2, shape).astype(TYPES[dtype]), order=order)
    factors = rng.uniform(-2, -0.5, factor), rng.uniform(0.5, 2, factor)
    found = multiplied(weights, *factors, dtype=dtype)
    product = weights.astype(np.float64) * factors[0] * factors[1]
    whole = narrowed(product, dtype)
    assert found.dtype == whole.dtype
    assert found.shape == whole.shape
    assert found.tobytes() == whole.tobytes()


@each_of("bad", np.inf, 1e30)
def test_one_number_beyond_the_type_is_enough(bad):
    weights = np.ones((3, BLOCK), np.float32)
    weights[-1, -1] = bad
    assert multiplied(weights, np.array([1e10]), dtype=ir.DataType.FLOAT) is None


def test_nothing_but_the_result_is_as_large_as_the_weights():
    weights = np.ones((256, BLOCK // 4), np.float32)
    tracemalloc.start()
    try:
        multiplied(weights, np.array([2.0]), dtype=ir.DataType.FLOAT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * weights.nbytes
