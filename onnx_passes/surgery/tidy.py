"""What passes do, as functions over a model in hand; a pipeline does the same verified."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.base import Pass
from onnx_passes.passes.cleanup.remove_unused_functions import RemoveUnusedFunctions
from onnx_passes.passes.cleanup.remove_unused_initializers import RemoveUnusedInitializers
from onnx_passes.passes.cleanup.remove_unused_nodes import RemoveUnusedNodes
from onnx_passes.passes.cleanup.remove_unused_opsets import RemoveUnusedOpsets
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort
from onnx_passes.plain import Plain


def toposort(model: ir.Model) -> ir.Model:
    """Put the nodes in the order in which they run.

    Raises:
        PassError: They depend on each other in a cycle.
    """
    return _run(TopologicalSort(), model)


def cleanup(model: ir.Model) -> ir.Model:
    """Remove nodes, initializers, functions and opset imports that nothing reads."""
    for pass_ in (
        RemoveUnusedNodes(),
        RemoveUnusedFunctions(),
        RemoveUnusedInitializers(),
        RemoveUnusedOpsets(),
    ):
        model = _run(pass_, model)
    return model


def fold_constants(model: ir.Model, **options: Plain) -> ir.Model:
    """Compute what depends on no input; the options are those of the pass fold-constants.

    Raises:
        PassError: There is no such option.
    """
    from onnx_passes.passes.annotation.shape_inference import ShapeInference
    from onnx_passes.passes.folding.fold_constants import FoldConstants
    from onnx_passes.passes.folding.lift_constants import LiftConstants

    for pass_ in (LiftConstants(), ShapeInference(), FoldConstants(**options)):
        model = _run(pass_, model)
    return model


def _run(pass_: Pass, model: ir.Model) -> ir.Model:
    return pass_(model).model
