"""Replace a RotaryEmbedding of the first channels by one that leaves the others."""

from collections.abc import Iterator
from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import has_opset, node_of
from onnx_passes.passes.common.shapes import dims_of, ints_of
from onnx_passes.passes.fusion._fusion_hints import WIDE_ROTARY_EMBEDDING
from onnx_passes.passes.hints import Hints

RANK = 4
LAST = (-1, RANK - 1)


@passes.verify.tolerance
@passes.register("fuse")
class WidenRotaryEmbedding(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace a RotaryEmbedding of the first channels by one that leaves the others.

    Before: ``Concat(RotaryEmbedding(first, cos, sin), rest)`` of 16 channels of ``x`` and
            those that follow, by two Slices or a Split along the last axis
    After:  ``RotaryEmbedding<rotary_embedding_dim = 16>(x, cos, sin)``, of a Slice of ``x`` if
            these are not all of its channels

    ONNX Runtime takes two thirds of the time for it, as no channel is copied twice.

    Sound because this is how the attribute is defined: the operator turns so many channels,
    and copies those behind. The contract is a tolerance: a kernel may contract products and
    sums.

    Leaves alone: models before opset 23; tensors of another rank than 4, of an unknown width
    or of size 0; parts that do not follow each other in their order; an embedding that has
    this attribute or a number of heads; inner values that are read elsewhere. Functions,
    where shapes are unknown.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference",)
    exclusive = True
    hints: ClassVar[Hints] = WIDE_ROTARY_EMBEDDING

    def rules(self) -> Iterator[Rule]:
        yield Rule(_sliced, _whole, _is_partial, "slices")
        yield Rule(_split, _whole, _is_partial, "split")


def _sliced(op: Op, x: Var) -> Var:
    low = op.Slice(x, _allow_other_inputs=True, _outputs=["low"])
    high = op.Slice(x, _allow_other_inputs=True, _outputs=["high"])
    turned = op.RotaryEmbedding(low, _allow_other_inputs=True, _outputs=["turned"])
    return op.Concat(turned, high, _outputs=["y"])


def _split(op: Op, x: Var) -> Var:
    low, high = op.Split(x, _allow_other_inputs=True, _outputs=["low", "high"])
    turned = op.RotaryEmbedding(low, _allow_other_inputs=True, _outputs=["turned"])
    return op.Concat(turned, high, _outputs=["y"])


def _is_partial(
    context: MatchContext,
    x: Value,
    low: Value,
    high: Value,
    turned: Value,
    y: Value,
    **_: object,
) -> bool:
    dims, width = dims_of(x), _width(low)
    if not has_opset(context, 23) or dims is None or len(dims) != RANK or 0 in dims:
        return False
    if not isinstance(dims[-1], int) or width is None:
        return False
    if node_of(y).attributes.get_int("axis", 0) not in LAST:
        return False
    given = node_of(turned).attributes
    if any(given.get_int(name, 0) for name in ("num_heads", "rotary_embedding_dim")):
        return False
    parts = node_of(low)
    if parts.op_type == "Split":
        rest = (dims_of(high) or [None])[-1]
        return parts.attributes.get_int("axis", 0) in LAST and rest == dims[-1] - width
    first, second = (_bounds(part, dims[-1]) for part in (parts, node_of(high)))
    if first is None or second is None or second[1] <= second[0]:
        return False
    return first[1] == second[0] and first[1] - first[0] == width


def _whole(op: Op, x: Value, low: Value, high: Value, turned: Value, **_: object) -> Value:
    rotary, size = node_of(turned), (dims_of(x) or [0])[-1]
    assert isinstance(size, int), "check has seen to it"
    if node_of(low).op_type == "Slice":
        first, second = (_bounds(node_of(part), size) for part in (low, high))
        assert first is not None, "check has seen to it"
        assert second is not None, "check has seen to it"
        if (first[0], second[1]) != (0, size):
            ends = (op.Constant(value_ints=[n]) for n in (first[0], second[1], -1))
            x = op.Slice(x, *ends)
    given = {**rotary.attributes, "rotary_embedding_dim": _width(low)}
    return op.RotaryEmbedding(x, *rotary.inputs[1:], **given)


def _width(x: Value) -> int | None:
    """Return how many channels are turned, if it is a number."""
    width = (dims_of(x) or [None])[-1]
    return width if isinstance(width, int) and width > 0 else None


def _bounds(node: ir.Node, size: int) -> tuple[int, int] | None:
    """Return where a Slice of the last axis alone begins and ends."""
    starts, ends, axes = (ints_of(value) for value in node.inputs[1:4])
    steps = ints_of(node.inputs[4]) if len(node.inputs) > 4 else [1]
    if starts is None or ends is None or steps != [1] or axes not in ([-1], [RANK - 1]):
        return None
    begin, end, _ = slice(starts[0], ends[0]).indices(size)
    return begin, end
