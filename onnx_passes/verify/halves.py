"""Results in half precision, of which a tolerance for each element says too little."""

from __future__ import annotations

from onnx_passes.contracts import Tolerance
from onnx_passes.runtime.base import Outputs
from onnx_passes.verify.compare import compare

HALVES = ("float16", "bfloat16")


def halves_that_agree(known: Outputs, new: Outputs, tolerance: Tolerance) -> set[str]:
    """Return the outputs of half precision that agree within their largest element.

    A sum that cancels keeps the rounding of its terms, and of eleven bits that is a lot: one
    rounding less, which is all that a fusion may do, shows in the small elements.
    """
    dtypes = {name: str(getattr(value, "dtype", "")) for name, value in known.items()}
    halves = [n for n, d in dtypes.items() if d in HALVES and n in new]
    if not halves:
        return set()
    before, after = ({name: side[name] for name in halves} for side in (known, new))
    checks = compare(before, after, tolerance, scale_by_max=True)
    return {check.output for check in checks if check.passed}
