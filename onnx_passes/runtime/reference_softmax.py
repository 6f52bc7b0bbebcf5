"""LogSoftmax for onnx's reference evaluator, whose own loses what is small.

Measured with onnx 1.23: it takes the logarithm of a Softmax, which is minus infinity where the
Softmax of a float32 is 0, from -104 on.
"""

from __future__ import annotations

import numpy as np
from onnx.reference.ops.op_log_softmax import LogSoftmax as OnnxLogSoftmax

from onnx_passes.runtime.engine_base import Array


class ReferenceLogSoftmax(OnnxLogSoftmax):
    """LogSoftmax, without the logarithm of a quotient."""

    op_domain = ""
    axis: int

    def _run(
        self,
        X: Array,  # noqa: N803 - the operator's own name
        axis: int | None = None,
    ) -> tuple[Array]:
        if not X.size:
            return (X,)
        axis = self.axis if axis is None else axis
        less = X - X.max(axis=axis, keepdims=True)
        total = np.log(np.exp(less).sum(axis=axis, keepdims=True))
        return ((less - total).astype(X.dtype),)


# onnx's evaluator finds an operator by the name of its class.
ReferenceLogSoftmax.__name__ = OnnxLogSoftmax.__name__
