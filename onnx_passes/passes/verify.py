"""Decorators with which a pass declares its contract; the pipeline enforces it.

A function that is put into this module is a metric of that name, as in the seed system::

    import onnx_passes.passes.verify as verify

    verify.share_of_zeros = lambda produced, expected: float((produced[0] == 0).mean())
"""

from functools import partial

from onnx_passes.contracts import equality, metric, metrics, tolerance
from onnx_passes.contracts.scores import (
    accuracy,
    count_mispredictions,
    max_abs_error,
    top_k_accuracy,
)
from onnx_passes.errors import VerificationError

__all__ = [
    "VerificationError",
    "accuracy",
    "count_mispredictions",
    "equality",
    "max_abs_error",
    "metric",
    "metrics",
    "tolerance",
    "top_5_accuracy",
]

top_5_accuracy = partial(top_k_accuracy, 5)

metrics.watch_namespace(globals())
