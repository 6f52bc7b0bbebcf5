"""Control flow, and sequences as far as their inputs go."""

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.input_hints import Use, ValueHint, between, exactly
from onnx_passes.ops.operator_class import Operator, Result
from onnx_passes.ops.reshaping import FEW
from onnx_passes.ops.semantics import Unsupported

MOST_TRIPS = 1000
"""Trips after which a loop is not worth evaluating."""


def _decided(call: Call, condition: Tensor | None) -> bool:
    """Return a condition, which is true if it is left out.

    Raises ``Unsupported`` if it depends on unknowns: what is undefined behind it would then
    have to be defined under the condition alone.
    """
    if condition is None:
        return True
    numbers = call.semantics.numbers(condition.data, condition.dtype)
    if numbers is None or numbers.size != 1:
        raise Unsupported(
            f"the operator {call.node.op_type} on a condition that is not constant"
        )
    return bool(numbers.reshape(-1)[0])


class If(Operator):
    """One of two bodies."""

    free = True

    def evaluate(self, call: Call) -> Result:
        chosen = "then_branch" if _decided(call, call.required(0)) else "else_branch"
        return tuple(call.body(chosen))

    def admits(self, use: Use) -> ValueHint | None:
        return between(0, 1)

    def breakpoints(self, use: Use) -> tuple[float, ...]:
        return (0.0, 1.0)


class Loop(Operator):
    """A body, run so many times, or as long as a condition holds."""

    free, steers = True, (0, 1)

    def evaluate(self, call: Call) -> Result:
        trips = call.static_ints(0)[0] if call.given(0) is not None else None
        condition, state = (
            call.given(1),
            [call.required(i) for i in range(2, len(call.inputs))],
        )
        carried, rows = len(state), list[list[Tensor]]()
        for trip in itertools.count():
            if trip == trips or not _decided(call, condition):
                break
            if trip == MOST_TRIPS:
                raise Unsupported(f"a Loop of more than {MOST_TRIPS} trips")
            place = constant(np.array(trip), ir.DataType.INT64, call.semantics)
            holds = constant(np.array(True), ir.DataType.BOOL, call.semantics)
            condition, *found = call.body("body", place, holds, *state)
            state, scanned = found[:carried], found[carried:]
            rows.append(scanned)
        if not rows and len(call.node.outputs) > carried:
            raise Unsupported("what a Loop of no trip gathers")
        return (*state, *(_stacked(column, 0) for column in zip(*rows, strict=True)))

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

    changes = versions.SCAN

    free = True

    def evaluate(self, call: Call) -> Result:
        if call.opset < 9:
            raise Unsupported("Scan over a batch")
        count = call.integer("num_scan_inputs", 0)
        carried = len(call.inputs) - count
        state = [call.required(i) for i in range(carried)]
        read = [call.required(i) for i in range(carried, len(call.inputs))]
        axes = call.integers("scan_input_axes") or [0] * count
        backwards = call.integers("scan_input_directions") or [0] * count
        parts = [
            np.moveaxis(tensor.data, normalize_axis(axis, tensor.data.ndim), 0)
            for tensor, axis in zip(read, axes, strict=True)
        ]
        parts = [p[::-1] if back else p for p, back in zip(parts, backwards, strict=True)]
        rows: list[list[Tensor]] = []
        for slices in zip(*parts, strict=True):
            given = [Tensor(p, t.dtype) for p, t in zip(slices, read, strict=True)]
            found = call.body("body", *state, *given)
            state, scanned = found[:carried], found[carried:]
            rows.append(scanned)
        if not rows:
            raise Unsupported("a Scan over nothing")
        made = [list(column) for column in zip(*rows, strict=True)]
        axes = call.integers("scan_output_axes") or [0] * len(made)
        backwards = call.integers("scan_output_directions") or [0] * len(made)
        turned = [m[::-1] if back else m for m, back in zip(made, backwards, strict=True)]
        return (*state, *(_stacked(m, axis) for m, axis in zip(turned, axes, strict=True)))


def _stacked(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors of one shape as one of a rank more."""
    parts: list[Array] = [tensor.data for tensor in tensors]
    return Tensor(np.stack(parts, axis), tensors[0].dtype)


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

    def evaluate(self, call: Call) -> Result:
        return call.required(0)


class OptionalHasElement(_Sequence):
    """Whether it is there."""

    def evaluate(self, call: Call) -> Result:
        there = np.array(call.given(0) is not None)
        return constant(there, ir.DataType.BOOL, call.semantics)


class OptionalGetElement(_Sequence):
    """What is there."""

    moves = (0,)

    def evaluate(self, call: Call) -> Result:
        return call.required(0)

    def admits(self, use: Use) -> ValueHint | None:
        return ValueHint(filled=True) if use.index == 0 else None
