"""What `assert` can demand of a model, and whether a demand holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from onnx_passes.ops.domains.intervals import Interval
from onnx_passes.passes.analysis._operators import known_operator
from onnx_passes.passes.base import Analysis
from onnx_passes.passes.options import Size

_PREFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_COUNT = re.compile(r"(\d{1,18}(?:\.\d+)?(?:[eE]\+?\d{1,2})?)\s*([kKMGT]?)")


def parse_count(value: object) -> object:
    """Turn ``"8.2 G"`` and ``"4e9"`` into a number; leave anything but text to pydantic."""
    if not isinstance(value, str):
        return value
    match = _COUNT.fullmatch(value.strip())
    if match is None:
        raise ValueError("a count is a number, with k, M, G or T if you like, such as 8.2 G")
    return round(float(match[1]) * _PREFIXES[match[2].upper()])


Count = Annotated[int, Field(ge=0), BeforeValidator(parse_count)]
"""A number of things; text such as ``8.2 G`` is understood."""


def _ordered(range_: Interval) -> Interval:
    if not range_[0] <= range_[1]:
        raise ValueError("a range is the least number, then the greatest")
    return range_


Range = Annotated[Interval, AfterValidator(_ordered)]
"""The least and the greatest number."""

Operator = Annotated[str, AfterValidator(known_operator)]
"""An operator; one that ONNX does not have is a slip, and would never be found."""


class Asked(Analysis):
    """The options of `assert`, each a demand."""

    max_nodes: Count | None = None
    max_parameters: Count | None = None
    max_size: Size | None = None
    max_flops: Count | None = None
    max_traffic: Size | None = None
    max_peak_memory: Size | None = None
    max_op_counts: dict[Operator, Count] = Field(default_factory=dict)
    ops_absent: tuple[Operator, ...] = ()
    ops_present: tuple[Operator, ...] = ()
    ops_only: tuple[Operator, ...] | None = None
    static_shapes: bool = False
    min_opset: Count | None = None
    max_opset: Count | None = None
    connected: bool = False
    acyclic: bool = False
    dominators: tuple[str, ...] = ()
    isomorphic_to: str | None = None
    ranges: dict[str, Range] = Field(default_factory=dict)
    inputs: dict[str, Range] = Field(default_factory=dict)
    dims: dict[str, int] = Field(default_factory=dict)
    integers_between_thresholds: bool = False
    floats: tuple[Operator, ...] = ()
    accumulator_bits: Annotated[int, Field(ge=1, le=64)] | None = None


@dataclass(frozen=True)
class DemandResult:
    """Whether one demand holds.

    Attributes:
        holds: Whether it does.
        text: What was found, beside what was asked for.
        help: What to do if it does not.
    """

    holds: bool
    text: str
    help: str | None = None
