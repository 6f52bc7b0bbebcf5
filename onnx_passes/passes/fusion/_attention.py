"""What an Attention takes over from the nodes before it: factors, and repeated heads."""

import onnx_ir as ir
from onnxscript.rewriter import pattern

from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import commuted, node_of
from onnx_passes.passes.common.shapes import dims_of, ints_of
from onnx_passes.passes.constants import constant_of

RANK = 4


def positive(value: Value | None) -> float | None:
    """Return the number that a constant is, if a scale can be made of it."""
    tensor = constant_of(value)
    if tensor is None or tensor.size != 1 or len(tensor.shape) > RANK:
        return None
    number = float(tensor.numpy().item())
    return number if 1e-6 < number < 1e6 else None


def attention(op: Op, *inputs: Value | None, **attributes: object) -> Value:
    """Make the node."""
    return op.Attention(*inputs, **attributes)


def _factor_on_query(op: Op, q: Var, k: Var, v: Var, c: Var) -> Var:
    scaled = pattern.OrValue([commuted(op, "Mul", q, c), op.Div(q, c)], name="scaled")
    return op.Attention(scaled, k, v, _allow_other_inputs=True, _outputs=["y"])


def _factor_on_key(op: Op, q: Var, k: Var, v: Var, c: Var) -> Var:
    scaled = pattern.OrValue([commuted(op, "Mul", k, c), op.Div(k, c)], name="scaled")
    return op.Attention(q, scaled, v, _allow_other_inputs=True, _outputs=["y"])


def _is_scaled(context: MatchContext, scaled: Value, **_: object) -> bool:
    node, product = context.root, node_of(scaled)
    factors = [positive(x) is not None for x in product.inputs]
    allowed = [[False, True]] if product.op_type == "Div" else [[False, True], [True, False]]
    return (
        factors in allowed
        and scaled.dtype is ir.DataType.FLOAT
        and "scale" in node.attributes
        and _is_plain(node)
    )


def _is_plain(node: ir.Node) -> bool:
    """Whether an Attention has no cache and no further results."""
    return len(node.inputs) <= RANK and len(node.outputs) == 1


def _scaled(op: Op, y: Value, scaled: Value, **_: object) -> Value:
    node, product = node_of(y), node_of(scaled)
    place = [positive(x) is None for x in product.inputs].index(True)
    number = positive(product.inputs[1 - place])
    assert number is not None, "check has seen to it"
    number = number if product.op_type == "Mul" else 1 / number
    inputs = [product.inputs[place] if x is scaled else x for x in node.inputs]
    scale = (node.attributes.get_float("scale") or 1.0) * number
    return attention(op, *inputs, **{**node.attributes, "scale": scale})


def _repeated_heads(op: Op, q: Var, k: Var, v: Var) -> Var:
    key, value = (_repeated(op, x, name) for x, name in ((k, "k"), (v, "v")))
    return op.Attention(q, key, value, _allow_other_inputs=True, _outputs=["y"])


def _repeated(op: Op, x: Var, name: str) -> Var:
    stacked = op.Unsqueeze(x, pattern.Var(f"{name}_axes"))
    spread = op.Expand(stacked, pattern.Var(f"{name}_sizes"), _outputs=[f"{name}_spread"])
    return op.Reshape(spread, pattern.Var(f"{name}_shape"), _outputs=[f"{name}_all"])


def _is_repeated(context: MatchContext, k: Value, v: Value, **rest: Var) -> bool:
    same = (dims_of(k) or [])[:3] == (dims_of(v) or [])[:3]
    return (
        same
        and _is_plain(context.root)
        and all(
            _repeats(x, rest[f"{name}_axes"], rest[f"{name}_spread"], rest[f"{name}_all"])
            for x, name in ((k, "k"), (v, "v"))
        )
    )


def _repeats(x: Value, axes: Value, spread: Value, whole: Value) -> bool:
    """Whether each head follows itself several times."""
    dims, copies, result = dims_of(x), dims_of(spread), dims_of(whole)
    if dims is None or len(dims) != RANK or None in dims or ints_of(axes) != [2]:
        return False
    if copies is None or len(copies) != RANK + 1 or result is None:
        return False
    heads, groups = dims[1], copies[2]
    if not isinstance(heads, int) or not isinstance(groups, int):
        return False
    alone = [d for place, d in enumerate(copies) if place != 2]
    return alone == dims and result == [dims[0], heads * groups, *dims[2:]]


def _grouped(op: Op, q: Value, k: Value, v: Value, y: Value, **_: object) -> Value:
    node = node_of(y)
    return attention(op, q, k, v, *node.inputs[3:], **node.attributes)


TAKEN_OVER = (
    Rule(_factor_on_query, _scaled, _is_scaled, "factor-on-query"),
    Rule(_factor_on_key, _scaled, _is_scaled, "factor-on-key"),
    Rule(_repeated_heads, _grouped, _is_repeated, "repeated-heads"),
)
