"""Error growth: how much farther a result is from the truth than the one before was.

Allclose asks whether two float results are near each other, and fails rewrites that only round
in another order, in deep models. What matters is whether the new result is worse: its root
mean square error against a reference in double precision, over that of the old one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_passes.arrays import Array, float_limits
from onnx_passes.contracts import Tolerance
from onnx_passes.contracts.scores import kind_of
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.compare import compare
from onnx_passes.verify.result import OutputCheck

FLOOR = 0.1
"""The least error that counts, in units in the last place of the output's largest element.

An old result may be exact by luck; growth is not measured against nothing.
"""
_ANY = Tolerance(1e300, 1e300)


def error_growth(
    old: Outputs, new: Outputs, truth: Outputs, limit: float, floor: float = FLOOR
) -> list[OutputCheck]:
    """Compare the errors of two results.

    Names, types, shapes, NaN and infinities are compared as always, integers exactly. Only an
    infinity that double precision has, too, is right whatever the old result was.

    Args:
        old: Outputs of the model that is held to be right.
        new: Outputs of the model in question.
        truth: Outputs in double precision.
        limit: How many times the error of ``old`` that of ``new`` may be.
        floor: The least error that counts, as :data:`FLOOR`.

    Returns:
        A check for each output; ``share`` is the growth over the limit.
    """
    held = {name: _corrected(old[name], new.get(name), truth.get(name)) for name in old}
    checks = compare(held, new, _ANY)
    return [_judged(c, old, new, truth, limit, floor) if c.passed else c for c in checks]


def _corrected(old: Data, new: Data | None, truth: Data | None) -> Data:
    """Return the old result, with the infinities that the new one and the truth agree on."""
    arrays = (old, new, truth)
    if not all(isinstance(a, np.ndarray) and _is_float(a) for a in arrays):
        return old
    before, after, exact = (np.asarray(a) for a in arrays)
    if before.dtype != after.dtype or not before.shape == after.shape == exact.shape:
        return old
    agreed = np.isinf(exact) & (after == exact)
    return np.where(agreed, after, before)


def _judged(
    check: OutputCheck,
    old: Outputs,
    new: Outputs,
    truth: Outputs,
    limit: float,
    least_steps: float,
) -> OutputCheck:
    name = check.output
    arrays = [outputs.get(name) for outputs in (old, new, truth)]
    if not all(isinstance(a, np.ndarray) and _is_float(a) for a in arrays):
        return check
    before, after, exact = (np.asarray(a, np.float64) for a in arrays)
    if before.shape != exact.shape or not exact.size:
        return check
    usable = np.isfinite(before) & np.isfinite(after) & np.isfinite(exact)
    if not usable.any():
        return check
    scale = float(np.max(np.abs(exact[usable])))
    floor = least_steps * scale * _resolution(old[name])
    error_before, error_after = (_rms(a[usable] - exact[usable]) for a in (before, after))
    least = max(error_before, floor)
    if error_after <= floor:
        growth = min(1.0, error_after / least) if least else 0.0
    else:
        growth = error_after / least if least else float("inf")
    found = replace(
        check,
        passed=growth <= limit,
        rmse_old=error_before,
        rmse_new=error_after,
        share=growth / limit,
        rtol=0.0,
        atol=0.0,
        limit=None,
    )
    if found.passed:
        return found
    reason = (
        f"its error is {growth:.3g} times what it was ({error_after:.3g} against "
        f"{least:.3g}), over the limit of {limit:g}"
    )
    return replace(found, reason=reason)


def _is_float(array: Array) -> bool:
    return kind_of(array.dtype) == "float"


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _resolution(data: Data) -> float:
    return float(float_limits(np.asarray(data).dtype).eps)
