"""What onnx's checker has accepted before, so that it is asked about what is new alone.

Names, order and scopes are looked at by :mod:`onnx_passes.verify.well_formed`. What else the
checker looks at is in one node: its operator, its attributes, and which operands and results
it has. So nodes that agree in these get one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import (
    node_attributes,
    node_head,
    node_inputs,
    node_outputs,
    value_name,
    value_type,
)
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.runtime.engine_models import GraphWriter, is_large, opsets_into
from onnx_passes.verify.content_key import initializers_of

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_SIMPLE = (
    ir.AttributeType.FLOAT,
    ir.AttributeType.FLOATS,
    ir.AttributeType.INT,
    ir.AttributeType.INTS,
    ir.AttributeType.STRING,
    ir.AttributeType.STRINGS,
)
_ONNX = ("", "ai.onnx.ml")
_WRITTEN = (ir.TensorType, type(None))
"""Types that can always be written; others are, each time."""


@dataclass
class CheckedNodes:
    """Nodes and tensors that the checker has accepted, under one set of opset imports.

    Attributes:
        context: IR version and opset imports; where others are asked for, nothing is known.
        forms: What decides the checker's answer on a node or a tensor, where it accepted it.
        held: Small tensors by identity, kept so that ids stay unique.
    """

    context: Hashable = None
    forms: set[Hashable] = field(default_factory=set)
    held: dict[int, ir.TensorProtocol] = field(default_factory=dict)

    def accept(self, model: ir.Model, check: Callable[[onnx.ModelProto], object]) -> bool:
        """Ask the checker about the parts of a model that it has not accepted yet.

        Args:
            model: A model whose names and order are sound.
            check: Asks the checker about a protobuf, and raises what it raises.

        Returns:
            Whether it accepts them; if not, or if the model has subgraphs or functions, it
            has to be asked about the whole model.
        """
        if model.functions:
            return False
        context = (model.ir_version, tuple(sorted(model.opset_imports.items())))
        if context != self.context:
            self.context, self.forms, self.held = context, set(), {}
        fresh = self._fresh_nodes(model.graph)
        if fresh is None:
            return False
        of_tensors, values = self._fresh_initializers(model.graph)
        if any(not value.name for value in values):
            return False
        forms, nodes = fresh
        try:
            check(_proto_of(model, values, nodes))
        except Exception:  # whatever it is, it is the whole model that it is said of
            return False
        self.forms.update(forms, of_tensors)
        return True

    def _fresh_nodes(self, graph: ir.Graph) -> tuple[list[Hashable], list[ir.Node]] | None:
        """Return new forms, and the nodes to be looked at; None where one holds a graph."""
        known, nodes = set(self.forms), list[ir.Node]()
        for node in graph:
            attributes = node_attributes(node).values()
            if any(attribute.type in _GRAPHS for attribute in attributes):
                return None
            form = self._form(node, attributes)
            if form is None or form not in known:
                nodes.append(node)
                known.add(form)
        return list(known - self.forms - {None}), nodes

    def _form(self, node: ir.Node, attributes: Iterable[ir.Attr]) -> Hashable | None:
        """Return what decides the checker's answer; None where it is to be asked each time."""
        domain, op_type, overload, _, _ = node_head(node)
        outputs = node_outputs(node)
        if domain not in _ONNX or not all(type(value_type(v)) in _WRITTEN for v in outputs):
            return None
        held: list[Hashable] = []
        for attribute in attributes:
            kind, value = attribute.type, attribute.value
            if kind == ir.AttributeType.TENSOR and value is not None:
                value = self._tensor(value)
            elif kind not in _SIMPLE:
                return None
            if value is None or attribute.is_ref():
                return None
            held.append((attribute.name, kind, value))
        operands = tuple([v is not None and bool(value_name(v)) for v in node_inputs(node)])
        results = tuple([bool(value_name(v)) for v in outputs])
        form = (domain, op_type, overload, operands, results, tuple(held))
        try:
            hash(form)
        except TypeError:
            return None
        return form

    def _tensor(self, tensor: ir.TensorProtocol) -> Hashable:
        """Return what decides the checker's answer on a tensor.

        Of a large one that is its type and shape, which is all that it is shown.
        """
        if id(tensor) in self.held:
            return id(tensor)
        if is_large(tensor):
            return (tensor.dtype, tuple(tensor.shape.numpy()))
        self.held[id(tensor)] = tensor
        return id(tensor)

    def _fresh_initializers(self, graph: ir.Graph) -> tuple[list[Hashable], list[ir.Value]]:
        """Return new forms of tensors, and the initializers to be looked at."""
        new: dict[Hashable, ir.Value] = {}
        for value in initializers_of(graph).values():
            if value.const_value is not None:
                form = self._tensor(value.const_value)
                if form not in self.forms or not value.name:
                    new[form] = value
        return list(new), list(new.values())


def _proto_of(
    model: ir.Model, initializers: Sequence[ir.Value], nodes: Sequence[ir.Node]
) -> onnx.ModelProto:
    """Return a model of some nodes, in which all that they read is defined.

    Args:
        model: The model that they are from.
        initializers: The initializers that are written.
        nodes: The nodes, in order.
    """
    proto = onnx.ModelProto(ir_version=model.ir_version, domain=model.domain or "")
    opsets_into(proto.opset_import, model.opset_imports)
    writer = GraphWriter.of_model(proto.graph, model)
    writer.interface_into(proto.graph, model.graph)
    for value in initializers:
        writer.initializer_into(proto.graph, value)
    writer.nodes_into(proto.graph, nodes)
    known = {"", *(entry.name for entry in (*proto.graph.input, *proto.graph.initializer))}
    rest: dict[str, None] = {}
    for node in proto.graph.node:
        rest |= dict.fromkeys(name for name in node.input if name not in known)
        known.update(node.output)
    rest |= dict.fromkeys(out.name for out in proto.graph.output if out.name not in known)
    proto.graph.input.extend(map(_any, rest))
    attach_bodies(proto)
    return proto


def _any(name: str) -> onnx.ValueInfoProto:
    """Declare a value that the checker is not asked about."""
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ())
