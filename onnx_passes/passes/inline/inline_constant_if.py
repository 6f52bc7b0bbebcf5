"""Replace an If by the branch that is taken."""

from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_graphs, all_nodes, graphs_within, subgraphs_of
from onnx_passes.passes.annotation.shape_inference import contradiction
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.inlining import Names, renamed
from onnx_passes.passes.constants import constant_of


@passes.verify.equality
@passes.register("inline")
@passes.register("cleanup")
class InlineConstantIf(passes.Transformation):
    """Replace an If by the branch that is taken.

    Before: ``y = If(true) <then_branch = { t = Exp(x) }, else_branch = { e = Neg(x) }>``
    After:  ``y = Exp(x)``

    Sound because an If computes one of its branches, and a constant condition says which. The
    names of what moves are made unique.

    Leaves alone: conditions that are not constant, such as initializers that callers may
    override; in functions, branches that refer to an attribute; an If whose branch contradicts
    what reads it (a note says how).
    """

    needs = ("topological-sort",)
    needed_operators = frozenset({("", "If")})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Inline from the outside in: branches that are never taken are not looked at."""
        if not any(_branches(node) for node in all_nodes(model)):
            return ir.passes.PassResult(model, modified=False)
        inlined = _Inliner(model).run(self._refused(model))
        if inlined:
            graph_edits.require_free_initializers(model)
        return ir.passes.PassResult(model, modified=bool(inlined))

    def _refused(self, model: ir.Model) -> set[str]:
        """Find out on copies which Ifs must stay, and note why.

        More is known of a branch than of the If, and engines refuse what is known to
        contradict an operator's schema where they let pass what is not known.
        """
        refused: set[str] = set()
        while True:
            inlined = _Inliner(copy := model.clone()).run(refused)
            if contradiction(copy) is None or (
                not refused and contradiction(model) is not None
            ):
                return refused
            for count, name in enumerate(inlined, start=1):
                _Inliner(copy := model.clone()).run(refused, count)
                reason = contradiction(copy)
                if reason is not None:
                    refused.add(name)
                    self.context.notes.append(f"the If of {name!r} stays: {reason}")
                    break


class _Inliner:
    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._names = Names(*all_graphs(model))

    def run(self, refused: AbstractSet[str], limit: int | None = None) -> list[str]:
        """Inline Ifs but those refused; both are known by the name of the first output."""
        done: list[str] = []
        for root, _ in graph_edits.roots(self._model):
            pending = [root]
            while pending:
                graph = pending.pop()
                for node in list(graph):
                    branches = _branches(node)
                    name = str(node.outputs[0].name)
                    if branches is None or name in refused or len(done) == limit:
                        continue
                    self._inline(
                        graph, node, branches, in_function=root is not self._model.graph
                    )
                    done.append(name)
                    # The branch may have brought another If along.
                    pending.append(graph)
                pending.extend(subgraph for node in graph for subgraph in subgraphs_of(node))
        return done

    def _inline(
        self,
        graph: ir.Graph,
        node: ir.Node,
        branches: tuple[ir.Graph, ir.Graph],
        *,
        in_function: bool,
    ) -> None:
        branch, other = branches
        for dead in graphs_within(other):
            self._names.values.subtract(v.name for v in graph_edits.own_values(dead) if v.name)
            self._names.nodes.subtract(n.name for n in dead if n.name)
        results = list(branch.outputs)
        branch.outputs.clear()
        for value in graph_edits.own_values(branch):
            value.name = renamed(value.name, self._names.values)
        nodes = list(branch)
        for moved in nodes:
            moved.name = renamed(moved.name, self._names.nodes)
        branch.remove(nodes)
        constants = list(branch.initializers.values())
        branch.initializers.clear()
        for value in constants:
            if in_function and value.const_value is not None:
                attribute = ir.AttrTensor("value", value.const_value)
                nodes.insert(0, ir.Node("", "Constant", [], [attribute], outputs=[value]))
            else:
                graph.initializers.add(value)
        graph.insert_before(node, nodes)
        for old, new in zip(node.outputs, results, strict=True):
            graph_edits.supersede(old, new, self._names.values)
        self._names.values.subtract(v.name for v in node.outputs if v.name)
        graph_edits.discard(node)


def _branches(node: ir.Node) -> tuple[ir.Graph, ir.Graph] | None:
    """Return the branch of an If that is taken and the other one, if that is known."""
    if (node.domain, node.op_type) != ("", "If"):
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    condition = constant_of(node.inputs[0])
    if condition is None or condition.size != 1:
        return None
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    taken = 0 if bool(condition.numpy().reshape(-1)[0]) else 1
    return branches[taken], branches[1 - taken]
