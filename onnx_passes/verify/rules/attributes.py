"""Plausible attributes for a node of a template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.verify.rules.operands import Chooser

TARGETS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT32, ir.DataType.INT64)


def attribute_value(choose: Chooser, op_type: str, name: str, rank: int) -> Any:
    """Return a value for an attribute, or None where none is known to fit.

    Args:
        choose: The choices of this template.
        op_type: The operator.
        name: The attribute.
        rank: Rank of the node's first input.
    """
    special = _ATTRIBUTES.get(name)
    if special is not None:
        return special(choose, op_type, rank)
    try:
        kind = onnx.defs.get_schema(op_type).attributes[name].type
    except (onnx.defs.SchemaError, KeyError):
        return None
    types = onnx.defs.OpSchema.AttrType
    if kind == types.FLOAT:
        return float(choose.pick(choose.numbers))
    if kind == types.INT:
        return int(choose.pick((0, 1)))
    return None


def _fill(c: Chooser, *_: Any) -> ir.TensorProtocol:
    return ir.tensor(np.full(1, c.pick(c.numbers)).astype(c.dtype.numpy()))


def _perm(c: Chooser, _: str, rank: int) -> list[int]:
    return [int(i) for i in c.rng.permutation(rank)]


_ATTRIBUTES: dict[str, Callable[[Chooser, str, int], Any]] = {
    "perm": _perm,
    "value": _fill,
    "axis": lambda c, _, rank: int(c.pick((*range(max(rank, 1)), -1))),
    "axes": lambda c, _, rank: [int(c.pick(range(max(rank, 1))))],
    "to": lambda c, _, rank: int(c.pick(TARGETS)),
    "keepdims": lambda c, _, rank: int(c.pick((0, 1))),
    "direction": lambda c, _, rank: c.pick(("LEFT", "RIGHT")),
    "epsilon": lambda c, _, rank: float(c.pick((1e-5, 1e-3))),
    "alpha": lambda c, _, rank: float(c.pick((0.5, 0.2, 1.0, *c.numbers))),
    "pads": lambda c, _, rank: [int(c.pick((0, 1)))] * max(2 * (rank - 2), 0),
    "strides": lambda c, _, rank: [int(c.pick((1, 2)))] * max(rank - 2, 0),
    "kernel_shape": lambda c, _, rank: [2] * max(rank - 2, 0),
    "num_outputs": lambda c, _, rank: 2,
}
