"""What changes a node between two versions of its operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from onnx_passes.arrays import Array
from onnx_passes.ops.node_edit import Edit

Adapter: TypeAlias = Callable[[Edit], None]


@dataclass(frozen=True)
class VersionChange:
    """What a version of an operator changed beyond what its schema says.

    Attributes:
        up: Makes a node of the version of one of the version before.
        down: Undoes that.
    """

    up: Adapter | None = None
    down: Adapter | None = None


def numbers_of(array: Array | None) -> list[int] | None:
    """Return the integers of an array as a list."""
    return None if array is None else [int(number) for number in array.reshape(-1)]
