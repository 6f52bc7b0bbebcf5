"""Replace calls of functions by their bodies."""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.model.walk import graphs_within, shadows_operator
from onnx_passes.passes.common.graph_edits import nodes_within
from onnx_passes.passes.common.inlining import Names, inline_call


@passes.verify.equality
@passes.register("inline")
class InlineFunctions(passes.Transformation):
    """Replace calls of functions by their bodies.

    Before: ``y = local.F <k = 2> (x)`` with ``F <k> (a) => (b) { b = Selu <gamma = @k> (a) }``
    After:  ``y = Selu <gamma = 2> (x)``

    Functions that are called by functions go first. Attributes that refer to those of the
    function get the value of the call, or the default, or are left out if there is neither.
    What moves gets names of its own. Functions that nobody calls any more are removed.

    Sound because a call means its body, by the definition of functions in ONNX.

    Leaves alone: calls of a function that means another version of an operator than the model
    does (a note says which); functions with the name of an operator, which an engine may run
    instead; functions that are excluded or that nobody calls.

    Attributes:
        exclude: Functions to keep, as ``name`` or ``domain::name``.
    """

    needs = ("topological-sort",)

    exclude: tuple[str, ...] = ()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline from the innermost function outwards."""
        self._model = model
        inlined: set[ir.OperatorIdentifier] = set()
        for key in _callees_first(model):
            function = model.functions[key]
            inlined |= self._inline_in(function.graph, function.opset_imports)
        inlined |= self._inline_in(model.graph, model.graph.opset_imports)
        for key in inlined & (model.functions.keys() - _called(model)):
            del model.functions[key]
        return ir.passes.PassResult(model, modified=bool(inlined))

    def _inline_in(
        self, root: ir.Graph, imports: dict[str, int]
    ) -> set[ir.OperatorIdentifier]:
        calls = [
            (graph, node)
            for graph in graphs_within(root)
            for node in graph
            if node.op_identifier() in self._model.functions
        ]
        if not calls:
            return set()
        names = Names(*graphs_within(root))
        inlined = set()
        for graph, node in calls:
            key = node.op_identifier()
            function = self._model.functions[key]
            if {function.name, f"{function.domain}::{function.name}"} & {*self.exclude}:
                continue
            reason = self._obstacle(node, function, imports)
            if reason is not None:
                self._note(f"the call of {key[0]}::{key[1]} stays: {reason}")
                continue
            for domain in _domains(function):
                imports.setdefault(domain, function.opset_imports.get(domain, 1))
            inline_call(graph, node, function, names)
            inlined.add(key)
        return inlined

    def _note(self, text: str) -> None:
        if text not in self.context.notes:
            self.context.notes.append(text)

    def _obstacle(
        self, node: ir.Node, function: ir.Function, imports: dict[str, int]
    ) -> str | None:
        if shadows_operator(node.op_identifier(), imports):
            return "an engine may have an operator of this name, and run that"
        if len(node.inputs) > len(function.inputs):
            return f"it has {len(node.inputs)} inputs, the function {len(function.inputs)}"
        if len(node.outputs) > len(function.outputs):
            return f"it has {len(node.outputs)} outputs, the function {len(function.outputs)}"
        absent = list(function.inputs[len(node.inputs) :])
        absent += [f for f, v in zip(function.inputs, node.inputs, strict=False) if v is None]
        if any(value in absent for value in function.outputs):
            return "the function returns an input that the call leaves out"
        for inner in (n for outer in function for n in nodes_within(outer)):
            theirs = function.opset_imports.get(inner.domain, 1)
            ours = imports.get(inner.domain, theirs)
            if inner.op_identifier() in self._model.functions or ours == theirs:
                continue
            if not _is_same_version(inner, ours, theirs):
                return (
                    f"it means {inner.domain or 'ai.onnx'}::{inner.op_type} of version "
                    f"{theirs}, its surroundings that of version {ours}"
                )
        return None


def _callees_first(model: ir.Model) -> Iterable[ir.OperatorIdentifier]:
    calls = {
        key: {n.op_identifier() for outer in function for n in nodes_within(outer)}
        & model.functions.keys()
        for key, function in model.functions.items()
    }
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        path = " -> ".join(f"{domain}::{name}" for domain, name, _ in error.args[1])
        raise PassError(
            f"inline-functions: functions call each other in a cycle: {path}",
            help="ONNX has no recursion: use Loop or Scan",
        ) from error


def _called(model: ir.Model) -> set[ir.OperatorIdentifier]:
    found: set[ir.OperatorIdentifier] = set()
    pending = [model.graph]
    while pending:
        for graph in graphs_within(pending.pop()):
            new = {n.op_identifier() for n in graph} & model.functions.keys() - found
            found |= new
            pending.extend(model.functions[key].graph for key in new)
    return found


def _domains(function: ir.Function) -> list[str]:
    return list(dict.fromkeys(n.domain for outer in function for n in nodes_within(outer)))


def _is_same_version(node: ir.Node, a: int, b: int) -> bool:
    """Whether two opset versions mean the same operator by the node."""
    try:
        versions = {
            onnx.defs.get_schema(node.op_type, version, node.domain).since_version
            for version in (a, b)
        }
    except onnx.defs.SchemaError:
        return False
    return len(versions) == 1
