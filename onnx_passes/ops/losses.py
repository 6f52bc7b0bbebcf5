"""Operators that say how far scores are from the right classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.composition import Composition
from onnx_passes.ops.input_hints import ValueHint
from onnx_passes.ops.operator_class import Result
from onnx_passes.ops.rows import along_axes
from onnx_passes.ops.semantics import Elements, Misfit, Unsupported
from onnx_passes.ops.softmax import LogSoftmax
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Use, below


class _Loss(Composition, abstract=True):
    """A loss: of the scores [batch, classes, ...], the right classes count."""

    steers = (1,)

    def reduced(self, call: Call, scores: Elements) -> Tensor:
        """Return the loss for the logarithms of probabilities [batch, classes, ...]."""
        x, classes, weight = call.required(0), call.static(1), call.given(2)
        if classes.shape != (*x.shape[:1], *x.shape[2:]):
            raise Misfit(f"classes of {classes.shape} for scores of {x.shape}")
        ignored = call.attribute("ignore_index", None)
        left_out = np.zeros(classes.shape, np.bool_) if ignored is None else classes == ignored
        chosen = np.where(left_out, 0, classes).astype(np.int64)
        if ((chosen < 0) | (chosen >= x.shape[1])).any():
            raise Misfit("a class that there is not")
        a = call.primitives(x.dtype)
        right = np.take_along_axis(scores, chosen[:, None], 1)[:, 0]
        one, zero = (
            call.semantics.constant(np.full(classes.shape, n, x.dtype.numpy()), x.dtype)
            for n in (1, 0)
        )
        weights = (one if weight is None else weight.data[chosen]).copy()
        weights[left_out] = zero[left_out]
        losses = call.semantics.map(lambda s, w: a.mul(a.neg(s), w), right, weights)
        losses = losses.copy()
        losses[left_out] = zero[left_out]
        how = call.text("reduction", "mean")
        if how == "none":
            return Tensor(losses, x.dtype)
        if left_out.all():
            raise Unsupported("the loss of nothing")
        total = call.semantics.along(a.total, losses.reshape(-1))
        if how == "mean":
            whole = call.semantics.along(a.total, weights.reshape(-1))
            total = call.semantics.map(a.div, np.asarray(total), np.asarray(whole))
        return Tensor(np.asarray(total), x.dtype)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 1:
            return Operand((2,), ir.DataType.INT64, (0, 2), constant=True)
        rows, classes = first(known, (2, 3))[:2]
        return c.data((rows, classes) if index == 0 else (classes,))

    def options(self, name: str, known: Known) -> Sequence[object]:
        return (None, "none", "sum", "mean") if name == "reduction" else ()

    def admits(self, use: Use) -> ValueHint | None:
        return below(use.dimension(0, 1)) if use.index == 1 else None


class NegativeLogLikelihoodLoss(_Loss):
    """What the right classes lack of probability."""

    def computed(self, call: Call) -> Tensor:
        return self.reduced(call, call.required(0).data)


class SoftmaxCrossEntropyLoss(_Loss):
    """What the right classes lack of the probability that a softmax of scores gives them."""

    def computed(self, call: Call) -> Result:
        x = call.required(0)
        scores = along_axes(call, x, [1], self.op_type, LogSoftmax().rows)
        return self.reduced(call, scores.data), scores
