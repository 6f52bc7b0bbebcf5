"""Operators for onnx's reference evaluator, whose own read many versions as the newest one.

Measured with onnx 1.23: Softmax, LogSoftmax and Hardmax before opset 13 normalise one axis in
place of all behind it. Before opset 7 arithmetic does not know at which axis to broadcast, and
a PRelu may take slopes of channels for those of the last axis. BatchNormalization of opsets 9
to 13 trains, and RoiAlign of opset 10 moves its regions by half a pixel. LogSoftmax of any
opset is the logarithm of a Softmax, which is minus infinity where that of a float32 is 0, from
-104 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op
from onnx.reference.ops.op_roi_align import RoiAlign as OnnxRoiAlign

from onnx_passes.runtime.engine_base import Array

ONE_AXIS = 13
"""The opset from which on a Softmax normalises one axis."""
FREE_OF_IS_TEST, SAYS_THAT_IT_TRAINS = 7, 14
"""The opsets that changed how BatchNormalization is made to train."""
BROADCASTS = 7
"""The opset from which on operands are broadcast as numpy does."""
HALF_PIXELS = 16
"""The opset from which on RoiAlign says where pixels lie."""
_OF_TWO = {"PRelu"} | {
    schema.name
    for schema in onnx.defs.get_all_schemas_with_history()
    if "broadcast" in schema.attributes and schema.max_input == 2
}


class _Versioned(OpRun):
    op_domain = ""

    @property
    def opset(self) -> int:
        return int(self.run_params["opsets"][self.onnx_node.domain])


class Softmax(_Versioned):
    """Each row over its sum. Before opset 13, a row is all axes from one on."""

    def _run(self, x: Array, axis: int) -> tuple[Array]:
        if not x.size:
            return (x,)
        rows = x
        if self.opset < ONE_AXIS:
            given = any(a.name == "axis" for a in self.onnx_node.attribute)
            before = x.shape[: axis if given else 1]
            rows, axis = x.reshape(math.prod(before), -1), 1
        return (self.normalize(rows, axis).reshape(x.shape).astype(x.dtype),)

    def normalize(self, x: Array, axis: int) -> Array:
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        found: Array = powers / powers.sum(axis=axis, keepdims=True)
        return found


class LogSoftmax(Softmax):
    """The logarithm of a Softmax, without that of a quotient."""

    def normalize(self, x: Array, axis: int) -> Array:
        less = x - x.max(axis=axis, keepdims=True)
        found: Array = less - np.log(np.exp(less).sum(axis=axis, keepdims=True))
        return found


class Hardmax(Softmax):
    """One at the first maximum of a row, and zero."""

    def normalize(self, x: Array, axis: int) -> Array:
        found = np.zeros_like(x)
        np.put_along_axis(found, x.argmax(axis=axis, keepdims=True), 1, axis=axis)
        return found


class BatchNormalization(_Versioned):
    """Normalises with the statistics given, or in training with those of the batch."""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        mean: Array,
        var: Array,
        *,
        epsilon: float,
        momentum: float,
        training_mode: int,
        is_test: int = 0,
        spatial: int = 1,
        **_: object,
    ) -> tuple[Array, ...]:
        axes = tuple(axis for axis in range(x.ndim) if axis != 1) if spatial else (0,)
        if self.opset < SAYS_THAT_IT_TRAINS:
            others = any(self.onnx_node.output[1:])
            training_mode = others if self.opset >= FREE_OF_IS_TEST else not is_test
        statistics: list[Array] = []
        used = mean, var
        if training_mode:
            used = x.mean(axis=axes), x.var(axis=axes)
            pairs = zip((mean, var), used, strict=True)
            running = [a * momentum + b * (1 - momentum) for a, b in pairs]
            statistics = [a.astype(mean.dtype) for a in (*running, *used)]
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        m, v, s, b = (p.reshape(shape if x.ndim > 1 else -1) for p in (*used, scale, bias))
        y = s * (x - m) / np.sqrt(v + epsilon) + b
        return (y.astype(x.dtype), *statistics)


class RoiAlign(_Versioned, OnnxRoiAlign):
    """The mean or maximum of samples in regions."""

    def _load_attributes(self) -> None:
        super()._load_attributes()
        if self.opset < HALF_PIXELS:
            self.coordinate_transformation_mode = "output_half_pixel"


class _Broadcast(_Versioned):
    """Before opset 7, axes of the second operand match those of the first from one on.

    The slopes of a PRelu are those of channels.
    """

    compute: Callable[..., tuple[Array]]

    def _run(self, x: Array, y: Array, **_: object) -> tuple[Array]:
        axis = getattr(self, "axis", None)
        if self.op_type == "PRelu" and self.opset < BROADCASTS and y.size > 1:
            axis = 1
        if axis is not None:
            y = y.reshape(y.shape + (1,) * (x.ndim - axis % x.ndim - y.ndim))
        return self.compute(x, y)


def _with_axis(name: str) -> type[OpRun]:
    own = load_op("", name)
    # The evaluator finds an operator by the name of its class.
    return type(name, (_Broadcast, own), {"compute": own._run})


OPERATORS: Sequence[type[OpRun]] = (
    *(Softmax, LogSoftmax, Hardmax, BatchNormalization, RoiAlign),
    *map(_with_axis, _OF_TWO),
)
