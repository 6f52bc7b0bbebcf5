"""Differences below float32 that are rounding: both sides are held against double precision.

A limit for types below float32 is about one rounding of the largest element. Two right chains
of some nodes are two of them apart, and those of a deep model many. The one is as good as the
other if neither is farther from the result in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.ort_sessions import LOW
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.report.text import bound, number
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.float64 import evaluate
from onnx_passes.verify.growth import error_growth
from onnx_passes.verify.recording import Recording
from onnx_passes.verify.region import leading_to
from onnx_passes.verify.region_models import part_leading_to
from onnx_passes.verify.result import Check, Verdict

GROWTH = 2.0
"""How many times the error of a value inside a model may grow."""

ROUNDING = "rounding below float32"
"""Why a value that differs passes."""

_LARGEST = 4.0
"""How many times the largest error of an element may grow: a fault may sit in one."""

_FLOOR = 0.5
"""What one rounding may do, in units in the last place of the largest element. Of a few
elements that happen to be exact, another order of roundings is as good."""

_LOW = frozenset(dtype.numpy() for dtype in LOW)


def excuse_outputs(
    check: Check,
    old: Sequence[Outputs],
    new: Sequence[Outputs],
    exact: Sequence[Outputs],
    limit: float,
) -> Check:
    """Return a failed check of outputs as passed if all that failed is rounding.

    Args:
        check: The check.
        old: What the original gave on the engine, by sample.
        new: What the model in question gave.
        exact: What the original gives in double precision.
        limit: How many times the error may grow.
    """
    wrong = {output.output for output in check.outputs if not output.passed}
    growth = 0.0
    for before, after, right in zip(old, new, exact, strict=True):
        found = [
            error_growth_of(before.get(name), after.get(name), right.get(name), limit)
            for name in wrong
        ]
        if not found or None in found:
            return check
        growth = max(growth, *(one for one in found if one is not None))
    size = max((o.max_abs or 0.0 for o in check.outputs if o.output in wrong), default=0.0)
    reason = (
        f"{', '.join(sorted(wrong)[:3])} differs by up to {bound(size)}, which is rounding "
        f"below float32: the error against float64 is {number(growth, 3)} times the original's"
    )
    outputs = tuple(
        replace(o, passed=True, reason=ROUNDING) if o.output in wrong else o
        for o in check.outputs
    )
    return replace(check, verdict=Verdict.PASSED, reason=reason, sample=None, outputs=outputs)


def is_rounding(
    model: ir.Model,
    nodes: Sequence[ir.Node],
    name: str,
    recordings: Sequence[Recording],
    produced: Sequence[Data],
) -> bool:
    """Whether a value inside a model, below float32, differs by rounding alone.

    Args:
        model: The model before.
        nodes: Those of its nodes that a pass removed.
        name: The value that differs: of a type below float32, or computed by way of some.
        recordings: The values of the model before, by sample.
        produced: What the value is in the model after.
    """
    needed = leading_to([name], nodes, lambda _: False)
    low = all(getattr(recording[name], "dtype", None) in _LOW for recording in recordings)
    if not low and not any(map(_rounds_below, needed)):
        return False
    part = part_leading_to(name, (model, nodes), recordings)
    if part is None:
        return False
    read = [str(value.name) for value in part.graph.inputs]
    try:
        feeds = [{n: recording[n] for n in read} for recording in recordings]
        exact = evaluate(part, feeds).outputs
    except OnnxPassesError:
        return False
    rows = zip(recordings, produced, exact, strict=True)
    return all(error_growth_of(o[name], n, e.get(name)) is not None for o, n, e in rows)


def _rounds_below(node: ir.Node) -> bool:
    """Whether a node, or one in its bodies, computes a value below float32."""
    if any(value.dtype in LOW for value in node.outputs):
        return True
    return any(_rounds_below(inner) for graph in subgraphs_of(node) for inner in graph)


def error_growth_of(
    old: Data | None, new: Data | None, exact: Data | None, limit: float = GROWTH
) -> float | None:
    """Return how many times the error has grown; None where that is too much.

    Args:
        old: What the engine gave before.
        new: What it gave after, of the same shape and type.
        exact: The value in double precision.
        limit: How much is too much.
    """
    arrays = (old, new, exact)
    if not all(isinstance(array, np.ndarray) for array in arrays):
        return None
    sides: list[Mapping[str, Data]] = [{"v": a} for a in arrays if a is not None]
    (found,) = error_growth(dict(sides[0]), dict(sides[1]), dict(sides[2]), limit, _FLOOR)
    if not found.passed:
        return None
    before, after, right = (np.asarray(a).astype(np.float64) for a in arrays)
    if before.shape != right.shape:
        return None
    usable = np.isfinite(before) & np.isfinite(after) & np.isfinite(right)
    if not usable.any():
        return 0.0
    # The spacing of halves at the largest element; that of float32 is less, and no matter.
    least = float(np.abs(right[usable]).max()) * 2.0**-11
    errors = [float(np.abs(side - right)[usable].max()) for side in (before, after)]
    if errors[1] > _LARGEST * max(errors[0], least):
        return None
    return (found.share or 0.0) * limit
