"""Operators for onnx's reference evaluator, whose own are wrong in old versions and in Loop.

Measured with onnx 1.23. Softmax before opset 13 normalises one axis in place of all behind it,
and Loop joins scanned values along a wrong dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import onnx
import onnx.shape_inference
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op
from onnx.reference.ops.op_loop import Loop as OnnxLoop
from onnx.reference.ops.op_roi_align import RoiAlign as OnnxRoiAlign

from onnx_passes.arrays import Array
from onnx_passes.model.inference import infer
from onnx_passes.model.protos import all_bodies
from onnx_passes.plain import PlainDict

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


_NEWEST = load_op("", "DequantizeLinear", onnx.defs.onnx_opset_version())
DequantizeLinear: type[OpRun] = type("DequantizeLinear", (_NEWEST,), {"op_domain": ""})
"""The newest one, which means the same in opsets before 19, where onnx has none."""

OPERATORS: Sequence[type[OpRun]] = (
    DequantizeLinear,
    *(Softmax, LogSoftmax, Hardmax, BatchNormalization, RoiAlign),
    *map(_with_axis, _OF_TWO),
)


class ReferenceLoop(OnnxLoop):
    """Loop, as the standard says."""

    op_domain = ""
    body: ReferenceEvaluator
    _run_body: Callable[..., list[Array]]

    def _run(
        self,
        M: Array | None,  # noqa: N803 - the operator's own name
        cond: Array | None,
        *carried: Array,
        context: PlainDict | None = None,
        body: object = None,
        attributes: object = None,
        bindings: object = None,
    ) -> tuple[Array, ...]:
        del body
        count, going, values = 0, cond is None or bool(np.all(cond)), list(carried)
        scanned: list[list[Array]] = [[] for _ in range(self.K)]
        index, goes_on, *names = self.body.input_names
        inputs = dict(context or {})
        while going and (M is None or count < int(np.asarray(M).item())):
            inputs |= {index: np.array(count, np.int64), goes_on: np.array(going)}
            inputs |= dict(zip(names, values, strict=True))
            again, *made = self._run_body(inputs, attributes=attributes, bindings=bindings)
            going, values, count = bool(np.all(again)), made[: self.N], count + 1
            for kept, value in zip(scanned, made[self.N :], strict=True):
                kept.append(value)
        kinds = self.body.output_types[1 + self.N :] if self.K else []
        stacked = [_stack(kept, kind) for kept, kind in zip(scanned, kinds, strict=True)]
        result: tuple[Array, ...] = self._check_and_fix_outputs((*values, *stacked))
        return result


def _stack(values: Sequence[Array], kind: onnx.TypeProto) -> Array:
    """Stack the values of iterations; of none, as the body declares them."""
    if values:
        return np.stack(values)
    tensor = kind.tensor_type
    sizes = [dim.dim_value for dim in tensor.shape.dim]
    # Where inference fails, the type is not known; most loops stack floats.
    known = tensor.elem_type or onnx.TensorProto.DOUBLE
    return np.empty((0, *sizes), onnx.helper.tensor_dtype_to_np_dtype(known))


ReferenceLoop.__name__ = "Loop"  # onnx's evaluator finds an operator by the name of its class


def with_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Infer what loops stack: of no iterations, that is all that says its shape."""
    bodies = (body for _, body in all_bodies(proto))
    if not any(node.op_type == "Loop" for body in bodies for node in body.node):
        return proto
    with suppress(onnx.shape_inference.InferenceError):
        return infer(proto)
    return proto
