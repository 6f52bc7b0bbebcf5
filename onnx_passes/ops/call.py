"""One node with its evaluated inputs, and its operands between bounds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.domains.concrete import CountingSemantics, blank
from onnx_passes.ops.domains.intervals import Interval, IntervalSemantics, pair
from onnx_passes.ops.semantics import (
    Elements,
    Misfit,
    Scalar,
    Semantics,
    TypedPrimitives,
    Unsupported,
    scalars,
)
from onnx_passes.plain import Plain


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor whose elements are scalars of some arithmetic."""

    data: Elements
    dtype: ir.DataType

    def __post_init__(self) -> None:
        # numpy hands out the bare element where an index leaves no axis.
        if isinstance(self.data, np.generic):
            object.__setattr__(self, "data", np.asarray(self.data))
        elif not isinstance(self.data, np.ndarray):
            object.__setattr__(self, "data", scalars([self.data], ()))

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.data.shape
        return shape


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A node with its inputs evaluated, None where omitted.

    ``run`` evaluates a body, given its attribute and tensors for its inputs, if bodies are at
    hand. Methods raise ``Unsupported`` for what is missing, or known only at run time.
    """

    node: ir.Node
    inputs: Sequence[Tensor | None]
    semantics: Semantics
    opset: int
    run: Callable[..., list[Tensor]] | None = None

    def body(self, name: str, *tensors: Tensor) -> list[Tensor]:
        """Return the outputs of a body, given the attribute that holds it."""
        if self.run is None:
            raise Unsupported(f"{self.node.op_type} without its body")
        return self.run(name, *tensors)

    def given(self, index: int) -> Tensor | None:
        """Return an input, or None where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def required(self, index: int) -> Tensor:
        """Return an input that must be there."""
        tensor = self.given(index)
        if tensor is None:
            raise Misfit(f"{self.node.op_type} without its input {index}")
        return tensor

    def static(self, index: int) -> Array:
        """Return an input whose elements must be known numbers."""
        tensor = self.required(index)
        numbers = self.semantics.numbers(tensor.data, tensor.dtype)
        if numbers is None:
            raise Unsupported(
                f"{self.node.op_type} with an input {index} that is not constant"
            )
        return numbers

    def static_ints(self, index: int) -> list[int]:
        """Return an input of known integers as a flat list."""
        return [int(n) for n in self.static(index).reshape(-1)]

    def integer(self, name: str, default: int) -> int:
        return int(self.attribute(name, default))

    def number(self, name: str, default: float) -> float:
        """Return a float attribute, as the 32 bit number that a model stores."""
        return float(np.float32(self.attribute(name, default)))

    def text(self, name: str, default: str) -> str:
        value = self.attribute(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers, or None where it is not set."""
        value = self.attribute(name, None)
        return None if value is None else [int(v) for v in value]

    def attribute(self, name: str, default: object) -> Plain:
        """Return the value of an attribute, which must not refer to that of a function."""
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        if attr.is_ref():
            raise Unsupported(f"{self.node.op_type} with a reference for attribute {name}")
        return attr.value

    def small(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the sizes of a result that takes memory before anything is computed.

        Raises ``Unsupported`` if it is too big to be evaluated one scalar at a time.
        """
        if math.prod(shape) > self.semantics.most:
            raise Unsupported(f"a tensor of {math.prod(shape)} elements")
        return shape

    def flag(self, name: str, default: int = 0) -> bool:
        return bool(self.integer(name, default))

    def ints_of(self, index: int, attribute: str) -> list[int] | None:
        """Return what is an input in newer opsets and an attribute in older ones."""
        if self.given(index) is not None:
            return self.static_ints(index)
        return self.integers(attribute)

    def axis(self, default: int, rank: int) -> int:
        """Return the attribute ``axis``, counted from the front."""
        return normalize_axis(self.integer("axis", default), rank)

    def primitives(self, dtype: ir.DataType) -> TypedPrimitives:
        """Return the primitives of the arithmetic on a type."""
        return TypedPrimitives(self.semantics, dtype)

    def map(
        self, function: Callable[..., Scalar], dtype: ir.DataType, *tensors: Tensor
    ) -> Tensor:
        """Apply a function of scalars to tensors; ``Misfit`` if they do not broadcast."""
        try:
            np.broadcast_shapes(*(t.shape for t in tensors))
        except ValueError as error:
            raise Misfit(f"shapes that do not broadcast: {error}") from None
        return Tensor(self.semantics.map(function, *(t.data for t in tensors)), dtype)

    def literal(self, value: float, dtype: ir.DataType) -> Scalar:
        """Return the scalar of a number."""
        return self.semantics.literal(value, dtype)


def constant(array: Array, dtype: ir.DataType, semantics: Semantics) -> Tensor:
    """Return the tensor of known numbers."""
    return Tensor(semantics.constant(array, dtype), dtype)


def normalize_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front; raise ``Unsupported`` if there is none."""
    if not -rank <= axis < max(rank, 1):
        raise Misfit(f"axis {axis} of a tensor of rank {rank}")
    return axis % rank if rank else 0


@dataclass(frozen=True)
class Operands:
    """What is known of the operands of a node.

    ``array_of`` returns what a value always is, or None. Methods raise ``Unsupported`` if a
    size or an axis is not known.
    """

    node: ir.Node
    range_of: Callable[[ir.Value | None], Interval]
    array_of: Callable[[ir.Value | None], Array | None]
    opset: int = 22

    def hull(self, index: int) -> Interval:
        return self.range_of(self.node.inputs[index])

    def tensor(
        self, index: int, shape: Sequence[int], *, exact: bool = False
    ) -> Tensor | None:
        """Return elements that represent an operand; None if it is left out.

        ``shape`` is that of what represents it, unless it is known element by element. With
        ``exact``, a constant represents itself.
        """
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            return None
        dtype = value.dtype or ir.DataType.UNDEFINED
        array = self.array_of(value) if exact else None
        if array is not None:
            data = array.astype(np.float64)
            return Tensor(pair(data, data), dtype)
        return Tensor(np.broadcast_to(pair(*self.range_of(value)), tuple(shape)), dtype)

    def sizes(self, index: int) -> list[int]:
        return _static(self.node.inputs[index])

    def axes(self, index: int) -> list[int] | None:
        """Return the axes that a node names in an attribute or an operand; None for all."""
        given = self.node.attributes.get("axes")
        if given is not None:
            return list(given.as_ints())
        if index >= len(self.node.inputs) or self.node.inputs[index] is None:
            return None
        array = self.array_of(self.node.inputs[index])
        if array is None:
            raise Unsupported("axes that are computed")
        return [int(axis) for axis in array.reshape(-1)] or None

    def elements(self, index: int) -> int:
        """Return the number of elements of an operand."""
        return math.prod(self.sizes(index))

    def given(self, index: int) -> bool:
        """Whether an operand is there."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def made(self, index: int = 0) -> int:
        """Return the number of elements of a result."""
        return math.prod(_static(self.node.outputs[index]))

    def counted(
        self, shapes: Sequence[Sequence[int]], evaluate: Callable[[Call], object]
    ) -> int:
        """Return the operations on operands of some shapes, by the formula."""
        semantics = CountingSemantics()
        tensors = [
            None if v is None else Tensor(blank(shape), v.dtype or ir.DataType.FLOAT)
            for v, shape in zip(self.node.inputs, shapes, strict=False)
        ]
        evaluate(Call(self.node, tensors, semantics, self.opset))
        return semantics.count

    def call(self, *tensors: Tensor | None, semantics: Semantics | None = None) -> Call:
        """Return the node with what represents its operands, among intervals or others."""
        return Call(self.node, tensors, semantics or IntervalSemantics(), self.opset)


def _static(value: ir.Value | None) -> list[int]:
    shape = None if value is None else value.shape
    if shape is None or not all(isinstance(d, int) for d in shape):
        raise Unsupported("sizes that are not known")
    return [int(str(d)) for d in shape]
