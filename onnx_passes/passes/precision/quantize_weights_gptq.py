"""Quantize weights to integers, where later ones make up for errors of earlier ones."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.precision._grid import Grid
from onnx_passes.passes.precision._rounding import RoundsByMoments, round_by_compensation


@passes.verify.metric
@passes.register()
class QuantizeWeightsGptq(RoundsByMoments):
    """Quantize weights to integers, where later ones make up for errors of earlier ones.

    Before: ``y = MatMul(x, w)`` with w in float32
    After:  ``y = MatMul(x, DequantizeLinear <block_size = 32> (w4, scales, zeros))``, or
            ``y = com.microsoft.MatMulNBits(x, w4, scales)``

    The weights of a channel are rounded one by one, those of the largest inputs first. The
    others move by what lessens the error of the product on the user's data (GPTQ, Frantar et
    al., 2022). A channel that the nearest integers serve better keeps these.

    Calls of functions are replaced by their bodies.

    Sound because a DequantizeLinear gives float32 of the weight's shape; the weights are
    rounded to the grids of their channels or blocks, which the metrics of the pipeline judge.

    Leaves alone: all but Conv, Gemm and MatMul; weights that are integers, or have fewer
    elements than ``least``; with ``form: matmulnbits`` all but MatMul and Gemm by a
    matrix in the main graph. Groups of a Conv, stacks of matrices, and layers that
    read what a body computes are rounded to the nearest integers.
    """

    repeats_itself = False

    def choose(self, matrix: Array, grid: Grid, dtype: ir.DataType, gram: Array) -> Array:
        """Round by compensation; see ``RoundsByMoments.choose``."""
        return round_by_compensation(matrix, grid, dtype, gram)
