"""Layers with weights, and the second moments of their inputs on the user's data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.lib.stride_tricks import sliding_window_view

from onnx_passes.arrays import Array
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.precision._half_precision import WIDE

ACTIVATIONS = frozenset(("Relu", "Clip"))
"""What engines join with the layer before it and with the quantiser behind."""


@dataclass(frozen=True)
class Layer:
    """A product with at most one constant side.

    ``data``, ``weight`` and ``bias`` are numbers of inputs; no weight means that both sides
    are computed. ``channels`` and ``depth`` are the axes of the weight for outputs and for the
    sum; None for a MatMul of rank above 2.
    """

    node: ir.Node
    data: tuple[int, ...]
    weight: int | None
    channels: int | None
    depth: int | None
    bias: int | None = None

    @property
    def end(self) -> ir.Value:
        """The result, behind an activation that is its only reader."""
        (value,) = self.node.outputs
        users = value.consumers()
        if len(users) == 1 and users[0].op_type in ACTIVATIONS and not value.is_graph_output():
            follower = users[0].outputs[0]
            return follower if users[0].inputs[0] is value else value
        return value


def layers_of(nodes: Iterable[ir.Node]) -> tuple[list[Layer], list[ir.Node]]:
    """Return the layers among nodes, and the products that cannot be quantised."""
    found: list[Layer] = []
    others: list[ir.Node] = []
    for node in nodes:
        if node.domain or node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        layer = _layer(node)
        if layer is None:
            others.append(node)
        else:
            found.append(layer)
    return found, others


def left_weights(
    nodes: Iterable[ir.Node], taken: Iterable[ir.Node], least: int = 0
) -> dict[str, list[str]]:
    """Return the float weights that nodes read and that stay as they are, by reason.

    Those of nodes that are ``taken`` do not. A weight has two dimensions or more, and is worth
    converting from ``least`` elements on.
    """
    known, found = set(taken), dict[str, dict[str, None]]()
    for node in nodes:
        quantises = node.op_type in ("QuantizeLinear", "DequantizeLinear")
        for place, value in enumerate(() if node in known or quantises else node.inputs):
            reason = _why_left(node, place, value, least) if value is not None else None
            if value is not None and reason is not None:
                found.setdefault(reason, {})[str(value.name)] = None
    return {f"weights {reason}": list(names) for reason, names in found.items()}


def _why_left(node: ir.Node, place: int, value: ir.Value, least: int) -> str | None:
    maker, tensor = value.producer(), constant_of(value)
    if tensor is None and maker is not None and maker.op_type == "Transpose":
        tensor = constant_of(maker.inputs[0])
    if tensor is None or len(tensor.shape) < 2 or not tensor.dtype.is_floating_point():
        return None
    is_product = node.op_type in ("Conv", "Gemm", "MatMul") and not node.domain
    if tensor.size < least:
        return f"with fewer than {least} elements (least)" if is_product else None
    if not is_product:
        return f"of {node.op_type}" if node.op_type != "Transpose" else None
    if tensor.dtype is not WIDE:
        return f"of {tensor.dtype.name.lower()}"
    if constant_of(value) is None:
        return "behind a Transpose, which fold-constants computes"
    if place != 1:
        return f"that are operand {place} of {node.op_type}"
    if node.op_type == "Gemm" and not _is_plain(node):
        return "of Gemm with alpha, beta or transA"
    if node.op_type == "MatMul" and len(tensor.shape) > 2:
        return "that are stacks of matrices"
    return f"of {node.op_type}"


def find_stored_layers(nodes: Iterable[ir.Node]) -> list[Layer]:
    """Return the layers among nodes whose weights are integers behind a DequantizeLinear."""
    found = layers_of(nodes)[0]
    return [
        layer
        for layer in found
        if layer.weight is not None and constant_of(layer.node.inputs[layer.weight]) is None
    ]


def _levels_of(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the integers that represent a constant."""
    node = value.producer()
    if node is None or node.op_type != "DequantizeLinear" or node.domain:
        return None
    return constant_of(node.inputs[0])


def _layer(node: ir.Node) -> Layer | None:
    first, second = node.inputs[:2]
    if first is None or second is None or first.dtype is not WIDE or second.dtype is not WIDE:
        return None
    if constant_of(first) is not None or any(a.is_ref() for a in node.attributes.values()):
        return None
    tensor = constant_of(second)
    tensor = _levels_of(second) if tensor is None else tensor
    rank = None if tensor is None else len(tensor.shape)
    bias = 2 if len(node.inputs) > 2 and node.inputs[2] is not None else None
    match node.op_type:
        case "Conv" if tensor is not None:
            return Layer(node, (0,), 1, 0, 1, bias)
        case "Gemm" if tensor is not None and _is_plain(node):
            flipped = node.attributes.get_int("transB", 0)
            return Layer(node, (0,), 1, 0 if flipped else 1, 1 if flipped else 0, bias)
        case "MatMul" if rank is None:
            return Layer(node, (0, 1), None, None, None)
        case "MatMul" if rank == 2:
            return Layer(node, (0,), 1, 1, 0)
        case "MatMul" if rank is not None and rank > 2:
            return Layer(node, (0,), 1, None, None)
    return None


def _is_plain(node: ir.Node) -> bool:
    alpha, beta = (node.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    return alpha == beta == 1.0 and not node.attributes.get_int("transA", 0)


_ROWS = 1 << 14
"""Rows of a sample that are multiplied at once, so that patches take little memory."""


@dataclass
class Moments:
    """Sums over the rows that a layer multiplies with its weight.

    ``gram`` sums outer products, float64 [depth, depth]; ``total`` sums rows, float64 [depth];
    ``count`` counts them, and ``fourth`` sums fourth powers of their lengths.
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
        """
        count, beside = max(1, self.count), self.gram - np.diag(np.diag(self.gram))
        size = float(np.vdot(beside, beside))
        # Both are multiplied by the squared number of rows.
        noise = self.fourth - float(np.vdot(self.gram, self.gram)) / count
        share = min(1.0, max(0.0, noise) / size) if size else 0.0
        return self.gram - share * beside


def matrix_of(layer: Layer, weight: Array) -> Array:
    """Return a weight, float32 in the layout of the operator, as [depth, channels]."""
    if layer.node.op_type == "Conv":
        return weight.reshape(len(weight), -1).T
    return weight if layer.depth == 0 else weight.T


def weight_of(layer: Layer, matrix: Array, shape: Sequence[int]) -> Array:
    """Return a matrix of [depth, channels] in the layout of a weight of that shape."""
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

    ``data`` is [..., depth], or [samples, channels, ...] for a Conv with spatial filter sizes
    ``kernel``; see :func:`has_rows`.
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

    Values are by name, sample by sample; see :func:`has_rows`. ``known`` has moments by what
    they are of, and is added to.
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


def in_body(layer: Layer, model: ir.Model) -> bool:
    """Whether what a layer reads is computed in a body."""
    value = layer.node.inputs[0]
    producer = None if value is None else value.producer()
    source = value if producer is None else producer
    return source is not None and source.graph not in (None, model.graph)
