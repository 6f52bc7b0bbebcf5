"""Fuse a Shape and what picks some of its dimensions."""

from collections.abc import Iterator
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import node_of, opset_at, read_once
from onnx_passes.passes.common.shapes import INT_MAX, axes_of, ints_of, rank_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, ints

Range = tuple[int, int | None]
"""First dimension and the one to stop at; None for the last one and all before it."""


def _shape_of_x(start: int, end: int) -> Spec:
    return Spec(node="Shape", of=("x",), attributes={"start": start, "end": end})


@passes.verify.equality
@passes.register("fuse")
class FuseShapeSlice(passes.Transformation, passes.RewriteRuleSetPass):
    """Fuse a Shape and what picks some of its dimensions.

    Before: ``Unsqueeze(Gather(Shape(x), 1), [0])``, ``Slice(Shape(x), [1], [3])``,
            ``Concat(Shape<0, 1>(x), Shape<1, 3>(x), n)``
    After:  ``Shape<start = 1, end = 2>(x)``, ``Shape<start = 1, end = 3>(x)``,
            ``Concat(Shape<end = 3>(x), n)``

    Dimensions are counted from the front where the rank is known, and what is the default is
    left out.

    Sound because ``start`` and ``end`` of Shape count as those of Slice do. An index that the
    tensor does not have is an error before, and gives nothing afterwards.

    Leaves alone: opsets before 15; a Shape that has a part already, except in a Concat;
    indices that are computed or not in a row; parts that something else reads; in a Concat,
    parts counted from the end.
    """

    needs = ("shape-inference",)
    hints: ClassVar[Hints] = {
        "join": Hint(
            {
                "x": data("a b c", "a b c d"),
                "y.0": (_shape_of_x(0, 1), _shape_of_x(1, 2)),
                "y.1": (_shape_of_x(1, 2), _shape_of_x(1, 3)),
                "y.2": ints("1", "2 3"),
            },
            {"Concat.axis": (0,)},
        )
    }

    def rules(self) -> Iterator[Rule]:
        def one(op: Op, x: Var, i: Var) -> Var:
            t = op.Gather(op.Shape(x, _outputs=["s"]), i, _outputs=["t"])
            return op.Unsqueeze(t, _allow_other_inputs=True, _outputs=["y"])

        def some(op: Op, x: Var, i: Var) -> Var:
            return op.Gather(op.Shape(x, _outputs=["s"]), i, _outputs=["y"])

        def part(op: Op, x: Var) -> Var:
            s = op.Shape(x, _outputs=["s"])
            return op.Slice(s, _allow_other_inputs=True, _outputs=["y"])

        def joined(op: Op) -> Var:
            return op.Concat(_allow_other_inputs=True, _outputs=["y"])

        def reads(context: MatchContext, x: Value, s: Value, y: Value, **_: object) -> bool:
            whole = not node_of(s).attributes
            return whole and opset_at(context) >= 15 and _range(y) is not None

        def meet(context: MatchContext, y: Value, **_: object) -> bool:
            return opset_at(context) >= 15 and _pair(node_of(y)) is not None

        for pattern in (one, some, part):
            yield Rule(pattern, _shape, reads)
        yield Rule(joined, _joined, meet, "join")


def _shape(op: Op, x: Value, y: Value, **_: object) -> Value:
    found = _range(y)
    assert found is not None, "check has seen to it"
    return _piece(op, x, found)


def _piece(op: Op, x: ir.Value | None, found: Range) -> Value:
    """Make the Shape of a part, spelled as every pass does, whichever comes first."""
    (start, end), rank = found, rank_of(x)
    if rank is not None:
        start = max(0, start + rank) if start < 0 else start
        end = max(0, end + rank) if end is not None and end < 0 else end
        end = None if end is not None and end >= rank else end
    limits = {"start": start or None, "end": end}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return op.Shape(x, **given)


def _range(y: Value) -> Range | None:
    """Return which dimensions the last node of a match reads of a shape."""
    node = node_of(y)
    if node.op_type == "Slice":
        return _range_of_slice(node)
    if node.op_type == "Unsqueeze":
        if axes_of(node) not in ([0], [-1]):
            return None
        held = node.inputs[0]
        assert held is not None, "the pattern has matched a value"
        node, wanted = node_of(held), 0
    else:
        wanted = 1
    tensor, indices = constant_of(node.inputs[1]), ints_of(node.inputs[1])
    if tensor is None or not indices or len(tensor.shape) != wanted:
        return None
    start, stop = indices[0], indices[-1] + 1
    # From -1 to 0 a row wraps around.
    if indices != list(range(start, stop)) or (start < 0 <= stop - 1):
        return None
    return start, stop if stop else None


def _range_of_slice(node: ir.Node) -> Range | None:
    given = [ints_of(value) for value in node.inputs[1:]]
    if len(given) < 2 or any(numbers is None for numbers in given):
        return None
    start, end, axes, steps = [*(g or [] for g in given), *[[0], [1]][len(given) - 2 :]]
    if axes not in ([0], [-1]) or steps != [1] or len(start) != 1 or len(end) != 1:
        return None
    if start[0] < -INT_MAX:
        start = [0]
    if end[0] < -INT_MAX or start[0] >= INT_MAX:
        return None
    return start[0], None if end[0] >= INT_MAX else end[0]


def _pair(concat: ir.Node) -> tuple[int, Range] | None:
    """Return where two parts of one shape that meet lie in a Concat, and what they come to."""
    for index, (first, second) in enumerate(
        zip(concat.inputs, concat.inputs[1:], strict=False)
    ):
        left, right = _part(first, concat), _part(second, concat)
        if left is None or right is None or left[0] is not right[0]:
            continue
        (_, start, middle), (_, begin, end) = left, right
        if middle == begin:
            return index, (start, end)
    return None


def _part(value: ir.Value | None, concat: ir.Node) -> tuple[ir.Value, int, int] | None:
    """Return a tensor and the range of dimensions, counted from the front, that are read."""
    node = value.producer() if value is not None else None
    if value is None or node is None or (node.domain, node.op_type) != ("", "Shape"):
        return None
    source, rank = node.inputs[0], rank_of(node.inputs[0])
    if source is None or not read_once(value):
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    start, end = node.attributes.get_int("start") or 0, node.attributes.get_int("end")
    end = rank if end is None else end
    if end is None or not 0 <= start < end or (rank is not None and end > rank):
        return None
    return source, start, end


def _joined(op: Op, y: Value, **_: object) -> Value:
    concat = node_of(y)
    found = _pair(concat)
    assert found is not None, "check has seen to it"
    index, together = found
    first = concat.inputs[index]
    assert first is not None, "it is a part of a shape"
    piece = _piece(op, node_of(first).inputs[0], together)
    parts = [*concat.inputs[:index], piece, *concat.inputs[index + 2 :]]
    if len(parts) == 1:
        return piece
    return op.Concat(*parts, **concat.attributes)
