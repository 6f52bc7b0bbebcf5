"""Merge the shapes that inference found into what a model says of its values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnx_passes.passes.replace import INVENTED

Dim = int | ir.SymbolicDim


def merge_dim(declared: Dim, inferred: Dim) -> Dim:
    """Combine what is declared and what is inferred of one dimension.

    What is inferred wins against what is declared: the operators decide, and inferred names
    start at the model's inputs, so that they say which dimensions are equal. A declared number
    gives way to such a name, which has any size, and not to one that was invented.
    """
    if isinstance(inferred, int):
        return inferred
    if inferred.value is None:
        return declared
    invented = inferred.value.startswith(INVENTED)
    return declared if invented and isinstance(declared, int) else inferred


@dataclass(frozen=True)
class FoundShape:
    """What inference has found of a value.

    ``type`` is shared, and must not be given to a value.
    """

    type: ir.TypeProtocol | None
    shape: ir.Shape | None
    dims: tuple[Dim, ...]

    @classmethod
    def of(cls, proto: onnx.TypeProto) -> FoundShape:
        """Read what inference says."""
        tensor = proto.tensor_type
        dims = tensor.shape.dim
        if (
            not (tensor.elem_type and tensor.HasField("shape"))
            or proto.denotation
            or any(dim.denotation for dim in dims)
        ):
            shape = ir.serde.deserialize_type_proto_for_shape(proto)
        else:
            # Not all of onnx-ir's reader, which takes a third of the time of inference.
            shape = ir.Shape([_dim(dim) for dim in dims], frozen=True)
        type_ = ir.serde.deserialize_type_proto_for_type(proto)
        return cls(type_, shape, shape.dims if shape is not None else ())


def _dim(proto: onnx.TensorShapeProto.Dimension) -> Dim:
    if proto.HasField("dim_value"):
        return proto.dim_value
    return ir.SymbolicDim(proto.dim_param if proto.HasField("dim_param") else None)


class Merging:
    """Merges what round after round of inference finds.

    Most values have one of a few shapes, and most keep theirs from round to round.
    """

    def __init__(
        self, fixed: AbstractSet[ir.Value], before: Mapping[bytes, FoundShape]
    ) -> None:
        """Begin.

        Values in ``fixed`` stay; ``before`` is what the last inference read, by protobuf's
        text.
        """
        self._fixed = fixed
        self._before = before
        self.read: dict[bytes, FoundShape] = {}
        self._last: dict[ir.Value, tuple[bytes, ir.Shape | None]] = {}

    def merge(self, types: Iterable[tuple[ir.Value, onnx.TypeProto]]) -> bool:
        """Add inferred types and shapes to values.

        Returns whether more is declared of any value than was inferred now.
        """
        declared = False
        for value, proto_type in types:
            text = proto_type.SerializeToString()
            known = self._last.get(value)
            if known is not None and known[0] == text and known[1] is value.shape:
                continue  # as in the round before, and so is what would come of it
            if value in self._fixed or value.is_initializer():
                continue
            found = self.read.get(text)
            if found is None:
                found = self._before.get(text) or FoundShape.of(proto_type)
                self.read[text] = found
            if value.type is None:
                value.type = ir.serde.deserialize_type_proto_for_type(proto_type)
            declared |= merge(value, found)
            self._last[value] = (text, value.shape)
        return declared


def merge(value: ir.Value, found: FoundShape) -> bool:
    """Add an inferred type and shape to a value that has a type.

    Returns whether more is declared of the value than was inferred.
    """
    if value.type != found.type:
        return True
    if found.shape is None:
        return value.shape is not None
    if value.shape is None:
        value.shape = found.shape
        return False
    own = value.shape.dims
    if own == found.dims:
        return False
    if len(own) == len(found.dims):
        dims = tuple(merge_dim(d, i) for d, i in zip(own, found.dims, strict=True))
        if dims != own:
            value.shape = ir.Shape(dims)
        return dims != found.dims
    value.shape = found.shape  # without what is declared, inference finds another rank
    return False


def number_names(values: Sequence[ir.Value], taken: AbstractSet[str]) -> None:
    """Number the names that inference invented for unknown dimensions as they appear.

    Its own numbers depend on what was annotated before: a second run would not repeat them.
    Names in ``taken`` belong to the user.
    """
    numbers = (name for n in itertools.count() if (name := f"{INVENTED}{n}") not in taken)
    invented: dict[str, str] = {}
    for value in values:
        if value.shape is None:
            continue
        changed: dict[int, str] = {}
        for index, dim in enumerate(value.shape.dims):
            old = None if isinstance(dim, int) else dim.value
            if old is not None and old.startswith(INVENTED) and old not in taken:
                if old not in invented:
                    invented[old] = next(numbers)
                if invented[old] != old:
                    changed[index] = invented[old]
        if changed:
            dims = enumerate(value.shape.dims)
            value.shape = ir.Shape([changed.get(index, dim) for index, dim in dims])


def dimension_names(values: Iterable[ir.Value]) -> set[str]:
    """Return the names of dimensions of values."""
    dims = (dim for value in values for dim in value.shape or ())
    return {dim.value for dim in dims if isinstance(dim, ir.SymbolicDim) and dim.value}
