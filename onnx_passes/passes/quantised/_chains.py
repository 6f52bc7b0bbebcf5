"""Chains of monotone operators that end in a quantiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.ops import families  # noqa: F401  (makes the operators known)
from onnx_passes.ops.base import operator_of
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.ops.bodies.domains import CUSTOM
from onnx_passes.passes._support.session import start
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.quantised._attributes import quantiser_of

Array = np.ndarray[Any, np.dtype[Any]]

_ROUNDINGS = frozenset({"Round", "Ceil", "Floor"})
_ENDS = frozenset({*_ROUNDINGS, "Sign"})
_COMPARES = frozenset({"GreaterOrEqual", "Greater"})
"""Comparisons whose result for NaN is that left of all thresholds."""
_BY_SIGN = frozenset({"Mul", "Div"})
_NEGATIVE = ("alpha", "beta", "gamma")
_RISING = frozenset({"Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu"})
"""Operators that rise if their attributes are not negative."""
_CORRECTLY_ROUNDED = frozenset(
    {
        *("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Floor", "Identity"),
        *("LeakyRelu", "Max", "Min", "Mul", "Neg", "Relu", "Round", "Sign", "Sqrt", "Sub"),
        *("Where", *_COMPARES),
    }
)
"""Operators whose kernels are IEEE operations, or a few of them in a row."""
IR_VERSION = 10


@dataclass(frozen=True)
class Chain:
    """Operators in a row, each monotone in one operand, the others being constants.

    Attributes:
        source: What the first one reads, of float32 and known rank.
        nodes: The operators, the quantiser last.
        opset: Version of the standard domain around them.
        channels: For each axis of ``source`` its size if a constant differs along it, else 1.
    """

    source: ir.Value
    nodes: tuple[ir.Node, ...]
    opset: int
    channels: tuple[int, ...]

    @property
    def result(self) -> ir.Value:
        """What the quantiser computes."""
        return self.nodes[-1].outputs[0]

    def function(self) -> onnx.ModelProto:
        """Return a model that computes the chain for any number of values per channel.

        Its input has an axis more than ``source``, in front; where an operator looks at places
        of axes, the first axis of ``source`` is that axis.
        """
        proto = onnx.ModelProto(ir_version=IR_VERSION)
        domains = {node.domain for node in self.nodes} - {""}
        proto.opset_import.add(domain="", version=self.opset)
        for domain in sorted(domains):
            proto.opset_import.add(domain=domain, version=1)
        graph = proto.graph
        graph.name = "chain"
        name = str(self.source.name)
        rank = len(self.channels) + (not self.looks_at_axes)
        dims = [None] * rank
        graph.input.append(onnx.helper.make_tensor_value_info(name, 1, dims))
        graph.output.append(onnx.ValueInfoProto(name=str(self.result.name)))
        known: set[str] = set()
        for node in self.nodes:
            graph.node.append(ir.serde.serialize_node(node))
            graph.node[-1].overload = ""
            for value in node.inputs:
                tensor = constant_of(value)
                if value is not None and tensor is not None and value.name not in known:
                    known.add(str(value.name))
                    array = onnx.numpy_helper.from_array(tensor.numpy(), value.name)
                    graph.initializer.append(array)
        attach_bodies(proto)
        return proto

    @property
    def is_exact(self) -> bool:
        """Whether each operator rounds correctly, so that it is monotone to the last bit."""
        return all(n.domain != "" or n.op_type in _CORRECTLY_ROUNDED for n in self.nodes)

    @property
    def looks_at_axes(self) -> bool:
        """Whether an operator has an axis of channels."""
        return any(_has_channels(node) for node in self.nodes)


class Steps:
    """What a chain makes of single values."""

    def __init__(self, chain: Chain) -> None:
        """Load the chain into ONNX Runtime."""
        self.chain = chain
        self._session = start(chain.function())
        self._input = self._session.get_inputs()[0].name

    def of(self, values: Array) -> Array:
        """Return results for values of shape ``[count, *channels]``."""
        shape = values.shape
        if self.chain.looks_at_axes:
            values = values.reshape(shape[0], *shape[2:])
        (found,) = self._session.run(None, {self._input: values})
        return np.asarray(found).reshape(shape)


def chain_to(node: ir.Node, opset: int) -> Chain | None:
    """Return the longest chain that ends in a quantiser; None if it is none."""
    if not _is_end(node):
        return None
    nodes, value = [node], node.inputs[0]
    while value is not None and (before := _step(value.producer(), opset)) is not None:
        above = before[0].inputs[before[1]]
        if above is None or above.shape is None or not _keeps_shape(before[0], above):
            break
        nodes.insert(0, before[0])
        value = above
    while nodes:
        found = _chain(nodes, opset)
        if found is not None:
            return found
        nodes.pop(0)
    return None


def _chain(nodes: list[ir.Node], opset: int) -> Chain | None:
    source = nodes[0].inputs[_data_operand(nodes[0])]
    if source is None or source.shape is None or source.dtype != ir.DataType.FLOAT:
        return None
    if constant_of(source) is not None:
        return None
    rank = len(source.shape)
    channels = [1] * rank
    for node in nodes:
        for axis, size in _varying(node, rank):
            channels[axis] = size
    found = Chain(source, tuple(nodes), opset, tuple(channels))
    if found.looks_at_axes and (rank < 2 or channels[0] != 1):
        return None
    return found


def _is_end(node: ir.Node) -> bool:
    if node.domain == "":
        return node.op_type in _ENDS or _is_choice(node)
    if node.op_type == "MultiThreshold" and node.domain == CUSTOM:
        return all(constant_of(value) is not None for value in node.inputs[1:])
    return quantiser_of(node) is not None


def _is_choice(node: ir.Node) -> bool:
    """Whether a node makes one number or another by a comparison with a constant."""
    value = node.inputs[0] if node.op_type == "Where" else None
    before = None if value is None else value.producer()
    if before is None or before.domain != "" or before.op_type not in _COMPARES:
        return False
    return all(constant_of(other) is not None for other in node.inputs[1:])


def _step(node: ir.Node | None, opset: int) -> tuple[ir.Node, int] | None:
    """Return a node and its operand if it is monotone in that, the others being constants."""
    if (
        node is None
        or len(node.outputs) != 1
        or any(a.is_ref() for a in node.attributes.values())
    ):
        return None
    operand = _data_operand(node)
    value = node.inputs[operand] if operand < len(node.inputs) else None
    if value is None or constant_of(value) is not None or value.dtype != ir.DataType.FLOAT:
        return None
    others = [v for i, v in enumerate(node.inputs) if i != operand and v is not None]
    if any(constant_of(other) is None for other in others):
        return None
    return (node, operand) if _is_monotone(node, operand, opset) else None


def _data_operand(node: ir.Node) -> int:
    if node.op_type == "Div":
        return 0
    unknown = [
        i for i, v in enumerate(node.inputs) if v is not None and constant_of(v) is None
    ]
    return unknown[0] if unknown else 0


def _is_monotone(node: ir.Node, operand: int, opset: int) -> bool:
    if node.domain != "":
        return quantiser_of(node) is not None
    if node.op_type in _BY_SIGN:
        factor = constant_of(node.inputs[1 - operand])
        return operand == 0 or (node.op_type == "Mul" and factor is not None)
    if _has_channels(node):
        return len(node.outputs) == 1 and not node.attributes.get_int("training_mode", 0)
    if node.op_type == "Identity" or node.op_type in _COMPARES:
        return True
    operator = operator_of(node, opset)
    if operator is None or not operator.elementwise:
        return False
    rises = operand in operator.algebra.monotone or node.op_type in _RISING
    slopes = (node.attributes.get_float(name, 0.0) or 0.0 for name in _NEGATIVE)
    return rises and all(slope >= 0 for slope in slopes)


def _has_channels(node: ir.Node) -> bool:
    return (node.domain, node.op_type) == ("", "BatchNormalization")


def _varying(node: ir.Node, rank: int) -> list[tuple[int, int]]:
    """Return the axes along which a node's constants differ, with their sizes."""
    if _has_channels(node):
        tensor = constant_of(node.inputs[1])
        return [] if tensor is None else [(1, int(tensor.shape.numpy()[0]))]
    found = []
    for value in node.inputs:
        tensor = constant_of(value)
        if tensor is None:
            continue
        shape = tensor.shape.numpy()
        if node.op_type == "MultiThreshold":
            shape = shape[:-1]
        found += [(rank - len(shape) + i, int(n)) for i, n in enumerate(shape) if n != 1]
    return found


def _keeps_shape(node: ir.Node, value: ir.Value) -> bool:
    """Whether the constants of a node do not make its operand bigger."""
    if _has_channels(node):
        return True
    shape = value.shape
    assert shape is not None, "the caller looks"
    for other in node.inputs:
        tensor = constant_of(other)
        if tensor is None:
            continue
        dims = tensor.shape.numpy()
        if len(dims) > len(shape):
            return False
        pairs = zip(reversed(dims), reversed(list(shape)), strict=False)
        if any(n not in (1, d) for n, d in pairs):
            return False
    return True


__all__ = ["Chain", "Steps", "chain_to"]
