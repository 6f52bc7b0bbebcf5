"""Is a model well formed: every name defined once, every value before its use?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx_ir as ir

from onnx_passes.contracts.scores import shape_text
from onnx_passes.errors import ModelError
from onnx_passes.model.walk import (
    node_inputs,
    node_outputs,
    nodes_of,
    subgraphs_of,
    topological_order,
    value_name,
)
from onnx_passes.verify.checked_nodes import CheckedNodes
from onnx_passes.verify.checker import complaints
from onnx_passes.verify.content_key import initializers_of

MOST = 20
"""Sentences reported; a broken model has many, and the first ones matter."""

_FIRST_FREE_INITIALIZERS = 4  # IR version; before it, every initializer was an input as well


def check_structure(
    model: ir.Model, *, full: bool = False, known: CheckedNodes | None = None
) -> list[str]:
    """Check a model without running it, changing it, or serialising its weights.

    First, on the IR itself: every value has a definition, there is no cycle, nodes are in
    order, and no name occurs twice in nested scopes. Every domain has an opset import, outputs
    exist, and initializers hold what they declare. Where nothing is found, onnx's own checker
    is asked, which knows operators, their attributes and their number of inputs.

    Args:
        model: The model, with functions and subgraphs.
        full: Whether the checker infers all types and shapes too, and complains where they
            contradict. Some models that engines accept do not survive this.
        known: What the checker has accepted before, which it is not asked about again; it
            grows. None to ask about everything.

    Returns:
        A sentence for each fault, :data:`MOST` at most; empty for a well-formed model.
    """
    found = list(dict.fromkeys(_faults(model)))
    if len(found) > MOST:
        found[MOST:] = [f"{len(found) - MOST} more faults like these"]
    return found or complaints(model, full=full, lenient=True, known=known)


def _faults(model: ir.Model) -> Iterator[str]:
    graph = model.graph
    if not graph.outputs:
        yield "the model has no outputs"
    if model.ir_version < _FIRST_FREE_INITIALIZERS:
        for value in graph.initializers.values():
            if not value.is_graph_input():
                yield (
                    f"initializer {value.name!r} is not a graph input, as IR version "
                    f"{model.ir_version} demands"
                )
    yield from _Scopes(model.opset_imports, "").faults(graph)
    for function in model.functions.values():
        name = f" of function {function.domain}::{function.name}"
        yield from _Scopes(function.opset_imports, name).faults(function.graph)


class _Scopes:
    """One tree of nested graphs: the main graph's, or a function's."""

    def __init__(self, opsets: Mapping[str, int], suffix: str) -> None:
        self.opsets = {_domain(domain) for domain in opsets}
        self.suffix = suffix
        # What the graphs around the present node define so far, and under which names.
        self.visible: set[ir.Value] = set()
        self.names: dict[str, ir.Value] = {}

    def faults(self, graph: ir.Graph, holder: str = "") -> Iterator[str]:
        """Check a graph and those nested in it.

        Args:
            graph: The graph.
            holder: The node that holds it, as text; empty for the outermost.
        """
        here = f" in the subgraph of {holder}" if holder else self.suffix
        defined: list[ir.Value] = []
        yield from self._define(graph.inputs, "input", here, defined)
        held = initializers_of(graph)
        initializers = [v for v in held.values() if not v.is_graph_input()]
        yield from self._define(initializers, "initializer", here, defined)
        for name, value in held.items():
            yield from _initializer_faults(name, value, here)
        late = False
        for node in nodes_of(graph):
            if _domain(node.domain) not in self.opsets:
                label = f"{_label(node)}{here}"
                yield f"{label} is of the domain {node.domain!r}, which has no opset import"
            for used in node_inputs(node):
                if used is None or used in self.visible:
                    continue
                label = f"{_label(node)}{here}"
                producer = used.producer()
                if producer is not None and producer.graph is graph:
                    late = True
                else:
                    yield f"{label} uses {used.name!r}, {_whereabouts(used)}"
            for subgraph in subgraphs_of(node):
                yield from self.faults(subgraph, _label(node))
            made = node_outputs(node)
            if len(made) == 1 and self._defines(made[0]):
                defined.append(made[0])
            else:  # text is made of what may be wrong alone
                place = f" of {_label(node)}{here}"
                yield from self._define(made, "output", place, defined)
        if late:
            yield from _order_faults(graph, here)
        yield from self._output_faults(graph, here, set(defined))
        self.visible.difference_update(defined)
        for value in defined:
            if self.names.get(value.name or "") is value:
                del self.names[value.name or ""]

    def _defines(self, value: ir.Value) -> bool:
        """Define a value, if it is new and has a new name."""
        name: str | None = value_name(value)
        if not name or name in self.names or value in self.visible:
            return False
        self.visible.add(value)
        self.names[name] = value
        return True

    def _define(
        self, values: Iterable[ir.Value], word: str, here: str, defined: list[ir.Value]
    ) -> Iterator[str]:
        for value in values:
            if value in self.visible:
                yield f"{word} {value.name!r}{here} is listed twice"
                continue
            self.visible.add(value)
            defined.append(value)
            if not value.name:
                if value.uses() or value.is_graph_output() or word != "output":
                    yield f"an {word}{here} has no name"
            elif value.name in self.names:
                yield f"the name {value.name!r} is defined twice: again as {word}{here}"
            else:
                self.names[value.name] = value

    def _output_faults(
        self, graph: ir.Graph, here: str, defined: set[ir.Value]
    ) -> Iterator[str]:
        seen: set[ir.Value] = set()
        for value in graph.outputs:
            if value in seen:
                yield f"the graph output {value.name!r}{here} is listed twice"
            elif value in self.visible and value not in defined:
                yield (
                    f"the graph output {value.name!r}{here} is a value of an outer graph; "
                    "it needs an Identity"
                )
            elif value not in defined:
                yield f"the graph output {value.name!r}{here} has no definition: " + (
                    _whereabouts(value)
                )
            seen.add(value)


def _order_faults(graph: ir.Graph, here: str) -> Iterator[str]:
    try:
        topological_order(graph)
    except ModelError as error:
        yield f"{error.message}{here}"
        return
    place = {node: index for index, node in enumerate(graph)}
    for node in graph:
        for value in node.inputs:
            if value is None or (producer := value.producer()) is None:
                continue
            if place.get(producer, -1) > place[node]:
                yield (
                    f"{_label(node)}{here} uses {value.name!r}, which comes later, from "
                    f"{_label(producer)}; topological-sort puts nodes in order"
                )


def _initializer_faults(name: str, value: ir.Value, here: str) -> Iterator[str]:
    what = f"initializer {name!r}{here}"
    if value.name != name:
        yield f"{what} names itself {value.name!r}"
    tensor = value.const_value
    if tensor is None:
        yield f"{what} has no value"
        return
    if value.dtype is not None and value.dtype != tensor.dtype:
        yield (
            f"{what} is declared {value.dtype.name.lower()}, and holds "
            f"{tensor.dtype.name.lower()}"
        )
    held = tuple(tensor.shape.numpy())
    declared = value.shape
    if declared is not None and (
        len(declared) != len(held)
        or any(isinstance(d, int) and d != h for d, h in zip(declared, held, strict=True))
    ):
        yield f"{what} is declared {declared}, and holds {shape_text(held)}"


def _whereabouts(value: ir.Value) -> str:
    producer = value.producer()
    if producer is None:
        return "which nothing defines"
    if producer.graph is None:
        return f"which came from {_label(producer)}, a node that was removed"
    return f"which {_label(producer)} computes out of reach, in another graph"


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _label(node: ir.Node) -> str:
    if node.name or not node.outputs:
        return f"node {node.name or ''!r} ({node.op_type})"
    return f"the {node.op_type} node that computes {node.outputs[0].name!r}"
