"""How far a rule's results are from the original's: what a declared tolerance is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_passes.contracts import Tolerance
from onnx_passes.verify.judge import Promise, describe
from onnx_passes.verify.rules.proof import Counterexample

_ORDINARY = 1e3
"""Inputs up to this size; behind infinities and overflow no tolerance is kept by anyone."""


@dataclass(frozen=True, slots=True)
class Error:
    """The largest differences seen in outputs of one type.

    Attributes:
        relative: Largest difference, measured against the largest element of its tensor.
        absolute: Largest difference.
    """

    relative: float = 0.0
    absolute: float = 0.0

    def joined(self, other: Error) -> Error:
        """Return the larger of both in each respect."""
        return Error(max(self.relative, other.relative), max(self.absolute, other.absolute))


def errors_of(found: Counterexample) -> dict[str, Error]:
    """Return the errors of float outputs by type; empty where inputs are not ordinary."""
    for array in found.feeds.values():
        if array.dtype.kind not in "biu":
            wide = np.abs(array.astype(np.float64))
            if not np.all(wide <= _ORDINARY):
                return {}
    errors: dict[str, Error] = {}
    for name, expected in found.expected.items():
        actual = found.actual.get(name)
        if actual is None or expected.dtype.kind in "biuOSU" or actual.shape != expected.shape:
            continue
        wide, other = expected.astype(np.float64), actual.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(other)
        gap = float(np.max(np.abs(wide[finite] - other[finite]), initial=0.0))
        largest = float(np.max(np.abs(wide[finite]), initial=0.0))
        error = Error(gap / largest if largest else 0.0, gap)
        key = str(expected.dtype)
        errors[key] = errors.get(key, Error()).joined(error)
    return errors


def exceeds(
    found: Counterexample, declared: Tolerance, low: Mapping[str, Tolerance]
) -> str | None:
    """Return in one sentence which output breaks a declared tolerance, or None.

    As for tensors inside a model, the relative part is taken of the largest element. Elements
    that are not finite on one of the sides do not count.

    Args:
        found: What differs.
        declared: The tolerance; None in it means the default.
        low: Tolerances of outputs that depend on values below float32, as the gate has them.
    """
    promise = Promise(declared, overrides=low if declared == Tolerance() else {}, inside=True)
    for name, expected in found.expected.items():
        actual = found.actual.get(name)
        if actual is None or expected.dtype.kind in "biuOSU" or actual.shape != expected.shape:
            continue
        sides = (expected.astype(np.float64), actual.astype(np.float64))
        finite = np.isfinite(sides[0]) & np.isfinite(sides[1])
        broken = promise.broken({name: expected[finite]}, {name: actual[finite]})
        if broken:
            return f"{expected.dtype} output {name} breaks {declared}: {describe(broken[0])}"
    return None
