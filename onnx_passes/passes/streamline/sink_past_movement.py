"""Move factors and terms behind operators that only move elements."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.streamline._integer_ranges import (
    ARITHMETIC,
    CHOOSING,
    RANKING,
    IntegerRange,
    integer_ranges,
    let_through,
    padding_of,
)
from onnx_passes.passes.streamline._moves import Mover, move_rows
from onnx_passes.passes.streamline._rule_constants import (
    along,
    at_axis,
    floats,
    is_single,
    rank_of,
    scalar,
)

_MOST_RANKED = 2**20
"""Numbers up to which it is looked at whether rounding keeps them apart."""

_OURS = ("Im2Col", "LayoutConverter")
_TAKES_SINGLE = frozenset({("", "Flatten"), ("", "Reshape"), (CUSTOM, "Im2Col")})


@passes.verify.equality
@passes.register("reorder")
class SinkPastMovement(passes.Transformation):
    """Move factors and terms behind operators that only move elements.

    Before: ``Reshape(Mul(x, s), shape)``, ``Transpose(Add(x, a))``, ``MaxPool(Mul(x, s))``,
            ``Concat(Mul(x, s), Mul(y, t))``
    After:  ``Mul(Reshape(x, shape), s)``, ``Add(Transpose(x), a)``, ``Mul(MaxPool(x), s)``,
            ``Mul(Concat(x, y), [s, t])``

    Constants are single numbers; behind Transpose, changes of shape, Slice, Split, pooling
    and Relu also arrays, which are transposed, reshaped and cut alike. Operators are those
    whose elements are all elements of the first operand, Split and Concat, Resize to the
    nearest element, and Pad; past a Pad with zeros go factors only. Past MaxPool,
    GlobalMaxPool, ReduceMax, ReduceMin, Relu and a Pad with an infinite number go positive
    factors, past all but Relu terms as well. Past TopK, ArgMax and ArgMin of integers go
    single numbers, if what they make of each integer is greater than what they make of the
    one before.

    Sound because each element of the result is one of the operand, on which the same operation
    rounds the same way. Rounding keeps the order of numbers, so that the largest stays the
    largest.

    Leaves alone: constants that are computed, that are not finite, or that callers may
    override; a factor 0; a Relu behind a factor that is not positive; operators whose second
    output is read; ranks that are not known; arrays that differ along an
    axis that is dynamic or pooled; shapes with other dynamic dimensions than the first.

    Attributes:
        past_transposes: Also move behind a Transpose of what is computed. Where Transposes
            move as well (``sink-transposes``), they should, and not the arithmetic, except
            single numbers in front of Reshape, Flatten or Im2Col.
    """

    needs = ("shape-inference",)

    tested_on = ("qonnx",)
    tested_after = ("raise-opset", "extract-weight-scales", "infer-thresholds")

    past_transposes: bool = False

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Move each factor and term as far as it goes."""
        mover, count = Mover(model), 0
        ranks = any(node.op_type in RANKING for node in model.graph)
        ranges = integer_ranges(model.graph) if ranks else {}
        for graph in list(graphs_within(model.graph)):
            for node in list(graph):
                if node.graph is graph and self._is_wanted(node):
                    count += _move(node, mover, ranges)
        return ir.passes.PassResult(model, modified=count > 0)

    def _is_wanted(self, node: ir.Node) -> bool:
        if node.op_type != "Transpose" or self.past_transposes:
            return True
        operation = _operation(node.inputs[0])
        if operation is None or constant_of(operation.inputs[0]) is not None:
            return operation is not None
        # Behind these no Transpose goes, and single numbers always do.
        readers = {(reader.domain, reader.op_type) for reader in node.outputs[0].consumers()}
        return is_single(operation.inputs[1]) and bool(readers) and readers <= _TAKES_SINGLE


def _move(node: ir.Node, mover: Mover, ranges: Mapping[ir.Value, IntegerRange]) -> bool:
    moved, kind = _moved_operands(node), node.op_type
    found = [_operation(node.inputs[index]) for index in moved]
    kept = node.outputs if kind in ("Split", *RANKING) else node.outputs[:1]
    read = [] if kind in ("ArgMax", "ArgMin") else node.outputs[:1] if kind == "TopK" else kept
    if not found or any(o.uses() or o.is_graph_output() for o in node.outputs[len(kept) :]):
        return False
    first = found[0]
    if first is None or first.op_type not in let_through(node):
        return False
    if all(other is not None and _is_same(first, other) for other in found):
        array = floats(first.inputs[1])
    else:
        array = _joined(node, found)
    if array is None:
        return False
    if kind in RANKING:
        numbers = _grid(node.inputs[0], ranges)
        if numbers is None or not (np.diff(numbers) > 0).all():
            return False
    elif first.op_type != "Add" and not (
        (array > 0).all() if _keeps_order(node) else array.all()
    ):
        return False
    behind = [first.inputs[1]] * len(read)
    if node.op_type == "Concat" and array.size > 1 and node.graph is not None:
        behind = [mover.constant(node.graph, ir.tensor(array))]
    elif array.ndim:
        rows = [array.reshape(())] * len(read) if array.size == 1 else move_rows(node, array)
        if rows is None or node.graph is None:
            return False
        behind = [mover.constant(node.graph, ir.tensor(row)) for row in rows]
    inputs = list(node.inputs)
    for index, operation in zip(moved, found, strict=True):
        assert operation is not None, "looked at above"
        inputs[index] = operation.inputs[0]
    inner = mover.node(node, inputs, *(out.shape for out in kept))
    pairs = zip(inner.outputs, behind, strict=False)
    outer = (mover.node(first, [out, constant], out.shape) for out, constant in pairs)
    mover.swap(node, inner, *outer)
    return True


def _grid(value: ir.Value | None, ranges: Mapping[ir.Value, IntegerRange]) -> Array | None:
    """Return the numbers that integers, scaled and shifted, may be; None if not known."""
    found = None if value is None else ranges.get(value)
    if found is not None:
        count = (found.high - found.low) / found.step + 1
        if count > _MOST_RANKED:
            return None
        return np.linspace(found.low, found.high, int(count), dtype=np.float32)
    operation = _operation(value)
    number = None if operation is None else scalar(operation.inputs[1])
    numbers = None if operation is None else _grid(operation.inputs[0], ranges)
    if operation is None or number is None or numbers is None:
        return None
    ufunc = {"Add": np.add, "Mul": np.multiply, "Div": np.divide}[operation.op_type]
    made: Array = ufunc(numbers, np.float32(number))
    return made


def _keeps_order(node: ir.Node) -> bool:
    """Whether only what keeps the order of numbers, infinite ones too, passes a node."""
    return node.op_type in CHOOSING or (node.op_type == "Pad" and padding_of(node) != 0)


def _moved_operands(node: ir.Node) -> list[int]:
    """Return the operands that all elements of the result are from."""
    if node.domain == CUSTOM:
        return [0] if node.op_type in _OURS else []
    if node.domain != "" or not node.inputs:
        return []
    if node.op_type == "Concat":
        return list(range(len(node.inputs)))
    return [0] if let_through(node) else []


def _operation(value: ir.Value | None) -> ir.Node | None:
    """Return the product or sum with a constant that makes a value, and does not widen it."""
    node = None if value is None else value.producer()
    if node is None or node.domain != "" or node.op_type not in ARITHMETIC:
        return None
    rank, array = rank_of(node.inputs[0]), floats(node.inputs[1])
    if rank is None or array is None or array.size == 0:
        return None
    if is_single(node.inputs[1]):
        return node if array.ndim <= rank else None
    source = node.inputs[0]
    shape = None if source is None or source.shape is None else list(source.shape)
    if shape is None or array.ndim > rank:
        return None
    pairs = zip(reversed(array.shape), reversed(shape), strict=False)
    return node if all(size in (1, dim) for size, dim in pairs) else None


def _joined(node: ir.Node, found: Sequence[ir.Node | None]) -> Array | None:
    """Return the constants in front of a Concat as one along its axis; None if they differ.

    Each is a single number of the same operator, or differs along that axis alone.
    """
    rank = rank_of(node.inputs[0])
    if node.op_type != "Concat" or rank is None or len({f and f.op_type for f in found}) != 1:
        return None
    axis = (node.attributes.get_int("axis", 0) or 0) % rank
    rows = []
    for operation in found:
        value = None if operation is None else operation.inputs[0]
        shape = None if value is None else value.shape
        array = None if operation is None else floats(operation.inputs[1])
        row = None if array is None else along(array, axis, rank)
        size = None if shape is None else shape[axis]
        if row is None or not isinstance(size, int):
            return None
        rows.append(np.broadcast_to(row, (size,)))
    return at_axis(np.concatenate(rows), axis, rank)


def _is_same(first: ir.Node, other: ir.Node) -> bool:
    if first is other:
        return True
    same = first.op_type == other.op_type and scalar(first.inputs[1]) is not None
    return same and scalar(first.inputs[1]) == scalar(other.inputs[1])
