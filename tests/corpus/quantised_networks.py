"""What a preset makes of random quantised networks, element by element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.ops.bodies.domains import is_quantiser
from onnx_passes.passes.analysis._between import floats_between, steps_of
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.float64 import evaluate
from onnx_passes.verify.models import Recipe
from onnx_passes.verify.models.networks import INTEGERS
from tests.corpus.settled import result_of

RUNS = 24
"""Runs of an original whose quantisers read something else."""

SHARE = 2.0**-20
"""How far that is from what they read, as a share of its largest element."""

RTOL, ATOL = 1e-4, 1e-5
"""What rounding may change in an output whose integers are the same."""


@dataclass(frozen=True)
class Outcome:
    """What a preset made of one network.

    Attributes:
        model: The result.
        elements: Elements of its outputs that were compared.
        undecided: Those that also change if what quantisers of the original read is moved by
            about what its sums are rounded by, up or down at random, or is computed in double
            precision.
        changed: The others that are not what they were.
        floats: Nodes between thresholds that compute in floating point.
        quantisers: Quantisers that are left.
        is_regular: Whether integers suffice between the network's quantisers.
    """

    model: ir.Model
    elements: int
    undecided: int
    changed: int
    floats: list[ir.Node]
    quantisers: list[ir.Node]
    is_regular: bool


def outcome(recipe: Recipe, config: PipelineConfig, samples: int = 3) -> Outcome:
    """Run a preset on the network of a recipe, and compare what both compute."""
    original = recipe.model()
    feeds = generate(original, seed=recipe.seed % 1000, samples=samples)
    result = result_of(original, config).model
    elements = undecided = changed = 0
    with (
        OnnxRuntimeEngine(prepacking=False).prepare(_moved(original)) as beside,
        OnnxRuntimeEngine(prepacking=False).prepare(original) as before,
        OnnxRuntimeEngine(prepacking=False).prepare(result) as after,
    ):
        for sample in feeds:
            (old,), (new,) = before.run(sample).values(), after.run(sample).values()
            unsure = np.zeros(old.shape, np.bool_)
            for _ in range(RUNS):
                (other,) = beside.run(sample).values()
                unsure |= _differ(old, other)
            if (_differ(old, new) & ~unsure).any():
                (exact,) = evaluate(original, [sample]).outputs[0].values()
                unsure |= _differ(old, exact)
            elements += old.size
            undecided += int(unsure.sum())
            changed += int((_differ(old, new) & ~unsure).sum())
    _, left = steps_of(result.graph)
    regular = INTEGERS in original.metadata_props
    floats = floats_between(result.graph)
    return Outcome(result, elements, undecided, changed, floats, left, regular)


def _moved(model: ir.Model) -> ir.Model:
    """Return a copy whose quantisers read values that are moved, otherwise in each run."""
    copy = model.clone()
    for number, node in enumerate(list(copy.graph)):
        if is_quantiser(node.domain, node.op_type) and node.inputs[0].const_value is None:
            value = node.inputs[0]
            moved = [
                ir.Node("", "RandomUniformLike", [value], _attributes(number)),
                ir.Node("", "Abs", [value]),
            ]
            signs, size = (made.outputs[0] for made in moved)
            most = ir.Node("", "ReduceMax", [size], [ir.AttrInt64("keepdims", 0)])
            step = ir.Node("", "Mul", [signs, most.outputs[0]])
            place = ir.Node("", "Add", [value, step.outputs[0]])
            nodes = [*moved, most, step, place]
            for index, made in enumerate(nodes):
                made.name = made.outputs[0].name = f"moved_{number}_{index}"
            node.graph.insert_before(node, nodes)
            node.replace_input_with(0, place.outputs[0])

    return copy


def _attributes(number: int) -> list[ir.Attr]:
    return [
        ir.AttrFloat32("low", -SHARE),
        ir.AttrFloat32("high", SHARE),
        ir.AttrFloat32("seed", float(number + 1)),
    ]


def _differ(old, new):
    return ~np.isclose(old, new, rtol=RTOL, atol=ATOL, equal_nan=True)
