"""Tidying in one call: changes of the interface, then verified passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as ir

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import EngineError, EngineUnavailableError, UsageError
from onnx_passes.model.extract import Cut, extract
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.replace import is_invented
from onnx_passes.pipeline.run import PipelineRun, run_pipeline
from onnx_passes.runtime.inputs import InputSearch, generate
from onnx_passes.runtime.inputs.dimensions import names_in
from onnx_passes.runtime.ort import engine_for
from onnx_passes.surgery.builder import Builder, near
from onnx_passes.surgery.graph_edits import insert_after
from onnx_passes.verify.well_formed import complaints


def sanitize(
    model: ir.Model,
    *,
    fold_constants: bool = False,
    cleanup: bool = False,
    toposort: bool = False,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    outputs: Sequence[str] = (),
    upper_bounds: Mapping[str, float] | None = None,
) -> PipelineRun:
    """Give a model the interface asked for, then run passes over it, each verified.

    Args:
        model: The model, changed in place.
        fold_constants: Compute what depends on no input.
        cleanup: Remove what nothing reads.
        toposort: Put the nodes in the order in which they run.
        input_shapes: Other shapes by input; names for dynamic dimensions.
        outputs: The values that are the outputs from now on; none for those that are.
        upper_bounds: Least upper bounds by value, as TensorRT wants them of sizes that are
            computed from data.

    Returns:
        The run: its model, and its report.

    Raises:
        UsageError: There is no such input or value.
    """
    prepared = prepare(model, input_shapes or {}, outputs, upper_bounds or {})
    if input_shapes:
        check_runs(prepared)
    steps = steps_of(fold_constants=fold_constants, cleanup=cleanup, toposort=toposort)
    return run_pipeline(prepared, default_config([], steps))


def steps_of(*, fold_constants: bool, cleanup: bool, toposort: bool) -> list[str]:
    """Return the passes that are asked for."""
    folding = ["lift-constants", "shape-inference", "fold-constants", "inline-constant-if"]
    return [
        *(["topological-sort"] if toposort else []),
        *(folding if fold_constants else []),
        *(["remove-unused"] if cleanup else []),
    ]


def prepare(
    model: ir.Model,
    input_shapes: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    upper_bounds: Mapping[str, float],
) -> ir.Model:
    """Give a model another interface: what passes are then held against.

    Text in a shape is a dynamic dimension; empty ``outputs`` keeps them. UsageError if an
    input or value is missing, a shape has another rank, or the nodes do not take it.
    """
    known = set(complaints(model, full=True)) if input_shapes else set()
    inputs = {str(v.name): v for v in model.graph.inputs}
    before = _places_of_names(model)
    for name, shape in input_shapes.items():
        value = inputs.get(name)
        if value is None:
            raise UsageError(f"the model has no input {name!r}", help=near(name, inputs))
        if value.shape is not None and len(value.shape) != len(shape):
            raise UsageError(
                f"the input {name!r} has {len(value.shape)} dimensions, not {len(shape)}"
            )
        value.shape = ir.Shape(list(shape))
    if input_shapes:
        after = _places_of_names(model)
        _forget_shapes(model, {name for name in before if before[name] != after.get(name)})
        if new := [c for c in complaints(model, full=True) if c not in known]:
            raise UsageError(
                f"the model does not take these shapes: {new[0]}",
                help="inspect model --show layers prints what reads the inputs",
            )
        _infer_all(model)
    for name, bound in upper_bounds.items():
        _bound(model, name, bound)
    if outputs:
        infer_shapes(model)
        model = extract(model, outputs=[Cut(name) for name in outputs])
    return model


def check_runs(model: ir.Model) -> None:
    """Run a model once on ONNX Runtime, or raise UsageError: inference misses some shapes."""
    try:
        with engine_for(model).prepare(model) as session:
            try:
                session.run(generate(model, samples=1)[0])
            except EngineError:
                if InputSearch(model, samples=1).search(session) is None:
                    raise
    except EngineUnavailableError:
        raise
    except EngineError as error:
        raise UsageError(
            f"the model does not run with these shapes: {error.message}",
            help="give others, or --no-verify to write it all the same",
        ) from error


def _infer_all(model: ir.Model) -> None:
    """Infer the shapes of outputs too, which inference leaves as their user declared them.

    A declared name stays where inference finds neither a size nor a name of an input.
    """
    outputs = list(model.graph.outputs)
    declared = [value.shape for value in outputs]
    model.graph.outputs.clear()
    try:
        infer_shapes(model)
    finally:
        model.graph.outputs.extend(outputs)
    for value, shape in zip(outputs, declared, strict=True):
        if value.shape is not None and shape is not None and len(value.shape) == len(shape):
            pairs = zip(value.shape, shape, strict=True)
            value.shape = ir.Shape([old if is_invented(new) else new for new, old in pairs])


def _places_of_names(model: ir.Model) -> dict[str, set[tuple[int, int]]]:
    """Return the inputs and axes whose dimensions read each name, alone or in a formula."""
    found: dict[str, set[tuple[int, int]]] = {}
    for index, value in enumerate(model.graph.inputs):
        for axis, dim in enumerate(value.shape or ()):
            for name in _names_of(dim):
                found.setdefault(name, set()).add((index, axis))
    return found


def _names_of(dim: int | ir.SymbolicDim) -> set[str]:
    name = None if isinstance(dim, int) else dim.value
    return {name, *names_in(name)} if name else set()


def _forget_shapes(model: ir.Model, changed: AbstractSet[str]) -> None:
    """Drop what ``changed`` dimensions lead to; an output keeps names that hold."""
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
    for value in model.graph.outputs:
        if value.shape is not None and value.producer() is not None:
            names = [_names_of(dim) for dim in value.shape]
            dims = zip(value.shape, names, strict=True)
            value.shape = ir.Shape([d if n and not n & changed else None for d, n in dims])


def _bound(model: ir.Model, name: str, bound: float) -> None:
    known = {str(v.name): v for node in model.graph for v in node.outputs}
    if name not in known:
        raise UsageError(f"no node computes {name!r}", help=near(name, known))

    def least(b: Builder, value: ir.Value) -> ir.Value:
        made: ir.Value = b.op.Min(value, b.constant(bound, dtype=value.dtype))
        return made

    value = known[name]
    if value.dtype is None:
        infer_shapes(model)
    insert_after(model, value, least)
