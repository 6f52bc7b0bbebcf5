"""All planted faults."""

from __future__ import annotations

from benchmarks.faults import (
    attributes,
    axes,
    bounds,
    extremes,
    integers,
    normalisation,
    numbers,
    operands,
    placement,
    precision,
    special,
    structure,
    whole,
)
from benchmarks.faults.case import FAULTS, Fault

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
)

__all__ = ["FAMILIES", "FAULTS", "Fault"]
