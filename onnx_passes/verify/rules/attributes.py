"""Plausible attributes for a node of a template."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.ops.input_hints import Shape
from onnx_passes.ops.operator_class import find
from onnx_passes.plain import Plain
from onnx_passes.verify.rules.plausible_operands import Chooser

TARGETS = (
    *(ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT32, ir.DataType.INT64) * 3,
    *(ir.DataType.UINT8, ir.DataType.INT8),
)


def attribute_value(
    choose: Chooser, op_type: str, name: str, known: Sequence[Shape | None]
) -> Plain:
    """Return a value for an attribute, or None where none is known to fit.

    Args:
        choose: The choices of this template.
        op_type: The operator.
        name: The attribute.
        known: Shapes of the node's inputs.
    """
    operator = find("", op_type)
    if operator is not None and (options := operator.options(name, known)):
        return choose.pick(options)
    rank = len(known[0]) if known and known[0] is not None else 2
    if name == "group":
        return _group(op_type, known)
    if name == "mode":
        return choose.pick(_MODES.get(op_type, (None,)))
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


def _group(op_type: str, known: Sequence[Shape | None]) -> int:
    """Return the number of groups that the shapes of image and weights leave."""
    x, w = (
        known[i] if i < len(known) else None for i in (0, 3 if "QLinear" in op_type else 1)
    )
    if x is None or w is None or len(x) < 2 or len(w) < 2:
        return 1
    if "Transpose" in op_type:
        # Plain divisor of the channels is right: the weights say the channels a group makes.
        return 2 if x[1] % 2 == 0 and w[0] == x[1] else 1
    return max(1, x[1] // max(w[1], 1))


def _bounds(c: Chooser, *_: object) -> float:
    return float(c.pick((-1.0, 0.0, 0.5, 1.0, 6.0, *c.numbers)))


def _pads(c: Chooser, op_type: str, rank: int) -> list[int]:
    if op_type == "Pad":
        spatial = [0 if axis < rank - 2 else 1 for axis in range(rank)]
        return [*spatial, *spatial]
    return [int(c.pick((0, 1)))] * max(2 * (rank - 2), 0)


_MODES: dict[str, Sequence[str | None]] = {
    "Pad": ("constant", "reflect", "edge"),
    "Gelu": ("tanh",),
    "DepthToSpace": ("DCR", "CRD"),
}


def _fill(c: Chooser, *_: object) -> ir.TensorProtocol:
    if c.dtype.is_integer() and c.rng.random() < 0.3:
        ends = np.iinfo(c.dtype.numpy())
        return ir.tensor(np.full(1, c.pick((ends.min, ends.max)), ends.dtype))
    return ir.tensor(np.full(1, c.pick(c.numbers)).astype(c.dtype.numpy()))


def _perm(c: Chooser, _: str, rank: int) -> list[int]:
    return [int(i) for i in c.rng.permutation(rank)]


_ATTRIBUTES: dict[str, Callable[[Chooser, str, int], Plain]] = {
    "perm": _perm,
    "value": _fill,
    "axis": lambda c, _, rank: int(c.pick((*range(max(rank, 1)), -1))),
    "axes": lambda c, _, rank: [int(c.pick(range(max(rank, 1))))],
    "to": lambda c, _, rank: int(c.pick(TARGETS)),
    "keepdims": lambda c, _, rank: int(c.pick((0, 1))),
    "direction": lambda c, _, rank: c.pick(("LEFT", "RIGHT")),
    "epsilon": lambda c, _, rank: float(c.pick((1e-5, 1e-3))),
    "alpha": lambda c, _, rank: float(c.pick((0.5, 0.2, 1.0, *c.numbers))),
    "pads": lambda c, op, rank: _pads(c, op, rank),
    "strides": lambda c, _, rank: [int(c.pick((1, 2)))] * max(rank - 2, 0),
    "kernel_shape": lambda c, _, rank: [2] * max(rank - 2, 0),
    "num_outputs": lambda c, _, rank: 2,
    "dilations": lambda c, _, rank: [int(c.pick((1, 2)))] * max(rank - 2, 0),
    "auto_pad": lambda c, _, rank: c.pick(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")),
    "approximate": lambda c, _, rank: c.pick(("none", "tanh")),
    "reduction": lambda c, _, rank: c.pick(("add", "mul", "none", "max")),
    "min": _bounds,
    "max": _bounds,
    "start": lambda c, _, rank: int(c.pick((0, 1, -1))),
    "end": lambda c, _, rank: int(c.pick((1, 2, -1))),
    "num_groups": lambda c, _, rank: int(c.pick((1, 2))),
    "num_heads": lambda c, _, rank: int(c.pick((1, 2))),
    "q_num_heads": lambda c, _, rank: 2,
    "kv_num_heads": lambda c, _, rank: 2,
    "scale": lambda c, _, rank: float(c.pick((0.5, 2.0))),
    "ratio": lambda c, _, rank: float(c.pick((0.0, 0.5))),
    "spatial": lambda c, _, rank: 1,
    "momentum": lambda c, _, rank: 0.5,
    "blocksize": lambda c, _, rank: 2,
    "equation": lambda c, _, rank: c.pick(("bij,bjk->bik", "bij,bjk->ki", "bij,cjk->ibc")),
    "is_test": lambda c, _, rank: 1,
}
