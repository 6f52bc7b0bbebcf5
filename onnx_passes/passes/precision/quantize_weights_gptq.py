"""Quantize weights to integers, where later ones make up for errors of earlier ones."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.precision._grid import Grid, ends, quantise, spread
from onnx_passes.passes.precision._layers import (
    Layer,
    Moments,
    has_rows,
    in_body,
    matrix_of,
    moments_of,
    weight_of,
)
from onnx_passes.passes.precision._node_selection import OnData
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights

_DAMPING = 0.01
"""Share of the mean of the diagonal that is added to it, so that moments are regular."""
_COLUMNS = 128


def squared_error(weight: Array, near: Array, gram: Array) -> Array:
    """Return the squared error of each channel of a product, summed over all rows.

    Both weights are [depth, channels]; ``gram`` has second moments of the rows, [depth,
    depth].
    """
    moved = (weight - near).astype(np.float64)
    return np.einsum("kn,kn->n", moved, gram @ moved)


def levels_to_floats(levels: Array, grid: Grid) -> Array:
    """Return the numbers that levels of [depth, channels] represent, in float64."""
    scale, zero = spread(grid, levels.shape)
    return (levels - zero.astype(np.float64)) * scale


def round_to_nearest(weight: Array, grid: Grid, dtype: ir.DataType) -> Array:
    """Return the nearest levels of weights of [depth, channels], in float64."""
    scale, zero = spread(grid, weight.shape)
    return np.clip(np.rint(weight.astype(np.float32) / scale) + zero, *ends(dtype)).astype(
        np.float64
    )


def round_by_compensation(weight: Array, grid: Grid, dtype: ir.DataType, gram: Array) -> Array:
    """Round row by row, and let the rows that follow make up for the error (GPTQ).

    Frantar et al., 2022. Channels for which the nearest levels lose less keep these. Arrays
    and the float64 result are [depth, channels]; ``gram`` has second moments of what the layer
    reads, [depth, depth].
    """
    depth = len(weight)
    scale, zero = (np.broadcast_to(a, weight.shape) for a in spread(grid, weight.shape))
    order = np.argsort(-np.diag(gram), kind="stable")
    factor = _factor(gram[np.ix_(order, order)])
    left = weight[order].astype(np.float64)
    levels = np.empty_like(left)
    least, most = ends(dtype)
    for start in range(0, depth, _COLUMNS):
        stop = min(start + _COLUMNS, depth)
        errors = np.zeros((stop - start, weight.shape[1]))
        for k in range(start, stop):
            step, origin = scale[order[k]], zero[order[k]]
            levels[k] = np.clip(np.rint(left[k] / step) + origin, least, most)
            errors[k - start] = (left[k] - (levels[k] - origin) * step) / factor[k, k]
            left[k + 1 : stop] -= np.outer(factor[k, k + 1 : stop], errors[k - start])
        left[stop:] -= factor[start:stop, stop:].T @ errors
    found = np.empty_like(levels)
    found[order] = levels
    return _better(weight, found, grid, dtype, gram)


def _factor(gram: Array) -> Array:
    """Return the upper triangular factor of the inverse of damped moments."""
    size = len(gram)
    dead = np.diag(gram) <= 0
    damped = gram + np.diag(np.where(dead, 1.0, 0.0))
    damped = damped + np.eye(size) * _DAMPING * float(np.mean(np.diag(damped)))
    inverse = np.linalg.inv(damped)
    return np.linalg.cholesky((inverse + inverse.T) / 2).T


def _better(weight: Array, found: Array, grid: Grid, dtype: ir.DataType, gram: Array) -> Array:
    """Return levels, or by channel the nearest ones where these lose less."""
    nearest = round_to_nearest(weight, grid, dtype)
    ours, theirs = (
        squared_error(weight, levels_to_floats(levels, grid), gram)
        for levels in (found, nearest)
    )
    return np.where(ours <= theirs, found, nearest)


_MOMENTS, _CHOSEN = "moments of what layers read", "integers that were chosen for layers"
_PLACES = (
    *("nodes", "operators", "skip", "skip_operators", "after", "before"),
    *("data", "least", "compute", "embeddings"),
)
"""Options that do not say how a weight is rounded."""


@passes.verify.metric
@passes.register()
class QuantizeWeightsGptq(QuantizeWeights, OnData):
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

    _moments: dict[ir.Node, Moments]
    _chosen: dict[object, Array]

    def prepare(self, model: ir.Model, layers: list[Layer]) -> None:
        """Record the moments; runs that share recorded values share them as well."""
        found = [layer for layer in layers if has_rows(layer) and not in_body(layer, model)]
        names = {str(layer.node.inputs[0].name) for layer in found}  # type: ignore[union-attr]
        shared = self.context.values and not self.data and not self.context.scaled
        known = self.state_dict.setdefault(_MOMENTS, {}) if shared else {}
        self._chosen = self.state_dict.setdefault(_CHOSEN, {}) if shared else {}
        values = self.values(model, names, "see what layers read") if found else ()
        self._moments = moments_of(found, values, known)
        without = [
            layer.node.name or "" for layer in layers if layer.node not in self._moments
        ]
        if without:
            what = "rounded to the nearest integer, as groups, stacks, or in bodies"
            self.note_kept({what: without})

    def round_weight(
        self, layer: Layer, weight: Array, grid: Grid, dtype: ir.DataType
    ) -> Array:
        """Return the integers for a weight; see ``QuantizeWeights.round_weight``."""
        moments = self._moments.get(layer.node)
        if moments is None or not moments.count:
            return quantise(weight, grid, dtype)
        options = sorted((n, o) for n, o in self.options.items() if n not in _PLACES)
        key = (self.name, layer.node.name, weight.shape, repr(options))
        if key not in self._chosen:
            matrix, own = matrix_of(layer, weight), _grid_of(layer, grid, weight.shape)
            levels = round_by_compensation(matrix, own, dtype, moments.shrunk())
            found = weight_of(layer, levels, weight.shape)
            self._chosen[key] = found.astype(np.int32).astype(dtype.numpy())
        return self._chosen[key]


def _grid_of(layer: Layer, grid: Grid, shape: tuple[int, ...]) -> Grid:
    """Return the grid of each element of a weight, for its matrix of [depth, channels]."""
    scale, zero = (np.broadcast_to(part, shape) for part in spread(grid, shape))
    return Grid(matrix_of(layer, scale), matrix_of(layer, zero))
