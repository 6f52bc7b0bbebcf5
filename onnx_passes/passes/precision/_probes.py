"""What passes measure of layers in bodies: reach by channel, and moments of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes.precision._layers import Layer
from onnx_passes.passes.precision._moments import Moments
from onnx_passes.passes.precision._record import record_probes
from onnx_passes.passes.precision._watch import WatchBuilder, WatchProbe, inner_values, is_wide

Key = TypeVar("Key")


class ProbeReach:
    """The greatest element of each channel, and that of its negation: both at least 0.

    Args:
        channels: Number of channels.
        axis: Their axis: 1, or -1 for the last.
        rank: Of the value; of no account if the axis is the last.
    """

    def __init__(self, channels: int, axis: int, rank: int) -> None:
        self._channels, self._axis, self._rank = channels, axis, rank

    @property
    def size(self) -> int:
        """Number of elements."""
        return 2 * self._channels

    def measure(self, made: WatchBuilder, value: ir.Value) -> ir.Value:
        """Return both for all channels; see ``WatchProbe.measure``."""
        rows = _rows(made, made.finite(value), self._channels, self._axis, self._rank)
        both = made.node("Concat", made.node("Neg", rows), rows, axis=1)
        return self.join(made, both)

    def join(self, made: WatchBuilder, stacked: ir.Value) -> ir.Value:
        """Return the greatest of all rows; see ``WatchProbe.join``."""
        zeros = made.constant(np.zeros((1, self.size), np.float32))
        return made.reduce("ReduceMax", made.node("Concat", stacked, zeros, axis=0), 0)

    def ends(self, vectors: Iterable[Array]) -> tuple[Array, Array]:
        """Return the least and the greatest element of each channel.

        Args:
            vectors: What was measured, float32 of shape [size], sample by sample.
        """
        most = np.max(list(vectors), 0)
        return -most[: self._channels], most[self._channels :]


class Rows:
    """Sums over the rows that a layer multiplies with its weight.

    Elements that are not finite count as 0.

    Args:
        layer: The layer; see ``onnx_passes.passes.precision._moments.has_rows``.
        weight: Sizes of its weight.
        gram: Whether outer products are summed as well.
    """

    def __init__(self, layer: Layer, weight: Sequence[int], *, gram: bool) -> None:
        self._layer, self._weight, self._gram = layer, tuple(weight), gram
        depth = int(np.prod(weight[1:])) if self._is_filter else weight[layer.depth or 0]
        self._depth = depth

    @property
    def _is_filter(self) -> bool:
        return self._layer.node.op_type == "Conv"

    @property
    def size(self) -> int:
        """Number of elements: the count, the sum of rows, and those of outer products."""
        return 1 + self._depth + self._gram * (1 + self._depth**2)

    def measure(self, made: WatchBuilder, value: ir.Value) -> ir.Value:
        """Return the sums; see ``WatchProbe.measure``."""
        data, axis = made.finite(value), -1
        if self._is_filter:
            # A filter of ones and zeros for each element of a patch: its row.
            eye = np.eye(self._depth, dtype=np.float32)
            eye = eye.reshape(self._depth, *self._weight[1:])
            options = self._layer.node.attributes.values()
            data = made.node("Conv", data, made.large(eye), **{a.name: a for a in options})
            axis = 1
        rows = _rows(made, data, self._depth, axis, len(self._weight))
        ones = made.node("Shape", rows)
        count = made.node("Cast", made.node("Slice", ones, *_first(made)), to=1)
        parts = [count, made.reduce("ReduceSum", rows, 0)]
        if self._gram:
            one = made.constant(np.array([1]))
            flipped = made.node("Transpose", rows, perm=[1, 0])
            product = made.node("MatMul", flipped, rows)
            parts.append(made.node("Reshape", product, made.constant(np.array([-1]))))
            lengths = made.reduce("ReduceSum", made.node("Mul", rows, rows), 1)
            squares = made.node("Mul", lengths, lengths)
            parts.append(made.node("Reshape", made.reduce("ReduceSum", squares, 0), one))
        return made.node("Concat", *parts, axis=0)

    def join(self, made: WatchBuilder, stacked: ir.Value) -> ir.Value:
        """Return the sums over all rows; see ``WatchProbe.join``."""
        return made.reduce("ReduceSum", stacked, 0)

    def moments(self, vectors: Iterable[Array]) -> Moments:
        """Return the sums over all samples; outer products of zeros if none were summed.

        Args:
            vectors: What was measured, float32 of shape [size], sample by sample.
        """
        total: Array = np.asarray(np.sum(list(vectors), 0, dtype=np.float64))
        depth = self._depth
        mean, count = total[1 : 1 + depth], round(float(total[0]))
        if not self._gram:
            return Moments(np.zeros((1, 1)), mean, count)
        gram = total[1 + depth : -1].reshape(depth, depth)
        return Moments(gram, mean, count, float(total[-1]))


def _rows(made: WatchBuilder, value: ir.Value, count: int, axis: int, rank: int) -> ir.Value:
    """Return a value as [rows, channels]."""
    if axis == 1:
        value = made.node("Transpose", value, perm=[0, *range(2, rank), 1])
    return made.node("Reshape", value, made.constant(np.array([-1, count])))


def _first(made: WatchBuilder) -> list[ir.Value]:
    return [made.constant(np.array([place])) for place in (0, 1)]


def in_body(layer: Layer, model: ir.Model) -> bool:
    """Whether what a layer reads is computed in a body.

    Args:
        layer: The layer.
        model: Its model.
    """
    value = layer.node.inputs[0]
    producer = None if value is None else value.producer()
    source = value if producer is None else producer
    return source is not None and source.graph not in (None, model.graph)


def rows_in_bodies(
    layers: Iterable[Layer], model: ir.Model, *, gram: bool
) -> dict[ir.Node, tuple[ir.Value, Rows]]:
    """Return what measures the moments of layers in bodies.

    Args:
        layers: The layers; those whose operand the main graph computes are left out.
        model: Their model.
        gram: Whether outer products are summed as well.
    """
    found = {}
    for layer in layers:
        value = layer.node.inputs[0]
        weight = layer.node.inputs[layer.weight] if layer.weight is not None else None
        shape = weight.shape if weight is not None else None
        if value is not None and shape is not None and in_body(layer, model):
            found[layer.node] = (value, Rows(layer, shape.numpy(), gram=gram))
    return found


def measure(
    model: ir.Model,
    feeds: Sequence[Mapping[str, Array]],
    wanted: Mapping[Key, tuple[ir.Value, WatchProbe]],
    pass_: str,
) -> dict[Key, list[Array]]:
    """Return what probes measure of values in bodies, sample by sample.

    Args:
        model: The model; not changed. Its types have to be known.
        feeds: The inputs of each sample by name, of the shapes and types of the model.
        wanted: By key, a value in a body and its probe.
        pass_: The pass that asks, for errors.

    Raises:
        PassError: ONNX Runtime does not run the model on the data.
    """
    keys, places = list(wanted), {v: i for i, v in enumerate(inner_values(model))}
    probes: dict[int, list[tuple[str, WatchProbe]]] = {}
    for number, (value, item) in enumerate(wanted.values()):
        if value in places and is_wide(value):
            probes.setdefault(places[value], []).append((str(number), item))
    found: dict[Key, list[Array]] = {}
    for sample in record_probes(model, feeds, probes, pass_) if probes else ():
        for name, vector in sample.items():
            found.setdefault(keys[int(name)], []).append(vector)
    return found
