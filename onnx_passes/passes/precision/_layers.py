"""Layers with weights, as quantisers see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.precision._signature import WIDE

ACTIVATIONS = frozenset(("Relu", "Clip"))
"""What engines join with the layer before it and with the quantiser behind."""


@dataclass(frozen=True)
class Layer:
    """A product with at most one constant side.

    Attributes:
        node: The node.
        data: Numbers of the inputs that are computed.
        weight: Number of the input that is constant; None if both are computed.
        channels: Axis of the weight along which outputs lie; None for a weight of rank above
            2 in a MatMul.
        depth: Axis of the weight that is summed over; None as above.
        bias: Number of the bias, if there is one.
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
