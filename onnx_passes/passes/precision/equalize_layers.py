"""Scale layers that follow each other so that their weights have alike ranges."""

from typing import Annotated

import numpy as np
import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.precision._insert import (
    Absorber,
    Inserter,
    Place,
    can_scale_input,
    channel_axis,
    limit_factors,
    scale_input,
)
from onnx_passes.passes.precision._layers import Layer, layers_of
from onnx_passes.passes.precision._node_selection import OnSomeNodes

_BALANCED = 0.01
"""Binary logarithm of the scales that are not worth another sweep."""


@passes.verify.tolerance
@passes.register()
class EqualizeLayers(OnSomeNodes):
    """Scale layers that follow each other so that their weights have alike ranges.

    Before: ``h = Relu(Conv(x, w, b)) y = Conv(h, v)``
    After:  ``h = Relu(Conv(x, w / s, b / s)) y = Conv(h, v * s)``, with a scale by channel

    A channel of small weights is lost on the grid of its tensor. The scale that makes it as
    large in both layers (cross-layer equalisation, Nagel et al., 2019) costs nothing at run
    time. A quantiser that comes after it loses less.

    Sound because what is between the layers is positively homogeneous, and scales lie from
    2^-12 to 2^12. Powers of two scale each product and sum exactly, as long as they are normal
    numbers; others round weights once more. Hence the tolerance. Values that change get
    other names.

    Leaves alone: layers with something else than Relu, LeakyRelu, pooling, Flatten and
    additions of constants between them, or with other readers; groups of a Conv; weights over
    2^40. Calls of functions are replaced by their bodies.

    Attributes:
        nodes: Names of the later layers, or patterns such as ``/encoder/*``; empty for all.
        sweeps: How often all pairs are balanced, at most; a chain needs several.
        powers: Whether scales are powers of two, which change no rounding.
    """

    needs = ("shape-inference",)
    tested_on = ("pair",)

    sweeps: Annotated[int, Field(ge=1)] = 8
    powers: bool = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Scale the weights."""
        modified = self.open_functions(model)
        found, _ = layers_of(self.select(model, bodies=True))
        inserter = Inserter(model)
        absorber = Absorber(inserter)
        for _ in range(self.sweeps):
            changed = [
                _balance(layer, absorber, inserter, powers=self.powers) for layer in found
            ]
            if not any(changed):
                break
            modified = True
        return ir.passes.PassResult(model, modified=modified)


def _balance(layer: Layer, absorber: Absorber, inserter: Inserter, *, powers: bool) -> bool:
    """Balance a layer with the one before it; return whether it was out of balance."""
    if layer.weight is None or layer.depth is None or not can_scale_input(layer, inserter):
        return False
    data, weight = layer.node.inputs[0], layer.node.inputs[layer.weight]
    assert data is not None, "a layer has both operands"
    assert weight is not None, "a layer has both operands"
    if len(data.uses()) != 1 or data.is_graph_output():
        return False
    array = inserter.array(weight)
    count = array.shape[layer.depth]
    places = absorber.places_of(data, count, channel_axis(layer))
    first = next((p for p in places or () if p.is_weight), None)
    if places is None or first is None:
        return False
    ours = _reach(array, layer.depth)
    stride = max(p.stride for p in places)
    ours = ours.reshape(-1, stride).max(1)
    theirs = _reach(_constant(first, inserter), first.axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = limit_factors(np.sqrt(ours / theirs), powers=powers).repeat(stride)
    if np.abs(np.log2(factors)).max(initial=0.0) < _BALANCED:
        return False
    absorber.scale(data, places, factors)
    scale_input(layer, 1 / factors, inserter)
    return True


def _constant(place: Place, inserter: Inserter) -> Array:
    value = place.node.inputs[place.index]
    assert value is not None, "its array was looked at"
    return inserter.array(value)


def _reach(array: Array, axis: int) -> Array:
    """Return the largest magnitude of each channel."""
    rest = tuple(i for i in range(array.ndim) if i != axis)
    return np.asarray(np.abs(array).max(rest, initial=0.0))
