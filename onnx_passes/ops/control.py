"""Control flow and sequences, as far as their inputs go."""

from __future__ import annotations

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.tensor_sources import FEW
from onnx_passes.ops.use import Use


class If(Operator):
    """One of two bodies."""

    free = True

    def admits(self, use: Use) -> ValueHint | None:
        return between(0, 1)

    def breakpoints(self, use: Use) -> tuple[float, ...]:
        return (0.0, 1.0)


class Loop(Operator):
    """A body, run so many times, or as long as a condition holds."""

    free, steers = True, (0, 1)

    def admits(self, use: Use) -> ValueHint | None:
        if use.index == 1:
            return exactly(True)
        if use.index > 1:
            return None
        # A scan output is as long as there were trips.
        carried = len(use.node.inputs) - 2
        for output in range(carried, len(use.node.outputs)):
            if shape := use.output_shape(output):
                return exactly(shape[0])
        return exactly(FEW)

    def breakpoints(self, use: Use) -> tuple[float, ...]:
        return (0.0, 1.0) if use.index < 2 else ()


class Scan(Operator):
    """A body, run along an axis."""

    free = True


class _Sequence(Operator, abstract=True):
    """What makes sequences, reads or changes them."""

    free = True


class _Position(_Sequence, abstract=True):
    steers = (1,)

    def admits(self, use: Use) -> ValueHint | None:
        return between(0, 0) if use.index in self.steers else None


class SequenceAt(_Position):
    """An element of a sequence."""

    moves = (0,)


class SequenceErase(_Position):
    """A sequence without an element."""

    moves = (0,)


class SequenceInsert(_Position):
    """A sequence with one more element."""

    steers, moves = (2,), range(2**31)


class SequenceConstruct(_Sequence):
    """A sequence of tensors."""

    moves = range(2**31)


class SequenceEmpty(_Sequence):
    """An empty sequence."""


class SequenceLength(_Sequence):
    """The number of elements."""


class ConcatFromSequence(_Sequence):
    """The elements, joined along an axis."""

    moves = (0,)


class SplitToSequence(_Sequence):
    """A tensor, cut along an axis."""

    steers, moves = (1,), (0,)

    def admits(self, use: Use) -> ValueHint | None:
        data, length = use.input_shape(0), use.length()
        if use.index != 1:
            return None
        if data is None or length is None:
            return exactly(1)
        whole, rest = divmod(data[use.integer("axis")], max(1, length))
        return exactly([whole + (index < rest) for index in range(length)])


class Optional(_Sequence):
    """A value that may be missing."""

    moves = (0,)


class OptionalHasElement(_Sequence):
    """Whether it is there."""


class OptionalGetElement(_Sequence):
    """What is there."""

    moves = (0,)

    def admits(self, use: Use) -> ValueHint | None:
        return ValueHint(filled=True) if use.index == 0 else None
