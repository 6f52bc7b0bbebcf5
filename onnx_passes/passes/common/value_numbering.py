"""Which nodes compute the same result: determinism, and keys by which two are equal."""

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.model.digest import leaf_key, tensor_digest, value_key
from onnx_passes.ops import elementwise  # noqa: F401 (makes operators known)
from onnx_passes.ops.node_queries import RANDOM, RANDOM_CONTRIB
from onnx_passes.ops.operator_class import operators
from onnx_passes.passes.common.graph_edits import nodes_within
from onnx_passes.passes.constants import constant, is_constant

PURE_DOMAINS = frozenset({"", "ai.onnx.ml"})
"""Domains whose operators, those above aside, are functions of their inputs."""


class Determinism:
    """Decides for each node of a model whether it computes the same result every time.

    An operator of an unknown domain may draw random numbers or keep state: it is not trusted.
    """

    def __init__(self, model: ir.Model) -> None:
        """Look at no node yet."""
        self._functions = model.functions
        self._bodies: dict[ir.OperatorIdentifier, bool] = {}

    def holds(self, node: ir.Node, imports: Mapping[str, int]) -> bool:
        """Whether ``node``, its subgraphs and the functions it calls are deterministic.

        ``imports`` are those of the model, or of the function around the node.
        """
        return all(self._own(inner, imports) for inner in nodes_within(node))

    def _own(self, node: ir.Node, imports: Mapping[str, int]) -> bool:
        key = node.op_identifier()
        if key in self._functions:
            return self._body(key)
        if node.domain == "com.microsoft":
            return node.op_type not in RANDOM_CONTRIB
        if node.domain not in PURE_DOMAINS:
            return False
        if node.op_type == "Dropout":
            return is_inference_dropout(node, imports.get("", 1))
        return node.op_type not in RANDOM

    def _body(self, key: ir.OperatorIdentifier) -> bool:
        if key not in self._bodies:
            self._bodies[key] = False  # a function that calls itself is not trusted
            function = self._functions[key]
            self._bodies[key] = all(
                self.holds(node, function.opset_imports) for node in function
            )
        return self._bodies[key]


def is_inference_dropout(node: ir.Node, opset: int) -> bool:
    """Whether a Dropout node surely drops nothing.

    Before opset 7 an attribute ``is_test`` says so, from 12 on the third input
    ``training_mode``; in between Dropout is always for inference.
    """
    if opset < 7:
        attribute = node.attributes.get("is_test")
        return attribute is not None and not attribute.is_ref() and attribute.as_int() == 1
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    return mode is None or (is_constant(mode) and not constant(mode).any())


Key = tuple[object, ...]

COMMUTATIVE = frozenset(o.op_type for o in operators() if o.algebra.commutative)
"""Operators whose operands may change places, bit for bit. For -0, those of Max may not.

Before opset 7, attributes align the second operand with the first.
"""


def node_key(node: ir.Node, local: Mapping[ir.Value, int] | None = None) -> Key:
    """Return a key that nodes share if they compute the same outputs from the same values.

    Subgraphs are compared by structure, what they capture by identity; ``local`` has numbers
    for values that are local to one.
    """
    numbers = local or {}
    inputs: list[object] = [_value_key(value, numbers) for value in node.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()
    if node.op_type in COMMUTATIVE and not node.domain and not node.attributes:
        inputs.sort(key=str)
    outputs = [bool(value.name) for value in node.outputs]
    while outputs and not outputs[-1]:
        outputs.pop()
    attributes = tuple(
        (name, _attribute_key(attribute, numbers))
        for name, attribute in sorted(node.attributes.items())
    )
    return (node.op_identifier(), tuple(inputs), tuple(outputs), attributes)


def graph_key(graph: ir.Graph) -> Key:
    """Return a key that subgraphs share if they compute the same, whatever names they use."""
    return _graph_key(graph, {})


def _value_key(value: ir.Value | None, numbers: Mapping[ir.Value, int]) -> object:
    if value is None:
        return None
    # Never a bare number: id(value) and a local number must not meet.
    return ("local", numbers[value]) if value in numbers else ("value", id(value))


def _attribute_key(attribute: ir.Attr, numbers: Mapping[ir.Value, int]) -> Key:
    if not attribute.is_ref() and attribute.type is ir.AttributeType.GRAPH:
        return ("graph", _graph_key(attribute.as_graph(), numbers))
    if not attribute.is_ref() and attribute.type is ir.AttributeType.GRAPHS:
        return ("graphs", tuple(_graph_key(g, numbers) for g in attribute.as_graphs()))
    return leaf_key(attribute)


def _graph_key(graph: ir.Graph, outer: Mapping[ir.Value, int]) -> Key:
    numbers = dict(outer)
    for value in (*graph.inputs, *graph.initializers.values()):
        numbers.setdefault(value, len(numbers))
    for node in graph:
        for value in node.outputs:
            numbers[value] = len(numbers)
    return (
        tuple(value_key(value) for value in graph.inputs),
        tuple(
            None if value.const_value is None else tensor_digest(value.const_value)
            for value in graph.initializers.values()
        ),
        tuple(node_key(node, numbers) for node in graph),
        tuple((_value_key(value, numbers), value_key(value)) for value in graph.outputs),
    )
