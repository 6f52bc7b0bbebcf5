"""Which inputs and outputs of a node share the type that is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import onnx
import onnx_ir as ir

T = TypeVar("T")

WIDE = ir.DataType.FLOAT
NONE = "which compute no float32"
"""The reason that is not reported."""


@dataclass(frozen=True)
class Signature:
    """The places of a node that change type together.

    Attributes:
        inputs: Numbers of the inputs.
        outputs: Numbers of the outputs.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def signature_of(node: ir.Node, opset: int, half: ir.DataType) -> Signature | str:
    """Return which places of a float32 node may have a lower type, by its definition.

    Args:
        node: The node; types of its values are known.
        opset: Version of its domain.
        half: The lower type.

    Returns:
        The places, or why there are none.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return "whose operator onnx does not define"
    made = {
        _formal(schema.outputs, i).type_str
        for i, v in enumerate(node.outputs)
        if v.dtype is WIDE
    }
    if not made:
        return NONE
    read = tuple(
        i
        for i, v in enumerate(node.inputs)
        if v is not None and v.dtype is WIDE and _formal(schema.inputs, i).type_str in made
    )
    if not made <= {_formal(schema.inputs, i).type_str for i in read}:
        return "whose type does not follow from float32 inputs"
    wanted = f"tensor({half.name.lower()})"
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    if any(wanted not in allowed.get(kind, ()) for kind in made):
        return f"whose operator has no {half.name.lower()}"
    outputs = tuple(
        i
        for i, v in enumerate(node.outputs)
        if _formal(schema.outputs, i).type_str in made and v.dtype in (WIDE, None)
    )
    return Signature(read, outputs)


def _formal(places: Sequence[T], index: int) -> T:
    # The last place of a variadic operator represents all that follow.
    return places[min(index, len(places) - 1)]
