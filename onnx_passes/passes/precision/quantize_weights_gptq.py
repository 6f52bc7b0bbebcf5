"""Quantize weights to integers, where later ones make up for errors of earlier ones."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.precision._grid import Grid
from onnx_passes.passes.precision._round_by_moments import RoundsByMoments
from onnx_passes.passes.precision._rounding import round_by_compensation


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
    elements than ``least``; with ``form: matmulnbits`` all but MatMul by a
    matrix in the main graph. Groups of a Conv, stacks of matrices, and layers in bodies that
    do not run on the data are rounded to the nearest integers.

    Attributes:
        nodes: Names of nodes, or patterns such as ``/encoder/*``; empty for all.
        operators: Operators, or patterns of them; empty for all.
        skip: Names or patterns of nodes that stay as they are.
        skip_operators: Operators, or patterns of them, that stay as they are.
        after: Values; only nodes that depend on one of them are meant, empty for all.
        before: Values; only nodes that one of them depends on are meant, empty for all.
        data: .npz files, each with the inputs of one run by name, on which values are
            recorded; by default the inputs under ``reference`` of the pipeline.
        weights: Integers for weights; 4 and 16 bits, and blocks, from opset 21; 2 bits from
            opset 25.
        block: Elements that share a scale, along the axis that is summed over; 0 for one
            scale for each output channel. ``matmulnbits`` needs a power of 2 from 16 on.
        symmetric: Whether grids have 0 in their middle.
        form: DequantizeLinear, which any engine runs, or MatMulNBits of ONNX Runtime, which
            keeps the integers in memory.
        compute: What MatMulNBits multiplies: float32, or int8, to which ONNX Runtime rounds
            what the layer reads at run time (its ``accuracy_level`` 4), which is faster.
        least: Elements from which on a weight is stored as integers.
        calibration: The range of a grid: all its weights (minmax), or the part of them for
            which the squared error is least (mse).
    """

    repeats_itself = False

    def choose(self, matrix: Array, grid: Grid, dtype: ir.DataType, gram: Array) -> Array:
        """Round by compensation; see ``RoundsByMoments.choose``.

        Args:
            matrix: The weight as [depth, channels], float32.
            grid: The grid of the levels.
            dtype: The type whose range bounds them.
            gram: Sum of outer products of the inputs, float64 of [depth, depth].
        """
        return round_by_compensation(matrix, grid, dtype, gram)
