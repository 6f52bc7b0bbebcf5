"""Whether a model is valid, what looks wrong with it, and which nodes no engine runs.

A run refuses an original that is broken. Results of nodes that no engine runs become inputs,
so that the other nodes run. Lint lists every finding.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass

from onnx_passes.contracts.scores import blocks, kind_of, widen
from onnx_passes.errors import EngineError, EngineUnavailableError, ModelError, OnnxPassesError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_graphs, all_nodes, captured_values, subgraphs_of
from onnx_passes.ops.bodies import has_body
from onnx_passes.plain import PlainDict
from onnx_passes.risky_runs import running
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.node_equality import is_identity
from onnx_passes.verify.region import find_untyped_input, name_of, node_model
from onnx_passes.verify.well_formed import (
    check_structure,
    complaints,
    first_few,
    infer_types,
)

_HELP = (
    "correct the model where it is made; --allow-invalid, or verify.allow_invalid, accepts it "
    "with a note in the report"
)
# Engines take declared shapes as hints, and onnx's inference does not know all that they do.
_SHAPES = re.compile(r"\b(shapes?|dimensions?|dims?|rank)\b", re.IGNORECASE)
_IN_FUNCTION = "Inference error(s)"
_NO_IMPORT = re.compile(r"is of the domain '(?!ai\.onnx)[^']+', which has no opset import")


def check_validity(
    model: ir.Model,
    engines: Sequence[Engine],
    *,
    allow_invalid: bool = False,
    where: str | None = None,
) -> list[str]:
    """Check a model as onnx's checker does, with all types inferred, and refuse a broken one.

    onnx's checker refuses models that engines run, such as those that ONNX Runtime saves after
    it optimised them. So what is wrong is a note where an engine loads the model. The first
    engine that can decide does. Return what is wrong and was accepted, a sentence each;
    ModelError if the model is not valid and no engine loads it.
    """
    faults = [*_opset_faults(model), *_faults(model)]
    notes = [f"the original is not valid ONNX: {fault}" for fault in first_few(faults)]
    if not faults or allow_invalid:
        return notes
    loads = _loads(model, engines)
    fatal = [fault for fault in faults if _IN_FUNCTION not in fault]
    if loads is None:  # it lacks an operator of the model, or there is no engine
        fatal = [f for f in fatal if not _SHAPES.search(f) and not _NO_IMPORT.search(f)]
    if loads or not fatal:
        return notes
    more = f"; and {len(fatal) - 1} more" if len(fatal) > 1 else ""
    raise ModelError(f"the model is not valid ONNX: {fatal[0]}{more}", where=where, help=_HELP)


def _faults(model: ir.Model) -> list[str]:
    found = check_structure(model, full=True)
    if found and all(_NO_IMPORT.search(fault) for fault in found):
        found += complaints(model, full=True, lenient=True)
    return found


def _opset_faults(model: ir.Model) -> Iterator[str]:
    """Yield the opset imports of ONNX's own domains that no released onnx knows."""
    known = {
        "": onnx.defs.onnx_opset_version(),
        "ai.onnx.ml": max(row[3] for row in onnx.helper.VERSION_TABLE),
    }
    holders = [("the model", model.opset_imports)]
    holders += [
        (f"function {function.domain}::{function.name}", function.opset_imports)
        for function in model.functions.values()
    ]
    for holder, imports in holders:
        for domain, version in imports.items():
            if domain in known and not 1 <= version <= known[domain]:
                yield (
                    f"{holder} imports opset {version} of {domain or 'ai.onnx'}, and onnx "
                    f"{onnx.__version__} knows opsets 1 to {known[domain]}"
                )


def _loads(model: ir.Model, engines: Sequence[Engine]) -> bool | None:
    """Whether an engine loads a model; None if none of them can decide."""
    for engine in engines:
        if isinstance(getattr(engine, "engine", engine), ReferenceEngine):
            continue  # it looks at nothing before it runs
        try:
            with running("the load of the original"), engine.prepare(model):
                return True
        except EngineError as error:
            if type(error) is EngineError:
                return False
    return None


Operators = frozenset[tuple[str, str]]
"""Operators by domain and name."""


@dataclass(frozen=True)
class _Left:
    """A node that is left out of the original: what it is, its results and what it reads."""

    kind: str
    results: tuple[str, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Opening:
    """Opens models at the nodes of some operators.

    ``operators`` are those that no engine runs. ``types`` are of their results, as far as the
    original has them; what reads others is left out, too. ``left`` are the nodes left out of
    the original.
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
        left = [_left(n) for n in closed if not is_identity(n)]
        return cls(operators, types, left)

    @property
    def names(self) -> str:
        """The operators, as text."""
        return ", ".join(sorted(f"{d}::{n}" if d else n for d, n in self.operators))

    def open(self, model: ir.Model) -> ir.Model:
        """Return a model without these nodes.

        Their results are inputs, named as in the original. What is left of the outputs comes
        first, then what the nodes read. The model itself is returned if there is nothing to
        open. OnnxPassesError if the nodes are not those of the original.
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
        rest = [node for node in closed if node not in pairs and not is_identity(node)]
        pairs |= self._paired(rest, pairs.values())
        if len(pairs) != len(self.left):
            raise OnnxPassesError(f"{self.names}, which no engine runs, is not what it was")
        graph = model.graph
        results = [value for node in closed for value in node.outputs]
        lost = {value for value in results if named.get(value) not in self.types}
        shown = [self._output(value, results) for value in graph.outputs if value not in lost]
        for node, left in pairs.items():
            for index, value in enumerate(_operands(node)):
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

    def _paired(
        self, nodes: Sequence[ir.Node], known: Collection[_Left] = ()
    ) -> dict[ir.Node, _Left]:
        """Pair nodes with those of the original: by results, operands, or elimination."""
        found: dict[ir.Node, _Left] = {}
        alike: dict[str, list[_Left]] = defaultdict(list)
        for left in self.left:
            alike[left.kind].append(left)
        pending, taken = [(node, _left(node)) for node in nodes], set(known)
        for asked in ("results", "reads", "rest"):
            for node, own in pending:
                if node in found:
                    continue
                near = [x for x in alike[own.kind] if x not in taken]
                if asked == "results":
                    near = [x for x in near if {*own.results} & {*x.results}]
                elif asked == "reads":
                    near = [x for x in near if own.reads == x.reads]
                if len(near) == 1:
                    found[node] = near[0]
                    taken.add(near[0])
        return found


def _left(node: ir.Node) -> _Left:
    results, reads = (
        tuple("" if v is None else str(v.name) for v in values)
        for values in (node.outputs, node.inputs)
    )
    return _Left(_kind(node), results, reads)


def operators_without_engine(model: ir.Model, engines: Sequence[Engine]) -> Operators:
    """Return the operators of a model that none of the engines has.

    Asked are operators that ONNX does not define, and only if no engine loads the model.
    """
    unknown = frozenset(
        (node.domain, node.op_type)
        for node in all_nodes(model)
        if not _is_defined(node, model)
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


def _is_defined(node: ir.Node, model: ir.Model) -> bool:
    """Whether ONNX has an operator in the version that a model imports."""
    version = model.opset_imports.get(node.domain, onnx.defs.onnx_opset_version())
    return bool(onnx.defs.has(node.op_type, version, node.domain))


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

        ``types`` are names of results with a known type; ``named`` is what results are called
        there.
        """
        unknown: set[ir.Value] = set()
        found = []
        for node in self.live():
            if self.has([node]) or any(value in unknown for value in _operands(node)):
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
                pending += [value.producer() for value in _operands(node)]
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


def _operands(node: ir.Node) -> list[ir.Value]:
    """Return what a node reads, by place: passes may make one value of two equal ones."""
    inner = dict.fromkeys(captured_values(node))
    return [value for value in (*node.inputs, *inner) if value is not None]


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


Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class LintFinding:
    """One finding.

    Attributes:
        severity: Whether the model is wrong, or looks wrong.
        rule: What was looked for.
        where: The node or value; empty for the whole model.
        message: What was found, one sentence.
    """

    severity: Severity
    rule: str
    where: str
    message: str

    def as_dict(self) -> PlainDict:
        """Return what ``--json`` prints."""
        return asdict(self)


def lint(model: ir.Model, engine: Engine | None = None) -> list[LintFinding]:
    """Look for faults: the checker's, each node's on its own, and suspicious values.

    Args:
        model: The model; it is not changed. Its float weights are read.
        engine: Asked to load each node by itself; None to leave that out.
    """
    found = [LintFinding("error", "structure", "", text) for text in check_structure(model)]
    if not found:
        found += [
            LintFinding("error", "inference", "", text)
            for text in complaints(model, full=True)
        ]
    for graph in all_graphs(model):
        found += _values(graph)
    found += _inputs(model)
    if engine is not None:
        found += _nodes(model, engine)
    return list(dict.fromkeys(found))


def _inputs(model: ir.Model) -> Iterator[LintFinding]:
    weights = [str(v.name) for v in model.graph.inputs if v.is_initializer()]
    if weights:
        yield LintFinding(
            "warning",
            "weight-as-input",
            weights[0],
            f"callers may give what {len(weights)} inputs have as a default ({weights[0]!r}), "
            "so that no pass takes it for a constant; remove-initializers-from-inputs says "
            "that none does",
        )
    for value in model.graph.inputs:
        name = str(value.name)
        if not value.uses() and not value.is_graph_output():
            yield LintFinding(
                "warning", "unused-input", name, f"nothing reads the input {name!r}"
            )
        if value.dtype == ir.DataType.DOUBLE:
            yield LintFinding("warning", "dtype", name, f"the input {name!r} is float64")
        if value.shape is None:
            yield LintFinding(
                "warning", "dynamic-shape", name, f"the rank of input {name!r} is not declared"
            )
        elif any(not isinstance(d, int) and d.value is None for d in value.shape):
            yield LintFinding(
                "warning",
                "dynamic-shape",
                name,
                f"the input {name!r} has dimensions without a name",
            )


def _values(graph: ir.Graph) -> Iterator[LintFinding]:
    for value in graph.initializers.values():
        name, tensor = str(value.name), value.const_value
        if not (value.uses() or value.is_graph_input() or value.is_graph_output()):
            yield LintFinding("warning", "unused-weight", name, f"nothing reads {name!r}")
        if tensor is None or tensor.dtype == ir.DataType.STRING:
            continue
        array = tensor.numpy()
        if kind_of(array.dtype) not in ("float", "complex"):
            continue
        if tensor.dtype == ir.DataType.DOUBLE:
            yield LintFinding("warning", "dtype", name, f"the weight {name!r} is float64")
        nan = sum(int(np.isnan(widen(block)).sum()) for _, (block,) in blocks(array))
        if nan:
            yield LintFinding("warning", "nan", name, f"{nan} elements of {name!r} are NaN")


def _nodes(model: ir.Model, engine: Engine) -> Iterator[LintFinding]:
    """Let the engine load each node by itself, subgraphs' nodes too."""
    typed = copy_model(model)
    if (reason := infer_types(typed)) is not None:
        yield LintFinding(
            "warning", "not-checked", "", f"types could not be inferred: {reason}"
        )
    graphs = [typed.graph, *(g for g in all_graphs(typed) if g is not typed.graph)]
    bodies = {function.graph for function in typed.functions.values()}
    for graph in graphs:
        if graph in bodies:
            continue
        for node in graph:
            yield from _node(node, typed, engine)


def _node(node: ir.Node, model: ir.Model, engine: Engine) -> Iterator[LintFinding]:
    name = name_of(node)
    if (value := find_untyped_input(node)) is not None:
        text = f"{node.op_type} {name!r} was not run alone: no type is known of {value!r}"
        yield LintFinding("warning", "not-checked", name, text)
        return
    try:
        with engine.prepare(node_model(node, model)):
            pass
    except EngineUnavailableError:
        raise
    except EngineError as error:
        text = f"{engine.name} does not load {node.op_type} {name!r}: {error.message}"
        yield LintFinding("error", "engine", name, text)
