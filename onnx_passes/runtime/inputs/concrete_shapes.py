"""A model whose shapes are those of one sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import onnx
import onnx.inliner
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.ops.use import Shape, constant_of, static_shape
from onnx_passes.runtime.engine_base import Array
from onnx_passes.runtime.inputs.dimension_formulas import size_of
from onnx_passes.runtime.weightless import split_weights

_WINDOWED = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool", "ConvTranspose"})
_CHECKED = _WINDOWED | {"Reshape"}

_Noted = tuple[ir.Value, ir.TypeProtocol | None, ir.Shape | None]
"""A value, and its type and shape in one sample."""


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """Return the model without its weights, and with its functions inlined where possible."""
    proto = split_weights(model).proto
    if not proto.functions:
        return proto
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except Exception:  # the inliner raises what C++ throws; without it less is known, no more
        return proto
    return inlined


def concretize(
    proto: onnx.ModelProto, shapes: Mapping[str, Shape], sizes: Mapping[str, int]
) -> tuple[ir.Model, bool]:
    """Fix every shape and infer those in between.

    Args:
        proto: A model without weights; left as it is.
        shapes: Shapes of the inputs, by name.
        sizes: Sizes of the dynamic dimensions, by name.

    Returns:
        The model, and whether shape inference finds no contradiction in it.
    """
    concrete, consistent = Shaping(proto).fix(shapes, sizes)
    return concrete.model, consistent


class Concrete:
    """A model in the shapes of one sample."""

    def __init__(self, shaping: Shaping, own: ir.Model | None, noted: list[_Noted]) -> None:
        """Note what the shapes are.

        Args:
            shaping: What holds the nodes that all samples share.
            own: A model of its own, where nothing is shared.
            noted: The values with their types and shapes.
        """
        self._shaping, self._own, self._noted = shaping, own, noted

    @property
    def shaping(self) -> Shaping:
        """What makes further models of the same nodes."""
        return self._shaping

    @property
    def model(self) -> ir.Model:
        """The model, until that of another sample is asked for."""
        return self._shaping.show(self, self._noted) if self._own is None else self._own


class Shaping:
    """Puts one model in the shapes of any number of samples, with the nodes read once."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        """Read no node yet.

        Args:
            proto: A model without weights; left as it is.
        """
        self._proto = proto
        self._model: ir.Model | None = None
        self._shown: Concrete | None = None
        self._types: dict[bytes, tuple[ir.TypeProtocol | None, ir.Shape | None]] = {}
        # Shapes inside of bodies are many under one name.
        nested = (a for node in proto.graph.node for a in node.attribute)
        self._flat = not proto.functions and not any(
            a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in nested
        )

    def fix(
        self, shapes: Mapping[str, Shape], sizes: Mapping[str, int]
    ) -> tuple[Concrete, bool]:
        """Fix every shape and infer those in between, as ``concretize`` does.

        Args:
            shapes: Shapes of the inputs, by name.
            sizes: Sizes of the dynamic dimensions, by name.
        """
        fixed = onnx.ModelProto()
        fixed.CopyFrom(self._proto)
        for info in (*fixed.graph.input, *fixed.graph.value_info, *fixed.graph.output):
            _fix(info.type, shapes.get(info.name), sizes)
        for strict in (True, False):
            try:
                inferred = onnx.shape_inference.infer_shapes(
                    fixed, strict_mode=strict, data_prop=True
                )
            except Exception:  # raised for contradictions, and for models it cannot take
                continue
            concrete = self._read(inferred)
            return concrete, strict and all(map(_fits, concrete.model.graph))
        return self._read(fixed), False

    def show(self, concrete: Concrete, noted: list[_Noted]) -> ir.Model:
        """Give the values of the shared model the types and shapes of one sample.

        Args:
            concrete: What asks.
            noted: The values with their types and shapes.
        """
        assert self._model is not None, "one was read"
        if self._shown is not concrete:
            for value, type_, shape in noted:
                value.type, value.shape = type_, shape
            self._shown = concrete
        return self._model

    def _read(self, proto: onnx.ModelProto) -> Concrete:
        if not self._flat:
            return Concrete(self, ir.from_proto(proto), [])
        if self._model is None:
            self._model = ir.from_proto(_without_notes(self._proto))
        graph, declared = self._model.graph, proto.graph
        infos = {i.name: i for i in (*declared.input, *declared.value_info, *declared.output)}
        values = (*graph.inputs, *(value for node in graph for value in node.outputs))
        noted = [(value, *self._type(infos.get(str(value.name)))) for value in values]
        return Concrete(self, None, noted)

    def _type(
        self, info: onnx.ValueInfoProto | None
    ) -> tuple[ir.TypeProtocol | None, ir.Shape | None]:
        """Read the type and shape of a value; what is shared cannot be written to."""
        if info is None or not info.HasField("type"):
            return None, None
        key = info.type.SerializeToString()
        if key not in self._types:
            value = ir.serde.deserialize_value_info_proto(info, None)
            if value.shape is not None:
                value.shape.freeze()
            self._types[key] = value.type, value.shape
        return self._types[key]


def _without_notes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy that says nothing of inner values, which takes half as long to read."""
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    del bare.graph.value_info[:]
    return bare


def _fits(node: ir.Node) -> bool:
    """Whether sizes add up where shape inference does not check that they do."""
    if node.domain or node.op_type not in _CHECKED:
        return True
    before = static_shape(node.inputs[0])
    after = [static_shape(value) for value in node.outputs]
    if node.op_type == "Reshape":
        # Before opset 5 the target is an attribute, which inference has read.
        target = node.inputs[1] if len(node.inputs) > 1 else None
        return not before or _reshapes(before, after[0], constant_of(target))
    return not all(before or ()) or all(size > 0 for shape in after for size in shape or ())


def _reshapes(before: Shape, after: Shape | None, wanted: Array | None) -> bool:
    if after is not None:
        return math.prod(before) == math.prod(after)
    if wanted is None:
        return True
    sizes = [
        before[axis] if size == 0 and axis < len(before) else int(size)
        for axis, size in enumerate(wanted)
    ]
    known = math.prod(size for size in sizes if size >= 0)
    return known > 0 and math.prod(before) % known == 0


def _fix(type_proto: onnx.TypeProto, shape: Shape | None, sizes: Mapping[str, int]) -> None:
    for tensor in _tensor_types(type_proto):
        if shape is not None:
            tensor.shape.ClearField("dim")
            tensor.shape.dim.extend(
                onnx.TensorShapeProto.Dimension(dim_value=size) for size in shape
            )
        for dim in tensor.shape.dim:
            if dim.dim_param and (size := size_of(dim.dim_param, sizes)) is not None:
                dim.dim_value = size


def _tensor_types(type_proto: onnx.TypeProto) -> Iterator[onnx.TypeProto.Tensor]:
    match type_proto.WhichOneof("value"):
        case "tensor_type":
            if type_proto.tensor_type.HasField("shape"):
                yield type_proto.tensor_type
        case "sequence_type":
            yield from _tensor_types(type_proto.sequence_type.elem_type)
        case "optional_type":
            yield from _tensor_types(type_proto.optional_type.elem_type)
