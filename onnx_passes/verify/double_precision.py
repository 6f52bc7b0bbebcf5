"""Differences that rounding explains: both sides are held against double precision.

A difference is not a fault of the rewrite if each side lies within the running error of its
own operators around the result of the original in double precision. Then no limit on the
difference says anything, however large it is: the inputs are ill-conditioned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes.arrays import Array
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import MALFORMED, Unsupported, is_float
from onnx_passes.runtime.engine_base import Data

Feeds: TypeAlias = Mapping[str, Array]

LIKELY = 1 << 22
"""Terms of sums, and elements, up to which likely bounds are computed."""

_SAME = 1e-9
"""How far double precision may be off, as a share of the largest element."""


def is_rounding(
    before: ir.Model, after: ir.Model, feeds: Feeds, expected: Array, actual: Array, name: str
) -> bool:
    """Whether rounding explains all elements that differ in one output.

    Args:
        before: The model before the rewrite; its outputs have names.
        after: The model after it; outputs correspond by position.
        feeds: The inputs.
        expected: What the engine gives before, a float array of any shape.
        actual: What it gives after, of the same shape.
        name: The output.

    Returns:
        False too where an operator has no bound, or the bound is infinite: then the limit of
        the type decides.
    """
    if not is_float(ir.DataType.from_numpy(expected.dtype)):
        return False
    return weigh_rounding(before, after, feeds, expected, actual, name) is True


def weigh_rounding(
    before: ir.Model, after: ir.Model, feeds: Feeds, expected: Array, actual: Array, name: str
) -> bool | None:
    """Return whether rounding explains all elements that differ in one output.

    Args:
        before: As for :func:`is_rounding`, like the others.
        after: The model after.
        feeds: The inputs.
        expected: What the engine gives before, a float array of any shape.
        actual: What it gives after, of the same shape.
        name: The output.

    Returns:
        False where an element differs by more than rounding can do; None where no element
        does, and some have no bound: an operator has none, it is infinite, or an integer
        comes of a float that is near a step.
    """
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    place = [str(o.name) for o in before.graph.outputs].index(name)
    computed_in = _computed_in(before, after)
    bounds = [
        _bounds(model, feeds, place, RoundingSemantics(computed_in))
        for model in (before, after)
    ]
    if any(b is None or b.shape != expected.shape for b in bounds):
        return None
    old, new = (b.data for b in bounds if b is not None)
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (e == a) | (np.isnan(e) & np.isnan(a))
        near = np.abs(e - old["value"]) <= old["error"]
        near &= np.abs(a - old["value"]) <= new["error"]
        known = np.isfinite(old["error"]) & np.isfinite(new["error"])
    if np.any(~same & ~near & known):
        return False
    return True if np.all(same | (near & known)) else None


def agree_in_double(before: ir.Model, after: ir.Model, feeds: Feeds, name: str) -> bool:
    """Whether both sides give the same in double precision where rounding has no bound.

    Then a rule is right in its values there, however many digits an engine loses. Whether
    it keeps a tolerance is another question, and asked of ordinary inputs. NaN has no bound
    either: a maximum that passes over it depends on the order in which an engine reads.

    Args:
        before: The model before the rewrite; its outputs have names.
        after: The model after it; outputs correspond by position.
        feeds: The inputs.
        name: The output.
    """
    place = [str(o.name) for o in before.graph.outputs].index(name)
    old, new = (_bounds(model, feeds, place, RoundingSemantics()) for model in (before, after))
    if old is None or new is None or old.shape != new.shape:
        return False
    left, right = old.data["value"], new.data["value"]
    unbounded = ~np.isfinite(old.data["error"]) | ~np.isfinite(new.data["error"])
    same = left == right
    if left.dtype.kind == "f":
        unbounded |= np.isnan(left)
        size = float(np.max(np.abs(left), initial=0.0, where=np.isfinite(left)))
        with np.errstate(invalid="ignore"):
            same |= np.abs(left - right) <= _SAME * size
            same |= np.isnan(left) & np.isnan(right)
    return bool(np.any(unbounded)) and bool(np.all(same))


def error_bounds(
    model: ir.Model, feeds: Mapping[str, Data], name: str, most: int
) -> Array | None:
    """Return how far random roundings are likely to take each element of an output.

    Args:
        model: The model.
        feeds: The inputs.
        name: The output.
        most: How many elements, or terms of sums, an operator may have.

    Returns:
        The distance from the result in double precision, of the output's shape; None where
        an operator has no bound, or is larger.
    """
    place = [str(o.name) for o in model.graph.outputs].index(name)
    semantics = RoundingSemantics(_computed_in(model), likely=True, most=most)
    arrays = {name: data for name, data in feeds.items() if isinstance(data, np.ndarray)}
    found = _bounds(model, arrays, place, semantics) if len(arrays) == len(feeds) else None
    return None if found is None else found.data["error"]


def _bounds(
    model: ir.Model, feeds: Feeds, place: int, semantics: RoundingSemantics
) -> Tensor | None:
    """Return one output in double precision, with bounds on rounding; None where untold."""
    flat = model
    if model.functions:
        flat = model.clone()
        InlinePass()(flat)
    try:
        tensors = {
            name: constant(array, ir.DataType.from_numpy(array.dtype), semantics)
            for name, array in feeds.items()
        }
        results = evaluate(flat.graph, tensors, semantics)
    except (Unsupported, *MALFORMED):
        return None
    found = results[str(flat.graph.outputs[place].name)]
    return found if found.data.dtype.names else None


def _computed_in(*models: ir.Model) -> ir.DataType | None:
    """Return the coarsest type that an operator computes in whatever its operands are."""
    found = [
        operator.computed_in
        for model in models
        for node in model.graph.all_nodes()
        if (operator := operator_of(node)) is not None and operator.computed_in is not None
    ]
    info: Any = ml_dtypes.finfo
    return max(found, key=lambda t: float(info(t.numpy()).eps), default=None)
