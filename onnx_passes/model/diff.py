"""Whether two models are the same graph, and how they differ.

Nodes are aligned whatever their names are. Canonical text does not depend on inner names.
"""

import difflib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.scores import blocks, widen
from onnx_passes.model.copy import copy_model
from onnx_passes.model.digest import canonical_hash, digest, leaf_key, tensor_digest, value_key
from onnx_passes.model.tensor_bytes import string_data
from onnx_passes.model.walk import (
    all_graphs,
    captured_values,
    graphs_of,
    topological_order,
    values_read,
)
from onnx_passes.plain import PlainDict

_SHOWN = 8


def canonical_lines(model: ir.Model) -> list[str]:
    """Print a model, one node a line.

    Nodes come in the order in which outputs need them, those that nothing needs last. A value
    is named by its operator and a count, ``relu0``; constants stand where they are used, large
    ones as a hash of their content. Types of inner values, doc strings and metadata are left
    out.
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
    return f"{value.name}: {_type_of(value)}"


def _type_of(value: ir.Value) -> str:
    kind = str(value.type) if value.type is not None else "?"
    return f"{kind}{'[...]' if value.shape is None else value.shape}"


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
            graphs = graphs_of(attribute)
            shown += [] if graphs else [_attribute(attribute)]
            for graph in graphs:
                inner += self.subgraph(name, graph, indent + "  ")
        made = ", ".join(self.names[value] for value in node.outputs)
        attributes = f"<{', '.join(shown)}>" if shown else ""
        taken = ", ".join(map(self.name, node.inputs))
        return [f"{indent}{made} = {operator(node)}{attributes}({taken})", *inner]

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
                makers = [value.producer() for value in values_read(node)]
                stack += [(maker, False) for maker in reversed(makers) if maker]
    return list(order)


_LINES = 60


def structurally_equal(a: ir.Model, b: ir.Model) -> bool:
    """Whether two models are one up to inner names, node order and annotations.

    Constants are equal by content, whether they are initializers or Constant nodes, and
    initializers that nothing reads do not count. Neither model is changed. Raises
    ``ModelError`` if a graph has a cycle, or weights cannot be read.
    """
    return _hash(_canonical(a)) == _hash(_canonical(b))


def explain_difference(a: ir.Model, b: ir.Model) -> str:
    """Show how models differ up to inner names, node order and annotations.

    ``b`` is the model expected. The result is a unified diff from ``b`` to ``a``, of at most
    60 lines; it is empty if they are equal.
    """
    got, want = _canonical(a), _canonical(b)
    lines = list(
        difflib.unified_diff(
            canonical_lines(want), canonical_lines(got), "expected", "actual", lineterm="", n=2
        )
    )
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"... and {len(lines) - _LINES} lines more"]
    if not lines and _hash(got) != _hash(want):
        return "equal line by line, but what one model shares the other repeats"
    return "\n".join(lines)


def _hash(model: ir.Model) -> str:
    return canonical_hash(model, annotations=False)


def _canonical(model: ir.Model) -> ir.Model:
    """Return a copy in which constants are initializers, and nothing unread is left."""
    copy = copy_model(model)
    for graph in all_graphs(copy):
        for node in list(graph):
            tensor = _constant(node)
            if tensor is not None:
                (value,) = node.outputs
                if value.is_graph_output():
                    continue
                constant = ir.val(value.name, const_value=tensor)
                value.replace_all_uses_with(constant)
                graph.remove(node)
                graph.register_initializer(constant)
        for name in [n for n, v in graph.initializers.items() if _unread(v)]:
            del graph.initializers[name]
    return copy


def _constant(node: ir.Node) -> ir.TensorProtocol | None:
    if node.op_type != "Constant" or node.domain or len(node.attributes) != 1:
        return None
    (attribute,) = node.attributes.values()
    if attribute.is_ref() or attribute.name == "sparse_value":
        return None
    if attribute.name == "value":
        # onnx-ir's function would rename the tensor, which the original shares.
        return attribute.as_tensor()
    return ir.convenience.get_const_tensor(node.outputs[0])


def _unread(value: ir.Value) -> bool:
    return not (value.uses() or value.is_graph_input() or value.is_graph_output())


def align(a: ir.Graph, b: ir.Graph) -> dict[ir.Node, ir.Node]:
    """Pair the nodes of two graphs, each with one of the same operator, or with none.

    Nodes pair that compute the same from the same inputs. Then pair those with the same
    operators before them, or after them, then those at the same place of a pair. Where several
    fit, the one of the same name is taken, else the first. The nodes of ``a`` are the keys.
    Raises ``ModelError`` if a graph has a cycle, or weights cannot be read.
    """
    pairs: dict[ir.Node, ir.Node] = {}
    for key in (_forward(exact=True), _forward(exact=False), _backward):
        _pair(a, b, key, pairs)
    _spread(b, pairs)
    return pairs


def operator(node: ir.Node) -> str:
    """Name an operator: ``domain::Op``."""
    return "::".join(filter(None, (node.domain, node.op_type, node.overload)))


def constant_of(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer that is not a graph input."""
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def _forward(*, exact: bool) -> Callable[[ir.Graph], dict[ir.Node, Hashable]]:
    def keys(graph: ir.Graph) -> dict[ir.Node, Hashable]:
        known: dict[ir.Value, bytes] = {}
        found: dict[ir.Node, Hashable] = {}

        def of(value: ir.Value | None) -> object:
            if value is None or value in known:
                return None if value is None else known[value]
            tensor = constant_of(value)
            if tensor is not None:
                return ("constant", tensor_digest(tensor) if exact else b"")
            return ("outer", str(value.name))

        for node in topological_order(graph):
            leaves = (
                (name, bool(graphs_of(attribute)) or leaf_key(attribute))
                for name, attribute in sorted(node.attributes.items())
            )
            mark = digest(
                operator(node),
                tuple(map(of, node.inputs)),
                tuple(of(v) for v in captured_values(node)),
                tuple(leaves) if exact else (),
            )
            found[node] = mark
            known |= {v: digest(mark, i) for i, v in enumerate(node.outputs)}
        return found

    return keys


def _backward(graph: ir.Graph) -> dict[ir.Node, Hashable]:
    found: dict[ir.Node, bytes] = {}
    roles = defaultdict(list)
    for place, value in enumerate(graph.outputs):
        roles[value].append(place)
    for node in reversed(topological_order(graph)):
        uses = tuple(
            (
                tuple(roles[value]),
                tuple(sorted((found.get(u.node, b""), u.idx) for u in value.uses())),
            )
            for value in node.outputs
        )
        found[node] = digest(operator(node), uses)
    return dict(found)


def _pair(
    a: ir.Graph,
    b: ir.Graph,
    keys: Callable[[ir.Graph], dict[ir.Node, Hashable]],
    pairs: dict[ir.Node, ir.Node],
) -> None:
    taken = set(pairs.values())
    free: defaultdict[Hashable, list[ir.Node]] = defaultdict(list)
    for node, key in keys(b).items():
        if node not in taken:
            free[key].append(node)
    left: defaultdict[Hashable, list[ir.Node]] = defaultdict(list)
    for node, key in keys(a).items():
        if node not in pairs:
            left[key].append(node)
    for key, nodes in left.items():
        named = {node.name: node for node in free[key]}
        late = []
        for node in nodes:
            other = named.pop(node.name, None) if node.name else None
            if other is None:
                late.append(node)
            else:
                pairs[node] = other
                free[key].remove(other)
        pairs |= dict(zip(late, free[key], strict=False))


def _spread(b: ir.Graph, pairs: dict[ir.Node, ir.Node]) -> None:
    """Pair neighbours of pairs: makers of the same input, users of the same output."""
    taken = set(pairs.values())
    queue = deque(pairs.items())
    while queue:
        left, right = queue.popleft()
        near = [
            (x.producer(), y.producer())
            for x, y in zip(left.inputs, right.inputs, strict=False)
            if x is not None and y is not None
        ]
        for x, y in zip(left.outputs, right.outputs, strict=False):
            for use in x.uses():
                near += [(use.node, other.node) for other in y.uses() if other.idx == use.idx]
        for one, other in near:
            if one is None or other is None or one in pairs or other in taken:
                continue
            if operator(one) == operator(other) and other.graph is b:
                pairs[one] = other
                taken.add(other)
                queue.append((one, other))


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
        kind: What differs.
        where: The node, the graph's side, or the value, by the names of the first model where
            it has them.
        before: What the first model has; empty if nothing.
        after: What the second model has; empty if nothing.
    """

    kind: Literal[
        "added", "removed", "attribute", "weight", "wiring", "interface", "opset", "other"
    ]
    where: str
    before: str = ""
    after: str = ""

    def as_dict(self) -> PlainDict:
        """Return what ``--json`` prints."""
        return asdict(self)

    def __str__(self) -> str:
        """Write as a line: ``+`` added, ``-`` removed, ``~`` changed."""
        if self.kind in ("added", "removed"):
            return f"{'+' if self.kind == 'added' else '-'} {self.where}"
        return f"~ {self.kind} {self.where}: {self.before or 'none'} -> {self.after or 'none'}"


def diff(a: ir.Model, b: ir.Model) -> list[Difference]:
    """List how two models differ; inner names, node order and annotations do not count.

    Args:
        a: The model before.
        b: The model after; neither is changed.

    Raises:
        ModelError: A graph has a cycle, or weights cannot be read.
    """
    if structurally_equal(a, b):
        return []
    found = list(_opsets(a, b))
    found += _graphs(a.graph, b.graph, "", interface=True)
    for key in sorted({*a.functions, *b.functions}):
        one, other = a.functions.get(key), b.functions.get(key)
        title = "function " + "::".join(filter(None, key))
        if one is None or other is None:
            found.append(Difference("added" if one is None else "removed", title))
        else:
            found += _graphs(one.graph, other.graph, f" in {title}")
    if not found:
        # Canonical forms differ where the pairing of nodes saw nothing: never called equal.
        found.append(Difference("other", "the models", explain_difference(b, a), "as shown"))
    return found


def _opsets(a: ir.Model, b: ir.Model) -> Iterator[Difference]:
    for domain in sorted({*a.opset_imports, *b.opset_imports}):
        one, other = a.opset_imports.get(domain), b.opset_imports.get(domain)
        if one != other:
            yield Difference("opset", domain or "ai.onnx", str(one or ""), str(other or ""))


def _graphs(
    a: ir.Graph,
    b: ir.Graph,
    within: str,
    outer: dict[ir.Value, ir.Value] | None = None,
    *,
    interface: bool = False,
) -> Iterator[Difference]:
    pairs = align(a, b)
    if interface:
        for role in ("inputs", "outputs"):
            yield from _interface(getattr(a, role), getattr(b, role), role[:-1])
    values = dict(outer or {})
    values |= {
        x: y
        for one, other in pairs.items()
        for x, y in zip(one.outputs, other.outputs, strict=False)
    }
    values |= dict(zip(a.inputs, b.inputs, strict=False)) if not interface else {}
    names = {value.name: value for value in b.inputs}
    if interface:
        values |= {value: names[value.name] for value in a.inputs if value.name in names}
    for node in a:
        if node not in pairs:
            yield Difference("removed", _line(node) + within)
    taken = set(pairs.values())
    for node in b:
        if node not in taken:
            yield Difference("added", _line(node) + within)
    known = set(values.values())
    for one in a:
        if one in pairs:
            yield from _nodes(one, pairs[one], values, known, within)
    for place, (x, y) in enumerate(zip(a.outputs, b.outputs, strict=False)):
        yield from _wire(x, y, values, known, f"graph output {place}{within}")


def _interface(a: list[ir.Value], b: list[ir.Value], role: str) -> Iterator[Difference]:
    old, new = {v.name: v for v in a}, {v.name: v for v in b}
    for name in dict.fromkeys([*old, *new]):
        one, other = old.get(name), new.get(name)
        if one is None or other is None or value_key(one) != value_key(other):
            before, after = ("" if v is None else _type_of(v) for v in (one, other))
            yield Difference("interface", f"{role} {name}", before, after)
    if [*old] != [*new] and sorted(map(str, old)) == sorted(map(str, new)):
        orders = (", ".join(map(str, names)) for names in (old, new))
        yield Difference("interface", f"order of {role}s", *orders)


def _nodes(
    a: ir.Node, b: ir.Node, values: dict[ir.Value, ir.Value], known: set[ir.Value], within: str
) -> Iterator[Difference]:
    where = f"{operator(a)} {a.name or _outputs(a)}{within}"
    for name in sorted({*a.attributes, *b.attributes}):
        one, other = a.attributes.get(name), b.attributes.get(name)
        if one and other and graphs_of(one) and graphs_of(other):
            for old, new in zip(graphs_of(one), graphs_of(other), strict=False):
                yield from _graphs(old, new, f" in {name} of {where}", values)
            continue
        if (one and leaf_key(one)) != (other and leaf_key(other)):
            yield Difference("attribute", f"{where} @{name}", _shown(one), _shown(other))
    for place in range(max(len(a.inputs), len(b.inputs))):
        x = a.inputs[place] if place < len(a.inputs) else None
        y = b.inputs[place] if place < len(b.inputs) else None
        yield from _wire(x, y, values, known, f"{where} input {place}")


def _wire(
    x: ir.Value | None,
    y: ir.Value | None,
    values: dict[ir.Value, ir.Value],
    known: set[ir.Value],
    where: str,
) -> Iterator[Difference]:
    old, new = constant_of(x), constant_of(y)
    if old is not None and new is not None:
        if tensor_digest(old) != tensor_digest(new):
            after = f"{constant(new)}{_norms(old, new)}"
            yield Difference(
                "weight", f"{where} ({x.name if x else ''})", constant(old), after
            )
        return
    if x is not None and y is not None and old is None and new is None:
        if values.get(x) is y:
            return
        if x not in values and y not in known and x.name == y.name:
            return  # both from an outer graph, or both inputs of a changed interface
    if x is None and y is None:
        return
    yield Difference("wiring", where, _source(x), _source(y))


def _norms(old: ir.TensorProtocol, new: ir.TensorProtocol) -> str:
    """Compare weights of one shape: L2 norm, largest and relative change."""
    if ir.DataType.STRING in (old.dtype, new.dtype) or old.shape != new.shape:
        return ""
    square, own, most = 0.0, 0.0, 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        for _, (one, other) in blocks(old.numpy(), new.numpy()):
            before, change = widen(one), np.abs(widen(other) - widen(one))
            square += float((change**2).sum())
            own += float((np.abs(before) ** 2).sum())
            most = max(most, float(change.max())) if change.size else most
    relative = f", relative {(square / own) ** 0.5:.3g}" if own else ""
    return f", L2 of the change {square**0.5:.3g}{relative}, largest {most:.3g}"


def _shown(attribute: ir.Attr | None) -> str:
    if attribute is None:
        return ""
    if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
        return constant(attribute.as_tensor())
    return f"@{attribute.ref_attr_name}" if attribute.is_ref() else repr(attribute.value)


def _source(value: ir.Value | None) -> str:
    if value is None:
        return ""
    tensor = constant_of(value)
    return f"{value.name} = {constant(tensor)}" if tensor is not None else str(value.name)


def _outputs(node: ir.Node) -> str:
    return ", ".join(value.name or "_" for value in node.outputs)


def _line(node: ir.Node) -> str:
    taken = ", ".join("_" if v is None else str(v.name) for v in node.inputs)
    return f"{operator(node)}({taken}) -> {_outputs(node)}"
