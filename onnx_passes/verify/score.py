"""How far outputs are from a reference, as one number that grows with the fault."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.compare import compare

GAP = 10.0
"""How far a fault must exceed the noise to be distinguished from it."""


def score(
    expected: Sequence[Outputs], produced: Sequence[Outputs], ignored: frozenset[str]
) -> float:
    """Return the largest error over all samples and outputs.

    The error of a tensor of floats is its largest absolute difference, divided by its
    largest reference element. Everything else, a shape, a NaN, an integer or a name that
    differs, is infinitely far off.

    Args:
        expected: Outputs of the reference, by sample.
        produced: Outputs of the candidate, by sample.
        ignored: Outputs that do not count as evidence.
    """
    worst = 0.0
    for old, new in zip(expected, produced, strict=True):
        left, right = _without(old, ignored), _without(new, ignored)
        if list(left) != list(right):
            return math.inf
        for name, value in left.items():
            worst = max(worst, _distance(value, right[name]))
    return worst


def resolution(outputs: Sequence[Outputs], ignored: frozenset[str]) -> float:
    """Return the coarsest rounding error of the floats among outputs; 0 without any.

    Args:
        outputs: Outputs by name, one mapping a sample.
        ignored: Outputs that do not count as evidence.
    """
    kinds = {
        value.dtype
        for sample in outputs
        for name, value in sample.items()
        if name not in ignored and isinstance(value, np.ndarray) and _is_float(value)
    }
    return max((_epsilon(kind) for kind in kinds), default=0.0)


def middle_of(noise: float, final: float) -> float:
    """Return the score that lies midway, in size, between noise and the score of a fault.

    Args:
        noise: The score of noise.
        final: The score of the fault.
    """
    # A fault beyond all bounds says nothing of the middle.
    return math.sqrt(max(noise, 1e-12) * min(max(final, noise), 1.0))


def stands_out(good: float, bad: float, noise: float) -> bool:
    """Whether a step from one score to another exceeds the noise.

    Args:
        good: The score before the step.
        bad: The score after it.
        noise: The score of noise.
    """
    return bad >= GAP * max(good, noise)


def _without(outputs: Mapping[str, Data], ignored: frozenset[str]) -> dict[str, Data]:
    return {name: value for name, value in outputs.items() if name not in ignored}


def _distance(old: Data, new: Data) -> float:
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return max((_distance(a, b) for a, b in zip(old, new, strict=True)), default=0.0)
    checks = compare({"value": old}, {"value": new}, Equality())
    if all(check.passed for check in checks):
        return 0.0
    if not (isinstance(old, np.ndarray) and isinstance(new, np.ndarray)):
        return math.inf
    if not _is_float(old) or old.dtype != new.dtype or old.shape != new.shape:
        return math.inf
    a, b = _wide(old), _wide(new)
    finite = np.isfinite(a) & np.isfinite(b)
    special = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if special.any():
        return math.inf
    largest = float(np.abs(a[finite]).max(initial=0.0))
    error = float(np.abs(b[finite] - a[finite]).max(initial=0.0))
    return error / largest if largest else math.inf


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _is_float(array: Array) -> bool:
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def _epsilon(kind: np.dtype[np.generic]) -> float:
    # numpy's finfo knows none of the types that ml_dtypes adds.
    one, two = np.array([1, 2]).astype(np.zeros(1, kind).real.dtype)
    return float(np.nextafter(one, two).astype(np.float64)) - 1
