"""Models without the nodes that no engine runs: their results are inputs, so that others run.

Two models with the same nodes of this kind compute the same, whatever these do, if what is
left computes the same from any values. What they read are outputs for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass

from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_nodes, captured_values, subgraphs_of
from onnx_passes.ops.bodies import has_body
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.node_equality import is_identity

Operators = frozenset[tuple[str, str]]
"""Operators by domain and name."""


@dataclass(frozen=True)
class _Left:
    """A node that is left out of the original: what it is, and the names of its results."""

    kind: str
    results: tuple[str, ...]


@dataclass(frozen=True)
class Opening:
    """Opens models at the nodes of some operators.

    Attributes:
        operators: The operators that no engine runs.
        types: Type and shape of their results, by name, as far as the original has them. What
            reads others is left out, too.
        left: The nodes that are left out of the original.
    """

    operators: Operators = frozenset()
    types: Mapping[str, tuple[ir.TypeProtocol, ir.Shape]] = field(default_factory=dict)
    left: Sequence[_Left] = ()

    @classmethod
    def of(cls, model: ir.Model, operators: Operators) -> Opening:
        """Return what opens a model, and those that passes make of it."""
        own = [node for node in model.graph if _Closed(model, operators).has([node])]
        types: dict[str, tuple[ir.TypeProtocol, ir.Shape]] = {}
        for value in (value for node in own for value in node.outputs):
            same = [n.outputs[0] for n in value.consumers() if is_identity(n)]
            for one in (value, *same):
                if value.name and one.type is not None and one.shape is not None:
                    types.setdefault(value.name, (one.type, one.shape))
        named = {value: str(value.name) for node in own for value in node.outputs}
        closed = _Closed(model, operators).find(types, named)
        left = [_Left(_kind(n), tuple(str(v.name) for v in n.outputs)) for n in closed]
        return cls(operators, types, left)

    @property
    def names(self) -> str:
        """The operators, as text."""
        return ", ".join(sorted(f"{d}::{n}" if d else n for d, n in self.operators))

    def open(self, model: ir.Model) -> ir.Model:
        """Return a model without these nodes.

        Their results are inputs, named as in the original. What is left of the outputs comes
        first, then what the nodes read.

        Args:
            model: The model; it is returned itself if there is nothing to open.

        Raises:
            OnnxPassesError: The nodes are not those of the original.
        """
        if not self.operators:
            return model
        model = copy_model(model)
        finder = _Closed(model, self.operators)
        own = [node for node in finder.live() if finder.has([node])]
        pairs = self._paired(own)
        named = {
            value: name
            for node, left in pairs.items()
            for value, name in zip(node.outputs, left.results, strict=True)
        }
        closed = finder.find(self.types, named)
        pairs |= self._paired([node for node in closed if node not in pairs])
        if len(pairs) != len(self.left):
            raise OnnxPassesError(f"{self.names}, which no engine runs, is not what it was")
        graph = model.graph
        results = [value for node in closed for value in node.outputs]
        lost = {value for value in results if named.get(value) not in self.types}
        shown = [self._output(value, results) for value in graph.outputs if value not in lost]
        for node, left in pairs.items():
            for index, value in enumerate(_reads(node)):
                if value not in lost:
                    given = ir.node("Identity", [value])
                    made = given.outputs[0]
                    made.name = f"{left.results[0]}/read/{index}"
                    made.type, made.shape = value.type, value.shape
                    graph.insert_before(node, given)
                    shown.append(made)
        graph.outputs.clear()
        graph.outputs.extend(shown)
        for value, name in named.items():
            if name in self.types:
                type_, shape = self.types[name]
                entry = ir.Value(name=f"{name}/given", type=type_, shape=shape)
                value.replace_all_uses_with(entry)
                graph.inputs.append(entry)
        for node in reversed(list(graph)):
            if not any(v.uses() or v.is_graph_output() for v in node.outputs):
                graph.remove(node, safe=True)
        RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]
        return model

    def _output(self, value: ir.Value, results: Collection[ir.Value]) -> ir.Value:
        """Return an output; where a node that is left out gives it, a copy with its name."""
        if value not in results:
            return value
        node = value.producer()
        assert node is not None
        assert node.graph is not None
        copy = ir.node("Identity", [value])
        node.graph.insert_after(node, copy)
        copy.outputs[0].name, value.name = value.name, f"{value.name}/left"
        copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
        return copy.outputs[0]

    def _paired(self, nodes: Sequence[ir.Node]) -> dict[ir.Node, _Left]:
        """Pair nodes with those of the original: by a result, else by what they are alone."""
        found: dict[ir.Node, _Left] = {}
        kinds = Counter(left.kind for left in self.left)
        for node in nodes:
            same = [left for left in self.left if left.kind == _kind(node)]
            names = {value.name for value in node.outputs}
            near = [left for left in same if names & {*left.results}] or same
            if len(near) == 1 and (names & {*near[0].results} or kinds[near[0].kind] == 1):
                found[node] = near[0]
        return found


def operators_without_engine(model: ir.Model, engines: Sequence[Engine]) -> Operators:
    """Return the operators of a model that none of the engines has.

    Asked are operators that ONNX does not define, and only if no engine loads the model.

    Args:
        model: The model.
        engines: The engines of the run.
    """
    unknown = frozenset(
        (node.domain, node.op_type)
        for node in all_nodes(model)
        if not onnx.defs.has(node.op_type, domain=node.domain)
        and node.op_identifier() not in model.functions
        and not has_body(node.domain, node.op_type)
    )
    asked = [e for e in engines if not isinstance(getattr(e, "engine", e), ReferenceEngine)]
    if not unknown or not asked or any(_refusal(e, model) is None for e in asked):
        return frozenset()
    found: Operators = frozenset()
    while why := _refusal(asked[0], Opening.of(model, found).open(model)):
        named = {one for one in unknown - found if one[1] in why}
        if not named:
            return frozenset()
        found |= named
    return found


def _refusal(engine: Engine, model: ir.Model) -> str | None:
    """Return why an engine does not load a model; None if it does."""
    try:
        with engine.prepare(model):
            return None
    except EngineError as error:
        return str(error)


@dataclass
class _Closed:
    model: ir.Model
    operators: Operators
    _known: dict[ir.OperatorIdentifier, bool] = field(default_factory=dict)

    def find(self, types: Collection[str], named: Mapping[ir.Value, str]) -> list[ir.Node]:
        """Return the live nodes that are left out, in order.

        Args:
            types: Names of results whose type is known.
            named: What results are called there.
        """
        unknown: set[ir.Value] = set()
        found = []
        for node in self.live():
            if self.has([node]) or any(value in unknown for value in _reads(node)):
                found.append(node)
                unknown.update(v for v in node.outputs if named.get(v) not in types)
        return found

    def live(self) -> list[ir.Node]:
        """Return the nodes of the main graph that outputs depend on, in order."""
        live: set[ir.Node] = set()
        pending = [value.producer() for value in self.model.graph.outputs]
        while pending:
            node = pending.pop()
            if node is not None and node not in live:
                live.add(node)
                pending += [value.producer() for value in _reads(node)]
        return [node for node in self.model.graph if node in live]

    def has(self, nodes: Iterable[ir.Node]) -> bool:
        """Whether some nodes need an operator that no engine runs."""
        for node in nodes:
            key = node.op_identifier()
            if (node.domain, node.op_type) in self.operators:
                return True
            if key in self.model.functions and key not in self._known:
                self._known[key] = False  # no function calls itself
                self._known[key] = self.has(self.model.functions[key])
            if self._known.get(key) or any(map(self.has, subgraphs_of(node))):
                return True
        return False


def _reads(node: ir.Node) -> list[ir.Value]:
    read = (*node.inputs, *captured_values(node))
    return list(dict.fromkeys(value for value in read if value is not None))


def _kind(node: ir.Node, known: dict[ir.Value | None, int] | None = None) -> str:
    """Return what a node is besides its operands, as text; values in bodies have numbers."""
    found = []
    for attribute in node.attributes.values():
        if attribute.type is not ir.AttributeType.GRAPH:
            found.append(ir.to_proto(attribute).SerializeToString().hex())
            continue
        body, numbers = attribute.as_graph(), known if known is not None else {}
        for value in (*body.inputs, *(v for n in body for v in (*n.inputs, *n.outputs))):
            numbers.setdefault(value, len(numbers))
        inner = [
            (_kind(n, numbers), [numbers[v] for v in (*n.inputs, *n.outputs)]) for n in body
        ]
        results = [numbers.get(v, -1) for v in body.outputs]
        weights = [(numbers.get(v), v.const_value) for v in body.initializers.values()]
        found.append(f"{attribute.name} {inner} {results} {weights}")
    given = [value is not None for value in node.inputs]
    return f"{node.op_identifier()} {given} {len(node.outputs)} {sorted(found)}"
