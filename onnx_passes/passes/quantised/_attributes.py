"""What the attributes and constants of a quantiser say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, QONNX_ALIASES
from onnx_passes.passes._support.rules import TermCall, call
from onnx_passes.passes._support.tensors import constant_of

DOMAINS = (*QONNX_ALIASES, CUSTOM)

_TRUNC_2_OPERANDS = 5

_CALLS = (
    *((k, d) for d in QONNX_ALIASES for k in ("Quant", "IntQuant", "BipolarQuant")),
    ("Quant", CUSTOM),
)
"""Quantisers by name and domain."""


def quantisers(*names: str) -> list[TermCall]:
    """Return quantisers as expressions of as many of some operands as they have, for ``y``."""
    return [
        call(k, *names[: 2 if k == "BipolarQuant" else 4], result="y", domain=d)
        for k, d in _CALLS
    ]


@dataclass(frozen=True)
class Quantiser:
    """An IntQuant, BipolarQuant or Trunc (version 2) whose parameters are constants.

    Attributes:
        node: The node.
        scale: Its scale.
        zero: Its zero point.
        low: Its lowest level.
        high: Its highest level.
        mode: Its rounding mode, in capital letters.
        bipolar: Whether its levels are -1 and 1, with nothing between.
    """

    node: ir.Node
    scale: Array
    zero: Array
    low: float
    high: float
    mode: str
    bipolar: bool

    @property
    def levels(self) -> int:
        """Number of levels, as far as they are integers."""
        return 2 if self.bipolar else int(np.floor(self.high) - np.ceil(self.low)) + 1


def quantiser_of(node: ir.Node | None) -> Quantiser | None:
    """Read a quantiser; None for other nodes, and where a parameter is computed."""
    if node is None or node.domain not in DOMAINS:
        return None
    known = [constant_of(value) for value in node.inputs[1:]]
    if any(tensor is None or tensor.dtype != ir.DataType.FLOAT for tensor in known):
        return None
    arrays = [tensor.numpy() for tensor in known if tensor is not None]
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    if node.op_type == "BipolarQuant" and len(arrays) == 1:
        return Quantiser(node, arrays[0], np.zeros((), np.float32), -1, 1, "ROUND", True)
    if node.op_type == "Trunc" and len(arrays) == _TRUNC_2_OPERANDS:
        return _truncation(node, arrays)
    if node.op_type not in ("Quant", "IntQuant") or len(arrays) != 3 or arrays[2].size != 1:
        return None
    scale, zero, bits = arrays
    return _integer(node, scale, zero, float(bits.reshape(())))


def _truncation(node: ir.Node, arrays: list[Array]) -> Quantiser | None:
    """Read version 2 of Trunc, which keeps its levels within bounds."""
    scale, zero, _, out_scale, bits = arrays
    if bits.size != 1 or not (scale > 0).all() or not (out_scale > 0).all():
        return None
    step = 2 ** np.rint(np.log2(out_scale.astype(np.float64) / scale))
    found = _integer(
        node, out_scale, (zero / step).astype(np.float32), float(bits.reshape(()))
    )
    return None if found.bipolar else found


def _integer(node: ir.Node, scale: Array, zero: Array, bits: float) -> Quantiser:
    signed = bool(node.attributes.get_int("signed", 1))
    narrow = bool(node.attributes.get_int("narrow", int(node.op_type != "Trunc")))
    mode = (node.attributes.get_string("rounding_mode", "ROUND") or "ROUND").upper()
    if signed:
        low, high = -(2.0 ** (bits - 1)) + narrow, 2.0 ** (bits - 1) - 1
    else:
        low, high = 0.0, 2.0**bits - 1 - narrow
    return Quantiser(node, scale, zero, low, high, mode, signed and bits == 1)
