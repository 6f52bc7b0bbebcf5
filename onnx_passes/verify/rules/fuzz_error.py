"""How far a rule's results are from the original's: what a declared tolerance is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.contracts import Tolerance
from onnx_passes.verify.elementwise import default_tolerance
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
    errors: dict[str, Error], declared: Tolerance, low: Sequence[Tolerance] = ()
) -> str | None:
    """Return in one sentence which error is above a declared tolerance, or None.

    As for tensors inside a model, the relative part is taken of the largest element.

    Args:
        errors: By type of the outputs.
        declared: The tolerance; parts of it that are None are the defaults.
        low: Tolerances of outputs that depend on values below float32, as the gate has them.
    """
    for kind, error in errors.items():
        usual = [default_tolerance(np.dtype(kind))]
        usual += [(t.rtol, t.atol) for t in low if t.rtol is not None and t.atol is not None]
        default = max(usual)
        rtol = default[0] if declared.rtol is None else declared.rtol
        atol = default[1] if declared.atol is None else declared.atol
        largest = error.absolute / error.relative if error.relative else 0.0
        if error.absolute > atol + rtol * largest:
            return (
                f"{kind} outputs are off by {error.absolute:.3g}, {error.relative:.3g} of the "
                f"largest element; declared are rtol={rtol:g} and atol={atol:g}"
            )
    return None
