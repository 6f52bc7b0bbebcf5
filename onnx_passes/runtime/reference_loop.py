"""Loop for onnx's reference evaluator, whose own stacks the scanned values wrongly.

Measured with onnx 1.23: values of iterations with two dimensions or more are joined along the
first of them, and scalars get a dimension too many. A loop without iterations that scans
anything is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import onnx
import onnx.shape_inference
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.op_loop import Loop as OnnxLoop

from onnx_passes.model.inference import infer
from onnx_passes.model.protos import all_bodies
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Array


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
