"""What an accumulator is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from onnx_passes.arrays import Array
from onnx_passes.plain import PlainDict, PlainMapping


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


class Accumulator(Protocol):
    """Adds up blocks. ``merge`` is associative: shards may be grouped in any way."""

    def update(self, block: Block) -> None:
        """Add a block."""
        ...

    def merge(self, other: Self) -> None:
        """Add what another one of the same settings has added up."""
        ...

    def to_json(self) -> PlainDict:
        """Return the state as JSON has it."""
        ...

    def load(self, state: PlainMapping) -> None:
        """Replace the state by one of :meth:`to_json`."""
        ...

    def finish(self) -> PlainDict:
        """Return what was found, as JSON has it."""
        ...
