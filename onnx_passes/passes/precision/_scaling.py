"""Scales that move between neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.precision._insert import Inserter
from onnx_passes.passes.precision._layers import Layer, layers_of

_MOST = 2.0**40
"""Constants up to this are scaled, so that nothing overflows."""
_LARGEST_FACTOR = 2.0**12
_HOMOGENEOUS = ("Relu", "LeakyRelu", "Identity")
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
_PASSED = frozenset((*_HOMOGENEOUS, *_POOLS, "Flatten", "Add"))
_NORMALISATIONS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")


def limit_factors(factors: Array, *, powers: bool) -> Array:
    """Return factors within limits, as float32; 1 for those that are not numbers.

    Args:
        factors: The factors, floats of any shape.
        powers: Whether the nearest powers of two are returned.
    """
    safe = np.where(np.isfinite(factors) & (factors > 0), factors, 1.0)
    exponents = np.rint(np.log2(safe)) if powers else np.log2(safe)
    bound = np.log2(_LARGEST_FACTOR)
    return np.exp2(np.clip(exponents, -bound, bound)).astype(np.float32)


def is_moderate(array: Array) -> bool:
    """Whether all elements are finite and far from overflow."""
    return bool(np.abs(array).max(initial=0.0) < _MOST)


def channel_axis(layer: Layer) -> int:
    """Return the axis of what a layer reads that it sums over."""
    return 1 if layer.node.op_type == "Conv" else -1


def can_scale_input(layer: Layer, inserter: Inserter) -> bool:
    """Whether channels of what a layer reads can be scaled by its weight.

    Args:
        layer: The layer.
        inserter: Reads constants as they are after earlier changes.
    """
    if layer.weight is None or layer.depth is None:
        return False
    if layer.node.attributes.get_int("group", 1) != 1:
        return False
    value = layer.node.inputs[layer.weight]
    known = constant_of(value) is not None
    return known and value is not None and is_moderate(inserter.array(value))


def scale_input(layer: Layer, factors: Array, inserter: Inserter) -> None:
    """Multiply a weight along the axis that is summed over.

    Args:
        layer: The layer; see :func:`can_scale_input`.
        factors: One for each channel, float32 of shape [channels].
        inserter: Of the model.
    """
    assert layer.weight is not None, "its weight was looked at"
    assert layer.depth is not None, "its weight was looked at"
    _replace(layer.node, layer.weight, factors, layer.depth, inserter)


@dataclass(frozen=True)
class Place:
    """A constant that is scaled by channel.

    Attributes:
        node: Who reads it.
        index: Number of the input.
        axis: Axis of the channels.
        stride: How many channels of the value it represents, one after the other.
        is_weight: Whether it is the weight of a layer, where a chain begins.
    """

    node: ir.Node
    index: int
    axis: int
    stride: int = 1
    is_weight: bool = False


class Absorber:
    """Scales a computed value by changing constants of the nodes that compute it.

    Args:
        inserter: Of the model.
    """

    def __init__(self, inserter: Inserter) -> None:
        self._inserter = inserter
        self._renamed = set[ir.Value]()

    def scale(self, value: ir.Value, places: Sequence[Place], factors: Array) -> None:
        """Multiply a value by channel; all values that change get other names.

        Args:
            value: The value.
            places: As :meth:`places_of` returns them.
            factors: One for each channel, float32 of shape [channels]; equal for all that
                share a place.
        """
        for place in places:
            own = factors[:: place.stride]
            _replace(place.node, place.index, own, place.axis, self._inserter)
        self._rename(value)

    def _rename(self, value: ir.Value) -> None:
        """Rename a value and those it is computed from, back to where the chain begins."""
        current: ir.Value | None = value
        while current is not None:
            if current not in self._renamed:
                current.name = self._inserter.namer.value(f"{current.name}_scaled")
                self._renamed.add(current)
            node = current.producer()
            if node is None or node.op_type not in _PASSED:
                return
            computed = [v for v in node.inputs if v is not None and constant_of(v) is None]
            current = computed[0] if computed else None

    def places_of(self, value: ir.Value, count: int, axis: int) -> list[Place] | None:
        """Return which constants scale a value by channel; None if none do.

        Args:
            value: The value.
            count: Number of its channels.
            axis: The axis of channels: 1, or -1 for the last.
        """
        node = value.producer()
        if (
            node is None
            or node.domain not in ("", "com.microsoft")
            or len(_used_outputs(node)) > 1
        ):
            return None
        inputs, kind = list(node.inputs), node.op_type
        if kind in _NORMALISATIONS:
            last = node.attributes.get_int("axis", -1) == -1
            places = [i for i in range(1, len(inputs)) if inputs[i] is not None]
            return self._all(node, places, count) if axis == -1 and last else None
        if kind in _HOMOGENEOUS or (kind in _POOLS and axis == 1):
            return self._behind(node, 0, count, axis)
        if kind == "Flatten" and axis == -1 and node.attributes.get_int("axis", 1) == 1:
            return self._before_flatten(node, count)
        if kind in ("Mul", "Add"):
            place = next((i for i in (0, 1) if self._is_vector(inputs[i], count, axis)), None)
            own = None if place is None else self._all(node, [place], count)
            if own is None or place is None or kind == "Mul":
                return own
            behind = self._behind(node, 1 - place, count, axis)
            return None if behind is None else [*own, *behind]
        return self._of_layer(node, count, axis)

    def _of_layer(self, node: ir.Node, count: int, axis: int) -> list[Place] | None:
        found, _ = layers_of([node])
        if not found or found[0].weight is None or found[0].channels is None:
            return None
        layer = found[0]
        assert layer.weight is not None, "it was looked at"
        assert layer.channels is not None, "it was looked at"
        weight = self._floats_of(node.inputs[layer.weight])
        if weight is None or weight.shape[layer.channels] != count:
            return None
        if channel_axis(layer) != axis:
            return None
        places = [Place(node, layer.weight, layer.channels, is_weight=True)]
        if layer.bias is not None:
            own = self._all(node, [layer.bias], count)
            return None if own is None else [*places, *own]
        return places

    def _behind(self, node: ir.Node, index: int, count: int, axis: int) -> list[Place] | None:
        """Go on with an input that has no other reader."""
        value = node.inputs[index]
        alone = value is not None and len(value.uses()) == 1 and not value.is_graph_output()
        return self.places_of(value, count, axis) if alone and value is not None else None

    def _before_flatten(self, node: ir.Node, count: int) -> list[Place] | None:
        """Continue in front of a Flatten, where one channel represents several."""
        value = node.inputs[0]
        shape = None if value is None else value.shape
        channels = shape[1] if shape is not None and len(shape) > 1 else None
        if not isinstance(channels, int) or not channels or count % channels:
            return None
        found = self._behind(node, 0, channels, 1)
        stride = count // channels
        return None if found is None else [replace(p, stride=p.stride * stride) for p in found]

    def _all(self, node: ir.Node, places: list[int], count: int) -> list[Place] | None:
        """Return constants that have nothing but the channels."""
        for index in places:
            array = self._floats_of(node.inputs[index])
            if array is None or array.size != count:
                return None
        return [Place(node, index, -1) for index in places]

    def _is_vector(self, value: ir.Value | None, count: int, axis: int) -> bool:
        array = self._floats_of(value)
        return axis == -1 and array is not None and array.shape[-1:] == (count,)

    def _floats_of(self, value: ir.Value | None) -> Array | None:
        tensor = constant_of(value) if value is not None else None
        if tensor is None or tensor.dtype is not ir.DataType.FLOAT:
            return None
        array = tensor.numpy()
        return array if is_moderate(array) else None


def _used_outputs(node: ir.Node) -> list[ir.Value]:
    return [v for v in node.outputs if v.uses() or v.is_graph_output()]


def _replace(node: ir.Node, index: int, factors: Array, axis: int, inserter: Inserter) -> None:
    value = node.inputs[index]
    assert value is not None, "its array was looked at"
    array = inserter.array(value)
    if array.ndim > 1 and array.size == len(factors):
        scaled = array * factors.reshape(array.shape)
    else:
        full: list[int] = [1] * array.ndim
        full[axis] = -1
        scaled = array * factors.reshape(full)
    new = inserter.constant(scaled.astype(np.float32), f"{value.name}_scaled")
    inserter.read(node, index, new)
