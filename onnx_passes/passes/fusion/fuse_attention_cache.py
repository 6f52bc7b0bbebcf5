"""Replace the Concats that lengthen a cache before Attention by the cache of the operator."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Value, Var
from onnx_passes.passes.common.matches import has_opset, node_of
from onnx_passes.passes.common.shapes import Dim, dims_of
from onnx_passes.passes.fusion._attention import RANK
from onnx_passes.passes.fusion._fusion_hints import HEADS
from onnx_passes.passes.hints import Hint, Hints, data

SEQUENCE = 2
"""The axis of keys and values that grows."""


@passes.verify.tolerance
@passes.register("fuse")
class FuseAttentionCache(passes.Transformation, passes.RewriteRulePass):
    """Replace the Concats that lengthen a cache before Attention by the cache of the operator.

    Before: ``Attention(q, Concat(past_k, k), Concat(past_v, v), mask)`` of rank 4, where the
            Concats along the sequence may be outputs of the model
    After:  ``y, key, value = Attention(q, k, v, mask, past_k, past_v)``

    Sound because this is how the operator is defined: it puts new keys and values behind those
    of the past, and returns both. The contract is a tolerance: a kernel may sum in another
    order.

    Leaves alone: models before opset 23; a causal Attention, whose mask depends on the length
    of the past; an Attention with a cache or further results; a cache that another node reads,
    which may be needed for the mask; batch, heads or widths of the past that are not known to
    be those of the new keys and values; other types than float. Functions, where shapes are
    unknown.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference",)
    always_pays = False
    exclusive = True
    hints: ClassVar[Hints] = {
        "*": Hint(
            {
                "q": data("b h*r s d"),
                "k": data("b h t d"),
                "v": data("b h t e"),
                "past_k": data("b h p d"),
                "past_v": data("b h p e"),
                "Attention.3": data("1", "1 1"),
            },
            {**HEADS, "Concat.axis": (2, -2), "Attention.is_causal": (None, 0)},
            (ir.DataType.FLOAT,),
            23,
        )
    }

    def pattern(self, op: Op, q: Var, k: Var, v: Var, past_k: Var, past_v: Var) -> Var:
        key = op.Concat(past_k, k, _outputs=["key"])
        value = op.Concat(past_v, v, _outputs=["value"])
        y = op.Attention(q, key, value, _allow_other_inputs=True, _outputs=["y"])
        return key, value, y

    def check(self, context: MatchContext, **found: Value) -> bool:
        node, q = node_of(found["y"]), found["q"]
        if not has_opset(context, 23) or q.dtype is not ir.DataType.FLOAT:
            return False
        if len(node.inputs) > RANK or len(node.outputs) > 1:
            return False
        if node.attributes.get_int("is_causal", 0) or "q_num_heads" in node.attributes:
            return False
        pairs = (("past_k", "k", "key"), ("past_v", "v", "value"))
        return len(dims_of(q) or []) == RANK and all(
            _grows(*(found[name] for name in names)) for names in pairs
        )

    def rewrite(
        self, op: Op, q: Value, k: Value, v: Value, **found: Value
    ) -> tuple[Value, Value, Value]:
        node = node_of(found["y"])
        (mask,) = node.inputs[3:4] or (None,)
        y, key, value = op.Attention(
            *(q, k, v, mask, found["past_k"], found["past_v"]), **node.attributes, _outputs=3
        )
        return key, value, y


def _grows(past: Value, new: Value, joined: Value) -> bool:
    """Whether a Concat along the sequence is read by the Attention alone."""
    axis = node_of(joined).attributes.get_int("axis", 0)
    if axis not in (SEQUENCE, SEQUENCE - RANK) or len(joined.uses()) != 1:
        return False
    before, after = _fixed(past), _fixed(new)
    return before is not None and before == after and None not in before and 0 not in before


def _fixed(x: Value) -> list[Dim] | None:
    """Return the dimensions that all keys, or all values, share."""
    dims = dims_of(x)
    if dims is None or len(dims) != RANK:
        return None
    return [dim for axis, dim in enumerate(dims) if axis != SEQUENCE]
