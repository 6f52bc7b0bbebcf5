"""How far two sides of a change are apart in double precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import float_limits
from onnx_passes.pipeline.float64_part import PartInFloat64
from onnx_passes.runtime.engine_base import Array
from onnx_passes.verify.float64 import RandomRoundings

_DOUBLE = 1e-9
"""How far double precision may be off, as a share of the largest element."""

_SPREADS = 4.0
"""How many times the spread of a few random roundings an element may be off."""

_CONSTANTS = RandomRoundings(0, constants=0.5)

_FEW = 4


def distance_of(
    sides: Sequence[PartInFloat64], tensor: ir.TensorProtocol | None
) -> float | None:
    """Return how far two sides are apart in double precision.

    Args:
        sides: The part before, and the one after if the value is not a constant there.
        tensor: The constant; None for none.

    Returns:
        0 where rounding of their constants explains it; None where shapes, NaN or infinities
        differ.
    """
    old = sides[0].exact
    new = (
        sides[1].exact if tensor is None else [tensor.numpy().astype(np.float64) for _ in old]
    )
    most, moved = 0.0, _Moved(sides)
    for k, (left, right) in enumerate(zip(old, new, strict=True)):
        if left.shape != right.shape:
            return None
        finite = np.isfinite(left) & np.isfinite(right)
        if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
            return None
        difference = np.abs(left - right, where=finite, out=np.zeros(left.shape))
        size = float(np.max(np.abs(left), initial=0.0, where=finite))
        if (difference <= _DOUBLE * size).all():
            continue
        own = np.zeros(left.shape)
        if tensor is not None:
            own += np.abs(right) * _epsilon(tensor.dtype)
        for spread in moved.growing(k):
            slack = spread + own
            # By chance, no trial moved some element much: it may move as its neighbours do.
            usual = float(
                np.sqrt(np.mean(np.square(slack, where=finite, out=np.zeros(left.shape))))
            )
            allowed = _SPREADS * np.maximum(slack, usual) + _DOUBLE * size
            if (difference <= allowed)[finite].all():
                break
        else:
            most = max(most, float(difference.max()))
    return most


@dataclass
class _Moved:
    """What roundings of constants do to each element, by side and sample.

    A trial only makes it larger, so that those not needed are not evaluated.
    """

    sides: Sequence[PartInFloat64]
    spreads: dict[int, list[Array]] = field(default_factory=dict)
    trials: int = 0

    def growing(self, sample: int) -> Iterator[Array]:
        """Yield what they do to a sample, after ever more trials, until all were made."""
        if self.spreads:
            yield self._of(sample)
        while self.trials < _FEW * len(self.sides):
            seed, side = divmod(self.trials, len(self.sides))
            found = self.sides[side].spread(replace(_CONSTANTS, seed=seed), 1)
            known = self.spreads.get(side, found)
            self.spreads[side] = [np.fmax(*both) for both in zip(known, found, strict=True)]
            self.trials += 1
            yield self._of(sample)

    def _of(self, sample: int) -> Array:
        return np.asarray(sum(spread[sample] for spread in self.spreads.values()))


def _epsilon(dtype: ir.DataType) -> float:
    return float(float_limits(dtype.numpy()).eps) if dtype.is_floating_point() else 0.0
