"""What accumulators add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx_passes.arrays import Array


@dataclass(frozen=True)
class Block:
    """Results of some samples, of a reference and of a candidate.

    Attributes:
        rows: Numbers of the samples in the whole data set, int64 [n].
        left: Outputs of the reference by name, each [n, ...].
        right: Outputs of the candidate.
        labels: Labels [n, ...]; None without.
    """

    rows: Array
    left: Mapping[str, Array]
    right: Mapping[str, Array]
    labels: Array | None = None
