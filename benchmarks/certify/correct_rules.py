"""Rules that are right, each written to be narrow enough: what mutants are made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
INTS = (ir.DataType.INT32, ir.DataType.INT64)


def elements_of(value: ir.Value | None) -> list[Any] | None:
    """Return the elements of a constant, or None if it is not a constant."""
    if value is None or value.const_value is None:
        return None
    return list(value.const_value.numpy().reshape(-1).tolist())


def static_shape(value: ir.Value) -> list[int] | None:
    """Return a static shape without empty axes, or None."""
    if value.shape is None or not all(isinstance(d, int) and d > 0 for d in value.shape):
        return None
    return [int(str(d)) for d in value.shape]


def _floats(context: Any, x: ir.Value, **_: Any) -> bool:
    return x.dtype in FLOATS


def _ints(context: Any, x: ir.Value, **_: Any) -> bool:
    return x.dtype in INTS


def _opset(context: Any) -> int:
    return int(context.graph_or_function.opset_imports.get("", 0))


def scalar_like(op: Any, number: float, like: ir.Value) -> Any:
    assert like.dtype is not None
    return op.Constant(value=ir.tensor(np.array(number, like.dtype.numpy())))


def integer_list(op: Any, numbers: Sequence[int]) -> Any:
    return op.Constant(value=ir.tensor(np.array(numbers, np.int64)))


def make_rule(name: str, pattern: Any, rewrite: Any, check: Any = None) -> RewriteRule:
    from benchmarks.certify import correct_rules as module  # counts whole in keys of rules

    made = (written(part, vars(module)) for part in (pattern, rewrite))
    return RewriteRule(*made, check, name=name, remove_nodes=False)


def _merged_perm(op: Any, x: ir.Value, first: ir.Attr, second: ir.Attr) -> Any:
    inner, outer = first.as_ints(), second.as_ints()
    return op.Transpose(x, perm=[inner[i] for i in outer])


def _slices_ok(context: Any, **values: ir.Value) -> bool:
    known = {k: elements_of(values[k]) for k in ("s1", "e1", "a1", "s2", "e2", "a2")}
    lists = [v for v in known.values() if v is not None and len(v) == 1]
    return (
        len(lists) == 6
        and known["a1"] == known["a2"]
        and all(v[0] >= 0 for v in (known[k] or [-1] for k in ("s1", "e1", "s2", "e2")))
    )


def _merged_slices(
    op: Any, x: ir.Value, s1: Any, e1: Any, s2: Any, e2: Any, a1: Any, **_: Any
) -> Any:
    (start1,), (end1,) = elements_of(s1) or [0], elements_of(e1) or [0]
    (start2,), (end2,) = elements_of(s2) or [0], elements_of(e2) or [0]
    start = min(start1 + start2, end1)
    return op.Slice(
        x, integer_list(op, [start]), integer_list(op, [min(end1, start1 + end2)]), a1
    )


def _one_axis(context: Any, x: ir.Value, axes: ir.Value) -> bool:
    numbers = elements_of(axes)
    return static_shape(x) is not None and numbers is not None and len(numbers) == 1


def _unsqueezed(op: Any, x: ir.Value, axes: ir.Value) -> Any:
    shape, (axis,) = static_shape(x) or [], elements_of(axes) or [0]
    at = axis if axis >= 0 else axis + len(shape) + 1
    return op.Reshape(x, integer_list(op, [*shape[:at], 1, *shape[at:]]))


def _flattened(op: Any, x: ir.Value, axis: ir.Attr) -> Any:
    shape = static_shape(x) or []
    rows = int(np.prod(shape[: axis.as_int()] or [1]))
    return op.Reshape(x, integer_list(op, [rows, int(np.prod(shape)) // rows]))


def _flattens(context: Any, x: ir.Value, axis: ir.Attr) -> bool:
    shape = static_shape(x)
    return shape is not None and 0 <= axis.as_int() <= len(shape)


def _means(context: Any, x: ir.Value, axes: ir.Value) -> bool:
    numbers, shape = elements_of(axes), static_shape(x)
    return x.dtype in FLOATS and bool(numbers) and shape is not None


def _mean(op: Any, x: ir.Value, axes: ir.Value) -> Any:
    shape = static_shape(x) or []
    count = int(np.prod([shape[a] for a in elements_of(axes) or []]))
    return op.Div(op.ReduceSum(x, axes, keepdims=1), scalar_like(op, count, x))


def _pads_ok(context: Any, x: ir.Value, p1: ir.Value, p2: ir.Value) -> bool:
    lists = [elements_of(p) for p in (p1, p2)]
    return x.dtype in FLOATS and all(p is not None and min(p, default=0) >= 0 for p in lists)


def _padded(op: Any, x: ir.Value, p1: ir.Value, p2: ir.Value) -> Any:
    sums = np.add(elements_of(p1) or [], elements_of(p2) or []).tolist()
    return op.Pad(x, integer_list(op, sums), mode="constant")


def _image_bias(context: Any, x: ir.Value, w: ir.Value, b: ir.Value, **_: Any) -> bool:
    shape, kernel = static_shape(x), static_shape(w)
    return (
        x.dtype == ir.DataType.FLOAT
        and shape is not None
        and kernel is not None
        and elements_of(w) is not None
        and not w.is_graph_input()
        and elements_of(b) is not None
        and static_shape(b) in ([], [1])
    )


def _conv_attributes(conv: ir.Value) -> dict[str, ir.Attr]:
    node = conv.producer()
    assert node is not None
    return dict(node.attributes)


def _conv_bias(op: Any, x: ir.Value, w: ir.Value, b: ir.Value, conv: ir.Value) -> Any:
    features = (static_shape(w) or [1])[0]
    (bias,) = elements_of(b) or [0]
    filled = op.Constant(value=ir.tensor(np.full(features, bias, np.float32)))
    return op.Conv(x, w, filled, **_conv_attributes(conv))


def _conv_scale(op: Any, x: ir.Value, w: ir.Value, b: ir.Value, conv: ir.Value) -> Any:
    assert w.const_value is not None
    (scale,) = elements_of(b) or [1]
    scaled = op.Constant(value=ir.tensor((w.const_value.numpy() * scale).astype(np.float32)))
    return op.Conv(x, scaled, **_conv_attributes(conv))


def _linear(context: Any, x: ir.Value, w: ir.Value, c: ir.Value) -> bool:
    a, b, bias = static_shape(x), static_shape(w), static_shape(c)
    if x.dtype not in FLOATS or a is None or b is None or bias is None:
        return False
    return len(a) == len(b) == 2 and bias == [b[1]]


def _bounds(context: Any, x: ir.Value, **bounds: ir.Value) -> bool:
    lists = [elements_of(v) for v in bounds.values() if isinstance(v, ir.Value)]
    if x.dtype not in FLOATS or any(b is None or len(b) != 1 for b in lists):
        return False
    numbers = [b[0] for b in lists if b]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return all(low <= high for low, high in pairs)


def _clips(op: Any, x: ir.Value, lo1: Any, hi1: Any, lo2: Any, hi2: Any) -> Any:
    low1, high1, low2, high2 = ((elements_of(v) or [0])[0] for v in (lo1, hi1, lo2, hi2))
    low = min(max(low1, low2), high2)
    high = min(max(high1, low2), high2)
    return op.Clip(x, scalar_like(op, low, x), scalar_like(op, high, x))


def _gathers(context: Any, x: ir.Value, i: ir.Value) -> bool:
    numbers, shape = elements_of(i), static_shape(x)
    if numbers is None or shape is None or static_shape(i) != [1]:
        return False
    return _opset(context) >= 10 and 0 <= numbers[0] < shape[0]


def _gathered(op: Any, x: ir.Value, i: ir.Value) -> Any:
    (index,) = elements_of(i) or [0]
    return op.Slice(
        x, integer_list(op, [index]), integer_list(op, [index + 1]), integer_list(op, [0])
    )


def _power_of_two(context: Any, x: ir.Value, y: ir.Value) -> bool:
    numbers = elements_of(y)
    if x.dtype not in FLOATS or numbers is None or len(numbers) != 1 or not numbers[0]:
        return False
    return float(np.frexp(numbers[0])[0]) in (0.5, -0.5) and 0.01 < abs(numbers[0]) < 100


def _times_reciprocal(op: Any, x: ir.Value, y: ir.Value) -> Any:
    assert y.const_value is not None
    numbers = y.const_value.numpy()
    return op.Mul(x, op.Constant(value=ir.tensor((1.0 / numbers).astype(numbers.dtype))))


def _hard_sigmoid(op: Any, x: ir.Value, alpha: ir.Attr, beta: ir.Attr) -> Any:
    line = op.Add(
        op.Mul(x, scalar_like(op, alpha.as_float(), x)), scalar_like(op, beta.as_float(), x)
    )
    return op.Max(scalar_like(op, 0, x), op.Min(scalar_like(op, 1, x), line))


def _leaky(op: Any, x: ir.Value, alpha: ir.Attr) -> Any:
    negative = op.Less(x, scalar_like(op, 0, x))
    return op.Where(negative, op.Mul(x, scalar_like(op, alpha.as_float(), x)), x)


def _two_rows(context: Any, x: ir.Value, w: ir.Value) -> bool:
    shapes = [static_shape(v) for v in (x, w)]
    return x.dtype in FLOATS and all(s is not None and len(s) == 2 for s in shapes)


def written(text: str | Callable[..., Any], names: dict[str, Any]) -> Callable[..., Any]:
    """Return what makes nodes, from its parameters and an expression: ``x: Neg(Neg(x))``.

    A side condition is code: the verifier reads the numbers in its source.
    """
    if not isinstance(text, str):
        return text
    return eval("lambda op, " + re.sub(r"\b([A-Z]\w+)\(", r"op.\1(", text), names)


EXACT = {"_allow_other_attributes": False}
RULES: tuple[tuple[Any, ...], ...] = (
    ("neg-neg", "x: Neg(Neg(x))", "x: Identity(x)"),
    (
        "sub-as-add",
        "x, y: Sub(x, y)",
        "x, y: Add(x, Neg(y))",
        lambda c, x, y: x.dtype in (*FLOATS, *INTS),
    ),
    ("relu-as-max", "x: Relu(x)", "x: Max(x, scalar_like(op, 0, x))", _floats),
    ("factor-out", "x, y, z: Add(Mul(x, y), Mul(x, z))", "x, y, z: Mul(x, Add(y, z))", _ints),
    (
        "transpose-of-product",
        "x, w: Transpose(MatMul(x, w), perm=[1, 0])",
        "x, w: MatMul(Transpose(w, perm=[1, 0]), Transpose(x, perm=[1, 0]))",
        _two_rows,
    ),
    (
        "transpose-transpose",
        "x, first, second: Transpose(Transpose(x, perm=first), perm=second)",
        _merged_perm,
    ),
    (
        "slice-slice",
        "x, s1, e1, a1, s2, e2, a2: Slice(Slice(x, s1, e1, a1), s2, e2, a2)",
        _merged_slices,
        _slices_ok,
    ),
    ("unsqueeze", "x, axes: Unsqueeze(x, axes)", _unsqueezed, _one_axis),
    ("flatten", "x, axis: Flatten(x, axis=axis)", _flattened, _flattens),
    ("mean-as-sum", "x, axes: ReduceMean(x, axes, keepdims=1, **EXACT)", _mean, _means),
    ("pad-pad", "x, p1, p2: Pad(Pad(x, p1, **EXACT), p2, **EXACT)", _padded, _pads_ok),
    ("conv-bias", "x, w, b: Add(Conv(x, w, _outputs=['conv']), b)", _conv_bias, _image_bias),
    ("conv-scale", "x, w, b: Mul(Conv(x, w, _outputs=['conv']), b)", _conv_scale, _image_bias),
    (
        "product-as-gemm",
        "x, w, c: Add(MatMul(x, w), c)",
        "x, w, c: Gemm(x, w, c, alpha=1.0, beta=1.0, transA=0, transB=0)",
        _linear,
    ),
    (
        "gemm-as-product",
        "x, w, c: Gemm(x, w, c, **EXACT)",
        "x, w, c: Add(MatMul(x, w), c)",
        _linear,
    ),
    (
        "clip-as-min-max",
        "x, lo, hi: Clip(x, lo, hi)",
        "x, lo, hi: Min(Max(x, lo), hi)",
        _bounds,
    ),
    ("clip-clip", "x, lo1, hi1, lo2, hi2: Clip(Clip(x, lo1, hi1), lo2, hi2)", _clips, _bounds),
    ("where-not", "c, x, y: Where(Not(c), x, y)", "c, x, y: Where(c, y, x)"),
    ("not-less-or-equal", "x, y: Not(LessOrEqual(x, y))", "x, y: Greater(x, y)", _ints),
    ("gather", "x, i: Gather(x, i, axis=0)", _gathered, _gathers),
    (
        "concat-concat",
        "x, y, z, axis: Concat(Concat(x, y, axis=axis), z, axis=axis)",
        "x, y, z, axis: Concat(x, y, z, axis=axis)",
    ),
    ("not-and", "x, y: Not(And(x, y))", "x, y: Or(Not(x), Not(y))"),
    ("xor", "x, y: Xor(x, y)", "x, y: Not(Equal(x, y))"),
    ("twice", "x: Mul(x, 2)", "x: Add(x, x)", _ints),
    ("divide-by-a-power-of-two", "x, y: Div(x, y)", _times_reciprocal, _power_of_two),
    (
        "hard-sigmoid",
        "x, alpha, beta: HardSigmoid(x, alpha=alpha, beta=beta)",
        _hard_sigmoid,
        lambda c, x, **_: x.dtype == ir.DataType.FLOAT,
    ),
    (
        "leaky-relu",
        "x, alpha: LeakyRelu(x, alpha=alpha)",
        _leaky,
        lambda c, x, **_: x.dtype == ir.DataType.FLOAT and _opset(c) >= 9,
    ),
    (
        "squared-difference",
        "x, y: Sub(Mul(x, x), Mul(y, y))",
        "x, y: Mul(Add(x, y), Sub(x, y))",
        _ints,
    ),
)
"""Name, pattern, rewrite and side condition of each rule; what is a text is ``written``."""


def correct_rules() -> list[RewriteRule]:
    """Return rules that hold for everything their guards admit."""
    return [make_rule(*parts) for parts in RULES]
