"""What the passes share that round weights by what their layers read."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes.precision._grid import Grid, quantise, spread
from onnx_passes.passes.precision._layers import Layer
from onnx_passes.passes.precision._moments import (
    Moments,
    has_rows,
    matrix_of,
    moments_of,
    weight_of,
)
from onnx_passes.passes.precision._probes import in_body
from onnx_passes.passes.precision._select import OnData
from onnx_passes.passes.precision.quantize_weights import QuantizeWeights

_MOMENTS, _CHOSEN = "moments of what layers read", "integers that were chosen for layers"
_INNER = "moments of what layers in bodies read"
_PLACES = (
    *("nodes", "operators", "skip", "skip_operators", "after", "before"),
    *("data", "least", "compute"),
)
"""Options that do not say how a weight is rounded."""


class RoundsByMoments(QuantizeWeights, OnData):
    """A pass that rounds weights by the second moments of what their layers read."""

    _moments: dict[ir.Node, Moments]
    _chosen: dict[object, Array]

    def prepare(self, model: ir.Model, layers: list[Layer]) -> None:
        """Record the moments; runs that share recorded values share them as well.

        Args:
            model: The model.
            layers: The layers whose weights are rounded.
        """
        rows = [layer for layer in layers if has_rows(layer)]
        found = [layer for layer in rows if not in_body(layer, model)]
        names = {str(layer.node.inputs[0].name) for layer in found}  # type: ignore[union-attr]
        shared = self.context.values and not self.data and not self.context.scaled
        known = self.state_dict.setdefault(_MOMENTS, {}) if shared else {}
        self._chosen = self.state_dict.setdefault(_CHOSEN, {}) if shared else {}
        values = self.values(model, names, "see what layers read") if found else ()
        self._moments = moments_of(found, values, known)
        self._moments |= self._inner_moments(model, [r for r in rows if r not in found])
        without = [
            layer.node.name or "" for layer in layers if layer.node not in self._moments
        ]
        if without:
            what = "rounded to the nearest integer, as groups, stacks, or without data"
            self.note_kept({what: without})

    def _inner_moments(self, model: ir.Model, layers: list[Layer]) -> dict[ir.Node, Moments]:
        """Return those of layers in bodies; runs that share recorded values share them."""
        shared = self.context.values and not self.data
        known = self.state_dict.setdefault(_INNER, {}) if shared else {}
        keys = {layer: layer.node.name if shared else layer.node for layer in layers}
        fresh = [layer for layer, key in keys.items() if key not in known]
        found = self.moments(model, fresh, "see what layers read", gram=True)
        known |= {keys[one]: found[one.node] for one in fresh if one.node in found}
        return {one.node: known[key] for one, key in keys.items() if key in known}

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
            levels = self.choose(matrix, own, dtype, moments.shrunk())
            found = weight_of(layer, levels, weight.shape)
            self._chosen[key] = found.astype(np.int32).astype(dtype.numpy())
        return self._chosen[key]

    def choose(self, matrix: Array, grid: Grid, dtype: ir.DataType, gram: Array) -> Array:
        """Return levels for a weight of [depth, channels], as floats of that shape.

        Args:
            matrix: The weight, floats of [depth, channels].
            grid: Of that shape.
            dtype: The integers.
            gram: Second moments of what the layer reads, [depth, depth].
        """
        raise NotImplementedError


def _grid_of(layer: Layer, grid: Grid, shape: tuple[int, ...]) -> Grid:
    """Return the grid of each element of a weight, for its matrix of [depth, channels]."""
    scale, zero = (np.broadcast_to(part, shape) for part in spread(grid, shape))
    return Grid(matrix_of(layer, scale), matrix_of(layer, zero))
