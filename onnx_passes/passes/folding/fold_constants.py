"""Fold what does not depend on the inputs into constants."""

from collections.abc import Callable, Mapping
from functools import cache, cached_property

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within, topological_order
from onnx_passes.passes.annotation.shape_inference import try_infer_shapes
from onnx_passes.passes.common import graph_edits
from onnx_passes.passes.common.shapes import Knowledge
from onnx_passes.passes.common.value_numbering import Determinism
from onnx_passes.passes.folding._evaluate import (
    Evaluation,
    GrowthBudget,
    constant_nodes,
    constant_target,
    fold,
    held_nodes,
)
from onnx_passes.passes.options import MIB, Size
from onnx_passes.passes.replace import Namer

MAX_ROUNDS = 20


@passes.verify.tolerance
@passes.register()
class FoldConstants(passes.Transformation):
    """Fold what does not depend on the inputs into constants.

    Before: ``s = Shape(x)  n = Gather(s, 0)  t = Concat(n, 6)  y = Reshape(x, t)``
    After:  ``y = Reshape(x, [-1, 6])``

    Nodes over constants are replaced by their results, in subgraphs and functions too. ONNX
    Runtime computes them, all in one session. Where that fails or takes much memory, it
    computes halves, down to single nodes. onnx's reference evaluator computes what ONNX
    Runtime has no kernel for.
    Shape arithmetic is followed through dynamic dimensions: what is known becomes constant,
    dimensions stay dynamic.

    Sound because a deterministic operator gives the same result for the same inputs. The
    contract is a tolerance because an engine may use other kernels for the same operator. With
    weights packed ahead or other vector instructions, matrix products and transcendental
    functions differ in the last bits. ONNX Runtime computes chains of float16 operators in
    float32. Folding rounds each value below float32, as the standard says.

    Leaves alone: random operators and what depends on them; initializers that callers may
    override; operators of unknown domains; Loop, which may run for long; DequantizeLinear,
    which back ends read as the type of a weight; results that are strings or sequences, or
    bigger than the limits; nodes that cannot be computed (a note says why); attributes that
    refer to those of a function; an Identity that makes an output of an output.

    Attributes:
        size_limit: Bytes of a new constant that is bigger than those it makes superfluous.
        growth_limit: Bytes that the file may grow by in all, about. What a constant has added
            is noted in its metadata, so that further runs do not start from nothing.
        growth_share: The share of the weights that it may grow by, if that is more.
        fold_dequantize: Also compute DequantizeLinear.
        shapes: Also follow shape arithmetic.
        nonempty: Take dynamic dimensions to be above 0, so that more targets become constant.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference", "topological-sort")

    size_limit: Size = 4 * MIB
    growth_limit: Size = 64 * 1024
    growth_share: float = 0.01
    fold_dequantize: bool = False
    shapes: bool = True
    nonempty: bool = False

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fold until nothing is left to fold; what was folded shows more about shapes."""
        budget = cache(
            lambda: GrowthBudget.of(
                model,
                self.size_limit,
                self.growth_limit,
                self.growth_share,
                self.context.file_bytes,
            )
        )
        self._failures: dict[str, str] = {}
        folded = 0
        for _ in range(MAX_ROUNDS):
            found = self._fold_shapes(model, budget) if self.shapes else 0
            found += self._fold_nodes(model, budget)
            if not found:
                break
            folded += found
            try_infer_shapes(model, self.context)
        if folded:
            graph_edits.require_free_initializers(model)
        self.context.notes.extend(
            f"{node} is not folded: {reason}" for node, reason in self._failures.items()
        )
        return ir.passes.PassResult(model, modified=folded > 0)

    def _fold_nodes(self, model: ir.Model, budget: Callable[[], GrowthBudget]) -> int:
        never = {"Loop"} if self.fold_dequantize else {"Loop", "DequantizeLinear"}
        deterministic, before = Determinism(model), _Before(model, budget)
        folded = 0
        for root, imports in graph_edits.roots(model):
            in_function = root is not model.graph
            for graph in list(graphs_within(root)):
                nodes = constant_nodes(
                    graph, imports, deterministic, never, lambda node: node in before.held
                )
                if not nodes:
                    continue
                before.ask()
                evaluation = Evaluation(model, imports)
                folded += fold(
                    nodes, evaluation, budget(), named=before.named, in_function=in_function
                )
                for node, reason in evaluation.failures.items():
                    label = f"{node.op_type} {node.name or node.outputs[0].name!r}"
                    if reason:
                        self._failures[label] = reason
        return folded

    def _fold_shapes(self, model: ir.Model, budget: Callable[[], GrowthBudget]) -> int:
        """Replace what is known of shape arithmetic, outside of functions."""
        facts, before = Knowledge(model.graph.opset_imports), _Before(model, budget)
        return sum(
            _fold_shapes_of(graph, facts, before, nonempty=self.nonempty)
            for graph in list(graphs_within(model.graph))
        )


class _Before:
    """What is asked of a model before its first change in a round, and often not at all."""

    def __init__(self, model: ir.Model, budget: Callable[[], GrowthBudget]) -> None:
        self._model, self._budget = model, budget

    @cached_property
    def held(self) -> set[ir.Node]:
        """The nodes that are not folded."""
        return held_nodes(self._model)

    @cached_property
    def namer(self) -> Namer:
        """Knows all names."""
        return Namer(self._model)

    @cached_property
    def named(self) -> set[str]:
        """Names of constants that stay although nothing reads them."""
        return graph_edits.annotated_names(self._model)

    def ask(self) -> None:
        """Ask now, since the model is going to change."""
        _ = self.held, self.namer, self.named, self._budget()


def _fold_shapes_of(
    graph: ir.Graph, facts: Knowledge, before: _Before, *, nonempty: bool
) -> int:
    folded = 0
    known: dict[ir.Node, ir.TensorProtocol] = {}
    nodes = topological_order(graph)
    for node in nodes:
        found = facts.visit(node)
        tensor = found.tensor() if found is not None else None
        if tensor is not None and node.op_type != "Identity" and node not in before.held:
            known[node] = tensor
    if known:
        before.ask()
    for node in nodes:
        target = constant_target(node, facts, nonempty=nonempty)
        if target is not None:
            before.ask()
            _retarget(graph, node, target, before.namer)
            folded += 1
    return folded + _install_known(known)


def _retarget(graph: ir.Graph, node: ir.Node, target: ir.TensorProtocol, namer: Namer) -> None:
    old = node.inputs[1]
    assert old is not None, "the target is computed"
    target.name = namer.value(f"{old.name}_constant")
    new = ir.val(target.name, const_value=target)
    graph.register_initializer(new)
    node.replace_input_with(1, new)
    if node.op_type == "Reshape" and 0 in target.numpy():
        # Each 0 here means a copy: a target with a 0 that allowzero means has no constant.
        node.attributes.pop("allowzero", None)
    producer = old.producer()
    if producer is not None:
        graph_edits.discard_unread([producer])


def _install_known(known: Mapping[ir.Node, ir.TensorProtocol]) -> int:
    folded = 0
    for node, tensor in known.items():
        (value,) = node.outputs
        # What only feeds other known values goes with them.
        readers = [user for user in value.consumers() if user not in known]
        if node.graph is not None and (readers or value.is_graph_output()):
            graph_edits.install(value, tensor, in_function=False)
            graph_edits.discard_unread([node])
            folded += 1
    return folded
