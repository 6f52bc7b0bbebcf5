"""Types and shapes of inner values that a model does not declare, inferred when asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from onnx_passes.model.slots import replaced
from onnx_passes.ops.bodies import attach_bodies

_LARGE = 1024  # bytes; shapes, axes and indices, which inference looks at, have no more

Described = tuple[ir.TypeProtocol | None, ir.Shape | None]


@dataclass
class Inferred:
    """What onnx infers of the values of a model, in one run over the whole of it.

    Attributes:
        model: The model; its declarations count before what is inferred.
    """

    model: ir.Model
    _found: dict[str, onnx.ValueInfoProto] | None = field(default=None, init=False)

    def of(self, value: ir.Value) -> Described:
        """Return the type and shape of a value, as far as they are known."""
        if value.type is not None and value.shape is not None and value.shape.is_static():
            return value.type, value.shape
        if self._found is None:
            self._found = _infer(self.model)
        told = self._found.get(value.name or "")
        if told is None:
            return value.type, value.shape
        known = ir.serde.deserialize_value_info_proto(told, None)
        return value.type or known.type, _merged(value.shape, known.shape)


def _merged(declared: ir.Shape | None, inferred: ir.Shape | None) -> ir.Shape | None:
    """Return a shape with the sizes of both, and the declared names of the others."""
    if declared is None or inferred is None or len(declared) != len(inferred):
        return inferred if declared is None else declared
    return ir.Shape(
        [
            a if isinstance(a, int) else b if isinstance(b, int) or a.value is None else a
            for a, b in zip(declared, inferred, strict=True)
        ]
    )


def _infer(model: ir.Model) -> dict[str, onnx.ValueInfoProto]:
    def small(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        del initializer
        if tensor.nbytes <= _LARGE or tensor.dtype == ir.DataType.STRING:
            return tensor
        # Types and shapes of weights are enough; the file is not looked for.
        shape, name = ir.Shape(tensor.shape.numpy()), tensor.name or ""
        return ir.ExternalTensor(
            "weights", 0, tensor.nbytes, tensor.dtype, shape=shape, name=name
        )

    with replaced(model, small):
        proto = ir.to_proto(model)
    attach_bodies(proto)
    try:
        told = onnx.shape_inference.infer_shapes(
            proto, check_type=False, strict_mode=False, data_prop=True
        )
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return {}  # a recorded run says what inference does not
    graph = told.graph
    return {info.name: info for info in (*graph.value_info, *graph.output)}
