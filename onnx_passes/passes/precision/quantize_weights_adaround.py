"""Quantize weights to integers, rounded up or down as the product needs it."""

from typing import Annotated

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.precision._grid import Grid
from onnx_passes.passes.precision._rounding import RoundsByMoments, round_by_learning


@passes.verify.metric
@passes.register()
class QuantizeWeightsAdaround(RoundsByMoments):
    """Quantize weights to integers, rounded up or down as the product needs it.

    Before: ``y = Conv(x, w)`` with w in float32
    After:  ``y = Conv(x, DequantizeLinear <axis = 0> (w8, scales, zeros))``

    Whether a weight is rounded up or down is learned, so that the squared error of the product
    on the user's data is least (AdaRound, Nagel et al., 2020). No weight is off by more than a
    step. A channel that the nearest integers serve better keeps these.

    Calls of functions are replaced by their bodies.

    Sound because a DequantizeLinear gives float32 of the weight's shape; the weights are
    rounded to the grids of their channels or blocks, which the metrics of the pipeline judge.

    Leaves alone: all but Conv, Gemm and MatMul; weights that are integers, or have fewer
    elements than ``least``; with ``form: matmulnbits`` all but MatMul and Gemm by a
    matrix in the main graph. Groups of a Conv, stacks of matrices, and layers that
    read what a body computes are rounded to the nearest integers.

    Attributes:
        steps: Steps of learning for each layer.
    """

    repeats_itself = False

    steps: Annotated[int, Field(ge=1)] = 300

    def choose(self, matrix: Array, grid: Grid, dtype: ir.DataType, gram: Array) -> Array:
        """Learn to round; see ``RoundsByMoments.choose``."""
        return round_by_learning(matrix, grid, dtype, gram, self.steps)
