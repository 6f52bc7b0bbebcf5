"""How two models differ: nodes, attributes, weights, wiring and interface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.elements import blocks, widen
from onnx_passes.model.align import align, constant_of, operator
from onnx_passes.model.canonical_text import constant
from onnx_passes.model.digest import leaf_key, tensor_digest, value_key
from onnx_passes.model.equality import explain_difference, structurally_equal
from onnx_passes.plain import PlainDict

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


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
            before, after = ("" if v is None else f"{v.type}{v.shape}" for v in (one, other))
            yield Difference("interface", f"{role} {name}", before, after)
    if [*old] != [*new] and sorted(map(str, old)) == sorted(map(str, new)):
        orders = (", ".join(map(str, names)) for names in (old, new))
        yield Difference("interface", f"order of {role}s", *orders)


def _nodes(
    a: ir.Node,
    b: ir.Node,
    values: dict[ir.Value, ir.Value],
    known: set[ir.Value],
    within: str,
) -> Iterator[Difference]:
    where = f"{operator(a)} {a.name or _outputs(a)}{within}"
    for name in sorted({*a.attributes, *b.attributes}):
        one, other = a.attributes.get(name), b.attributes.get(name)
        if one and other and _holds_graphs(one) and _holds_graphs(other):
            for old, new in zip(_held(one), _held(other), strict=False):
                yield from _graphs(old, new, f" in {name} of {where}", values)
            continue
        if (one and leaf_key(one)) != (other and leaf_key(other)):
            yield Difference("attribute", f"{where} @{name}", _shown(one), _shown(other))
    for place in range(max(len(a.inputs), len(b.inputs))):
        x = a.inputs[place] if place < len(a.inputs) else None
        y = b.inputs[place] if place < len(b.inputs) else None
        yield from _wire(x, y, values, known, f"{where} input {place}")


def _holds_graphs(attribute: ir.Attr) -> bool:
    return attribute.type in _GRAPHS and not attribute.is_ref()


def _held(attribute: ir.Attr) -> tuple[ir.Graph, ...]:
    single = attribute.type == ir.AttributeType.GRAPH
    return (attribute.as_graph(),) if single else tuple(attribute.as_graphs())


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
