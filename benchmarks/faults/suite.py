"""All planted faults."""

from __future__ import annotations

from benchmarks.faults import (
    attributes,
    axes,
    bodies,
    bodies_more,
    bounds,
    extremes,
    halves,
    halves_more,
    handwritten,
    handwritten_more,
    helpers,
    helpers_more,
    integers,
    interfaces,
    interfaces_more,
    masked,
    masked_more,
    normalisation,
    numbers,
    operands,
    placement,
    precision,
    sizes,
    sizes_more,
    special,
    structure,
    whole,
)
from benchmarks.faults.case import FAULTS, INNOCENTS, Fault

FAMILIES = (
    numbers,
    operands,
    axes,
    bounds,
    attributes,
    integers,
    precision,
    special,
    extremes,
    normalisation,
    structure,
    placement,
    whole,
    masked,
    masked_more,
    bodies,
    bodies_more,
    handwritten,
    handwritten_more,
    helpers,
    helpers_more,
    halves,
    halves_more,
    sizes,
    sizes_more,
    interfaces,
    interfaces_more,
)

NOT_YET = {
    # Empty samples spare reductions, of which ONNX Runtime gets the shape wrong.
    "sum-of-nothing",
    # No sample has such a size.
    "mean-times-size",
}
"""Faults that the gate does not catch, or not trace, under the setting that they name."""

NOT_YET_SPARED: frozenset[str] = frozenset()
"""Right passes, on one model or on each, or without their fault, that the gate refuses."""

__all__ = ["FAMILIES", "FAULTS", "INNOCENTS", "NOT_YET", "NOT_YET_SPARED", "Fault"]
