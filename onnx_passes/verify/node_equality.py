"""Whether a node of one model computes what that of another does, from values of one name."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model.digest import leaf_key
from onnx_passes.model.tensor_bytes import release_pages, string_data, tensor_buffer
from onnx_passes.model.walk import (
    node_attributes,
    node_inputs,
    node_operator,
    node_outputs,
    reader,
    value_name,
)

_operator = reader(ir.Node("", "Identity", []), "domain", "op_type", "overload")
_LOOKED_THROUGH = frozenset({"Constant", "Identity"})
_NUMBERS = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}


def constant_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor that a value always holds; None where none is known.

    What a node computes is read off the node: a tensor noted at its output may be out of date.
    """
    producer = value.producer()
    if producer is None:
        # An initializer that is an input as well is a default, which callers may override.
        return None if value.is_graph_input() else value.const_value
    if producer.op_type != "Constant" or producer.domain != "":
        return None
    for name, attribute in producer.attributes.items():
        if attribute.is_ref():
            return None
        if name == "value":
            tensor: ir.TensorProtocol = attribute.value
            return tensor
        if name in _NUMBERS:
            return ir.tensor(np.array(attribute.value, _NUMBERS[name]), name=value.name)
    return None


def same_tensor(old: ir.TensorProtocol, new: ir.TensorProtocol) -> bool:
    """Whether two tensors have one type, shape and content, however they are stored.

    Contents are compared, and not their digests, which passes that share tensors use.
    """
    if old is new:
        return True
    if old.dtype != new.dtype or old.shape != new.shape:
        return False
    if old.dtype is ir.DataType.STRING:
        return list(string_data(old)) == list(string_data(new))
    one, other = (np.frombuffer(tensor_buffer(t), np.uint8) for t in (old, new))
    same = np.array_equal(one, other)
    release_pages(old)
    release_pages(new)
    return same


@dataclass
class FoldedConstants:
    """Values that the model before computes, and the one after holds as constants, by name.

    ``refused`` names values that are not what the constant is.
    """

    tensors: dict[str, ir.TensorProtocol] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def take(self, name: str, tensor: ir.TensorProtocol) -> bool:
        """Assume that a value is a constant, if it is not refused."""
        if name in self.refused:
            return False
        return same_tensor(self.tensors.setdefault(name, tensor), tensor)


class NodeEquality:
    """Compares nodes of two models: by names, and constants by content.

    Contents are only looked into where both are not the same object, which is rare: models
    share the tensors that a pass has not touched.
    """

    def __init__(
        self, before: ir.Model, after: ir.Model, folded: FoldedConstants | None = None
    ) -> None:
        """Compare the functions that both have.

        With ``folded``, computed values of the main graph equal constants in their place, and
        the caller compares them; without, they count as changed.
        """
        self._folded, self._main = folded, before.graph
        self._versions = {
            domain: (before.opset_imports[domain], version)
            for domain, version in after.opset_imports.items()
            if before.opset_imports.get(domain, version) != version
        }
        self._changed: set[ir.OperatorIdentifier] = set()
        self._functions = after.functions
        if before.functions or after.functions:
            names = before.functions.keys() | after.functions.keys()
            self._changed = {
                name
                for name in names
                if name not in before.functions
                or name not in after.functions
                or not self._same_function(before.functions[name], after.functions[name])
            }
            self._spread()

    def same(self, old: ir.Node, new: ir.Node) -> bool:
        """Whether two nodes of main graphs compute the same from values of the same names."""
        if _operator(old) != _operator(new):
            return False
        read, other = node_inputs(old), node_inputs(new)
        made = [*map(value_name, node_outputs(old))]
        return (
            len(read) == len(other)
            and made == [*map(value_name, node_outputs(new))]
            and all(map(self._same_read, read, other))
            and (not self._changed or new.op_identifier() not in self._changed)
            and (not self._versions or self._same_version(new))
            and self._same_attributes(old, new)
        )

    def _same_version(self, node: ir.Node) -> bool:
        """Whether a node means the same operator in the opsets that both models import."""
        if node.domain not in self._versions or node.op_identifier() in self._functions:
            return True
        try:
            one, other = (
                onnx.defs.get_schema(node.op_type, version, node.domain).since_version
                for version in self._versions[node.domain]
            )
        except onnx.defs.SchemaError:
            return False
        return one == other

    def _same_attributes(self, old: ir.Node, new: ir.Node) -> bool:
        a, b = node_attributes(old), node_attributes(new)
        if not a and not b:
            return True
        return a.keys() == b.keys() and all(self._same_attribute(a[k], b[k]) for k in b)

    def _same_attribute(self, old: ir.Attr, new: ir.Attr) -> bool:
        if old is new:
            return True
        if old.type is not new.type or old.is_ref() or new.is_ref():
            return leaf_key(old) == leaf_key(new)
        if old.value is new.value:
            return True
        match new.type:
            case ir.AttributeType.GRAPH:
                return self._same_graph(old.as_graph(), new.as_graph())
            case ir.AttributeType.GRAPHS:
                theirs, ours = old.as_graphs(), new.as_graphs()
                return len(theirs) == len(ours) and all(map(self._same_graph, theirs, ours))
            case ir.AttributeType.TENSOR:
                return same_tensor(old.value, new.value)
        return leaf_key(old) == leaf_key(new)

    def _same_graph(self, old: ir.Graph, new: ir.Graph) -> bool:
        return (
            len(old) == len(new)
            and [v.name for v in old.inputs] == [v.name for v in new.inputs]
            and len(old.outputs) == len(new.outputs)
            and all(map(self._same_read, old.outputs, new.outputs))
            and all(map(self.same, old, new))
        )

    def _same_function(self, old: ir.Function, new: ir.Function) -> bool:
        return (
            old.opset_imports == new.opset_imports
            and list(old.attributes) == list(new.attributes)
            and all(
                map(self._same_attribute, old.attributes.values(), new.attributes.values())
            )
            and self._same_graph(old.graph, new.graph)
        )

    def _same_read(self, old: ir.Value | None, new: ir.Value | None) -> bool:
        if old is None or new is None:
            return old is new
        # Nearly all values are identified by their names, and nearly all the time of a region
        # goes here.
        one, other = old.producer(), new.producer()
        if one is not None and other is not None:
            if _LOOKED_THROUGH.isdisjoint((node_operator(one)[1], node_operator(other)[1])):
                return bool(value_name(old) == value_name(new))
        elif old.const_value is new.const_value and one is other and old.name == new.name:
            return old.is_graph_input() == new.is_graph_input()
        old, new = _source(old), _source(new)
        a, b = constant_tensor(old), constant_tensor(new)
        if a is not None and b is not None:
            return same_tensor(a, b)
        if a is None and b is None:
            return old.name == new.name
        if b is None or self._folded is None:
            return False
        node = old.producer()
        computed = node is not None and node.graph is self._main and bool(old.name)
        return computed and self._folded.take(str(old.name), b)

    def _spread(self) -> None:
        """Take callers of changed functions for changed, until no other calls one."""
        calls = {
            name: {node.op_identifier() for node in function.all_nodes()}
            for name, function in self._functions.items()
        }
        while more := {n for n, c in calls.items() if c & self._changed} - self._changed:
            self._changed |= more


def is_identity(node: ir.Node | None) -> bool:
    """Whether a node returns its input as it is, bit for bit."""
    return (
        node is not None
        and node.op_type == "Identity"
        and node.domain == ""
        and len(node.inputs) == 1
        and node.inputs[0] is not None
    )


def _source(value: ir.Value) -> ir.Value:
    """Return the value that a chain of Identity nodes returns."""
    while (node := value.producer()) is not None and is_identity(node):
        (read,) = node.inputs
        assert read is not None
        value = read
    return value


def branch_taken(node: ir.Node) -> str | None:
    """Return the attribute with the branch that an If always takes, if it is known."""
    value = node.inputs[0]
    tensor = None if value is None else constant_tensor(_source(value))
    if tensor is None:
        return None
    return "then_branch" if tensor.numpy().item() else "else_branch"


def never_iterates(node: ir.Node) -> bool:
    """Whether a Loop has no iteration, as constants among its operands say."""
    tensors = [None if v is None else constant_tensor(_source(v)) for v in node.inputs[:2]]
    counted, asked = (None if t is None else t.numpy().item() for t in tensors)
    return (counted is not None and counted <= 0) or asked is False
