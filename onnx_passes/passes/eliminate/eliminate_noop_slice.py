"""Remove a Slice that takes everything."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.common.rules import IdlePass
from onnx_passes.passes.common.shapes import INT_MAX, dims_of, ints_of
from onnx_passes.passes.hints import Hint, Hints


@passes.verify.equality
@passes.register("eliminate")
class EliminateNoopSlice(IdlePass):
    """Remove a Slice that takes everything.

    Before: ``Slice(x, [0], [2147483647], [1])``
    After:  ``x``

    Sound because on every axis it starts at the first element, ends behind the last, and
    leaves none out.

    Leaves alone: bounds that are computed; an end within a dimension of unknown size.
    """

    operators = ("Slice",)
    hints: ClassVar[Hints] = {
        "*": Hint({}, {"Slice.starts": ([0],), "Slice.ends": ([INT_MAX],)})
    }

    def is_idle(self, node: ir.Node, x: ir.Value) -> bool:
        """Whether every bound lies outside."""
        starts, ends, axes, steps = _bounds(node)
        dims = list(dims_of(x) or ())
        if starts is None or ends is None or axes is None or set(steps or [0]) != {1}:
            return False
        for start, end, axis in zip(starts, ends, axes, strict=True):
            (size,) = dims[axis:][:1] or (None,)
            least = size if isinstance(size, int) else INT_MAX
            if end < least or not (start == 0 or start <= -least):
                return False
        return True


def _bounds(node: ir.Node) -> tuple[list[int] | None, ...]:
    """Return starts, ends, axes and steps; None for what is not known."""
    if len(node.inputs) == 1:  # before opset 10
        names = ("starts", "ends", "axes")
        given = [list(node.attributes.get_ints(name) or ()) for name in names]
        return given[0], given[1], given[2] or _first_axes(given[0]), [1]
    inputs = [*node.inputs, None, None]
    starts, ends = ints_of(inputs[1]), ints_of(inputs[2])
    axes = _first_axes(starts) if inputs[3] is None else ints_of(inputs[3])
    return starts, ends, axes, [1] if inputs[4] is None else ints_of(inputs[4])


def _first_axes(starts: list[int] | None) -> list[int] | None:
    return None if starts is None else list(range(len(starts)))
