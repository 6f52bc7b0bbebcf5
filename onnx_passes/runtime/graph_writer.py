"""Graphs as protobuf, node by node, with large tensors left out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, MutableSequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import node_head, node_inputs, node_outputs, value_name
from onnx_passes.runtime.tensor_protos import (
    declare_into,
    inline_into,
    is_large,
    value_info_into,
)

_FIRST_FUNCTION_VALUE_INFO = 10  # IR version; before it, FunctionProto had no value_info


def _definitions(graph: ir.Graph) -> Counter[str]:
    values = [
        *graph.inputs,
        *(v for v in graph.initializers.values() if not v.is_graph_input()),
    ]
    for node in graph.all_nodes():
        values.extend(node.outputs)
        for attribute in node.attributes.values():
            for inner in _subgraphs(attribute):
                values.extend((*inner.inputs, *inner.initializers.values()))
    return Counter(value.name for value in values if value.name)


def _subgraphs(attribute: ir.Attr) -> Iterable[ir.Graph]:
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return attribute.as_graphs() if attribute.type == ir.AttributeType.GRAPHS else ()


@dataclass
class GraphWriter:
    """Writes one tree of scopes: the main graph with its subgraphs, or a function's body.

    Attributes:
        main: The main graph, where large tensors go; None inside a function, which has none.
        scope: The graph whose names a tensor that moves must not have.
        weights: The tensors left out so far.
        renamed: Subgraph values that moved under another name.
        used: Names that nodes take and graphs return.
        types: Types and shapes that were written, by what decides how they are.
    """

    main: onnx.GraphProto | None = None
    model: ir.Model | None = None
    weights: dict[str, ir.TensorProtocol] = field(default_factory=dict)
    renamed: dict[ir.Value, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    types: dict[Hashable, onnx.TypeProto] = field(default_factory=dict)

    @classmethod
    def of_model(cls, main: onnx.GraphProto, model: ir.Model) -> GraphWriter:
        """Return the writer for the main graph of a model.

        Args:
            main: The protobuf of the main graph.
            model: The model.
        """
        return cls(main, model)

    def graph_into(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        """Write a graph and everything below it.

        Args:
            proto: The protobuf that is written to.
            graph: The graph.
        """
        self.interface_into(proto, graph)
        for value in graph.initializers.values():
            self.initializer_into(proto, value)
        self.nodes_into(proto, graph)

    def interface_into(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        """Write the name, the inputs and the outputs of a graph.

        Args:
            proto: The protobuf that is written to.
            graph: The graph.
        """
        proto.name = graph.name or "graph"
        for value in graph.inputs:
            ir.serde.serialize_value_into(proto.input.add(), value)
        for value in graph.outputs:
            ir.serde.serialize_value_into(proto.output.add(), value)
            self.used.add(str(value.name))

    def initializer_into(self, proto: onnx.GraphProto, value: ir.Value) -> None:
        """Write an initializer, or declare it where its tensor is large.

        Args:
            proto: The protobuf of its graph.
            value: The initializer; one without a tensor is left out.
        """
        tensor = value.const_value
        if tensor is None or self._leave_out(proto, value, tensor):
            return
        if not value.is_graph_input():
            value_info_into(proto, value, self.types)
        inline_into(proto.initializer.add(), value.name, tensor)

    def drop_unused(self) -> None:
        """Take back what nothing uses: engines drop it first, and then miss its place."""
        if self.main is None:
            return
        inputs = {value.name for value in self.main.input}
        for index in reversed(range(len(self.main.initializer))):
            proto = self.main.initializer[index]
            if proto.name in self.used or proto.name not in self.weights:
                continue
            tensor = self.weights.pop(proto.name)
            if proto.name in inputs:  # without a value, it would have to be fed
                inline_into(self.main.initializer[index], proto.name, tensor)
            else:
                del self.main.initializer[index]

    def nodes_into(
        self, proto: onnx.GraphProto | onnx.FunctionProto, nodes: Iterable[ir.Node]
    ) -> None:
        """Write nodes, and what is known of their outputs.

        Args:
            proto: The protobuf of the graph or function.
            nodes: The nodes in order.
        """
        for node in nodes:
            if isinstance(proto, onnx.GraphProto) and self._constant_left_out(proto, node):
                continue
            self._node_into(proto, node)
            for value in node.outputs:
                if not value.is_graph_output():
                    value_info_into(proto, value, self.types)

    def _constant_left_out(self, proto: onnx.GraphProto, node: ir.Node) -> bool:
        # To an engine, a Constant node is an initializer.
        if node.op_type != "Constant":
            return False
        value = node.attributes.get("value")
        return (
            node.op_identifier() == ("", "Constant", "")
            and value is not None
            and not value.is_ref()
            and value.type == ir.AttributeType.TENSOR
            and self._leave_out(proto, node.outputs[0], value.value)
        )

    def _leave_out(
        self, proto: onnx.GraphProto, value: ir.Value, tensor: ir.TensorProtocol
    ) -> bool:
        """Declare ``tensor`` in the main graph and keep it beside, if it is large."""
        name = value.name
        if self.main is None or not name or not is_large(tensor):
            return False
        if proto is not self.main:
            # The interface of a subgraph is by position: its values cannot leave it.
            if value.is_graph_input() or value.is_graph_output():
                return False
            name = self._unused_name(name)
            if name != value.name:
                self.renamed[value] = name
        declare_into(self.main.initializer.add(), name, tensor)
        if not value.is_graph_input() and not value.is_graph_output():
            value_info_into(self.main, value, self.types, name)
        self.weights[name] = tensor
        return True

    @cached_property
    def definitions(self) -> Counter[str]:
        """How many values have a name, over the whole tree."""
        return Counter() if self.model is None else _definitions(self.model.graph)

    def _unused_name(self, name: str) -> str:
        # Sibling subgraphs may use one name twice; in the main graph it would be one value.
        if self.definitions[name] == 1:
            return name
        names = (f"{name}_{count}" for count in itertools.count(1))
        unused = next(name for name in names if not self.definitions[name])
        self.definitions[unused] = 1
        return unused

    def _node_into(self, proto: onnx.GraphProto | onnx.FunctionProto, node: ir.Node) -> None:
        renamed = self.renamed
        inputs = [
            "" if value is None else renamed.get(value) or value_name(value) or ""
            for value in node_inputs(node)
        ]
        self.used.update(inputs)
        outputs = [value_name(value) or "" for value in node_outputs(node)]
        while outputs and not outputs[-1]:
            outputs.pop()
        domain, op_type, overload, name, _ = node_head(node)
        written = proto.node.add(
            op_type=op_type,
            domain=domain,
            name=name or "",
            overload=overload,
            input=inputs,
            output=outputs,
        )
        for attribute in node.attributes.data.values():
            self._attribute_into(written.attribute.add(), attribute)

    def _attribute_into(self, proto: onnx.AttributeProto, attribute: ir.Attr) -> None:
        if attribute.is_ref():
            ir.serde.serialize_reference_attribute_into(proto, attribute)
            return
        match attribute.type:
            case ir.AttributeType.GRAPH:
                self.graph_into(proto.g, attribute.as_graph())
            case ir.AttributeType.GRAPHS:
                for graph in attribute.as_graphs():
                    self.graph_into(proto.graphs.add(), graph)
            case ir.AttributeType.TENSOR:
                tensor = attribute.value  # not as_tensor(), which takes 30 us
                inline_into(proto.t, tensor.name, tensor)
            case ir.AttributeType.TENSORS:
                for tensor in attribute.as_tensors():
                    inline_into(proto.tensors.add(), tensor.name, tensor)
            case _:
                ir.serde.serialize_attribute_into(proto, attribute)
                return
        proto.name = attribute.name
        proto.type = onnx.AttributeProto.AttributeType.Name(attribute.type.value)


def function_into(proto: onnx.FunctionProto, function: ir.Function, ir_version: int) -> None:
    """Write a function, all of its tensors in place.

    Args:
        proto: Where to.
        function: The function.
        ir_version: Version of the model, which decides whether types of values have a place.
    """
    proto.domain, proto.name = function.domain, function.name
    proto.overload = function.overload
    opsets_into(proto.opset_import, function.opset_imports)
    proto.input.extend(str(value.name) for value in function.inputs)
    proto.output.extend(str(value.name) for value in function.outputs)
    for attribute in function.attributes.values():
        if attribute.value is None:
            proto.attribute.append(attribute.name)
        else:
            ir.serde.serialize_attribute_into(proto.attribute_proto.add(), attribute)
    GraphWriter().nodes_into(proto, function)
    if ir_version < _FIRST_FUNCTION_VALUE_INFO:
        del proto.value_info[:]


def opsets_into(
    proto: MutableSequence[onnx.OperatorSetIdProto], opsets: Mapping[str, int]
) -> None:
    """Write opset imports.

    Args:
        proto: The list that is written to.
        opsets: Versions by domain.
    """
    proto.extend(
        onnx.OperatorSetIdProto(domain=domain, version=version)
        for domain, version in opsets.items()
    )
