"""Replace the formula of Attention by the operator."""

from collections.abc import Iterator
from typing import ClassVar

import onnx_ir as ir
from onnxscript.rewriter import pattern

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.bounds import LIMIT, UNBOUNDED, bounds_of
from onnx_passes.passes.common.matches import commuted, has_opset, node_of
from onnx_passes.passes.common.normalization_matching import holds
from onnx_passes.passes.common.shapes import Dim, dims_of, widens
from onnx_passes.passes.fusion._attention import RANK, TAKEN_OVER, attention, positive
from onnx_passes.passes.fusion._fusion_hints import ATTENTION
from onnx_passes.passes.hints import Hints

SWAPPED = (0, 1, 3, 2)


@passes.verify.tolerance
@passes.register("fuse")
class FuseAttention(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace the formula of Attention by the operator.

    Before: ``MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)`` of rank 4
    After:  ``Attention<scale = scale>(q, k, v, mask)``

    Found with a quotient for the product, with factors on ``q`` and ``k`` for the scale,
    without scale or mask, and with ``Where(IsNaN(weights), 0, weights)`` behind Softmax. Keys
    and values that are repeated for groups of heads by Unsqueeze, Expand and Reshape are
    handed over as they are before. A mask of one row is expanded, because ONNX Runtime wants
    all. A mask of the least number is raised to half of it, because ONNX Runtime reads a row
    of the former as minus infinity. Both are so large that scores vanish in them.

    Sound because this is how the operator is defined; a row whose mask is minus infinity
    throughout is 0 by its errata, as it is behind the guard against NaN. The contract is a
    tolerance: the scale is applied elsewhere, and sums have another order; and NaN in queries
    or keys passes where the guard made it 0.

    Leaves alone: models before opset 23; batch or heads that are not known to be the same, or
    of size 0 (ONNX Runtime refuses an empty batch or sequence, be its size static or not); a
    scale that is not above 0 or not constant; a mask that may hold minus infinity without that
    guard, or NaN; inner values that are read elsewhere; other types than float, since kernels
    keep more or fewer digits of the scores. Functions, where shapes are unknown.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference",)
    always_pays = False
    exclusive = True
    finite_only = True
    hints: ClassVar[Hints] = ATTENTION

    def rules(self) -> Iterator[Rule]:
        yield Rule(_formula, _attention, _is_attention, "formula")
        yield from TAKEN_OVER


def _formula(op: Op, q: Var, k: Var, v: Var, c: Var, f: Var, mask: Var, zero: Var) -> Var:
    turned = op.Transpose(k, _outputs=["turned"])
    key = pattern.OrValue(
        [turned, commuted(op, "Mul", turned, f)], tag_var="key", tag_values=["none", "Mul"]
    )
    product = op.MatMul(q, key)
    scores = pattern.OrValue(
        [product, commuted(op, "Mul", product, c), op.Div(product, c)],
        tag_var="scores",
        tag_values=["none", "Mul", "Div"],
    )
    masked = pattern.OrValue([scores, commuted(op, "Add", scores, mask)])
    softmax = op.Softmax(masked, _outputs=["weights"])
    guarded = op.Where(op.IsNaN(softmax), zero, softmax)
    return op.MatMul(pattern.OrValue([softmax, guarded]), v)


def _is_attention(context: MatchContext, q: Value, k: Value, v: Value, **rest: Var) -> bool:
    softmax, turned = node_of(rest["weights"]), node_of(rest["turned"])
    found = _dims(q, _turned_back(turned), v)
    if (
        not has_opset(context, 23)
        or q.dtype is not ir.DataType.FLOAT
        or softmax.attributes.get_int("axis", -1) not in (-1, RANK - 1)
        or found is None
    ):
        return False
    mask, zero = rest.get("mask"), rest.get("zero")
    if zero is not None and (not holds(zero, 0.0) or widens(q, zero)):
        return False
    factors = [_factor(rest, "key", "f"), _factor(rest, "scores", "c")]
    return None not in factors and (mask is None or _covers(mask, zero is not None, *found))


def _attention(op: Op, q: Value, k: Value, v: Value, **rest: Var) -> Value:
    perm = _turned_back(node_of(rest["turned"]))[1]
    if list(perm) != list(range(RANK)):
        k = op.Transpose(k, perm=perm)
    mask, scale = rest.get("mask"), 1.0
    for factor in (_factor(rest, "key", "f"), _factor(rest, "scores", "c")):
        assert factor is not None, "check has seen to it"
        scale *= factor
    if mask is None:
        return attention(op, q, k, v, scale=scale)
    dims = dims_of(mask)
    assert dims is not None, "check has seen to it"
    if (_lowest(mask, guarded="zero" in rest) or 0.0) < -LIMIT:
        mask = op.Max(mask, op.Constant(value_float=-LIMIT))
    if dims[-2] == 1 and (dims_of(q) or [1])[2] != 1:
        rows = op.Concat(op.Shape(mask, start=-1), op.Constant(value_ints=[1]), axis=0)
        mask = op.Expand(mask, rows)
    return attention(op, q, k, v, mask, scale=scale)


def _turned_back(turned: ir.Node) -> tuple[list[Dim] | None, list[int]]:
    """Return the dimensions of the keys, and the permutation that makes these of them.

    Those of the result are asked: the keys may be an output, and only the user declares those.
    """
    perm = list(turned.attributes.get_ints("perm") or reversed(range(RANK)))
    dims = dims_of(turned.outputs[0])
    if len(perm) != RANK or dims is None or len(dims) != RANK:
        return None, []
    return [dims[k] for k in SWAPPED], [perm[k] for k in SWAPPED]


def _dims(
    q: Value, key: tuple[list[Dim] | None, list[int]], v: Value
) -> tuple[Dim, Dim, Dim, Dim] | None:
    """Return batch, heads, rows and columns of the scores, if they are those of all three."""
    queries, keys, values = dims_of(q), key[0], dims_of(v)
    if queries is None or keys is None or values is None:
        return None
    if len(queries) != RANK or len(values) != RANK or 0 in (*queries, *keys, *values):
        return None
    if None in queries[:2] or not queries[:2] == keys[:2] == values[:2]:
        return None
    return queries[0], queries[1], queries[2], keys[2]


def _covers(
    mask: Value, guarded: bool, batch: Dim, heads: Dim, rows: Dim, columns: Dim
) -> bool:
    """Whether a mask fits scores of these dimensions, and a row has one meaning to both."""
    dims = dims_of(mask)
    if dims is None or not 2 <= len(dims) <= RANK or _lowest(mask, guarded=guarded) is None:
        return False
    *outer, down, across = dims
    fits = all(d in (1, w) for d, w in zip(reversed(outer), (heads, batch), strict=False))
    if not fits or None in (*outer, rows, columns) or across != columns:
        return False
    return down == rows or (down == 1 and rows == columns)


def _lowest(mask: Value, *, guarded: bool) -> float | None:
    """Return the least number a mask may hold, besides minus infinity behind a guard."""
    found = bounds_of(mask)
    if found != UNBOUNDED:
        return found[0]
    low = bounds_of(mask, or_minus_infinity=True)[0]
    return low if guarded and low >= -LIMIT else None


def _factor(found: dict[str, Var], tag: str, name: str) -> float | None:
    """Return the number by which an alternative of the pattern multiplies."""
    if found[tag] == "none":
        return 1.0
    number = positive(found[name])
    return number if number is None or found[tag] == "Mul" else 1 / number
