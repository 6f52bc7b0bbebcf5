"""Chains of operators that end in a quantiser, each monotone but one activation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.ort_sessions import open_session
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes._support.tensors import constant_of
from onnx_passes.passes.quantised._attributes import Quantiser, quantiser_of
from onnx_passes.passes.quantised._monotone import (
    COMPARES,
    CONVERSES,
    data_operand,
    has_channels,
    is_correctly_rounded,
    is_monotone,
    keeps_shape,
    varying,
)
from onnx_passes.passes.quantised._pairs import bounding, pair_of
from onnx_passes.passes.quantised._tables import turns_of
from onnx_passes.passes.quantised._valleys import valley_of

_ENDS = frozenset({"Round", "Ceil", "Floor", "Sign"})
IR_VERSION = 10


@dataclass(frozen=True)
class Chain:
    """Operators in a row, each monotone in one operand, the others being constants.

    One place may be otherwise: an activation that falls before it rises, or thresholds whose
    weights have both signs.

    Attributes:
        source: What the first one reads, of float32 and known rank.
        nodes: The operators, the quantiser last.
        opset: Version of the standard domain around them.
        channels: For each axis of ``source`` its size if a constant differs along it, else 1.
        bend: What is read at the place that is not monotone.
        turns: Where that turns, ``[turns, *channels]``; infinite for one that is not there.
    """

    source: ir.Value
    nodes: tuple[ir.Node, ...]
    opset: int
    channels: tuple[int, ...]
    bend: ir.Value | None = None
    turns: Array | None = None

    @property
    def result(self) -> ir.Value:
        """What the quantiser computes."""
        return self.nodes[-1].outputs[0]

    @property
    def quantiser(self) -> Quantiser | None:
        """The quantiser at the end; None for a rounding, a choice or thresholds."""
        pair = pair_of(self.nodes[-1])
        return quantiser_of(self.nodes[-1]) if pair is None else pair.quantiser

    def function(self) -> onnx.ModelProto:
        """Return a model that computes the chain for any number of values per channel.

        Its input has an axis more than ``source``, in front; where an operator looks at places
        of axes, the first axis of ``source`` is that axis. A second output is ``bend``.
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
        for value in (self.result, self.bend):
            if value is not None and value is not self.source:
                graph.output.append(onnx.ValueInfoProto(name=str(value.name)))
        known: set[str] = set()
        for node in self.nodes:
            made = ir.serde.serialize_node(node)
            made.overload = ""
            graph.node.extend([*bounding(node, made), made])
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
        return all(is_correctly_rounded(node) for node in self.nodes)

    @property
    def looks_at_axes(self) -> bool:
        """Whether an operator has an axis of channels."""
        return any(has_channels(node) for node in self.nodes)


class Steps:
    """What a chain makes of single values."""

    def __init__(self, chain: Chain) -> None:
        """Load the chain into ONNX Runtime."""
        self.chain = chain
        self._session = open_session(chain.function())
        self._input = self._session.get_inputs()[0].name
        self._outputs = [output.name for output in self._session.get_outputs()]

    def of(self, values: Array) -> Array:
        """Return results for values of shape ``[count, *channels]``."""
        return self._run(self._outputs[0], values)

    def at_bend(self, values: Array) -> Array:
        """Return what is read where the chain turns, for values of that shape."""
        return self._run(self._outputs[1], values) if len(self._outputs) > 1 else values

    def _run(self, output: str, values: Array) -> Array:
        shape = values.shape
        if self.chain.looks_at_axes:
            values = values.reshape(shape[0], *shape[2:])
        (found,) = self._session.run([output], {self._input: values})
        return np.asarray(found).reshape(shape)


@dataclass(frozen=True)
class _Segment:
    """Nodes that make one value of another.

    Attributes:
        nodes: The nodes in order.
        source: What they read.
        turns: Where their result turns, ``[turns, ...]`` as it is broadcast with ``source``.
    """

    nodes: tuple[ir.Node, ...]
    source: ir.Value
    turns: Array | None = None


def chain_to(node: ir.Node, opset: int) -> Chain | None:
    """Return the longest chain that ends in a quantiser; None if there is no chain.

    Args:
        node: The node that the chain ends with.
        opset: Version of the main domain.
    """
    last = _end(node)
    if last is None or not _keeps_shape(last):
        return None
    segments = [last]
    while (before := _segment(segments[0].source.producer(), opset)) is not None:
        if not _keeps_shape(before):
            break
        if before.turns is not None and any(s.turns is not None for s in segments):
            break
        segments.insert(0, before)
    while segments:
        found = _chain(segments, opset)
        if found is not None:
            return found
        segments.pop(0)
    return None


def _keeps_shape(segment: _Segment) -> bool:
    """Whether the constants of a segment do not make what it reads bigger."""
    source = segment.source
    return source.shape is not None and all(keeps_shape(n, source) for n in segment.nodes)


def _chain(segments: list[_Segment], opset: int) -> Chain | None:
    source = segments[0].source
    if source.shape is None or source.dtype != ir.DataType.FLOAT:
        return None
    if constant_of(source) is not None:
        return None
    rank = len(source.shape)
    channels = [1] * rank
    nodes = [node for segment in segments for node in segment.nodes]
    for node in nodes:
        for axis, size in varying(node, rank):
            channels[axis] = size
    bend = next((s for s in segments if s.turns is not None), None)
    if bend is not None and bend.turns is not None:
        found = Chain(
            source, tuple(nodes), opset, tuple(channels), bend.source, _align(bend, rank)
        )
    else:
        found = Chain(source, tuple(nodes), opset, tuple(channels))
    if found.looks_at_axes and (rank < 2 or channels[0] != 1):
        return None
    return found


def _align(bend: _Segment, rank: int) -> Array:
    """Return turns with an axis for each axis of the source."""
    turns = bend.turns
    assert turns is not None, "the caller looks"
    count, *sizes = turns.shape
    return turns.reshape(count, *[1] * (rank - len(sizes)), *sizes)


def _end(node: ir.Node) -> _Segment | None:
    pair = pair_of(node)
    if pair is not None and pair.source is not None:
        return _Segment(pair.nodes, pair.source)
    source = node.inputs[data_operand(node)] if node.inputs else None
    if source is None or not _is_end(node):
        return None
    if node.op_type != "MultiThreshold":
        return _Segment((node,), source)
    thresholds, weights = node.inputs[1:3]
    if thresholds is None or weights is None:
        return None
    turns = turns_of(thresholds, weights)
    if turns is None:
        return None
    return _Segment((node,), source, turns if len(turns) else None)


def _is_end(node: ir.Node) -> bool:
    if node.domain == "":
        return node.op_type in _ENDS or _is_choice(node) or _is_comparison(node)
    if node.op_type == "MultiThreshold" and node.domain == CUSTOM:
        return all(constant_of(value) is not None for value in node.inputs[1:])
    return quantiser_of(node) is not None


def _is_comparison(node: ir.Node) -> bool:
    """Whether a node compares something with a constant."""
    kinds = COMPARES | CONVERSES
    return node.op_type in kinds and any(constant_of(v) is not None for v in node.inputs)


def _is_choice(node: ir.Node) -> bool:
    """Whether a node makes one number or another by a comparison with a constant."""
    value = node.inputs[0] if node.op_type == "Where" else None
    before = None if value is None else value.producer()
    if before is None or before.domain != "" or before.op_type not in COMPARES:
        return False
    return all(constant_of(other) is not None for other in node.inputs[1:])


def _segment(node: ir.Node | None, opset: int) -> _Segment | None:
    """Return what makes the first output of a node of one value, by constants."""
    if node is None or len(node.outputs) != 1:
        return None
    pair = pair_of(node)
    if pair is not None and pair.source is not None:
        return _Segment(pair.nodes, pair.source)
    valley = valley_of(node)
    if valley is not None and valley.source.dtype == ir.DataType.FLOAT:
        return _Segment(valley.nodes, valley.source, np.array([valley.minimum], np.float32))
    return _step(node, opset)


def _step(node: ir.Node, opset: int) -> _Segment | None:
    """Return a node if it is monotone in one operand, the others being constants."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    operand = data_operand(node)
    value = node.inputs[operand] if operand < len(node.inputs) else None
    if value is None or constant_of(value) is not None or value.dtype != ir.DataType.FLOAT:
        return None
    others = [v for i, v in enumerate(node.inputs) if i != operand and v is not None]
    if any(constant_of(other) is None for other in others):
        return None
    return _Segment((node,), value) if is_monotone(node, operand, opset) else None


__all__ = ["Chain", "Steps", "chain_to"]
