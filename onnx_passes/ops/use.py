"""One use of a value by a node, and what can be read off around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.input_hints import ValueHint, between

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Use:
    """A value as one node sees it, in a model whose shapes are those of one sample.

    Attributes:
        node: The node.
        index: Which of its inputs the value is.
        rng: Source of whatever a rule leaves to chance.
    """

    node: ir.Node
    index: int
    rng: np.random.Generator

    @property
    def shape(self) -> Shape | None:
        """Shape of the value itself."""
        return self.input_shape(self.index)

    def input(self, index: int) -> ir.Value | None:
        """Return an input of the node; None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def input_shape(self, index: int) -> Shape | None:
        """Return the shape of an input, if it is known and static."""
        return static_shape(self.input(index))

    def output_shape(self, index: int = 0) -> Shape | None:
        """Return the shape of an output, if it is known and static."""
        if index >= len(self.node.outputs):
            return None
        return static_shape(self.node.outputs[index])

    def dimension(self, index: int, axis: int) -> int | None:
        """Return one size of an input, if it is known and static.

        Args:
            index: Number of the input.
            axis: Number of the dimension; negative from the end.
        """
        value = self.input(index)
        if value is None or value.shape is None:
            return None
        rank = len(value.shape)
        known = -rank <= axis < rank and isinstance(value.shape[axis], int)
        return int(str(value.shape[axis])) if known else None

    def length(self) -> int | None:
        """Return the number of elements of the value, if it is a vector of known length."""
        shape = self.shape
        return shape[0] if shape is not None and len(shape) == 1 else None

    def constant(self, index: int) -> Array | None:
        """Return the value of an input, if it is a small constant."""
        return constant_of(self.input(index))

    def integer(self, name: str, default: int = 0) -> int:
        """Return an integer attribute.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            return default
        return attribute.as_int()

    def number(self, name: str) -> float | None:
        """Return a float attribute, None if it is absent."""
        attribute = self.node.attributes.get(name)
        return None if attribute is None or attribute.is_ref() else attribute.as_float()

    def integers(self, name: str) -> list[int] | None:
        """Return a list attribute, None if it is absent."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            return None
        return list(attribute.as_ints())

    def strings(self, name: str) -> tuple[str, ...]:
        """Return an attribute of strings, empty if it is absent."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            return ()
        if attribute.type == ir.AttributeType.STRING:
            return (attribute.as_string(),)
        return tuple(attribute.as_strings())


def static_shape(value: ir.Value | None) -> Shape | None:
    """Return the shape of a value as integers, None where any dimension is not known."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return tuple(value.shape.numpy())


def constant_of(value: ir.Value | None) -> Array | None:
    """Return the value of an initializer or Constant whose data is at hand."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or isinstance(tensor, ir.ExternalTensor):
        return None
    array: Array = tensor.numpy()
    return array


def below(size: int | None) -> ValueHint:
    """Return the hint for indices into so many elements."""
    # Where the size is not known, the first element is the only one sure to be there.
    return between(0, max(0, (size or 1) - 1))
