"""Adding bodies to a model itself, for good or for as long as something reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.ops.bodies.attach import OVERLOADS, body_of, has_body, name_apart
from onnx_passes.ops.bodies.writer import BodyCall


@dataclass
class Attached:
    """What was added to a model.

    Attributes:
        nodes: Nodes that point to a function now, with the name that they had.
        functions: Functions that the model lacked.
        domains: Domains that the model did not import.
        ir_version: Version of the model before.
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

    Args:
        model: Changed in place: functions, overloads of nodes, imports and the IR version.
        domains: The domains whose operators get theirs; None for every domain with bodies.
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
