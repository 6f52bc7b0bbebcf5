"""Layers that are linear in their input, and factors and terms that move into their weights.

Products of large weights are computed block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import BLOCK
from onnx_passes.passes.base import Op
from onnx_passes.passes.common.matches import FLOATS, narrowed, wide
from onnx_passes.passes.constants import constant_of


def multiplied(
    array: Array,
    *factors: Array,
    dtype: ir.DataType,
    narrow: Callable[[Array, ir.DataType], Array | None] = narrowed,
) -> Array | None:
    """Multiply floats by factors in double precision; None where ``narrow`` returns None.

    A block of numbers is widened at a time: all of them in double precision take two to four
    times the memory of large weights. Shapes of factors broadcast to that of ``array``.
    ``narrow`` converts double precision to ``dtype``.
    """
    found = np.empty(array.shape, array.dtype)
    access: list[list[Literal["readonly", "writeonly"]]]
    access = [["readonly"] for _ in (array, *factors)]
    types = [np.float64 for _ in access]
    walk = np.nditer(
        (array, *factors, found),
        ["external_loop", "buffered", "zerosize_ok"],
        [*access, ["writeonly"]],
        [*types, found.dtype],
        buffersize=BLOCK,
    )
    with walk, np.errstate(all="ignore"):
        for first, *rest, part in walk:
            small = narrow(math.prod(rest, start=first), dtype)
            if small is None:
                return None
            part[...] = small
    return found


LAYERS = ("Conv", "ConvTranspose", "Gemm")

SMALL = 1024
"""Weights of so few elements may be copied for one of several layers that share them."""


@dataclass(frozen=True)
class Linear:
    """A Conv, ConvTranspose or Gemm with constant weights.

    ``weights`` are in their own type, to be multiplied by ``factors`` that broadcast to them;
    ``bias`` is a row in double precision, one number for each output channel. ``new_bias`` is
    not that of the node.
    """

    node: ir.Node
    weights: Array
    bias: Array | None
    dtype: ir.DataType
    factors: tuple[Array, ...] = ()
    new_bias: bool = False

    @classmethod
    def of(cls, node: ir.Node) -> Linear | None:
        """Read a layer; None if weights or bias are computed, or the bias is not a row."""
        inputs = [*node.inputs, None][:3]
        tensor = constant_of(inputs[1])
        if tensor is None or tensor.dtype not in FLOATS:
            return None
        weights = tensor.numpy()
        gemm = node.op_type == "Gemm"
        if weights.ndim != 2 if gemm else weights.ndim < 3:
            return None
        layer = cls(node, weights, None, tensor.dtype)
        if inputs[2] is None:
            return layer
        given, bias = constant_of(inputs[2]), wide(inputs[2])
        if given is None or bias is None or given.dtype != tensor.dtype:
            return None
        row = as_row(bias, 2, layer.channels) if gemm else bias
        if row is None or row.shape != (layer.channels,):
            return None
        return replace(layer, bias=row)

    @property
    def rank(self) -> int:
        """Rank of the input and of the output; axis 1 of both is that of channels."""
        return self.weights.ndim

    @property
    def group(self) -> int:
        """Number of groups, 1 for a Gemm."""
        return self.node.attributes.get_int("group", 1) or 1

    @property
    def channels(self) -> int:
        """Number of output channels."""
        if self.node.op_type == "Gemm":
            return int(self.weights.shape[0 if self._turned else 1])
        if self.node.op_type == "ConvTranspose":
            return int(self.weights.shape[1]) * self.group
        return int(self.weights.shape[0])

    @property
    def channels_in(self) -> int:
        """Number of input channels."""
        if self.node.op_type == "Gemm":
            return int(self.weights.shape[1 if self._turned else 0])
        if self.node.op_type == "ConvTranspose":
            return int(self.weights.shape[0])
        return int(self.weights.shape[1]) * self.group

    @property
    def _turned(self) -> bool:
        return bool(self.node.attributes.get_int("transB") or 0)

    def scaled(self, row: Array) -> Linear | None:
        """Return the layer with each output channel times a number."""
        spread = self._by_output(row)
        if spread is None:
            return None
        bias = None if self.bias is None else self.bias * row
        factors = (*self.factors, spread)
        return replace(self, factors=factors, bias=bias, new_bias=bias is not None)

    def shifted(self, row: Array) -> Linear | None:
        """Return the layer with a number added to each output channel."""
        if (self.node.attributes.get_float("beta", 1.0) or 0.0) != 1.0:
            return None
        bias = row if self.bias is None else self.bias + row
        return replace(self, bias=bias, new_bias=True)

    def scaled_before(self, row: Array) -> Linear | None:
        """Return the layer that multiplies each input channel by a number first."""
        if self.node.attributes.get_int("transA") or 0:
            return None
        spread = self._by_input(row)
        if spread is None:
            return None
        return replace(self, factors=(*self.factors, spread))

    def shifted_before(self, row: Array) -> Linear | None:
        """Return the layer that adds a number to each input channel first.

        None where padding, to which nothing is added, comes between.
        """
        get = self.node.attributes
        if self.node.op_type == "ConvTranspose" or (get.get_int("transA") or 0):
            return None
        if any(get.get_ints("pads") or ()) or (get.get_float("alpha", 1.0) or 0.0) != 1.0:
            return None
        if get.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            return None
        spread = self._by_input(row)
        if spread is None:
            return None
        axis = 0 if self.node.op_type == "Conv" or self._turned else 1
        rest = tuple(k for k in range(self.weights.ndim) if k != axis)
        product = self.weights
        for factor in (*self.factors, spread):
            product = np.multiply(product, factor, dtype=np.float64)
        return self.shifted(product.sum(axis=rest))

    def _by_output(self, row: Array) -> Array | None:
        if self.node.op_type == "Gemm":
            return row[:, None] if self._turned else row[None, :]
        if self.node.op_type == "Conv":
            return row.reshape(-1, *[1] * (self.rank - 1))
        return self._by_group(row)

    def _by_input(self, row: Array) -> Array | None:
        if self.node.op_type == "Gemm":
            return row[None, :] if self._turned else row[:, None]
        if self.node.op_type == "ConvTranspose":
            return row.reshape(-1, *[1] * (self.rank - 1))
        return self._by_group(row)

    def _by_group(self, row: Array) -> Array | None:
        """Spread numbers, one for each group, along the second axis of weights.

        Weights are [out, in / group, ...] or, transposed, [in, out / group, ...]; along the
        first axis, what is of one group lies together.
        """
        rows, columns = self.weights.shape[:2]
        if rows % self.group:
            return None
        spread = np.repeat(row.reshape(self.group, columns), rows // self.group, axis=0)
        return spread.reshape(rows, columns, *[1] * (self.rank - 2))

    def scaled_weights(
        self, narrow: Callable[[Array, ir.DataType], Array | None] = narrowed
    ) -> Array | None:
        """Return the weights times their factors; None where ``narrow`` returns None."""
        return multiplied(self.weights, *self.factors, dtype=self.dtype, narrow=narrow)

    def tensors(self) -> tuple[Array | None, Array | None] | None:
        """Return new weights and bias in their type, None for one that stays as it is.

        None for both where the numbers do not fit their type, or where weights that other
        layers read as well would have to be copied.
        """
        held = self.node.inputs[1]
        assert held is not None, "it has been read"
        if self.factors and len(held.uses()) > 1 and self.weights.size > SMALL:
            return None
        weights = self.scaled_weights() if self.factors else None
        bias = None
        if self.new_bias and self.bias is not None:
            bias = narrowed(self.bias, self.dtype)
        if (self.factors and weights is None) or (self.new_bias and bias is None):
            return None
        return weights, bias

    def build(self, op: Op, x: ir.Value | None) -> ir.Value:
        """Return the output of the layer, put on ``x``, with its new weights."""
        found = self.tensors()
        assert found is not None, "check has seen to it"
        inputs = [x, *self.node.inputs[1:3]]
        for index, array in enumerate(found, start=1):
            if array is not None:
                inputs[index:] = [op.Constant(value=ir.tensor(array)), *inputs[index + 1 :]]
        made: ir.Value = getattr(op, self.node.op_type)(*inputs, **self.node.attributes)
        return made


def as_row(array: Array, rank: int, channels: int) -> Array | None:
    """Return an operand as a row of one number for each channel.

    Axis 1 of that tensor is the channels'. None if the operand differs along another axis, or
    makes the tensor bigger.
    """
    if array.ndim > rank:
        return None
    shape = [1] * (rank - array.ndim) + list(array.shape)
    along = shape.pop(1)
    if any(size != 1 for size in shape) or along not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))
