"""Writing the body of a function, node by node."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.plain import Plain, PlainMapping

_EMPTY = ""


@dataclass(frozen=True)
class BodyCall:
    """A node, as far as the body of its operator depends on it.

    Attributes:
        domain: Domain of the operator.
        op_type: Name of the operator.
        inputs: Number of inputs.
        attributes: Values of its attributes, by name; None for one that refers to an
            attribute of the function around the node.
        opset: Version of the standard domain around the node.
        shapes: Declared shape of each input; None where it is not known, and None for each
            dimension that is not fixed.
    """

    domain: str
    op_type: str
    inputs: int
    attributes: PlainMapping
    opset: int
    shapes: tuple[tuple[int | None, ...] | None, ...] = ()

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is text.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def integer(self, name: str, default: int) -> int:
        """Return an attribute that is an integer.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        return int(self.attributes.get(name, default))

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is a float.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        return float(self.attributes.get(name, default))

    def integers(self, name: str, default: Sequence[int]) -> list[int]:
        """Return an attribute that is a list of integers.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        return [int(item) for item in self.attributes.get(name, default)]

    def shape(self, index: int) -> tuple[int | None, ...] | None:
        """Return the declared shape of an input."""
        return self.shapes[index] if index < len(self.shapes) else None


@dataclass
class Writer:
    """The nodes of a body; a method of an operator's name adds a node and names its result.

    Attributes:
        call: The node that the body is for.
        inputs: Names of the function's inputs.
        nodes: The nodes so far.
    """

    call: BodyCall
    inputs: list[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    @property
    def opset(self) -> int:
        """Version of the standard domain."""
        return self.call.opset

    def __getattr__(self, op_type: str) -> Callable[..., str]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def add(*inputs: str, **attributes: Plain) -> str:
            name = f"v{len(self.nodes)}"
            self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
            return name

        return add

    def tensor(self, value: Array | np.generic) -> str:
        """Add a constant.

        Args:
            value: Its numbers, of any shape and type.
        """
        return self.Constant(value=numpy_helper.from_array(np.asarray(value)))

    def number(self, value: float, like: str | None = None) -> str:
        """Add a float32 scalar, in the type of another value where the opset can say so.

        Args:
            value: The number, rounded to float32.
            like: Name of the value whose type it gets from opset 15; None for float32.
        """
        constant = self.tensor(np.float32(value))
        return self.CastLike(constant, like) if like and self.opset >= 15 else constant

    def integer(self, value: int) -> str:
        """Add an int64 scalar."""
        return self.tensor(np.array(value, dtype=np.int64))

    def shape(self, *dims: int) -> str:
        """Add a constant list of integers."""
        return self.tensor(np.array(dims, dtype=np.int64))

    def unsqueeze(self, x: str, axes: Sequence[int]) -> str:
        """Add dimensions of size 1.

        Args:
            x: Name of the value.
            axes: Axes of the result.
        """
        if self.opset < 13:
            return self.Unsqueeze(x, axes=list(axes))
        return self.Unsqueeze(x, self.shape(*axes))

    def sum_last(self, x: str, rank: int | None) -> str:
        """Sum over the axis behind those of a value, which goes.

        Args:
            x: What is summed.
            rank: Rank of the value; None where it is not known.
        """
        # ONNX Runtime 1.31 reduces an empty tensor over a negative axis to another rank.
        axis = -1 if rank is None else rank
        if self.opset < 13:
            return self.ReduceSum(x, axes=[axis], keepdims=0)
        return self.ReduceSum(x, self.shape(axis), keepdims=0)

    def at_least(self, x: str, bound: str) -> str:
        """Add ``x >= bound``, false for NaN.

        Args:
            x: Name of the value.
            bound: Name of the value that it is compared with.
        """
        if self.opset >= 12:
            return self.GreaterOrEqual(x, bound)
        # A bound that is NaN is not looked for: no quantiser has one.
        return self.And(self.Not(self.Less(x, bound)), self.Not(self.IsNaN(x)))

    def function(self, result: str) -> onnx.FunctionProto:
        """Return the function that the nodes make.

        Args:
            result: The value that the function returns.
        """
        output = "result"
        nodes = [*self.nodes, helper.make_node("Identity", [result], [output])]
        function = helper.make_function(
            self.call.domain,
            self.call.op_type,
            self.inputs,
            [output],
            nodes,
            [helper.make_opsetid(_EMPTY, self.opset)],
        )
        function.overload = digest_of(function)
        return function


def digest_of(function: onnx.FunctionProto) -> str:
    """Return a name for what a function computes: equal bodies are one overload."""
    return hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()[:12]
