"""Move outliers of computed values into the weights that read them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.precision._half_precision import WIDE
from onnx_passes.passes.precision._insert import (
    Absorber,
    Inserter,
    can_scale_input,
    channel_axis,
    limit_factors,
    scale_input,
)
from onnx_passes.passes.precision._layers import Layer, in_body, layers_of
from onnx_passes.passes.precision._node_selection import OnData


@passes.verify.tolerance
@passes.register()
class SmoothActivations(OnData):
    """Move outliers of computed values into the weights that read them.

    Before: ``h = LayerNormalization(x, g, b) y = MatMul(h, w)``
    After:  ``h = LayerNormalization(x, g / s, b / s) y = MatMul(h, w * s)``, with a scale for
            each channel; a Mul in front of the MatMul, where nothing takes the scale over

    A channel with outliers on the user's data widens the grid of all others. Scales share the
    spread between values and weights (SmoothQuant, Xiao et al., 2023), so that a quantiser
    that comes after it loses less.

    Sound because scales lie from 2^-12 to 2^12. Powers of two scale each product and sum
    exactly, as long as they are normal numbers; others round weights once more. Hence the
    tolerance. Values that change get other names.

    Calls of functions are replaced by their bodies.

    Leaves alone: all but Conv, Gemm and MatMul by a constant; groups of a Conv; stacks of
    matrices; weights over 2^40; what is computed in bodies of If, Loop and Scan.

    Attributes:
        strength: How much of the spread the weights take over: 0 for nothing, 1 for all.
        insert: Whether a Mul scales what no constant before it can scale.
        powers: Whether scales are powers of two, which change no rounding.
    """

    needs = ("shape-inference",)
    repeats_itself = False
    tested_on = ("smoothed",)

    strength: Annotated[float, Field(ge=0, le=1)] = 0.5
    insert: bool = True
    powers: bool = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Scale values and weights."""
        opened = self.open_functions(model)
        inserter = Inserter(model)
        readers: dict[ir.Value, list[Layer]] = defaultdict(list)
        for layer in layers_of(self.select(model, bodies=True))[0]:
            value = layer.node.inputs[0]
            if value is None or in_body(layer, model):
                continue
            if can_scale_input(layer, inserter):
                readers[value].append(layer)
        if not readers:
            return ir.passes.PassResult(model, modified=opened)
        ends = self._ends(model, readers)
        modified = [
            self._smooth(value, layers, *ends[value], inserter)
            for value, layers in readers.items()
            if value in ends
        ]
        return ir.passes.PassResult(model, modified=opened or any(modified))

    def _ends(
        self, model: ir.Model, readers: Mapping[ir.Value, list[Layer]]
    ) -> dict[ir.Value, tuple[Array, Array]]:
        """Return the least and the greatest element of each channel of the values."""
        named = {str(value.name): value for value in readers}
        found: dict[ir.Value, tuple[Array, Array]] = {}
        for sample in self.values(model, list(named), "see what layers read"):
            for name, array in sample.items():
                value = named[name]
                axis = channel_axis(readers[value][0]) % array.ndim
                finite = np.where(np.isfinite(array), array, 0.0)
                rest = tuple(i for i in range(array.ndim) if i != axis)
                low, high = finite.min(rest, initial=0.0), finite.max(rest, initial=0.0)
                least, most = found.get(value, (low, high))
                found[value] = np.minimum(low, least), np.maximum(high, most)
        return found

    def _smooth(
        self, value: ir.Value, layers: list[Layer], low: Array, high: Array, inserter: Inserter
    ) -> bool:
        size = np.maximum(-low, high)
        if len({(channel_axis(layer)) for layer in layers}) > 1:
            return False
        weights = [_reach(layer, inserter) for layer in layers]
        if any(len(reach) != len(size) for reach in weights):
            return False
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = size**self.strength / np.max(weights, 0) ** (1 - self.strength)
            middle = np.exp(np.mean(np.log(spread[np.isfinite(spread) & (spread > 0)])))
            factors = limit_factors(spread / middle, powers=self.powers)
        if (factors == 1).all():
            return False
        axis, absorber = channel_axis(layers[0]), Absorber(inserter)
        ours = {layer.node for layer in layers}
        alone = set(value.consumers()) <= ours and not value.is_graph_output()
        source = str(value.name)
        places = absorber.places_of(value, len(size), axis) if alone else None
        if self.context.values and any(
            p.is_weight or p.node is not value.producer() for p in places or ()
        ):
            places = None  # what was recorded of values in between would not hold any more
        if places is not None:
            absorber.scale(value, places, 1 / factors)
            new = value
        elif self.insert:
            new = _scale_by_node(value, 1 / factors, layers, axis, inserter)
        else:
            return False
        self._note(source, new, 1 / factors, (low, high), axis)
        for layer in layers:
            scale_input(layer, factors, inserter)
        return True

    def _note(
        self, old: str, new: ir.Value, factors: Array, ends: tuple[Array, Array], axis: int
    ) -> None:
        """Note what recorded values have become, for passes that come after this one."""
        context, name = self.context, str(new.name)
        if context.values:
            rank = np.ndim(context.values[0].get(old, factors))
            shape = [1] * rank
            shape[axis] = -1
            context.scaled[name] = (old, factors.reshape(shape))
        if context.ranges:
            low, high = (part * factors for part in ends)
            wide = (float(low.min(initial=0.0)), float(high.max(initial=0.0)))
            context.ranges = {**context.ranges, name: wide}


def _reach(layer: Layer, inserter: Inserter) -> Array:
    """Return the largest magnitude of a weight for each channel that it reads."""
    assert layer.weight is not None, "it was looked at"
    value = layer.node.inputs[layer.weight]
    assert value is not None, "it was looked at"
    array = inserter.array(value)
    rest = tuple(i for i in range(array.ndim) if i != layer.depth)
    return np.asarray(np.abs(array).max(rest, initial=0.0))


def _scale_by_node(
    value: ir.Value, factors: Array, layers: list[Layer], axis: int, inserter: Inserter
) -> ir.Value:
    rank = 1 if axis == -1 else len(value.shape) - 1 if value.shape is not None else 3
    shaped = factors.reshape([-1] + [1] * (rank - 1))
    scale = inserter.constant(shaped, f"{value.name}_smoothing")
    (new,) = inserter.node(
        "Mul", [value, scale], [WIDE], f"{value.name}_smoothed", shape=value.shape
    )
    for layer in layers:
        layer.node.replace_input_with(0, new)
    return new
