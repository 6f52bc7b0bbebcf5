"""One node about to be evaluated, and the table of operators that can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.ops.semantics import Scalar, Semantics, Unsupported, as_number

ObjectArray: TypeAlias = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor whose elements are scalars of some arithmetic.

    Attributes:
        data: The elements; its shape is the tensor's.
        dtype: The ONNX type that each element has.
    """

    data: ObjectArray
    dtype: ir.DataType

    def __post_init__(self) -> None:
        # numpy hands out the bare element where an index leaves no axis.
        if not isinstance(self.data, np.ndarray):
            object.__setattr__(self, "data", scalars([self.data], ()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.data.shape


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A node with its inputs evaluated.

    Attributes:
        node: The node.
        inputs: Its inputs; None where one is omitted.
        semantics: The arithmetic.
        opset: Version of the node's operator set.
    """

    node: ir.Node
    inputs: Sequence[Tensor | None]
    semantics: Semantics
    opset: int

    def given(self, index: int) -> Tensor | None:
        """Return an input, or None where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def required(self, index: int) -> Tensor:
        """Return an input that must be there.

        Raises:
            Unsupported: It is not.
        """
        tensor = self.given(index)
        if tensor is None:
            raise Unsupported(f"{self.node.op_type} without its input {index}")
        return tensor

    def static(self, index: int) -> npt.NDArray[Any]:
        """Return an input whose elements must be known numbers.

        Raises:
            Unsupported: One of them depends on the graph's inputs.
        """
        tensor = self.required(index)
        numbers = [self.semantics.number(s, tensor.dtype) for s in tensor.data.flat]
        if any(n is None for n in numbers):
            raise Unsupported(
                f"{self.node.op_type} with an input {index} that is not constant"
            )
        return np.array(numbers).reshape(tensor.shape)

    def static_ints(self, index: int) -> list[int]:
        """Return an input of known integers as a flat list."""
        return [int(n) for n in self.static(index).reshape(-1)]

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        return int(self.attribute(name, default))

    def number(self, name: str, default: float) -> float:
        """Return a float attribute, as the 32 bit number that a model stores."""
        return float(np.float32(self.attribute(name, default)))

    def text(self, name: str, default: str) -> str:
        """Return a string attribute."""
        value = self.attribute(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers, or None where it is not set."""
        value = self.attribute(name, None)
        return None if value is None else [int(v) for v in value]

    def attribute(self, name: str, default: Any) -> Any:
        """Return the value of an attribute.

        Raises:
            Unsupported: It refers to an attribute of an enclosing function.
        """
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        if attr.is_ref():
            raise Unsupported(f"{self.node.op_type} with a reference for attribute {name}")
        return attr.value

    def literal(self, value: float, dtype: ir.DataType) -> Scalar:
        """Return the scalar of a number."""
        return self.semantics.literal(value, dtype)


Rule: TypeAlias = Callable[[Call], Tensor | tuple[Tensor | None, ...]]
OPERATORS: dict[str, Rule] = {}


def operator(*names: str) -> Callable[[Rule], Rule]:
    """Register the semantics of operators of the default domain."""

    def add(rule: Rule) -> Rule:
        for name in names:
            OPERATORS[name] = rule
        return rule

    return add


def scalars(values: Sequence[Scalar], shape: Sequence[int]) -> ObjectArray:
    """Return an array of scalars, one by one, so that numpy never looks into them."""
    data = np.empty(len(values), dtype=np.object_)
    for i, value in enumerate(values):
        data[i] = value
    return data.reshape(tuple(shape))


def constant(array: npt.NDArray[Any], dtype: ir.DataType, semantics: Semantics) -> Tensor:
    """Return the tensor of known numbers."""
    values = [semantics.literal(as_number(v), dtype) for v in array.reshape(-1)]
    return Tensor(scalars(values, array.shape), dtype)


def elementwise(
    function: Callable[..., Scalar], dtype: ir.DataType, *tensors: Tensor
) -> Tensor:
    """Apply a function of scalars to tensors that broadcast together.

    Raises:
        Unsupported: Their shapes do not broadcast.
    """
    try:
        arrays = np.broadcast_arrays(*(t.data for t in tensors))
    except ValueError as error:
        raise Unsupported(f"shapes that do not broadcast: {error}") from None
    rows = zip(*(a.reshape(-1) for a in arrays), strict=True)
    return Tensor(scalars([function(*row) for row in rows], arrays[0].shape), dtype)


def normalize_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        Unsupported: There is no such axis.
    """
    if not -rank <= axis < max(rank, 1):
        raise Unsupported(f"axis {axis} of a tensor of rank {rank}")
    return axis % rank if rank else 0
