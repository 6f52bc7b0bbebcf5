"""Choose a value of known sizes or rank, and one of its axes."""

from __future__ import annotations

import numpy as np

from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.scope import GraphScope


def static(
    scope: GraphScope, *dtypes: int, least: int = 0
) -> tuple[KnownValue, tuple[int, ...]]:
    """Choose a value of known sizes, of at least some rank.

    Args:
        scope: The model so far.
        *dtypes: Element types that it may have.
        least: The least rank.
    """
    value = scope.pick(
        lambda v: v.dtype in dtypes and v.static is not None and v.rank >= least
    )
    assert value.static is not None
    return value, value.static


def ranked(scope: GraphScope, *dtypes: int, least: int = 1) -> KnownValue:
    """Choose a value of known rank, of at least so much.

    Args:
        scope: The model so far.
        *dtypes: Element types that it may have.
        least: The least rank.
    """
    return scope.pick(lambda v: v.dtype in dtypes and v.rank >= least)


def axis_of(rng: np.random.Generator, rank: int) -> int:
    """Draw an axis, counted from either end.

    Args:
        rng: Draws the axis.
        rank: Rank of the tensor.
    """
    return int(rng.integers(-rank, rank))
