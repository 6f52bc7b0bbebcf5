"""Second moments of what layers read, on the user's data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.lib.stride_tricks import sliding_window_view

from onnx_passes.arrays import Array
from onnx_passes.passes.precision._layers import Layer

_ROWS = 1 << 14
"""Rows of a sample that are multiplied at once, so that patches take little memory."""


@dataclass
class Moments:
    """Sums over the rows that a layer multiplies with its weight.

    Attributes:
        gram: Sum of outer products, float64 of shape [depth, depth].
        total: Sum of rows, float64 of shape [depth].
        count: Number of rows.
        fourth: Sum of the fourth powers of the lengths of rows.
    """

    gram: Array
    total: Array
    count: int = 0
    fourth: float = 0.0

    @classmethod
    def of_depth(cls, depth: int) -> Moments:
        """Return the sums of no rows."""
        return cls(np.zeros((depth, depth)), np.zeros(depth))

    def add(self, rows: Array) -> None:
        """Add rows, of shape [rows, depth]."""
        for start in range(0, len(rows), _ROWS):
            part = np.ascontiguousarray(rows[start : start + _ROWS], np.float32)
            part = part[np.isfinite(part).all(1)]
            self.gram += part.T @ part
            self.total += part.sum(0, dtype=np.float64)
            self.count += len(part)
            lengths = np.einsum("ij,ij->i", part, part, dtype=np.float64)
            self.fourth += float(lengths @ lengths)

    @property
    def mean(self) -> Array:
        """The mean row; zeros without rows."""
        return self.total / max(1, self.count)

    def shrunk(self) -> Array:
        """Return the sums of outer products, drawn towards their diagonal.

        Few rows show products between elements that other rows do not have. How much of what
        stands beside the diagonal is such noise is estimated as by Ledoit and Wolf ("A
        well-conditioned estimator for large-dimensional covariance matrices", 2004).

        Returns:
            float64 of shape [depth, depth].
        """
        count, beside = max(1, self.count), self.gram - np.diag(np.diag(self.gram))
        size = float(np.vdot(beside, beside))
        # Both are multiplied by the squared number of rows.
        noise = self.fourth - float(np.vdot(self.gram, self.gram)) / count
        share = min(1.0, max(0.0, noise) / size) if size else 0.0
        return self.gram - share * beside


def matrix_of(layer: Layer, weight: Array) -> Array:
    """Return a weight as [depth, channels].

    Args:
        layer: The layer.
        weight: Its weight, float32 in the layout of the operator.
    """
    if layer.node.op_type == "Conv":
        return weight.reshape(len(weight), -1).T
    return weight if layer.depth == 0 else weight.T


def weight_of(layer: Layer, matrix: Array, shape: Sequence[int]) -> Array:
    """Return a matrix of [depth, channels] in the layout of a weight.

    Args:
        layer: The layer.
        matrix: The weight as [depth, channels].
        shape: Shape of the weight in the layout of the operator.
    """
    if layer.node.op_type == "Conv":
        return np.ascontiguousarray(matrix.T).reshape(shape)
    return np.ascontiguousarray(matrix if layer.depth == 0 else matrix.T)


def has_rows(layer: Layer) -> bool:
    """Whether a layer is a product of rows with one matrix: no groups, no stacks."""
    if layer.weight is None or layer.depth is None:
        return False
    if layer.node.op_type != "Conv":
        return True
    padded = layer.node.attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    return padded and layer.node.attributes.get_int("group", 1) == 1


def rows_of(layer: Layer, data: Array, kernel: Sequence[int]) -> Array:
    """Return what a layer multiplies with its weight, as [rows, depth].

    Args:
        layer: The layer; see :func:`has_rows`.
        data: What it reads, floats of shape [..., depth], or [samples, channels, ...] for a
            Conv.
        kernel: Spatial sizes of the filter of a Conv.
    """
    if layer.node.op_type != "Conv":
        return data.reshape(-1, data.shape[-1])
    spatial = len(kernel)
    found = layer.node.attributes
    pads = list(found.get_ints("pads", [0] * 2 * spatial))
    strides = list(found.get_ints("strides", [1] * spatial))
    steps = list(found.get_ints("dilations", [1] * spatial))
    widths = [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)]
    padded = np.pad(data, widths)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, steps, strict=True)]
    views = sliding_window_view(padded, spans, axis=tuple(range(2, 2 + spatial)))
    places = [slice(None, None, step) for step in strides]
    inside = [slice(None, None, step) for step in steps]
    views = views[(slice(None), slice(None), *places, *inside)]
    # Channels come before the elements of the filter.
    order = (0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial))
    depth = data.shape[1] * int(np.prod(kernel))
    return views.transpose(order).reshape(-1, depth)


def moments_of(
    layers: Iterable[Layer],
    samples: Iterable[Mapping[str, Array]],
    known: dict[object, Moments] | None = None,
) -> dict[ir.Node, Moments]:
    """Return the moments of what layers read; layers that read the same share them.

    Args:
        layers: The layers; see :func:`has_rows`.
        samples: Values by name, floats of the shapes in the model, sample by sample.
        known: Moments that were found before, by what they are of; added to.
    """
    known = {} if known is None else known
    places: dict[object, list[tuple[Layer, tuple[int, ...]]]] = {}
    for layer in layers:
        kernel = _kernel(layer)
        places.setdefault(_key(layer, kernel), []).append((layer, kernel))
    wanted = {key: users[0] for key, users in places.items() if key not in known}
    for sample in samples if wanted else ():
        for key, (layer, kernel) in wanted.items():
            value = layer.node.inputs[0]
            data = sample.get(str(value.name)) if value is not None else None
            if data is None or not data.size:
                continue
            rows = rows_of(layer, data, kernel)
            known.setdefault(key, Moments.of_depth(rows.shape[1])).add(rows)
    return {
        layer.node: known[key]
        for key, users in places.items()
        for layer, _ in users
        if key in known
    }


def _kernel(layer: Layer) -> tuple[int, ...]:
    if layer.node.op_type != "Conv" or layer.weight is None:
        return ()
    weight = layer.node.inputs[layer.weight]
    shape = None if weight is None else weight.shape
    return () if shape is None else tuple(shape.numpy()[2:])


def _key(layer: Layer, kernel: tuple[int, ...]) -> object:
    value, found = layer.node.inputs[0], layer.node.attributes
    name = None if value is None else value.name
    if layer.node.op_type != "Conv":
        return name
    parts = [tuple(found.get_ints(n, ())) for n in ("pads", "strides", "dilations")]
    return (name, kernel, *parts)
