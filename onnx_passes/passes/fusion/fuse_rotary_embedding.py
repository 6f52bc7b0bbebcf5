"""Replace the formula of RotaryEmbedding by the operator."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import pattern

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import commuted, has_opset
from onnx_passes.passes.common.shapes import INT_MAX, Dim, dims_of, ints_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.fusion._fusion_hints import ROTARY_EMBEDDING
from onnx_passes.passes.hints import Hints

DEPTH = 20
POINTWISE = frozenset(("Cos", "Sin", "Cast", "Identity", "Neg"))


def is_doubled(value: ir.Value | None, depth: int = DEPTH) -> bool:
    """Whether the second half of a value along its last axis surely is the first again.

    Looks through operators that treat all elements alike, and those that leave the last axis
    alone, for a constant or a Concat of one value with itself. ``depth`` counts nodes.
    """
    dims, tensor = dims_of(value), constant_of(value)
    if tensor is not None:
        return _array_is_doubled(tensor)
    node = value.producer() if value is not None else None
    if node is None or node.domain or not depth or not dims:
        return False
    first = node.inputs[0] if node.inputs else None
    last = len(dims) - 1
    match node.op_type:
        case "Concat":
            joined = node.attributes.get_int("axis", 0) in (-1, last)
            return joined and len(node.inputs) == 2 and first is node.inputs[1]
        case "Mul" | "Div":
            one, other = node.inputs
            factor = constant_of(other)
            if factor is None and node.op_type == "Mul":
                one, factor = other, constant_of(one)
            return factor is not None and factor.size == 1 and is_doubled(one, depth - 1)
        case "Unsqueeze":
            axes = ints_of(node.inputs[1])
            kept = axes is not None and not {-1, last} & {*axes}
            return kept and is_doubled(first, depth - 1)
        case "Gather":
            axis, rank = node.attributes.get_int("axis", 0), len(dims_of(first) or ())
            return (
                rank > 1 and axis not in (None, -1, rank - 1) and is_doubled(first, depth - 1)
            )
        case "Slice":
            axes = ints_of(node.inputs[3]) if len(node.inputs) > 3 else None
            kept = axes is not None and not {-1, last} & {*axes}
            return kept and is_doubled(first, depth - 1)
    return node.op_type in POINTWISE and is_doubled(first, depth - 1)


def _array_is_doubled(tensor: ir.TensorProtocol) -> bool:
    array = tensor.numpy()
    if not array.ndim or array.shape[-1] % 2:
        return False
    one, other = np.split(array, 2, axis=-1)
    return bool(np.array_equal(one, other))


def takes_half(node: ir.Node, axis: int, size: int, second: bool) -> bool:
    """Whether a Slice takes the first or second half of an axis of that size and no less."""
    starts, ends, axes = (ints_of(value) for value in node.inputs[1:4])
    steps = ints_of(node.inputs[4]) if len(node.inputs) > 4 else [1]
    if starts is None or ends is None or steps != [1] or size % 2:
        return False
    if axes not in ([axis], [-1]) or len(starts) != 1 or len(ends) != 1:
        return False
    (start,), (end,) = starts, ends
    start, end = (n + size if -size <= n < 0 else n for n in (start, end))
    if second:
        return start == size // 2 and size <= end
    return start == 0 and end == size // 2 < INT_MAX


RANK = 4
TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


@passes.verify.tolerance
@passes.register("fuse")
class FuseRotaryEmbedding(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace the formula of RotaryEmbedding by the operator.

    Before: ``x * cos + Concat(-high, low) * sin`` with the halves ``low`` and ``high`` of
            ``x`` along the last axis, by Slice or Split
    After:  ``RotaryEmbedding(x, cos, sin)`` with the first halves of ``cos`` and ``sin``

    ``x`` is [batch, heads, sequence, width]; the tables are made [batch, sequence, width / 2],
    by nodes that are the same for all layers, and are merged behind this pass.

    Sound because this is how the operator is defined, where the second half of each table is
    the first again. The table is joined from one value twice, or a constant of equal halves.
    The contract is a tolerance: a kernel may contract products and sums.

    Leaves alone: models before opset 23; tables that differ between heads, whose halves are
    not known to be equal, or whose sequence is not known to be that of ``x``; a batch of
    unknown size, unless it is a dimension of an input; inner values that are read elsewhere;
    pairs of neighbours. Functions, where shapes are unknown.
    """

    needs = ("shape-inference",)
    followed_by = ("eliminate-common-subexpressions", "shape-inference")
    always_pays = False
    exclusive = True
    hints: ClassVar[Hints] = ROTARY_EMBEDDING

    def rules(self) -> Iterator[Rule]:
        for form in (_plain, _table_first, _turned_first):
            yield Rule(form, _rotation, _is_rotation)


def _plain(op: Op, x: Var, cos: Var, sin: Var) -> Var:
    return op.Add(op.Mul(x, cos), _turned(op, x, sin))


def _table_first(op: Op, x: Var, cos: Var, sin: Var) -> Var:
    return op.Add(op.Mul(cos, x), _turned(op, x, sin))


def _turned_first(op: Op, x: Var, cos: Var, sin: Var) -> Var:
    return op.Add(_turned(op, x, sin), commuted(op, "Mul", x, cos))


def _turned(op: Op, x: Var, sin: Var) -> Var:
    low = op.Slice(x, _allow_other_inputs=True, _outputs=["low"])
    high = op.Slice(x, _allow_other_inputs=True, _outputs=["high"])
    first, second = op.Split(x, _allow_other_inputs=True, _outputs=["first", "second"])
    pairs = ((op.Neg(high), low), (op.Neg(second), first))
    joined = pattern.OrValue([op.Concat(*pair) for pair in pairs], name="turned")
    return commuted(op, "Mul", joined, sin)


def _is_rotation(context: MatchContext, x: Value, cos: Value, sin: Value, **rest: Var) -> bool:
    dims = dims_of(x)
    if not has_opset(context, 23) or x.dtype not in TYPES or dims is None:
        return False
    if len(dims) != RANK or not isinstance(dims[3], int) or None in dims or 0 in dims:
        return False
    joined = rest["turned"].producer()
    if joined.attributes.get_int("axis", 0) not in (-1, RANK - 1):
        return False
    if x.graph is not context.model.graph or _batch(x) is None:
        return False
    return _halves(dims[3], rest) and all(_is_table(table, dims) for table in (cos, sin))


def _halves(width: int, found: dict[str, Var]) -> bool:
    """Whether x is taken apart in the middle."""
    if found.get("low") is not None:
        low, high = found["low"].producer(), found["high"].producer()
        axis = RANK - 1
        return takes_half(low, axis, width, False) and takes_half(high, axis, width, True)
    split = found["first"].producer()
    parts: list[Dim] = [dims[-1] for dims in map(dims_of, split.outputs) if dims]
    axis = split.attributes.get_int("axis", 0)
    return axis in (-1, RANK - 1) and parts == [width // 2] * 2 and not width % 2


def _is_table(table: Value, dims: list[Dim]) -> bool:
    """Whether a table has a row for each position, of two equal halves."""
    own = dims_of(table)
    if own is None or not 2 <= len(own) <= RANK:
        return False
    batch, heads, *rest = _padded(own)
    fits = batch in (1, dims[0]) and heads == 1 and rest == dims[2:]
    return fits and is_doubled(table)


def _padded(dims: list[Dim]) -> list[Dim]:
    """Return dimensions as broadcasting with four sees them."""
    return [*[1] * (RANK - len(dims)), *dims]


def _batch(x: Value) -> tuple[Value, int] | int | None:
    """Return the size of the batch, or an input of the graph and the axis that knows it."""
    (batch, *_), graph = dims_of(x) or [None], x.graph
    if isinstance(batch, int) or batch is None or not isinstance(graph, ir.Graph):
        return batch if isinstance(batch, int) else None
    known = ((value, dims_of(value) or []) for value in graph.inputs)
    return next(((value, dims.index(batch)) for value, dims in known if batch in dims), None)


def _rotation(op: Op, x: Value, cos: Value, sin: Value, **_: object) -> Value:
    return op.RotaryEmbedding(x, _cache(op, x, cos), _cache(op, x, sin))


def _cache(op: Op, x: Value, table: Value) -> Value:
    """Bring a table into the form [batch, sequence, width / 2]."""
    dims, own = dims_of(x), dims_of(table)
    assert dims is not None, "check has seen to it"
    assert own is not None, "check has seen to it"
    width = dims[3]
    assert isinstance(width, int), "check has seen to it"
    zero, middle, last = (op.Constant(value_ints=[n]) for n in (0, width // 2, -1))
    half: Value = op.Slice(table, zero, middle, last)
    if len(own) == RANK:
        half = op.Squeeze(half, op.Constant(value_ints=[1]))
    elif len(own) == RANK - 2:
        half = op.Unsqueeze(half, op.Constant(value_ints=[0]))
    if dims[0] == _padded(own)[0]:
        return half
    match _batch(x):
        case (value, axis):
            size = op.Shape(value, start=axis, end=axis + 1)
            shape = op.Concat(size, op.Constant(value_ints=[1, 1]), axis=0)
        case size:
            shape = op.Constant(value_ints=[size, 1, 1])
    return op.Expand(half, shape)
