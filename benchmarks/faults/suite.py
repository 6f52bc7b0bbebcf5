"""All planted faults."""

from __future__ import annotations

from benchmarks.faults import (
    attributes,
    axes,
    bounds,
    integers,
    normalisation,
    numbers,
    operands,
    precision,
    special,
    structure,
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
    normalisation,
    structure,
)

__all__ = ["FAMILIES", "FAULTS", "Fault"]
