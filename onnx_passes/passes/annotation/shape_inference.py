"""Infer types and shapes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.model.inference import infer
from onnx_passes.model.walk import graphs_within, subgraphs_of
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.passes.annotation._inference_proto import (
    Merging,
    ModelDraft,
    dimension_names,
    forget,
    new_memory,
    number_names,
)
from onnx_passes.passes.annotation._refinement import Dims, node_orders, refine, taken
from onnx_passes.passes.common.graph_edits import own_values
from onnx_passes.passes.common.large_tensors import light_proto
from onnx_passes.passes.common.shapes import Knowledge
from onnx_passes.passes.context import Application, PassContext
from onnx_passes.passes.replace import INVENTED

MAX_ROUNDS = 4


class InferenceResult(NamedTuple):
    """What came of an inference.

    If ``settled``, none would change if it ran once again.
    """

    changed: bool
    settled: bool


@passes.verify.equality
@passes.register()
class ShapeInference(passes.Annotation):
    """Infer types and shapes.

    Adds: types and shapes of inner values, in subgraphs too, by onnx's inference with symbolic
    dimensions. Rules of our own serve Range, Slice, Expand, Tile, ConstantOfShape and Reshape,
    whose operands are computed of dimensions. What the first ``n`` rows of a table are added
    to has ``n`` as before: a table that is too short would not fit. A declared size stays
    where inference finds none, a declared name gives way to one that comes from the inputs.
    Sums and products of dimensions have names, as ``past+sequence`` and ``2*batch``. Weights
    are not serialised for it. A name behind a Reshape holds while the dimension is not
    0, which a Reshape's target reads as a copy.

    Leaves alone: inputs and outputs of the model, whose dimensions belong to the user; the
    bodies of functions, whose types depend on the call; what defaults of inputs that the
    caller may override would imply.

    Attributes:
        data_prop: Compute shapes from the values of small integer tensors.
        check_type: Check the types of inputs against the operators' schemas.
        strict_mode: Raise an error where inference fails, instead of going on without.
    """

    data_prop: bool = True
    check_type: bool = False
    strict_mode: bool = False

    @classmethod
    def holds_after(cls, rewrites: Sequence[Application]) -> bool:
        """What is new has types and shapes already."""
        return all(one.annotated for one in rewrites)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Annotate the model."""
        try:
            modified, self.settled = infer_shapes(
                model,
                data_prop=self.data_prop,
                check_type=self.check_type,
                strict_mode=self.strict_mode,
                context=self.context,
            )
        except onnx.shape_inference.InferenceError as error:
            if self.strict_mode or self.check_type:
                raise PassError(
                    f"shape-inference: {_first_line(error)}",
                    help="correct the node, or leave strict_mode and check_type off",
                ) from error
            self.context.notes.append(f"shapes are not inferred: {_first_line(error)}")
            modified = False
        return ir.passes.PassResult(model, modified=modified)


def infer_shapes(
    model: ir.Model,
    *,
    data_prop: bool = True,
    check_type: bool = False,
    strict_mode: bool = False,
    context: PassContext | None = None,
) -> InferenceResult:
    """Annotate the inner values of a model with types and shapes.

    ``context`` remembers what the next inference can use; None where there is no next one.
    Raises onnx's InferenceError if it fails as a whole.
    """
    fixed = {*model.graph.inputs, *model.graph.outputs}
    inner = [v for v in _inner_values(model) if v not in fixed and not v.is_initializer()]
    before = [(value.type, value.shape) for value in inner]
    lasting = {} if context is None else context.refined
    refined: dict[str, Dims] = {
        str(value.name): lasting[value][1]
        for value in inner
        if value in lasting and lasting[value][0] is value.shape
    }
    # Inference ends in one run over a graph in order, but not over the bodies of loops.
    nested = any(map(_has_loop, graphs_within(model.graph)))
    # First without the declared sizes, since inference gives up on a node that contradicts
    # them; then with what is left of them, until what it misses adds nothing.
    memory = new_memory() if context is None else context.remembered(new_memory)
    draft, merging = ModelDraft(model, memory), Merging(fixed, memory.shapes)
    orders = node_orders(model)
    facts, ambiguous = Knowledge(model.graph.opset_imports), taken(model)
    for number in range(MAX_ROUNDS):
        draft.update(numbers=number == 0, keep=refined)
        inferred = infer(
            draft.proto, check_type=check_type, strict_mode=strict_mode, data_prop=data_prop
        )
        declared = merging.merge(draft.types_in(inferred))
        known = refined
        facts = facts.anew()
        refined = known | refine(orders, facts, ambiguous, memory.reshapes)
        settled = _lasting(refined) == _lasting(known)
        if settled and not (number == 0 and (declared or nested)):
            break
    memory.shapes = merging.read
    number_names(inner, dimension_names(fixed))
    if context is not None:
        known = _lasting(refined)
        context.refined = {
            value: (value.shape, known[value.name])
            for value in inner
            if value.shape is not None and value.name in known
        }
    changed = before != [(value.type, value.shape) for value in inner]
    return InferenceResult(changed, settled)


def _has_loop(graph: ir.Graph) -> bool:
    return any(node.op_type != "If" and any(subgraphs_of(node)) for node in graph)


def _lasting(found: Mapping[str, Dims]) -> dict[str, Dims]:
    """Return what was found without the names that each run of inference invents anew."""
    return {
        name: [None if str(dim).startswith(INVENTED) else dim for dim in dims]
        for name, dims in found.items()
    }


def _inner_values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in graphs_within(model.graph):
        yield from own_values(graph)


def try_infer_shapes(model: ir.Model, context: PassContext | None = None) -> bool:
    """Annotate as :func:`infer_shapes` does; leave the model alone where that fails."""
    try:
        return infer_shapes(model, context=context).changed
    except onnx.shape_inference.InferenceError:
        return False


def contradiction(model: ir.Model) -> str | None:
    """Return what contradicts the operators' schemas, as far as shapes can be inferred."""
    proto = light_proto(model)
    attach_bodies(proto)
    forget(proto.graph)
    try:
        infer(proto, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        return _first_line(error)
    return None


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no reason given")
