"""Write bodies of operators as functions, and attach to a model those that it needs.

A body is attached to a protobuf for an engine, or to the model itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.plain import Plain, PlainMapping

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun


_EMPTY = ""


@dataclass(frozen=True)
class BodyCall:
    """A node, as far as the body of its operator depends on it.

    ``opset`` is that of the standard domain around the node. None replaces what is not known:
    an attribute that refers to one of the function around the node, a shape, or a dimension.
    """

    domain: str
    op_type: str
    inputs: int
    attributes: PlainMapping
    opset: int
    shapes: tuple[tuple[int | None, ...] | None, ...] = ()

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def integer(self, name: str, default: int) -> int:
        return int(self.attributes.get(name, default))

    def number(self, name: str, default: float) -> float:
        return float(self.attributes.get(name, default))

    def integers(self, name: str, default: Sequence[int]) -> list[int]:
        return [int(item) for item in self.attributes.get(name, default)]

    def shape(self, index: int) -> tuple[int | None, ...] | None:
        """Return the declared shape of an input."""
        return self.shapes[index] if index < len(self.shapes) else None


@dataclass
class Writer:
    """The nodes of a body; a method of an operator's name adds a node and names its result."""

    call: BodyCall
    inputs: list[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    @property
    def opset(self) -> int:
        """Version of the standard domain."""
        return self.call.opset

    def __getattr__(self, op_type: str) -> Callable[..., str]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def add(*inputs: str, **attributes: Plain) -> str:
            name = f"v{len(self.nodes)}"
            self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
            return name

        return add

    def tensor(self, value: Array | np.generic) -> str:
        """Add a constant."""
        return self.Constant(value=numpy_helper.from_array(np.asarray(value)))

    def number(self, value: float, like: str | None = None) -> str:
        """Add a float32 scalar, or from opset 15 on one in the type of the value ``like``."""
        constant = self.tensor(np.float32(value))
        return self.CastLike(constant, like) if like and self.opset >= 15 else constant

    def integer(self, value: int) -> str:
        """Add an int64 scalar."""
        return self.tensor(np.array(value, dtype=np.int64))

    def shape(self, *dims: int) -> str:
        """Add a constant list of integers."""
        return self.tensor(np.array(dims, dtype=np.int64))

    def unsqueeze(self, x: str, axes: Sequence[int]) -> str:
        """Add dimensions of size 1 at these axes of the result."""
        if self.opset < 13:
            return self.Unsqueeze(x, axes=list(axes))
        return self.Unsqueeze(x, self.shape(*axes))

    def sum_last(self, x: str, rank: int | None) -> str:
        """Sum over the axis behind those of a value, and remove it."""
        # ONNX Runtime 1.31 reduces an empty tensor over a negative axis to another rank.
        axis = -1 if rank is None else rank
        if self.opset < 13:
            return self.ReduceSum(x, axes=[axis], keepdims=0)
        return self.ReduceSum(x, self.shape(axis), keepdims=0)

    def at_least(self, x: str, bound: str) -> str:
        """Add ``x >= bound``, false for NaN."""
        if self.opset >= 12:
            return self.GreaterOrEqual(x, bound)
        # A bound that is NaN is not looked for: no quantiser has one.
        return self.And(self.Not(self.Less(x, bound)), self.Not(self.IsNaN(x)))

    def function(self, result: str) -> onnx.FunctionProto:
        """Return the function that the nodes make."""
        output = "result"
        nodes = [*self.nodes, helper.make_node("Identity", [result], [output])]
        function = helper.make_function(
            self.call.domain,
            self.call.op_type,
            self.inputs,
            [output],
            nodes,
            [helper.make_opsetid(_EMPTY, self.opset)],
        )
        function.overload = digest_of(function)
        return function


def digest_of(function: onnx.FunctionProto) -> str:
    """Return a name for what a function computes: equal bodies are one overload."""
    return hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()[:12]


def specialised(function: onnx.FunctionProto, call: BodyCall) -> onnx.FunctionProto:
    """Put the attributes of a call into a function.

    The bodies of operators that it calls depend on attributes, which must be known then. A
    function without attributes is returned as it is, others as a copy with an overload. What
    the call does not give has the default of the function.
    """
    if not (function.attribute or function.attribute_proto):
        return function
    copy = onnx.FunctionProto()
    copy.CopyFrom(function)
    values = {attribute.name: attribute for attribute in copy.attribute_proto}
    for name in (*copy.attribute, *values):
        given = call.attributes.get(name)
        if given is not None:
            values[name] = helper.make_attribute(name, given)
    del copy.attribute[:], copy.attribute_proto[:]
    _resolve(copy.node, values)
    copy.overload = digest_of(copy)
    return copy


def _resolve(
    nodes: Iterable[onnx.NodeProto], values: Mapping[str, onnx.AttributeProto]
) -> None:
    for node in nodes:
        for attribute in [a for a in node.attribute if a.ref_attr_name]:
            value = values.get(attribute.ref_attr_name)
            if value is None:
                node.attribute.remove(attribute)  # an optional one that the call leaves out
                continue
            name = attribute.name
            attribute.CopyFrom(value)
            attribute.name = name
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _resolve(graph.node, values)


Body = Callable[[Writer], str]
"""Writes the nodes of a body and returns the name of its result."""

Shape = tuple[int | None, ...]

_BODIES: dict[tuple[str, str], Body] = {}
_FUNCTIONS: dict[tuple[str, str], Callable[[], onnx.FunctionProto]] = {}
_REFERENCES: dict[tuple[str, str], type[OpRun]] = {}

OVERLOADS = 10
"""IR version from which a function has overloads; before, a domain and a name are one."""

_FIRST_OPSET = 9
"""Bodies need Where, which older opsets lack."""


def body(op_type: str, *domains: str) -> Callable[[Body], Body]:
    """Register the body of an operator, as a decorator."""

    def register(write: Body) -> Body:
        for domain in domains:
            _BODIES[domain, op_type] = write
        return write

    return register


def register_function(
    domain: str, op_type: str, make: Callable[[], onnx.FunctionProto]
) -> None:
    """Register an operator whose function is written already, without an overload."""
    _FUNCTIONS[domain, op_type] = make


def registered_functions() -> list[onnx.FunctionProto]:
    """Return every function of :func:`register_function`."""
    return [make() for make in _FUNCTIONS.values()]


def register_reference(operator: type[OpRun]) -> None:
    """Register an operator for onnx's reference evaluator: a class as it takes them."""
    _REFERENCES[operator.op_domain, operator.__name__] = operator


def registered_references() -> list[type[OpRun]]:
    """Return every class of :func:`register_reference`."""
    return [*_REFERENCES.values()]


def has_body(domain: str, op_type: str) -> bool:
    """Whether an operator is described here; it then computes the same result every time."""
    return (domain, op_type) in _BODIES or (domain, op_type) in _FUNCTIONS


def body_writer(domain: str, op_type: str) -> Body | None:
    """Return what writes the body of an operator, None if none was registered."""
    return _BODIES.get((domain, op_type))


def body_of(call: BodyCall) -> onnx.FunctionProto | None:
    """Return the function that computes a node; None if what it depends on is not known."""
    key = call.domain, call.op_type
    if key in _FUNCTIONS:
        return specialised(_FUNCTIONS[key](), call)
    write = _BODIES.get(key)
    if write is None or call.opset < _FIRST_OPSET or None in call.attributes.values():
        return None
    writer = Writer(call, [f"in{index}" for index in range(call.inputs)])
    try:
        return writer.function(write(writer))
    except ValueError:
        return None  # an engine says what it does not know, with the name of the node


def attach_bodies(proto: onnx.ModelProto) -> bool:
    """Add the functions that a model's nodes call and the model lacks.

    Nodes are pointed to them by their overload. A function that the model has counts. Changes
    the model in place, and returns whether it had such nodes.
    """
    wanted = [node for node in _all_nodes(proto) if has_body(node.domain, node.op_type)]
    if not wanted:
        return False
    shapes = _declared(proto.graph)
    present = {(f.domain, f.name, f.overload) for f in proto.functions}
    opset = _standard(proto.opset_import)
    todo = [(node, opset, False) for node in _nodes(proto.graph.node)]
    for function in proto.functions:
        version = _standard(function.opset_import) or opset
        todo += [(node, version, True) for node in _nodes(function.node)]
    changed = False
    while todo:
        node, version, inside = todo.pop()
        key = node.domain, node.op_type, node.overload
        if key in present or not has_body(node.domain, node.op_type):
            continue
        made = body_of(_call(node, version, shapes))
        if made is None:
            continue
        changed = True
        if inside and made.overload:
            name_apart(made)
        node.op_type, node.overload = made.name, made.overload
        key = made.domain, made.name, made.overload
        if key not in present:
            present.add(key)
            proto.functions.append(made)
            _import(proto.opset_import, made.domain)
            inner = _standard(made.opset_import) or version
            todo += [(n, inner, True) for n in _nodes(proto.functions[-1].node)]
    if changed and any(function.overload for function in proto.functions):
        proto.ir_version = max(proto.ir_version, OVERLOADS)
    return changed


def name_apart(function: onnx.FunctionProto | ir.Function) -> None:
    """Put the overload of a function into its name.

    ONNX Runtime does not look at the overloads of calls inside functions.
    """
    function.name, function.overload = f"{function.name}_{function.overload}", ""


def _call(node: onnx.NodeProto, opset: int, shapes: Mapping[str, Shape]) -> BodyCall:
    attributes = {
        a.name: None if a.ref_attr_name else helper.get_attribute_value(a)
        for a in node.attribute
    }
    inputs = tuple(shapes.get(name) for name in node.input)
    return BodyCall(node.domain, node.op_type, len(node.input), attributes, opset, inputs)


def _all_nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    yield from _nodes(proto.graph.node)
    for function in proto.functions:
        yield from _nodes(function.node)


def _nodes(nodes: MutableSequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g.node)
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                for graph in attribute.graphs:
                    yield from _nodes(graph.node)


def _standard(imports: MutableSequence[onnx.OperatorSetIdProto]) -> int:
    return next((i.version for i in imports if i.domain in ("", "ai.onnx")), 0)


def _import(imports: MutableSequence[onnx.OperatorSetIdProto], domain: str) -> None:
    if all(each.domain != domain for each in imports):
        imports.append(helper.make_opsetid(domain, 1))


def _declared(graph: onnx.GraphProto) -> dict[str, Shape]:
    found: dict[str, Shape] = {t.name: tuple(t.dims) for t in graph.initializer}
    for node in graph.node:  # a constant that a rewrite makes is not declared
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            found[node.output[0]] = tuple(node.attribute[0].t.dims)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                found |= _declared(body)
    for info in (*graph.input, *graph.output, *graph.value_info):
        tensor = info.type.tensor_type
        if tensor.HasField("shape"):
            dims = (d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
            found[info.name] = tuple(dims)
    return found


@dataclass
class Attached:
    """What was added to a model.

    ``ir_version`` is that of the model before. ``nodes`` point to a function now; each comes
    with the name that it had. The model lacked ``functions``, and did not import ``domains``.
    """

    ir_version: int
    nodes: list[tuple[ir.Node, str]] = field(default_factory=list)
    functions: list[ir.OperatorIdentifier] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)

    def undo(self, model: ir.Model) -> None:
        """Take everything out of the model again."""
        for node, op_type in self.nodes:
            node.op_type, node.overload = op_type, ""
        for key in self.functions:
            del model.functions[key]
        for domain in self.domains:
            del model.opset_imports[domain]
        model.ir_version = self.ir_version


def attach_to_model(model: ir.Model, domains: tuple[str, ...] | None = None) -> Attached:
    """Add the functions that a model's nodes call and the model lacks.

    Changes functions, overloads of nodes, imports and the IR version in place. None means
    every domain with bodies.
    """
    made = Attached(model.ir_version)
    scopes = [(list(model.graph.all_nodes()), model.opset_imports, False)]
    scopes += [(list(f.all_nodes()), f.opset_imports, True) for f in model.functions.values()]
    while scopes:
        nodes, imports, inside = scopes.pop()
        version = imports.get("") or model.opset_imports.get("", 0)
        for node in nodes:
            if node.op_identifier() in model.functions:
                continue
            if domains is not None and node.domain not in domains:
                continue
            function = _body(node, version)
            if function is None:
                continue
            if function.overload:
                made.nodes.append((node, node.op_type))
                if inside:
                    name_apart(function)
                node.op_type, node.overload = function.name, function.overload
            key = function.identifier()
            if key not in model.functions:
                model.functions[key] = function
                made.functions.append(key)
                if function.domain not in model.opset_imports:
                    model.opset_imports[function.domain] = 1
                    made.domains.append(function.domain)
                scopes.append((list(function.all_nodes()), function.opset_imports, True))
    if any(node.overload for node, _ in made.nodes):
        model.ir_version = max(model.ir_version, OVERLOADS)
    return made


def _body(node: ir.Node, version: int) -> ir.Function | None:
    if not has_body(node.domain, node.op_type) or node.overload:
        return None
    attributes = {a.name: None if a.is_ref() else a.value for a in node.attributes.values()}
    shapes = tuple(None if v is None else _dims(v.shape) for v in node.inputs)
    call = BodyCall(node.domain, node.op_type, len(node.inputs), attributes, version, shapes)
    proto = body_of(call)
    return None if proto is None else ir.serde.deserialize_function(proto)


def _dims(shape: ir.Shape | None) -> tuple[int | None, ...] | None:
    if shape is None:
        return None
    return tuple(d if isinstance(d, int) else None for d in shape)


@contextmanager
def bodies_attached(model: ir.Model) -> Iterator[None]:
    """Let a model have the bodies of its operators while something reads it."""
    made = attach_to_model(model)
    try:
        yield
    finally:
        made.undo(model)
