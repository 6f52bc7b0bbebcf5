"""Parts of a model as protobuf, from nodes and weights that are serialised once."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import Choice, replaced
from onnx_passes.verify.reduce.parts import Parts, Piece


@dataclass
class Renderer:
    """Writes parts of one model.

    Copying a node as an object and serialising it takes a millisecond, and a bisection looks
    at each node of a model many times.

    Attributes:
        parts: The model.
        choose: What is written for a tensor.
    """

    parts: Parts
    choose: Choice
    nodes: list[onnx.NodeProto] = field(init=False)
    _known: dict[ir.Value, onnx.ValueInfoProto | None] = field(
        init=False, default_factory=dict
    )
    _weights: dict[ir.Value, onnx.TensorProto] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Serialise the nodes."""
        with replaced(self.parts.model, self.choose):
            self.nodes = [ir.serde.serialize_node(node) for node in self.parts.nodes]

    def render(self, piece: Piece) -> onnx.ModelProto:
        """Return the protobuf of a part of a model without functions."""
        model = self.parts.model
        proto = onnx.ModelProto(ir_version=model.ir_version)
        for domain, version in model.graph.opset_imports.items():
            proto.opset_import.add(domain=domain, version=version)
        graph = proto.graph
        graph.name = model.graph.name or "part"
        graph.node.extend([self.nodes[index] for index in piece.nodes])
        outputs = set(piece.outputs)
        graph.value_info.extend(
            info
            for index in piece.nodes
            for value in self.parts.nodes[index].outputs
            if value not in outputs and (info := self._declared(value)) is not None
        )
        for values, where in ((piece.inputs, graph.input), (piece.outputs, graph.output)):
            where.extend(self._described(value) for value in values)
        defaults = [(v, v.const_value) for v in piece.inputs if v.is_initializer()]
        graph.initializer.extend(
            self._weight(value, tensor)
            for value, tensor in (*piece.constants.items(), *defaults)
            if tensor is not None
        )
        return proto

    def _declared(self, value: ir.Value) -> onnx.ValueInfoProto | None:
        if value not in self._known:
            known = value.name and (value.type is not None or value.shape is not None)
            self._known[value] = ir.serde.serialize_value(value) if known else None
        return self._known[value]

    def _described(self, value: ir.Value) -> onnx.ValueInfoProto:
        described = self.parts.boundary.describe(value)
        type_, shape = described or (value.type, value.shape)
        return ir.serde.serialize_value(ir.Value(name=value.name, type=type_, shape=shape))

    def _weight(self, value: ir.Value, tensor: ir.TensorProtocol) -> onnx.TensorProto:
        known = self._weights.get(value)
        if known is None:
            known = ir.serde.serialize_tensor(self.choose(tensor, True))
            known.name = value.name or ""
            self._weights[value] = known
        return known
