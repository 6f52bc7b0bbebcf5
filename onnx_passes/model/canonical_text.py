"""A model as lines of text that do not depend on inner names or the order of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.model.digest import leaf_key, tensor_digest
from onnx_passes.model.tensor_bytes import string_data
from onnx_passes.model.walk import captured_values

_SHOWN = 8


def canonical_lines(model: ir.Model) -> list[str]:
    """Print a model, one node a line.

    Nodes come in the order in which outputs need them, those that nothing needs last. A value
    is named by its operator and a count, ``relu0``; constants stand where they are used, large
    ones as a hash of their content. Types of inner values, doc strings and metadata are left
    out.

    Args:
        model: The model; it is not changed.
    """
    lines = [
        f"opset {domain or 'ai.onnx'} {v}" for domain, v in sorted(model.opset_imports.items())
    ]
    printer = _Printer()
    for value in model.graph.inputs:
        printer.names[value] = str(value.name)
        default = f" = {constant(value.const_value)}" if value.const_value is not None else ""
        lines.append(f"input {_typed(value)}{default}")
    lines += printer.body(model.graph, "")
    lines += [f"output {_typed(v)} = {printer.name(v)}" for v in model.graph.outputs]
    for (domain, name, overload), function in sorted(model.functions.items()):
        printer = _Printer()
        for index, value in enumerate(function.inputs):
            printer.names[value] = f"in{index}"
        title = "::".join(filter(None, (domain, name, overload)))
        attributes = ", ".join(_attribute(a) for a in function.attributes.values())
        lines.append(f"function {title}<{attributes}>({len(function.inputs)} inputs)")
        lines += printer.body(function.graph, "  ")
        lines.append(f"  return {', '.join(map(printer.name, function.outputs))}")
    return lines


def constant(tensor: ir.TensorProtocol) -> str:
    """Print a constant: small ones as numbers, large ones as a hash of their content."""
    kind = f"{tensor.dtype.name}[{','.join(map(str, tensor.shape))}]"
    if tensor.size > _SHOWN:
        return f"{kind}#{tensor_digest(tensor).hex()[:12]}"
    if tensor.dtype == ir.DataType.STRING:
        return f"{kind}{{{', '.join(map(repr, string_data(tensor)))}}}"
    return f"{kind}{{{', '.join(map(str, tensor.numpy().reshape(-1).tolist()))}}}"


def _typed(value: ir.Value) -> str:
    kind = str(value.type) if value.type is not None else "?"
    return f"{value.name}: {kind}{'[...]' if value.shape is None else value.shape}"


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"{attribute.name}=@{attribute.ref_attr_name}"
    if attribute.value is None:
        return attribute.name
    match attribute.type:
        case ir.AttributeType.TENSOR:
            return f"{attribute.name}={constant(attribute.as_tensor())}"
        case ir.AttributeType.TENSORS:
            return f"{attribute.name}=[{', '.join(map(constant, attribute.as_tensors()))}]"
        case ir.AttributeType.TYPE_PROTO | ir.AttributeType.TYPE_PROTOS:
            return f"{attribute.name}={leaf_key(attribute)[1:]}"
    return f"{attribute.name}={attribute.value!r}"


class _Printer:
    """Names given so far in one graph and all inside it."""

    def __init__(self) -> None:
        self.names: dict[ir.Value, str] = {}
        self.counts: Counter[str] = Counter()

    def name(self, value: ir.Value | None) -> str:
        if value is None:
            return "_"
        if value not in self.names:
            tensor = value.const_value if value.is_initializer() else None
            # What nothing makes is called by its own name.
            self.names[value] = constant(tensor) if tensor is not None else f"?{value.name}"
        return self.names[value]

    def body(self, graph: ir.Graph, indent: str) -> list[str]:
        lines: list[str] = []
        for node in _as_needed(graph):
            lines += self.node(node, indent)
        return lines

    def node(self, node: ir.Node, indent: str) -> list[str]:
        for value in node.outputs:
            label = node.op_type.lower()
            self.names[value] = f"{label}{self.counts[label]}" if value.name else "_"
            self.counts[label] += bool(value.name)
        inner: list[str] = []
        shown = []
        for name in sorted(node.attributes):
            attribute = node.attributes[name]
            if attribute.is_ref() or attribute.type not in (
                ir.AttributeType.GRAPH,
                ir.AttributeType.GRAPHS,
            ):
                shown.append(_attribute(attribute))
                continue
            single = attribute.type == ir.AttributeType.GRAPH
            for graph in (attribute.as_graph(),) if single else attribute.as_graphs():
                inner += self.subgraph(name, graph, indent + "  ")
        made = ", ".join(self.names[value] for value in node.outputs)
        operator = "::".join(filter(None, (node.domain, node.op_type, node.overload)))
        attributes = f"<{', '.join(shown)}>" if shown else ""
        taken = ", ".join(map(self.name, node.inputs))
        return [f"{indent}{made} = {operator}{attributes}({taken})", *inner]

    def subgraph(self, name: str, graph: ir.Graph, indent: str) -> list[str]:
        for value in graph.inputs:
            self.names[value] = f"{name}_in{self.counts[name]}"
            self.counts[name] += 1
        inputs = ", ".join(map(self.name, graph.inputs))
        lines = [f"{indent}{name}({inputs}):", *self.body(graph, indent + "  ")]
        return [*lines, f"{indent}  return {', '.join(map(self.name, graph.outputs))}"]


def _as_needed(graph: ir.Graph) -> list[ir.Node]:
    """List nodes as outputs need them, then the rest in order.

    Cycles do not matter: a node that is being visited is not visited again.
    """
    order: dict[ir.Node, None] = {}
    seen: set[ir.Node] = set()
    roots = [value.producer() for value in graph.outputs]
    for root in [*roots, *graph]:
        stack: list[tuple[ir.Node, bool]] = [(root, False)] if root is not None else []
        while stack:
            node, done = stack.pop()
            if done:
                order[node] = None
            elif node not in seen and node.graph is graph:
                seen.add(node)
                stack.append((node, True))
                stack += [(p, False) for p in reversed(_producers(node))]
    return list(order)


def _producers(node: ir.Node) -> list[ir.Node]:
    used: Iterable[ir.Value | None] = (*node.inputs, *captured_values(node))
    found = [value.producer() for value in used if value is not None]
    return [producer for producer in found if producer is not None]
