"""Operators that are sums of products: MatMul, Gemm, Einsum, Conv."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.base import operator
from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.semantics import Elements, Scalar, Unsupported, is_float, scalars
from onnx_passes.ops.windows import Window


def matmul(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Multiply as numpy does, rank 1 operands and batch dimensions included.

    Raises:
        Unsupported: The shapes do not fit.
    """
    if not x.shape or not y.shape:
        raise Unsupported("MatMul of a scalar")
    left = x.data[None, :] if len(x.shape) == 1 else x.data
    right = y.data[:, None] if len(y.shape) == 1 else y.data
    if left.shape[-1] != right.shape[-2]:
        raise Unsupported(f"MatMul of {list(x.shape)} and {list(y.shape)}")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError as error:
        raise Unsupported(f"MatMul: {error}") from None
    left = np.broadcast_to(left, batch + left.shape[-2:])
    right = np.broadcast_to(right, batch + right.shape[-2:])
    rows, columns = left.shape[-2], right.shape[-1]
    values = [
        call.semantics.dot(left[(*b, i)], right[(*b, ..., j)], x.dtype)
        for b in np.ndindex(batch)
        for i in range(rows)
        for j in range(columns)
    ]
    data = scalars(values, (*batch, rows, columns))
    if len(x.shape) == 1:
        data = data[..., 0, :]
    return Tensor(data[..., 0] if len(y.shape) == 1 else data, x.dtype)


@operator("MatMul")
def _(call: Call) -> Tensor:
    return matmul(call, call.required(0), call.required(1))


@operator("Gemm")
def _(call: Call) -> Tensor:
    a, b, c = call.required(0), call.required(1), call.given(2)
    if call.integer("transA", 0):
        a = Tensor(a.data.T, a.dtype)
    if call.integer("transB", 0):
        b = Tensor(b.data.T, b.dtype)
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    apply, dtype = call.semantics.apply, a.dtype
    if call.semantics.expands or not is_float(dtype):
        y = _scaled(call, matmul(call, a, b), alpha)
        if c is None or beta == 0:
            return y
        return call.map(
            lambda p, q: apply("add", dtype, p, q), dtype, y, _scaled(call, c, beta)
        )
    # One kernel does all of it, in an order of its own.
    if a.shape[-1] != b.shape[-2]:
        raise Unsupported(f"Gemm of {list(a.shape)} and {list(b.shape)}")
    out = (a.shape[0], b.shape[1])
    bias = None if c is None or beta == 0 else np.broadcast_to(c.data, out)
    values = []
    for i, j in np.ndindex(out):
        pairs = list(zip(a.data[i], b.data[:, j], strict=True))
        values.append(
            _affine(call, pairs, None if bias is None else bias[i, j], alpha, beta, a)
        )
    return Tensor(scalars(values, out), dtype)


def _scaled(call: Call, x: Tensor, factor: float) -> Tensor:
    if factor == 1:
        return x
    scale = call.literal(factor, x.dtype)
    return call.map(lambda v: call.semantics.apply("mul", x.dtype, scale, v), x.dtype, x)


def _affine(
    call: Call,
    pairs: list[tuple[Scalar, Scalar]],
    bias: Scalar | None,
    alpha: float,
    beta: float,
    like: Tensor,
) -> Scalar:
    if bias is None and alpha == 1:
        return _dot(call, pairs, like.dtype)
    flat = [scalar for pair in pairs for scalar in pair]
    extra = [] if bias is None else [bias]
    label = f"Gemm[{alpha!r},{beta!r},{len(extra)}]"
    return call.semantics.function(label, like.dtype, *flat, *extra)


@operator("Einsum")
def _(call: Call) -> Tensor:
    equation = call.text("equation", "").replace(" ", "")
    tensors = [call.required(i) for i in range(len(call.inputs))]
    if "." in equation or "->" not in equation or len(tensors) > 2:
        raise Unsupported(f"Einsum {equation!r}")
    left, output = equation.split("->")
    terms = left.split(",")
    sizes = {c: d for t, x in zip(terms, tensors, strict=True) for c, d in zip(t, x.shape)}  # noqa: B905
    summed = [c for c in sizes if c not in output]
    values = []
    for index in np.ndindex(*(sizes[c] for c in output)):
        fixed = dict(zip(output, index, strict=True))
        rows = []
        for inner in np.ndindex(*(sizes[c] for c in summed)):
            at = fixed | dict(zip(summed, inner, strict=True))
            rows.append(
                tuple(
                    x.data[tuple(at[c] for c in t)]
                    for t, x in zip(terms, tensors, strict=True)
                )
            )
        values.append(_contract(call, rows, tensors[0]))
    return Tensor(scalars(values, [sizes[c] for c in output]), tensors[0].dtype)


def _contract(call: Call, rows: list[tuple[Scalar, ...]], like: Tensor) -> Scalar:
    if len(rows[0]) == 1:
        return call.semantics.total([row[0] for row in rows], like.dtype)
    return _dot(call, [(a, b) for a, b in rows], like.dtype)


@operator("Conv")
def _(call: Call) -> Tensor:
    x, weight, bias = call.required(0), call.required(1), call.given(2)
    group = call.integer("group", 1)
    window = Window.of(call, x.shape[2:], weight.shape[2:])
    channels, features = weight.shape[1], weight.shape[0]
    if x.shape[1] != channels * group or features % group:
        raise Unsupported(
            f"Conv of {list(x.shape)} with weights {list(weight.shape)} in {group} groups"
        )
    values = []
    for n, feature, *place in np.ndindex(x.shape[0], features, *window.output):
        first = feature // (features // group) * channels
        pairs = _patch(
            x.data[n, first : first + channels], weight.data[feature], window, place
        )
        initial = [] if bias is None else [bias.data[feature]]
        values.append(_dot(call, pairs, x.dtype, *initial))
    return Tensor(scalars(values, (x.shape[0], features, *window.output)), x.dtype)


def _patch(
    image: Elements, kernel: Elements, window: Window, place: Sequence[int]
) -> list[tuple[Scalar, Scalar]]:
    """Pair the elements under the kernel at one place; padding contributes nothing."""
    return [
        (image[(channel, *at)], kernel[(channel, *offset)])
        for channel, (offset, at) in itertools.product(
            range(image.shape[0]), window.positions(place)
        )
    ]


@operator("ConvTranspose")
def _(call: Call) -> Tensor:
    x, w, bias = call.required(0), call.required(1), call.given(2)
    rank, group = len(x.shape) - 2, call.integer("group", 1)
    if call.text("auto_pad", "NOTSET") != "NOTSET" or call.integers("output_shape"):
        raise Unsupported("ConvTranspose with padding that is worked out")
    strides = call.integers("strides") or [1] * rank
    dilations = call.integers("dilations") or [1] * rank
    pads = call.integers("pads") or [0] * (2 * rank)
    extra = call.integers("output_padding") or [0] * rank
    sizes = [
        s * (size - 1) + e + (k - 1) * d + 1 - pads[i] - pads[i + rank]
        for i, (size, k, s, d, e) in enumerate(
            zip(x.shape[2:], w.shape[2:], strides, dilations, extra, strict=True)
        )
    ]
    rows, columns = w.shape[0] // group, w.shape[1]
    terms: dict[tuple[int, ...], list[tuple[Scalar, Scalar]]] = {}
    for n, c, *place in np.ndindex(*x.shape):
        for m, *offset in np.ndindex(*w.shape[1:]):
            at = [
                p * s + o * d - b
                for p, s, o, d, b in zip(
                    place, strides, offset, dilations, pads[:rank], strict=True
                )
            ]
            if all(0 <= i < size for i, size in zip(at, sizes, strict=True)):
                pair = (x.data[(n, c, *place)], w.data[(c, m, *offset)])
                terms.setdefault((n, c // rows * columns + m, *at), []).append(pair)
    shape = (x.shape[0], columns * group, *sizes)
    values = [
        _dot(call, terms.get(at, []), x.dtype, *_of_channel(bias, at[1]))
        for at in np.ndindex(*shape)
    ]
    return Tensor(scalars(values, shape), x.dtype)


def _of_channel(bias: Tensor | None, channel: int) -> list[Scalar]:
    return [] if bias is None else [bias.data[channel]]


def _dot(
    call: Call, pairs: Sequence[tuple[Scalar, Scalar]], dtype: ir.DataType, *initial: Scalar
) -> Scalar:
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    return call.semantics.dot(left, right, dtype, *initial)
