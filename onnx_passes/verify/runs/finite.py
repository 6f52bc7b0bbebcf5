"""NaN and infinities in results."""

from __future__ import annotations

import numpy as np

from onnx_passes.contracts.elements import kind_of
from onnx_passes.runtime.engine_base import Array
from onnx_passes.verify.runs.found import Invalid


def not_finite(run: str, name: str, sample: int, array: Array) -> Invalid | None:
    """Return what is not finite in a value; None where all of it is.

    Args:
        run: Name of the run.
        name: Name of the value.
        sample: Number of the sample.
        array: The value, of any shape and type.
    """
    if kind_of(array.dtype) not in ("float", "complex"):
        return None
    bad = ~np.isfinite(array)
    if not bad.any():
        return None
    nan = int(np.isnan(array).sum())
    first = np.unravel_index(int(bad.argmax()), array.shape)
    inf = int(bad.sum()) - nan
    return Invalid(run, name, sample, nan, inf, tuple(int(i) for i in first))
