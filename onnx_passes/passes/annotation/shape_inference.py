"""Infer types and shapes."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.passes._support.proto import light_proto
from onnx_passes.passes.annotation._shapes import (
    dimension_names,
    forget,
    inferred_types,
    merge,
    number_names,
)
from onnx_passes.passes.base import Annotation


@passes.verify.equality
@passes.register()
class ShapeInference(Annotation):
    """Infer types and shapes.

    Adds: types and shapes of inner values, in subgraphs too, by onnx's inference with symbolic
    dimensions; weights are not serialised for it. A declared size stays where inference finds
    none, a declared name gives way to one that comes from the inputs.

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

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Annotate the model.

        Raises:
            PassError: Inference fails, with ``strict_mode`` or ``check_type``.
        """
        try:
            modified = infer_shapes(
                model,
                data_prop=self.data_prop,
                check_type=self.check_type,
                strict_mode=self.strict_mode,
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
) -> bool:
    """Annotate the inner values of a model with types and shapes.

    Returns:
        Whether any annotation changed.

    Raises:
        onnx.shape_inference.InferenceError: Inference fails as a whole.
    """
    before = light_proto(model, overridable=False)
    changed = False
    # First without the declared sizes, since inference gives up on a node that contradicts
    # them; then with what is left of them where inference knows none.
    for numbers in (True, False):
        proto = before if numbers else light_proto(model, overridable=False)
        forget(proto.graph, numbers=numbers)
        inferred = onnx.shape_inference.infer_shapes(
            proto, check_type=check_type, strict_mode=strict_mode, data_prop=data_prop
        )
        changed |= _annotate(model, inferred.graph, dimension_names(proto.graph))
    return changed


def try_infer_shapes(model: ir.Model) -> bool:
    """Annotate as :func:`infer_shapes` does; leave the model alone where that fails."""
    try:
        return infer_shapes(model)
    except onnx.shape_inference.InferenceError:
        return False


def contradiction(model: ir.Model) -> str | None:
    """Return what contradicts the operators' schemas, as far as shapes can be inferred."""
    proto = light_proto(model, overridable=False)
    forget(proto.graph, numbers=True)
    try:
        onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        return _first_line(error)
    return None


def _annotate(model: ir.Model, inferred: onnx.GraphProto, declared: set[str]) -> bool:
    fixed = {*model.graph.inputs, *model.graph.outputs}
    found = [
        (value, type_)
        for value, type_ in inferred_types(model.graph, inferred)
        if value not in fixed and not value.is_initializer()
    ]
    number_names((type_ for _, type_ in found), declared)
    return sum(merge(value, type_) for value, type_ in found) > 0


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no reason given")
