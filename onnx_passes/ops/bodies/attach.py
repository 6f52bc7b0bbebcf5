"""Adding the bodies that a model needs to its protobuf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSequence
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir
from onnx import helper

from onnx_passes.ops.bodies.call_functions import specialised
from onnx_passes.ops.bodies.writer import BodyCall, Writer

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

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
    """Register the body of an operator.

    Args:
        op_type: Name of the operator.
        *domains: Its domains.

    Returns:
        A decorator that leaves the function as it is.
    """

    def register(write: Body) -> Body:
        for domain in domains:
            _BODIES[domain, op_type] = write
        return write

    return register


def register_function(
    domain: str, op_type: str, make: Callable[[], onnx.FunctionProto]
) -> None:
    """Register an operator whose function is written already, without an overload.

    Args:
        domain: Domain of the operator.
        op_type: Its name.
        make: Returns the function.
    """
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
    """Whether an operator is described here; it then computes the same result every time.

    Args:
        domain: Domain of the operator.
        op_type: Its name.
    """
    return (domain, op_type) in _BODIES or (domain, op_type) in _FUNCTIONS


def body_writer(domain: str, op_type: str) -> Body | None:
    """Return what writes the body of an operator, None if none was registered."""
    return _BODIES.get((domain, op_type))


def body_of(call: BodyCall) -> onnx.FunctionProto | None:
    """Return the function that computes a node.

    Args:
        call: The node.

    Returns:
        The function; None if the operator is not described here, or what its body depends on
        is not known.
    """
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

    Nodes are pointed to them by their overload. A function that the model has counts.

    Args:
        proto: The model, changed in place.

    Returns:
        Whether it had such nodes.
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
