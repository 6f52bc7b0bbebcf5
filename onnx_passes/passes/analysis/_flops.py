"""How many scalar operations each operator of ONNX takes, by its definition.

A multiplication with an addition counts as two; exp, log, erf, tanh, sqrt and a comparison
count as one each. Rules return None where a size that they need is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnx_passes.passes._support.shapes import sizes_of
from onnx_passes.passes.analysis._sized import elements_of

Rule = Callable[[ir.Node], int | None]


def _each(cost: int, operators: str) -> dict[str, int]:
    return dict.fromkeys(operators.split(), cost)


FREE = _each(
    0,
    """Cast CastLike Concat Constant ConstantOfShape DepthToSpace Dropout Expand EyeLike
    Flatten Gather GatherElements GatherND Identity NonZero OneHot Pad Range Reshape
    ReverseSequence ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile
    Transpose Trilu Unsqueeze Where Optional OptionalGetElement OptionalHasElement SequenceAt
    SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
    ConcatFromSequence SplitToSequence Compress Scatter CenterCropPad BitCast TensorScatter
    If Loop Scan""",
)
"""Operators that move, make or choose elements, or run a body, and compute none themselves."""

PER_OUTPUT: Mapping[str, int] = {
    **_each(
        1,
        """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot
        BitwiseOr BitwiseXor Ceil Cos Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf
        IsNaN Less LessOrEqual Log Mod Mul Neg Not Or Pow Reciprocal Relu Round Sign Sin Sinh
        Sqrt Sub Tan Tanh ThresholdedRelu Xor""",
    ),
    **_each(2, "Clip DequantizeLinear LeakyRelu PRelu Softsign"),
    **_each(3, "Elu RotaryEmbedding Shrink Softplus"),
    **_each(4, "BatchNormalization HardSigmoid QuantizeLinear RMSNormalization Selu Sigmoid"),
    **_each(5, "Celu Gelu HardSwish LogSoftmax Mish Softmax Swish"),
    **_each(6, "MeanVarianceNormalization"),
    **_each(7, "GroupNormalization InstanceNormalization LayerNormalization"),
}
"""Operations for each element of the first output."""

PER_INPUT: Mapping[str, int] = {
    **_each(
        1,
        """ArgMax ArgMin CumProd CumSum GlobalAveragePool GlobalMaxPool Hardmax ReduceMax
        ReduceMean ReduceMin ReduceProd ReduceSum""",
    ),
    **_each(2, "ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare"),
    **_each(3, "GlobalLpPool LpNormalization"),
    **_each(4, "ReduceLogSumExp"),
}
"""Operations for each element of the first input."""


def flops_of(node: ir.Node) -> int | None:
    """Return the operations of one run of a node, its subgraphs not among them.

    Returns:
        None where a size is not known, or no rule knows the operator: see :func:`has_rule`.
    """
    if not has_rule(node):
        return None
    operator = node.op_type
    if operator in FREE:
        return 0
    if operator in PER_OUTPUT:
        return _times(elements_of(node.outputs[0]), PER_OUTPUT[operator])
    if operator in PER_INPUT:
        return _times(elements_of(node.inputs[0]), PER_INPUT[operator])
    return RULES[operator](node)


def has_rule(node: ir.Node) -> bool:
    """Whether the operations of a node are known, once its sizes are."""
    tables = (FREE, PER_OUTPUT, PER_INPUT, RULES)
    return not node.domain and any(node.op_type in table for table in tables)


def _times(*factors: int | None) -> int | None:
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _matmul(node: ir.Node) -> int | None:
    shape = sizes_of(node.inputs[0])
    return _times(2, elements_of(node.outputs[0]), shape[-1] if shape else None)


def _gemm(node: ir.Node) -> int | None:
    shape, out = sizes_of(node.inputs[0]), elements_of(node.outputs[0])
    if shape is None or out is None:
        return None
    inner = shape[0] if node.attributes.get_int("transA", 0) else shape[1]
    scales = sum(node.attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta"))
    return out * (2 * inner + scales + (_input(node, 2) is not None))


def _conv(node: ir.Node, weight: int = 1, bias: int = 2) -> int | None:
    kernel, out = sizes_of(node.inputs[weight]), elements_of(node.outputs[0])
    if kernel is None or out is None:
        return None
    # [M, C / group, ...]: what one output element is the sum of.
    return out * (2 * math.prod(kernel[1:]) + (_input(node, bias) is not None))


def _conv_transpose(node: ir.Node) -> int | None:
    kernel, data = sizes_of(node.inputs[1]), elements_of(node.inputs[0])
    out = elements_of(node.outputs[0])
    if kernel is None or data is None or out is None:
        return None
    # [C, M / group, ...]: what each input element is spread over.
    return 2 * data * math.prod(kernel[1:]) + (out if _input(node, 2) is not None else 0)


def _pool(node: ir.Node) -> int | None:
    window = math.prod(node.attributes.get_ints("kernel_shape", ()))
    return _times(elements_of(node.outputs[0]), window)


def _variadic(node: ir.Node) -> int | None:
    extra = node.op_type == "Mean"
    return _times(elements_of(node.outputs[0]), len(node.inputs) - 1 + extra)


def _recurrent(gates: int) -> Rule:
    def rule(node: ir.Node) -> int | None:
        data, weight = sizes_of(node.inputs[0]), sizes_of(node.inputs[1])
        if data is None or weight is None:
            return None
        directions, rows, width = weight  # [directions, gates * hidden, input]
        steps = data[0] * data[1]  # the sequence times the batch, in whichever order
        hidden = rows // gates
        sums = 2 * rows * (width + hidden) + 2 * rows
        # The gates' functions (sigmoid: 4) and what combines them.
        return directions * steps * (sums + 4 * rows + 4 * hidden * (gates > 1))

    return rule


def _attention(node: ir.Node) -> int | None:
    query, key, value = (sizes_of(v) for v in node.inputs[:3])
    if query is None or key is None or value is None or len(query) not in (3, 4):
        return None
    cache = sizes_of(_input(node, 4))
    if _input(node, 4) is not None and cache is None:
        return None
    if len(query) == 4:
        batch, heads, rows, width = query
        columns, value_width = key[2], value[3]
    else:
        heads = node.attributes.get_int("q_num_heads", 0)
        value_heads = node.attributes.get_int("kv_num_heads", 0)
        if not heads or not value_heads:
            return None
        batch, rows = query[:2]
        width, value_width = query[2] // heads, value[2] // value_heads
        columns = key[1]
    columns += cache[2] if cache is not None else 0
    scores = batch * heads * rows * columns
    return scores * (2 * width + 2 * value_width + 1 + 5)  # scaled, and softmax over them


def _einsum(node: ir.Node) -> int | None:
    terms = (
        node.attributes.get_string("equation", "").split("->")[0].replace(" ", "").split(",")
    )
    sizes: dict[str, int] = {}
    for term, value in zip(terms, node.inputs, strict=False):
        shape = sizes_of(value)
        if shape is None or "." in term or len(term) != len(shape):
            return None
        for letter, size in zip(term, shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 0))
    return len(terms) * math.prod(sizes.values())


def _resize(node: ir.Node) -> int | None:
    mode, data = node.attributes.get_string("mode", "nearest"), sizes_of(node.inputs[0])
    if mode == "nearest":
        return 0
    out = sizes_of(node.outputs[0])
    if data is None or out is None:
        return None
    axes = sum(a != b for a, b in zip(data, out, strict=True))
    return math.prod(out) * 2 * (2 if mode == "linear" else 4) ** axes


def _top_k(node: ir.Node) -> int | None:
    shape, data = sizes_of(node.inputs[0]), elements_of(node.inputs[0])
    if shape is None or data is None:
        return None
    length = shape[node.attributes.get_int("axis", -1)] if shape else 1
    return data * max(1, (length - 1).bit_length())  # a comparison sort


RULES: Mapping[str, Rule] = {
    "Attention": _attention,
    "AveragePool": _pool,
    "Conv": _conv,
    "ConvInteger": lambda node: _conv(node, 1, 99),
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "LSTM": _recurrent(4),
    "LpPool": _pool,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "Max": _variadic,
    "MaxPool": _pool,
    "Mean": _variadic,
    "Min": _variadic,
    "QLinearConv": lambda node: _conv(node, 3, 8),
    "QLinearMatMul": _matmul,
    "RNN": _recurrent(1),
    "Resize": _resize,
    "Sum": _variadic,
    "TopK": _top_k,
}
