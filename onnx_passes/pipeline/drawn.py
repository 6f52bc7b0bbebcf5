"""What drawn values show of a part, and what its two sides read."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import onnx_ir as ir

from onnx_passes.contracts.elements import kind_of
from onnx_passes.runtime.engine_base import Array, Data
from onnx_passes.verify.obligations import Obligation, ObligationPart
from onnx_passes.verify.region import boundary_of

_SMALL = 1 << 16
"""Elements up to which a value is drawn only to see more of it."""


@dataclass(frozen=True)
class Drawn:
    """What drawn values show of a part.

    Attributes:
        agrees: Whether both sides agree on them.
        elements: Number of elements that were compared; 0 where they do not vary.
        values: Where they do not, what was drawn when they differ most, by name.
        given: Whether these are inputs of the model, so that they may occur.
        row: Which of the draws that is.
        complete: Whether both sides ran on each of the draws.
    """

    agrees: bool
    elements: int = 0
    values: Mapping[str, Array] = field(default_factory=dict)
    given: bool = False
    row: int = 0
    complete: bool = True


def is_plain(array: Array) -> bool:
    """Whether an array is small, and of no float that every node rounds much.

    Args:
        array: Elements of any shape and type.
    """
    return array.size <= _SMALL and (kind_of(array.dtype) != "float" or array.itemsize > 2)


def row_of(*found: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return values by name; the first that knows a name decides."""
    return ChainMap(*(cast(MutableMapping[str, Data], one) for one in found))


def reads_of(
    part: ObligationPart, old: Sequence[ir.Node], new: Sequence[ir.Node]
) -> tuple[set[str], set[str]]:
    """Return what each side does not compute, and reads or is asked for.

    Args:
        part: The values that the sides are asked for.
        old: Nodes of the model before.
        new: Nodes of the model after.

    Returns:
        Names of values, of the model before and of the model after.
    """
    asked = [one for one in part.obligations if one.tensor is None]
    found = []
    for nodes, names in ((old, [o.old for o in asked]), (new, [o.new for o in asked])):
        made = {v.name for node in nodes for v in node.outputs}
        found.append({*boundary_of(nodes), *(name for name in names if name not in made)})
    return found[0], found[1]


def new_value(one: Obligation, old: Mapping[str, Data], new: Mapping[str, Data]) -> Data:
    """Return what a value is after the change; where it was not computed anew, as before.

    Args:
        one: The pair of values.
        old: Values before the change, arrays by name.
        new: Values that the change computes, arrays by name.
    """
    if one.tensor is not None:
        return one.tensor.numpy()
    return new[one.new] if one.new in new else old.get(one.new)


def named_anew(values: Mapping[str, Data], renamed: Mapping[str, str]) -> dict[str, Array]:
    """Return values under the names of the model after, too.

    Args:
        values: Values by their names in the model before, tensors of any shape.
        renamed: For values of the model after, the names of those that they must equal.
    """
    found = dict(values)
    for new, old in renamed.items():
        if old in found:
            found.setdefault(new, found[old])
    return cast(dict[str, Array], found)
